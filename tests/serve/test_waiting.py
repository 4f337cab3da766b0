"""No prediction waits for the disk, for a snapshot or for a model that is being made."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from help_serve import (
    SMALL_SPEC,
    ask,
    records,
    rows,
    saved_and_restored,
    served_model,
    serving,
    small_model,
)
from httpx import Client

from braided.estimators import ESTIMATORS
from braided.serve import service
from braided.serve import state as state_module
from braided.serve.requests import WriteRequest
from braided.serve.settings import Limits, Settings
from braided.serve.state import ModelState
from braided.serve.storage import Storage
from braided.store import decode, encode

ITEMS = rows(30)
RECORD = {"x": {f"f{i}": i + 0.123456789 for i in range(5)}}
#: Long enough to be decoded in a thread.
LONG = json.dumps({"records": [RECORD] * 900}).encode()
JSON = {"Content-Type": "application/json"}


class Held:
    """Something that takes as long as a test wants."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()
        self.released.set()

    def __call__(self) -> None:
        self.begun.set()
        assert self.released.wait(60)

    def hold(self) -> None:
        self.begun.clear()
        self.released.clear()


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.released.set()


def predictions_are_answered(client: Client) -> None:
    assert len(LONG) > 2**16
    for _ in range(3):
        assert client.post("/models/m/predict", json=RECORD, timeout=20).status_code == 200
        assert client.post("/models/m/predict", content=LONG, headers=JSON, timeout=20).status_code == 200


def test_a_disk_that_hangs_holds_up_no_prediction(tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    note = Storage._note

    def note_slowly(storage: Storage, *numbers: int) -> None:
        held()  # in a transaction, as in a commit that waits for the disk
        note(storage, *numbers)

    monkeypatch.setattr(Storage, "_note", note_slowly)
    monkeypatch.setattr(service.files, "sync_path", lambda path: held())
    with serving(tmp_path / "state") as client, ThreadPoolExecutor(20) as pool:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        assert client.post("/models/m/learn", json={"records": ITEMS}).status_code == 200
        held.hold()
        try:
            writes = [pool.submit(client.post, "/models/m/learn", json=ITEMS[0])]
            writes += [pool.submit(client.put, f"/models/n{i}", json=SMALL_SPEC) for i in range(12)]
            assert held.begun.wait(30)
            predictions_are_answered(client)
            assert not any(write.done() for write in writes)
        finally:
            held.released.set()
        assert {write.result().status_code for write in writes} == {200, 201}


def test_a_model_that_is_being_made_holds_up_no_prediction(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_from = service.model_from
    monkeypatch.setattr(service, "model_from", lambda *arguments: (held(), model_from(*arguments))[1])
    with serving(tmp_path / "state") as client, ThreadPoolExecutor(20) as pool:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        assert client.post("/models/m/learn", json={"records": ITEMS}).status_code == 200
        held.hold()
        try:
            made = [pool.submit(client.put, f"/models/n{i}", json=SMALL_SPEC) for i in range(12)]
            assert held.begun.wait(30)
            predictions_are_answered(client)
            assert [model["name"] for model in client.get("/models").json()["models"]] == ["m"]
            assert client.post("/models/n0/predict", json=RECORD).status_code == 404
        finally:
            held.released.set()
        assert {future.result().status_code for future in made} == {201}


@pytest.mark.parametrize("kind", ["snapshot", "export"])
def test_a_model_that_is_being_written_holds_up_no_prediction(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def encode_slowly(*what: Any) -> bytes:
        held()
        return encode(*what)

    worker = served_model(Settings(tmp_path, snapshot_records=60))
    monkeypatch.setattr(state_module, "encode", encode_slowly)
    ask(worker, "learn", records=records(ITEMS))
    held.hold()
    answer: Future[Any] = Future()
    if kind == "export":
        worker.submit(WriteRequest("export", answer))
    else:
        worker.submit(WriteRequest("learn", answer, records(ITEMS)))
    assert held.begun.wait(30)
    asked = records(ITEMS[:3], False)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(worker.predict, asked).result(timeout=20)[1][0]["version"] in (30, 60)
        assert pool.submit(worker.predict_one, RECORD["x"]).result(timeout=20)[1][0]["version"] in (30, 60)
    held.released.set()
    answer.result(timeout=30)
    worker.stop()


def wait(state: ModelState, id_: str, x: dict[str, float], at: float) -> None:
    state.apply([WriteRequest("observe", None, records([{"x": x}], labelled=False), id=id_, time=at)])


def test_an_id_that_comes_again_is_that_of_the_later_record() -> None:
    state = ModelState("m", small_model(), Limits())
    for i in range(5):
        wait(state, "a", {f"f{j}": 1.0 for j in range(i)}, float(i))
    wait(state, "b", {"f": 1.0}, 5.0)
    assert [(one.key, len(one.records.names)) for one in state.late.entries() if one.records] == [("a", 4), ("b", 1)]


def test_records_that_wait_are_in_a_snapshot_and_their_values_not_in_its_text() -> None:
    """The text is made in one call, during which no other thread of Python runs."""
    for count in (0, 1, 50):
        state = ModelState("m", small_model(), Limits())
        for i in range(count):
            wait(state, f"id {i}", {f"f{j}": i + j / 3 for j in range(i % 4)}, float(i))
        kept = decode(state.snapshot(), "snapshot", *ESTIMATORS).metadata["serve"]
        assert "0.333" not in json.dumps(kept["late"])
        restored = saved_and_restored(state)
        assert [one.key for one in restored.late.entries()] == [f"id {i}" for i in range(count)]
        for before, after in zip(state.late.entries(), restored.late.entries(), strict=True):
            assert before.records is not None
            assert after.records is not None
            assert (after.time, after.records.one(0)) == (before.time, before.records.one(0))
