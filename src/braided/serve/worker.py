"""The one thread that may change a model: it admits requests, commits them in groups, and learns them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from braided.errors import BraidedError
from braided.serve.commit_group import CommitGroup
from braided.serve.group_draft import GroupDraft
from braided.serve.journal import JournalError
from braided.serve.key_disk import told_as_problems
from braided.serve.model_folder import ModelFolder, Recovery
from braided.serve.model_reader import ModelReader
from braided.serve.model_state import ModelState
from braided.serve.problems import HTTPProblem
from braided.serve.write_request import WriteRequest

log = logging.getLogger("braided.serve")
#: How many records a group commit has at most.
_GROUP_RECORDS = 500
_Written = TypeVar("_Written")
Deliver = Callable[[list[tuple[WriteRequest, Any]]], None]


def deliver_here(results: list[tuple[WriteRequest, Any]]) -> None:
    """Complete the futures in the writer's own thread."""
    for request, result in results:
        if request.future.done():
            continue
        if isinstance(result, Exception):
            request.future.set_exception(result)
        else:
            request.future.set_result(result)


class Worker(ModelReader):
    """A model in service.

    Parameters
    ----------
    state, folder
        The model, and its files, which know the settings of the service.
    recovery
        What was found when it was opened.
    deliver
        Takes results to whoever waits for them.
    """

    def __init__(
        self, state: ModelState, folder: ModelFolder, recovery: Recovery, deliver: Deliver = deliver_here
    ) -> None:
        super().__init__(state)
        self.folder = folder
        self.settings = settings = folder.settings
        self.recovery = recovery
        self.deliver = deliver
        #: Why nothing can be learned at present, if so; the writer tries again with every request.
        self.trouble: str | None = None
        self.refused = 0
        self.commits = 0
        self.snapshots = 0
        self._queue: deque[WriteRequest] = deque()
        self._queued_records = 0
        self._wake = threading.Condition()
        self._stopping = False
        self._snapshot_at_end = True
        self._saved_number = folder.verified[0]
        self._saved_records = state.stats.records
        self._snapshot_due = time.monotonic() + settings.snapshot_seconds
        self._sync_due = time.monotonic() + settings.interval_seconds
        self._thread = threading.Thread(target=self._run, name=f"learn {state.name}", daemon=True)

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

    @property
    def queued_records(self) -> int:
        """Records that wait to be learned."""
        return self._queued_records

    def submit(self, request: WriteRequest) -> None:
        """Queue a request; refused when too much is queued."""
        with self._wake:
            self._check_sound()
            if self._stopping:
                raise HTTPProblem(503, "the service is stopping, or the model is being deleted: try again later")
            if self._queued_records + request.weight > max(self.settings.limits.queue_records, request.weight):
                raise HTTPProblem(
                    429, f"{self._queued_records} records wait to be learned: try again later", {"Retry-After": "1"}
                )
            self._queue.append(request)
            self._queued_records += request.weight
            self._wake.notify()

    def _run(self) -> None:
        try:
            while self._turn():
                pass
            if self._snapshot_at_end and self.state.number != self._saved_number and not self.broken:
                self._snapshot()
        except Exception:
            log.exception("model %s: the writer failed; it is out of service until a restart", self.state.name)
            self.broken = True
            self.trouble = "the model's writer failed"
        finally:
            self.folder.close()
            with self._wake:
                self._stopping = True
                rest = list(self._queue)
                self._queue.clear()
            if rest:
                self.deliver(
                    [(request, HTTPProblem(503, "the model is out of service: restart it")) for request in rest]
                )

    def _turn(self) -> bool:
        """Wait for requests or for something that is due, and do it."""
        with self._wake:
            while not self._queue and not self._stopping:
                timeout = self._seconds_to_next()
                if timeout <= 0:
                    break
                self._wake.wait(timeout)
            requests: list[WriteRequest] = []
            weight = 0
            while self._queue and (not requests or weight + self._queue[0].weight <= _GROUP_RECORDS):
                if requests and "restore" in (requests[-1].kind, self._queue[0].kind):
                    break  # which is alone in its group
                requests.append(self._queue.popleft())
                weight += requests[-1].weight
            if not requests and self._stopping:
                return False
        if requests:
            try:
                if requests[0].kind == "restore":
                    self._restore(requests[0])
                else:
                    self._commit(requests)
            except Exception as error:
                self.broken = True
                problem = HTTPProblem(500, "the model's writer failed: restart the service, and report this")
                self.deliver([(request, problem) for request in requests if not request.future.done()])
                raise error
            finally:
                with self._wake:
                    self._queued_records -= weight
        self._do_what_is_due()
        return True

    def _seconds_to_next(self) -> float:
        due = float("inf")
        if self.state.number != self._saved_number:
            due = self._snapshot_due
        journal = self.folder.journal
        assert journal is not None
        if self.settings.durability == "interval" and journal.durable < journal.number - 1:
            due = min(due, self._sync_due)
        return min(due - time.monotonic(), 60.0)

    def _do_what_is_due(self) -> None:
        journal = self.folder.journal
        assert journal is not None
        now = time.monotonic()
        if self.settings.durability == "interval" and now >= self._sync_due:
            self._sync_due = now + self.settings.interval_seconds
            try:
                journal.sync()
            except JournalError as error:
                log.error("model %s: the journal cannot be synced: %s", self.state.name, error)
        changed = self.state.stats.records - self._saved_records
        if self.state.number != self._saved_number and (
            now >= self._snapshot_due or changed >= self.settings.snapshot_records
        ):
            self._snapshot()

    def _snapshot(self) -> bool:
        """Write a snapshot; a failure is told, and tried again later: the journal still has everything."""
        self._snapshot_due = time.monotonic() + self.settings.snapshot_seconds
        try:
            self.folder.save(self.state)
        except (OSError, BraidedError) as error:
            log.error("model %s: no snapshot could be written: %s", self.state.name, error)
            # Without this, a model that learns fast on a full disk would try with every group.
            self._saved_records = self.state.stats.records
            return False
        self._saved_number, self._saved_records = self.state.number, self.state.stats.records
        self.snapshots += 1
        return True

    def _commit(self, requests: list[WriteRequest]) -> None:
        """Admit, journal, learn, answer."""
        draft = GroupDraft(self.state, self.settings.limits)
        answers: list[tuple[WriteRequest, Any]] = []
        admitted: list[tuple[WriteRequest, dict[str, Any]]] = []
        for request in requests:
            try:
                if request.kind == "export":
                    with told_as_problems():
                        answers.append((request, self.state.snapshot()))
                    continue
                # A duplicate may be one of a request in this very group, and is no safer than that.
                admitted.append((request, draft.add(request)))
            except HTTPProblem as problem:
                if problem.status == HTTPStatus.INSUFFICIENT_STORAGE:
                    self.trouble = "keys that are too many for memory cannot be put on disk"
                answers.append(_refusal(request, problem))
        group = draft.group()
        if group is not None:
            try:
                number = self._write(group)
            except HTTPProblem as problem:
                answers += [_refusal(request, problem) for request, _ in admitted]
                admitted = []
            else:
                self.state.apply(number, group)
                self.commits += 1
        answers += admitted
        self.refused += sum(isinstance(answer, HTTPProblem) for _, answer in answers)
        self.deliver(answers)

    def _restore(self, request: WriteRequest) -> None:
        """Go back to an earlier moment, and write a snapshot of it, so that a start need not find it again."""
        try:
            before = self.state.stats.records
            with told_as_problems():
                state = self._journalled(lambda: self.folder.go_back(request.record, request.at))
        except HTTPProblem as problem:
            answer: Any = problem
        except BraidedError as error:
            answer = HTTPProblem(409, str(error))
        except Exception:  # nothing was written, and the model in memory is as it was
            log.exception("model %s: its history cannot be read", self.state.name)
            answer = HTTPProblem(500, "the model's history cannot be read, and nothing was changed: the log says more")
        else:
            self.state = state
            self.commits += 1
            self._save_restored()
            answer = {"records": state.stats.records, "records_before": before, "version": self.version()}
            log.info("model %s: went back from record %d to %d", state.name, before, state.stats.records)
        self.refused += isinstance(answer, HTTPProblem)
        self.deliver([(request, answer)])

    def _save_restored(self) -> None:
        try:
            self.folder.save_restored(self.state)
        except OSError as error:  # the journal says the same
            log.error("model %s: no snapshot could be written: %s", self.state.name, error)
            return
        self._saved_number, self._saved_records = self.state.number, self.state.stats.records
        self.snapshots += 1

    def _write(self, group: CommitGroup) -> int:
        """Journal a group, or say why not."""
        return self._journalled(lambda: self.folder.append(group))

    def _journalled(self, write: Callable[[], _Written]) -> _Written:
        """Write to the journal, or say why not."""
        journal = self.folder.journal
        assert journal is not None
        if journal.doubtful and not self._snapshot():
            self.trouble = "the journal lost a sync, and no snapshot can be written"
            raise HTTPProblem(503, f"{self.trouble}: nothing was learned; predictions go on; send it again later")
        try:
            written = write()
        except JournalError as error:
            if error.full:
                self.trouble = "the disk is full"
                raise HTTPProblem(
                    507, "the disk is full: nothing of this request was learned, predictions go on; free some space "
                    "and send it again"
                ) from None  # fmt: skip
            self.trouble = f"the journal cannot be written ({error})"
            log.error("model %s: %s", self.state.name, self.trouble)
            raise HTTPProblem(
                503, f"{self.trouble}: nothing of this request was learned, predictions go on; send it again later"
            ) from None
        self.trouble = None
        return written


def _refusal(request: WriteRequest, problem: HTTPProblem) -> tuple[WriteRequest, HTTPProblem]:
    """A refused request, after which the rest of its stream is refused."""
    if request.stream is not None:
        request.stream.broken = True
    return request, problem
