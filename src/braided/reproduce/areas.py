"""Areas under the curves of two classes, from all the scores of a stream.

With the records sorted by score, those of one score together, and after each score the counts T of positives and F of
negatives so far (P and N in all):

    ROC     the curve of T / P over F / N from (0, 0); the area is the chance that a positive has the larger score than
            a negative, ties counting half
    PR      the curve of T / (T + F) over T / P from (0, 1)

both with straight lines between the points (the trapezoid rule).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def _counts_by_score(
    positive: NDArray[np.bool_], scores: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """T and F after each distinct score, from the largest on."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    true = np.cumsum(positive[order])[last]
    return true, last + 1 - true


def roc_area(positive: NDArray[np.bool_], scores: NDArray[np.float64]) -> float | None:
    """The area under the ROC curve; None with one class alone.

    >>> roc_area(np.array([True, False, True, False]), np.array([0.9, 0.8, 0.7, 0.7]))
    0.625
    """
    if positive.all() or not positive.any():
        return None
    true, false = _counts_by_score(positive, scores)
    area = np.trapezoid(np.append(0, true), np.append(0, false))
    return float(area / (true[-1] * false[-1]))


def pr_area(positive: NDArray[np.bool_], scores: NDArray[np.float64]) -> float | None:
    """The area under the curve of precision over recall; None without a positive.

    >>> round(pr_area(np.array([True, False, True, False]), np.array([0.9, 0.8, 0.7, 0.7])), 4)
    0.75
    """
    if not positive.any():
        return None
    true, false = _counts_by_score(positive, scores)
    return float(np.trapezoid(np.append(1.0, true / (true + false)), np.append(0.0, true / true[-1])))
