"""What happened in a run, kept small: a tally, and what a report shows over time.

The memory used does not depend on the number of records: curves have at most 2,000 points and all else is counted in at
most 64 blocks of equal length, merged in pairs when a stream proves longer. Everything but the times follows from the
records in their order, however they were chunked.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import checks, extras
from braided.errors import BraidedError
from braided.estimators import explain
from braided.estimators.base import MODL
from braided.evaluation.availability import MAX_FEATURES, Places, add_at
from braided.evaluation.summary import error_text, history_card
from braided.evaluation.tally import Tally
from braided.files import write_atomically
from braided.kernels.coverage import LEVELS
from braided.kernels.tally import count_present
from braided.records import Predictions, Records
from braided.store import (
    MAX_COUNT,
    REMEDY,
    Array,
    check,
    checked,
    counts,
    length,
    pack_name,
    prefixed,
    unpack_names,
    unprefixed,
)

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
_MAX_BLOCKS, _FIRST_BLOCK = 64, 64
_WHAT = "state of a history"
#: What draws a history is a layer above it, found by its name when it is asked for: what counts depends on no picture.
_PICTURES, _PAGE = "braided.plot", "braided.report.page.of_histories"
#: Features that are left out of a record at most, to see what they add.
_LEFT_OUT = 16
#: Names whose effects are kept.
_MAX_EFFECTS = 2_000
#: What adds up where blocks are merged, and has a row from a block's first record on; weights have one at its end.
_SUMS = ("records", "seconds", "measured", "shares", "failures", "present", "covered")
#: Weights (features times classes) that are followed over time.
MAX_WEIGHTS = 4_096


class _BlockRows:
    """An array with a row per block, in memory for as many blocks as there may be: a new block copies nothing.

    Parameters
    ----------
    shape
        The shape of a row.
    dtype
        What it holds.
    blank
        Its value until something was counted.
    """

    def __init__(self, *shape: int, dtype: Any = np.float64, blank: float = 0) -> None:
        self.blank = blank
        self._memory = np.full((_MAX_BLOCKS, *shape), blank, dtype=dtype)
        self._n = 0

    @property
    def rows(self) -> NDArray[Any]:
        """The rows there are; a view."""
        return self._memory[: self._n]

    def replace(self, rows: NDArray[Any]) -> None:
        """Have these rows alone."""
        self.widen(*rows.shape[1:])
        self._n = len(rows)
        self._memory[: self._n] = rows

    def lengthen(self, n: int) -> None:
        """Add blank rows until there are `n`."""
        self._memory[self._n : n] = self.blank
        self._n = n

    def widen(self, *shape: int) -> None:
        """Give each row this shape, keeping what fits."""
        if shape != self._memory.shape[1:]:
            kept = tuple(slice(min(old, new)) for old, new in zip(self._memory.shape[1:], shape, strict=True))
            old, self._memory = self.rows, np.full((_MAX_BLOCKS, *shape), self.blank, dtype=self._memory.dtype)
            self._memory[(slice(self._n), *kept)] = old[(slice(None), *kept)]


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
    tally
        What is counted of the predictions: see `Tally`.
    features
        Names of the features that had a value, in the order of their first one.
    present
        (features,): how many records had a value of each feature.

    Examples
    --------
    >>> import braided
    >>> from river import datasets
    >>> history = braided.record(braided.MODLClassifier(), datasets.Phishing())
    >>> history.records, history.learners
    (1250, ('olr', 'olr 2', 'olr 3', 'fourier', 'fourier 2', 'mlp', 'recent', 'forest'))
    >>> print(f"{history.error:.0%} wrong, calibration error {history.calibration_error:.2f}")
    9% wrong, calibration error 0.01
    >>> print(f"ROC AUC {history.metrics()['roc_auc']:.2f}")
    ROC AUC 0.97
    """

    def __init__(self, name: str, learners: Iterable[str] = (), regression: bool = False) -> None:
        self.tally = Tally(learners, regression)
        self.name = name
        self.block = _FIRST_BLOCK
        n = len(self.tally.learners)
        self._by_block = {
            "records": _BlockRows(),
            "seconds": _BlockRows(),
            "measured": _BlockRows(),
            "shares": _BlockRows(n),
            "failures": _BlockRows(2 * n + 1),
            "present": _BlockRows(0, dtype=np.int64),
            "covered": _BlockRows(2 * len(LEVELS), dtype=np.int64),
            "weights": _BlockRows(0, 0, dtype=np.float32, blank=np.nan),
            "deviations": _BlockRows(0, dtype=np.float32, blank=np.nan),
        }
        self._places = Places()
        #: The model's failures, and for each level how many records were judged and how many held, when last looked at.
        self._latest_health = np.zeros(2 * n + 1)
        self._latest_covered = np.zeros(2 * len(LEVELS), dtype=np.int64)
        self._begun = False
        #: For each feature, or column of raw records, the sum of its absolute effects, and how many records it is of.
        self._effects = np.zeros((0, 2))
        self._effect_names: dict[Hashable, int] = {}
        #: Gives the column of each feature that has another name, where the stream is of raw records.
        self.columns: Callable[[], Mapping[Hashable, Hashable]] = dict
        self._turn = 0
        self.weight_names: list[Hashable] = []
        self.weight_mean = np.zeros((0, 0))
        self.weight_sd = np.zeros(0)

    @property
    def learners(self) -> tuple[str, ...]:
        """Names of the learners."""
        return self.tally.learners

    @property
    def regression(self) -> bool:
        """Whether targets are numbers."""
        return self.tally.regression

    @property
    def records(self) -> int:
        """Records seen."""
        return self.tally.records

    @property
    def error(self) -> float:
        """Share of wrong predictions, or mean absolute error."""
        return self.tally.error

    @property
    def learner_errors(self) -> dict[str, float]:
        """The same of each learner alone."""
        return self.tally.learner_errors

    @property
    def classes(self) -> list[Hashable]:
        """Labels, in the order of the rows of `confusion`."""
        return self.tally.classes

    @property
    def confusion(self) -> NDArray[np.int64]:
        """(classes, classes + 1): records of each label by predicted label; the last column had no prediction."""
        return self.tally.confusion

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: see `Tally`."""
        return self.tally.calibration_error

    @property
    def n_last(self) -> int:
        """Records that `window_metrics` is of: the last 1,000, or all if there were fewer."""
        return self.tally.n_last

    def metrics(self) -> dict[str, float | None]:
        """Every metric over the whole stream; None where it is not defined."""
        return self.tally.metrics()

    def window_metrics(self) -> dict[str, float | None]:
        """Every metric over the last records."""
        return self.tally.window_metrics()

    def per_class(self) -> dict[Hashable, dict[str, Any]]:
        """Precision, recall, F1 and support of each class."""
        return self.tally.per_class()

    def _rows(self, name: str) -> NDArray[Any]:
        """What was counted in each block; a view."""
        return self._by_block[name].rows

    @property
    def features(self) -> list[Hashable]:
        """Names of the features that had a value, in the order of their first one."""
        return list(self._places.places)

    @property
    def present(self) -> NDArray[np.int64]:
        """(features,): how many records had a value of each feature."""
        return self._places.present

    def curve(self) -> Floats:
        """Rows of (records, error sum, those of the two plain guesses, that of each learner), the last at the end.

        The plain guesses are of the labels that have arrived: the most frequent class, or the mean of the targets; and
        the last one.
        """
        return self.tally.loss_curve.table()

    def __repr__(self) -> str:
        return f"<History of {self.name}: {self.records:,} records, error {error_text(self.tally, self.error)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        windowed = self.windowed() if self.records else np.zeros((0, 1 + len(self.tally.totals)))
        return history_card(self.name, self.tally, windowed, self.window() if self.records else 1)

    def plot(self, kind: str = "error", ax: Any = None, **options: Any) -> Any:
        """Draw the history, on `ax` or on new axes, and return them.

        Parameters
        ----------
        kind
            A function of `braided.plot`: availability, calibration, confusion, coverage, error, failures, learners,
            shares, throughput or weights.
        ax
            Matplotlib's axes.
        options
            For that function, such as `windowed=True`.

        Examples
        --------
        >>> import braided
        >>> from river import datasets
        >>> history = braided.record(braided.MODLClassifier("lean"), datasets.Phishing())
        >>> history.plot(windowed=True).get_ylabel()
        'errors in the last 100 records'
        """
        draw = extras.require(_PICTURES, "plot")
        checks.choice("kind of plot", kind, draw.__all__)
        return getattr(draw, kind)(self, ax=ax, **options)

    def report(self, path: str | os.PathLike[str], *others: History, title: str = "") -> Path:
        """Write a report as `braided run --out` does: one HTML file with pictures and tables, that needs nothing else.

        Parameters
        ----------
        path
            The file.
        others
            Histories to compare with, of other models, or of the same name as other seeds.
        title
            What it is of; the names of the models if not given.

        Returns
        -------
        The path of the file.
        """
        extras.require("matplotlib", "plot")
        page = extras.require(_PAGE, "plot").page_of_histories([self, *others], title)
        file = Path(path)
        try:
            write_atomically(file, page.encode(errors="backslashreplace"))
        except OSError as error:
            raise BraidedError(
                f"report {file} cannot be written: {error.strerror or error}; give another path"
            ) from None
        return file

    def window(self) -> int:
        """Records in the window of `windowed`: a twentieth of all, at least 100, but of a short stream a fifth."""
        wanted = max(self.records // 20, min(100, self.records // 5), 1)
        return -(-wanted // self.tally.loss_curve.interval) * self.tally.loss_curve.interval

    def windowed(self) -> Floats:
        """Like `curve`, with error sums over the `window` records up to each point; begins where a window is full."""
        return self.tally.loss_curve.windowed(self.window())

    def blocks(self) -> Floats:
        """Where each block ends and how many records it has, (blocks, 2)."""
        sizes = self._rows("records")
        return np.column_stack([np.cumsum(sizes), sizes])

    def shares(self) -> Floats:
        """Mean share of each learner in each block, (blocks, learners); NaN where none was measured.

        Measured on the last record of each block, before blocks are merged; `estimators.explain` has the formula. The
        scores are those it was predicted from, the combiner's weights those after it was learned.
        """
        measured = self._rows("measured")[:, None]
        return np.where(measured > 0, self._rows("shares") / np.maximum(measured, 1.0), np.nan)

    def skipped(self) -> NDArray[np.int64]:
        """Updates that each learner left out in each block, (blocks, learners)."""
        return self._rows("failures")[:, : len(self.learners)].astype(np.int64)

    def resets(self) -> NDArray[np.int64]:
        """How often each learner was reset in each block, (blocks, learners)."""
        return self._rows("failures")[:, len(self.learners) : -1].astype(np.int64)

    def drifts(self) -> NDArray[np.int64]:
        """How many drifts the model's detector found in each block, (blocks,)."""
        return self._rows("failures")[:, -1].astype(np.int64)

    def throughput(self) -> Floats:
        """Records per second in each block, (blocks,); NaN where no time was measured."""
        seconds = self._rows("seconds")
        return np.where(seconds > 0, self._rows("records") / np.where(seconds > 0, seconds, 1.0), np.nan)

    def availability(self) -> Floats:
        """Share of the records of each block that had each feature, (blocks, features up to 2,000)."""
        return np.asarray(self._rows("present") / np.maximum(self._rows("records")[:, None], 1.0))

    def importance(self) -> list[tuple[Hashable, float, int]]:
        """Each feature with the mean size of what it added to an answer, and over how many records, the largest first.

        Of classes the size is how much of the probability would move without it, from 0 to 1; of numbers it is in the
        target's own unit. Measured on the last record of each block before blocks are merged, on 16 features at most
        each time; see `MODLClassifier.explain_one`. Of raw records, features are columns, left out whole.
        """
        found = [
            (name, float(self._effects[place, 0] / self._effects[place, 1]), int(self._effects[place, 1]))
            for name, place in self._effect_names.items()
            if self._effects[place, 1]
        ]
        return sorted(found, key=lambda item: -item[1])

    def coverage(self) -> Floats:
        """Share of the records of each block whose interval or set held the truth, (blocks, levels).

        The levels are 0.5, 0.6, 0.7, 0.8, 0.9, 0.95 and 0.99; NaN where the model could not say yet, or says nothing.
        """
        judged, held = np.split(self._rows("covered").reshape(-1, len(LEVELS), 2).astype(float), 2, axis=2)
        return np.where(judged > 0, held / np.maximum(judged, 1.0), np.nan)[:, :, 0]

    def coverage_shares(self) -> dict[float, float]:
        """The same over all blocks, by level, for those that were judged."""
        totals = self._rows("covered").sum(axis=0).reshape(-1, 2).tolist()
        return {level: held / judged for level, (judged, held) in zip(LEVELS, totals, strict=True) if judged}

    def weights(self) -> tuple[Floats, Floats]:
        """The fast learner's weights at the end of each block, and their standard deviations.

        (blocks, rows, features) and (blocks, features). The rows are the classes; with two classes the only one is
        the second, and with a numeric target the value. NaN where a feature was not known yet; at most 4,096 weights.
        """
        return self._rows("weights").astype(np.float64), self._rows("deviations").astype(np.float64)

    def pieces(self, batch: Records) -> Iterator[Records]:
        """A batch cut where blocks end; each piece must be added before the next is asked for."""
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + self.block - self.records % self.block)
            yield batch.part(start, stop)
            start = stop

    def add(
        self,
        model: Any,
        piece: Records,
        predictions: Predictions,
        seconds: float,
        arrived: Sequence[Any] | None = None,
    ) -> None:
        """Count a piece after it was predicted and learned; `arrived` as of `Tally.add`."""
        if self.records % self.block == 0:
            n = len(self._rows("records")) + 1
            for name in _SUMS:
                self._by_block[name].lengthen(n)
        self._rows("records")[-1] += len(piece)
        self._rows("seconds")[-1] += seconds
        health = _health(model)
        self._rows("failures")[-1] += health - self._latest_health
        self._latest_health = health
        self._add_covered(model)
        self._add_present(piece)
        self.tally.add(predictions, piece.known_targets, model.classes, arrived)
        if self.records % self.block == 0:
            self._measure_shares(model)
            self._measure_effects(model, piece)
            self._follow_weights(model)
            if len(self._rows("records")) == _MAX_BLOCKS:
                self._merge()

    def add_labels(self, labels: Sequence[Any]) -> None:
        """Count labels of earlier records that have arrived: see `Tally`."""
        self.tally.add_labels(labels)

    def begin(self, model: Any) -> None:
        """Before the first record: what a model has skipped, reset and judged until now is not of this stream."""
        if not self._begun:
            self._latest_health, self._latest_covered, self._begun = _health(model), _covered(model), True

    def close(self, model: Any) -> None:
        """At the end of a stream: take the last weights and late labels. Records may be added afterwards."""
        self.begin(model)
        if len(self._rows("covered")):
            self._add_covered(model)
        self._follow_weights(model)

    def _measure_shares(self, model: Any) -> None:
        """Take the learners' shares from the scores of the record that was learned last."""
        record = model.braid.last_scored() if isinstance(model, MODL) else None
        if record is None:
            return
        shares = explain.shares(model.braid, record, max(len(model.classes), 1))
        if shares.any():
            self._rows("measured")[-1] += 1
            self._rows("shares")[-1] += shares

    def _measure_effects(self, model: Any, piece: Records) -> None:
        """Leave out some features of the record that was learned last, each by itself; others the next time."""
        if not isinstance(model, MODL) or model.records_learned == 0:
            return
        row = piece.values[-1]
        x = {name: float(value) for name, value in zip(piece.names, row, strict=True) if value == value}
        groups = explain.by_column(x, self.columns())
        names = list(groups)
        some = [names[(self._turn + i) % len(names)] for i in range(min(len(names), _LEFT_OUT))]
        self._turn += len(some)
        with model.lock:
            found = explain.effects(model.core, x, {name: groups[name] for name in some})
        for name, effects in found.items():
            size = sum(map(abs, effects.values())) / (1 if self.regression else 2)
            if np.isfinite(size) and (name in self._effect_names or len(self._effects) < _MAX_EFFECTS):
                place = self._effect_names.setdefault(name, len(self._effects))
                if place == len(self._effects):
                    self._effects = np.concatenate([self._effects, np.zeros((1, 2))])
                self._effects[place] += size, 1.0

    def _add_covered(self, model: Any) -> None:
        """Count what was judged since the last time in the current block."""
        covered = _covered(model)
        self._rows("covered")[-1] += covered - self._latest_covered
        self._latest_covered = covered

    def _add_present(self, piece: Records) -> None:
        counts = count_present(np.ascontiguousarray(piece.values, dtype=np.float64))
        places = self._places.count(piece.names, counts)
        present = self._by_block["present"]
        present.widen(min(len(self._places.places), MAX_FEATURES))
        add_at(present.rows[-1], places, counts)

    def _follow_weights(self, model: Any) -> None:
        """Keep the fast learner's weights as those of the current block."""
        learner = explain.fast_learner(model.braid) if isinstance(model, MODL) else None
        n_blocks = len(self._rows("records"))
        if learner is None or learner.n_outputs == 0 or not n_blocks:
            return
        self.weight_mean, self.weight_sd = explain.weights(learner)
        names_before, self.weight_names = self.weight_names, model.feature_names
        rows = len(self.weight_mean)
        width = min(learner.n_features, MAX_WEIGHTS // rows)
        weights, deviations = self._by_block["weights"], self._by_block["deviations"]
        two_classes = weights.rows.shape[1] == 1 and rows > 1
        weights.widen(rows, width)
        deviations.widen(width)
        if two_classes:  # they had one vector between them
            weights.rows[:, 1] = weights.rows[:, 0]
            weights.rows[:, 0] = -weights.rows[:, 0]
        pairs = zip(names_before[:width], self.weight_names, strict=False)
        others = [slot for slot, (before, now) in enumerate(pairs) if before != now]
        for followed, latest in ((weights, self.weight_mean[:, :width]), (deviations, self.weight_sd[:width])):
            followed.rows[..., others] = np.nan  # of the name that gave the slot up
            followed.lengthen(n_blocks)
            followed.rows[-1] = latest

    def _merge(self) -> None:
        """Make one block of every two: counts add up, weights are those at the later end."""
        self.block *= 2
        for name, followed in self._by_block.items():
            earlier, later = followed.rows[::2], followed.rows[1::2]
            followed.replace(earlier + later if name in _SUMS else later.copy())

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and named arrays to go on from."""
        tally, tally_arrays = self.tally.state()
        metadata = {
            "name": self.name,
            "learners": list(self.learners),
            "regression": self.regression,
            "block": self.block,
            "turn": self._turn,
            "features": self._places.names(),
            "effect_names": [pack_name(name) for name in self._effect_names],
            "weight_names": [pack_name(name) for name in self.weight_names],
            "tally": tally,
        }
        arrays = {name: getattr(self, name) for name in _ARRAYS} | prefixed("tally", tally_arrays)
        return metadata, arrays | prefixed("blocks", {name: rows.rows for name, rows in self._by_block.items()})

    @classmethod
    def restore(cls, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> History:
        """The inverse of `state`."""
        name, regression = checked(_WHAT, metadata, "name", str), checked(_WHAT, metadata, "regression", bool)
        learners = unpack_names("learners", metadata.get("learners"))
        history = cls(name, [str(learner) for learner in learners], regression)
        history.tally.load_state(checked(_WHAT, metadata, "tally", dict), unprefixed("tally", arrays))
        history.block = checked(_WHAT, metadata, "block", int, 1)
        history._turn = checked(_WHAT, metadata, "turn", int)
        history._places.load(metadata.get("features"), arrays)
        history.weight_names = unpack_names("features with weights", metadata.get("weight_names"))
        effect_names = unpack_names("features left out", metadata.get("effect_names"))
        schema = {
            "weight_mean": Array((None, len(history.weight_names)), finite=False),
            "weight_sd": Array((len(history.weight_names),), finite=False),
            "_effects": Array((len(effect_names), 2), low=0.0, high=np.array([np.inf, MAX_COUNT])),
        }
        check(_WHAT, schema, arrays)
        for attribute in _ARRAYS[1:]:
            setattr(history, attribute, arrays[attribute].copy())
        history._effect_names = {name: place for place, name in enumerate(effect_names)}
        by_block = unprefixed("blocks", arrays)
        check(_WHAT, history._block_schema(by_block), by_block)
        if max(math.prod(by_block[name].shape[1:]) for name in ("weights", "deviations")) > MAX_WEIGHTS:
            raise BraidedError(f"{_WHAT} has more than {MAX_WEIGHTS} weights: {REMEDY}")
        for name, followed in history._by_block.items():
            followed.replace(by_block[name])
        return history

    def _block_schema(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
        """What the arrays with a row for each block must be."""
        blocks = -(-self.records // self.block)
        if blocks >= _MAX_BLOCKS:
            raise BraidedError(f"{_WHAT}: {self.records} records do not fit its blocks: {REMEDY}")
        weights = min(length(arrays, "weights"), blocks)
        shapes: dict[str, tuple[int, ...]] = {"records": (), "seconds": (), "measured": ()}
        shapes |= {name: self._rows(name).shape[1:] for name in ("shares", "failures")}
        sums = {name: Array((blocks, *shape), low=0.0, high=MAX_COUNT) for name, shape in shapes.items()}
        return {
            **sums,
            "present": counts(blocks, min(len(self.features), MAX_FEATURES)),
            "covered": counts(blocks, 2 * len(LEVELS)),
            "weights": Array((weights, None, None), "float32", finite=False),
            "deviations": Array((weights, None), "float32", finite=False),
        }


#: Attributes that a state holds; the first is taken over with the features.
_ARRAYS = ("present", "weight_mean", "weight_sd", "_effects")


def _health(model: Any) -> Floats:
    """Updates that each learner has skipped, then how often each was reset, then drifts."""
    counts = [one[key] for key in ("skipped", "resets") for one in model.health.values()]
    return np.array([*counts, getattr(model, "drifts", 0)], dtype=np.float64)


def _covered(model: Any) -> NDArray[np.int64]:
    """For each level how many records a model has judged, and how many held; 0 for River's models."""
    return (
        model.core.coverage.covered.flatten() if isinstance(model, MODL) else np.zeros(2 * len(LEVELS), dtype=np.int64)
    )
