"""Online deep learning by hedge backpropagation (ODL), its fast form (Fast ODL), and Aux-Drop on either."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.errors import BraidedError
from braided.kernels.activations import all_finite, relu, relu_backward, softmax
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.dense import accumulate, add_row, backward, backward_head, copy, dot, forward_head, step, step_row
from braided.kernels.native import kernel
from braided.kernels.random import key_of, mix, unit_interval
from braided.kernels.record_weight import of_gradient
from braided.learners.base import MAX_LAYERS, RATE, ArrayPlan, CompiledLearner, LearnerConfig


@dataclass(frozen=True)
class HedgeConfig(LearnerConfig):
    """Settings of ODL, Fast ODL and Aux-Drop; the formulas are in `HedgeNetwork`.

    Attributes
    ----------
    layers, width
        Number L of hidden layers, and their width.
    learning_rate
        Of the plain steps of all weights.
    beta, smoothing
        Discount of the exits' weights, and the share s that all exits keep together.
    exits
        `hedge`: an exit at every layer. `last`: one exit at the end (online gradient descent).
    fast
        One backward pass through the weighted loss (Fast ODL) instead of one for each exit (ODL).
    aux_layer, aux_width
        Place and width of the AuxLayer; place 0 means there is none, and all features enter the first layer.
    base_features
        With an AuxLayer: how many features, by order of their slots, enter the first layer; the rest enter the
        AuxLayer.
    dropout
        Expected share of the AuxLayer's neurons that is dropped.
    dropout_when_predicting
        Predict with the very random dropout that learning the same record will use, as the published figures do.
    softmax_twice
        Cross-entropy on outputs that are already softmaxed, as the published figures do.
    expected_features
        At least this many features are assumed when input weights are drawn.
    """

    layers: int = 6
    width: int = 50
    learning_rate: float = 0.01
    beta: float = 0.99
    smoothing: float = 0.2
    exits: Literal["hedge", "last"] = "hedge"
    fast: bool = True
    aux_layer: int = 0
    aux_width: int = 100
    base_features: int = 0
    dropout: float = 0.3
    dropout_when_predicting: bool = False
    softmax_twice: bool = False
    expected_features: int = 0

    def __post_init__(self) -> None:
        checks.sizes(self, 1, "width", "aux_width")
        checks.sizes(self, 1, "layers", most=MAX_LAYERS)
        checks.sizes(self, 0, "aux_layer", "base_features", "expected_features")
        checks.at_least(self, 0.0, "learning_rate")
        checks.above(self, 0.0, "beta")
        if self.beta > 1.0:
            raise BraidedError(f"HedgeConfig.beta is {self.beta!r}: use a number above 0, up to 1")
        checks.share(self, "dropout", "smoothing")
        checks.one_of(self, "exits", ("hedge", "last"))
        if self.aux_layer and self.layers < self.aux_layer + 1:
            raise BraidedError(
                f"HedgeConfig.aux_layer is {self.aux_layer} of {self.layers} layers: an exit must come after it"
            )


# Places in `shape`: sizes, then for each layer its width, whether it has an exit, and where its weights, bias, exit
# weights and exit bias start.
_OUTPUTS, _FEATURES, _LAYERS, _FAST, _AUX, _BASE, _AUX_INPUTS, _DROP_IN_PREDICTION, _TWICE, _KEY, _TOTAL = range(11)
_FIRST, _PER_LAYER = 11, 6
_WIDTH, _EXIT, _WEIGHTS, _BIAS, _HEAD, _HEAD_BIAS = range(_PER_LAYER)
# Places in `hyper`, after `RATE`.
_BETA, _SMOOTHING, _DROPOUT = range(RATE + 1, RATE + 4)
# Rows of the scratch: the gradients of a layer's output and of its inputs; they change places from layer to layer.
_ABOVE, _BELOW = 0, 1


@kernel()
def _n_inputs(shape):
    """Inputs of the first layer: all features, or the base features alone."""
    return shape[_BASE] if shape[_AUX] > 0 else shape[_FEATURES]


@kernel()
def _drop(values, shape, hyper, active, step_number, at_random):
    """Drop neurons of the AuxLayer.

    Neuron k is tied to auxiliary feature k and dropped whenever that is missing; the other neurons are dropped at
    random with the probability that makes the expected share dropped `dropout`; survivors are scaled by
    1 / (1 - dropout). Without the random draws, the other neurons have their expected value instead.
    """
    n, share = values.shape[0], hyper[_DROPOUT]
    n_tied = max(min(shape[_FEATURES] - shape[_BASE], n), 0)
    n_there = 0
    for slot in active:
        if shape[_BASE] <= slot < shape[_BASE] + n_tied:
            n_there += 1
    others = n - n_tied
    chance = min(max((share * n - (n_tied - n_there)) / others, 0.0), 1.0) if others > 0 else 0.0
    scale = values.dtype.type(1.0 / (1.0 - share))
    record = mix(shape[_KEY], step_number)
    for k in range(n_tied, n):
        if not at_random:
            values[k] *= scale * values.dtype.type(1.0 - chance)
        else:
            values[k] = 0 if unit_interval(mix(record, k)) < chance else values[k] * scale
    at = 0
    for k in range(n_tied):
        while at < active.shape[0] and active[at] < shape[_BASE] + k:
            at += 1
        if at < active.shape[0] and active[at] == shape[_BASE] + k:
            values[k] *= scale
        else:
            values[k] = 0


@kernel()
def _network(shape, hyper, single, alphas, x, active, at_random, step_number, work, index, mixture):
    """All layers and exits; `work` keeps the layers' outputs, then every exit's probabilities."""
    n_layers, n_outputs, aux = shape[_LAYERS], shape[_OUTPUTS], shape[_AUX]
    n_in = _n_inputs(shape)
    layer_in = work[:n_in]
    layer_in[:] = 0
    for slot in active:
        if slot < n_in:
            layer_in[slot] = x[slot]
    mixture[:] = 0
    at, place, exit_at, n_exit = _FIRST, n_in, work.shape[0] - n_layers * n_outputs, 0
    for layer in range(1, n_layers + 1):
        width, weights, bias = shape[at + _WIDTH], shape[at + _WEIGHTS], shape[at + _BIAS]
        out = work[place : place + width]
        copy(single[bias : bias + width], out)
        accumulate(single[weights : weights + n_in * width].reshape(n_in, width), layer_in, index, out)
        if layer == aux:
            for slot in active:
                if slot >= shape[_BASE]:
                    start = shape[_AUX_INPUTS] + (slot - shape[_BASE]) * width
                    add_row(single[start : start + width], x[slot], out)
        relu(out, single.dtype.type(0))
        if layer == aux:
            _drop(out, shape, hyper, active, step_number, at_random)
        if shape[at + _EXIT] == 1:
            head = single[shape[at + _HEAD] : shape[at + _HEAD] + n_outputs * width]
            head_bias = single[shape[at + _HEAD_BIAS] : shape[at + _HEAD_BIAS] + n_outputs]
            probabilities = work[exit_at : exit_at + n_outputs]
            forward_head(head, width, head_bias, out, probabilities)
            softmax(probabilities, probabilities)
            add_row(probabilities, single.dtype.type(alphas[n_exit]), mixture)
            exit_at += n_outputs
            n_exit += 1
        layer_in, n_in = out, width
        place += width
        at += _PER_LAYER


@kernel()
def _exit_loss(probabilities, label, twice, gradient):
    """Cross-entropy of one exit; `gradient` receives dL/dlogits."""
    kind = probabilities.dtype.type
    if not twice:
        for k in range(probabilities.shape[0]):
            gradient[k] = probabilities[k] - (kind(1) if k == label else kind(0))
        return -np.log(max(np.float64(probabilities[label]), 1e-30))
    softmax(probabilities, gradient)
    loss = -np.log(max(np.float64(gradient[label]), 1e-30))
    gradient[label] -= kind(1)
    along = dot(probabilities, gradient)
    for k in range(probabilities.shape[0]):
        gradient[k] = probabilities[k] * (gradient[k] - along)
    return loss


@kernel()
def _through_activation(shape, hyper, active, step_number, layer, out, gradient):
    """The gradient before a layer's activation and dropout, in place."""
    if layer == shape[_AUX]:
        _drop(gradient, shape, hyper, active, step_number, True)
    relu_backward(out, gradient.dtype.type(0), gradient)


