"""Names to places: features to slots, labels to classes. Both only ever grow, and nothing is ever reordered."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.values import as_number, is_missing, shown, sorted_names

#: Types of labels in which there is nothing to check.
_PLAIN_LABELS = (str, int, bool)


#: With more names than so many times those of a record, its slots are listed.
_MANY = 8


class FeatureSpace:
    """Feature names and the slots they were given.

    An absent key, None and NaN all mean missing. A name gets its slot with its first value; names that are new in the
    same record get theirs in sorted order, so that the order of a record's keys does not matter.

    Examples
    --------
    >>> space = FeatureSpace(limit=10)
    >>> space.admit(space.new_in({"b": 1.0, "a": 2.0, "c": None}))
    >>> space.slots
    {'a': 0, 'b': 1}
    >>> space.row({"b": 5, "unknown": 1.0}, record=2)
    array([nan,  5.])
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.slots: dict[Hashable, int] = {}
        self._columns: tuple[list[Hashable], NDArray[np.int64], NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self.slots)

    def new_in(self, x: Mapping[Hashable, Any]) -> list[Hashable]:
        """The names with a value that have no slot yet, in the order they will get theirs."""
        if x.keys() <= self.slots.keys():
            return []
        return self.sort(name for name, value in x.items() if name not in self.slots and not is_missing(value))

    def sort(self, names: Iterable[Hashable]) -> list[Hashable]:
        """Names in the order in which new ones get their slots."""
        return sorted_names(names)

    def check_room(self, names: list[Hashable]) -> None:
        """Refuse names that would exceed the limit."""
        if len(self.slots) + len(names) > self.limit:
            room = max(self.limit - len(self.slots), 0)
            raise BraidedError(
                f"feature {names[room]!r} would be number {self.limit + 1}, and max_features is {self.limit}: "
                "raise max_features, or drop or hash rare features"
            )

    def admit(self, names: list[Hashable]) -> None:
        """Give slots to new names."""
        self._columns = None
        for name in names:
            self.slots[name] = len(self.slots)

    def forget_from(self, n: int) -> None:
        """Take back all slots but the first `n`."""
        self._columns = None
        for name in list(self.slots)[n:]:
            del self.slots[name]

    def row(self, x: Mapping[Hashable, Any], record: int) -> NDArray[np.float64]:
        """The record by slot, NaN where missing; names without a slot are left out, but checked."""
        row = np.full(len(self.slots), np.nan)
        slots = self.slots
        for name, value in x.items():
            number = value if type(value) is float and -math.inf < value < math.inf else as_number(name, value, record)
            slot = slots.get(name)
            if slot is not None:
                row[slot] = number
        return row

    def slots_of(self, x: Mapping[Hashable, Any]) -> NDArray[np.int64] | None:
        """The slots of a record's names, in order; None for all, where a record has a good part of them."""
        known = self.slots
        if len(known) <= _MANY * len(x):
            return None
        return np.array(sorted([known[name] for name in x if name in known]), dtype=np.int64)

    def columns(self, names: list[Hashable]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each slot the place of its name among `names`, or -1; and the slots that have one, in order."""
        if self._columns is None or self._columns[0] != names:
            places = {name: place for place, name in enumerate(names)}
            found = np.array([places.get(name, -1) for name in self.slots], dtype=np.int64)
            # Chunks of one stream have the same columns again and again.
            self._columns = list(names), found, np.flatnonzero(found >= 0)
        return self._columns[1], self._columns[2]


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
        self.restrict(
            limit,
            f"max_classes is {limit}: raise max_classes, or use MODLRegressor if the target is a quantity",
        )

    def __len__(self) -> int:
        return len(self.places)

    def restrict(self, limit: int, reason: str) -> None:
        """Take at most `limit` labels; `reason` ends the sentence that refuses the next one."""
        self.limit = limit
        self.reason = reason

    def label(self, y: Any, record: int) -> Hashable:
        """The label as it is stored: NumPy scalars become plain ones; a missing or unhashable label is refused."""
        if type(y) in _PLAIN_LABELS:
            plain: Hashable = y
            return plain
        if isinstance(y, np.generic):
            y = y.item()
        if is_missing(y):
            raise BraidedError(f"the label of record {record} is {y!r}: every record to learn needs one")
        try:
            hash(y)
        except TypeError:
            raise BraidedError(
                f"the label of record {record} is {shown(y)}: labels must be hashable (text or a number)"
            ) from None
        label: Hashable = y
        return label

    def check_room(self, labels: list[Hashable]) -> None:
        """Refuse labels that would exceed the limit."""
        if len(self.places) + len(labels) > self.limit:
            room = max(self.limit - len(self.places), 0)
            raise BraidedError(f"class {labels[room]!r} would be number {self.limit + 1}, and {self.reason}")

    def admit(self, label: Hashable) -> int:
        """The place of a label, a new one if need be."""
        return self.places.setdefault(label, len(self.places))

    def forget_from(self, n: int) -> None:
        """Take back all places but the first `n`."""
        for label in list(self.places)[n:]:
            del self.places[label]
