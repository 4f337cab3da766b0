"""Mixture of experts: distributions weighted by a gate that looks at the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.combiners.base import Arrays, Combiner, distributions
from braided.kernels.activations import all_finite, relu, relu_backward, softmax
from braided.kernels.calls import COMBINE, GRADIENTS, entry
from braided.kernels.dense import add_row, backward_head, copy, forward_head, step, step_row
from braided.kernels.mixture import add_softmax, log_normaliser, normalise, own_loss_gradient
from braided.kernels.native import Ints, Singles, kernel
from braided.kernels.random import draw_uniform, key_of, mix
from braided.kernels.record_weight import of_gradient
from braided.store import Array

HIDDEN = 50
LEARNING_RATE = 0.01

# Places in `shape`, after the one of every combiner: learners, hidden units, the key of what is drawn. In `hyper`: the
# rate.
_LEARNERS, _HIDDEN, _KEY = range(1, 4)
_RATE = 0
# `work`: the flag that the gate is not finite; then hidden units, gate, gradient of the gate, of the hidden units.
_RUN_AWAY, _VECTORS = 0, 1
# The flat weights: hidden bias, output bias, output weights by learner, then hidden weights by feature, which can grow.


@kernel()
def _starts(shape):
    """Where output bias, output weights and the hidden weights of features start."""
    n_learners, n_hidden = shape[_LEARNERS], shape[_HIDDEN]
    return n_hidden, n_hidden + n_learners, n_hidden + n_learners + n_learners * n_hidden


@kernel()
def _vectors(shape, work):
    """Hidden units, gate, gradient of the gate, of the hidden units."""
    n_learners, n_hidden = shape[_LEARNERS], shape[_HIDDEN]
    gate = _VECTORS + n_hidden
    gate_gradient = gate + n_learners
    end = gate_gradient + n_learners
    return work[_VECTORS:gate], work[gate:gate_gradient], work[gate_gradient:end], work[end : end + n_hidden]


@entry
def _draw(weights: Singles, shape: Ints, first: int) -> None:
    """Draw the gate's weights from `first` feature on, and with the first feature everything else."""
    n_hidden, key = shape[_HIDDEN], shape[_KEY]
    _, _, fixed = _starts(shape)
    n_features = (weights.shape[0] - fixed) // n_hidden
    bound = 1.0 / np.sqrt(max(n_features, 1))
    if first == 0:
        draw_uniform(weights[:n_hidden].reshape(-1, 1), mix(key, 1), 0, 1, bound)
        draw_uniform(weights[n_hidden:fixed].reshape(-1, 1), mix(key, 2), 0, 1, 1.0 / np.sqrt(n_hidden))
    draw_uniform(weights[fixed:].reshape(n_features, n_hidden), mix(key, 3), first, n_hidden, bound)


@entry(COMBINE)
def _combine(shape, hyper, single, double, x, active, scores, usable, work, prediction):
    n_learners, n_hidden = shape[_LEARNERS], shape[_HIDDEN]
    out_bias, out, inputs = _starts(shape)
    hidden, gate, _, _ = _vectors(shape, work)
    copy(single, hidden)
    for slot in active:
        start = inputs + slot * n_hidden
        add_row(single[start : start + n_hidden], x[slot], hidden)
    relu(hidden, single.dtype.type(0))
    forward_head(single[out:inputs], n_hidden, single[out_bias:out], hidden, gate)
    # A gate that has diverged has no use: equal shares until it is drawn again with the next label.
    work[_RUN_AWAY] = 0.0 if all_finite(hidden) and all_finite(gate) else 1.0
    if work[_RUN_AWAY] == 1.0:
        gate[:] = 0
    softmax(gate, gate)
    share = single.dtype.type(0)
    for i in range(n_learners):
        share += gate[i] if usable[i] else single.dtype.type(0)
    for i in range(n_learners):
        gate[i] = gate[i] / share if usable[i] and share > 0 else single.dtype.type(0)
    prediction[:] = 0.0
    for i in range(n_learners):
        if usable[i]:
            add_softmax(scores[i], np.float64(gate[i]), prediction)
    normalise(prediction)  # the gate is float32


