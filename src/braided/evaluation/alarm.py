"""An alarm when a model's error jumps against its own history."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.evaluation.metrics import quantity
from braided.store import MAX_COUNT, Array, check, counts

Floats = NDArray[np.float64]
#: Records of a block, blocks of the window, and blocks before the first alarm may be raised.
_BLOCK, _WINDOW_BLOCKS, _FIRST_BLOCKS = 250, 4, 12
#: First blocks, which teach nothing; blocks over which the usual error is forgotten; those after which a jump is usual.
_SKIPPED_BLOCKS, _FORGET_BLOCKS, _NEW_NORMAL_BLOCKS = 4, 40, 40
#: Deviations of the smallest jump of the window, and of its last block.
_DEVIATIONS, _BURST_DEVIATIONS = 4.0, 5.0
#: The smallest jump, for a regression a tenth of its share of the usual error; and how many usual ones an error counts.
_MIN_JUMP, _MAX_USUAL = 0.05, 20.0
#: The largest absolute error, so that its square is finite; and the smallest jump, where the usual error is 0.
_LARGEST, _SMALLEST = 1e150, 1e-12
_MAX_MARKS = 20
_WHAT = "state of the alarm"


class ErrorAlarm:
    """Says when the error of the last 1,000 records is far above what it usually was.

    Errors are averaged over blocks of 250 records, and the window w is the mean of the last four blocks. What is usual
    is learned from the blocks that have left the window, but for the first four: b_1, b_2, ..., with
    r = max(1 / n, 1 / 40) for the n-th:

        deviation d_n = b_n - usual,   usual += r d_n,   variance += r ((1 - r) d_n^2 - variance)

    At the end of each block from the twelfth on the alarm is raised if

        w - usual > max(4 sqrt(variance), 4 e, least)   or   b - usual > max(5 sqrt(variance), 5 e, 2 least)

    with b the block that ends there: a model that learns fast is soon right again. e is the standard error of n records
    if they were independent: sqrt(p (1 - p) / n) for shares of wrong answers, with p = (n usual + 1) / (n + 2), and 0
    for a regression; `least` is 0.05 for shares of wrong answers, and half of the usual error for a regression. There,
    an absolute error counts at most as 20 usual ones. While the alarm is raised nothing is learned. It lasts for 1,000
    records at least, is cleared when w - usual is half of its bound or less, and after 10,000 records, when w is taken
    as usual.

    Everything follows from the errors in their order, however they were chunked.

    Parameters
    ----------
    regression
        Whether errors are absolute ones.

    Attributes
    ----------
    raised
        How often it was raised.
    marks
        The last times, at most 20: after which record it was raised, and after which it was cleared, None if not yet.

    Examples
    --------
    >>> alarm = ErrorAlarm(regression=False)
    >>> alarm.add(np.tile([0.0, 0.0, 0.0, 1.0], 1_000))
    >>> alarm.reason
    >>> alarm.add(np.ones(500))
    >>> alarm.reason
    'the error rate of the last 1,000 records is 62.5%, and usually 25.0%: it jumped in the 250 records up to 4,250'
    """

    def __init__(self, regression: bool) -> None:
        self.regression = regression
        self.raised = 0
        self.marks: list[tuple[int, int | None]] = []
        self._blocks = 0
        #: Errors of the block that has not ended; means of the last blocks.
        self._block = np.zeros(0)
        self._window: list[float] = []
        self._usual = self._variance = 0.0
        self._learned = 0

    @property
    def since(self) -> int | None:
        """Number of the record after which the alarm was raised; None while it is not."""
        at, cleared = self.marks[-1] if self.marks else (None, None)
        return at if cleared is None else None

    def add(self, errors: Floats) -> None:
        """Take in the errors of some records: 1 or 0, or absolute ones."""
        self._block = np.concatenate([self._block, errors])
        while self._block.size >= _BLOCK:
            self._end_block(self._block[:_BLOCK])
            self._block = self._block[_BLOCK:]

    def _end_block(self, errors: Floats) -> None:
        """Compare the window that ends with this block, and learn the block that leaves it."""
        if self.regression:
            usual = self._usual if self._learned else float(np.median(errors))
            errors = np.minimum(errors, min(_MAX_USUAL * usual, _LARGEST) if usual > 0 else _LARGEST)
        self._blocks += 1
        self._window.append(float(errors.mean()))
        left = self._window.pop(0) if len(self._window) > _WINDOW_BLOCKS else None
        if self._blocks >= _FIRST_BLOCKS:
            self._compare(self._blocks * _BLOCK)
        if left is not None and self.since is None and self._blocks - _WINDOW_BLOCKS > _SKIPPED_BLOCKS:
            self._learn(left)

    def _compare(self, records: int) -> None:
        """Raise or clear the alarm after so many records."""
        jump, bound = self._level() - self._usual, self._bound(_WINDOW_BLOCKS, _DEVIATIONS, _MIN_JUMP)
        if self.since is None:
            burst = self._window[-1] - self._usual
            if jump > bound or burst > self._bound(1, _BURST_DEVIATIONS, 2.0 * _MIN_JUMP):
                self.raised += 1
                self.marks = [*self.marks, (records, None)][-_MAX_MARKS:]
            return
        lasted = records - self.since
        is_usual = lasted >= _NEW_NORMAL_BLOCKS * _BLOCK
        if is_usual or (jump <= bound / 2 and lasted >= _WINDOW_BLOCKS * _BLOCK):
            self.marks[-1] = (self.since, records)
            if jump > bound / 2:
                self._usual = self._level()

    def _level(self) -> float:
        return sum(self._window) / len(self._window)

    def _bound(self, blocks: int, deviations: float, least: float) -> float:
        """How far above the usual error the error of a number of blocks may be."""
        if self.regression:
            return max(deviations * math.sqrt(self._variance), 10.0 * least * self._usual, _SMALLEST)
        n = _BLOCK * blocks
        share = (n * self._usual + 1.0) / (n + 2.0)
        return max(deviations * math.sqrt(max(self._variance, share * (1.0 - share) / n)), least)

    def _learn(self, block: float) -> None:
        self._learned = min(self._learned + 1, _FORGET_BLOCKS)
        rate = 1.0 / self._learned
        gap = block - self._usual
        self._usual += rate * gap
        self._variance += rate * ((1.0 - rate) * gap * gap - self._variance)

    @property
    def reason(self) -> str | None:
        """What the alarm says; None while it is not raised."""
        if self.since is None:
            return None
        what = "mean absolute error" if self.regression else "error rate"
        level, usual = (
            quantity(value) if self.regression else f"{value:.1%}" for value in (self._level(), self._usual)
        )
        return (
            f"the {what} of the last {_BLOCK * _WINDOW_BLOCKS:,} records is {level}, and usually {usual}: it jumped in "
            f"the {_BLOCK} records up to {self.since:,}"
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Named arrays to go on from."""
        marks = [(at, -1 if cleared is None else cleared) for at, cleared in self.marks]
        return {
            "counts": np.array([self.raised, self._blocks, self._learned], dtype=np.int64),
            "block": self._block,
            "window": np.array(self._window, dtype=np.float64),
            "usual": np.array([self._usual, self._variance]),
            "marks": np.array(marks, dtype=np.int64).reshape(-1, 2),
        }

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        check(_WHAT, {"counts": counts(3, high=[MAX_COUNT, MAX_COUNT, _FORGET_BLOCKS])}, arrays)
        self.raised, self._blocks, self._learned = arrays["counts"].tolist()
        schema = {
            "block": Array((None,)),
            "window": Array((min(self._blocks, _WINDOW_BLOCKS),)),
            "usual": Array((2,), low=0.0),
            "marks": Array((None, 2), "int64", [0, -1], MAX_COUNT),
        }
        check(_WHAT, schema, arrays)
        self._block, self._window = arrays["block"], arrays["window"].tolist()
        self._usual, self._variance = arrays["usual"].tolist()
        self.marks = [(at, None if cleared < 0 else cleared) for at, cleared in arrays["marks"].tolist()]
