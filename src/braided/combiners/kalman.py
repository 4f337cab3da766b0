"""Kalman weighing: one weight per learner, learned in closed form; each learner on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from braided.combiners.base import REGRESSION, Arrays, Combiner
from braided.kernels import newton
from braided.kernels.activations import softmax
from braided.kernels.calls import COMBINE, GRADIENTS, entry
from braided.kernels.mixture import own_loss_gradient
from braided.kernels.native import DoubleRows, Flags, Ints, SingleRows, kernel
from braided.store import Array, variances

PRIOR_VARIANCE = 0.03
FORGETTING = 1e-4
#: Scores are kept within this of their mean: a learner cannot be surer than that.
LARGEST = 10
#: And where they are distances from the last target, in usual changes, within this: targets do jump.
_LARGEST_CHANGES = 100
#: A variance may be as far below 0 by rounding.
_ROUNDING = 1e-6
#: The noise of a numeric target is averaged over at most this many records.
_NOISE_MEMORY = 1_000.0

# Places in `shape`, after the one of every combiner: learners, inputs (as many, or twice as many), their bound.
_LEARNERS, _INPUTS, _BOUND = range(1, 4)
# In `hyper`: P0, phi, and whether a numeric target that is far off counts for less.
_PRIOR, _FORGETTING, _ROBUST = range(3)
# `double`: the weights, their covariance, then these two, noise variance and its count; then scratch: the inputs, three
# vectors, and the probabilities between two steps of one record.
_NOISE, _NOISE_COUNT, _KEPT = range(3)


@entry
def _list_inputs(shape: Ints, scores: SingleRows, usable: Flags, inputs: DoubleRows) -> None:
    """Centred scores within their bound, zeros where a learner cannot be used; then if wanted tanh of twice these."""
    regression, n, n_outputs = shape[REGRESSION] == 1, scores.shape[0], scores.shape[1]
    for i in range(n):
        mean = 0.0
        if not regression:
            for k in range(n_outputs):
                mean += scores[i, k]
            mean /= n_outputs
        for k in range(n_outputs):
            value = np.float64(scores[i, k]) - mean if usable[i] else 0.0
            inputs[i, k] = min(max(value, -shape[_BOUND]), shape[_BOUND])
            if inputs.shape[0] > n:
                inputs[n + i, k] = np.tanh(2.0 * inputs[i, k])


@kernel()
def weigh(shape, double, scores, usable, prediction):
    """The prediction."""
    n, n_outputs = shape[_INPUTS], scores.shape[1]
    at = n + n * n + _KEPT
    inputs = double[at : at + n * n_outputs].reshape(n, n_outputs)
    _list_inputs(shape, scores, usable, inputs)
    for k in range(n_outputs):
        prediction[k] = 0.0
        for i in range(n):
            prediction[k] += double[i] * inputs[i, k]
    if shape[REGRESSION] == 0:
        softmax(prediction, prediction)


@kernel()
def learn_weights(shape, hyper, double, y, weight, prediction):
    """One step for the weights, from what `weigh` predicted."""
    n = shape[_INPUTS]
    n_outputs = prediction.shape[0]
    at = n + n * n + _KEPT
    weights, covariance, noise = double[:n], double[n : n + n * n].reshape(n, n), double[n + n * n : at]
    inputs = double[at : at + n * n_outputs].reshape(n, n_outputs)
    end = at + n * n_outputs + newton.SCRATCH * n
    scratch, again = double[at + n * n_outputs : end].reshape(newton.SCRATCH, n), double[end : end + n_outputs]
    if shape[REGRESSION] == 1:
        residual = y - prediction[0]
        count = min(noise[_NOISE_COUNT] + 1.0, _NOISE_MEMORY)
        share = newton.trust(residual, max(noise[_NOISE], 1e-9)) if hyper[_ROBUST] > 0 else 1.0
        squared = share * min(residual * residual, shape[_BOUND] * shape[_BOUND])
        noise[_NOISE] += (squared - noise[_NOISE]) / (count + 1.0)
        noise[_NOISE_COUNT] = count
        precision = weight * share / max(noise[_NOISE], 1e-6)
        newton.step_value(weights, covariance, inputs[:, 0], residual, precision, scratch[newton.PH])
    else:
        newton.learn_class(weights, covariance, inputs, prediction, int(y), weight, scratch, again)
    newton.relax(covariance, hyper[_FORGETTING], hyper[_PRIOR])


@entry(COMBINE)
def _combine(shape, hyper, single, double, x, active, scores, usable, work, prediction):
    weigh(shape, double, scores, usable, prediction)


@entry(GRADIENTS)
def _gradients(shape, hyper, single, double, x, active, scores, usable, y, weight, prediction, work, gradients):
    learn_weights(shape, hyper, double, y, weight, prediction)
    for i in range(shape[_LEARNERS]):
        if shape[REGRESSION] == 1:
            gradients[i, 0] = scores[i, 0] - y
        else:
            own_loss_gradient(scores[i], int(y), 1.0, gradients[i])


class KalmanWeights(Combiner):
    """p = softmax(sum_i w_i f_i), with weights of the extended Kalman recursion; the sum itself for regression.

    f_i are learner i's scores less their mean over the classes, within +-10. From w = 1/N and P = P0 I, with
    h_k = (f_ik - sum_c p_c f_ic)_i:

        P <- (P^-1 + sum_k p_k h_k h_k^T)^-1,   w <- w + P h_y,   P <- (1 - phi) P + phi P0 I

    which is the Newton step of the cross-entropy for the weights: with few weights it needs no learning rate. phi lets
    the weights follow a stream that changes. A preset may give other first weights. For regression, with residual r and
    its running mean square s^2, P <- (P^-1 + f f^T / s^2)^-1 and w <- w + P f r / s^2.

    A record of weight c takes n = min(ceil(c), 8) such steps, each with c / n times p_k in P and times P h_y, p found
    anew before each; P relaxes once. Beyond a whole record, P h_y is multiplied by 4 / h_y P h_y at most, or by 1. For
    regression it is one step with the noise s^2 / c; s^2 counts records, whatever their weight.

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
    #: Whether a numeric target that is far off counts for less.
    robust: ClassVar[bool] = False
    combine_kernel = _combine
    gradients_kernel = _gradients

    def __init__(self, regression: bool, seed: int = 0) -> None:
        super().__init__(regression, seed)
        self.hyper = np.array([PRIOR_VARIANCE, FORGETTING, float(self.robust)])
        #: The learners' weights before any record; 1/N each if there are none, or not as many as learners.
        self.first_weights: Sequence[float] | None = None
        self._n = 0

    def n_inputs(self, n_learners: int) -> int:
        """How many weights there are."""
        return n_learners

    def grow(self, n_features: int, n_outputs: int, n_learners: int) -> None:
        """Weights and covariance, made once; scratch for the inputs."""
        n = self.n_inputs(n_learners)
        noise_at = n + n * n
        kept = noise_at + _KEPT
        fresh = np.zeros(kept + n * n_outputs + newton.SCRATCH * n + n_outputs)
        if self._n == n:
            fresh[:kept] = self.double[:kept]
        else:
            given = self.first_weights
            fresh[:n_learners] = given if given is not None and len(given) == n_learners else 1.0 / n_learners
            fresh[n:noise_at] = (np.eye(n) * PRIOR_VARIANCE).ravel()
            fresh[noise_at + _NOISE] = 1.0
        self.double, self._n = fresh, n
        bound = _LARGEST_CHANGES if self.regression and self.robust else LARGEST
        self.shape = np.array([int(self.regression), n_learners, n, bound], dtype=np.int64)

    def raise_plasticity(self, factor: float, fresh: bool) -> None:
        """Where a drift was found just now, P <- P0 I; the weights stay."""
        if fresh:
            self.double[self._n : self._n + self._n**2] = (np.eye(self._n) * PRIOR_VARIANCE).ravel()

    @property
    def weights(self) -> NDArray[np.float64]:
        """One weight per input."""
        return self.double[: self._n].copy()

    def terms(
        self, x: NDArray[np.float32], mask: NDArray[np.bool_], scores: NDArray[np.float32], usable: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """w_i f_i, with f_i centred and bounded as in the prediction; a learner's two terms are added up."""
        inputs = np.zeros((self._n, scores.shape[1]))
        _list_inputs(self.shape, scores, usable, inputs)
        weighted = self.weights[:, None] * inputs
        return np.asarray(weighted.reshape(-1, *scores.shape).sum(axis=0))

    def state(self) -> Arrays:
        """Weights, their covariance, and the noise."""
        return {"weights": self.double[: self._n + self._n**2 + _KEPT].copy()}

    def schema(self) -> dict[str, Array]:
        """Weights, variances on the diagonal of a covariance, and the noise with its count."""
        n = self._n
        covariance = np.ravel(variances((n, n), "float64", -_ROUNDING).low)
        low = np.concatenate([np.full(n, -np.inf), covariance, [0.0, 0.0]])
        return {"weights": Array((n + n * n + 2,), low=low)}

    def take_over(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Weights, covariance and noise."""
        self.double[: self._n + self._n**2 + _KEPT] = arrays["weights"]


class KalmanTanh(KalmanWeights):
    """`KalmanWeights` with a second input per learner, tanh(2 f_i): how sure it is, up to a point.

    With two classes 2 f is the log-odds. A learner that is often right and too sure of itself is heard by its second
    input. The second weights start from 0. A numeric target has none; there a residual r counts for
    3 / (2 + r^2 / s^2) of one, in the step and in s^2, so that a record far off moves little.

    Examples
    --------
    >>> combiner = KalmanTanh(regression=False)
    >>> combiner.grow(0, 2, 3)
    >>> combiner.weights.round(2).tolist()
    [0.33, 0.33, 0.33, 0.0, 0.0, 0.0]
    """

    name = "kalman-tanh"
    robust = True

    def n_inputs(self, n_learners: int) -> int:
        """Two for each learner, one where targets are numbers."""
        return n_learners if self.regression else 2 * n_learners
