"""What came last: in many streams labels persist, and values change little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.kernels import newton
from braided.kernels.activations import softmax
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.inputs import COME, LATE, MAX_FEATURES, has_planes
from braided.kernels.native import kernel
from braided.kernels.scale import PAST
from braided.learners.base import ArrayPlan, CompiledLearner, LearnerConfig
from braided.learners.gaussian import PLANES

#: How fast each of the running frequencies follows the labels; the first has the last label alone.
RATES = (1.0, 0.5, 0.2, 0.05, 0.01)
_SCALES = len(RATES)
#: Inputs of the regression besides the features: the target's past (`kernels.scale.past_in_units`), and 1.
_VALUE_INPUTS = PAST + 1
_NOISE_MEMORY = 1_000.0
#: A variance may be as far below 0, in prior variances, by rounding.
_ROUNDING = 1e-6
#: A class that has not come lately has this share of a record, divided among all classes, and at least this logarithm.
_SHARE, _FLOOR = 0.02, 1e-3


@dataclass(frozen=True)
class RecentConfig(LearnerConfig):
    """Settings of the learner of what came last; the formulas are in `RecentLabels`.

    Attributes
    ----------
    prior_variance, forgetting
        P0 and phi of the recursion for the weights.
    """

    prior_variance: float = 0.3
    forgetting: float = 1e-4

    def __post_init__(self) -> None:
        checks.above(self, 0.0, "prior_variance")
        checks.share(self, "forgetting")

    def for_regression(self) -> RecentValueConfig:
        """The same for numbers."""
        return RecentValueConfig(self.prior_variance, self.forgetting)


@dataclass(frozen=True)
class RecentValueConfig(RecentConfig):
    """The same for a numeric target; the formulas are in `RecentValues`.

    Attributes
    ----------
    inputs
        `plain`, or `filled`, as of the other closed-form learners.
    """

    inputs: Literal["plain", "filled"] = "filled"
    change: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of(self, "inputs", ("plain", "filled"))

    def for_regression(self) -> RecentValueConfig:
        """It is for regression already."""
        return self


# `shape`: outputs, their capacity, where weights, covariance and frequencies start, and features. `hyper`: phi, P0,
# then the rates.
# `work64`: the inputs, one row per rate, then three vectors; for classes also the probabilities.
_OUTPUTS, _CAPACITY, _WEIGHTS, _COVARIANCE, _PAST, _ALL = range(6)
_FORGETTING, _PRIOR, _RATES_AT = range(3)


@kernel()
def _parts(shape, double):
    """Weights, and their covariance."""
    weights = double[shape[_WEIGHTS] : shape[_WEIGHTS] + _SCALES]
    covariance = double[shape[_COVARIANCE] : shape[_COVARIANCE] + _SCALES * _SCALES]
    return weights, covariance.reshape(_SCALES, _SCALES)


@kernel()
def _count(shape, hyper, double, first_row, label):
    """Take a label into the frequencies that begin with this row."""
    for s in range(_SCALES):
        start, rate = shape[_PAST] + (first_row + s) * shape[_CAPACITY], hyper[_RATES_AT + s]
        for c in range(shape[_OUTPUTS]):
            double[start + c] *= 1.0 - rate
        double[start + min(max(label, 0), shape[_OUTPUTS] - 1)] += rate


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    n_outputs, capacity = shape[_OUTPUTS], shape[_CAPACITY]
    weights, _ = _parts(shape, double)
    inputs = work64[: _SCALES * n_outputs].reshape(_SCALES, n_outputs)
    behind = x.shape[0] >= shape[_ALL] + PAST and x[LATE] > 0
    scores[:] = 0
    for s in range(_SCALES):
        start = shape[_PAST] + (s + _SCALES * behind) * capacity
        past = double[start : start + n_outputs]
        total = _SHARE
        for c in range(n_outputs):
            total += past[c]
        mean = 0.0
        for c in range(n_outputs):
            inputs[s, c] = np.log((past[c] + _SHARE / n_outputs) / total + _FLOOR)
            mean += inputs[s, c]
        mean /= n_outputs
        for c in range(n_outputs):
            inputs[s, c] -= mean
            scores[c] += weights[s] * inputs[s, c]


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index):
    n_outputs, label = shape[_OUTPUTS], int(y)
    weights, covariance = _parts(shape, double)
    at = _SCALES * n_outputs
    inputs = work64[:at].reshape(_SCALES, n_outputs)
    end = at + newton.SCRATCH * _SCALES
    scratch, p = work64[at:end].reshape(newton.SCRATCH, _SCALES), work64[end : end + n_outputs]
    for c in range(n_outputs):
        p[c] = 0.0
        for s in range(_SCALES):
            p[c] += weights[s] * inputs[s, c]
    softmax(p, p)
    newton.learn_class(weights, covariance, inputs, p, label, weight, scratch, p)
    newton.relax(covariance, hyper[_FORGETTING], hyper[_PRIOR])
    _count(shape, hyper, double, 0, label)
    if x.shape[0] >= shape[_ALL] + PAST and x[COME] >= 0:
        _count(shape, hyper, double, _SCALES, int(x[COME]))
    return True


# For numbers the array of the past holds the noise and its count instead; the past comes with x. More places in
# `shape`: the features that are used (0 if there are too many), and the plane of x.
_FEATURES, _PLANE = 6, 7
_NOISE, _NOISE_COUNT, _NOISE_PLACES = 0, 1, 2


@kernel()
def _list_values(shape, x, active, work64):
    """The inputs of the regression, into `work64`; returns how many there are."""
    n_features = shape[_FEATURES]
    known = x.shape[0] >= shape[_ALL] + PAST
    for k in range(PAST):
        work64[k] = x[x.shape[0] - PAST + k] if known else 0.0
    work64[PAST] = 1.0
    whole = has_planes(x, n_features)
    for j in range(n_features):
        work64[_VALUE_INPUTS + j] = x[shape[_PLANE] * n_features + j] if whole else 0.0
    if not whole and n_features > 0:
        for j in active:
            work64[_VALUE_INPUTS + j] = x[j]
    return _VALUE_INPUTS + n_features


@entry(FORWARD)
def _forward_value(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    n = _list_values(shape, x, active, work64)
    total = 0.0
    for i in range(n):
        total += double[shape[_WEIGHTS] + i] * work64[i]
    scores[0] = total


@entry(LEARN)
def _learn_value(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index):
    capacity, n = shape[_CAPACITY], _VALUE_INPUTS + shape[_FEATURES]
    noise = double[shape[_PAST] : shape[_PAST] + _NOISE_PLACES]
    weights = double[shape[_WEIGHTS] : shape[_WEIGHTS] + n]
    square = double[shape[_COVARIANCE] : shape[_COVARIANCE] + capacity * capacity].reshape(capacity, capacity)
    covariance, h, ph = square[:n, :n], work64[:n], work64[n : 2 * n]
    residual = y
    for i in range(n):
        residual -= weights[i] * h[i]
    if noise[_NOISE_COUNT] == 0:
        noise[_NOISE] = 1.0
    noise[_NOISE_COUNT] = min(noise[_NOISE_COUNT] + 1.0, _NOISE_MEMORY)
    variance = max(noise[_NOISE], 1e-4)
    share = newton.trust(residual, variance)
    noise[_NOISE] += (share * residual * residual - noise[_NOISE]) / noise[_NOISE_COUNT]
    newton.step_value(weights, covariance, h, residual, weight * share / variance, ph)
    newton.relax(covariance, hyper[_FORGETTING], hyper[_PRIOR])
    return True


class RecentLabels(CompiledLearner):
    """Logistic regression on how frequent each label was lately, over five spans.

    For each rate s of `RATES` a running frequency of the labels, F_s <- (1 - s) F_s + s onehot(y), and with K classes

        l_sc = log((F_sc + 0.02 / K) / (sum_k F_sk + 0.02) + 0.001),   less its mean over the classes,
        scores f_c = sum_s w_s l_sc,   w from 0 by the recursion of `combiners.KalmanWeights` (P0, phi)

    so that repeating the last label (s = 1), the most frequent one of the last hundred, and anything between can be
    learned from the labels alone. It looks at no feature, and only at labels that were learned. Where labels come late,
    a record is learned from the frequencies as they were when it was predicted. A record costs O(K).

    A record's weight is for the recursion, as in `combiners.KalmanWeights`. The frequencies count records, whatever
    their weight: that a label weighs more does not make it come again.

    Examples
    --------
    >>> import numpy as np
    >>> learner = RecentLabels(RecentConfig())
    >>> learner.grow(0, 2)
    >>> nothing = np.zeros(0, dtype=np.float32)
    >>> for label in [0] * 50 + [1] * 50 + [0] * 50 + [1] * 5:
    ...     _ = learner.learn(nothing, nothing.astype(bool), label, np.zeros(2, dtype=np.float32))
    >>> int(learner.scores(nothing, nothing.astype(bool)).argmax())
    1
    """

    name = "recent"
    task = "classification"
    config: RecentConfig
    forward = _forward
    update = _learn

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Weights, their covariance, and a frequency per rate and class: as known, and as known without late labels."""
        return {
            "weights": ArrayPlan((_SCALES,), double=True, finite=True),
            "covariance": ArrayPlan((_SCALES, _SCALES), double=True, variance=-_ROUNDING * self.config.prior_variance),
            "past": ArrayPlan((2 * _SCALES, n_outputs), double=True, low=0.0, finite=True),
        }

    def initialise(self, name: str, view: NDArray[Any], old: tuple[int, ...], bound: float) -> None:
        """Zeros, and P0 I."""
        super().initialise(name, view, old, bound)
        if name == "covariance":
            fresh = np.arange(old[0], view.shape[0])
            view[fresh, fresh] = self.config.prior_variance

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """Outputs, their capacity, where the arrays start, and features."""
        places = [offsets[name] for name in ("weights", "covariance", "past")]
        return [self.n_outputs, self._capacities[1], *places, self.n_features]

    def hyper_numbers(self) -> list[float]:
        """phi, P0, and the rates."""
        return [self.config.forgetting, self.config.prior_variance, *RATES]

    def plastic_numbers(self) -> list[float]:
        """There is no rate of learning: plasticity is in the covariance."""
        return self.hyper_numbers()

    def raise_plasticity(self, factor: float, fresh: bool) -> None:
        """Where a drift was found just now, P <- P0 I; the weights stay."""
        if fresh:
            self.initialise("covariance", self.views["covariance"][self._in_use()["covariance"]], (0, 0), 0.0)

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """Inputs, three vectors and the probabilities."""
        return 0, (_SCALES + 1) * max(n_outputs, 1) + newton.SCRATCH * _SCALES, 0


