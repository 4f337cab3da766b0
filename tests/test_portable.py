"""Where the ways of Linux are not there, another one is taken: each is made absent here, and what is left is looked at.

That is all these tests say: whether Windows and macOS then do what is asked of them, only they can tell.
"""

from __future__ import annotations

import ast
import asyncio
import csv
import errno
import io
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import conftest
from braided import BraidedError, portable
from braided.checkpoint import read, remove_leftovers, temporary_beside, write, write_atomically
from braided.report.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
#: What a file's source says of things that some system lacks.
UNPORTABLE = re.compile(
    r"/proc\b|\bfcntl\b|\bmsvcrt\b|\bSIGHUP\b|\bSIGKILL\b|add_signal_handler|\bimport resource\b"
    r"|os\.(fork|fsync|replace|kill)\b|SO_REUSEADDR|AF_UNIX|os\.sysconf|os\.name\b"
)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folders that can be opened, no `fcntl`, no SIGHUP, none of Linux' own files."""
    for name, value in {"POSIX": False, "fcntl": None, "HANGUP": None}.items():
        monkeypatch.setattr(portable, name, value)
    for name in ("_PROCESSOR", "_MEMORY"):
        monkeypatch.setattr(portable, name, Path("no such file"))
    opened = os.open

    def open_no_folder(path: Any, *more: Any, **words: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "a folder", str(path))
        return opened(path, *more, **words)

    monkeypatch.setattr(os, "open", open_no_folder)


