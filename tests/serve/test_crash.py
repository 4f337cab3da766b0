"""Killed with SIGKILL at any moment, the service comes back with everything that it had acknowledged, bit for bit."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import threading
import time
from pathlib import Path

import pytest
from help_disk import with_shim
from help_serve import SMALL_SPEC, Server, digest_of, http, ndjson, rows, small_model

from braided.store import state_digest
from serve import Connection, head

OPTIONS = ("--snapshot-records", "150")
#: Without a history, files are removed as soon as they can be.
KEEP_NOTHING = (*OPTIONS, "--keep", "none")
BATCH = 10
#: Batches that the client has sent ahead of the answers.
AHEAD = 5


class Client:
    """Streams records and counts those that were acknowledged."""

    def __init__(self, server: Server, start: int) -> None:
        self.server = server
        self.sent = self.acknowledged = start

    def run(self, most: int = 1_000_000) -> None:
        """Until the connection breaks, or so many records were sent."""
        with (
            contextlib.suppress(OSError, ValueError, IndexError),
            contextlib.closing(Connection(self.server.port)) as way,
        ):
            way.socket.sendall(head("POST", "/models/m/learn", "application/x-ndjson", "Transfer-Encoding: chunked"))
            started = False
            while self.sent < most:
                while self.sent < self.acknowledged + AHEAD * BATCH:
                    body = ndjson(ITEMS[self.sent % len(ITEMS) :][:BATCH])
                    self.sent += body.count(b"\n")
                    way.socket.sendall(b"%x\r\n%b\r\n" % (len(body), body))
                if not started:
                    assert way.answer_head()[0] == 200
                    started = True
                for line in way.chunk().splitlines():
                    self.acknowledged += json.loads(line)["learned"]


ITEMS = rows(5_000)


class Reference:
    """A model that is never killed, taught as far as is asked for."""

    def __init__(self) -> None:
        self.model = small_model()
        self.records = 0

    def at(self, records: int) -> str:
        for i in range(self.records, records):
            item = ITEMS[i % len(ITEMS)]
            self.model.learn_one(item["x"], item["y"])
        self.records = records
        return state_digest(self.model)


def check(server: Server, reference: Reference, acknowledged: int, sent: int) -> int:
    """The restarted service has the acknowledged records and at most those in flight; how many."""
    found = int(http.get(f"{server.url}/models/m", timeout=30).json()["records"])
    assert acknowledged <= found <= sent
    content = http.get(f"{server.url}/models/m/checkpoint", timeout=30).content
    assert digest_of(content) == reference.at(found)
    return found


def crash(folder: Path, times: int, seed: int) -> str:
    chance = random.Random(seed)
    server = Server(folder, *OPTIONS).start()
    assert http.put(f"{server.url}/models/m", json=SMALL_SPEC, timeout=60).status_code == 201
    reference, known, in_flight, killed_starting = Reference(), 0, 0, 0
    for _ in range(times):
        client = Client(server, known)
        thread = threading.Thread(target=client.run)
        thread.start()
        time.sleep(chance.uniform(0.02, 0.5))
        server.kill()
        thread.join()
        if chance.random() < 0.2:  # and once more while it starts, which is when it recovers
            server.start(wait=False)
            time.sleep(chance.uniform(0.5, 2.0))
            server.kill()
            killed_starting += 1
        server.start()
        known = check(server, reference, client.acknowledged, client.sent)
        in_flight += known - client.acknowledged
    assert server.stop() == 0
    return (
        f"{times} kills, {killed_starting} more while starting: {known} records, all acknowledged ones there, "
        f"{in_flight} in flight had reached the disk"
    )


def test_killed_a_few_times(tmp_path: Path) -> None:
    print(crash(tmp_path / "state", times=3, seed=1))


@pytest.mark.slow
def test_killed_a_hundred_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = crash(tmp_path / "state", times=100, seed=2)
    with capsys.disabled():
        print(f"\n{summary}")


#: An operation on a file, and how often until it kills: within a commit, a checkpoint, a snapshot, a start.
QUICK = [("write", "-wal", 40), ("sync", "-wal", 9)]
MORE = [
    ("write", "-wal", 3),
    ("write", "-wal", 400),
    ("write", "-wal", 1_111),
    ("write", ".db", 5),
    ("write", ".db", 60),
    ("sync", ".db", 1),
    ("sync", ".db", 3),
    ("sync", "-wal", 2),
    ("sync", "-wal", 60),
    ("truncate", "-wal", 1),
    ("write", "-shm", 1),
]


def killed_at(folder: Path, operation: str, name: str, number: int) -> None:
    """Kill at one operation; then again while recovering; then recover."""
    server = Server(folder, *KEEP_NOTHING).start()
    assert http.put(f"{server.url}/models/m", json=SMALL_SPEC, timeout=60).status_code == 201
    assert server.stop() == 0
    dying = Server(folder, *KEEP_NOTHING, env=with_shim(kill=f"{operation}:{name}:{number}")).start(wait=False)
    assert dying.process is not None
    with contextlib.suppress(AssertionError):
        dying.wait()
    client = Client(dying, 0)
    client.run()
    with contextlib.suppress(subprocess.TimeoutExpired):
        dying.process.wait(timeout=5)
    if dying.process.poll() is None:  # it never came to that
        dying.kill()
    again = Server(folder, *KEEP_NOTHING, env=with_shim(kill="write:.db:1")).start(wait=False)
    assert again.process is not None
    with contextlib.suppress(subprocess.TimeoutExpired):
        again.process.wait(timeout=3)
    again.kill()
    server.start()
    check(server, Reference(), client.acknowledged, client.sent)
    assert server.stop() == 0


@pytest.mark.parametrize(("operation", "name", "number"), QUICK)
def test_killed_in_the_middle(tmp_path: Path, operation: str, name: str, number: int) -> None:
    killed_at(tmp_path / "state", operation, name, number)


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "name", "number"), MORE)
def test_killed_in_the_middle_of_anything(tmp_path: Path, operation: str, name: str, number: int) -> None:
    killed_at(tmp_path / "state", operation, name, number)
