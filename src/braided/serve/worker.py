"""The one thread that may change a model: it admits requests, commits them in groups, and learns them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from braided.errors import BraidedError
from braided.estimators import MODLClassifier, MODLRegressor
from braided.serve.gate import Gate
from braided.serve.group import Entry, Group
from braided.serve.journal import JournalError
from braided.serve.problems import Problem, shown
from braided.serve.records import Reader, Records, joined
from braided.serve.settings import Settings
from braided.serve.state import State
from braided.serve.stats import finite
from braided.serve.store import Recovery, Store

log = logging.getLogger("braided.serve")
#: A group commit ends at so many records.
_GROUP_RECORDS = 500
#: Records that are predicted between two looks at what else there is to do.
PREDICT_CHUNK = 16


class Chain:
    """The batches of one stream: once one of them is refused, those after it are too."""

    def __init__(self) -> None:
        self.broken = False


@dataclass(eq=False)
class Job:
    """A request to the writer; `future` gets a dict, bytes (`export`) or a `Problem`."""

    kind: Literal["learn", "observe", "label", "forget", "export"]
    future: Any
    records: Records | None = None
    client: str | None = None
    sequence: int = 0
    id: str | None = None
    label: Any = None
    time: float = 0.0
    chain: Chain | None = None

    @property
    def weight(self) -> int:
        """Records that it adds to the queue."""
        return max(1, 0 if self.records is None else len(self.records))


@dataclass
class _Draft:
    """What the requests admitted to a group so far will have changed."""

    features: set[str]
    labels: set[Any]
    clients: dict[str, int | None]
    ids: set[str]
    records: int


Deliver = Callable[[list[tuple[Job, Any]]], None]


def deliver_here(results: list[tuple[Job, Any]]) -> None:
    """Complete the futures in the writer's own thread."""
    for job, result in results:
        if job.future.done():
            continue
        if isinstance(result, Exception):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)


