"""The files of a fleet in service: killed, brought back, copied, changed."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from help_fleet_model import ITEMS, KEYS, OCTETS, SPEC, digest_of, exported, fleet, items, made, taught
from help_serve import Server, ask, reopened, served_model, serving
from httpx import Client, TransportError

from braided import BraidedError
from braided.fleet import KIND, SHARES, cache
from braided.serve.maintain import backup, look
from braided.serve.problems import HTTPProblem
from braided.serve.settings import Limits, Settings
from braided.serve.spec import ModelSpec, model_from
from braided.serve.worker import Worker
from braided.store import decode, encode, state_digest


def worker_of(folder: Path, **more: Any) -> Worker:
    """A fleet in service, without HTTP."""
    settings = Settings(folder, snapshot_records=50, keep="9999m")
    return served_model(settings, model_from(ModelSpec(**{**SPEC, **more}), settings.limits, settings.keys))


def teach(worker: Worker, start: int, stop: int) -> None:
    for at in range(start, stop, 7):
        learn_at_once(worker, ITEMS[at : min(at + 7, stop)])


def learn_at_once(worker: Worker, records: list[dict[str, Any]]) -> None:
    parser = worker.state.parser(True, Limits())
    for item in records:
        parser.add(item)
    ask(worker, "learn", records=parser.done())


@pytest.mark.parametrize("share", SHARES)
def test_the_log_leads_back_to_any_record(tmp_path: Path, share: str) -> None:
    worker = worker_of(tmp_path, share=share)
    teach(worker, 0, 100)
    for record in (99, 60, 3):
        assert ask(worker, "restore", record=record)["records"] == record
        assert state_digest(worker.state.model) == state_digest(taught(ITEMS[:record], share))
    teach(worker, 3, 20)
    worker.stop(snapshot=False)
    assert state_digest(reopened(worker.settings).state.model) == state_digest(taught(ITEMS[:20], share))


def _full(*arguments: Any, **settings: Any) -> None:
    raise cache.KeysNotWrittenError("keys that are too many for memory cannot be put into a file: No space left")


def _unreadable(*arguments: Any) -> bytes:
    raise cache.KeysLostError("key 'pump' cannot be read from disk")


@pytest.mark.parametrize("share", SHARES)
def test_on_a_full_disk_what_is_acknowledged_is_learned_and_predictions_go_on(
    tmp_path: Path, share: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = worker_of(tmp_path, share=share, in_memory=2)
    teach(worker, 0, 7)
    monkeypatch.setattr(cache.KeyFile, "write", _full)
    learn_at_once(worker, ITEMS[7:90])
    assert state_digest(worker.state.model) == state_digest(taught(ITEMS[:90], share))
    with pytest.raises(HTTPProblem, match="cannot be put on disk: nothing of this request was learned") as refused:
        teach(worker, 90, 97)
    assert refused.value.status == 507
    assert worker.trouble == "keys that are too many for memory cannot be put on disk"
    asked = worker.state.parser(False, Limits())
    for key in KEYS:
        asked.add({"x": {"machine": key, "a": 0.3}})
    expected = taught(ITEMS[:90], share)
    answers = worker.predict(asked.done())[1]
    assert [one["label"] for one in answers] == [expected.predict_one({"machine": key, "a": 0.3}) for key in KEYS]
    monkeypatch.undo()
    teach(worker, 90, 120)
    assert worker.trouble is None
    worker.stop(snapshot=False)
    # What was refused is in the log, and is passed over.
    assert state_digest(reopened(worker.settings).state.model) == state_digest(taught(ITEMS, share))
    monkeypatch.setattr(cache.KeyFile, "write", _full)
    with pytest.raises(BraidedError, match="too many for memory cannot be put on disk: free some space, and try again"):
        reopened(worker.settings)


@pytest.mark.parametrize("share", SHARES)
def test_keys_that_cannot_be_read_are_told_and_others_go_on(
    tmp_path: Path, share: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path / "state") as client:
        made(client, share=share, in_memory=2)
        client.post("/models/m/learn", json={"records": ITEMS})
        monkeypatch.setattr(cache.KeyFile, "read", _unreadable)
        answers = [client.post("/models/m/predict", json={"x": {"machine": key, "a": 1.0}}) for key in KEYS]
        answers.append(client.get("/models/m/checkpoint"))
        assert {answer.status_code for answer in answers} == {200, 503}
        for answer in answers:
            if answer.status_code == 503:
                assert "cannot be read" in answer.json()["detail"]
                assert str(tmp_path) not in answer.text


def test_backup_repair_and_quarantine(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "state", keep="none")
    with serving(settings.folder) as client:
        made(client, in_memory=2)
        client.post("/models/m/learn", json={"records": ITEMS})
        assert backup(settings, tmp_path / "copy", lambda text: None) == {"m": 120}
        assert view_of(client)["keys"] == 6
    database = settings.models / "m.db"
    assert look(database, settings).problem is None
    with serving(tmp_path / "copy") as client:
        assert digest_of(exported(client)) == state_digest(taught(ITEMS))
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE snapshot_parts SET content = zeroblob(9)")
        connection.commit()
    with serving(settings.folder) as client:
        assert client.get("/models/m").status_code == 503
        assert client.get("/healthz").json()["models"] == {"m": "quarantined"}


def view_of(client: Client) -> dict[str, Any]:
    """What the page is sent."""
    with client.stream("GET", "/events") as events:
        for line in events.iter_lines():
            if line.startswith("data: ") and '"curve"' in line:
                found: dict[str, Any] = json.loads(line.removeprefix("data: "))
                return found
    raise AssertionError


def test_every_prediction_is_that_of_the_version_it_names(tmp_path: Path) -> None:
    """Readers come in while the fleet learns a long chunk, and keys go to disk and come back."""
    worker = worker_of(tmp_path, in_memory=2)
    teach(worker, 0, 10)
    parser = worker.state.parser(False, Limits())
    asked = [{"x": {"machine": key, "a": 0.3, "b": -1.0}} for key in KEYS]
    for item in asked:
        parser.add(item)
    records, said, done = parser.done(), {}, threading.Event()

    def read() -> None:
        while not done.is_set():
            for answer, key in zip(worker.predict(records)[1], KEYS, strict=True):
                said[answer["version"], str(key), type(key)] = answer["probabilities"]

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for at in range(10, 120, 55):
        learn_at_once(worker, ITEMS[at : at + 55])
    done.set()
    for thread in threads:
        thread.join()
    worker.stop()
    reference, versions = taught([]), {version for version, _, _ in said}
    assert len(versions) > 2
    for version, item in enumerate(ITEMS, start=1):
        reference.learn_one(item["x"], item["y"], item.get("w", 1.0))
        if version in versions:
            for record, key in zip(asked, KEYS, strict=True):
                expected = list(reference.predict_proba_one(record["x"]).values())
                assert said[version, str(key), type(key)] == expected


def changed_inside(metadata: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """With other keys."""
    return {**metadata, "inside": {**metadata["inside"], **changes}}


@pytest.mark.parametrize("share", SHARES)
def test_changed_exports_are_refused_in_a_sentence(tmp_path: Path, share: str) -> None:
    with serving(tmp_path / "state", keys=20) as client:
        made(client, share=share)
        client.post("/models/m/learn", json={"records": ITEMS[:40]})
        metadata, arrays = decode(exported(client), "export", KIND)[1:]

        def imported(changed: dict[str, Any]) -> int:
            content = encode(KIND, changed, arrays)
            answer = client.put("/models/n/checkpoint", content=content, headers=OCTETS)
            assert answer.status_code == 201 or len(answer.json()["detail"]) > 20
            return answer.status_code

        parameters, inside = metadata["parameters"], metadata["inside"]
        keys = inside["texts"]
        for name, value in (
            ("key", ""), ("key", None), ("key", {"tuple": ["a"]}), ("share", "all"), ("share", 1), ("max_keys", 0),
            ("max_keys", "5"), ("max_keys", 2), ("in_memory", 0), ("in_memory", "1"), ("evict", "newest"),
        ):  # fmt: skip
            assert imported({**metadata, "parameters": {**parameters, name: value}}) == 422, (name, value)
        for changed in (keys[:-1], [keys[0]] * len(keys), [" z", *keys[1:]], ["x" * 300, *keys[1:]], None):
            assert imported(changed_inside(metadata, texts=changed)) == 422, changed
        for name, value in (
            ("held", True),
            ("estimator", "Fleet"),
            ("learned", 2**52),
            ("learned", -1),
            ("template", {}),
        ):
            assert imported({**metadata, name: value}) == 422, name
        for name in ("key", "share", "max_keys"):
            rest = {other: value for other, value in parameters.items() if other != name}
            assert imported({**metadata, "parameters": rest}) == 422, name
        assert client.put("/models/more", json={**SPEC, "max_keys": 21}).status_code == 422
        assert imported(metadata) == 201


def test_killed_it_comes_back_with_what_was_acknowledged(tmp_path: Path) -> None:
    killed(tmp_path, times=1, in_memory=2)


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
def test_killed_again_and_again(tmp_path: Path, share: str) -> None:
    killed(tmp_path, times=8, in_memory=2, share=share)


def killed(folder: Path, times: int, **more: Any) -> None:
    records = items(4_000, seed=3)
    server = Server(folder / "state", "--snapshot-records", "150").start()
    reference, known = fleet(more.get("share", "braid")), 0
    with Client(base_url=server.url, timeout=300) as client:
        made(client, **more)
    try:
        for _ in range(times):
            acknowledged = known

            def teach_on(start: int = known) -> None:
                nonlocal acknowledged
                with Client(base_url=server.url, timeout=300) as client:
                    for at in range(start, len(records), 10):
                        try:
                            answer = client.post("/models/m/learn", json={"records": records[at : at + 10]})
                        except TransportError:
                            return
                        acknowledged += answer.json()["learned"]

            thread = threading.Thread(target=teach_on)
            thread.start()
            while acknowledged < known + 180 and thread.is_alive():
                thread.join(0.05)
            server.kill()
            thread.join()
            server.start()
            with Client(base_url=server.url, timeout=300) as client:
                found = client.get("/models/m").json()["records"]
                assert acknowledged <= found <= acknowledged + 10
                for item in records[known:found]:
                    reference.learn_one(item["x"], item["y"], item.get("w", 1.0))
                assert digest_of(exported(client)) == state_digest(reference)
            known = found
        assert server.stop() == 0
    finally:
        if not server.ended():
            server.kill()
    assert not list((folder / "state").glob("keys/*")), "what it had put on disk for itself"