class RecentValues(RecentLabels):
    """Linear regression of the change from the last value on the values before it and on the record.

    With y_1, y_2, y_3 the last three targets, m_s running means of them (rates 0.2 and 0.02), m the mean of all, in
    units of the usual change, and z the features' values (`inputs`), the change is in units of its running statistics

        score = w . [y_1 - y_2 ; y_2 - y_3 ; m_.2 - y_1 ; m_.02 - y_1 ; m - y_1 ; 1 ; z],   w from 0

    by the recursion of `combiners.KalmanWeights` for numbers, where a residual r that is far off counts for
    3 / (2 + r^2 / s^2) of one. It starts by repeating the last value (and the mean change); trends, running means, the
    return to the mean, and what the record says beyond them are learned. A record costs O(d^2), and O(1) with more than
    256 features, which are then left out. A record of weight c has the noise s^2 / c; s^2 itself counts records.

    Examples
    --------
    >>> import numpy as np
    >>> learner = RecentValues(RecentValueConfig())
    >>> learner.grow(0, 1)
    >>> past = np.array([1.0, 1.0, -2.0, -5.0, -5.0], dtype=np.float32)  # it has been rising; there are no features
    >>> nothing, unused = np.zeros(0, dtype=bool), np.zeros(1, dtype=np.float32)
    >>> print(f"{learner.scores(past, nothing)[0]:.1f}")
    0.0
    >>> for _ in range(50):
    ...     _ = learner.learn(past, nothing, 1.0, unused)
    >>> print(f"{learner.scores(past, nothing)[0]:.1f}")
    1.0
    """

    task = "regression"
    config: RecentValueConfig
    forward = _forward_value
    update = _learn_value

    def _n(self, n_features: int) -> int:
        return _VALUE_INPUTS + (n_features if n_features <= MAX_FEATURES else 0)

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Weights, their covariance, and the noise with its count."""
        n = self._n(n_features)
        return {
            "weights": ArrayPlan((n,), double=True, finite=True),
            "covariance": ArrayPlan((n, n), double=True, variance=-_ROUNDING * self.config.prior_variance),
            "past": ArrayPlan((_NOISE_PLACES,), double=True, low=0.0, finite=True),
        }

    def grow(self, n_features: int, n_outputs: int) -> None:
        """Grow; where there are too many features, what is known of them is left."""
        if self.n_features <= MAX_FEATURES < n_features:
            for name in ("weights", "covariance"):
                corner = tuple(slice(_VALUE_INPUTS) for _ in self.views[name].shape)
                self.views[name] = self.views[name][corner].copy()
            self.n_features = 0
            self._allocate(MAX_FEATURES + 1, 1)
        super().grow(n_features, n_outputs)

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """Outputs, row length of the covariance, where the arrays start, features, those that are used, plane of x."""
        places = [offsets[name] for name in ("weights", "covariance", "past")]
        used = self._n(self.n_features) - _VALUE_INPUTS
        row, plane = self._n(self._capacities[0]), PLANES[self.config.inputs]
        return [self.n_outputs, row, *places, self.n_features, used, plane]

    def hyper_numbers(self) -> list[float]:
        """phi and P0."""
        return [self.config.forgetting, self.config.prior_variance]

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """The inputs, and a vector."""
        return 0, 2 * self._n(n_features), 0
