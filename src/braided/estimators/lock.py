"""One model, several threads: predictions get in between two records of a chunk that is being learned."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from weakref import WeakSet

import numpy as np

#: Seconds within which a fork waits for models; one that is in use for longer may be copied within a record.
_FORK_PATIENCE = 1.0
_numbers = count()
_registry, _forking = threading.Lock(), threading.Lock()
_locks: WeakSet[ModelLock] = WeakSet()
_held: set[ModelLock] = set()


class ModelLock:
    """Lets one thread at a time use a model, and readers between two records of a writer.

    Readers work within `with lock:`, writers within `with lock.writing:`; the thread that is within may enter again,
    but a reader must not become a writer. A writer keeps all other writers out until it is done, so that the names and
    classes of a chunk stay as they were checked; to readers it gives way between two records (`let_readers_in`), and
    while it changes nothing (`letting_others_read`). All who wait pass a turnstile one by one, a writer that comes back
    among them, so that nobody who asks without a pause can keep another out. A copy has a lock of its own.

    `waiting[0]` is not 0 while a reader waits: the compiled record loop looks at it and stops after the record in hand.
    """

    def __init__(self) -> None:
        self.waiting = np.zeros(1, dtype=np.int64)
        self.writing = _Writing(self)
        self._number = next(_numbers)
        self._state, self._writers, self._depth = threading.RLock(), threading.RLock(), 0
        #: Held by the first of those who wait for the state; and while `waiting` is changed.
        self._turnstile, self._counting = threading.Lock(), threading.Lock()
        with _registry:
            _locks.add(self)

    def __reduce__(self) -> tuple[type[ModelLock], tuple[()]]:
        return ModelLock, ()

    def __enter__(self) -> None:
        if self._turnstile.locked() or not self._state.acquire(False):
            self._wait(reader=True)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._state.release()

    def _wait(self, reader: bool, seconds: float = -1) -> bool:
        """Enter after those who have waited longer; False if that took too many seconds."""
        if self._state._is_owned():  # type: ignore[attr-defined]
            return self._state.acquire()
        self._count(reader)
        try:
            if not self._turnstile.acquire(timeout=seconds):
                return False
            try:
                return self._state.acquire(timeout=seconds)
            finally:
                self._turnstile.release()
        finally:
            self._count(-reader)

    def _count(self, change: int) -> None:
        with self._counting:
            self.waiting[0] += change

    def let_readers_in(self) -> None:
        """Within `writing`, between two records: let those in who wait, and come back."""
        if self.waiting[0] != 0:
            with self.letting_others_read():
                pass

    @contextmanager
    def letting_others_read(self) -> Iterator[None]:
        """Within `writing`: others may read meanwhile, and nobody writes; what is done here must change nothing."""
        if self._depth != 1:  # what an outer writer is about may be half done
            yield
            return
        self._state.release()
        try:
            yield
        finally:
            try:
                self._wait(reader=False)
            except BaseException:  # an interrupted writer leaves by the way it came in
                self._state.acquire()
                raise


class _Writing:
    """The context of a lock's writers."""

    def __init__(self, lock: ModelLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        lock = self._lock
        lock._writers.acquire()
        try:
            if lock._turnstile.locked() or not lock._state.acquire(False):
                lock._wait(reader=False)
        except BaseException:
            lock._writers.release()
            raise
        lock._depth += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        lock = self._lock
        lock._depth -= 1
        lock._state.release()
        lock._writers.release()


def _before_fork() -> None:
    """Take every lock, so that the child has no model in the middle of a record: a fleet's before its models'."""
    _forking.acquire()
    with _registry:
        locks = sorted(_locks, key=lambda lock: lock._number)
    end = time.monotonic() + _FORK_PATIENCE
    _held.update(lock for lock in locks if lock._wait(reader=True, seconds=max(end - time.monotonic(), 0.0)))
    _registry.acquire()  # not before: who holds a lock may be making a model


def _after_fork(in_child: bool) -> None:
    for lock in list(_locks):
        if in_child:  # those who held or wanted something are not in this process, except for this thread
            lock.waiting[0] = 0
            lock._turnstile, lock._counting = threading.Lock(), threading.Lock()
            if not lock._writers._is_owned():  # type: ignore[attr-defined]
                lock._writers, lock._depth = threading.RLock(), 0
        if lock in _held:
            lock._state.release()
        elif in_child:
            lock._state = threading.RLock()
    _held.clear()
    _registry.release()
    _forking.release()


os.register_at_fork(
    before=_before_fork, after_in_parent=lambda: _after_fork(False), after_in_child=lambda: _after_fork(True)
)
