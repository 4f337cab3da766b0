"""`braided serve repair`, `restore` and `backup` on the command line: what is wrong, and each way on."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from pathlib import Path

import pytest
from help_serve import SMALL_SPEC, digest, rows, serving, taught

from braided import MODLClassifier
from braided.serve.disk import Disk
from braided.serve.journal import FRAME_BYTES, HEADER_BYTES
from braided.serve.model_folder import ModelFolder
from braided.serve.settings import Settings
from braided.store import state_digest
from command import braided

ITEMS = rows(120)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service's folder as a kill leaves it: a snapshot of 0 records, and five frames of 20."""
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


def journal(folder: Path) -> Path:
    (found,) = (folder / "models" / "m").glob("journal-*")
    return found


def damage(path: Path) -> None:
    """A flipped bit in the middle: in the third frame, or the fourth."""
    content = bytearray(path.read_bytes())
    content[len(content) * 6 // 10] ^= 1
    path.write_bytes(content)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def records(folder: Path, name: str = "m") -> int:
    """How many records a start finds, and that they are as they were taught."""
    state, _ = ModelFolder(folder / "models" / name, Settings(folder), Disk()).open()
    assert digest(state) == state_digest(taught(ITEMS[: state.stats.records]))
    return state.stats.records


def test_nothing_is_wrong(folder: Path) -> None:
    before = files(folder)
    assert braided("serve", "repair", str(folder)).stdout == "m: ok, 100 records\n"
    assert files(folder) == before


def test_a_look_shows_the_damage_and_changes_nothing(folder: Path) -> None:
    damage(journal(folder))
    before = files(folder)
    told = braided("serve", "repair", str(folder), code=1).stdout
    (found,) = json.loads(braided("serve", "repair", str(folder), "--json", code=1).stdout)
    assert files(folder) == before
    assert "journal-0000000001.log: what stands at byte" in told
    left = found["remedies"]["cut"]
    assert left in (40, 60)
    assert f"--model m --do cut\n      keep everything up to the damage in the journal ({left} records" in told
    assert found["remedies"] == {"cut": left, "snapshot": 0, "set-aside": None, "retry": None}


def test_the_exit_status_says_whether_a_model_is_still_broken(folder: Path) -> None:
    braided("serve", "repair", str(folder), code=0)
    damage(journal(folder))
    braided("serve", "repair", str(folder), code=1)
    retried = braided("serve", "repair", str(folder), "--model", "m", "--do", "retry", code=1)
    assert "model m cannot be opened yet: " in retried.stderr
    braided("serve", "repair", str(folder), "--model", "m", "--do", "cut", code=0)
    braided("serve", "repair", str(folder), code=0)


def test_cut_at_the_damage(folder: Path) -> None:
    damaged = journal(folder)
    damage(damaged)
    content = damaged.read_bytes()
    told = braided("serve", "repair", str(folder), "--model", "m", "--do", "cut").stdout
    assert "records are left" in told
    left = records(folder)
    assert left in (40, 60)
    (aside,) = (folder / "aside").iterdir()
    assert (aside / damaged.name).read_bytes() == content, "what was cut off is kept"
    with serving(folder) as client:
        assert client.get("/healthz").json()["status"] == "ok"
        client.post("/models/m/learn", json={"records": ITEMS[left:110]})
    assert records(folder) == 110


def test_back_to_the_snapshot(folder: Path) -> None:
    damage(journal(folder))
    braided("serve", "repair", str(folder), "--model", "m", "--do", "snapshot")
    assert records(folder) == 0


def test_set_aside_and_start_without_it(folder: Path) -> None:
    damage(journal(folder))
    before = files(folder / "models" / "m")
    braided("serve", "repair", str(folder), "--model", "m", "--do", "set-aside")
    (aside,) = (folder / "aside").iterdir()
    assert files(aside) == before
    with serving(folder) as client:
        assert client.get("/models").json() == {"models": [], "quarantined": []}


def test_a_journal_file_that_is_missing_at_the_end(folder: Path) -> None:
    journal(folder).unlink()
    told = braided("serve", "repair", str(folder), code=1).stdout
    assert "journal-0000000001.log is missing" in told
    braided("serve", "repair", str(folder), "--model", "m", "--do", "cut")
    assert records(folder) == 0


def test_a_frame_that_cannot_be_applied(folder: Path) -> None:
    """Sound on disk, and refused by the model: cut there, with everything before it."""
    path = folder / "models" / "m"
    found = ModelFolder(path, Settings(folder), Disk())
    found.open()
    assert found.journal is not None
    found.journal.append(b"\x02\0\0\0{}")
    found.journal.append(b"\x02\0\0\0{}")
    found.close()
    (told,) = json.loads(braided("serve", "repair", str(folder), "--json", code=1).stdout)
    assert "frame 6 of the journal cannot be replayed" in told["problem"]
    assert told["remedies"]["cut"] == 100
    braided("serve", "repair", str(folder), "--model", "m", "--do", "cut")
    assert records(folder) == 100


def test_a_model_at_whose_opening_the_service_died(folder: Path) -> None:
    (folder / "models" / "m" / "opening").write_text("3")
    assert "ended 3 times in a row" in braided("serve", "repair", str(folder), code=1).stdout
    braided("serve", "repair", str(folder), "--model", "m", "--do", "retry")
    with serving(folder) as client:
        assert client.get("/models/m").json()["records"] == 100


def test_while_the_service_runs_it_can_be_looked_at_only(folder: Path) -> None:
    with serving(folder):
        assert "m: ok, 100 records" in braided("serve", "repair", str(folder)).stdout
        for command in (["repair", str(folder), "--model", "m", "--do", "snapshot"],
                        ["restore", str(folder), "--model", "m", "--at", "5"]):  # fmt: skip
            refused = braided("serve", *command, code=2)
            assert "another braided serve uses it: stop that one" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["repair", "nowhere"], "holds no models"),
        (["repair", "DIR", "--model", "n"], "holds no model 'n'"),
        (["repair", "DIR", "--do", "cut"], "--do cut needs --model"),
        (["repair", "DIR", "--model", "m", "--do", "magic"], "--do is 'magic': use one of cut, snapshot"),
        (["restore", "DIR", "--model", "n"], "holds no model 'n'"),
        (["restore", "DIR", "--model", "m", "--at", "soon"], "--at is 'soon': give a number of records, or a time"),
        (["restore", "DIR", "--model", "m", "--at", "101"], "cannot go back to record 101: it has only 100 records"),
        (["backup", "DIR", "DIR"], "is there already"),
        (["--port", "8000"], "braided serve needs --dir"),
    ],
)
def test_bad_input_is_one_line(folder: Path, arguments: list[str], message: str) -> None:
    before = files(folder)
    refused = braided("serve", *(str(folder) if word == "DIR" else word for word in arguments), code=2)
    assert message in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert files(folder) == before


