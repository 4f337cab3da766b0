"""Dates and times as numbers that a model can use: the age, and where in the day, the week and the year it falls."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.values import shown

#: `--dates`: parts of the day, the week and the year and the age; the age alone; or nothing.
CHOICES = ("parts", "age", "drop")
_TYPES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_ZONE = r"(?:\s*(Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?"
_HOURS = r"(\d{1,2}):([0-5]\d)(?::([0-5]\d)(?:[.,](\d{1,9}))?)?(?:\s*([AaPp])\.?[Mm]\.?)?"
_CLOCK = rf"(?:(?:T|,?\s+){_HOURS}{_ZONE})?"
_AFTER_COLON = _CLOCK.replace("(?:T|", "(?:[T:]|", 1)  # as the logs of web servers have it
_YEAR_FIRST = re.compile(rf"(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}}){_CLOCK}", re.ASCII)
_YEAR_LAST = re.compile(
    rf"(?:(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}})|(\d{{1,2}})/(\d{{1,2}})/(\d{{2}})|(\d\d)\.(\d\d)\.(\d\d)){_CLOCK}",
    re.ASCII,
)
_DAY_AND_NAME = re.compile(
    rf"(?:[A-Z][a-z]{{2}},? )?(\d{{1,2}})[ /-]([A-Za-z]{{3,9}})\.?,?[ /-](\d{{4}}){_AFTER_COLON}", re.ASCII
)
_NAME_AND_DAY = re.compile(rf"([A-Za-z]{{3,9}})\.? (\d{{1,2}}),? (\d{{4}}){_CLOCK}", re.ASCII)
_TIME = re.compile(_HOURS, re.ASCII)
_LIKE_A_VERSION = re.compile(r"\d\d\.\d\d\.\d\d", re.ASCII)
_NAMES = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
          "december")  # fmt: skip
_MONTHS = {word: i for i, name in enumerate(_NAMES, start=1) for word in (name, name[:3])} | {"sept": 9}
_EPOCH = datetime.datetime(1970, 1, 1)
_EXAMPLE = datetime.datetime(2024, 1, 31, 10, 20)
_DAY_US = 86_400 * 10**6
#: Years of two digits from here on are of the last century.
_CENTURY = 69

YEAR_FIRST, YEAR_LAST, BY_NAME = "year first", "day and month first", "month by name"
TIME, TYPED, DURATION = "time", "typed", "duration"
#: Where dates are typed in one place, they may be text in another that has no such type, as JSON.
_TYPED_AS = {TYPED: YEAR_FIRST}
#: What a form may say of them; empty where all will do.
SHAPES = (YEAR_FIRST, YEAR_LAST, BY_NAME, TIME, TYPED, DURATION, "")


class Spelled(NamedTuple):
    """A date, time or duration as it was written: parts that may be no day of the calendar, and microseconds.

    `parts` are year, month and day, or two numbers in the order in which they stand and the year; none for a time.
    """

    shape: str
    parts: tuple[int, ...]
    clock_us: int | None
    offset_us: int = 0
    mark: str = ""


class Moment(NamedTuple):
    """A point in time: microseconds since 1970 (of the day, or of a duration), and the day that the calendar shows."""

    us: int
    clock_us: int
    day: datetime.date | None


def read(cell: Any) -> Spelled | None:
    """What a cell is as a date, time or duration; None if it is none.

    >>> read("2024-01-05 10:20").clock_us, read("5/1/2024").parts, read("7")
    (37200000000, (5, 1, 2024), None)
    """
    if isinstance(cell, str):
        word = cell.strip()
        return _read(word) if len(word) < 50 and any(c.isdigit() for c in word) else None
    return _typed(cell) if isinstance(cell, _TYPES) else None


def is_moment(cell: Any) -> bool:
    """Whether a cell is a day of the calendar, a time of the day, or a duration.

    >>> is_moment("2024-02-29"), is_moment("2023-02-29"), is_moment("76:20"), is_moment("13/1/2024")
    (True, False, False, True)
    """
    written = read(cell)
    if written is None:
        return False
    if not written.parts:
        return written.shape == DURATION or (written.clock_us or 0) <= _DAY_US
    return any(_midnight(written, day_first) is not None for day_first in (True, False))


def may_be_a_code(cell: Any) -> bool:
    """Whether a cell that reads as a date could as well be a version, such as 10.12.25."""
    return isinstance(cell, str) and _LIKE_A_VERSION.fullmatch(cell.strip()) is not None


def _midnight(written: Spelled, day_first: bool) -> datetime.datetime | None:
    """The day of a date as it was written; None if the calendar has none such, or the day no such time."""
    if written.shape == YEAR_LAST:
        first, second, year = written.parts
        day, month = (first, second) if day_first else (second, first)
    else:
        year, month, day = written.parts
    with suppress(ValueError):
        if 0 <= (written.clock_us or 0) <= _DAY_US:
            return datetime.datetime(year, month, day)
    return None


@lru_cache(maxsize=4_096)
def _read(word: str) -> Spelled | None:
    if match := _YEAR_FIRST.fullmatch(word):
        year, _, month, day, *clock = match.groups()
        return _spelled(YEAR_FIRST, (int(year), int(month), int(day)), clock)
    if match := _YEAR_LAST.fullmatch(word):
        first, mark, second, year, *others = match.groups()
        short, clock = others[:6], others[6:]
        if first is None:
            first, second, year = short[:3] if short[0] is not None else short[3:]
            mark = "/" if short[0] is not None else "."
            if mark == "." and int(second) > 12:  # with points the day stands first
                return None
            year = int(year) + (1900 if int(year) >= _CENTURY else 2000)
        return _spelled(YEAR_LAST, (int(first), int(second), int(year)), clock, mark)
    for pattern in (_DAY_AND_NAME, _NAME_AND_DAY):
        if match := pattern.fullmatch(word):
            one, other, year, *clock = match.groups()
            name, day = (other, one) if pattern is _DAY_AND_NAME else (one, other)
            if name.lower() in _MONTHS:
                return _spelled(BY_NAME, (int(year), _MONTHS[name.lower()], int(day)), clock)
    if match := _TIME.fullmatch(word):
        return _spelled(TIME, (), match.groups())
    return None


def _spelled(shape: str, parts: tuple[int, ...], clock: Sequence[str | None], mark: str = "") -> Spelled:
    hour, minute, second, fraction, half, *zone = clock
    if hour is None:
        return Spelled(shape, parts, None, 0, mark)
    hours = int(hour) % 12 + 12 * (half.lower() == "p") if half else int(hour)
    us = ((hours * 60 + int(minute or 0)) * 60 + int(second or 0)) * 10**6
    us += int((fraction or "").ljust(6, "0")[:6])
    offset = 0
    if zone and zone[0] and zone[0][0] in "+-":
        digits = zone[0][1:].replace(":", "").ljust(4, "0")
        offset = (int(digits[:2]) * 60 + int(digits[2:])) * 60 * 10**6 * (-1 if zone[0][0] == "-" else 1)
    return Spelled(shape, parts, us, offset, mark)


def _typed(cell: Any) -> Spelled | None:
    """The dates of Python and NumPy."""
    if isinstance(cell, np.datetime64 | np.timedelta64):
        unit = "M8[us]" if isinstance(cell, np.datetime64) else "m8[us]"
        cell = cell.astype(unit).item()
        if not isinstance(cell, datetime.date | datetime.timedelta):
            return None
    if isinstance(cell, datetime.timedelta):
        return Spelled(DURATION, (), _us(cell))
    if isinstance(cell, datetime.time):
        return Spelled(TIME, (), _clock_us(cell))
    if isinstance(cell, datetime.datetime):
        offset = cell.utcoffset()
        parts = (cell.year, cell.month, cell.day)
        return Spelled(TYPED, parts, _clock_us(cell), 0 if offset is None else _us(offset))
    return Spelled(TYPED, (cell.year, cell.month, cell.day), None)


def _us(span: datetime.timedelta) -> int:
    return span // datetime.timedelta(microseconds=1)


def _clock_us(at: Any) -> int:
    return int(((at.hour * 60 + at.minute) * 60 + at.second) * 10**6 + at.microsecond)


@dataclass(frozen=True)
class DateForm:
    """How the dates of one column are written, and what becomes of them.

    Attributes
    ----------
    shape
        What stands first; empty: a user has said in which order day and month stand, so that all shapes will do.
    day_first
        Whether days stand before months where both are numbers before the year.
    clock
        Whether there are times of the day.
    first_us
        The first value of the column, from which the age counts; None: there was none yet.
    """

    shape: str
    day_first: bool = False
    clock: bool = False
    first_us: int | None = None

    def moment(self, cell: Any) -> Moment:
        """A cell as a point in time; an error goes on from "column 'x' "."""
        written = read(cell)
        if written is None or not self._takes(written):
            raise BraidedError(f"is {shown(_stripped(cell))}: {self._expected()}")
        clock = written.clock_us or 0
        if not written.parts:
            if written.shape == TIME and clock > _DAY_US:
                raise BraidedError(f"is {shown(_stripped(cell))}: no time of the day")
            return Moment(clock, clock, None)
        day = _midnight(written, self.day_first)
        if day is None:
            order = ""
            if written.shape == YEAR_LAST:
                order = f", if the {'day' if self.day_first else 'month'} stands first"
            raise BraidedError(f"is {shown(_stripped(cell))}: no day of the calendar{order}")
        us = _us(day - _EPOCH) + clock - written.offset_us
        if clock == _DAY_US and day.date() < datetime.date.max:  # 24:00 is the next day's first moment
            day, clock = day + datetime.timedelta(days=1), 0
        return Moment(us, clock, day.date())

    def _takes(self, written: Spelled) -> bool:
        """Whether a date is of this form; one that is typed can be read in one way alone."""
        if self.shape in {TIME, DURATION}:
            return written.shape == self.shape
        fits = not self.shape or written.shape in (self.shape, TYPED, _TYPED_AS.get(self.shape))
        return fits and bool(written.parts)

    def _expected(self) -> str:
        return {
            YEAR_FIRST: "the dates of this column have the year first, such as 2024-01-31",
            YEAR_LAST: "the dates of this column have the day and the month first, such as 31/1/2024",
            BY_NAME: "the dates of this column name the month, such as 31 Jan 2024",
            TIME: "this column holds times, such as 10:20",
            DURATION: "this column holds durations",
        }.get(self.shape, "this column holds dates") + ", or empty if missing"

    def names(self, column: Hashable, choice: str) -> list[str]:
        """The features that the column becomes."""
        if self.shape == DURATION:
            return [f"{column}.seconds"]
        hours = ["hour", "hour.sin", "hour.cos"]
        if choice == "age":
            parts = ["seconds" if self.shape == TIME else "age"]
        elif self.shape == TIME:
            parts = hours
        else:
            parts = ["age", *(hours if self.clock else ()), "weekday", "day_of_year.sin", "day_of_year.cos"]
        return [f"{column}.{part}" for part in parts]

    def example(self) -> str | None:
        """A cell of this form, such as the first that came; None where no text is one.

        >>> DateForm(BY_NAME, clock=True).example(), DateForm(YEAR_LAST, day_first=True, first_us=0).example()
        ('31 Jan 2024 10:20', '01/01/1970')
        """
        if self.shape in (TIME, DURATION):
            return "10:20" if self.shape == TIME else None
        at = _EXAMPLE
        with suppress(OverflowError):  # of a form that a stranger wrote
            at = at if self.first_us is None else _EPOCH + datetime.timedelta(microseconds=self.first_us)
        clock = f" {at:%H:%M}" if self.clock else ""
        if self.shape == BY_NAME:
            return f"{at.day} {_NAMES[at.month - 1][:3].title()} {at.year:04}{clock}"
        if self.shape == YEAR_LAST:
            first, second = (at.day, at.month) if self.day_first else (at.month, at.day)
            return f"{first:02}/{second:02}/{at.year:04}{clock}"
        return f"{at.date().isoformat()}{clock}"

    def since(self, moments: Iterable[Moment | None]) -> DateForm:
        """The same with the first of these as the first value, if there was none before."""
        if self.first_us is not None:
            return self
        first = next((moment for moment in moments if moment is not None), None)
        return self if first is None else replace(self, first_us=0 if first.day is None else first.us)

    def values(self, moments: Sequence[Moment | None], choice: str) -> NDArray[np.float64]:
        """The features, (n, names), NaN where there is no moment."""
        out = np.full((len(moments), len(self.names("", choice))), np.nan)
        for row, moment in enumerate(moments):
            if moment is not None:
                out[row] = self._numbers(moment, choice)
        return out

    def _numbers(self, moment: Moment, choice: str) -> list[float]:
        age = (moment.us - (self.first_us or 0)) / 10**6
        if choice == "age" or self.shape == DURATION:
            return [age]
        hours = [moment.clock_us / 3.6e9, *_on_circle(moment.clock_us / _DAY_US)]
        if moment.day is None:
            return hours
        year = _on_circle((moment.day.timetuple().tm_yday - 1) / 366)
        return [age, *(hours if self.clock else ()), float(moment.day.weekday()), *year]


def _on_circle(share: float) -> list[float]:
    return [math.sin(2 * math.pi * share), math.cos(2 * math.pi * share)]


def _stripped(cell: Any) -> Any:
    return cell.strip() if isinstance(cell, str) else cell


def form_of(cells: Iterable[Any], day_first: bool | None) -> DateForm:
    """The form of a column's first dates; those that are mixed, or may be read in two ways, are errors.

    The error's text goes on from "column 'x' ".

    >>> form_of(["31/1/2024", "1/2/2024"], None)
    DateForm(shape='day and month first', day_first=True, clock=False, first_us=None)
    """
    found = [(written, cell) for cell in cells if (written := read(cell)) is not None and is_moment(cell)]
    # A typed column is of one type, whatever its values are.
    shapes = {written.shape: cell for written, cell in reversed(found)}
    clock = any(written.clock_us is not None for written, _ in found)
    either = "`day_first=True` or `day_first=False`"
    if len(shapes) > 1 and (day_first is None or {TIME, DURATION} & set(shapes)):
        one, other = (shown(_stripped(cell)) for cell in list(shapes.values())[:2])
        raise BraidedError(
            f"mixes dates of different forms, such as {one} and {other}: give {either} if such dates are to be read in "
            "the same way, or mend them"
        )
    shape = next(iter(shapes), TYPED)
    if day_first is None and YEAR_LAST in shapes:
        day_first = _order(found, either)
    return DateForm(shape if len(shapes) == 1 else "", bool(day_first), clock)


def _order(found: list[tuple[Spelled, Any]], either: str) -> bool:
    """Whether days stand before months, as the numbers that are no months show."""
    days = next((cell for written, cell in found if written.parts[0] > 12), None)
    months = next((cell for written, cell in found if written.parts[1] > 12), None)
    if days is not None and months is not None:
        raise BraidedError(
            f"mixes dates with the day first and with the month first, such as {shown(_stripped(days))} and "
            f"{shown(_stripped(months))}: mend them, or give {either}"
        )
    if days is None and months is None and found[0][0].mark != ".":
        raise BraidedError(
            f"is {shown(_stripped(found[0][1]))}, and no date shows whether the day or the month stands first: give "
            f"{either}"
        )
    return months is None
