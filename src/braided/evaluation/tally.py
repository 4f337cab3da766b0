"""Errors along the stream, metrics, and the last records, in memory that does not grow with the stream."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from braided.evaluation.curve import Curve
from braided.evaluation.metrics import class_metrics, share, value_metrics
from braided.kernels.tally import (
    ANSWER,
    ANSWERED,
    CALIBRATION_BINS,
    CLASS_SUMS,
    COUNT,
    LARGEST,
    LEARNERS,
    ODDS_BINS,
    VALUE_SUMS,
    guess_classes,
    guess_values,
    tally_classes,
    tally_values,
)
from braided.records import Predictions
from braided.store import MAX_COUNT, Array, check, pack_name, prefixed, unpack_names, unprefixed

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
#: How many of the last records have metrics of their own.
WINDOW = 1_000
#: With more classes than this there is no ROC AUC, and the last records are kept without their probabilities.
MAX_CLASSES_FOLLOWED = 100
#: Attributes that a state holds; of the second, rings of the last records, as many as there are.
_ARRAYS = ("confusion", "bins", "_odds", "_sums", "_arrived", "_guesses")
_RINGS = ("_last_losses", "_last_truth", "_last_predictions", "_last_decided")


class Tally:
    """Errors of a model, of each of its learners and of two plain guesses, and what metrics are worked out from.

    A loss is 1 for a wrong answer and 0 for a right one, or the absolute error. Each record has those of the answer, of
    the two plain guesses, and of each learner alone. The plain guesses only use the labels that have arrived: the most
    frequent class, or the mean; and the last label. Before the first label, no class is right, and the number is 0.

    The chunks in which records come do not matter. A sum that would be beyond the largest double stays there, and the
    last records are added up again: one target of 1e308 leaves numbers, and the window is right once it has left it.

    Parameters
    ----------
    learners
        Names of the learners.
    regression
        Whether targets are numbers.

    Attributes
    ----------
    loss_curve
        Sums of the losses along the stream.
    classes
        Labels, in the order of the rows of `confusion`.
    confusion
        (classes, classes + 1): records of each label by predicted label; the last column had no prediction.
    bins
        (10, 3): for each tenth of the predicted class's probability the records, the sum of the probabilities, and how
        many of the predictions were right.

    Examples
    --------
    >>> tally = Tally(["olr"])
    >>> predictions = Predictions(np.array([[0.0, 0.0], [1.0, 0.0], [0.2, 0.8]]), np.array([[-1.0], [0.0], [1.0]]))
    >>> tally.add(predictions, ["idle", "idle", "busy"], ["idle", "busy"]).tolist()
    [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]]
    >>> tally.records, tally.metrics()["accuracy"], tally.learner_errors
    (3, 0.6666666666666666, {'olr': 0.3333333333333333})
    """

    def __init__(self, learners: Iterable[str] = (), regression: bool = False) -> None:
        self.learners = tuple(learners)
        self.regression = regression
        width = LEARNERS + len(self.learners)
        self.loss_curve = Curve(width)
        self.classes: list[Hashable] = []
        self._place_of: dict[Hashable, int] = {None: -1}
        self.confusion = np.zeros((0, 1), dtype=np.int64)
        self.bins = np.zeros((CALIBRATION_BINS, 3))
        self._odds = np.zeros((0, 2, ODDS_BINS), dtype=np.int64)
        self._sums = np.zeros(VALUE_SUMS if regression else CLASS_SUMS)
        #: Of the labels that have arrived: the count of each class, or count and sum; and the two plain guesses.
        self._arrived: NDArray[Any] = np.zeros(2) if regression else np.zeros(0, dtype=np.int64)
        self._guesses: NDArray[Any] = np.zeros(2) if regression else np.full(2, -1, dtype=np.int64)
        self._last_losses = np.zeros((WINDOW, width))
        self._last_truth = np.zeros(WINDOW)
        self._last_predictions = np.zeros((WINDOW, 1 if regression else 0))
        #: The places of the classes that were answered.
        self._last_decided = np.full(WINDOW, -1, dtype=np.int64)

    @property
    def records(self) -> int:
        """Records seen."""
        return self.loss_curve.records

    @property
    def totals(self) -> Floats:
        """Sums of the losses."""
        return self.loss_curve.totals

    @property
    def error(self) -> float:
        """Share of wrong predictions, or mean absolute error."""
        return float(self.totals[ANSWER] / max(self.records, 1))

    @property
    def learner_errors(self) -> dict[str, float]:
        """The same of each learner alone."""
        return dict(zip(self.learners, (self.totals[LEARNERS:] / max(self.records, 1)).tolist(), strict=True))

    @property
    def guess_names(self) -> tuple[str, str]:
        """What the two plain guesses are called, in the order of their losses."""
        return ("mean so far", "last value") if self.regression else ("majority so far", "last label")

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: the mean over records of |share right - mean probability| in their bin."""
        count, confidence, right = self.bins.T
        return float(np.abs(right - confidence).sum() / max(count.sum(), 1.0))

    @property
    def n_last(self) -> int:
        """Records in the window of the last ones: 1,000, or fewer if there were fewer."""
        return min(self.records, WINDOW)

    def _last_places(self) -> NDArray[np.int64]:
        """The places of the last records in the rings, the oldest first."""
        return np.arange(self.records - self.n_last, self.records) % WINDOW

    def add(
        self,
        predictions: Predictions,
        labels: Sequence[Any],
        classes: Sequence[Hashable],
        arrived: Sequence[Any] | None = None,
    ) -> Floats:
        """Count predicted records with their labels, and return the losses, (n, columns).

        `classes` are the columns of the predictions. `arrived` has for each record the label of an earlier record that
        arrived just before it, None for none; without it, each label arrives at once.
        """
        losses, own = np.empty((len(labels), len(self.totals))), predictions.own
        if self.regression:
            truth: NDArray[Any] = np.array(labels, dtype=np.float64)
            values = np.ascontiguousarray(predictions.values, dtype=np.float64)
            decided = np.full(len(labels), -1, dtype=np.int64)
            tally_values(values[:, 0], truth, own, self._sums, losses)
        else:
            truth, values, decided, own = self._by_class(labels, classes, predictions)
            tally_classes(values, decided, truth, own, self.confusion, self.bins, self._odds, self._sums, losses)
        come = truth
        if arrived is not None:
            self.add_labels(arrived[:1])
            come = self._coded([*arrived[1:], None])
        self._guess(truth, come, losses)
        self._remember(truth, values, decided, losses)
        self.loss_curve.extend(losses)
        return losses

    def add_labels(self, labels: Sequence[Any]) -> None:
        """Count labels of earlier records that have arrived, None for none, with no record in between."""
        arrived = self._coded(labels)
        self._guess(arrived, arrived, np.empty((len(labels), LEARNERS)))

    def _guess(self, truth: NDArray[Any], arrived: NDArray[Any], losses: Floats) -> None:
        """Fill in what the plain guesses lose; `arrived` after each record and before the next, -1 or NaN for none."""
        guess = guess_values if self.regression else guess_classes
        guess(truth, arrived, self._arrived, self._guesses, losses)

    def _coded(self, labels: Sequence[Any]) -> NDArray[Any]:
        """Labels of records that were counted as numbers, or as places of classes; NaN or -1 for None."""
        if self.regression:
            return np.array([np.nan if label is None else label for label in labels], dtype=np.float64)
        return np.array([self._place_of[label] for label in labels], dtype=np.int64)

    def _by_class(
        self, labels: Sequence[Hashable], classes: Sequence[Hashable], predictions: Predictions
    ) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64], Floats]:
        """By the classes known here: places of labels, probabilities, places of answers and of learners' answers."""
        given, own = predictions.values, predictions.own
        known = dict.fromkeys([*self.classes, *classes, *labels])
        if len(known) > len(self.classes):
            self._grow(list(known))
        columns = [self._place_of[label] for label in classes[: given.shape[1]]]
        if columns == list(range(len(columns))):
            values = np.ascontiguousarray(given[:, : len(columns)], dtype=np.float64)
        else:
            values = np.zeros((len(given), len(self.classes)))
            values[:, columns] = given[:, : len(columns)]
            own = np.array([*columns, -1.0])[own.astype(np.int64)]
        if predictions.decided is not None:
            decided = np.array([*columns, -1], dtype=np.int64)[predictions.decided]
        else:
            decided = values.argmax(axis=1) if values.shape[1] else np.full(len(values), -1, dtype=np.int64)
        return self._coded(labels), values, decided, own

    def _grow(self, classes: list[Hashable]) -> None:
        """Make room for new classes, to which every earlier answer gave the probability 0."""
        old, new = len(self.classes), len(classes)
        self.classes = classes
        self._place_of = {label: place for place, label in enumerate(classes)} | {None: -1}
        confusion = np.zeros((new, new + 1), dtype=np.int64)
        confusion[:old, :old], confusion[:old, -1] = self.confusion[:, :-1], self.confusion[:, -1]
        self.confusion = confusion
        self._arrived = np.pad(self._arrived, (0, new - old))
        followed = new if new <= MAX_CLASSES_FOLLOWED else 0
        more = max(followed - old, 0)
        self._odds = np.pad(self._odds[:followed], ((0, more), (0, 0), (0, 0)))
        self._odds[old:, 0, 0] = int(self._sums[ANSWERED])
        self._last_predictions = np.pad(self._last_predictions[:, :followed], ((0, 0), (0, more)))

    def _remember(self, truth: NDArray[Any], values: Floats, decided: NDArray[np.int64], losses: Floats) -> None:
        """Keep the last records in rings."""
        width = min(values.shape[1], self._last_predictions.shape[1])
        start = max(len(truth) - WINDOW, 0)
        while start < len(truth):
            place = (self.records + start) % WINDOW
            size = min(WINDOW - place, len(truth) - start)
            ring, part = slice(place, place + size), slice(start, start + size)
            self._last_truth[ring] = truth[part]
            self._last_losses[ring] = losses[part]
            self._last_decided[ring] = decided[part]
            self._last_predictions[ring, :width] = values[part, :width]
            self._last_predictions[ring, width:] = 0.0
            start += size

    def metrics(self) -> dict[str, float | None]:
        """Every metric over the whole stream; None where it is not defined."""
        if self.regression:
            return value_metrics(float(self.totals[ANSWER]), self._sums)
        return class_metrics(self.confusion, self._odds, self._sums)

    def window_metrics(self) -> dict[str, float | None]:
        """Every metric over the last records, at most 1,000; with more than 100 classes those of the errors alone."""
        last = self._last_places()
        n = len(last)
        window = Tally(regression=self.regression)
        if len(self.classes) > MAX_CLASSES_FOLLOWED:
            errors = float(self._last_losses[last, ANSWER].sum())
            known = {"errors": errors, "error_rate": errors / n, "accuracy": (n - errors) / n}
            return {**dict.fromkeys(window.metrics()), **known}
        truth = self._last_truth[last].tolist()
        labels = truth if self.regression else [self.classes[int(place)] for place in truth]
        predictions = Predictions(self._last_predictions[last], np.zeros((n, 0)), self._last_decided[last])
        window.add(predictions, labels, self.classes)
        return window.metrics()

    def window_errors(self) -> list[float]:
        """Mean losses over the last records: of the answer, of the plain guesses, and of each learner."""
        last, n = self._last_losses[self._last_places()], max(self.n_last, 1)
        with np.errstate(over="ignore"):
            means = last.sum(axis=0) / n
        beyond = np.isinf(means)  # the sum, not the mean
        means[beyond] = (last[:, beyond] / n).sum(axis=0)
        return [min(mean, LARGEST) for mean in means.tolist()]

    def window_recall(self) -> dict[Hashable, tuple[int, float | None]]:
        """For each class how many of the last records had it, and the share of these that was predicted as it."""
        last = self._last_places()
        truth, wrong = self._last_truth[last], self._last_losses[last, ANSWER]
        own = {label: wrong[truth == place] for place, label in enumerate(self.classes)}
        return {label: (one.size, float(1.0 - one.mean()) if one.size else None) for label, one in own.items()}

    def per_class(self) -> dict[Hashable, dict[str, Any]]:
        """Precision, recall, F1 and support of each class; None where one is not defined."""
        rows, columns = self.confusion.sum(axis=1), self.confusion[:, :-1].sum(axis=0)
        right = np.diagonal(self.confusion)
        return {
            label: {
                "precision": share(right[k], columns[k]),
                "recall": share(right[k], rows[k]),
                "f1": share(2 * right[k], rows[k] + columns[k]),
                "support": int(rows[k]),
            }
            for k, label in enumerate(self.classes)
        }

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and named arrays to go on from."""
        arrays = self._kept() | prefixed("curve", self.loss_curve.state())
        return {"classes": [pack_name(label) for label in self.classes]}, arrays

    def _kept(self) -> Arrays:
        """The arrays of a state, without those of the curve."""
        last = self._last_places()
        return {name: getattr(self, name) for name in _ARRAYS} | {name: getattr(self, name)[last] for name in _RINGS}

    def load_state(self, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state` of a tally of the same learners; this one has counted nothing yet."""
        if not self.regression:
            self._grow(unpack_names("classes that were counted", metadata.get("classes")))
        self.loss_curve.load_state(unprefixed("curve", arrays))
        n = len(self.classes)
        # What is used as an index, a count or a divisor.
        bounds: dict[str, tuple[ArrayLike, ArrayLike]] = {
            "_guesses": (-1, n - 1),
            "_last_truth": (0, n - 1),
            "_last_decided": (-1, n - 1),
            "_sums": (0, MAX_COUNT),
        }
        if self.regression:
            counted = np.where(np.arange(VALUE_SUMS) == COUNT, 0.0, -np.inf)
            bounds = {"_sums": (counted, np.inf), "_arrived": ([0.0, -np.inf], np.inf)}
        schema = {
            name: Array(own.shape, own.dtype.name, *bounds.get(name, (-np.inf, np.inf)), finite=not self.regression)
            for name, own in self._kept().items()
        }
        check("state of a tally", schema, arrays)
        for name in schema:
            getattr(self, name)[self._last_places() if name in _RINGS else slice(None)] = arrays[name]
