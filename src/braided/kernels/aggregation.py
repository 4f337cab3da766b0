"""Weights of experts, so that what they say together is never far behind the best of them: of numbers, and of classes.

The formulas, and what they promise, are in `combiners.aggregate.Aggregate`.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.native import kernel
from braided.kernels.scale import clipped
from braided.store import MAX_COUNT

# Columns of an expert of numbers: discounted regret, discounted squared losses, the largest loss lately, its weight, and
# what it says of the record in hand.
REGRET, SQUARES, LARGEST, WEIGHT, SAYS = range(5)
COLUMNS = 5
#: Of numbers, before the experts: the running square of the residual, of how many records, the last target, and the last
#: one that may have been a mistake.
SCALE, RECORDS, LAST, ASIDE, EXPERTS = range(5)
#: The experts besides the learners: what they say together, the first; and the mean or the frequencies so far and the
#: last target or label, the last two.
GUESSES, MORE = 2, 3
#: Of numbers: how much of past losses is kept with each record, and of the largest one; how fast the scale follows.
DISCOUNT, LARGEST_DISCOUNT, SCALE_RATE = 0.9998, 0.95, 0.0125
#: After n records the scale follows by 5 / (n + 4) at least.
_EARLY = 5.0
#: Residuals are within this many units of the scale, once it rests on so many records.
BOUND, FIRST_RECORDS = 50.0, 10.0
#: The share of all weight that is passed round with each record.
VALUE_SHARE, CLASS_SHARE = 3e-5, 1e-4
#: The first weight of the first expert; the others share the rest.
FIRST_OF_VALUES, FIRST_OF_CLASSES = 0.3, 0.9
#: No probability is smaller, and no target larger.
MIN_PROBABILITY, _LARGEST = 1e-12, 1e140


@kernel()
def first_weight(i, n, of_first):
    """The weight of expert i of n before any record."""
    return of_first if i == 0 else (1.0 - of_first) / (n - 1)


@kernel()
def experts_of(numbers):
    """A row for each expert."""
    return numbers[EXPERTS:].reshape((numbers.shape[0] - EXPERTS) // COLUMNS, COLUMNS)


@kernel()
def mean_value(numbers):
    """sum_i w_i f_i."""
    experts, total = experts_of(numbers), 0.0
    for i in range(experts.shape[0]):
        total += experts[i, WEIGHT] * experts[i, SAYS]
    return total


@kernel()
def keep_last(numbers, y, doubtful):
    """Take y for the last target, unless it is doubtful and not near the one before it."""
    if not doubtful or abs(y - numbers[ASIDE]) < 0.5 * abs(y - numbers[LAST]):
        numbers[LAST] = y
    numbers[ASIDE] = y


@kernel()
def learn_value(numbers, y, weight, doubtful):
    """One step of the second-order aggregation of what the experts said."""
    experts, y = experts_of(numbers), clipped(y, _LARGEST)
    n, answer, scale = experts.shape[0], mean_value(numbers), numbers[SCALE]
    keep_last(numbers, y, doubtful)
    bound = BOUND * np.sqrt(scale) if numbers[RECORDS] >= FIRST_RECORDS and scale > 0.0 else _LARGEST
    residual = clipped(y - answer, bound)
    numbers[RECORDS] = min(numbers[RECORDS] + 1.0, MAX_COUNT)
    scale += (residual * residual - scale) * max(_EARLY / (numbers[RECORDS] + _EARLY - 1.0), SCALE_RATE)
    numbers[SCALE] = scale
    if not scale > 1e-280:
        return
    bound, root, top, total = BOUND * np.sqrt(scale), np.sqrt(np.log(n)), -np.inf, 0.0
    for i in range(n):
        expert = experts[i]
        loss = -2.0 * weight * residual * clipped(expert[SAYS] - answer, bound) / scale
        expert[LARGEST] = max(expert[LARGEST] * LARGEST_DISCOUNT, abs(loss))
        expert[SQUARES] = DISCOUNT * expert[SQUARES] + loss * loss
        expert[REGRET] = DISCOUNT * expert[REGRET] - loss
        rate = _rate(expert, root)
        expert[WEIGHT] = rate * (expert[REGRET] - 0.5 * rate * expert[SQUARES])
        top = max(top, expert[WEIGHT])
    for i in range(n):
        expert = experts[i]
        expert[WEIGHT] = first_weight(i, n, FIRST_OF_VALUES) * _rate(expert, root) * np.exp(expert[WEIGHT] - top)
        total += expert[WEIGHT]
    for i in range(n):
        kept = (1.0 - VALUE_SHARE) * experts[i, WEIGHT] / total
        experts[i, WEIGHT] = kept + VALUE_SHARE * first_weight(i, n, FIRST_OF_VALUES)


@kernel()
def _rate(expert, root):
    """eta_i = min(1 / (2 E_i), sqrt(ln K / V_i)), with the root of ln K."""
    return min(0.5 / max(expert[LARGEST], 1e-140), root / np.sqrt(max(expert[SQUARES], 1e-280)))


@kernel()
def mean_probabilities(weights, probabilities, out):
    """sum_i w_i p_i."""
    out[:] = 0.0
    for i in range(probabilities.shape[0]):
        for k in range(out.shape[0]):
            out[k] += weights[i] * probabilities[i, k]


@kernel()
def learn_class(weights, probabilities, y, weight):
    """w_i <- w_i p_i(y)^c, normalised, of which a share is passed round."""
    n, total = probabilities.shape[0], 0.0
    for i in range(n):
        p = max(probabilities[i, y], MIN_PROBABILITY)
        weights[i] *= p if weight == 1.0 else p**weight
        total += weights[i]
    for i in range(n):
        first = first_weight(i, n, FIRST_OF_CLASSES)
        weights[i] = (1.0 - CLASS_SHARE) * weights[i] / total + CLASS_SHARE * first if total > 0.0 else first
