"""Single cells, of text or typed: which kind they are of, and columns of them as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.encode import dates
from braided.encode.missing import MISSING
from braided.encode.number_form import PLAIN, NumberForm, spelled
from braided.errors import BraidedError
from braided.values import is_missing, number_of, shown

_NUMBERS = frozenset({float, int, bool, type(None)})
BOOLEANS = {"true": 1.0, "false": 0.0}
_WHOLE = re.compile(r"[+-]?[0-9]{1,1000}")
#: Below this, every whole number is a float of its own.
_EXACT = 2**53
#: A column is of the kind that at least this share of the values in its first records has.
_SHARE = 0.9


class Kind(StrEnum):
    """What a column holds."""

    NUMERIC = "numeric"
    CATEGORICAL = "categorical"
    DATE = "date"
    TEXT = "text"
    DROPPED = "dropped"


@dataclass(frozen=True)
class BadCell:
    """A cell that its reader could not make sense of; `reason` goes on from "column 'x' "."""

    reason: str


Cells = Sequence[Any] | NDArray[np.float64]


def as_number(cell: Any, form: NumberForm = PLAIN) -> float | None:
    """A cell as a number, NaN for missing, or None if it is not a number; `form` is how numbers are spelled in text.

    >>> as_number(" 1.5"), as_number("true"), as_number("?"), as_number("red"), as_number("1_000")
    (1.5, 1.0, nan, None, None)
    """
    if not isinstance(cell, str):
        return number_of(cell)
    if form is not PLAIN:
        word = cell.strip()
        plain = form.plain(word)
        word = word.lower()
        return float(plain) if plain is not None else math.nan if word in MISSING else BOOLEANS.get(word)
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        word = cell.strip().lower()
        return math.nan if word in MISSING else BOOLEANS.get(word)


def as_feature(cell: Any, form: NumberForm = PLAIN) -> float:
    """A cell as a feature's value, NaN for missing; for others an error whose text goes on from "column 'x' "."""
    number = as_number(cell, form)
    if number is None:
        if isinstance(cell, BadCell):
            raise BraidedError(cell.reason)
        word = cell.strip() if isinstance(cell, str) else cell
        hint = _spelling_hint(word, form) if isinstance(word, str) else ""
        raise BraidedError(f"is {shown(word)}: features must be numbers{hint}, or empty if missing")
    if math.isinf(number):
        raise BraidedError(f"is {shown(cell)}: features must be finite, or empty if missing")
    return number


def _spelling_hint(word: str, form: NumberForm) -> str:
    """What to say of a number of another spelling."""
    if not spelled([word]):
        return ""
    usual = "decimal commas" if form.decimal == "," else "decimal points"
    between = f" and {form.thousands!r} between thousands" if form.thousands else ""
    return f" with {usual}{between} (`decimal` and `thousands` say otherwise)"


def as_category(cell: Any) -> str | None:
    """A cell as the name of a category, None for missing.

    >>> as_category(" red "), as_category(3.0), as_category(True), as_category("n/a")
    ('red', '3', 'true', None)
    """
    if isinstance(cell, str):
        word = cell.strip()
        return None if word.lower() in MISSING else word
    if is_missing(cell):
        return None
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, float | np.floating | Decimal):
        return str(int(cell)) if math.isfinite(cell) and cell == int(cell) else str(cell)
    return str(cell)


def kind_of(cell: Any, form: NumberForm = PLAIN) -> Kind | None:
    """What one cell is; None if it is missing or of no use."""
    if isinstance(cell, BadCell | bytes | bytearray | memoryview):
        return None
    number = as_number(cell, form)
    if number is not None:
        return None if math.isnan(number) else Kind.NUMERIC
    return Kind.DATE if dates.is_moment(cell) else Kind.CATEGORICAL


def kind_of_column(cells: Cells, form: NumberForm = PLAIN) -> Kind | None:
    """What nine in ten of the present values are, categorical if it is a mixture, None if there are none.

    >>> kind_of_column(["1", "", "2.5"]), kind_of_column(["red", "1"]), kind_of_column(["?"])
    (<Kind.NUMERIC: 'numeric'>, <Kind.CATEGORICAL: 'categorical'>, None)
    """
    plain = plain_numbers(cells) if form is PLAIN else None
    if plain is not None:
        return None if np.isnan(plain).all() else Kind.NUMERIC
    kinds = [kind for cell in cells if (kind := kind_of(cell, form)) is not None]
    if not kinds:
        return None
    for kind in (Kind.NUMERIC, Kind.DATE):
        if kinds.count(kind) >= _SHARE * len(kinds):
            return kind
    return Kind.CATEGORICAL


