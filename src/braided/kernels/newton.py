"""Newton steps for a few weights: the extended Kalman recursion of a small linear model on top of others.

With inputs l_i, one row per weight and one column per class, the model is p = softmax(sum_i w_i l_i), or for a numeric
target the sum itself. The steps are those of `combiners.KalmanWeights`, where the formulas are.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.activations import softmax
from braided.kernels.native import kernel
from braided.kernels.record_weight import LARGEST_MOVE, n_steps

#: Rows of the scratch of a step for a class: h, P h, and the means of the inputs over the classes.
H, PH, MEANS = range(3)
SCRATCH = 3
#: A class that is less likely than this adds nothing to the curvature.
_NEGLIGIBLE = 1e-12
#: Degrees of freedom of the noise that a residual far off is taken for.
_DEGREES = 2.0


@kernel()
def reduce(covariance, h, weight, ph):
    """P <- (P^-1 + weight h h^T)^-1, by the formula of Sherman and Morrison; a P that is not a covariance stays."""
    n = h.shape[0]
    q = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += covariance[i, j] * h[j]
        ph[i] = total
    for i in range(n):
        q += h[i] * ph[i]
    if not weight * q > -0.5:
        return
    root = np.sqrt(weight / (1.0 + weight * q))
    for i in range(n):
        ph[i] *= root
    for i in range(n):
        for j in range(n):
            covariance[i, j] -= ph[i] * ph[j]


@kernel()
def add(weights, covariance, h, amount):
    """w <- w + amount P h."""
    n = h.shape[0]
    for i in range(n):
        for j in range(n):
            weights[i] += amount * covariance[i, j] * h[j]


@kernel()
def step_class(weights, covariance, inputs, p, label, part, scratch):
    """The step for `part` of a record of class `label` that was predicted as p."""
    n, n_outputs = inputs.shape
    h, ph, means = scratch[H], scratch[PH], scratch[MEANS]
    for i in range(n):
        means[i] = 0.0
        for c in range(n_outputs):
            means[i] += p[c] * inputs[i, c]
    for k in range(n_outputs):
        if p[k] > _NEGLIGIBLE:
            for i in range(n):
                h[i] = inputs[i, k] - means[i]
            reduce(covariance, h, part * p[k], ph)
    for i in range(n):
        h[i] = inputs[i, label] - means[i]
    add(weights, covariance, h, part if part <= 1.0 else _bounded(covariance, h, part))


@kernel()
def _bounded(covariance, h, part):
    """A part of more than one record, as far as it does not move the score along h too far."""
    q = 0.0
    for i in range(h.shape[0]):
        for j in range(h.shape[0]):
            q += h[i] * covariance[i, j] * h[j]
    return max(min(part * q, LARGEST_MOVE) / q, 1.0) if q > 0.0 else 1.0


@kernel()
def learn_class(weights, covariance, inputs, p, label, weight, scratch, again):
    """All steps for a record of this weight; after the first, p is worked out again, in `again`."""
    n = n_steps(weight)
    step_class(weights, covariance, inputs, p, label, weight / n, scratch)
    for _ in range(1, n):
        for c in range(inputs.shape[1]):
            again[c] = 0.0
            for i in range(inputs.shape[0]):
                again[c] += weights[i] * inputs[i, c]
        softmax(again, again)
        step_class(weights, covariance, inputs, again, label, weight / n, scratch)


@kernel()
def trust(residual, variance):
    """How much a residual counts: 1 where it is of the usual size, 1.5 at 0, little where far off (Student's t)."""
    return (_DEGREES + 1.0) / (_DEGREES + residual * residual / variance)


@kernel()
def step_value(weights, covariance, h, residual, precision, ph):
    """The step for a numeric target that was missed by `residual`, whose noise has this precision."""
    reduce(covariance, h, precision, ph)
    add(weights, covariance, h, precision * residual)


@kernel()
def relax(covariance, forgetting, prior_variance):
    """P <- (1 - forgetting) P + forgetting P0 I."""
    n = covariance.shape[0]
    for i in range(n):
        for j in range(n):
            covariance[i, j] *= 1.0 - forgetting
        covariance[i, i] += forgetting * prior_variance
