"""How many records of a chunk a fleet learns before it lets others in."""

from __future__ import annotations

import time
from collections.abc import Iterator

#: Seconds of processor time that a piece should take; and records in the first one, and at least.
_SECONDS, _FIRST, _LEAST = 0.005, 32, 4


def pieces(n: int, first: int = 0) -> Iterator[slice]:
    """The rows of a chunk, as many at a time as are learned in some milliseconds; at least `first` at first.

    There is one piece at least.

    >>> list(pieces(3)), sum(rows.stop - rows.start for rows in pieces(1_000))
    ([slice(0, 3, None)], 1000)
    """
    done, size = 0, max(_FIRST, first)
    while True:
        began, stop = time.thread_time(), min(done + size, n)
        yield slice(done, stop)
        if stop == n:
            return
        seconds = time.thread_time() - began
        size = max(_LEAST, min(2 * size, int((stop - done) * _SECONDS / max(seconds, 1e-6))))
        done = stop
