"""Data frames in and out: pandas, Polars, PyArrow and whatever else narwhals knows, column by column.

A frame becomes what the models take, a float64 array with NaN for missing and the columns' names; what they answer
becomes a frame or series of the same library, with the index kept where there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals import Series
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from braided.encode.cells import Cells
from braided.encode.flatten import flat_columns, is_nested
from braided.errors import BraidedError
from braided.estimators.names import column_names, plain_name
from braided.values import as_number, encode_takes, is_missing

Floats = NDArray[np.float64]

#: Integers that NumPy has no type for.
_WIDE = (nw.Int128, nw.UInt128)
_TEXT = f"encode it as numbers, for example as one column of 0 and 1 for each value; {encode_takes('text')}"
_DATES = f"pass seconds since a fixed moment, or parts such as hour and weekday; {encode_takes('dates')}"


def _remedy(dtype: Any) -> tuple[str, str] | None:
    """What a column of this type holds and what to do about it; None if it may hold numbers."""
    if dtype == nw.String:
        return "text", _TEXT
    if dtype == nw.Categorical or dtype == nw.Enum:
        return "categories", _TEXT
    if dtype.is_temporal():
        return "dates or times", _DATES
    if dtype.is_nested():
        return "nested values", "unnest it into columns of numbers"
    if dtype == nw.Binary:
        return "bytes", "decode them into numbers"
    return None


def _is_untyped(series: Series[Any]) -> bool:
    """Whether a column is of no type, and its values are looked at one by one."""
    return series.dtype in (nw.Object, nw.Unknown) or getattr(series.to_native(), "dtype", None) == np.dtype(object)


def _column(series: Series[Any], name: Hashable, first: int) -> Floats:
    """A column as float64, NaN for null; `first` is the number of its first record."""
    if _is_untyped(series):
        cells = series.to_numpy()
        if cells.dtype.kind in "biuf":  # such as pandas' sparse columns
            return cells.astype(np.float64)
        return np.array([as_number(name, value, first + i) for i, value in enumerate(cells.tolist())], np.float64)
    dtype = series.dtype
    if (refused := _remedy(dtype)) is not None:
        raise BraidedError(f"column {name!r} holds {refused[0]} ({dtype}): {refused[1]}")
    # Not series.cast(Float64): PyArrow refuses integers beyond 2**53 there, and rounds decimals twice.
    nulls = series.is_null().to_numpy() if series.null_count() else None
    if nulls is not None:
        series = series.fill_null(False if dtype == nw.Boolean else 0)
    if dtype.is_decimal() or dtype in _WIDE:
        series = series.cast(nw.String)
    numbers: Floats = series.to_numpy().astype(np.float64)
    if nulls is not None:
        numbers[nulls] = np.nan
    return numbers


class Frame:
    """An eager frame that was given for X.

    Examples
    --------
    >>> import polars as pl
    >>> frame = opened(pl.DataFrame({"b": [1, None], "a": [True, False]}))
    >>> frame.table(first=1)
    (array([[ 1.,  1.],
           [nan,  0.]]), ['b', 'a'])
    """

    def __init__(self, frame: nw.DataFrame[Any]) -> None:
        self._frame = frame
        self._pandas = frame.implementation.is_pandas_like()

    @property
    def columns(self) -> list[Hashable]:
        """The names of the columns."""
        return [plain_name(name) for name in self._frame.columns]

    def table(self, first: int) -> tuple[Floats, list[Hashable]]:
        """The values, (n, d), NaN for missing, and the columns' names; `first` is the number of the first record."""
        names = self.columns
        for nameless in filter(is_missing, names):
            raise BraidedError(f"X has a column named {nameless!r}: give every column a name")
        native, plain = self._frame.to_native(), self._plain_places()
        if len(plain) == len(names) > 0:
            return native.to_numpy(dtype=np.float64, na_value=np.nan), names
        values = np.empty(self._frame.shape)
        if plain:
            values[:, plain] = native.iloc[:, plain].to_numpy(dtype=np.float64, na_value=np.nan)
        for place in sorted(set(range(len(names))) - set(plain)):
            values[:, place] = _column(self._frame[:, place], names[place], first)
        return values, names

    def without(self, name: Hashable) -> tuple[Any, list[Any]]:
        """The frame, as a native one, without a column; and that column's values, None for null."""
        names = self.columns
        if name not in names:
            raise BraidedError(f"X has no column {name!r}: give a frame that has it")
        place = names.index(name)
        series = self._frame[:, place]
        return self._frame[:, [at for at in range(len(names)) if at != place]].to_native(), series.to_list()

    def raw_columns(self, first: int) -> tuple[dict[Hashable, Cells], int]:
        """The cells of each column, without nesting, numbers as an array; and how many records there are."""
        columns: dict[Hashable, Cells] = {}
        for name, series in zip(self.columns, self._frame.iter_columns(), strict=True):
            numbers = not _is_untyped(series) and _remedy(series.dtype) is None
            cells: Cells = _column(series, name, first) if numbers else series.to_list()
            columns |= flat_columns(name, cells) if is_nested(cells) else {name: cells}
        return columns, self._frame.shape[0]

    def _plain_places(self) -> list[int]:
        """Where pandas has numbers: it converts them all at once, and takes half a millisecond for each on its own."""
        if not self._frame.implementation.is_pandas():
            return []
        types = enumerate(self._frame.schema.values())
        return [place for place, kind in types if kind.is_integer() or kind.is_float() or kind == nw.Boolean]

    def check_names(self, labels: Sequence[Hashable]) -> None:
        """Refuse labels that cannot be the names of columns side by side."""
        if self._pandas:
            return
        texts: dict[str, Hashable] = {}
        for label in labels:
            other = texts.setdefault(str(label), label)
            if other is not label:
                raise BraidedError(
                    f"labels {other!r} and {label!r} would both be column {str(label)!r}: "
                    "give a pandas frame or a NumPy array, or use labels with different texts"
                )

    def frame(self, values: Floats, labels: Sequence[Hashable]) -> Any:
        """A frame of the same library, one column per label; only pandas names them by the labels themselves."""
        self.check_names(labels)
        native = self._frame.to_native()
        library: Any = self._frame.__native_namespace__()
        if self._pandas:
            # Labels may be tuples, of which pandas would otherwise make a MultiIndex.
            columns = library.Index(list(labels), dtype=None if labels else object, tupleize_cols=False)
            return library.DataFrame(values, index=native.index, columns=columns)
        columns = {str(label): np.ascontiguousarray(values[:, place]) for place, label in enumerate(labels)}
        return nw.from_dict(columns, backend=self._frame.implementation).to_native()

    def series(self, values: Sequence[Any] | Floats, places: NDArray[np.intp] | None = None) -> Any:
        """A series of the same library with one value per record; with `places`, those at these places of `values`.

        A chosen series has the common type of all values.
        """
        if self._pandas:
            library: Any = self._frame.__native_namespace__()
            index = self._frame.to_native().index
            if places is None:
                return library.Series(values, index=index, dtype=None if isinstance(values, np.ndarray) else object)
            chosen = library.Series(values).iloc[places]
            chosen.index = index
            return chosen
        try:
            made = nw.new_series("", values, backend=self._frame.implementation)
        except Exception:  # each library has exceptions of its own
            kinds = ", ".join(sorted({type(value).__name__ for value in values}))
            raise BraidedError(
                f"labels of type {kinds} do not fit one {self._frame.implementation.value} column: "
                "give a pandas frame or a NumPy array"
            ) from None
        return (made if places is None else made[places]).to_native()


