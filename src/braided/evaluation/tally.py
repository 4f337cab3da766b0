"""What is counted of predictions whose labels are known: errors along the stream, metrics, the last records.

Everything follows from the records in their order, however they were chunked, and the memory used does not depend on
how many there were.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.evaluation.curve import Curve
from braided.evaluation.guesses import PlainGuesses
from braided.evaluation.metrics import class_metrics, per_class, value_metrics
from braided.kernels.tally import (
    ANSWER,
    ANSWERED,
    CALIBRATION_BINS,
    CLASS_SUMS,
    LARGEST,
    LEARNERS,
    ODDS_BINS,
    VALUE_SUMS,
    tally_classes,
    tally_values,
)
from braided.records import Predictions
from braided.store import MAX_COUNT, Array, check, counts, pack_name, prefixed, unpack_names, unprefixed

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
#: How many of the last records have metrics of their own.
WINDOW = 1_000
#: With more classes than this there is no ROC AUC, and the last records are kept without their probabilities.
MAX_CLASSES_FOLLOWED = 100
#: In the place of decided classes: the answer is the likeliest one.
_LIKELIEST = np.zeros(0, dtype=np.int64)
#: Attributes that a state holds; of the second, rings of the last records, as many as there are.
_ARRAYS = ("confusion", "bins", "_odds", "_sums")
_LAST = ("_last_losses", "_last_truth", "_last_predictions", "_last_decided")
_WHAT = "state of a tally"


class Tally:
    """Errors of a model and of each of its learners, and what the metrics are worked out from.

    The losses of a record are 1 for a wrong answer and 0 for a right one, or for regression the absolute error: those
    of the answer, of the two plain guesses (the most frequent class, or the mean, of the labels that have arrived; and
    the one that arrived last), and of each learner alone. A sum that would be beyond the largest double stays there,
    and the last records are added up again: one target of 1e308 leaves numbers, and the window is right again as soon
    as it has left it.

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
    guesses
        The plain guesses.
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
    >>> _ = tally.add(predictions, ["idle", "idle", "busy"], ["idle", "busy"])
    >>> tally.records, tally.metrics()["accuracy"], tally.learner_errors
    (3, 0.6666666666666666, {'olr': 0.3333333333333333})
    """

    def __init__(self, learners: Iterable[str] = (), regression: bool = False) -> None:
        self.learners = tuple(learners)
        self.regression = regression
        width = LEARNERS + len(self.learners)
        self.loss_curve = Curve(width)
        self.guesses = PlainGuesses(regression)
        self.classes: list[Hashable] = []
        self.confusion = np.zeros((0, 1), dtype=np.int64)
        self.bins = np.zeros((CALIBRATION_BINS, 3))
        self._odds = np.zeros((0, 2, ODDS_BINS), dtype=np.int64)
        self._sums = np.zeros(VALUE_SUMS if regression else CLASS_SUMS)
        self._last_losses = np.zeros((WINDOW, width))
        self._last_truth = np.zeros(WINDOW)
        self._last_predictions = np.zeros((WINDOW, 1 if regression else 0))
        #: The places of the answers, where these are not the likeliest classes.
        self._last_decided = _LIKELIEST

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
        """Count records that were predicted, with their labels; `classes` are the columns of the predictions.

        The plain guesses know the labels that have arrived: `arrived` has for each record the one that arrives after it
        and before the next, None for none. If it is not given, each label arrives at once. Returns the losses,
        (n, columns).
        """
        losses = np.empty((len(labels), len(self.totals)))
        own = predictions.own
        if self.regression:
            truth: NDArray[Any] = np.array(labels, dtype=np.float64)
            values, decided = np.ascontiguousarray(predictions.values, dtype=np.float64), _LIKELIEST
            tally_values(values[:, 0], truth, own, self._sums, losses)
        else:
            truth, values, decided = self._by_class(labels, classes, predictions)
            tally_classes(values, decided, truth, own, self.confusion, self.bins, self._odds, self._sums, losses)
        self.guesses.count(truth, truth if arrived is None else self._coded(arrived), losses)
        self._remember(truth, values, decided, losses)
        self.loss_curve.extend(losses)
        return losses

    def add_labels(self, labels: Sequence[Any]) -> None:
        """Count labels of earlier records that have arrived, None for none, with no record in between."""
        self.guesses.add_labels(self._coded(labels))

    def _coded(self, labels: Sequence[Any]) -> NDArray[Any]:
        """Labels of records that were counted as the plain guesses take them."""
        if self.regression:
            return np.array([np.nan if label is None else label for label in labels], dtype=np.float64)
        place: dict[Any, int] = {label: i for i, label in enumerate(self.classes)} | {None: -1}
        return np.array([place[label] for label in labels], dtype=np.int64)

    def _by_class(
        self, labels: Sequence[Hashable], classes: Sequence[Hashable], predictions: Predictions
    ) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
        """The labels' places, the predictions with a column for each class known here, in its order, and the answers.

        These are the places of the classes that were answered; none where they are the likeliest.
        """
        given = predictions.values
        known = dict.fromkeys([*self.classes, *classes, *labels])
        if len(known) > len(self.classes):
            self._grow(list(known))
        place = {label: i for i, label in enumerate(self.classes)}
        columns = [place[label] for label in classes[: given.shape[1]]]
        if columns == list(range(len(columns))):
            values = np.ascontiguousarray(given[:, : len(columns)], dtype=np.float64)
        else:
            values = np.zeros((len(given), len(self.classes)))
            values[:, columns] = given[:, : len(columns)]
        decided = _LIKELIEST
        if predictions.decided is not None:
            decided = np.array([*columns, -1], dtype=np.int64)[predictions.decided]
        return np.array([place[label] for label in labels], dtype=np.int64), values, decided

    def _grow(self, classes: list[Hashable]) -> None:
        """Make room for new classes, to which every earlier answer gave the probability 0."""
        old, new = len(self.classes), len(classes)
        self.classes = classes
        confusion = np.zeros((new, new + 1), dtype=np.int64)
        confusion[:old, :old], confusion[:old, -1] = self.confusion[:, :-1], self.confusion[:, -1]
        self.confusion = confusion
        self.guesses.grow(new)
        if new > MAX_CLASSES_FOLLOWED:
            self._odds = np.zeros((0, 2, ODDS_BINS), dtype=np.int64)
            self._last_predictions = np.zeros((WINDOW, 0))
            return
        odds = np.zeros((new, 2, ODDS_BINS), dtype=np.int64)
        odds[:old] = self._odds
        odds[old:, 0, 0] = int(self._sums[ANSWERED])
        self._odds = odds
        self._last_predictions = np.pad(self._last_predictions, ((0, 0), (0, new - old)))

    def _remember(self, truth: NDArray[Any], values: Floats, decided: NDArray[np.int64], losses: Floats) -> None:
        """Keep the last records in a ring."""
        width = min(values.shape[1], self._last_predictions.shape[1])
        if decided.size and not self._last_decided.size:
            self._last_decided = np.full(WINDOW, -1, dtype=np.int64)
        start = max(len(truth) - WINDOW, 0)
        while start < len(truth):
            place = (self.records + start) % WINDOW
            size = min(WINDOW - place, len(truth) - start)
            ring, part = slice(place, place + size), slice(start, start + size)
            self._last_truth[ring] = truth[part]
            self._last_losses[ring] = losses[part]
            if decided.size:
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
        if not self.regression:
            window._grow(list(self.classes))
        truth = self._last_truth[last]
        labels = truth.tolist() if self.regression else [self.classes[int(place)] for place in truth]
        decided = self._last_decided[last] if self._last_decided.size else None
        window.add(Predictions(self._last_predictions[last], np.zeros((n, 0)), decided), labels, self.classes)
        return window.metrics()

    def window_errors(self) -> list[float]:
        """Mean losses over the last records: of the answer, of the plain guesses, and of each learner."""
        last = self._last_losses[self._last_places()]
        if not len(last):
            return [0.0] * len(self.totals)
        with np.errstate(over="ignore"):
            means = last.mean(axis=0)
        beyond = np.isinf(means)  # the sum, not the mean
        means[beyond] = (last[:, beyond] / len(last)).sum(axis=0)
        return [min(float(mean), LARGEST) for mean in means]

    def window_recall(self) -> dict[Hashable, tuple[int, float | None]]:
        """For each class how many of the last records had it, and the share of these that was predicted as it."""
        last = self._last_places()
        truth, wrong = self._last_truth[last], self._last_losses[last, ANSWER]
        found: dict[Hashable, tuple[int, float | None]] = {}
        for place, label in enumerate(self.classes):
            own = wrong[truth == place]
            found[label] = (own.size, float(1.0 - own.mean()) if own.size else None)
        return found

    def per_class(self) -> dict[Hashable, dict[str, Any]]:
        """Precision, recall, F1 and support of each class."""
        return dict(zip(self.classes, per_class(self.confusion), strict=True))

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and named arrays to go on from."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        last = self._last_places()
        arrays |= {name: getattr(self, name)[last] for name in _LAST if len(getattr(self, name))}
        arrays |= prefixed("curve", self.loss_curve.state()) | prefixed("guesses", self.guesses.state())
        return {"classes": [pack_name(label) for label in self.classes]}, arrays

    def schema(self, classes: int, n_last: int) -> dict[str, Array]:
        """What the arrays of a `state` must be, apart from curve and guesses; `n_last` records are in the window."""
        followed = classes if classes <= MAX_CLASSES_FOLLOWED else 0
        # The first of the sums is how many there are.
        first = np.arange(self._sums.size) == 0
        truth = Array((n_last,), "float64", 0.0, classes - 1.0)
        return {
            "confusion": counts(classes, classes + 1),
            "bins": Array((CALIBRATION_BINS, 3), low=0.0, high=MAX_COUNT),
            "_odds": counts(followed, 2, ODDS_BINS),
            "_sums": Array(
                first.shape,
                low=np.where(first, 0.0, -np.inf),
                high=np.where(first, MAX_COUNT, np.inf),
                finite=first if self.regression else True,
            ),
            "_last_losses": Array((n_last, len(self.totals))),
            "_last_truth": Array((n_last,)) if self.regression else truth,
            "_last_predictions": Array((n_last, 1 if self.regression else followed), finite=not self.regression),
            "_last_decided": Array((n_last,), "int64", -1, classes - 1),
        }

    def load_state(self, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state` of a tally of the same learners."""
        classes = unpack_names("classes that were counted", metadata.get("classes"))
        curve = Curve(len(self.totals))
        curve.load_state(unprefixed("curve", arrays))
        schema = self.schema(len(classes), min(curve.records, WINDOW))
        if "_last_decided" not in arrays:  # the likeliest class was always decided for
            del schema["_last_decided"]
        check(_WHAT, schema, arrays)
        self.guesses.load_state(unprefixed("guesses", arrays), len(classes))
        self.loss_curve, self.classes = curve, classes
        for name in _ARRAYS:
            setattr(self, name, arrays[name].copy())
        for name in _LAST:
            if name in schema:
                ring = np.zeros((WINDOW, *arrays[name].shape[1:]), dtype=arrays[name].dtype)
                ring[self._last_places()] = arrays[name]
                setattr(self, name, ring)
