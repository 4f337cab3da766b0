"""Missing values filled in from the others, and values by rank: what learners may see beside a record's own values.

Per feature j, with z its standardised value (`kernels.scale`) and up to KEPT of its past values in order, k of them:

    u = (#{b < x} + (#{b = x} + 1) / 2) / (k + 1),   q = Phi^-1(u)
    s = (q - mean) / sigma_j                         within +-S_BOUND

with running mean and deviation sigma_j of q, this one included. A value enters the kept ones until there are KEPT of
them; then it replaces one drawn at random, with probability max(KEPT / n, MIN_SHARE) after n values. sigma_j is 1 for
a continuous feature, and less for a discrete one that is mostly the same.

For z, and in the same way for s: C_ij is the sum of z_i z_j over the past records with both, of which there were N_ij,

    rho_ij = SHRINK C_ij / (N_ij + PRIOR_COUNT),   rho_ii = 1

worked out at each of the first EVERY records and then at every EVERY-th. With A the available features, a comes
from a few steps of conjugate gradients on rho_AA a = z_A, and a missing value is its conditional mean
z_j = sum_{i in A} rho_ji a_i, within +-FILL_BOUND: linear regression on whatever is there, by correlations alone.

A missing feature's own past takes part. It was last seen g records ago, with the value l_j. For each feature and each
range of g from one power of two to the next, S is the sum of z_j l_j over the past records where j came back, n of
them, and r_j = SHRINK S / (n + PRIOR_COUNT). If that is over MIN_CARRIED, l_j is taken as a reading of z_j that is
right by r_j: it joins A as one more feature, whose correlation with feature i is r_j rho_ij. So a sensor that is silent
is filled from its last reading and from its neighbours, by what each is worth. Nothing is carried where labels come
late: records are learned with their labels, and a feature's last reading is then old.

A doubtful record (`kernels.scale`) says nothing of all this. When a feature's statistics start over, because its unit
has changed, so do its kept values.

The planes of x, each as long as there are features:

    PLAIN    z, and 0 where it is missing
    FILLED   z, filled
    SCALED   z_j sigma_j, filled
    SCORES   s_j sigma_j, filled
    RAW      the value less the feature's first one; infinity once its statistics have started over (`kernels.scale`)

After them x has PAST numbers: where the target is one, its past in units of its statistics (`kernels.scale`). For
classes the last of them says whether to leave out the newest labels, and the one before it has the label that no
longer is (`kernels.loop`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from braided.kernels.calls import doubles, singles
from braided.kernels.dense import copy
from braided.kernels.native import kernel
from braided.kernels.random import mix, unit_interval
from braided.kernels.scale import PAST, RESTARTS
from braided.store import MAX_COUNT

PLAIN, FILLED, SCALED, SCORES, RAW = range(5)
PLANES = 5
#: With more features than this nothing is filled in, and there are no scores: the work grows with their square. A power
#: of two, as capacities are.
MAX_FEATURES = 256
KEPT = 512
MIN_SHARE = 0.05
S_BOUND = 8.0
FILL_BOUND = 3.0
SHRINK = 0.9
PRIOR_COUNT = 30.0
EVERY = 32
MIN_CARRIED = 0.2
_STEPS = 5
#: Gaps of 1, 2 to 3, 4 to 7, ... records; the last has all that are longer.
GAPS = 8
# A feature's figures: values so far; count, mean and squared deviations of q; how often its statistics had started
# over; the record that had it last, and z and s there; then for each gap how often it came back, and the sums for z
# and s.
VALUES, COUNT, MEAN, SQUARES, EPOCH, SEEN_AT, LAST_Z, LAST_S, BACK = range(9)
_RETURNS, _SUM_Z, _SUM_S = range(3)
_PER_GAP = 3
FIGURES = BACK + _PER_GAP * GAPS
# The memory: how many records there were; then kept values, figures and pairs. The pairs are N, and C of z and of s.
RECORDS, _KEPT_AT = 0, 1
_TOGETHER, _SUMS = 0, 1
# The correlations, and how right what is carried is: of z, and of s.
_OF_Z, _OF_S = 0, 1
# After the planes of x, where targets are classes: the label that is no longer among the newest (-1 for none), and
# whether to leave out the newest labels.
COME, LATE = -2, -1


def _bounds() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The bounds of each figure, to check what was read from a file: of counts, and of squared deviations."""
    low, high = np.zeros(FIGURES), np.full(FIGURES, MAX_COUNT)
    high[SQUARES] = np.inf
    sums = [BACK + _PER_GAP * gap + which for gap in range(GAPS) for which in (_SUM_Z, _SUM_S)]
    numbers = [MEAN, LAST_Z, LAST_S, *sums]
    low[numbers], high[numbers] = -np.inf, np.inf
    return low, high


