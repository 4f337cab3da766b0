"""Adaptive conformal inference (Gibbs and Candes, 2021): how wide an answer must be to hold the truth often enough.

A score s says how badly a record fitted its answer. With the last n <= WINDOW scores in order, the bound of a level
1 - a is the ceil((n + 1) (1 - a_t))-th smallest of them, and after each record

    a_(t+1) = a_t + rate (a - [s_t > bound_t]),   rate = RATE / max(1, RATE delay),

with the bound as it was when the answer was given, so that the share of records within their bound tends to the level
whatever the stream does. With a slower rate where labels come late, a_t does not swing: what it does is seen `delay`
records later. Below 1 / (n + 1), where the bound would be infinite, it is the largest score times
1 + (1 / (n + 1) - a_t) / (4 RATE); where the bound is 0 and held, nothing narrower can be given, and a_t stays. Nothing
is promised while (n / max(1, delay / DEPENDENT) + 1) a < 1: errors of answers that were given before any of their
labels came are alike: DEPENDENT of them count as one.

**Numbers**: s is the absolute error over the one that is usual for such a record,

    scale = usual sqrt(1 + of_weights) max(1 + slope (of_missing - mean), MIN_SCALE)

with the doubts of `kernels.doubt`. The slope is that of the regression of error / (usual sqrt(1 + of_weights)) on
of_missing over about the last MEMORY records, with SURE standard errors taken off the covariance, and 0 at least. usual
is a running mean of error / (scale / usual). Where of_missing is above its mean by more than UNUSUAL deviations, no
error is known of such a record: what is above that, in the target's own unit, is added as a root of squares.

**Classes**: s is 0 where the label is the answer, which is always in the set, and 1 - p(label) otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.kernels.calls import array_at, doubles
from braided.kernels.dense import copy
from braided.kernels.doubt import DEVIATION, MAX_DOUBT, OF_MISSING, OF_WEIGHTS
from braided.kernels.native import DoubleRows, Doubles, Ints, address_of, entry, kernel
from braided.store import MAX_COUNT

#: How many of the last scores are kept.
WINDOW = 1_000
#: The levels whose coverage is followed; others lie between them.
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
RATE = 0.01
#: This many records of a delay count as one independent record.
DEPENDENT = 10.0
#: No score is larger: one mistake in a stream of constants must leave numbers.
MAX_SCORE = 1e9
#: Of 0.9, as a double, a little less than a tenth is left of 1: nine scores must be enough for it.
ROUNDING = 1e-9
# Places in the numbers: how many scores there were; the usual error; mean and variance of `of_missing` and of the error
# in units of the usual one, and their covariance.
SCORES, USUAL_ERROR, MISSING_MEAN, MISSING_VARIANCE, ERROR_MEAN, ERROR_VARIANCE, COVARIANCE = range(7)
NUMBERS = 7
# Columns of what is counted for each level: records with a bound, and those within it.
JUDGED, WITHIN = 0, 1
#: How fast the usual error follows, and how many times itself an error may count for.
_FOLLOW, _OUTLIER = 0.02, 10.0
#: What none of the numbers is above: within twice the largest mean, no later record can take a moment beyond.
MAX_NUMBERS = np.array([
    MAX_COUNT, np.inf, 2.0 * MAX_DOUBT, 4.0 * MAX_DOUBT**2, 2.0 * _OUTLIER, 4.0 * _OUTLIER**2,
    4.0 * MAX_DOUBT * _OUTLIER,
])  # fmt: skip
#: Of the slope: records that it is of, how many there are at least, and standard errors.
MEMORY, MIN_RECORDS, SURE = 1_000.0, 20.0, 2.0
MIN_SCALE = 0.25
#: A doubt this many deviations above its mean is beyond those whose errors are known.
UNUSUAL = 3.0
_LARGEST = float(np.finfo(np.float64).max)


@entry
def bound(ordered: Doubles, n: int, rate: float) -> float:
    """The largest score that is within the bound, at an adapted rate of misses a_t; infinite while n is too small."""
    least = 1.0 / (n + 1.0)
    if n == 0:
        return np.inf
    if rate < least:
        return ordered[n - 1] * (1.0 + (least - rate) / (4.0 * RATE))
    place = int(np.ceil((n + 1.0) * (1.0 - rate))) - 1
    return ordered[min(place, n - 1)] if place >= 0 else 0.0


@entry
def too_early(level: float, n: float, delay: float) -> bool:
    """Whether n scores are too few to promise anything at a level."""
    return (n / max(1.0, delay / DEPENDENT) + 1.0) * (1.0 - level) < 1.0 - ROUNDING


@kernel()
def bounds_now(levels, rates, ordered, numbers, delay, bounds):
    """The bound of each level; infinite where there are too few records for it."""
    n = min(int(numbers[SCORES]), WINDOW)
    for i in range(levels.size):
        bounds[i] = np.inf if too_early(levels[i], numbers[SCORES], delay) else bound(ordered, n, rates[i])


@kernel()
def _slope(numbers):
    """How much the error grows with `of_missing`, as far as that is sure."""
    n = min(numbers[SCORES], MEMORY)
    if n < MIN_RECORDS or not numbers[MISSING_VARIANCE] > 0.0:
        return 0.0
    doubtful = SURE * np.sqrt(numbers[MISSING_VARIANCE] * numbers[ERROR_VARIANCE] / n)
    return max(numbers[COVARIANCE] - doubtful, 0.0) / numbers[MISSING_VARIANCE]


@kernel()
def scale_of(doubts, numbers):
    """The error that is usual for a record with these doubts."""
    missing = 1.0 + _slope(numbers) * (doubts[OF_MISSING] - numbers[MISSING_MEAN])
    scale = numbers[USUAL_ERROR] * np.sqrt(1.0 + doubts[OF_WEIGHTS]) * max(missing, MIN_SCALE)
    usual = numbers[MISSING_MEAN] + UNUSUAL * np.sqrt(max(numbers[MISSING_VARIANCE], 0.0))
    if numbers[SCORES] < MIN_RECORDS or doubts[OF_MISSING] <= usual:
        return scale
    return np.hypot(scale, (doubts[OF_MISSING] - usual) * doubts[DEVIATION])


@kernel()
def _take_in(score, ring, ordered, numbers):
    """Put a score among the last ones, in place of the oldest where there are enough."""
    seen = int(numbers[SCORES])
    n = min(seen, WINDOW)
    if seen >= WINDOW:
        at = np.searchsorted(ordered[:n], ring[seen % WINDOW])
        copy(ordered[at + 1 : n], ordered[at : n - 1])
        n -= 1
    ring[seen % WINDOW] = score
    at = np.searchsorted(ordered[:n], score)
    for i in range(n, at, -1):
        ordered[i] = ordered[i - 1]
    ordered[at] = score
    numbers[SCORES] += 1.0


@kernel()
def _judge(score, bounds, levels, rates, ring, ordered, numbers, covered, delay):
    """Count whether a score is within the bounds that were given, adapt the levels, and take the score in."""
    for i in range(levels.size):
        if bounds[i] == np.inf:
            continue
        within = score <= bounds[i]
        covered[i, JUDGED] += 1
        covered[i, WITHIN] += 1 if within else 0
        if not (within and bounds[i] <= 0.0):
            change = RATE / max(1.0, RATE * delay) * (1.0 - levels[i] - (0.0 if within else 1.0))
            rates[i] = min(max(rates[i] + change, -1.0), 1.0)
    _take_in(score, ring, ordered, numbers)


@kernel()
def _follow_error(error, doubts, scale, numbers):
    """Take an error into what is usual, and into how it goes with what is missing; `scale` is that of now."""
    usual = numbers[USUAL_ERROR]
    if not usual > 0.0:
        numbers[USUAL_ERROR] = error
        return
    unit = usual * np.sqrt(1.0 + doubts[OF_WEIGHTS])
    counted = error / (scale / usual)
    follow = max(1.0 / MEMORY, 1.0 / numbers[SCORES])
    size, missing = min(error / unit, _OUTLIER), min(doubts[OF_MISSING], MAX_DOUBT)
    missing_off, size_off = missing - numbers[MISSING_MEAN], size - numbers[ERROR_MEAN]
    numbers[MISSING_MEAN] += follow * missing_off
    numbers[ERROR_MEAN] += follow * size_off
    missing_left, size_left = missing - numbers[MISSING_MEAN], size - numbers[ERROR_MEAN]
    numbers[MISSING_VARIANCE] += follow * (missing_off * missing_left - numbers[MISSING_VARIANCE])
    numbers[ERROR_VARIANCE] += follow * (size_off * size_left - numbers[ERROR_VARIANCE])
    numbers[COVARIANCE] += follow * (missing_off * size_left - numbers[COVARIANCE])
    follow = max(_FOLLOW, 1.0 / numbers[SCORES])
    numbers[USUAL_ERROR] = usual + follow * (min(counted, _OUTLIER * usual) - usual)


def state_row(*arrays: NDArray[Any], delay: int) -> NDArray[np.int64]:
    """The row of what is kept, whose addresses must live as long as it is used.

    Levels, rates, ring, ordered, numbers and what is covered; then scratch, (levels,).
    """
    return np.array([*(number for array in arrays for number in (address_of(array), array.size)), delay])


@kernel()
def _state_at(row):
    n_levels = row[1]
    return (
        doubles(row, 0), doubles(row, 2), doubles(row, 4), doubles(row, 6), doubles(row, 8),
        array_at(row[10], np.int64, n_levels, 2), doubles(row, 12), float(row[14]),
    )  # fmt: skip


@entry
def scales_and_bounds(row: Ints, doubts: DoubleRows, scales: Doubles, bounds: DoubleRows) -> None:
    """The unit of scores, and the bounds on them, of records that are answered now."""
    levels, rates, _, ordered, numbers, _, _, delay = _state_at(row)
    for t in range(scales.size):
        scales[t] = scale_of(doubts[t], numbers)
        bounds_now(levels, rates, ordered, numbers, delay, bounds[t])


@entry
def follow_values(
    row: Ints, predictions: Doubles, truth: Doubles, doubts: DoubleRows, scales: Doubles, given: DoubleRows
) -> None:
    """Take in records of a regression, with the scales and bounds that were given; without any, with those of now."""
    levels, rates, ring, ordered, numbers, covered, bounds, delay = _state_at(row)
    for t in range(truth.size):
        answer = predictions[t] if predictions[t] == predictions[t] else 0.0
        error = min(abs(answer - truth[t]), _LARGEST)
        scale = scale_now = scale_of(doubts[t], numbers)
        if scales.size:
            scale = scales[t]
            copy(given[t], bounds)
        else:
            bounds_now(levels, rates, ordered, numbers, delay, bounds)
        score = 1.0 if error > 0.0 else 0.0  # of the first error, which is as large as is usual so far
        if scale > 0.0:
            score = min(error / scale, MAX_SCORE)
        _judge(score, bounds, levels, rates, ring, ordered, numbers, covered, delay)
        _follow_error(error, doubts[t], scale_now, numbers)


@entry
def follow_classes(
    row: Ints, predictions: DoubleRows, truth: Doubles, answers: Ints, n_classes: int, given: DoubleRows
) -> None:
    """Take in records of a classification, with the bounds that were given; without any, with those of now.

    `answers` are the places of the classes that were answered, empty where these are the likeliest of `n_classes`. One
    class alone is certain.
    """
    levels, rates, ring, ordered, numbers, covered, bounds, delay = _state_at(row)
    for t in range(truth.size):
        if given.shape[0]:
            copy(given[t], bounds)
        else:
            bounds_now(levels, rates, ordered, numbers, delay, bounds)
        label = int(truth[t])
        answer = answers[t] if answers.size else predictions[t, :n_classes].argmax()
        score = 0.0
        if n_classes > 1 and label != answer:
            p = predictions[t, label]
            score = 1.0 - p if p == p else 1.0
        _judge(score, bounds, levels, rates, ring, ordered, numbers, covered, delay)
