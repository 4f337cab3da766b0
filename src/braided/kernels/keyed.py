"""The keys' own learners next to a shared model: closed form, a few kilobytes each, one record after the other.

A key's numbers are one row of `single` (float32: weights, covariances, frequencies) and one of `double` (its past). The
formulas are in `fleet.key_learners.KeyLearners`; `fleet.layout` has the places.
"""

from __future__ import annotations

import numpy as np

from braided.kernels import newton
from braided.kernels.activations import softmax
from braided.kernels.dense import copy
from braided.kernels.native import DoubleRows, Doubles, Flags, IntRows, Ints, SingleRows, Singles, entry, kernel
from braided.kernels.record_weight import LARGEST_MOVE, counted
from braided.kernels.scale import clipped, encode, remember

#: For each of a key's own learners the prior variance of a weight, and how fast it goes back to it. One sees cosines of
#: the record, the others its values; the last, which only numbers have, is around the key's first target.
VARIANCES = (0.03, 0.5, 0.1, 1.0)
FORGETTING = (0.0, 1e-3, 0.0, 0.0)
WAVES, FREE = 2, 3
OWN, VALUE_OWN = 3, 4
#: Cosines, each of two features; and how fast a key's running frequencies of labels follow.
COSINES = 32
RATES = (0.9, 0.5, 0.2, 0.05, 0.01)
#: A key's past of numbers: the last residual, running means of it of these rates, two differences, and the last
#: residual of the learner around the first target.
RESIDUAL_RATES = (0.3, 0.05)
#: What is weighed: the shared score and a key's own, and its frequencies; of numbers, its own scores and its past.
CLASS_INPUTS, VALUE_INPUTS = 1 + OWN + len(RATES), VALUE_OWN + 4 + len(RESIDUAL_RATES)
# Places among them. Of classes: the shared score, the key's own, the frequencies.
_SHARED, _OWN_SCORES, _FREQUENCIES = 0, 1, 1 + OWN
# Of numbers, after the key's own scores: the last residual and its running means, the last target less the shared
# value, the last change, the last residual around the first target.
_LAST_RESIDUAL, _RESIDUAL_MEANS = VALUE_OWN, VALUE_OWN + 1
_FROM_LAST, _LAST_CHANGE, _LAST_FREE_RESIDUAL = range(VALUE_INPUTS - 3, VALUE_INPUTS)
#: Prior variances of the fleet's weights, of classes and of numbers, and of what a key's differ from them; forgetting.
FLEET_VARIANCE, FLEET_VALUE_VARIANCE, KEY_VARIANCE, WEIGHT_FORGETTING = 0.03, 0.3, 0.003, 1e-4
#: A shared probability counts for this much at least, and a score for this much at most.
FLOOR, LARGEST = 1e-4, 10.0
#: The same of numbers, in units of the shared model's residuals; and what is learned of one.
LARGEST_VALUE, LARGEST_RESIDUAL = 20.0, 50.0
#: No weight of a key or of the fleet is larger.
MAX_WEIGHT = 1e4
#: Averages of squares are over at most MEMORY records, and start as if there had been BEFORE; no noise is smaller.
MEMORY, BEFORE, MIN_NOISE = 1_000.0, 5.0, 1e-4
#: After this many residuals, one that is far off counts for less in their unit.
_TRUSTED = 10.0
_LARGEST_TARGET = 1e140
_SMALLEST_VARIANCE = 1e-12
#: As `learners.recent` has them.
_SHARE, _FREQUENCY_FLOOR = 0.02, 1e-3
# Places in `shape`.
REGRESSION, INPUTS, OUTPUTS, N_FEATURES, N_OUTPUTS, PAST, WEIGHTS, WEIGHT_COVARIANCE = range(8)
MEANS = 8
COVARIANCES = MEANS + VALUE_OWN
HELD = COVARIANCES + VALUE_OWN
# Columns of `double`: records learned, noise, the first target and the last two, the last residuals of the shared model
# and of the learner around the first target, and running means of the former.
COUNT, NOISE, FIRST, LAST, BEFORE_LAST, RESIDUAL, FREE_RESIDUAL, RUNNING = range(8)
DOUBLES = RUNNING + len(RESIDUAL_RATES)
# Places in the fleet's numbers, after the weights and their covariance: noise, that of each own learner, the mean
# square of the shared model's residuals, and over how many it is.
FLEET_NOISE, OWN_NOISE = 0, 1
UNIT, UNITS = OWN_NOISE + VALUE_OWN, OWN_NOISE + VALUE_OWN + 1
FLEET_MORE = UNITS + 1
_SCRATCH = newton.SCRATCH * CLASS_INPUTS


