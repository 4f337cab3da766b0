"""Set learner: the slow, expressive learner over the set of available features."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.errors import BraidedError
from braided.kernels.activations import all_finite, normalise, normalise_backward, relu, relu_backward, softmax
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.dense import (
    accumulate,
    add_row,
    backward,
    backward_head,
    dot,
    forward,
    forward_head,
    step,
    step_row,
)
from braided.kernels.native import kernel
from braided.kernels.random import key_of, mix, unit_interval
from braided.learners.base import MAX_LAYERS, ArrayPlan, CompiledLearner
from braided.learners.steps import STEP_PLACES, StepConfig, step_size_of

_NO_BINDING, _PRODUCT, _RELU, _SCALED = 0, 1, 2, 3
_BINDINGS = {"none": _NO_BINDING, "product": _PRODUCT, "relu": _RELU, "scaled": _SCALED}
_POOLS = {"sum": 0, "mean": 1, "sqrt": 2}
_EPSILON = 1e-6


@dataclass(frozen=True)
class SetConfig(StepConfig):
    """Settings of the set learner; the formulas are in `SetLearner`.

    Attributes
    ----------
    width, blocks, layers
        Width of every layer, number R of blocks, number L of layers in a block.
    embedding
        Length of a feature's ID embedding (not used with `relu` and `scaled`, whose embeddings have the full width).
    binding
        How a value is tied to its ID before pooling: `none` (values and IDs are pooled side by side, so the learner
        cannot tell which value belongs to which feature), `product`, `relu` or `scaled`.
    pooling
        `sum`, `mean`, or `sqrt`: the sum over the square root of the number of available features.
    normalise
        Layer normalisation at each block's input.
    slope
        Slope of the block layers' activation below zero; 0 is the ReLU.
    dropout
        Share of units dropped after each block's first layer while learning.
    dropout_when_predicting
        Predict with the very dropout that learning the same record will use. Noisy; only `released` does it.
    output
        `linear`: y_r = y_{r-1} + Q_r h_{r,L}. `softmax`: a softmax head a block, as the released code has.
    output_scale
        Factor of the scores.
    zero_output
        Start the outputs' weights at zero, so that the learner is silent until it has learned something.
    """

    width: int = 128
    blocks: int = 6
    layers: int = 3
    embedding: int = 32
    binding: Literal["none", "product", "relu", "scaled"] = "none"
    pooling: Literal["sum", "mean", "sqrt"] = "sum"
    normalise: bool = False
    slope: float = 0.0
    dropout: float = 0.0
    dropout_when_predicting: bool = False
    output: Literal["linear", "softmax"] = "linear"
    output_scale: float = 1.0
    zero_output: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.sizes(self, 1, "width", "embedding")
        checks.sizes(self, 1, "blocks", "layers", most=MAX_LAYERS)
        checks.one_of(self, "binding", _BINDINGS)
        checks.one_of(self, "pooling", _POOLS)
        checks.one_of(self, "output", ("linear", "softmax"))
        checks.share(self, "dropout", "slope")
        checks.at_least(self, 0.0, "output_scale")
        if self.normalise and self.width < 2:
            raise BraidedError("SetConfig.width is 1: normalise needs a width from 2 on")

    def for_regression(self) -> SetConfig:
        """With a linear output: a softmax over one number says nothing."""
        return replace(self, output="linear") if self.output == "softmax" else self


# Places in `shape`: the settings, where the encoder's two arrays start, then those of each block: its own six, and two
# per layer.
_OUTPUTS, _WIDTH, _BLOCKS, _LAYERS, _EMBEDDING, _BINDING, _POOLING = range(7)
_NORMALISE, _DROP_IN_PREDICTION, _SOFTMAX, _KEY, _IDS, _ENCODER, _FIRST_BLOCK = range(7, 14)
_BLOCK_ARRAYS = ("scale", "shift", "skip", "head", "head bias", "projection")
_SCALE, _SHIFT, _SKIP, _HEAD, _HEAD_BIAS, _PROJECTION, _FIRST_LAYER = range(7)
_WEIGHTS, _BIAS, _PER_LAYER = 0, 1, 2
# Places in `hyper`, after those of the step.
_DROPOUT, _SLOPE, _OUTPUT_SCALE = range(STEP_PLACES, STEP_PLACES + 3)
# The pooled vector: the sum of values, their count, the embeddings, then values times embeddings.
_VALUE, _COUNT, _ID = range(3)
# What a block leaves in `work` for the backward pass, each of one width; the layers' outputs follow, then the deviation
# of its input and the outputs.
_HAT, _INPUT, _OUT, _SUM, _LAYER_OUT = range(5)
_DEVIATION, _AFTER_DEVIATION = 0, 1
# Gradients in the scratch, each of one width: of a layer's output and input, of x_r and x_{r-1}, of t_r.
_LAYER, _BELOW, _X_OUT, _X_IN, _TOTAL = range(5)
_WIDE_GRADIENTS = 5


@kernel()
def _part(flat, start, n_rows, n_columns):
    """A matrix within a flat buffer."""
    return flat[start : start + n_rows * n_columns].reshape(n_rows, n_columns)


@kernel()
def _n_pooled(shape):
    """Length of the pooled vector: value, 1, embedding, and with the product binding value times embedding."""
    if shape[_BINDING] == _RELU or shape[_BINDING] == _SCALED:
        return 0
    return _ID + shape[_EMBEDDING] * (2 if shape[_BINDING] == _PRODUCT else 1)


@kernel()
def _block_work(shape):
    """Length of one block's part of `work`: its vectors, a deviation, and one number per output."""
    return (_LAYER_OUT + shape[_LAYERS]) * shape[_WIDTH] + _AFTER_DEVIATION + shape[_OUTPUTS]


