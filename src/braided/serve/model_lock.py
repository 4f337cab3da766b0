"""One writer, many readers, and readers first: a reader waits for the record in hand, not for the chunk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

#: A stream of readers without a gap must not keep the writer out for ever.
_PATIENCE = 0.002


class ModelLock:
    """For a model that is learned by one thread and read by others.

    Readers use it as a context. The writer works within `writing`, and calls `let_readers_in` between two records
    whenever `readers_waiting[0]` is not 0; the compiled loop looks at that number after each record.
    """

    def __init__(self) -> None:
        self.readers_waiting = np.zeros(1, dtype=np.int64)
        self._lock = threading.Lock()
        self._count = threading.Lock()
        self._clear = threading.Event()
        self._clear.set()

    def __enter__(self) -> None:
        with self._count:
            self.readers_waiting[0] += 1
            self._clear.clear()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        with self._count:
            self.readers_waiting[0] -= 1
            if self.readers_waiting[0] == 0:
                self._clear.set()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Enter as the writer, after the readers that are there."""
        self._enter_as_writer()
        try:
            yield
        finally:
            self._lock.release()

    def let_readers_in(self) -> None:
        """Within `writing`, let those in who wait, and come back."""
        self._lock.release()
        self._enter_as_writer()

    def _enter_as_writer(self) -> None:
        if self.readers_waiting[0] != 0:
            self._clear.wait(_PATIENCE)
        self._lock.acquire()