def work_size(inputs: int, n_outputs: int) -> int:
    """Scratch of `run`."""
    waves = 1 + COSINES
    return inputs + waves + max(inputs, waves) + VALUE_INPUTS + _SCRATCH + (CLASS_INPUTS + 3) * n_outputs


@kernel()
def _times(packed, u, pu):
    """P u for a symmetric P of which the lower half is kept, row after row; returns u P u."""
    n, at, q = u.shape[0], 0, 0.0
    pu[:n] = 0.0
    for i in range(n):
        total = 0.0
        for j in range(i):
            total += packed[at + j] * u[j]
            pu[j] += packed[at + j] * u[i]
        pu[i] += total + packed[at + i] * u[i]
        at += i + 1
    for i in range(n):
        q += u[i] * pu[i]
    return q


@kernel()
def _shrink(packed, pu, factor, forgetting, prior, n):
    """P -= factor (P u)(P u)^T, then each variance moves back to the prior one by a share; overwrites `pu`."""
    root, at = np.sqrt(factor), 0
    for i in range(n):
        pu[i] *= root
    for i in range(n):
        for j in range(i + 1):
            packed[at + j] -= pu[i] * pu[j]
        variance = packed[at + i] + forgetting * (prior - packed[at + i])
        packed[at + i] = min(max(variance, _SMALLEST_VARIANCE), 2.0 * prior)
        at += i + 1


@kernel()
def _start_over(packed, prior, n):
    """P <- P0 I."""
    at = 0
    for i in range(n):
        packed[at : at + i] = 0.0
        packed[at + i] = prior
        at += i + 1


@kernel()
def _list_inputs(x, active, shape, pairs, frequencies, phases, u, waves):
    """u = [1 ; z], 0 where a feature is missing, and [1 ; cosines of two of them each]."""
    u[:] = 0.0
    u[0] = 1.0
    for slot in active:
        u[1 + slot] = x[slot]
    waves[0] = 1.0
    for k in range(COSINES):
        angle = phases[k]
        if shape[N_FEATURES] > 0:
            for side in range(2):
                angle += frequencies[k, side] * clipped(np.float64(x[pairs[k, side]]), 3.0)
        waves[1 + k] = np.cos(angle)


@kernel()
def _tame(weights):
    """Keep weights finite, and within their bound."""
    for i in range(weights.shape[0]):
        if not abs(weights[i]) <= MAX_WEIGHT:
            weights[i] = 0.0 if np.isnan(weights[i]) else clipped(weights[i], MAX_WEIGHT)


@kernel()
def _relax(covariance, first, prior):
    """P <- (1 - phi) P + phi P0 I, but for the weights before the first that are learned."""
    for i in range(covariance.shape[0]):
        for j in range(covariance.shape[0]):
            covariance[i, j] *= 1.0 - WEIGHT_FORGETTING
        if i >= first:
            covariance[i, i] += WEIGHT_FORGETTING * prior


@kernel()
def _own_scores(row, shape, own, u, k):
    """What learner `own` of a key adds to output k."""
    n, total = u.shape[0], 0.0
    start = shape[MEANS + own] + k * n
    for i in range(n):
        total += row[start + i] * u[i]
    return total


