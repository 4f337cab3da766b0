"""How unsure the closed-form learner of numbers is of one record: by its own weights, and by what the record lacks.

With N(m, P) the posterior of `learners.linear`, u a record's inputs and s^2 the noise that it reckons with,

    of_weights = u P u / s^2                                 what is not known of the weights, in units of the noise
    of_missing = sqrt(sum of m_j^2 over the missing j)       how far the score moves with what is missing

the second in deviations of the target, for standardised values; the third number is such a deviation. With more
features than are filled in (`kernels.inputs`) the second is 0: it would cost more than all else.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.calls import DOUBLE, HYPER, INDEX, SHAPE, WORK64, doubles, ints
from braided.kernels.dense import FAST
from braided.kernels.inputs import MAX_FEATURES
from braided.kernels.native import kernel
from braided.kernels.posterior import (
    COVARIANCE_AT,
    FEATURES,
    FORM,
    INPUTS,
    MEAN_AT,
    NOISE,
    PLANE,
    STRIDE,
    WITH_MASK,
    list_inputs,
)
from braided.kernels.scale import COUNT, SQUARES

#: Columns of what is known of a record's doubts.
OF_WEIGHTS, OF_MISSING, DEVIATION = 0, 1, 2
DOUBTS = 3
#: No doubt is larger.
MAX_DOUBT = 1e6


@kernel(fastmath=FAST)
def _times_row(row, u, n):
    """The inner product with the first n of a row."""
    total = 0.0
    for k in range(n):
        total += row[k] * u[k]
    return total


@kernel()
def _variance(flat, full, stride, size, index, u, n):
    """u P u, from one side of the diagonal of a matrix."""
    total = 0.0
    for k in range(n):
        if not full:
            total += flat[index[k]] * u[k] * u[k]
            continue
        row = flat[index[k] * stride : index[k] * stride + size]
        before = 0.0
        if n == size:
            before = _times_row(row, u, k)
        else:
            for i in range(k):
                before += row[index[i]] * u[i]
        total += u[k] * (2.0 * before + row[index[k]] * u[k])
    return total


@kernel()
def _of_missing(mean, with_mask, n_features, active):
    """The root of the squared weights of all features but the active ones, which are in order."""
    total, at = 0.0, 0
    for slot in range(n_features):
        if at < active.shape[0] and active[at] == slot:
            at += 1
        else:
            weight = mean[1 + 2 * slot] if with_mask else mean[1 + slot]
            total += weight * weight
    return np.sqrt(total)


@kernel()
def bounded(number):
    """A doubt within its bounds; 0 for NaN."""
    return min(max(number, 0.0), MAX_DOUBT) if number == number else 0.0


@kernel()
def doubt(row, x, active, target, doubts):
    """The doubts of the linear learner of this row of the table about a record that it sees as x.

    `target` are the target's statistics.
    """
    shape, double, u, index = ints(row, SHAPE), doubles(row, DOUBLE), doubles(row, WORK64), ints(row, INDEX)
    with_mask, n_features, stride = shape[WITH_MASK], shape[FEATURES], shape[STRIDE]
    n = list_inputs(x, active, with_mask, n_features, shape[PLANE], index, u)
    covariance = double[shape[COVARIANCE_AT] :]
    variance = _variance(covariance, shape[FORM], stride, shape[INPUTS], index, u, n)
    doubts[OF_WEIGHTS] = bounded(variance / doubles(row, HYPER)[NOISE])
    doubts[DEVIATION] = np.sqrt(target[SQUARES] / target[COUNT]) if target[COUNT] > 0.0 else 0.0
    doubts[OF_MISSING] = 0.0
    if n_features <= MAX_FEATURES:
        mean = double[shape[MEAN_AT] : shape[MEAN_AT] + stride]
        doubts[OF_MISSING] = bounded(_of_missing(mean, with_mask, n_features, active))