FIGURE_BOUNDS = _bounds()
# Columns of the stage's row: features (0 for none), then address and length of memory, correlations and scratch; and
# whether features are carried.
FEATURES, MEMORY, CORRELATIONS, SCRATCH, CARRY = 0, 1, 3, 5, 7
COLUMNS = 8


@kernel()
def has_planes(x, n_features):
    """Whether x, at whose end the target's past may stand, holds more than the features' own values."""
    return x.shape[0] > n_features + PAST


def memory_size(n: int) -> int:
    """Numbers kept for n features: records, kept values, figures, N, C of z, C of s."""
    return _KEPT_AT + n * KEPT + n * FIGURES + 3 * n * n


def scratch_size(n: int) -> int:
    """s by feature, sigma by feature, availability; what is listed; two times how right; four vectors of gradients."""
    return 10 * n


@kernel()
def _split(memory, n):
    """Kept values, figures, N, C of z, C of s."""
    at = _KEPT_AT
    kept = memory[at : at + n * KEPT].reshape(n, KEPT)
    at += n * KEPT
    figures = memory[at : at + n * FIGURES].reshape(n, FIGURES)
    at += n * FIGURES
    pairs = memory[at : at + 3 * n * n].reshape(3, n, n)
    return kept, figures, pairs


@kernel()
def normal_quantile(u):
    """Phi^-1(u), by the rational approximation of Acklam (2003), good to nine digits."""
    if u < 0.02425 or u > 1.0 - 0.02425:
        t = np.sqrt(-2.0 * np.log(min(u, 1.0 - u)))
        top = ((((-7.784894002430293e-03 * t - 3.223964580411365e-01) * t - 2.400758277161838e00) * t
                - 2.549732539343734e00) * t + 4.374664141464968e00) * t + 2.938163982698783e00  # fmt: skip
        bottom = (((7.784695709041462e-03 * t + 3.224671290700398e-01) * t + 2.445134137142996e00) * t
                  + 3.754408661907416e00) * t + 1.0  # fmt: skip
        return top / bottom if u < 0.5 else -top / bottom
    d = u - 0.5
    t = d * d
    top = ((((-3.969683028665376e01 * t + 2.209460984245205e02) * t - 2.759285104469687e02) * t
            + 1.383577518672690e02) * t - 3.066479806614716e01) * t + 2.506628277459239e00  # fmt: skip
    bottom = ((((-5.447609879822406e01 * t + 1.615858368580409e02) * t - 1.556989798598866e02) * t
               + 6.680131188771972e01) * t - 1.328068155288572e01) * t + 1.0  # fmt: skip
    return d * top / bottom


@kernel()
def _place(values, n, x, after):
    """Where x belongs among n ordered values: before those that are equal to it, or after them."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if values[middle] < x or (after and values[middle] == x):
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def rank_score(values, n, x):
    """q of x among n ordered values."""
    below, upto = _place(values, n, x, False), _place(values, n, x, True)
    return normal_quantile((below + 0.5 * (upto - below + 1)) / (n + 1))


@kernel()
def _including(q, figures):
    """Count, mean and squared deviations of q's with this one among them."""
    count = figures[COUNT] + 1.0
    gap = q - figures[MEAN]
    mean = figures[MEAN] + gap / count
    return count, mean, figures[SQUARES] + gap * (q - mean)


