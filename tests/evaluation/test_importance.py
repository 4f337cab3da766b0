"""Importance: a column that says nothing comes out near 0, by its own standard error, and nothing is learned before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, History, MODLClassifier, MODLRegressor, record
from braided.evaluation import Evaluation
from braided.evaluation.importance import Importance
from braided.learners import LinearConfig, LogisticConfig
from braided.records import Records
from braided.store import state_digest


def noisy(task: str, n: int = 3_000) -> list[tuple[dict[str, Any], Any]]:
    """A target that follows one number and one word, and two columns of 400 different values that say nothing."""
    rng = np.random.default_rng(0)
    a, words = rng.normal(size=n), rng.choice(["low", "middle", "high"], n)
    code, text = rng.integers(400, size=n), rng.integers(400, size=n)
    value = 2 * a + 2 * (words == "high") + rng.normal(size=n)
    targets = (value > 0.5).tolist() if task == "classes" else value.tolist()
    return [
        ({"code": int(code[i]), "a": float(a[i]), "text": f"k{text[i]}", "word": str(words[i])}, targets[i])
        for i in range(n)
    ]


@pytest.mark.parametrize("preset", ["default", "classic"])
@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_a_column_that_says_nothing_is_worth_nothing(task: str, preset: str) -> None:
    kind: Any = MODLClassifier if task == "classes" else MODLRegressor
    ranking = record(kind(preset, encode=True), noisy(task)).importance()
    assert [one.feature for one in ranking[:2]] == ["a", "word"], "the largest comes first"
    assert {one.records for one in ranking} == {46}
    found = {one.feature: one for one in ranking}
    for name in ("code", "text"):
        assert abs(found[name].rise) <= 2 * found[name].standard_error
    assert found["a"].rise > 3 * found["a"].standard_error > 0


def test_a_rise_is_that_of_the_squared_error_of_a_record_that_is_not_learned_yet() -> None:
    """In the mean, (3 (v - x) + noise)^2 - noise^2 is 9 times twice the variance of x: 18 here."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4_000, 2))
    y = 3 * X[:, 0] + 0.5 * rng.normal(size=4_000)
    model, importance = MODLRegressor(learners=(LinearConfig(),)), Importance()
    model.learn_many(X[:1_000], y[:1_000])
    before = state_digest(model)
    for row in range(1_000, 3_000):
        importance.measure(model, Records((0, 1), X[row : row + 1], [float(y[row])]), {})
    assert state_digest(model) == before
    a, noise = importance.ranking()
    assert (a.feature, a.records, noise.records) == (0, 2_000, 2_000)
    assert a.rise == pytest.approx(18.0, abs=3 * a.standard_error)
    assert a.standard_error == pytest.approx(math.sqrt(2) * 18 / math.sqrt(2_000), rel=0.3)
    assert abs(noise.rise) <= 2 * noise.standard_error < 0.05


def test_what_is_not_known_yet_is_not_measured() -> None:
    model, importance = MODLClassifier(learners=(LogisticConfig(),)), Importance()
    one = Records(("a",), np.array([[1.0]]), ["idle"])
    importance.measure(model, one, {})
    assert importance.ranking() == []
    model.learn_one({"a": 1.0}, "idle")
    model.learn_one({"a": 2.0}, "busy")
    importance.measure(model, Records(("a",), np.array([[1.0]]), ["never seen"]), {})
    importance.measure(model, Records(("b",), np.array([[1.0]]), ["idle"]), {})
    assert importance.ranking() == []
    importance.measure(model, one, {})
    assert [(one.feature, one.records, one.standard_error) for one in importance.ranking()] == [("a", 1, math.inf)]


def test_a_target_beyond_all_measure_leaves_numbers() -> None:
    rng = np.random.default_rng(0)
    model = MODLRegressor(learners=(LinearConfig(),))
    history = History("numbers", model.learner_names, regression=True)
    targets = rng.normal(size=256)
    targets[64] = 1e300
    Evaluation(model, history).observe(Records((0,), rng.normal(size=(256, 1)), targets.tolist()))
    assert [one.records for one in history.importance()] == [2]
    restored = History.restore(*history.state())
    assert restored.importance() == history.importance()


def test_a_state_that_does_not_fit_is_refused() -> None:
    importance = Importance()
    importance._add("a", 1.0)
    about, arrays = importance.state()
    with pytest.raises(BraidedError, match="state of an importance"):
        Importance().load_state(about, {"rises": np.array([[0.0, 1.0, 0.0]])})
    with pytest.raises(BraidedError, match="state of an importance"):
        Importance().load_state({**about, "turn": "first"}, arrays)
    with pytest.raises(BraidedError, match="state of an importance"):
        Importance().load_state({**about, "names": []}, arrays)


@pytest.mark.parametrize("delay", [0, 10])
def test_the_first_record_of_a_block_is_measured_before_it_is_learned(
    delay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With late labels the model has learned the record of `delay` + 1 records ago."""
    learned = []

    def measure(self: Importance, model: Any, one: Records, columns: Any) -> None:
        learned.append((int(one.values[0, 0]), model.records_learned))

    monkeypatch.setattr(Importance, "measure", measure)
    evaluation = Evaluation(MODLClassifier(learners=(LogisticConfig(),)), delay=delay)
    for start in range(0, 200, 50):
        values = np.arange(start, start + 50.0)[:, None]
        evaluation.observe(Records((0,), values, (values[:, 0] % 2 > 0).tolist()))
    assert learned == [(0, 0), (64, 64 - delay), (128, 128 - delay), (192, 192 - delay)]


def test_labels_that_come_late_are_measured_before_they_are_learned() -> None:
    stream = noisy("classes", 1_000)
    late = record(MODLClassifier("lean", encode=True), stream, delay=50).importance()
    assert late[0].feature == "a"
    assert {one.records for one in late} <= {14, 15}
