"""A model that takes long holds up nobody else: not with predictions, and not with its figures."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from help_serve import LINES, SMALL_SPEC, ndjson, records, rows, served_model, serving
from httpx import Client

from braided.serve import events, handlers, metrics
from braided.serve.predictions import PredictionThreads
from braided.serve.settings import Settings
from braided.serve.worker import Worker

ITEMS = rows(30)
RECORD = {"x": ITEMS[0]["x"]}


class Held:
    """Something that takes as long as a test wants."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.released.wait(60)


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.released.set()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path / "state") as client:
        for name in ("small", "big"):
            assert client.put(f"/models/{name}", json=SMALL_SPEC).status_code == 201
            assert client.post(f"/models/{name}/learn", json={"records": ITEMS}).status_code == 200
        yield client


def others_are_answered(client: Client) -> None:
    assert client.get("/healthz", timeout=20).status_code == 200
    for _ in range(3):
        assert client.post("/models/small/predict", json=RECORD, timeout=20).status_code == 200


@pytest.mark.parametrize("kind", ["one", "several", "lines", "observe"])
def test_a_slow_model_holds_up_no_other(client: Client, held: Held, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    for name in ("predict", "predict_one"):
        quick = getattr(Worker, name)

        def slow(self: Worker, what: Any, level: float | None = None, quick: Any = quick) -> Any:
            if self.state.name == "big":
                held()
            return quick(self, what, level)

        monkeypatch.setattr(Worker, name, slow)
    bodies: dict[str, dict[str, Any]] = {
        "one": {"json": RECORD},
        "observe": {"json": RECORD},
        "several": {"json": {"records": [RECORD] * 20}},
        "lines": {"content": ndjson([RECORD] * 20), "headers": LINES},
    }
    operation = "observe" if kind == "observe" else "predict"
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(client.post, f"/models/big/{operation}", **bodies[kind]) for _ in range(8)]
        try:
            assert held.begun.wait(30)
            others_are_answered(client)
            assert not any(future.done() for future in waiting)
        finally:
            held.released.set()
        assert {future.result().status_code for future in waiting} == {200}


@pytest.mark.parametrize("path", ["/models", "/metrics", "/events", "/models/big"])
def test_figures_that_take_long_hold_up_nobody(
    client: Client, held: Held, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def after(gather: Any) -> Any:
        def gathered(*what: Any) -> Any:
            held()
            return gather(*what)

        return gathered

    monkeypatch.setattr(handlers, "brief", after(handlers.brief))
    monkeypatch.setattr(handlers, "details", after(handlers.details))
    monkeypatch.setattr(events, "view", after(events.view))
    monkeypatch.setattr(metrics, "exposition", after(metrics.exposition))

    def ask() -> int:
        with client.stream("GET", path) as answer:
            next(answer.iter_bytes())
            return answer.status_code

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(ask) for _ in range(3)]
        try:
            assert held.begun.wait(30)
            others_are_answered(client)
        finally:
            held.released.set()
        assert {future.result() for future in waiting} == {200}


def test_what_is_quick_is_predicted_on_the_loop_and_what_is_not_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = served_model(Settings(tmp_path))
    threads = PredictionThreads()
    here: list[bool] = []
    seconds = [0.0001]

    def noted(self: Worker, what: Any, level: float | None = None) -> Any:
        here.append(threading.current_thread() is threading.main_thread())
        return [], {}

    clock = iter(range(10**6))
    monkeypatch.setattr(Worker, "predict_one", noted)
    monkeypatch.setattr(Worker, "predict", noted)
    # Two looks at the clock per prediction: each costs what the test says.
    monkeypatch.setattr(time, "thread_time", lambda: (next(clock) % 2) * seconds[0])

    async def ask(count: int) -> list[bool]:
        here.clear()
        for _ in range(count):
            await threads.one(worker, {})
        return here.copy()

    assert asyncio.run(ask(3)) == [False, True, True]  # nothing is known of it at first
    seconds[0] = 0.004  # it has grown
    assert asyncio.run(ask(40))[-1] is False
    seconds[0] = 0.0001
    assert asyncio.run(ask(80))[-1] is True
    chunk = records(ITEMS[:16], labelled=False)
    here.clear()
    asyncio.run(threads.chunk(worker, chunk))
    assert here == [False], "sixteen times a tenth of a millisecond is too long"
    threads.close()
    worker.stop()
