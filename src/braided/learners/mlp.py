"""Multilayer perceptron: the medium learner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from braided import checks
from braided.errors import BraidedError
from braided.kernels.activations import all_finite, relu, relu_backward
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.dense import (
    accumulate_listed,
    backward,
    backward_head,
    copy,
    forward,
    forward_head,
    nonzero,
    step,
    step_row,
)
from braided.kernels.encoding import encode_piecewise, knots
from braided.kernels.inputs import FILLED, has_planes
from braided.kernels.native import kernel
from braided.kernels.scale import PAST
from braided.learners.base import MAX_LAYERS, ArrayPlan, CompiledLearner
from braided.learners.steps import STEP_PLACES, StepConfig, step_size_of

#: Bins of a feature: a checkpoint from a stranger may ask for any number.
_MAX_BINS = 10_000
#: Units of a hidden layer.
_MAX_WIDTH = 1_000_000


@dataclass(frozen=True)
class MLPConfig(StepConfig):
    """Settings of the multilayer perceptron.

    Attributes
    ----------
    hidden
        Widths of the hidden layers; () makes it a logistic (or linear) regression trained by gradient.
    mask_inputs
        Whether the availability of each feature is an input next to its value.
    encoding
        `plain`: a feature's value is one input. `piecewise`: next to it are the `bins` + 1 inputs of its
        piecewise-linear encoding (`kernels/encoding.py`), made for standardised values.
    bins
        For the piecewise encoding.
    zero_output
        Start the output layer at zero, so that the learner is silent until it has learned something.
    expected_features
        At least this many features are assumed when the first layer's weights are drawn. On raw values the size of
        the first weights matters, and only some of the features are there in the first record.
    inputs
        `plain`: the value of a missing feature is zero. `filled`: it is filled in from the others
        (`kernels/inputs.py`), while its encoding stays zero, which says that it is missing.
    change
        For a numeric target, learn how far it lies from the one before it, which is added to the score.
    """

    hidden: tuple[int, ...] = (250, 250, 250)
    mask_inputs: bool = True
    encoding: Literal["plain", "piecewise"] = "plain"
    bins: int = 8
    zero_output: bool = False
    expected_features: int = 0
    inputs: Literal["plain", "filled"] = "plain"
    change: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.sizes(self, 0, "expected_features")
        checks.sizes(self, 1, "bins")
        checks.at_most(self, _MAX_BINS, "bins")
        checks.one_of(self, "encoding", ("plain", "piecewise"))
        checks.one_of(self, "inputs", ("plain", "filled"))
        if len(self.hidden) > MAX_LAYERS:
            raise BraidedError(f"MLPConfig.hidden has {len(self.hidden)} layers: give at most {MAX_LAYERS:,}")
        for width in self.hidden:
            if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width <= _MAX_WIDTH:
                raise BraidedError(
                    f"MLPConfig.hidden is {self.hidden!r:.60}: give whole numbers from 1 to {_MAX_WIDTH:,}"
                )


# Places in `shape`: outputs, features, inputs per feature, whether with the mask, hidden layers, row length of the
# output's weights, whether filled, inputs of the target's past; then the hidden widths; then two offsets per layer.
_OUTPUTS, _FEATURES, _PER_FEATURE, _WITH_MASK, _LAYERS, _ROW, _FILLED, _PAST, _WIDTHS = range(9)
# Of each layer, and last of the output: where its weights and its bias start.
_WEIGHTS, _BIAS, _PER_LAYER = 0, 1, 2
#: Place in `hyper`, after the step's numbers, where the knots of the encoding start; there are none if it is plain.
_KNOTS = STEP_PLACES
#: The last place of the list of inputs: how many are not zero.
_LISTED = -1


@kernel()
def _list_inputs(shape, hyper, x, active, layer_in, listed):
    """h_0: the target's past; of each available feature the value, availability, and encoding if there are knots.

    `listed` has the places where h_0 is not zero, and at its end how many there are. By it the record before is taken
    out again, so that the work grows with what is there and not with what is known.
    """
    per_feature, knots, first = shape[_PER_FEATURE], hyper[_KNOTS:], shape[_PAST]
    for k in range(listed[_LISTED]):
        layer_in[listed[k]] = 0
    if first > 0 and x.shape[0] >= shape[_FEATURES] + PAST:
        copy(x[-PAST:], layer_in[:PAST])
    filled = shape[_FILLED] > 0 and has_planes(x, shape[_FEATURES])
    if filled:
        for slot in range(shape[_FEATURES]):
            layer_in[first + slot * per_feature] = x[FILLED * shape[_FEATURES] + slot]
    for slot in active:
        at = first + slot * per_feature
        layer_in[at] = x[slot]
        at += 1
        if shape[_WITH_MASK]:
            layer_in[at] = 1
            at += 1
        if knots.shape[0] > 0:
            encode_piecewise(x[slot], knots, layer_in[at : at + knots.shape[0]])
    n = 0
    if filled:
        n = nonzero(layer_in, listed)
    else:
        n = nonzero(layer_in[:first], listed)
        for slot in active:
            for at in range(first + slot * per_feature, first + (slot + 1) * per_feature):
                listed[n] = at
                n += layer_in[at] != 0
    listed[_LISTED] = n


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step_number, work, work64, index, scores):
    n_layers = shape[_LAYERS]
    n_in = shape[_PAST] + shape[_FEATURES] * shape[_PER_FEATURE]
    at = _WIDTHS + n_layers
    layer_in, listed, others = work[:n_in], index[: n_in + 2], index[n_in + 2 :]
    _list_inputs(shape, hyper, x, active, layer_in, listed)
    place = n_in
    for layer in range(n_layers):
        width = shape[_WIDTHS + layer]
        weights_at, bias_at = shape[at + _WEIGHTS], shape[at + _BIAS]
        weights = single[weights_at : weights_at + n_in * width].reshape(n_in, width)
        bias = single[bias_at : bias_at + width]
        layer_out = work[place : place + width]
        if layer == 0:
            copy(bias, layer_out)
            accumulate_listed(weights, layer_in, listed, listed[_LISTED], layer_out)
        else:
            forward(weights, bias, layer_in, others, layer_out)
        relu(layer_out, work.dtype.type(0))
        layer_in, n_in = layer_out, width
        place += width
        at += _PER_LAYER
    row, n_out = shape[_ROW], shape[_OUTPUTS]
    weights_at, bias_at = shape[at + _WEIGHTS], shape[at + _BIAS]
    head, bias = single[weights_at : weights_at + n_out * row], single[bias_at : bias_at + n_out]
    forward_head(head, row, bias, layer_in, scores)


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step_number, y, weight, gradient, work, work64, index):
    kind = work.dtype.type
    step_size = step_size_of(hyper, single)
    n_layers = shape[_LAYERS]
    n_first = shape[_PAST] + shape[_FEATURES] * shape[_PER_FEATURE]
    end = n_first
    widest = n_first
    for layer in range(n_layers):
        end += shape[_WIDTHS + layer]
        widest = max(widest, shape[_WIDTHS + layer])
    above, below = work[end : end + widest], work[end + widest : end + 2 * widest]
    at = _WIDTHS + n_layers + n_layers * _PER_LAYER
    n_in = shape[_WIDTHS + n_layers - 1] if n_layers > 0 else n_first
    row, n_out = shape[_ROW], shape[_OUTPUTS]
    if not all_finite(gradient):
        return False
    below[:n_in] = 0
    weights_at, bias_at = shape[at + _WEIGHTS], shape[at + _BIAS]
    head, bias = slice(weights_at, weights_at + n_out * row), slice(bias_at, bias_at + n_out)
    backward_head(single[head], second[head], row, work[end - n_in : end], gradient, below, step_size)
    step(single[bias], second[bias], gradient, step_size)
    for layer in range(n_layers - 1, -1, -1):
        above, below = below, above
        width = shape[_WIDTHS + layer]
        n_in = shape[_WIDTHS + layer - 1] if layer > 0 else n_first
        layer_gradient = above[:width]
        relu_backward(work[end - width : end], kind(0), layer_gradient)
        if not all_finite(layer_gradient):
            return False
        end -= width
        at -= _PER_LAYER
        weights_at, bias_at = shape[at + _WEIGHTS], shape[at + _BIAS]
        block, bias = slice(weights_at, weights_at + n_in * width), slice(bias_at, bias_at + width)
        weights, moments = single[block].reshape(n_in, width), second[block].reshape(n_in, width)
        layer_in = work[end - n_in : end]
        if layer > 0:
            below[:n_in] = 0
            backward(weights, moments, layer_in, layer_gradient, index[n_first + 2 :], below, True, step_size)
        else:
            listed = index[: n_first + 2]
            for k in range(listed[_LISTED]):
                j = listed[k]
                step_row(weights[j], moments[j], layer_in[j], layer_gradient, step_size)
        step(single[bias], second[bias], layer_gradient, step_size)
    return True


class MLP(CompiledLearner):
    """A multilayer perceptron with ReLU, trained by the gradient of the sum.

    With h_0 = [x ; mask] (or x, or [x ; e(x)] with the piecewise encoding e), zero where a feature is missing (with
    filled inputs all but x), and hidden layers l = 1 .. L:

        h_l = ReLU(W_l h_{l-1} + b_l),   scores = W h_L + b

    Backward from g = dL/dscores: each layer's weights move by their own gradient (`StepConfig`) with the values from
    before the step. A record's weight multiplies g, by 10 at most. Weights and biases start uniform in
    +-1/sqrt(fan_in); the fan-in of the first layer is the number of inputs known when the feature appears (see
    `expected_features`).

    Examples
    --------
    >>> import numpy as np
    >>> learner = MLP(MLPConfig(hidden=(8,), learning_rate=0.1), seed=1)
    >>> learner.grow(2, 2)
    >>> x, mask = np.array([1.0, 0.0], dtype=np.float32), np.array([True, False])
    >>> before = learner.scores(x, mask)
    >>> learner.learn(x, mask, 1, np.array([0.5, -0.5], dtype=np.float32))
    True
    >>> bool((learner.scores(x, mask) - before)[1] > 0)
    True
    """

    name = "mlp"
    config: MLPConfig
    forward = _forward
    update = _learn

    def __init__(self, config: MLPConfig, seed: int = 0, place: int = 0) -> None:
        super().__init__(config, seed, place)
        if not config.hidden:
            self.name = "glr"  # without hidden layers it is logistic regression, trained by gradient

    def _per_feature(self) -> int:
        """Inputs that belong to one feature."""
        return 1 + int(self.config.mask_inputs) + len(self._knots())

    def _knots(self) -> list[float]:
        return knots(self.config.bins) if self.config.encoding == "piecewise" else []

    def _widths(self, n_features: int) -> list[int]:
        """Inputs, then the hidden layers."""
        return [self._n_past() + n_features * self._per_feature(), *self.config.hidden]

    def _n_past(self) -> int:
        """Inputs that tell the target's past."""
        return PAST if self.config.change else 0

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Weights by input and a bias for each hidden layer; the output layer by output."""
        arrays = {}
        widths = self._widths(n_features)
        fan_in = [self._widths(max(n_features, self.config.expected_features, 1))[0], *widths[1:]]
        for layer, (n_in, n_out) in enumerate(pairwise(widths), start=1):
            bound = 1.0 / math.sqrt(fan_in[layer - 1])
            arrays[f"weights {layer}"] = ArrayPlan((n_in, n_out), bound)
            arrays[f"bias {layer}"] = ArrayPlan((n_out,), bound)
        bound = 0.0 if self.config.zero_output else 1.0 / math.sqrt(fan_in[-1])
        arrays["weights out"] = ArrayPlan((n_outputs, widths[-1]), bound)
        arrays["bias out"] = ArrayPlan((n_outputs,), bound)
        return arrays

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """`_OUTPUTS` to `_PAST`, in order, then the hidden widths, then two offsets per layer."""
        hidden = self.config.hidden
        row = self._widths(self._capacities[0])[-1]
        numbers = [self.n_outputs, self.n_features, self._per_feature(), int(self.config.mask_inputs)]
        numbers += [len(hidden), row, int(self.config.inputs == "filled"), self._n_past(), *hidden]
        for layer in [*range(1, len(hidden) + 1), "out"]:
            numbers += [offsets[f"weights {layer}"], offsets[f"bias {layer}"]]
        return numbers

    def hyper_numbers(self) -> list[float]:
        """The step, then the knots."""
        return self.config.step_numbers() + self._knots()

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """All activations, and two gradients as wide as the widest; lists of places of inputs and of hidden units."""
        widths = self._widths(n_features)
        return sum(widths) + 2 * max(widths), 0, widths[0] + 2 + max(widths) + 1

    def grow(self, n_features: int, n_outputs: int) -> None:
        """Grow; the list of inputs that are not zero starts over, since their places in the scratch move."""
        super().grow(n_features, n_outputs)
        self.work[:], self.index[:] = 0, 0
        self._scratch = []