def code_of(path: Path) -> str:
    """A file's source without docstrings and comments."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return ast.unparse(tree)


def test_what_differs_between_systems_stands_in_one_file() -> None:
    for path in SOURCES:
        if path.name != "portable.py":
            said = re.sub(r"(['\"]).*?\1", "''", code_of(path))  # messages may name a signal
            assert not (found := UNPORTABLE.search(said)), f"{path}: {found[0]} belongs into portable.py"


def test_text_files_are_opened_with_an_encoding() -> None:
    """Without one, it is the system's, and another one on Windows."""
    for path in [*SOURCES, *sorted((ROOT / "benchmarks").glob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                text = node.func.attr in ("read_text", "write_text")
                assert not text or "encoding" in {word.arg for word in node.keywords}, f"{path}:{node.lineno}"


@pytest.mark.usefixtures("windows")
def test_files_are_written_whole_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "model"
    write(path, "a kind", {"n": 1}, {})
    assert read(path, "a kind").metadata == {"n": 1}
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.usefixtures("windows")
def test_a_file_that_is_held_open_is_replaced_once_it_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, pauses = [], []

    def replace(old: Path, new: Path) -> None:
        tries.append(new)
        if len(tries) < 3:
            raise PermissionError(errno.EACCES, "in use")
        Path(new).write_bytes(Path(old).read_bytes())
        Path(old).unlink()

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(portable.time, "sleep", pauses.append)
    write_atomically(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"
    assert len(tries) == 3
    assert len(pauses) == 2
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(PermissionError(errno.EACCES, "in use")))
    with pytest.raises(BraidedError, match="in use"):
        write(tmp_path / "file", "a kind", {}, {})
    assert os.listdir(tmp_path) == ["file"], "what could not be put in place is removed"
    assert len(pauses) < 30, "it is not tried for ever"


@pytest.mark.usefixtures("windows")
def test_no_process_is_asked_whether_it_runs_where_that_would_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("os.kill ends a process on Windows"))
    own, other = temporary_beside(tmp_path / "file"), tmp_path / ".file.999999.tmp"
    own.touch()
    other.touch()
    remove_leftovers(tmp_path / "file")
    assert os.listdir(tmp_path) == [other.name]


def test_a_folder_is_locked_by_a_file_in_it(windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the module of Windows, which refuses a file that is locked."""
    locked: set[int] = set()

    def locking(file: int, mode: int, n: int) -> None:
        if locked:
            raise PermissionError(errno.EACCES, "locked")
        locked.add(file)

    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    folder_lock = pytest.importorskip(
        "braided.serve.folder_lock", reason="the extra serve is not installed: run make test"
    )
    lock = folder_lock.FolderLock(tmp_path)
    with pytest.raises(BraidedError, match="another braided serve uses it"):
        folder_lock.FolderLock(tmp_path)
    lock.release()
    locked.clear()
    with folder_lock.FolderLock(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_the_whole_way_to_the_disk_is_taken_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    refuse: list[int] = []

    def fcntl(file: int, what: int) -> None:
        asked.append(what)
        if refuse:
            raise OSError(refuse[0], "refused")

    synced: list[int] = []
    monkeypatch.setattr(portable, "fcntl", SimpleNamespace(F_FULLFSYNC=51, fcntl=fcntl))
    monkeypatch.setattr(os, "fsync", synced.append)
    portable.sync(7)
    assert (asked, synced) == ([51], [])
    refuse.append(errno.ENOTSUP)
    portable.sync(7)
    assert synced == [7], "a file system without it is synced as usual"
    refuse[:] = [errno.EIO]
    with pytest.raises(OSError, match="refused"):
        portable.sync(7)
    assert synced == [7], "a failure of the disk is no missing call"


def test_memory_is_asked_of_ps_and_refused_in_one_line_without_it(
    windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="  2048\n"))
    assert portable.resident_bytes() == 2**21

    def missing(*_: Any, **__: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", missing)
    with pytest.raises(BraidedError, match=r"by ps, and .* has neither: measure it on Linux or macOS"):
        portable.resident_bytes()


@pytest.mark.usefixtures("windows")
def test_a_processor_has_a_name_everywhere() -> None:
    assert provenance()["machine"].rpartition(", ")[2]


def test_a_loop_without_signals_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        loop = asyncio.get_running_loop()

        def refuse(*_: Any) -> None:
            raise NotImplementedError

        monkeypatch.setattr(loop, "add_signal_handler", refuse)
        portable.call_on_hangup(lambda: None)
        monkeypatch.setattr(portable, "HANGUP", None)
        monkeypatch.setattr(loop, "add_signal_handler", lambda *_: pytest.fail("there is no such signal"))
        portable.call_on_hangup(lambda: None)

    asyncio.run(ask())


def test_a_port_is_taken_by_the_option_that_shares_it_with_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[int] = []
    listener: Any = SimpleNamespace(setsockopt=lambda level, option, value: options.append(option))
    portable.take_port_alone(listener)
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", -5, raising=False)
    portable.take_port_alone(listener)
    assert options == [socket.SO_REUSEADDR, -5]


def test_modes_and_names_of_windows(windows: None, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.touch(mode=0o666)
    assert not portable.others_can_read(path), "a mode says nothing there"
    assert portable.is_device("con")
    assert portable.is_device("LPT1.txt")
    assert not portable.is_device("console")


def test_standard_input_is_utf8_whatever_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO('{"Größe": 1}\n'.encode()), encoding="cp1252")
    monkeypatch.setattr(sys, "stdin", stdin)
    portable.read_input_as_utf8()
    assert sys.stdin.readline() == '{"Größe": 1}\n'


def test_output_that_cannot_be_encoded_is_escaped() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    command = [
        sys.executable,
        "-c",
        "from braided import portable; portable.write_output_as_it_can(); print('a \\u2192 b')",
    ]
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert done.stdout.strip() == b"a \\u2192 b"


def test_the_longest_field_fits_into_the_reader_of_windows() -> None:
    before = csv.field_size_limit()
    csv.field_size_limit(portable.LONGEST_FIELD)
    csv.field_size_limit(before)
    assert portable.LONGEST_FIELD < 2**31, "a C long has 32 bits there"


def test_signals_that_are_there_end_a_service() -> None:
    assert {signal.SIGTERM, signal.SIGINT} <= set(portable.ENDING)


def test_what_is_skipped_on_windows_is_there() -> None:
    tests = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    for name in conftest.NOT_ON_WINDOWS:
        assert any(f"def {name}(" in text for text in tests.values()), name
    listed = re.findall(r'"([\w/]+\.py)"', (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    assert listed
    for name in listed:
        assert (ROOT / "tests" / name).exists(), name
