"""The closed-form learners against direct implementations and batch solutions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from braided.learners import (
    FourierConfig,
    FourierLinear,
    FourierLinearConfig,
    FourierLogistic,
    LinearConfig,
    LinearRegression,
    LogisticConfig,
    LogisticRegression,
)

NO_GRADIENT = np.zeros(5, dtype=np.float32)


def records(n: int, d: int, seed: int = 0, available: float = 0.8) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    mask = rng.random((n, d)) < available
    return np.where(mask, rng.normal(size=(n, d)), 0).astype(np.float32), mask


def design(x: NDArray[np.float32], mask: NDArray[np.bool_], with_mask: bool) -> NDArray[np.float64]:
    """Rows u = [1 ; x] or [1 ; x_0 ; mask_0 ; ...]."""
    inputs = np.stack([x, mask], axis=2).reshape(len(x), -1) if with_mask else x
    return np.column_stack([np.ones(len(x)), inputs]).astype(np.float64)


@pytest.mark.parametrize("with_mask", [False, True])
def test_linear_regression_is_the_batch_posterior(with_mask: bool) -> None:
    x, mask = records(60, 4)
    y = x @ np.array([1.0, -2.0, 0.5, 3.0]) + np.random.default_rng(1).normal(size=60)
    learner = LinearRegression(LinearConfig(prior_variance=2.0, noise_variance=0.7, mask_inputs=with_mask))
    learner.grow(4, 1)
    for row, available, target in zip(x, mask, y, strict=True):
        assert learner.learn(row, available, target, NO_GRADIENT[:1])
    u = design(x, mask, with_mask)
    precision = np.eye(u.shape[1]) / 2.0 + u.T @ u / 0.7
    state = learner.state()
    np.testing.assert_allclose(state["covariance"], np.linalg.inv(precision), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state["mean"][0], np.linalg.solve(precision, u.T @ y / 0.7), rtol=1e-9, atol=1e-12)


def direct_recursion(
    gain: str, u: NDArray[np.float64], y: NDArray[np.float64], prior_variance: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The three recursions as NOTES and the paper print them, in dense matrices."""
    m, P = np.zeros(u.shape[1]), prior_variance * np.eye(u.shape[1])
    for row, label in zip(u, y, strict=True):
        s = 1 / (1 + np.exp(-row @ m))
        v, q = s * (1 - s), row @ P @ row
        if gain == "kalman":
            S = 1 + v * q
            K = P @ row / S
            P_next = P - v * np.outer(P @ row, P @ row) / S
        else:
            S = q * (1 + v**2) if gain == "paper" else q + v**2
            K = P @ row * v / S if gain == "paper" else P @ row / S
            P_next = P - S * np.outer(K, K)
        m, P = m + K * (label - s), P_next
    return m, P