def numbers(cells: Cells, form: NumberForm = PLAIN) -> tuple[NDArray[np.float64], list[tuple[int, str]]]:
    """A column as numbers, NaN for missing, and (row, reason) of the cells that are no numbers; these are NaN too."""
    quick = plain_numbers(cells) if form is PLAIN else cells if isinstance(cells, np.ndarray) else None
    if quick is not None and not np.isinf(quick).any():
        return quick, []
    out = np.full(len(cells), np.nan)
    wrong: list[tuple[int, str]] = []
    for i, cell in enumerate(cells):
        try:
            out[i] = as_feature(cell, form)
        except BraidedError as error:
            wrong.append((i, str(error)))
    return out, wrong


def moments(cells: Cells, form: dates.DateForm) -> tuple[list[dates.Moment | None], list[tuple[int, str]]]:
    """A column as points in time, None for missing, and (row, reason) of the cells that are none, None too."""
    out: list[dates.Moment | None] = []
    wrong: list[tuple[int, str]] = []
    for row, cell in enumerate(cells):
        moment = None
        try:
            if isinstance(cell, BadCell):
                raise BraidedError(cell.reason)
            if as_category(cell) is not None:
                moment = form.moment(cell)
        except BraidedError as error:
            wrong.append((row, str(error)))
        out.append(moment)
    return out, wrong


def not_categories(cells: Cells) -> list[tuple[int, str]]:
    """(row, reason) of the cells that cannot be a category."""
    if isinstance(cells, np.ndarray) or not {BadCell, bytes, bytearray, memoryview} & set(map(type, cells)):
        return []
    return [
        (row, cell.reason if isinstance(cell, BadCell) else f"is {shown(cell)}: text or a number only")
        for row, cell in enumerate(cells)
        if isinstance(cell, BadCell | bytes | bytearray | memoryview)
    ]


def plain_numbers(cells: Cells) -> NDArray[np.float64] | None:
    """The column if it is plain enough to be read without a look at each cell: the same numbers, many times faster."""
    if isinstance(cells, np.ndarray):
        return cells
    types = set(map(type, cells))
    try:
        if types == {str}:
            values = np.array([float(cell) if cell else math.nan for cell in cells])
            return None if "_" in "".join(cells) else values
        return np.array(cells, dtype=np.float64) if types <= _NUMBERS else None
    except (ValueError, OverflowError):
        return None


class MissingLabelError(BraidedError):
    """A record without a label."""

    def __init__(self) -> None:
        super().__init__("the label is missing: every record needs one")


def as_label(cell: Any, spelled: bool = False, form: NumberForm = PLAIN) -> Any:
    """A cell as a class label; `spelled` if it is of a text file, where only the spelling says what is a number.

    Whole numbers are integers; text of a typed source stands as it is.

    >>> as_label(2.0), as_label(0.5), as_label("2"), as_label(Decimal("7"))
    (2, 0.5, '2', 7)
    >>> [as_label(word, spelled=True) for word in ("+1", "1.000e+00", " g ", "0.5")]
    [1, 1, 'g', '0.5']
    """
    if spelled and isinstance(cell, str):
        plain = None if form is PLAIN else form.plain(cell.strip())
        return _spelled_label(cell if plain is None else plain)
    if type(cell) is int:  # most labels of typed sources: the same as below, many times faster
        return cell
    if isinstance(cell, BadCell):
        raise BraidedError(f"the label {cell.reason}")
    if isinstance(cell, np.generic):
        cell = cell.item()
    if is_missing(cell) or (isinstance(cell, str) and not cell):
        raise MissingLabelError
    if isinstance(cell, Decimal):
        cell = float(cell)
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < _EXACT:
        return int(cell)
    if not isinstance(cell, str | int | float):
        raise BraidedError(f"the label is {shown(cell)}: text or a number only")
    return cell


def lacks_label(cell: Any, spelled: bool = False) -> bool:
    """Whether `as_label` would find no label in a cell."""
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING if spelled else not cell
    return type(cell) is not int and is_missing(cell)


@lru_cache(maxsize=10_000)
def _spelled_label(word: str) -> int | str:
    """An integer if a word is a whole number in any spelling, else the word as it stands."""
    word = word.strip()
    if word.lower() in MISSING:
        raise MissingLabelError
    if _WHOLE.fullmatch(word):
        return int(word)
    try:
        value = float(word)
    except ValueError:
        return word
    return int(value) if value.is_integer() and abs(value) < _EXACT else word


def plain(cell: Any) -> Any:
    """A cell without NumPy's types; None for one that its reader could not make sense of."""
    if isinstance(cell, BadCell):
        return None
    return cell.item() if isinstance(cell, np.generic) else cell
