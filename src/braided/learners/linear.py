"""Online Bayesian linear regression: the fast learner for a numeric target, exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braided import checks
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.native import kernel
from braided.kernels.posterior import (
    COVARIANCE_AT,
    FEATURES,
    FORGETTING,
    FORM,
    INPUTS,
    MEAN_AT,
    NOISE,
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
from braided.learners.gaussian import GaussianConfig, GaussianLearner


@dataclass(frozen=True)
class LinearConfig(GaussianConfig):
    """Settings of online Bayesian linear regression.

    Attributes
    ----------
    noise_variance
        sigma^2, in units of the running variance of the target.
    change
        Learn how far a target lies from the one before it, which is added to the score.
    """

    noise_variance: float = 1.0
    change: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.above(self, 0.0, "noise_variance")


@kernel()
def score(shape, double, work64, index, n):
    """u . m for the n inputs listed in `index` and `work64`."""
    mean_at = shape[MEAN_AT]
    return inner(double[mean_at : mean_at + shape[STRIDE]], shape[FORM], index, work64, n)


@kernel()
def update(shape, hyper, double, covariance, u, pu, index, n, y, weight):
    """One step of the recursion for the n inputs u that were scored; false if it would not be finite.

    `covariance`, `u` and `pu` may be of float64 or of float32.
    """
    full, stride, size, mean_at = shape[FORM], shape[STRIDE], shape[INPUTS], shape[MEAN_AT]
    mean = double[mean_at : mean_at + stride]
    innovation = y - inner(mean, full, index, u, n)
    innovation_variance = hyper[NOISE] / weight + times_covariance(covariance, full, stride, size, index, u, n, pu)
    if not innovation_variance > 0:
        return False
    amount = innovation / innovation_variance
    if not np.isfinite(amount):
        return False
    correct(mean, full, size, index, n, pu, amount)
    shrink(covariance, full, stride, size, index, n, pu, 1.0 / innovation_variance)
    forget(covariance, full, stride, size, hyper[FORGETTING], hyper[PRIOR])
    return True


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    n = list_inputs(x, active, shape[WITH_MASK], shape[FEATURES], shape[PLANE], index, work64)
    scores[0] = score(shape, double, work64, index, n)


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index):
    n, stride = n_listed(x, active, shape[WITH_MASK], shape[FEATURES], shape[PLANE]), shape[STRIDE]
    u, pu = work64[:stride], work64[stride : 2 * stride]
    return update(shape, hyper, double, double[shape[COVARIANCE_AT] :], u, pu, index, n, y, weight)


class LinearRegression(GaussianLearner):
    """Bayesian linear regression, one record at a time; equal to the batch posterior after any number of records.

    With u = [1 ; x] (or [1 ; x ; mask]), prior N(0, P0) and noise variance sigma^2:

        S = sigma^2 + u P u,   K = P u / S,   m += K (y - u . m),   P -= K S K^T = (P u)(P u)^T / S

    (paper, appendix "Online Bayesian Linear Regression"). The score is u . m; the shared gradient is not used.

    A record of weight c is one of noise variance sigma^2 / c: exactly c records, for whole c and for parts. The weight
    is taken within 1e-6 and 100, and forgetting goes by records, whatever their weight.

    Examples
    --------
    >>> import numpy as np
    >>> learner = LinearRegression(LinearConfig(prior_variance=100.0, noise_variance=0.01))
    >>> learner.grow(1, 1)
    >>> everything = np.array([True])
    >>> for value in (0.0, 1.0, 2.0, 3.0):
    ...     x = np.array([value], dtype=np.float32)
    ...     _ = learner.learn(x, everything, 5.0 + 2.0 * value, np.zeros(1, dtype=np.float32))
    >>> learner.state()["mean"].round(2)
    array([[5., 2.]])
    """

    name = "linear"
    task = "regression"
    config: LinearConfig
    forward = _forward
    update = _learn

    def hyper_numbers(self) -> list[float]:
        """Those of every Gaussian learner, then `NOISE`."""
        return [*super().hyper_numbers(), self.config.noise_variance]