def test_restore_and_backup(folder: Path, tmp_path: Path) -> None:
    told = braided("serve", "restore", str(folder), "--model", "m").stdout
    assert "record 0, " in told
    assert "and every record after it" in told
    elsewhere = tmp_path / "elsewhere"
    assert "m: 100 records" in braided("serve", "backup", str(folder), str(elsewhere)).stdout
    done = json.loads(braided("serve", "restore", str(folder), "--model", "m", "--at", "33", "--json").stdout)
    assert done == {"model": "m", "records": 33, "records_before": 100}
    assert records(folder) == 33
    assert records(elsewhere) == 100
    with serving(folder) as client:
        assert client.post("/models/m/learn", json={"records": ITEMS[33:50]}).json()["records"] == 50
    assert records(folder) == 50
    told = braided("serve", "restore", str(folder), "--model", "m", "--at", "90").stdout
    assert told == "m: went back from record 50 to record 90\n"
    assert records(folder) == 90


def test_garbage_after_the_last_frame_is_told_as_what_it_is(folder: Path) -> None:
    path = journal(folder)
    content = path.read_bytes()
    assert len(content) > HEADER_BYTES + FRAME_BYTES
    path.write_bytes(content + b"not a frame, and longer than the header of one would be")
    told = braided("serve", "repair", str(folder), code=1).stdout
    assert f"what stands at byte {len(content)} is not frame 6 as it was written: either it was damaged" in told
    assert "or something else was written there" in told
    braided("serve", "repair", str(folder), "--model", "m", "--do", "cut")
    assert records(folder) == 100


def test_what_only_looks_like_its_files_is_passed_over(folder: Path) -> None:
    """Folders, pipes and links by the names of a model's files neither hang nor stop anybody."""
    path = folder / "models" / "m"
    (path / ".x.tmp").mkdir()
    (path / "opening").mkdir()
    os.mkfifo(path / f"snapshot-{9:020d}.braided")
    (path / "journal-0000000009.log").symlink_to("nowhere")
    model = MODLClassifier()
    model.learn_one({"a": 1.0}, "x")
    model.save(path / f"snapshot-{3:020d}.braided")
    assert "m: ok, 100 records" in braided("serve", "repair", str(folder)).stdout
    with serving(folder) as client:
        assert client.get("/models/m").json()["records"] == 100
        assert client.get("/models/m/history").status_code == 200
        assert client.post("/models/m/restore", json={"record": 40}).json()["records"] == 40


def test_a_model_that_is_quarantined_keeps_its_torn_tail(folder: Path) -> None:
    path = journal(folder)
    content = path.read_bytes()
    path.write_bytes(content[:-7])
    braided("serve", "repair", str(folder))
    (folder / "models" / "m" / "high-water").unlink()
    note = json.dumps({"serial": 1, "number": 5}).encode()
    (folder / "models" / "m" / "high-water").write_bytes(struct.pack("<I", zlib.crc32(note)) + note)
    with serving(folder) as client:
        assert "frames up to 5 were acknowledged" in client.get("/models/m").json()["detail"]
    assert path.read_bytes() == content[:-7]