@kernel()
def _learn_own_class(row, shape, own, u, offset, label, weight, latent, p, pu):
    """One step of the Kalman recursion for p = softmax(offset + u m)."""
    n, n_outputs, prior = u.shape[0], shape[N_OUTPUTS], VARIANCES[own] / 2.0
    packed = row[shape[COVARIANCES + own] : shape[COVARIANCES + own] + n * (n + 1) // 2]
    for k in range(n_outputs):
        latent[k] = offset[k] + _own_scores(row, shape, own, u, k)
    softmax(latent, p)
    v = 0.0
    for k in range(n_outputs):
        v = max(v, 2.0 * p[k] * (1.0 - p[k]))
    q = _times(packed, u, pu)
    if not (q > 0.0 and np.isfinite(q) and np.isfinite(v)):
        _start_over(packed, prior, n)
        return
    along = weight / (1.0 + weight * v * q)
    if weight > 1.0:
        along = min(along, max(1.0 / (1.0 + v * q), LARGEST_MOVE / q))
    for k in range(n_outputs):
        amount = along * ((1.0 if k == label else 0.0) - p[k])
        start = shape[MEANS + own] + k * n
        mean = row[start : start + n]
        for i in range(n):
            mean[i] += amount * pu[i]
        _tame(mean)
    _shrink(packed, pu, weight * v / (1.0 + weight * v * q), FORGETTING[own], prior, n)


@kernel()
def _list_class(row, shape, shared, u, waves, inputs):
    """What is weighed for classes: the shared score, the key's own, and the logarithms of its frequencies."""
    n_outputs = shape[N_OUTPUTS]
    for i in range(CLASS_INPUTS):
        mean, total = 0.0, _SHARE
        start = shape[PAST] + max(i - _FREQUENCIES, 0) * shape[OUTPUTS]
        for k in range(n_outputs):
            total += row[start + k]
        for k in range(n_outputs):
            if i == _SHARED:
                value = np.log(max(shared[k], FLOOR))
            elif i < _FREQUENCIES:
                own = i - _OWN_SCORES
                value = _own_scores(row, shape, own, waves if own == WAVES else u, k)
            else:
                value = np.log((row[start + k] + _SHARE / n_outputs) / total + _FREQUENCY_FLOOR)
            inputs[i, k] = value
            mean += value
        for k in range(n_outputs):
            inputs[i, k] = clipped(inputs[i, k] - mean / n_outputs, LARGEST)


@kernel()
def _predict_class(row, past, shape, fleet, shared, u, waves, inputs, latent, prediction):
    """softmax of the weighed inputs, into `prediction`; exactly what the shared model says if the key is new."""
    n_outputs = shape[N_OUTPUTS]
    _list_class(row, shape, shared, u, waves, inputs)
    for k in range(n_outputs):
        latent[k] = 0.0
        for i in range(CLASS_INPUTS):
            latent[k] += (fleet[i] + row[shape[WEIGHTS] + i]) * inputs[i, k]
    softmax(latent, prediction)
    if past[COUNT] == 0.0:
        copy(shared, prediction)


@kernel()
def _learn_class(row, past, shape, fleet, label, weight, u, waves, inputs, latent, p, pu, scratch):
    n, n_outputs = CLASS_INPUTS, shape[N_OUTPUTS]
    start = shape[WEIGHT_COVARIANCE]
    own_weights, own_covariance = row[shape[WEIGHTS] : start], row[start : start + n * n].reshape(n, n)
    weights, covariance = fleet[:n], fleet[n : n + n * n].reshape(n, n)
    softmax(latent, p)
    newton.step_class(own_weights, own_covariance, inputs, p, label, weight, scratch)
    newton.relax(own_covariance, WEIGHT_FORGETTING, KEY_VARIANCE)
    _tame(own_weights)
    if past[COUNT] > 0.0 and shape[HELD] == 0:
        for k in range(n_outputs):
            p[k] = 0.0
            for i in range(n):
                p[k] += weights[i] * inputs[i, k]
        softmax(p, p)
        newton.step_class(weights, covariance, inputs, p, label, weight, scratch)
        _relax(covariance, 1, FLEET_VARIANCE)
        _tame(weights)
    for own in range(OWN):
        _learn_own_class(row, shape, own, waves if own == WAVES else u, inputs[_SHARED], label, weight, latent, p, pu)
    for s in range(len(RATES)):
        start = shape[PAST] + s * shape[OUTPUTS]
        for k in range(n_outputs):
            row[start + k] *= 1.0 - RATES[s]
        row[start + label] += RATES[s]
    past[COUNT] += 1.0


@kernel()
def _predict_value(row, past, shape, fleet, shared, u, waves, inputs):
    """The weighed inputs of a numeric target, in units of the shared model's residuals; fills `inputs`."""
    unit = np.sqrt(fleet[VALUE_INPUTS + VALUE_INPUTS * VALUE_INPUTS + UNIT])
    inverse = 1.0 / unit if unit > 0.0 else 0.0
    for own in range(VALUE_OWN):
        inputs[own] = _own_scores(row, shape, own, waves if own == WAVES else u, 0)
    inputs[FREE] = inputs[FREE] + (past[FIRST] - shared) * inverse if past[COUNT] > 0.0 else 0.0
    inputs[_LAST_RESIDUAL] = past[RESIDUAL] * inverse
    for k in range(len(RESIDUAL_RATES)):
        inputs[_RESIDUAL_MEANS + k] = past[RUNNING + k] * inverse
    inputs[_FROM_LAST] = (past[LAST] - shared) * inverse if past[COUNT] > 0.0 else 0.0
    inputs[_LAST_CHANGE] = (past[LAST] - past[BEFORE_LAST]) * inverse if past[COUNT] > 1.0 else 0.0
    inputs[_LAST_FREE_RESIDUAL] = past[FREE_RESIDUAL] * inverse
    total = 0.0
    for i in range(VALUE_INPUTS):
        inputs[i] = clipped(inputs[i], LARGEST_VALUE)
        total += (fleet[i] + row[shape[WEIGHTS] + i]) * inputs[i]
    return total


@kernel()
def _follow(mean_square, residual, share, count):
    """A running mean square with one more residual, of which a share counts."""
    return mean_square + (share * min(residual * residual, 1e280) - mean_square) / min(count, MEMORY)


@kernel()
def _learn_own_value(row, shape, own, u, residual, precision, pu):
    """One step of the linear recursion."""
    n, prior = u.shape[0], VARIANCES[own]
    packed = row[shape[COVARIANCES + own] : shape[COVARIANCES + own] + n * (n + 1) // 2]
    q = _times(packed, u, pu)
    if not (q > 0.0 and np.isfinite(q)):
        _start_over(packed, prior, n)
        return
    amount = residual * precision / (1.0 + precision * q)
    mean = row[shape[MEANS + own] : shape[MEANS + own] + n]
    for i in range(n):
        mean[i] += amount * pu[i]
    _tame(mean)
    _shrink(packed, pu, precision / (1.0 + precision * q), FORGETTING[own], prior, n)


@kernel()
def _learn_value(row, past, shape, fleet, shared, y, weight, u, waves, inputs, predicted, pu):
    """Learn a target that the shared model had predicted."""
    n = VALUE_INPUTS
    more = fleet[n + n * n :]
    start = shape[WEIGHT_COVARIANCE]
    residual = clipped(y - shared, _LARGEST_TARGET)
    unit = np.sqrt(more[UNIT])
    if unit > 0.0:
        aim = clipped(residual / unit, LARGEST_RESIDUAL)
        off, variance = aim - predicted, max(past[NOISE], MIN_NOISE)
        share = newton.trust(off, variance)
        own_covariance = row[start : start + n * n].reshape(n, n)
        newton.step_value(row[shape[WEIGHTS] : start], own_covariance, inputs, off, weight * share / variance, pu)
        newton.relax(own_covariance, WEIGHT_FORGETTING, KEY_VARIANCE)
        _tame(row[shape[WEIGHTS] : start])
        past[NOISE] = _follow(past[NOISE], off, share, past[COUNT] + BEFORE)
        if past[COUNT] > 0.0 and shape[HELD] == 0:
            off = aim
            for i in range(n):
                off -= fleet[i] * inputs[i]
            variance = max(more[FLEET_NOISE], MIN_NOISE)
            share = newton.trust(off, variance)
            covariance = fleet[n : n + n * n].reshape(n, n)
            newton.step_value(fleet[:n], covariance, inputs, off, weight * share / variance, pu)
            _relax(covariance, 0, FLEET_VALUE_VARIANCE)
            _tame(fleet[:n])
            more[FLEET_NOISE] = _follow(more[FLEET_NOISE], off, share, more[UNITS] + BEFORE)
        for own in range(VALUE_OWN):
            off, variance = aim - inputs[own], max(more[OWN_NOISE + own], MIN_NOISE)
            if own == FREE:
                known = _own_scores(row, shape, own, u, 0)
                off = clipped((y - past[FIRST]) / unit, LARGEST_RESIDUAL) - known
                past[FREE_RESIDUAL] = clipped(off * unit, _LARGEST_TARGET)
            share = newton.trust(off, variance)
            _learn_own_value(row, shape, own, waves if own == WAVES else u, off, weight * share / variance, pu)
            if shape[HELD] == 0:
                more[OWN_NOISE + own] = _follow(more[OWN_NOISE + own], off, share, more[UNITS] + BEFORE)
    if shape[HELD] == 0:
        trusted = more[UNITS] > _TRUSTED and more[UNIT] > 0.0
        more[UNITS] = min(more[UNITS] + 1.0, MEMORY)
        share = newton.trust(residual, more[UNIT]) if trusted else 1.0
        more[UNIT] = _follow(more[UNIT], residual, share, more[UNITS])
    past[RESIDUAL] = residual
    for k in range(len(RESIDUAL_RATES)):
        rate = RESIDUAL_RATES[k] if past[COUNT] > 0.0 else 1.0
        past[RUNNING + k] += rate * (residual - past[RUNNING + k])


@entry
def run(
    shape: Ints, values: DoubleRows, columns: Ints, places: Ints, statistics: DoubleRows, pairs: IntRows,
    frequencies: DoubleRows, phases: Doubles, single: SingleRows, double: DoubleRows, slots: Ints, fleet: Doubles,
    shared: DoubleRows, answered: Flags, targets: Doubles, weights: Doubles, learn: bool, x: Singles, active: Ints,
    work: Doubles, predictions: DoubleRows,
) -> None:  # fmt: skip
    """Predict, and if `learn` then learn, record by record.

    `slots[t]` is the key's row, -1 for one that is not known, for which the shared model answers alone. `shared[t]` are
    the shared model's probabilities or its value, before it learned the record, and `answered[t]` whether it had one
    yet. `columns[place]` is the column of the feature in that place, -1 for none. A record of weight 0 is predicted.
    `active` and `x` are as in `kernels.scale.encode`, `work` has `work_size` places. With `shape[HELD]`, what all keys
    share stays as it is: `fleet` and `statistics`.
    """
    n_outputs = shape[N_OUTPUTS]
    work[:] = 0.0
    u, work = work[: shape[INPUTS]], work[shape[INPUTS] :]
    waves, work = work[: 1 + COSINES], work[1 + COSINES :]
    pu, work = work[: max(u.size, waves.size)], work[max(u.size, waves.size) :]
    of_value, work = work[:VALUE_INPUTS], work[VALUE_INPUTS:]
    scratch, work = work[:_SCRATCH].reshape(newton.SCRATCH, CLASS_INPUTS), work[_SCRATCH:]
    inputs, work = work[: CLASS_INPUTS * n_outputs].reshape(CLASS_INPUTS, n_outputs), work[CLASS_INPUTS * n_outputs :]
    latent, p, prediction = work[:n_outputs], work[n_outputs : 2 * n_outputs], work[2 * n_outputs : 3 * n_outputs]
    for t in range(values.shape[0]):
        n_active = encode(values[t], columns, places, statistics, True, x, active)
        active[-1] = n_active
        learned = learn and not (weights.shape[0] > 0 and weights[t] == 0.0)
        slot = slots[t]
        if slot >= 0:
            _list_inputs(x, active[:n_active], shape, pairs, frequencies, phases, u, waves)
            row, past = single[slot], double[slot]
            if shape[REGRESSION] == 1:
                value = clipped(shared[t, 0], _LARGEST_TARGET)
                residual = _predict_value(row, past, shape, fleet, value, u, waves, of_value)
                unit = np.sqrt(fleet[VALUE_INPUTS + VALUE_INPUTS * VALUE_INPUTS + UNIT])
                predictions[t, 0] = shared[t, 0] + residual * unit if past[COUNT] > 0.0 else shared[t, 0]
                if learned:
                    y = clipped(targets[t], _LARGEST_TARGET)
                    if past[COUNT] == 0.0:
                        past[FIRST] = y
                    if answered[t]:
                        weight = counted(weights, t)
                        _learn_value(row, past, shape, fleet, value, y, weight, u, waves, of_value, residual, pu)
                    past[BEFORE_LAST], past[LAST] = past[LAST], y
                    past[COUNT] += 1.0
            else:
                _predict_class(row, past, shape, fleet, shared[t], u, waves, inputs, latent, prediction)
                # Beyond the classes that keys have learners for, the shared model answers alone.
                mass = shared[t, :n_outputs].sum() if shared.shape[1] > n_outputs and past[COUNT] > 0.0 else 1.0
                copy(shared[t], predictions[t])
                for k in range(n_outputs):
                    predictions[t, k] = prediction[k] * mass
                if learned and targets[t] < n_outputs:
                    label, weight = int(targets[t]), counted(weights, t)
                    _learn_class(row, past, shape, fleet, label, weight, u, waves, inputs, latent, p, pu, scratch)
        else:
            copy(shared[t], predictions[t])
        if learned and shape[HELD] == 0:
            remember(values[t], columns, statistics, active[:n_active])
