"""`braided.Fleet`: a model for each key."""

from __future__ import annotations

import copy
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from help_fleet import CLASSIFICATION, NAMES, REGRESSION, TASKS, fleet, records, stream

from braided import BraidedError, Fleet, MODLClassifier, MODLRegressor
from braided.fleet import SHARES
from braided.store import state_digest


def _told(model: Fleet, x: dict[str, Any]) -> list[float]:
    return [model.predict_one(x)] if model.task == REGRESSION else list(model.predict_proba_one(x).values())


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("task", TASKS)
def test_arrays_and_single_records_give_the_same_bits(task: str, share: str) -> None:
    values, labels, keys = stream(task)
    weights = np.where(np.arange(len(labels)) % 9 == 4, 0.0, 1.0 + np.arange(len(labels)) % 3)
    one, many = fleet(task, share=share), fleet(task, share=share)
    told = []
    for x, y, w in zip(records(values, keys), labels, weights.tolist(), strict=True):
        told.append(_told(one, x))
        one.learn_one(x, y, w)
    rows: list[Any] = []
    for start in range(0, len(labels), 70):
        part = slice(start, start + 70)
        progress = many.predict_learn_many(values[part], labels[part], NAMES, weights[part], keys=keys[part])
        rows += progress.values.tolist()
        assert progress.own.shape == (len(labels[part]), len(many.learner_names))
    for row, expected in zip(rows, told, strict=True):
        if expected and sum(expected):
            assert row[: len(expected)] == expected
    assert state_digest(one) == state_digest(many)
    assert one.keys == many.keys
    assert one.records_learned == many.records_learned == int((weights > 0).sum())


@pytest.mark.parametrize("task", TASKS)
def test_a_new_key_is_the_shared_model_exactly_and_an_old_one_is_not(task: str) -> None:
    values, labels, keys = stream(task)
    model = fleet(task)
    model.learn_many(values, labels, NAMES, keys=keys)
    x = records(values[-1:], keys[-1:])[0]
    alone = {name: value for name, value in x.items() if name != "machine"}
    assert model.shared is not None
    said = model.shared.predict_one(alone) if task == REGRESSION else model.shared.predict_proba_one(alone)

    def told(record: dict[str, Any]) -> Any:
        return model.predict_one(record) if task == REGRESSION else model.predict_proba_one(record)

    assert told({**x, "machine": "another"}) == said
    assert told({**x, "machine": None}) == said
    assert told(alone) == said
    assert told(x) != said
    assert "machine" not in model.feature_names


