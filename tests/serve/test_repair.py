"""Damage is found, said and never learned from; `repair`, `restore` and `backup` on the command line."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from help_serve import SMALL_SPEC, ask, digest, reopened, rows, served_model, serving, taught
from help_serve import records as learnable

from braided.serve.maintain import look
from braided.serve.service import folder_lock
from braided.serve.settings import Settings
from braided.serve.storage import DamageError, read_only
from braided.store import state_digest
from command import braided

ITEMS = rows(120)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service's folder as a kill leaves it: a snapshot of 0 records, and five requests of 20."""
    state = tmp_path_factory.mktemp("repair") / "state"
    with serving(state) as client:
        client.put("/models/m", json=SMALL_SPEC)
        for at in range(0, 100, 20):
            client.post("/models/m/learn", json={"records": ITEMS[at : at + 20]})
        copy = state.with_name("killed")
        shutil.copytree(state, copy)
    return copy


@pytest.fixture
def folder(killed: Path, tmp_path: Path) -> Path:
    shutil.copytree(killed, tmp_path / "state")
    return tmp_path / "state"


def change(folder: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(folder / "models" / "m.db", isolation_level=None)) as connection:
        connection.execute(statement)


def damage(folder: Path) -> None:
    """The third request is not as it was written."""
    change(folder, "UPDATE requests SET records = replace(records, 'class 0', 'class 1') WHERE number = 3")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def records(folder: Path) -> int:
    """How many records a start finds, and that they are as they were taught."""
    state = reopened(Settings(folder)).state
    assert digest(state) == state_digest(taught(ITEMS[: state.stats.records]))
    return state.stats.records


def test_nothing_is_wrong(folder: Path) -> None:
    before = files(folder)
    assert braided("serve", "repair", str(folder)).stdout == "m: ok, 100 records\n"
    assert files(folder) == before


def test_a_flipped_bit_anywhere_is_found_or_does_no_harm(killed: Path, tmp_path: Path) -> None:
    """Of the database as a stop leaves it: every page, header and unused space among them."""
    whole = tmp_path / "whole"
    shutil.copytree(killed, whole)
    reopened(Settings(whole))
    content = (whole / "models" / "m.db").read_bytes()
    chance, found, harmless = random.Random(5), 0, 0
    (tmp_path / "models").mkdir()
    for _ in range(400):
        at, bit = chance.randrange(len(content)), 1 << chance.randrange(8)
        flipped = content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]
        (tmp_path / "models" / "m.db").write_bytes(flipped)
        try:
            assert records(tmp_path) == 100
            harmless += 1
        except (DamageError, sqlite3.Error):
            found += 1
        for file in (tmp_path / "models").iterdir():
            file.unlink()
    print(f"of 400 flipped bits {found} were found; {harmless} were in what is not used or not needed")
    assert found > 100


def test_a_look_shows_the_damage_and_changes_nothing(folder: Path) -> None:
    damage(folder)
    before = files(folder)
    shown = braided("serve", "repair", str(folder), code=1).stdout
    (found,) = json.loads(braided("serve", "repair", str(folder), "--json", code=1).stdout)
    assert files(folder) == before
    assert "m: m.db is damaged: request 3 is not as it was written" in shown
    assert "--model m --do rebuild\n      go on with what can be read, up to the damage" in shown
    assert found["remedies"] == {"rebuild": 40, "set-aside": None, "retry": None}


def test_rebuilt_it_has_what_came_before_the_damage(folder: Path) -> None:
    damage(folder)
    damaged = (folder / "models" / "m.db").read_bytes()
    retried = braided("serve", "repair", str(folder), "--model", "m", "--do", "retry", code=1)
    assert "model m cannot be opened yet: " in retried.stderr
    assert "40 records are left" in braided("serve", "repair", str(folder), "--model", "m", "--do", "rebuild").stdout
    assert records(folder) == 40
    (aside,) = (folder / "aside").iterdir()
    assert (aside / "m.db").read_bytes() == damaged, "what was damaged is kept"
    braided("serve", "repair", str(folder), code=0)
    with serving(folder) as client:
        assert client.get("/healthz").json()["status"] == "ok"
        client.post("/models/m/learn", json={"records": ITEMS[40:110]})
    assert records(folder) == 110


def test_a_log_that_was_flipped_after_a_kill_is_rebuilt(folder: Path) -> None:
    path = folder / "models" / "m.db-wal"
    content = path.read_bytes()
    assert len(content) > 20_000
    path.write_bytes(content[:20_000] + bytes([content[20_000] ^ 1]) + content[20_001:])
    with serving(folder) as client:
        assert client.get("/healthz").json() == {"status": "degraded", "models": {"m": "quarantined"}}
        assert "m.db-wal is damaged" in client.post("/models/m/predict", json={"x": {}}).json()["detail"]
    braided("serve", "repair", str(folder), "--model", "m", "--do", "rebuild")
    assert records(folder) in (20, 40, 60, 80)


def test_damage_where_it_does_not_matter_yet_is_shown(folder: Path) -> None:
    with serving(folder) as client:
        client.post("/models/m/learn", json={"records": ITEMS[100:]})
    damage(folder)  # in what the newest snapshot has
    assert records(folder) == 120
    shown = braided("serve", "repair", str(folder), code=1).stdout
    assert shown.startswith("m: 120 records\n  m.db is damaged: request 3")
    assert "120 records are left" in braided("serve", "repair", str(folder), "--model", "m", "--do", "rebuild").stdout
    braided("serve", "repair", str(folder), code=0)


