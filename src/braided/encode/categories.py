"""Categorical columns as features: one for each value, or one for each of a fixed number of buckets.

A value that a record has is 1; the other values of the same column that were seen up to and with this record are 0,
because the record says that it has none of them; and all are missing where the record's cell is missing. Were the
others missing instead, a value's feature would be 1 whenever it is there, and a learner that sets values in relation
to their mean would see nothing in it.

A column with ever new values, such as a number of each order, would become ever more features. So only its first ones
have one of their own, and those that come after them share the buckets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.encode.cells import Cells, as_category

_MISSING, _UNKNOWN = -1, -2


def bucket(value: str, buckets: int) -> int:
    """The bucket of a value, the same in every process and on every machine.

    >>> bucket("red", 64), bucket("green", 64)
    (13, 12)
    """
    return (
        int.from_bytes(hashlib.blake2b(value.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
        % buckets
    )


class Categories:
    """The values seen of each categorical column, in the order of appearance.

    Parameters
    ----------
    encoding
        `onehot`: a feature `column=value` for each value; `hash`: a feature `column#number` for each bucket.
    buckets
        Number of buckets of a hashed column.
    most
        How many values of a column have a feature of their own under `onehot`; later ones share the buckets.
    hashed
        Columns that are hashed under `onehot` too.
    on_shared
        Is called with the column whenever one of its values shares a bucket.

    Examples
    --------
    >>> categories = Categories("onehot", 64)
    >>> names, values = categories.encode("colour", ["red", "green", None, "red"], lambda row, name: None)
    >>> names
    ['colour=red', 'colour=green']
    >>> values
    array([[ 1., nan],
           [ 0.,  1.],
           [nan, nan],
           [ 1.,  0.]])
    """

    def __init__(
        self,
        encoding: str,
        buckets: int,
        most: int = 100,
        on_shared: Callable[[Hashable], None] = lambda column: None,
        hashed: Sequence[Hashable] = (),
    ) -> None:
        self.encoding = encoding
        self.buckets = buckets
        self.most = most
        self.hashed = frozenset(hashed)
        self.on_shared = on_shared
        #: For each column its features' places: of values as text, of shared buckets as a number.
        self.known: dict[Hashable, dict[str | int, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.known.values()))

    def encode(
        self, column: Hashable, cells: Sequence[Any], on_new: Callable[[int, str], None], learn: bool = True
    ) -> tuple[list[str], NDArray[np.float64]]:
        """Feature names and values, (n, names); `on_new(row, name)` is called before a new feature is admitted.

        Without `learn` none is: a record with an unknown value has none of those that are known.
        """
        places = self.known.setdefault(column, {}) if learn else self.known.get(column, {})
        before = len(places)
        hashed = self.encoding == "hash" or column in self.hashed
        codes = np.empty(len(cells), dtype=np.int64)
        first: list[int] = []
        for row, cell in enumerate(cells):
            value: str | int | None = as_category(cell)
            if value is None:
                codes[row] = _MISSING
                continue
            if hashed:
                value = str(bucket(str(value), self.buckets))
            place = places.get(value)
            if place is None and not hashed and len(places) >= self.most:
                if learn:
                    self.on_shared(column)
                value = bucket(str(value), self.buckets)
                place = places.get(value)
            if place is None and not learn:
                codes[row] = _UNKNOWN
                continue
            if place is None:
                on_new(row, self.name(column, value))
                place = places[value] = len(places)
                first.append(row)
            codes[row] = place
        values = np.zeros((len(cells), len(places)))
        rows = np.arange(len(cells))
        known = codes >= 0
        values[rows[known], codes[known]] = 1.0
        values[codes == _MISSING] = np.nan
        for place, row in enumerate(first, start=before):
            values[:row, place] = np.nan
        return [self.name(column, value) for value in places], values

    def too_long(self, column: Hashable, cells: Cells, most_characters: int) -> list[int]:
        """Rows whose values would be new features with names longer than that; `encode` must not be given them.

        >>> Categories("onehot", 64).too_long("note", ["short", None, "long" * 10], 20)
        [2]
        """
        known = self.known.get(column, {})
        longest = max((len(cell) for cell in cells if isinstance(cell, str)), default=0)
        hashed = self.encoding == "hash" or column in self.hashed
        if hashed or len(known) >= self.most or len(self.name(column, "")) + longest <= most_characters:
            return []
        rows: list[int] = []
        new: set[str] = set()
        for row, cell in enumerate(cells):
            value = as_category(cell)
            if value is None or value in known or value in new:
                continue
            if len(known) + len(new) >= self.most:
                break  # all later ones share buckets, whose names are short
            if len(self.name(column, value)) > most_characters:
                rows.append(row)
            else:
                new.add(value)
        return rows

    def name(self, column: Hashable, value: str | int) -> str:
        """The feature of a value, or of a shared bucket."""
        shared = self.encoding == "hash" or column in self.hashed or type(value) is int
        return f"{column}{'#' if shared else '='}{value}"

    def meanings(self, column: Hashable) -> dict[Hashable, tuple[Hashable, str]]:
        """Of each feature of a column its column and value; none of a hashed one, whose buckets say little.

        The buckets that late values share are values too, so that a record has one value of each column.

        >>> categories = Categories("onehot", 64, most=1)
        >>> _ = categories.encode("colour", ["red", "green"], lambda row, name: None)
        >>> categories.meanings("colour")
        {'colour=red': ('colour', 'red'), 'colour#12': ('colour', '#12')}
        """
        if self.encoding == "hash" or column in self.hashed:
            return {}
        return {
            self.name(column, value): (column, value if isinstance(value, str) else f"#{value}")
            for value in self.known.get(column, ())
        }

    def state(self) -> list[list[Any]]:
        """What `load_state` takes."""
        return [[column, list(places)] for column, places in self.known.items()]

    def load_state(self, state: list[list[Any]]) -> None:
        """Know what another has seen."""
        self.known = {column: {value: i for i, value in enumerate(values)} for column, values in state}
