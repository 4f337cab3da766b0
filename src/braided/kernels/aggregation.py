"""Weights of experts whose mixture is never far behind the best of them, for numbers and for classes.

The formulas and their bounds are in `combiners.aggregate.Aggregate`.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.native import kernel
from braided.kernels.scale import clipped
from braided.store import MAX_COUNT

# Columns of an expert of numbers: discounted regret, discounted squared losses, largest recent loss, weight, and its
# prediction for the current record.
REGRET, SQUARES, LARGEST, WEIGHT, SAYS = range(5)
COLUMNS = 5
#: For numbers, before the experts: running mean of the squared residual, its recent peak, how many residuals in a row
#: were far out, number of records, last target, and the target before it or one that waits to be confirmed; how often
#: the target's statistics had started over.
SCALE, PEAK, FAR_RUN, RECORDS, LAST, NEWEST, EPOCH, EXPERTS = range(8)
#: Experts besides the learners: the combined prediction comes first, the mean (or frequencies) and the last target (or
#: label) come last.
MORE = 3
#: For numbers: discounts of past losses and of the largest one, and the rate at which the scale follows.
DISCOUNT, LARGEST_DISCOUNT, SCALE_RATE = 0.9998, 0.95, 0.0125
#: The peak of the scale is forgotten at this rate.
PEAK_DISCOUNT = 0.999
#: After n records the scale follows at a rate of at least 5 / (n + 4).
_EARLY = 5.0
#: Residuals are clipped at this many units of the scale, once it is based on this many records.
BOUND, FIRST_RECORDS = 50.0, 10.0
#: Records whose residual exceeds that are learned, if at all, with everything clipped at this many.
_FAR_BOUND = 5.0
#: With this many such records in a row the stream has changed, and the scale is of their residuals; so it is with this
#: many residuals that are smaller than this share of the scale.
_FAR_CHANGED, _MINUTE = 8.0, 1e-6
#: The share of all weight that returns to the first weights with each record.
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
def start_over(numbers):
    """Let the experts have their first weights, and no past."""
    experts = experts_of(numbers)
    numbers[SCALE] = numbers[PEAK] = numbers[RECORDS] = 0.0
    for i in range(experts.shape[0]):
        experts[i, :WEIGHT] = 0.0
        experts[i, WEIGHT] = first_weight(i, experts.shape[0], FIRST_OF_VALUES)


@kernel()
def rescale(numbers, experts):
    """Where the scale exceeds its recent peak, bring what was learned at smaller errors to the new scale."""
    scale, peak = numbers[SCALE], numbers[PEAK]
    if scale > peak > 0.0:
        ratio = peak / scale
        for i in range(experts.shape[0]):
            experts[i, REGRET] *= ratio
            experts[i, SQUARES] *= ratio * ratio
            experts[i, LARGEST] *= ratio
    numbers[PEAK] = max(scale, PEAK_DISCOUNT * peak)


@kernel()
def learn_value(numbers, y, weight, doubtful, epoch):
    """One step of second-order aggregation, from the experts' predictions of this record.

    `epoch` says how often the target's statistics have started over: with them, the scale does.
    """
    if numbers[EPOCH] != epoch:
        numbers[EPOCH], numbers[SCALE], numbers[RECORDS] = epoch, 0.0, 0.0
    experts, y = experts_of(numbers), clipped(y, _LARGEST)
    n, answer, scale = experts.shape[0], mean_value(numbers), numbers[SCALE]
    believed = not doubtful or abs(y - numbers[NEWEST]) < 0.5 * abs(y - numbers[LAST])
    if believed:
        numbers[LAST] = y
    numbers[NEWEST] = y
    bound = BOUND * np.sqrt(scale) if numbers[RECORDS] >= FIRST_RECORDS and scale > 0.0 else _LARGEST
    if abs(y - answer) < _MINUTE * np.sqrt(scale):
        numbers[FAR_RUN] = min(numbers[FAR_RUN], 0.0) - 1.0
        if numbers[FAR_RUN] <= -_FAR_CHANGED:
            scale = numbers[PEAK] = numbers[FAR_RUN] = numbers[RECORDS] = 0.0
    elif abs(y - answer) <= bound:
        numbers[FAR_RUN] = 0.0
    elif not believed:
        numbers[FAR_RUN] = 0.0
        return
    else:
        numbers[FAR_RUN] = min(max(numbers[FAR_RUN], 0.0) + 1.0, _FAR_CHANGED)
        bound = _FAR_BOUND * np.sqrt(scale)
        if numbers[FAR_RUN] == _FAR_CHANGED:
            bound, numbers[PEAK] = _LARGEST, scale
    residual = clipped(y - answer, bound)
    numbers[RECORDS] = min(numbers[RECORDS] + 1.0, MAX_COUNT)
    scale += (residual * residual - scale) * max(_EARLY / (numbers[RECORDS] + _EARLY - 1.0), SCALE_RATE)
    numbers[SCALE] = scale
    if not scale > 1e-280:
        return
    rescale(numbers, experts)
    bound, root, top, total = min(bound, BOUND * np.sqrt(scale)), np.sqrt(np.log(n)), -np.inf, 0.0
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
def learn_class(weights, probabilities, y, part):
    """w_i <- w_i p_i(y)^part, normalised; a share returns to the first weights."""
    n, total, share = probabilities.shape[0], 0.0, CLASS_SHARE * part
    for i in range(n):
        p = max(probabilities[i, y], MIN_PROBABILITY)
        weights[i] *= p if part == 1.0 else p**part
        total += weights[i]
    for i in range(n):
        first = first_weight(i, n, FIRST_OF_CLASSES)
        weights[i] = (1.0 - share) * weights[i] / total + share * first if total > 0.0 else first
