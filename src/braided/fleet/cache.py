"""The keys of a fleet: those used last in memory, the others in a file of this process alone."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.records import Records
from braided.store import Checkpoint, decode, encode
from braided.values import shown

#: What some keys have: rows of two tables, or a list of models.
Values = TypeVar("Values")
#: What a key has in the file takes a multiple of this many bytes, so that others find room where it was.
_BLOCK = 512
#: The length of the number before it.
_NUMBER = 8
_MIN_PLACES = 64


class KeysNotWrittenError(BraidedError):
    """Keys that are too many for memory cannot be put on disk; nothing was lost."""


class KeysLostError(BraidedError):
    """What a key had on disk cannot be read."""


class KeyFile:
    """Bytes by key in a file that has no name: its room on the disk is free when this process ends, however it ends.

    Parameters
    ----------
    folder
        Where to make it; the folder of temporary files if not given. Both are made with the first key.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = Path(folder or tempfile.gettempdir())
        self._descriptor = -1
        self._process = os.getpid()
        self._writes = 0
        #: Key -> the number of the write, where it starts, and the length.
        self._places: dict[str, tuple[int, int, int]] = {}
        self._end = 0
        #: Length in blocks -> where there is free room of this length.
        self._free: dict[int, list[int]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def _open(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = tempfile.TemporaryFile(prefix="braided-keys-", dir=self._folder)  # noqa: SIM115
        except OSError as error:
            raise KeysNotWrittenError(f"folder {self._folder} cannot be written: {error.strerror or error}") from None
        self._process, self._descriptor = os.getpid(), file.fileno()
        weakref.finalize(self, file.close)

    def write(self, key: str, content: bytes) -> None:
        """Keep something for a key that has nothing here."""
        if self._descriptor < 0:
            self._open()
        if os.getpid() != self._process:
            raise KeysNotWrittenError(
                f"this process was forked from the one that puts keys into {self._folder}: load the fleet's file here"
            )
        self._writes += 1
        numbered = self._writes.to_bytes(_NUMBER, "little") + content
        room = -(-len(numbered) // _BLOCK)
        free = self._free.get(room)
        start = free[-1] if free else self._end
        try:
            if os.pwrite(self._descriptor, numbered, start) < len(numbered):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise KeysNotWrittenError(
                f"keys that are too many for memory cannot be put into a file in {self._folder}: "
                f"{error.strerror or error}; make room there, and go on, as nothing was lost"
            ) from None
        if free:
            free.pop()
        else:
            self._end += room * _BLOCK
        self._places[key] = self._writes, start, len(numbered)

    def read(self, key: str) -> bytes:
        """What was kept for a key; refused where the process that this one was forked from has overwritten it."""
        number, start, length = self._places[key]
        try:
            found = os.pread(self._descriptor, length, start)
        except OSError as error:
            raise KeysLostError(
                f"key {key!r} cannot be read from disk: {error.strerror}; load the fleet's last file"
            ) from None
        if found[:_NUMBER] != number.to_bytes(_NUMBER, "little") or len(found) < length:
            raise KeysLostError(f"key {key!r} is no longer on disk as this process had it: load the fleet's last file")
        return found[_NUMBER:]

    def remove(self, key: str) -> None:
        """Keep nothing for a key, if anything was kept."""
        if key in self._places:
            _, start, length = self._places.pop(key)
            self._free.setdefault(-(-length // _BLOCK), []).append(start)


@dataclass(frozen=True)
class KeyLimits:
    """How many keys there may be.

    Attributes
    ----------
    in_memory
        The largest number of keys in memory.
    folder
        Where the others go; the folder of temporary files if not given.
    max_keys
        The largest number of keys.
    forget
        Whether the key that has learned nothing for longest is forgotten where there would be more.
    key
        The name of the field that keys come in, for messages.
    """

    in_memory: int
    folder: str | os.PathLike[str] | None = None
    max_keys: int = 1_000_000
    forget: bool = False
    key: Hashable = "key"


class Places(Protocol[Values]):
    """What keys in memory have, each in a numbered place, and how files hold it."""

    #: What a checkpoint of one key is called.
    kind: str

    def resize(self, n: int) -> None:
        """Have n places, of which the first keep what they hold."""

    def fresh(self, n: int) -> Values:
        """What n new keys have."""

    def get(self, places: list[int]) -> Values:
        """What the keys in some places have."""

    def put(self, places: list[int], values: Values) -> None:
        """Let some places hold something."""

    def clear(self, place: int) -> None:
        """A place is free."""

    def pack(self, values: Values) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The metadata and arrays of one key's checkpoint."""

    def unpack(self, checkpoint: Checkpoint) -> Values:
        """What the checkpoint of one key has, checked."""


class KeyCache(Generic[Values]):
    """The keys of a fleet with what each has: those used last in memory, the others on disk.

    Parameters
    ----------
    held
        Where what keys in memory have is held.
    limits
        How many keys there may be.

    Attributes
    ----------
    known
        The keys, those that learned last at the end.
    resident
        The place of each key that is in memory, those used last at the end.
    """

    def __init__(self, held: Places[Values], limits: KeyLimits) -> None:
        self.held = held
        self.limits = limits
        self.known: OrderedDict[str, None] = OrderedDict()
        self.resident: OrderedDict[str, int] = OrderedDict()
        #: What went wrong while keys learned, so that they are not what they should be; empty if nothing did.
        self.broken = ""
        self._size = 0
        self._free: list[int] = []
        #: What keys were when they left memory, as long as they have learned nothing since.
        self._file = KeyFile(limits.folder)

    def __len__(self) -> int:
        return len(self.known)

    def check_room(self, records: Records) -> None:
        """Refuse records to be learned that have no key, or bring too many."""
        keys, weights = records.keys or [], records.weights
        learned = [True] * len(keys) if weights is None else (weights > 0.0).tolist()
        new: set[str] = set()
        for row, (key, counts) in enumerate(zip(keys, learned, strict=True)):
            if counts and key is None:
                raise BraidedError(
                    f"record {records.first + row} has no key {shown(self.limits.key)}: give every record that is "
                    "learned one, or leave it out"
                )
            if counts and key not in self.known:
                new.add(str(key))
        self.check_room_for(new, records.first)

    def check_room_for(self, new: Collection[str], record: int) -> None:
        """Refuse new keys where there would be too many."""
        most = self.limits.max_keys
        if not self.limits.forget and len(self.known) + len(new) > most:
            raise BraidedError(
                f"record {record} or one after it brings key number {most + 1:,}, and max_keys is {most:,}: raise "
                "`max_keys`, or give `evict='oldest'`"
            )

    def parts(self, keys: Sequence[str | None], learned: Sequence[bool] | None) -> Iterator[tuple[int, int]]:
        """Cut records into parts whose keys fit into memory together, each to be run before the next is asked for.

        Where a key comes that is one too many, the oldest at that point is forgotten.
        """
        start = 0
        while start < len(keys):
            end, seen, new = start, set[str | None](), set[str | None]()
            while end < len(keys):
                key = keys[end]
                if key not in seen and len(seen) == self.limits.in_memory:
                    break
                if learned is not None and learned[end] and key not in self.known and key not in new:
                    if len(self.known) + len(new) >= self.limits.max_keys:
                        if end > start:
                            break
                        self._forget_oldest()
                    new.add(key)
                seen.add(key)
                end += 1
            yield start, end
            start = end

    def places(self, keys: Sequence[str | None], learned: Sequence[bool] | None) -> NDArray[np.int64]:
        """The place of each record's key, -1 for one that is not known; all of these keys are in memory then.

        Parameters
        ----------
        keys
            One per record, at most `in_memory` of them different; None for a record without one.
        learned
            Whether each record is learned, which makes its key known; None if no record is.
        """
        learned = [False] * len(keys) if learned is None else learned
        wanted = OrderedDict.fromkeys(
            key for key, new in zip(keys, learned, strict=True) if key is not None and (new or key in self.known)
        )
        self._bring(list(wanted))
        for key, new in zip(keys, learned, strict=True):
            if new and key is not None:
                self.changed(key)
                self.known[key] = None
                self.known.move_to_end(key)
        return np.array([-1 if key is None else self.resident.get(key, -1) for key in keys], dtype=np.int64)

    def set(self, keys: Sequence[str], values: Values) -> None:
        """Let keys have values, which must have been checked, and be those that learned last.

        Where there are too many keys, the oldest are forgotten.
        """
        for key in keys:
            if key not in self.known and len(self.known) >= self.limits.max_keys:
                self._forget_oldest()
            self.known[key] = None
            self.known.move_to_end(key)
        absent = [key for key in keys if self._touch(key)]
        self._make_room(len(absent), len(keys) - len(absent))
        for key in absent:
            self.resident[key] = self._free.pop()
        self.held.put([self.resident[key] for key in keys], values)
        for key in keys:
            self.changed(key)

    def changed(self, key: str) -> None:
        """What a key has is no longer what the file has."""
        self._file.remove(key)

    def forget(self, key: str) -> None:
        """Forget a key that is known."""
        del self.known[key]
        self.changed(key)
        if key in self.resident:
            self._free_places([key])

    def _forget_oldest(self) -> None:
        """Forget the key that has learned nothing for longest."""
        self.forget(next(iter(self.known)))

    def make_ready(self) -> None:
        """Refuse to learn, before anything has changed, if keys that are too many cannot leave memory.

        Keys that cannot be written in the middle of a step stay in memory until the next one.
        """
        self.check_whole()
        self._put_away(list(islice(self.resident, max(len(self.resident) - self.limits.in_memory, 0))))

    @contextmanager
    def learning(self, behind: str) -> Iterator[None]:
        """Within this, keys learn; on failure the fleet is marked unusable, and `behind` says what its keys lack."""
        try:
            yield
        except BaseException as error:
            why = str(error) or type(error).__name__
            self.broken = f"the fleet has failed in the middle of a step ({why}), and its keys {behind}"
            raise

    def check_whole(self) -> None:
        """Refuse to go on, or to save, after a step that failed in the middle."""
        if self.broken:
            raise BraidedError(f"{self.broken}: load its last file")

    def look(self, keys: Sequence[str]) -> Iterator[tuple[list[int], Values]]:
        """What some keys have, which stay where they are: which of these keys, and their values, some at a time.

        A key that is neither in memory nor on disk has what new ones have.
        """
        here = [i for i, key in enumerate(keys) if key in self.resident]
        if here:
            yield here, self.held.get([self.resident[keys[i]] for i in here])
        new = [i for i, key in enumerate(keys) if key not in self.resident and key not in self._file]
        if new:
            yield new, self.held.fresh(len(new))
        for i, key in enumerate(keys):
            if key not in self.resident and key in self._file:
                yield [i], self.held.unpack(decode(self._file.read(key), f"of key {key!r}", self.held.kind))

    def _touch(self, key: str) -> bool:
        """Count a key as used last if it is in memory; whether it is not."""
        if key in self.resident:
            self.resident.move_to_end(key)
            return False
        return True

    def _bring(self, keys: Sequence[str]) -> None:
        """Have keys in memory: from their files, each of which is read once, or as new ones."""
        absent = [key for key in keys if self._touch(key)]
        self._make_room(len(absent), len(keys) - len(absent))
        for some, values in self.look(absent):
            places = [self._free.pop() for _ in some]
            self.held.put(places, values)
            self.resident |= {absent[i]: place for i, place in zip(some, places, strict=True)}

    def _make_room(self, n: int, kept: int) -> None:
        """Have n free places: by putting keys on disk where there would be too many, and by more places.

        The last `kept` keys that were used stay in memory.
        """
        over = len(self.resident) + n - self.limits.in_memory
        if over > 0:
            movable = max(len(self.resident) - kept, 0)
            try:
                self._put_away(list(islice(self.resident, min(over, movable))))
            except BraidedError:  # `make_ready` reports it before the next step that learns
                over, movable = len(self.resident) + n - self.limits.in_memory, max(len(self.resident) - kept, 0)
                unchanged = [key for key in islice(self.resident, movable) if key in self._file]
                self._free_places(unchanged[:over])
        missing = n - len(self._free)
        if missing > 0:
            have = self._size
            self._size = max(min(max(2 * have, _MIN_PLACES), self.limits.in_memory), have + missing)
            self.held.resize(self._size)
            self._free += range(self._size - 1, have - 1, -1)

    def _put_away(self, keys: Iterable[str]) -> None:
        """Free the places of keys; those that have learned since they were read are written to disk."""
        for key in keys:
            if key not in self._file:
                self._file.write(key, encode(self.held.kind, *self.held.pack(self.held.get([self.resident[key]]))))
            self._free_places([key])

    def _free_places(self, keys: Iterable[str]) -> None:
        for key in keys:
            place = self.resident.pop(key)
            self.held.clear(place)
            self._free.append(place)
