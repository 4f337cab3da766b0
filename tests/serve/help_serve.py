"""What the tests of the service share: records, and services in processes of their own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed: run make test")

import httpx
import numpy as np

from braided import MODLClassifier
from braided.estimators import ESTIMATORS
from braided.learners import LogisticConfig, MLPConfig
from braided.records import Records
from braided.serve.command import Running, bound_socket
from braided.serve.problems import HTTPProblem as HTTPProblem
from braided.serve.records import RecordParser
from braided.serve.recovery import Recovered, recover
from braided.serve.requests import WriteRequest
from braided.serve.security import Tokens, token_line
from braided.serve.service import write_model
from braided.serve.settings import Limits, Settings
from braided.serve.state import ModelState, restored_model
from braided.serve.storage import Storage
from braided.serve.worker import Worker
from braided.store import decode, state_digest
from conftest import made_up

#: Small enough to be quick, with a learner of each speed that matters to files: closed form and gradient.
SMALL = (LogisticConfig(), MLPConfig(hidden=(8,), optimiser="rmsprop"))
SMALL_SPEC: dict[str, Any] = {
    "learners": [{"type": "LogisticConfig"}, {"type": "MLPConfig", "hidden": [8], "optimiser": "rmsprop"}]
}
LINES = {"Content-Type": "application/x-ndjson"}
#: Each request on a connection of its own, as by `httpx.get`, which reads the certificates of the system first: 28 ms.
http = httpx.Client(verify=False, limits=httpx.Limits(max_keepalive_connections=0))


def tokens_of(*lines: tuple[str, str] | tuple[str, str, tuple[str, ...]]) -> Tokens:
    """What a file with these scopes, tokens and models gives."""
    return Tokens([token_line(*line, number=number) for number, line in enumerate(lines, start=1)])


def small_model(preset: str = "default") -> MODLClassifier:
    return MODLClassifier(preset, learners=SMALL, max_features=1_000, max_classes=100)


def rows(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Records as a client sends them; some features come late and some values are missing."""
    values, labels = made_up(n, d=5, classes=3, seed=seed)
    found = []
    for i, (row, label) in enumerate(zip(values.tolist(), labels.tolist(), strict=True)):
        x = {f"f{j}": v for j, v in enumerate(row) if v == v and (j < 3 or i > 20)}
        found.append({"x": x, "y": f"class {label}"})
    return found


def records(items: list[dict[str, Any]], labelled: bool = True) -> Records:
    reader = RecordParser(labelled, False, Limits())
    for item in items:
        reader.add(item if labelled else {"x": item["x"]})
    found = reader.done()
    assert isinstance(found, Records)
    return found


def taught(items: list[dict[str, Any]]) -> MODLClassifier:
    """A model that was never served, taught record by record."""
    model = small_model()
    for item in items:
        model.learn_one(item["x"], item["y"])
    return model


def digest_of(content: bytes) -> str:
    """The digest of the model in a checkpoint."""
    model = restored_model(decode(content, "export", *ESTIMATORS))
    assert isinstance(model, MODLClassifier)
    return state_digest(model)


def digest(state: ModelState) -> str:
    assert isinstance(state.model, MODLClassifier)
    return state_digest(state.model)


def ask(worker: Worker, kind: Any, **what: Any) -> Any:
    """Send a request and wait for its answer."""
    future: Future[Any] = Future()
    worker.submit(WriteRequest(kind, future, **{"time": time.time(), **what}))
    return future.result(timeout=300)


def label_of(y: Any, w: float | None = None) -> Records:
    """What comes with a `label`."""
    return Records((), np.empty((1, 0)), [y], None if w is None else np.array([w]))


def served_model(settings: Settings, model: MODLClassifier | None = None) -> Worker:
    """A new model in service, without HTTP."""
    state = ModelState("m", model or small_model(), settings.limits)
    settings.models.mkdir(parents=True, exist_ok=True)
    worker = Worker(Recovered(state), write_model(settings.models, state, settings.durability), settings)
    worker.start()
    return worker


def reopened(settings: Settings, name: str = "m") -> Recovered:
    """A model as a service would open it; the database is closed again."""
    storage = Storage.open(settings.models / f"{name}.db")
    try:
        return recover(storage, settings.limits, None)
    finally:
        storage.close()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Server:
    """A service in a process of its own."""

    def __init__(self, folder: Path, *options: str, port: int | None = None, env: dict[str, str] | None = None) -> None:
        self.env = env
        self.folder = folder
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder.parent / f"{folder.name}.log"
        command = [sys.executable, "-m", "braided", "serve", "--dir", str(folder), "--port", str(self.port)]
        self.command = [*command, *options]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, wait: bool = True) -> Server:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stderr=log, stdout=log, env=self.env)
        if wait:
            self.wait()
        return self

    def wait(self) -> None:
        """Until it answers: on a busy machine, a first start that compiles takes minutes."""
        assert self.process is not None
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(
                    f"the service ended with {self.process.returncode}: {self.log.read_text()[-2000:]}"
                )
            try:
                http.get(f"{self.url}/healthz", timeout=5)
                return
            except httpx.TransportError:
                time.sleep(0.02)
        self.kill()
        raise AssertionError(f"the service did not start within 600 s: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Server]:
    server = Server(folder, *options).start()
    try:
        yield server
    finally:
        if not server.ended():
            server.kill()


def ndjson(items: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


@contextmanager
def serving(folder: Path, tokens: Tokens | None = None, **limits: Any) -> Iterator[httpx.Client]:
    """A service in a thread of this process, and a client for it."""
    running = Running(Settings(folder, limits=Limits(**limits)))
    running.policy.tokens = tokens or Tokens()
    running.service.open(say=lambda text: None)
    listener = bound_socket("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = running.server()
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        with httpx.Client(verify=False, base_url=f"http://127.0.0.1:{port}", timeout=300) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


def state_of(items: list[dict[str, Any]], state: ModelState | None = None) -> ModelState:
    """A model with its figures that has learned records, without a database."""
    state = state or ModelState("m", small_model(), Limits())
    state.apply([WriteRequest("learn", None, records(items))])
    return state


def saved_and_restored(state: ModelState) -> ModelState:
    return ModelState.restored(decode(state.snapshot(), "m", *ESTIMATORS), Limits())
