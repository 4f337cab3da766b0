"""The default on streams that break naive models: each test states the bound that sense demands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from braided import MODLClassifier, MODLRegressor

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def wrong(values: Floats, labels: Any, model: MODLClassifier | None = None) -> tuple[NDArray[np.bool_], MODLClassifier]:
    """Which records were predicted wrongly; the model must have stayed finite and never have been reset."""
    model = model or MODLClassifier()
    progress = model.predict_learn_many(values, labels)
    assert np.isfinite(progress.values).all()
    assert all(health["resets"] == 0 for health in model.health.values()), model.health
    truth = np.array([model.classes.index(label) for label in np.asarray(labels).tolist()])
    return progress.values.argmax(axis=1) != truth, model


def two_gaussians(n: int, d: int = 4, seed: int = 0) -> tuple[Floats, Ints]:
    """Two classes whose means are two standard deviations apart in the first feature: the best error is 16%."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    values = rng.normal(size=(n, d))
    values[:, 0] += 2.0 * labels
    return values, labels


def test_scales_of_1e9_and_1e_minus_9_side_by_side() -> None:
    values, labels = two_gaussians(3_000)
    scaled = values * np.array([1e-9, 1e9, 1.0, 1e5]) + np.array([1e-7, -1e12, 0.0, 1e9])
    errors, _ = wrong(scaled, labels)
    plain, _ = wrong(values, labels)
    assert errors[500:].mean() < plain[500:].mean() + 0.01


def test_a_constant_feature_changes_nothing_much() -> None:
    values, labels = two_gaussians(3_000)
    for constant in (0.0, 1.0, -1e6, 0.1):
        errors, _ = wrong(np.column_stack([values, np.full(len(values), constant)]), labels)
        assert errors[500:].mean() < 0.19


def test_a_shift_by_a_thousand_standard_deviations() -> None:
    values, labels = two_gaussians(10_000)
    values[5_000:, 0] += 1_000.0
    values[5_000:, 1] -= 1_000.0
    errors, _ = wrong(values, labels)
    assert errors[1_000:5_000].mean() < 0.19
    assert errors[5_000:5_200].mean() < 0.40, "the standardisation comes to terms with it at once"
    assert errors[5_200:].mean() < 0.19


def test_a_change_of_units() -> None:
    values, labels = two_gaussians(6_000)
    values = 20.0 + 5.0 * values
    values[3_000:] = values[3_000:] * 1.8 + 32.0  # from Celsius to Fahrenheit
    errors, _ = wrong(values, labels)
    assert errors[3_500:].mean() < 0.20


def test_all_features_missing_for_a_thousand_records() -> None:
    values, labels = two_gaussians(4_000)
    labels = np.where(np.random.default_rng(1).random(4_000) < 0.4, 0, labels)
    values[1_500:2_500] = np.nan
    errors, _ = wrong(values, labels)
    rarer = min(labels[1_500:2_500].mean(), 1 - labels[1_500:2_500].mean())
    assert errors[1_500:2_500].mean() < rarer + 0.05, "without features: the more frequent class"
    assert errors[2_500:].mean() < errors[500:1_500].mean() + 0.03, "and nothing was unlearned"


def test_one_class_for_5000_records_and_then_the_other() -> None:
    values, _ = two_gaussians(10_000)
    labels = np.repeat([0, 1], 5_000)
    errors, _ = wrong(values, labels)
    assert errors[1:5_000].sum() == 0
    assert errors[5_000:].sum() < 300, "it learns that the class has changed"
    assert errors[6_000:].mean() < 0.01


def test_a_hundred_classes_appear_one_at_a_time() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(100, 10)) * 3
    n = 10_000
    labels = np.minimum(rng.integers(0, 100, n), np.arange(n) // 60)  # a new one every 60 records
    values = centres[labels] + rng.normal(size=(n, 10)) * 0.5
    errors, model = wrong(values, labels)
    assert len(model.classes) == 100
    assert errors[8_000:].mean() < 0.10
    assert set(model.predict_proba_one(dict(enumerate(values[0].tolist())))) == set(range(100))


def test_2000_features_of_which_each_record_has_10() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=2_000)
    model = MODLClassifier()
    errors = []
    for _ in range(4_000):
        chosen = rng.choice(2_000, size=10, replace=False)
        x = {f"f{j}": float(v) for j, v in zip(chosen, rng.normal(size=10), strict=True)}
        y = int(sum(weights[int(name[1:])] * value for name, value in x.items()) > 0)
        probabilities = model.predict_proba_one(x)
        assert all(np.isfinite(p) for p in probabilities.values())
        errors.append(model.predict_one(x) != y)
        model.learn_one(x, y)
    assert all(health["resets"] == 0 for health in model.health.values())
    assert np.mean(errors[3_000:]) < 0.45, "a feature is seen some fifteen times: little, but not nothing"


