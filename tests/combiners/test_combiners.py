"""Combiners against automatic differentiation and their own definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from braided import BraidedError, MODLClassifier, combiners
from braided.combiners import COMBINERS
from braided.combiners.greedy import WINDOW
from braided.combiners.kalman import FORGETTING, PRIOR_VARIANCE
from braided.combiners.moe import HIDDEN, LEARNING_RATE

jax.config.update("jax_enable_x64", True)
X, MASK = np.array([0.5, 0.0, -1.5], dtype=np.float32), np.array([True, False, True])
RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(3, 4)).astype(np.float32) * 2
LABEL = 2


def made(name: str) -> Any:
    combiner = combiners.build(name, regression=False, seed=3)
    combiner.grow(3, 4, 3)
    return combiner


def mixture(f: Any) -> Any:
    return jax.nn.softmax(f, axis=1)


def gate(weights: Any) -> Any:
    bias, rest = weights[:HIDDEN], weights[HIDDEN:]
    out_bias, out, rows = (
        rest[:3],
        rest[3 : 3 + 3 * HIDDEN].reshape(3, HIDDEN),
        rest[3 + 3 * HIDDEN :].reshape(3, HIDDEN),
    )
    return jax.nn.softmax(out @ jax.nn.relu(bias + jnp.asarray(X * MASK) @ rows) + out_bias)


JOINT: dict[str, Callable[[Any], Any]] = {
    "score-sum": lambda f: jax.nn.softmax(f.sum(0)),
    "multiplication": lambda f: jax.nn.softmax(jax.nn.log_softmax(f, axis=1).sum(0)),
}


@pytest.mark.parametrize("name", JOINT)
def test_joint_combiners_follow_the_loss_of_the_whole(name: str) -> None:
    combiner = made(name)
    p = combiner.combine(X, MASK, SCORES)
    np.testing.assert_allclose(p, JOINT[name](jnp.asarray(SCORES, dtype=float)), rtol=1e-9)
    expected = jax.grad(lambda f: -jnp.log(JOINT[name](f)[LABEL]))(jnp.asarray(SCORES, dtype=float))
    np.testing.assert_allclose(combiner.gradients(X, MASK, SCORES, LABEL, p), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["ensemble", "greedy", "kalman"])
def test_independent_combiners_follow_each_learners_own_loss(name: str) -> None:
    combiner = made(name)
    p = combiner.combine(X, MASK, SCORES)
    f = jnp.asarray(SCORES, dtype=float)
    np.testing.assert_allclose(p, jax.nn.softmax(f.mean(0)) if name == "kalman" else mixture(f).mean(0), rtol=1e-6)
    expected = jax.grad(lambda f: -jax.nn.log_softmax(f, axis=1)[:, LABEL].sum())(jnp.asarray(SCORES, dtype=float))
    np.testing.assert_allclose(combiner.gradients(X, MASK, SCORES, LABEL, p), expected, rtol=1e-5, atol=1e-7)


def test_mixture_of_experts_trains_gate_and_learners_jointly() -> None:
    combiner = made("moe")
    weights = jnp.asarray(combiner.state()["gate"], dtype=float)

    def loss(f: Any, w: Any) -> Any:
        return -jnp.log((gate(w)[:, None] * mixture(f)).sum(0)[LABEL])

    p = combiner.combine(X, MASK, SCORES)
    np.testing.assert_allclose(
        p, (gate(weights)[:, None] * mixture(jnp.asarray(SCORES, dtype=float))).sum(0), rtol=1e-5
    )
    by_score, by_weight = jax.grad(loss, argnums=(0, 1))(jnp.asarray(SCORES, dtype=float), weights)
    found = combiner.gradients(X, MASK, SCORES, LABEL, p)
    np.testing.assert_allclose(found, by_score, rtol=1e-4, atol=1e-6)
    moved = (weights - combiner.state()["gate"]) / LEARNING_RATE
    np.testing.assert_allclose(moved, by_weight, rtol=1e-2, atol=2e-5)
    assert np.abs(moved).max() > 1e-3


def test_multiplication_is_the_score_sum() -> None:
    one, other = (made(name).combine(X, MASK, SCORES) for name in ("multiplication", "score-sum"))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_greedy_weighs_by_past_accuracy_and_never_by_the_current_label() -> None:
    combiner = made("greedy")
    right_wrong_right = np.array([[5, 0, 0, 0], [0, 5, 0, 0], [5, 0, 0, 0]], dtype=np.float32)
    for _ in range(WINDOW // 2):
        p = combiner.combine(X, MASK, right_wrong_right)
        combiner.gradients(X, MASK, right_wrong_right, 0, p)
    accuracy = np.array([0.5, 0.0, 0.5])  # hits so far over the whole window
    weights = np.exp(accuracy) / np.exp(accuracy).sum()
    expected = weights @ np.asarray(mixture(jnp.asarray(SCORES, dtype=float)))
    np.testing.assert_allclose(combiner.combine(X, MASK, SCORES), expected, rtol=1e-5)
    for _ in range(WINDOW):  # the window forgets
        p = combiner.combine(X, MASK, right_wrong_right)
        combiner.gradients(X, MASK, right_wrong_right, 1, p)
    weights = np.exp([0.0, 1.0, 0.0]) / np.exp([0.0, 1.0, 0.0]).sum()
    expected = weights @ np.asarray(mixture(jnp.asarray(SCORES, dtype=float)))
    np.testing.assert_allclose(combiner.combine(X, MASK, SCORES), expected, rtol=1e-5)


@pytest.mark.parametrize("name", COMBINERS)
def test_extreme_scores_give_probabilities(name: str) -> None:
    combiner = made(name)
    extreme = np.array([[1e4, -1e4, 0, 0], [-1e4, 1e4, 0, 0], [0, 0, 0, 0]], dtype=np.float32)
    p = combiner.combine(X, MASK, extreme)
    assert np.isfinite(p).all()
    assert p.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.isfinite(combiner.gradients(X, MASK, extreme, 3, p)).all()


@pytest.mark.parametrize("name", COMBINERS)
def test_a_learner_that_cannot_be_used_has_no_say(name: str) -> None:
    """With one learner out, the other two say what they would have said without it."""
    out = SCORES.copy()
    out[1] = 0.0
    usable = np.array([True, False, True])
    p = made(name).combine(X, MASK, out, usable)
    pair = combiners.build(name, regression=False, seed=3)
    # kalman: the weights stay those of three learners: what the other two say counts as much as before
    if name == "aggregate":  # the mixture has the combined prediction in its place; the baselines know nothing yet
        together = np.asarray(jax.nn.softmax(jnp.asarray(out, dtype=float).mean(0)))
        first, _, third = np.asarray(jax.nn.softmax(jnp.asarray(out, dtype=float), axis=1))
        uniform = np.full(4, 0.25)
        experts = np.stack([together, first, together, third, uniform, uniform])
        expected = made(name).shares @ experts  # type: ignore[attr-defined]
    elif name.startswith("kalman"):
        expected = np.asarray(jax.nn.softmax(jnp.asarray(out, dtype=float).mean(0)))
    elif name == "moe":
        shares = np.asarray(gate(jnp.asarray(made("moe").state()["gate"], dtype=float)))[[0, 2]]
        expected = shares / shares.sum() @ np.asarray(mixture(jnp.asarray(SCORES[[0, 2]], dtype=float)))
    else:
        pair.grow(3, 4, 2)
        expected = pair.combine(X, MASK, np.ascontiguousarray(SCORES[[0, 2]]))
    np.testing.assert_allclose(p, expected, rtol=1e-5)
    nobody = made(name).combine(X, MASK, np.zeros_like(SCORES), np.zeros(3, dtype=bool))
    np.testing.assert_allclose(nobody, 0.25)


def test_greedy_gives_no_credit_to_a_learner_that_said_nothing() -> None:
    combiner = made("greedy")
    silent, usable = np.zeros_like(SCORES), np.array([False, True, True])
    p = combiner.combine(X, MASK, silent, usable)
    combiner.gradients(X, MASK, silent, 0, p, usable)  # class 0 is what zeros would have said
    assert combiner.state()["window"][1::WINDOW][:3].tolist() == [0.0, 1.0, 1.0]


def test_a_gate_that_ran_away_is_drawn_anew() -> None:
    rng = np.random.default_rng(0)
    values = np.exp(4 * rng.normal(size=(2_000, 5))) * 10
    labels = (np.log(values[:, 0]) > np.log(10)).astype(int)
    model = MODLClassifier(preset="paper", combiner="moe", seed=1)
    predictions = model.predict_learn_many(values, labels).values
    assert np.isfinite(predictions).all()
    np.testing.assert_allclose(predictions[1:].sum(axis=1), 1.0, rtol=1e-9)
    combiner = made("moe")
    drawn = combiner.state()["gate"]
    combiner.load_state({"gate": np.full_like(drawn, np.nan)})
    p = combiner.combine(X, MASK, SCORES)
    np.testing.assert_allclose(p, mixture(jnp.asarray(SCORES, dtype=float)).mean(0), rtol=1e-5)
    combiner.gradients(X, MASK, SCORES, LABEL, p)
    np.testing.assert_array_equal(combiner.state()["gate"], drawn)


def test_growth_keeps_the_gate() -> None:
    combiner = made("moe")
    before = combiner.combine(X, MASK, SCORES)
    combiner.grow(7, 4, 3)
    wide, mask = np.concatenate([X, np.zeros(4, dtype=np.float32)]), np.concatenate([MASK, np.zeros(4, dtype=bool)])
    np.testing.assert_array_equal(combiner.combine(wide, mask, SCORES), before)


def test_kalman_weights_follow_the_newton_step_of_the_loss() -> None:
    """With the Hessian and the gradient of the cross-entropy for the weights, by automatic differentiation."""
    combiner = made("kalman")
    scores = (SCORES - SCORES.mean(axis=1, keepdims=True)).astype(float)
    w, P = np.full(3, 1 / 3), PRIOR_VARIANCE * np.eye(3)
    rng = np.random.default_rng(1)
    for _ in range(50):
        f = scores + rng.normal(size=scores.shape)
        f = (f - f.mean(axis=1, keepdims=True)).astype(np.float32)
        label = int(rng.integers(4))

        def loss(weights: Any, f: Any = f, label: int = label) -> Any:
            return -jax.nn.log_softmax(weights @ jnp.asarray(f, dtype=float))[label]

        P = np.linalg.inv(np.linalg.inv(P) + np.asarray(jax.hessian(loss)(w)))
        w = w - P @ np.asarray(jax.grad(loss)(w))
        P = (1 - FORGETTING) * P + FORGETTING * PRIOR_VARIANCE * np.eye(3)
        combiner.gradients(X, MASK, f, label, combiner.combine(X, MASK, f))
        np.testing.assert_allclose(combiner.weights, w, rtol=1e-6, atol=1e-9)


def test_kalman_weights_of_numbers_find_the_right_learner() -> None:
    combiner = combiners.build("kalman", regression=True, seed=0)
    combiner.grow(3, 1, 3)
    rng = np.random.default_rng(0)
    for _ in range(2_000):
        y = rng.normal()
        f = np.array([[y + 0.1 * rng.normal()], [-y], [rng.normal()]], dtype=np.float32)
        prediction = combiner.combine(X, MASK, f)
        gradients = combiner.gradients(X, MASK, f, y, prediction)
        np.testing.assert_allclose(gradients, f - y, rtol=1e-5, atol=1e-6)
    assert prediction[0] == pytest.approx(y, abs=0.5)
    weights = combiner.weights  # type: ignore[attr-defined]
    assert weights[0] - weights[1] == pytest.approx(1.0, abs=0.05)
    assert abs(weights[2]) < 0.05


def test_regression_takes_the_combiners_that_can_add_up_numbers() -> None:
    for name, kind in COMBINERS.items():
        if kind.for_regression:
            combiners.build(name, regression=True, seed=0)
        else:
            with pytest.raises(BraidedError, match="for regression use 'score-sum' or 'kalman' or 'kalman-tanh' or"):
                combiners.build(name, regression=True, seed=0)
    numeric = {name for name, kind in COMBINERS.items() if kind.for_regression}
    assert numeric == {"score-sum", "kalman", "kalman-tanh", "aggregate"}


@pytest.mark.parametrize("name", ["kalman", "kalman-tanh"])
def test_a_whole_weight_is_so_many_steps_of_the_kalman_weights(name: str) -> None:
    """But for how far they relax, which goes by records."""
    heavy, repeated = (combiners.build(name, regression=False, seed=0) for _ in range(2))
    for combiner in (heavy, repeated):
        combiner.hyper[1] = 0.0
        combiner.grow(3, 4, 3)
    rng = np.random.default_rng(0)
    for weight in (1, 3, 8):
        f = rng.normal(size=(3, 4)).astype(np.float32)
        heavy.gradients(X, MASK, f, 2, heavy.combine(X, MASK, f), weight=float(weight))
        for _ in range(weight):
            repeated.gradients(X, MASK, f, 2, repeated.combine(X, MASK, f))
    np.testing.assert_allclose(heavy.state()["weights"], repeated.state()["weights"], rtol=1e-9, atol=1e-12)
