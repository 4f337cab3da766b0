"""Kalman weighing: one weight per learner, learned in closed form; each learner on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.combiners.base import Arrays, Combiner
from braided.kernels.activations import softmax
from braided.kernels.calls import COMBINE, GRADIENTS, entry
from braided.kernels.compile import kernel
from braided.kernels.mixture import own_loss_gradient

PRIOR_VARIANCE = 0.03
FORGETTING = 1e-4
#: Scores are kept within this of their mean: a learner cannot be surer than that.
LARGEST = 10.0
#: The noise of a numeric target is averaged over at most this many records.
_NOISE_MEMORY = 1_000.0

# `shape`: regression, learners. `double`: the weights, their covariance, noise variance and its count; then scratch:
# the centred scores, and a vector.


@kernel()
def _centre(shape, scores, usable, centred):
    """Centred scores within their bound; a learner that cannot be used has zeros."""
    regression, n_outputs = shape[0] == 1, scores.shape[1]
    for i in range(scores.shape[0]):
        mean = 0.0
        if not regression:
            for k in range(n_outputs):
                mean += scores[i, k]
            mean /= n_outputs
        for k in range(n_outputs):
            value = np.float64(scores[i, k]) - mean if usable[i] else 0.0
            centred[i, k] = min(max(value, -LARGEST), LARGEST)


@kernel()
def _shrink(covariance, h, weight, ph):
    """P <- (P^-1 + weight h h^T)^-1, by the formula of Sherman and Morrison."""
    n = h.shape[0]
    q = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += covariance[i, j] * h[j]
        ph[i] = total
    for i in range(n):
        q += h[i] * ph[i]
    root = np.sqrt(weight / (1.0 + weight * q))
    for i in range(n):
        ph[i] *= root
    for i in range(n):
        for j in range(n):
            covariance[i, j] -= ph[i] * ph[j]


@entry(COMBINE)
def _combine(shape, hyper, single, double, x, active, scores, usable, work, prediction):
    n = shape[1]
    at = n + n * n + 2
    centred = double[at : at + scores.size].reshape(scores.shape)
    _centre(shape, scores, usable, centred)
    for k in range(scores.shape[1]):
        prediction[k] = 0.0
        for i in range(n):
            prediction[k] += double[i] * centred[i, k]
    if shape[0] == 0:
        softmax(prediction, prediction)


@entry(GRADIENTS)
def _gradients(shape, hyper, single, double, x, active, scores, usable, y, prediction, work, gradients):
    regression, n, n_outputs = shape[0] == 1, shape[1], scores.shape[1]
    prior_variance, forgetting = hyper[0], hyper[1]
    at = n + n * n + 2
    weights, covariance = double[:n], double[n : n + n * n].reshape(n, n)
    centred = double[at : at + scores.size].reshape(scores.shape)
    h, ph = double[at + scores.size : at + scores.size + n], double[at + scores.size + n : at + scores.size + 2 * n]
    if regression:
        residual = y - prediction[0]
        count = min(double[at - 1] + 1.0, _NOISE_MEMORY)
        double[at - 2] += (min(residual * residual, LARGEST * LARGEST) - double[at - 2]) / (count + 1.0)
        double[at - 1] = count
        precision = 1.0 / max(double[at - 2], 1e-6)
        for i in range(n):
            h[i] = centred[i, 0]
            gradients[i, 0] = scores[i, 0] - y
        _shrink(covariance, h, precision, ph)
        amount = precision * residual
    else:
        label = int(y)
        for i in range(n):
            own_loss_gradient(scores[i], label, 1.0, gradients[i])
        for k in range(n_outputs):
            if prediction[k] > 1e-12:
                for i in range(n):
                    mean = 0.0
                    for c in range(n_outputs):
                        mean += prediction[c] * centred[i, c]
                    h[i] = centred[i, k] - mean
                _shrink(covariance, h, prediction[k], ph)
        for i in range(n):
            mean = 0.0
            for c in range(n_outputs):
                mean += prediction[c] * centred[i, c]
            h[i] = centred[i, label] - mean
        amount = 1.0
    for i in range(n):
        for j in range(n):
            weights[i] += amount * covariance[i, j] * h[j]
    for i in range(n):
        for j in range(n):
            covariance[i, j] *= 1.0 - forgetting
        covariance[i, i] += forgetting * prior_variance


class KalmanWeights(Combiner):
    """p = softmax(sum_i w_i f_i), with weights of the extended Kalman recursion; the sum itself for regression.

    f_i are learner i's scores less their mean over the classes, within +-10. From w = 1/N and P = P0 I, with
    h_k = (f_ik - sum_c p_c f_ic)_i:

        P <- (P^-1 + sum_k p_k h_k h_k^T)^-1,   w <- w + P h_y,   P <- (1 - phi) P + phi P0 I

    which is the Newton step of the cross-entropy for the weights: with few weights it needs no learning rate. phi lets
    the weights follow a stream that changes. For regression, with residual r and its running mean square s^2,
    P <- (P^-1 + f f^T / s^2)^-1 and w <- w + P f r / s^2.

    Every learner follows its own loss, dL_i/df_i = softmax(f_i) - onehot(y) (or f_i - y): what it learns does not
    depend on the others, and its own error is what it would have alone.

    Examples
    --------
    >>> import numpy as np
    >>> nothing = np.zeros(0, dtype=np.float32)
    >>> scores = np.array([[0.0, 1.0], [0.0, -0.5]], dtype=np.float32)
    >>> combiner = KalmanWeights(regression=False)
    >>> combiner.grow(0, 2, 2)
    >>> combiner.combine(nothing, nothing.astype(bool), scores).round(3)
    array([0.438, 0.562])
    >>> for _ in range(100):  # the first learner is right, and the second wrong
    ...     p = combiner.combine(nothing, nothing.astype(bool), scores)
    ...     _ = combiner.gradients(nothing, nothing.astype(bool), scores, 1, p)
    >>> combiner.weights.round(2)
    array([1.21, 0.15])
    """

    name = "kalman"
    for_regression = True
    combine_kernel = _combine
    gradients_kernel = _gradients

    def __init__(self, regression: bool, seed: int = 0) -> None:
        super().__init__(regression, seed)
        self.hyper = np.array([PRIOR_VARIANCE, FORGETTING])
        self._n = 0

    def grow(self, n_features: int, n_outputs: int, n_learners: int) -> None:
        """Weights and covariance, made once; scratch for the scores."""
        n = n_learners
        kept = n + n * n + 2
        fresh = np.zeros(kept + n * n_outputs + 2 * n)
        if self._n == n:
            fresh[:kept] = self.double[:kept]
        else:
            fresh[:n] = 1.0 / n
            fresh[n : n + n * n] = (np.eye(n) * PRIOR_VARIANCE).ravel()
            fresh[kept - 2] = 1.0
        self.double, self._n = fresh, n
        self.shape = np.array([int(self.regression), n], dtype=np.int64)

    def raise_plasticity(self, factor: float, fresh: bool) -> None:
        """Where a drift was found just now, P <- P0 I; the weights stay."""
        if fresh:
            self.double[self._n : self._n + self._n**2] = (np.eye(self._n) * PRIOR_VARIANCE).ravel()

    @property
    def weights(self) -> NDArray[np.float64]:
        """One weight per learner."""
        return self.double[: self._n].copy()

    def terms(
        self, x: NDArray[np.float32], mask: NDArray[np.bool_], scores: NDArray[np.float32], usable: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """w_i f_i, with f_i centred and bounded as in the prediction."""
        centred = np.zeros(scores.shape)
        _centre(self.shape, scores, usable, centred)
        return np.asarray(self.weights[:, None] * centred)

    def state(self) -> Arrays:
        """Weights, their covariance, and the noise."""
        return {"weights": self.double[: self._n + self._n**2 + 2].copy()}

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over weights and covariance."""
        self.double[: self._n + self._n**2 + 2] = arrays["weights"]
