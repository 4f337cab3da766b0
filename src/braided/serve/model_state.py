"""Everything that the journal of one model describes: the model, its figures, its clients, records without a label."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators import ESTIMATORS, MODLClassifier, MODLRegressor
from braided.estimators.base import MODL
from braided.estimators.params import REGRESSION
from braided.fleet import KIND, Fleet
from braided.fleet.cache import KeysNotWrittenError
from braided.late import LateLabels
from braided.records import Predictions
from braided.records import Records as Chunk
from braided.serve.commit_group import CommitGroup
from braided.serve.raw_records import RawRecordParser
from braided.serve.records import RecordParser, Records, renamed
from braided.serve.settings import Limits
from braided.serve.stats import Stats
from braided.store import REMEDY, Checkpoint, checked, encode, prefixed, reject_malformed, unprefixed
from braided.streams.encode.saved import checked_step, pack_encoder

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


class ModelState:
    """A model with what is kept beside it.

    Parameters
    ----------
    name, model, uid, created
        The model, under which name, with which ID, and since when (seconds since 1970).
    limits
        How many records wait for their label and how long; beyond that the oldest is dropped.
    """

    def __init__(self, name: str, model: Model, limits: Limits, uid: bytes | None = None, created: float = 0.0) -> None:
        self.name = name
        #: It is given numbers.
        self.model: Model = model.without_encoder()
        self.uid = uid or secrets.token_bytes(16)
        self.created = created
        self.limits = limits
        #: What says how many features and classes there may be: the model, or that of which a fleet is made.
        self.template: MODL = model.model if isinstance(model, Fleet) else model
        #: The field with the key of a record, of a fleet.
        self.key: str | None = str(model.key) if isinstance(model, Fleet) else None
        self.regression = model.task == REGRESSION
        #: By which raw records become numbers, if the model takes such; the model itself is given numbers. Readers use
        #: it within `lock`, as they use the model.
        self.rules = model.encoder
        #: Number of the last journal frame that was taken in, and when it came (seconds since 1970; 0 if not known).
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

    @property
    def classes(self) -> list[Any]:
        """The labels seen so far; none for a regressor."""
        return [] if self.regression else self.model.classes

    def parser(self, labelled: bool, limits: Limits) -> RecordParser | RawRecordParser:
        """What reads the records of a request."""
        if self.rules is None:
            return RecordParser(labelled, self.regression, limits, self.features, self.key)
        return RawRecordParser(labelled, self.regression, limits, self.key)

    def apply(self, number: int, group: CommitGroup, live: bool = True) -> None:
        """Take in a frame of the journal."""
        labels = group.records.labels
        if group.growth:
            self._grow(group.growth)
        if all(entry.kind in ("learn", "label") for entry in group.entries):
            self._learn(group.records, live)
        else:
            keep = np.array([label is not None for label in labels], dtype=np.bool_)
            if keep.any():
                self._learn(_selected(group.records, keep), live)
        at = 0
        for entry in group.entries:
            if entry.client is not None:
                if entry.kind == "forget":
                    self.clients.pop(entry.client, None)
                else:
                    self.clients[entry.client] = entry.sequence + entry.count
            if entry.id is not None:
                if entry.kind == "observe":
                    self.late.keep(entry.id, _waiting(group.records, at), _NOT_KEPT, entry.time)
                else:
                    self.late.take(entry.id)
            at += entry.count
        self.number, self.time = number, group.time or self.time

    def _grow(self, growth: list[list[Any]]) -> None:
        """Extend the rules before the records are learned: what only they know is no feature of the model yet."""
        if self.rules is None:
            raise BraidedError("its records add to rules of columns, and the model has none")
        with reject_malformed("what the records add to the rules"):
            steps = [checked_step(step) for _, *step in growth]
        with self.lock.writing:
            for step in steps:
                self.rules.grow(step)

    def _learn(self, records: Records, live: bool) -> None:
        for rows, table in records.tables(2**30 if self.key is None else _FLEET_CHUNK):
            part = records if rows.stop - rows.start == len(records) else records.part(rows.start, rows.stop)
            chunk = Chunk(tuple(records.names), table, part.labels, part.weights, records.key_of(rows).get("keys"))
            # They are in the journal, so that a disk that is full by now must not stop a fleet: its core asks for none.
            with self.lock.writing:
                progress = self.model.core.learn(self.model.core.check(chunk))
            self.stats.update(progress, part, self.classes, live)
        if self.template.expire_after is None:
            self.features.update(records.names)
        else:
            self.features = {str(name) for name in self.model.feature_names}
            self.stats.keep_features(self.features)

    def snapshot(self) -> bytes:
        """Everything, as the bytes of a checkpoint that `MODLClassifier.load` reads as well.

        Only the writer may call it: readers change nothing that it reads.
        """
        metadata, arrays = self._model_snapshot()
        figures, kept_arrays = self.stats.state()
        late, late_arrays = self.late.state()
        kept_arrays |= prefixed(_LATE, late_arrays)
        metadata["serve"] = {
            "name": self.name,
            "uid": self.uid.hex(),
            "created": self.created,
            "number": self.number,
            "time": self.time,
            "records": self.stats.records,
            "limits": {
                "observations": self.limits.observations,
                "observation_seconds": self.limits.observation_seconds,
            },
            "stats": figures,
            "clients": self.clients,
            "late": late,
        }
        arrays |= prefixed(_PREFIX, kept_arrays)
        return encode(KIND if isinstance(self.model, Fleet) else type(self.model).__name__, metadata, arrays)

    def _model_snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        rules = None if self.rules is None else pack_encoder(self.rules)
        if isinstance(self.model, Fleet):
            return self.model.snapshot(rules)
        metadata, arrays = self.model.snapshot()
        return metadata | ({} if rules is None else {"encode": rules}), arrays

    @classmethod
    def restored(cls, checkpoint: Checkpoint, limits: Limits, folder: Path | None = None) -> ModelState:
        """The inverse of `snapshot`; `folder` is for those keys of a fleet that are not to be in memory."""
        kept = checked("the snapshot", checkpoint.metadata, "serve", dict)
        name, uid = checked(_WHAT, kept, "name", str), checked(_WHAT, kept, "uid", str)
        if len(uid) != 32 or not set(uid) <= set("0123456789abcdef"):
            raise BraidedError(f"{_WHAT}: 'uid' is {uid!r:.60}, and should be 32 digits; {REMEDY}")
        created = checked(_WHAT, kept, "created", float)
        state = cls(name, restored_model(checkpoint, folder), limits, bytes.fromhex(uid), created)
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


def restored_model(checkpoint: Checkpoint, folder: Path | None = None) -> Model:
    """The model alone."""
    arrays: Mapping[str, NDArray[Any]] = {
        name: kept for name, kept in checkpoint.arrays.items() if not name.startswith(f"{_PREFIX}/")
    }
    if checkpoint.kind == KIND:
        try:
            return Fleet.restore(checkpoint.metadata, arrays, folder=folder)
        except KeysNotWrittenError:  # said without the path, which clients are not told
            raise KeysNotWrittenError(
                "keys that are too many for memory cannot be put on disk: free some space, and try again"
            ) from None
    return ESTIMATORS[checkpoint.kind].restore(checkpoint.metadata, arrays)


def _selected(records: Records, keep: NDArray[np.bool_]) -> Records:
    """Some of the records."""
    inside = np.repeat(keep, records.counts)
    labels = [label for label, kept in zip(records.labels, keep.tolist(), strict=True) if kept]
    weights = None if records.weights is None else records.weights[keep]
    keys = None if records.keys is None else [key for key, kept in zip(records.keys, keep, strict=True) if kept]
    return renamed(
        records.names, records.counts[keep], records.columns[inside], records.values[inside], labels, weights, keys
    )


def _waiting(records: Records, at: int) -> Chunk:
    """The record at a place, which is to wait."""
    x = records.one(at)
    keys = None if records.keys is None else [records.keys[at]]
    return Chunk(tuple(x), np.array([list(x.values())], dtype=np.float64), keys=keys)