class Worker:
    """A model in service.

    Parameters
    ----------
    state, store, settings
        The model, its files, and how to treat them.
    recovery
        What was found when it was opened.
    deliver
        Takes results to whoever waits for them.
    """

    def __init__(
        self, state: State, store: Store, settings: Settings, recovery: Recovery, deliver: Deliver = deliver_here
    ) -> None:
        self.state = state
        self.store = store
        self.settings = settings
        self.recovery = recovery
        self.deliver = deliver
        self.gate = Gate()
        state.guard(self.gate)
        #: Why nothing can be learned at present, if so; the writer tries again with every request.
        self.trouble: str | None = None
        #: A fault of ours after which the model in memory can no longer be trusted.
        self.broken = False
        self.refused = 0
        self.commits = 0
        self.snapshots = 0
        self.last_snapshot = time.time()
        self._queue: deque[Job] = deque()
        self._queued_records = 0
        self._wake = threading.Condition()
        self._stopping = False
        self._snapshot_at_end = True
        self._saved_number = store.verified[0]
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

    def submit(self, job: Job) -> None:
        """Queue a request; refused when too much is queued."""
        with self._wake:
            self._check_sound()
            if self._stopping:
                raise Problem(503, "the service is stopping, or the model is being deleted: try again later")
            if self._queued_records + job.weight > max(self.settings.limits.queue_records, job.weight):
                raise Problem(
                    429, f"{self._queued_records} records wait to be learned: try again later", {"Retry-After": "1"}
                )
            self._queue.append(job)
            self._queued_records += job.weight
            self._wake.notify()

    def _check_sound(self) -> None:
        if self.broken:
            raise Problem(503, "the model is out of service after a fault: restart the service, and report this")

    def predict_one(self, x: dict[str, float]) -> tuple[list[Any], dict[str, Any]]:
        """The classes, and the answer for a record by names: for one, that is the shorter way."""
        self._check_sound()
        model = self.state.model
        named = cast(dict[Hashable, float], x)
        if isinstance(model, MODLRegressor):
            with self.gate:
                version, value = model.records_learned, model.predict_one(named)
            return [], {"value": finite(value), "version": version}
        with self.gate:
            version, found = model.records_learned, model.predict_proba_one(named)
        classes = list(found)
        return classes, _prediction(classes, list(found.values()), version)

    def predict(self, records: Records) -> tuple[list[Any], list[dict[str, Any]]]:
        """The classes, and an answer for each record; waits for one update at most, `PREDICT_CHUNK` records at a time.

        The records of a chunk are predicted by the same version of the model.
        """
        self._check_sound()
        model = self.state.model
        classes: list[Any] = []
        answers: list[dict[str, Any]] = []
        if len(records) == 1:
            classes, answer = self.predict_one(records.one(0))
            return classes, [answer]
        for _, table in records.tables(PREDICT_CHUNK):
            if isinstance(model, MODLRegressor):
                with self.gate:
                    version, values = model.records_learned, model.predict_many(table, records.names)
                answers += [{"value": finite(value), "version": version} for value in values.tolist()]
            else:
                with self.gate:
                    version, classes = model.records_learned, model.classes
                    rows = model.predict_proba_many(table, records.names)
                answers += [_prediction(classes, row, version) for row in rows.tolist()]
        return classes, answers

    def version(self) -> int:
        """Records learned so far."""
        return self.state.model.records_learned

    def classes(self) -> list[Any]:
        """The labels, in the order of the probabilities."""
        with self.gate:
            return self.state.classes

    def health(self) -> dict[str, dict[str, int]]:
        """Skipped updates and resets of each learner."""
        with self.gate:
            return self.state.model.health

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
            self.store.close()
            with self._wake:
                self._stopping = True
                rest = list(self._queue)
                self._queue.clear()
            if rest:
                self.deliver([(job, Problem(503, "the model is out of service: restart it")) for job in rest])

    def _turn(self) -> bool:
        """Wait for requests or for something that is due, and do it."""
        with self._wake:
            while not self._queue and not self._stopping:
                timeout = self._seconds_to_next()
                if timeout <= 0:
                    break
                self._wake.wait(timeout)
            jobs: list[Job] = []
            weight = 0
            while self._queue and (not jobs or weight + self._queue[0].weight <= _GROUP_RECORDS):
                jobs.append(self._queue.popleft())
                weight += jobs[-1].weight
            if not jobs and self._stopping:
                return False
        if jobs:
            try:
                self._commit(jobs)
            except Exception as error:
                self.broken = True
                problem = Problem(500, "the model's writer failed: restart the service, and report this")
                self.deliver([(job, problem) for job in jobs if not job.future.done()])
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
        journal = self.store.journal
        assert journal is not None
        if self.settings.durability == "interval" and journal.durable < journal.number - 1:
            due = min(due, self._sync_due)
        return min(due - time.monotonic(), 60.0)

    def _do_what_is_due(self) -> None:
        journal = self.store.journal
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
            self.store.save(self.state)
        except (OSError, BraidedError) as error:
            log.error("model %s: no snapshot could be written: %s", self.state.name, error)
            # Without this, a model that learns fast on a full disk would try with every group.
            self._saved_records = self.state.stats.records
            return False
        self._saved_number, self._saved_records = self.state.number, self.state.stats.records
        self.snapshots += 1
        self.last_snapshot = time.time()
        return True

    def _commit(self, jobs: list[Job]) -> None:
        """Admit, journal, learn, answer."""
        state = self.state
        draft = _Draft(set(), set(), {}, set(), state.stats.records)
        answers: list[tuple[Job, Any]] = []
        admitted: list[tuple[Job, dict[str, Any]]] = []
        entries: list[Entry] = []
        parts: list[Records] = []
        for job in jobs:
            if job.kind == "export":
                answers.append((job, state.export()))
                continue
            try:
                entry, records, answer = self._admit(job, draft)
            except Problem as problem:
                answers.append((job, problem))
                if job.chain is not None:
                    job.chain.broken = True
                continue
            # A duplicate may be one of a request in this very group, and is no safer than that.
            admitted.append((job, answer))
            if entry is not None:
                entries.append(entry)
                parts.append(records)
        if entries:
            group = Group(entries, joined(parts))
            try:
                number = self._write(group)
            except Problem as problem:
                answers += [(job, problem) for job, _ in admitted]
                for job, _ in admitted:
                    if job.chain is not None:
                        job.chain.broken = True
                admitted = []
            else:
                state.apply(number, group)
                self.commits += 1
        answers += admitted
        self.refused += sum(isinstance(answer, Problem) for _, answer in answers)
        self.deliver(answers)

    def _write(self, group: Group) -> int:
        """Journal a group, or say why not."""
        journal = self.store.journal
        assert journal is not None
        if journal.doubtful and not self._snapshot():
            self.trouble = "the journal lost a sync, and no snapshot can be written"
            raise Problem(503, f"{self.trouble}: nothing was learned; predictions go on; send it again later")
        try:
            number = self.store.append(group)
        except JournalError as error:
            if error.full:
                self.trouble = "the disk is full"
                raise Problem(
                    507, "the disk is full: nothing of this request was learned, predictions go on; free some space "
                    "and send it again"
                ) from None  # fmt: skip
            self.trouble = f"the journal cannot be written ({error})"
            log.error("model %s: %s", self.state.name, self.trouble)
            raise Problem(
                503, f"{self.trouble}: nothing of this request was learned, predictions go on; send it again later"
            ) from None
        self.trouble = None
        return number

    def _admit(self, job: Job, draft: _Draft) -> tuple[Entry | None, Records, dict[str, Any]]:
        """What a request adds to the group: an entry, its records, and the answer once they are durable."""
        if job.chain is not None and job.chain.broken:
            raise Problem(409, "an earlier batch of this stream was refused, and so is this one")
        if job.kind == "forget":
            assert job.client is not None
            known = draft.clients.get(job.client, self.state.clients.get(job.client))
            if known is None:
                raise Problem(404, f"no client {shown(job.client)} has sent records to this model")
            draft.clients[job.client] = None
            return Entry("forget", client=job.client), _NOTHING, {"client": job.client, "next": 0}
        if job.kind == "label":
            return self._admit_label(job, draft)
        assert job.records is not None
        if job.kind == "observe":
            assert job.id is not None
            # Names count when they are learned; here they are bounded by the size of the request alone.
            records = Records(job.records.names, job.records.counts, job.records.columns, job.records.values, [None])
            return Entry("observe", 1, id=job.id, time=job.time), records, {"id": job.id}
        return self._admit_learn(job, job.records, draft)

    def _admit_learn(self, job: Job, records: Records, draft: _Draft) -> tuple[Entry | None, Records, dict[str, Any]]:
        duplicates = 0
        if job.client is not None:
            expected = draft.clients.get(job.client, self.state.clients.get(job.client))
            if expected is None:
                taken = len(self.state.clients.keys() | {name for name, at in draft.clients.items() if at is not None})
                if taken >= self.settings.limits.clients:
                    raise Problem(
                        409, f"{taken} clients are remembered, which is the limit: delete one that is done, or send "
                        "without a client"
                    )  # fmt: skip
            expected = expected or 0
            if job.sequence > expected:
                raise Problem(
                    409, f"sequence is {job.sequence}, and client {shown(job.client)} should go on with {expected}: "
                    "send the records between them first", next=expected
                )  # fmt: skip
            duplicates = min(expected - job.sequence, len(records))
            if duplicates == len(records):
                return None, records, self._learned(0, duplicates, draft, expected)
            if duplicates:
                records = records.part(duplicates, len(records))
        self._check_room(records, draft)
        following = None
        if job.client is not None:
            following = job.sequence + duplicates + len(records)
            draft.clients[job.client] = following
        draft.records += len(records)
        entry = Entry("learn", len(records), client=job.client, sequence=job.sequence + duplicates)
        return entry, records, self._learned(len(records), duplicates, draft, following)

    @staticmethod
    def _learned(learned: int, duplicates: int, draft: _Draft, following: int | None) -> dict[str, Any]:
        answer = {"learned": learned, "duplicates": duplicates, "records": draft.records}
        return answer if following is None else {**answer, "next": following}

    def _admit_label(self, job: Job, draft: _Draft) -> tuple[Entry | None, Records, dict[str, Any]]:
        assert job.id is not None
        if job.id in self.state.labelled or job.id in draft.ids:
            return None, _NOTHING, {"learned": 0, "duplicates": 1, "records": draft.records}
        found = self.state.waiting.get(job.id)
        if found is None or time.time() - found.time > self.settings.limits.observation_seconds:
            raise Problem(
                404, f"no observation {shown(job.id)} waits for its label: it is unknown or has expired; send record "
                "and label to learn"
            )  # fmt: skip
        reader = Reader(True, self.state.regression, self.settings.limits, self.state.features)
        reader.add({"x": found.x, "y": job.label})
        records = reader.done()
        self._check_room(records, draft)
        draft.ids.add(job.id)
        draft.records += 1
        answer = {"learned": 1, "duplicates": 0, "records": draft.records}
        return Entry("label", 1, id=job.id), records, answer

    def _check_room(self, records: Records, draft: _Draft) -> None:
        """Refuse what the model would refuse, before anything is written; else note what will be new."""
        state = self.state
        names = {name for name in records.names if name not in state.features and name not in draft.features}
        most = state.model.max_features
        if len(state.features) + len(draft.features) + len(names) > most:
            raise Problem(
                422, f"feature {shown(min(names))} and {len(names) - 1} others are new, and the model has "
                f"{len(state.features)} of at most {most} features: leave them out"
            )  # fmt: skip
        labels: set[Any] = set()
        if isinstance(state.model, MODLClassifier):
            known = state.labels
            labels = {label for label in records.labels if label not in known and label not in draft.labels}
            most = state.model.class_limit
            if len(known) + len(draft.labels) + len(labels) > most:
                raise Problem(
                    422, f"label {shown(next(iter(labels)))} is new, and the model has {len(known)} of at most {most} "
                    "classes: leave it out, or create a model for regression if the target is a quantity"
                )  # fmt: skip
        draft.features |= names
        draft.labels |= labels


def _prediction(classes: list[Any], row: list[float], version: int) -> dict[str, Any]:
    """An answer for one record."""
    best = max(range(len(row)), key=row.__getitem__) if row else None
    return {
        "label": None if best is None else classes[best],
        "probabilities": [finite(p) for p in row],
        "version": version,
    }


_NOTHING = Records([], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), [])