def test_a_key_comes_to_have_its_own_concept_and_the_fleet_is_ahead_of_the_shared_model() -> None:
    random = np.random.default_rng(0)
    values, keys = random.normal(size=(1_500, 3)), random.integers(6, size=1_500)
    labels = (values[:, 0] * np.where(keys % 2, 1.0, -1.0) > 0).tolist()
    model = fleet(CLASSIFICATION)
    progress = model.predict_learn_many(values, labels, keys=keys)
    places = np.array([model.classes.index(label) for label in labels])
    late = slice(500, None)
    assert (progress.values[late].argmax(axis=1) != places[late]).mean() < 0.1
    assert model.learner_names[-1] == "shared"
    assert (progress.own[late, -1] != places[late]).mean() > 0.4


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("task", TASKS)
def test_keys_on_disk_answer_as_those_in_memory(task: str, share: str, tmp_path: Path) -> None:
    values, labels, keys = stream(task, n=140, n_keys=12)
    whole, few = fleet(task, share=share), fleet(task, share=share, in_memory=3, folder=tmp_path / "spill")
    for start in range(0, len(labels), 60):
        part = slice(start, start + 60)
        expected = whole.predict_learn_many(values[part], labels[part], NAMES, keys=keys[part])
        found = few.predict_learn_many(values[part], labels[part], NAMES, keys=keys[part])
        np.testing.assert_array_equal(found.values, expected.values)
    assert few._inside._file._end > 0
    for x in records(values, keys)[:20]:
        assert _told(few, x) == _told(whole, x)
    np.testing.assert_array_equal(
        few.progress_many(values, NAMES, keys=keys).values,
        whole.progress_many(values, NAMES, keys=keys).values,
    )
    metadata = [model.snapshot()[0]["inside"] for model in (few, whole)]
    assert metadata[0] == metadata[1]
    assert state_digest(few) == state_digest(whole)
    del few
    assert not list((tmp_path / "spill").iterdir())


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("task", TASKS)
def test_a_saved_fleet_goes_on_bit_for_bit(task: str, share: str, tmp_path: Path) -> None:
    values, labels, keys = stream(task)
    model = fleet(task, share=share, in_memory=4)
    model.learn_many(values[:90], labels[:90], NAMES, keys=keys[:90])
    model.save(tmp_path / "fleet")
    copies = [Fleet.load(tmp_path / "fleet"), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    expected = model.predict_learn_many(values[90:], labels[90:], NAMES, keys=keys[90:])
    for other in copies:
        found = other.predict_learn_many(values[90:], labels[90:], NAMES, keys=keys[90:])
        np.testing.assert_array_equal(found.values, expected.values)
        assert state_digest(other) == state_digest(model)
        assert (other.keys, other.records_learned) == (model.keys, model.records_learned)


def test_a_key_too_many_is_refused_and_nothing_changes() -> None:
    values, labels, _ = stream(CLASSIFICATION)
    model = fleet(CLASSIFICATION, max_keys=2)
    model.learn_many(values[:4], labels[:4], NAMES, keys=["a", "b", "a", "b"])
    before = state_digest(model)
    with pytest.raises(BraidedError, match="brings key number 3, and max_keys is 2: raise `max_keys`, or give `evict="):
        model.learn_many(values[4:8], labels[4:8], NAMES, keys=["a", "b", "c", "a"])
    with pytest.raises(BraidedError, match="max_keys is 2"):
        model.learn_one({"machine": "c", "f0": 1.0}, "high")
    model.learn_one({"machine": "c", "f0": 1.0}, "high", w=0.0)
    assert state_digest(model) == before
    assert model.predict_one({"machine": "c", "f0": 1.0}) is not None


@pytest.mark.parametrize("share", SHARES)
def test_the_oldest_key_is_forgotten(share: str) -> None:
    values, labels, _ = stream(CLASSIFICATION)
    keys = list("abacadcbae" * 8)
    model = fleet(CLASSIFICATION, share=share, max_keys=3, evict="oldest", in_memory=2)
    one = fleet(CLASSIFICATION, share=share, max_keys=3, evict="oldest")
    model.learn_many(values[:80], labels[:80], NAMES, keys=keys)
    for x, y in zip(records(values[:80], keys), labels, strict=False):
        one.learn_one(x, y)
    assert model.keys == one.keys == ["b", "a", "e"]
    inside = [found.snapshot()[0]["inside"] for found in (model, one)]
    assert inside[0] == inside[1]
    np.testing.assert_array_equal(
        model.progress_many(values, NAMES, keys=["b"] * len(values)).values,
        one.progress_many(values, NAMES, keys=["b"] * len(values)).values,
    )


def test_without_sharing_each_key_is_a_model_of_its_own() -> None:
    values, labels, keys = stream(REGRESSION)
    model = fleet(REGRESSION, share="none", in_memory=2)
    found = model.predict_learn_many(values, labels, NAMES, keys=keys)
    for key in set(keys):
        rows = [i for i, one in enumerate(keys) if one == key]
        alone = MODLRegressor(preset="lean").predict_learn_many(values[rows], [labels[i] for i in rows], NAMES)
        np.testing.assert_array_equal(found.values[rows], alone.values)


def test_a_key_starts_as_a_copy_of_the_shared_model() -> None:
    values, labels, keys = stream(REGRESSION)
    model, shared = fleet(REGRESSION, share="start"), MODLRegressor(preset="lean")
    found = model.predict_learn_many(values, labels, NAMES, keys=keys)
    at = keys.index(keys[40])
    expected = shared.predict_learn_many(values, labels, NAMES)
    np.testing.assert_array_equal(found.own[:, -1], expected.values[:, 0])
    for key in set(keys):
        first = keys.index(key)
        assert found.values[first, 0] == expected.values[first, 0]
    copied = MODLRegressor(preset="lean")
    copied.learn_many(values[:at], labels[:at], NAMES)
    rows = [i for i, one in enumerate(keys) if one == keys[40]]
    own = copied.predict_learn_many(values[rows], [labels[i] for i in rows], NAMES)
    np.testing.assert_array_equal(found.values[rows], own.values)


@pytest.mark.parametrize("share", SHARES)
def test_a_key_is_its_text(share: str) -> None:
    model = fleet(CLASSIFICATION, share=share)
    for key in (
        1,
        "1",
        " 1\n",
        1.0,
        np.int64(1),
        np.float32(1),
        np.float64(1),
        np.str_("1"),
        Decimal(1),
        -0.0,
        True,
        np.True_,
    ):
        model.learn_one({"machine": key, "a": 1.0}, "x")
    assert model.keys == ["1", "0", "true"]
    frame = pd.DataFrame({"machine": [1, 0, None], "a": [1.0, 1.0, 1.0]})  # whole numbers beside a gap are floats
    table = model.predict_proba_many(frame)
    model.learn_many(frame[:2], ["x", "y"])
    model.learn_many(np.array([[1, 2.0]]), ["y"], ["machine", "a"])
    model.learn_many([[2.0]], ["y"], ["a"], keys=pl.Series(["1"]))
    assert (model.keys, len(table)) == (["true", "0", "1"], 3)
    told = [model.predict_proba_one({"machine": key, "a": 1.0}) for key in (1, "1", 1.0, " 1 ")]
    assert told == [told[0]] * 4
    assert told[0] != model.predict_proba_one({"machine": "0", "a": 1.0})
    model.forget_key(1)
    assert model.keys == ["true", "0"]


@pytest.mark.parametrize("share", ["none", "start", "braid"])
def test_labels_are_counted_over_all_keys(share: str) -> None:
    model = Fleet(MODLClassifier(max_classes=2), key="machine", share=share)
    for place, label in enumerate("ab"):
        model.learn_one({"machine": place, "a": 1.0}, label)
    with pytest.raises(BraidedError, match="class 'c' would be number 3"):
        model.learn_one({"machine": 2, "a": 1.0}, "c")
    assert (model.keys, model.records_learned) == (["0", "1"], 2)


def test_keys_beside_a_table_that_has_them_too_are_refused() -> None:
    frame = pd.DataFrame({"machine": [1, 2], "a": [0.0, 1.0]})
    with pytest.raises(BraidedError, match="X has the column 'machine' as well"):
        fleet(CLASSIFICATION).learn_many(frame, ["x", "y"], keys=[1, 2])


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT, "", " "])
def test_a_record_without_a_key_is_predicted_and_not_learned(missing: Any) -> None:
    model = fleet(CLASSIFICATION)
    model.learn_one({"machine": "a", "x": 1.0}, "up")
    before = state_digest(model)
    assert model.predict_one({"machine": missing, "x": 1.0}) == "up"
    with pytest.raises(BraidedError, match="record 2 has no key 'machine': give every record that is learned one"):
        model.learn_one({"machine": missing, "x": 1.0}, "up")
    with pytest.raises(BraidedError, match="record 3 has no key"):
        model.learn_many([[1.0], [2.0]], ["up", "up"], ["x"], keys=["a", missing])
    assert state_digest(model) == before


