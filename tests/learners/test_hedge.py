"""ODL, Fast ODL and Aux-Drop: gradients, Proposition 2, the hedge, the AuxLayer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from test_gradients import in_double

from braided import BraidedError
from braided.learners import HedgeConfig, HedgeNetwork

jax.config.update("jax_enable_x64", True)
UNUSED = np.zeros(3, dtype=np.float32)
CONFIGS = [
    HedgeConfig(layers=4, width=7),
    HedgeConfig(layers=3, width=7, softmax_twice=True),
    HedgeConfig(layers=3, width=7, exits="last"),
    HedgeConfig(layers=6, width=8, aux_layer=3, aux_width=14, base_features=2),
    HedgeConfig(layers=5, width=8, aux_layer=2, aux_width=3, base_features=2, softmax_twice=True),  # 4 aux, 3 neurons
    HedgeConfig(layers=4, width=6, aux_layer=3, aux_width=10, base_features=0, exits="last"),
]


def record(rng: np.random.Generator, always: int = 2) -> tuple[NDArray[np.float32], NDArray[np.bool_], int]:
    x = rng.normal(size=6).astype(np.float32)
    mask = rng.random(6) < 0.7
    mask[:always] = True
    label = int(x[0] + x[1] * x[2] > 0) + int(x[3] > 1)
    return np.where(mask, x, 0).astype(np.float32), mask, label


def loss_of(config: HedgeConfig, arrays: dict[str, Any], alphas: Any, x: Any, label: int, kept: Any) -> Any:
    """The weighted loss; `kept` are the factors of the AuxLayer's neurons."""
    h = jnp.asarray(x[: config.base_features] if config.aux_layer else x)
    total, number = 0.0, 0
    for layer in range(1, config.layers + 1):
        z = h @ arrays[f"weights {layer}"] + arrays[f"bias {layer}"]
        if layer == config.aux_layer:
            z = z + jnp.asarray(x[config.base_features :]) @ arrays["auxiliary"]
        h = jax.nn.relu(z)
        if layer == config.aux_layer:
            h = h * kept
        if f"exit {layer}" in arrays:
            f = jax.nn.softmax(arrays[f"exit {layer}"] @ h + arrays[f"exit bias {layer}"])
            total = total - alphas[number] * (jax.nn.log_softmax(f) if config.softmax_twice else jnp.log(f))[label]
            number += 1
    return total


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.layers}x{c.width}-aux{c.aux_layer}-{c.exits}")
def test_one_step_is_the_gradient_of_the_weighted_loss(config: HedgeConfig, fast: bool) -> None:
    learner = HedgeNetwork(replace(config, fast=fast, learning_rate=1.0), seed=2)
    learner.grow(6, 3)
    rng = np.random.default_rng(1)
    x, mask, label = record(rng)
    alphas = rng.dirichlet(np.ones(learner.views["alphas"].size))
    double = learner.double.copy()
    double[: alphas.size] = alphas
    single, work = learner.single.astype(np.float64), learner.work.astype(np.float64)
    rest = (learner.work64, learner.index)
    active = np.flatnonzero(mask)
    wide = x.astype(np.float64)
    in_double(learner.forward)(learner.shape, learner.hyper, single, double, wide, active, 7, work, *rest, np.zeros(3))
    kept = np.ones(config.aux_width)
    if config.aux_layer:  # which neurons survive is read off a pass of ones through the same dropout
        from braided.learners.hedge import _drop

        _drop(kept, learner.shape, learner.hyper, active, 7, True)
        tied = min(6 - config.base_features, config.aux_width)
        np.testing.assert_array_equal(kept[:tied] > 0, mask[config.base_features :][:tied])
    before = single.copy()
    assert in_double(learner.update)(
        learner.shape, learner.hyper, single, single, double, wide, active, 7, float(label), 1.0, UNUSED.astype(float),
        work, *rest,
    )  # fmt: skip
    arrays = {n: jnp.asarray(a, dtype=float) for n, a in learner.state().items() if n != "alphas"}
    gradients = jax.grad(lambda w: loss_of(config, w, alphas, wide, label, kept))(arrays)
    for name, gradient in gradients.items():
        start, view = learner._offsets[name], learner.views[name]
        step = (before - single)[start : start + view.size].reshape(view.shape)
        found = step[tuple(slice(0, n) for n in gradient.shape)]
        np.testing.assert_allclose(found, gradient, rtol=1e-5, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    "config",
    [
        HedgeConfig(layers=8, width=20, learning_rate=0.05),
        HedgeConfig(layers=6, aux_layer=3, base_features=2, learning_rate=0.05),
        HedgeConfig(layers=6, aux_layer=3, base_features=2, learning_rate=0.1, softmax_twice=True),
    ],
    ids=["odl", "auxdrop", "auxdrop-twice"],
)
def test_proposition_2_odl_and_fast_odl_are_the_same(config: HedgeConfig) -> None:
    slow, fast = (HedgeNetwork(replace(config, fast=fast), seed=3) for fast in (False, True))
    for learner in (slow, fast):
        learner.grow(6, 3)
    start = fast.state()
    rng = np.random.default_rng(0)
    for _ in range(500):
        x, mask, label = record(rng)
        assert slow.learn(x, mask, label, UNUSED)
        assert fast.learn(x, mask, label, UNUSED)
    for name, array in fast.state().items():
        np.testing.assert_allclose(slow.state()[name], array, atol=1e-5, rtol=0, err_msg=name)
    assert np.abs(fast.state()["weights 2"] - start["weights 2"]).max() > 1e-2, "they have learned something"


