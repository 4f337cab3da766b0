"""Single cells, of text or typed: which kind they are of, and columns of them as numbers."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.streams import text
from braided.values import shown

#: ISO dates, times and both, and days with months and years between slashes or points.
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*(Z|UTC|[+-]\d{2}:?\d{2}|[+-]\d{2})?)?"
    r"|\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?|\d{1,2}[/.]\d{1,2}[/.]\d{4}([T ]\d{1,2}:\d{2}(:\d{2})?)?"
)
_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_NUMBERS = frozenset({float, int, bool, type(None)})
_BOOLEANS = {"true": 1.0, "false": 0.0}
#: A column is of the kind that at least this share of the values in its first records has.
_SHARE = 0.9


class Kind(StrEnum):
    """What a column holds."""

    NUMERIC = "numeric"
    CATEGORICAL = "categorical"
    DATE = "date"


@dataclass(frozen=True)
class Wrong:
    """A cell that its reader could not make sense of; `reason` goes on from "column 'x' "."""

    reason: str


Cells = Sequence[Any] | NDArray[np.float64]


def as_number(cell: Any) -> float | None:
    """A cell as a number, NaN for missing, or None if it is none.

    >>> as_number(" 1.5"), as_number("true"), as_number("?"), as_number("red"), as_number("1_000")
    (1.5, 1.0, nan, None, None)
    """
    if cell is None:
        return math.nan
    if isinstance(cell, str):
        try:
            return float(cell) if "_" not in cell else None
        except ValueError:
            word = cell.strip().lower()
            return math.nan if word in text.MISSING else _BOOLEANS.get(word)
    if isinstance(cell, Real | Decimal | np.bool_) and not isinstance(cell, np.timedelta64):
        try:
            return float(cell)
        except OverflowError:
            return math.inf
    return None


def as_category(cell: Any) -> str | None:
    """A cell as the name of a category, None for missing.

    >>> as_category(" red "), as_category(3.0), as_category(True), as_category("n/a")
    ('red', '3', 'true', None)
    """
    if isinstance(cell, str):
        word = cell.strip()
        return None if word.lower() in text.MISSING else word
    if cell is None:
        return None
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, float | np.floating | Decimal):
        if cell != cell:
            return None
        return str(int(cell)) if math.isfinite(cell) and cell == int(cell) else str(cell)
    return str(cell)


def is_date(cell: Any) -> bool:
    """Whether a cell is a date, a time or a span of time, typed or as text."""
    return isinstance(cell, _DATES) or (isinstance(cell, str) and _DATE.fullmatch(cell.strip()) is not None)


def kind_of(cell: Any) -> Kind | None:
    """What one cell is; None if it is missing or of no use."""
    if isinstance(cell, Wrong | bytes | bytearray | memoryview):
        return None
    number = as_number(cell)
    if number is not None:
        return None if math.isnan(number) else Kind.NUMERIC
    return Kind.DATE if is_date(cell) else Kind.CATEGORICAL


def kind_of_column(cells: Cells) -> Kind | None:
    """What nine in ten of the present values are, categorical if it is a mixture, None if there are none.

    >>> kind_of_column(["1", "", "2.5"]), kind_of_column(["red", "1"]), kind_of_column(["?"])
    (<Kind.NUMERIC: 'numeric'>, <Kind.CATEGORICAL: 'categorical'>, None)
    """
    if isinstance(cells, np.ndarray):
        return None if np.isnan(cells).all() else Kind.NUMERIC
    kinds = [kind for kind in map(kind_of, cells) if kind is not None]
    if not kinds:
        return None
    for kind in (Kind.NUMERIC, Kind.DATE):
        if kinds.count(kind) >= _SHARE * len(kinds):
            return kind
    return Kind.CATEGORICAL


def numbers(cells: Cells) -> tuple[NDArray[np.float64], list[tuple[int, str]]]:
    """A column as numbers, NaN for missing, and (row, reason) of the cells that are none; these are NaN too."""
    quick = cells if isinstance(cells, np.ndarray) else _quick(cells)
    if quick is not None and not np.isinf(quick).any():
        return quick, []
    out = np.full(len(cells), np.nan)
    wrong: list[tuple[int, str]] = []
    for i, cell in enumerate(cells):
        value = as_number(cell)
        if value is None:
            wrong.append((i, not_a_number(cell)))
        elif math.isinf(value):
            wrong.append((i, f"is {shown(cell)}: features must be finite, or empty if missing"))
        else:
            out[i] = value
    return out, wrong


def not_a_number(cell: Any) -> str:
    """What is wrong with a cell in a numeric column."""
    if isinstance(cell, Wrong):
        return cell.reason
    word = cell.strip() if isinstance(cell, str) else cell
    return f"is {shown(word)}: features must be numbers, or empty if missing"


def _quick(cells: Sequence[Any]) -> NDArray[np.float64] | None:
    """The column if it is plain enough to be read without a look at each cell: the same numbers, many times faster."""
    types = set(map(type, cells))
    try:
        if types == {str}:
            values = np.array([float(cell) if cell else math.nan for cell in cells])
            return None if "_" in "".join(cells) else values
        return np.array(cells, dtype=np.float64) if types <= _NUMBERS else None
    except (ValueError, OverflowError):
        return None


def label(cell: Any) -> Any:
    """A typed cell as a class label: whole numbers as integers, text as it stands.

    >>> label(2.0), label(0.5), label("2"), label(Decimal("7"))
    (2, 0.5, '2', 7)
    """
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, Decimal):
        cell = float(cell)
    if cell is None or cell != cell or cell == "":
        raise BraidedError("the label is missing: every record needs one")
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return int(cell)
    if not isinstance(cell, str | int | float):
        raise BraidedError(f"the label is {shown(cell)}: text or a number only")
    return cell
