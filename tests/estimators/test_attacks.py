"""What an attacker found in the core, one test each."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, MODLClassifier, MODLRegressor
from braided.learners import ExactConfig, LinearConfig, LogisticConfig
from braided.store import state_digest


@pytest.mark.parametrize("first", [[1e155], [1.7e308, -1.7e308]])
def test_a_huge_first_value_can_be_saved_and_loaded(first: list[float], tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(300, 1))
    targets = 2 * values[:, 0]
    values[: len(first), 0] = first
    model = MODLRegressor("lean")
    model.learn_many(values, targets)
    model.save(tmp_path / "model")
    assert state_digest(MODLRegressor.load(tmp_path / "model")) == state_digest(model)


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.1])
def test_a_relation_that_changes_is_followed_whatever_was_exact_before(noise: float) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3_000, 2))
    slope = np.where(np.arange(3_000) < 2_000, 2.0, -3.0)
    targets = slope * values[:, 0] - values[:, 1] + noise * rng.normal(size=3_000)
    off = np.abs(MODLRegressor("lean").predict_learn_many(values, targets).values[:, 0] - targets)
    assert off[1_900:2_000].mean() < 0.05 + noise
    assert off[2_200:2_500].mean() < 1.0
    assert off[2_500:].mean() < 0.5


def test_a_feature_that_comes_late_is_learned_beside_the_others() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3_000, 3))
    targets = values @ [2.0, -1.0, 0.0] + np.where(np.arange(3_000) < 2_000, 0.0, 5.0 * values[:, 2])
    targets += 0.01 * rng.normal(size=3_000)
    values[:2_000, 2] = np.nan
    off = np.abs(MODLRegressor(learners=(ExactConfig(),)).predict_learn_many(values, targets).own[:, 0] - targets)
    assert off[2_200:].mean() < 0.05


def test_zero_and_minus_zero_are_learned_as_they_are() -> None:
    values, targets = np.array([[0.0], [-0.0], [1.0], [2.0]]), [1.0, 2.0, 3.0, 5.0]
    chunk, alone = MODLRegressor(), MODLRegressor()
    chunk.learn_many(values, targets, names=["a"])
    for value, target in zip(values[:, 0].tolist(), targets, strict=True):
        alone.predict_one({"a": value})
        alone.learn_one({"a": value}, target)
    assert state_digest(chunk) == state_digest(alone)


@pytest.mark.parametrize("value", [1 + 0j, np.complex64(1), np.array([1.0]), np.array([1.0, 2.0])])
def test_what_equals_the_value_before_is_still_checked(value: Any) -> None:
    model = MODLClassifier("lean")
    model.learn_one({"a": 1.0}, "x")
    with pytest.raises(BraidedError, match="feature 'a' is"):
        model.predict_one({"a": value})


@pytest.mark.parametrize("weight", [np.array([1.0, 2.0]), np.array([]), Decimal("sNaN"), "1", None])
def test_a_weight_that_is_none_is_refused(weight: Any) -> None:
    model = MODLClassifier("lean")
    before = state_digest(model)
    with pytest.raises(BraidedError, match="the weight of record 1 is"):
        model.learn_one({"a": 1.0}, "x", w=weight)
    assert state_digest(model) == before


def test_late_labels_without_a_learner_of_changes_have_no_zero_for_a_last_target() -> None:
    values = np.random.default_rng(0).normal(size=(400, 1))
    model = MODLRegressor(learners=(LinearConfig(),), combiner="aggregate", delay=5)
    said = model.predict_learn_many(values, 126.0 + values[:, 0]).values[:, 0]
    assert np.abs(said - 126.0 - values[:, 0])[100:].max() < 3.0


def test_a_last_label_that_comes_late_stays_as_often_as_it_does() -> None:
    rng = np.random.default_rng(0)
    labels = np.cumsum(rng.random(6_000) < 0.1) % 2
    for delay, stays in ((0, 0.9), (3, 0.756)):  # after three records the label is the same with (1 + 0.8^3) / 2
        model = MODLClassifier(learners=(LogisticConfig(),), combiner="aggregate", delay=delay)
        model.predict_learn_many(rng.normal(size=(6_000, 1)), labels)
        experts: Any = model.braid.combiner
        known = experts._kept()
        assert known[2] / known[1] == pytest.approx(stays, abs=0.03)


def test_scores_outside_of_the_loop_are_of_the_record_that_is_given() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 2))
    model = MODLRegressor()
    model.learn_many(values, values @ [1.0, -2.0])
    learner = model.braid.learners[-1]
    there = np.array([True, True])
    one, other = (learner.scores(np.array(x, dtype=np.float32), there)[0] for x in ([0.0, 0.0], [3.0, -9.0]))
    assert other - one == pytest.approx(21.0, abs=0.5)