@kernel()
def _keep(values, figures, x, slot):
    """Take a value into the kept ones, or leave it."""
    n = max(int(figures[VALUES]), 0)
    figures[VALUES] += 1.0
    if n < KEPT:
        hole = n
    else:
        draw = mix(np.uint64(slot), np.uint64(n))
        if unit_interval(draw) >= max(KEPT / n, MIN_SHARE):
            return
        hole = int(unit_interval(mix(draw, np.uint64(1))) * KEPT)
    while hole > 0 and values[hole - 1] > x:
        values[hole] = values[hole - 1]
        hole -= 1
    last = min(n, KEPT - 1)
    while hole < last and values[hole + 1] < x:
        values[hole] = values[hole + 1]
        hole += 1
    values[hole] = x


@kernel()
def _times(correlations, right, vector, listed, out):
    """out = rho W vector, for those that are listed; W has how right each is."""
    n = out.shape[0]
    out[:] = 0
    for at in listed:
        j = int(at)
        factor = vector[j] * right[j]
        row = correlations[j]
        for i in range(n):
            out[i] += factor * row[i]


@kernel()
def _complete(correlations, values, right, listed, there, scratch):
    """Fill in the missing ones of some features' values by their conditional means, given those that are listed."""
    n = values.shape[0]
    solution, residual, direction, product = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n], scratch[3 * n :]
    solution[:] = 0
    direction[:] = 0
    one, squares = values.dtype.type(1), values.dtype.type(0)
    for at in listed:
        j = int(at)
        residual[j] = direction[j] = values[j]
        squares += values[j] * values[j]
    for _ in range(_STEPS):
        _times(correlations, right, direction, listed, product)
        curvature = values.dtype.type(0)
        for at in listed:
            j = int(at)
            product[j] = right[j] * product[j] + (one - right[j] * right[j]) * direction[j]
            curvature += direction[j] * product[j]
        alpha = squares / max(curvature, values.dtype.type(1e-6))
        left = values.dtype.type(0)
        for at in listed:
            j = int(at)
            solution[j] += alpha * direction[j]
            residual[j] -= alpha * product[j]
            left += residual[j] * residual[j]
        beta = left / max(squares, values.dtype.type(1e-12))
        squares = left
        for at in listed:
            j = int(at)
            direction[j] = residual[j] + beta * direction[j]
    _times(correlations, right, solution, listed, product)
    bound = values.dtype.type(FILL_BOUND)
    for j in range(n):
        if there[j] == 0:
            values[j] = min(max(product[j], -bound), bound) if np.isfinite(product[j]) else 0


@kernel()
def _gap(now, seen_at):
    """The place of a gap among the ranges of gaps."""
    gap, place = max(now - seen_at, 1.0), 0
    while gap >= 2.0 and place < GAPS - 1:
        gap *= 0.5
        place += 1
    return place


@kernel()
def _carry(figures, now, filled, by_rank, there, right, listed, n_listed):
    """List the missing features whose last values say something, with these; returns how many are listed then."""
    for j in range(there.shape[0]):
        if there[j] == 0 and figures[j, SEEN_AT] > 0:
            place = BACK + _PER_GAP * _gap(now, figures[j, SEEN_AT])
            known = SHRINK / (figures[j, place + _RETURNS] + PRIOR_COUNT)
            of_z, of_s = known * figures[j, place + _SUM_Z], known * figures[j, place + _SUM_S]
            if of_z > MIN_CARRIED or of_s > MIN_CARRIED:
                right[_OF_Z, j] = min(of_z, 1.0) if of_z > MIN_CARRIED else 0.0
                right[_OF_S, j] = min(of_s, 1.0) if of_s > MIN_CARRIED else 0.0
                filled[j] = figures[j, LAST_Z] if of_z > MIN_CARRIED else 0.0
                by_rank[j] = figures[j, LAST_S] if of_s > MIN_CARRIED else 0.0
                listed[n_listed] = j
                n_listed += 1
    return n_listed


