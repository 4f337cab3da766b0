"""Names to places: features to slots, labels to classes. Nothing is ever reordered.

Labels only ever grow in number. So do slots, but one whose name has not been seen for long may be given to another.
"""

from __future__ import annotations

import copy
from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import repeat
from math import isfinite, isinf, nan
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.store import check, counts
from braided.values import as_number, is_missing, shown, sorted_names

#: Types of labels in which there is nothing to check, and of values that NumPy takes as they are.
_PLAIN_LABELS = (str, int, bool)
_PLAIN_VALUES = {float, int, bool, NoneType}
#: The array of a snapshot that says when each feature was there last.
LAST_SEEN = "last seen"
_NO_SLOTS = np.zeros(0, dtype=np.int64)


def plain_name(name: Any) -> Hashable:
    """A column's name, or a label, without NumPy types, which a checkpoint could not hold."""
    if isinstance(name, tuple):
        return tuple(plain_name(part) for part in name)
    plain: Hashable = name.item() if isinstance(name, np.generic) else name
    return plain


def column_names(shape: tuple[int, ...], names: Sequence[Hashable] | None) -> list[Hashable]:
    """The names of a table's columns, all different; their numbers where none are given."""
    if len(shape) != 2:
        raise BraidedError(f"X has {len(shape)} dimension(s): give records in rows and features in columns")
    columns: list[Hashable] = list(range(shape[1])) if names is None else [plain_name(name) for name in names]
    if len(columns) != shape[1]:
        raise BraidedError(f"X has {shape[1]} columns and {len(columns)} names: the lengths must match")
    if len(set(columns)) != len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise BraidedError(f"column {twice!r} is there twice: rename one of them")
    return columns


