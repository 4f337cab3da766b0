"""Bayesian regression on random Fourier features: nonlinear, in closed form, without a learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.errors import BraidedError
from braided.kernels.activations import softmax
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.dense import add_row
from braided.kernels.inputs import has_planes
from braided.kernels.native import Ints, SingleRows, kernel
from braided.kernels.posterior import (
    COVARIANCE_AT,
    FEATURES,
    FORM,
    INPUTS,
    MEAN_AT,
    OUTPUTS,
    PLACES,
    PLANE,
    STRIDE,
    UPPER,
)
from braided.kernels.random import fill_normal, key_of, mix, unit_interval
from braided.kernels.record_weight import of_gradient
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
    subset
        0: each function is of all features. Else of a few, drawn at random, whose number is drawn from 1 to this.
    frequency_rate
        Rate at which the functions themselves learn; 0 leaves them as they were drawn.
    single
        Whether P is kept in float32, at half the cost; m stays in float64.
    inputs
        `plain`, `filled` as of the other learners; or filled and smaller where a feature is mostly the same: `scaled`
        the values, `scores` their ranks as normal scores (`kernels/inputs.py`).
    """

    functions: int = 128
    bandwidth: float = 1.0
    subset: int = 0
    frequency_rate: float = 0.0
    single: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.sizes(self, 1, "functions")
        checks.above(self, 0.0, "bandwidth")
        checks.sizes(self, 0, "subset")
        checks.at_least(self, 0.0, "frequency_rate")
        if self.mask_inputs:
            raise BraidedError("FourierConfig.mask_inputs is True: this learner takes values alone; leave it out")

    @classmethod
    def _planes(cls) -> tuple[str, ...]:
        return ("plain", "filled", "scaled", "scores")

    def for_regression(self) -> FourierLinearConfig:
        """The same cosines under linear regression."""
        return FourierLinearConfig(**{field.name: getattr(self, field.name) for field in fields(FourierConfig)})


@dataclass(frozen=True)
class FourierLinearConfig(FourierConfig, linear.LinearConfig):
    """The same for a numeric target, with the noise variance of `LinearConfig`."""

    def for_regression(self) -> FourierLinearConfig:
        """It is for regression already."""
        return self


# Places in `shape` after those of every Gaussian learner: where frequencies, phases and their moments start, and
# whether the functions are of some features each, and P in float32.
_FREQUENCIES, _PHASES, _MOMENTS, _SUBSETS, _SINGLE = range(PLACES, PLACES + 5)
#: The last place in `hyper`, after those of either recursion: the rate of the functions.
_FREQUENCY_RATE = -1
#: Decay of the mean squares that steps of the frequencies are divided by, and what is added to these.
_DECAY, _TINY = 0.999, 1e-12
#: Growth: while fewer records than this were learned, a new feature takes another's place in a function; later it is
#: added, to a function of fewer features than this.
_EARLY, _MAX_IN_SUBSET = 100, 8


@kernel()
def _scale(shape, x, active):
    """What the sum of frequencies times values is multiplied by."""
    if shape[_SUBSETS]:
        return 1.0
    whole = shape[PLANE] > 0 and has_planes(x, shape[FEATURES])
    return 1.0 / np.sqrt(max(shape[FEATURES] if whole else active.shape[0], 1))


@kernel()
def _list_functions(shape, single, x, active, work, index, u):
    """u = [1 ; sqrt(2) cos(scale w . x + phase)]; returns its length. `work` then holds the angles."""
    n, n_features, plane = shape[INPUTS], shape[FEATURES], shape[PLANE]
    angle = work[: n - 1]
    angle[:] = 0
    if plane > 0 and has_planes(x, n_features):
        for slot in range(n_features):
            value = x[plane * n_features + slot]
            if value != 0:
                start = shape[_FREQUENCIES] + slot * (n - 1)
                add_row(single[start : start + n - 1], value, angle)
    else:
        for slot in active:
            start = shape[_FREQUENCIES] + slot * (n - 1)
            add_row(single[start : start + n - 1], x[slot], angle)
    scale = _scale(shape, x, active)
    index[0], u[0] = 0, 1.0
    for k in range(n - 1):
        index[k + 1] = k + 1
        theta = angle[k] * scale + single[shape[_PHASES] + k]
        u[k + 1] = np.sqrt(2.0) * np.cos(theta)
        angle[k] = theta
    return n