@entry(GRADIENTS)
def _gradients(shape, hyper, single, double, x, active, scores, usable, y, weight, prediction, work, gradients):
    kind = single.dtype.type
    n_learners, n_hidden = shape[_LEARNERS], shape[_HIDDEN]
    step_size = (kind(hyper[_RATE] * of_gradient(weight)), kind(0), kind(0), kind(0))
    out_bias, out, inputs = _starts(shape)
    hidden, gate, gate_gradient, hidden_gradient = _vectors(shape, work)
    label = int(y)
    chance = max(prediction[label], 1e-30)
    for i in range(n_learners):
        responsibility = gate[i] * np.exp(np.float64(scores[i, label]) - log_normaliser(scores[i])) / chance
        own_loss_gradient(scores[i], label, responsibility, gradients[i])
        gate_gradient[i] = gate[i] - responsibility
    if work[_RUN_AWAY] == 1.0:
        _draw(single, shape, 0)
        return
    hidden_gradient[:] = 0
    backward_head(single[out:inputs], single[out:inputs], n_hidden, hidden, gate_gradient, hidden_gradient, step_size)
    step(single[out_bias:out], single[out_bias:out], gate_gradient, step_size)
    relu_backward(hidden, kind(0), hidden_gradient)
    step(single[:n_hidden], single[:n_hidden], hidden_gradient, step_size)
    for slot in active:
        row = slice(inputs + slot * n_hidden, inputs + (slot + 1) * n_hidden)
        step_row(single[row], single[row], x[slot], hidden_gradient, step_size)


class MixtureOfExperts(Combiner):
    """p = sum_i G_i softmax(f_i), with the gate G = softmax(V ReLU(W x + b) + c) on the record, trained jointly.

    With the responsibility r_i = G_i softmax(f_i)_y / p_y:

        dL/df_i = r_i (softmax(f_i) - onehot(y)),   dL/dgate_i = G_i - r_i

    and the gate's weights follow their gradient, times the record's weight (10 at most), by plain steps. x is zero
    where a feature is missing. A learner whose scores are not finite has no share; a gate that is not finite (plain
    steps on badly scaled values) gives equal shares and is drawn again.

    Examples
    --------
    >>> import numpy as np
    >>> x, mask = np.ones(1, dtype=np.float32), np.array([True])
    >>> combiner = MixtureOfExperts(regression=False, seed=1)
    >>> combiner.grow(1, 2, 2)
    >>> scores = np.array([[0.0, 1.0], [0.0, -0.5]], dtype=np.float32)
    >>> p = combiner.combine(x, mask, scores)
    >>> bool(abs(p.sum() - 1) < 1e-12)
    True
    """

    name = "moe"
    combine_kernel = _combine
    gradients_kernel = _gradients

    def __init__(self, regression: bool, seed: int = 0) -> None:
        super().__init__(regression, seed)
        self.hyper = np.array([LEARNING_RATE])
        self._n_features = 0

    def grow(self, n_features: int, n_outputs: int, n_learners: int) -> None:
        """A row of hidden weights for each new feature; the rest is made once."""
        key = key_of(self.seed, self.name) >> 1
        self.shape = np.array([int(self.regression), n_learners, HIDDEN, key], dtype=np.int64)
        _, _, fixed = _starts(self.shape)
        fresh = np.zeros(fixed + n_features * HIDDEN, dtype=np.float32)
        made = self.single.size > 1
        _draw(fresh, self.shape, self._n_features if made else 0)
        if made:
            fresh[: self.single.size] = self.single
        self.single, self._n_features = fresh, n_features
        self.work = np.zeros(_VECTORS + 2 * HIDDEN + 2 * n_learners, dtype=np.float32)

    def forget_features(self, slots: NDArray[np.int64]) -> None:
        """Draw the hidden weights of some features as at first."""
        _, _, inputs = _starts(self.shape)
        fresh = np.zeros_like(self.single)
        _draw(fresh, self.shape, int(slots.min()))
        for slot in slots.tolist():
            row = slice(inputs + slot * HIDDEN, inputs + (slot + 1) * HIDDEN)
            self.single[row] = fresh[row]

    def terms(
        self, x: NDArray[np.float32], mask: NDArray[np.bool_], scores: NDArray[np.float32], usable: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Every usable learner's distribution, weighted by the gate for this record."""
        self.combine(x, mask, scores, usable)  # leaves the gate in the work array
        gate = self.work[_VECTORS + HIDDEN : _VECTORS + HIDDEN + scores.shape[0]]
        return distributions(scores, gate.astype(np.float64))

    def raise_plasticity(self, factor: float, fresh: bool) -> None:
        """Longer steps of the gate."""
        self.hyper[_RATE] = LEARNING_RATE * factor

    def state(self) -> Arrays:
        """The gate's weights."""
        return {"gate": self.single.copy()}

    def schema(self) -> dict[str, Array]:
        """Weights; those of a gate that has run away are not finite, and are drawn anew."""
        return {"gate": Array(self.single.shape, "float32", finite=False)}

    def take_over(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """The gate's weights."""
        self.single[:] = arrays["gate"]
