"""How numbers are spelled in text: decimal points or commas, and what stands between thousands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from braided.encode.missing import MISSING

#: What may stand between thousands; a space of any width counts as one.
SEPARATORS = (",", ".", " ", "'")
_SPACES = " \u00a0\u202f\u2009"
_APOSTROPHES = "'\u2019"
_GROUPED_BY = {
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?"),
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?"),
}
#: Amounts as accounts have them: a minus behind the number, or brackets around it.
_SIGNED_OTHERWISE = re.compile(r"(\d[^-()]*)-|\((\d[^-()]*)\)", re.ASCII)
_ONE_GROUP = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)
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
    grouped = rf"[1-9]\d{{0,2}}(?:[{re.escape(between)}]\d{{3}})+" if between else r"(?!)"
    return re.compile(rf"([+-]?)(?:({grouped})|(\d*))({re.escape(decimal)}\d*)?([eE][+-]?\d{{1,4}})?", re.ASCII)


#: As Python and most files spell them.
PLAIN = NumberForm()


def number_form(decimal: str = ".", thousands: str = "") -> NumberForm:
    """The form; `PLAIN` itself, which readers look for, if it is that one."""
    form = NumberForm(decimal, thousands)
    return PLAIN if form == PLAIN else form


#: All forms that numbers may have.
_FORMS = [NumberForm(decimal, mark) for decimal in ".," for mark in ("", *SEPARATORS) if mark != decimal]


def number_words(cells: Iterable[Any]) -> list[str]:
    """The words of a column that are numbers of some form, if nearly all are and some have separators; else none."""
    words = [word for cell in cells if isinstance(cell, str) and (word := cell.strip()).lower() not in MISSING]
    found = [word for word in words if _is_number(word)]
    return found if len(found) >= _SHARE * len(words) and not all(map(_is_whole, found)) else []


def spelled(cells: Iterable[Any]) -> list[str]:
    """The cells of a column with separators between digits, if nearly all of its words are numbers of some form."""
    return [word for word in number_words(cells) if not _is_whole(word)]


def _is_whole(word: str) -> bool:
    return word.lstrip("+-").isdigit()


def _is_number(word: str) -> bool:
    """Whether a word is a number of some form."""
    return _is_whole(word) or any(form.plain(word) for form in _FORMS)


def like_thousands(cells: Iterable[Any]) -> str | None:
    """A number such as 6.411 of a column in which the point may stand between thousands; None for any other column.

    It may if each point stands before three digits, and numbers without one have three digits at most and are larger.

    >>> like_thousands(["6.411", "763"]), like_thousands(["6.411", "763", "2.5"]), like_thousands(["6.411", "0"])
    ('6.411', None, None)
    """
    words = [word for cell in cells if isinstance(cell, str) and (word := cell.strip()).lower() not in MISSING]
    pointed = [word for word in words if not _is_whole(word)]
    wholes = [word.lstrip("+-") for word in words if _is_whole(word)]
    if not pointed or not wholes or max(map(len, wholes)) > 3 or not all(map(_ONE_GROUP.fullmatch, pointed)):
        return None
    return pointed[0] if max(map(int, wholes)) > min(abs(float(word)) for word in pointed) else None


def signed_otherwise(cells: Iterable[Any]) -> str | None:
    """A number such as 2.058,97- or (2.058,97) of a column in which nearly all are numbers but for such signs.

    >>> signed_otherwise(["195,22", "2.058,97-"]), signed_otherwise(["(7)", "8"]), signed_otherwise(["a-", "7-"])
    ('2.058,97-', '(7)', None)
    """
    words = [word for cell in cells if isinstance(cell, str) and (word := cell.strip()).lower() not in MISSING]
    bare = [(word, match[1] or match[2]) for word in words if (match := _SIGNED_OTHERWISE.fullmatch(word)) is not None]
    signed = {word: number for word, number in bare if _is_number(number)}
    found = sum(word in signed or _is_number(word) for word in words)
    return next(iter(signed), None) if found >= _SHARE * len(words) else None


def readings(words: Sequence[str], form: NumberForm) -> list[tuple[NumberForm, str]]:
    """Other forms that all these words fit, each with what the first one is in it.

    >>> readings(["1,234"], PLAIN)
    [(NumberForm(decimal='.', thousands=','), '1234'), (NumberForm(decimal=',', thousands=''), '1.234')]
    """
    written = set("".join(words)) | ({" "} if set("".join(words)) & set(_SPACES) else set())
    found = []
    for decimal in (form.decimal, "," if form.decimal == "." else "."):
        for mark in ("", *SEPARATORS):
            needed = mark in {"", *written} and decimal in {form.decimal, *written}
            if mark != decimal and needed and (other := NumberForm(decimal, mark)) != form:
                plain = [other.plain(word) for word in words]
                if plain[0] is not None and None not in plain:
                    found.append((other, plain[0]))
    return found


def recognised(
    columns: Sequence[Sequence[str]], delimiter: str | None, decimal: str | None, thousands: str | None
) -> NumberForm:
    """The form of the words that `number_words` found in a file's first records.

    It is as given. Where nothing is said, decimals have commas if fields are separated by semicolons, and some number
    has a comma and none a point.

    >>> recognised([["1,5", "7"]], ";", None, None), recognised([["1,5", "7"]], "|", None, None) == PLAIN
    (NumberForm(decimal=',', thousands=''), True)
    """
    words = [word for column in columns if not _are_pairs(column) for word in column]
    point = any("." in word and not _GROUPED_BY["."].fullmatch(word) for word in words)
    comma = any("," in word and not _GROUPED_BY[","].fullmatch(word) for word in words)
    if decimal is None:
        decimal = "," if delimiter == ";" and comma and not point and thousands != "," else "."
    return number_form(decimal, thousands or "")


def _are_pairs(words: Sequence[str]) -> bool:
    """Whether words such as 52,13 are two whole numbers each, to judge by what stands behind the comma.

    Decimals are of one length (7,50), or end in no 0 (7,5); and some of them begin with one (7,05).
    """
    behind = [word.partition(",")[2] for word in words if "," in word]
    ends = any(len(part) > 1 and part.endswith("0") for part in behind)
    return ends and len(set(map(len, behind))) > 1 and not any(part.startswith("0") for part in behind)
