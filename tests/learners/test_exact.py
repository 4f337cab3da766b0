"""Exact linear regression: least squares on any scale, and what it believes when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from braided import MODLRegressor
from braided.learners import ExactConfig, ExactLinear

Floats = NDArray[np.float64]


def answers(values: Floats, targets: Floats, **settings: Any) -> Floats:
    model = MODLRegressor(learners=(ExactConfig(**settings),), combiner="score-sum")
    return np.asarray(model.predict_learn_many(values, targets).own)[:, 0]


def least_squares(values: Floats, targets: Floats, ridge: float) -> Floats:
    """Of each record by all before it; the ridge is on weights of standardised values, as at the end."""
    u = np.column_stack([np.ones(len(values)), (values - values.mean(axis=0)) / values.std(axis=0)])
    found = np.zeros(len(targets))
    for t in range(1, len(targets)):
        gram = u[:t].T @ u[:t] + ridge * np.eye(u.shape[1])
        found[t] = targets[0] + u[t] @ np.linalg.solve(gram, u[:t].T @ (targets[:t] - targets[0]))
    return found


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("origin", [0.0, 1.6e9])
def test_it_is_ridge_regression_on_all_records_whatever_the_scale(scale: float, origin: float) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 3)) * [1.0, 5.0, 0.2]
    targets = scale * (z @ [2.0, -1.0, 3.0] + 7.0 + rng.normal(size=400))
    values = z / scale + (origin if scale == 1.0 else 0.0)
    off = answers(values, targets)[50:] - least_squares(values, targets, 0.01)[50:]
    assert np.abs(off).max() < 3e-3 * scale  # while a unit is new, the prior holds in another one


def test_units_that_are_renewed_change_no_answer() -> None:
    """With next to no prior it is least squares, however often the values moved elsewhere."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(600, 3))  # one feature moves: were it half of them, the first records would be mistakes
    values[:, 0] = values[:, 0] * np.repeat([1.0, 6.0, 40.0], 200) + np.repeat([0.0, 10.0, -60.0], 200)
    targets = values @ [1.0, -2.0, 0.5] + rng.normal(size=600)
    ours, theirs = answers(values, targets, prior_variance=1e9), least_squares(values, targets, 1e-9)
    assert np.abs(ours - theirs)[20:].max() < 0.01


def test_a_setpoint_that_jumps_is_believed_with_the_second_record() -> None:
    rng = np.random.default_rng(2)
    setpoint = np.repeat([20.0, 70.0], [300, 10])
    targets = setpoint + 0.05 * rng.normal(size=310)
    off = np.abs(answers(np.column_stack([setpoint, rng.normal(size=310)]), targets) - targets)
    assert off[300] > 40.0
    assert off[302:].max() < 2.0


@pytest.mark.parametrize("wrong", [1e2, 1e6, 1e300])
@pytest.mark.parametrize("what", ["value", "target"])
def test_a_wrong_reading_is_forgotten(what: str, wrong: float) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(1_200, 3))
    targets = values @ [3.0, -1.0, 0.5] + 0.5 * rng.normal(size=1_200)
    clean = np.abs(answers(values, targets) - targets)[1_001:].mean()
    if what == "value":
        values[1_000, 0] = wrong
    else:
        targets[1_000] = wrong
    assert np.abs(answers(values, targets) - targets)[1_001:].mean() < 1.1 * clean


def test_targets_that_are_rarely_not_zero_are_predicted_by_their_mean() -> None:
    rng = np.random.default_rng(4)
    targets = np.where(rng.random(5_000) < 0.02, 100.0, 0.0)
    assert answers(rng.normal(size=(5_000, 2)), targets)[2_500:].mean() == pytest.approx(targets.mean(), rel=0.2)


def test_many_inputs_have_a_diagonal_covariance() -> None:
    learner = ExactLinear(ExactConfig(full_covariance_up_to=4))
    learner.grow(3, 1)
    assert learner.full
    learner.grow(4, 1)
    assert not learner.full
    rng = np.random.default_rng(5)
    values = rng.normal(size=(2_000, 6)) * 100.0 + 1e4
    targets = values @ [1.0, 0.0, -1.0, 0.0, 2.0, 0.0]
    found = answers(values, targets, full_covariance_up_to=4)
    assert np.abs(found - targets)[1_500:].mean() < 0.1 * targets.std()


def test_what_cannot_be_settings_is_refused() -> None:
    from braided import BraidedError

    with pytest.raises(BraidedError, match="prior_variance"):
        ExactConfig(prior_variance=0.0)