@kernel()
def _per_block(shape):
    """How many places of `shape` a block has."""
    return _FIRST_LAYER + _PER_LAYER * shape[_LAYERS]


@kernel()
def _layer_arrays(shape, block_at, layer):
    """Where weights and bias of a layer start."""
    at = block_at + _FIRST_LAYER + _PER_LAYER * layer
    return shape[at + _WEIGHTS], shape[at + _BIAS]


@kernel()
def _pool_factor(pooling, n):
    """What the sum over n available features is multiplied with."""
    if n == 0 or pooling == 0:
        return 1.0
    return 1.0 / n if pooling == 1 else 1.0 / np.sqrt(n)


@kernel()
def _encode(shape, single, x, active, pooled, index, out):
    """x_0 from the available features."""
    width, n_embedding, binding = shape[_WIDTH], shape[_EMBEDDING], shape[_BINDING]
    ids, encoder = shape[_IDS], shape[_ENCODER]
    factor = out.dtype.type(_pool_factor(shape[_POOLING], active.shape[0]))
    if binding == _RELU:
        out[:] = 0
        for slot in active:
            start = ids + slot * 2 * width
            direction, origin = single[start : start + width], single[start + width : start + 2 * width]
            value = x[slot]
            for i in range(width):
                out[i] += max(value * direction[i] + origin[i], out.dtype.type(0))
        for i in range(width):
            out[i] = factor * out[i] + single[encoder + i]
        return
    if binding == _SCALED:
        out[:] = 0
        for slot in active:
            start = ids + slot * width
            add_row(single[start : start + width], x[slot], out)
        for i in range(width):
            out[i] = max(factor * out[i] + single[encoder + i], out.dtype.type(0))
        return
    pooled[:] = 0
    for slot in active:
        embedding = single[ids + slot * n_embedding : ids + (slot + 1) * n_embedding]
        pooled[_VALUE] += x[slot]
        pooled[_COUNT] += 1
        add_row(embedding, out.dtype.type(1), pooled[_ID:])
        if binding == _PRODUCT:
            add_row(embedding, x[slot], pooled[_ID + n_embedding :])
    for i in range(pooled.shape[0]):
        pooled[i] *= factor
    out[:] = 0
    accumulate(_part(single, encoder, pooled.shape[0], width), pooled, index, out)


