"""The one thread that may change a model: it logs requests, commits them in groups, applies them and answers."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from braided.encode.encoder import Encoder
from braided.errors import BraidedError
from braided.serve.predictions import ModelReader
from braided.serve.problems import HTTPProblem, key_errors_as_problems, too_busy
from braided.serve.records import RawRecords, encoded
from braided.serve.recovery import Recovered, find, state_at
from braided.serve.requests import WriteRequest
from braided.serve.settings import Settings, keep_rules
from braided.serve.state import MODEL_KINDS, ModelState
from braided.serve.storage import DamageError, Storage, StorageError
from braided.store import decode

log = logging.getLogger("braided.serve")
#: How many records a group commit has at most.
_GROUP_RECORDS = 500
#: Seconds after the last write when it is noted that all requests are decided.
_IDLE_SECONDS = 0.02
Answer = dict[str, Any] | bytes | HTTPProblem
Deliver = Callable[[list[tuple[WriteRequest, Answer]]], None]


def deliver_here(results: list[tuple[WriteRequest, Answer]]) -> None:
    """Complete the futures in the writer's own thread."""
    for request, result in results:
        if request.future.done():
            continue
        if isinstance(result, Exception):
            request.future.set_exception(result)
        else:
            request.future.set_result(result)


@dataclass
class _Group:
    """What a group commit will hold: requests to log, and whom they are of or about; rules as they will be."""

    answers: list[tuple[WriteRequest, Answer]] = field(default_factory=list)
    logged: list[WriteRequest] = field(default_factory=list)
    touched: set[tuple[str, str | None]] = field(default_factory=set)
    rules: Encoder | None = None