def test_duplicated_features_are_no_harm() -> None:
    values, labels = two_gaussians(3_000)
    once, _ = wrong(values, labels)
    errors, _ = wrong(np.repeat(values, 5, axis=1), labels)
    assert errors[500:].mean() < once[500:].mean() + 0.015


def test_heavy_tails() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_cauchy(size=(5_000, 5))
    labels = (values[:, 0] > 0).astype(int)
    errors, _ = wrong(values, labels)
    assert errors[1_000:].mean() < 0.12


def test_label_noise_of_30_percent() -> None:
    values, labels = two_gaussians(5_000)
    rng = np.random.default_rng(3)
    noisy = np.where(rng.random(5_000) < 0.3, 1 - labels, labels)
    errors, _ = wrong(values, noisy)
    assert errors[1_000:].mean() < 0.40, "the best there is makes 36.4%"


@pytest.mark.parametrize("seed", range(3))
def test_random_labels_are_not_learned_into_certainty(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, labels = rng.normal(size=(4_000, 8)), rng.integers(0, 2, 4_000)
    model = MODLClassifier(seed=seed)
    predictions = model.predict_learn_many(values, labels).values
    chance = predictions[np.arange(4_000), [model.classes.index(label) for label in labels.tolist()]]
    assert -np.log(np.maximum(chance[1_000:], 1e-9)).mean() < np.log(2) + 0.05


@pytest.mark.parametrize("stream", ["rotating", "sudden"])
def test_drift_is_followed(stream: str) -> None:
    rng = np.random.default_rng(0)
    n = 10_000
    values = rng.normal(size=(n, 5))
    angle = np.linspace(0, np.pi, n) if stream == "rotating" else np.pi * (np.arange(n) >= 5_000)
    labels = (values[:, 0] * np.cos(angle) + values[:, 1] * np.sin(angle) > 0).astype(int)
    errors, _ = wrong(values, labels)
    assert errors[-1_500:].mean() < 0.10


def test_learners_take_turns() -> None:
    """The fast one is best at first, and the sum is never far from the best of its learners."""
    rng = np.random.default_rng(0)
    n = 12_000
    values = rng.uniform(-1, 1, size=(n, 6))
    labels = (np.sin(5 * values[:, 0]) * values[:, 1] + 0.7 * values[:, 2] > 0).astype(int)
    model = MODLClassifier()
    progress = model.predict_learn_many(values, labels)
    truth = np.array([model.classes.index(label) for label in labels.tolist()])
    own = progress.own != truth[:, None]
    early, late = own[:200].mean(axis=0), own[-3_000:].mean(axis=0)
    names = model.learner_names
    assert early[names.index("olr")] < early[names.index("mlp")]
    assert late[names.index("mlp")] < late[names.index("olr")] - 0.05
    whole = progress.values.argmax(axis=1) != truth
    for part in (slice(200, 1_000), slice(1_000, 4_000), slice(-3_000, None)):
        assert whole[part].mean() < own[part].mean(axis=0).min() + 0.02


class TestRegression:
    def friedman(self, n: int) -> tuple[Floats, Floats]:
        rng = np.random.default_rng(0)
        x = rng.random((n, 10))
        y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
        return x, y + rng.normal(size=n)

    def test_friedman(self) -> None:
        x, y = self.friedman(4_000)
        error = np.abs(MODLRegressor().predict_learn_many(x, y).values[:, 0] - y)
        assert error[200:1_000].mean() < 1.9, "a linear model stays at 2.0"
        assert error[-1_000:].mean() < 1.1, "the noise alone is 0.8"

    def test_outliers_in_the_target(self) -> None:
        x, y = self.friedman(3_000)
        hurt = y.copy()
        hurt[500::1_000] += 1e6
        error = np.abs(MODLRegressor().predict_learn_many(x, hurt).values[:, 0] - y)
        assert np.isfinite(error).all()
        assert np.median(error[-1_000:]) < 3.0

    def test_a_target_that_shifts(self) -> None:
        x, y = self.friedman(4_000)
        y[2_000:] += 500.0
        error = np.abs(MODLRegressor().predict_learn_many(x, y).values[:, 0] - y)
        assert error[-1_000:].mean() < 3.0
