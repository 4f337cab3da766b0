"""A service's model of kind fleet: all that other models have, with the bits of `Fleet` in one process."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from help_fleet_model import ITEMS, KEYS, OCTETS, SPEC, digest_of, exported, made, taught
from help_serve import LINES, SMALL, ndjson, serving

from braided import Fleet, MODLClassifier, MODLRegressor
from braided.fleet import SHARES
from braided.learners import LogisticConfig
from braided.run import Job, RunOptions
from braided.store import state_digest


@pytest.mark.parametrize("share", SHARES)
def test_learned_in_any_way_it_has_the_bits_of_a_fleet_in_one_process(tmp_path: Path, share: str) -> None:
    with serving(tmp_path / "state") as client:
        assert made(client, share=share)["share"] == share
        assert client.post("/models/m/predict", json={"x": {"machine": "pump", "a": 1.0}}).status_code == 200
        assert client.post("/models/m/learn", json={"records": ITEMS[:40]}).json()["learned"] == 40
        for item in ITEMS[40:50]:
            client.post("/models/m/learn", json=item)
        for _ in range(2):  # the second time is a retry
            answer = client.post(
                "/models/m/learn?client=me&sequence=0", content=ndjson(ITEMS[50:]), headers=LINES
            ).text.splitlines()
            assert json.loads(answer[-1])["next"] == 70
        expected = taught(ITEMS, share)
        assert digest_of(exported(client)) == state_digest(expected)
        asked = [
            {"x": {**item["x"], "machine": key}} for item, key in zip(ITEMS[:30], [*KEYS, "new"] * 5, strict=False)
        ]
        said = client.post("/models/m/predict", json={"records": asked}).json()
        lines = client.post("/models/m/predict", content=ndjson(asked), headers=LINES).text.splitlines()
        assert said["classes"] == expected.classes
        for record, answer, line in zip(asked, said["predictions"], map(json.loads, lines), strict=True):
            one = client.post("/models/m/predict", json=record).json()["predictions"][0]
            assert one == answer == {name: line[name] for name in answer}
            probabilities = expected.predict_proba_one(record["x"])
            assert answer["probabilities"] == [probabilities.get(label, 0.0) for label in expected.classes]
            assert (answer["label"], answer["version"]) == (expected.predict_one(record["x"]), 120)
    with serving(tmp_path / "state") as client:
        assert digest_of(exported(client)) == state_digest(expected)
        assert client.get("/models/m").json()["keys"] == 6


def test_a_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    records = [{**item, "x": {**item["x"], "machine": f"m {item['x']['machine']}"}} for item in ITEMS]
    (tmp_path / "records.jsonl").write_bytes(ndjson([{name: item[name] for name in "xy"} for item in records]))
    job = Job(RunOptions(stream=str(tmp_path / "records.jsonl"), key="machine", preset="lean"))
    for _ in job.run():
        pass
    with serving(tmp_path / "state") as client:
        client.put("/models/m", json={"key": "machine", "preset": "lean"})
        client.post("/models/m/learn", content=ndjson([{n: item[n] for n in "xy"} for item in records]), headers=LINES)
        found = digest_of(exported(client))
    assert found == job.document()["runs"][0]["state_sha256"]


def test_what_has_no_key_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as client:
        made(client)
        client.post("/models/m/learn", json={"records": ITEMS[:30]})

        def refused(path: str, document: Any, words: str) -> None:
            answer = client.post(f"/models/m/{path}", json=document)
            assert (answer.status_code, words in answer.json()["detail"]) == (422, True), answer.text

        no_key = "record 0 has no key 'machine': the model is a fleet, so give text or a whole number"
        refused("learn", {"x": {"a": 1.0}, "y": "up"}, no_key)
        refused("learn", {"x": {"a": 1.0, "machine": None}, "y": "up"}, no_key)
        refused("learn", {"x": {"a": 1.0, "machine": " "}, "y": "up"}, no_key)
        without = [{"a": 1.0}, {"a": 1.0, "machine": None}, {"a": 1.0, "machine": ""}, {"a": 1.0, "machine": " "}]
        for x in without:
            refused("observe", {"x": x}, "one that waits for its label is to be learned")
            refused("predict", {"x": x, "id": "i"}, "so give its key")
        for key in (1.5, [], {}, "", "x" * 201, "new\nline", 10**30, 1e300):
            refused("learn", {"x": {"machine": key}, "y": "up"}, "machine")
        refused("predict", {"x": {"machine": "pump"}, "set": 0.9}, "set is not for a fleet")
        refused("explain", {"x": {"machine": "pump"}}, "the model is a fleet, whose answers are not explained")
        lines = client.post("/models/m/learn", content=ndjson([ITEMS[0], {"x": {}, "y": "up"}]), headers=LINES)
        assert "line 2: record 1 has no key 'machine'" in lines.text
        shared = client.post("/models/m/predict", json={"records": [{"x": x} for x in without]}).json()["predictions"]
        expected = list(taught(ITEMS[:30]).predict_proba_one({"a": 1.0}).values())
        assert [one["probabilities"] for one in shared] == [expected] * len(without)
        assert client.get("/models/m").json()["records"] == 30
        for spec, words in (
            ({"share": "start"}, "share is for a fleet: give key"),
            ({"max_keys": 5}, "max_keys is for a fleet"),
            ({"key": ""}, "key has 0 characters"),
            ({"key": "a", "share": "all"}, "share"),
            ({"key": "a", "max_keys": 10_001}, "max_keys is 10001, and this service allows"),
            (
                {"key": "a", "share": "none", "max_keys": 501, "max_features": 2},
                "max_keys is 501, and this service allows",
            ),
            ({"key": "a", "decision": "balanced"}, "a fleet answers with the likeliest class"),
            ({"key": "a", "share": "none", "expire_after": 5}, "expire_after goes by a model that all keys share"),
        ):
            answer = client.put("/models/n", json=spec)
            assert (answer.status_code, words in answer.json()["detail"]) == (422, True), answer.text


def test_a_key_is_its_text(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as client:
        made(client)
        client.post("/models/m/learn", json={"records": ITEMS[:40]})
        asked = [{"x": {"a": 1.0, "machine": key}} for key in (7, "7", 7.0, " 7 ", "pump")]
        said = client.post("/models/m/predict", json={"records": asked}).json()["predictions"]
        assert said[:4] == [said[0]] * 4
        assert said[4] != said[0]
        keys = client.get("/models/m").json()["keys"]
        client.post("/models/m/learn", json={"records": [{**one, "y": "up"} for one in asked]})
        assert client.get("/models/m").json()["keys"] == keys


def test_labels_come_later_and_wait_through_restarts_and_moves(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as client:
        made(client)
        client.post("/models/m/learn", json={"records": ITEMS[:30]})
        for place in range(30, 36):
            asked = {"x": ITEMS[place]["x"], "id": f"id {place}"}
            assert client.post("/models/m/predict", json=asked).json()["id"] == f"id {place}"
    with serving(tmp_path / "state") as client:
        content = exported(client)
        assert client.put("/models/copy/checkpoint", content=content, headers=OCTETS).status_code == 201
        for name in ("m", "copy"):
            for place in range(30, 36):
                label = {"id": f"id {place}", "y": ITEMS[place]["y"], "w": ITEMS[place].get("w", 1.0)}
                assert client.post(f"/models/{name}/label", json=label).json()["learned"] == 1
            assert digest_of(exported(client, name)) == state_digest(taught(ITEMS[:36]))


def test_too_many_keys_are_refused_or_the_oldest_is_forgotten(tmp_path: Path) -> None:
    for share in SHARES:
        with serving(tmp_path / share) as client:
            made(client, share=share, max_keys=3)
            made(client, "evicting", share=share, max_keys=3, evict="oldest", in_memory=2)
            few = [item for item in ITEMS if item["x"]["machine"] in KEYS[:3]]
            client.post("/models/m/learn", json={"records": few})
            answer = client.post("/models/m/learn", json={"records": ITEMS})
            assert answer.status_code == 422
            assert "brings key number 4, and max_keys is 3: raise `max_keys`" in answer.json()["detail"]
            assert digest_of(exported(client)) == state_digest(taught(few, share, max_keys=3))
            client.post("/models/evicting/learn", json={"records": ITEMS})
            found = client.get("/models/evicting").json()
            assert (found["keys"], found["keys_in_memory"], found["max_keys"]) == (3, 2, 3)
            assert digest_of(exported(client, "evicting")) == state_digest(
                taught(ITEMS, share, max_keys=3, evict="oldest")
            )


def test_features_of_separate_models_are_bounded_together(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as client:
        made(client, share="none", max_features=4)
        for place in range(4):
            item = {"x": {"machine": f"m{place}", f"f{place}": 1.0}, "y": "up"}
            assert client.post("/models/m/learn", json=item).status_code == 200
        answer = client.post("/models/m/learn", json={"x": {"machine": "m9", "f9": 1.0}, "y": "up"})
        assert (answer.status_code, "feature number 5" in answer.text) == (422, True)


def test_raw_records(tmp_path: Path) -> None:
    raw = [
        {"x": {**item["x"], "colour": ("red", "green", "blue")[i % (2 + i // 40)]}, "y": item["y"]}
        for i, item in enumerate(ITEMS[:60])
    ]
    for share in SHARES:
        expected = Fleet(
            MODLClassifier(learners=SMALL, max_features=20, max_classes=5, encode=True), key="machine", share=share
        )
        for item in raw:
            expected.learn_one(item["x"], item["y"])
        asked = {"machine": "fan", "a": 1.0, "colour": "blue"}
        with serving(tmp_path / share) as client:
            made(client, share=share, encode=True)
            client.post("/models/m/learn", content=ndjson(raw), headers=LINES)
            said = client.post("/models/m/predict", json={"x": asked}).json()["predictions"][0]
            content = exported(client)
        assert said["probabilities"] == list(expected.predict_proba_one(asked).values())
        (tmp_path / "m.braided").write_bytes(content)
        loaded = Fleet.load(tmp_path / "m.braided")
        assert loaded.predict_proba_one(asked) == expected.predict_proba_one(asked)
        assert "machine" not in loaded.feature_names


def test_a_regression(tmp_path: Path) -> None:
    numbers = [{"x": item["x"], "y": 3.0 * item["x"]["a"] * (KEYS.index(item["x"]["machine"]) - 2)} for item in ITEMS]
    expected = Fleet(MODLRegressor(learners=(LogisticConfig().for_regression(),), max_features=20), key="machine")
    for item in numbers:
        expected.learn_one(item["x"], item["y"])
    with serving(tmp_path / "state") as client:
        client.put("/models/m", json={"task": "regression", "key": "machine", "max_features": 20, "learners": [
            {"type": type(LogisticConfig().for_regression()).__name__}]})  # fmt: skip
        client.post("/models/m/learn", json={"records": numbers})
        said = client.post("/models/m/predict", json={"records": [{"x": item["x"]} for item in numbers[:20]]}).json()
        assert [one["value"] for one in said["predictions"]] == [expected.predict_one(i["x"]) for i in numbers[:20]]
        assert digest_of(exported(client)) == state_digest(expected)


def test_what_is_told_of_it(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as client:
        made(client, in_memory=2)
        client.post("/models/m/learn", json={"records": ITEMS})
        found = client.get("/models/m").json()
        assert (found["key"], found["keys"], found["keys_in_memory"], found["evict"]) == ("machine", 6, 2, None)
        assert [one["name"] for one in found["learners"]][-1] == "shared"
        assert {one["name"] for one in found["availability"]} == {"a", "b", "late"}
        metrics = client.get("/metrics").text
        assert 'braided_keys{model="m"} 6.0' in metrics
        assert 'braided_keys_in_memory{model="m"} 2.0' in metrics
        assert "keys" not in client.put("/models/plain", json={}).json()
        assert 'braided_keys{model="plain"}' not in client.get("/metrics").text


def test_a_snapshot_of_many_keys_holds_up_no_other_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, taken = threading.Event(), threading.Event()
    snapshot = Fleet.snapshot

    def slowly(self: Fleet, rules: Any = None) -> Any:
        taken.set()
        assert held.wait(60)
        return snapshot(self, rules)

    with serving(tmp_path / "state") as client:
        made(client)
        client.put("/models/plain", json={"learners": SPEC["learners"]})
        client.post("/models/m/learn", json={"records": ITEMS[:20]})
        plain = {"x": {"a": 1.0}, "y": "up"}
        client.post("/models/plain/learn", json=plain)
        monkeypatch.setattr(Fleet, "snapshot", slowly)
        export = threading.Thread(target=lambda: exported(client))
        export.start()
        assert taken.wait(60)
        waiting = threading.Thread(target=lambda: client.post("/models/m/predict", json={"x": ITEMS[0]["x"]}))
        waiting.start()
        try:
            for _ in range(3):
                assert client.post("/models/plain/predict", json={"x": {"a": 1.0}}, timeout=20).status_code == 200
                assert client.post("/models/plain/learn", json=plain, timeout=20).status_code == 200
            assert client.get("/healthz", timeout=20).status_code == 200
        finally:
            held.set()
            export.join()
            waiting.join()
