"""Numbers with a unit: `$1,234.50`, `12.5 °C`, `47%`; one that all values of a column share says nothing of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from braided.encode.missing import MISSING

_CURRENCIES = "$€£¥₹"
#: What stands before a number: a sign of money, or letters for it and a space.
_BEFORE = rf"(?:[A-Z]{{0,3}}[{_CURRENCIES}]\s?|(?:USD|EUR|GBP|CHF|JPY|CAD|AUD|INR|Rs\.?)\s)"
#: What stands after it: a sign, one of the units without a space, or a short word or one with a sign after a space.
_AFTER = (
    rf"(?:\s?[%‰{_CURRENCIES}°]\s?[A-Za-z]?|\s[^\s\d]{{1,5}}|\s[^\s\d]{{0,5}}[/°²³µ·][^\s\d]{{1,6}}|"
    r"(?:[kmµ]?[gmsVW]|[cm]?m[²³]?|m[lA]|k[gm]|km/h|mph|m/s|kWh|[kMG]?Hz|h?Pa|bar|psi|[KMGT]i?B|min|lbs?|oz|ft|dB|ppm|rpm))"
)
_WORD = re.compile(rf"([+-]?)({_BEFORE})?([+-]?\d[\d.,'\u2019\s]*?)({_AFTER})?")
#: Values that must be there to show a unit, the share that must have it, and the share that must have it or none.
_LEAST, _MOST, _SHARE = 10, 0.5, 0.9
#: Characters of a unit, before or after, and of a number with it.
LONGEST, _LONGEST_WORD = 16, 60


class Unit(NamedTuple):
    """What stands before and after each number of a column, without spaces around it."""

    before: str
    after: str

    def __str__(self) -> str:
        return self.before or self.after


_NONE = Unit("", "")


def _parted(word: str) -> tuple[Unit, str] | None:
    """The unit of a word, and its number alone; None if it is no such word."""
    return _matched(word) if len(word) <= _LONGEST_WORD else None


@lru_cache(maxsize=4_096)
def _matched(word: str) -> tuple[Unit, str] | None:
    match = _WORD.fullmatch(word)
    if match is None:
        return None
    sign, before, number, after = match.groups(default="")
    return Unit(before.strip(), after.strip()), f"{sign}{number.strip()}"


def unit_of(cells: Iterable[Any], least: int = _LEAST) -> Unit | None:
    """The unit that nearly all values of a column have, but for those that are numbers alone; `least` values show it.

    >>> unit_of(["12.5 °C", "", "7 °C"] * 5), unit_of(["5 kg", "5 lb"] * 5), unit_of(["1.5"] * 10)
    (Unit(before='', after='°C'), None, None)
    """
    words = [word for cell in cells if isinstance(cell, str) and (word := cell.strip()).lower() not in MISSING]
    if len(words) < least:
        return None
    found = Counter(parted[0] for word in words if (parted := _parted(word)) is not None)
    alone = found.pop(_NONE, 0)
    unit, times = next(iter(found.most_common(1)), (None, 0))
    return unit if times >= _MOST * len(words) and times + alone >= _SHARE * len(words) else None


def without_unit(cells: Any, unit: Unit | None) -> Any:
    """The cells of a column with their numbers alone; what has another unit stays as it is.

    >>> without_unit(["-$1,234", "5", "5 €", None], Unit("$", ""))
    ['-1,234', '5', '5 €', None]
    """
    if unit is None or not any(isinstance(cell, str) for cell in cells):
        return cells
    return [_bare(cell, unit) if isinstance(cell, str) else cell for cell in cells]


def _bare(word: str, unit: Unit) -> str:
    parted = _parted(word.strip())
    return parted[1] if parted is not None and parted[0] == unit else word
