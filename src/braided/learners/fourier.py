"""Bayesian regression on random Fourier features: nonlinear, in closed form, without a learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.errors import BraidedError
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.compile import kernel
from braided.kernels.dense import add_row
from braided.kernels.random import fill_normal, key_of
from braided.learners import linear, logistic
from braided.learners.base import ArrayPlan
from braided.learners.gaussian import GaussianConfig, GaussianLearner


@dataclass(frozen=True)
class FourierConfig(GaussianConfig):
    """Settings of logistic regression on random Fourier features; the formulas are in `FourierLogistic`.

    Attributes
    ----------
    functions
        Number k of Fourier features.
    bandwidth
        Distance, in standard deviations of a feature, over which the functions vary.
    """

    functions: int = 128
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.sizes(self, 1, "functions")
        checks.above(self, 0.0, "bandwidth")
        if self.mask_inputs:
            raise BraidedError("FourierConfig.mask_inputs is True: this learner takes values alone; leave it out")

    def for_regression(self) -> FourierLinearConfig:
        """The same cosines under linear regression."""
        return FourierLinearConfig(**{field.name: getattr(self, field.name) for field in fields(FourierConfig)})


@dataclass(frozen=True)
class FourierLinearConfig(FourierConfig, linear.LinearConfig):
    """The same for a numeric target, with the noise variance of `LinearConfig`."""

    def for_regression(self) -> FourierLinearConfig:
        """It is for regression already."""
        return self


# Places in `shape` after those of every Gaussian learner: where the frequencies and the phases start.
_FREQUENCIES, _PHASES = 7, 8


@kernel()
def _list_functions(shape, single, x, active, work, index, u):
    """u = [1 ; sqrt(2) cos(w . x / sqrt(available) + phase)]; returns its length."""
    n = shape[4]
    angle = work[: n - 1]
    angle[:] = 0
    for slot in active:
        start = shape[_FREQUENCIES] + slot * (n - 1)
        add_row(single[start : start + n - 1], x[slot], angle)
    scale = 1.0 / np.sqrt(max(active.shape[0], 1))
    index[0], u[0] = 0, 1.0
    for k in range(n - 1):
        index[k + 1] = k + 1
        u[k + 1] = np.sqrt(2.0) * np.cos(angle[k] * scale + single[shape[_PHASES] + k])
    return n


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    n = _list_functions(shape, single, x, active, work, index, work64)
    logistic.score(shape, hyper, double, work64, index, n, scores)


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, gradient, work, work64, index):
    return logistic.update(shape, hyper, double, work64, index, shape[4], y)


@entry(FORWARD)
def _forward_linear(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    n = _list_functions(shape, single, x, active, work, index, work64)
    scores[0] = linear.score(shape, double, work64, index, n)


@entry(LEARN)
def _learn_linear(shape, hyper, single, second, double, x, active, step, y, gradient, work, work64, index):
    return linear.update(shape, hyper, double, work64, index, shape[4], y)


class FourierLogistic(GaussianLearner):
    """Bayesian logistic regression on k random cosines of the record.

    With w_jk ~ N(0, 1) / bandwidth for each feature j, phases b_k uniform over a turn, and n available features:

        phi_k = sqrt(2) cos(sum_j w_jk x_j / sqrt(n) + b_k),   u = [1 ; phi_1 ; ... ; phi_k]

    and then the Kalman recursion of `LogisticRegression` on u. A weighted sum of such cosines comes near any smooth
    function of the record (Rahimi and Recht 2007), so this learner is nonlinear and yet in closed form. Dividing by
    sqrt(n) keeps the angle's spread the same however many features are there: a new feature changes nothing for records
    without it. A record costs O(n k + k^2), whatever the number of features known.

    Examples
    --------
    >>> import numpy as np
    >>> learner = FourierLogistic(FourierConfig(functions=50), seed=1)
    >>> learner.grow(2, 2)
    >>> everything, unused = np.ones(2, dtype=bool), np.zeros(2, dtype=np.float32)
    >>> corners = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=np.float32)
    >>> for _ in range(50):
    ...     for x in corners:
    ...         _ = learner.learn(x, everything, int(x[0] != x[1]), unused)
    >>> [int(learner.scores(x, everything).argmax()) for x in corners]
    [0, 1, 1, 0]
    """

    name = "fourier"
    task = "classification"
    config: FourierConfig
    forward = _forward
    update = _learn

    def n_inputs(self, n_features: int) -> int:
        """The bias and the functions."""
        return 1 + self.config.functions

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Posterior of the weights; a row of frequencies per feature; phases."""
        k = self.config.functions
        return {
            **super().plan(n_features, n_outputs),
            "frequencies": ArrayPlan((n_features, k)),
            "phases": ArrayPlan((k,)),
        }

    def initialise(self, name: str, view: NDArray[Any], old: tuple[int, ...], bound: float) -> None:
        """Normal frequencies, uniform phases."""
        key = key_of(self.seed, self.name, self.place, name)
        if name == "frequencies":
            fill_normal(view, key, old[0], 1.0 / self.config.bandwidth)
        elif name == "phases":
            super().initialise(name, view, old, math.pi)
        else:
            super().initialise(name, view, old, bound)

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """Those of every Gaussian learner, then where frequencies and phases start."""
        return [*super().shape_numbers(offsets), offsets["frequencies"], offsets["phases"]]

    def hyper_numbers(self) -> list[float]:
        """Those of the logistic learner: Kalman gain, logits, no clamp."""
        return [*super().hyper_numbers(), *logistic.KALMAN_LOGITS]

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """The angles, and what every Gaussian learner needs."""
        _, work64, index = super().work_sizes(n_features, n_outputs)
        return self.config.functions, work64, index


class FourierLinear(FourierLogistic):
    """Bayesian linear regression on the cosines of `FourierLogistic`: the exact recursion of `LinearRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> learner = FourierLinear(FourierLinearConfig(functions=50, prior_variance=1.0, noise_variance=0.01), seed=1)
    >>> learner.grow(1, 1)
    >>> everything, unused = np.ones(1, dtype=bool), np.zeros(1, dtype=np.float32)
    >>> for value in np.linspace(-2, 2, 200):
    ...     _ = learner.learn(np.array([value], dtype=np.float32), everything, value**2, unused)
    >>> bool(abs(learner.scores(np.array([1.0], dtype=np.float32), everything)[0] - 1.0) < 0.1)
    True
    """

    task = "regression"
    config: FourierLinearConfig
    forward = _forward_linear
    update = _learn_linear

    def hyper_numbers(self) -> list[float]:
        """Those of the linear learner."""
        return [*GaussianLearner.hyper_numbers(self), self.config.noise_variance]
