"""Models in service that take raw records: the same bits as in Python, after every restart, and from any place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from help_serve import (
    LINES,
    SMALL,
    SMALL_SPEC,
    HTTPProblem,
    ask,
    digest,
    digest_of,
    ndjson,
    reopened,
    served_model,
    serving,
)

import braided
from braided import MODLClassifier
from braided.estimators import ESTIMATORS
from braided.serve.maintain import backup
from braided.serve.records import RawRecords, RecordParser
from braided.serve.settings import Limits, Settings
from braided.serve.spec import ModelSpec, model_from, state_from_checkpoint
from braided.serve.state import ModelState
from braided.store import decode, state_digest
from braided.streams import Rules
from command import braided as braided_

SPEC = {**SMALL_SPEC, "encode": {"na": ["-999"]}}


def items(n: int) -> list[dict[str, Any]]:
    """Machines appear one after the other, and a column comes late."""
    found = []
    for i in range(n):
        x: dict[str, Any] = {"machine": f"M-{i % (2 + i // 15):02}", "at": f"2026-03-{1 + i // 24:02} {i % 24:02}:00"}
        x["t"] = -999 if i % 7 == 0 else str(20 + i % 5) if i % 2 else 20.0 + i % 5
        if i > 30:
            x["late"] = "yes" if i % 3 else None
        found.append({"x": x, "y": f"class {i % 3}"})
    return found


ITEMS = items(90)


def model(max_features: int = 1_000, max_classes: int = 100) -> MODLClassifier:
    rules = braided.Encoder(Rules(na=("-999",), max_features=max_features))
    return MODLClassifier(learners=SMALL, max_features=max_features, max_classes=max_classes, encode=rules)


def taught(n: int) -> MODLClassifier:
    found = model()
    for item in ITEMS[:n]:
        found.learn_one(item["x"], item["y"])
    return found


def raw(some: list[dict[str, Any]], labelled: bool = True) -> RawRecords:
    parser = RecordParser(labelled, False, Limits(), raw=True)
    for item in some:
        parser.add(item if labelled else {"x": item["x"]})
    found = parser.done()
    assert isinstance(found, RawRecords)
    return found


def rules_of(state: ModelState) -> Any:
    return decode(state.snapshot(), "it", *ESTIMATORS).metadata["encode"]


def assert_is(state: ModelState, n: int) -> None:
    expected = taught(n)
    assert digest(state) == state_digest(expected)
    assert rules_of(state) == expected.snapshot()[0]["encode"]


def test_what_is_learned_over_http_is_what_python_learns_of_the_same_raw_records(tmp_path: Path) -> None:
    with serving(tmp_path) as http:
        assert http.put("/models/m", json=SPEC).status_code == 201
        assert http.post("/models/m/learn", json={"records": ITEMS[:40]}).json()["records"] == 40
        answer = http.post("/models/m/learn", content=ndjson(ITEMS[40:60]), headers=LINES)
        assert json.loads(answer.text.splitlines()[-1])["records"] == 60
        expected = taught(60)
        record = ITEMS[61]["x"] | {"never": "seen"}
        said = http.post("/models/m/predict", json={"x": record}).json()
        assert dict(zip(said["classes"], said["predictions"][0]["probabilities"], strict=True)) == (
            expected.predict_proba_one(record)
        )
        several = http.post("/models/m/predict", json={"records": [{"x": item["x"]} for item in ITEMS[:20]]}).json()
        lines = http.post("/models/m/predict", content=ndjson([{"x": item["x"]} for item in ITEMS[:20]]), headers=LINES)
        probabilities = [list(expected.predict_proba_one(item["x"]).values()) for item in ITEMS[:20]]
        assert [one["probabilities"] for one in several["predictions"]] == probabilities
        assert [json.loads(line)["probabilities"] for line in lines.text.splitlines()] == probabilities
        shown = http.get("/models/m").json()["encode"]
        assert shown["rules"] == {"na": ["-999"]}
        assert {column["name"]: column["read_as"] for column in shown["columns"]} == {
            "machine": "category", "at": "date", "t": "number", "late": "category"
        }  # fmt: skip
        examples = {column["name"]: column["example"] for column in shown["columns"]}
        assert examples == {"machine": "M-00", "at": "2026-03-01 00:00", "t": 0.0, "late": "yes"}
        explained = http.post("/models/m/explain", json={"x": examples}).json()
        assert {effect["feature"] for effect in explained["effects"]} == examples.keys()
        content = http.get("/models/m/checkpoint").content
        assert digest_of(content) == state_digest(expected)
        # Elsewhere it goes on as here.
        octets = {"Content-Type": "application/octet-stream"}
        assert http.put("/models/other/checkpoint", content=content, headers=octets).status_code == 201
        for name in ("m", "other"):
            http.post(f"/models/{name}/learn", json={"records": ITEMS[60:]})
        found = [http.get(f"/models/{name}/checkpoint").content for name in ("m", "other")]
        assert {digest_of(one) for one in found} == {state_digest(taught(90))}
    (tmp_path / "file").write_bytes(content)
    loaded = MODLClassifier.load(tmp_path / "file")
    assert loaded.predict_proba_one(record) == expected.predict_proba_one(record)


def test_an_observed_record_is_read_by_the_rules_of_its_time(tmp_path: Path) -> None:
    with serving(tmp_path) as http:
        http.put("/models/m", json=SPEC)
        http.post("/models/m/learn", json={"records": ITEMS[:20]})
        seen = http.post("/models/m/observe", json={"x": {"machine": "M-99", "t": "1"}}).json()
        http.post("/models/m/learn", json={"records": ITEMS[20:30]})
        assert http.post("/models/m/label", json={"id": seen["id"], "y": "class 1"}).json()["learned"] == 1
        content = http.get("/models/m/checkpoint").content
    # The record waits as numbers, and its machine is known from then on.
    numbers = {"machine=M-00": 0.0, "machine=M-01": 0.0, "machine=M-02": 0.0, "machine=M-99": 1.0, "t": 1.0}
    later = decode(content, "it", *ESTIMATORS).metadata["encode"]
    assert dict(later["categories"])["machine"][:4] == ["M-00", "M-01", "M-02", "M-99"]
    encoder = braided.Encoder(Rules(na=("-999",)))
    plain = MODLClassifier(learners=SMALL, max_features=1_000, max_classes=100)
    for item in [*ITEMS[:20], {"x": {"machine": "M-99"}}, *ITEMS[20:30]]:
        encoder.learn_one(item["x"])
        if "y" in item:
            plain.learn_one(encoder.transform_one(item["x"]), item["y"])
    plain.learn_one(numbers, "class 1")
    assert digest_of(content) == state_digest(plain)


def test_a_restart_replays_the_log_to_the_same_rules_and_bits(tmp_path: Path) -> None:
    worker = served_model(Settings(tmp_path), model())
    for at in range(0, 90, 6):
        ask(worker, "learn", records=raw(ITEMS[at : at + 6]), client="me", sequence=at)
    assert_is(worker.state, 90)
    worker.stop(snapshot=False)
    found = reopened(worker.settings)
    assert found.replayed == 90
    assert_is(found.state, 90)


@pytest.mark.parametrize("record", [0, 1, 14, 31, 32, 47, 89])
def test_any_earlier_record_comes_back_with_the_rules_of_its_time(tmp_path: Path, record: int) -> None:
    worker = served_model(Settings(tmp_path), model())
    for at in range(0, 90, 10):
        ask(worker, "learn", records=raw(ITEMS[at : at + 10]))
    assert ask(worker, "restore", record=record)["records"] == record
    assert_is(worker.state, record)
    ask(worker, "learn", records=raw(ITEMS[record:]))
    assert_is(worker.state, 90)
    worker.stop(snapshot=False)
    assert_is(reopened(worker.settings).state, 90)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"x": {"machine": "M-50", "t": "warm"}, "y": "class 1"}, "record 1: column 't' is 'warm'"),
        ({"x": {"machine": "M-50", "at": "yesterday"}, "y": "class 1"}, "record 1: column 'at' is 'yesterday'"),
        ({"x": {"machine": "M" * 199}, "y": "class 1"}, "characters: give 1 to 200"),
        ({"x": {f"c{i}": i for i in range(999)}, "y": "class 1"}, "would be number 1001"),
    ],
)
def test_a_request_with_a_value_that_cannot_be_read_leaves_no_rule_behind(
    tmp_path: Path, bad: dict[str, Any], message: str
) -> None:
    worker = served_model(Settings(tmp_path), model())
    ask(worker, "learn", records=raw(ITEMS[:20]))
    with pytest.raises(HTTPProblem, match=message):
        ask(worker, "learn", records=raw([{"x": {"machine": "M-51", "new": "a"}, "y": "class 0"}, bad]))
    ask(worker, "learn", records=raw(ITEMS[20:30]))
    assert_is(worker.state, 30)
    worker.stop(snapshot=False)
    assert_is(reopened(worker.settings).state, 30)


def test_a_request_that_the_model_refuses_teaches_nothing_but_its_rules_stay(tmp_path: Path) -> None:
    worker = served_model(Settings(tmp_path), model(max_features=20, max_classes=3))
    ask(worker, "learn", records=raw(ITEMS[:20]))
    known, before = digest(worker.state), rules_of(worker.state)
    refusals = []
    for i in range(40):
        strange = {"x": {"machine": f"new {i}"}, "y": "class 3"}
        with pytest.raises(HTTPProblem) as refused:
            ask(worker, "learn", records=raw([strange]))
        refusals.append(refused.value.detail)
    assert "3 classes" in refusals[0]
    assert "would be number 21" in refusals[-1], "the rules do not grow beyond max_features"
    assert digest(worker.state) == known
    grown = rules_of(worker.state)
    assert len(dict(before["categories"])["machine"]) < len(dict(grown["categories"])["machine"]) < 20
    assert worker.version() == worker.state.stats.records == 20
    ask(worker, "learn", records=raw(ITEMS[20:25]))
    known, grown = digest(worker.state), rules_of(worker.state)
    worker.stop(snapshot=False)
    again = reopened(worker.settings).state
    assert (digest(again), rules_of(again)) == (known, grown)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"t": [[[[[[[[[[1]]]]]]]]]]}, "nested more than"),
        ({"t": "x" * 10_001}, "text of at most 10,000 characters"),
        ({"t\n": "x"}, "printable"),
        ({f"c{i}": 1 for i in range(1_001)}, "the limit is 1000"),
        ([], "record 0 is"),
    ],
)
def test_what_no_record_is_like_is_refused_before_it_is_queued(x: Any, message: str) -> None:
    with pytest.raises(HTTPProblem, match=message):
        RecordParser(False, False, Limits(), raw=True).add({"x": x})


def test_nested_values_get_names_of_their_own() -> None:
    nested = {"x": {"pump": {"state": "on", "p": [1, None]}}}
    assert raw([nested], labelled=False).items == [{"pump.state": "on", "pump.p.0": 1, "pump.p.1": None}]


def test_a_model_without_rules_refuses_text_and_names_the_remedy(tmp_path: Path) -> None:
    with serving(tmp_path) as http:
        http.put("/models/m", json=SMALL_SPEC)
        problem = http.post("/models/m/learn", json=ITEMS[0])
        assert problem.status_code == 422
        assert (
            """'M-00' in record 0: numbers, or null if missing; a model made with {"encode": true}"""
            in (problem.json()["detail"])
        )
        assert http.get("/models/m").json()["encode"] is None
        for encode in ({"categories": "zz"}, {"surprise": 1}, {"na": "x"}, 3):
            refused = http.put("/models/n", json={"encode": encode})
            assert refused.status_code == 422
            assert "checkpoint" not in refused.text


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        ({"decimals": ","}, r"encode: 'decimals' is not one of the rules: give some of categories, .*, decimal, .*na"),
        ({"decimal": 5}, "encode: 'decimal' is 5: give a text$"),
        ({"na": "-999"}, "encode: 'na' is '-999': give a list of 10,000 texts at most$"),
        ({"na": [-999]}, "encode: 'na' is .-999.: give a list"),
        ({"hash_buckets": -1}, "encode: 'hash_buckets' is -1: give a whole number from 0 on"),
        ({"recognise": 1}, "encode: 'recognise' is 1: give true or false"),
    ],
)
def test_a_rule_that_a_client_gives_wrongly_is_told_as_a_setting(encode: dict[str, Any], message: str) -> None:
    with pytest.raises(HTTPProblem, match=message):
        model_from(ModelSpec.model_validate({"encode": encode}), Limits())
    assert model_from(ModelSpec.model_validate({"encode": {"decimal": None, "na": ["-999"]}}), Limits())


def test_an_import_is_held_to_the_limits_and_a_backup_keeps_the_rules(tmp_path: Path) -> None:
    content = _checkpoint(taught(90), tmp_path / "file")
    state = state_from_checkpoint("m", content, Limits())
    assert state.rules is not None
    assert state.rules.rules.max_features == 1_000
    with pytest.raises(HTTPProblem, match="features in the checkpoint is 16, and this service allows 5"):
        state_from_checkpoint("m", content, Limits(features=5))
    with pytest.raises(HTTPProblem, match="characters: give 1 to 6"):
        state_from_checkpoint("m", content, Limits(text=6))
    with serving(tmp_path / "service") as http:
        http.put("/models/m/checkpoint", content=content, headers={"Content-Type": "application/octet-stream"})
        backup(Settings(tmp_path / "service"), tmp_path / "backup", lambda text: None)
    assert rules_of(reopened(Settings(tmp_path / "backup")).state) == rules_of(state)


def test_a_file_is_run_and_its_raw_record_gets_the_same_bits_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    lines = [
        f"{item['x']['machine']};{item['x']['at']};{str(float(item['x']['t'])).replace('.', ',')};{item['y']}"
        for item in ITEMS
    ]
    path.write_text("\n".join(["machine;at;t;state", *lines, ""]))
    (tmp_path / "more.csv").write_text("\n".join(["machine;at;t;state", *lines[60:], ""]))
    run = ("run", str(path), "--preset", "lean", "--na", "-999")
    braided_("run", *run[1:], "--checkpoint", str(tmp_path / "whole"))
    braided_("run", *run[1:], "--checkpoint", str(tmp_path / "part"), "--limit", "60")
    record = {"machine": "M-02", "at": "2026-03-05 10:00", "t": "21,0"}
    whole, part = (MODLClassifier.load(tmp_path / name) for name in ("whole", "part"))
    octets = {"Content-Type": "application/octet-stream"}
    with serving(tmp_path / "service") as http:
        for name in ("whole", "part"):
            http.put(f"/models/{name}/checkpoint", content=(tmp_path / name).read_bytes(), headers=octets)
            said = http.post(f"/models/{name}/predict", json={"x": record}).json()
            expected = {"whole": whole, "part": part}[name].predict_proba_one(record)
            assert dict(zip(said["classes"], said["predictions"][0]["probabilities"], strict=True)) == expected
        # What is fed as the file has it makes the model of the whole file.
        braided_("feed", str(tmp_path / "more.csv"), "--to", f"{str(http.base_url).rstrip('/')}/models/part")
        assert digest_of(http.get("/models/part/checkpoint").content) == state_digest(whole)
        said = http.post("/models/part/predict", json={"x": record}).json()
        assert said["predictions"][0]["probabilities"] == list(whole.predict_proba_one(record).values())


def _checkpoint(of: MODLClassifier, path: Path) -> bytes:
    of.save(path)
    return path.read_bytes()


def test_a_raw_record_counts_as_its_weight_says(tmp_path: Path) -> None:
    worker, expected = served_model(Settings(tmp_path), model()), model()
    weighted = [{**item, "w": 1 + i % 3} for i, item in enumerate(ITEMS[:30])]
    ask(worker, "learn", records=raw(weighted))
    for item in weighted:
        expected.learn_one(item["x"], item["y"], item["w"])
    assert digest(worker.state) == state_digest(expected)
    worker.stop(snapshot=False)
    assert digest(reopened(worker.settings).state) == state_digest(expected)


def test_a_record_of_weight_zero_changes_neither_model_nor_rules(tmp_path: Path) -> None:
    strange = [
        {"x": {"machine": "M-99", "t": 1.0}, "y": "class 0", "w": 0},
        {"x": {"shape": "round", "made": "2020-01-01", "size": 2.5}, "y": "class 9", "w": 0.0},
    ]
    with serving(tmp_path / "state") as client:
        client.put("/models/m", json=SPEC)
        client.post("/models/m/learn", json={"records": ITEMS[:20]})
        before = digest_of(client.get("/models/m/checkpoint").content)
        for body in ({"records": strange}, strange[0]):
            assert client.post("/models/m/learn", json=body).status_code == 200
        assert client.post("/models/m/learn", content=ndjson(strange), headers=LINES).status_code == 200
        assert digest_of(client.get("/models/m/checkpoint").content) == before
        rules = {column["name"]: column for column in client.get("/models/m").json()["encode"]["columns"]}
        assert rules.keys() == {"machine", "at", "t"}
        # In one request with others it is as if they were not there.
        mixed = [strange[0], ITEMS[20], strange[1], *ITEMS[21:40], strange[0]]
        assert client.post("/models/m/learn", json={"records": mixed}).status_code == 200
        assert digest_of(client.get("/models/m/checkpoint").content) == state_digest(taught(40))


def test_limits_name_what_lifts_them(tmp_path: Path) -> None:
    with serving(tmp_path / "state", models=1) as client:
        answer = client.put("/models/m", json={"max_features": 5_000})
        assert "ask for less, or start `braided serve` with --max-features 5000" in answer.json()["detail"]
        answer = client.put("/models/m", json={"encode": {"dates": "x"}})
        assert answer.json()["detail"] == "`dates` 'x' is not known: use one of parts, age, drop"
        client.put("/models/m", json={**SMALL_SPEC, "encode": {"categories": "refuse"}})
        answer = client.put("/models/n", json={})
        assert "delete one first, or start `braided serve` with a higher --max-models" in answer.json()["detail"]
        answer = client.post("/models/m/learn", json={"x": {"c": "red"}, "y": 0})
        assert "give `categories='onehot'` or `categories='hash'`" in answer.json()["detail"]