@kernel()
def fill(stage, values, columns, x, active):
    """Fill the planes of x beyond the first from one raw record; changes nothing but x and the stage's scratch."""
    n = stage[FEATURES]
    correlations = singles(stage, CORRELATIONS).reshape(2, n, n)
    scratch = singles(stage, SCRATCH)
    memory = doubles(stage, MEMORY)
    kept, figures, _ = _split(memory, n)
    scores, sigma, there, vectors = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n], scratch[6 * n :]
    listed, right = scratch[3 * n : 4 * n], scratch[4 * n : 6 * n].reshape(2, n)
    filled = x[FILLED * n : (FILLED + 1) * n]
    there[:] = 0
    scores[:] = 0
    copy(x, filled)
    for j in range(n):
        count = figures[j, COUNT]
        sigma[j] = np.sqrt(figures[j, SQUARES] / count) if count > 0 else 0.0
    for j in active:
        there[j] = 1
        q = rank_score(kept[j], min(max(int(figures[j, VALUES]), 0), KEPT), values[columns[j]])
        count, mean, squares = _including(q, figures[j])
        deviation = np.sqrt(squares / count)
        sigma[j] = deviation
        if deviation > 1e-9:
            scores[j] = min(max((q - mean) / deviation, -S_BOUND), S_BOUND)
    by_rank = x[SCORES * n : (SCORES + 1) * n]
    copy(scores, by_rank)
    if active.shape[0] < n:
        n_listed = active.shape[0]
        for place in range(n_listed):
            listed[place] = active[place]
            right[_OF_Z, active[place]] = right[_OF_S, active[place]] = 1
        if stage[CARRY] > 0:
            n_listed = _carry(figures, memory[RECORDS] + 1.0, filled, by_rank, there, right, listed, n_listed)
        _complete(correlations[_OF_Z], filled, right[_OF_Z], listed[:n_listed], there, vectors)
        _complete(correlations[_OF_S], by_rank, right[_OF_S], listed[:n_listed], there, vectors)
    for j in range(n):
        x[SCALED * n + j] = filled[j] * sigma[j]
        by_rank[j] *= sigma[j]


@kernel()
def take_in(stage, values, columns, statistics, x, active, doubtful):
    """Learn from the record that was filled last: its values, which go together, and how long they stay."""
    n = stage[FEATURES]
    memory = doubles(stage, MEMORY)
    correlations = singles(stage, CORRELATIONS).reshape(2, n, n)
    scratch = singles(stage, SCRATCH)
    scores, there = scratch[:n], scratch[2 * n : 3 * n]
    kept, figures, pairs = _split(memory, n)
    memory[RECORDS] += 1.0
    if doubtful:
        active = active[:0]
    for j in active:
        value = values[columns[j]]
        if statistics[j, RESTARTS] != figures[j, EPOCH]:
            figures[j, :EPOCH] = 0.0
            figures[j, EPOCH] = statistics[j, RESTARTS]
        q = rank_score(kept[j], min(max(int(figures[j, VALUES]), 0), KEPT), value)
        figures[j, COUNT], figures[j, MEAN], figures[j, SQUARES] = _including(q, figures[j])
        _keep(kept[j], figures[j], value, j)
        together, of_z, of_s = pairs[_TOGETHER, j], pairs[_SUMS + _OF_Z, j], pairs[_SUMS + _OF_S, j]
        z, s = np.float64(x[j]), np.float64(scores[j])
        for i in range(n):
            together[i] += there[i]
            of_z[i] += z * x[i]
            of_s[i] += s * scores[i]
        if figures[j, SEEN_AT] > 0:
            place = BACK + _PER_GAP * _gap(memory[RECORDS], figures[j, SEEN_AT])
            figures[j, place + _RETURNS] += 1.0
            figures[j, place + _SUM_Z] += z * figures[j, LAST_Z]
            figures[j, place + _SUM_S] += s * figures[j, LAST_S]
        figures[j, SEEN_AT], figures[j, LAST_Z], figures[j, LAST_S] = memory[RECORDS], z, s
    if memory[RECORDS] <= EVERY or memory[RECORDS] % EVERY == 0:
        for which in (_OF_Z, _OF_S):
            for j in range(n):
                for i in range(n):
                    product, count = pairs[_SUMS + which, j, i], pairs[_TOGETHER, j, i]
                    correlations[which, j, i] = SHRINK * product / (count + PRIOR_COUNT)
                correlations[which, j, j] = 1
