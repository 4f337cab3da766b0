"""How many requests of each kind were answered, and how long they took."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

#: Upper ends of the buckets of the histogram, in seconds.
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class RequestFigures:
    """Counts by method, route and status; routes are templates, so there are few.

    >>> figures = RequestFigures()
    >>> figures.add("GET", "/models/{name}", 200, 0.002)
    >>> for key, counts, seconds in figures.all():
    ...     print(key, sum(counts), seconds)
    ('GET', '/models/{name}', '200') 1 0.002
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], list[int]] = {}
        self._seconds: dict[tuple[str, str, str], float] = {}

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = (method, route, str(status))
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * (len(BUCKETS) + 1)
            self._seconds[key] = 0.0
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[key] += seconds

    def all(self) -> Iterator[tuple[tuple[str, str, str], list[int], float]]:
        """Each kind, how many of it fell into each bucket, and their seconds in all."""
        for key, counts in sorted(self._counts.copy().items()):
            yield key, counts.copy(), self._seconds[key]
