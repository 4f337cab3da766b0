"""Sparse matrices of SciPy, some records at a time: what is not stored is missing and costs nothing, or is 0.

Each piece is a small table of those columns that its records have, so that time and memory grow with what is there
rather than with the width. Where zeros are values, it has the columns that the model knows, too: a column is a feature
from the first record on that stores a value in it, and 0 in those after it that do not. SciPy itself is not needed:
whoever has such a matrix has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.names import column_names
from braided.records import Records
from braided.values import sorted_names

#: Records of a piece at most, and cells of its table.
_RECORDS, _MAX_CELLS = 64, 2**18
_NOWHERE = np.zeros(0, dtype=np.int64)


def _places(known: Collection[Hashable], places: dict[Hashable, int] | None, width: int) -> NDArray[np.int64]:
    """The columns of those features that are among the names; without names, among the numbers up to the width."""
    if places is None:
        found = [name for name in known if isinstance(name, int) and 0 <= name < width]
    else:
        found = [places[name] for name in known if name in places]
    return np.array(found, dtype=np.int64)


def _rows(X: Any, names: Sequence[Hashable] | None, first: int) -> tuple[Any, list[Hashable] | None]:
    """The matrix in rows without duplicates, checked, and the names of its columns; None for their numbers."""
    columns = None if names is None and len(X.shape) == 2 else column_names(X.shape, names)
    if X.dtype.kind not in "biuf":
        raise BraidedError(f"X holds values of type {X.dtype}: give numbers, NaN for missing ones")
    rows = X.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    for at in np.flatnonzero(np.isinf(rows.data))[:1]:
        name = rows.indices[at] if columns is None else columns[rows.indices[at]]
        record = first + int(np.searchsorted(rows.indptr, at, side="right")) - 1
        raise BraidedError(
            f"feature {name!r} is {rows.data[at]} in record {record}: it must be finite, or NaN if missing"
        )
    return rows, columns


def new_names(
    X: Any,
    names: Sequence[Hashable] | None,
    known: Collection[Hashable],
    weights: NDArray[np.float64] | None,
    first: int,
) -> list[Hashable]:
    """The names that are new in a matrix, in the order of their records; its values are checked.

    `first` is the number of the first record; one of weight 0 brings no name.
    """
    rows, columns = _rows(X, names, first)
    record = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    there = ~np.isnan(rows.data)
    if weights is not None:
        there &= weights[record] > 0.0
    used, at_first = np.unique(rows.indices[there], return_index=True)
    arrivals: dict[int, list[Hashable]] = {}
    for column, row in zip(used.tolist(), record[there][at_first].tolist(), strict=True):
        name = column if columns is None else columns[column]
        if name not in known:
            arrivals.setdefault(row, []).append(name)
    return [name for row in sorted(arrivals) for name in sorted_names(arrivals[row])]


def pieces(
    X: Any,
    names: Sequence[Hashable] | None,
    targets: list[Any] | None,
    weights: NDArray[np.float64] | None,
    first: int,
    known: Callable[[], Collection[Hashable]] | None = None,
) -> Iterator[Records]:
    """The records of a sparse matrix, in order, some at a time.

    Parameters
    ----------
    X, names
        The matrix, and the names of its columns; 0, 1, ... if not given.
    targets, weights
        Those of the records.
    first
        The number of the first record.
    known
        Where what is not stored is 0: gives the features that are known when a piece is made. Of others a column has
        zeros after the first record that stores a value in it, and has a weight above 0.
    """
    rows, columns = _rows(X, names, first)
    places = None if columns is None or known is None else {name: place for place, name in enumerate(columns)}
    start, n = 0, rows.shape[0]
    while True:  # a matrix without records is one piece
        stop = min(start + _RECORDS, n)
        zeros = _NOWHERE if known is None else _places(known(), places, X.shape[1])
        used = np.union1d(rows.indices[rows.indptr[start] : rows.indptr[stop]], zeros)
        if used.size * (stop - start) > _MAX_CELLS:
            stop = start + max(1, _MAX_CELLS // used.size)
            used = np.union1d(rows.indices[rows.indptr[start] : rows.indptr[stop]], zeros)
        inside = slice(rows.indptr[start], rows.indptr[stop])
        at = np.repeat(np.arange(stop - start), np.diff(rows.indptr[start : stop + 1]))
        column = np.searchsorted(used, rows.indices[inside])
        own = None if weights is None else weights[start:stop]
        table = np.full((stop - start, used.size), np.nan)
        if known is not None:
            arrival = np.where(np.isin(used, zeros), -1, stop - start)
            counted = slice(None) if own is None else own[at] > 0.0
            np.minimum.at(arrival, column[counted], at[counted])
            table[np.arange(stop - start)[:, None] > arrival] = 0.0
        table[at, column] = rows.data[inside]
        yield Records(
            tuple(place if columns is None else columns[place] for place in used.tolist()),
            table,
            None if targets is None else targets[start:stop],
            own,
            first=first + start,
        )
        if stop == n:
            return
        start = stop
