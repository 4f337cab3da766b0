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

from braided.kernels.native import kernel

# No nnan or ninf: non-finite values must stay visible to the checks that skip a learner's update.
FAST = {"reassoc", "contract", "nsz", "arcp"}


@kernel()
def copy(values, out):
    """out_i = values_i, from the first on: an assignment of slices would have to allow for an overlap."""
    for i in range(out.shape[0]):
        out[i] = values[i]


@kernel()
def nonzero(x, index):
    """List the places where x is not zero; returns how many. Branch-free: ReLU patterns are unpredictable."""
    n = 0
    for j in range(x.shape[0]):
        index[n] = j
        n += x[j] != 0
    return n


@kernel(fastmath=FAST)
def forward(weights, bias, x, index, out):
    """out_i = bias_i + sum_j weights[j, i] x_j."""
    for i in range(weights.shape[1]):
        out[i] = bias[i]
    accumulate(weights, x, index, out)


@kernel(fastmath=FAST)
def accumulate(weights, x, index, out):
    """out_i += sum_j weights[j, i] x_j."""
    accumulate_listed(weights, x, index, nonzero(x, index), out)


@kernel(fastmath=FAST)
def accumulate_listed(weights, x, index, n, out):
    """The same where the places of the n inputs that are not zero are known.

    Eight inputs at a time, so that `out` is touched an eighth as often.
    """
    n_out = weights.shape[1]
    whole = n - n % 8
    for k in range(0, whole, 8):
        j0, j1, j2, j3 = index[k], index[k + 1], index[k + 2], index[k + 3]
        j4, j5, j6, j7 = index[k + 4], index[k + 5], index[k + 6], index[k + 7]
        x0, x1, x2, x3 = x[j0], x[j1], x[j2], x[j3]
        x4, x5, x6, x7 = x[j4], x[j5], x[j6], x[j7]
        for i in range(n_out):
            out[i] += (
                x0 * weights[j0, i] + x1 * weights[j1, i] + x2 * weights[j2, i] + x3 * weights[j3, i]
                + x4 * weights[j4, i] + x5 * weights[j5, i] + x6 * weights[j6, i] + x7 * weights[j7, i]
            )  # fmt: skip
    for k in range(whole, n):
        j0 = index[k]
        x0 = x[j0]
        for i in range(n_out):
            out[i] += x0 * weights[j0, i]


@kernel(fastmath=FAST)
def add_row(row, x, out):
    """out_i += x row_i."""
    for i in range(row.shape[0]):
        out[i] += x * row[i]


@kernel(fastmath=FAST)
def dot(a, b):
    """The inner product."""
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@kernel(fastmath=FAST)
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


@kernel(fastmath=FAST)
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


@kernel(fastmath=FAST)
def backward(weights, second, x, gradient, index, x_gradient, rectified, step_size):
    """x_gradient_j += sum_i weights[j, i] gradient_i, and the step of every weight.

    `rectified` says that x left a ReLU: where x_j = 0 nothing below depends on x_gradient_j, which is left as it is.
    Otherwise every x_gradient_j is needed, also where x_j = 0.
    """
    rate, decay, share, epsilon = step_size
    n_in, n_out = weights.shape
    n = nonzero(x, index) if rectified else n_in
    # Indexing the matrix in one loop nest, rather than calling a function on each row, saves 30 ns per row. Plain steps
    # take two rows at a time, which reads the gradient half as often.
    paired = n - n % 2 if share == 0 else 0
    for k in range(0, paired, 2):
        j0, j1 = (index[k], index[k + 1]) if rectified else (k, k + 1)
        total0, total1 = weights.dtype.type(0), weights.dtype.type(0)
        scale0, scale1 = rate * x[j0], rate * x[j1]
        for i in range(n_out):
            g = gradient[i]
            w0, w1 = weights[j0, i], weights[j1, i]
            total0 += w0 * g
            total1 += w1 * g
            weights[j0, i] = w0 - scale0 * g
            weights[j1, i] = w1 - scale1 * g
        x_gradient[j0] += total0
        x_gradient[j1] += total1
    for k in range(paired, n):
        j = index[k] if rectified else k
        total = weights.dtype.type(0)
        if share == 0:
            scale = rate * x[j]
            for i in range(n_out):
                g = gradient[i]
                w = weights[j, i]
                total += w * g
                weights[j, i] = w - scale * g
        else:
            x_j = x[j]
            for i in range(n_out):
                w = weights[j, i]
                total += w * gradient[i]
                g = x_j * gradient[i]
                v = decay * second[j, i] + share * g * g
                second[j, i] = v
                weights[j, i] = w - rate * g / (np.sqrt(v) + epsilon)
        x_gradient[j] += total


@kernel(fastmath=FAST)
def forward_head(weights, row_length, bias, x, out):
    """out_k = bias_k + sum_j weights[k, j] x_j; rows lie `row_length` apart in the flat weights; no bias means 0."""
    for k in range(out.shape[0]):
        start = k * row_length
        out[k] = dot(weights[start : start + x.shape[0]], x)
        if bias.shape[0] > 0:
            out[k] += bias[k]


@kernel(fastmath=FAST)
def backward_head(weights, second, row_length, x, gradient, x_gradient, step_size):
    """x_gradient_j += sum_k weights[k, j] gradient_k, and the step of every weight."""
    for k in range(gradient.shape[0]):
        row = slice(k * row_length, k * row_length + x.shape[0])
        add_row(weights[row], gradient[k], x_gradient)
        step_row(weights[row], second[row], gradient[k], x, step_size)
