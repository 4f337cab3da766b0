"""The power fails at any moment: what was acknowledged is there, whatever the disk had not finished.

Every operation on files is written down while a model learns, is saved and goes back. A cut is then any moment in that
list, and what a disk may hold after it: of what was not synced any part, sector by sector, with zeros where nothing
arrived; of names that were made, changed or removed and not synced, the first few.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from help_serve import ask, digest, records, rows, served_model, taught

from braided.errors import BraidedError
from braided.serve.disk import Disk
from braided.serve.model_folder import ModelFolder
from braided.serve.model_state import ModelState
from braided.serve.settings import Settings
from braided.store import state_digest

ITEMS = rows(400)
SECTOR = 512


class WrittenDownDisk(Disk):
    """A disk that keeps a list of what was done."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self._open: dict[int, str] = {}

    def create(self, path: Path) -> int:
        file = super().create(path)
        self._open[file] = path.name
        self.events.append(("create", path.name))
        return file

    def write_some(self, file: int, content: memoryview) -> int:
        self.events.append(("write", self._open[file], bytes(content)))
        return super().write_some(file, content)

    def sync(self, file: int) -> None:
        super().sync(file)
        if file in self._open:  # else a file that is cut, or a folder
            self.events.append(("sync", self._open[file]))

    def close(self, file: int) -> None:
        del self._open[file]
        super().close(file)

    def truncate(self, path: Path, length: int) -> None:
        super().truncate(path, length)
        self.events.append(("truncate", path.name, length))

    def rename(self, old: Path, new: Path) -> None:
        self.events.append(("rename", old.name, new.name))
        super().rename(old, new)

    def sync_path(self, path: Path) -> None:
        super().sync_path(path)
        self.events.append(("sync", path.name))

    def remove(self, path: Path) -> None:
        self.events.append(("remove", path.name))
        super().remove(path)

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self.events.append(("sync folder",))