def _wrapped(X: Any) -> Any:
    """A frame or series in narwhals' terms; anything else as it is."""
    arrow = sys.modules.get("pyarrow")  # narwhals takes neither its batches nor its arrays
    if arrow is not None and isinstance(X, arrow.RecordBatch):
        X = arrow.Table.from_batches([X])
    elif arrow is not None and isinstance(X, arrow.Array):
        X = arrow.chunked_array([X])
    try:
        return nw.from_native(nw.to_native(X, pass_through=True), pass_through=True, allow_series=True)
    except DuplicateError:
        names = list(getattr(X, "column_names", getattr(X, "columns", [])))
        twice = next(name for name in names if names.count(name) > 1)
        raise BraidedError(f"X has column {twice!r} twice: give each column a name of its own") from None


def opened(X: Any) -> Frame | None:
    """The frame, if X is one; None for arrays and lists."""
    wrapped = _wrapped(X)
    if isinstance(wrapped, nw.LazyFrame):
        raise BraidedError(f"X is a lazy frame ({type(X).__name__}): collect it first, for example X.collect()")
    return Frame(wrapped) if isinstance(wrapped, nw.DataFrame) else None


def raw_columns(X: Any, names: Sequence[Hashable] | None) -> tuple[dict[Hashable, Cells], int]:
    """The cells of each column of an array or list of rows, and how many records there are."""
    array = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype(np.float64), np.nan)
    known = column_names(array.shape, names)
    numbers = array.dtype.kind in "biuf"
    cells = [column.astype(np.float64) if numbers else column.tolist() for column in array.T]
    return dict(zip(known, cells, strict=True)), array.shape[0]


def targets(y: Any, name: str = "y") -> Any:
    """Labels, targets or weights of a series as an array or list; anything else as it is."""
    wrapped = _wrapped(y)
    if isinstance(wrapped, nw.DataFrame | nw.LazyFrame):
        raise BraidedError(f"{name} is a table ({type(y).__name__}): give one column of it")
    if not isinstance(wrapped, nw.Series):
        return y
    dtype = wrapped.dtype
    plain = dtype == nw.Boolean or (dtype.is_numeric() and not dtype.is_decimal() and dtype not in _WIDE)
    return wrapped.to_numpy() if plain and wrapped.null_count() == 0 else wrapped.to_list()
