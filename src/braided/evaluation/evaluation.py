"""Progressive validation: predict each record, count the outcome, then learn it."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import numpy as np

from braided.errors import BraidedError
from braided.estimators.base import MODL
from braided.estimators.river_model import RiverModel
from braided.estimators.tasks import REGRESSION
from braided.evaluation.history import History
from braided.evaluation.key_tally import KeyTally
from braided.evaluation.late_labels import LateLabels, labelled
from braided.fleet import SHARED, Fleet
from braided.kernels.coverage import LEVELS
from braided.kernels.tally import ANSWER, LEARNERS
from braided.option_names import option
from braided.records import Predictions
from braided.streams import Batch, Stream
from braided.streams.base import LateLabel, joined, labels_before, records_before
from braided.values import printable

#: Features whose importance a result lists.
_MOST_IMPORTANT = 50


class Late(NamedTuple):
    """A record whose label has not come yet, and what was said of it; None where that is not known any more."""

    record: Batch
    said: Predictions | None


class Waiting(NamedTuple):
    """All such records, in order."""

    records: Batch
    said: list[Predictions | None]


class Model(Protocol):
    """What can be evaluated: the estimators, fleets, and River's models behind `estimators.river_model`.

    A fleet is also told the records' `keys`, where a batch has them.
    """

    task: str

    @property
    def learner_names(self) -> Sequence[str]:
        """Names of the learners inside."""

    @property
    def classes(self) -> Sequence[Hashable]:
        """The columns of the predictions."""

    @property
    def health(self) -> Mapping[str, Mapping[str, int]]:
        """Skipped updates and resets of each learner."""

    def predict_learn_many(
        self, X: Any, y: Any, names: Sequence[Hashable] | None = None, sample_weight: Any = None, **more: Any
    ) -> Predictions:
        """Predict each record, then learn it."""

    def progress_many(self, X: Any, names: Sequence[Hashable] | None = None, **more: Any) -> Predictions:
        """Predict the records."""

    def learn_many(
        self, X: Any, y: Any, names: Sequence[Hashable] | None = None, sample_weight: Any = None, **more: Any
    ) -> None:
        """Learn the records."""


#: Takes the number of the first record, its batch, what was predicted, and the columns of the predictions.
Listener = Callable[[int, Batch, Predictions, Sequence[Hashable]], None]


def _runs(labels: Sequence[Any]) -> Iterator[tuple[bool, int]]:
    """For each run of labels that are known, or of such that are not: whether they are, and where it ends."""
    if None not in labels:
        if len(labels):
            yield True, len(labels)
        return
    stop = 0
    for known, run in groupby(labels, key=lambda label: label is not None):
        stop += len(list(run))
        yield known, stop


def _beside(batch: Batch) -> dict[str, Any]:
    """What a model is told of the records' weights and keys, if they have any."""
    return _keys(batch) if batch.weights is None else {"sample_weight": batch.weights, **_keys(batch)}


def _keys(batch: Batch) -> dict[str, Any]:
    """What a fleet is told of the records' keys."""
    return {} if batch.keys is None else {"keys": batch.keys}


def result_of(
    history: History, health: Mapping[str, Mapping[str, int]], unlabelled: int, seconds: float
) -> dict[str, Any]:
    """The figures of a run: what its history counted, with what is known of the run beside it."""
    if history.regression:
        errors: dict[str, Any] = {}
        own: dict[str, dict[str, Any]] = {
            name: {"mae": error if math.isfinite(error) else None} for name, error in history.learner_errors.items()
        }
    else:
        errors = {"errors": int(history.totals[ANSWER]), "error_rate": history.error}
        losses = zip(history.learners, history.totals[LEARNERS:].tolist(), strict=True)
        own = {name: {"errors": int(loss)} for name, loss in losses}
    return {
        **errors,
        "metrics": history.metrics(),
        "window_metrics": history.window_metrics(),
        "window": history.n_last,
        "coverage": {f"{level:g}": share for level, share in history.coverage_shares().items()},
        "coverage_over_time": _over_time(history),
        "importance": [
            {"feature": printable(str(name)), "effect": effect, "records": records}
            for name, effect, records in history.importance()[:_MOST_IMPORTANT]
        ],
        "unlabelled": unlabelled,
        "seconds": seconds,
        "records_per_second": round((history.records + unlabelled) / seconds, 1) if seconds else 0.0,
        "learners": {name: {**figures, **health[name]} for name, figures in own.items()},
    }


