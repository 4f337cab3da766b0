"""How often each feature had a value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.store import MAX_COUNT, Array, check, pack_name, unpack_names

Counts = NDArray[np.int64]
#: Features whose availability is followed over time, and those that are counted at all.
MAX_FEATURES, MAX_NAMES = 2_000, 100_000


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
        #: The latest names whose places are all known, with these places.
        self._latest: tuple[list[Hashable], Counts] = ([], np.zeros(0, dtype=np.int64))

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
            if (places >= 0).all():
                self._latest = (names, places)
        add_at(self.present, places, counts)
        return places

    def names(self) -> list[Any]:
        """The features' names as JSON."""
        return [pack_name(name) for name in self.places]

    def load(self, names: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over `names`, and the counts `present`; nothing has been counted yet."""
        found = unpack_names("features that were present", names)
        check("state of the availability", {"present": Array((len(found),), "int64", 1, MAX_COUNT)}, arrays)
        self.count(found, arrays["present"])
