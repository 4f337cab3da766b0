"""Weights of the records in a chunk, and by which records something is settled."""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.encode.cells import lacks_label, plain
from braided.encode.chunk import Chunk, Misfit
from braided.encode.missing_codes import loose_number
from braided.errors import BraidedError
from braided.values import is_missing, shown


def runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where flags are the same one after another: the first place and the one behind the last.

    >>> runs(np.array([True, True, False, True]))
    [(0, 2), (2, 3), (3, 4)]
    """
    cuts = [0, *(np.flatnonzero(flags[1:] != flags[:-1]) + 1).tolist(), len(flags)]
    return [(start, stop) for start, stop in pairwise(cuts) if start < stop]


def learned(chunk: Chunk, weight: str | None) -> NDArray[np.bool_] | None:
    """Which records of a chunk have a weight other than 0, by which nothing is settled; None for all."""
    column: Any = chunk.weights
    if column is None and weight is not None:
        column = chunk.columns.get(weight)
    if column is None:
        return None
    weights = column if isinstance(column, np.ndarray) else [loose_number(cell) for cell in column]
    found = np.array([value != 0.0 for value in weights], dtype=np.bool_)
    return None if found.all() else found


def labelled(chunk: Chunk) -> NDArray[np.bool_] | None:
    """Which records of a chunk have a label, or may get one; without it nothing is settled by them. None for all."""
    ids = chunk.ids or [None] * len(chunk)
    without = [name is None and lacks_label(cell, chunk.spelled) for name, cell in zip(ids, chunk.labels, strict=True)]
    return ~np.array(without, dtype=np.bool_) if any(without) else None


def weight_of(cell: Any) -> float:
    """A weight that was read, 1 where there is none."""
    if is_missing(cell):
        return 1.0
    if isinstance(cell, bool) or not isinstance(cell, int | float) or not 0.0 <= cell < math.inf:
        raise BraidedError(f"the weight is {shown(cell)}: give a number from 0 on")
    return float(cell)


def check_column(read: dict[Hashable, Any], column: str | None) -> list[Misfit]:
    """What is no weight in the column that a user names, of those that were read; it is missing there."""
    name = None if column is None else next((name for name in read if str(name) == column), None)
    if name is None or not isinstance(read[name], np.ndarray):
        return []
    wrong = np.flatnonzero((read[name] < 0.0) | np.isinf(read[name])).tolist()
    found = [
        Misfit(row, f"column {name!r} is {shown(read[name][row].item())}: a weight is a number from 0 on", name)
        for row in wrong
    ]
    if wrong:
        read[name] = read[name].copy()
        read[name][wrong] = np.nan
    return found


def weights_of(chunk: Chunk, wrong: list[Misfit]) -> NDArray[np.float64] | None:
    """The weights of a chunk's records; 1 for what is none, which is put to what does not fit."""
    if chunk.weights is None:
        return None
    weights = np.ones(len(chunk))
    for row, cell in enumerate(chunk.weights):
        try:
            weights[row] = weight_of(plain(cell))
        except BraidedError as error:
            wrong.append(Misfit(row, str(error)))
    return weights
