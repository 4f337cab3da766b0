"""A fleet whose shared part is held: keys alone learn, and each can be taken out and put back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from help_fleet import CLASSIFICATION, NAMES, REGRESSION, TASKS, fleet, records, stream

from braided import BraidedError, Fleet, MODLClassifier
from braided.encode.encoder import Encoder as RawEncoder
from braided.encode.saved import pack_encoder
from braided.fleet import SHARES
from braided.records import Records
from braided.store import decode, encode, state_digest

SHARING = [share for share in SHARES if share != "none"]


def held(task: str, share: str, **settings: Any) -> Fleet:
    """A fleet that has learned a stream, in the end with all its features and classes, and is held from there on."""
    values, labels, keys = stream(task)
    model = fleet(task, share=share, **settings)
    model.learn_many(values, labels, NAMES, keys=keys)
    model.hold_shared()
    return model


def told(model: Fleet, values: Any, labels: list[Any], keys: list[str]) -> Any:
    return model.predict_learn_many(values, labels, NAMES, keys=keys).values


@pytest.mark.parametrize("share", SHARING)
@pytest.mark.parametrize("task", TASKS)
def test_what_is_said_of_a_key_depends_on_its_own_records_alone(task: str, share: str) -> None:
    values, labels, keys = stream(task, n_keys=12, seed=2)
    together, apart, one = held(task, share), held(task, share), held(task, share)
    shared = state_digest(together.shared)  # type: ignore[arg-type]
    expected = told(together, values, labels, keys)
    for key in sorted(set(keys)):
        rows = [i for i, found in enumerate(keys) if found == key]
        said = told(apart, values[rows], [labels[i] for i in rows], [key] * len(rows))
        assert np.array_equal(said, expected[rows])
    assert state_digest(together.shared) == shared == state_digest(apart.shared)  # type: ignore[arg-type]
    assert set(together.keys) == set(apart.keys) == set(keys) | set(held(task, share).keys)
    for x, y, row in zip(records(values, keys), labels, expected, strict=True):
        answer = [one.predict_one(x)] if task == REGRESSION else list(one.predict_proba_one(x).values())
        assert answer == row[: len(answer)].tolist()
        one.learn_one(x, y)
    for key in together.keys:
        assert str(one.snapshot_key(key)) == str(together.snapshot_key(key)) == str(apart.snapshot_key(key))


def test_what_is_no_key_is_told_without_the_number_of_a_record() -> None:
    model = held(REGRESSION, "braid")
    for step in (model.forget_key, model.snapshot_key):
        with pytest.raises(BraidedError, match=r"key 'machine' is 7\.5: give text or a whole number"):
            step(7.5)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("task", TASKS)
def test_a_key_is_taken_out_and_put_back_as_bytes(task: str, share: str) -> None:
    values, labels, keys = stream(task, n_keys=12, seed=2)
    stays, moves = held(task, share), held(task, share)
    blobs: dict[str, bytes] = {}
    for key in list(moves.keys):
        blobs[str(key)] = encode("FleetKey", *moves.snapshot_key(key))
        moves.forget_key(key)
    assert not moves.keys
    for i, key in enumerate(keys):
        if key in blobs:
            state = decode(blobs[key], "a key", "FleetKey")
            moves.restore_key(state.metadata, state.arrays)
        part = values[i : i + 1], labels[i : i + 1], [key]
        expected, said = told(stays, *part)[0], told(moves, *part)[0]
        known = [stays.classes.index(label) for label in moves.classes] if task == CLASSIFICATION else [0]
        assert said.tolist() == expected[known].tolist()
        blobs[key] = encode("FleetKey", *moves.snapshot_key(key))
        moves.forget_key(key)
    assert {key: encode("FleetKey", *stays.snapshot_key(key)) for key in stays.keys} == blobs


@pytest.mark.parametrize("task", TASKS)
def test_a_held_fleet_is_saved_as_one(task: str, tmp_path: Path) -> None:
    values, labels, keys = stream(task, seed=2)
    model = held(task, "braid")
    model.save(tmp_path / "held.braided")
    again = Fleet.load(tmp_path / "held.braided")
    assert again.shared_is_held
    assert np.array_equal(told(again, values, labels, keys), told(model, values, labels, keys))
    assert state_digest(again) == state_digest(model)


def test_new_labels_and_features_teach_a_key_nothing() -> None:
    model = held(CLASSIFICATION, "braid")
    x = {"machine": "new", "f0": 1.0, "never seen": 3.0}
    before = model.predict_proba_one(x)
    model.learn_one(x, "never heard")
    assert set(model.classes) == {"low", "high", "odd"}
    assert model.predict_proba_one(x) == before
    model.learn_many([[1.0]], ["never heard"], ["f0"], keys=["new"])
    assert model.predict_proba_one(x) == before
    model.learn_one(x, "low")
    assert model.predict_proba_one(x) != before


def test_the_check_knows_that_nothing_new_is_learned() -> None:
    model = Fleet(MODLClassifier(preset="lean", max_classes=2), key="machine")
    model.learn_one({"machine": 1, "f0": 1.0}, "low")
    model.hold_shared()
    for label in ("high", "odd", "even"):
        model.learn_many([[1.0]], [label], ["f0"], keys=[1])
    admitted = model.core.check(Records(("f0", "f1"), np.ones((2, 2)), ["high", "odd"], keys=["1", "1"]))
    assert not admitted.brings_new
    model.learn_many([[1.0], [2.0]], ["high", "odd"], ["f0"], keys=[1, 1])
    assert model.classes == ["low"]
    with pytest.raises(BraidedError, match="it must be finite"):
        model.learn_many([[np.inf]], ["low"], ["f0"], keys=[1])
    with pytest.raises(BraidedError, match="1 records and y has 2 labels"):
        model.learn_many([[1.0]], ["low", "low"], ["f0"], keys=[1])


@pytest.mark.parametrize("share", SHARES)
def test_what_text_means_is_held_too(share: str) -> None:
    together, apart = (Fleet(MODLClassifier(preset="lean", encode=True), key="machine", share=share) for _ in range(2))
    for model in (together, apart):
        for i in range(12):
            model.learn_one({"machine": i % 3, "colour": "red" if i % 2 else "blue"}, i % 2)
        model.hold_shared()
    rows = [({"machine": i % 4, "colour": ("red", "green", "white", "blue")[i % 4]}, i % 2) for i in range(24)]
    for x, y in rows:
        together.learn_one(x, y)
    for x, y in sorted(rows, key=lambda row: -row[0]["machine"]):
        apart.learn_many([[x["colour"]]], [y], ["colour"], keys=[x["machine"]])
    for key in together.keys:
        assert encode("FleetKey", *apart.snapshot_key(key)) == encode("FleetKey", *together.snapshot_key(key))


@pytest.mark.parametrize("share", SHARES)
def test_a_key_belongs_to_what_text_means(share: str, tmp_path: Path) -> None:
    one, other = (Fleet(MODLClassifier(preset="lean", encode=True), key="machine", share=share) for _ in range(2))
    with pytest.raises(BraidedError, match=r"(nothing that keys could share|seen no column .*): let it learn first"):
        one.hold_shared()
    for model, colours in ((one, ("red", "blue")), (other, ("red", "green"))):
        for i in range(4):
            model.learn_one({"machine": i % 2, "colour": colours[i // 2]}, i % 2)
        model.hold_shared()
    one.save(tmp_path / "held.braided")
    Fleet.load(tmp_path / "held.braided").restore_key(*one.snapshot_key(0))
    with pytest.raises(BraidedError, match="the key has learned with another shared model"):
        other.restore_key(*one.snapshot_key(0))


@pytest.mark.parametrize("settings", [{"preset": "default"}, {"preset": "lean", "seed": 1}])
def test_a_key_of_other_settings_is_refused(settings: dict[str, Any]) -> None:
    lean = Fleet(MODLClassifier(preset="lean"), key="machine", share="none")
    lean.learn_one({"machine": 0, "f0": 1.0}, "low")
    metadata, arrays = lean.snapshot_key(0)
    other = Fleet(MODLClassifier(**settings), key="machine", share="none")
    with pytest.raises(BraidedError, match="the key's model has other settings than the fleet's"):
        other.restore_key(metadata, arrays)
    assert not other.keys
    raw = {**metadata["own"], "encode": pack_encoder(RawEncoder())}
    lean.restore_key({**metadata, "own": raw}, arrays)
    with pytest.raises(BraidedError, match="numbers"):
        lean.learn_one({"machine": 0, "f0": "red"}, "low")


def test_with_raw_records() -> None:
    model = Fleet(MODLClassifier(preset="lean", encode=True), key="machine")
    for i in range(40):
        model.learn_one({"machine": i % 3, "colour": "red" if i % 2 else "blue"}, i % 2)
    model.hold_shared()
    shared = state_digest(model.shared)  # type: ignore[arg-type]
    for i in range(20):
        model.learn_one({"machine": "other way", "colour": "red" if i % 2 else "green"}, 1 - i % 2)
    assert state_digest(model.shared) == shared  # type: ignore[arg-type]
    assert model.predict_one({"machine": "other way", "colour": "red"}) == 0
    assert model.predict_one({"machine": "new", "colour": "red"}) == 1


def test_the_oldest_key_makes_room_for_one_that_is_put_back() -> None:
    model = held(REGRESSION, "braid")
    metadata, arrays = model.snapshot_key("pump 1")
    few = held(REGRESSION, "braid", max_keys=7, evict="oldest")
    oldest = few.keys[0]
    few.restore_key({**metadata, "text": "new"}, arrays)
    assert few.n_keys == 7
    assert oldest not in few.keys
    assert few.keys[-1] == "new"
    full = held(REGRESSION, "braid", max_keys=7)
    with pytest.raises(BraidedError, match="brings key number 8, and max_keys is 7"):
        full.restore_key({**metadata, "text": "new"}, arrays)


def test_what_cannot_be_taken_apart_or_put_together_is_refused() -> None:
    learning = fleet(REGRESSION)
    with pytest.raises(BraidedError, match="has learned nothing that keys could share"):
        learning.hold_shared()
    values, labels, keys = stream(REGRESSION)
    learning.learn_many(values, labels, NAMES, keys=keys)
    with pytest.raises(BraidedError, match="still learns what its keys share: call hold_shared"):
        learning.snapshot_key(keys[0])
    model = held(REGRESSION, "braid")
    with pytest.raises(BraidedError, match="key 'nobody' is not known to the fleet"):
        model.snapshot_key("nobody")
    with pytest.raises(BraidedError, match="key 'nobody' is not known to the fleet"):
        model.forget_key("nobody")
    metadata, arrays = model.snapshot_key(keys[0])
    other = fleet(REGRESSION)
    other.learn_many(values[:-1], labels[:-1], NAMES, keys=keys[:-1])
    other.hold_shared()
    with pytest.raises(BraidedError, match="the key has learned with another shared model"):
        other.restore_key(metadata, arrays)
    with pytest.raises(BraidedError, match="share='start'"):
        model.restore_key({**metadata, "share": "start"}, arrays)
    with pytest.raises(BraidedError, match="' x' is not a key"):
        model.restore_key({**metadata, "text": " x"}, arrays)
    with pytest.raises(BraidedError, match="array 'double' is missing"):
        model.restore_key(metadata, {"single": arrays["single"]})
    with pytest.raises(BraidedError, match="nan"):
        model.restore_key(metadata, {**arrays, "single": np.full_like(arrays["single"], np.nan)})
    assert encode("FleetKey", *model.snapshot_key(keys[0])) == encode("FleetKey", metadata, arrays)


@pytest.mark.parametrize("task", TASKS)
def test_a_file_with_keys_beside_an_untaught_shared_model_is_refused(task: str) -> None:
    for share in SHARING:
        metadata, arrays = fleet(task, share=share).snapshot()
        with pytest.raises(BraidedError, match="has learned nothing that keys could share"):
            Fleet.restore({**metadata, "learned": 5, "held": True}, arrays)
    model = fleet(task)
    model._inside.use(["pump"], [True])
    with pytest.raises(BraidedError, match="has keys, and its shared model has learned nothing"):
        Fleet.restore(*model.snapshot())
