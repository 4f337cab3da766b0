"""Sparse matrices of SciPy, some records at a time: what is not stored is missing and costs nothing, or is 0.

Each piece is a small table of those columns that its records have, so that time and memory grow with what is there
rather than with the width. Where zeros are values, it has the columns that the model knows, too: a column is a feature
from the first record on that stores a value in it, and 0 in those after it that do not. SciPy itself is not needed:
whoever has such a matrix has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError

#: What is not stored.
ZEROS_MISSING, ZEROS_VALUE = ZEROS = ("missing", "value")
#: Records of a piece at most, and cells of its table.
_RECORDS, _MOST_CELLS = 64, 2**18
_NOWHERE = np.zeros(0, dtype=np.int64)


class Piece(NamedTuple):
    """Some records of a sparse matrix: which, their table, NaN for missing, and the names of its columns."""

    rows: slice
    table: NDArray[np.float64]
    names: list[Hashable]


def _places(known: Collection[Hashable], places: dict[Hashable, int] | None, width: int) -> NDArray[np.int64]:
    """The columns of those features that are among the names; without names, among the numbers up to the width."""
    if places is None:
        found = [name for name in known if isinstance(name, int) and 0 <= name < width]
    else:
        found = [places[name] for name in known if name in places]
    return np.array(found, dtype=np.int64)


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of SciPy."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def n_records(X: Any) -> int:
    """How many records X has."""
    return int(X.shape[0] if is_sparse(X) else np.shape(X)[0])


def pieces(
    X: Any,
    names: Sequence[Hashable] | None,
    known: Callable[[], Collection[Hashable]] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> Iterator[Piece]:
    """The records of a sparse matrix, in order.

    Parameters
    ----------
    X, names
        The matrix, and the names of its columns; 0, 1, ... if not given.
    known
        Where what is not stored is 0: gives the features that are known when a piece is made. Of others a column has
        zeros after the first record that stores a value in it.
    weights
        Those of the records; one of weight 0 is no such record.
    """
    if len(X.shape) != 2:
        raise BraidedError(f"X has {len(X.shape)} dimension(s): give records in rows and features in columns")
    columns = None if names is None else list(names)
    if columns is not None and len(columns) != X.shape[1]:
        raise BraidedError(f"X has {X.shape[1]} columns and {len(columns)} names: give as many")
    if X.dtype.kind not in "biuf":
        raise BraidedError(f"X holds values of type {X.dtype}: give numbers, NaN for missing ones")
    rows = X.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    n = rows.shape[0]
    places = None if columns is None or known is None else {name: place for place, name in enumerate(columns)}
    start = 0
    while start < n:
        stop = min(start + _RECORDS, n)
        zeros = _NOWHERE if known is None else _places(known(), places, X.shape[1])
        used = np.union1d(rows.indices[rows.indptr[start] : rows.indptr[stop]], zeros)
        if used.size * (stop - start) > _MOST_CELLS:
            stop = start + max(1, _MOST_CELLS // used.size)
            used = np.union1d(rows.indices[rows.indptr[start] : rows.indptr[stop]], zeros)
        inside = slice(rows.indptr[start], rows.indptr[stop])
        at = np.repeat(np.arange(stop - start), np.diff(rows.indptr[start : stop + 1]))
        column = np.searchsorted(used, rows.indices[inside])
        table = np.full((stop - start, used.size), np.nan)
        if known is not None:
            first = np.where(np.isin(used, zeros), -1, stop - start)
            counted = slice(None) if weights is None else weights[start:stop][at] > 0.0
            np.minimum.at(first, column[counted], at[counted])
            table[np.arange(stop - start)[:, None] > first] = 0.0
        table[at, column] = rows.data[inside]
        yield Piece(
            slice(start, stop), table, [place if columns is None else columns[place] for place in used.tolist()]
        )
        start = stop
