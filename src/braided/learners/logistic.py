"""Online Bayesian logistic regression: the fast learner, in closed form."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from braided import checks
from braided.kernels.activations import all_finite, sigmoid, softmax
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.native import kernel
from braided.kernels.posterior import (
    COVARIANCE_AT,
    FEATURES,
    FORGETTING,
    FORM,
    INPUTS,
    MEAN_AT,
    OUTPUTS,
    PLANE,
    PRIOR,
    STRIDE,
    WITH_MASK,
    correct,
    forget,
    inner,
    list_inputs,
    n_listed,
    shrink,
    times_covariance,
)
from braided.kernels.record_weight import LARGEST_MOVE, n_steps
from braided.learners.gaussian import GaussianConfig, GaussianLearner
from braided.learners.linear import LinearConfig

_KALMAN, _PAPER, _RELEASED = 0, 1, 2
_GAINS = {"kalman": _KALMAN, "paper": _PAPER, "released": _RELEASED}
#: The last numbers of `hyper` for the Kalman gain, logits as scores and no clamp.
KALMAN_LOGITS = (float(_KALMAN), 0.0, 0.0)


@dataclass(frozen=True)
class LogisticConfig(GaussianConfig):
    """Settings of online Bayesian logistic regression.

    Attributes
    ----------
    gain
        Which recursion: `kalman`, `paper` or `released`; formulas in `LogisticRegression`.
    score
        What enters the sum: the `logit`, or the `probability` (as the released code does).
    clamp
        The latent score is kept within +-clamp; 0 means no bound.
    """

    gain: Literal["kalman", "paper", "released"] = "kalman"
    score: Literal["logit", "probability"] = "logit"
    clamp: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of(self, "gain", _GAINS)
        checks.one_of(self, "score", ("logit", "probability"))
        checks.at_least(self, 0.0, "clamp")

    def for_regression(self) -> LinearConfig:
        """Linear regression, with the settings that both have."""
        return LinearConfig(**{field.name: getattr(self, field.name) for field in fields(GaussianConfig)})


# Places in `hyper`, after the two of every Gaussian learner.
_GAIN, _AS_PROBABILITY, _CLAMP = 2, 3, 4


@kernel()
def _find_latent(shape, hyper, double, work64, index, n):
    """The latent scores of the n inputs listed in `index` and `work64`, into `work64`."""
    n_outputs, stride, mean_at = shape[OUTPUTS], shape[STRIDE], shape[MEAN_AT]
    clamp = hyper[_CLAMP]
    latent = work64[2 * stride : 2 * stride + n_outputs]
    if n_outputs == 2:
        a = inner(double[mean_at : mean_at + stride], shape[FORM], index, work64, n)
        if clamp > 0:
            a = min(max(a, -clamp), clamp)
        latent[0], latent[1] = -a / 2.0, a / 2.0
    else:
        for k in range(n_outputs):
            start = mean_at + k * stride
            latent[k] = inner(double[start : start + stride], shape[FORM], index, work64, n)
            if clamp > 0:
                latent[k] = min(max(latent[k], -clamp), clamp)


@kernel()
def score(shape, hyper, double, work64, index, n, scores):
    """The scores for the n inputs listed in `index` and `work64`."""
    n_outputs, stride = shape[OUTPUTS], shape[STRIDE]
    _find_latent(shape, hyper, double, work64, index, n)
    latent = work64[2 * stride : 2 * stride + n_outputs]
    if hyper[_AS_PROBABILITY]:
        probability = work64[2 * stride + n_outputs : 2 * stride + 2 * n_outputs]
        softmax(latent, probability)
        for k in range(n_outputs):
            scores[k] = probability[k]
    else:
        for k in range(n_outputs):
            scores[k] = latent[k]


@kernel()
def update(shape, hyper, double, covariance, u, pu, work64, index, n, y, weight):
    """The steps of the recursion for the n inputs u that were scored; false if one would not be finite.

    `covariance`, `u` and `pu` may be of float64 or of float32.
    """
    steps = n_steps(weight)
    for k in range(steps):
        if k > 0:
            _find_latent(shape, hyper, double, work64, index, n)
        if not _step(shape, hyper, double, covariance, u, pu, work64, index, n, y, weight / steps):
            return False
    forget(covariance, shape[FORM], shape[STRIDE], shape[INPUTS], hyper[FORGETTING], hyper[PRIOR])
    return True


@kernel()
def _step(shape, hyper, double, covariance, u, pu, work64, index, n, y, part):
    """One step, for part of a record; false if it would not be finite."""
    n_outputs, full, stride, size = shape[OUTPUTS], shape[FORM], shape[STRIDE], shape[INPUTS]
    gain, mean_at = hyper[_GAIN], shape[MEAN_AT]
    latent = work64[2 * stride : 2 * stride + n_outputs]
    probability = work64[2 * stride + n_outputs : 2 * stride + 2 * n_outputs]
    if n_outputs == 2:
        probability[1] = sigmoid(latent[1] - latent[0])
        probability[0] = 1.0 - probability[1]
        v = probability[1] * probability[0]
    else:
        softmax(latent, probability)
        v = 0.0
        for k in range(n_outputs):
            v = max(v, 2.0 * probability[k] * (1.0 - probability[k]))
    q = times_covariance(covariance, full, stride, size, index, u, n, pu)
    if not q > 0:
        return False
    if gain == _KALMAN:
        innovation_variance = 1.0 + part * v * q
        along, lost = part / innovation_variance, part * v / innovation_variance
        if part > 1.0:
            along = min(along, max(1.0 / (1.0 + v * q), LARGEST_MOVE / q))
    elif gain == _PAPER:
        innovation_variance, part = q * (1.0 + v * v), min(part, 1.0)
        along, lost = part * v / innovation_variance, part * v * v / innovation_variance
    else:
        innovation_variance, part = q + v * v, min(part, 1.0)
        along, lost = part / innovation_variance, part / innovation_variance
    if not (all_finite(probability) and np.isfinite(along) and np.isfinite(lost)):
        return False
    place = int(y)
    for row in range(1 if n_outputs == 2 else n_outputs):
        k = 1 if n_outputs == 2 else row
        innovation = (1.0 if place == k else 0.0) - probability[k]
        start = mean_at + row * stride
        correct(double[start : start + stride], full, size, index, n, pu, along * innovation)
    shrink(covariance, full, stride, size, index, n, pu, lost)
    return True


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    n = list_inputs(x, active, shape[WITH_MASK], shape[FEATURES], shape[PLANE], index, work64)
    score(shape, hyper, double, work64, index, n, scores)


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index):
    n, stride = n_listed(x, active, shape[WITH_MASK], shape[FEATURES], shape[PLANE]), shape[STRIDE]
    u, pu = work64[:stride], work64[stride : 2 * stride]
    return update(shape, hyper, double, double[shape[COVARIANCE_AT] :], u, pu, work64, index, n, y, weight)


class LogisticRegression(GaussianLearner):
    """Bayesian logistic regression, one record at a time, without a learning rate.

    With u = [1 ; x] (or [1 ; x ; mask]), a = u . m, s = sigma(a), v = s (1 - s), q = u P u, and y in {0, 1}:

        kalman     S = 1 + v q          K = P u / S      m += K (y - s)      P -= v (P u)(P u)^T / S
        paper      S = q (1 + v^2)      K = P u v / S    m += K (y - s)      P -= K S K^T
        released   S = q + v^2          K = P u / S      m += K (y - s)      P -= K S K^T

    `paper` is the paper's Algorithm 1 with its process noise Sigma = q; `kalman` is the recursion the paper relates
    itself to, without that regularisation. The scores are (-a/2, a/2), or (1 - s, s) for `score="probability"`.

    More than two classes: a_k = u . m_k, p = softmax(a), and each class has the innovation [y = k] - p_k under one
    covariance that all classes share. For v stands max_k 2 p_k (1 - p_k), Gershgorin's bound of the largest
    eigenvalue of diag(p) - p p^T: at most Boehning's 1/2, and with two classes the same recursion as above. A record
    costs O(d^2 + d K).

    A record of weight c takes n = min(ceil(c), 8) steps, each for r = c / n of a record, with a, s and v found anew:

        kalman             S = 1 + r v q      m += r P u (y - s) / S      P -= r v (P u)(P u)^T / S
        paper, released    K (y - s) and K S K^T are multiplied by min(r, 1)

    so that a whole weight up to 8 is exactly so many records; c is taken within 1e-6 and 100. For r > 1, r / S is
    max(1 / (1 + v q), 4 / q) at most: far from where s is 1/2 the curvature v holds only nearby. Forgetting goes by
    records, whatever their weight.

    The gradient of the sum is not used: this learner fits the labels by itself, and the others learn what it leaves.

    Examples
    --------
    >>> import numpy as np
    >>> learner = LogisticRegression(LogisticConfig())
    >>> learner.grow(1, 2)
    >>> everything, unused = np.array([True]), np.zeros(2, dtype=np.float32)
    >>> for value, label in [(-1.0, 0), (1.0, 1), (-2.0, 0), (2.0, 1)]:
    ...     _ = learner.learn(np.array([value], dtype=np.float32), everything, label, unused)
    >>> learner.scores(np.array([1.5], dtype=np.float32), everything).round(3)
    array([-0.732,  0.732], dtype=float32)
    """

    name = "olr"
    task = "classification"
    config: LogisticConfig
    forward = _forward
    update = _learn

    def hyper_numbers(self) -> list[float]:
        """Those of every Gaussian learner, the gain's code, whether scores are probabilities, and the clamp."""
        config = self.config
        return [*super().hyper_numbers(), _GAINS[config.gain], float(config.score == "probability"), config.clamp]
