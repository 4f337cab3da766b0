"""Softmaxes of learners' scores, added up: the parts of combiners that mix distributions."""

from __future__ import annotations

import numpy as np

from braided.kernels.native import kernel


@kernel()
def log_normaliser(scores):
    """log sum_k exp(scores_k), in float64."""
    top = np.float64(scores[0])
    for k in range(1, scores.shape[0]):
        top = max(top, np.float64(scores[k]))
    total = 0.0
    for k in range(scores.shape[0]):
        total += np.exp(np.float64(scores[k]) - top)
    return top + np.log(total)


@kernel()
def add_softmax(scores, weight, out):
    """out_k += weight softmax(scores)_k."""
    constant = log_normaliser(scores)
    for k in range(scores.shape[0]):
        out[k] += weight * np.exp(np.float64(scores[k]) - constant)


@kernel()
def log_softmax_into(scores, out):
    """out_k += log softmax(scores)_k."""
    constant = log_normaliser(scores)
    for k in range(scores.shape[0]):
        out[k] += np.float64(scores[k]) - constant


@kernel()
def own_loss_gradient(scores, y, weight, gradient):
    """gradient = weight (softmax(scores) - onehot(y))."""
    constant = log_normaliser(scores)
    for k in range(scores.shape[0]):
        gradient[k] = weight * (np.exp(np.float64(scores[k]) - constant) - (1.0 if k == y else 0.0))


@kernel()
def normalise(weights):
    """Divide by the sum; where nothing was added up, all are equal."""
    total = weights.sum()
    if total > 0:
        for k in range(weights.shape[0]):
            weights[k] /= total
    else:
        weights[:] = 1.0 / weights.shape[0]


@kernel()
def best(scores):
    """The place of the largest score, the first of equals."""
    top = 0
    for k in range(1, scores.shape[0]):
        if scores[k] > scores[top]:
            top = k
    return top
