"""What is read back from a file must be what could have been written: checked here, before anything is taken over.

A checksum is no signature. Kernels find their way by some of these numbers, so each owner of arrays says by rules what
its own may hold, and a state that breaks one is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from braided.errors import BraidedError

Arrays = Mapping[str, NDArray[Any]]
#: Whole numbers in float64 are exact up to here: no count is larger.
MOST_COUNT = 2.0**53
#: No number of a closed form comes near it, and sums of products of such numbers are still finite.
LARGE = 1e100
#: How far rounding takes a covariance from being one, by its largest variance.
_ROUNDING = 1e-6
_REMEDY = "give a file written by save, of the same configuration"


@dataclass(frozen=True, eq=False)
class ArrayRule:
    """What one array must be.

    Attributes
    ----------
    shape
        Its shape; None for a dimension of any length.
    dtype
        `float64`, `float32` or `int64`.
    low, high
        Bounds of its numbers: one for all, or an array of them that is broadcast, such as one for each column.
    whole
        Whether they must be whole; one for all, or one for each column.
    finite
        Whether they must be finite; likewise. Weights that only ever enter sums need not: a network that runs away has
        such weights until the record loop resets it.
    """

    shape: tuple[int | None, ...]
    dtype: str = "float64"
    low: ArrayLike = -np.inf
    high: ArrayLike = np.inf
    whole: bool | NDArray[np.bool_] = False
    finite: bool | NDArray[np.bool_] = True


def counts(*shape: int | None, dtype: str = "int64", high: ArrayLike = MOST_COUNT) -> ArrayRule:
    """The rule of an array of counts."""
    return ArrayRule(shape, dtype, 0.0, high, whole=True)


def covariance_bounds(shape: tuple[int | None, ...], most: float, least: float = 0.0) -> tuple[ArrayLike, float]:
    """Lower and upper bounds of a covariance, or its diagonal, if no variance is over `most` or under `least`."""
    if len(shape) == 1:
        return least, most
    low = np.full([n or 0 for n in shape], -most)
    np.fill_diagonal(low, least or -_ROUNDING * most)
    return low, most


def check_covariance(what: str, covariance: NDArray[np.float64], most: float) -> None:
    """Refuse a matrix that is no covariance: where rounding cannot explain that it is not symmetric, or negative."""
    slack = _ROUNDING * most
    if covariance.size and not (
        np.abs(covariance - covariance.T).max() <= slack and np.linalg.eigvalsh(covariance)[0] >= -slack
    ):
        raise BraidedError(f"{what}: its covariance is none; {_REMEDY}")


def check_arrays(what: str, rules: Mapping[str, ArrayRule], arrays: Arrays) -> None:
    """Refuse arrays that break a rule; those that no rule names are not looked at, and not used.

    >>> check_arrays("state of a ring", {"place": counts(1, high=9)}, {"place": np.array([10])})
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: state of a ring: array 'place' holds 10, and should hold whole numbers from 0 to 9;
    give a file written by save, of the same configuration
    """
    for name, rule in rules.items():
        misfit = _misfit(rule, arrays.get(name))
        if misfit is not None:
            raise BraidedError(f"{what}: array {name!r} {misfit}; {_REMEDY}")


def _misfit(rule: ArrayRule, found: NDArray[Any] | None) -> str | None:
    """What is wrong with an array; None if nothing is."""
    if found is None:
        return "is missing"
    fits = len(found.shape) == len(rule.shape)
    if not fits or any(n is not None and n != m for n, m in zip(rule.shape, found.shape, strict=True)):
        wanted = ", ".join("any" if n is None else str(n) for n in rule.shape)
        return f"should have shape ({wanted}), found {found.shape}"
    if found.dtype.name != rule.dtype:
        return f"should be of {rule.dtype}, found {found.dtype.name}"
    low, high = np.asarray(rule.low, dtype=np.float64), np.asarray(rule.high, dtype=np.float64)
    wrong = (found < low) | (found > high)
    if found.dtype.kind == "f":
        if np.any(rule.finite):
            wrong |= ~np.isfinite(found) & rule.finite
        if np.any(rule.whole):
            wrong |= (found != np.floor(found)) & rule.whole
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    numbers = "whole numbers" if np.broadcast_to(rule.whole, found.shape)[at] else "finite numbers"
    bounds = f"{np.broadcast_to(low, found.shape)[at]:g} to {np.broadcast_to(high, found.shape)[at]:g}"
    return f"holds {found[at]}, and should hold {numbers} from {bounds}"


def length(arrays: Arrays, name: str) -> int:
    """How many rows an array has; 0 if it is not there, or is a single number."""
    return arrays[name].shape[0] if name in arrays and arrays[name].ndim else 0


@contextmanager
def holding_together(what: str) -> Iterator[None]:
    """Say in one sentence that what a file says does not hold together, where only using it can show that."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, RecursionError):
        raise BraidedError(f"{what} does not hold together; {_REMEDY}") from None


def checked(what: str, values: Any, key: str, kind: type, low: float = 0, high: float = MOST_COUNT) -> Any:
    """One value of a file's metadata: it must be there, and of this kind; a number within these bounds.

    >>> checked("the run", {"seconds": "1"}, "seconds", float)
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: the run: 'seconds' is '1', and should be a float; give a file written by save, of the
    same configuration
    """
    if not isinstance(values, Mapping):
        raise BraidedError(f"{what} is {values!r:.60}, and should be an object; {_REMEDY}")
    if key not in values:
        raise BraidedError(f"{what}: {key!r} is missing; {_REMEDY}")
    found = values[key]
    kinds = (int, float) if kind is float else (list, tuple) if kind is list else kind
    if not isinstance(found, kinds) or (isinstance(found, bool) and kind is not bool):
        raise BraidedError(f"{what}: {key!r} is {found!r:.60}, and should be a {kind.__name__}; {_REMEDY}")
    if isinstance(found, int | float) and not low <= found <= high:
        raise BraidedError(f"{what}: {key!r} is {found!r:.60}, and should be from {low:g} to {high:g}; {_REMEDY}")
    return found
