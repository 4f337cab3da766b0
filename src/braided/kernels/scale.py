"""From raw values to what the learners see: running bounds and running standardisation.

A feature's statistics are the count n, mean m and sum of squared deviations of its past values, each bounded before it
was counted, so that one huge reading cannot wreck the statistics or an unscaled network:

    x <- min(max(x, -B), B),   B = BOUND max(1, typical size of the feature), and 1e140 always.

The typical size is the root mean square of the past once that rests on ten values. The first ten values are kept,
and the typical size is the median of their magnitudes; as each of them arrives all are bounded again, so that even a
huge first value is put in its place by the ones that follow. Standardised,

    z = (x - m') / s',   |z| <= Z_BOUND,

where m', s' are mean and standard deviation *including* x. Including it costs no purity (the statistics are stored
only when the record is learned), makes |z| <= sqrt(n), and lets the second record already carry information.

One feature may be far out: many are, now and then. A record of which half of the values are, and two at least, FAR
deviations or more, is taken for a mistake, and does not count; nor does a target that is, or a change of it that is
FAR_CHANGE deviations out. So they hide nothing of the others. They do count where they are not mistakes: if more than
DOUBTFUL_SHARE of the targets that came lately were doubtful (DOUBTFUL_RECORDS of the records), or the last ALIKE_DOUBTS
doubtful values lay on the same side and were of about the same size. A record counts if that holds for half of its
values: two signs may look like one side to a feature that is far from zero.

A feature whose unit has changed (a sensor replaced) starts over, and what learners know of it holds again in the new
units. It has, if

- ten values in a row lie beyond Z_BOUND standard deviations, or beyond Z_BOUND_YOUNG while the statistics rest on fewer
  than SETTLED values: the first records of a stream are often alike, and what follows is usually a part of the range
  not seen yet. A feature that was constant until then has no unit yet, and its statistics go on: what moves in
  steps would start over again and again. Or
- in two blocks of BLOCK values in a row the range (highest less lowest) is under 1/SHRUNK of the usual one, which is
  the geometric mean over the blocks before, and of the deviation. It then starts over from the last block's values. A
  block without any range says nothing.

After every second time, twice as many are asked for: a feature that is loud and quiet by turns says so by its size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from braided.kernels.native import kernel
from braided.store import MAX_COUNT

BOUND = 20.0
Z_BOUND = 8.0
LARGEST = 1e140  # its square is still a float64
_LARGEST_RAW = 1e15  # what an unscaled float32 network may see
#: Deviations from the mean from which a value or a target is far out, and a target's change.
FAR, FAR_CHANGE = 10.0, 20.0
#: Doubtful values count if they are more than this share of about the last fifty, or if enough in a row are alike.
#: If one record in twenty is bad, their share reaches 0.15 every few thousand records, and 0.25 hardly ever.
DOUBTFUL_SHARE, DOUBTFUL_RECORDS, _DOUBT_RATE, ALIKE_DOUBTS, _ALIKE_FACTOR = 0.15, 0.25, 0.02, 20, 4.0
#: A target that is taken for a mistake is learned as one this many deviations off.
DOUBTFUL_BOUND = 1.0
# Columns of the statistics: three running figures; how many values in a row lay far out, and mean and standard
# deviation from before them; the first values; the block in hand, its values, mean, squared deviations, lowest and
# highest; how many blocks had a range, and the mean of its logarithm; how many in a row were small; how often it
# started over.
COUNT, MEAN, SQUARES, FAR_OUT, BEFORE_MEAN, BEFORE_DEVIATION, FIRST = range(7)
KEPT = 10
IN_BLOCK, BLOCK_MEAN, BLOCK_SQUARES, LOWEST, HIGHEST, BLOCKS, USUAL_RANGE, SMALL, RESTARTS = range(FIRST + KEPT, 25)
# And of doubtful values: their share lately, how many in a row were alike, and the last one less the mean.
DOUBTS, ALIKE, LAST_DOUBT = range(RESTARTS + 1, RESTARTS + 4)
STATISTICS = LAST_DOUBT + 1
#: Values of a block, and how much smaller its range must be than usual.
BLOCK, SHRUNK = 32, 20.0
#: A target's statistics are followed by its past (how many targets are known, up to three, the last three, running
#: means of these rates; how many in a row were so far out that they wait, and the last of these), and by the statistics
#: of its changes.
LAGS = 3
MEAN_RATES = (0.2, 0.02)
SEEN = STATISTICS
LAST = SEEN + 1
PAST = LAGS + len(MEAN_RATES)
OUTSIDE = LAST + PAST
WAITING = OUTSIDE + 1
CHANGES = WAITING + 1
#: A target outside of FAR deviations waits until _CONFIRMED in a row were there, near each other; past _VERY_FAR, more.
_CONFIRMED, _VERY_FAR, _CONFIRMED_VERY_FAR = 2, 1_000.0, 3
TARGET_STATISTICS = CHANGES + STATISTICS
#: A step of the target's past is within this many usual changes.
_MAX_CHANGES = 20.0
# A ring of targets whose labels come late: how many there were, then the last ones.
_LATE_COUNT, _LATE_TARGETS = 0, 1
#: Values far out in a row after which the statistics start over; they are counted once there are KEPT values.
_CHANGED = 10
#: Statistics that rest on fewer values than SETTLED start over for larger deviations only.
SETTLED, Z_BOUND_YOUNG = 2_000.0, 100.0
#: Small blocks in a row after which they start over, too.
_CHANGED_BLOCKS = 2
#: Both are doubled at most this many times.
_MAX_DOUBLED = 6
#: The usual range is the mean over about this many blocks.
_BLOCK_MEMORY = 100.0


def _bounds() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What each of a target's statistics, of which a feature's are the first, lies between: counts and deviations."""
    low, high = np.full(TARGET_STATISTICS, -np.inf), np.full(TARGET_STATISTICS, np.inf)
    for first in (0, CHANGES):
        counted = [first + place for place in (COUNT, FAR_OUT, IN_BLOCK, BLOCKS, SMALL, RESTARTS, ALIKE)]
        low[[*counted, *(first + place for place in (SQUARES, BEFORE_DEVIATION, BLOCK_SQUARES, DOUBTS))]] = 0.0
        high[counted] = MAX_COUNT
    low[[SEEN, OUTSIDE]], high[[SEEN, OUTSIDE]] = 0.0, (LAGS, MAX_COUNT)
    return low, high


