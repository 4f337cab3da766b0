"""Everything that the log of one model describes: the model, its figures, its clients, records without a label."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.encode.saved import checked_step, pack_encoder
from braided.errors import BraidedError
from braided.estimators import ESTIMATORS, MODLClassifier, MODLRegressor
from braided.estimators.base import MODL
from braided.estimators.params import REGRESSION
from braided.fleet import KIND, Fleet
from braided.fleet.cache import KeysNotWrittenError
from braided.late import LateLabels
from braided.records import Predictions, Records, join
from braided.serve.problems import HTTPProblem, key_errors_as_problems, shown
from braided.serve.records import MAX_CELLS, RawRecords, RecordParser
from braided.serve.requests import WriteRequest
from braided.serve.settings import Limits
from braided.serve.stats import Stats
from braided.store import REMEDY, Checkpoint, checked, encode, prefixed, reject_malformed, unprefixed

Model = MODLClassifier | MODLRegressor | Fleet
#: What a snapshot may be of.
MODEL_KINDS = (*ESTIMATORS, KIND)
#: A fleet learns so many records at a time, and lets readers in between.
_FLEET_CHUNK = 25
_PREFIX, _LATE, _WHAT = "serve", "late", "the snapshot's own part"
#: All records that wait for their label together have at most this many values, whatever their number.
_MAX_WAITING_VALUES = 500_000
#: Predictions are answered, not kept: a late record is judged by what the model says when its label comes.
_NOT_KEPT = Predictions(np.zeros((1, 0)), np.zeros((1, 0)))
Outcome = dict[str, Any] | HTTPProblem


class ModelState:
    """A model with what is kept beside it.

    Parameters
    ----------
    name, model, uid, created
        The model, under which name, with which ID, and since when (seconds since 1970).
    limits
        Bounds on clients, and on how many records wait for their label and how long.
    """

    def __init__(self, name: str, model: Model, limits: Limits, uid: str | None = None, created: float = 0.0) -> None:
        self.name = name
        #: It is given numbers.
        self.model: Model = model.without_encoder()
        self.uid = uid or secrets.token_hex(16)
        self.created = created
        self.limits = limits
        #: What says how many features and classes there may be: the model, or that of which a fleet is made.
        self.template: MODL = model.model if isinstance(model, Fleet) else model
        #: The field with the key of a record, of a fleet.
        self.key: str | None = str(model.key) if isinstance(model, Fleet) else None
        self.regression = model.task == REGRESSION
        #: By which raw records become numbers, if the model takes such. Readers use it within `lock`, as the model.
        self.rules = model.encoder
        #: Number of the last request that was applied, and when it came (seconds since 1970).
        self.number = 0
        self.time = created
        self.stats = Stats(model.learner_names, self.regression, before=model.records_learned)
        #: Client -> the sequence number that it should use next.
        self.clients: dict[str, int] = {}
        #: Records that wait for their label, by their ID; IDs that have got it are remembered for retries.
        self.late = LateLabels(limits.observations, limits.observation_seconds, _MAX_WAITING_VALUES)
        #: What the model knows, to be looked at while it learns.
        self.features: set[str] = {str(name) for name in model.feature_names}
        #: The model's own: for readers who ask it several things, and around the rules.
        self.lock = model.lock

    def use(self, limits: Limits) -> bool:
        """Go on with other limits; whether that changes which records wait, which a snapshot has to say."""
        late, self.limits = self.late, limits
        changed = (late.max_count, late.max_seconds) != (limits.observations, limits.observation_seconds)
        late.max_count, late.max_seconds = limits.observations, limits.observation_seconds
        return changed

    @property
    def classes(self) -> list[Any]:
        """The labels seen so far; none for a regressor."""
        return [] if self.regression else self.model.classes

    def parser(self, labelled: bool, limits: Limits) -> RecordParser:
        """What reads the records of a request."""
        return RecordParser(labelled, self.regression, limits, self.features, self.key, raw=self.rules is not None)

    def settle(self, request: WriteRequest) -> dict[str, Any] | None:
        """The answer to a request that changes nothing; None to one that does. Refuses what does not fit."""
        if request.stream is not None and request.stream.broken:
            raise HTTPProblem(409, "an earlier batch of this stream was refused, and so is this one")
        if request.kind == "learn" and request.client is not None:
            assert request.records is not None
            expected = self._expected(request.client, request.sequence)
            if expected - request.sequence >= len(request.records):
                return self._answer(0, len(request.records), expected)
        elif request.kind == "forget" and request.client not in self.clients:
            raise HTTPProblem(404, f"no client {shown(request.client)} has sent records to this model")
        elif request.kind == "observe":
            if self.late.label_came(request.id):
                raise HTTPProblem(409, f"the record with the id {shown(request.id)} has its label: give another id")
            records = request.records.about if isinstance(request.records, RawRecords) else request.records
            if self.key is not None and records is not None and records.keys == [None]:
                raise HTTPProblem(
                    422, f"record 0 has no key {shown(self.key)}: one that waits for its label is to be learned, so "
                    "give its key"
                )  # fmt: skip
        elif request.kind == "label":
            if self.late.label_came(request.id):
                return self._answer(0, 1)
            found = self.late.get(request.id)
            if found is None or request.time - found.time > self.limits.observation_seconds:
                raise HTTPProblem(
                    404, f"no observation {shown(request.id)} waits for its label: it is unknown or has expired; send "
                    "record and label to learn"
                )  # fmt: skip
        return None

    def _expected(self, client: str, sequence: int) -> int:
        """The sequence number that a client should use next; one beyond it is refused."""
        expected = self.clients.get(client, 0)
        if sequence > expected:
            raise HTTPProblem(
                409, f"sequence is {sequence}, and client {shown(client)} should go on with {expected}: send the "
                "records between them first", next=expected
            )  # fmt: skip
        return expected

    def _answer(self, learned: int, duplicates: int, following: int | None = None) -> dict[str, Any]:
        answer = {"learned": learned, "duplicates": duplicates, "records": self.stats.records}
        return answer if following is None else {**answer, "next": following}

    def apply(self, requests: Sequence[WriteRequest], live: bool = True) -> list[Outcome]:
        """Take in requests in their order: the answer to each, or why it is refused; a refusal changes nothing else.

        Requests of records alone are learned together where the model takes them all, which is quicker.
        """
        outcomes: list[Outcome] = []
        while len(outcomes) < len(requests):
            run = self._plain_run(requests[len(outcomes) :])
            outcomes += (self._apply_together(run, live) if len(run) > 1 else None) or [
                self._apply_one(request, live) for request in run
            ]
        return outcomes

    def _plain_run(self, requests: Sequence[WriteRequest]) -> Sequence[WriteRequest]:
        """The first requests that only bring records, all by different clients; else the first one."""
        names: set[str] = set()
        n = cells = 0
        for request in requests:
            records = request.records
            plain = request.kind == "learn" and request.client is None and not request.growth
            if not plain or not isinstance(records, Records):
                break
            names.update(map(str, records.names))
            cells += len(records)
            if len(names) * cells > MAX_CELLS:
                break
            n += 1
        return requests[: max(n, 1)]

    def _apply_together(self, requests: Sequence[WriteRequest], live: bool) -> list[Outcome] | None:
        records = [request.records for request in requests]
        before = self.stats.records
        try:
            self._teach(join([one for one in records if isinstance(one, Records)]), live)
        except HTTPProblem:
            return None
        self.number, self.time = requests[-1].number, requests[-1].time
        outcomes: list[Outcome] = []
        for one in records:
            before += len(one or ())
            outcomes.append({"learned": len(one or ()), "duplicates": 0, "records": before})
        return outcomes

    def _apply_one(self, request: WriteRequest, live: bool) -> Outcome:
        self.pass_over(request)
        try:
            return self.settle(request) or self._change(request, live)
        except HTTPProblem as problem:
            if request.stream is not None:
                request.stream.broken = True
            return problem

    def pass_over(self, request: WriteRequest) -> None:
        """What a request leaves behind even if it is refused: the rules of columns have grown."""
        self._grow(request.growth)
        self.number, self.time = request.number, request.time

    def _change(self, request: WriteRequest, live: bool) -> dict[str, Any]:
        """Do what a request asks for."""
        records = request.records
        assert not isinstance(records, RawRecords)
        if request.kind == "forget":
            del self.clients[str(request.client)]
            return {"client": request.client, "next": 0}
        assert records is not None
        if request.kind == "observe":
            self.late.keep(request.id, records, _NOT_KEPT, request.time)
            return {"id": request.id}
        if request.kind == "label":
            found = self.late.get(request.id)
            assert found is not None
            self._teach(replace(found.records, targets=records.targets, weights=records.weights), live)
            self.late.take(request.id)
            return self._answer(1, 0)
        duplicates, following = 0, None
        if request.client is not None:
            duplicates = self.clients.get(request.client, 0) - request.sequence
            following = request.sequence + len(records)
        self._teach(records.part(duplicates, len(records)), live)
        if request.client is not None and following is not None:
            self.clients[request.client] = following
        return self._answer(len(records) - duplicates, duplicates, following)

    def _grow(self, growth: list[list[Any]]) -> None:
        """Extend the rules before the records are learned; this stays even if the model refuses the records."""
        if not growth:
            return
        if self.rules is None:
            raise BraidedError("its records add to rules of columns, and the model has none")
        with reject_malformed("what the records add to the rules"):
            steps = [checked_step(step) for _, *step in growth]
        with self.lock.writing:
            for step in steps:
                self.rules.grow(step)

    def _teach(self, records: Records, live: bool) -> None:
        """Learn records, all or none."""
        core = self.model.core
        try:
            with key_errors_as_problems(), self.lock.writing:
                if isinstance(self.model, Fleet):
                    self._check_names(records)
                    self.model.core.make_ready()
                admitted = core.check(records)
                if self.key is None:
                    self.stats.update(core.learn(admitted), records, self.classes, live)
        except BraidedError as error:
            raise HTTPProblem(422, f"{error} ({self._room()})") from None
        for start in range(0, len(records) if self.key is not None else 0, _FLEET_CHUNK):
            part = records.part(start, start + _FLEET_CHUNK)
            with self.lock.writing:
                progress = core.learn(core.check(part))
            self.stats.update(progress, part, self.classes, live)
        if self.template.expire_after is None:
            self.features.update(_names_of(records))
        else:
            self.features = {str(name) for name in self.model.feature_names}
            self.stats.keep_features(self.features)

    def _check_names(self, records: Records) -> None:
        """Hold the names of a fleet without a shared model, which bounds them for each key, to the bound of one."""
        assert isinstance(self.model, Fleet)
        most = self.template.max_features
        if self.model.shared is None and len(self.features | _names_of(records)) > most:
            raise BraidedError(f"the record brings feature number {most + 1}, and max_features is {most}: drop some")

    def _room(self) -> str:
        """How full the model is, for a refusal."""
        model, template = self.model, self.template
        n_features = model.n_features if self.key is None else len(self.features)
        room = f"the model has {n_features} of at most {template.max_features} features"
        if isinstance(template, MODLClassifier):
            room += f" and {len(model.classes)} of at most {template.core.classes.limit} classes"
        if isinstance(model, Fleet):
            room += f" and {model.n_keys} of at most {model.max_keys} keys"
        return room

    def snapshot(self) -> bytes:
        """Everything, as the bytes of a checkpoint that `MODLClassifier.load` reads as well.

        Only the writer may call it: readers change nothing that it reads.
        """
        rules = None if self.rules is None else pack_encoder(self.rules)
        if isinstance(self.model, Fleet):
            metadata, arrays = self.model.snapshot(rules)
        else:
            metadata, arrays = self.model.snapshot()
            metadata |= {} if rules is None else {"encode": rules}
        figures, kept_arrays = self.stats.state()
        late, late_arrays = self.late.state()
        metadata["serve"] = {
            "name": self.name,
            "uid": self.uid,
            "created": self.created,
            "number": self.number,
            "time": self.time,
            "observations": self.limits.observations,
            "observation_seconds": self.limits.observation_seconds,
            "stats": figures,
            "clients": self.clients,
            "late": late,
        }
        arrays |= prefixed(_PREFIX, kept_arrays | prefixed(_LATE, late_arrays))
        return encode(KIND if isinstance(self.model, Fleet) else type(self.model).__name__, metadata, arrays)

    @classmethod
    def restored(cls, checkpoint: Checkpoint, limits: Limits, folder: Path | None = None) -> ModelState:
        """The inverse of `snapshot`; `folder` is for those keys of a fleet that are not to be in memory."""
        kept = checked("the snapshot", checkpoint.metadata, "serve", dict)
        name, uid = checked(_WHAT, kept, "name", str), checked(_WHAT, kept, "uid", str)
        if len(uid) != 32 or not set(uid) <= set("0123456789abcdef"):
            raise BraidedError(f"{_WHAT}: 'uid' is {uid!r:.60}, and should be 32 digits; {REMEDY}")
        # Which of its records wait for their label depends on the limits under which they came.
        known = {key: checked(_WHAT, kept, key, kind) for key, kind in
                 (("observations", int), ("observation_seconds", float))}  # fmt: skip
        created = checked(_WHAT, kept, "created", float)
        state = cls(name, restored_model(checkpoint, folder), replace(limits, **known), uid, created)
        state.number = checked(_WHAT, kept, "number", int)
        state.time = checked(_WHAT, kept, "time", float)
        state.take_over(checkpoint)
        return state

    def take_over(self, checkpoint: Checkpoint) -> None:
        """Take over what a snapshot has beside its model, if it has it: figures, clients, records without a label."""
        if checkpoint.metadata.get("serve") is None:
            return
        kept = checked("the snapshot", checkpoint.metadata, "serve", dict)
        arrays = unprefixed(_PREFIX, checkpoint.arrays)
        clients = checked(_WHAT, kept, "clients", dict)
        self.clients = {client: checked(_WHAT, clients, client, int) for client in clients}
        self.late.load_state(kept.get("late"), unprefixed(_LATE, arrays), n_learners=0)
        self.stats.load_state(checked(_WHAT, kept, "stats", dict), arrays)
        self.features |= set(map(str, self.stats.names)) if self.key is not None else set()


def _names_of(records: Records) -> set[str]:
    """The features that some of the records have."""
    there: NDArray[np.bool_] = np.logical_not(np.isnan(records.values).all(axis=0))
    return {str(name) for name, some in zip(records.names, there.tolist(), strict=True) if some}


def restored_model(checkpoint: Checkpoint, folder: Path | None = None) -> Model:
    """The model alone."""
    arrays: dict[str, NDArray[Any]] = {
        name: kept for name, kept in checkpoint.arrays.items() if not name.startswith(f"{_PREFIX}/")
    }
    if checkpoint.kind != KIND:
        return ESTIMATORS[checkpoint.kind].restore(checkpoint.metadata, arrays)
    try:
        return Fleet.restore(checkpoint.metadata, arrays, folder=folder)
    except KeysNotWrittenError:  # said without the path, which clients are not told
        raise KeysNotWrittenError(
            "keys that are too many for memory cannot be put on disk: free some space, and try again"
        ) from None
