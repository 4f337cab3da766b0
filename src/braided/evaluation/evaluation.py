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
from braided.late import LateLabels
from braided.records import Labels, Predictions, Records, join_predictions
from braided.store import checked, prefixed, unprefixed
from braided.streams import Stream
from braided.streams.base import labels_before, records_before
from braided.values import printable

#: Features whose importance a result lists.
_MAX_IMPORTANT = 50
_WHAT = "the state of an evaluation"
_SAME_STREAM = "give the same stream, or another checkpoint file"
#: Takes the number of the first record, the records, what was predicted, and the columns of the predictions.
Listener = Callable[[int, Records, Predictions, Sequence[Hashable]], None]


def result_of(
    history: History, health: Mapping[str, Mapping[str, int]], unlabelled: int, seconds: float
) -> dict[str, Any]:
    """The figures of a run: what its history counted, and what else is known of the run."""
    tally = history.tally
    if tally.regression:
        errors: dict[str, Any] = {}
        own = [{"mae": error if math.isfinite(error) else None} for error in tally.learner_errors.values()]
    else:
        errors = {"errors": int(tally.totals[ANSWER]), "error_rate": tally.error}
        own = [{"errors": int(loss)} for loss in tally.totals[LEARNERS:].tolist()]
    shares = [
        {f"{level:g}": share for level, share in zip(LEVELS, row, strict=True) if share == share}
        for row in history.coverage().tolist()
    ]
    ends = history.blocks()[:, 0].tolist()
    return {
        **errors,
        "metrics": tally.metrics(),
        "window_metrics": tally.window_metrics(),
        "window": tally.n_last,
        "coverage": {f"{level:g}": share for level, share in history.coverage_shares().items()},
        "coverage_over_time": [{"records": int(end), **row} for end, row in zip(ends, shares, strict=True) if row],
        "importance": [
            {
                "feature": printable(str(one.feature)),
                "rise": one.rise,
                "standard_error": one.standard_error if one.records > 1 else None,
                "records": one.records,
            }
            for one in history.importance()[:_MAX_IMPORTANT]
        ],
        "unlabelled": unlabelled,
        "seconds": seconds,
        "records_per_second": round((tally.records + unlabelled) / seconds, 1) if seconds else 0.0,
        "learners": {name: {**figures, **health[name]} for name, figures in zip(tally.learners, own, strict=True)},
    }