class Worker(ModelReader):
    """A model in service.

    Parameters
    ----------
    recovered
        The model, as it was opened.
    storage
        Its database.
    settings
        Of the service; may be replaced while it runs.
    deliver
        Takes results to whoever waits for them.
    on_full
        Is called when the disk is full.
    """

    def __init__(
        self,
        recovered: Recovered,
        storage: Storage,
        settings: Settings,
        deliver: Deliver = deliver_here,
        on_full: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(recovered.state)
        self.recovered = recovered
        self.storage = storage
        self.settings = settings
        self.deliver = deliver
        self.on_full = on_full
        #: Why nothing can be learned at present, if so; the writer tries again with every request.
        self.trouble: str | None = None
        self.refused = self.commits = self.snapshots = 0
        self._queue: deque[WriteRequest] = deque()
        self.queued_records = 0
        self._wake = threading.Condition()
        self._stopping = False
        self._snapshot_at_end = True
        self._saved_number = storage.snapshots()[-1].number
        self._saved_records = self.state.stats.records
        self._unsynced = False
        #: Whether the snapshot after a `restore` could not be written yet.
        self._owes_restored = False
        self._snapshot_due = time.monotonic() + settings.snapshot_seconds
        self._sync_due = time.monotonic() + settings.interval_seconds
        self._idle_due = 0.0
        self._thread = threading.Thread(target=self._run, name=f"learn {self.state.name}", daemon=True)

    def start(self) -> None:
        """Begin to learn."""
        self._thread.start()

    def stop(self, snapshot: bool = True) -> None:
        """Learn what is queued, write a snapshot, and end. May be called again."""
        with self._wake:
            self._stopping = True
            self._snapshot_at_end = snapshot
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    def submit(self, request: WriteRequest) -> None:
        """Queue a request; refused when too much is queued."""
        with self._wake:
            self.check_sound()
            if self._stopping:
                raise HTTPProblem(503, "the service is stopping, or the model is being deleted: try again later")
            if self.queued_records + request.size > max(self.settings.limits.queue_records, request.size):
                raise too_busy(f"{self.queued_records} records wait to be learned")
            self._queue.append(request)
            self.queued_records += request.size
            self._wake.notify()

    def _run(self) -> None:
        try:
            before = self.state.limits
            # Which records wait changes without a request that says so: a snapshot has to.
            if self.state.use(self.settings.limits) and not self._snapshot():
                self.state.use(before)
            while self._turn():
                pass
            if self._snapshot_at_end and self.state.number != self._saved_number and not self.broken:
                self._snapshot()
        except Exception:
            log.exception("model %s: the writer failed; it is out of service until a restart", self.state.name)
            self.broken, self.trouble = True, "the model's writer failed"
        finally:
            self.storage.close()
            with self._wake:
                self._stopping = True
                rest = list(self._queue)
                self._queue.clear()
            problem = HTTPProblem(503, "the model is out of service: restart it")
            if rest:
                self.deliver([(request, problem) for request in rest])

    def _turn(self) -> bool:
        """Wait for requests or for something that is due, and do it."""
        with self._wake:
            while not self._queue and not self._stopping and (timeout := self._seconds_to_next()) > 0:
                self._wake.wait(timeout)
            requests: list[WriteRequest] = []
            size = 0
            while self._queue and (not requests or size + self._queue[0].size <= _GROUP_RECORDS):
                if requests and "restore" in (requests[-1].kind, self._queue[0].kind):
                    break  # which is alone in its group
                requests.append(self._queue.popleft())
                size += requests[-1].size
            if not requests and self._stopping:
                return False
        if requests:
            try:
                if requests[0].kind == "restore":
                    self._restore(requests[0])
                else:
                    self._commit(requests)
            except BaseException:
                self.broken = True
                problem = HTTPProblem(500, "the model's writer failed: restart the service, and report this")
                self.deliver([(request, problem) for request in requests if not request.future.done()])
                raise
            finally:
                with self._wake:
                    self.queued_records -= size
        self._do_what_is_due()
        return True

    def _seconds_to_next(self) -> float:
        due = self._snapshot_due if self.state.number != self._saved_number else float("inf")
        due = min(due, self._sync_due) if self._unsynced else due
        due = min(due, self._idle_due) if self.storage.decided < self.storage.last else due
        return min(due - time.monotonic(), 60.0)

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        try:
            if self._unsynced and now >= self._sync_due:
                self._sync_due = now + self.settings.interval_seconds
                self.storage.sync_log()
                self._unsynced = False
            self.storage.checkpoint()
            if now >= self._idle_due:
                self.storage.note_decided()
        except StorageError as error:
            log.error("model %s: the log cannot be brought to disk: %s", self.state.name, error)
        changed = self.state.stats.records - self._saved_records
        if self.state.number != self._saved_number and (
            now >= self._snapshot_due or changed >= self.settings.snapshot_records
        ):
            self._snapshot()

    def _snapshot(self, restored: bool = False) -> bool:
        """Write a snapshot; a failure is logged, and tried again later: the log still has everything."""
        self._snapshot_due = time.monotonic() + self.settings.snapshot_seconds
        state, restored = self.state, restored or self._owes_restored
        try:
            content = state.snapshot()
            self.storage.write_snapshot(content, state.number, state.stats.records, state.time, restored)
            # Whoever starts from it will hold it to the rules for what is restored.
            ModelState.restored(decode(content, "of the snapshot", *MODEL_KINDS), state.limits, self.settings.keys)
            self._saved_number = state.number
            self._saved_records = state.stats.records
            self._owes_restored = False
            self.snapshots += 1
            if not restored:  # until the next one, an older snapshot leads here through what the model went back to
                self.storage.prune(keep_rules(self.settings.keep), self.settings.keep_bytes)
        except (StorageError, BraidedError, OSError, sqlite3.Error) as error:
            log.error("model %s: no snapshot could be written: %s", state.name, error)
            if isinstance(error, StorageError) and error.full:
                self.on_full()
            # Without this, a model that learns fast on a full disk would try with every group.
            self._saved_records = state.stats.records
            self._owes_restored = restored
            return False
        return True

    def _commit(self, requests: list[WriteRequest]) -> None:
        """Log what changes something, apply it, answer."""
        group = _Group()
        for request in requests:
            try:
                answer = self._admit(request, group)
            except HTTPProblem as problem:
                group.answers.append((request, problem))
            else:
                if answer is None:
                    group.logged.append(request)
                else:
                    group.answers.append((request, answer))
        if group.logged:
            try:
                self._write(lambda: self.storage.append(group.logged))
            except HTTPProblem as problem:
                group.answers += [(request, problem) for request in group.logged]
            else:
                group.answers += self._apply(group.logged)
                self.commits += 1
        for request, answer in group.answers:
            if isinstance(answer, HTTPProblem):
                self.refused += 1
                if request.stream is not None:
                    request.stream.broken = True
        self.deliver(group.answers)

    def _admit(self, request: WriteRequest, group: _Group) -> Answer | None:
        """The answer to a request that need not be logged; None if it must be, its records then being numbers.

        What depends on another request of the group is decided when both are applied.
        """
        if request.kind == "export":
            with key_errors_as_problems():
                return self.state.snapshot()
        about = {("client", request.client), ("id", request.id)} - {("client", None), ("id", None)}
        if group.touched.isdisjoint(about):
            if (answer := self.state.settle(request)) is not None:
                return answer
            clients = self.state.clients
            new = request.client is not None and request.client not in clients
            if new and len(clients) >= self.settings.limits.clients:
                raise HTTPProblem(
                    409, f"{len(clients)} clients are remembered, which is the limit: delete one that is done, or send "
                    "without a client"
                )  # fmt: skip
        if isinstance(request.records, RawRecords):
            if group.rules is None:
                assert self.state.rules is not None
                group.rules = self.state.rules.copy()
            with group.rules.trial() as noted:
                request.records, request.growth = encoded(request.records, group.rules, self.settings.limits, noted)
        group.touched |= about
        return None

    def _apply(self, requests: list[WriteRequest]) -> list[tuple[WriteRequest, Answer]]:
        """Apply requests that are logged; what was refused is noted before anybody is told."""
        outcomes = self.state.apply(requests)
        changed: list[tuple[int, int, str | None, int]] = []
        for place, (request, outcome) in enumerate(zip(requests, outcomes, strict=True)):
            if isinstance(outcome, HTTPProblem):
                changed.append((request.number, 0, outcome.detail, place))
            elif request.kind == "learn" and outcome["duplicates"]:
                changed.append((request.number, outcome["learned"], None, place))
        if changed:
            try:
                self._write(
                    lambda: self.storage.decide([(number, learned, why) for number, learned, why, _ in changed])
                )
            except HTTPProblem as problem:
                for *_, place in changed:
                    outcomes[place] = problem
        if any(isinstance(outcome, HTTPProblem) and outcome.status == 507 for outcome in outcomes):
            self.trouble = self.trouble or "keys that are too many for memory cannot be put on disk"
        return list(zip(requests, outcomes, strict=True))

    def _restore(self, request: WriteRequest) -> None:
        """Go back to an earlier moment, and write a snapshot of it, so that a start need not find it again."""
        before = self.state.stats.records
        answer: Answer
        try:
            with key_errors_as_problems():
                request.back_to, request.part = find(self.storage, request.record, request.at)
                keys = self.settings.keys
                state = state_at(self.storage, request.back_to, request.part, self.state.limits, keys)
            if request.record not in (None, state.stats.records):
                raise DamageError(f"{self.storage.path.name} is damaged: its counts of records do not agree")
            request.record, request.time = state.stats.records, time.time()
            self._write(lambda: self.storage.append([request]))
        except HTTPProblem as problem:
            answer = problem
        except BraidedError as error:
            answer = HTTPProblem(409, str(error))
        except Exception:  # nothing was written, and the model in memory is as it was
            log.exception("model %s: its history cannot be read", self.state.name)
            answer = HTTPProblem(500, "the model's history cannot be read, and nothing was changed: the log says more")
        else:
            state.use(self.state.limits)
            state.number, state.time = request.number, request.time
            self.state = state
            self.commits += 1
            self._snapshot(restored=True)
            answer = {"records": state.stats.records, "records_before": before, "version": self.version()}
            log.info("model %s: went back from record %d to %d", state.name, before, state.stats.records)
        self.refused += isinstance(answer, HTTPProblem)
        self.deliver([(request, answer)])

    def _write(self, write: Callable[[], None]) -> None:
        """Write to the database, or say why not."""
        try:
            write()
        except (StorageError, DamageError) as error:
            if isinstance(error, StorageError) and error.full:
                self.trouble = "the disk is full"
                self.on_full()
                raise HTTPProblem(
                    507, "the disk is full: nothing of this request was learned, predictions go on; free some space "
                    "and send it again"
                ) from None  # fmt: skip
            self.trouble = f"the database cannot be written ({error})"
            log.error("model %s: %s", self.state.name, self.trouble)
            raise HTTPProblem(
                503, f"{self.trouble}: nothing of this request was learned, predictions go on; send it again later"
            ) from None
        self.trouble = None
        self._idle_due = time.monotonic() + _IDLE_SECONDS
        self._unsynced = self.settings.durability == "interval"
