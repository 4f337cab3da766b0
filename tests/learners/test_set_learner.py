"""What makes the set learner a set learner."""

from __future__ import annotations

import numpy as np
import pytest

from braided.learners import SetConfig, SetLearner

CONFIGS = [
    SetConfig(width=16, blocks=2, layers=2),
    SetConfig(width=16, blocks=2, layers=2, binding="product", pooling="sqrt"),
    SetConfig(width=16, blocks=2, layers=2, binding="relu", pooling="mean", normalise=True, output="softmax"),
]
X = np.array([0.3, -1.2, 2.0, 0.7, -0.4], dtype=np.float32)


def learner_of(config: SetConfig, n: int = 5) -> SetLearner:
    learner = SetLearner(config, seed=4)
    learner.grow(n, 3)
    return learner


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_the_order_of_features_does_not_matter(config: SetConfig) -> None:
    """Permuting values together with their embeddings is the same set."""
    learner = learner_of(config)
    mask = np.array([True, True, False, True, True])
    expected = learner.scores(X, mask)
    order = np.array([3, 0, 4, 2, 1])
    state = learner.state()
    learner.load_state({**state, "ids": state["ids"][order]})
    np.testing.assert_allclose(learner.scores(X[order], mask[order]), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_missing_feature_has_no_influence_and_is_not_trained(config: SetConfig) -> None:
    learner = learner_of(config)
    mask = np.array([True, True, False, True, True])
    expected = learner.scores(X, mask)
    changed = X.copy()
    changed[2] = 100.0
    np.testing.assert_array_equal(learner.scores(changed, mask), expected)
    before = learner.state()["ids"]
    learner.learn(X, mask, 1, np.array([0.5, -0.7, 0.2], dtype=np.float32))
    moved = (learner.state()["ids"] != before).any(axis=1)
    assert moved.tolist() == mask.tolist()


def test_binding_decides_whether_values_belong_to_features() -> None:
    mask = np.ones(5, dtype=bool)
    swapped = X[[1, 0, 2, 3, 4]]
    unbound = learner_of(CONFIGS[0])
    np.testing.assert_allclose(unbound.scores(swapped, mask), unbound.scores(X, mask), rtol=1e-5, atol=1e-6)
    for config in CONFIGS[1:]:
        bound = learner_of(config)
        assert np.abs(bound.scores(swapped, mask) - bound.scores(X, mask)).max() > 1e-4


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_the_empty_set_is_legal(config: SetConfig) -> None:
    learner = learner_of(config)
    nothing = np.zeros(5, dtype=bool)
    assert np.isfinite(learner.scores(X, nothing)).all()
    assert learner.learn(X, nothing, 0, np.array([0.5, -0.7, 0.2], dtype=np.float32))


def test_dropout_acts_on_learning_and_on_predictions_only_if_asked() -> None:
    quiet = learner_of(SetConfig(width=32, blocks=2, layers=2, dropout=0.5))
    plain = learner_of(SetConfig(width=32, blocks=2, layers=2))
    mask = np.ones(5, dtype=bool)
    np.testing.assert_array_equal(quiet.scores(X, mask), plain.scores(X, mask))
    g = np.array([0.5, -0.7, 0.2], dtype=np.float32)
    quiet.learn(X, mask, 1, g)
    plain.learn(X, mask, 1, g)
    assert np.abs(quiet.scores(X, mask) - plain.scores(X, mask)).max() > 0

    noisy = learner_of(SetConfig(width=32, blocks=2, layers=2, dropout=0.5, dropout_when_predicting=True))
    first = noisy.scores(X, mask)
    np.testing.assert_array_equal(noisy.scores(X, mask), first)  # predicting changes nothing, not even the draw
    noisy.steps += 1
    assert np.abs(noisy.scores(X, mask) - first).max() > 0  # the next record has a draw of its own


def test_dropout_gradient_reaches_only_the_units_kept() -> None:
    config = SetConfig(width=64, blocks=1, layers=2, dropout=0.5, learning_rate=1.0)
    learner = learner_of(config)
    before = learner.state()
    learner.learn(X, np.ones(5, dtype=bool), 1, np.array([0.5, -0.7, 0.2], dtype=np.float32))
    moved = (learner.state()["block 1 weights 2"] != before["block 1 weights 2"]).any(axis=1)
    trained = learner.state()["block 1 bias 1"] != before["block 1 bias 1"]
    assert 5 < moved.sum() < 40, "about a quarter of 64: half active, half of these kept"
    assert (moved >= trained).all()