@pytest.mark.parametrize("share", SHARES)
def test_a_record_of_weight_0_is_checked_with_or_without_a_key(share: str) -> None:
    model = Fleet(MODLClassifier(preset="lean", max_classes=2), key="machine", share=share)
    model.learn_many([[1.0], [2.0]], ["up", "down"], ["a"], keys=["pump", "pump"])
    before = state_digest(model)
    for held in (False, True):
        if held and share != "none":
            model.hold_shared()
            before = state_digest(model)
        for machine in (None, "pump", "new"):
            model.learn_one({"machine": machine, "a": 1.0}, "a third label", 0.0)
            model.learn_many([[1.0]], ["a third label"], ["a"], [0.0], [machine])
            for value, label in (("text", "up"), (float("inf"), "up"), (1.0, None)):
                for learn in (
                    lambda: model.learn_one({"machine": machine, "a": value}, label, 0.0),  # noqa: B023
                    lambda: model.learn_many([[value]], [label], ["a"], [0.0], [machine]),  # noqa: B023
                ):
                    with pytest.raises(BraidedError):
                        learn()
            assert (state_digest(model), model.records_learned) == (before, 2)


def test_nothing_is_said_where_nothing_is_known() -> None:
    model = fleet(CLASSIFICATION, share="none")
    keys = ["pump", "new", None]
    assert model.predict_many([[1.0]] * 3, ["a"], keys=keys) == [None] * 3
    model.learn_many([[1.0], [2.0]], [7, 7], ["a"], keys=["pump", "pump"])
    assert model.predict_many([[1.0]] * 3, ["a"], keys=keys) == [7, None, None]
    assert model.predict_many(np.zeros((0, 1)), ["a"], keys=[]) == []
    for library in (pd, pl):
        table = library.DataFrame({"machine": keys, "a": [1.0, 1.0, 1.0]})
        said = model.predict_many(table)
        assert isinstance(said, library.Series)
        assert said.to_list() == [7, None, None] == [model.predict_one({"machine": key, "a": 1.0}) for key in keys]
        assert model.predict_many(table[:1]).to_list() == [7]


