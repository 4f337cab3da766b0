"""What a model was at an earlier moment: a snapshot from before it, and the journal from there on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from braided.errors import BraidedError
from braided.fleet.cache import KeysNotWrittenError
from braided.serve.commit_group import CommitGroup
from braided.serve.disk import Disk, LookingDisk
from braided.serve.journal import CorruptJournalError, JournalReader
from braided.serve.model_state import MODEL_KINDS, ModelState
from braided.serve.settings import Limits
from braided.store import Checkpoint, checked, decode


@dataclass(frozen=True)
class Moment:
    """After `frame`, and so many of the records that are learned by the frame after it."""

    frame: int
    part: int = 0


@dataclass(frozen=True)
class KeptSnapshot:
    """A snapshot that can be gone back to.

    Attributes
    ----------
    frame, records, time
        The last frame in it, how many records it had learned, and when that frame came (seconds since 1970).
    whole
        Whether the journal after it is there, so that every later record can be gone back to.
    uid
        The model's.
    """

    frame: int
    records: int
    time: float
    whole: bool
    uid: bytes

    def document(self) -> dict[str, Any]:
        """What is told of it."""
        return {"frame": self.frame, "records": self.records, "time": self.time, "whole": self.whole}


class ModelHistory:
    """The snapshots and the journal of one model, read only.

    Parameters
    ----------
    folder
        The model's own.
    snapshots
        Numbers of their last frames, and their files.
    limits
        For the states that are made.
    known
        What was read of each file before, which is added to: a snapshot never changes.
    keys
        Where fleets put keys that are not to be in memory; with temporary files if not given.
    """

    def __init__(
        self,
        folder: Path,
        snapshots: list[tuple[int, Path]],
        limits: Limits,
        known: dict[Path, KeptSnapshot] | None = None,
        keys: Path | None = None,
    ) -> None:
        self.folder = folder
        self.limits = limits
        self._paths = sorted(snapshots)
        self._known = {} if known is None else known
        self._keys = keys
        self._disk: Disk = LookingDisk()

    def kept(self) -> list[KeptSnapshot]:
        """The snapshots that can be read, the oldest first."""
        found: dict[int, KeptSnapshot] = {}
        for frame, path in self._paths:
            try:
                found[frame] = self._known.get(path) or self._read(frame, path)
            except (BraidedError, OSError):  # damaged, or removed in the meantime
                continue
            self._known[path] = found[frame]
        for path in self._known.keys() - {path for _, path in self._paths}:
            del self._known[path]
        if not found:
            return []
        start = self._start_of_journal(next(iter(found.values())).uid)
        return [replace(one, whole=start is not None and start <= one.frame + 1) for one in found.values()]

    def _read(self, frame: int, path: Path) -> KeptSnapshot:
        snapshot = self._decoded(path)
        kept = checked("the snapshot", snapshot.metadata, "serve", dict)
        records, time = checked("the snapshot", kept, "records", int), checked("the snapshot", kept, "time", float)
        time = time or path.stat().st_mtime  # of a model that has learned nothing
        return KeptSnapshot(frame, records, time, False, bytes.fromhex(kept["uid"]))

    def find(self, record: int | None = None, time: float | None = None) -> Moment:
        """The last moment at which a model had learned so many records, or that was not after a time."""
        kept, damage = self.kept(), None
        ends = [*(snapshot.frame for snapshot in kept[1:]), None]
        for snapshot, end in zip(reversed(kept), reversed(ends), strict=True):
            found = Moment(snapshot.frame) if _is_it(snapshot.records, snapshot.time, record, time) else None
            if snapshot.whole and (time is None or found is not None):
                try:
                    found = self._last_in(snapshot, end, record, time) or found
                except CorruptJournalError as error:
                    damage = damage or error
            # Of a time, what lies beyond the damage might be nearer to it; a number of records is found or not.
            if found is not None and (damage is None or time is None):
                return found
        if damage is not None:
            raise damage
        wanted = f"record {record}" if record is not None else utc(time or 0.0)
        if kept and record is not None and record > (last := self._records_at_the_end(kept[-1])):
            raise BraidedError(f"the model cannot go back to {wanted}: it has only {last} records; ask for fewer")
        raise BraidedError(
            f"the model cannot go back to {wanted}: what is kept of it begins "
            + (f"with record {kept[0].records}, of {utc(kept[0].time)}" if kept else "nowhere")
            + "; ask for a moment since then"
        )

    def _last_in(
        self, snapshot: KeptSnapshot, end: int | None, record: int | None, time: float | None
    ) -> Moment | None:
        """The last moment that fits between a snapshot and the frame at which the next one was made."""
        found, count, came = None, snapshot.records, snapshot.time
        for number, group in self._groups(snapshot.frame, snapshot.uid):
            if end is not None and number > end:
                break
            came = max(came, group.time)
            after = _records_after(count, group)
            if record is None or after == record:
                found = Moment(number) if _is_it(after, came, record, time) else found
            elif group.restores is None and count < record < after:
                found = Moment(number - 1, record - count)
            count = after
        return found

    def _records_at_the_end(self, snapshot: KeptSnapshot) -> int:
        """How many records a model has, from its newest snapshot and the journal after it."""
        count = snapshot.records
        for _, group in self._groups(snapshot.frame, snapshot.uid) if snapshot.whole else ():
            count = _records_after(count, group)
        return count

    def state_at(self, moment: Moment) -> ModelState:
        """The model as it was then, with all that was kept beside it."""
        for _, path in reversed([item for item in self._paths if item[0] <= moment.frame]):
            try:
                state = ModelState.restored(self._decoded(path), self.limits, self._keys)
            except KeysNotWrittenError:  # the snapshot is good
                raise
            except (BraidedError, OSError):
                continue
            return self._replayed(state, moment)
        raise BraidedError(f"no good snapshot from before frame {moment.frame} is there: restore one from a backup")

    def _replayed(self, state: ModelState, moment: Moment) -> ModelState:
        uid, last = state.uid, moment.frame + (moment.part > 0)
        if state.number == last:
            return state
        back = None
        for number, group in self._groups(state.number, uid):
            if number > moment.frame:
                break
            if group.restores is not None:
                back = number, group.restores, group.time
        if back is not None:  # what came before the last return to an earlier moment does not matter
            state = self.state_at(Moment(back[1].frame, back[1].part))
            state.number, state.time = back[0], back[2]
        for number, group in self._groups(state.number, uid):
            if number > last:
                break
            state.apply(number, group if number <= moment.frame else group.first(moment.part), live=False)
        if state.number != last:
            raise BraidedError(f"the journal ends with frame {state.number}, before frame {last}: ask for less")
        return state

    def _decoded(self, path: Path) -> Checkpoint:
        return decode(self._disk.read(path), path.name, *MODEL_KINDS)

    def _groups(self, frame: int, uid: bytes) -> Iterator[tuple[int, CommitGroup]]:
        """The journal after a frame."""
        for number, payload in JournalReader(self._disk, self.folder, uid, frame).frames():
            yield number, CommitGroup.decode(payload)

    def _start_of_journal(self, uid: bytes) -> int | None:
        """The first frame that the journal still has: files are removed from its beginning only."""
        try:
            segments = JournalReader(self._disk, self.folder, uid, 0).segments()
        except (CorruptJournalError, OSError):
            return None
        return segments[0].first if segments else None


def _records_after(count: int, group: CommitGroup) -> int:
    return count + group.learned if group.restores is None else group.restores.sequence


def _is_it(records: int, came: float, record: int | None, time: float | None) -> bool:
    return records == record if time is None else came <= time


def time_of(text: str) -> float:
    """Seconds since 1970 of a date and time; without an offset it is UTC.

    >>> time_of("2026-03-01 10:00"), time_of("2026-03-01T11:00+01:00")
    (1772359200.0, 1772359200.0)
    """
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def utc(time: float) -> str:
    """A time as people read it."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
