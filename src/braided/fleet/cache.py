"""The keys of a fleet: those used last in memory, the others in a file of this process alone."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.model import Model
from braided.records import Records
from braided.store import REMEDY, Arrays, checked, decode, encode
from braided.values import key_text, shown

#: What a key has: a row of each of two tables, or a model.
Value = TypeVar("Value")
#: What the shared model alone is called among the learners.
SHARED = "shared"
#: What messages call what a file holds of a fleet.
WHAT = "state of the fleet"
#: What a key has in the file takes a multiple of this many bytes, so that others find room where it was.
_BLOCK = 512
#: The length of the number before it.
_NUMBER = 8


class KeysNotWrittenError(BraidedError):
    """Keys that are too many for memory cannot be put on disk; nothing was lost."""


class KeysLostError(BraidedError):
    """What a key had on disk cannot be read."""


class KeyFile:
    """Bytes by key in a file that has no name: its room on the disk is free when this process ends, however it ends.

    The file is made with the first key, as is its folder: the one of temporary files if none is given.
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

    def write(self, key: str, content: bytes) -> None:
        """Keep something for a key that has nothing here."""
        if self._descriptor < 0:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                file = tempfile.TemporaryFile(prefix="braided-keys-", dir=self._folder)  # noqa: SIM115
            except OSError as error:
                why = error.strerror or error
                raise KeysNotWrittenError(f"folder {self._folder} cannot be written: {why}") from None
            self._process, self._descriptor = os.getpid(), file.fileno()
            weakref.finalize(self, file.close)
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
    """How many keys there may be."""

    #: The largest number of keys in memory.
    in_memory: int
    #: Where the others go; the folder of temporary files if not given.
    folder: str | os.PathLike[str] | None = None
    max_keys: int = 1_000_000
    #: Whether the key that has learned nothing for longest is forgotten where there would be more.
    forget: bool = False
    #: The name of the field that keys come in, for messages.
    key: Hashable = "key"


