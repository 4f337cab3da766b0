"""Improper online logistic regression by an optimisation per record: FOLKLORE, a baseline for the fast learner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.errors import BraidedError
from braided.kernels.activations import softmax
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.dense import copy
from braided.kernels.inputs import PLAIN
from braided.kernels.native import kernel
from braided.kernels.posterior import SMALLEST_VARIANCE, list_inputs, n_listed
from braided.kernels.record_weight import n_steps
from braided.learners.base import ArrayPlan, CompiledLearner, LearnerConfig

#: Weights, of all classes together; P has the square of it.
_MAX_WEIGHTS = 2_048
#: Newton steps of one record, and halvings of a step. They end when the scores move by less than `_CLOSE`.
_MAX_NEWTON, _MAX_HALVINGS, _CLOSE = 50, 30, 1e-10


@dataclass(frozen=True)
class FolkloreConfig(LearnerConfig):
    """Settings of FOLKLORE; the formulas are in `Folklore`.

    Attributes
    ----------
    regularisation
        lambda: the weights start with the penalty lambda |W|^2 / 2.
    largest_score
        C, a bound of the scores of the weights that are competed with (the paper's B R). The larger it is, the less is
        learned from one record.
    """

    regularisation: float = 10.0
    largest_score: float = 1.0

    def __post_init__(self) -> None:
        checks.above(self, 0.0, "regularisation", "largest_score")


# Places in `shape`: outputs, features, inputs in use, row length of P, its start.
_OUTPUTS, _FEATURES, _INPUTS, _STRIDE, _COVARIANCE_AT = 0, 1, 2, 3, 4
# In `hyper`: eta.
_ETA = 0
# The scratch. Squares: G; a matrix and what it is solved for; eta H. Vectors: a, the scores z, p, then F of Newton's
# method or g + eta H (a - z), and a trial of z or how far the weights move.
_G, _MATRIX, _SOLUTION, _HESSIAN = range(4)
_A, _Z, _P, _RESIDUAL, _TRIAL = range(5)
_SQUARES, _VECTORS = 4, 5


@kernel()
def _solve(matrix, right, n):
    """right <- matrix^-1 right, for an n x n matrix that is overwritten; by elimination with the largest pivot."""
    for column in range(n):
        best = column
        for row in range(column + 1, n):
            if abs(matrix[row, column]) > abs(matrix[best, column]):
                best = row
        if not abs(matrix[best, column]) > 0.0:
            return False
        if best != column:
            for j in range(n):
                matrix[best, j], matrix[column, j] = matrix[column, j], matrix[best, j]
            for j in range(right.shape[1]):
                right[best, j], right[column, j] = right[column, j], right[best, j]
        for row in range(n):
            share = matrix[row, column] / matrix[column, column]
            if row != column and share != 0.0:
                for j in range(column, n):
                    matrix[row, j] -= share * matrix[column, j]
                for j in range(right.shape[1]):
                    right[row, j] -= share * right[column, j]
    for row in range(n):
        for j in range(right.shape[1]):
            right[row, j] /= matrix[row, row]
    return True


@kernel()
def _parts(shape, work64):
    """The scratch after u: B = P X^T, the squares and the vectors."""
    n_outputs, n_inputs = shape[_OUTPUTS], shape[_INPUTS]
    square = n_outputs * n_outputs
    at = n_inputs
    b = work64[at : at + n_inputs * square].reshape(n_inputs * n_outputs, n_outputs)
    at += n_inputs * square
    squares = work64[at : at + _SQUARES * square].reshape(_SQUARES, n_outputs, n_outputs)
    at += _SQUARES * square
    vectors = work64[at : at + _VECTORS * n_outputs].reshape(_VECTORS, n_outputs)
    return b, squares, vectors


@kernel()
def _misfit(g, a, z, p, f):
    """F = z - a + G (K p - 1) at p = softmax(z), which is 0 at the minimum; returns |F|^2."""
    n = z.shape[0]
    softmax(z, p)
    total = 0.0
    for k in range(n):
        f[k] = z[k] - a[k]
        for j in range(n):
            f[k] += g[k, j] * (n * p[j] - 1.0)
        total += f[k] * f[k]
    return total


@kernel()
def _find_scores(g, jacobian, step, a, z, p, f, trial):
    """z = argmin (z - a) G^-1 (z - a) / 2 + sum_k loss(z, k), by Newton's method.

    It begins at 0: with two classes no step from there goes too far, and from elsewhere it may.
    """
    n = z.shape[0]
    z[:] = 0.0
    misfit = _misfit(g, a, z, p, f)
    for _ in range(_MAX_NEWTON):
        for k in range(n):
            step[k, 0] = -f[k]
            for j in range(n):
                mean = 0.0
                for i in range(n):
                    mean += g[k, i] * p[i]
                jacobian[k, j] = (1.0 if k == j else 0.0) + n * p[j] * (g[k, j] - mean)
        if not _solve(jacobian, step[:, :1], n):
            return
        length, largest = 1.0, 0.0
        for k in range(n):
            largest = max(largest, abs(step[k, 0]))
        for _ in range(_MAX_HALVINGS):
            for k in range(n):
                trial[k] = z[k] + length * step[k, 0]
            found = _misfit(g, a, trial, p, f)
            if found <= misfit:
                break
            length /= 2.0
        if not found <= misfit:
            return
        copy(trial, z)
        misfit = found
        if length * largest <= _CLOSE:
            return


@kernel()
def _score(shape, double, work64, index, n):
    """B, G, a = X m and z for the n inputs listed in `index` and `work64`."""
    n_outputs, stride, start = shape[_OUTPUTS], shape[_STRIDE], shape[_COVARIANCE_AT]
    size = shape[_INPUTS] * n_outputs
    b, squares, vectors = _parts(shape, work64)
    g, a = squares[_G], vectors[_A]
    b[:] = 0.0
    for i in range(n):
        for k in range(n_outputs):
            row_at = start + (index[i] * n_outputs + k) * stride
            row = double[row_at : row_at + size]
            for j in range(size):
                b[j, k] += work64[i] * row[j]
    g[:] = 0.0
    a[:] = 0.0
    for i in range(n):
        for k in range(n_outputs):
            place = index[i] * n_outputs + k
            a[k] += work64[i] * double[place]
            for j in range(n_outputs):
                g[k, j] += work64[i] * b[place, j]
    _find_scores(
        g, squares[_MATRIX], squares[_SOLUTION], a, vectors[_Z], vectors[_P], vectors[_RESIDUAL], vectors[_TRIAL]
    )


@kernel()
def _step(shape, hyper, double, work64, y, part):
    """Take the surrogate loss of part of a record into m and P; false if it would not be finite."""
    n_outputs, stride, start = shape[_OUTPUTS], shape[_STRIDE], shape[_COVARIANCE_AT]
    size = shape[_INPUTS] * n_outputs
    b, squares, vectors = _parts(shape, work64)
    g, matrix, m, hessian = squares[_G], squares[_MATRIX], squares[_SOLUTION], squares[_HESSIAN]
    a, z, p, r, moved = vectors[_A], vectors[_Z], vectors[_P], vectors[_RESIDUAL], vectors[_TRIAL]
    softmax(z, p)
    eta = part * hyper[_ETA]
    for k in range(n_outputs):
        for j in range(n_outputs):
            hessian[k, j] = ((p[k] if k == j else 0.0) - p[k] * p[j]) * eta
    for k in range(n_outputs):
        r[k] = part * (p[k] - (1.0 if k == int(y) else 0.0))
        for j in range(n_outputs):
            r[k] += hessian[k, j] * (a[j] - z[j])
            m[k, j] = hessian[k, j]
            matrix[k, j] = 1.0 if k == j else 0.0
            for i in range(n_outputs):
                matrix[k, j] += hessian[k, i] * g[i, j]
    if not _solve(matrix, m, n_outputs):
        return False
    for k in range(n_outputs):
        moved[k] = r[k]
        for j in range(n_outputs):
            for i in range(n_outputs):
                moved[k] -= m[k, j] * g[j, i] * r[i]
    for k in range(n_outputs):
        if not np.isfinite(moved[k]):
            return False
        for j in range(n_outputs):
            if not np.isfinite(m[k, j]):
                return False
    for i in range(size):
        for k in range(n_outputs):
            double[i] -= b[i, k] * moved[k]
    _shrink(double[start:], stride, size, b, m, r)
    return True


@kernel()
def _shrink(flat, stride, size, b, m, scaled):
    """P -= B M B^T, the same on both sides of the diagonal; a variance that rounding would lose stays a tiny one."""
    n = m.shape[0]
    for i in range(size):
        for k in range(n):
            scaled[k] = 0.0
            for j in range(n):
                scaled[k] += b[i, j] * (m[j, k] + m[k, j]) / 2.0
        for other in range(i + 1):
            total = 0.0
            for k in range(n):
                total += scaled[k] * b[other, k]
            flat[i * stride + other] -= total
            flat[other * stride + i] = flat[i * stride + other]
    for i in range(size):
        if flat[i * stride + i] < SMALLEST_VARIANCE:
            for j in range(size):
                flat[i * stride + j] = 0.0
                flat[j * stride + i] = 0.0
            flat[i * stride + i] = SMALLEST_VARIANCE


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    n = list_inputs(x, active, False, shape[_FEATURES], PLAIN, index, work64)
    _score(shape, double, work64, index, n)
    _, _, vectors = _parts(shape, work64)
    for k in range(shape[_OUTPUTS]):
        scores[k] = vectors[_Z, k]


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index):
    n, steps = n_listed(x, active, False, shape[_FEATURES], PLAIN), n_steps(weight)
    for k in range(steps):
        if k > 0:
            _score(shape, double, work64, index, n)
        if not _step(shape, hyper, double, work64, y, weight / steps):
            return False
    return True


class Folklore(CompiledLearner):
    """FOLKLORE: fast rates for the logistic loss without a learning rate, by an optimisation per record.

    Agarwal, Kale and Zimmert, "Efficient methods for online multiclass logistic regression", 2021; for two classes it
    is Jezequel, Gaillard and Rudi's AIOLI of 2020. The MODL paper sets it aside because it is iterative. It is
    improper: the weights by which a record is predicted are chosen after its features are known, with the loss of every
    class that it may have, so that it is not predicted too boldly.

    With u = [1 ; x] over the available features, K classes, weights W (K, d), scores z = W u, p = softmax(z) and the
    loss l(z, k) = -log p_k, record t is predicted by

        W_t = argmin_W  lambda |W|^2 / 2 + sum_{s<t} l~_s(W) + sum_k l(W u_t, k)

    where, with g_s = p_s - e_{y_s} and H_s = diag(p_s) - p_s p_s^T, the losses before it stand as their surrogates

        l~_s(W) = g_s . (W - W_s) u_s + eta/2 |(W - W_s) u_s|^2_{H_s},        eta = 1 / (C + log(K) / 2)

    which lie below them for all W whose scores are within C. The sum of surrogates is (theta - m) P^-1 (theta - m) / 2
    over theta = vec(W), so with X theta = W u:

        B = P X^T,   G = X B,   a = X m
        predict    z = a - G (K p - 1)  at  p = softmax(z), solved by Newton's method in K numbers
        learn      M = eta H (I + eta G H)^-1,   m -= B (I - M G) (g + eta H (a - z)),   P -= B M B^T

    The scores are z. A record costs O(K^3 d^2), and Newton steps of O(K^3).

    A record of weight c takes n = min(ceil(c), 8) steps, each with g and eta H multiplied by c / n, and z found anew; c
    is taken within 1e-6 and 100.

    This follows AIOLI, with the surrogate of more than two classes, and was not compared with a program of FOLKLORE's
    authors: as in AIOLI the classes' losses are added up, and W is not confined to a ball.

    Examples
    --------
    >>> import numpy as np
    >>> learner = Folklore(FolkloreConfig())
    >>> learner.grow(1, 2)
    >>> everything, unused = np.array([True]), np.zeros(2, dtype=np.float32)
    >>> for value, label in [(-1.0, 0), (1.0, 1), (-2.0, 0), (2.0, 1)]:
    ...     _ = learner.learn(np.array([value], dtype=np.float32), everything, label, unused)
    >>> learner.scores(np.array([1.5], dtype=np.float32), everything).round(3)
    array([-0.256,  0.256], dtype=float32)
    """

    name = "folklore"
    task = "classification"
    config: FolkloreConfig
    forward = _forward
    update = _learn

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """A weight per input and class, those of one input side by side, and the inverse of their precision."""
        size = (1 + n_features) * n_outputs
        return {
            "mean": ArrayPlan((size,), double=True, finite=True),
            "covariance": ArrayPlan((size, size), double=True, variance=0.9 * SMALLEST_VARIANCE),
        }

    def numbers(self, n_features: int, n_outputs: int) -> int:
        """How many numbers the arrays hold for these sizes; it does not grow beyond its bound."""
        size = min((1 + n_features) * n_outputs, _MAX_WEIGHTS)
        return size + size * size

    def initialise(self, name: str, view: NDArray[Any], old: tuple[int, ...], bound: float) -> None:
        """Zero means; independent new weights."""
        super().initialise(name, view, old, bound)
        if name == "covariance":
            fresh = np.arange(old[0], view.shape[0])
            view[fresh, fresh] = 1.0 / self.config.regularisation

    def grow(self, n_features: int, n_outputs: int) -> None:
        """Grow; with a new class the weights of each input lie further apart."""
        size = (1 + n_features) * n_outputs
        if size > _MAX_WEIGHTS:
            raise BraidedError(
                f"folklore would have {size:,} weights, and takes at most {_MAX_WEIGHTS:,}: use another learner, such "
                "as olr, or fewer features"
            )
        before = self.n_outputs
        if before in (0, n_outputs):
            super().grow(n_features, n_outputs)
            return
        kept, n_inputs = self.state(), 1 + self.n_features
        super().grow(n_features, n_outputs)
        places = (np.arange(n_inputs)[:, np.newaxis] * n_outputs + np.arange(before)).ravel()
        for name, corner in self._in_use().items():
            view = self.views[name][corner]
            self.initialise(name, view, tuple(0 for _ in view.shape), 0.0)
            view[np.ix_(*[places] * view.ndim)] = kept[name]

    def plastic_numbers(self) -> list[float]:
        """There is no rate: plasticity is in P."""
        return self.hyper_numbers()

    def raise_plasticity(self, factor: float, fresh: bool) -> None:
        """Where a drift was found just now, P is as at the start; the mean stays, and moves as fast as then."""
        if fresh:
            self.initialise("covariance", self.views["covariance"][self._in_use()["covariance"]], (0, 0), 0.0)

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """Outputs, features, inputs, row length of P, and where it starts; m starts at 0."""
        stride = (1 + self._capacities[0]) * self._capacities[1]
        return [self.n_outputs, self.n_features, 1 + self.n_features, stride, offsets["covariance"]]

    def hyper_numbers(self) -> list[float]:
        """eta."""
        return [1.0 / (self.config.largest_score + math.log(max(self.n_outputs, 1)) / 2.0)]

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """u, B, four K x K matrices and five vectors; the places of u."""
        n = 1 + n_features
        return 0, n + n * n_outputs**2 + _SQUARES * n_outputs**2 + _VECTORS * n_outputs, n
