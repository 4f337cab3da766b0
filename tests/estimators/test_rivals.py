"""River's models get what their own users would give them: words for categories, and missing values filled in."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import base, forest, linear_model, multiclass, preprocessing

from braided import record, zoo
from braided.encode.rules import ReadingCounts, Rules
from braided.estimators.river import RiverClassifier
from braided.evaluation import Evaluation
from braided.run.target import NumericTargets
from braided.run.weight import WeightColumn
from braided.streams import MASKS, Stream, open_stream, read_whole, shuffled
from braided.zoo import ModelOptions, names_for
from braided.zoo.rivals import ColumnImputer

MACHINES = [f"M-{i:02}" for i in range(20)]


class Notes(base.Classifier):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.learned: list[dict[Any, Any]] = []
        self.predicted: list[dict[Any, Any]] = []

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        self.learned.append(x)

    def predict_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        self.predicted.append(x)
        return {}


def machines(path: Path, n: int = 600) -> list[dict[str, str]]:
    """A file in which the machine alone decides the class; every tenth record does not say which it is."""
    rng = random.Random(0)
    bad = set(MACHINES[::3])
    rows = []
    for i in range(n):
        machine = rng.choice(MACHINES)
        said = "" if i % 10 == 9 else machine
        rows.append({"machine": said, "load": f"{rng.random():.3f}", "broken": machine in bad})
    lines = ["machine,load,broken", *(",".join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return [{name: str(value) for name, value in row.items()} for row in rows]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    machines(tmp_path / "machines.csv")
    return tmp_path / "machines.csv"


def given(stream: Stream, words: bool = True, delay: int = 0) -> Notes:
    """What a model sees of a stream."""
    model = RiverClassifier(Notes(), words)
    evaluation = Evaluation(model, delay=delay)
    for _ in evaluation.run(stream):
        pass
    evaluation.finish()
    notes: Notes = model.model
    return notes


def errors(model: Any, stream: Stream) -> float:
    return record(model, stream).error


def test_a_category_arrives_as_a_word_and_a_missing_one_not_at_all(tmp_path: Path) -> None:
    rows = machines(tmp_path / "machines.csv")
    notes = given(open_stream(str(tmp_path / "machines.csv")))
    expected = [{**({"machine": row["machine"]} if row["machine"] else {}), "load": float(row["load"])} for row in rows]
    assert notes.learned == notes.predicted == expected


@pytest.mark.parametrize("delay", [0, 7])
def test_what_is_learned_late_is_what_was_predicted(file: Path, delay: int) -> None:
    notes = given(open_stream(str(file)), delay=delay)
    assert notes.learned == notes.predicted
    assert {type(x.get("machine", "")) for x in notes.learned} == {str}


def test_a_model_that_does_not_ask_for_words_gets_numbers(file: Path) -> None:
    last = given(open_stream(str(file)), words=False).learned[-2]
    assert last.keys() == {"load", *(f"machine={name}" for name in MACHINES)}
    model = preprocessing.StandardScaler() | multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    assert record(model, open_stream(str(file))).records == 600, "a user's own model is given numbers, too"


def test_a_hidden_category_is_missing(file: Path) -> None:
    plain = given(open_stream(str(file))).learned
    masked = given(MASKS["iid"](open_stream(str(file)), 0.5, 0, 3)).learned
    for before, after in zip(plain, masked, strict=True):
        assert after.items() <= before.items()
    shown = sum("machine" in x for x in masked) / sum("machine" in x for x in plain)
    assert 0.4 < shown < 0.6


def test_late_values_of_a_crowded_column_are_words_and_hashed_columns_are_numbers(file: Path) -> None:
    crowded = given(open_stream(str(file), rules=Rules(most_categories=5))).learned
    words = [x["machine"] for x in crowded if "machine" in x]
    assert len(words) == 540
    assert sum(word.startswith("#") for word in words) > 300
    assert len({word for word in words if not word.startswith("#")}) == 5
    hashed = given(open_stream(str(file), rules=Rules(hashed=("machine",)))).learned
    assert all(isinstance(value, float) for x in hashed for value in x.values())
    assert max(map(len, hashed)) > 10


def test_what_streams_are_made_into_keeps_the_words(file: Path) -> None:
    whole = read_whole(open_stream(str(file)))
    records = given(open_stream(str(file))).learned

    def key(x: dict[Any, Any]) -> list[str]:
        return sorted(map(str, x.items()))

    assert sorted(map(key, given(shuffled(whole, 1)).learned)) == sorted(map(key, records))
    weighted = next(WeightColumn(whole, "load").batches())
    assert weighted.names == tuple(weighted.categories)


def test_regression_trees_and_models_of_numbers_get_none() -> None:
    def with_words(task: str) -> set[str]:
        options = ModelOptions(task=task)
        river = [name for name in names_for(task) if name.startswith("river")]
        return {name for name in river if zoo.build(name, options).words}  # type: ignore[union-attr]

    assert with_words("classification") == {"river-tree", "river-arf", "river-srp", "river-knn"}
    assert with_words("regression") == {"river-knn"}


@pytest.mark.parametrize("name", ["river-tree", "river-arf"])
def test_words_let_a_tree_see_what_a_number_for_each_value_hides(name: str, file: Path) -> None:
    model = zoo.build(name, ModelOptions())
    plain = RiverClassifier(model.clone().model)  # type: ignore[union-attr]
    assert errors(model, open_stream(str(file))) < 0.75 * errors(plain, open_stream(str(file)))


def test_a_tree_splits_on_the_column(file: Path) -> None:
    model = RiverClassifier(forest.ARFClassifier(n_models=2, seed=0), words=True)
    record(model, open_stream(str(file)))
    seen = {
        feature
        for member in model.model
        for leaf in (member._root.iter_leaves() if hasattr(member._root, "iter_leaves") else [member._root])
        for feature in leaf.splitters
    }
    assert seen <= {"machine", "load"}
    assert model.n_features == 1 + len(MACHINES), "the table counts the features that all models are given"


def test_the_imputer_fills_in_what_earlier_records_had() -> None:
    imputer = ColumnImputer()
    imputer.learn_one({})
    assert imputer.transform_one({"a": 1.0}) == {"a": 1.0}, "of the first records nothing is known"
    for x in ({"a": 1.0, "word": "yes"}, {"b": -2.0, "word": "no"}, {"a": 4.0, "word": "no"}, {"b": None}):
        imputer.learn_one(x)
    given = {"b": 7.0}
    assert imputer.transform_one(given) == {"a": 2.5, "word": "no", "b": 7.0}
    assert given == {"b": 7.0}
    assert imputer.transform_one({"word": None}) == {"a": 2.5, "word": "no", "b": -2.0}
    assert imputer.clone().transform_one({}) == {}


@pytest.mark.parametrize("name", [name for name in names_for("regression") if name.startswith(("river", "mean"))])
def test_rivals_for_numbers_take_words_and_beat_the_mean(name: str, tmp_path: Path) -> None:
    rows = machines(tmp_path / "machines.csv", 400)
    lines = ["machine,load,target"]
    for row in rows:
        machine = MACHINES.index(row["machine"]) if row["machine"] else 10
        lines.append(f"{row['machine']},{row['load']},{machine % 3 + 3 * float(row['load'])}")
    (tmp_path / "numbers.csv").write_text("\n".join(lines))
    model = zoo.build(name, ModelOptions(task="regression"))
    history = record(model, NumericTargets(open_stream(str(tmp_path / "numbers.csv")), "stop", ReadingCounts()))
    assert np.isfinite(history.error)
    spread = np.abs([float(line.split(",")[2]) - 2.5 for line in lines[1:]]).mean()
    assert history.error < spread * (1.1 if name == "mean" else 0.9)
