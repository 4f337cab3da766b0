"""Records in chunks: tables, targets and weights, checked before a model sees them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from braided.errors import BraidedError
from braided.estimators import frames
from braided.values import as_number, as_weight, shown

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Chunk:
    """Records that a model has checked and will learn.

    Attributes
    ----------
    values, columns, targets, weights
        (n, columns) numbers, the names of the columns, (n,) targets as the engine takes them, and (n,) weights, None
        for 1 each. A record of weight 0 is not learned.
    new_features, new_labels
        Record -> the names, in the order of their slots, or the label that it is the first to have.
    """

    values: Floats
    columns: list[Hashable]
    targets: Floats
    weights: Floats | None
    new_features: dict[int, list[Hashable]]
    new_labels: dict[int, Any]


def checked_array(X: ArrayLike, names: Sequence[Hashable] | None, first: int) -> tuple[Floats, list[Hashable]]:
    """A chunk as a fresh or contiguous float64 array, checked, and its column names.

    `first` is the number of its first record, for what is said of bad ones.
    """
    array = np.ma.filled(X.astype(np.float64), np.nan) if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    if array.ndim != 2:
        raise BraidedError(f"X has {array.ndim} dimension(s): give records in rows and features in columns")
    columns: list[Hashable] = list(range(array.shape[1]) if names is None else names)
    if any(issubclass(kind, np.generic) for kind in set(map(type, columns))):
        columns = [name.item() if isinstance(name, np.generic) else name for name in columns]
    if len(columns) != array.shape[1]:
        raise BraidedError(f"X has {array.shape[1]} columns and {len(columns)} names: give as many")
    if len(set(columns)) != len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise BraidedError(f"column {twice!r} is there twice: rename one of them")
    if array.dtype.kind == "O":
        rows = [
            [as_number(name, value, first + i) for name, value in zip(columns, row, strict=True)]
            for i, row in enumerate(array.tolist())
        ]
        array = np.array(rows, dtype=np.float64).reshape(array.shape)
    elif array.dtype.kind not in "biuf":
        raise BraidedError(f"X holds values of type {array.dtype}: give numbers, NaN for missing ones")
    values: Floats = np.require(array, dtype=np.float64, requirements=["C", "W"])
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise BraidedError(
            f"feature {columns[column]!r} is {values[row, column]} in record {first + row}: "
            "it must be finite, or NaN if missing"
        )
    return values, columns


def listed(y: ArrayLike | Iterable[Any]) -> list[Any]:
    """Labels or targets as a list; a single value, or a table, is refused."""
    if isinstance(y, np.ndarray) and y.ndim != 1:
        raise BraidedError(f"y has {y.ndim} dimension(s): give one label or target a record")
    if isinstance(y, str) or not isinstance(y, Iterable):
        raise BraidedError(f"y is {shown(y)}: give a list or array of labels or targets")
    return list(y)


def weights_of(sample_weight: Any, n: int, first: int) -> Floats | None:
    """The weights of n records, the first of which has the number `first`; None where none are given."""
    if sample_weight is None:
        return None
    given = frames.targets(sample_weight, "sample_weight")
    if isinstance(given, str) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) != 1:
        raise BraidedError(f"sample_weight is {shown(sample_weight)}: give a list or array of one weight a record")
    if not (isinstance(given, np.ndarray) and given.dtype.kind in "biuf"):
        given = np.array([as_weight(value, first + i) for i, value in enumerate(given)])
    weights: Floats = np.require(given, dtype=np.float64, requirements=["C", "W"])
    if weights.size != n:
        raise BraidedError(f"X has {n} records and sample_weight has {weights.size} weights: they must be as many")
    for wrong in np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))[:1]:
        as_weight(weights[wrong].item(), first + int(wrong))
    return weights
