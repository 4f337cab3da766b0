"""Progressive validation: predict each record, count the outcome, then learn it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.base import MODL
from braided.estimators.params import REGRESSION
from braided.estimators.river import RiverModel
from braided.evaluation.history import History
from braided.evaluation.key_tally import KeyTally
from braided.fleet import SHARED, Fleet
from braided.kernels.coverage import LEVELS
from braided.kernels.tally import ANSWER, LEARNERS
from braided.late import LateLabels, Waiting
from braided.records import Labels, Predictions, Records, join_predictions
from braided.store import checked, prefixed, unprefixed
from braided.streams import Stream
from braided.streams.base import labels_before, records_before
from braided.values import printable

#: Features whose importance a result lists.
_MAX_IMPORTANT = 50
_WHAT = "the state of an evaluation"


#: Takes the number of the first record, the records, what was predicted, and the columns of the predictions.
Listener = Callable[[int, Records, Predictions, Sequence[Hashable]], None]


def result_of(
    history: History, health: Mapping[str, Mapping[str, int]], unlabelled: int, seconds: float
) -> dict[str, Any]:
    """The figures of a run: what its history counted, and what else is known of the run."""
    totals = history.tally.totals
    if history.regression:
        errors: dict[str, Any] = {}
        own: dict[str, dict[str, Any]] = {
            name: {"mae": error if math.isfinite(error) else None} for name, error in history.learner_errors.items()
        }
    else:
        errors = {"errors": int(totals[ANSWER]), "error_rate": history.error}
        own = {
            name: {"errors": int(loss)} for name, loss in zip(history.learners, totals[LEARNERS:].tolist(), strict=True)
        }
    return {
        **errors,
        "metrics": history.metrics(),
        "window_metrics": history.window_metrics(),
        "window": history.n_last,
        "coverage": {f"{level:g}": share for level, share in history.coverage_shares().items()},
        "coverage_over_time": _over_time(history),
        "importance": [
            {"feature": printable(str(name)), "effect": effect, "records": records}
            for name, effect, records in history.importance()[:_MAX_IMPORTANT]
        ],
        "unlabelled": unlabelled,
        "seconds": seconds,
        "records_per_second": round((history.records + unlabelled) / seconds, 1) if seconds else 0.0,
        "learners": {name: {**figures, **health[name]} for name, figures in own.items()},
    }


def _over_time(history: History) -> list[dict[str, Any]]:
    """For each block the share of its records that intervals or sets held, by each level that was judged."""
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
        An estimator, a fleet, or one of River's models behind `estimators.river`; it learns.
    history
        Where the outcomes are counted; a new one if not given.
    delay
        How many records later a label is learned. The label of record t is learned just before record t + delay is
        predicted, as River's `progressive_val_score` has it; 0 for immediately.
    on_predictions
        Called with every prediction.
    late_labels
        Where records wait whose labels come later on their own; with the usual bounds if not given.

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
        self.model = model
        if delay and isinstance(model, MODL | Fleet):
            model.expect_delay(delay)
        name = type(model).__name__
        self.history = history or History(name, model.learner_names, model.task == REGRESSION)
        self.delay = delay
        self.seconds = 0.0
        self.unlabelled = 0
        self.on_predictions = on_predictions
        self.late_labels = LateLabels() if late_labels is None else late_labels
        #: Records whose label is learned `delay` records later, by number.
        self._delayed = LateLabels(delay, math.inf, math.inf, unique=False)
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

    def observe(self, batch: Records | Labels) -> None:
        """Predict records, count those that have a label, and learn them, immediately or after the delay.

        Labels are learned with the records that wait for them.
        """
        self.history.begin(self.model)
        if isinstance(batch, Labels):
            for row in range(len(batch)):
                self._learn_label(batch.part(row, row + 1))
            return
        if isinstance(self.model, RiverModel):
            self.model.know_categories(batch.categories)
        start = 0
        for known, stop in _runs(batch.known_targets):
            part = batch.part(start, stop)
            for piece in self.history.pieces(part) if known else [part]:
                self._observe_piece(piece, known)
            start = stop

    def _observe_piece(self, piece: Records, known: bool) -> None:
        """Predict, count and learn records that all have a label, or all none."""
        first, before = self.seen + 1, self.seconds
        predictions, arrived = self._predict_and_learn(piece, known)
        if known:
            self._count(piece, predictions, self.seconds - before, arrived)
        else:
            self.unlabelled += len(piece)
            self.history.add_labels(arrived or ())
            self._await_labels(piece, predictions)
        if self.on_predictions is not None:
            self.on_predictions(first, piece, predictions, self.model.classes)

    def _count(
        self, piece: Records, predictions: Predictions, seconds: float, arrived: Sequence[Any] | None = None
    ) -> None:
        self.history.add(self.model, piece, predictions, seconds, arrived)
        if self.keys is not None and piece.keys is not None:
            self.keys.add(piece.keys, predictions, piece.known_targets, self.model.classes)

    def _predict_and_learn(self, piece: Records, known: bool) -> tuple[Predictions, list[Any] | None]:
        """The predictions; and where labels are late, the one that arrives after each record, None for none."""
        start, arrived = time.perf_counter(), None
        if self.delay:
            predictions, arrived = self._predict_and_learn_late(piece)
        elif known:
            predictions = self.model.predict_learn_many(piece.values, piece.targets, piece.names, **_options(piece))
        else:
            predictions = self.model.progress_many(piece.values, piece.names, **_keys(piece))
        self.seconds += time.perf_counter() - start
        return predictions, arrived

    def _predict_and_learn_late(self, piece: Records) -> tuple[Predictions, list[Any]]:
        """Predict record by record; before each, learn the record that was predicted `delay` records ago.

        With the predictions, the label that will be learned before the next record: then it has arrived.
        """
        found, arrived = [], []
        for t in range(len(piece)):
            if len(self._delayed) == self.delay:
                self._learn_oldest()
            one = piece.part(t, t + 1)
            found.append(self.model.progress_many(one.values, one.names, **_keys(one)))
            self._delayed.keep(self.seen + t, one, found[-1])
            arrived.append(_target(self._delayed.oldest()) if len(self._delayed) == self.delay else None)
        return join_predictions(found), arrived

    def _learn_oldest(self) -> None:
        oldest = self._delayed.oldest()
        if oldest is not None and oldest.records is not None:
            self._delayed.take(oldest.key)
            if _target(oldest) is not None:
                self._learn(oldest.records, oldest.predictions)

    def _learn(self, record: Records, predictions: Predictions) -> None:
        """Learn a record that was predicted earlier; coverage is judged by what was predicted then."""
        judged: dict[str, Any] = {"earlier": predictions} if isinstance(self.model, MODL) else {}
        self.model.learn_many(record.values, record.targets, record.names, **_options(record), **judged)

    def _await_labels(self, piece: Records, predictions: Predictions) -> None:
        """Let records without a label wait for it, if they have an ID."""
        if piece.ids is None:
            return
        if self.delay:
            raise BraidedError("records with IDs wait for their own labels: leave out `delay`")
        for row, name in enumerate(piece.ids):
            if name is not None:
                made = math.nan if piece.times is None else float(piece.times[row])
                self.late_labels.keep(name, piece.part(row, row + 1), predictions.part(row, row + 1), made)

    def _learn_label(self, label: Labels) -> None:
        """Count and learn a record whose label has come on its own; its error is that of its earlier prediction."""
        self.late_labels.expire(float(label.times[0]))
        if label.targets[0] is None:
            self.late_labels.counts["misfit"] += 1
            return
        found = self.late_labels.find(label.ids[0])
        if found is None or found.records is None:
            return
        weights = found.records.weights if label.weights[0] is None else np.array(label.weights)
        record = replace(found.records, targets=label.targets, weights=weights)
        start = time.perf_counter()
        self._learn(record, found.predictions)
        self.late_labels.take(label.ids[0])  # only now: a label that the model refuses comes again
        seconds = time.perf_counter() - start
        self.seconds += seconds
        self.unlabelled -= 1
        self._count(record, found.predictions, seconds)

    def finish(self) -> None:
        """At the end of the stream: learn what still waits, and record the model's last weights."""
        late = [_target(one) for one in self._delayed.entries()]
        self.history.add_labels(late[1:] if len(late) == self.delay else late)  # the oldest of a full queue has arrived
        start = time.perf_counter()
        while len(self._delayed):
            self._learn_oldest()
        self.seconds += time.perf_counter() - start
        self.history.close(self.model)

    def run(self, stream: Stream) -> Iterator[Records | Labels]:
        """Observe the stream from the first record not yet seen, yielding each batch after it was observed."""
        skip = self.seen - records_before(stream)
        skip_labels = max(self.late_labels.heard - labels_before(stream), 0)
        if skip < 0:
            raise BraidedError(
                f"the stream starts {-skip} records after the checkpoint's: give the same stream, or another "
                "checkpoint file"
            )
        for batch in stream.batches():
            if isinstance(batch, Labels):
                passed = min(skip_labels, len(batch))
                skip_labels -= passed
            else:
                passed = min(skip, len(batch))
                skip -= passed
            if passed and passed == len(batch):
                continue
            rest = batch.part(passed, len(batch))
            self.observe(rest)
            yield rest
        if skip > 0:
            raise BraidedError(
                f"the stream ends {skip} records before the checkpoint's last: give the same stream, or another "
                "checkpoint file"
            )

    def result(self) -> dict[str, Any]:
        """The figures of this run."""
        result = result_of(self.history, self.model.health, self.unlabelled, round(self.seconds, 6))
        late = self.late_labels
        if any(late.counts.values()):
            result["late_labels"] = {**late.counts, "waiting": len(late)}
        return result if self.keys is None else {**result, "keys": self.keys.result()}

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What is counted and waits besides model and history, as JSON and named arrays."""
        about: dict[str, Any] = {"seconds": self.seconds, "unlabelled": self.unlabelled}
        arrays: dict[str, NDArray[Any]] = {}
        for name, owner in self._owners():
            about[name], own = owner.state()
            arrays |= prefixed(name, own)
        return about, arrays

    def load_state(self, about: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a `state`; one that does not fit is refused."""
        self.seconds = checked(_WHAT, about, "seconds", float)
        self.unlabelled = checked(_WHAT, about, "unlabelled", int)
        n_learners = len(self.model.learner_names)
        for late, name in ((self.late_labels, "late"), (self._delayed, "delayed")):
            late.load_state(about.get(name), unprefixed(name, arrays), n_learners)
        if self.keys is not None:
            self.keys.load_state(about.get("keys"), unprefixed("keys", arrays))

    def _owners(self) -> list[tuple[str, Any]]:
        """Those that have a state of their own."""
        keys = [] if self.keys is None else [("keys", self.keys)]
        return [("late", self.late_labels), ("delayed", self._delayed), *keys]


def _target(waiting: Waiting | None) -> Any:
    """The target of a record that waits for its number."""
    return None if waiting is None or waiting.records is None else waiting.records.known_targets[0]


def _runs(targets: Sequence[Any]) -> Iterator[tuple[bool, int]]:
    """For each run of targets that are known, or of such that are not: whether they are, and where it ends."""
    if None not in targets:
        if len(targets):
            yield True, len(targets)
        return
    stop = 0
    for known, run in groupby(targets, key=lambda target: target is not None):
        stop += len(list(run))
        yield known, stop


def _options(records: Records) -> dict[str, Any]:
    """The records' weights and keys as a model takes them, if they have any."""
    return _keys(records) if records.weights is None else {"sample_weight": records.weights, **_keys(records)}


def _keys(records: Records) -> dict[str, Any]:
    """The records' keys as a fleet takes them."""
    return {} if records.keys is None else {"keys": records.keys}
