"""What a group commit will hold: requests are admitted one after another, before anything is written."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from braided.errors import BraidedError
from braided.estimators import MODLClassifier
from braided.fleet import Fleet
from braided.records import Records as Chunk
from braided.records import join
from braided.serve.commit_group import CommitEntry, CommitGroup
from braided.serve.key_disk import told_as_problems
from braided.serve.model_state import ModelState
from braided.serve.problems import HTTPProblem, shown
from braided.serve.raw_records import RawRecords, encoded
from braided.serve.records import NOTHING, RecordParser, Records, joined
from braided.serve.settings import Limits
from braided.serve.write_request import WriteRequest
from braided.streams.encode.encoder import Encoder


class GroupDraft:
    """A group commit in the making; each request is admitted as if those before it had been learned.

    Whether records can be learned is for the model to say, by the check with which its learning begins: what is
    journalled must be learned later, and again after a restart.

    Parameters
    ----------
    state, limits
        The model with what is kept beside it, which is not changed here, and the bounds on both.
    """

    def __init__(self, state: ModelState, limits: Limits) -> None:
        self.state = state
        self.limits = limits
        self.records = state.stats.records
        self._entries: list[CommitEntry] = []
        self._parts: list[Records] = []
        #: The sequence number that a client should use next, or None for one that is forgotten.
        self._clients: dict[str, int | None] = {}
        self._labelled: set[str] = set()
        #: The records of the group that bring new names, labels or keys, as the model would be given them.
        self._news: list[Chunk] = []
        #: Features that a fleet will know after the requests so far, beside those that it knows.
        self._names: set[str] = set()
        #: The rules of the model's columns as they will be, and what is added to them.
        self._rules: Encoder | None = None
        self._growth: list[list[Any]] = []

    def group(self) -> CommitGroup | None:
        """What is to be journalled, if anything."""
        if not self._entries:
            return None
        return CommitGroup(self._entries, joined(self._parts), time.time(), self._growth)

    def add(self, request: WriteRequest) -> dict[str, Any]:
        """Admit a request, or refuse it; the answer once the group is durable and learned."""
        if request.stream is not None and request.stream.broken:
            raise HTTPProblem(409, "an earlier batch of this stream was refused, and so is this one")
        if request.kind == "forget":
            return self._forget(request.client or "")
        if request.kind == "label":
            return self._label(request)
        assert request.records is not None
        if request.kind == "observe":
            if self._has_label(request.id):
                raise HTTPProblem(409, f"the record with the id {shown(request.id)} has its label: give another id")
            sent, growth = self._numbers(request.records)
            if self.state.key is not None and sent.keys == [None]:
                raise HTTPProblem(
                    422, f"record 0 has no key {shown(self.state.key)}: one that waits for its label is to be learned, "
                    "so give its key"
                )  # fmt: skip
            # Names count when they are learned; here they are bounded by the size of the request alone.
            unlabelled = Records(sent.names, sent.counts, sent.columns, sent.values, [None], keys=sent.keys)
            self._take(CommitEntry("observe", 1, id=request.id, time=request.time), unlabelled, growth)
            return {"id": request.id}
        return self._learn(request, request.records)

    def _take(self, entry: CommitEntry, records: Records = NOTHING, growth: Iterable[list[Any]] = ()) -> None:
        before = sum(map(len, self._parts)) if growth else 0
        self._growth += [[before + place, *step] for place, *step in growth]
        self._entries.append(entry)
        self._parts.append(records)

    def _next(self, client: str) -> int | None:
        """Where a client stands after the requests so far; None for one that is not known."""
        return self._clients[client] if client in self._clients else self.state.clients.get(client)

    def _forget(self, client: str) -> dict[str, Any]:
        if self._next(client) is None:
            raise HTTPProblem(404, f"no client {shown(client)} has sent records to this model")
        self._clients[client] = None
        self._take(CommitEntry("forget", client=client))
        return {"client": client, "next": 0}

    def _numbers(self, records: Records | RawRecords, check: bool = False) -> tuple[Records, list[list[Any]]]:
        """Records as the model takes them, and what raw ones add to the rules; with `check`, if it would learn them."""
        if isinstance(records, Records):
            if check:
                self._check(records)
            return records, []
        if self._rules is None:
            assert self.state.rules is not None
            self._rules = self.state.rules.copy()
        with self._rules.trial() as noted:
            found, growth = encoded(records, self._rules, noted, self.limits)
            if check:
                self._check(found)
        return found, growth

    def _learn(self, request: WriteRequest, records: Records | RawRecords) -> dict[str, Any]:
        duplicates, following = 0, None
        if request.client is not None:
            expected = self._expected(request.client, request.sequence)
            duplicates = min(expected - request.sequence, len(records))
            if duplicates == len(records):
                return self._answer(0, duplicates, expected)
            records = records.part(duplicates, len(records)) if duplicates else records
            following = request.sequence + duplicates + len(records)
        numbers, growth = self._numbers(records, check=True)
        if request.client is not None:
            self._clients[request.client] = following
        self.records += len(records)
        entry = CommitEntry("learn", len(records), client=request.client, sequence=request.sequence + duplicates)
        self._take(entry, numbers, growth)
        return self._answer(len(records), duplicates, following)

    def _expected(self, client: str, sequence: int) -> int:
        """The sequence number that a client should use next; one beyond it is refused."""
        expected = self._next(client)
        if expected is None:
            known = self.state.clients.keys() - {name for name, at in self._clients.items() if at is None}
            taken = len(known | {name for name, at in self._clients.items() if at is not None})
            if taken >= self.limits.clients:
                raise HTTPProblem(
                    409, f"{taken} clients are remembered, which is the limit: delete one that is done, or send "
                    "without a client"
                )  # fmt: skip
        expected = expected or 0
        if sequence > expected:
            raise HTTPProblem(
                409, f"sequence is {sequence}, and client {shown(client)} should go on with {expected}: send the "
                "records between them first", next=expected
            )  # fmt: skip
        return expected

    def _answer(self, learned: int, duplicates: int, following: int | None = None) -> dict[str, Any]:
        answer = {"learned": learned, "duplicates": duplicates, "records": self.records}
        return answer if following is None else {**answer, "next": following}

    def _label(self, request: WriteRequest) -> dict[str, Any]:
        assert request.id is not None
        if self._has_label(request.id):
            return self._answer(0, 1)
        found = self.state.late.get(request.id)
        if found is None or found.records is None or time.time() - found.time > self.limits.observation_seconds:
            raise HTTPProblem(
                404, f"no observation {shown(request.id)} waits for its label: it is unknown or has expired; send "
                "record and label to learn"
            )  # fmt: skip
        parser = RecordParser(True, self.state.regression, self.limits, self.state.features)
        parser.add({"x": found.records.one(0), "y": request.label, **({} if request.w is None else {"w": request.w})})
        records = parser.done()
        if self.state.key is not None:
            records = replace(records, keys=found.records.keys)
        self._check(records)
        self._labelled.add(request.id)
        self.records += 1
        self._take(CommitEntry("label", 1, id=request.id), records)
        return self._answer(1, 0)

    def _has_label(self, id_: str | None) -> bool:
        """Whether the record of this ID has got its label after the requests so far."""
        return id_ in self._labelled or self.state.late.label_came(id_)

    def _check(self, records: Records) -> None:
        """Refuse what the model would refuse after the requests so far.

        Those that bring nothing new do not matter to others, so that only those that do are checked together.
        """
        core, news = self.state.model.core, list(self._news)
        try:
            names = self._new_names(records)
            # Models of a fleet's keys may be on disk, and are looked for there as predictions do.
            with told_as_problems(), self.state.lock:
                if isinstance(self.state.model, Fleet):
                    self.state.model.core.make_ready()
                for rows, table in records.tables():
                    weights = None if records.weights is None else records.weights[rows]
                    keys = records.key_of(rows).get("keys")
                    part = Chunk(tuple(records.names), table, records.labels[rows], weights, keys)
                    # Where names expire, what is refused by itself may have room after the requests so far.
                    if self.state.template.expire_after is not None or core.check(part).brings_new:
                        news.append(part)
                        core.check(join(news))
        except BraidedError as error:
            raise HTTPProblem(422, f"{error} ({self._room()})") from None
        self._news, self._names = news, names

    def _new_names(self, records: Records) -> set[str]:
        """Hold the names of a fleet without a shared model, which bounds them for each key, to the bound of one."""
        if not isinstance(self.state.model, Fleet) or self.state.model.shared is not None:
            return self._names
        names = self._names | set(records.names) - self.state.features
        most = self.state.template.max_features
        if len(self.state.features) + len(names) > most:
            raise BraidedError(f"the record brings feature number {most + 1}, and max_features is {most}: drop some")
        return names

    def _room(self) -> str:
        """How full the model is, for a refusal."""
        model, template = self.state.model, self.state.template
        n_features = model.n_features if self.state.key is None else len(self.state.features)
        room = f"the model has {n_features} of at most {template.max_features} features"
        if isinstance(template, MODLClassifier):
            room += f" and {len(model.classes)} of at most {template.core.classes.limit} classes"
        if isinstance(model, Fleet):
            room += f" and {model.n_keys} of at most {model.max_keys} keys"
        return room
