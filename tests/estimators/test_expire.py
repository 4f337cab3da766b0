"""Names that give up their place: which, when, and what is left of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braided
from braided import BraidedError, MODLClassifier, MODLRegressor
from braided.estimators.names import FeatureSpace
from braided.learners import FourierConfig, LearnerConfig, LinearConfig, LogisticConfig, build
from braided.run import Job, RunOptions
from braided.store import state_digest
from constant_learner import Constant

OLR: tuple[LearnerConfig, ...] = (LogisticConfig(),)


def model(expire_after: int | None, max_features: int = 2, **more: Any) -> MODLClassifier:
    return MODLClassifier(learners=OLR, max_features=max_features, expire_after=expire_after, **more)


def learned(one: Any, *records: str) -> Any:
    """A model that learned records of these one-letter names."""
    for i, names in enumerate(records):
        one.learn_one(dict.fromkeys(names, 1.0 + i), i % 2)
    return one


def test_a_name_gives_up_its_slot_when_the_last_records_had_it_not() -> None:
    with pytest.raises(BraidedError, match="max_features is 2, all seen in the last 3 records: raise"):
        learned(model(3), "ab", "b", "bc")
    assert learned(model(2), "ab", "b", "bc").feature_names == ["c", "b"]
    assert learned(model(3), "ab", "b", "b", "bc").feature_names == ["c", "b"]


def test_the_name_not_seen_for_longest_goes_first_and_of_several_the_first_slot() -> None:
    assert learned(model(1, 3), "abc", "a", "d").feature_names == ["a", "d", "c"]
    assert learned(model(1, 3), "abc", "b", "d").feature_names == ["d", "b", "c"]
    assert learned(model(1, 3), "abc", "b", "de").feature_names == ["d", "b", "e"]


def test_no_name_of_the_same_record_gives_up_its_slot() -> None:
    assert learned(model(1), "ab", "b", "ac").feature_names == ["a", "c"]
    with pytest.raises(BraidedError, match="feature 'd' would be number 3"):
        learned(model(1), "ab", "b", "acd")


def test_a_model_that_was_mapped_from_a_file_learns_on(tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib", reason="joblib is not installed: run make test")
    joblib.dump(learned(model(2), "ab", "b"), tmp_path / "model")
    assert learned(joblib.load(tmp_path / "model", mmap_mode="r"), "b", "bc").feature_names == ["c", "b"]


def test_without_it_a_full_model_refuses_and_says_what_helps() -> None:
    full = learned(model(None), "ab", *["b"] * 20)
    with pytest.raises(BraidedError, match="max_features is 2: raise `max_features`, give `expire_after`, or drop"):
        full.learn_one({"c": 1.0}, 0)


def test_predicting_a_name_does_not_keep_it_and_a_refusal_changes_nothing() -> None:
    one = learned(model(3), "ab", "b")
    before = state_digest(one)
    for _ in range(5):
        one.predict_proba_one({"a": 1.0})
    for attempt in (lambda: one.learn_one({"c": 1.0}, 0), lambda: one.learn_many([[1.0]], [0], ["c"])):
        with pytest.raises(BraidedError, match="lower `expire_after`"):
            attempt()
        assert state_digest(one) == before
    assert learned(one, "b", "c").feature_names == ["c", "b"]


def test_first_features_never_give_up_their_slots() -> None:
    one = learned(model(1, first_features=("base",)), "a", "b", "c")
    assert one.feature_names == ["base", "c"]


def test_a_name_may_go_and_come_back_within_a_chunk() -> None:
    rows = ["ab", "b", "c", "c", "a", "a", "b"]
    single, chunk = learned(model(1), *rows), model(1)
    values = [[1.0 + i if name in row else np.nan for name in "abc"] for i, row in enumerate(rows)]
    chunk.learn_many(values, [i % 2 for i in range(len(rows))], list("abc"))
    assert state_digest(chunk) == state_digest(single)
    assert sorted(chunk.feature_names) == ["a", "b"]


def test_a_new_name_in_an_old_slot_starts_without_weight_and_others_keep_theirs() -> None:
    rng = np.random.default_rng(0)
    one = model(50, 3)
    for _ in range(300):
        a, b = rng.normal(size=2)
        one.learn_one({"a": a, "b": b, "c": a + b}, int(a + b > 0))
    for _ in range(60):
        a, b = rng.normal(size=2)
        one.learn_one({"a": a, "b": b}, int(a + b > 0))
    before = one.predict_proba_one({"a": 1.0, "b": 0.5})
    mean = one.braid.learners[0].state()["mean"].copy()
    one.core._admit(["d"], [], np.array([1.0, 1.0, np.nan]))
    assert one.feature_names == ["a", "b", "d"]
    assert one.predict_proba_one({"a": 1.0, "b": 0.5}) == before
    assert one.predict_proba_one({"a": 1.0, "b": 0.5, "d": 3.0}) == before
    assert (one.braid.learners[0].state()["mean"] == mean * [1, 1, 1, 0]).all()
    assert set(one.explain_one({"a": 1.0, "d": 1.0, "c": 9.0}).contributions) == {"a", "d"}


def test_nine_hundred_names_of_junk_do_not_fill_a_model_for_ever() -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=6)

    def errors(one: Any, n: int, junk: bool) -> tuple[int, int]:
        wrong = refused = 0
        for i in range(n):
            values = rng.normal(size=6)
            x: dict[str, float] = {f"f{j}": float(value) for j, value in enumerate(values)}
            if junk:
                x[f"junk {i}"] = 1.0
            label = int(values @ weights > 0)
            wrong += one.predict_one(x) != label
            try:
                one.learn_one(x, label)
            except BraidedError:
                refused += 1
        return wrong, refused

    expiring, full = model(20, 30), model(None, 30)
    assert errors(expiring, 900, junk=True)[1] == 0
    assert errors(full, 900, junk=True)[1] == 900 - 24
    assert expiring.n_features == full.n_features == 30
    assert expiring.feature_names[:6] == [f"f{j}" for j in range(6)]
    assert errors(expiring, 500, junk=False)[0] < 15
    learned(expiring, "new")
    with pytest.raises(BraidedError, match="give `expire_after`"):
        learned(full, "new")


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "many"])
def test_what_is_no_number_of_records_is_refused(wrong: Any) -> None:
    with pytest.raises(BraidedError, match="expire_after is"):
        learned(model(wrong), "a")


def test_a_learner_in_python_that_cannot_forget_is_refused() -> None:
    with pytest.raises(BraidedError, match=r"learner '\w+' has no method forget_features: leave out one"):
        learned(MODLClassifier(learners=(LogisticConfig(), Constant()), expire_after=9), "a")


def test_functions_of_some_features_take_a_new_one_in() -> None:
    learner = build(FourierConfig(functions=64, subset=3), 0, 0)
    learner.grow(12, 2)
    before = learner.state()["frequencies"]
    learner.forget_features(np.array([4]))
    after = learner.state()["frequencies"]
    others = np.arange(12) != 4
    np.testing.assert_array_equal(after[others], before[others])
    sizes = (after != 0).sum(axis=0)
    assert ((sizes > 0) & (sizes <= 4)).all()
    assert (after[4] != 0).any()


def test_numbers_too_and_the_parameter_is_cloned_and_saved(tmp_path: Any) -> None:
    one = MODLRegressor(learners=(LinearConfig(),), max_features=2, expire_after=1)
    assert one.clone().expire_after == 1
    learned(one, "ab", "b", "c").save(tmp_path / "model")
    loaded = MODLRegressor.load(tmp_path / "model")
    assert learned(loaded, "d").feature_names == learned(one, "d").feature_names == ["c", "d"]
    metadata, arrays = model(None).snapshot()
    assert metadata["parameters"]["expire_after"] is None
    assert "last seen" not in arrays


def test_a_file_whose_last_records_are_impossible_is_refused() -> None:
    metadata, arrays = learned(model(3), "ab", "b").snapshot()
    for bad in ([1], [1, 99], [-1, 2]):
        with pytest.raises(BraidedError, match="last seen"):
            MODLClassifier.restore(metadata, {**arrays, "last seen": np.array(bad)})


def test_a_space_counts_what_it_saw() -> None:
    space = FeatureSpace(limit=2, expire_after=2)
    found = space.arrivals(np.array([[1.0, np.nan], [1.0, 1.0], [np.nan, 1.0]]), ["a", "b"])
    assert (found, space.records, space.last_seen.tolist()) == ({0: ["a"], 1: ["b"]}, 3, [2, 3])


def test_a_history_follows_the_weights_of_a_name_from_its_first_record_on() -> None:
    one = model(5, 2)
    records = [({"a": 1.0 + i % 7, "b" if i < 70 else "c": None if 60 <= i < 70 else i % 3}, i % 2) for i in range(200)]
    history = braided.record(one, records)
    weights = history.weights()[0][:, 0]
    assert history.weight_names == ["a", "c"]
    assert np.isfinite(weights[:, 0]).all()
    assert np.isnan(weights[0, 1])
    assert np.isfinite(weights[1:, 1]).all()
    assert dict(zip(history.features, history.present.tolist(), strict=True)) == {"a": 200, "b": 60, "c": 130}


def test_the_command_line_takes_a_stream_of_names_without_end(tmp_path: Any) -> None:
    lines = [json.dumps({"a": i % 7, f"junk {i}": 1.0, "y": i % 2}) for i in range(100)]
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    given = RunOptions(str(tmp_path / "d.jsonl"), ("olr",), target="y", max_features=10)
    with pytest.raises(BraidedError, match="max_features is 10: raise `max_features`, give `expire_after`"):
        list(Job(given).run())
    job = Job(replace(given, expire_after=5))
    list(job.run())
    assert (job.n_features, job.document()["records"]) == (10, 100)
    with pytest.raises(BraidedError, match="--expire-after is 0: give a whole number from 1 on"):
        replace(given, expire_after=0).resolved()
