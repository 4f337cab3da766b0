"""Progressive validation: predict each record, count the error, then learn it."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimator import Progress
from braided.history import History
from braided.model import MODLClassifier
from braided.river_models import RiverModel
from braided.streams.base import Batch, Stream, records_before

_MOST_POINTS = 2_000


class Curve:
    """Cumulative errors at evenly spaced records: at most 2,000 points, thinned by half when a stream proves longer.

    Examples
    --------
    >>> curve = Curve(n_learners=1)
    >>> curve.extend(np.array([True, False, True]), np.array([[True], [True], [True]]))
    >>> curve.table().tolist()
    [[1, 1, 1], [2, 1, 2], [3, 2, 3]]
    """

    def __init__(self, n_learners: int) -> None:
        self.interval = 1
        self.totals = np.zeros(2 + n_learners, dtype=np.int64)
        self._rows = np.zeros((0, 2 + n_learners), dtype=np.int64)

    def extend(self, wrong: NDArray[np.bool_], own_wrong: NDArray[np.bool_]) -> None:
        """Take in some records: whether the sum, (n,), and each learner, (n, n_learners), was wrong."""
        steps = np.column_stack([np.ones(wrong.size, dtype=np.int64), wrong, own_wrong])
        running = self.totals + np.cumsum(steps, axis=0)
        self.totals = running[-1].copy()
        rows = np.concatenate([self._rows, running[running[:, 0] % self.interval == 0]])
        while len(rows) > _MOST_POINTS:
            self.interval *= 2
            rows = rows[rows[:, 0] % self.interval == 0]
        self._rows = rows

    def table(self) -> NDArray[np.int64]:
        """Rows of (records, errors, errors of each learner), the last one at the last record."""
        if len(self._rows) and self._rows[-1, 0] == self.totals[0]:
            return self._rows
        return np.concatenate([self._rows, self.totals[None, :]])

    def state(self) -> dict[str, NDArray[Any]]:
        """Named arrays to continue from."""
        return {"rows": self._rows, "totals": self.totals, "interval": np.array([self.interval], dtype=np.int64)}

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        self._rows, self.totals = arrays["rows"].copy(), arrays["totals"].copy()
        self.interval = int(arrays["interval"][0])


class Evaluation:
    """One model on one stream, from record to record.

    Parameters
    ----------
    model
        The model; it learns.
    history
        Where to keep what a report shows, if it is wanted.
    """

    def __init__(self, model: MODLClassifier | RiverModel, history: History | None = None) -> None:
        self.model = model
        self.history = history
        self.seconds = 0.0
        self.counts: Counter[Hashable] = Counter()
        self.curve = Curve(len(model.learner_names))

    @property
    def records(self) -> int:
        """Records seen."""
        return int(self.curve.totals[0])

    @property
    def errors(self) -> int:
        """Wrong predictions so far; a record without any class known before it counts as one."""
        return int(self.curve.totals[1])

    @property
    def learner_errors(self) -> dict[str, int]:
        """What each learner's own scores would have got wrong."""
        return dict(zip(self.model.learner_names, self.curve.totals[2:].tolist(), strict=True))

    def observe(self, batch: Batch) -> None:
        """Predict and learn a batch."""
        if self.history is None:
            self._observe(batch)
            return
        for piece in self.history.pieces(batch):
            self.history.probe(self.model, piece)
            before = self.seconds
            self.history.note(self.model, piece, self._observe(piece), self.seconds - before)

    def _observe(self, batch: Batch) -> Progress:
        start = time.perf_counter()
        progress = self.model.predict_learn_many(batch.values, batch.labels, batch.names)
        self.seconds += time.perf_counter() - start
        place = {label: i for i, label in enumerate(self.model.classes)}
        truth = np.array([place[label] for label in batch.labels])
        said = np.where(progress.predictions.any(axis=1), progress.predictions.argmax(axis=1), -1)
        self.curve.extend(said != truth, progress.own != truth[:, None])
        self.counts.update(batch.labels)
        return progress

    def run(self, stream: Stream) -> Iterator[Batch]:
        """Observe the stream from the first record not yet seen, yielding each batch after it was learned."""
        skip = self.records - records_before(stream)
        for batch in stream.batches():
            if skip >= len(batch):
                skip -= len(batch)
                continue
            rest = batch.part(skip, len(batch))
            skip = 0
            self.observe(rest)
            yield rest
        if skip > 0:
            raise BraidedError(
                f"the stream ends {skip} records before where the checkpoint stands: it is another stream"
            )

    def result(self) -> dict[str, Any]:
        """The figures of this run."""
        return {
            "errors": self.errors,
            "error_rate": self.errors / max(self.records, 1),
            "seconds": round(self.seconds, 6),
            "records_per_second": round(self.records / self.seconds, 1) if self.seconds else 0.0,
            "learners": {
                name: {"errors": errors, **self.model.health[name]} for name, errors in self.learner_errors.items()
            },
            "state_sha256": state_digest(self.model) if isinstance(self.model, MODLClassifier) else None,
            **self._drifts(),
        }

    def _drifts(self) -> dict[str, int]:
        """How many drifts were found, where there is a detector."""
        model = self.model
        return {"drifts": model.drifts} if isinstance(model, MODLClassifier) and model.drift_detector else {}


def warm_up(model: MODLClassifier | RiverModel) -> None:
    """Compile, or load, the code that a model of this kind needs, so that its first records are not timed with it."""
    if isinstance(model, MODLClassifier):
        # The trial's own feature and classes must not count against the model's limits.
        room = {"max_features": model.max_features + 1, "max_classes": max(model.max_classes, 2)}
        trial = model.clone(room)
        for label in (0, 1):
            trial.predict_learn_many([[0.5], [1.0]], [label, label])


def state_digest(model: MODLClassifier) -> str:
    """A SHA-256 over everything a model has learned: equal digests, equal models."""
    metadata, arrays = model.snapshot()
    digest = hashlib.sha256(repr((metadata["features"], metadata["classes"])).encode())
    if "drift" in metadata:
        digest.update(repr(metadata["drift"]).encode())
    for name, array in arrays.items():
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
