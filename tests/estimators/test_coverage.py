"""Intervals and sets: they hold what they promise, follow the rule as written, and are part of the model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import datasets
from river.datasets import synth

import braided
from braided import BraidedError, MODLClassifier, MODLRegressor
from braided.estimators.coverage import Coverage
from braided.kernels.coverage import LEVELS, MAX_NUMBERS, RATE, WINDOW
from braided.kernels.scale import target_deviation
from braided.learners import LinearConfig, LogisticConfig, MLPConfig
from braided.store import state_digest
from conftest import as_records, made_up
from scored import scored

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


def doubts_of(model: MODLRegressor, x: dict[int, float]) -> tuple[float, float, float]:
    """Of a linear learner alone: u P u over the noise, the root of the squared weights of what is missing, its unit."""
    learner = model.braid.learners[0]
    mean, covariance = learner.state()["mean"][0], learner.state()["covariance"]
    seen = scored(model, x)
    u = np.concatenate([[1.0], np.where(seen.mask, seen.x[: seen.mask.size], 0.0)])
    missing = float(np.sqrt((mean[1:][~seen.mask] ** 2).sum()))
    return float(u @ covariance @ u), missing, target_deviation(model.braid.target)


def by_the_rule(
    predictions: np.ndarray, targets: np.ndarray, doubts: list[tuple[float, float, float]], level: float
) -> list[tuple[float, float]]:
    """The intervals before each record, straight from the formulas of `kernels.coverage`."""
    missed = 1 - level
    adapted, usual, scores, found = missed, 0.0, [], []
    pairs = np.zeros(5)  # means of missing and error, their variances, their covariance
    for prediction, target, (of_weights, of_missing, deviation) in zip(predictions, targets, doubts, strict=True):
        last = sorted(scores[-WINDOW:])
        n = len(last)
        bound = math.inf
        if (n + 1) * missed >= 1 - 1e-9:
            bound = last[-1] * (1 + (1 / (n + 1) - adapted) / (4 * RATE))
            if adapted >= 1 / (n + 1):
                bound = last[min(math.ceil((n + 1) * (1 - adapted)) - 1, n - 1)]
        slope = 0.0
        if len(scores) >= 20 and pairs[2] > 0:
            slope = max(pairs[4] - 2 * math.sqrt(pairs[2] * pairs[3] / min(len(scores), 1_000)), 0) / pairs[2]
        relative = math.sqrt(1 + of_weights) * max(1 + slope * (of_missing - pairs[0]), 0.25)
        beyond = of_missing - pairs[0] - 3 * math.sqrt(pairs[2])
        if len(scores) >= 20 and beyond > 0:
            relative = math.hypot(relative, beyond * deviation / usual)
        half = math.inf if bound == math.inf else bound * usual * relative
        found.append((prediction - half, prediction + half))
        error = abs(target - prediction)
        scores.append(error / (usual * relative or error))
        if bound < math.inf:
            adapted += RATE * (missed - (scores[-1] > bound))
        if not usual:
            usual = error
            continue
        size, rate = min(error / usual / math.sqrt(1 + of_weights), 10.0), max(1e-3, 1 / len(scores))
        off = np.array([of_missing, size]) - pairs[:2]
        pairs[:2] += rate * off
        left = np.array([of_missing, size]) - pairs[:2]
        pairs[2:] += rate * (np.array([off[0] * left[0], off[1] * left[1], off[0] * left[1]]) - pairs[2:])
        usual = usual + max(0.02, 1 / len(scores)) * (min(error / relative, 10 * usual) - usual)
    return found


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_follow_the_rule(level: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1_500, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=1_500) * np.where(np.arange(1_500) < 800, 0.2, 1.0)
    model = MODLRegressor(**LINEAR)
    said, found, doubts = [], [], []
    for i, (row, target) in enumerate(zip(X, y, strict=True)):
        x = {j: value for j, value in enumerate(row.tolist()) if i < 3 or (((i + j) % 3 or i % 2) and i % 97)}
        said.append(model.predict_one(x))
        found.append(model.predict_interval_one(x, level))
        doubts.append(doubts_of(model, x) if i else (0.0, 0.0, 0.0))
        model.learn_one(x, target)
    expected = [(-math.inf, math.inf), *by_the_rule(np.array(said[1:]), y[1:], doubts[1:], level)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


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
        for level, hits in held.items():
            low, high = model.predict_interval_one(x, level)
            hits.append(low <= y <= high)
        model.learn_one(x, y)
    for level, hits in held.items():
        assert np.mean(hits) == pytest.approx(level, abs=0.02), level
        assert model.coverage[level] == pytest.approx(level, abs=0.02)
    assert math.isfinite(model.predict_interval_one(x, 0.9)[1])


def wandering(n: int) -> list[tuple[dict[str, float], float]]:
    """A random walk, with a feature that says nothing of it."""
    steps = np.random.default_rng(0).normal(size=(n, 2))
    return [({"a": float(a)}, float(y)) for a, y in zip(steps[:, 0], np.cumsum(steps[:, 1]), strict=True)]


def test_intervals_asked_for_long_before_the_target_comes_hold_as_often_as_they_say() -> None:
    late, model, waiting, held = 20, MODLRegressor(preset="lean", delay=20), [], []
    for x, y in wandering(1_500):
        model.predict_one(x)
        low, high = model.predict_interval_one(x, 0.9)
        waiting.append((x, y, low <= y <= high, math.isfinite(low)))
        if len(waiting) == late:
            x, y, hit, promised = waiting.pop(0)
            model.learn_one(x, y)
            held += [hit] if promised else []
    assert model.coverage[0.9] == np.mean(held), "coverage is not that of what was given"
    assert np.mean(held) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("kind", [MODLClassifier, MODLRegressor])
def test_an_evaluation_judges_what_was_given_when_its_label_comes(kind: Any) -> None:
    late = 20
    records = wandering(800)
    if kind is MODLClassifier:
        records = [({"a": x["a"], "b": 0.3 * y}, float(round(y / 9) % 3)) for x, y in records]
    more = {"learners": (LogisticConfig(),) if kind is MODLClassifier else (LinearConfig(),)}
    model, twin = kind(**more), kind(**more, delay=late)
    history = braided.record(model, records, delay=late)
    held, judged = 0, 0
    answers: list[Any] = []
    for i, x in enumerate([*(x for x, _ in records), *[None] * late]):
        if i >= late:
            (before, truth), said = records[i - late], answers.pop(0)
            twin.learn_one(before, truth)
            if said is not None:
                judged, held = (
                    judged + 1,
                    held + (truth in said if kind is MODLClassifier else said[0] <= truth <= said[1]),
                )
        if x is not None:
            promised = math.isfinite(twin.core.coverage.bound(0.9))
            ask = twin.predict_set_one if kind is MODLClassifier else twin.predict_interval_one
            found = ask(x, 0.9)
            answers.append(found if promised else None)
    assert model.coverage[0.9] == history.coverage_shares()[0.9] == twin.coverage[0.9] == held / judged
    assert state_digest(model) == state_digest(twin)
    assert held / judged > 0.86


def test_a_set_that_always_has_the_answer_is_counted_as_it_is_given() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 2))
    easy, hard = X[:, 0] > 0, X[:, 0] + rng.normal(size=2_000) > 0
    for labels, above in ((easy, True), (hard, False)):
        model = MODLClassifier(**SMALL)
        held = []
        for row, label in zip(X.tolist(), labels.tolist(), strict=True):
            promised = math.isfinite(model.core.coverage.bound(0.9)) and len(model.classes) == 2
            found = model.predict_set_one(dict(enumerate(row)), 0.9)
            held += [label in found] if promised else []
            model.learn_one(dict(enumerate(row)), label)
        assert model.coverage[0.9] == pytest.approx(np.mean(held), abs=0.005)
        assert (model.coverage[0.9] > 0.95) == above
        assert above or model.coverage[0.9] == pytest.approx(0.9, abs=0.02)
        turned = []
        for row, label in zip(X[:150].tolist(), (~labels[:150]).tolist(), strict=True):
            turned.append(label in model.predict_set_one(dict(enumerate(row)), 0.9))
            model.learn_one(dict(enumerate(row)), label)
        assert np.mean(turned[30:]) > 0.8, "sets were too narrow for too long after the labels had turned"


def test_intervals_are_wider_where_the_record_says_less() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4_000, 6))
    y = X @ [3.0, 2.0, 1.0, 1.0, 0.5, 0.0] + 0.3 * rng.normal(size=4_000)
    X[rng.random(X.shape) < 0.4] = np.nan
    model, held = MODLRegressor(**LINEAR), []
    for x, target in zip(as_records(X), y.tolist(), strict=True):
        low, high = model.predict_interval_one(x, 0.9)
        held.append(low <= target <= high)
        model.learn_one(x, target)
    there = (~np.isnan(X)).sum(axis=1)[1_000:]
    few, many = (np.mean(np.array(held[1_000:])[part]) for part in (there <= 3, there >= 4))
    assert few == pytest.approx(0.9, abs=0.025)
    assert many == pytest.approx(0.9, abs=0.025)

    def width(x: dict[int, float]) -> float:
        low, high = model.predict_interval_one(x, 0.9)
        return high - low

    whole = dict.fromkeys(range(6), 0.1)
    assert width({}) > width({0: 0.1}) > 1.5 * width(whole)
    assert width({**whole, 5: 1e6}) > width(whole), "a value never seen before is as sure as others"
    model = MODLRegressor(**LINEAR)
    model.learn_many(np.nan_to_num(X[:300]), y[:300])
    assert width({}) > 1.5 * width(whole), "a record such as was never seen is as sure as others"


def test_what_was_said_must_be_of_these_records() -> None:
    model = MODLRegressor(**LINEAR)
    model.learn_many([[1.0], [2.0]], [1.0, 2.0])
    before = state_digest(model)
    with pytest.raises(BraidedError, match="X has 2 records and earlier has 1: the lengths must match"):
        model.learn_many([[1.0], [2.0]], [1.0, 2.0], earlier=model.progress_many([[1.0]]))
    assert state_digest(model) == before


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
    assert chunks.core.coverage.covered[4, 0] > 1_200
    for level in (0.3, 0.85, 0.9, 0.999):
        assert chunks.core.coverage.bound(level) == halves.core.coverage.bound(level)


def test_intervals_between_the_levels_lie_between_theirs() -> None:
    values, labels = made_up(600, d=3)
    model = MODLRegressor(**LINEAR)
    model.learn_many(values, labels * 1.0)
    x = as_records(values[:1])[0]
    highs = [model.predict_interval_one(x, level)[1] for level in (0.5, 0.55, 0.6, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95)]
    assert highs == sorted(highs)
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
    model, no_doubts = Coverage(), np.zeros((1_000, 3))
    model.follow_values(np.zeros(1_000), targets, no_doubts)
    assert model.reaches(0.9, no_doubts)[0] < 5.0
    constant = Coverage()
    constant.follow_values(np.zeros(50), np.zeros(50), no_doubts[:50])
    constant.follow_values(np.zeros(50), np.r_[1.0, np.zeros(49)], no_doubts[:50])
    assert constant.reaches(0.9, no_doubts)[0] < 1.0


def test_a_changed_file_is_refused() -> None:
    coverage = Coverage()
    coverage.follow_values(np.zeros(200), np.random.default_rng(0).normal(size=200), np.zeros((200, 3)))
    good = coverage.state()
    for name, bad in {
        "rates": np.full(len(LEVELS), 2.0),
        "scores": good["scores"][1:],
        "numbers": np.r_[1e300, good["numbers"][1:]],
        "covered": -good["covered"],
    }.items():
        with pytest.raises(BraidedError, match=r"state of the model.s coverage: array"):
            Coverage().load_state(good | {name: bad})


@pytest.mark.parametrize("place", range(2, 7))
def test_numbers_whose_squares_are_none_are_refused(place: int) -> None:
    coverage = Coverage()
    good = coverage.state()
    numbers = good["numbers"].copy()
    numbers[place] = 1e300
    with pytest.raises(BraidedError, match="coverage: array 'numbers' holds 1e\\+300"):
        Coverage().load_state(good | {"numbers": numbers})


@pytest.mark.parametrize("place", range(2, 7))
def test_numbers_that_are_taken_over_can_be_saved_again(place: int) -> None:
    coverage = Coverage()
    coverage.follow_values(np.zeros(50), np.ones(50), np.zeros((50, 3)))
    state = coverage.state()
    state["numbers"][place] = MAX_NUMBERS[place]
    coverage.load_state(state)
    coverage.follow_values(np.zeros(50), np.random.default_rng(0).normal(size=50), np.zeros((50, 3)))
    Coverage().load_state(coverage.state())
