"""Activations, layer normalisation and softmax, forward and backward, in place where that is natural.

A NaN must survive an activation: `x > 0` is false for NaN, so the test is always for what is to be changed.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.dense import FAST
from braided.kernels.native import kernel


@kernel()
def relu(x, slope):
    """x_i <- x_i if x_i > 0 else slope x_i; slope 0 is the ReLU, .01 the usual leaky one."""
    # Every entry is stored, changed or not: a loop without branches is a vector loop.
    zero = x.dtype.type(0)
    if slope == 0:
        for i in range(x.shape[0]):
            value = x[i]
            x[i] = zero if value <= 0 else value
    else:
        for i in range(x.shape[0]):
            value = x[i]
            x[i] = slope * value if value <= 0 else value


@kernel()
def relu_backward(output, slope, gradient):
    """gradient_i <- gradient_i * ReLU'(.), read off the sign of the activation's output."""
    zero = gradient.dtype.type(0)
    if slope == 0:
        for i in range(output.shape[0]):
            g = gradient[i]
            gradient[i] = zero if output[i] <= 0 else g
    else:
        for i in range(output.shape[0]):
            g = gradient[i]
            gradient[i] = slope * g if output[i] <= 0 else g


@kernel(fastmath=FAST)
def normalise(x, scale, shift, epsilon, hat, out):
    """Layer normalisation with the unbiased standard deviation s; returns s.

    hat = (x - mean(x)) / (s + epsilon), out = scale hat + shift.
    """
    n = x.shape[0]
    mean = x.dtype.type(0)
    for i in range(n):
        mean += x[i]
    mean /= n
    square = x.dtype.type(0)
    for i in range(n):
        square += (x[i] - mean) * (x[i] - mean)
    deviation = np.sqrt(square / (n - 1))
    inverse = x.dtype.type(1) / (deviation + epsilon)
    for i in range(n):
        hat[i] = (x[i] - mean) * inverse
        out[i] = scale[i] * hat[i] + shift[i]
    return deviation


@kernel(fastmath=FAST)
def normalise_backward(hat, deviation, scale, epsilon, gradient, x_gradient):
    """Add to x_gradient the gradient through `normalise`, given the gradient of its output.

    With t = deviation + epsilon and G = scale gradient:
    x_gradient_i += (G_i - mean(G)) / t - hat_i sum_k(G_k hat_k) / ((n - 1) deviation).
    """
    n = hat.shape[0]
    mean = hat.dtype.type(0)
    along = hat.dtype.type(0)
    for i in range(n):
        mean += gradient[i] * scale[i]
        along += gradient[i] * scale[i] * hat[i]
    mean /= n
    inverse = hat.dtype.type(1) / (deviation + epsilon)
    along = along / ((n - 1) * deviation) if deviation > 0 else hat.dtype.type(0)
    for i in range(n):
        x_gradient[i] += (gradient[i] * scale[i] - mean) * inverse - hat[i] * along


@kernel()
def softmax(scores, out):
    """out_k = exp(scores_k) / sum_j exp(scores_j), shifted by the largest score."""
    top = scores[0]
    for k in range(1, scores.shape[0]):
        if scores[k] > top:
            top = scores[k]
    total = out.dtype.type(0)
    for k in range(scores.shape[0]):
        out[k] = np.exp(out.dtype.type(scores[k]) - out.dtype.type(top))
        total += out[k]
    for k in range(scores.shape[0]):
        out[k] /= total


@kernel()
def sigmoid(a):
    """1 / (1 + exp(-a)), without overflow at either end."""
    if a >= 0:
        return 1.0 / (1.0 + np.exp(-a))
    e = np.exp(a)
    return e / (1.0 + e)


@kernel(fastmath=FAST)
def all_finite(x):
    """Whether no entry is NaN or infinite, nor so large that their sum is: one vectorised pass, not a test each."""
    total = x.dtype.type(0)
    for i in range(x.shape[0]):
        total += abs(x[i])
    return np.isfinite(total)
