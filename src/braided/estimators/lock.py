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

#: Seconds that a writer leaves to the readers who wait, before it competes with those that have not come in by then.
_PATIENCE = 0.002
#: Seconds that a fork waits for all models together; a model that is in use for longer may be copied within a record.
_FORK_PATIENCE = 1.0
_numbers = count()
_registry, _forking = threading.Lock(), threading.Lock()
_locks: WeakSet[ModelLock] = WeakSet()
_held: dict[ModelLock, bool] = {}


class ModelLock:
    """Lets one thread at a time use a model, and readers first.

    Readers work within `with lock:`, writers within `with lock.writing:`. Both may be entered again by the thread that
    is within; a reader must not become a writer. A writer keeps all other writers out until it is done, so that the
    names and classes of a chunk stay as they were checked; to readers it gives way between two records
    (`let_readers_in`), and while it changes nothing (`letting_others_read`). A writer lets in those who are waiting and
    then comes first, so that readers who ask without a pause cannot keep it out. A copy has a lock of its own.

    Where nobody waits, entering and leaving costs a reader 0.18 us and a writer 0.37 us (an `RLock` alone 0.12).

    Attributes
    ----------
    waiting
        (1,), not 0 while a reader waits: the compiled record loop looks at it and stops after the record in hand.
    writing
        The context of writers.
    """

    def __init__(self) -> None:
        self.waiting = np.zeros(1, dtype=np.int64)
        self.writing = _Writing(self)
        self._number = next(_numbers)
        self._state = threading.RLock()
        self._renew()
        with _registry:
            _locks.add(self)

    def _renew(self) -> None:
        """Begin with nobody waiting and nobody writing."""
        self.waiting[0] = 0
        self._changed = threading.Condition(threading.Lock())
        #: Whoever comes while a writer takes its turn waits at the gate.
        self._gate, self._gate_closed = threading.Lock(), False
        self._writers, self._depth = threading.RLock(), 0

    def __reduce__(self) -> tuple[type[ModelLock], tuple[()]]:
        return ModelLock, ()

    def __enter__(self) -> None:
        if self._gate_closed or not self._state.acquire(False):
            if not self._state._is_owned():  # type: ignore[attr-defined]
                with self._gate:
                    self._count(1)
                self._acquire_counted()
            else:
                self._state.acquire()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._state.release()

    def _count(self, change: int) -> None:
        with self._changed:
            self.waiting[0] += change
            self._changed.notify_all()

    def _acquire_counted(self, seconds: float = -1) -> bool:
        try:
            return self._state.acquire(timeout=seconds)
        finally:
            self._count(-1)

    def _take_turn(self) -> None:
        """Enter after the readers who wait now, and before those who come later."""
        with self._gate:
            self._gate_closed = True
            try:
                with self._changed:
                    self._changed.wait_for(lambda: self.waiting[0] == 0, _PATIENCE)
                self._state.acquire()
            finally:
                self._gate_closed = False

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
                self._take_turn()
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
            if lock._depth > 0:
                lock._state.acquire()
            elif lock.waiting[0] != 0 or not lock._state.acquire(False):
                lock._take_turn()
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
    for lock in locks:
        lock._count(1)
        _held[lock] = lock._acquire_counted(max(end - time.monotonic(), 0.0))
    _registry.acquire()  # not before: who holds a lock may be making a model


def _after_fork(in_child: bool) -> None:
    for lock in list(_locks):
        held = _held.pop(lock, False)
        if in_child:  # those who held or wanted something are not in this process, but for this thread
            writers, depth = lock._writers, lock._depth
            lock._renew()
            if writers._is_owned():  # type: ignore[attr-defined]
                lock._writers, lock._depth = writers, depth
        if held:
            lock._state.release()
        elif in_child:
            lock._state = threading.RLock()
    _held.clear()
    _registry.release()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(in_child=False),
        after_in_child=lambda: _after_fork(in_child=True),
    )
