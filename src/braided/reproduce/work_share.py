"""What share of the time that went by a process was at work: what a busy machine takes away is no time of a model."""

from __future__ import annotations

import time


class WorkShare:
    """Measures from when it is made.

    Examples
    --------
    >>> share = WorkShare()
    >>> time.sleep(0.05)
    >>> share.so_far() < 0.5
    True
    """

    def __init__(self) -> None:
        self._begun, self._worked = time.perf_counter(), time.process_time()

    def so_far(self) -> float:
        """From 0 to 1; threads beside each other count as one."""
        return min((time.process_time() - self._worked) / max(time.perf_counter() - self._begun, 1e-9), 1.0)
