"""How much worse predictions become when a feature has values of its own distribution: importance, with its error.

Incremental permutation importance (Fumagalli, Muschalik, Hüllermeier and Hammer, 2023, Machine Learning). Of some
records, before they are learned, and of some of their features j:

    rise_j = loss(y, f(x with v for x_j)) - loss(y, f(x))

with the log loss of the label's probability, or the squared error of a number, and v from feature j's own distribution
(`estimators.variants`). The k-th time it is the value at the level frac(1/2 + k (sqrt(5) - 1) / 2): these levels spread
evenly however many there are. A feature that says nothing rises by 0 in the mean, since x_j and v are then as good as
each other. n rises with mean m have the standard error

    sqrt(sum (rise - m)^2 / (n (n - 1))).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.estimators.base import MODL
from braided.estimators.explain import by_column
from braided.estimators.variants import Variants
from braided.records import Records
from braided.store import MAX_COUNT, Array, check, checked, pack_name, unpack_names

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
#: Features of one record that are replaced at most, and features whose rises are kept.
_MAX_REPLACED, _MAX_KEPT = 16, 2_000
#: A rise of this size, of a target beyond all measure, is not counted: its square would not be a number.
_MAX_RISE = 1e150
#: Probabilities of the log loss, as in `kernels.tally`.
_MIN_PROBABILITY = float(np.finfo(np.float64).eps)
_STEP = (math.sqrt(5.0) - 1.0) / 2.0
_COUNT, _MEAN, _SQUARES = range(3)
_WHAT = "state of an importance"


class FeatureImportance(NamedTuple):
    """How much the loss rises without what a feature, or a column of raw records, says.

    Attributes
    ----------
    feature
        Its name.
    rise
        The mean rise: of the log loss for classes, of the squared error for numbers.
    standard_error
        Of that mean; infinite after one record.
    records
        How many records it was measured on.
    """

    feature: Hashable
    rise: float
    standard_error: float
    records: int


class Importance:
    """The rises so far of each feature, or column of raw records, in memory that does not grow with the stream."""

    def __init__(self) -> None:
        self._rises: dict[Hashable, Floats] = {}
        self._turn = 0

    def measure(self, model: MODL, record: Records, columns: Mapping[Hashable, Hashable]) -> None:
        """Replace some features of a record that is not learned yet, others the next time; the model stays as it is.

        `columns` has the column of each feature that has another name.
        """
        with model.lock:
            core = model.core
            code = core.codes(record)[0][0]
            if model.records_learned == 0 or not (core.regression or 0 <= code < len(core.labels)):
                return
            x = record.one(0)
            groups = by_column(x, columns)
            names = list(groups)
            some = [names[(self._turn + i) % len(names)] for i in range(min(len(names), _MAX_REPLACED))]
            self._turn += len(some)
            variants = Variants(core, x)
            found = variants.distributions({name: groups[name] for name in some})
            predicted = variants.predict(
                [(features, known.at(np.array([self._level(name)]))[0]) for name, (features, known) in found.items()]
            )
        with np.errstate(over="ignore", invalid="ignore"):
            if core.regression:
                losses = (predicted[:, 0] - code) ** 2
            else:
                losses = -np.log(np.clip(predicted[:, int(code)], _MIN_PROBABILITY, 1.0 - _MIN_PROBABILITY))
            rises = losses[1:] - losses[0]
        for name, rise in zip(found, rises.tolist(), strict=True):
            self._add(name, rise)

    def _level(self, name: Hashable) -> float:
        """The level of a feature's next value."""
        count = self._rises[name][_COUNT] if name in self._rises else 0.0
        return float((0.5 + _STEP * count) % 1.0)

    def _add(self, name: Hashable, rise: float) -> None:
        if not abs(rise) < _MAX_RISE or (name not in self._rises and len(self._rises) >= _MAX_KEPT):
            return
        figures = self._rises.setdefault(name, np.zeros(3))
        figures[_COUNT] += 1.0
        gap = rise - figures[_MEAN]
        figures[_MEAN] += gap / figures[_COUNT]
        figures[_SQUARES] += gap * (rise - figures[_MEAN])

    def ranking(self) -> list[FeatureImportance]:
        """Every feature that was measured, the largest mean rise first."""
        found = []
        for name, (count, mean, squares) in self._rises.items():
            error = math.sqrt(squares / (count * (count - 1.0))) if count > 1.0 else math.inf
            found.append(FeatureImportance(name, float(mean), error, int(count)))
        return sorted(found, key=lambda one: -one.rise)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and named arrays to go on from."""
        names = [pack_name(name) for name in self._rises]
        return {"turn": self._turn, "names": names}, {"rises": np.array(list(self._rises.values())).reshape(-1, 3)}

    def load_state(self, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a `state`; one that does not fit is refused."""
        names = unpack_names("features of the importance", metadata.get("names"))
        low, high = [1.0, -_MAX_RISE, 0.0], [MAX_COUNT, _MAX_RISE, np.inf]
        check(_WHAT, {"rises": Array((len(names), 3), "float64", low, high)}, arrays)
        self._turn = checked(_WHAT, metadata, "turn", int)
        self._rises = dict(zip(names, arrays["rises"].copy(), strict=True))
