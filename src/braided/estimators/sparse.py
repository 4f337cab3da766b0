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
from braided.values import as_number, sorted_names

#: Records of a piece at most, and cells of its table.
_RECORDS, _MAX_CELLS = 64, 2**18
_NOWHERE = np.zeros(0, dtype=np.int64)


class SparseRows:
    """The records of a sparse matrix, checked; `first` is the number of the first."""

    def __init__(self, X: Any, names: Sequence[Hashable] | None, first: int) -> None:
        # A range holds millions of numbers without any memory.
        names = range(X.shape[1]) if names is None and len(X.shape) == 2 else column_names(X.shape, names)
        if X.dtype.kind not in "biuf":
            raise BraidedError(f"X holds values of type {X.dtype}: give numbers, NaN for missing ones")
        rows = X.tocsr()
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        for at in np.flatnonzero(np.isinf(rows.data))[:1]:
            record = first + int(np.searchsorted(rows.indptr, at, side="right")) - 1
            as_number(names[rows.indices[at]], float(rows.data[at]), record)
        self._rows, self._names, self._first = rows, names, first

    def new_names(self, known: Collection[Hashable], weights: NDArray[np.float64] | None) -> list[Hashable]:
        """The names that are new, in the order of their records; one of weight 0 brings no name."""
        rows = self._rows
        record = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        there = ~np.isnan(rows.data)
        if weights is not None:
            there &= weights[record] > 0.0
        used, at_first = np.unique(rows.indices[there], return_index=True)
        arrivals: dict[int, list[Hashable]] = {}
        for column, row in zip(used.tolist(), record[there][at_first].tolist(), strict=True):
            if self._names[column] not in known:
                arrivals.setdefault(row, []).append(self._names[column])
        return [name for row in sorted(arrivals) for name in sorted_names(arrivals[row])]

    def pieces(
        self,
        targets: list[Any] | None,
        weights: NDArray[np.float64] | None,
        known: Callable[[], Collection[Hashable]] | None = None,
    ) -> Iterator[Records]:
        """The records in order, some at a time; a matrix without records is one empty piece.

        Where what is not stored is 0, `known` gives the features that are known when a piece is made: they have zeros.
        Of others a column has them after the first record that stores a value in it, and has a weight above 0.
        """
        rows, names = self._rows, self._names
        places = {} if known is None or isinstance(names, range) else {name: i for i, name in enumerate(names)}
        start, (n, width), zeros = 0, rows.shape, _NOWHERE
        while True:
            if known is not None:
                found = [places.get(name) if places else name for name in known()]
                zeros = np.array([place for place in found if isinstance(place, int) and 0 <= place < width], np.int64)
            stop = min(start + _RECORDS, n)
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
                counted = ~np.isnan(rows.data[inside])
                if own is not None:
                    counted &= own[at] > 0.0
                np.minimum.at(arrival, column[counted], at[counted])
                table[np.arange(stop - start)[:, None] > arrival] = 0.0
            table[at, column] = rows.data[inside]
            chosen = tuple(names[place] for place in used.tolist())
            own_targets = None if targets is None else targets[start:stop]
            yield Records(chosen, table, own_targets, own, first=self._first + start)
            if stop == n:
                return
            start = stop
