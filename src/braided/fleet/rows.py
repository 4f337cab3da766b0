"""The rows of all keys: those used last in memory, the others on disk."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.checkpoint import InParts
from braided.errors import BraidedError
from braided.fleet.layout import RowLayout
from braided.fleet.spill import SpillFolder
from braided.kernels import keyed
from braided.state import holding_together

Single = NDArray[np.float32]
Double = NDArray[np.float64]
#: Keys that leave memory together are in one file; a key that comes back is read out of one in a millisecond.
GROUP = 32
#: A file of which less than this share is still needed is taken apart.
_NEEDED = 0.25
_KIND = "FleetRows"
_SMALLEST_POOL = 64
#: Keys that are saved at a time: their files have neighbours together.
_PART = 256


@dataclass(frozen=True)
class KeyLimits:
    """How many keys there may be.

    Attributes
    ----------
    in_memory
        So many at most are in memory.
    folder
        Where the others go; that of temporary files if not given.
    max_keys
        So many at most there are.
    forget
        Whether the key that has learned nothing for longest is forgotten where there would be more.
    """

    in_memory: int
    folder: str | os.PathLike[str] | None = None
    max_keys: int = 1_000_000
    forget: bool = False


class KeyRows:
    """A row for each key.

    Parameters
    ----------
    layout
        The sizes of rows.
    limits
        How many keys there may be.

    Attributes
    ----------
    known
        The keys, those that learned last at the end.
    single, double
        The pool: one row per place; `resident` has the place of each key that is in memory, those used last at the end.
    """

    def __init__(self, layout: RowLayout, limits: KeyLimits) -> None:
        self.layout = layout
        self.limits = limits
        self.in_memory = limits.in_memory
        self.known: OrderedDict[str, None] = OrderedDict()
        self.resident: OrderedDict[str, int] = OrderedDict()
        self.single: Single = np.zeros((0, layout.size), dtype=np.float32)
        self.double: Double = np.zeros((0, keyed.DOUBLES))
        self._free: list[int] = []
        self._spill = SpillFolder(limits.folder)
        #: Key -> the file it is in, as long as it has learned nothing since; file -> its keys in order, and how many of
        #: them are still needed.
        self._file: dict[str, int] = {}
        self._files: dict[int, tuple[list[str], int]] = {}

    def __len__(self) -> int:
        return len(self.known)

    def grow(self, layout: RowLayout) -> None:
        """Make the rows in memory larger; those on disk follow when they are read."""
        if layout != self.layout:
            self.single = layout.grown(self.single, self.layout)
            self.layout = layout

    def parts(self, keys: Sequence[str | None], learned: Sequence[bool] | None) -> Iterator[tuple[int, int]]:
        """Cut records into parts whose keys fit into memory together, each to be run before the next is asked for.

        Where a key comes that is one too many, the oldest is forgotten as it stands by then.
        """
        start = 0
        while start < len(keys):
            end, seen, new = start, set[str | None](), set[str | None]()
            while end < len(keys):
                key = keys[end]
                if key not in seen and len(seen) == self.in_memory:
                    break
                if learned is not None and learned[end] and key not in self.known and key not in new:
                    if len(self.known) + len(new) >= self.limits.max_keys:
                        if end > start:
                            break
                        self.forget_oldest()
                    new.add(key)
                seen.add(key)
                end += 1
            yield start, end
            start = end

    def places(self, keys: Sequence[str | None], create: Iterable[bool] | None) -> NDArray[np.int64]:
        """The place of each key's row, -1 for one that is not known; all of them are in memory then.

        Parameters
        ----------
        keys
            One a record, of which at most `in_memory` are different; None for none.
        create
            Whether each record makes its key known, and is learned; None for none of them.
        """
        learned = [False] * len(keys) if create is None else list(create)
        wanted = OrderedDict.fromkeys(
            key for key, new in zip(keys, learned, strict=True) if key is not None and (new or key in self.known)
        )
        absent = []
        for key in wanted:
            if key in self.resident:
                self.resident.move_to_end(key)
            else:
                absent.append(key)
        self._make_room(len(absent), len(wanted) - len(absent))
        self._bring(absent)
        for one, new in zip(keys, learned, strict=True):
            if new and one is not None:
                self._leave_file(one)
                self.known[one] = None
                self.known.move_to_end(one)
        return np.array([-1 if key is None else self.resident.get(key, -1) for key in keys], dtype=np.int64)

    def make_ready(self, keys: Iterable[str | None]) -> None:
        """Refuse to learn, before anything has changed, if keys that are too many cannot leave memory or come back.

        Keys that cannot be written in the middle of a step stay in memory until the next one.
        """
        over = len(self.resident) - self.in_memory
        if over > 0:
            self._put_away(list(islice(self.resident, over)))
        self.check_files(keys)

    def check_files(self, keys: Iterable[str | None]) -> None:
        """Refuse a step if what some keys have on disk is gone."""
        for key in keys:
            if key is not None and key not in self.resident and key in self._file:
                self._spill.check(self._file[key])

    def _make_room(self, n: int, kept: int) -> None:
        """Have n free places: by putting keys on disk where there would be too many, and by a larger pool.

        So many that were used last stay in memory.
        """
        over = len(self.resident) + n - self.in_memory
        if over > 0:
            few = max(over, min(GROUP, self.in_memory // 2))
            movable = max(len(self.resident) - kept, 0)
            try:
                self._put_away(list(islice(self.resident, min(few, movable))))
            except BraidedError:  # `make_ready` says so before the next step that learns
                unchanged = [key for key in islice(self.resident, movable) if key in self._file]
                self._free_places(unchanged[:over])
        missing = n - len(self._free)
        if missing > 0:
            have = len(self.single)
            size = max(min(max(2 * have, _SMALLEST_POOL), self.in_memory), have + missing)
            single = np.zeros((size, self.layout.size), dtype=np.float32)
            double = np.zeros((size, keyed.DOUBLES))
            single[:have], double[:have] = self.single, self.double
            self.single, self.double = single, double
            self._free += range(size - 1, have - 1, -1)

    def _put_away(self, keys: list[str]) -> None:
        """Free the places of keys; those that have learned since they were read are written to disk, in groups."""
        changed = [key for key in keys if key not in self._file]
        for first in range(0, len(changed), GROUP):
            group = changed[first : first + GROUP]
            at = [self.resident[key] for key in group]
            self._write(group, self.single[at], self.double[at])
        self._free_places(keys)
        self._take_apart()

    def _free_places(self, keys: Iterable[str]) -> None:
        self._free += [self.resident.pop(key) for key in keys]

    def _write(self, keys: list[str], single: Single, double: Double) -> None:
        sizes = {"features": self.layout.features, "classes": self.layout.classes}
        number = self._spill.add(_KIND, sizes, {"single": single, "double": double})
        self._files[number] = (keys, len(keys))
        for key in keys:
            self._leave_file(key)
            self._file[key] = number

    def _leave_file(self, key: str) -> None:
        """Forget where a key was on disk; a file that nobody needs is removed."""
        number = self._file.pop(key, None)
        if number is None:
            return
        keys, needed = self._files[number]
        self._files[number] = (keys, needed - 1)
        if needed == 1:
            del self._files[number]
            self._spill.remove(number)

    def _take_apart(self) -> None:
        """Write what is still needed of a file that is mostly out of date into a new one."""
        number = next(iter(self._files), None)
        if number is None:
            return
        keys, needed = self._files[number] = self._files.pop(number)  # the next time, others are looked at first
        if needed >= _NEEDED * len(keys):
            return
        rest = [key for key in keys if self._file.get(key) == number]
        with suppress(BraidedError):  # the file is as good as before, or as bad
            self._write(rest, *self._read(number, [keys.index(key) for key in rest]))

    def _read(self, number: int, at: list[int]) -> tuple[Single, Double]:
        """Some rows of a file, checked, in the present layout."""
        sizes, arrays = self._spill.read(number, _KIND)[1:]
        with holding_together("a file of keys on disk"):
            old = RowLayout(self.layout.regression, int(sizes["features"]), int(sizes["classes"]))
            single, double = arrays["single"][at], arrays["double"][at]
        old.check("keys on disk", single, double)
        return self.layout.grown(single, old), double

    def _bring(self, keys: list[str]) -> None:
        """Have keys in memory: from their files, each of which is read once, or as new ones."""
        by_file: dict[int | None, list[str]] = {}
        for key in keys:
            by_file.setdefault(self._file.get(key), []).append(key)
        for number, group in by_file.items():
            if number is None:
                rows: tuple[NDArray[Any], NDArray[Any]] = self.layout.fresh()
            else:
                rows = self._read(number, [self._files[number][0].index(key) for key in group])
            places = [self._free.pop() for _ in group]
            self.single[places], self.double[places] = rows
            self.resident |= dict(zip(group, places, strict=True))

    def forget_oldest(self) -> str:
        """Forget the key that has learned nothing for longest; returns it."""
        key = next(iter(self.known))
        self.forget(key)
        return key

    def forget(self, key: str) -> None:
        """Forget a key that is known."""
        del self.known[key]
        self._leave_file(key)
        if key in self.resident:
            self._free.append(self.resident.pop(key))

    def row(self, key: str) -> tuple[Single, Double]:
        """The row of a key that is known, as tables of one."""
        at = self.places([key], None)
        return self.single[at], self.double[at]

    def set_row(self, key: str, single: Single, double: Double) -> None:
        """Let a key have a row, which must have been checked, and be the one that learned last."""
        at = self.places([key], [True])
        self.single[at], self.double[at] = single, double

    def all_rows(self) -> tuple[Single, Double]:
        """The rows of all keys, in the order of `known`."""
        return self._rows_of(list(self.known))

    def in_parts(self) -> tuple[InParts, InParts]:
        """The same, with some keys in memory at a time; to be read before anything is learned."""
        double = np.zeros((len(self.known), keyed.DOUBLES))  # few: kept while the others are read

        def single() -> Iterator[Single]:
            keys = list(self.known)
            for start in range(0, len(keys), _PART):
                rows, double[start : start + _PART] = self._rows_of(keys[start : start + _PART])
                yield rows

        return (
            InParts(self.single.dtype, (len(self.known), self.layout.size), single),
            InParts(double.dtype, double.shape, lambda: (double,)),
        )

    def _rows_of(self, keys: Sequence[str]) -> tuple[Single, Double]:
        """The rows of some keys, which stay where they are."""
        single, double = np.zeros((len(keys), self.layout.size), np.float32), np.zeros((len(keys), keyed.DOUBLES))
        here = [place for place, key in enumerate(keys) if key in self.resident]
        at = [self.resident[keys[place]] for place in here]
        single[here], double[here] = self.single[at], self.double[at]
        by_file: dict[int, list[int]] = {}
        for place, key in enumerate(keys):
            if key not in self.resident:
                by_file.setdefault(self._file[key], []).append(place)
        for number, places in by_file.items():
            order = {key: row for row, key in enumerate(self._files[number][0])}
            single[places], double[places] = self._read(number, [order[keys[place]] for place in places])
        return single, double

    def load(self, keys: Mapping[str, int], single: Single, double: Double) -> None:
        """Take over the rows of all keys, which must have been checked; a key has its place among them.

        Refused if those that are too many for memory cannot be put on disk.
        """
        rest = iter(keys)
        while few := list(islice(rest, min(GROUP, self.in_memory))):
            places, at = self.places(few, [True] * len(few)), [keys[key] for key in few]
            self.single[places], self.double[places] = single[at], double[at]
            self.make_ready(())
