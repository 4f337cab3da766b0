"""An alarm when a model's error jumps against its own history."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.evaluation.metrics import quantity
from braided.store import MAX_COUNT, REMEDY, Array, check, length

Floats = NDArray[np.float64]
#: Records of a block; blocks of the window; first ones, of a model that has hardly begun, from which nothing is
#: learned; those before the first alarm may be raised.
BLOCK, WINDOW_BLOCKS, _SKIPPED_BLOCKS, FIRST_BLOCKS = 250, 4, 4, 12
#: Blocks over which the usual error is forgotten, and after which a jump is what is usual.
_FORGET_BLOCKS, _NEW_NORMAL_BLOCKS = 40, 40
#: Deviations that a jump of the window, or of its last block, has at least.
_DEVIATIONS, _BURST_DEVIATIONS = 4.0, 5.0
#: A jump of the window is at least this share of records, or for a regression ten times this share of the usual error;
#: that of its last block twice as much.
_LEAST = 0.05
#: One absolute error counts at most as this many usual ones: a single absurd target is not a jump.
_MAX_USUAL = 20.0
#: No absolute error counts as more, so that squares of it are numbers; and no jump is less, where the usual error is 0.
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
    since
        Number of the record after which the alarm was raised; None while it is not.
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
        self.since: int | None = None
        self.raised = 0
        self.marks: list[tuple[int, int | None]] = []
        self._records = 0
        self._block = np.zeros(BLOCK)
        self._window: list[float] = []
        self._usual = self._variance = 0.0
        self._learned = 0

    def add(self, errors: Floats) -> None:
        """Take in the errors of some records: 1 or 0, or absolute ones."""
        start = 0
        while start < errors.size:
            place = self._records % BLOCK
            size = min(BLOCK - place, errors.size - start)
            self._block[place : place + size] = errors[start : start + size]
            self._records += size
            start += size
            if self._records % BLOCK == 0:
                self._end_block()

    def _end_block(self) -> None:
        """Compare the window that ends here, and learn the block that leaves it."""
        errors = self._block
        if self.regression:
            usual = self._usual if self._learned else float(np.median(errors))
            errors = np.minimum(errors, min(_MAX_USUAL * usual, _LARGEST) if usual > 0 else _LARGEST)
        self._window.append(float(errors.mean()))
        left = self._window.pop(0) if len(self._window) > WINDOW_BLOCKS else None
        if self._records >= FIRST_BLOCKS * BLOCK:
            self._compare()
        number = self._records // BLOCK - WINDOW_BLOCKS
        if left is not None and self.since is None and number > _SKIPPED_BLOCKS:
            self._learn(left)

    def _compare(self) -> None:
        jump, bound = self._level() - self._usual, self._bound(WINDOW_BLOCKS, _DEVIATIONS, _LEAST)
        if self.since is None:
            burst = self._window[-1] - self._usual
            if jump > bound or burst > self._bound(1, _BURST_DEVIATIONS, 2.0 * _LEAST):
                self.since = self._records
                self.raised += 1
                self.marks = [*self.marks, (self.since, None)][-_MAX_MARKS:]
        elif jump <= bound / 2 and self._records - self.since >= WINDOW_BLOCKS * BLOCK:
            self._clear()
        elif self._records - self.since >= _NEW_NORMAL_BLOCKS * BLOCK:
            self._clear()
            self._usual = self._level()

    def _clear(self) -> None:
        assert self.since is not None
        self.marks[-1] = (self.since, self._records)
        self.since = None

    def _level(self) -> float:
        return sum(self._window) / len(self._window)

    def _bound(self, blocks: int, deviations: float, least: float) -> float:
        """How far above the usual error the error of a number of blocks may be."""
        if self.regression:
            return max(deviations * math.sqrt(self._variance), 10.0 * least * self._usual, _SMALLEST)
        n = BLOCK * blocks
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
        what, shown = ("mean absolute error", quantity) if self.regression else ("error rate", _percent)
        return (
            f"the {what} of the last {BLOCK * WINDOW_BLOCKS:,} records is {shown(self._level())}, and usually "
            f"{shown(self._usual)}: it jumped in the {BLOCK} records up to {self.since:,}"
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Named arrays to go on from."""
        counts = [self._records, self._learned, self.raised, -1 if self.since is None else self.since]
        return {
            "counts": np.array(counts, dtype=np.int64),
            "block": self._block[: self._records % BLOCK].copy(),
            "window": np.array(self._window, dtype=np.float64),
            "usual": np.array([self._usual, self._variance]),
            "marks": np.array(
                [(at, -1 if cleared is None else cleared) for at, cleared in self.marks], dtype=np.int64
            ).reshape(-1, 2),
        }

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        bounds = ([0, 0, 0, -1], [MAX_COUNT, _FORGET_BLOCKS, MAX_COUNT, MAX_COUNT])
        check(_WHAT, {"counts": Array((4,), "int64", *bounds)}, arrays)
        self._records, self._learned, self.raised, since = (int(count) for count in arrays["counts"])
        blocks = min(self._records // BLOCK, WINDOW_BLOCKS)
        schema = {
            "block": Array((self._records % BLOCK,)),
            "window": Array((blocks,)),
            "usual": Array((2,), low=0.0),
            "marks": Array((min(length(arrays, "marks"), _MAX_MARKS), 2), "int64", [0, -1], MAX_COUNT),
        }
        check(_WHAT, schema, arrays)
        self.since = None if since < 0 else since
        self.marks = [(at, None if cleared < 0 else cleared) for at, cleared in arrays["marks"].tolist()]
        if self.since is not None and self.marks[-1:] != [(self.since, None)]:
            raise BraidedError(f"{_WHAT}: raised at record {since} without a mark: {REMEDY}")
        self._block[: arrays["block"].size] = arrays["block"]
        self._window = arrays["window"].tolist()
        self._usual, self._variance = arrays["usual"].tolist()


def _percent(share: float) -> str:
    return f"{share:.1%}"