@kernel()
def _step_inputs(shape, target, x, active, layer, gradient, step_size):
    """Steps of the auxiliary features' rows, where they enter this layer."""
    width = gradient.shape[0]
    if layer == shape[_AUX]:
        for slot in active:
            if slot >= shape[_BASE]:
                start = shape[_AUX_INPUTS] + (slot - shape[_BASE]) * width
                row = target[start : start + width]
                step_row(row, row, x[slot], gradient, step_size)


@kernel()
def _learn_fast(shape, hyper, single, alphas, x, active, label, weight, step_number, work, index, scratch, losses):
    """One pass down: the gradient of the weighted loss collects every exit on its way; O(L)."""
    kind = work.dtype.type
    n_layers, n_outputs = shape[_LAYERS], shape[_OUTPUTS]
    step_size = (kind(hyper[RATE] * weight), kind(0), kind(0), kind(0))
    above, below = scratch[_ABOVE], scratch[_BELOW]
    exit_gradient = work[work.shape[0] - (n_layers + 1) * n_outputs :][:n_outputs]
    at, end, n_exit = _FIRST + n_layers * _PER_LAYER, _outputs_end(shape), losses.shape[0]
    exit_at = work.shape[0] - n_layers * n_outputs + n_exit * n_outputs
    above[:] = 0
    for layer in range(n_layers, 0, -1):
        at -= _PER_LAYER
        width = shape[at + _WIDTH]
        n_in = shape[at - _PER_LAYER + _WIDTH] if layer > 1 else _n_inputs(shape)
        out, gradient = work[end - width : end], above[:width]
        end -= width
        if shape[at + _EXIT] == 1:
            n_exit -= 1
            exit_at -= n_outputs
            probabilities = work[exit_at : exit_at + n_outputs]
            losses[n_exit] = _exit_loss(probabilities, label, shape[_TWICE] == 1, exit_gradient)
            for k in range(n_outputs):
                exit_gradient[k] *= kind(alphas[n_exit])
            head = single[shape[at + _HEAD] : shape[at + _HEAD] + n_outputs * width]
            head_bias = single[shape[at + _HEAD_BIAS] : shape[at + _HEAD_BIAS] + n_outputs]
            backward_head(head, head, width, out, exit_gradient, gradient, step_size)
            step(head_bias, head_bias, exit_gradient, step_size)
        _through_activation(shape, hyper, active, step_number, layer, out, gradient)
        if not all_finite(gradient):
            return False
        bias = single[shape[at + _BIAS] : shape[at + _BIAS] + width]
        step(bias, bias, gradient, step_size)
        _step_inputs(shape, single, x, active, layer, gradient, step_size)
        weights = single[shape[at + _WEIGHTS] : shape[at + _WEIGHTS] + n_in * width].reshape(n_in, width)
        below[:] = 0
        backward(weights, weights, work[end - n_in : end], gradient, index, below, True, step_size)
        above, below = below, above
    return True


