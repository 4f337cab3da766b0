"""The paper's combiners without weights: the score sum, and what it is compared with, multiplication and ensemble."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from braided.combiners.base import REGRESSION, Combiner, distributions
from braided.kernels.activations import softmax
from braided.kernels.calls import COMBINE, GRADIENTS, entry
from braided.kernels.mixture import add_softmax, log_softmax_into, normalise, own_loss_gradient


@entry(COMBINE)
def _sum(shape, hyper, single, double, x, active, scores, usable, work, prediction):
    for k in range(scores.shape[1]):
        prediction[k] = 0.0
        for i in range(scores.shape[0]):
            prediction[k] += scores[i, k]
    if not shape[REGRESSION]:
        softmax(prediction, prediction)


@entry(GRADIENTS)
def _sum_gradients(shape, hyper, single, double, x, active, scores, usable, y, weight, prediction, work, gradients):
    for k in range(scores.shape[1]):
        wanted = y if shape[REGRESSION] else (1.0 if k == int(y) else 0.0)
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
    combine_kernel = _sum
    gradients_kernel = _sum_gradients


@entry(COMBINE)
def _product(shape, hyper, single, double, x, active, scores, usable, work, prediction):
    prediction[:] = 0.0
    for i in range(scores.shape[0]):
        log_softmax_into(scores[i], prediction)
    softmax(prediction, prediction)


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
    combine_kernel = _product
    gradients_kernel = _sum_gradients


@entry(COMBINE)
def _mean(shape, hyper, single, double, x, active, scores, usable, work, prediction):
    prediction[:] = 0.0
    for i in range(scores.shape[0]):
        if usable[i]:
            add_softmax(scores[i], 1.0, prediction)
    normalise(prediction)


@entry(GRADIENTS)
def _own_gradients(shape, hyper, single, double, x, active, scores, usable, y, weight, prediction, work, gradients):
    for i in range(scores.shape[0]):
        own_loss_gradient(scores[i], int(y), 1.0, gradients[i])


class Ensemble(Combiner):
    """p = 1/N sum_i softmax(f_i); every learner follows its own loss, dL_i/df_i = softmax(f_i) - onehot(y).

    (Deep ensembles, as the paper compares with them.)

    Examples
    --------
    >>> import numpy as np
    >>> nothing = np.zeros(0, dtype=np.float32)
    >>> scores = np.array([[0.0, 1.0], [0.0, -0.5]], dtype=np.float32)
    >>> Ensemble(regression=False).combine(nothing, nothing.astype(bool), scores).round(3)
    array([0.446, 0.554])
    """

    name = "ensemble"
    combine_kernel = _mean
    gradients_kernel = _own_gradients

    def terms(
        self, x: NDArray[np.float32], mask: NDArray[np.bool_], scores: NDArray[np.float32], usable: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Every usable learner's distribution, with equal weights."""
        return distributions(scores, usable.astype(np.float64))
