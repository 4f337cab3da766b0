"""Exact Bayesian linear regression on raw values, in units that stand still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from braided import checks
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.inputs import has_planes
from braided.kernels.native import kernel
from braided.kernels.posterior import (
    COVARIANCE_AT,
    FEATURES,
    FORM,
    INPUTS,
    MEAN_AT,
    PLACES,
    PRIOR,
    STRIDE,
    correct,
    inner,
    shrink,
    times_covariance,
)
from braided.kernels.raw import ANSWER, DOUBTFUL, PLACED, VALUES_AT
from braided.kernels.scale import ALIKE_DOUBTS, alike, clipped
from braided.learners.base import ArrayPlan, LearnerConfig
from braided.learners.gaussian import GaussianLearner
from braided.store import MAX_COUNT

# Places in `shape` after those of every Gaussian learner: where its own arrays start.
_UNITS_AT, _ASIDE_AT, _FIGURES_AT = range(PLACES, PLACES + 3)
# Per feature: origin and size of its unit; count, mean and squared deviations of its values.
_ORIGIN, _SIZE, _COUNT, _MEAN, _SQUARES = range(5)
_PER_UNIT = 5
# Figures: first target, records learned, noise variance; for the record set aside its target, the part of its weight
# that was not learned, how many records it still waits, and the evidence for it; how many suspicious residuals in a row
# were alike, and the last one.
_FIRST, _SEEN, _NOISE, _TARGET, _PART, _WAIT, _EVIDENCE, _ALIKE, _LAST_OFF = range(9)
_FIGURES = 9
#: Values are clipped at this many units as inputs, and at this many deviations in the statistics.
_U_BOUND, _COUNTED_BOUND = 50.0, 100.0
#: A unit is renewed after these counts, when the mean has moved by this share of it, or when its size changes by this
#: factor.
_RENEWALS, _MOVED, _GROWN = (2.0, 4.0, 8.0, 16.0), 0.5, 2.0
#: A squared residual of this many predictive variances is suspicious, from this many records on.
_SUSPICIOUS, _TRUSTED = 100.0, 10.0
#: A suspicious record waits for this many others, or until the evidence is this strong.
_PATIENCE, _ENOUGH = 10.0, 10.0
_NOISE_MEMORY = 1_000.0
#: A suspicious residual counts as at most this many times the noise.
_MAX_GROWTH = 4.0
#: Below this share of the squared prediction, noise is rounding and gives no scale for outliers.
_NOTHING = 1e-24
_LARGEST, _SMALLEST = 1e140, 1e-140


@dataclass(frozen=True)
class ExactConfig(LearnerConfig):
    """Settings of exact linear regression.

    Attributes
    ----------
    prior_variance
        P0, in units of the noise: the larger, the fewer records overcome the prior.
    full_covariance_up_to
        With more inputs than this (the bias counted), P is a diagonal, and what is learned is no longer exact.
    """

    prior_variance: float = 100.0
    full_covariance_up_to: int = 256
    #: It takes raw values and targets (`kernels.raw`).
    raw: ClassVar[bool] = True
    mask_inputs: ClassVar[bool] = False
    forgetting: ClassVar[float] = 0.0
    inputs: ClassVar[str] = "plain"

    def __post_init__(self) -> None:
        checks.above(self, 0.0, "prior_variance")
        checks.sizes(self, 0, "full_covariance_up_to")


@kernel()
def _filled(shape, x, work64):
    """Whether the record has a value for every feature."""
    return work64[PLACED] > 0 and has_planes(x, shape[FEATURES])


@kernel()
def _list_inputs(shape, double, x, active, work64, index):
    """u = [1 ; (value - origin) / size] over the features that have a value; returns its length."""
    filled, u = _filled(shape, x, work64), work64[VALUES_AT + shape[STRIDE] :]
    n = 1 + (shape[FEATURES] if filled else active.shape[0])
    index[0], u[0] = 0, 1.0
    for k in range(n - 1):
        slot = k if filled else active[k]
        value = work64[VALUES_AT + k] if work64[PLACED] > 0 else np.float64(x[slot])
        unit = _unit(shape, double, slot)
        index[1 + k], u[1 + k] = 1 + slot, 0.0
        if unit[_SQUARES] > 0.0:
            bound = _U_BOUND if unit[_COUNT] >= _TRUSTED else _LARGEST
            u[1 + k] = clipped((value - unit[_ORIGIN]) / unit[_SIZE], bound)
        elif unit[_COUNT] > 0 and value != unit[_ORIGIN]:
            u[1 + k] = 1.0 if value > unit[_ORIGIN] else -1.0
    return n


@kernel()
def _unit(shape, double, slot):
    """Unit and statistics of a feature."""
    start = shape[_UNITS_AT] + _PER_UNIT * slot
    return double[start : start + _PER_UNIT]


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    n = _list_inputs(shape, double, x, active, work64, index)
    mean, u = double[shape[MEAN_AT] : shape[MEAN_AT] + shape[STRIDE]], work64[VALUES_AT + shape[STRIDE] :]
    work64[ANSWER] = double[shape[_FIGURES_AT] + _FIRST] + inner(mean, shape[FORM], index, u, n)
    scores[0] = work64[ANSWER]


@kernel()
def _step(shape, double, index, n, pu, q, residual, weight):
    """P <- (P^-1 + weight u u^T)^-1, m <- m + weight P u residual, from P u and u P u; false if not finite."""
    full, stride, size = shape[FORM], shape[STRIDE], shape[INPUTS]
    mean, covariance = double[shape[MEAN_AT] : shape[MEAN_AT] + stride], double[shape[COVARIANCE_AT] :]
    gain = weight / (1.0 + weight * q)
    if not (gain >= 0.0 and np.isfinite(gain * residual)):
        return False
    correct(mean, full, size, index, n, pu, gain * residual)
    shrink(covariance, full, stride, size, index, n, pu, gain)
    return True


@kernel()
def _weigh_evidence(shape, double, index, n, u, pu, residual, work):
    """Compare this record's prediction with and without the record set aside; returns whether that was learned.

    `pu` is P u. With the record (v, z) of weight c learned, the prediction would be larger by
    c u P v (z - v m) / (1 + c v P v).
    """
    full, stride, size = shape[FORM], shape[STRIDE], shape[INPUTS]
    mean, covariance = double[shape[MEAN_AT] : shape[MEAN_AT] + stride], double[shape[COVARIANCE_AT] :]
    figures, aside = double[shape[_FIGURES_AT] :], double[shape[_ASIDE_AT] : shape[_ASIDE_AT] + stride]
    together = 0.0
    if full:
        for i in range(size):
            together += aside[i] * pu[i]
    else:
        for k in range(n):
            together += aside[index[k]] * pu[k]
    off = figures[_TARGET]
    for i in range(size):
        index[i] = i
        off -= mean[i] * aside[i]
    q = times_covariance(covariance, full, stride, size, index, aside, size, work)
    gain = figures[_PART] / (1.0 + figures[_PART] * q)
    better = residual - gain * together * off
    figures[_EVIDENCE] += (residual * residual - better * better) / max(figures[_NOISE], 1e-300)
    figures[_WAIT] = max(figures[_WAIT] - 1.0, 0.0)
    if not figures[_EVIDENCE] > -_ENOUGH:
        figures[_WAIT] = 0.0
    elif figures[_EVIDENCE] > _ENOUGH:
        figures[_WAIT] = 0.0
        return _step(shape, double, index, size, work, q, off, figures[_PART])
    return False


@kernel()
def _renew(shape, double, slot, unit, origin, size_of_unit, prior):
    """Carry m and P over to another unit of a feature, exactly, and the prior of its weight with them.

    From u to a u + b: m_0 -= m_j b / a and m_j /= a, and P likewise. The prior precision of m_j has become a^2 / P0 and
    is 1 / P0 in the new unit; the difference enters as an observation of m_j.
    """
    full, stride, size, j = shape[FORM], shape[STRIDE], shape[INPUTS], 1 + slot
    mean, covariance = double[shape[MEAN_AT] : shape[MEAN_AT] + stride], double[shape[COVARIANCE_AT] :]
    a, b = unit[_SIZE] / size_of_unit, (unit[_ORIGIN] - origin) / size_of_unit
    unit[_ORIGIN], unit[_SIZE] = origin, size_of_unit
    aside = double[shape[_ASIDE_AT] : shape[_ASIDE_AT] + stride]
    aside[j] = a * aside[j] + b * aside[0]
    mean[0] -= mean[j] * b / a
    mean[j] /= a
    precision = (1.0 - a * a) / prior
    if not full:
        covariance[0] += covariance[j] * (b / a) * (b / a)
        covariance[j] /= a * a
        share = precision / max(1.0 + precision * covariance[j], 1e-9)
        mean[j] -= share * mean[j] * covariance[j]
        covariance[j] = max(covariance[j] - share * covariance[j] * covariance[j], 1e-30)
        return
    for i in range(size):
        covariance[i] -= covariance[j * stride + i] * b / a
    for i in range(size):
        covariance[i * stride] -= covariance[i * stride + j] * b / a
    for i in range(size):
        covariance[j * stride + i] /= a
    for i in range(size):
        covariance[i * stride + j] /= a
    variance, weight = covariance[j * stride + j], mean[j]
    share = precision / max(1.0 + precision * variance, 1e-9)
    for i in range(size):
        mean[i] -= share * weight * covariance[i * stride + j]
    for i in range(size):
        if i != j:
            lost = share * covariance[i * stride + j]
            for k in range(size):
                if k != j:
                    covariance[i * stride + k] -= lost * covariance[j * stride + k]
    kept = 1.0 - share * variance
    for i in range(size):
        covariance[i * stride + j] *= kept
        if i != j:
            covariance[j * stride + i] *= kept


@kernel()
def _follow(shape, double, slot, value, prior):
    """Take a value into its feature's statistics, and renew the unit if it no longer fits."""
    unit = _unit(shape, double, slot)
    if unit[_COUNT] == 0:
        unit[_ORIGIN] = unit[_MEAN] = value
        if double[shape[_FIGURES_AT] + _SEEN] > _TRUSTED:  # records without it said nothing of where its origin is
            double[shape[COVARIANCE_AT]] += prior
    if unit[_SQUARES] == 0.0:  # all u so far were 0, and this one is 1 or -1: nothing to carry over
        unit[_SIZE] = max(abs(value - unit[_ORIGIN]), _SMALLEST)
    deviation = np.sqrt(unit[_SQUARES] / unit[_COUNT]) if unit[_COUNT] > 0 else 0.0
    if unit[_COUNT] >= _TRUSTED and deviation > 0:
        value = unit[_MEAN] + clipped(value - unit[_MEAN], _COUNTED_BOUND * deviation)
    unit[_COUNT] = min(unit[_COUNT] + 1.0, MAX_COUNT)
    delta = value - unit[_MEAN]
    unit[_MEAN] += delta / unit[_COUNT]
    unit[_SQUARES] += delta * (value - unit[_MEAN])
    deviation = np.sqrt(unit[_SQUARES] / unit[_COUNT])
    if not (deviation > 1e-12 * abs(unit[_MEAN]) and np.isfinite(deviation)):
        return
    early = False
    for count in _RENEWALS:
        early = early or unit[_COUNT] == count
    moved = abs(unit[_MEAN] - unit[_ORIGIN]) > _MOVED * unit[_SIZE]
    if early or moved or deviation > _GROWN * unit[_SIZE] or deviation * _GROWN < unit[_SIZE]:
        _renew(shape, double, slot, unit, unit[_MEAN], deviation, prior)


