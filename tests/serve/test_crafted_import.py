"""Changed checkpoints over HTTP: an import is refused, or the model learns, predicts, and is there after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import help_fleet_model
import numpy as np
from help_serve import SMALL_SPEC, rows, serving, taught
from httpx import Client

import crafted_checkpoints
from braided import MODLClassifier
from braided.fleet import KIND
from braided.learners import LogisticConfig, MLPConfig
from braided.store import decode, encode

OCTETS = {"Content-Type": "application/octet-stream"}
ITEMS = rows(40)


def imported(client: Client, name: str, content: bytes) -> bool:
    answer = client.put(f"/models/{name}/checkpoint", content=content, headers=OCTETS)
    assert answer.status_code in (201, 422), answer.text
    return answer.status_code == 201


def test_a_greedy_combiner_whose_place_is_outside_of_its_ring_is_refused(tmp_path: Path) -> None:
    model = MODLClassifier(learners=(LogisticConfig(), MLPConfig(hidden=(4,))), combiner="greedy")
    for item in ITEMS:
        model.learn_one(item["x"], item["y"])
    metadata, arrays = model.snapshot()
    with serving(tmp_path) as client:
        for place in (-1.0, 100.0, 2.0**40, np.nan):
            arrays["combiner/window"][0] = place
            assert not imported(client, "m", encode("MODLClassifier", metadata, arrays))


def test_names_and_labels_are_those_of_records(tmp_path: Path) -> None:
    metadata, arrays = taught(ITEMS).snapshot()
    first, *others = metadata["features"]
    changes: list[dict[str, Any]] = [
        {"features": [name, *others]} for name in ("", "x" * 1_000, "new\nline", "\ud800", others[0], None, 1)
    ]
    changes += [{"classes": [label, *metadata["classes"][1:]]} for label in ("", "x" * 1_000, "\x00", None, 2**60)]
    with serving(tmp_path) as client:
        for change in changes:
            assert not imported(client, "m", encode("MODLClassifier", metadata | change, arrays)), change
        assert imported(client, "m", encode("MODLClassifier", metadata | {"features": [f"{first} 2", *others]}, arrays))


def test_whatever_is_imported_learns_predicts_and_is_there_after_a_restart(tmp_path: Path) -> None:
    taken: dict[str, Any] = {}
    with serving(tmp_path) as client:
        for number in range(300):
            found = crafted_checkpoints.case(2, number)
            name = f"m{number}"
            if (
                found.model.startswith(("drift", "whole"))
                or "fleet" in found.model
                or not imported(client, name, found.content)
            ):
                continue
            numeric = client.get(f"/models/{name}").json()["task"] == "regression"
            for item in ITEMS[:5]:
                record = {"x": item["x"], "y": 1.5 if numeric else "class 1"}
                assert client.post(f"/models/{name}/learn", json=record).status_code in (200, 422)
            taken[name] = client.post(f"/models/{name}/predict", json={"x": ITEMS[0]["x"]}).json()
            if len(taken) == 8:
                break
        assert len(taken) == 8
    with serving(tmp_path) as client:
        for name, said in taken.items():
            assert client.post(f"/models/{name}/predict", json={"x": ITEMS[0]["x"]}).json() == said


def test_labels_of_a_fleet_are_those_of_its_models_and_no_more_than_there_may_be(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as client:
        for share in ("start", "none"):
            metadata, arrays = help_fleet_model.taught(help_fleet_model.ITEMS[:30], share).snapshot()
            known = metadata["inside"]["labels"]
            assert (len(known), metadata["template"]["parameters"]["max_classes"]) == (2, 5)

            def taken(labels: Any, share: str = share, said: Any = metadata, arrays: Any = arrays, **more: Any) -> bool:
                inside = {**said["inside"], "labels": labels, **more}
                return imported(client, share, encode(KIND, {**said, "inside": inside}, arrays))

            for labels in (known[:1], ["a", "b", "c", "d", *known], *([one, *known] for one in ("", "\x00", 2**60))):
                assert not taken(labels), labels
            assert taken(known[:1], share="empty", texts=[], models=[]) == (share == "none")
            assert taken(["a", "b", "c", *known])
            learned = client.post(f"/models/{share}/learn", json=help_fleet_model.ITEMS[30])
            assert learned.status_code == 200, learned.text


def test_what_an_export_has_beside_its_model_is_held_to_the_same_rules(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        client.put("/models/m", json=SMALL_SPEC)
        client.post("/models/m/learn", json={"records": ITEMS})
        found = decode(client.get("/models/m/checkpoint").content, "export", "MODLClassifier")

        def changed(arrays: dict[str, Any] | None = None, **serve: Any) -> bytes:
            metadata = {**found.metadata, "serve": {**found.metadata["serve"], **serve}}
            return encode(found.kind, metadata, {**found.arrays, **(arrays or {})})

        stats = found.metadata["serve"]["stats"]
        crafted = [
            changed({"serve/alarm/counts": np.array([0, 0, 0, 5])}),
            changed({"steps": np.array([2**53])}),
            *(
                changed(stats={**stats, "names": [name, *stats["names"][1:]]})
                for name in ("\ud800", "x" * 300, {"float": "inf"}, {"tuple": ["a", 2**65]})
            ),
            changed(clients={f"c{i}": 1 for i in range(1_001)}),
            changed(zz=[[] for _ in range(3 * 2**20)]),
        ]
        for content in crafted:
            assert not imported(client, "n", content)
        assert imported(client, "n", changed())
        for path in ("/models", "/models/n", "/metrics", "/healthz"):
            assert client.get(path).status_code == 200
