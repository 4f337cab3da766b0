"""Set learner: the slow, expressive learner over the set of available features."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.errors import BraidedError
from braided.kernels.activations import all_finite, normalise, normalise_backward, relu, relu_backward, softmax
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.compile import kernel
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
from braided.kernels.random import key_of, mix, unit_interval
from braided.learners.base import MAX_LAYERS, ArrayPlan, CompiledLearner
from braided.learners.steps import StepConfig

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


# Places in `shape`: the settings, then from `_AT` on where each array starts: the encoder's two, then for each
# block its own six and two per layer.
_OUTPUTS, _WIDTH, _BLOCKS, _LAYERS, _EMBEDDING, _BINDING, _POOLING = 0, 1, 2, 3, 4, 5, 6
_NORMALISE, _DROP_IN_PREDICTION, _SOFTMAX, _KEY, _AT = 7, 8, 9, 10, 11
_BLOCK_ARRAYS = ("scale", "shift", "skip", "head", "head bias", "projection")
_SCALE, _SHIFT, _SKIP, _HEAD, _HEAD_BIAS, _PROJECTION, _FIRST_LAYER = 0, 1, 2, 3, 4, 5, 6
# Places in `hyper`, after the four of the step.
_DROPOUT, _SLOPE, _OUTPUT_SCALE = 4, 5, 6
# What a block leaves in `work` for the backward pass, each of one width; the layers' outputs follow.
_HAT, _INPUT, _OUT, _SUM, _LAYER_OUT = 0, 1, 2, 3, 4


@kernel()
def _part(flat, start, n_rows, n_columns):
    """A matrix within a flat buffer."""
    return flat[start : start + n_rows * n_columns].reshape(n_rows, n_columns)


@kernel()
def _n_pooled(shape):
    """Length of the pooled vector: value, 1, embedding, and with the product binding value times embedding."""
    if shape[_BINDING] == _RELU or shape[_BINDING] == _SCALED:
        return 0
    return 2 + shape[_EMBEDDING] * (2 if shape[_BINDING] == _PRODUCT else 1)


@kernel()
def _block_work(shape):
    """Length of one block's part of `work`: its vectors, a deviation, and one number per output."""
    return (_LAYER_OUT + shape[_LAYERS]) * shape[_WIDTH] + 1 + shape[_OUTPUTS]


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
    ids, encoder = shape[_AT], shape[_AT + 1]
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
        pooled[0] += x[slot]
        pooled[1] += 1
        add_row(embedding, out.dtype.type(1), pooled[2:])
        if binding == _PRODUCT:
            add_row(embedding, x[slot], pooled[2 + n_embedding :])
    for i in range(pooled.shape[0]):
        pooled[i] *= factor
    out[:] = 0
    accumulate(_part(single, encoder, pooled.shape[0], width), pooled, index, out)


