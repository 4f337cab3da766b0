"""Models that take raw records, and remember how."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import braided
from braided import BraidedError, MODLClassifier, MODLRegressor
from braided.encode.encoder import Encoder
from braided.encode.number_form import PLAIN
from braided.encode.saved import pack_encoder
from braided.learners import LogisticConfig
from braided.store import decode, encode, state_digest
from braided.streams import Rules

RAW = [
    {"machine": "M-07", "at": "2026-03-01 10:00", "t": "20.5", "ok": "yes"},
    {"machine": "M-08", "at": "2026-03-01 11:00", "t": "", "ok": "no"},
    {"machine": "M-07", "at": None, "t": 21.5},
    {"machine": "M-09", "at": "2026-03-02 09:30", "t": "22", "ok": "yes", "new": "3"},
] * 5
LABELS = ["idle", "busy", "idle", "broken"] * 5


def small(**more: Any) -> MODLClassifier:
    return MODLClassifier(learners=(LogisticConfig(),), **more)


def taught(model: MODLClassifier) -> MODLClassifier:
    for x, y in zip(RAW, LABELS, strict=True):
        model.learn_one(x, y)
    return model


def by_hand() -> tuple[MODLClassifier, Encoder]:
    model, encoder = small(), Encoder()
    for x, y in zip(RAW, LABELS, strict=True):
        model.learn_one(encoder.encode_one(x), y)
    return model, encoder


def test_raw_records_are_learned_and_predicted_as_the_encoder_of_streams_encodes_them() -> None:
    model, (plain, encoder) = taught(small(encode=True)), by_hand()
    assert state_digest(model) == state_digest(plain)
    record = {"machine": "M-08", "at": "2026-03-05", "t": "1e1", "never": "seen", "number": 3}
    with pytest.raises(BraidedError, match="column 'at' is 'tomorrow'"):
        model.predict_proba_one({"at": "tomorrow"})
    assert model.predict_proba_one(record) == plain.predict_proba_one(encoder.encode_one(record, learn=False))
    assert model.explain_one(record, by="feature") == plain.explain_one(encoder.encode_one(record, learn=False))
    assert state_digest(model) == state_digest(plain)


def test_what_is_encoded_already_is_taken_as_it_is() -> None:
    model = taught(small(encode=True))
    assert model.predict_proba_one({"machine=M-07": 1.0, "machine=M-08": 0.0, "machine=M-09": 0.0}) == (
        model.predict_proba_one({"machine": "M-07"})
    )


@pytest.mark.parametrize("library", [pd, pl])
def test_a_frame_an_array_and_single_records_agree(library: Any) -> None:
    names = ["machine", "at", "t", "ok", "new"]
    rows = [[record.get(name) for name in names] for record in RAW]
    one_by_one = taught(small(encode=True))
    of_array, of_frame = small(encode=True), small(encode=True)
    said = of_array.predict_learn_many(np.array(rows, dtype=object), LABELS, names)
    texts = {name: [None if row[i] is None else str(row[i]) for row in rows] for i, name in enumerate(names)}
    frame = library.DataFrame(texts)
    of_frame.learn_many(frame, LABELS)
    assert state_digest(of_array) == state_digest(of_frame) == state_digest(one_by_one)
    assert said.values.shape == (20, 3)
    alone = [one_by_one.predict_proba_one(dict(zip(names, row, strict=True))) for row in rows]
    found = of_frame.predict_proba_many(frame)
    assert found.to_numpy().tolist() == [list(one.values()) for one in alone]


def test_a_frame_of_typed_columns_is_read_by_its_types() -> None:
    frame = pd.DataFrame({"at": pd.to_datetime(["2026-03-01", "2026-03-03"]), "n": [1, 2], "c": ["a", "b"]})
    model = MODLRegressor(encode=True)
    model.learn_many(frame, [1.0, 2.0])
    assert {"at.age", "n", "c=a", "c=b"} <= set(model.feature_names)
    # JSON has no dates: the same moment as text is the same record.
    assert model.predict_one({"at": "2026-03-03", "n": 2, "c": "b"}) == model.predict_many(frame)[1]


ORDINARY = [
    {"t": f"{15 + i % 70 / 4:.2f}".replace(".", ",") if i else "unknown", "id": f"c{i}", "day": f"{1 + i % 28}/1/2024"}
    for i in range(200)
]  # fmt: skip


@pytest.mark.parametrize("library", [pd, pl])
def test_the_first_table_is_looked_at_as_the_beginning_of_a_file(library: Any) -> None:
    rules = Rules(na=("unknown",), dates="age", decimal=",")
    model = small(encode=braided.Encoder(rules))
    frame = library.DataFrame(ORDINARY)
    model.learn_many(frame, LABELS * 10)
    assert model.feature_names == ["day.age", "t"]
    looked = braided.Encoder(rules)
    plan = looked.look(iter(ORDINARY))
    assert [column.read_as for column in plan.columns] == ["number", "dropped", "date"]
    one_by_one = small(encode=looked)
    for x, y in zip(ORDINARY, LABELS * 10, strict=True):
        one_by_one.learn_one(x, y)
    assert state_digest(one_by_one) == state_digest(model)
    assert braided.Encoder(rules).look(frame) == plan
    with pytest.raises(BraidedError, match="has read records already: look at records before"):
        looked.look(ORDINARY)


def test_a_first_table_that_is_refused_settles_nothing() -> None:
    model = small(encode=True)
    before = json.dumps(model.snapshot()[0])
    ambiguous = [["1/2/2024", "1,5"], ["2/2/2024", "2,5"]]
    with pytest.raises(BraidedError, match="no date shows whether the day or the month stands first"):
        model.learn_many(np.array(ambiguous, dtype=object), ["a", "b"], ["day", "t"])
    with pytest.raises(BraidedError, match="2 records and y has 1"):
        model.learn_many(np.array([["1,5"], ["2,5"]], dtype=object), ["a"], ["t"])
    assert json.dumps(model.snapshot()[0]) == before
    assert model.encoder is not None
    assert model.encoder.form is PLAIN
    model.learn_one({"t": "1.5"}, "a")
    assert model.feature_names == ["t"]


@pytest.mark.parametrize("library", [pd, pl])
def test_nested_cells_of_a_frame_are_those_of_a_record(library: Any) -> None:
    records = [{"l": [i, 2 * i], "q": {"u": f"v{i % 3}", "w": {"z": i}}, "a": i} for i in range(4)]
    of_frame, one_by_one = small(encode=True), small(encode=True)
    of_frame.learn_many(library.DataFrame(records), LABELS[:4])
    for x, y in zip(records, LABELS[:4], strict=True):
        one_by_one.learn_one(x, y)
    assert of_frame.feature_names == one_by_one.feature_names
    assert of_frame.feature_names[:4] == ["a", "l.0", "l.1", "q.u=v0"]
    assert state_digest(of_frame) == state_digest(one_by_one)


@pytest.mark.parametrize("library", [pd, pl])
def test_a_frame_of_typed_dates_fits_a_model_of_text(library: Any) -> None:
    model = small(encode=True)
    model.learn_many(library.DataFrame({"at": ["31.1.2024 10:00", "1.2.2024 11:00"]}), ["a", "b"])
    moments = [datetime.datetime(2024, 2, 3, 12), None]
    typed = library.DataFrame({"at": moments})
    assert model.predict_proba_many(typed).to_numpy()[0].tolist() == list(
        model.predict_proba_one({"at": "3.2.2024 12:00"}).values()
    )
    model.learn_many(typed, ["a", "b"])


def test_a_refused_record_settles_nothing() -> None:
    model = taught(small(encode=True, max_features=25))
    before = json.dumps(model.snapshot()[0])
    with pytest.raises(BraidedError, match="label"):
        model.learn_one({"machine": "M-10", "other": "x", "day": "2026-01-01"}, None)
    with pytest.raises(BraidedError, match="2 records and y has 1"):
        model.learn_many([["M-11"], ["M-12"]], ["idle"], ["machine"])
    with pytest.raises(BraidedError, match="max_features is 25"):
        model.learn_many([[f"M-{i}"] for i in range(40)], ["idle"] * 40, ["machine"])
    with pytest.raises(BraidedError, match="column 'machine' is b'"):
        model.learn_one({"c": "new", "machine": b"M-07"}, "idle")
    with pytest.raises(BraidedError, match="column 'c20' would be number 26"):
        model.learn_one({f"c{i:02}": "" for i in range(40)}, "idle")
    assert json.dumps(model.snapshot()[0]) == before


def test_it_is_saved_loaded_copied_and_goes_on_bit_for_bit(tmp_path: Path) -> None:
    rules = Rules(na=("t=-999",), hashed=("ok",), hash_buckets=4, dates="age", decimal=",")
    model = small(encode=braided.Encoder(rules))
    x = {"machine": "M-07", "at": "2026-03-01 10:00", "t": "20,5", "ok": "yes"}
    model.learn_one(x, "idle")
    model.learn_one({**x, "t": -999, "machine": "M-08"}, "busy")
    model.save(tmp_path / "model")
    others = [MODLClassifier.load(tmp_path / "model"), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    record = {**x, "machine": "M-09", "t": "-999"}
    for other in others:
        assert other.predict_proba_one(x) == model.predict_proba_one(x)
        other.learn_one(record, "idle")
        assert "machine=M-09" in other.feature_names
    model.learn_one(record, "idle")
    assert len({json.dumps(one.snapshot()[0]["encode"]) for one in (model, *others)}) == 1
    assert len({state_digest(one) for one in (model, *others)}) == 1
    fresh = others[0].clone()
    assert fresh.n_features == 0
    assert fresh.snapshot()[0]["encode"] == {**small(encode=braided.Encoder(rules)).snapshot()[0]["encode"]}


def test_a_model_without_rules_refuses_text_and_names_the_remedy() -> None:
    with pytest.raises(BraidedError, match="numbers, None or NaN only; a model made with encode=True takes text"):
        small().learn_one({"machine": "M-07"}, "idle")
    with pytest.raises(BraidedError, match="numbers, None or NaN only; a model made with encode=True takes dates"):
        small().learn_one({"when": datetime.datetime(2024, 5, 1)}, "idle")
    for column, kind in (("red", "text"), (datetime.datetime(2024, 5, 1), "dates")):
        with pytest.raises(BraidedError, match=f"'a' (is|holds) .*; a model made with encode=True takes {kind}"):
            small().learn_many(pd.DataFrame({"a": [column]}), ["idle"])
    assert "encode" not in small().snapshot()[0]
    with pytest.raises(BraidedError, match="encode is 'yes': give True, False or a braided"):
        small(encode="yes")


CHANGES: list[tuple[list[Any], Any]] = [
    (["rules"], None),
    (["rules", "categories"], "zz"),
    (["rules", "hash_buckets"], 0),
    (["rules", "drop"], [1]),
    (["rules", "day_first"], 3),
    (["rules", "surprise"], 1),
    (["rules", "max_features"], 2),
    (["numbers"], [",", ","]),
    (["numbers"], ["."]),
    (["kinds", 0], ["machine", "zz"]),
    (["kinds", 0], ["at", "date"]),
    (["kinds", 0], [["machine"], "numeric"]),
    (["dates"], []),
    (["dates", 0, 1], "zz"),
    (["dates", 0, 4], 1e300),
    (["categories", 0, 1], ["M-07", "M-07"]),
    (["categories", 0, 1], [["M-07"]]),
    (["categories", 0, 1], None),
    (["categories", 0, 1], ["x" * 20_000]),
    (["target"], []),
]


@pytest.mark.parametrize(("path", "value"), CHANGES, ids=[f"{path} {value!s:.10}" for path, value in CHANGES])
def test_changed_rules_are_refused(path: list[Any], value: Any) -> None:
    model = taught(small(encode=True))
    metadata, arrays = model.snapshot()
    found = decode(encode("MODLClassifier", metadata, arrays), "it", "MODLClassifier")
    owner = found.metadata["encode"]
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = value
    with pytest.raises(BraidedError):
        MODLClassifier.restore(found.metadata, found.arrays)


@pytest.mark.parametrize("delay", [0, 3])
def test_record_takes_raw_records_and_leaves_the_model_as_learning_them_does(delay: int) -> None:
    pairs = [*zip(RAW, LABELS, strict=True)]
    model, beside = small(encode=True), small(encode=True, delay=delay)
    history = braided.record(model, [*pairs[:9], ({"machine": "only predicted"}, None), *pairs[9:]], delay=delay)
    assert history.records == 20
    beside.learn_many(pd.DataFrame(RAW), LABELS)
    # Where labels are late, how sure answers were is judged by those that were given.
    assert delay or state_digest(model) == state_digest(beside)
    assert model.predict_proba_one(RAW[1]) == beside.predict_proba_one(RAW[1])
    assert pack_encoder(model.encoder) == pack_encoder(beside.encoder), "it has its encoder back"
    with pytest.raises(BraidedError, match="column 'at' is 'tomorrow'"):
        braided.record(model, [({"at": "tomorrow"}, "idle")])
    assert model.predict_proba_one(RAW[1]) == beside.predict_proba_one(RAW[1])


@pytest.mark.parametrize("share", ["one model", "braid", "start", "none"])
@pytest.mark.parametrize("progress", [False, True])
def test_record_leaves_nothing_of_what_the_model_refuses(share: str, progress: bool) -> None:
    model: Any = small(encode=True, max_classes=2)
    if share != "one model":
        model = braided.Fleet(model, key="key", share=share)
    braided.record(model, [({"key": "m", "t": i}, "ab"[i % 2]) for i in range(4)])
    encoder = model.encoder
    before = pack_encoder(encoder)
    with pytest.raises(BraidedError, match="max_classes is 2"):
        braided.record(model, [({"key": "m", "colour": "red"}, "c")], progress=progress)
    assert pack_encoder(encoder) == before
    braided.record(model, [({"key": "m", "colour": "red"}, "a")], progress=progress)
    assert "colour" in encoder.kinds
    learned = model.records_learned
    with pytest.raises(BraidedError, match="max_classes is 2"):
        braided.record(model, [({"key": "m", "size": "big"}, "a" if i < 400 else "c") for i in range(401)])
    assert model.records_learned > learned
    assert "size" in encoder.kinds, "a part was learned with it"


@pytest.mark.parametrize("share", ["braid", "start"])
def test_record_takes_raw_records_of_a_fleet(share: str) -> None:
    pairs = [*zip(RAW, LABELS, strict=True)]
    fleets = [braided.Fleet(small(encode=True), key="machine", share=share) for _ in range(2)]
    braided.record(fleets[0], pairs)
    fleets[1].learn_many(pd.DataFrame(RAW), LABELS)
    asked = {"machine": "M-08", "ok": "no", "t": "21.5", "at": "2026-03-04 10:00"}
    assert fleets[0].predict_proba_one(asked) == fleets[1].predict_proba_one(asked)
    assert fleets[0].encoder is not None
    assert fleets[0].encoder.kinds.keys() == {"at", "t", "ok", "new"}
