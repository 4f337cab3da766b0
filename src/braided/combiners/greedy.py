"""Greedy weighing: distributions weighted by recent accuracy, each learner on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.combiners.base import Arrays, Combiner, distributions
from braided.kernels.calls import COMBINE, GRADIENTS, entry
from braided.kernels.mixture import add_softmax, best, normalise, own_loss_gradient
from braided.store import Array, counts

WINDOW = 100
#: Place in `shape`, after the one of every combiner: K.
_WINDOW = 1
# `single`: the place in the window, then a row of hits for each learner.
_PLACE, _HITS = 0, 1


@entry(COMBINE)
def _combine(shape, hyper, single, double, x, active, scores, usable, work, prediction):
    n_learners, window = scores.shape[0], shape[_WINDOW]
    prediction[:] = 0.0
    for i in range(n_learners):
        if usable[i]:
            row = single[_HITS + i * window : _HITS + (i + 1) * window]
            add_softmax(scores[i], np.exp(row.sum() / window), prediction)
    normalise(prediction)


@entry(GRADIENTS)
def _gradients(shape, hyper, single, double, x, active, scores, usable, y, weight, prediction, work, gradients):
    window = shape[_WINDOW]
    place = min(max(int(single[_PLACE]), 0), window - 1)
    for i in range(scores.shape[0]):
        own_loss_gradient(scores[i], int(y), 1.0, gradients[i])
        single[_HITS + i * window + place] = 1.0 if usable[i] and best(scores[i]) == int(y) else 0.0
    single[_PLACE] = (place + 1) % window


class Greedy(Combiner):
    """p = sum_i softmax(lambda)_i softmax(f_i), with lambda_i learner i's accuracy over the last K = 100 records.

    lambda_i = 1/K sum_{j = t-K .. t-1} [f_i was right on record j]: the current label has no part in the weights it is
    predicted with, and a record counts once whatever its weight. A learner whose scores are not finite is left out of
    the sum, and counts as wrong. Every learner follows its own loss, dL_i/df_i = softmax(f_i) - onehot(y).

    Examples
    --------
    >>> import numpy as np
    >>> nothing = np.zeros(0, dtype=np.float32)
    >>> scores = np.array([[0.0, 1.0], [0.0, -0.5]], dtype=np.float32)
    >>> combiner = Greedy(regression=False)
    >>> combiner.grow(0, 2, 2)
    >>> combiner.combine(nothing, nothing.astype(bool), scores).round(3)
    array([0.446, 0.554])
    """

    name = "greedy"
    combine_kernel = _combine
    gradients_kernel = _gradients

    def __init__(self, regression: bool, seed: int = 0) -> None:
        super().__init__(regression, seed)
        self.shape = np.array([int(regression), WINDOW], dtype=np.int64)

    def grow(self, n_features: int, n_outputs: int, n_learners: int) -> None:
        """One window per learner, made once."""
        if self.single.size != _HITS + n_learners * WINDOW:
            self.single = np.zeros(_HITS + n_learners * WINDOW, dtype=np.float32)

    def terms(
        self, x: NDArray[np.float32], mask: NDArray[np.bool_], scores: NDArray[np.float32], usable: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Every usable learner's distribution, weighted by the exponential of its recent accuracy."""
        accuracy = self.single[_HITS:].reshape(-1, WINDOW).mean(axis=1, dtype=np.float64)
        return distributions(scores, np.where(usable, np.exp(accuracy), 0.0))

    def state(self) -> Arrays:
        """Position in the window, and the hits of every learner."""
        return {"window": self.single.copy()}

    def schema(self) -> dict[str, Array]:
        """A place in the window, and hits."""
        return {"window": counts(self.single.size, dtype="float32", high=[WINDOW - 1] + [1] * (self.single.size - 1))}

    def take_over(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """The windows."""
        self.single[:] = arrays["window"]
