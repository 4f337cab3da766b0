"""From raw values to what the learners see: running bounds and running standardisation.

For a feature with n past values, mean m and root mean square r, a raw value x is first bounded,

    x <- min(max(x, -B), B),   B = BOUND max(1, r) once n >= 10, and 1e15 always,

so that one huge reading cannot wreck the statistics or an unscaled network. Standardised,

    z = (x - m') / s',   |z| <= Z_BOUND,

where m', s' are mean and standard deviation *including* x. Including it costs no purity (the statistics are stored
only when the record is learned), makes |z| < sqrt(n), and lets the second record already carry information.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BOUND = 20.0
Z_BOUND = 8.0
_LARGEST = 1e15
_BOUNDED_FROM = 10.0
# Rows of the statistics array.
COUNT, MEAN, SQUARES = 0, 1, 2


@njit(cache=True)
def bounded(value, count, mean, squares):
    """The value within the feature's bound; `squares` is the sum of squared deviations from the mean."""
    limit = _LARGEST
    if count >= _BOUNDED_FROM:
        limit = min(limit, BOUND * max(1.0, np.sqrt(squares / count + mean * mean)))
    return min(max(value, -limit), limit)


@njit(cache=True)
def including(value, count, mean, squares):
    """Welford's update: count, mean and squares with `value` among them."""
    count += 1.0
    delta = value - mean
    mean += delta / count
    squares += delta * (value - mean)
    return count, mean, squares


@njit(cache=True)
def standardised(value, count, mean, squares):
    """(value - mean) / standard deviation, within +-Z_BOUND; 0 where nothing varied yet."""
    # Rounding leaves a constant feature with a deviation of about 1e-16 of its size: that is no variation.
    deviation = np.sqrt(squares / count) if count > 0 else 0.0
    if deviation <= 1e-12 * abs(mean) or deviation == 0.0:
        return 0.0
    return min(max((value - mean) / deviation, -Z_BOUND), Z_BOUND)


@njit(cache=True)
def encode(values, columns, statistics, standardise, x, active):
    """Fill x and the list of available slots from one raw record; returns how many are available.

    `columns[slot]` is where the slot's value stands in `values`, or -1. A NaN is a missing value, and x is 0 there.
    """
    n_active = 0
    for slot in range(columns.shape[0]):
        x[slot] = 0.0
        column = columns[slot]
        if column < 0 or np.isnan(values[column]):
            continue
        count, mean, squares = statistics[COUNT, slot], statistics[MEAN, slot], statistics[SQUARES, slot]
        value = bounded(values[column], count, mean, squares)
        if standardise:
            count, mean, squares = including(value, count, mean, squares)
            value = standardised(value, count, mean, squares)
        x[slot] = value
        active[n_active] = slot
        n_active += 1
    return n_active


@njit(cache=True)
def remember(values, columns, statistics, active):
    """Store the statistics that include this record."""
    for slot in active:
        count, mean, squares = statistics[COUNT, slot], statistics[MEAN, slot], statistics[SQUARES, slot]
        value = bounded(values[columns[slot]], count, mean, squares)
        statistics[COUNT, slot], statistics[MEAN, slot], statistics[SQUARES, slot] = including(
            value, count, mean, squares
        )
