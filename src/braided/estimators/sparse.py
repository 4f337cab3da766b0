"""Sparse matrices of SciPy, some records at a time: what is not stored is missing, and costs nothing.

Each piece is a small table of those columns that its records have, so that time and memory grow with what is there
rather than with the width. SciPy itself is not needed: whoever has such a matrix has it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError

#: Records of a piece at most, and cells of its table.
_RECORDS, _MOST_CELLS = 64, 2**18


class Piece(NamedTuple):
    """Some records of a sparse matrix: which, their table, NaN for missing, and the names of its columns."""

    rows: slice
    table: NDArray[np.float64]
    names: list[Hashable]


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of SciPy."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def n_records(X: Any) -> int:
    """How many records X has."""
    return int(X.shape[0] if is_sparse(X) else np.shape(X)[0])


def pieces(X: Any, names: Sequence[Hashable] | None) -> Iterator[Piece]:
    """The records of a sparse matrix, in order."""
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
    start = 0
    while start < n:
        stop = min(start + _RECORDS, n)
        used = np.unique(rows.indices[rows.indptr[start] : rows.indptr[stop]])
        if used.size * (stop - start) > _MOST_CELLS:
            stop = start + max(1, _MOST_CELLS // used.size)
            used = np.unique(rows.indices[rows.indptr[start] : rows.indptr[stop]])
        inside = slice(rows.indptr[start], rows.indptr[stop])
        table = np.full((stop - start, used.size), np.nan)
        at = np.repeat(np.arange(stop - start), np.diff(rows.indptr[start : stop + 1]))
        table[at, np.searchsorted(used, rows.indices[inside])] = rows.data[inside]
        yield Piece(
            slice(start, stop), table, [place if columns is None else columns[place] for place in used.tolist()]
        )
        start = stop