@kernel()
def _drop(values, share, key, step_number, block):
    """Set each value to zero with probability `share`, and scale the others to keep the mean."""
    record = mix(mix(key, step_number), block)
    for i in range(values.shape[0]):
        if unit_interval(mix(record, i)) < share:
            values[i] = 0
        else:
            values[i] /= values.dtype.type(1.0 - share)


@kernel()
def _drop_backward(gradient, share, key, step_number, block):
    """The gradient through `_drop`: the same units, the same scale."""
    _drop(gradient, share, key, step_number, block)


@kernel()
def _network(shape, hyper, single, x, active, drop, step_number, work, index, scores):
    """The forward pass; leaves in `work` what the backward pass needs."""
    kind = work.dtype.type
    n_outputs, width, n_blocks, n_layers = shape[_OUTPUTS], shape[_WIDTH], shape[_BLOCKS], shape[_LAYERS]
    slope = kind(hyper[_SLOPE])
    n_pooled = _n_pooled(shape)
    block_in = work[n_pooled : n_pooled + width]
    _encode(shape, single, x, active, work[:n_pooled], index, block_in)
    scores[:] = 0
    at, place = _FIRST_BLOCK, n_pooled + width
    for block in range(n_blocks):
        vectors = _part(work, place, _LAYER_OUT + n_layers, width)
        place += vectors.size
        layer_in = block_in
        if shape[_NORMALISE]:
            scale, shift = shape[at + _SCALE], shape[at + _SHIFT]
            work[place + _DEVIATION] = normalise(
                block_in, single[scale : scale + width], single[shift : shift + width], kind(_EPSILON), vectors[_HAT],
                vectors[_INPUT],
            )  # fmt: skip
            layer_in = vectors[_INPUT]
        for layer in range(n_layers):
            weights, bias = _layer_arrays(shape, at, layer)
            layer_out = vectors[_LAYER_OUT + layer]
            forward(_part(single, weights, width, width), single[bias : bias + width], layer_in, index, layer_out)
            relu(layer_out, slope)
            if layer == 0 and drop:
                _drop(layer_out, hyper[_DROPOUT], shape[_KEY], step_number, block)
            layer_in = layer_out
        head = single[shape[at + _HEAD] : shape[at + _HEAD] + n_outputs * width]
        outputs = work[place + _AFTER_DEVIATION : place + _AFTER_DEVIATION + n_outputs]
        if shape[_SOFTMAX]:
            total = vectors[_SUM]
            total[:] = 0
            if block > 0:
                add_row(work[place - vectors.size - _block_work(shape) + _SUM * width :][:width], kind(1), total)
            accumulate(_part(single, shape[at + _PROJECTION], width, width), layer_in, index, total)
            bias = shape[at + _HEAD_BIAS]
            forward_head(head, width, single[bias : bias + n_outputs], total, outputs)
            softmax(outputs, outputs)
        else:
            forward_head(head, width, single[0:0], layer_in, outputs)
        add_row(outputs, kind(hyper[_OUTPUT_SCALE]), scores)
        if block + 1 < n_blocks:
            block_out = vectors[_OUT]
            forward(_part(single, shape[at + _SKIP], width, width), layer_in, block_in, index, block_out)
            relu(block_out, kind(0))
            block_in = block_out
        place += _AFTER_DEVIATION + n_outputs
        at += _per_block(shape)


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step_number, work, work64, index, scores):
    drop = hyper[_DROPOUT] > 0 and shape[_DROP_IN_PREDICTION] == 1
    _network(shape, hyper, single, x, active, drop, step_number, work, index, scores)


class _Weights(NamedTuple):
    """All weights, the moments of their steps, and the step: rate, decay, share and epsilon."""

    values: Any
    moments: Any
    step_size: Any


