"""How sure an answer is: intervals and sets of labels that hold the truth as often as they say.

The bound on scores of `kernels.coverage`, kept beside a model and updated with each record that is learned, from what
was predicted before: of numbers the interval is prediction +- bound times the usual error, of classes the set is all k
with 1 - p_k within the bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.kernels import coverage as kernels
from braided.kernels.coverage import LEVELS, NUMBERS, ROUNDING, SCORES, USUAL_ERROR, WINDOW
from braided.state import MOST_COUNT, ArrayRule, check_arrays, counts
from braided.values import shown

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
_LEVELS = np.array(LEVELS)
_WHAT = "state of the model's coverage"
#: Between 0 and 1, where nothing is adapted, the followed levels say how far others are off.
_ANCHORS = np.concatenate([[0.0], _LEVELS, [1.0]])


class Coverage:
    """Scores of the last records, and what each level has been adapted to.

    Parameters
    ----------
    regression
        Whether scores are of numbers rather than of classes.

    Examples
    --------
    >>> coverage = Coverage(regression=True)
    >>> errors = np.random.default_rng(0).normal(size=5_000)
    >>> coverage.follow(np.zeros((5_000, 1)), errors, 0)
    >>> print(f"{coverage.shares()[0.9]:.0%}, {coverage.half_width(0.9):.1f}")
    90%, 1.9
    """

    def __init__(self, regression: bool) -> None:
        self.regression = regression
        self.rates = 1.0 - _LEVELS
        #: For each level how many records were judged, and how many were within the bound.
        self.covered = np.zeros((_LEVELS.size, 2), dtype=np.int64)
        self._numbers = np.zeros(NUMBERS)
        self._ring = np.zeros(WINDOW)
        self._ordered = np.zeros(WINDOW)

    @property
    def n(self) -> int:
        """Scores that are kept."""
        return int(min(self._numbers[SCORES], WINDOW))

    def follow(self, predictions: Floats, targets: Floats, n_classes: int) -> None:
        """Take in records that were predicted, with their targets."""
        state = (_LEVELS, self.rates, self._ring, self._ordered, self._numbers, self.covered)
        if self.regression:
            kernels.follow_values(np.ascontiguousarray(predictions[:, 0]), targets, *state)
        else:
            kernels.follow_classes(np.ascontiguousarray(predictions), targets, n_classes, *state)

    def miss(self) -> None:
        """A record whose label was not known before: nothing could have held it, and nothing is learned from it."""
        self.covered[(self.n + 1) * (1.0 - _LEVELS) >= 1.0 - ROUNDING, 0] += 1

    def bound(self, level: Any) -> float:
        """The bound on scores at a level; infinite while there are too few records to say."""
        number = isinstance(level, float | np.floating)
        if not number or not 0.0 < level < 1.0:
            raise BraidedError(f"level is {shown(level)}: give a number between 0 and 1, such as 0.9")
        n = self.n
        if (n + 1) * (1.0 - level) < 1.0 - ROUNDING:
            return np.inf
        off = np.interp(level, _ANCHORS, np.concatenate([[0.0], self.rates - (1.0 - _LEVELS), [0.0]]))
        return float(kernels.bound(self._ordered, n, 1.0 - level + off))

    def half_width(self, level: Any) -> float:
        """How far an interval reaches to either side."""
        bound, usual = self.bound(level), self._numbers[USUAL_ERROR]
        return float(max(bound, 0.0) * usual) if np.isfinite(bound) else np.inf

    def shares(self) -> dict[float, float]:
        """For each level that is followed the share of records that were within its bound; without those too early."""
        return {
            level: int(within) / int(judged)
            for level, (judged, within) in zip(LEVELS, self.covered, strict=True)
            if judged
        }

    def state(self) -> Arrays:
        """Everything, as named arrays."""
        seen, n = int(self._numbers[SCORES]), self.n
        return {
            "rates": self.rates.copy(),
            "covered": self.covered.copy(),
            "numbers": self._numbers.copy(),
            "scores": self._ring[np.arange(seen - n, seen) % WINDOW],
        }

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        fresh = {"rates": self.rates, "covered": self.covered, "numbers": self._numbers}
        whole = np.arange(NUMBERS) == SCORES
        rules = {
            "rates": ArrayRule(self.rates.shape, low=-1.0, high=1.0),
            "covered": counts(*self.covered.shape),
            "numbers": ArrayRule((NUMBERS,), low=0.0, high=np.where(whole, MOST_COUNT, np.inf), whole=whole),
        }
        check_arrays(_WHAT, rules, arrays)
        seen = int(arrays["numbers"][SCORES])
        check_arrays(_WHAT, {"scores": ArrayRule((min(seen, WINDOW),), low=0.0, high=kernels.MOST)}, arrays)
        scores = arrays["scores"]
        for name, one in fresh.items():
            one[:] = arrays[name]
        self._ring[np.arange(seen - len(scores), seen) % WINDOW] = scores
        self._ordered[: len(scores)] = np.sort(scores)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # joblib may open a pickle as a read-only memory map.
        self.__dict__.update({name: np.array(v) if isinstance(v, np.ndarray) else v for name, v in state.items()})
