"""One model's folder: snapshots and journal segments, written in an order that survives a kill at any moment.

- A model is made in a folder with a temporary name, which gets its own by one rename.
- A snapshot is written under a temporary name, synced, renamed, read back and checked. Only then are older files
  removed: all snapshots but this one, the last good one before it and those that the settings say to keep, and the
  journal segments that none of them needs; where all that takes too much room, the oldest goes first.
- Recovery takes the newest snapshot that is good and replays the journal after it.
- To go back to an earlier moment is a frame of the journal like any other, and a snapshot of what was then, in two
  files. One of them stays as long as anything older does, so that the journal can be followed across that frame.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from braided import store
from braided.errors import BraidedError
from braided.fleet.cache import KeysNotWrittenError
from braided.serve.commit_group import CommitEntry, CommitGroup
from braided.serve.disk import Disk
from braided.serve.history import KeptSnapshot, ModelHistory, Moment
from braided.serve.journal import CorruptJournalError, Journal, JournalError, JournalReader
from braided.serve.keep import keep_rules
from braided.serve.model_state import MODEL_KINDS, ModelState
from braided.serve.records import NOTHING
from braided.serve.settings import Settings

_SNAPSHOT = re.compile(r"(snapshot|restored)-(\d{20})\.braided")
#: Folders with these beginnings are models that are being made or removed.
NEW, GONE = ".new-", ".gone-"
_OPENING = "opening"


@dataclass(frozen=True)
class Recovery:
    """What was found on opening a folder."""

    snapshot: int
    replayed: int
    notes: list[str]


def keys_folder(settings: Settings) -> Path:
    """Where fleets make the files, without names, of keys that are not to be in memory."""
    return settings.folder / "keys"


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
        #: What was read of snapshots to tell what can be gone back to.
        self._known: dict[Path, KeptSnapshot] = {}

    @property
    def _keys(self) -> Path | None:
        """Where to put keys of a fleet that are not to be in memory; who only looks puts them elsewhere."""
        return keys_folder(self.settings) if self.disk.changes else None

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

    def snapshots(self) -> list[tuple[int, Path]]:
        """Numbers and files, the newest first."""
        found = [(int(m[2]), path) for path in self.path.iterdir() if (m := _SNAPSHOT.fullmatch(path.name))]
        return sorted([(number, path) for number, path in found if path.is_file()], reverse=True)

    def open(self) -> tuple[ModelState, Recovery]:
        """The model as it was when the last record was acknowledged."""
        for leftover in self.path.glob(".*.tmp"):
            if leftover.is_file():
                self.disk.remove(leftover)
        state, notes = self.last_good()
        number = state.number
        reader = JournalReader(self.disk, self.path, state.uid, number)
        replayed = 0
        for frame, payload in reader.frames():
            before = state.stats.records
            try:
                group = CommitGroup.decode(payload)
                if group.restores is not None:
                    state = self.history().state_at(Moment(frame))
                    with contextlib.suppress(OSError):  # the journal says the same
                        self.save_restored(state)
                    continue
                state.apply(frame, group, live=False)
            except KeysNotWrittenError:  # the frame is good
                raise
            except Exception as error:  # whatever it is, the frame was sound and should have been learned as it was
                raise CorruptJournalError(
                    f"frame {frame} of the journal cannot be replayed ({error}): use the braided that wrote it, or "
                    "repair the folder to go back to the record before it",
                    reader.path,
                    reader.at,
                ) from error
            replayed += state.stats.records - before
        if reader.path is not None:
            # What a killed process had written need not be on disk, and from now on counts as if it were.
            self.disk.sync_path(reader.path)
            self.disk.sync_folder(self.path)
        self._start_journal(state, reader.serial, reader.number)
        return state, Recovery(number, replayed, [*notes, *reader.notes])

    def attempts(self) -> int:
        """How often in a row the process has ended while it opened the model."""
        try:
            with (self.path / _OPENING).open(encoding="ascii") as note:
                return int(note.read(3))
        except (OSError, ValueError):
            return 0

    def forget_attempts(self) -> None:
        """Let it be opened again, however often that has failed."""
        (self.path / _OPENING).unlink(missing_ok=True)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Open the model within this: if the process ends here, the next one knows."""
        attempts = self.attempts() + 1
        with contextlib.suppress(OSError):  # on a full disk predictions go on
            self.forget_attempts()
            with (self.path / _OPENING).open("x", encoding="ascii") as note:
                note.write(str(attempts))
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                self.forget_attempts()

    def history(self) -> ModelHistory:
        """What can be gone back to."""
        return ModelHistory(self.path, self.snapshots(), self.settings.limits, self._known, self._keys)

    def go_back(self, record: int | None = None, at: float | None = None) -> ModelState:
        """The model as it was when it had learned so many records, or at a time; from now on it is that.

        Everything since then stays in the journal, for as long as the settings say, so that this can be undone.
        """
        history = self.history()
        moment = history.find(record, at)
        state = history.state_at(moment)
        entry = CommitEntry("restore", sequence=state.stats.records, frame=moment.frame, part=moment.part)
        now = time.time()
        state.number, state.time = self.append(CommitGroup([entry], NOTHING, now)), now
        return state

    def last_good(self) -> tuple[ModelState, list[str]]:
        """The newest snapshot that is good, and what is to be said of those that are not."""
        notes = []
        for number, path in self.snapshots():
            try:
                found = store.decode(self.disk.read(path), path.name, *MODEL_KINDS)
                state = ModelState.restored(found, self.settings.limits, self._keys)
            except KeysNotWrittenError:  # the snapshot is good
                raise
            except (BraidedError, OSError) as error:
                # Notes are shown to clients: the system's own messages hold the path.
                why = error.strerror if isinstance(error, OSError) else error
                notes.append(f"{path.name} is passed over: {why}")
                continue
            if state.number != number or state.name != self.path.name:
                raise BraidedError(
                    f"{path.name} is a snapshot of model {state.name!r} at frame {state.number}: move it back to where "
                    "it came from"
                )
            self.verified = [number]
            return state, notes
        why = f" ({'; '.join(notes)})" if notes else ""
        raise BraidedError(
            f"the folder holds no good snapshot{why}: restore one from a backup, or set the model aside to start "
            "without it"
        )

    def append(self, group: CommitGroup) -> int:
        """Write a group to the journal, as durably as the settings say."""
        assert self.journal is not None
        return self.journal.append(group.encode())

    def save(self, state: ModelState) -> None:
        """Write a snapshot, check it, and remove what it makes superfluous."""
        content = self._write_snapshot(state, "snapshot")
        if self.journal is not None:
            # Whoever starts from it will hold it to the rules for what is restored.
            found = store.decode(content, "of the snapshot", *MODEL_KINDS)
            ModelState.restored(found, self.settings.limits, self._keys)
            self._remove_old(state)

    def save_restored(self, state: ModelState) -> None:
        """Write what a model has gone back to, twice, as older snapshots do not lead there; nothing is removed."""
        if self.disk.changes:
            for kind in ("restored", "snapshot"):
                self._write_snapshot(state, kind)

    def _write_snapshot(self, state: ModelState, kind: str) -> bytes:
        path = self.path / f"{kind}-{state.number:020d}.braided"
        content = state.snapshot()
        self.disk.write_file(path, content)
        if self.disk.read(path) != content:
            raise OSError(f"{path.name} reads back otherwise than it was written")
        self.verified = [state.number, *(number for number in self.verified if number < state.number)][:2]
        if self.journal is not None:
            self.journal.covered(state.number)
        return content

    def _remove_old(self, state: ModelState) -> None:
        recovery = self.verified[-1]  # from here on everything is needed to recover
        snapshots = self.snapshots()
        times, kept = [path.stat().st_mtime for _, path in snapshots], set(self.verified)
        for rule in keep_rules(self.settings.keep):
            kept |= {snapshots[place][0] for place in rule.kept(times, time.time())}
        kept |= {number for number, path in snapshots if path.name.startswith("restored") and number > min(kept)}
        segments = JournalReader(self.disk, self.path, state.uid, 0).segments()
        # The last frame in each file, whether it is needed to recover, and whether the settings ask for it.
        files = [(number, path, number in self.verified, number in kept) for number, path in snapshots]
        for segment, following in pairwise(segments):
            last = following.first - 1
            files.append((last, segment.path, last > recovery, last > min(kept)))
        room, superfluous = self.settings.keep_bytes, []
        for _, path, needed, wanted in sorted(files, reverse=True):
            room -= path.stat().st_size if wanted and not needed else 0
            if not needed and (not wanted or room < 0):
                superfluous.append(path)
        for path in reversed(superfluous):  # the oldest first, so that a kill leaves no gap
            self.disk.remove(path)
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
