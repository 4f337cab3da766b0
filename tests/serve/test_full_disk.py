"""On a small file system that fills up: nothing that was acknowledged is lost, and predictions go on."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from help_serve import SMALL_SPEC, Server, digest_of, http, rows, taught

from braided.store import state_digest
from command import braided

ITEMS = rows(4_000)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("this user may not mount a file system: run the tests as root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, leave: int = 0) -> Path:
    """Take all the room but for some bytes."""
    filler = folder / "filler"
    file = os.open(filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with contextlib.suppress(OSError):
        while os.write(file, bytes(4_096)):
            pass
    os.close(file)
    os.truncate(filler, max(filler.stat().st_size - leave, 0))
    return filler


def test_a_disk_that_fills_up(small: Path, tmp_path: Path) -> None:
    server = Server(small / "state", "--snapshot-records", "300", "--keep", "none").start()
    http.put(f"{server.url}/models/m", json=SMALL_SPEC).raise_for_status()

    def teach(start: int, stop: int) -> tuple[int, int]:
        """Records that were acknowledged, and the status of the last answer."""
        for at in range(start, stop, 20):
            done = http.post(f"{server.url}/models/m/learn", json={"records": ITEMS[at : at + 20]})
            if done.status_code != 200:
                return at, done.status_code
        return stop, 200

    def check(records: int) -> None:
        assert http.get(f"{server.url}/models/m").json()["records"] == records
        exported = http.get(f"{server.url}/models/m/checkpoint").content
        assert digest_of(exported) == state_digest(taught(ITEMS[:records]))

    try:
        known, status = teach(0, 400)
        filler = fill(small, leave=150_000)
        known, status = teach(known, 4_000)
        assert status in (200, 507)
        if status == 200:
            fill(small)
            known, status = teach(known - 20, known)
        filler = fill(small)
        _, status = teach(known, known + 20)
        assert status == 507
        asked = http.post(f"{server.url}/models/m/predict", json={"x": ITEMS[0]["x"]})
        assert asked.status_code == 200, "predictions go on"
        assert http.get(f"{server.url}/healthz").json()["models"] == {"m": "cannot learn"}
        refused = braided("serve", "backup", str(small / "state"), str(small / "copy"), code=2)
        assert "cannot be written" in refused.stderr.replace("\n", " ")
        server.kill()
        server.start()  # on a full disk
        check(known)
        filler.unlink()
        known, status = teach(known, known + 200)
        assert status == 200, "it goes on by itself once there is room"
        check(known)
        assert server.stop() == 0
    finally:
        if not server.ended():
            server.kill()


def test_a_start_without_any_room(small: Path) -> None:
    server = Server(small / "state").start()
    http.put(f"{server.url}/models/m", json=SMALL_SPEC).raise_for_status()
    for at in range(0, 300, 20):
        http.post(f"{server.url}/models/m/learn", json={"records": ITEMS[at : at + 20]}).raise_for_status()
    server.kill()
    for name in ("m.db-shm",):  # which a start has to make again
        (small / "state" / "models" / name).unlink()
    fill(small)
    with contextlib.suppress(OSError):
        (small / "one more").write_bytes(bytes(100_000))
    server.start()
    try:
        assert http.get(f"{server.url}/models/m").json()["records"] == 300
        assert not (small / "state" / "reserve").exists(), "the reserve made the room"
    finally:
        server.stop()
