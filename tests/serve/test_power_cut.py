"""The power fails at any moment: what was acknowledged is there, whatever else had reached the disk.

A service runs with a library that copies the database or its log after each sync. What a cut leaves is then known: of
each file the copy of its last sync, and any part of what was written since.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from help_disk import with_shim
from help_serve import SMALL_SPEC, Server, digest, http, reopened, rows, taught

from braided.errors import BraidedError
from braided.serve.settings import Settings
from braided.store import state_digest

ITEMS = rows(300)
Copies = list[tuple[str, Path]]


def written_down(folder: Path) -> tuple[Copies, dict[int, int]]:
    """Copies in their order, and how many had been made when so many records were acknowledged."""
    copies = folder / "copies"
    copies.mkdir()
    server = Server(folder / "state", "--snapshot-records", "60", "--keep", "none", env=with_shim(copies=str(copies)))
    server.start()
    acknowledged: dict[int, int] = {}
    try:
        assert http.put(f"{server.url}/models/m", json=SMALL_SPEC).status_code == 201
        for at in range(0, len(ITEMS), 10):
            if at == 200:  # goes back, so that it has 150 again
                assert http.post(f"{server.url}/models/m/restore", json={"record": 150}).status_code == 200
                acknowledged[150] = len(list(copies.glob("0*-m.db*")))
            http.post(f"{server.url}/models/m/learn", json={"records": ITEMS[at : at + 10]}).raise_for_status()
            records = at + 10 if at < 200 else at - 40
            time.sleep(0.03 * (at % 50 == 0))  # it notes that all is decided
            acknowledged[records] = len(list(copies.glob("0*-m.db*")))
    finally:
        server.stop()
    return [(path.name[7:], path) for path in sorted(copies.glob("0*-m.db*"))], acknowledged


def after_cut(copies: Copies, moment: int, target: Path, chance: random.Random) -> Settings:
    """The files after a cut, when so many copies had been made."""
    settings = Settings(target)
    settings.models.mkdir(parents=True)
    for name in ("m.db", "m.db-wal"):
        synced = [path for found, path in copies[:moment] if found == name]
        later = [path for found, path in copies[moment:] if found == name]
        content = bytearray(synced[-1].read_bytes() if synced else b"")
        if later and name == "m.db-wal":  # of what was written next, any sectors may be there
            following = later[0].read_bytes()
            length = chance.randint(min(len(content), len(following)), len(following))
            for at in range(0, length, 512):
                if chance.random() < 0.5:
                    content[len(content) :] = bytes(max(0, at + 512 - len(content)))
                    content[at : at + 512] = following[at : at + 512]
        (settings.models / name).write_bytes(bytes(content))
    return settings


def cuts(folder: Path, times: int) -> str:
    copies, acknowledged = written_down(folder)
    first = next(place for place, (name, _) in enumerate(copies) if name == "m.db") + 1
    chance, passed = random.Random(3), 0
    for turn in range(times):
        moment = chance.randint(first, len(copies))
        settings = after_cut(copies, moment, folder / f"cut {turn}", chance)
        known = [records for records, made in acknowledged.items() if made <= moment]
        found: Any = reopened(settings).state
        order = list(acknowledged)
        reached = order.index(found.stats.records) if found.stats.records in order else -1
        assert reached >= len(known) - 1, (moment, found.stats.records, known[-1:])
        kept = ITEMS[: found.stats.records] if moment < acknowledged[150] or found.stats.records <= 150 else None
        kept = kept or [*ITEMS[:150], *ITEMS[200 : found.stats.records + 50]]
        expected = {state_digest(taught(kept)), state_digest(taught(ITEMS[: found.stats.records]))}
        assert digest(found) in expected
        passed += 1
    return f"{passed} cuts among {len(copies)} syncs: all that was acknowledged was there"


def test_power_cuts(tmp_path: Path) -> None:
    print(cuts(tmp_path, 25))


@pytest.mark.slow
def test_many_power_cuts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = cuts(tmp_path, 1_000)
    with capsys.disabled():
        print(f"\n{summary}")


def test_a_service_that_syncs_nothing_is_found_out(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    server = Server(tmp_path / "state", "--durability", "none", env=with_shim(copies=str(copies))).start()
    http.put(f"{server.url}/models/m", json=SMALL_SPEC).raise_for_status()
    http.post(f"{server.url}/models/m/learn", json={"records": ITEMS[:50]}).raise_for_status()
    server.kill()
    synced = [(path.name[7:], path) for path in sorted(copies.glob("0*-m.db*"))]
    settings = after_cut(synced, len(synced), tmp_path / "cut", random.Random(0))
    with contextlib.suppress(BraidedError, sqlite3.Error):  # nothing at all may have reached the disk
        assert reopened(settings).state.stats.records == 0