def test_the_hedge_moves_weight_to_better_exits_and_keeps_a_floor() -> None:
    learner = HedgeNetwork(HedgeConfig(layers=5, width=10, beta=0.5, smoothing=0.2, learning_rate=0.05), seed=0)
    learner.grow(6, 3)
    rng = np.random.default_rng(0)
    before = learner.state()["alphas"]
    np.testing.assert_array_equal(before, np.full(5, 0.2))
    for _ in range(300):
        learner.learn(*record(rng), UNUSED)
    alphas = learner.state()["alphas"]
    assert alphas.sum() == pytest.approx(1.0)
    assert alphas.min() >= 0.2 / 5 / (1 + 0.2), "the floor s / L, up to the division by the sum"
    assert alphas.max() > 0.3


def test_the_expected_share_of_dropped_neurons_is_the_dropout() -> None:
    from braided.learners.hedge import _drop

    learner = HedgeNetwork(HedgeConfig(aux_layer=3, base_features=2, aux_width=100, dropout=0.3), seed=1)
    learner.grow(12, 2)
    dropped = []
    rng = np.random.default_rng(0)
    for step in range(2_000):
        kept = np.ones(100)
        active = np.flatnonzero(np.concatenate([[True, True], rng.random(10) < 0.6]))
        _drop(kept, learner.shape, learner.hyper, active, step, True)
        dropped.append((kept == 0).mean())
        assert set(np.round(kept, 6)) <= {0.0, round(1 / 0.7, 6)}
    assert np.mean(dropped) == pytest.approx(0.3, abs=0.005)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_prediction_without_random_dropout_still_drops_the_neurons_of_missing_features(dropout: float) -> None:
    from braided.learners.hedge import _drop

    learner = HedgeNetwork(HedgeConfig(aux_layer=3, base_features=2, aux_width=20, dropout=dropout), seed=1)
    learner.grow(6, 2)
    mask = np.array([True, True, True, False, False, True])
    active, expected = np.flatnonzero(mask), np.zeros(20)
    for step in range(4_000):
        kept = np.ones(20)
        _drop(kept, learner.shape, learner.hyper, active, step, True)
        expected += kept / 4_000
    found = np.ones(20)
    _drop(found, learner.shape, learner.hyper, active, 7, False)
    np.testing.assert_allclose(found, expected, atol=0.04)
    assert (found[:4] > 0).tolist() == mask[2:].tolist()
    x = np.where(mask, 1.0, 0.0).astype(np.float32)
    first = learner.scores(x, mask)
    learner.steps += 1
    np.testing.assert_array_equal(learner.scores(x, mask), first, "nothing is drawn when predicting")
    full = learner.scores(x, np.ones(6, dtype=bool))
    assert (full != first).any(), "the same values, but none missing"


def test_predictions_are_repeatable_and_each_record_has_its_own_draw() -> None:
    learner = HedgeNetwork(HedgeConfig(aux_layer=3, base_features=2, dropout_when_predicting=True), seed=1)
    learner.grow(6, 2)
    x, mask, _ = record(np.random.default_rng(0))
    first = learner.scores(x, mask)
    np.testing.assert_array_equal(learner.scores(x, mask), first)
    learner.steps += 1
    assert (learner.scores(x, mask) != first).any()
    np.testing.assert_allclose(np.exp(first).sum(), 1.0, rtol=1e-5)


def test_olvf_has_two_outputs() -> None:
    from braided.learners import OLVF, OLVFConfig

    for outputs in (1, 3):
        with pytest.raises(BraidedError, match=f"olvf is a binary method and cannot have {outputs} outputs"):
            OLVF(OLVFConfig()).grow(2, outputs)


def test_olvf_follows_its_formulas() -> None:
    from braided.learners import OLVF, OLVFConfig

    config = OLVFConfig(aggressiveness=0.5, feature_rate=0.1, share_kept=0.6, radius=0.8)
    learner = OLVF(config)
    learner.grow(5, 2)
    w, bar, known = np.zeros(5), np.zeros(5), np.zeros(5)
    rng = np.random.default_rng(4)
    for _ in range(200):
        mask = rng.random(5) < 0.6
        x = np.where(mask, rng.normal(size=5), 0).astype(np.float32)
        label = int(x[0] - x[1] > 0)
        y, wide = 2 * label - 1, x.astype(float)
        margin = w @ wide
        p_w, p_x = 1 / (1 + np.exp(-bar @ known)), 1 / (1 + np.exp(-bar @ mask))
        tau = min(0.5, max(0, 1 - y * margin) / (wide @ wide)) if mask.any() else 0.0
        w = np.where(mask, np.where(known > 0, w + p_w * tau * y * wide, p_x * tau * y * wide), w)
        bar = bar + mask * 0.1 * (((margin > 0) == (y > 0)) - p_x)
        known = np.maximum(known, mask)
        w = w * min(1.0, 0.8 / max(np.abs(w).sum(), 1e-300))
        w = np.where(np.abs(w) >= np.sort(np.abs(w))[5 - 3], w, 0.0)
        assert learner.learn(x, mask, label, UNUSED[:2])
    np.testing.assert_allclose(learner.state()["weights"], w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(learner.state()["feature weights"], bar, rtol=1e-9, atol=1e-12)
