"""What a worker of Spark's does with a key, without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from braided import BraidedError, Fleet, MODLClassifier, MODLRegressor
from braided.fleet import SHARES
from braided.spark.columns import Columns
from braided.spark.key_steps import Rows, in_order, put_state, state_of
from braided.spark.key_steps import predict_learn as predict_learn_rows
from braided.spark.saved_state import without_keys

KINDS = {"machine": "string", "y": "string", "t": "bigint", "a": "double", "b": "double", "w": "double", "id": "bigint"}
CLASSES = Columns("machine", "y", "w", ("t",), ("a", "b"), ("t", "id"), KINDS, regression=False)
VALUES = replace(CLASSES, kinds={**KINDS, "y": "double"}, regression=True)


def listed(frame: pd.DataFrame) -> Rows:
    return {name: frame[name].tolist() for name in frame.columns}


def predict_learn(fleet: Fleet, columns: Columns, key: Any, frame: pd.DataFrame, state: bytes | None) -> Any:
    answers, after = predict_learn_rows(fleet, columns, key, listed(frame), state)
    return pd.DataFrame(answers), after


def sent(n: int, regression: bool, seed: int = 0) -> pd.DataFrame:
    """Rows as a worker gets them, of three keys."""
    random = np.random.default_rng(seed)
    values, keys = random.normal(size=(n, 2)), random.integers(3, size=n)
    score = values[:, 0] * (keys - 1) + values[:, 1]
    target: Any = score if regression else np.where(score > 0.0, "up", "down").astype(object)
    values[random.random(values.shape) < 0.1] = np.nan
    found = pd.DataFrame({"key": [f"pump {key}" for key in keys], "target": target, "order_0": np.arange(n)})
    found["weight"] = 1.0 + np.arange(n) % 2
    found["feature_0"], found["feature_1"] = values[:, 0], values[:, 1]
    found["kept_0"], found["kept_1"] = found["order_0"].astype(str), [str(2**60 + i) for i in range(n)]
    return found


def made(share: str, regression: bool) -> Fleet:
    """A fleet of two keys that has learned, and is held."""
    model = MODLRegressor(preset="lean") if regression else MODLClassifier(preset="lean")
    fleet = Fleet(model, key="machine", share=share)
    past = sent(60, regression, seed=5)
    past = past[past["key"] != "pump 2"]
    table = past[["feature_0", "feature_1"]].to_numpy()
    fleet.learn_many(table, past["target"].tolist(), ["a", "b"], keys=past["key"].tolist())
    fleet.hold_shared()
    return fleet


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("regression", [False, True])
def test_parts_in_any_order_and_cut_anywhere_are_one_fleet(share: str, regression: bool) -> None:
    columns, rows = VALUES if regression else CLASSES, sent(90, regression)
    rows.loc[[7, 8, 30, 80], "target"] = None
    whole, parts = made(share, regression), made(share, regression)
    states = {key: state_of(parts, key) for key in map(str, parts.keys)}
    for key in list(parts.keys):
        parts.forget_key(key)
    answers = []
    for first, last in ((0, 25), (25, 26), (26, 90)):
        part = rows[first:last].sample(frac=1.0, random_state=first)
        for key in sorted(set(part["key"]), reverse=True):
            found, state = predict_learn(parts, columns, key, part[part["key"] == key], states.get(key))
            states |= {key: state} if state is not None else {}
            answers.append(found)
            assert parts.n_keys == 0
    together = pd.concat(answers).assign(t=lambda found: found["kept_0"].astype(int)).sort_values("t")
    assert together["kept_1"].tolist() == rows["kept_1"].tolist()
    for (_, row), (_, answer) in zip(rows.iterrows(), together.iterrows(), strict=True):
        x = {"machine": row["key"], "a": row["feature_0"], "b": row["feature_1"]}
        assert (None if pd.isna(answer["prediction"]) else answer["prediction"]) == whole.predict_one(x)
        if not regression:
            said = whole.predict_proba_one(x)
            assert answer["probabilities"] == {label: share for label, share in said.items() if share > 0.0}
        if not pd.isnull(row["target"]):
            whole.learn_one(x, row["target"], row["weight"])
    assert states == {key: state_of(whole, key) for key in whole.keys}


def test_without_a_label_or_a_key_nothing_is_learned() -> None:
    fleet, rows = made("braid", False), sent(10, False)
    for key in list(fleet.keys):
        fleet.forget_key(key)
    answers, state = predict_learn(fleet, CLASSES, None, rows.assign(key=None), None)
    assert state is None
    assert answers["prediction"].notnull().all()
    unlabelled, state = predict_learn(fleet, CLASSES, "new", rows.assign(target=None), None)
    assert state is None
    assert unlabelled["probabilities"].tolist() == answers["probabilities"].tolist()
    nothing = Fleet(MODLClassifier(preset="lean"), key="machine", share="none")
    answers, state = predict_learn(nothing, CLASSES, "new", rows, None)
    assert pd.isna(answers["prediction"].iloc[0])
    assert answers["probabilities"].iloc[0] == {}
    assert state is not None


def test_labels_and_keys_of_other_types() -> None:
    kinds = {**KINDS, "y": "boolean"}
    rows = sent(20, False).assign(target=lambda found: np.where(found["target"] == "up", "true", "false"))
    fleet = Fleet(MODLClassifier(preset="lean"), key="machine", share="none")
    answers, _ = predict_learn(fleet, replace(CLASSES, kinds=kinds), 7, rows, None)
    assert set(answers["prediction"][1:]) == {"true", "false"}
    text = rows.assign(feature_0=["red" if label == "true" else None for label in rows["target"]])
    fleet, plain = (Fleet(MODLClassifier(preset="lean", encode=True), key="machine", share="none") for _ in range(2))
    answers, _ = predict_learn(fleet, replace(CLASSES, kinds={**kinds, "a": "string"}), 7, text, None)
    for (_, row), answer in zip(text.iterrows(), answers["probabilities"], strict=True):
        x = {"machine": 7, "a": row["feature_0"], "b": row["feature_1"]}
        assert answer == {str(label).lower(): share for label, share in plain.predict_proba_one(x).items()}
        plain.learn_one(x, row["target"] == "true", row["weight"])


def test_rows_of_equal_order_are_learned_alike_however_they_come() -> None:
    rows = sent(30, True).assign(order_0=lambda found: found["order_0"] // 4, kept_0="all\0alike")
    expected = pd.DataFrame(in_order(listed(rows), VALUES))
    assert not expected["order_0"].is_unique
    for seed in range(3):
        found = pd.DataFrame(in_order(listed(rows.sample(frac=1.0, random_state=seed)), VALUES))
        pd.testing.assert_frame_equal(found, expected)
    with pytest.raises(BraidedError, match="order 't' is null in a record: filter such records out"):
        in_order(listed(rows.assign(order_0=[None, *range(29)])), VALUES)


@pytest.mark.parametrize("share", SHARES)
def test_all_keys_of_a_query_are_read_back_whatever_the_limit_was(share: str) -> None:
    fleet, columns, learned = made(share, True), VALUES, 0
    states = {key: state_of(fleet, key) for key in fleet.keys}
    limited = Fleet.restore(*with_limit(fleet, 2))
    for key in ("pump 3", "pump 4"):
        state = predict_learn(without_keys(limited, 1), columns, key, sent(10, True), None)[1]
        assert state is not None
        states[key] = state
        learned += 10
    found = without_keys(limited, len(states))
    assert (found.max_keys, found.n_keys, found.evict, found.shared_is_held) == (4, 0, "oldest", True)
    for _ in range(2):
        for state in states.values():
            put_state(found, state)
    assert {key: state_of(found, key) for key in found.keys} == states
    assert found.records_learned == fleet.records_learned + (learned if share == "none" else 0)
    assert without_keys(limited, 1).max_keys == 2


def with_limit(fleet: Fleet, most: int) -> Any:
    metadata, arrays = fleet.snapshot()
    metadata["parameters"] |= {"max_keys": most, "evict": "oldest"}
    return metadata, arrays


def test_a_state_of_another_fleet_is_refused_and_the_worker_goes_on() -> None:
    fleet, other, rows = made("braid", False), made("start", False), sent(10, False)
    state = state_of(other, "pump 0")
    for key in list(fleet.keys):
        fleet.forget_key(key)
    with pytest.raises(BraidedError, match="share='start'"):
        predict_learn(fleet, CLASSES, "pump 0", rows, state)
    with pytest.raises(BraidedError, match="does not match its checksum"):
        predict_learn(fleet, CLASSES, "pump 0", rows, state[:-1] + b"x")
    with pytest.raises(BraidedError, match="weight"):
        predict_learn(fleet, CLASSES, "pump 0", rows.assign(weight=-1.0), None)
    assert fleet.n_keys == 0
    assert predict_learn(fleet, CLASSES, "pump 0", rows, None)[1] is not None