def test_what_is_no_key_and_no_setting_is_refused() -> None:
    model = fleet(CLASSIFICATION)
    for key, message in (
        (7.5, "key 'machine' is 7.5 in record 1: give text or a whole number"),
        ([1], r"key 'machine' is \[1\] in record 1: give text or a whole number"),
        (float("inf"), "is inf in record 1: give text or a whole number"),
        (b"pump", "is b'pump' in record 1: give text"),
        (pd.Timestamp("2020-01-01"), "give text or a whole number"),
        (np.timedelta64(1, "s"), "give text or a whole number"),
        (Decimal("1E+999999"), "give text or a whole number"),
        (Decimal("1.5"), "give text or a whole number"),
        ("x" * 1_001, "it may have 1,000 characters"),
        (10**1_200, "is 1000.* in record 1: give text or a whole number"),
        (10**5_000, "is a int in record 1: give text or a whole number"),
    ):
        with pytest.raises(BraidedError, match=message):
            model.learn_one({"machine": key, "a": 1.0}, "x")
    for keys, message in (
        ({"a", "b"}, "give a list or array of one key per record"),
        ({"a": 1, "b": 2}, "give a list or array of one key per record"),
        (np.array(["2020-01-01"] * 2, dtype="datetime64[ns]"), "give text or a whole number"),
    ):
        with pytest.raises(BraidedError, match=message):
            model.learn_many([[1.0], [2.0]], ["x", "y"], ["a"], keys=keys)
    assert model.n_keys == 0
    learned = MODLClassifier(preset="lean")
    learned.learn_one({"a": 1.0}, "x")
    for settings, message in (
        ({"share": "all"}, "share 'all' is not known: use one of braid, start, none"),
        ({"in_memory": 0}, "in_memory is 0"),
        ({"max_keys": 1.5}, "max_keys is 1.5"),
        ({"evict": "newest"}, "evict is 'newest': give None or 'oldest'"),
    ):
        with pytest.raises(BraidedError, match=message):
            fleet(CLASSIFICATION, **settings)
    with pytest.raises(BraidedError, match="a fleet answers with the likeliest class"):
        Fleet(MODLClassifier(decision="balanced"), key="machine")
    with pytest.raises(BraidedError, match="has learned something"):
        Fleet(learned, key="machine")
    with pytest.raises(BraidedError, match="give a MODLClassifier or MODLRegressor"):
        Fleet("model", key="machine")  # type: ignore[arg-type]
    with pytest.raises(BraidedError, match="X has no column 'machine'"):
        model.learn_many([[1.0]], ["x"], ["a"])
    with pytest.raises(BraidedError, match="X has 1 records and keys has 2"):
        model.learn_many([[1.0]], ["x"], ["a"], keys=[1, 2])


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "array"])
def test_the_key_may_be_a_column(library: str, share: str) -> None:
    values, labels, keys = stream(CLASSIFICATION)
    values = np.nan_to_num(values[:, :3])
    columns = {"a": values[:, 0], "machine": keys, "b": values[:, 1], "c": values[:, 2]}
    expected = fleet(CLASSIFICATION, share=share)
    progress = expected.predict_learn_many(values, labels, ["a", "b", "c"], keys=keys)
    model = fleet(CLASSIFICATION, share=share)
    if library == "array":
        table = np.array(list(columns.values()), dtype=object).T
        found = model.predict_learn_many(table, labels, list(columns)).values
        answers = model.predict_many(table, list(columns))
    else:
        frame: Any = pd.DataFrame(columns) if library == "pandas" else pl.DataFrame(columns)
        frame = frame.to_arrow() if library == "pyarrow" else frame
        found = model.predict_learn_many(frame, labels).values
        assert type(found) is type(frame)
        answers = pl.Series(model.predict_many(frame)).to_list()
        if library != "pyarrow":
            assert list(model.predict_proba_many(frame).columns) == expected.classes
    np.testing.assert_array_equal(np.asarray(found), progress.values)
    assert list(answers) == expected.predict_many(values, ["a", "b", "c"], keys=keys)
    assert model.feature_names == expected.feature_names
    assert "machine" not in model.feature_names


