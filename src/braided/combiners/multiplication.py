"""Multiplication: the product of the learners' distributions."""

from __future__ import annotations

from braided.combiners.base import Combiner
from braided.kernels.activations import softmax
from braided.kernels.calls import COMBINE, GRADIENTS, entry
from braided.kernels.mixture import log_softmax_into


@entry(COMBINE)
def _combine(shape, hyper, single, double, x, active, scores, usable, work, prediction):
    prediction[:] = 0.0
    for i in range(scores.shape[0]):
        log_softmax_into(scores[i], prediction)
    softmax(prediction, prediction)


@entry(GRADIENTS)
def _gradients(shape, hyper, single, double, x, active, scores, usable, y, weight, prediction, work, gradients):
    for k in range(scores.shape[1]):
        for i in range(scores.shape[0]):
            gradients[i, k] = prediction[k] - (1.0 if k == int(y) else 0.0)


class Multiplication(Combiner):
    """p = softmax(sum_i log softmax(f_i)), trained jointly: dL/df_i = p - onehot(y).

    The normalising constants of the log softmaxes are the same for all classes and cancel, so in exact arithmetic this
    *is* the score sum, for any learners. It is kept under its own name because the paper reports it as a combiner
    of its own; what differs in its table is dropout and rounding.

    Examples
    --------
    >>> import numpy as np
    >>> nothing = np.zeros(0, dtype=np.float32)
    >>> scores = np.array([[0.0, 1.0], [0.0, -0.5]], dtype=np.float32)
    >>> Multiplication(regression=False).combine(nothing, nothing.astype(bool), scores).round(3)
    array([0.378, 0.622])
    """

    name = "multiplication"
    combine_kernel = _combine
    gradients_kernel = _gradients
