"""Dense layers for a batch of one: the forward pass, and the backward pass fused with the update.

Hidden layers keep their weights by input, `weights[j, i]` from input j to output i. An input that is exactly zero
(a missing feature, an inactive ReLU) then costs nothing: its row is not read forward, and backward neither read nor
written, since its gradient is multiplied by ReLU'(0) = 0 below anyway. About half of all weight traffic goes away.
Output layers keep theirs by output, `weights[k, j]`, so that a new class is a new row.

Each weight is read once forward, and read and written once backward: the update is applied with the old weight
still in the register that served the gradient.

Steps, with g the gradient of one weight and `step_size` = (rate, decay, share, epsilon): for share = 0 plain,
w -= rate g, and `second` is never touched; else adaptive, v = decay v + share g^2, w -= rate g / (sqrt(v) + epsilon),
which is RMSprop with share = 1 - decay and AdaGrad with decay = share = 1. A weight whose input is zero keeps its v.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# No nnan or ninf: non-finite values must stay visible to the checks that skip a learner's update.
FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, fastmath=FAST)
def forward(weights, bias, x, out):
    """out_i = bias_i + sum_j weights[j, i] x_j."""
    n_in, n_out = weights.shape
    for i in range(n_out):
        out[i] = bias[i]
    accumulate(weights, x, out)


@njit(cache=True, fastmath=FAST)
def accumulate(weights, x, out):
    """out_i += sum_j weights[j, i] x_j; four inputs at a time, so that `out` is read and written a quarter as often."""
    n_in, n_out = weights.shape
    waiting = np.empty(4, np.int64)
    n_waiting = 0
    for j in range(n_in):
        if x[j] == 0:
            continue
        waiting[n_waiting] = j
        n_waiting += 1
        if n_waiting == 4:
            n_waiting = 0
            row0, row1 = weights[waiting[0]], weights[waiting[1]]
            row2, row3 = weights[waiting[2]], weights[waiting[3]]
            x0, x1, x2, x3 = x[waiting[0]], x[waiting[1]], x[waiting[2]], x[waiting[3]]
            for i in range(n_out):
                out[i] += x0 * row0[i] + x1 * row1[i] + x2 * row2[i] + x3 * row3[i]
    for k in range(n_waiting):
        add_row(weights[waiting[k]], x[waiting[k]], out)


@njit(cache=True, fastmath=FAST)
def add_row(row, x, out):
    """out_i += x row_i."""
    for i in range(row.shape[0]):
        out[i] += x * row[i]


@njit(cache=True, fastmath=FAST)
def dot(a, b):
    """The inner product."""
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(cache=True, fastmath=FAST)
def step(weights, second, gradient, step_size):
    """Move a vector of weights by its gradient."""
    rate, decay, share, epsilon = step_size
    if share == 0:
        for i in range(weights.shape[0]):
            weights[i] -= rate * gradient[i]
    else:
        for i in range(weights.shape[0]):
            g = gradient[i]
            v = decay * second[i] + share * g * g
            second[i] = v
            weights[i] -= rate * g / (np.sqrt(v) + epsilon)


@njit(cache=True, fastmath=FAST)
def step_row(row, second, x, gradient, step_size):
    """Move the weights of one input x: the gradient of weight i is x gradient_i."""
    rate, decay, share, epsilon = step_size
    if share == 0:
        scale = rate * x
        for i in range(row.shape[0]):
            row[i] -= scale * gradient[i]
    else:
        for i in range(row.shape[0]):
            g = x * gradient[i]
            v = decay * second[i] + share * g * g
            second[i] = v
            row[i] -= rate * g / (np.sqrt(v) + epsilon)


@njit(cache=True, fastmath=FAST)
def step_row_and_dot(row, second, x, gradient, step_size):
    """`step_row`, returning the inner product of the old weights with the gradient."""
    rate, decay, share, epsilon = step_size
    total = row.dtype.type(0)
    if share == 0:
        scale = rate * x
        for i in range(row.shape[0]):
            g = gradient[i]
            w = row[i]
            total += w * g
            row[i] = w - scale * g
    else:
        for i in range(row.shape[0]):
            w = row[i]
            total += w * gradient[i]
            g = x * gradient[i]
            v = decay * second[i] + share * g * g
            second[i] = v
            row[i] = w - rate * g / (np.sqrt(v) + epsilon)
    return total


@njit(cache=True, fastmath=FAST)
def backward(weights, second, x, gradient, x_gradient, rectified, step_size):
    """x_gradient_j += sum_i weights[j, i] gradient_i, and the step of every weight.

    `rectified` says that x left a ReLU: where x_j = 0 nothing below depends on x_gradient_j, which is left as it is.
    Otherwise every x_gradient_j is needed, also where x_j = 0.
    """
    for j in range(weights.shape[0]):
        if x[j] != 0:
            x_gradient[j] += step_row_and_dot(weights[j], second[j], x[j], gradient, step_size)
        elif not rectified:
            x_gradient[j] += dot(weights[j], gradient)


@njit(cache=True, fastmath=FAST)
def forward_head(weights, row_length, bias, x, out):
    """out_k = bias_k + sum_j weights[k, j] x_j, with the weights flat and `row_length` apart; an empty bias counts as 0."""
    for k in range(out.shape[0]):
        start = k * row_length
        out[k] = dot(weights[start : start + x.shape[0]], x)
        if bias.shape[0] > 0:
            out[k] += bias[k]


@njit(cache=True, fastmath=FAST)
def backward_head(weights, second, row_length, x, gradient, x_gradient, step_size):
    """x_gradient_j += sum_k weights[k, j] gradient_k, and the step of every weight."""
    for k in range(gradient.shape[0]):
        row = slice(k * row_length, k * row_length + x.shape[0])
        add_row(weights[row], gradient[k], x_gradient)
        step_row(weights[row], second[row], gradient[k], x, step_size)