@kernel()
def _learn_slow(shape, hyper, single, alphas, x, active, label, weight, step_number, work, scratch, losses, total):
    """One pass down from every exit by itself, gradients added up in `total`; O(L^2)."""
    kind = work.dtype.type
    n_layers, n_outputs = shape[_LAYERS], shape[_OUTPUTS]
    add = (kind(-1), kind(0), kind(0), kind(0))  # a "step" of rate -1 adds the gradient
    exit_gradient = work[work.shape[0] - (n_layers + 1) * n_outputs :][:n_outputs]
    total[:] = 0
    exit_at = work.shape[0] - n_layers * n_outputs
    top_at, top_end, n_exit = _FIRST, _n_inputs(shape), 0
    for top in range(1, n_layers + 1):
        top_width = shape[top_at + _WIDTH]
        top_end += top_width
        if shape[top_at + _EXIT] == 1:
            above, below = scratch[_ABOVE], scratch[_BELOW]
            probabilities = work[exit_at : exit_at + n_outputs]
            losses[n_exit] = _exit_loss(probabilities, label, shape[_TWICE] == 1, exit_gradient)
            for k in range(n_outputs):
                exit_gradient[k] *= kind(alphas[n_exit])
            above[:] = 0
            for k in range(n_outputs):
                row = shape[top_at + _HEAD] + k * top_width
                add_row(single[row : row + top_width], exit_gradient[k], above[:top_width])
                step_row(
                    total[row : row + top_width], total[row : row + top_width], exit_gradient[k],
                    work[top_end - top_width : top_end], add,
                )  # fmt: skip
            bias = total[shape[top_at + _HEAD_BIAS] : shape[top_at + _HEAD_BIAS] + n_outputs]
            step(bias, bias, exit_gradient, add)
            at, end = top_at, top_end
            for layer in range(top, 0, -1):
                width = shape[at + _WIDTH]
                n_in = shape[at - _PER_LAYER + _WIDTH] if layer > 1 else _n_inputs(shape)
                out, gradient = work[end - width : end], above[:width]
                end -= width
                _through_activation(shape, hyper, active, step_number, layer, out, gradient)
                if not all_finite(gradient):
                    return False
                bias = total[shape[at + _BIAS] : shape[at + _BIAS] + width]
                step(bias, bias, gradient, add)
                _step_inputs(shape, total, x, active, layer, gradient, add)
                below[:] = 0
                for j in range(n_in):
                    if work[end - n_in + j] != 0:
                        row = shape[at + _WEIGHTS] + j * width
                        below[j] = dot(single[row : row + width], gradient)
                        step_row(
                            total[row : row + width], total[row : row + width], work[end - n_in + j], gradient, add
                        )
                above, below = below, above
                at -= _PER_LAYER
            exit_at += n_outputs
            n_exit += 1
        top_at += _PER_LAYER
    step_size = (kind(hyper[RATE] * weight), kind(0), kind(0), kind(0))
    step(single[: total.shape[0]], single[: total.shape[0]], total, step_size)
    return True