@pytest.mark.parametrize("share", SHARES)
def test_raw_records_are_encoded(share: str) -> None:
    model = Fleet(MODLClassifier(preset="lean", encode=True), key="machine", share=share)
    many = Fleet(MODLClassifier(preset="lean", encode=True), key="machine", share=share)
    rows = [{"machine": f"m{i % 3}", "colour": ("red", "green")[i % 2], "size": float(i)} for i in range(45)]
    for i, x in enumerate(rows):
        model.predict_proba_one(x)
        model.learn_one(x, i % 2)
    many.learn_many(pd.DataFrame(rows), [i % 2 for i in range(45)])
    assert model.predict_one({"machine": "m1", "colour": "red", "size": 31.0}) == 0
    assert state_digest(model) == state_digest(many)


def test_it_is_cloned_and_shown_as_rivers_estimators_are() -> None:
    model = fleet(CLASSIFICATION, share="start", max_keys=9)
    model.learn_one({"machine": "a", "x": 1.0}, "up")
    assert repr(model) == "Fleet(classifier by 'machine', share='start', 1 keys)"
    fresh = model.clone()
    assert (fresh.n_keys, fresh.key, fresh.share, fresh.max_keys) == (0, "machine", "start", 9)
    assert model._get_params()["key"] == "machine"


@pytest.mark.parametrize("share", SHARES)
def test_an_expected_delay_is_that_of_all_its_models_and_of_its_file(share: str, tmp_path: Path) -> None:
    model = Fleet(MODLClassifier(preset="lean", encode=True), key="machine", share=share)
    encoder = model.encoder
    model.expect_delay(5)
    assert model.encoder is encoder
    for i in range(12):
        model.learn_one({"machine": i % 2, "colour": "red"}, i % 3)
    model.expect_delay(9)
    model.save(tmp_path / "fleet")
    for one in (model, Fleet.load(tmp_path / "fleet")):
        assert (one.model.delay, one.core.model.delay, one.clone().model.delay) == (5, 5, 5)


def test_many_classes_and_features_stay_within_their_bytes() -> None:
    random = np.random.default_rng(3)
    values, labels = random.normal(size=(300, 60)), (np.arange(300) % 40).tolist()
    model = fleet(CLASSIFICATION)
    progress = model.predict_learn_many(values, labels, keys=[i % 5 for i in range(300)])
    np.testing.assert_allclose(progress.values[1:].sum(axis=1), 1.0, atol=1e-9)
    layout = model._inside.layout  # type: ignore[union-attr]
    assert (layout.features, layout.classes) == (32, 32)
    assert 4 * layout.size < 25_000


@pytest.mark.parametrize("task", TASKS)
def test_absurd_values_leave_no_nan(task: str) -> None:
    values, labels, keys = stream(task)
    values = values * np.where(np.arange(len(labels)) % 17 == 3, 1e150, 1.0)[:, None]
    if task == REGRESSION:
        labels = [y * (1e150 if i % 13 == 5 else 1.0) for i, y in enumerate(labels)]
    model = fleet(task)
    progress = model.predict_learn_many(
        values, labels, NAMES, np.where(np.arange(len(labels)) % 5, 1.0, 1e9), keys=keys
    )
    assert np.isfinite(progress.values).all()
    Fleet.restore(*model.snapshot())