MIN_STATISTICS, MAX_STATISTICS = _bounds()


@kernel()
def clipped(value, limit):
    """The value within +-limit."""
    return min(max(value, -limit), limit)


@kernel()
def _middle_size(value, column, n):
    """The size in the middle, of two the smaller, of a value and the n that are kept."""
    for i in range(n + 1):
        size, below, upto = abs(value if i == n else column[FIRST + i]), 0, 0
        for j in range(n + 1):
            other = abs(value if j == n else column[FIRST + j])
            below += other < size
            upto += other <= size
        if below <= n // 2 < upto:
            return size
    return abs(value)


@kernel()
def including(value, column):
    """The value within its bound, and count, mean and squares with it among them; `column` is a feature's row."""
    count, mean, squares = column[COUNT], column[MEAN], column[SQUARES]
    value = clipped(value, LARGEST)
    if count >= KEPT:
        value = clipped(value, BOUND * max(1.0, np.sqrt(squares / count + mean * mean)))
        count += 1.0
        delta = value - mean
        mean += delta / count
        return value, count, mean, squares + delta * (value - mean)
    n = max(int(count), 0)
    limit = min(BOUND * max(1.0, _middle_size(value, column, n)), LARGEST)
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
def _patience(column):
    """By what the two limits for starting over are multiplied: they double after every second time."""
    return 2.0 ** min(column[RESTARTS] // 2, _MAX_DOUBLED)


@kernel()
def _take_into_block(value, column):
    """Take a value into the block in hand; returns whether enough blocks were small: the unit has changed."""
    if column[IN_BLOCK] == 0 or value < column[LOWEST]:
        column[LOWEST] = value
    if column[IN_BLOCK] == 0 or value > column[HIGHEST]:
        column[HIGHEST] = value
    if column[IN_BLOCK] == 0:
        column[BLOCK_MEAN] = column[BLOCK_SQUARES] = 0.0
    column[IN_BLOCK] += 1.0
    delta = value - column[BLOCK_MEAN]
    column[BLOCK_MEAN] += delta / max(column[IN_BLOCK], 1.0)
    column[BLOCK_SQUARES] += delta * (value - column[BLOCK_MEAN])
    if column[IN_BLOCK] < BLOCK:
        return False
    column[IN_BLOCK] = 0.0
    extent = column[HIGHEST] - column[LOWEST]
    if extent <= 1e-12 * abs(column[HIGHEST]):
        return False
    size = np.log(extent)
    if (
        column[BLOCKS] > 0
        and size < column[USUAL_RANGE] - np.log(SHRUNK)
        and extent * SHRUNK < np.sqrt(column[SQUARES] / max(column[COUNT], 1.0))
    ):
        column[SMALL] += 1.0
        return column[SMALL] >= _CHANGED_BLOCKS * _patience(column)
    column[SMALL] = 0.0
    column[BLOCKS] = min(column[BLOCKS] + 1.0, _BLOCK_MEMORY)
    column[USUAL_RANGE] += (size - column[USUAL_RANGE]) / column[BLOCKS]
    return False


@kernel()
def _start_over(column):
    """Forget a feature's statistics, but for how often that has happened."""
    restarts = column[RESTARTS]
    column[:STATISTICS] = 0.0
    column[RESTARTS] = restarts + 1.0


@kernel()
def distance(value, column):
    """How many deviations a value lies from the mean of those before it; 0 where that is not known."""
    if column[COUNT] < KEPT:
        return 0.0
    deviation = np.sqrt(column[SQUARES] / column[COUNT])
    return abs(value - column[MEAN]) / deviation if deviation > 1e-12 * abs(column[MEAN]) else 0.0


@kernel()
def alike(off, last):
    """Whether two deviations are on the same side and of similar size."""
    return off * last > 0 and abs(last) < _ALIKE_FACTOR * abs(off) and abs(off) < _ALIKE_FACTOR * abs(last)


@kernel()
def _is_mistake(value, column, doubtful, share):
    """Whether a doubtful value is a mistake, and neither one of many nor of a kind that comes again and again."""
    column[DOUBTS] += _DOUBT_RATE * ((1.0 if doubtful else 0.0) - column[DOUBTS])
    if not doubtful:
        return False
    last, off = column[LAST_DOUBT], value - column[MEAN]
    column[ALIKE] = column[ALIKE] + 1.0 if alike(off, last) else 1.0
    column[LAST_DOUBT] = off
    return column[DOUBTS] <= share and column[ALIKE] < ALIKE_DOUBTS


@kernel()
def count_in(value, column, doubtful):
    """Store the statistics with a value among them, unless it is doubtful and a mistake; returns whether it is."""
    value = clipped(value, LARGEST)
    return _store(value, column, _is_mistake(value, column, doubtful, DOUBTFUL_SHARE))


@kernel()
def _store(value, column, doubtful):
    """Store the statistics with the value among them; start them over if the feature has changed for good.

    A doubtful value does not count, unless enough of them came in a row; returns whether it still is one.
    """
    if not doubtful and _take_into_block(value, column):
        mean, squares = column[BLOCK_MEAN], column[BLOCK_SQUARES]
        _start_over(column)
        column[COUNT], column[MEAN], column[SQUARES] = BLOCK, mean, squares
        return False
    if column[COUNT] >= KEPT:
        if column[FAR_OUT] == 0:
            column[BEFORE_MEAN] = column[MEAN]
            column[BEFORE_DEVIATION] = np.sqrt(column[SQUARES] / column[COUNT])
        spread = column[BEFORE_DEVIATION]
        bound = Z_BOUND if column[COUNT] >= SETTLED else Z_BOUND_YOUNG
        far = spread > 1e-12 * abs(column[BEFORE_MEAN]) and abs(value - column[BEFORE_MEAN]) > bound * spread
        column[FAR_OUT] = column[FAR_OUT] + 1 if far else 0
        if column[FAR_OUT] >= _CHANGED * _patience(column):
            _start_over(column)
            doubtful = False
    if doubtful:
        return True
    if column[COUNT] < KEPT:
        column[FIRST + max(int(column[COUNT]), 0)] = value
    _, column[COUNT], column[MEAN], column[SQUARES] = including(value, column)
    return False


@kernel()
def standardised(value, count, mean, squares):
    """(value - mean) / standard deviation, within +-Z_BOUND; 0 where nothing varied yet."""
    # Rounding leaves a constant feature with a deviation of about 1e-16 of its size: that is not variation.
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
        past[k] = clipped(step / deviation, _MAX_CHANGES) if deviation > 0.0 else 0.0


@kernel()
def usual_change(target):
    """The standard deviation of the target's changes; 0 while there was none."""
    count = target[CHANGES + COUNT]
    return np.sqrt(target[CHANGES + SQUARES] / count) if count > 0.0 else 0.0


@kernel()
def _is_level(y, target, known):
    """Whether y is where the target is: within its usual range, or outside of it several times in a row.

    One that is outside waits in WAITING; OUTSIDE has how many in a row there were.
    """
    far, change = distance(y, target), usual_change(target)
    if far <= FAR or change == 0.0 or abs(y - known[LAST]) <= FAR * change:
        known[OUTSIDE] = 0.0
        return True
    near = known[OUTSIDE] > 0.0 and abs(y - known[WAITING]) <= FAR * change
    known[OUTSIDE] = known[OUTSIDE] + 1.0 if near else 1.0
    known[WAITING] = y
    return known[OUTSIDE] >= (_CONFIRMED if far <= _VERY_FAR else _CONFIRMED_VERY_FAR)


@kernel()
def remember_target(y, target, known):
    """Take y into a target's past, unless it is so far out that it may be a mistake."""
    y = clipped(y, LARGEST)
    if not _is_level(y, target, known):
        return
    first = known[SEEN] == 0
    known[SEEN] = min(known[SEEN] + 1.0, LAGS)
    for k in range(LAGS - 1, 0, -1):
        known[LAST + k] = known[LAST + k - 1]
    known[LAST] = y
    for k in range(len(MEAN_RATES)):
        at = LAST + LAGS + k
        known[at] = y if first else known[at] + MEAN_RATES[k] * (y - known[at])


@kernel()
def leaving(late):
    """The target that is no longer too new to be known when the next one comes; NaN if there is none."""
    wait, count = late.shape[0] - _LATE_TARGETS, max(int(late[_LATE_COUNT]), 0)
    return late[_LATE_TARGETS + count % wait] if count >= wait else np.nan


@kernel()
def keep_late(y, late):
    """Put a target into the place of the one that is leaving."""
    wait = late.shape[0] - _LATE_TARGETS
    late[_LATE_TARGETS + max(int(late[_LATE_COUNT]), 0) % wait] = y
    late[_LATE_COUNT] += 1.0


def target_deviation(target: NDArray[np.float64]) -> float:
    """The running standard deviation of a numeric target."""
    return float(np.sqrt(target[SQUARES] / target[COUNT])) if target[COUNT] > 0 else 0.0


@kernel()
def _from_first(value, column):
    """How far a value lies from the feature's first one; infinity where that is no longer known."""
    if column[RESTARTS] > 0.0:
        return np.inf
    return clipped(value - column[FIRST], _LARGEST_RAW) if column[COUNT] > 0.0 else 0.0


@kernel()
def encode(values, columns, slots, statistics, standardise, x, active):
    """Fill x and the list of available slots from one raw record; returns how many are available.

    `columns[slot]` is the slot's column in `values`, or -1; `slots` are those that may be there, in order.
    A NaN is a missing value, and x is 0 there. The last place of `active` says how many the record before had, which
    is taken out of x: the work grows with what is there. Where x has planes (`kernels.inputs`), its last one is RAW.
    """
    raw_at = x.shape[0] - PAST - statistics.shape[0]
    for k in range(active[-1]):
        x[active[k]] = 0.0
    n_active = 0
    for slot in slots:
        column = columns[slot]
        if column < 0 or np.isnan(values[column]):
            continue
        value, count, mean, squares = including(values[column], statistics[slot])
        x[slot] = standardised(value, count, mean, squares) if standardise else clipped(value, _LARGEST_RAW)
        if raw_at > 0:
            x[raw_at + slot] = _from_first(values[column], statistics[slot])
        active[n_active] = slot
        n_active += 1
    return n_active


@kernel()
def is_doubtful(values, columns, statistics, active):
    """Whether half of a record's values or more, and two at least, are far out."""
    far = known = 0
    for slot in active:
        column = statistics[slot]
        if column[COUNT] >= KEPT and column[SQUARES] > 0.0:
            known += 1
            far += distance(values[columns[slot]], column) > FAR
    return far > 1 and 2 * far >= known


@kernel()
def remember(values, columns, statistics, active):
    """Store the statistics that include this record; returns whether it was taken for a mistake."""
    doubtful, mistakes, left = is_doubtful(values, columns, statistics, active), 0, 0
    for slot in active:
        value = clipped(values[columns[slot]], LARGEST)
        mistakes += _is_mistake(value, statistics[slot], doubtful, DOUBTFUL_RECORDS)
    wrong = 2 * mistakes > active.shape[0]
    for slot in active:
        left += _store(clipped(values[columns[slot]], LARGEST), statistics[slot], wrong)
    return 2 * left > active.shape[0]