@kernel()
def _encode_backward(
    shape, single, second, x, active, pooled, out, gradient, index, pooled_gradient, id_gradient, step_size
):
    """Steps of the encoder and of the available features' embeddings, from the gradient of x_0."""
    width, n_embedding, binding = shape[_WIDTH], shape[_EMBEDDING], shape[_BINDING]
    ids, encoder = shape[_AT], shape[_AT + 1]
    factor = gradient.dtype.type(_pool_factor(shape[_POOLING], active.shape[0]))
    if binding == _RELU:
        for slot in active:
            own = slice(ids + slot * 2 * width, ids + (slot + 1) * 2 * width)
            row = single[own]
            value = x[slot]
            for i in range(width):
                g = factor * gradient[i] if value * row[i] + row[width + i] > 0 else gradient.dtype.type(0)
                id_gradient[i] = g * value
                id_gradient[width + i] = g
            step(row, second[own], id_gradient[: 2 * width], step_size)
        step(single[encoder : encoder + width], second[encoder : encoder + width], gradient, step_size)
        return
    if binding == _SCALED:
        relu_backward(out, gradient.dtype.type(0), gradient)
        for slot in active:
            own = slice(ids + slot * width, ids + (slot + 1) * width)
            step_row(single[own], second[own], factor * x[slot], gradient, step_size)
        step(single[encoder : encoder + width], second[encoder : encoder + width], gradient, step_size)
        return
    n_pooled = pooled.shape[0]
    pooled_gradient[:] = 0
    backward(
        _part(single, encoder, n_pooled, width), _part(second, encoder, n_pooled, width), pooled, gradient,
        index, pooled_gradient, False, step_size,
    )  # fmt: skip
    for slot in active:
        own = slice(ids + slot * n_embedding, ids + (slot + 1) * n_embedding)
        for i in range(n_embedding):
            id_gradient[i] = factor * pooled_gradient[2 + i]
            if binding == _PRODUCT:
                id_gradient[i] += factor * x[slot] * pooled_gradient[2 + n_embedding + i]
        step(single[own], second[own], id_gradient[:n_embedding], step_size)


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
    at, place = _AT + 2, n_pooled + width
    for block in range(n_blocks):
        vectors = _part(work, place, _LAYER_OUT + n_layers, width)
        place += vectors.size
        layer_in = block_in
        if shape[_NORMALISE]:
            scale, shift = shape[at + _SCALE], shape[at + _SHIFT]
            work[place] = normalise(
                block_in, single[scale : scale + width], single[shift : shift + width], kind(_EPSILON), vectors[_HAT],
                vectors[_INPUT],
            )  # fmt: skip
            layer_in = vectors[_INPUT]
        for layer in range(n_layers):
            weights, bias = shape[at + _FIRST_LAYER + 2 * layer], shape[at + _FIRST_LAYER + 2 * layer + 1]
            layer_out = vectors[_LAYER_OUT + layer]
            forward(_part(single, weights, width, width), single[bias : bias + width], layer_in, index, layer_out)
            relu(layer_out, slope)
            if layer == 0 and drop:
                _drop(layer_out, hyper[_DROPOUT], shape[_KEY], step_number, block)
            layer_in = layer_out
        head = single[shape[at + _HEAD] : shape[at + _HEAD] + n_outputs * width]
        outputs = work[place + 1 : place + 1 + n_outputs]
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
        place += 1 + n_outputs
        at += _FIRST_LAYER + 2 * n_layers


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step_number, work, work64, index, scores):
    drop = hyper[_DROPOUT] > 0 and shape[_DROP_IN_PREDICTION] == 1
    _network(shape, hyper, single, x, active, drop, step_number, work, index, scores)


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step_number, y, weight, gradient, work, work64, index):
    kind = work.dtype.type
    step_size = (kind(hyper[0]), kind(hyper[1]), kind(hyper[2]), kind(hyper[3]))
    n_outputs, width, n_blocks, n_layers = shape[_OUTPUTS], shape[_WIDTH], shape[_BLOCKS], shape[_LAYERS]
    slope = kind(hyper[_SLOPE])
    n_pooled = _n_pooled(shape)
    rectified = slope == 0
    end = n_pooled + width + n_blocks * _block_work(shape)
    scratch = _part(work, end, 5, width)
    layer_gradient, below, out_gradient, in_gradient, sum_gradient = (
        scratch[0], scratch[1], scratch[2], scratch[3], scratch[4],
    )  # fmt: skip
    after = end + 5 * width
    head_gradient = work[after : after + n_outputs]
    pooled_gradient = work[after + n_outputs : after + n_outputs + n_pooled]
    id_gradient = work[after + n_outputs + n_pooled :]
    if not all_finite(gradient):
        return False
    drop = hyper[_DROPOUT] > 0
    if drop and shape[_DROP_IN_PREDICTION] == 0:
        _network(shape, hyper, single, x, active, True, step_number, work, index, head_gradient)
    out_gradient[:] = 0
    sum_gradient[:] = 0
    per_block = _FIRST_LAYER + 2 * n_layers
    at = _AT + 2 + n_blocks * per_block
    place = end
    for block in range(n_blocks - 1, -1, -1):
        at -= per_block
        place -= _block_work(shape)
        vectors = _part(work, place, _LAYER_OUT + n_layers, width)
        outputs = work[place + vectors.size + 1 : place + vectors.size + 1 + n_outputs]
        block_in = work[n_pooled : n_pooled + width]
        from_relu = block > 0 or shape[_BINDING] == _SCALED  # zeros of x_{r-1} then have no gradient
        if block > 0:
            before = place - _block_work(shape) + _OUT * width
            block_in = work[before : before + width]
        last = vectors[_LAYER_OUT + n_layers - 1]
        layer_gradient[:] = 0
        in_gradient[:] = 0
        for k in range(n_outputs):
            head_gradient[k] = kind(hyper[_OUTPUT_SCALE]) * gradient[k]
        head = slice(shape[at + _HEAD], shape[at + _HEAD] + n_outputs * width)
        if shape[_SOFTMAX]:
            mean = dot(outputs, head_gradient)
            for k in range(n_outputs):
                head_gradient[k] = outputs[k] * (head_gradient[k] - mean)
            backward_head(single[head], second[head], width, vectors[_SUM], head_gradient, sum_gradient, step_size)
            bias = slice(shape[at + _HEAD_BIAS], shape[at + _HEAD_BIAS] + n_outputs)
            step(single[bias], second[bias], head_gradient, step_size)
            projection = shape[at + _PROJECTION]
            backward(
                _part(single, projection, width, width), _part(second, projection, width, width), last, sum_gradient,
                index, layer_gradient, rectified, step_size,
            )  # fmt: skip
        else:
            backward_head(single[head], second[head], width, last, head_gradient, layer_gradient, step_size)
        if block + 1 < n_blocks:
            relu_backward(vectors[_OUT], kind(0), out_gradient)
            if not all_finite(out_gradient):
                return False
            add_row(out_gradient, kind(1), layer_gradient)
            skip = shape[at + _SKIP]
            backward(
                _part(single, skip, width, width), _part(second, skip, width, width), block_in, out_gradient, index,
                in_gradient, from_relu, step_size,
            )  # fmt: skip
        for layer in range(n_layers - 1, -1, -1):
            if layer == 0 and drop:
                _drop_backward(layer_gradient, hyper[_DROPOUT], shape[_KEY], step_number, block)
            relu_backward(vectors[_LAYER_OUT + layer], slope, layer_gradient)
            if not all_finite(layer_gradient):
                return False
            weights = shape[at + _FIRST_LAYER + 2 * layer]
            bias = slice(shape[at + _FIRST_LAYER + 2 * layer + 1], shape[at + _FIRST_LAYER + 2 * layer + 1] + width)
            matrix, moments = _part(single, weights, width, width), _part(second, weights, width, width)
            if layer > 0:
                below[:] = 0
                backward(
                    matrix, moments, vectors[_LAYER_OUT + layer - 1], layer_gradient, index, below, rectified, step_size
                )
            elif shape[_NORMALISE]:
                below[:] = 0
                backward(matrix, moments, vectors[_INPUT], layer_gradient, index, below, False, step_size)
            else:
                backward(matrix, moments, block_in, layer_gradient, index, in_gradient, from_relu, step_size)
            step(single[bias], second[bias], layer_gradient, step_size)
            layer_gradient, below = below, layer_gradient
        if shape[_NORMALISE]:
            # After the last swap, the gradient of the normalised input is in `layer_gradient`.
            scale = slice(shape[at + _SCALE], shape[at + _SCALE] + width)
            shift = slice(shape[at + _SHIFT], shape[at + _SHIFT] + width)
            deviation = work[place + vectors.size]
            normalise_backward(vectors[_HAT], deviation, single[scale], kind(_EPSILON), layer_gradient, in_gradient)
            for i in range(width):
                below[i] = layer_gradient[i] * vectors[_HAT, i]
            step(single[scale], second[scale], below, step_size)
            step(single[shift], second[shift], layer_gradient, step_size)
        out_gradient, in_gradient = in_gradient, out_gradient
    if not all_finite(out_gradient):
        return False
    _encode_backward(
        shape, single, second, x, active, work[:n_pooled], work[n_pooled : n_pooled + width], out_gradient, index,
        pooled_gradient, id_gradient, step_size,
    )  # fmt: skip
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
            n_pooled = 2 + config.embedding * (2 if config.binding == "product" else 1)
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
        """The settings as integers, then where each array starts (0 for an array that this configuration has not)."""
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
        n_pooled = 2 + 2 * config.embedding
        block = (_LAYER_OUT + config.layers) * config.width + 1 + n_outputs
        gradients = 5 * config.width + n_outputs + n_pooled + max(2 * config.width, config.embedding)
        work = n_pooled + config.width + config.blocks * block + gradients
        return work, 0, max(n_pooled, config.width) + 1