@kernel()
def _outputs_end(shape):
    """Where the layers' outputs end in `work`."""
    end, at = _n_inputs(shape), _FIRST
    for _ in range(shape[_LAYERS]):
        end += shape[at + _WIDTH]
        at += _PER_LAYER
    return end


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step_number, work, work64, index, scores):
    at_random = shape[_DROP_IN_PREDICTION] == 1
    _network(shape, hyper, single, double, x, active, at_random, step_number, work, index, scores)
    for k in range(scores.shape[0]):
        scores[k] = np.log(max(scores[k], scores.dtype.type(1e-30)))


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step_number, y, weight, gradient, work, work64, index):
    n_layers, n_outputs = shape[_LAYERS], shape[_OUTPUTS]
    end = _outputs_end(shape)
    widest = 0
    for layer in range(n_layers):
        widest = max(widest, shape[_FIRST + layer * _PER_LAYER + _WIDTH])
    widest = max(widest, _n_inputs(shape))
    scratch = work[end : end + 2 * widest].reshape(2, widest)
    n_exits = 0
    for layer in range(n_layers):
        n_exits += shape[_FIRST + layer * _PER_LAYER + _EXIT]
    losses, label, weight = work64[:n_exits], int(y), of_gradient(weight)
    if shape[_AUX] > 0 and shape[_DROP_IN_PREDICTION] == 0:
        mixture = work[work.shape[0] - (n_layers + 1) * n_outputs :][:n_outputs]
        _network(shape, hyper, single, double, x, active, True, step_number, work, index, mixture)
    if shape[_FAST] == 1:
        fine = _learn_fast(
            shape, hyper, single, double, x, active, label, weight, step_number, work, index, scratch, losses
        )
    else:
        total = work[end + 2 * widest : end + 2 * widest + shape[_TOTAL]]
        fine = _learn_slow(
            shape, hyper, single, double, x, active, label, weight, step_number, work, scratch, losses, total
        )
    if not fine or not all_finite(losses):
        return False
    together = 0.0
    for j in range(n_exits):
        double[j] = max(double[j] * hyper[_BETA] ** (weight * losses[j]), hyper[_SMOOTHING] / n_exits)
        together += double[j]
    if not together > 0.0:
        return False
    for j in range(n_exits):
        double[j] /= together
    return True