class Evaluation:
    """One model on one stream, record by record.

    Parameters
    ----------
    model
        An estimator, a fleet, or one of River's models behind `estimators.river`; it learns.
    history
        Where the outcomes are counted; a new one if not given.
    delay
        How many records later a label is learned: that of record t just before record t + delay is predicted.
    on_predictions
        Called with every prediction.
    late_labels
        Where records wait whose labels come on their own; with the usual bounds if not given.

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
        self.history = history or History(type(model).__name__, model.learner_names, model.task == REGRESSION)
        self.history.begin(model)
        self.delay = delay
        self.seconds = 0.0
        self.unlabelled = 0
        self.on_predictions = on_predictions
        self.late_labels = LateLabels() if late_labels is None else late_labels
        #: Records whose label is learned `delay` records later, by number.
        self._delayed = LateLabels(delay, math.inf, math.inf, unique=False)
        self.keys = KeyTally(SHARED in model.learner_names) if isinstance(model, Fleet) else None

    @property
    def records(self) -> int:
        """Records with a label seen."""
        return self.history.records

    @property
    def seen(self) -> int:
        """Records seen, with and without a label."""
        return self.records + self.unlabelled

    def observe(self, batch: Records | Labels) -> None:
        """Predict, count and learn records, or learn labels of records that wait for them."""
        if isinstance(batch, Labels):
            for row in range(len(batch)):
                self._learn_label(batch.part(row, row + 1))
            return
        if isinstance(self.model, RiverModel):
            self.model.know_categories(batch.categories)
        start = 0
        for known, run in groupby(batch.known_targets, key=lambda target: target is not None):
            part = batch.part(start, start + len(list(run)))
            start += len(part)
            for piece in self.history.pieces(part) if known else [part]:
                self._observe_piece(piece, known)

    def _observe_piece(self, piece: Records, known: bool) -> None:
        """Predict, count and learn records that all have a label, or all none."""
        if known:
            self.history.measure(self.model, piece)
        first, start, arrived = self.seen + 1, time.perf_counter(), None
        if self.delay:
            predictions, arrived = self._predict_delayed(piece)
        elif known:
            predictions = self.model.predict_learn_many(piece.values, piece.targets, piece.names, **_options(piece))
        else:
            predictions = self.model.progress_many(piece.values, piece.names, **_keys(piece))
        seconds = time.perf_counter() - start
        self.seconds += seconds
        if known:
            self._count(piece, predictions, seconds, arrived)
        else:
            self.unlabelled += len(piece)
            self.history.tally.add_labels(arrived or ())
            self._await_labels(piece, predictions)
        if self.on_predictions is not None:
            self.on_predictions(first, piece, predictions, self.model.classes)

    def _count(
        self, piece: Records, predictions: Predictions, seconds: float, arrived: Sequence[Any] | None = None
    ) -> None:
        losses = self.history.add(self.model, piece, predictions, seconds, arrived)
        if self.keys is not None and piece.keys is not None:
            self.keys.add(piece.keys, losses[:, ANSWER], losses[:, -1])

    def _predict_delayed(self, piece: Records) -> tuple[Predictions, list[Any]]:
        """Before each record learn the one of `delay` records ago; predictions, and the labels that were learned."""
        found, arrived = [], []
        for t in range(len(piece)):
            arrived.append(self._learn_oldest() if len(self._delayed) == self.delay else None)
            one = piece.part(t, t + 1)
            found.append(self.model.progress_many(one.values, one.names, **_keys(one)))
            self._delayed.keep(self.seen + t, one, found[-1])
        return join_predictions(found), arrived

    def _learn_oldest(self) -> Any:
        """Learn the record that has waited longest for its number; returns its label, None if it has none."""
        oldest = self._delayed.oldest()
        assert oldest is not None
        label = oldest.records.known_targets[0]
        if label is not None:
            self._learn(oldest.records, oldest.predictions)
        self._delayed.take(oldest.key)  # only now: one that the model refuses is not lost
        return label

    def _learn(self, record: Records, predictions: Predictions) -> None:
        """Learn a record that was predicted earlier; coverage is judged by what was predicted then."""
        judged: dict[str, Any] = {"earlier": predictions} if isinstance(self.model, MODL) else {}
        self.model.learn_many(record.values, record.targets, record.names, **_options(record), **judged)

    def _await_labels(self, piece: Records, predictions: Predictions) -> None:
        """Let records without a label wait for it under their IDs."""
        for row, name in enumerate(piece.ids or ()):
            if name is not None:
                if self.delay:
                    raise BraidedError("records with IDs wait for their own labels: leave out `delay`")
                made = math.nan if piece.times is None else float(piece.times[row])
                self.late_labels.keep(name, piece.part(row, row + 1), predictions.part(row, row + 1), made)

    def _learn_label(self, label: Labels) -> None:
        """Count and learn a record whose label has come on its own; its error is that of its earlier prediction."""
        self.late_labels.expire(float(label.times[0]))
        if label.targets[0] is None:
            self.late_labels.counts["misfit"] += 1
            return
        found = self.late_labels.find(label.ids[0])
        if found is None:
            return
        weights = found.records.weights if label.weights[0] is None else np.array(label.weights)
        record = replace(found.records, targets=label.targets, weights=weights)
        self.history.measure(self.model, record)
        start = time.perf_counter()
        self._learn(record, found.predictions)
        seconds = time.perf_counter() - start
        self.late_labels.take(label.ids[0])  # only now: a label that the model refuses comes again
        self.seconds += seconds
        self.unlabelled -= 1
        self._count(record, found.predictions, seconds)

    def finish(self) -> None:
        """At the end of the stream: learn what still waits, and record the model's last weights."""
        start = time.perf_counter()
        while len(self._delayed):
            self.history.tally.add_labels([self._learn_oldest()])
        self.seconds += time.perf_counter() - start
        self.history.close(self.model)

    def run(self, stream: Stream) -> Iterator[Records | Labels]:
        """Observe the stream from the first record not yet seen, yielding each batch after it was observed."""
        seen: dict[type, int] = {
            Records: self.seen - records_before(stream),
            Labels: max(self.late_labels.heard - labels_before(stream), 0),
        }
        if seen[Records] < 0:
            raise BraidedError(f"the stream starts {-seen[Records]} records after the checkpoint's: {_SAME_STREAM}")
        for batch in stream.batches():
            passed = min(seen[type(batch)], len(batch))
            seen[type(batch)] -= passed
            if passed < len(batch) or not passed:
                rest = batch.part(passed, len(batch))
                self.observe(rest)
                yield rest
        if seen[Records] > 0:
            raise BraidedError(f"the stream ends {seen[Records]} records before the checkpoint's last: {_SAME_STREAM}")

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
        for name, owner in (("late", self.late_labels), ("delayed", self._delayed), ("keys", self.keys)):
            if owner is not None:
                about[name], own = owner.state()
                arrays |= prefixed(name, own)
        return about, arrays

    def load_state(self, about: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a `state`; one that does not fit is refused."""
        self.seconds = checked(_WHAT, about, "seconds", float)
        self.unlabelled = checked(_WHAT, about, "unlabelled", int)
        for name, late in (("late", self.late_labels), ("delayed", self._delayed)):
            late.load_state(about.get(name), unprefixed(name, arrays), len(self.model.learner_names))
        if self.keys is not None:
            self.keys.load_state(about.get("keys"), unprefixed("keys", arrays))


def _keys(records: Records) -> dict[str, Any]:
    """The records' keys as a fleet takes them."""
    return {} if records.keys is None else {"keys": records.keys}


def _options(records: Records) -> dict[str, Any]:
    """The records' weights and keys as a model takes them, if they have any."""
    return _keys(records) if records.weights is None else {"sample_weight": records.weights, **_keys(records)}
