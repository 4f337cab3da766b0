"""The one thread that may change a model: it admits requests, commits them in groups, and learns them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators import MODLClassifier, MODLRegressor
from braided.estimators.base import COLUMN
from braided.estimators.columns import by_column, columns_of
from braided.estimators.explain import Explanation
from braided.fleet import Fleet
from braided.serve.commit_group import CommitGroup
from braided.serve.group_draft import GroupDraft
from braided.serve.journal import JournalError
from braided.serve.model_folder import ModelFolder, Recovery
from braided.serve.model_state import ModelState
from braided.serve.problems import HTTPProblem
from braided.serve.raw_records import RawRecords
from braided.serve.records import RecordParser, Records
from braided.serve.stats import finite
from braided.serve.write_request import WriteRequest
from braided.streams.encode.saved import summary

log = logging.getLogger("braided.serve")
#: How many records a group commit has at most.
_GROUP_RECORDS = 500
#: Records that are predicted between two looks at what else there is to do.
PREDICT_CHUNK = 16
#: Features of a record that is explained: each takes a prediction of its own.
MOST_EXPLAINED = 256


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


class Worker:
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
        self.state = state
        self.folder = folder
        self.settings = settings = folder.settings
        self.recovery = recovery
        self.deliver = deliver
        #: Why nothing can be learned at present, if so; the writer tries again with every request.
        self.trouble: str | None = None
        #: A fault of ours after which the model in memory can no longer be trusted.
        self.broken = False
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

    def _check_sound(self) -> None:
        if self.broken:
            raise HTTPProblem(503, "the model is out of service after a fault: restart the service, and report this")

    def predict_one(self, x: dict[str, float], level: float | None = None) -> tuple[list[Any], dict[str, Any]]:
        """The classes, and the answer for a record by names: for one, that is the shorter way.

        With a level, the answer says how sure it is: an interval, or a set of labels.
        """
        self._check_sound()
        state = self.state  # it may be another one at the next look
        model, lock = state.model, state.lock
        assert not isinstance(model, Fleet)
        named = cast(dict[Hashable, float], x)
        if isinstance(model, MODLRegressor):
            with lock:
                return [], _number(model, named, level)
        with lock:
            version, found = model.records_learned, model.predict_proba_one(named)
            classes, rows = list(found), [list(found.values())]
            answers = _predictions(model, classes, rows, version, level)
        return classes, answers[0]

    def predict(
        self, records: Records | RawRecords, level: float | None = None
    ) -> tuple[list[Any], list[dict[str, Any]]]:
        """The classes, and an answer for each record; waits for one update at most, `PREDICT_CHUNK` records at a time.

        The records of a chunk are predicted by the same version of the model.
        """
        self._check_sound()
        state = self.state
        model, lock = state.model, state.lock
        if isinstance(model, Fleet):
            if level is not None:
                asked = "interval" if state.regression else "set"
                raise HTTPProblem(422, f"{asked} is not for a fleet, which does not say how sure it is: leave it out")
            return _predict_by_key(state, model, records)
        if isinstance(records, RawRecords):
            return self._predict_raw(records, level)
        classes: list[Any] = []
        answers: list[dict[str, Any]] = []
        if len(records) == 1:
            classes, answer = self.predict_one(records.one(0), level)
            return classes, [answer]
        for _, table in records.tables(PREDICT_CHUNK):
            if isinstance(model, MODLRegressor):
                with lock:
                    answers += _numbers(model, table, records.names, level)
            else:
                with lock:
                    version, classes = model.records_learned, model.classes
                    rows = model.predict_proba_many(table, records.names)
                    answers += _predictions(model, classes, rows.tolist(), version, level)
        return classes, answers

    def _predict_raw(self, records: RawRecords, level: float | None) -> tuple[list[Any], list[dict[str, Any]]]:
        """As `predict`; rules and model are of the same version."""
        state = self.state
        model, rules = state.model, state.rules
        assert rules is not None
        assert not isinstance(model, Fleet)
        classes: list[Any] = []
        answers: list[dict[str, Any]] = []
        for start in range(0, len(records), PREDICT_CHUNK):
            with state.lock:
                version, classes = model.records_learned, state.classes
                for place, item in enumerate(records.items[start : start + PREDICT_CHUNK], start):
                    x = _encoded(rules, item, place)
                    if isinstance(model, MODLRegressor):
                        answers.append(_number(model, x, level))
                    else:
                        row = list(model.predict_proba_one(x).values())
                        answers += _predictions(model, classes, [row], version, level)
        return classes, answers

    def explain(self, records: Records | RawRecords, by: str = COLUMN) -> dict[str, Any]:
        """What each feature adds to the answer for one record, and the fast learner's own view of it.

        Features are left out some at a time, each against the whole record by the same version of the model: in between
        others have their turn. Labels are those of the first time. Of a raw record columns are left out, or features if
        `by` says so.
        """
        self._check_sound()
        state = self.state
        model, lock = state.model, state.lock
        if isinstance(model, Fleet):
            raise HTTPProblem(422, "the model is a fleet, whose answers are not explained: ask a model without a key")
        with lock:
            if model.records_learned == 0:
                raise HTTPProblem(409, "the model has learned nothing yet: there is nothing to explain")
            columns: dict[Hashable, Hashable] = {}
            if isinstance(records, RawRecords):
                assert state.rules is not None
                x = _encoded(state.rules, records.items[0], 0)
                columns = columns_of(state.rules) if by == COLUMN else {}
            else:
                x = cast(dict[Hashable, float], records.one(0))
            if len(x) > MOST_EXPLAINED:
                raise HTTPProblem(
                    422, f"the record has {len(x)} features, and at most {MOST_EXPLAINED} are explained: leave some out"
                )
            version, known = model.records_learned, set(model.feature_names)
            found = model.explain_one(x, features=())
        groups = by_column((name for name in x if name in known), columns)
        effects: dict[Hashable, dict[Hashable, float]] = {}
        names, step = list(groups), PREDICT_CHUNK - 1
        for start in range(0, len(names), step):
            with lock:
                more = model.effects_one(x, {name: groups[name] for name in names[start : start + step]})
            effects |= {name: {label: adds[label] for label in found.labels} for name, adds in more.items()}
        return _explained(found, effects, version)

    def version(self) -> int:
        """Records learned so far."""
        return self.state.model.records_learned

    def classes(self) -> list[Any]:
        """The labels, in the order of the probabilities."""
        state = self.state
        with state.lock:
            return state.classes

    def rules(self) -> dict[str, Any] | None:
        """How each column of raw records is read; None for a model that takes numbers."""
        state = self.state
        if state.rules is None:
            return None
        with state.lock:
            return summary(state.rules)

    def health(self) -> dict[str, dict[str, int]]:
        """Skipped updates and resets of each learner."""
        state = self.state
        with state.lock:
            return state.model.health

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
            if request.kind == "export":
                answers.append((request, self.state.snapshot()))
                continue
            try:
                # A duplicate may be one of a request in this very group, and is no safer than that.
                admitted.append((request, draft.add(request)))
            except HTTPProblem as problem:
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


def _predict_by_key(
    state: ModelState, fleet: Fleet, records: Records | RawRecords
) -> tuple[list[Any], list[dict[str, Any]]]:
    """The classes, and an answer of a fleet for each record, some at a time by the same version."""
    classes: list[Any] = []
    answers: list[dict[str, Any]] = []
    for start in range(0, len(records), PREDICT_CHUNK):
        part = records.part(start, start + PREDICT_CHUNK)
        with state.lock:
            if isinstance(part, RawRecords):
                part = _as_numbers(state, part, start)
            version, classes = fleet.records_learned, state.classes
            rows: list[list[float]] = []
            for some, table in part.tables():  # records of very many names make more than one
                rows += fleet.progress_many(table, part.names, **part.key_of(some)).predictions.tolist()
        if state.regression:
            answers += [_value(row[0], None, version) for row in rows]
        else:
            answers += [
                {
                    "label": classes[max(range(len(row)), key=row.__getitem__)] if any(row) else None,
                    "probabilities": [finite(p) for p in row],
                    "version": version,
                }
                for row in rows
            ]
    return classes, answers


def _as_numbers(state: ModelState, raw: RawRecords, first: int) -> Records:
    """Raw records as a fleet takes them; the rules do not grow."""
    parser = RecordParser(False, state.regression, state.limits)
    for place, item in enumerate(raw.items, first):
        parser.add({"x": _encoded(state.rules, item, place)})
    return replace(parser.done(), keys=raw.about.keys)


def _encoded(rules: Any, item: Any, place: int) -> dict[Hashable, float]:
    """A raw record as numbers, or its refusal."""
    try:
        found: dict[Hashable, float] = rules.encode_one(item, learn=False)
    except BraidedError as error:
        why = str(error).removeprefix("the record: ")
        raise HTTPProblem(422, f"record {place}: {why}") from None
    return found


def _number(model: MODLRegressor, x: dict[Hashable, float], level: float | None) -> dict[str, Any]:
    """The answer of a regressor for one record."""
    version = model.records_learned
    if level is None:
        return _value(model.predict_one(x), None, version)
    value, reach = model.predict_reach_one(x, level)
    return _value(value, reach, version)


def _numbers(
    model: MODLRegressor, table: NDArray[np.float64], names: Sequence[Hashable], level: float | None
) -> list[dict[str, Any]]:
    """The answers of a regressor for a table."""
    version = model.records_learned
    if level is None:
        return [_value(value, None, version) for value in model.predict_many(table, names).tolist()]
    found = model.predict_reach_many(table, level, names)
    return [_value(value, reach, version) for value, reach in zip(*(part.tolist() for part in found), strict=True)]


def _value(value: float, reach: float | None, version: int) -> dict[str, Any]:
    """A number as an answer; the bounds of its interval are null while it cannot be said."""
    answer: dict[str, Any] = {"value": finite(value), "version": version}
    if reach is not None:
        answer["interval"] = [finite(value - reach), finite(value + reach)]
    return answer


def _predictions(
    model: MODLClassifier, classes: list[Any], rows: list[list[float]], version: int, level: float | None
) -> list[dict[str, Any]]:
    """Answers of a classifier, one for each row of probabilities."""
    answers: list[dict[str, Any]] = [
        {"label": label, "probabilities": [finite(p) for p in row], "version": version}
        for label, row in zip(model.decide(classes, rows), rows, strict=True)
    ]
    if level is not None:
        for answer, labels in zip(answers, model.sets(classes, rows, level), strict=True):
            answer["set"] = [label for label in classes if label in labels]
    return answers


def _explained(found: Explanation, effects: dict[Any, dict[Any, float]], version: int) -> dict[str, Any]:
    """An explanation as JSON; what it says of classes is in their order."""
    order = sorted(effects, key=lambda name: -max(map(abs, effects[name].values()), default=0.0))
    said = {"value": finite(found.prediction)} if found.probability is None else {
        "label": found.prediction, "probability": finite(found.probability)
    }  # fmt: skip
    return {
        **said,
        "version": version,
        "classes": [] if found.probability is None else list(found.labels),
        "effects": [{"feature": name, "adds": [finite(one) for one in effects[name].values()]} for name in order],
        "learner": found.learner,
        "parts": [
            {
                "feature": name,
                "means": [finite(part.mean) for part in parts.values()],
                "sd": finite(next(iter(parts.values())).sd),
                "estimated": name in found.estimated,
            }
            for name, parts in found.contributions.items()
        ],
        "shares": [{"name": name, "share": finite(share)} for name, share in found.shares.items()],
    }