@pytest.mark.parametrize("gain", ["kalman", "paper", "released"])
@pytest.mark.parametrize("with_mask", [False, True])
def test_each_gain_is_its_recursion(gain: str, with_mask: bool) -> None:
    x, mask = records(80, 5)
    y = (x @ np.array([1.0, -1.0, 0.5, 0.0, 2.0]) > 0).astype(float)
    learner = LogisticRegression(LogisticConfig(gain=gain, prior_variance=0.5, mask_inputs=with_mask))
    learner.grow(5, 2)
    for row, available, label in zip(x, mask, y, strict=True):
        assert learner.learn(row, available, label, NO_GRADIENT[:2])
    m, P = direct_recursion(gain, design(x, mask, with_mask), y, 0.5)
    np.testing.assert_allclose(learner.state()["mean"][0], m, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(learner.state()["covariance"], P, rtol=1e-6, atol=1e-9)


def test_kalman_gain_approaches_the_batch_map_on_the_toy_problem() -> None:
    """theta* = (1, 2), x ~ N(-1.5, 1), 100 points (paper, appendix "Toy Experiment")."""
    distances = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.normal(-1.5, 1.0, size=(100, 1)).astype(np.float32)
        u = design(x, np.ones((100, 1), dtype=bool), False)[:, ::-1]  # (x, 1), as the paper orders them
        y = (rng.random(100) < 1 / (1 + np.exp(-u @ np.array([1.0, 2.0])))).astype(float)
        learner = LogisticRegression(LogisticConfig(prior_variance=4.0))
        learner.grow(1, 2)
        for row, label in zip(x, y, strict=True):
            learner.learn(row, np.array([True]), label, NO_GRADIENT[:2])
        theta = np.zeros(2)
        for _ in range(50):  # Newton's method for the posterior mode
            p = 1 / (1 + np.exp(-u @ theta))
            hessian = u.T @ (u * (p * (1 - p))[:, None]) + np.eye(2) / 4.0
            theta -= np.linalg.solve(hessian, u.T @ (p - y) + theta / 4.0)
        posterior_sd = np.sqrt(np.diagonal(np.linalg.inv(hessian)))
        distances.append(np.abs(learner.state()["mean"][0][::-1] - theta) / posterior_sd)
    assert np.mean(distances) < 0.5, "within half a posterior standard deviation of the mode, on average"


def test_multinomial_with_two_classes_is_the_binary_recursion() -> None:
    """Three outputs of which the third never occurs differ; so compare by growing at the end instead."""
    x, mask = records(50, 3, available=1.0)
    y = (x[:, 0] > 0).astype(int)
    learner = LogisticRegression(LogisticConfig())
    learner.grow(3, 2)
    for row, available, label in zip(x, mask, y, strict=True):
        learner.learn(row, available, label, NO_GRADIENT[:2])
    two = learner.scores(x[0], mask[0])
    learner.grow(3, 3)
    three = learner.scores(x[0], mask[0])
    assert three[1] - three[0] == pytest.approx(two[1] - two[0], rel=1e-6)


def test_multinomial_recursion_is_the_direct_one() -> None:
    x, mask = records(120, 3)
    u = design(x, mask, False)
    y = (u @ np.random.default_rng(2).normal(size=(4, 4))).argmax(axis=1)
    learner = LogisticRegression(LogisticConfig(prior_variance=1.0))
    learner.grow(3, 4)
    m, P = np.zeros((4, 4)), 0.5 * np.eye(4)
    for row, available, label, v_u in zip(x, mask, y, u, strict=True):
        learner.learn(row, available, label, NO_GRADIENT[:4])
        a = m @ v_u
        p = np.exp(a - a.max()) / np.exp(a - a.max()).sum()
        v = (2 * p * (1 - p)).max()
        S = 1 + v * (v_u @ P @ v_u)
        m = m + np.outer(np.eye(4)[label] - p, P @ v_u / S)
        P = P - v * np.outer(P @ v_u, P @ v_u) / S
    np.testing.assert_allclose(learner.state()["mean"], m, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(learner.state()["covariance"], P, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("gain", ["kalman", "paper", "released"])
def test_covariance_stays_symmetric_and_positive_on_badly_scaled_values(gain: str) -> None:
    rng = np.random.default_rng(0)
    learner = LogisticRegression(LogisticConfig(gain=gain, prior_variance=1.0, clamp=10.0))
    learner.grow(4, 2)
    scale = np.array([1e4, 1e-4, 1.0, 100.0])
    for _ in range(5_000):
        x = (rng.normal(size=4) * scale).astype(np.float32)
        learner.learn(x, rng.random(4) < 0.7, float(x[2] > 0), NO_GRADIENT[:2])
    P = learner.state()["covariance"]
    assert np.isfinite(learner.state()["mean"]).all()
    assert (P == P.T).all(), "symmetric to the last bit"
    assert (np.diagonal(P) > 0).all()
    spread = np.sqrt(np.diagonal(P))
    assert np.linalg.eigvalsh(P / np.outer(spread, spread)).min() > -1e-6


def test_diagonal_covariance_above_the_limit_keeps_means_and_variances() -> None:
    config = LogisticConfig(full_covariance_up_to=5)
    learner = LogisticRegression(config)
    learner.grow(3, 2)
    x, mask = records(30, 3)
    for row, available in zip(x, mask, strict=True):
        learner.learn(row, available, float(row[0] > 0), NO_GRADIENT[:2])
    before, old = learner.state(), learner.scores(x[0], mask[0])
    learner.grow(8, 2)
    after = learner.state()
    assert after["covariance"].shape == (9,)
    np.testing.assert_array_equal(after["covariance"][:4], np.diagonal(before["covariance"]))
    np.testing.assert_array_equal(after["mean"][:, :4], before["mean"])
    wider = np.concatenate([x[0], np.zeros(5, dtype=np.float32)])
    np.testing.assert_array_equal(learner.scores(wider, np.concatenate([mask[0], np.zeros(5, dtype=bool)])), old)
    assert learner.learn(wider, np.ones(8, dtype=bool), 1.0, NO_GRADIENT[:2])


def test_diagonal_recursion_is_the_full_one_when_features_never_meet() -> None:
    """Without a bias in common the two would be equal; with it, each step must still shrink only what was seen."""
    diagonal = LogisticRegression(LogisticConfig(full_covariance_up_to=1))
    diagonal.grow(3, 2)
    assert diagonal.state()["covariance"].shape == (4,)
    x = np.array([2.0, 0.0, 0.0], dtype=np.float32)
    diagonal.learn(x, np.array([True, False, False]), 1.0, NO_GRADIENT[:2])
    # P0 = 1, v = 1/4, q = 1 + 4, S = 1 + 5/4: variances 1 - v u^2 / S
    np.testing.assert_allclose(diagonal.state()["covariance"], [1 - 0.25 / 2.25, 1 - 1.0 / 2.25, 1.0, 1.0])
    np.testing.assert_allclose(diagonal.state()["mean"][0], [0.5 / 2.25, 1.0 / 2.25, 0.0, 0.0])


def cosines(learner: FourierLogistic, x: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Rows u of the docstring's formula."""
    state = learner.state()
    n = np.maximum(mask.sum(axis=1, keepdims=True), 1)
    angles = (x.astype(np.float64) @ state["frequencies"]) / np.sqrt(n) + state["phases"]
    return np.column_stack([np.ones(len(x)), np.sqrt(2.0) * np.cos(angles)])


def test_fourier_logistic_is_the_kalman_recursion_on_cosines() -> None:
    x, mask = records(80, 5)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.float64)
    learner = FourierLogistic(FourierConfig(functions=20, prior_variance=0.3), seed=2)
    learner.grow(5, 2)
    for row, available, label in zip(x, mask, y, strict=True):
        assert learner.learn(row, available, label, NO_GRADIENT[:2])
    m, P = direct_recursion("kalman", cosines(learner, x, mask), y, 0.3)
    np.testing.assert_allclose(learner.state()["mean"][0], m, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(learner.state()["covariance"], P, rtol=1e-4, atol=1e-6)


def test_fourier_linear_is_the_batch_posterior_on_cosines() -> None:
    x, mask = records(80, 3)
    y = np.sin(2 * x[:, 0]) + x[:, 1]
    learner = FourierLinear(FourierLinearConfig(functions=15, prior_variance=2.0, noise_variance=0.5), seed=2)
    learner.grow(3, 1)
    for row, available, target in zip(x, mask, y, strict=True):
        assert learner.learn(row, available, target, NO_GRADIENT[:1])
    u = cosines(learner, x, mask)
    precision = np.eye(u.shape[1]) / 2.0 + u.T @ u / 0.5
    np.testing.assert_allclose(
        learner.state()["mean"][0], np.linalg.solve(precision, u.T @ y / 0.5), rtol=1e-3, atol=1e-5
    )


def test_frequencies_are_standard_normal_and_do_not_change_when_features_come() -> None:
    learner = FourierLogistic(FourierConfig(functions=200, bandwidth=2.0), seed=1)
    learner.grow(50, 2)
    before = learner.state()
    assert abs(before["frequencies"].mean()) < 0.02
    assert before["frequencies"].std() == pytest.approx(0.5, rel=0.02)
    assert abs(before["phases"]).max() <= np.pi + 1e-6
    x, mask = records(1, 50)
    known = learner.scores(x[0], mask[0])
    learner.learn(x[0], mask[0], 1, NO_GRADIENT[:2])
    known = learner.scores(x[0], mask[0])
    learner.grow(90, 2)
    np.testing.assert_array_equal(learner.state()["frequencies"][:50], before["frequencies"])
    wide = np.concatenate([x[0], np.zeros(40, dtype=np.float32)])
    np.testing.assert_array_equal(learner.scores(wide, np.concatenate([mask[0], np.zeros(40, dtype=bool)])), known)


@pytest.mark.parametrize("limit", [512, 1])
def test_forgetting_moves_every_variance_back_to_the_prior(limit: int) -> None:
    x, mask = records(40, 3, available=1.0)
    still, forgetful = (
        LogisticRegression(LogisticConfig(prior_variance=0.5, forgetting=phi, full_covariance_up_to=limit))
        for phi in (0.0, 0.1)
    )
    for learner in (still, forgetful):
        learner.grow(3, 2)
        for row, available in zip(x, mask, strict=True):
            learner.learn(row, available, float(row[0] > 0), NO_GRADIENT[:2])
    variances = [
        np.diag(k.state()["covariance"]) if limit == 512 else k.state()["covariance"] for k in (still, forgetful)
    ]
    assert (variances[0] < variances[1]).all()
    empty = np.zeros(3, dtype=np.float32)
    for _ in range(300):  # records without features teach nothing of the features' weights
        forgetful.learn(empty, np.zeros(3, dtype=bool), 0.0, NO_GRADIENT[:2])
    found = forgetful.state()["covariance"]
    np.testing.assert_allclose((np.diag(found) if limit == 512 else found)[1:], 0.5, rtol=0.05)


def test_weighted_linear_regression_is_the_weighted_batch_posterior() -> None:
    x, mask = records(60, 4)
    rng = np.random.default_rng(1)
    y, weights = x @ np.array([1.0, -2.0, 0.5, 3.0]) + rng.normal(size=60), rng.uniform(0.01, 9.0, size=60)
    learner = LinearRegression(LinearConfig(prior_variance=2.0, noise_variance=0.7))
    learner.grow(4, 1)
    for row, available, target, weight in zip(x, mask, y, weights, strict=True):
        assert learner.learn(row, available, target, NO_GRADIENT[:1], weight)
    u = design(x, mask, with_mask=False)
    precision = np.eye(u.shape[1]) / 2.0 + u.T @ (weights[:, None] * u) / 0.7
    state = learner.state()
    np.testing.assert_allclose(state["covariance"], np.linalg.inv(precision), rtol=1e-9, atol=1e-12)
    expected = np.linalg.solve(precision, u.T @ (weights * y) / 0.7)
    np.testing.assert_allclose(state["mean"][0], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gain", ["kalman", "paper", "released"])
@pytest.mark.parametrize("classes", [2, 3])
def test_whole_weights_of_the_logistic_learner_are_so_many_records(gain: str, classes: int) -> None:
    config = LogisticConfig(gain=gain)  # type: ignore[arg-type]
    heavy, repeated = LogisticRegression(config), LogisticRegression(config)
    heavy.grow(3, classes)
    repeated.grow(3, classes)
    x, mask = records(60, 3)
    for i, (row, available) in enumerate(zip(x, mask, strict=True)):
        weight, label = 1 + i % 8, i * 7 % classes
        heavy.learn(row, available, label, NO_GRADIENT[:classes], float(weight))
        for _ in range(weight):
            repeated.learn(row, available, label, NO_GRADIENT[:classes])
    for name, array in repeated.state().items():
        np.testing.assert_allclose(heavy.state()[name], array, rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_sure_and_wrong_logistic_learner_is_not_thrown_far_by_a_weight() -> None:
    """The curvature near 0 and 1 is hardly any: a step that went by it would move the score by hundreds."""
    learner = LogisticRegression(LogisticConfig(prior_variance=10.0))
    learner.grow(1, 2)
    x, there = np.array([3.0], dtype=np.float32), np.array([True])
    for _ in range(50):
        learner.learn(x, there, 0, NO_GRADIENT[:2])
    before = learner.scores(x, there)
    assert before[0] - before[1] > 3.0
    learner.learn(x, there, 1, NO_GRADIENT[:2], 100.0)
    after = learner.scores(x, there)
    assert 0.0 < after[1] - after[0] < 12.0