class FeatureSpace:
    """Feature names and the slots they were given, at most `limit`; those in `first` never give theirs up.

    An absent key, None and NaN all mean missing. A name gets its slot with its first value; names that are new in the
    same record get theirs in sorted order, so that the order of a record's keys does not matter. Where there is no room
    for a new name, the one that was not seen for longest gives up its slot, if it was in none of the last
    `expire_after` records, the one with the new name included; of several, the first slot.

    Examples
    --------
    >>> space = FeatureSpace(limit=10, first=["a", "b"])
    >>> values = space.values_of({"b": 5, "unknown": 1.0}, record=2)
    >>> space.by_slot(values[0], ["b", "unknown"])
    array([nan,  5.])
    """

    def __init__(self, limit: int, expire_after: int | None = None, first: Iterable[Hashable] = ()) -> None:
        self.limit = limit
        self.expire_after = expire_after
        self.slots: dict[Hashable, int] = {}
        #: If names expire: records learned, and for each slot the last one of them that had its name.
        self.records = 0
        self.last_seen = np.zeros(0, dtype=np.int64)
        #: What was asked for last: the values of a record, and the columns of some names; the next are often the same.
        self._values = array("d")
        self._placed: tuple[tuple[Hashable, ...], array[int]] = (), array("q")
        self._columns: tuple[Sequence[Hashable], NDArray[np.int64], NDArray[np.int64]] | None = None
        names = list(first)
        self.admit(names, self.check_room(names))
        self._n_kept = len(names)

    def __len__(self) -> int:
        return len(self.slots)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # joblib may open a pickle as a read-only memory map, and compiled code takes arrays that can be written to.
        self.__dict__.update(state, last_seen=np.require(state["last_seen"], requirements="W"), _columns=None)

    def copy(self) -> FeatureSpace:
        """An independent copy."""
        other = copy.copy(self)
        other.slots, other.last_seen = dict(self.slots), self.last_seen.copy()
        return other

    def check_room(self, names: list[Hashable], row: NDArray[np.float64] | None = None) -> NDArray[np.int64]:
        """The slots that others give up for these new names; refused if that is not room enough.

        `row` is the record that brings the names, by slot: without it no name expires.
        """
        lacking, expired = max(len(self.slots) + len(names) - self.limit, 0), _NO_SLOTS
        if lacking and self.expire_after is not None and row is not None:
            old = (self.last_seen + self.expire_after <= self.records + 1) & np.isnan(row)
            old[: self._n_kept] = False
            expired = np.flatnonzero(old)
            expired = expired[np.argsort(self.last_seen[expired], kind="stable")][:lacking]
        if expired.size < lacking:
            kept, remedy = "", "give `expire_after`"
            if self.expire_after is not None:
                kept, remedy = f", all seen in the last {self.expire_after} records", "lower `expire_after`"
            refused = names[len(names) - lacking + expired.size]
            raise BraidedError(
                f"feature {refused!r} would be number {self.limit + 1}, and max_features is {self.limit}{kept}: raise "
                f"`max_features`, {remedy}, or drop or hash rare features"
            )
        return expired

    def admit(self, names: list[Hashable], given_up: NDArray[np.int64] = _NO_SLOTS) -> list[Hashable]:
        """Give new slots to the first of some new names, to the last ones those given up; returns who had these."""
        self._columns, self._placed = None, ((), array("q"))
        n_new = len(names) - given_up.size
        for name in names[:n_new]:
            self.slots[name] = len(self.slots)
        gone = []
        if given_up.size:
            by_slot = list(self.slots)
            for slot, name in zip(given_up.tolist(), names[n_new:], strict=True):
                gone.append(by_slot[slot])
                by_slot[slot] = name
            self.slots = {name: slot for slot, name in enumerate(by_slot)}
        if self.expire_after is not None:
            self.last_seen = np.concatenate([self.last_seen, np.zeros(n_new, dtype=np.int64)])
        return gone

    def see(self, values: NDArray[np.float64], columns: NDArray[np.int64]) -> None:
        """Count records as learned; `columns` has the column of each slot, -1 for a slot without one."""
        if not len(values):
            return
        slots = np.flatnonzero(columns >= 0)
        there = ~np.isnan(values[:, columns[slots]])
        seen = there.any(axis=0)
        last = len(values) - there[::-1, seen].argmax(axis=0)
        self.last_seen[slots[seen]] = self.records + last
        self.records += len(values)

    def see_one(self, values: array[float], slots: array[int]) -> None:
        """Count one record as learned, as `place` gave it."""
        self.records += 1
        self.last_seen[[slot for slot, value in zip(slots, values, strict=True) if value == value]] = self.records

    def load_last_seen(self, arrays: Mapping[str, NDArray[Any]], records: int) -> None:
        """Take over when each slot's name was seen last, after so many records."""
        check("state of the model", {LAST_SEEN: counts(len(self.slots), high=records)}, arrays)
        self.last_seen[:], self.records = arrays[LAST_SEEN], records

    def arrivals(self, values: NDArray[np.float64], names: Sequence[Hashable]) -> dict[int, list[Hashable]]:
        """Record -> the names that get a slot with it, in that order, if these records are learned.

        Admits them and counts the records, as what expires depends on those before: to be asked of a copy.
        """
        places = {name: place for place, name in enumerate(names)}
        waiting, found = defaultdict[int, list[Hashable]](list), dict[int, list[Hashable]]()
        row, done = None, 0

        def wait(name: Hashable, start: int) -> None:
            there = ~np.isnan(values[start:, places[name]])
            if there.any():
                waiting[start + int(there.argmax())].append(name)

        for name in names:
            if name not in self.slots:
                wait(name, 0)
        for at in range(len(values)):
            if at not in waiting:
                continue
            new = found[at] = sorted_names(waiting[at])
            if self.expire_after is not None:
                self.see(values[done:at], self.columns(names)[0])
                row, done = self.by_slot(values[at], names), at
            for name in self.admit(new, self.check_room(new, row)):
                if name in places:
                    wait(name, at + 1)
        if self.expire_after is not None:
            self.see(values[done:], self.columns(names)[0])
        return found

    def place(self, x: Mapping[Hashable, Any], record: int) -> tuple[array[float], array[int]]:
        """A record's values, each of them checked, NaN for missing ones, and their slots, -1 for an unknown name.

        The same arrays again where values or names are those of the record before: most are predicted, then learned.

        >>> FeatureSpace(limit=10, first=["a", "b"]).place({"b": 5, "unknown": None}, record=2)
        (array('d', [5.0, nan]), array('q', [1, -1]))
        """
        names, given = tuple(x), list(x.values())
        if names != self._placed[0]:
            self._placed = names, array("q", map(self.slots.get, names, repeat(-1)))
        slots = self._placed[1]
        if set(map(type, given)) <= _PLAIN_VALUES:
            try:
                values = array("d", [nan if value is None else value for value in given] if None in given else given)
            except OverflowError:  # a whole number that is too large
                return array("d", [as_number(name, value, record) for name, value in x.items()]), slots
            if values.tobytes() == self._values.tobytes():
                return self._values, slots
            # A sum that is finite has finite parts; a missing one makes it NaN.
            if isfinite(sum(values)) or not any(map(isinf, values)):
                self._values = values
                return values, slots
        return array("d", [as_number(name, value, record) for name, value in x.items()]), slots

    def values_of(self, x: Mapping[Hashable, Any], record: int) -> NDArray[np.float64]:
        """A record's values in the order of its names, (1, names), NaN for missing ones; each is checked."""
        return np.array([self.place(x, record)[0]])

    def by_slot(self, values: NDArray[np.float64], names: Sequence[Hashable]) -> NDArray[np.float64]:
        """A record by slot, NaN where missing, from the values of these names."""
        columns, slots = self.columns(names)
        row = np.full(len(self.slots), np.nan)
        row[slots] = values[columns[slots]]
        return row

    def columns(self, names: Sequence[Hashable]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each slot the place of its name among `names`, or -1; and the slots that have one, in order."""
        if self._columns is None or self._columns[0] != names:
            by_slot = [-1] * len(self.slots)
            for place, name in enumerate(names):
                if name in self.slots:
                    by_slot[self.slots[name]] = place
            places = np.array(by_slot, dtype=np.int64)
            self._columns = names, places, (places >= 0).nonzero()[0]
        return self._columns[1:]


class ClassSpace:
    """Class labels, of any hashable type, and their places in the order of appearance.

    Examples
    --------
    >>> classes = ClassSpace(limit=3)
    >>> classes.admit("spam"), classes.admit("ham"), classes.admit("spam")
    (0, 1, 0)
    """

    def __init__(self, limit: int) -> None:
        self.places: dict[Hashable, int] = {}
        self.limit = limit
        #: Ends the sentence that refuses one more label.
        self.reason = f"max_classes is {limit}: raise `max_classes`, or take a regression if the target is a quantity"

    def __len__(self) -> int:
        return len(self.places)

    def label(self, y: Any, record: int) -> Hashable:
        """The label as it is stored: NumPy scalars become plain ones; a missing or unhashable label is refused."""
        label: Hashable = y.item() if isinstance(y, np.generic) else y
        if type(label) in _PLAIN_LABELS:
            return label
        if is_missing(label):
            raise BraidedError(f"the label of record {record} is {label!r}: every record to learn needs one")
        try:
            hash(label)
        except TypeError:
            what = f"the label of record {record} is {shown(label)}"
            raise BraidedError(f"{what}: labels must be hashable (text or a number)") from None
        return label

    def check_room(self, labels: list[Hashable]) -> None:
        """Refuse labels that would exceed the limit."""
        if labels and len(self.places) + len(labels) > self.limit:
            room = max(self.limit - len(self.places), 0)
            raise BraidedError(f"class {labels[room]!r} would be number {self.limit + 1}, and {self.reason}")

    def admit(self, label: Hashable) -> int:
        """The place of a label, a new one if need be."""
        return self.places.setdefault(label, len(self.places))
