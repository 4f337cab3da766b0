"""One writer, many readers, and readers first: a reader waits for the record in hand, not for the chunk."""

from __future__ import annotations

import threading
from types import TracebackType

import numpy as np

#: A stream of readers without a gap must not keep the writer out for ever.
_PATIENCE = 0.002


class Gate:
    """Guards a model that is learned by one thread and read by others.

    Readers use it as a context. The writer holds it while it learns, and calls `give_way` between two records
    whenever `waiting[0]` is not 0; the compiled loop looks at that number after each record.
    """

    def __init__(self) -> None:
        self.waiting = np.zeros(1, dtype=np.int64)
        self._lock = threading.Lock()
        self._count = threading.Lock()
        self._clear = threading.Event()
        self._clear.set()

    def __enter__(self) -> None:
        with self._count:
            self.waiting[0] += 1
            self._clear.clear()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
        with self._count:
            self.waiting[0] -= 1
            if self.waiting[0] == 0:
                self._clear.set()

    def hold(self) -> None:
        """Enter as the writer, after the readers that are there."""
        if self.waiting[0] != 0:
            self._clear.wait(_PATIENCE)
        self._lock.acquire()

    def leave(self) -> None:
        """Leave as the writer."""
        self._lock.release()

    def give_way(self) -> None:
        """Let waiting readers in, and come back."""
        self.leave()
        self.hold()