def _over_time(history: History) -> list[dict[str, Any]]:
    """At the end of each block the share of its records that intervals or sets held, by each level that was judged."""
    shares = [
        {f"{level:g}": share for level, share in zip(LEVELS, row, strict=True) if share == share}
        for row in history.coverage().tolist()
    ]
    return [{"records": int(end), **row} for (end, _), row in zip(history.blocks(), shares, strict=True) if row]


class Evaluation:
    """One model on one stream, from record to record.

    Parameters
    ----------
    model
        The model; it learns.
    history
        Where the outcomes are counted; a new one if not given.
    delay
        How many records later a label is learned. The label of record t is learned just before record t + delay is
        predicted, as River's `progressive_val_score` has it; 0 for immediately.
    on_predictions
        Is told of every prediction.
    late_labels
        Where records wait whose labels come later on their own; of the usual bounds if not given.

    Attributes
    ----------
    seconds
        Time spent predicting and learning.
    unlabelled
        Records without a label, which were predicted and not learned.
    keys
        What went wrong for each key of a fleet; None for other models.
    """

    def __init__(
        self,
        model: Any,
        history: History | None = None,
        delay: int = 0,
        on_predictions: Listener | None = None,
        late_labels: LateLabels | None = None,
    ) -> None:
        self.model: Model = model
        if delay and isinstance(model, MODL | Fleet):
            model.expect_delay(delay)
        name = type(model).__name__
        self.history = history or History(name, model.learner_names, model.task == REGRESSION)
        self.delay = delay
        self.seconds = 0.0
        self.unlabelled = 0
        self.on_predictions = on_predictions
        self.late_labels = LateLabels() if late_labels is None else late_labels
        self._waiting: deque[Late] = deque()
        shared = SHARED in model.learner_names
        self.keys = KeyTally(model.task == REGRESSION, shared) if isinstance(model, Fleet) else None

    @property
    def records(self) -> int:
        """Records with a label seen."""
        return self.history.records

    @property
    def seen(self) -> int:
        """Records seen, with and without a label."""
        return self.records + self.unlabelled

    def observe(self, batch: Batch) -> None:
        """Predict a batch, count what has a label, and learn it, immediately or after the delay."""
        self.history.begin(self.model)
        if isinstance(self.model, RiverModel):
            self.model.know_categories(batch.categories)
        for label in batch.late:
            self._learn_late(label)
        start = 0
        for known, stop in _runs(batch.labels):
            part = batch.part(start, stop)
            for piece in self.history.pieces(part) if known else [part]:
                first, before = self.seen + 1, self.seconds
                progress, come = self._predict_and_learn(piece, known)
                if known:
                    self.history.note(self.model, piece, progress, self.seconds - before, come)
                    if self.keys is not None and piece.keys is not None:
                        self.keys.note(piece.keys, progress, piece.labels, self.model.classes)
                else:
                    self.unlabelled += len(piece)
                    self.history.hear(come or ())
                    self._await_labels(piece, progress)
                if self.on_predictions is not None:
                    self.on_predictions(first, piece, progress, self.model.classes)
            start = stop

    def _predict_and_learn(self, piece: Batch, known: bool) -> tuple[Predictions, list[Any] | None]:
        """The predictions; and where labels are late, the one that comes after each record, None for none."""
        start, come = time.perf_counter(), None
        if self.delay:
            progress, come = self._late(piece)
        elif known:
            progress = self.model.predict_learn_many(piece.values, piece.labels, piece.names, **_beside(piece))
        else:
            progress = self.model.progress_many(piece.values, piece.names, **_keys(piece))
        self.seconds += time.perf_counter() - start
        return progress, come

    def _await_labels(self, piece: Batch, progress: Predictions) -> None:
        """Let records without a label wait for it, if they have an ID."""
        if piece.ids is None:
            return
        if self.delay:
            raise BraidedError(f"records with IDs wait for their own labels: leave out {option('delay')}")
        self.late_labels.keep(piece, progress)

    def _learn_late(self, label: LateLabel) -> None:
        """Count and learn a record whose label has come on its own; its error is that of what was said of it."""
        found = self.late_labels.find(label)
        if found is None:
            return
        record, start = labelled(found, label), time.perf_counter()
        judged: dict[str, Any] = {"said": found.said} if isinstance(self.model, MODL) else {}
        self.model.learn_many(record.values, record.labels, record.names, **_beside(record), **judged)
        self.late_labels.join(label)  # behind it: a label that the model refuses is not heard, and comes again
        spent = time.perf_counter() - start
        self.seconds += spent
        self.unlabelled -= 1
        self.history.note(self.model, record, found.said, spent)
        if self.keys is not None and record.keys is not None:
            self.keys.note(record.keys, found.said, record.labels, self.model.classes)

    def _late(self, piece: Batch) -> tuple[Predictions, list[Any]]:
        """Predict record by record; before each, learn the record that was predicted `delay` records ago.

        Beside the predictions, the label that will be learned before the next record: then it has come.
        """
        found, come = [], []
        for t in range(len(piece)):
            if len(self._waiting) == self.delay:
                self._learn_oldest()
            one = piece.part(t, t + 1)
            found.append(self.model.progress_many(one.values, one.names, **_keys(one)))
            self._waiting.append(Late(one, found[-1]))
            come.append(self._waiting[0].record.labels[0] if len(self._waiting) == self.delay else None)
        width = max(row.values.shape[1] for row in found)
        predictions = [np.pad(row.values, ((0, 0), (0, width - row.values.shape[1]))) for row in found]
        decided = None if found[0].decided is None else np.concatenate([row.decided for row in found])
        return Predictions(np.concatenate(predictions), np.concatenate([row.own for row in found]), decided), come

    def _learn_oldest(self) -> None:
        oldest, said = self._waiting.popleft()
        if oldest.labels[0] is not None:
            judged: dict[str, Any] = {"said": said} if said is not None and isinstance(self.model, MODL) else {}
            self.model.learn_many(oldest.values, oldest.labels, oldest.names, **_beside(oldest), **judged)

    def finish(self) -> None:
        """At the end of the stream: learn what still waits, and note how the model stands."""
        late = [waiting.record.labels[0] for waiting in self._waiting]
        self.history.hear(late[1:] if len(late) == self.delay else late)  # the oldest of a full queue has come
        start = time.perf_counter()
        while self._waiting:
            self._learn_oldest()
        self.seconds += time.perf_counter() - start
        self.history.close(self.model)

    def run(self, stream: Stream) -> Iterator[Batch]:
        """Observe the stream from the first record not yet seen, yielding each batch after it was observed."""
        skip = self.seen - records_before(stream)
        skip_labels = max(self.late_labels.heard - labels_before(stream), 0)
        if skip < 0:
            raise BraidedError(
                f"the stream goes on {-skip} records after where the checkpoint stands: give the same stream, or "
                "another checkpoint file"
            )
        for batch in stream.batches():
            passed = min(skip_labels, len(batch.late))
            skip_labels -= passed
            if (batch.late and passed == len(batch.late)) or (skip and not batch.late and skip >= len(batch)):
                skip -= len(batch)
                continue
            batch = replace(batch, late=batch.late[passed:])
            rest = batch.part(skip, len(batch))
            skip = 0
            self.observe(rest)
            yield rest
        if skip > 0:
            raise BraidedError(
                f"the stream ends {skip} records before where the checkpoint stands: give the same stream, or another "
                "checkpoint file"
            )

    def waiting(self) -> Waiting | None:
        """The records whose labels are still to be learned, in order, and what was said of each."""
        if not self._waiting:
            return None
        return Waiting(joined([late.record for late in self._waiting]), [late.said for late in self._waiting])

    def wait_for(self, waiting: Waiting | None) -> None:
        """Take over `waiting` records."""
        if waiting is not None:
            self._waiting.extend(Late(waiting.records.part(t, t + 1), said) for t, said in enumerate(waiting.said))

    def result(self) -> dict[str, Any]:
        """The figures of this run."""
        result = result_of(self.history, self.model.health, self.unlabelled, round(self.seconds, 6))
        late = self.late_labels
        if any(late.counts.values()):
            result["late_labels"] = {**late.counts, "waiting": len(late)}
        return result if self.keys is None else {**result, "keys": self.keys.result()}