class KeyCache(ABC, Generic[Value]):
    """The keys of a fleet with what each has: those used last in memory, the others on disk."""

    #: What a checkpoint of one key is called.
    kind: str

    def __init__(self, model: Model, limits: KeyLimits) -> None:
        #: What keys share, or start as.
        self.model = model
        self.limits = limits
        #: Whether one model learns every record, until it is held.
        self.shares = True
        #: How many records were learned; and whether keys alone learn.
        self.learned, self.held = 0, False
        #: The keys, those that learned last at the end.
        self.known: OrderedDict[str, None] = OrderedDict()
        #: What each key in memory has, as `take_in` returns it; those used last at the end.
        self.resident: OrderedDict[str, Any] = OrderedDict()
        #: What went wrong while keys learned, so that they are not what they should be; empty if nothing did.
        self.broken = ""
        #: What keys were when they left memory, as long as they have learned nothing since.
        self._file = KeyFile(limits.folder)

    @abstractmethod
    def fresh(self) -> Value:
        """What a new key has."""

    @abstractmethod
    def pack(self, value: Value) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The metadata and arrays of one key's checkpoint."""

    @abstractmethod
    def unpack(self, metadata: Any, arrays: Arrays) -> Value:
        """The inverse of `pack`, of what may come from a stranger."""

    def take_in(self, value: Value) -> Any:
        """Keep what a key has in memory; returns how to find it."""
        return value

    def value_of(self, resident: Any) -> Value:
        """What was taken in."""
        value: Value = resident
        return value

    def release(self, resident: Any) -> None:
        """A key has left memory, and its room there is free."""

    @property
    def learner_names(self) -> list[str]:
        """Those of a model; and that of the shared one, if there is one."""
        return [*self.model.learner_names, *([SHARED] if self.shares else [])]

    def snapshot_key(self, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The metadata and arrays of what a key has."""
        return self.pack(self.look(key))

    def hold(self) -> None:
        """Let keys alone learn from now on."""
        self.held = True

    def check_room(self, records: Records) -> None:
        """Refuse records to be learned that have no key, or bring too many."""
        keys, new = keys_of(records), set()
        for row in counted_rows(records).tolist():
            if keys[row] is None:
                raise BraidedError(
                    f"record {records.first + row} has no key {shown(self.limits.key)}: give every record that is "
                    "learned one, or leave it out"
                )
            if keys[row] not in self.known:
                new.add(keys[row])
        self._check_number(len(self.known) + len(new), f"record {records.first} or one after it")

    def _check_number(self, n: int, what: str) -> None:
        """Refuse to have so many keys, unless the oldest are forgotten."""
        most = self.limits.max_keys
        if n > most and not self.limits.forget:
            raise BraidedError(
                f"{what} brings key number {most + 1:,}, and max_keys is {most:,}: raise `max_keys`, or give "
                "`evict='oldest'`"
            )

    def parts(self, keys: Sequence[str | None], learned: Sequence[bool]) -> Iterator[slice]:
        """Cut records into parts whose keys fit into memory together, each to be run before the next is asked for.

        Where a key comes that is one too many, the oldest at that point is forgotten.
        """
        start, seen, new = 0, set[str | None](), set[str | None]()
        for row, key in enumerate(keys):
            comes = learned[row] and key not in self.known and key not in new
            full = comes and len(self.known) + len(new) >= self.limits.max_keys
            if row > start and (full or (key not in seen and len(seen) == self.limits.in_memory)):
                yield slice(start, row)
                start, seen, new = row, set(), set()
            if full:
                self.drop(next(iter(self.known)))
            if comes:
                new.add(key)
            seen.add(key)
        if keys:
            yield slice(start, len(keys))

    def use(self, keys: Sequence[str | None], learned: Sequence[bool]) -> list[Any]:
        """What each record's key has in memory, where all of these keys are then; None for one that is not known.

        At most `in_memory` of them may be different; a record that is `learned` makes its key known.
        """
        wanted = OrderedDict.fromkeys(
            key for key, new in zip(keys, learned, strict=True) if key is not None and (new or key in self.known)
        )
        absent = [key for key in wanted if key not in self.resident]
        for found in wanted:
            if found in self.resident:
                self.resident.move_to_end(found)
        self._make_room(len(absent), len(wanted) - len(absent))
        for found in absent:
            self.resident[found] = self.take_in(self.look(found))
        for key, new in zip(keys, learned, strict=True):
            if new and key is not None:
                self._has_learned(key)
        return [None if key is None else self.resident.get(key) for key in keys]

    def set(self, key: str, value: Value) -> None:
        """Let a key have a value, which must have been checked, and be the one that learned last."""
        if key not in self.known:
            self._check_number(len(self.known) + 1, f"key {key!r}")
            if len(self.known) >= self.limits.max_keys:
                self.drop(next(iter(self.known)))
        if key in self.resident:
            self._leave(key)
        self._make_room(1, 0)
        self.resident[key] = self.take_in(value)
        self._has_learned(key)

    def _has_learned(self, key: str) -> None:
        """Let a key be the one that learned last: what it has is no longer what the file has."""
        self.known[key] = None
        self.known.move_to_end(key)
        self._file.remove(key)

    def drop(self, key: str) -> None:
        """Remove a key."""
        del self.known[key]
        self._file.remove(key)
        if key in self.resident:
            self._leave(key)

    def forget_key(self, key: str) -> None:
        """Forget a key, as if it were new."""
        self.drop(key)

    def make_ready(self) -> None:
        """Refuse to learn, before anything has changed, if keys that are too many cannot leave memory.

        Keys that cannot be written in the middle of a step stay in memory until the next one.
        """
        self.check_whole()
        self._put_away(len(self.resident) - self.limits.in_memory)

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Within this, keys learn; on failure the fleet is marked unusable."""
        try:
            yield
        except BaseException as error:
            why = str(error) or type(error).__name__
            self.broken = f"the fleet failed in the middle of a step ({why}), and its keys may lack a part of it"
            raise

    def check_whole(self) -> None:
        """Refuse to go on, or to save, after a step that failed in the middle."""
        if self.broken:
            raise BraidedError(f"{self.broken}: load its last file")

    def look(self, key: str) -> Value:
        """What a key has, which stays where it is; one that is neither in memory nor on disk has what new ones have."""
        if key in self.resident:
            return self.value_of(self.resident[key])
        if key in self._file:
            _, metadata, arrays = decode(self._file.read(key), f"of key {key!r}", self.kind)
            return self.unpack(metadata, arrays)
        return self.fresh()

    def _make_room(self, n: int, kept: int) -> None:
        """Put keys on disk where there would be too many with n more; the `kept` that were used last stay."""
        over = min(len(self.resident) + n - self.limits.in_memory, len(self.resident) - kept)
        try:
            self._put_away(over)
        except BraidedError:  # `make_ready` reports it before the next step that learns
            over = len(self.resident) + n - self.limits.in_memory
            movable = islice(self.resident, len(self.resident) - kept)
            for key in [key for key in movable if key in self._file][:over]:
                self._leave(key)

    def _put_away(self, n: int) -> None:
        """Let the n keys leave memory that were not used for longest; those that have learned are written to disk."""
        for key in list(islice(self.resident, max(n, 0))):
            if key not in self._file:
                self._file.write(key, encode(self.kind, *self.pack(self.look(key))))
            self._leave(key)

    def _leave(self, key: str) -> None:
        self.release(self.resident.pop(key))


def counted_rows(records: Records) -> NDArray[np.int64]:
    """The rows of records that are learned: those of weight 0 are only predicted."""
    return np.arange(len(records)) if records.weights is None else np.flatnonzero(records.weights)


def keys_of(records: Records) -> list[Any]:
    """The key of each record, None for one without."""
    return [None] * len(records) if records.keys is None else records.keys


def likeliest(values: NDArray[np.float64], regression: bool) -> NDArray[Any]:
    """The numbers that a model predicts, or the places of the classes, -1 where nothing is known."""
    if regression:
        return values[:, 0]
    return np.where(values.any(axis=1), values.argmax(axis=1) if values.shape[1] else 0, -1)


def restored_key(what: str, text: Any) -> str:
    """A key in a file, which is a text that a fleet would make of it."""
    if not isinstance(text, str) or key_text(text, "key") != text:
        raise BraidedError(f"{what}: {text!r:.60} is not a key; {REMEDY}")
    return text


def restored_keys(what: str, metadata: Mapping[str, Any]) -> list[str]:
    """The keys in a file's metadata, each checked."""
    keys = [restored_key(what, text) for text in checked(what, metadata, "texts", list)]
    if len(set(keys)) != len(keys):
        raise BraidedError(f"{what} has the same key twice; {REMEDY}")
    return keys