def test_set_aside_and_start_without_it(folder: Path) -> None:
    damage(folder)
    braided("serve", "repair", str(folder), "--model", "m", "--do", "set-aside")
    with serving(folder) as client:
        assert client.get("/models").json() == {"models": [], "quarantined": []}
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201


def test_a_missing_request_at_the_end_is_noticed(folder: Path) -> None:
    change(folder, "DELETE FROM requests WHERE number = 5")
    assert "request 5 is not as it was written" in braided("serve", "repair", str(folder), code=1).stdout


def test_a_model_at_whose_opening_the_service_died(folder: Path) -> None:
    (folder / "models" / "m.opening").write_text("3")
    shown = braided("serve", "repair", str(folder), code=1).stdout
    assert "ended 3 times in a row" in shown
    with serving(folder) as client:
        assert client.get("/models").json()["quarantined"][0]["name"] == "m"
    assert "opened at the next start" in braided("serve", "repair", str(folder), "--model", "m", "--do", "retry").stdout
    with serving(folder) as client:
        assert client.get("/models/m").json()["records"] == 100


def test_while_the_service_runs_it_can_be_looked_at_only(folder: Path) -> None:
    with serving(folder):
        assert braided("serve", "repair", str(folder)).stdout == "m: ok, 100 records\n"
        busy = braided("serve", "repair", str(folder), "--model", "m", "--do", "retry", code=2)
        assert "another braided serve uses it" in busy.stderr
        assert "uses it" in braided("serve", "restore", str(folder), "--model", "m", "--to", "50", code=2).stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--model", "other"], "holds no model 'other'"),
        (["--do", "cut"], "--do 'cut' is not known: use one of rebuild, set-aside, retry"),
        (["--do", "rebuild"], "--do rebuild needs --model"),
        (["--model", "m", "--do", "rebuild"], "what can be done is nothing, as it can be opened"),
    ],
)
def test_bad_input_is_one_line(folder: Path, options: list[str], why: str) -> None:
    refused = braided("serve", "repair", str(folder), *options, code=2)
    assert why in refused.stderr.replace("\n", " ")


def test_restore_and_backup(folder: Path, tmp_path: Path) -> None:
    assert "record 0, " in braided("serve", "restore", str(folder), "--model", "m").stdout
    refused = braided("serve", "restore", str(folder), "--model", "m", "--to", "101", code=2)
    assert "it has only 100 records" in refused.stderr.replace("\n", " ")
    assert (
        "give a number of records"
        in braided("serve", "restore", str(folder), "--model", "m", "--to", "x", code=2).stderr
    )
    shown = braided("serve", "restore", str(folder), "--model", "m", "--to", "50").stdout
    assert shown == "m: went back from record 100 to record 50\n"
    assert records(folder) == 50
    target = tmp_path / "copy"
    assert "m: 50 records" in braided("serve", "backup", str(folder), str(target)).stdout
    assert records(target) == 50
    assert "is there already" in braided("serve", "backup", str(folder), str(target), code=2).stderr
    braided("serve", "restore", str(folder), "--model", "m", "--to", "100")
    assert records(folder) == 100, "what was gone back from is still there"


def test_a_backup_made_while_records_flow_in_is_whole(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as client:
        client.put("/models/m", json=SMALL_SPEC)
        stop = threading.Event()

        def teach() -> None:
            for at in range(0, len(ITEMS), 2):
                client.post("/models/m/learn", json={"records": ITEMS[at : at + 2]})
                if stop.is_set() and at > 100:
                    return

        thread = threading.Thread(target=teach)
        thread.start()
        known = client.get("/models/m").json()["records"]
        braided("serve", "backup", str(tmp_path / "state"), str(tmp_path / "copy"))
        stop.set()
        thread.join()
    assert records(tmp_path / "copy") >= known
    with contextlib.closing(read_only(tmp_path / "copy" / "models" / "m.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_damaged_model_is_backed_up_as_it_is(folder: Path, tmp_path: Path) -> None:
    damage(folder)
    found = braided("serve", "backup", str(folder), str(tmp_path / "copy"), code=1)
    assert "m cannot be opened, here as there" in found.stderr.replace("\n", " ")
    assert (tmp_path / "copy" / "models" / "m.db").read_bytes() == (folder / "models" / "m.db").read_bytes()


def test_a_look_at_a_served_model_does_not_miss_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service may copy the log into the database and cut it, between the copies of the two files."""
    settings = Settings(tmp_path)
    worker = served_model(settings)
    ask(worker, "learn", records=learnable(ITEMS[:60]))
    copyfile = shutil.copyfile

    def then_cut(source: Path, target: Path) -> None:
        copyfile(source, target)
        worker.storage.sync("TRUNCATE")

    monkeypatch.setattr(shutil, "copyfile", then_cut)
    with folder_lock(tmp_path):
        found = look(worker.storage.path, settings)
    assert (found.problem, found.records, found.damage) == (None, 60, [])
    worker.stop()
