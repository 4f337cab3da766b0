"""What came last: labels that persist, values that change little, and no harm where there is no order."""

from __future__ import annotations

import numpy as np
import pytest

from braided import MODLClassifier, MODLRegressor, presets
from braided.kernels import scale
from braided.learners import LinearConfig, LogisticConfig, RecentConfig, RecentValueConfig, build
from conftest import made_up

NOTHING = np.zeros((400, 0))


def test_scores_follow_their_formulas() -> None:
    learner = build(RecentConfig(), seed=0, place=0)
    learner.grow(0, 3)
    rates, k = np.array([1.0, 0.5, 0.2, 0.05, 0.01]), 3
    past, w, covariance = np.zeros((5, k)), np.zeros(5), 0.3 * np.eye(5)
    x, mask, unused = np.zeros(0, dtype=np.float32), np.zeros(0, dtype=bool), np.zeros(3, dtype=np.float32)
    for y in np.random.default_rng(0).integers(0, 3, size=60).repeat(4):
        logs = np.log((past + 0.02 / k) / (past.sum(axis=1, keepdims=True) + 0.02) + 1e-3)
        logs -= logs.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(learner.scores(x, mask), w @ logs, atol=1e-5)
        learner.learn(x, mask, int(y), unused)
        p = np.exp(w @ logs) / np.exp(w @ logs).sum()
        h = logs - (logs @ p)[:, None]
        covariance = np.linalg.inv(np.linalg.inv(covariance) + (p * h) @ h.T)
        w = w + covariance @ h[:, y]
        covariance = (1 - 1e-4) * covariance + 1e-4 * 0.3 * np.eye(5)
        past = (1 - rates)[:, None] * past
        past[:, y] += rates
    assert w[0] > 0.1, "labels in fours: repeating the last is learned"


def test_labels_that_persist_are_followed() -> None:
    labels = np.random.default_rng(0).integers(0, 4, size=100).repeat(10)
    model = MODLClassifier(learners=(RecentConfig(),))
    values = np.ones((labels.size, 1))
    said = np.array(model.predict_learn_many(values, labels).values.argmax(axis=1))
    wrong = (np.array(model.classes)[said] != labels)[200:].mean()
    assert wrong < 0.1, "three quarters of 100 changes in 1,000 records cannot be known"


def test_only_labels_that_have_come_are_used() -> None:
    """What a label changes is seen after it was learned, and not before."""
    model = MODLClassifier(learners=(RecentConfig(),))
    for label in [0, 0, 0, 1, 1, 1] * 15 + [0] * 20:
        model.learn_one({"a": 1.0}, label)
    before = model.predict_proba_one({"a": 1.0})
    assert model.predict_proba_one({"a": 1.0}) == before
    model.learn_one({"a": 1.0}, 1)
    assert model.predict_proba_one({"a": 1.0})[1] > before[1]


def test_a_random_walk_is_predicted_about_as_well_as_by_its_last_value() -> None:
    rng = np.random.default_rng(0)
    y = 1e5 + np.cumsum(rng.normal(size=2_000))
    y[1_000:] -= 500.0  # far outside of all that was seen
    model = MODLRegressor("default")
    said = model.predict_learn_many(rng.normal(size=(2_000, 3)), y).values[:, 0]
    ours, last = np.abs(said - y)[10:], np.abs(np.diff(y))[9:]
    assert np.median(ours) < 1.05 * np.median(last)
    assert ours.sum() < 1.1 * last.sum() + 500, "a jump so far is believed when it was seen twice"


def test_changes_that_the_record_tells_are_learned() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3_000, 2))
    y = np.cumsum(x[:, 0]) + 0.1 * rng.normal(size=3_000)
    model = MODLRegressor(learners=(RecentValueConfig(prior_variance=0.1),), combiner="kalman-tanh")
    said = model.predict_learn_many(x, y).values[:, 0]
    assert np.abs(said - y)[500:].mean() < 0.25 * np.abs(np.diff(y))[500:].mean()


@pytest.mark.parametrize("seed", range(3))
def test_without_an_order_there_is_hardly_any_harm(seed: int) -> None:
    values, labels = made_up(3_000, d=6, seed=seed)
    fast = LogisticConfig(prior_variance=0.1)

    def errors(learners: tuple[object, ...]) -> int:
        model = MODLClassifier(learners=learners, combiner="kalman")  # type: ignore[arg-type]
        said = model.predict_learn_many(values, labels).values.argmax(axis=1)
        return int((np.array(model.classes)[said] != labels).sum())

    assert errors((fast, RecentConfig())) <= 1.02 * errors((fast,)) + 5


def test_without_an_order_numbers_are_predicted_as_by_the_others() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3_000, 3))
    y = x @ [1.0, -2.0, 0.5] + rng.normal(size=3_000)

    def error(learners: tuple[object, ...]) -> float:
        model = MODLRegressor(learners=learners, combiner="kalman-tanh")  # type: ignore[arg-type]
        return float(np.abs(model.predict_learn_many(x, y).values[:, 0] - y)[200:].mean())

    assert error((LinearConfig(), RecentValueConfig(prior_variance=0.01))) < 1.02 * error((LinearConfig(),))


def test_the_preset_has_a_learner_of_what_came_last_for_both_tasks() -> None:
    preset = presets.get("default")
    assert any(isinstance(config, RecentConfig) for config in preset.learners)
    assert any(isinstance(config, RecentValueConfig) for config in preset.for_regression().learners)


def test_statistics_that_start_over_leave_the_past_alone() -> None:
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(size=200), 100 + rng.normal(size=200)])
    model = MODLRegressor("default")
    model.learn_many(np.ones((400, 1)), y)
    target = model.braid.target
    assert target[scale.COUNT] < 250, "those of the target began anew"
    assert target[scale.CHANGES + scale.COUNT] == 398, "those of its changes did not, but two jumps are none"
    assert target[scale.LAST] == y[-1]


def test_a_jump_that_a_feature_announces_is_predicted() -> None:
    """It is some thirty usual changes high, and comes every forty records."""
    rng = np.random.default_rng(0)
    on = np.arange(4_000) % 40 >= 33
    values = np.column_stack([rng.normal(size=(4_000, 3)), on])
    targets = values[:, 0] + 0.2 * rng.normal(size=4_000) + 40.0 * on
    said = MODLRegressor().predict_learn_many(values, targets).values[:, 0]
    assert np.abs(said - targets)[-1_000:].mean() < 0.4, "without a word of the jumps it would be 1.5 and more"