@kernel()
def _count_alike(figures, residual):
    """Count suspicious residuals in a row that are alike; returns whether there were enough to believe this one."""
    figures[_ALIKE] = min(figures[_ALIKE] + 1.0, ALIKE_DOUBTS) if alike(residual, figures[_LAST_OFF]) else 1.0
    figures[_LAST_OFF] = residual
    return figures[_ALIKE] >= ALIKE_DOUBTS


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index):
    filled, stride, size = _filled(shape, x, work64), shape[STRIDE], shape[INPUTS]
    n = 1 + (shape[FEATURES] if filled else active.shape[0])
    u = work64[VALUES_AT + stride : VALUES_AT + 2 * stride]
    pu = work64[VALUES_AT + 2 * stride : VALUES_AT + 3 * stride]
    figures, aside = double[shape[_FIGURES_AT] :], double[shape[_ASIDE_AT] : shape[_ASIDE_AT] + stride]
    mean, covariance = double[shape[MEAN_AT] : shape[MEAN_AT] + stride], double[shape[COVARIANCE_AT] :]
    y, share = clipped(y, _LARGEST), 1.0
    if work64[PLACED] > 0 and work64[DOUBTFUL] > 0:
        return True
    if figures[_SEEN] == 0:
        figures[_FIRST] = y
    target = y - figures[_FIRST]
    residual = target - inner(mean, shape[FORM], index, u, n)
    q = times_covariance(covariance, shape[FORM], stride, size, index, u, n, pu)
    if figures[_WAIT] > 0:
        believed = _weigh_evidence(shape, double, index, n, u, pu, residual, work64[VALUES_AT + 3 * stride :])
        n = _list_inputs(shape, double, x, active, work64, index)
        if believed:
            residual = target - inner(mean, shape[FORM], index, u, n)
            q = times_covariance(covariance, shape[FORM], stride, size, index, u, n, pu)
    answer = target - residual
    if figures[_SEEN] >= _TRUSTED and figures[_NOISE] > _NOTHING * answer * answer:
        usual = _SUSPICIOUS * figures[_NOISE] * (1.0 + q)
        if residual * residual > usual and not _count_alike(figures, residual):
            share = np.sqrt(usual) / (abs(residual) * (1.0 + q) * (1.0 + q))
            if figures[_WAIT] == 0:
                aside[:] = 0.0
                for k in range(n):
                    aside[index[k]] = u[k]
                figures[_TARGET], figures[_PART] = target, (1.0 - share) * weight
                figures[_WAIT], figures[_EVIDENCE] = _PATIENCE, 0.0
    if figures[_SEEN] > 0:
        noise = share * residual * residual / (1.0 + q)
        if share < 1.0:
            noise = min(noise, _MAX_GROWTH * figures[_NOISE])
        figures[_NOISE] += (noise - figures[_NOISE]) / min(figures[_SEEN], _NOISE_MEMORY)
    figures[_SEEN] = min(figures[_SEEN] + 1.0, MAX_COUNT)
    fine = _step(shape, double, index, n, pu, q, residual, weight * share)
    for k in range(active.shape[0]):
        slot = active[k]
        value = work64[VALUES_AT + (slot if filled else k)] if work64[PLACED] > 0 else np.float64(x[slot])
        _follow(shape, double, slot, value, hyper[PRIOR])
    return fine


