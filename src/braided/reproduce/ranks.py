"""Ranks of methods."""

from __future__ import annotations

from collections.abc import Sequence


def ranked(values: Sequence[float], more_is_better: bool = False) -> list[float]:
    """1 for the best; the mean of their places for equal ones.

    >>> ranked([3.0, 5.0, 3.0], more_is_better=True)
    [2.5, 1.0, 2.5]
    >>> ranked([3.0, 5.0, 3.0])
    [1.5, 3.0, 1.5]
    """
    signed = [-value if more_is_better else value for value in values]
    return [sum(other < value for other in signed) + (signed.count(value) + 1) / 2 for value in signed]
