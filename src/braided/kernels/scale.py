"""From raw values to what the learners see: running bounds and running standardisation.

A feature's statistics are the count n, mean m and sum of squared deviations of its past values, each bounded before it
was counted, so that one huge reading cannot wreck the statistics or an unscaled network:

    x <- min(max(x, -B), B),   B = BOUND max(1, typical size of the feature), and 1e140 always.

The typical size is the root mean square of the past once that rests on ten values. The first ten values are kept,
and the typical size is the median of their magnitudes; as each of them arrives all are bounded anew, so that even a
huge first value is put in its place by the ones that follow. Standardised,

    z = (x - m') / s',   |z| <= Z_BOUND,

where m', s' are mean and standard deviation *including* x. Including it costs no purity (the statistics are stored
only when the record is learned), makes |z| <= sqrt(n), and lets the second record already carry information.

A feature whose values lie beyond Z_BOUND standard deviations ten times in a row has changed for good (another unit, a
sensor replaced): its statistics then start over, and what learners know of it holds again in the new units. One that
was constant until then has no unit yet, and its statistics go on: what moves in steps would start over for ever.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from braided.kernels.compile import kernel

BOUND = 20.0
Z_BOUND = 8.0
_LARGEST = 1e140  # its square is still a float64
_LARGEST_RAW = 1e15  # what an unscaled float32 network may see
# Rows of the statistics: three running figures; how many values in a row lay far out, and mean and standard deviation
# from before them; then the first values.
COUNT, MEAN, SQUARES, FAR_OUT, BEFORE_MEAN, BEFORE_DEVIATION, FIRST = range(7)
KEPT = 10
STATISTICS = FIRST + KEPT
#: A target's statistics are followed by its past (how many targets are known, up to three, the last three, and running
#: means of these rates), and by the statistics of its changes.
LAGS = 3
MEAN_RATES = (0.2, 0.02)
SEEN = STATISTICS
LAST = SEEN + 1
PAST = LAGS + len(MEAN_RATES)
CHANGES = LAST + PAST
TARGET_STATISTICS = CHANGES + STATISTICS
#: A step of the target's past is within this many usual changes.
_MOST_CHANGES = 20.0
#: So many values far out in a row, and the statistics start over; none are counted before there are twice as many.
_CHANGED = 10


@kernel()
def clipped(value, limit):
    """The value within +-limit."""
    return min(max(value, -limit), limit)


@kernel()
def including(value, column):
    """The value within its bound, and count, mean and squares with it among them; `column` is a feature's row."""
    count, mean, squares = column[COUNT], column[MEAN], column[SQUARES]
    value = clipped(value, _LARGEST)
    if count >= KEPT:
        value = clipped(value, BOUND * max(1.0, np.sqrt(squares / count + mean * mean)))
        count += 1.0
        delta = value - mean
        mean += delta / count
        return value, count, mean, squares + delta * (value - mean)
    n = int(count)
    sizes = np.empty(n + 1)
    for i in range(n):
        sizes[i] = abs(column[FIRST + i])
    sizes[n] = abs(value)
    sizes.sort()
    limit = min(BOUND * max(1.0, sizes[n // 2]), _LARGEST)
    value = clipped(value, limit)
    mean = value
    for i in range(n):
        mean += clipped(column[FIRST + i], limit)
    mean /= n + 1
    squares = (value - mean) * (value - mean)
    for i in range(n):
        deviation = clipped(column[FIRST + i], limit) - mean
        squares += deviation * deviation
    return value, count + 1.0, mean, squares


@kernel()
def count_in(value, column):
    """Store the statistics with the value among them; start them over if the feature has changed for good."""
    if column[COUNT] >= 2 * _CHANGED:
        if column[FAR_OUT] == 0:
            column[BEFORE_MEAN] = column[MEAN]
            column[BEFORE_DEVIATION] = np.sqrt(column[SQUARES] / column[COUNT])
        spread = column[BEFORE_DEVIATION]
        far = spread > 1e-12 * abs(column[BEFORE_MEAN]) and abs(value - column[BEFORE_MEAN]) > Z_BOUND * spread
        column[FAR_OUT] = column[FAR_OUT] + 1 if far else 0
        if column[FAR_OUT] >= _CHANGED:
            column[:STATISTICS] = 0.0
    if column[COUNT] < KEPT:
        column[FIRST + int(column[COUNT])] = clipped(value, _LARGEST)
    _, column[COUNT], column[MEAN], column[SQUARES] = including(value, column)


@kernel()
def standardised(value, count, mean, squares):
    """(value - mean) / standard deviation, within +-Z_BOUND; 0 where nothing varied yet."""
    # Rounding leaves a constant feature with a deviation of about 1e-16 of its size: that is no variation.
    deviation = np.sqrt(squares / count) if count > 0 else 0.0
    if deviation <= 1e-12 * abs(mean) or deviation == 0.0:
        return 0.0
    return clipped((value - mean) / deviation, Z_BOUND)


@kernel()
def past_in_units(target, known, past):
    """What is known of the target's past as steps in usual changes: from lag to lag, from the last one to each mean.

    The means are the running ones, and that of all targets. A step from or to what is not there yet is 0.
    """
    last = known[LAST]
    deviation = usual_change(target)
    for k in range(PAST):
        if k < LAGS - 1:
            step = known[LAST + k] - known[LAST + k + 1] if known[SEEN] > k + 1 else 0.0
        elif k < PAST - 1:
            step = known[LAST + k + 1] - last
        else:
            step = target[MEAN] - last
        past[k] = clipped(step / deviation, _MOST_CHANGES) if deviation > 0.0 else 0.0


@kernel()
def usual_change(target):
    """The standard deviation of the target's changes; 0 while there was none."""
    count = target[CHANGES + COUNT]
    return np.sqrt(target[CHANGES + SQUARES] / count) if count > 0.0 else 0.0


@kernel()
def remember_target(y, known):
    """Take y into a target's past."""
    first = known[SEEN] == 0
    known[SEEN] = min(known[SEEN] + 1.0, LAGS)
    y = clipped(y, _LARGEST)
    for k in range(LAGS - 1, 0, -1):
        known[LAST + k] = known[LAST + k - 1]
    known[LAST] = y
    for k in range(len(MEAN_RATES)):
        at = LAST + LAGS + k
        known[at] = y if first else known[at] + MEAN_RATES[k] * (y - known[at])


@kernel()
def leaving(late):
    """The target that is no longer too new to be known when the next one comes; NaN if there is none."""
    wait, count = late.shape[0] - 1, int(late[0])
    return late[1 + count % wait] if count >= wait else np.nan


@kernel()
def keep_late(y, late):
    """Put a target into the place of the one that is leaving."""
    wait = late.shape[0] - 1
    late[1 + int(late[0]) % wait] = y
    late[0] += 1.0


def target_deviation(target: NDArray[np.float64]) -> float:
    """The running standard deviation of a numeric target."""
    return float(np.sqrt(target[SQUARES] / target[COUNT])) if target[COUNT] > 0 else 0.0


@kernel()
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
        value, count, mean, squares = including(values[column], statistics[slot])
        x[slot] = standardised(value, count, mean, squares) if standardise else clipped(value, _LARGEST_RAW)
        active[n_active] = slot
        n_active += 1
    return n_active


@kernel()
def remember(values, columns, statistics, active):
    """Store the statistics that include this record."""
    for slot in active:
        count_in(values[columns[slot]], statistics[slot])