class _Block(NamedTuple):
    """Block r after the forward pass: its number from 0, its places in `shape`, and what it left in `work`."""

    number: Any
    at: Any
    vectors: Any
    deviation: Any
    outputs: Any
    x: Any  # x_{r-1}
    x_from_relu: Any  # then zeros of x_{r-1} have no gradient


class _Gradients(NamedTuple):
    """Gradients of the loss by a layer's output and input, x_r and x_{r-1}, t_r, and the outputs."""

    layer: Any
    below: Any
    x_out: Any
    x_in: Any
    total: Any
    outputs: Any


@kernel()
def _block_at(shape, work, number):
    """What the forward pass left of a block."""
    width, n_layers = shape[_WIDTH], shape[_LAYERS]
    encoded = _n_pooled(shape)
    start = encoded + width + number * _block_work(shape)
    vectors = _part(work, start, _LAYER_OUT + n_layers, width)
    after = start + vectors.size
    outputs = work[after + _AFTER_DEVIATION : after + _AFTER_DEVIATION + shape[_OUTPUTS]]
    x_at = encoded if number == 0 else start - _block_work(shape) + _OUT * width
    x_from_relu = number > 0 or shape[_BINDING] == _SCALED
    at = _FIRST_BLOCK + number * _per_block(shape)
    return _Block(number, at, vectors, work[after + _DEVIATION], outputs, work[x_at : x_at + width], x_from_relu)


@kernel()
def _step_part(weights, start, gradient):
    """The step of the weights from `start` on, as many as there are gradients."""
    own = slice(start, start + gradient.shape[0])
    step(weights.values[own], weights.moments[own], gradient, weights.step_size)


@kernel()
def _square_backward(shape, weights, start, x, gradient, index, x_gradient, rectified):
    """`dense.backward` of a matrix of the full width."""
    width = shape[_WIDTH]
    values, moments = _part(weights.values, start, width, width), _part(weights.moments, start, width, width)
    backward(values, moments, x, gradient, index, x_gradient, rectified, weights.step_size)


@kernel()
def _outputs_backward(shape, hyper, weights, block, gradients, index):
    """Steps of a block's outputs, from their gradient; adds to those of its last layer and of t_r."""
    n_outputs, width = shape[_OUTPUTS], shape[_WIDTH]
    last = block.vectors[_LAYER_OUT + shape[_LAYERS] - 1]
    head = slice(shape[block.at + _HEAD], shape[block.at + _HEAD] + n_outputs * width)
    values, moments = weights.values[head], weights.moments[head]
    if not shape[_SOFTMAX]:
        backward_head(values, moments, width, last, gradients.outputs, gradients.layer, weights.step_size)
        return
    mean = dot(block.outputs, gradients.outputs)
    for k in range(n_outputs):
        gradients.outputs[k] = block.outputs[k] * (gradients.outputs[k] - mean)
    total = block.vectors[_SUM]
    backward_head(values, moments, width, total, gradients.outputs, gradients.total, weights.step_size)
    _step_part(weights, shape[block.at + _HEAD_BIAS], gradients.outputs)
    rectified = last.dtype.type(hyper[_SLOPE]) == 0
    _square_backward(
        shape, weights, shape[block.at + _PROJECTION], last, gradients.total, index, gradients.layer, rectified
    )


@kernel()
def _skip_backward(shape, weights, block, gradients, index):
    """Steps of W_r, from the gradient of x_r; adds to those of the last layer and of x_{r-1}. False if not finite."""
    kind = gradients.x_out.dtype.type
    relu_backward(block.vectors[_OUT], kind(0), gradients.x_out)
    if not all_finite(gradients.x_out):
        return False
    add_row(gradients.x_out, kind(1), gradients.layer)
    _square_backward(
        shape, weights, shape[block.at + _SKIP], block.x, gradients.x_out, index, gradients.x_in, block.x_from_relu
    )
    return True


