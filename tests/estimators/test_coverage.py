"""Intervals and sets: they hold what they promise, follow the rule as written, and are part of the model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import datasets
from river.datasets import synth

from braided import BraidedError, MODLClassifier, MODLRegressor
from braided.estimators.coverage import Coverage
from braided.estimators.digest import state_digest
from braided.kernels.coverage import LEVELS, RATE, WINDOW
from braided.learners import LinearConfig, LogisticConfig, MLPConfig
from conftest import as_records, made_up

LINEAR: dict[str, Any] = {"learners": (LinearConfig(),)}
SMALL: dict[str, Any] = {"learners": (LogisticConfig(), MLPConfig(hidden=(8,)))}


def numbers(source: Any) -> list[tuple[dict[str, float], float]]:
    """Records with numbers alone."""
    found = []
    for x, y in source:
        record = {str(name): float(value) for name, value in x.items() if isinstance(value, int | float)}
        record |= {f"{name} {value}": 1.0 for name, value in x.items() if isinstance(value, str)}
        record |= {f"hour of {name}": float(value.hour) for name, value in x.items() if hasattr(value, "hour")}
        found.append((record, float(y)))
    return found


def by_the_rule(predictions: np.ndarray, targets: np.ndarray, level: float) -> list[tuple[float, float]]:
    """The intervals before each record, straight from the formulas of `kernels.coverage`."""
    missed = 1 - level
    adapted, usual, scores, found = missed, 0.0, [], []
    for prediction, target in zip(predictions, targets, strict=True):
        last = sorted(scores[-WINDOW:])
        n = len(last)
        bound = math.inf
        if (n + 1) * missed >= 1 - 1e-9:
            bound = last[-1] * (1 + (1 / (n + 1) - adapted) / (4 * RATE))
            if adapted >= 1 / (n + 1):
                bound = last[min(math.ceil((n + 1) * (1 - adapted)) - 1, n - 1)]
        half = math.inf if bound == math.inf else bound * usual
        found.append((prediction - half, prediction + half))
        error = abs(target - prediction)
        scores.append(error / (usual or error))
        if bound < math.inf:
            adapted += RATE * (missed - (scores[-1] > bound))
        usual = usual + max(0.02, 1 / len(scores)) * (min(error, 10 * usual) - usual) if usual else error
    return found


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_follow_the_rule(level: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1_500, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=1_500) * np.where(np.arange(1_500) < 800, 0.2, 1.0)
    model = MODLRegressor(**LINEAR)
    said, found = [], []
    for row, target in zip(X, y, strict=True):
        x = dict(enumerate(row.tolist()))
        said.append(model.predict_one(x))
        found.append(model.predict_interval_one(x, level))
        model.learn_one(x, target)
    expected = [(-math.inf, math.inf), *by_the_rule(np.array(said[1:]), y[1:], level)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


STREAMS = {
    "TrumpApproval": datasets.TrumpApproval,
    "ChickWeights": datasets.ChickWeights,
    "WaterFlow": datasets.WaterFlow,
    "Friedman": lambda: synth.Friedman(seed=1).take(1_500),
    "drift": lambda: synth.FriedmanDrift("gra", (500, 1_000), 200, seed=1).take(1_500),
}


@pytest.mark.parametrize("name", STREAMS)
def test_intervals_hold_the_target_as_often_as_they_say(name: str) -> None:
    model = MODLRegressor(preset="lean")
    records = numbers(STREAMS[name]())
    held: dict[float, list[bool]] = {0.8: [], 0.9: [], 0.95: []}
    for x, y in records:
        value = model.predict_one(x)
        for level, hits in held.items():
            half = model._coverage.half_width(level)
            hits.append(value - half <= y <= value + half)
        model.learn_one(x, y)
    for level, hits in held.items():
        assert np.mean(hits) == pytest.approx(level, abs=0.02), level
        assert model.coverage[level] == pytest.approx(level, abs=0.02)
    assert math.isfinite(model.predict_interval_one(x, 0.9)[1])


def test_sets_hold_the_label_as_often_as_they_say_though_labels_turn() -> None:
    values, labels = made_up(3_000, d=5, classes=4, available=0.6)
    labels[1_500:] = (labels[1_500:] + 1) % 4
    model = MODLClassifier(**SMALL)
    hits, sizes = [], []
    for x, y in zip(as_records(values), labels.tolist(), strict=True):
        found = model.predict_set_one(x, 0.9)
        hits.append(y in found)
        sizes.append(len(found))
        model.learn_one(x, y)
    assert np.mean(hits[100:]) == pytest.approx(0.9, abs=0.02)
    assert np.mean(hits[1_500:]) == pytest.approx(0.9, abs=0.03), "the turn was not followed"
    before, after = np.mean(sizes[1_000:1_500]), np.mean(sizes[1_510:1_560])
    assert before < 3 < after, "sets do not grow where the model knows less"
    many = model.predict_set_many(values[:30], 0.9)
    assert many == [model.predict_set_one(x, 0.9) for x in as_records(values[:30])]
    assert all(model.predict_one(x) in found for x, found in zip(as_records(values[:30]), many, strict=True))


@pytest.mark.parametrize("kind", [MODLClassifier, MODLRegressor])
@pytest.mark.parametrize("delay", [0, 4])
def test_chunks_and_single_records_and_files_leave_the_same(kind: Any, delay: int, tmp_path: Path) -> None:
    values, labels = made_up(1_250, d=4, classes=3)
    targets: Any = labels if kind is MODLClassifier else labels * 2.0 + np.nan_to_num(values[:, 0])
    more = {"learners": (LogisticConfig(),) if kind is MODLClassifier else (LinearConfig(),), "delay": delay}
    chunks, single, halves = (kind(**more) for _ in range(3))
    chunks.learn_many(values, targets)
    for x, y in zip(as_records(values), targets.tolist(), strict=True):
        single.learn_one(x, y)
    halves.learn_many(values[:1_100], targets[:1_100])
    halves.save(tmp_path / "model")
    halves = kind.load(tmp_path / "model")
    halves.learn_many(values[1_100:], targets[1_100:])
    assert state_digest(chunks) == state_digest(single) == state_digest(halves)
    assert chunks._coverage.covered[4, 0] > 1_200
    for level in (0.3, 0.85, 0.9, 0.999):
        assert chunks._coverage.bound(level) == halves._coverage.bound(level)


def test_intervals_between_the_levels_lie_between_theirs() -> None:
    values, labels = made_up(600, d=3)
    model = MODLRegressor(**LINEAR)
    model.learn_many(values, labels * 1.0)
    widths = [model._coverage.half_width(level) for level in (0.5, 0.55, 0.6, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95)]
    assert widths == sorted(widths)
    found = model.predict_interval_many(values[:5], 0.9)
    assert found.tolist() == [list(model.predict_interval_one(x, 0.9)) for x in as_records(values[:5])]


def test_nothing_is_promised_too_early_and_no_level_is_refused_late() -> None:
    model = MODLRegressor(**LINEAR)
    assert model.predict_interval_one({"a": 1.0}) == (-math.inf, math.inf)
    for i in range(10):
        assert math.isinf(model.predict_interval_one({"a": 1.0}, 0.9)[1])
        model.learn_one({"a": float(i % 3)}, float(i % 5))
    assert math.isfinite(model.predict_interval_one({"a": 1.0}, 0.9)[1])
    classifier = MODLClassifier(**SMALL)
    assert classifier.predict_set_one({"a": 1.0}) == set()
    classifier.learn_one({"a": 1.0}, "x")
    classifier.learn_one({"a": 1.0}, "y")
    assert classifier.predict_set_one({"a": 1.0}, 0.9) == {"x", "y"}
    for level in (0, 1, 1.0, "0.9", math.nan, 90, True):
        with pytest.raises(BraidedError, match="give a number between 0 and 1"):
            model.predict_interval_one({"a": 1.0}, level)  # type: ignore[arg-type]


def test_one_absurd_target_leaves_intervals_of_use() -> None:
    rng = np.random.default_rng(0)
    targets = rng.normal(size=1_000)
    targets[500] = 1e300
    model = Coverage(regression=True)
    model.follow(np.zeros((1_000, 1)), targets, 0)
    assert model.half_width(0.9) < 5.0
    constant = Coverage(regression=True)
    constant.follow(np.zeros((50, 1)), np.zeros(50), 0)
    constant.follow(np.zeros((50, 1)), np.r_[1.0, np.zeros(49)], 0)
    assert constant.half_width(0.9) < 1.0


def test_a_changed_file_is_refused() -> None:
    coverage = Coverage(regression=True)
    coverage.follow(np.zeros((200, 1)), np.random.default_rng(0).normal(size=200), 0)
    good = coverage.state()
    for name, bad in {
        "rates": np.full(len(LEVELS), 2.0),
        "scores": good["scores"][1:],
        "numbers": np.array([1e300, 1.0]),
        "covered": -good["covered"],
    }.items():
        with pytest.raises(BraidedError, match=r"state of the model.s coverage: array"):
            Coverage(regression=True).load_state(good | {name: bad})
