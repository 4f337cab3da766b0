"""Files are whole or not there, whatever fails; what Linux has and macOS has not is made absent here.

That is all these tests say of macOS: whether it then does what is asked of it, only macOS can tell.
"""

from __future__ import annotations

import ast
import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import memory
from braided import BraidedError, files
from braided.files import lock_folder, remove_leftovers, temporary_beside, write_atomically
from braided.report import provenance
from braided.store import write
from braided.streams.readers.jsonl import standard_input

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_text_files_are_opened_with_an_encoding() -> None:
    """Without one, it is the system's, and another one elsewhere."""
    for path in [*SOURCES, *sorted((ROOT / "benchmarks").glob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                text = node.func.attr in ("read_text", "write_text")
                assert not text or "encoding" in {word.arg for word in node.keywords}, f"{path}:{node.lineno}"


def test_what_cannot_be_put_in_place_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "file", [b"con", memoryview(b"tent")])
    assert (tmp_path / "file").read_bytes() == b"content"
    write_atomically(tmp_path / "file", b"other")
    assert (tmp_path / "file").read_bytes() == b"other"
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(PermissionError(errno.EACCES, "in use")))
    with pytest.raises(BraidedError, match="in use"):
        write(tmp_path / "file", "a kind", {}, {})
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_and_its_name_are_forced_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(files, "sync", synced.append)
    write_atomically(tmp_path / "file", b"content")
    assert len(synced) == 2, "the file, and the folder that has its name"


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    own, running = temporary_beside(tmp_path / "file"), tmp_path / ".file.1.tmp"
    killed, another = tmp_path / f".file.{ended.pid}.tmp", tmp_path / f".other.{ended.pid}.tmp"
    for path in (own, running, killed, another):
        path.touch()
    remove_leftovers(tmp_path / "file")
    assert set(tmp_path.iterdir()) == {running, another}
    remove_leftovers(tmp_path / "no such folder" / "file")


def test_a_folder_is_locked_until_its_lock_is_closed(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path)
    assert lock is not None
    assert lock_folder(tmp_path) is None
    os.close(lock)
    again = lock_folder(tmp_path)
    assert again is not None
    os.close(again)
    assert not list(tmp_path.iterdir())


def test_the_whole_way_to_the_disk_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    refuse: list[int] = []

    def fcntl(file: int, what: int) -> None:
        asked.append(what)
        if refuse:
            raise OSError(refuse[0], "refused")

    synced: list[int] = []
    monkeypatch.setattr(files, "fcntl", SimpleNamespace(F_FULLFSYNC=51, fcntl=fcntl))
    monkeypatch.setattr(os, "fsync", synced.append)
    files.sync(7)
    assert (asked, synced) == ([51], [])
    refuse.append(errno.ENOTSUP)
    files.sync(7)
    assert synced == [7], "a file system without it is synced as usual"
    refuse[:] = [errno.EIO]
    with pytest.raises(OSError, match="refused"):
        files.sync(7)
    assert synced == [7], "a failure of the disk is not a missing call"


def test_memory_is_asked_of_ps_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory.resident_mib() > 10
    monkeypatch.setattr(memory, "_MEMORY", Path("no such file"))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="  2048\n"))
    assert memory.resident_mib() == 2


def test_a_processor_has_a_name_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_PROCESSOR", Path("no such file"))
    assert provenance.provenance()["machine"].rpartition(", ")[2]


def test_standard_input_is_utf8_whatever_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO('{"x": {"Größe": 1}, "y": 0}\n'.encode()), encoding="cp1252")
    monkeypatch.setattr(sys, "stdin", stdin)
    (batch,) = list(standard_input().batches())
    assert batch.names == ("Größe",)


def test_output_that_cannot_be_encoded_is_escaped(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "braided", "inspect", str(tmp_path / "Größe.csv")]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 2
    assert b"Gr\\xf6\\xdfe.csv" in done.stderr
