"""How sure an answer is: intervals and sets of labels that hold the truth as often as they say.

The bound on scores of `kernels.coverage`, kept beside a model and updated with each record that is learned, from what
was predicted before: of numbers the interval is prediction +- bound times the error that is usual for such a record, of
classes the set is the answer and all k with 1 - p_k within the bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.kernels import coverage as kernels
from braided.kernels.coverage import LEVELS, NUMBERS, SCORES, WINDOW
from braided.kernels.doubt import DOUBTS
from braided.kernels.native import RepeatedCall
from braided.records import Confidence, Predictions
from braided.store import Array, check, counts
from braided.values import shown

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
_LEVELS = np.array(LEVELS)
_WHAT = "state of the model's coverage"
#: Between 0 and 1, where nothing is adapted, the followed levels say how far others are off.
_ANCHORS = np.concatenate([[0.0], _LEVELS, [1.0]])
_LIKELIEST = np.zeros(0, dtype=np.int64)
_OF_NOW = Confidence(np.zeros((0, DOUBTS)), np.zeros(0), np.zeros((0, _LEVELS.size)))


class Coverage:
    """Scores of the last records, and what each level has been adapted to; labels come `delay` records later.

    Examples
    --------
    >>> coverage = Coverage()
    >>> errors = np.random.default_rng(0).normal(size=5_000)
    >>> coverage.follow_values(np.zeros(5_000), errors, np.zeros((5_000, 3)))
    >>> print(f"{coverage.shares()[0.9]:.0%}, {coverage.reaches(0.9, np.zeros((1, 3)))[0]:.1f}")
    90%, 1.9
    """

    def __init__(self, delay: int = 0) -> None:
        self.delay = delay
        self.rates = 1.0 - _LEVELS
        #: For each level how many records were judged, and how many were within the bound.
        self.covered = np.zeros((_LEVELS.size, 2), dtype=np.int64)
        self._numbers = np.zeros(NUMBERS)
        self._ring, self._ordered = np.zeros(WINDOW), np.zeros(WINDOW)

    @cached_property
    def _state(self) -> NDArray[np.int64]:
        self._scratch = np.zeros(_LEVELS.size)
        arrays = (_LEVELS, self.rates, self._ring, self._ordered, self._numbers, self.covered, self._scratch)
        return kernels.state_row(*arrays, delay=self.delay)

    @cached_property
    def _follow_classes(self) -> RepeatedCall:
        return RepeatedCall(kernels.follow_classes)

    def follow_values(self, predictions: Floats, targets: Floats, doubts: Floats, given: Confidence = _OF_NOW) -> None:
        """Take in predicted numbers, (n,), with their targets; judged by what was `given`, or would be now."""
        kernels.follow_values(self._state, predictions, targets, doubts, given.scales, given.bounds)

    def follow_classes(
        self, predictions: Floats, targets: Floats, answers: Places | None, n_classes: int, given: Confidence = _OF_NOW
    ) -> None:
        """The same for probabilities, (n, classes), and the places answered, (n,), None for the likeliest class."""
        answers = _LIKELIEST if answers is None else answers
        self._follow_classes(self._state, predictions, targets, answers, n_classes, given.bounds)

    def confidence(self, doubts: Floats) -> Confidence:
        """How sure answers are that are given now, by the doubts about each record, (n, 3)."""
        found = Confidence(doubts, np.zeros(len(doubts)), np.zeros((len(doubts), _LEVELS.size)))
        kernels.scales_and_bounds(self._state, doubts, found.scales, found.bounds)
        return found

    def miss(self, bounds: Floats | None = None) -> None:
        """Count a label that was new, which no set could hold; `bounds` of its answer, (levels,), else those of now."""
        bounds = self.confidence(np.zeros((1, DOUBTS))).bounds[0] if bounds is None else bounds
        self.covered[np.isfinite(bounds), 0] += 1

    def bound(self, level: Any) -> float:
        """The bound on scores at a level; infinite while there are too few records to say."""
        if not isinstance(level, float | np.floating) or not 0.0 < level < 1.0:
            raise BraidedError(f"level is {shown(level)}: give a number between 0 and 1, such as 0.9")
        seen = self._numbers[SCORES]
        if kernels.too_early(level, seen, self.delay):
            return np.inf
        off = np.interp(level, _ANCHORS, np.concatenate([[0.0], self.rates - (1.0 - _LEVELS), [0.0]]))
        rate = self.rates[LEVELS.index(level)] if level in LEVELS else 1.0 - level + off
        return float(kernels.bound(self._ordered, int(min(seen, WINDOW)), rate))

    def reaches(self, level: Any, doubts: Floats) -> Floats:
        """How far the interval of each record reaches to either side of its prediction, by the doubts about it."""
        bound = self.bound(level)
        return bound * self.confidence(doubts).scales if np.isfinite(bound) else np.full(len(doubts), np.inf)

    def shares(self) -> dict[float, float]:
        """For each level that is followed the share of records that were within its bound; without those too early."""
        counted = zip(LEVELS, self.covered.tolist(), strict=True)
        return {level: within / judged for level, (judged, within) in counted if judged}

    def state(self) -> Arrays:
        """Everything, as named arrays; the scores from the oldest on."""
        seen = int(self._numbers[SCORES])
        scores = self._ring[np.arange(max(seen - WINDOW, 0), seen) % WINDOW]
        adapted = {"rates": self.rates.copy(), "covered": self.covered.copy(), "numbers": self._numbers.copy()}
        return {**adapted, "scores": scores}

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        least, most = np.zeros(NUMBERS), kernels.MAX_NUMBERS
        least[kernels.COVARIANCE] = -most[kernels.COVARIANCE]
        schema = {
            "rates": Array(self.rates.shape, low=-1.0, high=1.0),
            "covered": counts(*self.covered.shape),
            "numbers": Array((NUMBERS,), low=least, high=most),
        }
        check(_WHAT, schema, arrays)
        seen = int(arrays["numbers"][SCORES])
        first = max(seen - WINDOW, 0)
        check(_WHAT, {"scores": Array((seen - first,), low=0.0, high=kernels.MAX_SCORE)}, arrays)
        self.rates[:], self.covered[:], self._numbers[:] = (arrays[name] for name in schema)
        self._ring[np.arange(first, seen) % WINDOW] = arrays["scores"]
        self._ordered[: seen - first] = np.sort(arrays["scores"])

    def __getstate__(self) -> dict[str, Any]:
        """Without the addresses, which hold only for these arrays."""
        return {name: value for name, value in vars(self).items() if name not in ("_state", "_follow_classes")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # joblib may open a pickle as a read-only memory map.
        self.__dict__.update({name: np.array(v) if isinstance(v, np.ndarray) else v for name, v in state.items()})


def fits(earlier: Predictions, n: int, width: int) -> bool:
    """Whether predictions are whole, of n records, and have at most this many columns."""
    values, decided, sure = np.asarray(earlier.values).reshape(n, -1), earlier.decided, earlier.confidence
    wanted = Confidence(np.zeros((n, DOUBTS)), np.zeros(n), np.zeros((n, _LEVELS.size)))
    whole = sure is None or [array.shape for array in sure] == [array.shape for array in wanted]
    return values.shape[1] <= width and whole and (decided is None or decided.shape == (n,))