@kernel()
def _layers_backward(shape, hyper, weights, block, gradients, index, step_number):
    """Steps of a block's layers and its normalisation; adds to the gradient of x_{r-1}. False if not finite."""
    vectors, slope = block.vectors, block.vectors.dtype.type(hyper[_SLOPE])
    gradient, below = gradients.layer, gradients.below
    for layer in range(shape[_LAYERS] - 1, -1, -1):
        if layer == 0 and hyper[_DROPOUT] > 0:
            _drop_backward(gradient, hyper[_DROPOUT], shape[_KEY], step_number, block.number)
        relu_backward(vectors[_LAYER_OUT + layer], slope, gradient)
        if not all_finite(gradient):
            return False
        matrix, bias = _layer_arrays(shape, block.at, layer)
        if layer > 0:
            below[:] = 0
            layer_in = vectors[_LAYER_OUT + layer - 1]
            _square_backward(shape, weights, matrix, layer_in, gradient, index, below, slope == 0)
        elif shape[_NORMALISE]:
            below[:] = 0
            _square_backward(shape, weights, matrix, vectors[_INPUT], gradient, index, below, False)
        else:
            _square_backward(shape, weights, matrix, block.x, gradient, index, gradients.x_in, block.x_from_relu)
        _step_part(weights, bias, gradient)
        gradient, below = below, gradient
    if shape[_NORMALISE]:
        # After the last swap, `gradient` is that of the normalised input.
        _normalise_backward(shape, weights, block, gradient, gradients.x_in)
    return True


@kernel()
def _normalise_backward(shape, weights, block, gradient, x_gradient):
    """Steps of a block's normalisation, from the gradient of what it gave; adds to the gradient of x_{r-1}."""
    hat, scale = block.vectors[_HAT], shape[block.at + _SCALE]
    values = weights.values[scale : scale + gradient.shape[0]]
    normalise_backward(hat, block.deviation, values, gradient.dtype.type(_EPSILON), gradient, x_gradient)
    _step_part(weights, shape[block.at + _SHIFT], gradient)
    for i in range(gradient.shape[0]):
        gradient[i] *= hat[i]
    _step_part(weights, scale, gradient)


@kernel()
def _encode_backward(shape, weights, x, active, pooled, out, gradient, index, pooled_gradient, id_gradient):
    """Steps of the encoder and of the available features' embeddings, from the gradient of x_0."""
    width, n_embedding, binding = shape[_WIDTH], shape[_EMBEDDING], shape[_BINDING]
    ids, encoder = shape[_IDS], shape[_ENCODER]
    factor = gradient.dtype.type(_pool_factor(shape[_POOLING], active.shape[0]))
    if binding == _RELU:
        for slot in active:
            start = ids + slot * 2 * width
            row = weights.values[start : start + 2 * width]
            value = x[slot]
            for i in range(width):
                g = factor * gradient[i] if value * row[i] + row[width + i] > 0 else gradient.dtype.type(0)
                id_gradient[i] = g * value
                id_gradient[width + i] = g
            _step_part(weights, start, id_gradient[: 2 * width])
        _step_part(weights, encoder, gradient)
        return
    if binding == _SCALED:
        relu_backward(out, gradient.dtype.type(0), gradient)
        for slot in active:
            own = slice(ids + slot * width, ids + (slot + 1) * width)
            step_row(weights.values[own], weights.moments[own], factor * x[slot], gradient, weights.step_size)
        _step_part(weights, encoder, gradient)
        return
    n_pooled = pooled.shape[0]
    pooled_gradient[:] = 0
    values, moments = _part(weights.values, encoder, n_pooled, width), _part(weights.moments, encoder, n_pooled, width)
    backward(values, moments, pooled, gradient, index, pooled_gradient, False, weights.step_size)
    for slot in active:
        for i in range(n_embedding):
            id_gradient[i] = factor * pooled_gradient[_ID + i]
            if binding == _PRODUCT:
                id_gradient[i] += factor * x[slot] * pooled_gradient[_ID + n_embedding + i]
        _step_part(weights, ids + slot * n_embedding, id_gradient[:n_embedding])


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step_number, y, weight, gradient, work, work64, index):
    if not all_finite(gradient):
        return False
    n_outputs, width, n_blocks, n_pooled = shape[_OUTPUTS], shape[_WIDTH], shape[_BLOCKS], _n_pooled(shape)
    weights = _Weights(single, second, step_size_of(hyper, single))
    pooled, encoded = work[:n_pooled], work[n_pooled : n_pooled + width]
    end = n_pooled + width + n_blocks * _block_work(shape)
    scratch = _part(work, end, _WIDE_GRADIENTS, width)
    end += scratch.size
    of_outputs, of_pooled = work[end : end + n_outputs], work[end + n_outputs : end + n_outputs + n_pooled]
    of_ids = work[end + n_outputs + n_pooled :]
    if hyper[_DROPOUT] > 0 and shape[_DROP_IN_PREDICTION] == 0:
        _network(shape, hyper, single, x, active, True, step_number, work, index, of_outputs)
    x_out, x_in, of_total = scratch[_X_OUT], scratch[_X_IN], scratch[_TOTAL]
    x_out[:] = 0
    of_total[:] = 0
    for number in range(n_blocks - 1, -1, -1):
        block = _block_at(shape, work, number)
        gradients = _Gradients(scratch[_LAYER], scratch[_BELOW], x_out, x_in, of_total, of_outputs)
        gradients.layer[:] = 0
        x_in[:] = 0
        for k in range(n_outputs):
            of_outputs[k] = work.dtype.type(hyper[_OUTPUT_SCALE]) * gradient[k]
        _outputs_backward(shape, hyper, weights, block, gradients, index)
        if number + 1 < n_blocks and not _skip_backward(shape, weights, block, gradients, index):
            return False
        if not _layers_backward(shape, hyper, weights, block, gradients, index, step_number):
            return False
        x_out, x_in = x_in, x_out
    if not all_finite(x_out):
        return False
    _encode_backward(shape, weights, x, active, pooled, encoded, x_out, index, of_pooled, of_ids)
    return True


