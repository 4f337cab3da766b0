"""One model's folder: snapshots and journal segments, written in an order that survives a kill at any moment.

- A model is made in a folder with a temporary name, which gets its own by one rename.
- A snapshot is written under a temporary name, synced, renamed, read back and checked. Only then are older files
  removed: all snapshots but this one and the last good one before it, and the journal segments that neither needs.
- Recovery takes the newest snapshot that is good and replays the journal after it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from braided import checkpoint
from braided.errors import BraidedError
from braided.estimators import ESTIMATORS
from braided.serve.commit_group import CommitGroup
from braided.serve.disk import Disk
from braided.serve.journal import CorruptJournalError, Journal, JournalError, JournalReader
from braided.serve.model_state import ModelState
from braided.serve.settings import Settings

_SNAPSHOT = re.compile(r"snapshot-(\d{20})\.braided")
#: Folders with these beginnings are models that are being made or removed.
NEW, GONE = ".new-", ".gone-"


@dataclass(frozen=True)
class Recovery:
    """What was found on opening a folder."""

    snapshot: int
    replayed: int
    notes: list[str]


class ModelFolder:
    """The files of one model.

    Parameters
    ----------
    folder
        The model's own.
    settings
        Of the service.
    disk
        How files are written.
    """

    def __init__(self, folder: Path, settings: Settings, disk: Disk) -> None:
        self.path = folder
        self.settings = settings
        self.disk = disk
        #: Frames that are in the last two verified snapshots, the newer one first.
        self.verified: list[int] = []
        self.journal: Journal | None = None

    @classmethod
    def create(cls, parent: Path, state: ModelState, settings: Settings, disk: Disk) -> ModelFolder:
        """Write a new model."""
        temporary = parent / f"{NEW}{state.uid.hex()}"
        temporary.mkdir(mode=0o700)
        try:
            cls(temporary, settings, disk).save(state)
            disk.rename(temporary, parent / state.name)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        store = cls(parent / state.name, settings, disk)
        store.verified = [state.number]
        store._start_journal(state, 1, state.number + 1)
        return store

    def _start_journal(self, state: ModelState, serial: int, number: int) -> None:
        self.journal = Journal(
            self.disk, self.path, state.uid, serial, number, self.settings.segment_bytes,
            self.settings.durability == "sync",
        )  # fmt: skip

    def _snapshots(self) -> list[tuple[int, Path]]:
        """Numbers and files, the newest first."""
        found = [(int(m[1]), path) for path in self.path.iterdir() if (m := _SNAPSHOT.fullmatch(path.name))]
        return sorted(found, reverse=True)

    def open(self) -> tuple[ModelState, Recovery]:
        """The model as it was when the last record was acknowledged."""
        for leftover in self.path.glob(".*.tmp"):
            self.disk.remove(leftover)
        state, notes = self._last_good()
        number = state.number
        reader = JournalReader(self.disk, self.path, state.uid, number)
        replayed = 0
        for frame, payload in reader.frames():
            before = state.stats.records
            try:
                state.apply(frame, CommitGroup.decode(payload), live=False)
            except Exception as error:  # whatever it is, the frame was sound and should have been learned as it was
                raise CorruptJournalError(
                    f"{self.path}: frame {frame} of the journal cannot be replayed ({error}): use the braided that "
                    "wrote it, or report this"
                ) from error
            replayed += state.stats.records - before
        self._start_journal(state, reader.serial, reader.number)
        return state, Recovery(number, replayed, [*notes, *reader.notes])

    def _last_good(self) -> tuple[ModelState, list[str]]:
        notes = []
        for number, path in self._snapshots():
            try:
                found = checkpoint.decode(self.disk.read(path), path.name, *ESTIMATORS)
                state = ModelState.restored(found, self.settings.limits)
            except (BraidedError, OSError) as error:
                # Notes are shown to clients: the system's own messages hold the path.
                why = error.strerror if isinstance(error, OSError) else error
                notes.append(f"{path.name} is passed over: {why}")
                continue
            if state.number != number or state.name != self.path.name:
                raise BraidedError(
                    f"{path}: is a snapshot of model {state.name!r} at frame {state.number}: move it back to where it "
                    "came from"
                )
            self.verified = [number]
            return state, notes
        why = f" ({'; '.join(notes)})" if notes else ""
        raise BraidedError(
            f"{self.path}: holds no good snapshot{why}: restore one from a backup, or move the folder away to start "
            "without this model"
        )

    def append(self, group: CommitGroup) -> int:
        """Write a group to the journal, as durably as the settings say."""
        assert self.journal is not None
        return self.journal.append(group.encode())

    def save(self, state: ModelState) -> None:
        """Write a snapshot, check it, and remove what it makes superfluous."""
        path = self.path / f"snapshot-{state.number:020d}.braided"
        content = state.snapshot()
        self.disk.write_file(path, content)
        if self.disk.read(path) != content:
            raise OSError(f"{path.name} reads back otherwise than it was written")
        self.verified = [state.number, *(number for number in self.verified if number < state.number)][:2]
        if self.journal is not None:
            self.journal.covered(state.number)
            self._remove_old(state)

    def _remove_old(self, state: ModelState) -> None:
        oldest = self.verified[-1]
        for number, path in self._snapshots():
            if number not in self.verified:
                self.disk.remove(path)
        segments = JournalReader(self.disk, self.path, state.uid, oldest).segments()
        for segment, following in pairwise(segments):
            if following.first <= oldest + 1:
                self.disk.remove(segment.path)
        self.disk.sync_folder(self.path)

    def delete(self) -> None:
        """Remove everything; after a kill in between, the rest is removed on the next start."""
        self.close()
        gone = self.path.with_name(f"{GONE}{self.path.name}")
        shutil.rmtree(gone, ignore_errors=True)
        self.disk.rename(self.path, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def close(self) -> None:
        """Bring the rest of the journal to disk, where that has not been done with each frame, and close it."""
        if self.journal is not None:
            with contextlib.suppress(JournalError):
                self.journal.sync()
            self.journal.close()
