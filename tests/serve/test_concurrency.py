"""Many readers and several writers at once: no error, and no prediction from a model that is half updated."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from help_serve import SMALL_SPEC, ask, digest, http, records, rows, served, served_model, small_model, taught

from braided.records import Records
from braided.serve.settings import Settings
from braided.serve.storage import Storage
from braided.store import state_digest
from serve import Connection, lines

MODELS = ("a", "b", "c")
ITEMS = rows(4_000)
QUESTIONS = [item["x"] for item in rows(20, seed=9)]


def logged(database: Path) -> list[tuple[dict[str, float], Any]]:
    """What the log says was learned, in order."""
    learned = []
    with closing(Storage.open(database)) as storage:
        for request, *_ in storage.requests(0):
            assert isinstance(request.records, Records)
            labels = request.records.known_targets
            learned += [(request.records.one(i), label) for i, label in enumerate(labels)]
    return learned


Seen = list[tuple[str, int, dict[str, Any], list[Any]]]


def hammer(port: int, seconds: float) -> tuple[Counter[str], Seen]:
    """64 readers and 4 writers; counts, and predictions to be checked against their versions."""
    counts: Counter[str] = Counter()
    seen: Seen = []
    errors: list[BaseException] = []
    end = time.monotonic() + seconds
    bodies = [json.dumps({"x": x}).encode() for x in QUESTIONS]

    def read(number: int, way: Connection) -> None:
        chance = random.Random(number)
        while time.monotonic() < end:
            model, place = chance.choice(MODELS), chance.randrange(len(QUESTIONS))
            document = json.loads(way.request("POST", f"/models/{model}/predict", bodies[place]))
            (found,) = document["predictions"]
            assert found["version"] == 0 or abs(sum(found["probabilities"]) - 1) < 1e-6
            counts["predictions"] += 1
            seen.append((model, place, found, document["classes"]))

    def write(number: int, way: Connection) -> None:
        at = turn = 0
        while time.monotonic() < end:
            turn += 1
            batch = ITEMS[(number * 1_000 + at) % len(ITEMS) :][:20]
            at += len(batch)
            model = MODELS[(number + turn) % len(MODELS)]
            if number % 2:
                way.request("POST", f"/models/{model}/learn", json.dumps({"records": batch}).encode())
            else:
                lines(way.port, model, [json.dumps(item).encode() for item in batch])
            counts["records"] += len(batch)

    def work(what: Callable[[int, Connection], None], number: int) -> None:
        try:
            with closing(Connection(port)) as way:
                what(number, way)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(read, i)) for i in range(64)]
    threads += [threading.Thread(target=work, args=(write, i)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return counts, seen


def run(folder: Path, seconds: float) -> str:
    with served(folder, "--snapshot-records", "1000000", "--snapshot-seconds", "1000") as server:
        for name in MODELS:
            assert http.put(f"{server.url}/models/{name}", json=SMALL_SPEC, timeout=60).status_code == 201
        counts, seen = hammer(server.port, seconds)
        server.kill()
    versions = 0
    for name in MODELS:
        learned = logged(folder / "models" / f"{name}.db")
        wanted: dict[int, list[tuple[int, dict[str, Any], list[Any]]]] = {}
        for model, place, found, classes in seen:
            if model == name:
                wanted.setdefault(found["version"], []).append((place, found, classes))
        versions += len(wanted)
        reference = small_model()
        for version in range(len(learned) + 1):
            for place, found, classes in wanted.pop(version, []):
                expected = reference.predict_proba_one(QUESTIONS[place])
                assert dict(zip(classes, found["probabilities"], strict=True)) == expected, f"torn at {version}"
            if version < len(learned):
                reference.learn_one(*learned[version])
        assert not wanted, "a prediction came from a version that never was"
    return (
        f"{counts['predictions']} predictions and {counts['records']} records in {seconds:g} s, no error; "
        f"{len(seen)} predictions of {versions} versions checked bit for bit"
    )


def test_many_readers_and_writers(tmp_path: Path) -> None:
    print(run(tmp_path / "state", seconds=4))


@pytest.mark.slow
def test_many_readers_and_writers_for_a_minute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = run(tmp_path / "state", seconds=60)
    with capsys.disabled():
        print(f"\n{summary}")


def test_readers_come_in_between_two_records(tmp_path: Path) -> None:
    """While one long chunk is learned, predictions see versions within it, and learning is as if they had not been."""
    worker = served_model(Settings(tmp_path))
    chunk, chunks = records(ITEMS[:300]), 0
    seen: list[tuple[int, dict[str, Any]]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.extend((place, worker.predict(records([{"x": QUESTIONS[place]}], False))[1][0]) for place in range(3))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    # On a busy machine a chunk may be learned before a reader has its turn.
    while not any(found["version"] % 300 for _, found in seen) and chunks < 20:
        ask(worker, "learn", records=chunk)
        chunks += 1
    done.set()
    for thread in threads:
        thread.join()
    worker.stop()
    by_version: dict[int, list[tuple[int, dict[str, Any]]]] = {}
    for place, found in seen:
        by_version.setdefault(found["version"], []).append((place, found))
    assert any(version % 300 for version in by_version), "no reader got in before a chunk was done"
    reference = taught([])
    for version, item in enumerate(ITEMS[:300] * chunks):
        for place, found in by_version.get(version, []):
            assert found["probabilities"] == list(reference.predict_proba_one(QUESTIONS[place]).values())
        reference.learn_one(item["x"], item["y"])
    assert digest(worker.state) == state_digest(reference)
