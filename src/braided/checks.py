"""Checks of settings: each failure names the field, its value and what it may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from braided.errors import BraidedError

#: How small and how large a number other than 0 may be: beyond, float32 makes 0 or infinity of it.
_SMALLEST, _LARGEST = 1e-30, 1e30
#: The largest whole number of a setting.
_MAX_WHOLE = 2**62


def choice(what: str, value: str, choices: Iterable[str]) -> str:
    """The value, which is one of these words.

    >>> choice("--mask", "random", ["iid", "burst"])
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: --mask 'random' is not known: use one of iid, burst
    """
    known = list(choices)
    if value not in known:
        raise BraidedError(f"{what} {value!r} is not known: use one of {', '.join(known)}")
    return value


def one_of(owner: Any, field: str, choices: Iterable[str]) -> None:
    """The field is one of these words."""
    value = getattr(owner, field)
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise BraidedError(f"{type(owner).__name__}.{field} is {value!r}: use one of {known}")


def at_least(owner: Any, least: float, *names: str) -> None:
    """The fields are finite numbers of at least `least`."""
    _check_numbers(owner, names, lambda value: least <= value < math.inf, f"a finite number of at least {least}")


def above(owner: Any, bound: float, *names: str) -> None:
    """The fields are finite numbers above `bound`."""
    _check_numbers(owner, names, lambda value: bound < value < math.inf, f"a finite number above {bound}")


def share(owner: Any, *names: str) -> None:
    """The fields are numbers from 0 to just below 1."""
    _check_numbers(owner, names, lambda value: 0 <= value < 1, "a number from 0 to below 1")


def _check_numbers(owner: Any, names: Iterable[str], fits: Callable[[float], bool], wanted: str) -> None:
    for field in names:
        value = getattr(owner, field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not fits(value):
            raise BraidedError(f"{type(owner).__name__}.{field} is {value!r}: use {wanted}")
        if value != 0 and not _SMALLEST <= abs(value) <= _LARGEST:
            raise BraidedError(
                f"{type(owner).__name__}.{field} is {value!r:.60}: use a number of {_SMALLEST:g} to {_LARGEST:g}"
            )


def at_most(owner: Any, bound: float, *names: str) -> None:
    """The fields are not above `bound`."""
    for field in names:
        value = getattr(owner, field)
        if value > bound:
            raise BraidedError(f"{type(owner).__name__}.{field} is {value!r}: use a number up to {bound}")


def sizes(owner: Any, least: int, *names: str, most: int = _MAX_WHOLE) -> None:
    """The fields are whole numbers from `least` to `most`."""
    for field in names:
        value = getattr(owner, field)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BraidedError(
                f"{type(owner).__name__}.{field} is {value!r:.60}: use a whole number of at least {least}"
            )
        if value > most:
            raise BraidedError(f"{type(owner).__name__}.{field} is {value!r:.60}: give at most {most:,}")
