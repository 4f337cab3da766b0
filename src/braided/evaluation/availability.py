"""How often each feature had a value."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.store import check, counts, pack_name, unpack_names

Counts = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
#: Features whose availability is followed over time, and those that are counted at all.
MAX_FEATURES, MAX_NAMES = 2_000, 100_000
#: Some features' names, and their places.
_NOTHING: tuple[list[Hashable], Counts] = ([], np.zeros(0, dtype=np.int64))


def add_at(totals: Counts, places: Counts, counts: Counts) -> None:
    """Add to the total at each place, of which no two are the same; one at -1, or past the end, is left out."""
    inside = (places >= 0) & (places < totals.size)
    if not inside.all():
        places, counts = places[inside], counts[inside]
    totals[places] += counts


class Places:
    """Features in the order of their first value, and in how many records each had one."""

    def __init__(self) -> None:
        self.places: dict[Hashable, int] = {}
        self.present = np.zeros(0, dtype=np.int64)
        self._latest = _NOTHING

    def count(self, names: Iterable[Hashable], counts: Counts) -> Counts:
        """Add to how often each of these features was there; returns their places, -1 for one without any value."""
        names = list(names)
        known, places = self._latest
        if names != known:  # consecutive records mostly have the same columns
            for name, count in zip(names, counts.tolist(), strict=True):
                if count and name not in self.places and len(self.places) < MAX_NAMES:
                    self.places[name] = len(self.places)
            self.present = np.pad(self.present, (0, len(self.places) - self.present.size))
            places = np.array([self.places.get(name, -1) for name in names], dtype=np.int64)
            self._latest = (names, places) if (places >= 0).all() else _NOTHING
        add_at(self.present, places, counts)
        return places

    def keep(self, names: Collection[Hashable]) -> Counts:
        """Forget all features but these; returns the places that they had."""
        kept = np.array([place for name, place in self.places.items() if name in names], dtype=np.int64)
        if kept.size < len(self.places):
            self.places = {name: i for i, name in enumerate(name for name in self.places if name in names)}
            self.present = self.present[kept]
            self._latest = _NOTHING
        return kept

    def names(self) -> list[Any]:
        """The features' names as JSON."""
        return [pack_name(name) for name in self.places]

    def load(self, names: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over names, and the counts `present`."""
        found = unpack_names("features that were present", names)
        check("state of the availability", {"present": counts(len(found))}, arrays)
        self.places = {name: i for i, name in enumerate(found)}
        self.present = arrays["present"].copy()
        self._latest = _NOTHING