@kernel()
def _pull(mean, amount, slopes):
    """Add to each function's slope what one output's error has to do with it."""
    for k in range(slopes.shape[0]):
        slopes[k] += amount * mean[1 + k]


@kernel()
def _move(shape, hyper, single, x, active, work):
    """Move frequencies and phases against their gradients; `work` holds the angles, then dL/du for each function.

    With g_k = dL/du_k (-sqrt(2) sin theta_k), one moment for all frequencies of a function.
    """
    n, n_features, plane = shape[INPUTS] - 1, shape[FEATURES], shape[PLANE]
    kind = single.dtype.type
    whole = plane > 0 and has_planes(x, n_features)
    angle, slopes, factor = work[:n], work[n : 2 * n], work[2 * n : 3 * n]
    moments, phase_moments = (
        single[shape[_MOMENTS] : shape[_MOMENTS] + n], single[shape[_MOMENTS] + n : shape[_MOMENTS] + 2 * n]
    )  # fmt: skip
    rate, decay, share, tiny = kind(hyper[_FREQUENCY_RATE]), kind(_DECAY), kind(1.0 - _DECAY), kind(_TINY)
    squares = kind(0)
    count = n_features if whole else active.shape[0]
    for i in range(count):
        value = x[plane * n_features + i] if whole else x[active[i]]
        squares += value * value
    squares /= max(count, 1)
    apart = kind(1.0 / np.sqrt(max(n_features, 1))) if shape[_SUBSETS] else kind(1)
    for k in range(n):
        g = slopes[k] * kind(-np.sqrt(2.0)) * np.sin(angle[k])
        moments[k] = decay * moments[k] + share * g * g * squares
        phase_moments[k] = decay * phase_moments[k] + share * g * g
        factor[k] = rate * apart * g / np.sqrt(moments[k] + tiny)
        single[shape[_PHASES] + k] -= rate * g / np.sqrt(phase_moments[k] + tiny)
    for i in range(count):
        slot = i if whole else active[i]
        value = x[plane * n_features + slot] if whole else x[slot]
        if value == 0:
            continue
        start = shape[_FREQUENCIES] + slot * n
        row = single[start : start + n]
        if shape[_SUBSETS]:
            for k in range(n):
                row[k] -= factor[k] * value if row[k] != 0 else kind(0)
        else:
            for k in range(n):
                row[k] -= factor[k] * value


@kernel()
def _in_single(shape, work, u):
    """The inputs as float32, and as much room again; after the angles, slopes and steps."""
    n, at = shape[INPUTS], 3 * (shape[INPUTS] - 1)
    copied = work[at : at + n]
    for k in range(n):
        copied[k] = u[k]
    return copied, work[at + n : at + 2 * n]


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    n = _list_functions(shape, single, x, active, work, index, work64)
    logistic.score(shape, hyper, double, work64, index, n, scores)


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index):
    if hyper[_FREQUENCY_RATE] > 0:
        n_outputs, stride, mean_at, n = shape[OUTPUTS], shape[STRIDE], shape[MEAN_AT], shape[INPUTS] - 1
        latent = work64[2 * stride : 2 * stride + n_outputs]
        p = work64[2 * stride + n_outputs : 2 * stride + 2 * n_outputs]
        softmax(latent, p)
        slopes = work[n : 2 * n]
        slopes[:] = 0
        for row in range(1 if n_outputs == 2 else n_outputs):
            k = 1 if n_outputs == 2 else row
            start = mean_at + row * stride
            error = p[k] - (1.0 if k == int(y) else 0.0)
            _pull(double[start : start + stride], of_gradient(weight) * error, slopes)
    u, pu = work64[: shape[STRIDE]], work64[shape[STRIDE] : 2 * shape[STRIDE]]
    if shape[_SINGLE]:
        u32, pu32 = _in_single(shape, work, u)
        covariance = single[shape[COVARIANCE_AT] :]
        fine = logistic.update(shape, hyper, double, covariance, u32, pu32, work64, index, shape[INPUTS], y, weight)
    else:
        covariance = double[shape[COVARIANCE_AT] :]
        fine = logistic.update(shape, hyper, double, covariance, u, pu, work64, index, shape[INPUTS], y, weight)
    if fine and hyper[_FREQUENCY_RATE] > 0:
        _move(shape, hyper, single, x, active, work)
    return fine


