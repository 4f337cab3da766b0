"""Every gradient learner against automatic differentiation.

The kernels are generic in the float type: here Python runs them as they are written, on float64, where a plain step
with rate 1 gives the gradient to full precision as the difference of the weights. Compiled for float64, which no model
needs, they would take a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from braided.kernels.calls import Entry
from braided.kernels.encoding import knots
from braided.learners import MLPConfig, SetConfig, build

jax.config.update("jax_enable_x64", True)

MLPS = [
    MLPConfig(hidden=()),
    MLPConfig(hidden=(7,), mask_inputs=False),
    MLPConfig(hidden=(5, 9, 3)),
    MLPConfig(hidden=(16, 16)),
    MLPConfig(hidden=(6, 5), encoding="piecewise", bins=4, mask_inputs=False),
    MLPConfig(hidden=(6,), encoding="piecewise", bins=3),
]
SETS = [
    SetConfig(width=8, blocks=1, layers=1),
    SetConfig(width=9, blocks=3, layers=2, pooling="mean"),
    SetConfig(width=12, blocks=2, layers=3, embedding=5, binding="product", pooling="sqrt"),
    SetConfig(width=8, blocks=2, layers=2, binding="relu", pooling="sum", output_scale=0.7),
    SetConfig(width=8, blocks=2, layers=1, binding="scaled", pooling="sum"),
    SetConfig(width=8, blocks=1, layers=2, binding="scaled", pooling="sqrt", slope=0.1),
    SetConfig(width=10, blocks=3, layers=2, normalise=True, slope=0.01, pooling="mean"),
    SetConfig(width=8, blocks=3, layers=2, output="softmax", output_scale=0.25, embedding=4),
    SetConfig(
        width=8,
        blocks=2,
        layers=2,
        normalise=True,
        slope=0.01,
        pooling="mean",
        output="softmax",
        output_scale=0.25,
        binding="product",
    ),
]


def in_double(entry: Entry) -> Callable[..., Any]:
    """The kernel itself: Python runs it, and all that it calls but for random draws."""
    return vars(entry)["__wrapped__"]


def mlp_scores(config: MLPConfig, arrays: dict[str, Any], x: Any, mask: Any) -> Any:
    inputs = [x * mask, mask] if config.mask_inputs else [x * mask]
    if config.encoding == "piecewise":
        places = jnp.asarray(knots(config.bins))
        inputs += [jnp.interp(x, places, one) * mask for one in jnp.eye(len(places))]
    h = jnp.stack(inputs, axis=1).ravel()
    for layer in range(1, len(config.hidden) + 1):
        h = jax.nn.relu(h @ arrays[f"weights {layer}"] + arrays[f"bias {layer}"])
    return arrays["weights out"] @ h + arrays["bias out"]


def set_scores(config: SetConfig, arrays: dict[str, Any], x: Any, mask: Any) -> Any:
    n = mask.sum()
    factor = {"sum": 1.0, "mean": 1.0 / n, "sqrt": 1.0 / jnp.sqrt(n)}[config.pooling]
    ids = arrays["ids"]
    if config.binding == "relu":
        direction, origin = ids[:, : config.width], ids[:, config.width :]
        pairs = jax.nn.relu(x[:, None] * direction + origin)
        block_in = arrays["encoder"][0] + factor * (mask[:, None] * pairs).sum(0)
    elif config.binding == "scaled":
        block_in = jax.nn.relu(arrays["encoder"][0] + factor * ((mask * x)[:, None] * ids).sum(0))
    else:
        parts = [x[:, None], jnp.ones_like(x)[:, None], ids]
        if config.binding == "product":
            parts.append(x[:, None] * ids)
        block_in = (factor * (mask[:, None] * jnp.concatenate(parts, axis=1)).sum(0)) @ arrays["encoder"]
    scores, total = 0.0, 0.0
    for block in range(1, config.blocks + 1):

        def of(name: str, block: int = block) -> Any:
            return arrays[f"block {block} {name}"]

        h = block_in
        if config.normalise:
            h = (h - h.mean()) / (h.std(ddof=1) + 1e-6) * of("scale") + of("shift")
        for layer in range(1, config.layers + 1):
            h = jax.nn.leaky_relu(h @ of(f"weights {layer}") + of(f"bias {layer}"), config.slope)
        if config.output == "softmax":
            total = total + h @ of("projection")
            scores = scores + config.output_scale * jax.nn.softmax(of("head") @ total + of("head bias"))
        else:
            scores = scores + config.output_scale * (of("head") @ h)
        if block < config.blocks:
            block_in = jax.nn.relu(block_in @ of("skip") + h)
    return scores


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("config", MLPS + SETS, ids=lambda config: type(config).__name__)
def test_scores_and_gradients_match_automatic_differentiation(config: MLPConfig | SetConfig, classes: int) -> None:
    rng = np.random.default_rng(3)
    learner = build(replace(config, learning_rate=1.0), seed=5, place=0)
    learner.grow(6, classes)
    x = rng.normal(size=6)
    mask = np.array([True, False, True, True, False, True])
    g = rng.normal(size=classes)

    single, work, shape = learner.single.astype(np.float64), learner.work.astype(np.float64), learner.shape
    scores = np.zeros(classes)
    active = np.flatnonzero(mask)
    rest = (learner.work64, learner.index)
    in_double(learner.forward)(shape, learner.hyper, single, learner.double, x, active, 0, work, *rest, scores)
    before = single.copy()
    fine = in_double(learner.update)(
        shape, learner.hyper, single, single, learner.double, x, active, 0, 1.0, 1.0, g, work, *rest
    )
    assert fine

    arrays = {name: jnp.asarray(array, dtype=jnp.float64) for name, array in learner.state().items()}
    oracle = mlp_scores if isinstance(config, MLPConfig) else set_scores
    where = jnp.asarray(mask, dtype=jnp.float64)
    expected, pull = jax.vjp(lambda values: oracle(config, values, jnp.asarray(x), where), arrays)
    np.testing.assert_allclose(scores, expected, rtol=1e-10, atol=1e-12)
    (gradients,) = pull(jnp.asarray(g))
    step = before - single
    for name, gradient in gradients.items():
        start = learner._offsets[name]
        view = learner.views[name]
        found = step[start : start + view.size].reshape(view.shape)[tuple(slice(0, n) for n in gradient.shape)]
        scale = max(float(np.abs(gradient).max()), 1e-12)
        np.testing.assert_allclose(found, gradient, rtol=1e-5, atol=1e-9 * scale, err_msg=name)


@pytest.mark.parametrize("config", [MLPS[2], SETS[2], SETS[-1]], ids=lambda config: type(config).__name__)
def test_single_precision_steps_are_the_double_ones_rounded(config: MLPConfig | SetConfig) -> None:
    rng = np.random.default_rng(0)
    learner = build(replace(config, learning_rate=1.0), seed=1, place=0)
    learner.grow(6, 3)
    x, mask = rng.normal(size=6).astype(np.float32), np.ones(6, dtype=bool)
    g = rng.normal(size=3).astype(np.float32)
    single, work = learner.single.astype(np.float64), learner.work.astype(np.float64)
    rest = (learner.work64, learner.index)
    shape, hyper, active = learner.shape, learner.hyper, np.arange(6)
    wide, wide_g = x.astype(np.float64), g.astype(np.float64)
    in_double(learner.forward)(shape, hyper, single, learner.double, wide, active, 0, work, *rest, np.zeros(3))
    in_double(learner.update)(
        shape, hyper, single, single, learner.double, wide, active, 0, 1.0, 1.0, wide_g, work, *rest
    )
    before = learner.single.copy()
    assert learner.learn(x, mask, 1, g)
    moved = np.linalg.norm(single - before)
    assert moved > 0
    assert np.linalg.norm(learner.single - single) < 1e-5 * moved


@pytest.mark.parametrize("optimiser", ["rmsprop", "adagrad"])
def test_adaptive_steps_follow_their_formulas(optimiser: str) -> None:
    """Two steps on the same record, each weight by the formula, with gradients from automatic differentiation."""
    config = MLPConfig(hidden=(4, 3), learning_rate=0.01, optimiser=optimiser, decay=0.9, epsilon=1e-6)
    learner = build(config, seed=2, place=0)
    learner.grow(3, 2)
    x, mask = np.array([0.5, -1.0, 2.0], dtype=np.float32), np.ones(3, dtype=bool)
    weights = {name: jnp.asarray(a, dtype=jnp.float64) for name, a in learner.state().items() if "moment" not in name}
    moments = {name: jnp.zeros_like(a) for name, a in weights.items()}
    decay, share = (0.9, 0.1) if optimiser == "rmsprop" else (1.0, 1.0)
    for g in ([0.3, -0.3], [-0.2, 0.2]):
        _, pull = jax.vjp(lambda w: mlp_scores(config, w, jnp.asarray(x, dtype=jnp.float64), jnp.ones(3)), weights)
        (gradients,) = pull(jnp.asarray(g))
        for name, gradient in gradients.items():
            moments[name] = decay * moments[name] + share * gradient**2
            weights[name] = weights[name] - 0.01 * gradient / (jnp.sqrt(moments[name]) + 1e-6)
        learner.learn(x, mask, 1, np.array(g, dtype=np.float32))
    for name, expected in weights.items():
        np.testing.assert_allclose(learner.state()[name], expected, rtol=2e-4, atol=1e-6, err_msg=name)
