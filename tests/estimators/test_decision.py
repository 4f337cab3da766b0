"""Decisions: what is answered follows the formula, probabilities and learning stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, MODLClassifier
from braided.estimators.decision import Decision
from braided.evaluation import Evaluation
from braided.learners import LogisticConfig, MLPConfig
from braided.records import Records
from braided.store import state_digest
from conftest import as_records, made_up

SMALL: dict[str, Any] = {"learners": (LogisticConfig(), MLPConfig(hidden=(8,)))}
COSTS = {"c0": {"c1": 1.0}, "c1": {"c0": 6.0, "c2": 0.5}, "c2": {"c2": 0.2}}
SETTINGS: list[dict[str, Any]] = [
    {"decision": "balanced"},
    {"class_weight": {"c1": 3.0, "c2": 0.25}},
    {"costs": COSTS},
    {"class_weight": "balanced", "costs": COSTS},
]


def stream(n: int = 300) -> tuple[np.ndarray, list[str]]:
    """Three classes, the third of them rare."""
    values, labels = made_up(n, d=4, classes=3, available=0.8)
    return values, [f"c{label if label < 2 or i % 7 == 0 else 0}" for i, label in enumerate(labels.tolist())]


def by_formula(probabilities: np.ndarray, before: list[str], classes: list[str], settings: dict[str, Any]) -> int:
    """The class with the least sum of v_i c(i, k), as `estimators.decision` has it."""
    weights = settings.get("class_weight")
    v = np.array(probabilities)
    if "balanced" in (weights, settings.get("decision")):
        v = v / (np.array([before.count(label) for label in classes]) + 1)
    elif weights:
        v = v * [weights.get(label, 1.0) for label in classes]
    cost = 1.0 - np.eye(len(classes))
    for true, row in (settings.get("costs") or {}).items():
        for said, price in row.items():
            if true in classes and said in classes:
                cost[classes.index(true), classes.index(said)] = price
    return int((v @ cost).argmin())


@pytest.mark.parametrize("settings", SETTINGS)
def test_answers_follow_the_formula_in_chunks_and_one_by_one(settings: dict[str, Any]) -> None:
    values, labels = stream()
    chunks, single, plain = (MODLClassifier(**SMALL, **more) for more in (settings, settings, {}))
    progress = chunks.predict_learn_many(values, labels)
    usual = plain.predict_learn_many(values, labels)
    np.testing.assert_array_equal(progress.values, usual.values)
    assert usual.decided is None
    assert progress.decided is not None
    others = 0
    for t, (x, label) in enumerate(zip(as_records(values), labels, strict=True)):
        known = single.classes
        answer = single.predict_one(x)
        place = progress.decided[t]
        assert answer == (None if place < 0 else chunks.classes[place])
        if len(known) > 1:
            row = progress.values[t, : len(known)]
            assert place == by_formula(row, labels[:t], known, settings)
            others += place != row.argmax()
        single.learn_one(x, label)
    assert others > 5, "the decision is the likeliest class after all"
    assert state_digest(single) == state_digest(chunks)
    assert chunks.predict_many(values[:50]) == [single.predict_one(x) for x in as_records(values[:50])]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_decision_is_saved_and_goes_on(settings: dict[str, Any], tmp_path: Path) -> None:
    values, labels = stream()
    model = MODLClassifier(**SMALL, **settings)
    model.learn_many(values[:200], labels[:200])
    model.save(tmp_path / "model")
    loaded = MODLClassifier.load(tmp_path / "model")
    ours, theirs = (one.predict_learn_many(values[200:], labels[200:]).decided for one in (model, loaded))
    np.testing.assert_array_equal(ours, theirs)
    assert (loaded.decision, loaded.class_weight, loaded.costs) == (model.decision, model.class_weight, model.costs)
    clone = model.clone()
    assert (clone.decision, clone.class_weight, clone.costs) == (model.decision, model.class_weight, model.costs)
    assert clone.core.decision.counts.size == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"class_weight": {np.int64(1): 50.0, np.str_("x"): 2.0}},
        {"costs": {np.int64(1): {np.int64(0): 50.0}, np.str_("x"): {np.float64(0.5): 2.0}}},
    ],
)
def test_labels_of_numpy_are_saved_as_pythons(settings: dict[str, Any], tmp_path: Path) -> None:
    model = MODLClassifier(learners=(LogisticConfig(),), **settings)
    model.learn_many([[0.0], [0.0], [0.0], [1.0]], np.array([0, 0, 0, 1]))
    model.save(tmp_path / "model")
    loaded = MODLClassifier.load(tmp_path / "model")
    assert loaded.predict_one({0: 0.0}) == model.predict_one({0: 0.0}) == 1
    assert (loaded.class_weight, loaded.costs) == (model.class_weight, model.costs)


def test_counts_forget_what_is_long_ago() -> None:
    model = MODLClassifier(learners=(LogisticConfig(),), decision="balanced")
    model.learn_many(np.zeros((15_000, 1)), ["a"] * 10_000 + ["b"] * 5_000)
    a, b = model.core.decision.counts
    assert a + b == pytest.approx(10_000, abs=1)
    assert b > 3_500
    assert a < 6_500


def test_labels_that_are_no_text_are_found_by_theirs() -> None:
    model = MODLClassifier(learners=(LogisticConfig(),), costs={"1": {"0": 1000.0}})
    model.learn_many([[0.0], [0.0], [0.0], [1.0]], [0, 0, 0, 1])
    assert model.predict_one({0: 0.0}) == 1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"decision": "fair"}, "decision 'fair' is not known: use one of likeliest, balanced"),
        ({"class_weight": "even"}, "class_weight 'even' is not known: use one of balanced"),
        ({"class_weight": {"a": 0}}, r"class_weight\['a'\] is 0: give a finite number above 0"),
        ({"class_weight": {"a": 10**400}}, r"class_weight\['a'\] is 1000"),
        ({"class_weight": [1, 2]}, r"class_weight is \[1, 2\]: give a dict of labels to weights, or 'balanced'"),
        ({"costs": {"a": {"b": -1}}}, r"costs\['a'\]\['b'\] is -1: give a finite number of at least 0"),
        ({"costs": {"a": 3}}, r"costs\['a'\] is 3: give a dict of true labels to dicts of answers to costs"),
        ({"decision": "balanced", "class_weight": "balanced"}, "are both 'balanced': give one of them"),
    ],
)
def test_what_is_no_decision_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(BraidedError, match=told):
        MODLClassifier(**settings)


@pytest.mark.parametrize("delay", [0, 3])
def test_metrics_are_of_the_decided_labels_and_probabilities_count_as_before(delay: int) -> None:
    values, labels = stream(1_300)
    batch = Records(tuple(range(4)), values, labels)
    plain, decided = (Evaluation(MODLClassifier(**SMALL, **one), delay=delay) for one in ({}, SETTINGS[0]))
    said: list[Any] = []
    decided.on_predictions = lambda first, piece, progress, classes: said.extend(
        None if place < 0 else classes[place] for place in progress.decided
    )
    for evaluation in (plain, decided):
        evaluation.observe(batch)
        evaluation.finish()
    wrong = [answer != label for answer, label in zip(said, labels, strict=True)]
    found, usual = decided.result(), plain.result()
    assert found["errors"] == sum(wrong)
    assert found["window_metrics"]["errors"] == sum(wrong[-1_000:])
    assert found["metrics"]["balanced_accuracy"] > usual["metrics"]["balanced_accuracy"]
    for same in ("log_loss", "brier", "roc_auc"):
        assert found["metrics"][same] == usual["metrics"][same]
    assert found["learners"] == usual["learners"]
    np.testing.assert_array_equal(decided.history.tally.bins, plain.history.tally.bins)
    restored = type(decided.history).restore(*decided.history.state())
    assert restored.tally.window_metrics() == decided.history.tally.window_metrics()


def test_a_record_counts_by_its_weight() -> None:
    one, two = (MODLClassifier(learners=(LogisticConfig(),), decision="balanced") for _ in range(2))
    one.learn_many([[0.0], [1.0], [1.0]], ["a", "b", "b"], sample_weight=[5.0, 0.5, 0.0])
    two.learn_one({0: 0.0}, "a", w=5.0)
    two.learn_one({0: 1.0}, "b", w=0.5)
    assert one.core.decision.counts.tolist() == two.core.decision.counts.tolist() == [5.0, 0.5]


def test_answers_are_the_same_whatever_unit_weights_are_in() -> None:
    labels = stream(1_000)[1]
    weights = np.random.default_rng(0).choice([1.0, 2.0, 4.0], size=1_000)
    probabilities = np.full((1_000, 3), 1.0 / 3.0)
    said, classes = {}, ["c0", "c1", "c2"]
    for unit in (1.0, 1 / 1_024, 8.0):
        decision = Decision("balanced")
        places = decision.places(probabilities, classes, np.array([int(label[1]) for label in labels]), weights * unit)
        assert places is not None
        said[unit] = places.tolist()
        decision.places(probabilities[:1], classes, np.zeros(1), np.array([1e9]))
        assert decision.counts[0] < 1_000 * 4.0 * unit + 101, "one weight is more than it is learned as"
    assert said[1.0] == said[1 / 1_024] == said[8.0]
    assert len(set(said[1.0])) > 1


def test_a_changed_file_is_refused() -> None:
    values, labels = stream(50)
    model = MODLClassifier(**SMALL, decision="balanced", costs=COSTS)
    model.learn_many(values, labels)
    metadata, arrays = model.snapshot()
    for wrong in ({"costs": 3}, {"costs": [["c0", [["c1", -1]]]]}, {"decision": "fair"}, {"class_weight": [["a"]]}):
        changed = {**metadata, "parameters": {**metadata["parameters"], **wrong}}
        with pytest.raises(BraidedError, match=r"decision|cost|cannot be used"):
            MODLClassifier.restore(changed, arrays)
    with pytest.raises(BraidedError, match="label counts"):
        MODLClassifier.restore(metadata, arrays | {"label counts": -arrays["label counts"]})
    with pytest.raises(BraidedError, match="labels counted"):
        MODLClassifier.restore(metadata, arrays | {"labels counted": np.array([1e6])})
