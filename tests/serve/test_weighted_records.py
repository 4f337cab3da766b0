"""Weights in the service: of one record, of several, in lines and with late labels; logged, and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from help_serve import (
    LINES,
    SMALL_SPEC,
    ask,
    digest,
    digest_of,
    label_of,
    ndjson,
    records,
    reopened,
    rows,
    served_model,
    serving,
    small_model,
)

from braided.serve.settings import Settings
from braided.serve.storage import Storage
from braided.store import state_digest

ITEMS = rows(80)
WEIGHTS = np.random.default_rng(0).choice([0, 0.25, 1, 2, 3.5, 400], size=80).tolist()


def weighted(start: int, stop: int) -> list[dict[str, Any]]:
    return [{**item, "w": w} for item, w in zip(ITEMS[start:stop], WEIGHTS[start:stop], strict=True)]


def test_the_service_learns_weights_as_in_process_and_again_after_a_restart(tmp_path: Path) -> None:
    model = small_model()
    for item, w in zip(ITEMS, WEIGHTS, strict=True):
        model.learn_one(item["x"], item["y"], w=w)
    with serving(tmp_path / "state") as client:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        for item in weighted(0, 10):
            assert client.post("/models/m/learn", json=item).json()["learned"] == 1
        assert client.post("/models/m/learn", json={"records": weighted(10, 40)}).json()["learned"] == 30
        assert client.post("/models/m/learn", content=ndjson(weighted(40, 70)), headers=LINES).status_code == 200
        for item in weighted(70, 80):
            kept = client.post("/models/m/observe", json={"x": item["x"]}).json()["id"]
            assert client.post("/models/m/label", json={"id": kept, "y": item["y"], "w": item["w"]}).status_code == 200
        assert digest_of(client.get("/models/m/checkpoint").content) == state_digest(model)
        assert client.get("/models/m").json()["records"] == 80
        assert client.get("/models/m").json()["version"] == sum(w > 0 for w in WEIGHTS)
        # Back to the start, and forth by the same records.
        assert client.post("/models/m/restore", json={"record": 0}).status_code == 200
        assert client.post("/models/m/learn", json={"records": weighted(0, 80)}).json()["learned"] == 80
    with serving(tmp_path / "state") as client:
        assert digest_of(client.get("/models/m/checkpoint").content) == state_digest(model)


@pytest.mark.parametrize("w", [-1, "2", None, True, [1], 10**400])
def test_what_is_no_weight_is_refused_and_nothing_learned(tmp_path: Path, w: Any) -> None:
    with serving(tmp_path / "state") as client:
        client.put("/models/m", json=SMALL_SPEC)
        items = [ITEMS[0], {**ITEMS[1], "w": w}]
        body = json.dumps({"records": items})
        answer = client.post("/models/m/learn", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert "the weight of record 1 is" in answer.json()["detail"]
        assert "give a finite number from 0 on" in answer.json()["detail"]
        assert client.get("/models/m").json()["records"] == 0
        assert client.post("/models/m/predict", json={"x": {"a": 1.0}, "w": 1.0}).status_code == 422
        assert client.post("/models/m/learn", json={"x": {"a": 1.0}, "y": 1, "z": 1}).status_code == 422


def test_the_document_of_the_service_knows_weights(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as client:
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
    for name in ("LabelledRecord", "LearnOne", "Label"):
        assert schemas[name]["properties"]["w"]["minimum"] == 0
        assert "w" not in schemas[name]["required"]


def test_the_log_keeps_weights_and_says_where_there_are_none(tmp_path: Path) -> None:
    settings = Settings(tmp_path)
    worker = served_model(settings)
    ask(worker, "learn", records=records(ITEMS[:3]))
    ask(worker, "learn", records=records(weighted(3, 6)))
    ask(worker, "observe", records=records(ITEMS[6:7], False), id="a")
    ask(worker, "label", id="a", records=label_of(ITEMS[6]["y"], 2.5))
    known = digest(worker.state)
    worker.stop(snapshot=False)
    storage = Storage.open(settings.models / "m.db")
    logged = [request.records.weights for request, *_ in storage.requests(0) if request.records is not None]
    storage.close()
    assert [None if one is None else one.tolist() for one in logged] == [None, WEIGHTS[3:6], None, [2.5]]
    assert digest(reopened(settings).state) == known