class ExactLinear(GaussianLearner):
    r"""Bayesian linear regression on raw values: recursive least squares on any scale.

    With u_0 = 1, u_j = (x_j - origin_j) / size_j, the first target y_0, and the prior m ~ N(0, P0 I) with P in units of
    the noise variance:

        K = P u / (1 + u P u),   m += K (y - y_0 - u m),   P -= K (P u)^T

    which is ridge regression on all records so far (paper, appendix "Online Bayesian Linear Regression"). A missing x_j
    is estimated where other learners have missing values filled in, otherwise u_j = 0. u_j is 0 for the first value,
    and 1 or -1 for the first different one.

    `linear` sees values standardised by running statistics, so its inputs move while its posterior stays. Here the unit
    of a feature stands still. It is renewed, to the mean and standard deviation so far, after 2, 4, 8 and 16 values and
    when it no longer fits: the mean has moved by half a unit, or the deviation has doubled or halved. That happens a
    number of times that grows with the logarithm of the stream. A feature that appears after ten records adds P0 to the
    variance of the bias, as its origin is arbitrary. Mean and covariance are carried over exactly (a
    diagonal covariance, of more than `full_covariance_up_to` inputs, without the terms off the diagonal).

    What is believed when:

    - A record in which at least half of the values are outliers (`kernels.scale`) is not learned.
    - A residual of more than ten predictive deviations sqrt(s^2 (1 + u P u)) is suspicious, once ten records are known.
      s^2 is the running mean of residual^2 / (1 + u P u) over about 1,000 records, where suspicious ones count as 4 s^2
      at most. The record is learned with weight 10 deviations / (|residual| (1 + u P u)^2), which bounds the influence
      of one target and of one outlying value. The rest of it is set aside for ten records: as soon as it would have
      improved their predictions, by ten noise variances in total, it is learned; if it would have made them as much
      worse, it is dropped. So a setpoint that jumps is learned with the second record, and a wrong reading is
      forgotten. The twentieth consecutive suspicious residual of the same sign and similar size, and those after it,
      are learned in full.
    - Values are clipped at 50 units once ten values have set the unit.

    The score is the prediction in the units of the target. A record of weight c has noise variance 1 / c.

    Examples
    --------
    >>> import numpy as np
    >>> learner = ExactLinear(ExactConfig())
    >>> learner.grow(1, 1)
    >>> there, nothing = np.array([True]), np.zeros(1, dtype=np.float32)
    >>> for celsius in range(0, 100, 5):
    ...     _ = learner.learn(np.array([celsius], dtype=np.float32), there, 32.0 + 1.8 * celsius, nothing)
    >>> print(f"{learner.scores(np.array([25.0], dtype=np.float32), there)[0]:.1f}")
    77.0
    """

    name = "exact"
    task = "regression"
    config: ExactConfig  # type: ignore[assignment]
    forward = _forward
    update = _learn

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Those of every Gaussian learner; units, the record set aside, and figures."""
        low, high = np.full((n_features, _PER_UNIT), -np.inf), np.full((n_features, _PER_UNIT), np.inf)
        low[:, [_SIZE, _COUNT, _SQUARES]], high[:, _COUNT] = 0.0, MAX_COUNT
        figures = np.repeat([[-np.inf], [np.inf]], _FIGURES, axis=1)
        figures[0, [_SEEN, _NOISE, _PART, _WAIT, _ALIKE]] = 0.0
        figures[1, [_SEEN, _WAIT, _ALIKE]] = MAX_COUNT, _PATIENCE, ALIKE_DOUBTS
        return {
            **super().plan(n_features, n_outputs),
            "units": ArrayPlan((n_features, _PER_UNIT), double=True, low=low, high=high, finite=True),
            "aside": ArrayPlan((self.n_inputs(n_features),), double=True, finite=True),
            "figures": ArrayPlan((_FIGURES,), double=True, low=figures[0], high=figures[1]),
        }

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """Those of every Gaussian learner, then where the other arrays start."""
        return [*super().shape_numbers(offsets), *(offsets[name] for name in ("units", "aside", "figures"))]

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """The three numbers and the values of `kernels.raw`; u, P u, and P times the record aside; the places of u."""
        n = self.n_inputs(n_features)
        return 0, VALUES_AT + 4 * n, n
