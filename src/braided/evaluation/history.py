"""What happened in a run, kept small: a tally, and what a report shows over time.

The memory used does not depend on the number of records: curves have at most 2,000 points and all else is counted in at
most 64 blocks of equal length, merged in pairs when a stream proves longer. Everything but the times follows from the
records in their order, however they were chunked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from braided import checks, extras
from braided.checkpoint import pack_name, unpack_names, write_atomically
from braided.errors import BraidedError
from braided.estimators import explain
from braided.estimators.base import MODL
from braided.estimators.columns import by_column
from braided.evaluation.availability import MOST_FEATURES, Places, add_at
from braided.evaluation.history_card import history_card, told
from braided.evaluation.tally import Tally
from braided.kernels.coverage import LEVELS
from braided.kernels.tally import count_present
from braided.records import Predictions
from braided.state import MOST_COUNT, ArrayRule, check_arrays, checked, counts, length
from braided.streams import Batch

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
_MOST_BLOCKS, _FIRST_BLOCK = 64, 64
_WHAT = "state of a history"
#: What draws a history is a layer above it, found by its name when it is asked for: what counts depends on no picture.
_PICTURES, _PAGE = "braided.plot", "braided.report.page.of_histories"
#: Features that are left out of a record at most, to see what they add.
_LEFT_OUT = 16
#: Names whose effects are kept.
_MOST_EFFECTS = 2_000
#: Rows of blocks that add up where blocks are merged.
_COUNTED = ("_blocks", "_present", "_covered")
#: Weights (features times classes) that are followed over time.
MOST_WEIGHTS = 4_096
# Columns of the blocks, before three for each learner (its shares, skipped updates, resets) and one for drifts.
_RECORDS, _SECONDS, _MEASURED, _FIXED = 0, 1, 2, 3


class _BlockRows:
    """An array with a row per block, in memory for as many blocks as there may be: a new block copies nothing.

    Parameters
    ----------
    rows
        The rows to begin with.
    blank
        What stands where nothing was noted.
    """

    def __init__(self, rows: NDArray[Any], blank: float = 0) -> None:
        self.blank = blank
        self._memory = np.full((_MOST_BLOCKS, *rows.shape[1:]), blank, dtype=rows.dtype)
        self.replace(rows)

    @property
    def rows(self) -> NDArray[Any]:
        """The rows there are; a view."""
        return self._memory[: self._n]

    def replace(self, rows: NDArray[Any]) -> None:
        """Have these rows alone."""
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
            old, self._memory = self.rows, np.full((_MOST_BLOCKS, *shape), self.blank, dtype=self._memory.dtype)
            self._memory[(slice(self._n), *kept)] = old[(slice(None), *kept)]


class History(Tally):
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
    (1250, ('olr', 'olr 2', 'olr 3', 'fourier', 'fourier 2', 'mlp', 'recent', 'forest'))
    >>> print(f"{history.error:.0%} wrong, calibration error {history.calibration_error:.2f}")
    9% wrong, calibration error 0.01
    >>> print(f"ROC AUC {history.metrics()['roc_auc']:.2f}")
    ROC AUC 0.97
    """

    def __init__(self, name: str, learners: Iterable[str] = (), regression: bool = False) -> None:
        super().__init__(learners, regression)
        self.name = name
        self.block = _FIRST_BLOCK
        n = len(self.learners)
        self._by_block = {
            "_blocks": _BlockRows(np.zeros((0, _FIXED + 3 * n + 1))),
            "_present": _BlockRows(np.zeros((0, 0), dtype=np.int64)),
            "_weights": _BlockRows(np.zeros((0, 0, 0), dtype=np.float32), np.nan),
            "_deviations": _BlockRows(np.zeros((0, 0), dtype=np.float32), np.nan),
            "_covered": _BlockRows(np.zeros((0, 2 * len(LEVELS)), dtype=np.int64)),
        }
        self._places = Places()
        self._before = np.zeros(2 * n + 1)
        self._health_noted = self._before
        #: For each level how many records were judged and how many held, before this stream and so far.
        self._covered_before = np.zeros(2 * len(LEVELS), dtype=np.int64)
        self._covered_noted = self._covered_before
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
    def _blocks(self) -> Floats:
        return self._by_block["_blocks"].rows

    @property
    def features(self) -> list[Hashable]:
        """Names of the features that had a value, in the order of their first one."""
        return list(self._places.places)

    @property
    def present(self) -> NDArray[np.int64]:
        """(features,): how many records had a value of each feature."""
        return self._places.present

    @property
    def interval(self) -> int:
        """Records from one point of the curve to the next."""
        return self.loss_curve.interval

    def curve(self) -> Floats:
        """Rows of (records, error sum, those of the two plain guesses, that of each learner), the last at the end.

        The plain guesses are of the labels that have come: the most frequent class, or the mean of the targets; and
        the last one. NaN stands for what an earlier version has not counted.
        """
        return self.loss_curve.table()

    def __repr__(self) -> str:
        return f"<History of {self.name}: {self.records:,} records, error {told(self, self.error)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        windowed = self.windowed() if self.records else np.zeros((0, 1 + len(self.totals)))
        return history_card(self.name, self, windowed, self.window() if self.records else 1)

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
        return -(-wanted // self.interval) * self.interval

    def windowed(self) -> Floats:
        """Like `curve`, with error sums over the `window` records up to each point; begins where a window is full."""
        return self.loss_curve.windowed(self.window())

    def blocks(self) -> Floats:
        """Where each block ends and how many records it has, (blocks, 2)."""
        sizes = self._blocks[:, _RECORDS]
        return np.column_stack([np.cumsum(sizes), sizes])

    def shares(self) -> Floats:
        """Mean share of each learner in each block, (blocks, learners); NaN where none was measured.

        Measured on the last record of each block, before blocks are merged; `estimators.explain` has the formula. The
        scores are those it was predicted from, the combiner's weights those after it was learned.
        """
        measured = self._blocks[:, _MEASURED, None]
        return np.where(measured > 0, self._learner_columns(0) / np.maximum(measured, 1.0), np.nan)

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
        """Records per second in each block, (blocks,); NaN where no time was measured."""
        seconds = self._blocks[:, _SECONDS]
        return np.where(seconds > 0, self._blocks[:, _RECORDS] / np.where(seconds > 0, seconds, 1.0), np.nan)

    def availability(self) -> Floats:
        """Share of the records of each block that had each feature, (blocks, features up to 2,000)."""
        return np.asarray(self._by_block["_present"].rows / np.maximum(self._blocks[:, _RECORDS, None], 1.0))

    def importance(self) -> list[tuple[Hashable, float, int]]:
        """Each feature with the mean size of what it added to an answer, and over how many records, the largest first.

        Of classes the size is how much of the probability would move without it, from 0 to 1; of numbers it is in the
        target's own unit. Measured on the last record of each block before blocks are merged, on 16 features at most
        each time; see `MODLClassifier.effects_one`. Of raw records, features are columns, left out whole.
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
        judged, held = np.split(self._by_block["_covered"].rows.reshape(-1, len(LEVELS), 2).astype(float), 2, axis=2)
        return np.where(judged > 0, held / np.maximum(judged, 1.0), np.nan)[:, :, 0]

    def coverage_shares(self) -> dict[float, float]:
        """The same over all blocks, by level; without the levels for which there is none."""
        totals = self._by_block["_covered"].rows.sum(axis=0).reshape(-1, 2).tolist()
        return {level: held / judged for level, (judged, held) in zip(LEVELS, totals, strict=True) if judged}

    def weights(self) -> tuple[Floats, Floats]:
        """The fast learner's weights at the end of each block, and their standard deviations.

        (blocks, rows, features) and (blocks, features). The rows are the classes; with two classes the only one is
        the second, and with a numeric target the value. NaN where a feature was not known yet; at most 4,096 weights.
        """
        weights, deviations = (self._by_block[name].rows for name in ("_weights", "_deviations"))
        return weights.astype(np.float64), deviations.astype(np.float64)

    @property
    def _failures(self) -> slice:
        """The columns of the blocks that follow a model's health."""
        return slice(_FIXED + len(self.learners), None)

    def _learner_columns(self, which: int) -> Floats:
        n = len(self.learners)
        return self._blocks[:, _FIXED + which * n : _FIXED + (which + 1) * n]

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        """A batch cut where blocks end; each piece must be noted before the next is asked for."""
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + self.block - self.records % self.block)
            yield batch.part(start, stop)
            start = stop

    def note(
        self, model: Any, piece: Batch, progress: Predictions, seconds: float, come: Sequence[Any] | None = None
    ) -> None:
        """After a piece was predicted and learned: count it; `come` as of `Tally.add`."""
        if self.records % self.block == 0:
            n = len(self._blocks) + 1
            self._by_block["_blocks"].lengthen(n)
            self._by_block["_present"].lengthen(n)
            self._by_block["_covered"].lengthen(n)
        row = cast(Floats, self._blocks[-1])
        row[_RECORDS] += len(piece)
        row[_SECONDS] += seconds
        health = _health(model)
        row[self._failures] += health - self._health_noted
        self._health_noted = health
        self._note_covered(model)
        self._count_present(piece)
        self.add(progress, piece.labels, model.classes, come)
        if self.records % self.block == 0:
            self._measure_shares(model, row)
            self._measure_effects(model, piece)
            self._note_weights(model)
            if len(self._blocks) == _MOST_BLOCKS:
                self._merge()

    def begin(self, model: Any) -> None:
        """Before the first record: what a model has skipped and reset until now is not of this stream."""
        if self.records == 0:
            self._before = self._health_noted = _health(model)
            self._covered_before = self._covered_noted = _covered(model)

    def close(self, model: Any) -> None:
        """At the end of a stream: note the weights as they stand, and late labels. Noting may go on afterwards."""
        if len(self._blocks):
            self._note_covered(model)
        self._note_weights(model)

    def _measure_shares(self, model: Any, row: Floats) -> None:
        """Take the learners' shares from the scores of the record that was learned last."""
        record = model.braid.last_scored() if isinstance(model, MODL) else None
        if record is None:
            return
        shares = explain.shares(model.braid, record, max(len(model.classes), 1))
        if shares.any():
            row[_MEASURED] += 1
            row[_FIXED : _FIXED + len(shares)] += shares

    def _measure_effects(self, model: Any, piece: Batch) -> None:
        """Leave out some features of the record that was learned last, each by itself; others the next time."""
        if not isinstance(model, MODL) or model.records_learned == 0:
            return
        row = piece.values[-1]
        x = {name: float(value) for name, value in zip(piece.names, row, strict=True) if value == value}
        groups = by_column(x, self.columns())
        names = list(groups)
        some = [names[(self._turn + i) % len(names)] for i in range(min(len(names), _LEFT_OUT))]
        self._turn += len(some)
        for name, effects in model.effects_one(x, {name: groups[name] for name in some}).items():
            size = sum(map(abs, effects.values())) / (1 if self.regression else 2)
            if np.isfinite(size) and (name in self._effect_names or len(self._effects) < _MOST_EFFECTS):
                place = self._effect_names.setdefault(name, len(self._effects))
                if place == len(self._effects):
                    self._effects = np.concatenate([self._effects, np.zeros((1, 2))])
                self._effects[place] += size, 1.0

    def _note_covered(self, model: Any) -> None:
        """Count what was judged since the last time as of the current block."""
        covered = _covered(model)
        self._by_block["_covered"].rows[-1] += covered - self._covered_noted
        self._covered_noted = covered

    def _count_present(self, piece: Batch) -> None:
        counts = count_present(np.ascontiguousarray(piece.values, dtype=np.float64))
        places = self._places.count(piece.names, counts)
        present = self._by_block["_present"]
        present.widen(min(len(self._places.places), MOST_FEATURES))
        add_at(present.rows[-1], places, counts)

    def _note_weights(self, model: Any) -> None:
        """Keep the fast learner's weights as those of the current block."""
        learner = explain.fast_learner(model.braid) if isinstance(model, MODL) else None
        if learner is None or learner.n_outputs == 0 or not len(self._blocks):
            return
        posterior = explain.posterior(learner)
        mean = posterior.mean[-1:] if learner.n_outputs == 2 else posterior.mean
        names_before, self.weight_names = self.weight_names, model.feature_names
        self.weight_mean = mean[:, posterior.value_at].copy()
        self.weight_sd = np.sqrt(posterior.variances[posterior.value_at])
        rows, width = len(mean), min(learner.n_features, MOST_WEIGHTS // len(mean))
        weights, deviations = self._by_block["_weights"], self._by_block["_deviations"]
        two_classes = weights.rows.shape[1] == 1 and rows > 1
        weights.widen(rows, width)
        deviations.widen(width)
        if two_classes:  # they had one vector between them
            weights.rows[:, 1] = weights.rows[:, 0]
            weights.rows[:, 0] = -weights.rows[:, 0]
        pairs = zip(names_before[:width], self.weight_names, strict=False)
        others = [slot for slot, (before, now) in enumerate(pairs) if before != now]
        for followed, latest in ((weights, self.weight_mean[:, :width]), (deviations, self.weight_sd[:width])):
            followed.rows[..., others] = np.nan  # what a slot said of the name that gave it up
            followed.lengthen(len(self._blocks))
            followed.rows[-1] = latest

    def _merge(self) -> None:
        """Make one block of every two: counts add up, weights are those at the later end."""
        self.block *= 2
        for name, followed in self._by_block.items():
            earlier, later = followed.rows[::2], followed.rows[1::2]
            followed.replace(earlier + later if name in _COUNTED else later.copy())

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and named arrays to go on from."""
        metadata, arrays = super().state()
        metadata |= {
            "name": self.name,
            "block": self.block,
            "turn": self._turn,
            "features": self._places.names(),
            "effect_names": [pack_name(name) for name in self._effect_names],
            "weight_names": [pack_name(name) for name in self.weight_names],
        }
        arrays |= {name: followed.rows for name, followed in self._by_block.items()}
        return metadata, arrays | {"present": self.present} | {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def restore(cls, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> History:
        """The inverse of `state`."""
        name, regression = checked(_WHAT, metadata, "name", str), checked(_WHAT, metadata, "regression", bool)
        learners = unpack_names("learners", metadata.get("learners"))
        history = cls(name, [str(learner) for learner in learners], regression)
        history.load_state(metadata, arrays)
        history.block = checked(_WHAT, metadata, "block", int, 1)
        history._places.load(metadata.get("features"), arrays)
        history.weight_names = unpack_names("features with weights", metadata.get("weight_names"))
        check_arrays(_WHAT, history._block_rules(arrays), arrays)
        for name in _ARRAYS:
            if name in arrays:  # earlier versions have fewer
                setattr(history, name, arrays[name].copy())
        if "turn" in metadata:
            history._turn = checked(_WHAT, metadata, "turn", int)
        named = unpack_names("features left out", metadata.get("effect_names", []))
        if len(set(named)) != len(history._effects):
            raise BraidedError(f"{_WHAT} has {len(history._effects)} effects of {len(named)} names: use an older copy")
        history._effect_names = {name: place for place, name in enumerate(named)}
        fresh = {"_covered": np.zeros((len(arrays["_blocks"]), 2 * len(LEVELS)), dtype=np.int64)}
        for name, followed in history._by_block.items():
            history._by_block[name] = _BlockRows(arrays[name] if name in arrays else fresh[name], followed.blank)
        history._covered_noted = history._covered_before + history._by_block["_covered"].rows.sum(axis=0)
        history._health_noted = history._before + history._blocks[:, history._failures].sum(axis=0)
        return history

    def _block_rules(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, ArrayRule]:
        """What the arrays of a `state` must be beside those of a tally: a row for each block, of equal length."""
        blocks = -(-self.records // self.block)
        if blocks >= _MOST_BLOCKS:
            raise BraidedError(f"{_WHAT}: {self.records} records do not fit its blocks; give a file written by save")
        weights = min(length(arrays, "_weights"), blocks)
        width = len(self.weight_names)
        return {
            "_blocks": ArrayRule((blocks, self._blocks.shape[1]), low=0.0, high=MOST_COUNT),
            "_present": ArrayRule((blocks, min(len(self.features), MOST_FEATURES)), "int64", 0, MOST_COUNT),
            "_weights": ArrayRule((weights, None, None), "float32", finite=False),
            "_deviations": ArrayRule((weights, None), "float32", finite=False),
            "_before": ArrayRule(self._before.shape, low=0.0, high=MOST_COUNT),
            "weight_mean": ArrayRule((None, width), finite=False),
            "weight_sd": ArrayRule((width,), finite=False),
        } | {name: rule for name, rule in self._added_rules(blocks).items() if name in arrays}

    def _added_rules(self, blocks: int) -> dict[str, ArrayRule]:
        """Those of arrays that earlier versions do not have."""
        width = 2 * len(LEVELS)
        return {
            "_covered": counts(blocks, width),
            "_covered_before": counts(width),
            "_effects": ArrayRule((None, 2), low=0.0, high=np.array([np.inf, MOST_COUNT])),
        }


_ARRAYS = ("_before", "weight_mean", "weight_sd", "_covered_before", "_effects")


def _health(model: Any) -> Floats:
    """Updates that each learner has skipped, then how often each was reset, then drifts."""
    counts = [one[key] for key in ("skipped", "resets") for one in model.health.values()]
    return np.array([*counts, getattr(model, "drifts", 0)], dtype=np.float64)


def _covered(model: Any) -> NDArray[np.int64]:
    """For each level how many records a model has judged, and how many held; none of River's models does."""
    return model.coverage_counts.ravel() if isinstance(model, MODL) else np.zeros(2 * len(LEVELS), dtype=np.int64)
