"""The score sum: the paper's way to join learners."""

from __future__ import annotations

from braided.combiners.base import Combiner
from braided.kernels.activations import softmax
from braided.kernels.calls import COMBINE, GRADIENTS, entry


@entry(COMBINE)
def _combine(shape, hyper, single, double, x, active, scores, usable, work, prediction):
    regression = shape[0] == 1
    for k in range(scores.shape[1]):
        prediction[k] = 0.0
        for i in range(scores.shape[0]):
            prediction[k] += scores[i, k]
    if not regression:
        softmax(prediction, prediction)


@entry(GRADIENTS)
def _gradients(shape, hyper, single, double, x, active, scores, usable, y, weight, prediction, work, gradients):
    regression = shape[0] == 1
    for k in range(scores.shape[1]):
        wanted = y if regression else (1.0 if k == int(y) else 0.0)
        for i in range(scores.shape[0]):
            gradients[i, k] = prediction[k] - wanted


class ScoreSum(Combiner):
    """p = softmax(sum_i f_i), with dL/df_i = p - onehot(y) for every learner i (L is the cross-entropy).

    For regression the prediction is the sum itself and the gradient prediction - y (L is half the squared error).

    Examples
    --------
    >>> import numpy as np
    >>> nothing = np.zeros(0, dtype=np.float32)
    >>> scores = np.array([[0.0, 1.0], [0.0, -0.5]], dtype=np.float32)
    >>> combiner = ScoreSum(regression=False)
    >>> p = combiner.combine(nothing, nothing.astype(bool), scores)
    >>> p.round(3)
    array([0.378, 0.622])
    >>> combiner.gradients(nothing, nothing.astype(bool), scores, 1, p).round(3)
    array([[ 0.378, -0.378],
           [ 0.378, -0.378]], dtype=float32)
    """

    name = "score-sum"
    for_regression = True
    combine_kernel = _combine
    gradients_kernel = _gradients
