"""Ensemble: the mean of the learners' distributions, each learner on its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from braided.combiners.base import Combiner, distributions
from braided.kernels.calls import COMBINE, GRADIENTS, entry
from braided.kernels.mixture import add_softmax, normalise, own_loss_gradient


@entry(COMBINE)
def _combine(shape, hyper, single, double, x, active, scores, usable, work, prediction):
    prediction[:] = 0.0
    for i in range(scores.shape[0]):
        if usable[i]:
            add_softmax(scores[i], 1.0, prediction)
    normalise(prediction)


@entry(GRADIENTS)
def _gradients(shape, hyper, single, double, x, active, scores, usable, y, weight, prediction, work, gradients):
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
    combine_kernel = _combine
    gradients_kernel = _gradients

    def terms(
        self, x: NDArray[np.float32], mask: NDArray[np.bool_], scores: NDArray[np.float32], usable: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Every usable learner's distribution, with equal weights."""
        return distributions(scores, usable.astype(np.float64))
