"""Single values that a user gives: as numbers, keys and missing ones, in errors, on a terminal; the order of names."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from braided.errors import BraidedError

#: Characters of a key.
MAX_KEY_LENGTH = 1_000
_DATES = (date, time, timedelta, np.datetime64, np.timedelta64)


def shown(value: Any) -> str:
    """A value in an error message: what it prints as, cut short, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # a 5,000-digit integer, or an object whose repr fails, must still be refused in words
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."


def printable(text: str) -> str:
    r"""Text from data or file names as a terminal may get it: what could move its cursor or turn its lines is escaped.

    So is half of a surrogate pair, which no encoding can write.

    >>> print(printable("caf\u00e9 \x1b[2J \u202e \ud800"))
    café \x1b[2J \u202e \ud800
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def is_missing(value: Any) -> bool:
    """None, NaN of any float type, and what pandas has for them (told by name: pandas may not be installed)."""
    if isinstance(value, float | np.floating):
        return bool(value != value)
    if isinstance(value, Decimal):
        return value.is_nan()
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def number_of(value: Any) -> float | None:
    """A value as a float: NaN for a missing one, infinity for one that is too large, None for what is not a number.

    >>> number_of(True), number_of(Decimal("2.5")), number_of(None), number_of("2.5")
    (1.0, 2.5, nan, None)
    """
    if isinstance(value, Real | Decimal | np.bool_) and not isinstance(value, np.timedelta64):
        try:
            return math.nan if isinstance(value, Decimal) and value.is_nan() else float(value)
        except OverflowError:
            return math.inf
    return math.nan if is_missing(value) else None


def encode_takes(kind: str) -> str:
    """What to do about a value of a kind that is not a number."""
    return f"a model made with encode=True takes {kind}"


def as_number(name: Hashable, value: Any, record: int) -> float:
    """A feature's value as a float; NaN for a missing one.

    >>> as_number("age", True, 1), as_number("age", None, 1)
    (1.0, nan)
    >>> as_number("age", "abc", 17)
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: feature 'age' is 'abc' in record 17: numbers, None or NaN only; a model made with
    encode=True takes text
    """
    number = number_of(value)
    if number is None:
        kind = "text" if isinstance(value, str) else "dates" if isinstance(value, _DATES) else None
        remedy = "" if kind is None else f"; {encode_takes(kind)}"
        raise BraidedError(f"feature {name!r} is {shown(value)} in record {record}: numbers, None or NaN only{remedy}")
    if math.isinf(number):
        raise BraidedError(
            f"feature {name!r} is {shown(value)} in record {record}: it must be finite, or None if missing"
        )
    return number


def as_weight(value: Any, record: int) -> float:
    """How much a record counts.

    >>> as_weight(-1, 17)
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: the weight of record 17 is -1: give a finite number of at least 0
    """
    number = number_of(value)
    if number is None or not 0.0 <= number < math.inf:
        raise BraidedError(f"the weight of record {record} is {shown(value)}: give a finite number of at least 0")
    return number


def key_text(value: Any, name: Hashable, record: int | None = None) -> str | None:
    """The text that a key is: `7`, `7.0` and `" 7 "` are one key. None for one that is missing or blank.

    >>> [key_text(key, "machine") for key in ("pump", " 7 ", 7, 7.0, True, " ", None, float("nan"))]
    ['pump', '7', '7', '7', 'true', None, None, None]
    >>> key_text(7.5, "machine", 17)
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: key 'machine' is 7.5 in record 17: give text or a whole number
    """
    remedy = None
    if isinstance(value, str):
        text = value.strip()
    elif isinstance(value, bool | np.bool_):
        text = "true" if value else "false"
    elif is_missing(value):
        return None
    else:
        number, text = number_of(value), ""
        if number is None or not math.isfinite(number) or int(value) != value:
            remedy = "give text or a whole number"
        else:
            text = str(int(value))
    if len(text) > MAX_KEY_LENGTH:
        remedy = f"it may have {MAX_KEY_LENGTH:,} characters, give a shorter one"
    if remedy is not None:
        place = "" if record is None else f" in record {record}"
        raise BraidedError(f"key {name!r} is {shown(value)}{place}: {remedy}")
    return text or None


def _order(name: Hashable) -> tuple[str, Any]:
    if isinstance(name, Real):
        return ("0", name)
    if isinstance(name, str):
        return ("1", name)
    return (f"2 {type(name).__name__}", repr(name))


def sorted_names(names: Iterable[Hashable]) -> list[Hashable]:
    """Names of mixed types in order: numbers by value, then text, then the rest by what they print as.

    >>> sorted_names(["b", 10, "a", 9])
    [9, 10, 'a', 'b']
    """
    return sorted(names, key=_order)
