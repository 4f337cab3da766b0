"""How numbers are spelled in text: decimal points or commas, and what stands between thousands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from braided.streams.encode.missing import MISSING

#: What may stand between thousands; a space of any width counts as one.
SEPARATORS = (",", ".", " ", "'")
_SPACES = " \u00a0\u202f\u2009"
_APOSTROPHES = "'\u2019"
_GROUPED_BY = {
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?"),
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?"),
}
#: A column is one of numbers if at least this share of its values are.
_SHARE = 0.9


@dataclass(frozen=True)
class NumberForm:
    """A spelling of numbers.

    Attributes
    ----------
    decimal
        A point or a comma.
    thousands
        What stands between groups of three digits; empty: nothing.

    Examples
    --------
    >>> NumberForm(",", ".").plain("1.234,5"), NumberForm(",").plain("1.5"), NumberForm(".", ",").plain("12,345")
    ('1234.5', None, '12345')
    """

    decimal: str = "."
    thousands: str = ""

    def plain(self, word: str) -> str | None:
        """A number as Python spells it; None if it is none of this form."""
        match = _pattern(self.decimal, self.thousands).fullmatch(word)
        if match is None:
            return None
        sign, grouped, whole, fraction, power = match.groups(default="")
        digits = whole or "".join(filter(str.isdigit, grouped))
        if not digits and len(fraction) < 2:
            return None
        return f"{sign}{digits or '0'}{fraction.replace(',', '.')}{power}"


@lru_cache(maxsize=16)
def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    between = {" ": _SPACES, "'": _APOSTROPHES}.get(thousands, thousands)
    grouped = rf"\d{{1,3}}(?:[{re.escape(between)}]\d{{3}})+" if between else r"(?!)"
    return re.compile(rf"([+-]?)(?:({grouped})|(\d*))({re.escape(decimal)}\d*)?([eE][+-]?\d{{1,4}})?", re.ASCII)


#: As Python and most files spell them.
PLAIN = NumberForm()


def number_form(decimal: str = ".", thousands: str = "") -> NumberForm:
    """The form; `PLAIN` itself, which readers look for, if it is that one."""
    form = NumberForm(decimal, thousands)
    return PLAIN if form == PLAIN else form


#: All forms that numbers may have.
_FORMS = [NumberForm(decimal, mark) for decimal in ".," for mark in ("", *SEPARATORS) if mark != decimal]


def spelled(cells: Iterable[Any]) -> list[str]:
    """The cells of a column with separators between digits, if nearly all of its words are numbers of some form."""
    words = [word for cell in cells if isinstance(cell, str) and (word := cell.strip()).lower() not in MISSING]
    whole = sum(word.lstrip("+-").isdigit() for word in words)
    found = [word for word in words if not word.lstrip("+-").isdigit() and any(form.plain(word) for form in _FORMS)]
    return found if found and len(found) + whole >= _SHARE * len(words) else []


def recognised(words: list[str], delimiter: str | None, decimal: str | None, thousands: str | None) -> NumberForm:
    """The form of the words that `spelled` found in a file's first records; `PLAIN` unless another is unmistakable.

    Decimal commas are recognised where fields are not separated by commas themselves. What is given is taken.

    >>> recognised(["1,5", "1.234,25"], ";", None, None)
    NumberForm(decimal=',', thousands='.')
    >>> recognised(["1,5", "1.5"], ";", None, None), recognised(["1,234"], ";", None, None) == PLAIN
    (NumberForm(decimal='.', thousands=''), True)
    """
    point = any("." in word and not _GROUPED_BY["."].fullmatch(word) for word in words)
    comma = any("," in word and not _GROUPED_BY[","].fullmatch(word) for word in words)
    if decimal is None:
        free = delimiter is not None and delimiter != ","
        decimal = "," if comma and not point and free and thousands != "," else "."
    if thousands is None:
        thousands = _thousands(words, decimal)
    return number_form(decimal, thousands)


def _thousands(words: list[str], decimal: str) -> str:
    """What stands between thousands where a word shows it, and none speaks against it."""
    for mark in SEPARATORS:
        if mark == decimal:
            continue
        form = NumberForm(decimal, mark)
        with_mark = [word for word in words if form.plain(word) is not None and NumberForm(decimal).plain(word) is None]
        if not with_mark or any(form.plain(word) is None for word in words):
            continue
        # One group alone could be a fraction: 1,234.
        other = "," if mark == "," else "."
        if mark not in ",." or decimal == "," or any(word.count(other) > 1 or decimal in word for word in with_mark):
            return mark
    return ""
