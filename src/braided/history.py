"""What happened in a run, kept small: errors, shares, availability, calibration and weights over time.

The memory used does not depend on the number of records: curves have at most 1,000 points and all else is counted in at
most 128 blocks of equal length, merged in pairs when a stream proves longer. Everything but the times follows from the
records in their order, however they were chunked.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from river import base

from braided import explain
from braided.checkpoint import pack_name, unpack_name
from braided.errors import BraidedError
from braided.estimator import MODL, Progress
from braided.river_models import RiverModel
from braided.streams import Batch, Stream

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
#: Bins of equal width for the probability of the predicted class.
BINS = 10
_MOST_POINTS = 1_000
_MOST_BLOCKS, _FIRST_BLOCK = 128, 32
#: Records scored again in each block, for the learners' shares.
_PROBES = 2
#: Features whose availability is followed over time, and weights (features times classes) that are.
MOST_FEATURES, MOST_WEIGHTS = 2_000, 4_096
# Columns of the blocks, before three for each learner (its shares, skipped updates, resets) and one for drifts.
_RECORDS, _SECONDS, _PROBED, _FIXED = 0, 1, 2, 3
_CHUNK = 500


class History:
    """The history of one model on one stream; `braided.record` makes and fills it.

    Parameters
    ----------
    name
        What plots call the model. Histories of one name are taken for several seeds of one model.
    learners
        Names of its learners.
    regression
        Whether the error is the absolute difference, rather than being wrong.

    Attributes
    ----------
    records
        Records seen.
    features
        Names of the features that had a value, in the order of their first one.
    classes
        Labels, in the order of the rows of `confusion`.
    confusion
        (classes, classes + 1): records of each label by predicted label; the last column had no prediction.
    bins
        (10, 3): for each tenth of the predicted class's probability the records, the sum of the probabilities, and how
        many of the predictions were right.
    present
        (features,): how many records had a value of each feature.

    Examples
    --------
    >>> import braided
    >>> from river import datasets
    >>> history = braided.record(braided.MODLClassifier(), datasets.Phishing())
    >>> history.records, history.learners
    (1250, ('olr', 'fourier', 'mlp', 'set'))
    >>> print(f"{history.error:.0%} wrong, calibration error {history.calibration_error:.2f}")
    9% wrong, calibration error 0.01
    """

    def __init__(self, name: str, learners: Iterable[str] = (), regression: bool = False) -> None:
        self.name = name
        self.learners = tuple(learners)
        self.regression = regression
        self.records = 0
        self.block = _FIRST_BLOCK
        self.interval = 1
        n = len(self.learners)
        self.totals = np.zeros(2 + n)
        self._points = np.zeros((0, 3 + n))
        self._blocks = np.zeros((0, _FIXED + 3 * n + 1))
        self._places: dict[Hashable, int] = {}
        self.present = np.zeros(0, dtype=np.int64)
        self._present = np.zeros((0, 0), dtype=np.int64)
        self.classes: list[Hashable] = []
        self.confusion = np.zeros((0, 1), dtype=np.int64)
        self.bins = np.zeros((BINS, 3))
        self._target = np.zeros(2)
        self._before = np.zeros(2 * n + 1)
        self._best = -1
        self.weight_names: list[Hashable] = []
        self._weights = np.zeros((0, 0, 0), dtype=np.float32)
        self._deviations = np.zeros((0, 0), dtype=np.float32)
        self.weight_mean = np.zeros((0, 0))
        self.weight_sd = np.zeros(0)

    @property
    def features(self) -> list[Hashable]:
        """Names of the features that had a value, in the order of their first one."""
        return list(self._places)

    @property
    def error(self) -> float:
        """Share of wrong predictions, or mean absolute error."""
        return float(self.totals[0] / max(self.records, 1))

    @property
    def learner_errors(self) -> dict[str, float]:
        """The same of each learner alone."""
        return dict(zip(self.learners, (self.totals[2:] / max(self.records, 1)).tolist(), strict=True))

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: the mean over records of |share right - mean probability| in their bin."""
        count, confidence, right = self.bins.T
        return float(np.abs(right - confidence).sum() / max(count.sum(), 1.0))

    def curve(self) -> Floats:
        """Rows of (records, error sum, error sum of the plain guess, error sum of each learner), the last at the end.

        The plain guess is the most frequent class so far, or the mean of the targets so far.
        """
        if len(self._points) and self._points[-1, 0] == self.records:
            return self._points
        return np.concatenate([self._points, [[self.records, *self.totals]]]) if self.records else self._points

    def window(self) -> int:
        """Records in the window of `windowed`: a twentieth of all, at least 100, but of a short stream a fifth."""
        wanted = max(self.records // 20, min(100, self.records // 5), 1)
        return -(-wanted // self.interval) * self.interval

    def windowed(self) -> Floats:
        """Like `curve`, with error sums over the `window` records up to each point; begins where a window is full."""
        rows = self._points
        back = self.window() // self.interval
        start = np.concatenate([np.zeros((1, rows.shape[1])), rows])[: max(len(rows) + 1 - back, 0)]
        full = rows[back - 1 :].copy()
        full[:, 1:] -= start[:, 1:]
        return full

    def blocks(self) -> Floats:
        """Where each block ends and how many records it has, (blocks, 2)."""
        sizes = self._blocks[:, _RECORDS]
        return np.column_stack([np.cumsum(sizes), sizes])

    def shares(self) -> Floats:
        """Mean share of each learner in each block, (blocks, learners); NaN where none was measured."""
        probed = self._blocks[:, _PROBED, None]
        return np.where(probed > 0, self._learner_columns(0) / np.maximum(probed, 1.0), np.nan)

    def skipped(self) -> NDArray[np.int64]:
        """Updates that each learner left out in each block, (blocks, learners)."""
        return self._learner_columns(1).astype(np.int64)

    def resets(self) -> NDArray[np.int64]:
        """How often each learner was reset in each block, (blocks, learners)."""
        return self._learner_columns(2).astype(np.int64)

    def drifts(self) -> NDArray[np.int64]:
        """How many drifts the model's detector found in each block, (blocks,)."""
        return self._blocks[:, -1].astype(np.int64)

    def throughput(self) -> Floats:
        """Records a second in each block, (blocks,); NaN where no time was measured."""
        seconds = self._blocks[:, _SECONDS]
        return np.where(seconds > 0, self._blocks[:, _RECORDS] / np.where(seconds > 0, seconds, 1.0), np.nan)

    def availability(self) -> Floats:
        """Share of the records of each block that had each feature, (blocks, features up to 2,000)."""
        return np.asarray(self._present / np.maximum(self._blocks[:, _RECORDS, None], 1.0))

    def weights(self) -> tuple[Floats, Floats]:
        """The fast learner's weights at the end of each block, and their standard deviations.

        (blocks, rows, features) and (blocks, features). The rows are the classes; with two classes the only one is
        the second, and with a numeric target the value. NaN where a feature was not known yet; at most 4,096 weights.
        """
        return self._weights.astype(np.float64), self._deviations.astype(np.float64)

    def _learner_columns(self, which: int) -> Floats:
        n = len(self.learners)
        return self._blocks[:, _FIXED + which * n : _FIXED + (which + 1) * n]

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        """A batch cut where a record is to be scored again; each piece must be noted before the next is asked for."""
        start = 0
        while start < len(batch):
            step = self.block // _PROBES
            stop = min(len(batch), start + step - self.records % step)
            yield batch.part(start, stop)
            start = stop

    def probe(self, model: Any, piece: Batch) -> None:
        """Before a piece is learned: measure the learners' shares on its first record, if its turn has come."""
        if self.records == 0:
            self._before = _health(model)
        if not self.learners or self.records % (self.block // _PROBES) or model.records_learned == 0:
            return
        columns = model._features.columns(list(piece.names))
        values = np.ascontiguousarray(piece.values[0], dtype=np.float64)
        seen = explain.look(model.braid, values, columns)
        shares = explain.shares(seen, self.regression, max(len(model._classes), 1))
        if shares.any():
            row = self._row()
            row[_PROBED] += 1
            row[_FIXED : _FIXED + len(shares)] += shares

    def note(self, model: Any, piece: Batch, progress: Progress, seconds: float) -> None:
        """After a piece was predicted and learned: count it."""
        losses = self._regression_losses(piece, progress) if self.regression else self._losses(model, piece, progress)
        self._count_losses(losses)
        row = self._row()
        row[_RECORDS] += len(piece)
        row[_SECONDS] += seconds
        failures = slice(_FIXED + len(self.learners), None)
        row[failures] = _health(model) - self._before - self._blocks[:-1, failures].sum(axis=0)
        self._count_present(piece)
        self.records += len(piece)
        if self.records % self.block == 0:
            self._note_weights(model)
            if len(self._blocks) == _MOST_BLOCKS:
                self._merge()

    def close(self, model: Any) -> None:
        """At the end of a stream: note the weights as they stand. Noting may go on afterwards."""
        self._note_weights(model)

    def _row(self) -> Floats:
        """The row of the current block."""
        if self.records // self.block == len(self._blocks):
            self._blocks = np.concatenate([self._blocks, np.zeros((1, self._blocks.shape[1]))])
            self._present = np.concatenate([self._present, np.zeros((1, self._present.shape[1]), dtype=np.int64)])
        return cast(Floats, self._blocks[-1])

    def _losses(self, model: Any, piece: Batch, progress: Progress) -> Floats:
        """1 where the sum, the majority class so far and each learner was wrong; counts labels and probabilities."""
        for label in model.classes[len(self.classes) :]:
            self.classes.append(label)
        known = self.confusion
        k = len(self.classes)
        if len(known) < k:
            self.confusion = np.zeros((k, k + 1), dtype=np.int64)
            self.confusion[: len(known), : len(known)] = known[:, :-1]
            self.confusion[: len(known), -1] = known[:, -1]
        place = {label: i for i, label in enumerate(self.classes)}
        truth = np.array([place[label] for label in piece.labels])
        answered = progress.predictions.any(axis=1)
        said = np.where(answered, progress.predictions.argmax(axis=1), -1)
        counts = self.confusion.sum(axis=1).tolist()
        guesses = np.empty(len(truth), dtype=np.int64)
        for t, label_place in enumerate(truth.tolist()):
            guesses[t] = self._best
            counts[label_place] += 1
            if self._best < 0 or counts[label_place] > counts[self._best]:
                self._best = label_place
        np.add.at(self.confusion, (truth, said), 1)
        confidence = progress.predictions[answered].max(axis=1) if answered.any() else np.zeros(0)
        bins = np.clip((confidence * BINS).astype(np.int64), 0, BINS - 1)
        right = (said == truth)[answered]
        np.add.at(self.bins, bins, np.column_stack([np.ones(len(bins)), confidence, right]))
        wrong = np.column_stack([said, guesses, progress.own]) != truth[:, None]
        return np.asarray(wrong, dtype=np.float64)

    def _regression_losses(self, piece: Batch, progress: Progress) -> Floats:
        """Absolute errors of the sum, the mean so far and each learner."""
        truth = np.array(piece.labels, dtype=np.float64)
        sums = np.cumsum(np.concatenate([self._target[1:], truth]))
        counts = self._target[0] + np.arange(len(truth))
        guesses = np.where(counts > 0, sums[:-1] / np.maximum(counts, 1.0), 0.0)
        self._target[:] = counts[-1] + 1, sums[-1]
        own = np.where(progress.own == progress.own, progress.own, 0.0)
        losses = np.abs(np.column_stack([progress.predictions[:, 0], guesses, own]) - truth[:, None])
        return np.nan_to_num(losses, nan=0.0, posinf=np.finfo(np.float64).max)

    def _count_losses(self, losses: Floats) -> None:
        # One long cumulative sum, so that the chunks in which records came do not matter to the last bit.
        running = np.cumsum(np.vstack([self.totals, losses]), axis=0)[1:]
        self.totals = running[-1].copy()
        numbers = self.records + 1 + np.arange(len(losses))
        keep = numbers % self.interval == 0
        rows = np.concatenate([self._points, np.column_stack([numbers, running])[keep]])
        while len(rows) > _MOST_POINTS:
            self.interval *= 2
            rows = rows[rows[:, 0] % self.interval == 0]
        self._points = rows

    def _count_present(self, piece: Batch) -> None:
        counts = (~np.isnan(piece.values)).sum(axis=0)
        for name, count in zip(piece.names, counts.tolist(), strict=True):
            if count and name not in self._places:
                self._places[name] = len(self._places)
        more = len(self._places) - self.present.size
        if more:
            self.present = np.concatenate([self.present, np.zeros(more, dtype=np.int64)])
            wider = min(len(self._places), MOST_FEATURES) - self._present.shape[1]
            self._present = np.pad(self._present, ((0, 0), (0, wider)))
        places = np.array([self._places.get(name, -1) for name in piece.names], dtype=np.int64)
        self.present[places[counts > 0]] += counts[counts > 0]
        followed = (places >= 0) & (places < MOST_FEATURES)
        self._present[-1, places[followed]] += counts[followed]

    def _note_weights(self, model: Any) -> None:
        """Keep the fast learner's weights as those of the current block."""
        learner = explain.fast_learner(model.braid) if isinstance(model, MODL) else None
        if learner is None or learner.n_outputs == 0 or not len(self._blocks):
            return
        posterior = explain.posterior(learner)
        mean = posterior.mean[-1:] if learner.n_outputs == 2 else posterior.mean
        self.weight_names = model.feature_names
        self.weight_mean = mean[:, posterior.value_at].copy()
        self.weight_sd = np.sqrt(posterior.variances[posterior.value_at])
        rows, width = len(mean), min(learner.n_features, MOST_WEIGHTS // len(mean))
        fresh = np.full((len(self._blocks), rows, width), np.nan, dtype=np.float32)
        deviations = np.full((len(self._blocks), width), np.nan, dtype=np.float32)
        n, old_rows, old_width = self._weights.shape
        kept = min(width, old_width)
        if old_rows == 1 and rows > 1:  # two classes had one vector between them
            fresh[:n, 0, :kept] = -self._weights[:, 0, :kept]
            fresh[:n, 1, :kept] = self._weights[:, 0, :kept]
        else:
            fresh[:n, :old_rows, :kept] = self._weights[:, :, :kept]
        deviations[:n, :kept] = self._deviations[:, :kept]
        fresh[-1], deviations[-1] = self.weight_mean[:, :width], self.weight_sd[:width]
        self._weights, self._deviations = fresh, deviations

    def _merge(self) -> None:
        """Make one block of every two: counts add up, weights are those at the later end."""
        self.block *= 2
        self._blocks = self._blocks[::2] + self._blocks[1::2]
        self._present = self._present[::2] + self._present[1::2]
        self._weights, self._deviations = self._weights[1::2].copy(), self._deviations[1::2].copy()

    _ARRAYS = (
        "totals", "_points", "_blocks", "present", "_present", "confusion", "bins", "_target", "_before",
        "_weights", "_deviations", "weight_mean", "weight_sd",
    )  # fmt: skip
    _NUMBERS = ("name", "learners", "regression", "records", "block", "interval", "_best")
    _NAMES = ("features", "classes", "weight_names")

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and named arrays to go on from."""
        metadata: dict[str, Any] = {name: getattr(self, name) for name in self._NUMBERS}
        metadata |= {name: [pack_name(item) for item in getattr(self, name)] for name in self._NAMES}
        return metadata, {name: getattr(self, name) for name in self._ARRAYS}

    @classmethod
    def restore(cls, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> History:
        """The inverse of `state`."""
        history = cls(metadata["name"], metadata["learners"], metadata["regression"])
        for name in ("records", "block", "interval", "_best"):
            setattr(history, name, metadata[name])
        history._places = {unpack_name(name): i for i, name in enumerate(metadata["features"])}
        history.classes = [unpack_name(name) for name in metadata["classes"]]
        history.weight_names = [unpack_name(name) for name in metadata["weight_names"]]
        for name in cls._ARRAYS:
            setattr(history, name, arrays[name].copy())
        without_drifts = len(metadata["learners"]) * 3 + _FIXED
        if history._blocks.shape[1] == without_drifts:  # of a braided that did not keep them
            history._blocks = np.pad(history._blocks, ((0, 0), (0, 1)))
            history._before = np.pad(history._before, (0, 1))
        return history


def _health(model: Any) -> Floats:
    """Updates that each learner has skipped, then how often each was reset, then drifts."""
    counts = [one[key] for key in ("skipped", "resets") for one in model.health.values()]
    return np.array([*counts, getattr(model, "drifts", 0)], dtype=np.float64)


class _RiverRegressor:
    """A River regressor with the chunk interface of our own."""

    learner_names: tuple[str, ...] = ()
    classes: tuple[Hashable, ...] = ()
    health: Mapping[str, Mapping[str, int]] = {}

    def __init__(self, model: base.Regressor) -> None:
        self.model = model

    def predict_learn_many(self, X: Floats, y: list[Any], names: tuple[Hashable, ...]) -> Progress:
        said = np.zeros((len(X), 1))
        for t, (row, target) in enumerate(zip(X.tolist(), y, strict=True)):
            x = {name: value for name, value in zip(names, row, strict=True) if value == value}
            said[t] = self.model.predict_one(x)
            self.model.learn_one(x, target)
        return Progress(said, np.zeros((len(X), 0)))


def _batches(stream: Any) -> Iterator[Batch]:
    """A stream of ours, or pairs (x, y) collected into batches."""
    if hasattr(stream, "batches"):
        yield from cast(Stream, stream).batches()
        return
    pairs = iter(stream)
    seen = 0
    while chunk := list(islice(pairs, _CHUNK)):
        for pair in chunk:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], Mapping):
                raise BraidedError(f"record {seen + 1} of the stream is {pair!r:.60}: give pairs (dict of features, y)")
            seen += 1
        names = tuple(dict.fromkeys(name for x, _ in chunk for name in x))
        values = np.array([[_number(x.get(name)) for name in names] for x, _ in chunk], dtype=object)
        labels = [y.item() if isinstance(y, np.generic) else y for _, y in chunk]
        yield Batch(names, _as_floats(names, values.reshape(len(chunk), len(names)), seen - len(chunk)), labels)


def _number(value: Any) -> Any:
    return np.nan if value is None else value


def _as_floats(names: tuple[Hashable, ...], values: NDArray[Any], before: int) -> Floats:
    from braided.values import as_number

    try:
        floats = values.astype(np.float64)
        if not np.isinf(floats).any() and not any(isinstance(value, str) for value in values.flat):
            return np.ascontiguousarray(floats)
    except (TypeError, ValueError, OverflowError):
        pass
    rows = [
        [as_number(name, value, before + i + 1) for name, value in zip(names, row, strict=True)]
        for i, row in enumerate(values.tolist())
    ]
    return np.array(rows, dtype=np.float64).reshape(values.shape)


def record(model: Any, stream: Any, name: str | None = None, into: History | None = None) -> History:
    """Teach a model a stream, record by record, each predicted first, and keep what there is to see.

    Parameters
    ----------
    model
        A `MODLClassifier` or `MODLRegressor`, or any River classifier or regressor to compare with. It learns.
    stream
        Pairs (x, y), such as River's data sets, or a stream of `braided.streams`.
    name
        What plots call the model; its class's name if not given.
    into
        A history of the same model to go on with; a new one if not given.

    Returns
    -------
    The history, for `braided.plot`.

    Examples
    --------
    >>> import braided
    >>> from river import datasets
    >>> history = braided.record(braided.MODLRegressor(), datasets.TrumpApproval())
    >>> print(f"mean absolute error {history.error:.1f}")
    mean absolute error 0.3
    """
    plain = model
    if not isinstance(model, MODL | RiverModel):
        if isinstance(model, base.Regressor):
            model = _RiverRegressor(model)
        elif isinstance(model, base.Classifier) or hasattr(model, "predict_proba_one"):
            model = RiverModel(model)
        else:
            raise BraidedError(f"model is {plain!r:.60}: give a classifier or regressor of braided or River")
    regression = isinstance(model, _RiverRegressor) or (isinstance(model, MODL) and model._regression)
    if into is None:
        into = History(name or type(plain).__name__, model.learner_names, regression)
    elif (into.learners, into.regression) != (tuple(model.learner_names), regression):
        raise BraidedError("into is the history of another kind of model: give one that this model has begun")
    for batch in _batches(stream):
        for piece in into.pieces(batch):
            into.probe(model, piece)
            start = time.perf_counter()
            progress = model.predict_learn_many(piece.values, piece.labels, piece.names)
            into.note(model, piece, progress, time.perf_counter() - start)
    into.close(model)
    return into
