"""From a database to a model: the newest snapshot and the log after it, or the model as it was at an earlier moment."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from braided.errors import BraidedError
from braided.fleet.cache import KeysNotWrittenError
from braided.serve.problems import HTTPProblem
from braided.serve.requests import WriteRequest
from braided.serve.settings import Limits
from braided.serve.state import MODEL_KINDS, ModelState, Outcome
from braided.serve.storage import DamageError, Storage
from braided.store import decode


@dataclass
class Recovered:
    """A model that was opened: its state, how many records were replayed, and notes for the log."""

    state: ModelState
    replayed: int = 0
    notes: list[str] = field(default_factory=list)


def recover(storage: Storage, limits: Limits, keys: Path | None, until: int | None = None) -> Recovered:
    """The model after the request `until`, by default the last one.

    A request whose outcome is not known is decided now. One that was acknowledged and is refused now stops the model.
    """
    until = storage.last if until is None else until
    found = last_good(storage, limits, keys, until)
    before = found.state.stats.records
    if last := storage.last_restore(found.state.number, until):  # what came before it does not matter
        (request, *_), *_ = storage.requests(last - 1, last)
        replay(storage, found, request, limits, keys)
        before = min(before, found.state.stats.records)
    for request, learned, refused in storage.requests(found.state.number, until):
        if refused is not None:
            found.state.pass_over(request)
            continue
        outcome = replay(storage, found, request, limits, keys)
        if isinstance(outcome, HTTPProblem):
            if request.number <= storage.decided:
                raise BraidedError(
                    f"request {request.number} was learned when it came and is refused now ({outcome.detail}): serve "
                    "the model with the braided and the limits that it had then, or rebuild it up to that request"
                )
            storage.decide([(request.number, 0, outcome.detail)])
        elif outcome.get("learned", learned) != learned:
            storage.decide([(request.number, int(outcome["learned"]), None)])
    found.replayed += found.state.stats.records - before
    return found


def replay(storage: Storage, found: Recovered, request: WriteRequest, limits: Limits, keys: Path | None) -> Outcome:
    """Apply a request of the log; to go back to an earlier moment makes another state."""
    if request.kind != "restore":
        return found.state.apply([request], live=False)[0]
    before = found.state.limits
    found.state = state_at(storage, request.back_to, request.part, limits, keys)
    found.state.use(before)
    found.state.number, found.state.time = request.number, request.time
    return {}


def last_good(storage: Storage, limits: Limits, keys: Path | None, until: int) -> Recovered:
    """The newest good snapshot of a request that is not after `until`."""
    notes: list[str] = []
    for snapshot in reversed(storage.snapshots()):
        if snapshot.number > until:
            continue
        try:
            content = storage.read_snapshot(snapshot.number)
            state = ModelState.restored(decode(content, "the snapshot", *MODEL_KINDS), limits, keys)
        except KeysNotWrittenError:  # the snapshot is good
            raise
        except BraidedError as error:
            notes.append(f"the snapshot of request {snapshot.number} is passed over: {error}")
            continue
        return Recovered(state, notes=notes)
    why = f" ({'; '.join(notes)})" if notes else ""
    raise DamageError(f"{storage.path.name} holds no good snapshot{why}: take a backup, or set the model aside")


def state_at(storage: Storage, number: int, part: int, limits: Limits, keys: Path | None) -> ModelState:
    """The model as it was after a request, and after so many records of the next one."""
    state = recover(storage, limits, keys, number).state
    if part:
        (request, *_), *_ = storage.requests(number, number + 1)
        assert request.records is not None
        request.records = request.records.part(0, part)
        request.growth = [step for step in request.growth if step[0] < part]
        found = Recovered(state)
        if isinstance(problem := replay(storage, found, request, limits, keys), HTTPProblem):
            raise BraidedError(f"request {number + 1} cannot be replayed: {problem.detail}")
    return state


def find(storage: Storage, record: int | None = None, at: float | None = None) -> tuple[int, int]:
    """The last moment when the model had so many records, or that was not after a time: a request, and a part."""
    snapshots = storage.snapshots()
    first = snapshots[0]
    count = largest = first.records
    found = None
    moments = itertools.chain([(first.number, "snapshot", first.time, 0, 0)], storage.timeline(first.number))
    for number, kind, came, n, learned in moments:
        before = count
        count = learned if kind == "restore" else count + learned
        largest = max(largest, count)
        if count == record or (at is not None and came <= at):
            found = (number, 0)
        elif kind == "learn" and record is not None and before < record < count:
            found = (number - 1, record - before + n - learned)  # the first ones may have been duplicates
    if found is not None:
        return found
    wanted = f"record {record}" if record is not None else utc(at or 0.0)
    if record is not None and record > largest:
        raise BraidedError(f"the model cannot go back to {wanted}: it has only {largest} records; ask for fewer")
    raise BraidedError(
        f"the model cannot go back to {wanted}: what is kept of it begins with record {snapshots[0].records}, of "
        f"{utc(snapshots[0].time)}; ask for a moment since then"
    )


def time_of(text: str) -> float:
    """Seconds since 1970 of a date and time; without an offset it is UTC.

    >>> time_of("2026-03-01 10:00"), time_of("2026-03-01T11:00+01:00")
    (1772359200.0, 1772359200.0)
    """
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def utc(time: float) -> str:
    """A time as people read it."""
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError):  # before the year 1
        return f"{time:.0f} s since 1970"
