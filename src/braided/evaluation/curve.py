"""Error sums along a stream, at evenly spaced records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.kernels.tally import LARGEST, add_losses
from braided.store import MAX_COUNT, Array, check

Floats = NDArray[np.float64]
#: How many points a curve has at most.
MAX_POINTS = 2_000
_WHAT = "state of a curve"


class Curve:
    """Sums of losses up to evenly spaced records: at most 2,000 points, thinned by half when a stream proves longer.

    The sums between two points are kept, too: differences of running sums would be 0 for ever after a loss of 1e308.

    Parameters
    ----------
    width
        How many losses each record has.

    Attributes
    ----------
    totals
        The sum of each of the records' losses.

    Examples
    --------
    >>> curve = Curve(width=2)
    >>> curve.extend(np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]))
    >>> curve.table().tolist()
    [[1.0, 1.0, 1.0], [2.0, 1.0, 2.0], [3.0, 2.0, 2.0]]
    """

    def __init__(self, width: int) -> None:
        self.totals = np.zeros(width)
        self._numbers = np.array([0, 1, 0], dtype=np.int64)  # records, interval, points
        self._points = np.zeros((MAX_POINTS, 1 + width))
        self._within = np.zeros((MAX_POINTS, width))
        self._since = np.zeros(width)

    @property
    def records(self) -> int:
        """Records seen."""
        return int(self._numbers[0])

    @property
    def interval(self) -> int:
        """Records from one point to the next."""
        return int(self._numbers[1])

    def extend(self, losses: Floats) -> None:
        """Take in some records: their losses, (n, width)."""
        add_losses(losses, self.totals, self._since, self._numbers, self._points, self._within)

    @property
    def points(self) -> Floats:
        """Rows of (record's number, sums up to it), `interval` records apart."""
        return self._points[: self._numbers[2]]

    def table(self) -> Floats:
        """The points, and one at the last record."""
        if self.records == 0 or (len(self.points) and self.points[-1, 0] == self.records):
            return self.points.copy()
        return np.vstack([self.points, [self.records, *self.totals]])

    def windowed(self, window: int, most: int = MAX_POINTS) -> Floats:
        """Like `points`, with sums over the `window` records up to each; begins where a window is full.

        `window` is a multiple of `interval`. At most so many points, evenly spaced, the last one with them.
        """
        rows = self.points
        back = window // self.interval
        if len(rows) < back:
            return rows[:0].copy()
        n = len(rows) - back + 1
        step = -(-n // most)
        first = (n - 1) % step
        full = rows[back - 1 + first :: step].copy()
        within = self._within[: len(rows)]
        with np.errstate(over="ignore"):
            sums = sum((within[first + i : n + i : step] for i in range(back)), np.zeros((1, 1)))
        full[:, 1:] = np.minimum(sums, LARGEST)
        return full

    def state(self) -> dict[str, NDArray[Any]]:
        """Named arrays to go on from."""
        return {
            "numbers": self._numbers[:2].copy(),
            "points": self.points.copy(),
            "within": self._within[: len(self.points)].copy(),
            "totals": self.totals.copy(),
            "since": self._since.copy(),
        }

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        check(_WHAT, {"numbers": Array((2,), "int64", [0, 1], MAX_COUNT)}, arrays)
        records, interval = arrays["numbers"].tolist()
        n, width = min(records // interval, MAX_POINTS), self.totals.size
        is_record = np.arange(1 + width) == 0
        schema = {
            "points": Array((n, 1 + width), low=is_record.astype(float), finite=is_record),
            "within": Array((n, width), low=0.0),
            "totals": Array((width,), low=0.0),
            "since": Array((width,), low=0.0),
        }
        check(_WHAT, schema, arrays)
        self.totals, self._since = arrays["totals"].copy(), arrays["since"].copy()
        self._numbers = np.array([*arrays["numbers"], n], dtype=np.int64)
        self._points[:n], self._within[:n] = arrays["points"], arrays["within"]