class SetLearner(CompiledLearner):
    """A network over the set of available (value, feature ID) pairs; a missing feature is simply not in the set.

    Encoder, with e_j the learned embedding of feature j, x_j its value, A the n available features and c = 1,
    1/n or 1/sqrt(n) by `pooling`:

        none      x_0 = E c sum_{j in A} [x_j ; 1 ; e_j]
        product   x_0 = E c sum_{j in A} [x_j ; 1 ; e_j ; x_j e_j]
        relu      x_0 = b + c sum_{j in A} ReLU(x_j d_j + e_j)        with a second embedding d_j
        scaled    x_0 = ReLU(b + c sum_{j in A} x_j e_j)

    Blocks r = 1 .. R, with FC the affine map followed by the activation (N is layer normalisation, or nothing):

        h_{r,1} = FC_{r,1}(N_r(x_{r-1})),  ...,  h_{r,L} = FC_{r,L}(h_{r,L-1})
        x_r = ReLU(W_r x_{r-1} + h_{r,L})

    Outputs:

        linear    y_r = y_{r-1} + Q_r h_{r,L},   scores = output_scale y_R
        softmax   t_r = t_{r-1} + V_r h_{r,L},   scores = output_scale sum_r softmax(H_r t_r + b_r)

    (Paper, "Slow learner with set inputs"; in its printed equation of x_r the index r-1 of h is a slip.) W_R would
    reach no output and is left out. Learning follows dL/dscores (`StepConfig`), multiplied by the record's weight, by
    10 at most.

    Weights start uniform in +-1/sqrt(fan_in), `none` embeddings in +-1/sqrt(150) as in the released code, the others
    in +-1.

    Examples
    --------
    >>> import numpy as np
    >>> learner = SetLearner(SetConfig(width=16, blocks=2, layers=2, binding="product"), seed=1)
    >>> learner.grow(3, 2)
    >>> x = np.array([0.5, -1.0, 7.0], dtype=np.float32)
    >>> available = np.array([True, True, False])
    >>> first = learner.scores(x, available)
    >>> x[2] = -7.0  # a missing feature has no influence
    >>> bool((learner.scores(x, available) == first).all())
    True
    """

    name = "set"
    config: SetConfig
    forward = _forward
    update = _learn

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Embeddings by feature, the encoder, and the arrays of each block."""
        config, width = self.config, self.config.width
        bound = 1.0 / math.sqrt(width)
        if config.binding in {"relu", "scaled"}:
            per_feature = (2 if config.binding == "relu" else 1) * width
            # A plain sum of n embeddings grows with sqrt(n): they start smaller, the more features there are.
            id_bound = 1.0 / math.sqrt(max(n_features, 1)) if config.pooling == "sum" else 1.0
            arrays = {"ids": ArrayPlan((n_features, per_feature), id_bound), "encoder": ArrayPlan((1, width))}
        else:
            n_pooled = _ID + config.embedding * (2 if config.binding == "product" else 1)
            id_bound = 1.0 if config.binding == "product" else 1.0 / math.sqrt(150.0)
            arrays = {
                "ids": ArrayPlan((n_features, config.embedding), id_bound),
                "encoder": ArrayPlan((n_pooled, width), 1.0 / math.sqrt(n_pooled - 1)),
            }
        head_bound = 0.0 if config.zero_output else bound
        for block in range(1, config.blocks + 1):
            if config.normalise:
                arrays[f"block {block} scale"] = ArrayPlan((width,))
                arrays[f"block {block} shift"] = ArrayPlan((width,))
            if block < config.blocks:
                arrays[f"block {block} skip"] = ArrayPlan((width, width), bound)
            arrays[f"block {block} head"] = ArrayPlan((n_outputs, width), head_bound)
            if config.output == "softmax":
                arrays[f"block {block} head bias"] = ArrayPlan((n_outputs,), head_bound)
                arrays[f"block {block} projection"] = ArrayPlan((width, width), bound)
            for layer in range(1, config.layers + 1):
                arrays[f"block {block} weights {layer}"] = ArrayPlan((width, width), bound)
                arrays[f"block {block} bias {layer}"] = ArrayPlan((width,), bound)
        return arrays

    def initialise(self, name: str, view: NDArray[Any], old: tuple[int, ...], bound: float) -> None:
        """Uniform, but for the scales of the normalisation, which start at one."""
        super().initialise(name, view, old, bound)
        if name.endswith(" scale"):
            view[old[0] :] = 1.0

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """The places above the kernels, in order; an array that this configuration does not have starts at 0."""
        config = self.config
        numbers = [
            self.n_outputs,
            config.width,
            config.blocks,
            config.layers,
            config.embedding,
            _BINDINGS[config.binding],
            _POOLS[config.pooling],
            int(config.normalise),
            int(config.dropout_when_predicting),
            int(config.output == "softmax"),
            key_of(self.seed, self.name, self.place, "dropout") >> 1,
            offsets["ids"],
            offsets["encoder"],
        ]
        for block in range(1, config.blocks + 1):
            numbers += [offsets.get(f"block {block} {array}", 0) for array in _BLOCK_ARRAYS]
            for layer in range(1, config.layers + 1):
                numbers += [offsets[f"block {block} weights {layer}"], offsets[f"block {block} bias {layer}"]]
        return numbers

    def hyper_numbers(self) -> list[float]:
        """The step, dropout, slope and output scale."""
        return [*self.config.step_numbers(), self.config.dropout, self.config.slope, self.config.output_scale]

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """The pooled vector, x_0, each block's part; gradients: five widths, outputs, pooled, an ID; places."""
        config = self.config
        n_pooled = _ID + 2 * config.embedding
        block = (_LAYER_OUT + config.layers) * config.width + _AFTER_DEVIATION + n_outputs
        gradients = _WIDE_GRADIENTS * config.width + n_outputs + n_pooled + max(2 * config.width, config.embedding)
        work = n_pooled + config.width + config.blocks * block + gradients
        return work, 0, max(n_pooled, config.width) + 1
