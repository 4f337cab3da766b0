"""Adaptive conformal inference (Gibbs and Candes, 2021): how wide an answer must be to hold the truth often enough.

A score s says how badly a record fitted its prediction. With the last n <= WINDOW scores in order, the bound of a level
1 - a is the ceil((n + 1) (1 - a_t))-th smallest of them, and after each record

    a_(t+1) = a_t + RATE (a - [s_t > bound]),

so that the share of records within their bound tends to the level whatever the stream does. Below 1 / (n + 1), where
the bound would be infinite, it is the largest score times 1 + (1 / (n + 1) - a_t) / (4 RATE).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from braided.kernels.compile import CACHED, kernel

#: How many of the last scores are kept.
WINDOW = 1_000
#: The levels whose coverage is followed; others lie between them.
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
RATE = 0.01
#: No score is larger: one mistake in a stream of constants must leave numbers.
MOST = 1e9
#: Of 0.9, as a double, a little less than a tenth is left of 1: nine scores are to be enough for it.
ROUNDING = 1e-9
# Places in the numbers: how many scores there were, and the running mean of the absolute error.
SCORES, USUAL_ERROR = 0, 1
NUMBERS = 2
#: How fast the usual error follows, and how many times itself an error may count for.
_FOLLOW, _OUTLIER = 0.02, 10.0
_LARGEST = float(np.finfo(np.float64).max)


@kernel()
def bound(ordered, n, rate):
    """The largest score that is within the bound, at an adapted rate of misses a_t; infinite while n is too small."""
    least = 1.0 / (n + 1.0)
    if n == 0:
        return np.inf
    if rate < least:
        return ordered[n - 1] * (1.0 + (least - rate) / (4.0 * RATE))
    place = int(np.ceil((n + 1.0) * (1.0 - rate))) - 1
    return ordered[min(place, n - 1)] if place >= 0 else -1.0


@kernel()
def _take_in(score, ring, ordered, numbers):
    """Put a score among the last ones, in place of the oldest where there are enough."""
    seen = int(numbers[SCORES])
    n = min(seen, WINDOW)
    if seen >= WINDOW:
        at = np.searchsorted(ordered[:n], ring[seen % WINDOW])
        ordered[at : n - 1] = ordered[at + 1 : n]
        n -= 1
    ring[seen % WINDOW] = score
    at = np.searchsorted(ordered[:n], score)
    for i in range(n, at, -1):
        ordered[i] = ordered[i - 1]
    ordered[at] = score
    numbers[SCORES] += 1.0


@kernel()
def _judge(score, levels, rates, ring, ordered, numbers, covered):
    """Count whether a score is within the bound of each level, adapt the levels, and take the score in."""
    n = min(int(numbers[SCORES]), WINDOW)
    for i in range(levels.size):
        missed = 1.0 - levels[i]
        if (n + 1.0) * missed < 1.0 - ROUNDING:
            continue
        within = score <= bound(ordered, n, rates[i])
        covered[i, 0] += 1
        covered[i, 1] += 1 if within else 0
        rates[i] = min(max(rates[i] + RATE * (missed - (0.0 if within else 1.0)), -1.0), 1.0)
    _take_in(score, ring, ordered, numbers)


@njit(cache=CACHED, nogil=True)
def follow_values(predictions, truth, levels, rates, ring, ordered, numbers, covered):
    """Take in records of a regression: a score is the absolute error in units of the usual one."""
    for t in range(truth.size):
        answer = predictions[t] if predictions[t] == predictions[t] else 0.0
        error = min(abs(answer - truth[t]), _LARGEST)
        usual = numbers[USUAL_ERROR]
        score = 1.0 if error > 0.0 else 0.0  # of the first error, which is as large as is usual so far
        if usual > 0.0:
            score = min(error / usual, MOST)
        _judge(score, levels, rates, ring, ordered, numbers, covered)
        follow = max(_FOLLOW, 1.0 / numbers[SCORES])
        numbers[USUAL_ERROR] = usual + follow * (min(error, _OUTLIER * usual) - usual) if usual > 0.0 else error


@njit(cache=CACHED, nogil=True)
def follow_classes(predictions, truth, n_classes, levels, rates, ring, ordered, numbers, covered):
    """Take in records of a classification: a score is 1 - p(label); of one class alone it is certain."""
    for t in range(truth.size):
        p = predictions[t, int(truth[t])] if n_classes > 1 else 1.0
        _judge(1.0 - p if p == p else 1.0, levels, rates, ring, ordered, numbers, covered)