class HedgeNetwork(CompiledLearner):
    """A deep network with an exit at every layer, whose weights alpha are learned by the hedge algorithm.

    With h_0 = x, zero where a feature is missing, and layers l = 1 .. L:

        h_l = ReLU(W_l h_{l-1} + b_l),   f_l = softmax(V_l h_l + c_l),   F = sum_l alpha_l f_l
        loss = sum_l alpha_l CE(f_l, y)                                   (alpha is a constant of the step)
        alpha_l <- max(alpha_l beta^CE(f_l, y), s / E), then divided by their sum, with E the number of exits

    All weights follow the gradient of that loss by plain steps. ODL (`fast=False`) backpropagates each exit by itself
    and adds the gradients up, O(L^2); Fast ODL backpropagates the weighted sum once, O(L), and gives the same
    weights (the paper's Proposition 2). The scores are log F. (Sahoo et al. 2018; paper, "Fast Online Deep Learning".)

    A record of weight c has c times the loss, c within 1e-6 and 10: in the steps, and in beta^(c CE(f_l, y)).

    Aux-Drop (`aux_layer` = A > 0): the base features enter layer 1, the others join at layer A,
    h_A = drop(ReLU(W_A h_{A-1} + U x_aux + b_A)). Neuron k of that layer is tied to auxiliary feature k and dropped
    whenever that is missing; the others are dropped at random so that the expected share dropped is p; survivors are
    scaled by 1 / (1 - p). A prediction drops the tied neurons in the same way and gives the others their expected
    value, unless `dropout_when_predicting`. Layers 1 and A have no exit. (Agarwal et al. 2023.) With more auxiliary
    features than neurons, the last features have no neuron of their own.

    `softmax_twice` puts CE on softmax(f_l), as the code behind the published figures does.

    Examples
    --------
    >>> import numpy as np
    >>> learner = HedgeNetwork(HedgeConfig(layers=3, width=8, learning_rate=0.1), seed=1)
    >>> learner.grow(2, 2)
    >>> x, mask, unused = np.array([1.0, -1.0], dtype=np.float32), np.ones(2, dtype=bool), np.zeros(2, dtype=np.float32)
    >>> for _ in range(100):
    ...     _ = learner.learn(x, mask, 1, unused)
    >>> bool(np.exp(learner.scores(x, mask))[1] > 0.9)
    True
    >>> float(learner.state()["alphas"].sum().round(9))
    1.0
    """

    name = "hedge"
    task = "classification"
    config: HedgeConfig
    forward = _forward
    update = _learn

    def _widths(self) -> list[int]:
        """Width of every layer."""
        config = self.config
        return [
            config.aux_width if layer == config.aux_layer else config.width for layer in range(1, config.layers + 1)
        ]

    def _exits(self) -> list[bool]:
        """Which layers have an exit."""
        config = self.config
        if config.exits == "last":
            return [layer == config.layers for layer in range(1, config.layers + 1)]
        without = {1, config.aux_layer} if config.aux_layer else set()
        return [layer not in without for layer in range(1, config.layers + 1)]

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Weights by input, bias and exit of every layer; rows of the auxiliary features; the exits' weights."""
        config = self.config
        expected = max(n_features, config.expected_features, 1)
        n_in = config.base_features if config.aux_layer else n_features
        fan_in = config.base_features if config.aux_layer else expected
        arrays = {"alphas": ArrayPlan((sum(self._exits()),), double=True, low=0.0, high=1.01, finite=True)}
        for layer, (width, has_exit) in enumerate(zip(self._widths(), self._exits(), strict=True), start=1):
            n_aux = max(n_features - config.base_features, 0) if layer == config.aux_layer else 0
            expected_aux = max(expected - config.base_features, 0) if layer == config.aux_layer else 0
            bound = 1.0 / math.sqrt(max(fan_in + expected_aux, 1))
            arrays[f"weights {layer}"] = ArrayPlan((n_in, width), bound)
            arrays[f"bias {layer}"] = ArrayPlan((width,), bound)
            if layer == config.aux_layer:
                arrays["auxiliary"] = ArrayPlan((n_aux, width), bound)
            if has_exit:
                arrays[f"exit {layer}"] = ArrayPlan((n_outputs, width), 1.0 / math.sqrt(width))
                arrays[f"exit bias {layer}"] = ArrayPlan((n_outputs,), 1.0 / math.sqrt(width))
            n_in = fan_in = width
        return arrays

    def initialise(self, name: str, view: NDArray[Any], old: tuple[int, ...], bound: float) -> None:
        """Uniform weights; equal alphas."""
        super().initialise(name, view, old, bound)
        if name == "alphas" and old[0] == 0:
            view[:] = 1.0 / view.size

    def forget_features(self, slots: NDArray[np.int64]) -> None:
        """Draw their weights anew; those of base features do not come to be with the features."""
        super().forget_features(slots)
        if self.config.aux_layer:
            plan = self.plan(self.n_features, self.n_outputs)["weights 1"]
            for slot in slots[slots < self.config.base_features].tolist():
                self.initialise("weights 1", self.views["weights 1"][: slot + 1], (slot, plan.shape[1]), plan.bound)

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """The places above the kernels, in order: sizes and settings, then six numbers per layer."""
        config = self.config
        numbers = [
            self.n_outputs,
            self.n_features,
            config.layers,
            int(config.fast),
            config.aux_layer,
            config.base_features if config.aux_layer else 0,
            offsets.get("auxiliary", 0),
            int(config.dropout_when_predicting),
            int(config.softmax_twice),
            key_of(self.seed, self.name, self.place, "dropout") >> 1,
            self.single.size,
        ]
        for layer, (width, has_exit) in enumerate(zip(self._widths(), self._exits(), strict=True), start=1):
            numbers += [width, int(has_exit), offsets[f"weights {layer}"], offsets[f"bias {layer}"]]
            numbers += [offsets.get(f"exit {layer}", 0), offsets.get(f"exit bias {layer}", 0)]
        return numbers

    def hyper_numbers(self) -> list[float]:
        """Rate, beta, smoothing, dropout (0 without an AuxLayer)."""
        config = self.config
        return [config.learning_rate, config.beta, config.smoothing, config.dropout if config.aux_layer else 0.0]

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """Inputs and layers' outputs, two gradients, for ODL all gradients, the exits; the losses; places."""
        config = self.config
        n_in = max(config.base_features, n_features)
        widest = max(n_in, *self._widths())
        gradients = 0 if config.fast else self.single.size
        work = n_in + sum(self._widths()) + 2 * widest + gradients + (config.layers + 1) * n_outputs
        return work, config.layers, widest + 1
