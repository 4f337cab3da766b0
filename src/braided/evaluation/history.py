"""A tally, and what a report shows over time, in memory that does not grow with the stream.

Curves have at most 2,000 points, and all else is counted in at most 64 blocks of equal length, merged in pairs when a
stream proves longer. Everything but the times follows from the records in their order, however they were chunked.
"""

from __future__ import annotations

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
from braided.evaluation.importance import FeatureImportance, Importance
from braided.evaluation.summary import error_text, history_card
from braided.evaluation.tally import Tally
from braided.files import write_atomically
from braided.kernels.coverage import LEVELS
from braided.kernels.tally import count_present
from braided.records import Predictions, Records
from braided.store import Array, check, checked, counts, pack_name, prefixed, unpack_names, unprefixed

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
_MAX_BLOCKS, _FIRST_BLOCK = 64, 64
_WHAT = "state of a history"
#: The modules that draw a history are in layers above this one: they are imported by name when they are needed.
_PICTURES, _PAGE = "braided.plot", "braided.report.page"
#: Weights (features times classes) that are followed over time.
MAX_WEIGHTS = 4_096
#: What adds up where blocks are merged; of the weights, which have a row per block as well, the later ones are kept.
_SUMS = ("records", "seconds", "measured", "shares", "counters", "present")


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
        What is counted of the predictions, such as `tally.confusion`, `tally.per_class()`, `tally.window_metrics()`.
    block
        Records in each block.
    weight_names, weight_mean, weight_sd
        The fast learner's weights when last looked at, (rows, features), and their standard deviations; see `weights`.

    Examples
    --------
    >>> import braided
    >>> from river import datasets
    >>> history = braided.record(braided.MODLClassifier(), datasets.Phishing())
    >>> history.records, history.learners
    (1250, ('olr', 'olr 2', 'olr 3', 'fourier', 'fourier 2', 'mlp', 'recent', 'forest'))
    >>> print(f"{history.error:.0%} wrong, calibration error {history.tally.calibration_error:.2f}")
    9% wrong, calibration error 0.01
    >>> print(f"ROC AUC {history.metrics()['roc_auc']:.2f}")
    ROC AUC 0.97
    """

    def __init__(self, name: str, learners: Iterable[str] = (), regression: bool = False) -> None:
        self.tally = Tally(learners, regression)
        self.name = name
        self.block = _FIRST_BLOCK
        n = len(self.tally.learners)
        #: The model's counters when last looked at.
        self._latest = np.zeros(2 * n + 1 + 2 * len(LEVELS), dtype=np.int64)
        self._by_block: Arrays = {
            **{name: np.zeros(0) for name in ("records", "seconds", "measured")},
            "shares": np.zeros((0, n)),
            "counters": np.zeros((0, self._latest.size), dtype=np.int64),
            "present": np.zeros((0, 0), dtype=np.int64),
            "weights": np.zeros((0, 0, 0), dtype=np.float32),
            "deviations": np.zeros((0, 0), dtype=np.float32),
        }
        self._places = Places()
        self._importance = Importance()
        #: Gives the column of each feature that has another name, where the stream is of raw records.
        self.columns: Callable[[], Mapping[Hashable, Hashable]] = dict
        self.weight_names: list[Hashable] = []
        self.weight_mean = np.zeros((0, 0))
        self.weight_sd = np.zeros(0)

    @property
    def learners(self) -> tuple[str, ...]:
        """Names of the learners."""
        return self.tally.learners

    @property
    def records(self) -> int:
        """Records seen."""
        return self.tally.records

    @property
    def error(self) -> float:
        """Share of wrong predictions, or mean absolute error."""
        return self.tally.error

    def metrics(self) -> dict[str, float | None]:
        """Every metric over the whole stream; None where it is not defined."""
        return self.tally.metrics()

    @property
    def features(self) -> list[Hashable]:
        """Names of the features that had a value, in the order of their first one."""
        return list(self._places.places)

    @property
    def present(self) -> Counts:
        """(features,): how many records had a value of each feature."""
        return self._places.present

    def __repr__(self) -> str:
        return f"<History of {self.name}: {self.records:,} records, error {error_text(self.tally, self.error)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return history_card(self.name, self.tally, self.window())

    def plot(self, kind: str = "error", ax: Any = None, **options: Any) -> Any:
        """Draw the history, on `ax` or on new axes, and return them.

        `kind` is a function of `braided.plot`: availability, calibration, confusion, coverage, error, failures,
        learners, shares, throughput or weights; `options` are for that function, such as `windowed=True`.

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
        """Write one self-contained HTML file, as `braided run --out` does, and return its path.

        `others` are histories to compare with: of other models, or of the same name as other seeds.
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

    def curve(self) -> Floats:
        """Rows of (records, error sum, those of the two plain guesses, that of each learner), the last at the end."""
        return self.tally.loss_curve.table()

    def window(self) -> int:
        """Records in the window of `windowed`: a twentieth of all, at least 100, but of a short stream a fifth."""
        wanted = max(self.records // 20, min(100, self.records // 5), 1)
        return -(-wanted // self.tally.loss_curve.interval) * self.tally.loss_curve.interval

    def windowed(self) -> Floats:
        """Like `curve`, with error sums over the `window` records up to each point; begins where a window is full."""
        return self.tally.loss_curve.windowed(self.window())

    def blocks(self) -> Floats:
        """Where each block ends and how many records it has, (blocks, 2)."""
        sizes = self._by_block["records"]
        return np.column_stack([np.cumsum(sizes), sizes])

    def shares(self) -> Floats:
        """Mean share of each learner in each block, (blocks, learners); NaN where none was measured.

        Measured on the last record of each block before blocks are merged; the formula is in `estimators.explain`.
        """
        return np.asarray(self._by_block["shares"] / _or_nan(self._by_block["measured"][:, None]))

    def skipped(self) -> Counts:
        """Updates that each learner left out in each block, (blocks, learners)."""
        return self._by_block["counters"][:, : len(self.learners)].copy()

    def resets(self) -> Counts:
        """How often each learner was reset in each block, (blocks, learners)."""
        return self._by_block["counters"][:, len(self.learners) : 2 * len(self.learners)].copy()

    def drifts(self) -> Counts:
        """How many drifts the model's detector found in each block, (blocks,)."""
        return self._by_block["counters"][:, 2 * len(self.learners)].copy()

    def coverage(self) -> Floats:
        """Share of intervals or sets that held the truth, (blocks, levels from 0.5 to 0.99); NaN where none were."""
        covered = self._by_block["counters"][:, 2 * len(self.learners) + 1 :]
        return np.asarray(covered[:, 1::2] / _or_nan(covered[:, ::2]))

    def coverage_shares(self) -> dict[float, float]:
        """The same over all blocks, by level, for those that were judged."""
        totals = self._by_block["counters"].sum(axis=0)[2 * len(self.learners) + 1 :].reshape(-1, 2).tolist()
        return {level: held / judged for level, (judged, held) in zip(LEVELS, totals, strict=True) if judged}

    def throughput(self) -> Floats:
        """Records per second in each block, (blocks,); NaN where no time was measured."""
        return np.asarray(self._by_block["records"] / _or_nan(self._by_block["seconds"]))

    def availability(self) -> Floats:
        """Share of the records of each block that had each feature, (blocks, features up to 2,000)."""
        return np.asarray(self._by_block["present"] / self._by_block["records"][:, None])

    def importance(self) -> list[FeatureImportance]:
        """Each feature, or column of raw records, with what the loss rises by without it, the largest rise first.

        The loss is the log loss for classes, the squared error for numbers. Measured on at most 16 features of the
        first record of each block, before it is learned; see `evaluation.importance`.
        """
        return self._importance.ranking()

    def weights(self) -> tuple[Floats, Floats]:
        """The fast learner's weights, (blocks, rows, features), and their standard deviations, (blocks, features).

        The rows are the classes; with two classes the only row is the second one's, with a numeric target the value's.
        NaN where a feature was not known yet; at most 4,096 weights.
        """
        return self._by_block["weights"].astype(np.float64), self._by_block["deviations"].astype(np.float64)

    def pieces(self, batch: Records) -> Iterator[Records]:
        """A batch cut where blocks end; add each piece before asking for the next."""
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + self.block - self.records % self.block)
            yield batch.part(start, stop)
            start = stop

    def begin(self, model: Any) -> None:
        """Before the first record: what a model has skipped, reset and judged until now is not of this stream."""
        self._latest = _counters(model)

    def measure(self, model: Any, piece: Records) -> None:
        """Before a piece is learned: measure on the first record of a block what features are worth."""
        if self.records % self.block == 0 and isinstance(model, MODL):
            self._importance.measure(model, piece.part(0, 1), self.columns())

    def add(
        self,
        model: Any,
        piece: Records,
        predictions: Predictions,
        seconds: float,
        arrived: Sequence[Any] | None = None,
    ) -> Floats:
        """Count a piece after it was predicted and learned; `arrived` and what is returned as of `Tally.add`."""
        if self.records % self.block == 0:
            for name in _SUMS:
                rows = self._by_block[name]
                self._by_block[name] = np.concatenate([rows, np.zeros((1, *rows.shape[1:]), dtype=rows.dtype)])
        self._by_block["records"][-1] += len(piece)
        self._by_block["seconds"][-1] += seconds
        self._add_counters(model)
        n_present = np.zeros(piece.values.shape[1], dtype=np.int64)
        count_present(piece.values, n_present)
        places = self._places.count(piece.names, n_present)
        followed = min(len(self._places.places), MAX_FEATURES)
        if self._by_block["present"].shape[1] < followed:
            self._by_block["present"] = _resized(self._by_block["present"], len(self._by_block["present"]), followed)
        add_at(self._by_block["present"][-1], places, n_present)
        losses = self.tally.add(predictions, piece.known_targets, model.classes, arrived)
        if self.records % self.block == 0:
            if isinstance(model, MODL):
                self._add_shares(model)
            self._follow_weights(model)
            if len(self._by_block["records"]) >= _MAX_BLOCKS:
                self.block *= 2
                for name, rows in self._by_block.items():
                    self._by_block[name] = rows[::2] + rows[1::2] if name in _SUMS else rows[1::2]
        return losses

    def close(self, model: Any) -> None:
        """At the end of a stream: look at the model again, which may have learned late labels. More may be added."""
        if self.records:
            self._add_counters(model)
        self._follow_weights(model)

    def _add_counters(self, model: Any) -> None:
        """Count in the current block by how much the model's counters have grown since the last time."""
        counters = _counters(model)
        self._by_block["counters"][-1] += counters - self._latest
        self._latest = counters

    def _add_shares(self, model: MODL) -> None:
        """The learners' shares of the answer for the last record."""
        scored = model.braid.last_scored()
        if scored is not None:
            shares = explain.shares(model.braid, scored, max(len(model.classes), 1))
            self._by_block["measured"][-1] += shares.any()
            self._by_block["shares"][-1] += shares

    def _follow_weights(self, model: Any) -> None:
        """Keep the fast learner's weights as those of the current block."""
        learner = explain.fast_learner(model.braid) if isinstance(model, MODL) else None
        n_blocks = len(self._by_block["records"])
        if learner is None or learner.n_outputs == 0 or not n_blocks:
            return
        self.weight_mean, self.weight_sd = explain.weights(learner)
        names_before, self.weight_names = self.weight_names, model.feature_names
        rows, width = len(self.weight_mean), min(learner.n_features, MAX_WEIGHTS // len(self.weight_mean))
        before = self._by_block["weights"]
        weights = _resized(before, n_blocks, rows, width, blank=np.nan)
        deviations = _resized(self._by_block["deviations"], n_blocks, width, blank=np.nan)
        if before.shape[1] == 1 and rows > 1:  # two classes had one vector between them
            weights[:, 1], weights[:, 0] = weights[:, 0], -weights[:, 0]
        pairs = zip(names_before[:width], self.weight_names, strict=False)
        expired = [slot for slot, (earlier, now) in enumerate(pairs) if earlier != now]
        weights[..., expired], deviations[:, expired] = np.nan, np.nan
        weights[-1], deviations[-1] = self.weight_mean[:, :width], self.weight_sd[:width]
        self._by_block |= {"weights": weights, "deviations": deviations}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and named arrays to go on from."""
        tally, tally_arrays = self.tally.state()
        importance, importance_arrays = self._importance.state()
        metadata = {
            "name": self.name,
            "learners": list(self.learners),
            "regression": self.tally.regression,
            "block": self.block,
            "importance": importance,
            "features": self._places.names(),
            "weight_names": [pack_name(name) for name in self.weight_names],
            "tally": tally,
        }
        arrays = {
            "present": self.present,
            "weight_mean": self.weight_mean,
            "weight_sd": self.weight_sd,
        }
        arrays |= prefixed("tally", tally_arrays) | prefixed("importance", importance_arrays)
        return metadata, arrays | prefixed("blocks", self._by_block)

    @classmethod
    def restore(cls, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> History:
        """The inverse of `state`."""
        name, regression = checked(_WHAT, metadata, "name", str), checked(_WHAT, metadata, "regression", bool)
        history = cls(name, map(str, unpack_names("learners", metadata.get("learners"))), regression)
        history.tally.load_state(checked(_WHAT, metadata, "tally", dict), unprefixed("tally", arrays))
        history.block = checked(_WHAT, metadata, "block", int, max(1, -(-history.records // (_MAX_BLOCKS - 1))))
        history._importance.load_state(checked(_WHAT, metadata, "importance", dict), unprefixed("importance", arrays))
        history._places.load(metadata.get("features"), arrays)
        history.weight_names = unpack_names("features with weights", metadata.get("weight_names"))
        blocks = -(-history.records // history.block)
        kept = {name: Array((blocks, *rows.shape[1:]), str(rows.dtype)) for name, rows in history._by_block.items()}
        kept["present"] = counts(blocks, min(len(history.features), MAX_FEATURES))
        kept["weights"] = Array((None, None, None), "float32", finite=False)
        kept["deviations"] = Array((None, None), "float32", finite=False)
        schema = {
            "weight_mean": Array((None, len(history.weight_names)), finite=False),
            "weight_sd": Array((len(history.weight_names),), finite=False),
        }
        check(_WHAT, schema | prefixed("blocks", kept), arrays)
        history.weight_mean, history.weight_sd = arrays["weight_mean"].copy(), arrays["weight_sd"].copy()
        history._by_block = {name: rows.copy() for name, rows in unprefixed("blocks", arrays).items() if name in kept}
        return history


def _or_nan(divisors: NDArray[Any]) -> Floats:
    """What to divide by: NaN in place of 0."""
    return np.where(divisors > 0, divisors, np.nan)


def _resized(rows: NDArray[Any], n: int, *shape: int, blank: float = 0) -> NDArray[Any]:
    """An array of `n` rows of this shape with what fits of these rows; the rest is blank."""
    resized = np.full((n, *shape), blank, dtype=rows.dtype)
    kept = tuple(map(slice, np.minimum(rows.shape, resized.shape)))
    resized[kept] = rows[kept]
    return resized


def _counters(model: Any) -> Counts:
    """Updates that each learner has skipped, how often each was reset, drifts; by level records judged, and held."""
    counters = [one[key] for key in ("skipped", "resets") for one in model.health.values()]
    covered = model.core.coverage.covered if isinstance(model, MODL) else np.zeros((len(LEVELS), 2))
    return np.array([*counters, getattr(model, "drifts", 0), *covered.ravel()], dtype=np.int64)
