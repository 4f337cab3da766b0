"""Error sums along a stream, at evenly spaced records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: How many points a curve has at most.
MOST_POINTS = 2_000


class Curve:
    """Sums of losses up to evenly spaced records: at most 2,000 points, thinned by half when a stream proves longer.

    Parameters
    ----------
    width
        How many losses each record has.

    Attributes
    ----------
    records, totals
        Records seen, and the sum of each of their losses.
    interval
        Records from one point to the next.

    Examples
    --------
    >>> curve = Curve(width=2)
    >>> curve.extend(np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]))
    >>> curve.table().tolist()
    [[1.0, 1.0, 1.0], [2.0, 1.0, 2.0], [3.0, 2.0, 2.0]]
    """

    def __init__(self, width: int) -> None:
        self.records = 0
        self.totals = np.zeros(width)
        self.interval = 1
        self._points = np.zeros((MOST_POINTS, 1 + width))
        self._n_points = 0

    def extend(self, losses: Floats) -> None:
        """Take in some records: their losses, (n, width)."""
        # One long cumulative sum, so that the chunks in which records came do not matter to the last bit.
        with np.errstate(over="ignore"):  # the losses of absurd targets
            running = np.cumsum(np.concatenate([self.totals[None], losses]), axis=0)[1:]
        first = self.interval - self.records % self.interval - 1
        while self._n_points + len(range(first, len(losses), self.interval)) > MOST_POINTS:
            self._thin()
            first = self.interval - self.records % self.interval - 1
        kept = running[first :: self.interval]
        place = slice(self._n_points, self._n_points + len(kept))
        self._points[place, 0] = self.records + 1 + first + self.interval * np.arange(len(kept))
        self._points[place, 1:] = kept
        self._n_points += len(kept)
        self.records += len(losses)
        self.totals = running[-1].copy() if len(running) else self.totals

    def _thin(self) -> None:
        self.interval *= 2
        kept = self.points[self.points[:, 0] % self.interval == 0]
        self._n_points = len(kept)
        self._points[: len(kept)] = kept

    @property
    def points(self) -> Floats:
        """Rows of (record's number, sums up to it), `interval` records apart."""
        return self._points[: self._n_points]

    def table(self) -> Floats:
        """The points, and one at the last record."""
        if self.records == 0 or (self._n_points and self.points[-1, 0] == self.records):
            return self.points.copy()
        return np.concatenate([self.points, [[self.records, *self.totals]]])

    def windowed(self, window: int) -> Floats:
        """Like `points`, with sums over the `window` records up to each; begins where a window is full.

        `window` is a multiple of `interval`.
        """
        rows = self.points
        back = window // self.interval
        start = np.concatenate([np.zeros((1, rows.shape[1])), rows])[: max(len(rows) + 1 - back, 0)]
        full = rows[back - 1 :].copy()
        full[:, 1:] -= start[:, 1:]
        return full

    def state(self) -> dict[str, NDArray[Any]]:
        """Named arrays to go on from."""
        numbers = np.array([self.records, self.interval], dtype=np.int64)
        return {"points": self.points.copy(), "totals": self.totals, "numbers": numbers}

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        self.records, self.interval = (int(number) for number in arrays["numbers"])
        self.totals = arrays["totals"].copy()
        self._n_points = len(arrays["points"])
        self._points[: self._n_points] = arrays["points"]
