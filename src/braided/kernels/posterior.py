"""The parts of a recursive Gaussian posterior N(m, P) over linear weights, for inputs that may mostly be zero.

An input vector u is given as a list: `index[k]` is the place of the k-th input that is not missing, `u[k]` its value.
P is a full symmetric matrix, or its diagonal; `flat` holds either, and `full` says which: DIAGONAL, FULL, or UPPER for
a matrix of which only the entries from the diagonal on are kept, with an input vector that has them all. That is half
of the memory, and what does not fit into the cache is slow. With a matrix P u is dense, with a diagonal it is a list
like u.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.dense import FAST
from braided.kernels.inputs import has_planes
from braided.kernels.native import kernel

DIAGONAL, FULL, UPPER = range(3)
SMALLEST_VARIANCE = 1e-30
# Places in `shape` of every learner with such a posterior, as `learners.gaussian` writes them: outputs; whether u has
# the mask; the form of P, one of the three above; row length of m and P; inputs in use; where m and P start; features;
# the plane of x.
OUTPUTS, WITH_MASK, FORM, STRIDE, INPUTS, MEAN_AT, COVARIANCE_AT, FEATURES, PLANE = range(9)
#: How many places that is: a learner with more has its own from here on.
PLACES = 9
# In `hyper`: phi and P0; for a numeric target then the noise variance.
FORGETTING, PRIOR, NOISE = range(3)


@kernel()
def list_inputs(x, active, with_mask, n_features, plane, index, u):
    """u = [1 ; x] or, with the mask, [1 ; x_0 ; 1 ; x_1 ; 1 ; ...] over the available features; returns its length.

    Place 0 is the bias. Value and mask of a feature stand side by side, so that a new feature comes last. Of another
    plane than the first, if x has it, all features are taken.
    """
    index[0] = 0
    u[0] = 1.0
    n = 1
    if plane > 0 and has_planes(x, n_features):
        for slot in range(n_features):
            index[1 + slot], u[1 + slot] = 1 + slot, x[plane * n_features + slot]
        return 1 + n_features
    for slot in active:
        if with_mask:
            index[n], u[n] = 1 + 2 * slot, x[slot]
            index[n + 1], u[n + 1] = 2 + 2 * slot, 1.0
            n += 2
        else:
            index[n], u[n] = 1 + slot, x[slot]
            n += 1
    return n


@kernel()
def n_listed(x, active, with_mask, n_features, plane):
    """How many inputs `list_inputs` lists."""
    if plane > 0 and has_planes(x, n_features):
        return 1 + n_features
    return 1 + active.shape[0] * (2 if with_mask else 1)


@kernel(fastmath=FAST)
def _inner_dense(mean, u, n):
    """u . m for an input vector that has them all."""
    total = 0.0
    for k in range(n):
        total += mean[k] * u[k]
    return total


@kernel()
def inner(mean, full, index, u, n):
    """The latent score u . m."""
    if full == UPPER:
        return _inner_dense(mean, u, n)
    total = 0.0
    for k in range(n):
        total += mean[index[k]] * u[k]
    return total


@kernel(fastmath=FAST)
def _times_upper(flat, stride, size, u, pu):
    """P u for a matrix in its upper half: each entry is read once, for both sides of the diagonal."""
    pu[:size] = 0
    for i in range(size):
        row, above, below = flat[i * stride + i : i * stride + size], u[i:size], pu[i:size]
        value = above[0]
        total = row[0] * value
        for j in range(1, row.shape[0]):
            total += row[j] * above[j]
            below[j] += value * row[j]
        below[0] += total


@kernel()
def _shrink_upper(flat, stride, size, h):
    """P -= h h^T for a matrix in its upper half."""
    for i in range(size):
        row, others, value = flat[i * stride + i : i * stride + size], h[i:size], h[i]
        for j in range(row.shape[0]):
            row[j] -= value * others[j]
    for i in range(size):
        if flat[i * stride + i] < SMALLEST_VARIANCE:
            for j in range(size):
                flat[min(i, j) * stride + max(i, j)] = 0.0
            flat[i * stride + i] = SMALLEST_VARIANCE


@kernel()
def times_covariance(flat, full, stride, size, index, u, n, pu):
    """P u, into `pu`; returns q = u P u."""
    q = 0.0
    if full == UPPER:
        _times_upper(flat, stride, size, u, pu)
        for i in range(size):
            q += u[i] * pu[i]
    elif full:
        pu[:size] = 0.0
        for k in range(n):
            start = index[k] * stride
            row = flat[start : start + size]
            value = u[k]
            for i in range(size):
                pu[i] += value * row[i]
        for k in range(n):
            q += u[k] * pu[index[k]]
    else:
        for k in range(n):
            pu[k] = flat[index[k]] * u[k]
            q += u[k] * pu[k]
    return q


@kernel()
def correct(mean, full, size, index, n, pu, amount):
    """Move the mean: m += amount P u."""
    if full:
        for i in range(size):
            mean[i] += amount * pu[i]
    else:
        for k in range(n):
            mean[index[k]] += amount * pu[k]


@kernel()
def forget(flat, full, stride, size, share, prior_variance):
    """P_ii += share (prior variance - P_ii)."""
    if share > 0.0:
        apart = stride + 1 if full else 1
        for i in range(size):
            flat[i * apart] += share * (prior_variance - flat[i * apart])


@kernel()
def shrink(flat, full, stride, size, index, n, pu, factor):
    """P -= factor (P u)(P u)^T; overwrites `pu`.

    With h = sqrt(factor) P u every entry loses h_i h_j, the same product on both sides of the diagonal: P stays
    symmetric to the last bit. A variance that rounding would make non-positive is set to a tiny one, and its
    covariances to zero, which keeps P positive.
    """
    root = np.sqrt(factor)
    if not full:
        for k in range(n):
            h = root * pu[k]
            flat[index[k]] = max(flat[index[k]] - h * h, SMALLEST_VARIANCE)
        return
    for i in range(size):
        pu[i] *= root
    if full == UPPER:
        _shrink_upper(flat, stride, size, pu)
        return
    for i in range(size):
        h = pu[i]
        if h == 0.0:
            continue
        row = flat[i * stride : i * stride + size]
        for j in range(size):
            row[j] -= h * pu[j]
    for i in range(size):
        if flat[i * stride + i] < SMALLEST_VARIANCE:
            for j in range(size):
                flat[i * stride + j] = 0.0
                flat[j * stride + i] = 0.0
            flat[i * stride + i] = SMALLEST_VARIANCE
