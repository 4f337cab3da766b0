"""The rows of all keys: those used last in memory, the others on disk."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

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

    def _make_room(self, n: int, kept: int) -> None:
        """Have n free places: by a larger pool as long as there may be one, then by putting keys on disk.

        So many that were used last stay in memory.
        """
        while len(self._free) < n and len(self.single) < self.in_memory:
            have = len(self.single)
            size = min(max(2 * have, _SMALLEST_POOL, have + n), self.in_memory)
            single = np.zeros((size, self.layout.size), dtype=np.float32)
            double = np.zeros((size, keyed.DOUBLES))
            single[:have], double[:have] = self.single, self.double
            self.single, self.double = single, double
            self._free += range(size - 1, have - 1, -1)
        while len(self._free) < n:
            few = max(n - len(self._free), min(GROUP, self.in_memory // 2))
            self._put_away(list(islice(self.resident, min(few, len(self.resident) - kept))))

    def _put_away(self, keys: list[str]) -> None:
        """Free the places of keys; those that have learned since they were read are written to disk, in groups."""
        changed = [key for key in keys if key not in self._file]
        for first in range(0, len(changed), GROUP):
            group = changed[first : first + GROUP]
            at = [self.resident[key] for key in group]
            self._write(group, self.single[at], self.double[at])
        for key in keys:
            self._free.append(self.resident.pop(key))
        self._take_apart()

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
        keys, needed = self._files[number]
        if needed >= _NEEDED * len(keys):
            self._files[number] = self._files.pop(number)  # looked at last
            return
        rest = [key for key in keys if self._file.get(key) == number]
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
            places = [self._free.pop() for _ in group]
            if number is None:
                self.single[places], self.double[places] = self.layout.fresh()
            else:
                at = [self._files[number][0].index(key) for key in group]
                self.single[places], self.double[places] = self._read(number, at)
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
        places = np.array([self.resident.get(key, 0) for key in self.known], dtype=np.int64)
        if len(self.single) == 0:
            places = places[:0]
        single, double = self.single[places], self.double[places]
        if len(self.resident) == len(self.known):
            return single, double
        order = {key: at for at, key in enumerate(self.known)}
        for number, (keys, _) in self._files.items():
            rest = [place for place, key in enumerate(keys) if self._file.get(key) == number]
            at = [order[keys[place]] for place in rest]
            single[at], double[at] = self._read(number, rest)
        return single, double

    def load(self, keys: list[str], single: Single, double: Double) -> None:
        """Take over the rows of all keys, which must have been checked."""
        if len(keys) != len(single):
            raise BraidedError(f"the fleet has {len(keys)} keys and {len(single)} rows; give a file written by save")
        for first in range(0, len(keys), GROUP):
            part = keys[first : first + GROUP]
            for begin in range(0, len(part), self.in_memory):
                few = part[begin : begin + self.in_memory]
                places = self.places(few, [True] * len(few))
                start = first + begin
                self.single[places], self.double[places] = (
                    single[start : start + len(few)],
                    double[start : start + len(few)],
                )
