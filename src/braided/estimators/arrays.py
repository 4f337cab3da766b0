"""Arrays in: tables, targets and weights, checked before a model sees them.

Data frames and series are read by `frames`, which is imported when the first of them comes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from braided.errors import BraidedError
from braided.estimators.names import column_names
from braided.records import Records
from braided.values import as_number, as_weight, shown

if TYPE_CHECKING:
    from braided.encode.encoder import Encoder as RawEncoder
    from braided.estimators.frames import Frame

Floats = NDArray[np.float64]
_ARRAYS = (np.ndarray, list, tuple)
#: What a sparse matrix does not store.
ZEROS_MISSING, ZEROS_VALUE = ZEROS = ("missing", "value")


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of SciPy."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def n_records(X: Any) -> int:
    """How many records X has."""
    return int(X.shape[0] if is_sparse(X) else np.shape(X)[0])


def frame_of(X: Any) -> Frame | None:
    """The data frame that X is; None for arrays, lists and sparse matrices."""
    if isinstance(X, _ARRAYS):
        return None
    from braided.estimators import frames

    return frames.opened(X)


def column_of(y: Any, name: str = "y") -> Any:
    """Labels, targets or weights of a series as an array or list; anything else as it is."""
    if isinstance(y, _ARRAYS) or y is None:
        return y
    from braided.estimators import frames

    return frames.targets(y, name)


def checked_array(X: ArrayLike, names: Sequence[Hashable] | None, first: int) -> tuple[Floats, list[Hashable]]:
    """A chunk as a contiguous float64 array, checked, and its column names; `first` is its first record's number."""
    try:
        array = np.ma.filled(X.astype(np.float64), np.nan) if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    except ValueError:
        raise BraidedError("X has rows of different lengths: give as many values in each, NaN for missing") from None
    columns = column_names(array.shape, names)
    if array.dtype.kind == "O":
        rows = [
            [as_number(name, value, first + i) for name, value in zip(columns, row, strict=True)]
            for i, row in enumerate(array.tolist())
        ]
        array = np.array(rows, dtype=np.float64).reshape(array.shape)
    elif array.dtype.kind not in "biuf":
        raise BraidedError(f"X holds values of type {array.dtype}: give numbers, NaN for missing ones")
    values: Floats = np.require(array, dtype=np.float64, requirements=["C", "W"])
    for row, column in np.argwhere(np.isinf(values))[:1].tolist():
        as_number(columns[column], float(values[row, column]), first + row)
    return values, columns


def _one_per_record(name: str, values: Any, what: str) -> Any:
    """A column of labels, targets or weights; a single value, or a table, is refused."""
    given = column_of(values, name)
    if isinstance(given, str) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) != 1:
        raise BraidedError(f"{name} is {shown(values)}: give a list or array of one {what} per record")
    return given


def listed(y: Any) -> list[Any]:
    """Labels or targets as a list of plain values."""
    given = _one_per_record("y", y, "label or target")
    return given.tolist() if isinstance(given, np.ndarray) else list(given)


def weights_of(sample_weight: Any, n: int, first: int) -> Floats | None:
    """The weights of n records, the first of which has the number `first`; None where none are given."""
    if sample_weight is None:
        return None
    given = _one_per_record("sample_weight", sample_weight, "weight")
    if not (isinstance(given, np.ndarray) and given.dtype.kind in "biuf"):
        given = np.array([as_weight(value, first + i) for i, value in enumerate(given)])
    weights: Floats = np.require(given, dtype=np.float64, requirements=["C", "W"])
    if weights.size != n:
        raise BraidedError(f"X has {n} records and sample_weight has {weights.size} weights: the lengths must match")
    for wrong in np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))[:1]:
        as_weight(weights[wrong].item(), first + int(wrong))
    return weights


def records_of(
    X: Any,
    names: Sequence[Hashable] | None,
    y: Any,
    sample_weight: Any,
    encoder: RawEncoder | None,
    first: int,
    learn: bool,
    settle: bool = True,
) -> tuple[Records, Frame | None]:
    """A chunk as checked records of numbers, and the data frame that X is, if it is one.

    `X`, `names`, `y` and `sample_weight` are as of `MODLClassifier.predict_learn_many`. The `encoder` makes numbers of
    raw records, and those to `learn` extend its rules if they may `settle` any, but for those of weight 0.
    """
    frame = frame_of(X)
    if frame is not None and names is not None:
        raise BraidedError("names are given with a data frame, which has its own: rename its columns instead")
    if encoder is not None:
        from braided.estimators.frames import raw_columns

        columns, n = raw_columns(X, names) if frame is None else frame.raw_columns(first)
        weights = weights_of(sample_weight, n, first)
        settling: Any = learn and settle
        if settling and weights is not None and not weights.all():
            settling = weights > 0.0
        names, X = encoder.encode_table(columns, n, settling)
    elif frame is not None:
        X, names = frame.table(first)
    values, found = checked_array(X, names, first)
    targets = listed(y) if learn else None
    return Records(tuple(found), values, targets, weights_of(sample_weight, len(values), first), first=first), frame