@dataclass
class File:
    """What a file holds, and how much of that is on disk for sure."""

    content: bytearray = field(default_factory=bytearray)
    synced: int = 0

    def after_cut(self, chance: random.Random) -> bytes:
        """The synced part, and of the rest some sectors."""
        length = chance.randint(self.synced, len(self.content))
        left = bytearray(self.content[:length])
        start = self.synced
        while start < length:
            stop = min((start // SECTOR + 1) * SECTOR, length)
            if chance.random() < 0.4:
                left[start:stop] = bytes(stop - start)
            start = stop
        return bytes(left)


class Platter:
    """The files of a folder, replayed event by event."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.names = {name: File(bytearray(content), len(content)) for name, content in files.items()}
        self._open: dict[str, File] = {}
        self._pending: list[tuple[Any, ...]] = []
        self._durable = dict(self.names)

    def replay(self, event: tuple[Any, ...]) -> None:
        kind, *what = event
        if kind == "write":
            self.names[what[0]].content += what[1]
        elif kind == "sync":
            self.names[what[0]].synced = len(self.names[what[0]].content)
        elif kind == "truncate":
            file = self.names[what[0]]
            del file.content[what[1] :]
            file.synced = len(file.content)
        elif kind == "sync folder":
            self._pending.clear()
            self._durable = dict(self.names)
        elif kind in ("create", "rename", "remove"):
            change = (kind, *what, File()) if kind == "create" else event
            _rename(self.names, change)
            self._pending.append(change)

    def after_kill(self) -> dict[str, bytes]:
        """What a process finds that starts while the power is on: all that was written, on disk or not."""
        return {name: bytes(file.content) for name, file in self.names.items()}

    def after_cut(self, chance: random.Random) -> dict[str, bytes]:
        """What the folder may hold when the power is back."""
        names = dict(self._durable)
        for change in self._pending[: chance.randint(0, len(self._pending))]:
            _rename(names, change)
        return {name: file.after_cut(chance) for name, file in names.items()}


def _rename(names: dict[str, File], change: tuple[Any, ...]) -> None:
    kind, *what = change
    if kind == "create":
        names[what[0]] = what[1]
    elif kind == "rename" and what[0] in names:
        names[what[1]] = names.pop(what[0])
    elif kind == "remove":
        names.pop(what[0], None)


@dataclass(frozen=True)
class Story:
    """What happened: the files at the beginning, the events, and what the model had learned after each request."""

    files: dict[str, bytes]
    events: list[tuple[Any, ...]]
    learned: list[tuple[int, ...]]


def settings(folder: Path) -> Settings:
    return Settings(folder, segment_bytes=3_000, snapshot_records=70, keep_bytes=40_000)


def told(folder: Path, seed: int) -> Story:
    """A model learns, goes back twice, and learns on."""
    chance = random.Random(seed)
    disk = WrittenDownDisk()
    folder.mkdir()
    worker = served_model(folder, settings(folder), disk=disk)
    files = {path.name: path.read_bytes() for path in (folder / "m").iterdir()}
    disk.events.clear()
    known: list[int] = []
    learned: list[tuple[int, ...]] = [()]
    for request in range(40):
        if request in (15, 28):
            known = known[: max(0, len(known) - chance.randint(1, 60))]
            ask(worker, "restore", record=len(known))
        else:
            start = chance.randrange(len(ITEMS) - 25)
            part = range(start, start + chance.randint(1, 25))
            known = [*known, *part]
            ask(worker, "learn", records=records([ITEMS[i] for i in part]))
        learned.append(tuple(known))
        disk.events.append(("acknowledged",))
    worker.stop()
    return Story(files, disk.events, learned)


@cache
def digest_of_taught(items: tuple[int, ...]) -> str:
    return state_digest(taught([ITEMS[i] for i in items]))


def opened(folder: Path, files: dict[str, bytes], disk: Disk | None = None) -> ModelState:
    """What a start makes of these files."""
    (folder / "m").mkdir(parents=True)
    for name, content in files.items():
        (folder / "m" / name).write_bytes(content)
    return ModelFolder(folder / "m", settings(folder), disk or Disk()).open()[0]


def cut(story: Story, folder: Path, chance: random.Random) -> None:
    """Cut the power at some moment, and see what a start finds."""
    moment = chance.randrange(len(story.events) + 1)
    platter = Platter(story.files)
    for event in story.events[:moment]:
        platter.replay(event)
    acknowledged = sum(event == ("acknowledged",) for event in story.events[:moment])
    if chance.random() < 0.3:  # the process is killed, comes back, and only then the power fails
        disk = WrittenDownDisk()
        found = opened(folder / "killed", platter.after_kill(), disk)
        for event in disk.events:
            platter.replay(event)
        state = opened(folder, platter.after_cut(chance))
        assert digest(state) == digest(found), f"what a start had found is lost; cut after {moment} operations"
    else:
        state = opened(folder, platter.after_cut(chance))
    # One more request may have reached the disk before it was acknowledged.
    possible = story.learned[acknowledged : acknowledged + 2]
    assert digest(state) in [digest_of_taught(items) for items in possible], f"cut after {moment} operations"


@pytest.mark.parametrize(
    ("seed", "cuts"), [(0, 60), *(pytest.param(n, 400, marks=pytest.mark.slow) for n in (1, 2, 3))]
)
def test_power_cuts(tmp_path: Path, seed: int, cuts: int) -> None:
    story = told(tmp_path / "story", seed)
    chance = random.Random(seed)
    for number in range(cuts):
        cut(story, tmp_path / f"cut {number}", chance)


def test_a_disk_that_syncs_nothing_is_found_out(tmp_path: Path) -> None:
    """The simulation itself: without syncs, acknowledged records are lost."""
    story = told(tmp_path / "story", 0)
    careless = [event for event in story.events if event[0] != "sync"]
    chance, lost = random.Random(0), 0
    for number in range(20):
        try:
            cut(Story(story.files, careless, story.learned), tmp_path / f"cut {number}", chance)
        except (AssertionError, BraidedError):
            lost += 1
    assert lost > 0