@entry(FORWARD)
def _forward_linear(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    n = _list_functions(shape, single, x, active, work, index, work64)
    scores[0] = linear.score(shape, double, work64, index, n)


@entry(LEARN)
def _learn_linear(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index):
    if hyper[_FREQUENCY_RATE] > 0:
        n, start, stride = shape[INPUTS] - 1, shape[MEAN_AT], shape[STRIDE]
        slopes = work[n : 2 * n]
        slopes[:] = 0
        error = linear.score(shape, double, work64, index, shape[INPUTS]) - y
        _pull(double[start : start + stride], of_gradient(weight) * error, slopes)
    u, pu = work64[: shape[STRIDE]], work64[shape[STRIDE] : 2 * shape[STRIDE]]
    if shape[_SINGLE]:
        u32, pu32 = _in_single(shape, work, u)
        covariance = single[shape[COVARIANCE_AT] :]
        fine = linear.update(shape, hyper, double, covariance, u32, pu32, index, shape[INPUTS], y, weight)
    else:
        covariance = double[shape[COVARIANCE_AT] :]
        fine = linear.update(shape, hyper, double, covariance, u, pu, index, shape[INPUTS], y, weight)
    if fine and hyper[_FREQUENCY_RATE] > 0:
        _move(shape, hyper, single, x, active, work)
    return fine


@entry
def _draw_subsets(
    frequencies: SingleRows, key: np.uint64, first_row: int, max_size: int, early: bool, members: Ints
) -> None:
    """Give the features from `first_row` on to functions of 1 to `max_size` features each, once frequencies are drawn.

    A feature that is number j takes part in a function of size s with probability s / j, in the place of one that is
    drawn from its members, so that every set of s features is as likely as any other. Where that is too late for what
    was learned, it is added.
    """
    n_features, n_functions = frequencies.shape
    for k in range(n_functions):
        function_key = mix(key, k)
        size = 1 + int(unit_interval(function_key) * max_size)
        n_members = 0
        for j in range(first_row):
            if frequencies[j, k] != 0:
                members[n_members] = j
                n_members += 1
        for j in range(first_row, n_features):
            draw = mix(function_key, j + 1)
            value = frequencies[j, k] / np.sqrt(size)
            frequencies[j, k] = 0
            if n_members < size:
                place = n_members
                n_members += 1
            elif unit_interval(draw) >= size / (j + 1):
                continue
            elif early:
                place = int(unit_interval(mix(draw, 1)) * n_members)
                frequencies[members[place], k] = 0
            elif n_members < _MAX_IN_SUBSET:
                place = n_members
                n_members += 1
            else:
                continue
            members[place] = j
            frequencies[j, k] = value


class FourierLogistic(GaussianLearner):
    """Bayesian logistic regression on k random cosines of the record.

    With w_jk ~ N(0, 1) / bandwidth for each feature j, phases b_k uniform over a turn, and n available features:

        phi_k = sqrt(2) cos(sum_j w_jk x_j / sqrt(n) + b_k),   u = [1 ; phi_1 ; ... ; phi_k]

    and then the Kalman recursion of `LogisticRegression` on u. A weighted sum of such cosines comes near any smooth
    function of the record (Rahimi and Recht 2007), so this learner is nonlinear and yet in closed form. Dividing by
    sqrt(n) keeps the angle's spread the same however many features are there: a new feature changes nothing for records
    without it. A record costs O(n k + k^2), whatever the number of features known.

    With other `inputs` than `plain` the sum runs over all d known features, some of them filled in, and is divided by
    sqrt(d). After a hundred records the frequencies of those known are multiplied by sqrt(d' / d) when there come to be
    d' of them: a new one changes nothing for records without it. With a `subset` function k is of a few features alone:
    s of them, s drawn from 1 to `subset`, with w_jk ~ N(0, 1) / sqrt(s), and its angle is not divided.

    With a `frequency_rate` the functions learn, too. With the angle theta_k, the means m_c before the record, and
    g_k = sum_c (p_c - [y = c]) m_ck (-sqrt(2) sin theta_k):

        v_k <- 0.999 v_k + 0.001 g_k^2 mean_j x_j^2,   w_jk -= rate g_k x_j / sqrt(v_k + 1e-12)
        v'_k <- 0.999 v'_k + 0.001 g_k^2,              b_k -= rate g_k / sqrt(v'_k + 1e-12)

    where a step of a subset's frequencies is divided by sqrt(d).

    A record's weight is for the recursion, as `LogisticRegression` says; where the functions learn, g_k is multiplied
    by it, by 10 at most.

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

    @property
    def double_covariance(self) -> bool:  # type: ignore[override]
        """As its settings say."""
        return not self.config.single

    def n_inputs(self, n_features: int) -> int:
        """The bias and the functions."""
        return 1 + self.config.functions

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Posterior of the weights; a row of frequencies per feature; phases."""
        k = self.config.functions
        arrays = {
            **super().plan(n_features, n_outputs),
            "frequencies": ArrayPlan((n_features, k)),
            "phases": ArrayPlan((k,)),
        }
        if self.config.frequency_rate > 0.0:
            arrays["moments"] = ArrayPlan((2, k), low=0.0)
        return arrays

    def initialise(self, name: str, view: NDArray[Any], old: tuple[int, ...], bound: float) -> None:
        """Normal frequencies, uniform phases."""
        key = key_of(self.seed, self.name, self.place, name)
        if name == "frequencies":
            fill_normal(view, key, old[0], 1.0 / self.config.bandwidth)
            if not self.config.subset and self.config.inputs != "plain" and old[0] and self.steps >= _EARLY:
                view[: old[0]] *= math.sqrt(view.shape[0] / old[0])
            if self.config.subset:
                self._draw_subsets(view, key, old[0], old[0] == 0 or self.steps < _EARLY)
        elif name == "phases":
            super().initialise(name, view, old, math.pi)
        else:
            super().initialise(name, view, old, bound)

    def _draw_subsets(self, frequencies: NDArray[np.float32], key: int, first_row: int, early: bool) -> None:
        members = np.zeros(len(frequencies), dtype=np.int64)
        _draw_subsets(frequencies, np.uint64(key), first_row, self.config.subset, early, members)

    def forget_features(self, slots: NDArray[np.int64]) -> None:
        """Draw frequencies anew; functions of some features each take a new one in as they do late in a stream."""
        frequencies = self.views["frequencies"][: self.n_features]
        key = key_of(self.seed, self.name, self.place, "frequencies")
        frequencies[slots] = 0.0
        for slot in slots.tolist():
            fill_normal(frequencies[: slot + 1], key, slot, 1.0 / self.config.bandwidth)
            if self.config.subset:
                last = np.vstack([np.delete(frequencies, slot, axis=0), frequencies[slot]])
                self._draw_subsets(last, key, len(last) - 1, early=False)
                frequencies[slot] = last[-1]

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """Those of every Gaussian learner, then where frequencies, phases and moments start, and whether of subsets."""
        starts = [offsets["frequencies"], offsets["phases"], offsets.get("moments", 0)]
        numbers = super().shape_numbers(offsets)
        if self.full and self.config.single:
            numbers[FORM] = UPPER
        return [*numbers, *starts, int(self.config.subset > 0), int(self.config.single)]

    def hyper_numbers(self) -> list[float]:
        """Those of the logistic learner: Kalman gain, logits, no clamp; then the frequencies' rate."""
        return [*super().hyper_numbers(), *logistic.KALMAN_LOGITS, self.config.frequency_rate]

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """The angles, slopes and steps, u and P u in float32, and what every Gaussian learner needs."""
        _, work64, index = super().work_sizes(n_features, n_outputs)
        k = self.config.functions
        return 3 * k + 2 * (k + 1), work64, index


class FourierLinear(FourierLogistic):
    """Bayesian linear regression on the cosines of `FourierLogistic`: the exact recursion of `LinearRegression`.

    A record's weight is for the recursion, as `LinearRegression` says; where the functions learn, their slopes are
    multiplied by it, by 10 at most.

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
        """Those of the linear learner, then the frequencies' rate."""
        return [*GaussianLearner.hyper_numbers(self), self.config.noise_variance, self.config.frequency_rate]
