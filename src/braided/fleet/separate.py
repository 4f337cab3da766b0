"""A whole model for each key: `share="none"` and `share="start"`."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.checkpoint import InParts, pack_name, prefixed, unpack_names, unprefixed
from braided.errors import BraidedError
from braided.estimators import frames
from braided.estimators.base import MODL
from braided.estimators.chunks import listed, weights_of
from braided.estimators.digest import state_digest
from braided.estimators.features import ClassSpace
from braided.estimators.frames import Frame
from braided.estimators.sparse import is_sparse
from braided.estimators.tasks import REGRESSION
from braided.fleet.dry_run import SeparateDryRun
from braided.fleet.keys import check_alike, restored_keys
from braided.fleet.rows import KeyLimits
from braided.fleet.shared import SHARED
from braided.fleet.spill import SpillFolder
from braided.records import Predictions
from braided.state import checked
from braided.streams.encode.encoder import Encoder as RawEncoder
from braided.streams.encode.saved import pack_encoder
from braided.values import as_weight

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]
_KIND = "FleetModel"
_NO_WEIGHTS = np.zeros(0)
_WHAT = "state of the fleet"


class Chunk(NamedTuple):
    """Records on their way to the models of their keys."""

    keys: Sequence[str | None]
    table: Any
    labels: list[Any]
    columns: list[Hashable]
    weights: Floats

    def some(self, rows: NDArray[np.int64]) -> tuple[Any, list[Any], list[Hashable], Floats]:
        """Some of them, as a model takes them."""
        weights = self.weights[rows] if self.weights.size else self.weights
        return self.table[rows], [self.labels[i] for i in rows] if self.labels else [], self.columns, weights


class SeparateModels:
    """A model for each key, which learns the records of that key alone.

    Parameters
    ----------
    model
        What a new key starts as; it has learned nothing yet.
    limits
        How many keys there may be, and how many models in memory.
    start
        Whether there is a model that learns every record, of which a new key starts as a copy.
    """

    def __init__(self, model: MODL, limits: KeyLimits, start: bool) -> None:
        #: What makes numbers of raw records, once for all models: these are given numbers.
        self._encoder = model.give_up_encoder()
        self.model = model
        self.start = start
        self.limits = limits
        self.held = False
        self.known: OrderedDict[str, None] = OrderedDict()
        self._regression = model.task == REGRESSION
        self._space = ClassSpace(model.max_classes)
        #: Those in memory, the ones used last at the end; the others by their files.
        self._models: OrderedDict[str, MODL] = OrderedDict()
        self._files: dict[str, int] = {}
        self._spill = SpillFolder(limits.folder)
        #: Those of the models, once they were needed.
        self._settings: str | None = None

    def hold(self) -> None:
        """Let keys alone learn from now on."""
        self.held = True

    def digest(self) -> str:
        """A SHA-256 over all that keys share; without a shared model each has all that it needs."""
        return state_digest(self.model) if self.start else ""

    @property
    def n_in_memory(self) -> int:
        """How many keys have their model in memory."""
        return len(self._models)

    def dry_run(self) -> SeparateDryRun:
        """Whether chunks would be learned."""
        learns = self.start and not self.held
        return SeparateDryRun(self.model, learns, self.known, self._space, self.limits, self._known_model)

    def _known_model(self, key: str) -> MODL:
        """The model of a key that is known, which stays where it is."""
        return self._models[key] if key in self._models else self._read(key)

    @property
    def encoder(self) -> RawEncoder | None:
        """What makes numbers of raw records."""
        return self._encoder

    def give_up_encoder(self) -> RawEncoder | None:
        """Take numbers from now on."""
        encoder, self._encoder = self._encoder, None
        return encoder

    @contextmanager
    def lent_encoder(self) -> Iterator[RawEncoder | None]:
        """Within this numbers are taken, which the encoder that is lent makes of raw records, if there is one."""
        encoder, self._encoder = self._encoder, None
        try:
            yield encoder
        finally:
            self._encoder = encoder

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, by any key."""
        return list(self._space.places)

    @property
    def learner_names(self) -> list[str]:
        """Those of a model; and the shared one, if there is one."""
        return [*self.model.learner_names, *([SHARED] if self.start else [])]

    @property
    def health(self) -> dict[str, dict[str, int]]:
        """Not followed: each key has its own."""
        return {name: {"skipped": 0, "resets": 0} for name in self.learner_names}

    def _model(self, key: str | None, learn: bool) -> MODL | None:
        """The model of a key, in memory; for one that is not known the shared one, if there is one.

        Where no other can leave memory for it, one that does not `learn` stays on disk as well.
        """
        if key is None or key not in self.known:
            return self.model if self.start else None
        if key not in self._models:
            model = self._read(key)
            if not learn and not self._has_room():
                return model
            self._hold(key, model)
        self._models.move_to_end(key)
        return self._models[key]

    def _has_room(self) -> bool:
        """Whether there is room for one more model in memory, or could be made."""
        try:
            self._put_away(self.limits.in_memory - 1)
        except BraidedError:
            return False
        return True

    def make_ready(self, keys: Iterable[str | None]) -> None:
        """Refuse to learn, before anything has changed, if keys that are too many cannot leave memory or come back.

        Models that cannot be written in the middle of a step stay in memory until the next one.
        """
        self._put_away(self.limits.in_memory)
        self.check_files(keys)

    def check_files(self, keys: Iterable[str | None]) -> None:
        """Refuse a step if what some keys have on disk is gone."""
        for key in keys:
            if key is not None and key in self._files:
                self._spill.check(self._files[key])

    def _put_away(self, most: int) -> None:
        """Leave so many models in memory, those used last."""
        while len(self._models) > most:
            oldest, old = next(iter(self._models.items()))
            self._files[oldest] = self._spill.add(_KIND, *old.snapshot())
            del self._models[oldest]

    def _hold(self, key: str, model: MODL) -> None:
        """Have a model in memory, and for that another one on disk if there are too many."""
        if key not in self._models:
            self._has_room()  # if not, `make_ready` says so before the next step that learns
        self._models[key] = model
        self._models.move_to_end(key)
        if key in self._files:
            self._spill.remove(self._files.pop(key))

    def _read(self, key: str) -> MODL:
        checkpoint = self._spill.read(self._files[key], _KIND)
        return type(self.model).restore(checkpoint.metadata, checkpoint.arrays, self.model.learners)

    def _new_model(self) -> MODL:
        """What a new key starts as: a copy of the shared model as it is now, or a fresh one."""
        return copy.deepcopy(self.model) if self.start else self.model.clone()

    def _make_known(self, key: str, model: MODL) -> None:
        """Let a new key have a model; where there are too many keys, the oldest is forgotten."""
        if len(self.known) >= self.limits.max_keys:
            oldest, _ = self.known.popitem(last=False)
            self._models.pop(oldest, None)
            if oldest in self._files:
                self._spill.remove(self._files.pop(oldest))
        self._hold(key, model)
        self.known[key] = None

    def predict_one(self, key: str | None, x: Mapping[Hashable, Any]) -> Floats | None:
        """Probabilities in the order of `classes`, or a value; None before anything was learned."""
        model = self._model(key, learn=False)
        if self._encoder is not None:
            x = self._encoder.encode_one(x, learn=False)
        row = None if model is None else model._predict_row(x)
        if model is None or row is None or self._regression:
            return row
        own = model.classes
        found = np.zeros(len(self._space))
        found[[self._space.places[label] for label in own]] = 1.0 if len(own) == 1 else row[: len(own)]
        return found

    def learn_one(self, key: str | None, x: Mapping[Hashable, Any], y: Any, w: float) -> None:
        """Learn one record; one of weight 0, which may have no key, is checked alone."""
        if self._encoder is None:
            self._learn_one(key, x, y, w)
            return
        learn = as_weight(w, self.model.records_learned + 1) > 0.0 and not self.held
        with self._encoder.trial():
            self._learn_one(key, self._encoder.encode_one(x, learn), y, w)

    def _learn_one(self, key: str | None, x: Mapping[Hashable, Any], y: Any, w: float) -> None:
        if as_weight(w, self.model.records_learned + 1) == 0.0:
            self.model.learn_one(x, y, w)
            return
        assert key is not None
        new = key not in self.known
        model = self._new_model() if new else self._model(key, learn=True)
        assert model is not None
        if not self._regression:
            label = model._target(y, self.model.records_learned + 1)
            self._space.check_room([] if label in self._space.places else [label])
        if self.start and not self.held:
            self._check_features(model, x)
            self.model.learn_one(x, y, w)
        model.learn_one(x, y, w)
        if new:
            self._make_known(key, model)
        self.known.move_to_end(key)
        if not self._regression:
            self._space.admit(model._target(y, 0))

    def _check_features(self, model: MODL, x: Mapping[Hashable, Any]) -> None:
        """Refuse a record for which a key's model has no room: it may know features that the shared one has forgotten.

        What else that model refuses, the shared one refuses as well, and that one learns first.
        """
        record, features = self.model.records_learned + 1, model._features
        if features.expire_after is not None:
            features.check_room(features.new_in(x), features.row(x, record))

    def _opened(
        self, X: Any, names: Sequence[Hashable] | None, learn: bool = False, sample_weight: Any = None
    ) -> tuple[Any, list[Hashable], Frame | None]:
        """A table of which rows can be taken, its names, and the frame that it was. Raw records are encoded."""
        if is_sparse(X):
            raise BraidedError("X is a sparse matrix, and a fleet takes arrays and frames: give X.toarray()")
        frame = frames.opened(X)
        if self._encoder is None and frame is not None:
            return *frame.table(1), frame
        columns, n = frames.raw_columns(X, names) if frame is None else frame.raw_columns(1)
        if self._encoder is not None:
            learn, weights = learn and not self.held, weights_of(sample_weight, n, 1)
            settling = learn if weights is None or not learn or weights.all() else weights > 0.0
            encoded, table = self._encoder.encode_table(columns, n, settling)
            return table, list(encoded), frame
        if isinstance(X, np.ndarray):
            return X, list(columns), None
        table = np.empty((n, len(columns)), dtype=object)
        for place, cells in enumerate(columns.values()):
            table[:, place] = cells
        return table, list(columns), None

    def _growing(self) -> AbstractContextManager[Any]:
        """Within this, what raw records settle is taken back if they are refused."""
        return nullcontext() if self._encoder is None else self._encoder.trial()

    def predict_learn_many(
        self, keys: list[str | None], X: Any, y: Any, names: Sequence[Hashable] | None, sample_weight: Any
    ) -> Predictions:
        """Predict each record, then learn it; if one would be refused, none is learned."""
        labels, n = listed(frames.targets(y)), len(keys)
        if len(labels) != n:
            raise BraidedError(f"X has {n} records and y has {len(labels)} labels: they must be as many")
        with self._growing():
            table, columns, frame = self._opened(X, names, True, sample_weight)
            weights = weights_of(sample_weight, n, 1)
            chunk = Chunk(keys, table, labels, columns, np.ones(n) if weights is None else weights)
            self._check(chunk)
        if not self._regression:
            for label, weight in zip(labels, chunk.weights, strict=True):
                if weight > 0.0:
                    self._space.admit(self.model._target(label, 0))
        progress = self._nothing_said(n)
        self._learn(chunk, progress)
        return progress if frame is None else self._framed(frame, progress)

    def _check(self, chunk: Chunk) -> None:
        """Refuse a chunk that some model would refuse."""
        self.dry_run().learn_many(chunk.keys, chunk.table, chunk.labels, chunk.columns, chunk.weights)

    def _learn(self, chunk: Chunk, progress: Predictions) -> None:
        """Predict and learn, from one new key to the next."""
        done, n = 0, len(chunk.keys)
        while done < n:
            stop = done
            while stop < n and (chunk.keys[stop] in self.known or chunk.weights[stop] == 0.0):
                stop += 1
            self._learn_part(chunk, progress, np.arange(done, stop))
            key = chunk.keys[stop] if stop < n else None
            if key is not None:
                self._make_known(key, self._new_model())
            done = stop

    def _learn_part(self, chunk: Chunk, progress: Predictions, rows: NDArray[np.int64]) -> None:
        """Records among which no key is new, key by key."""
        if not rows.size:
            return
        if self.start:
            if self.held:
                shared = self.model.progress_many(chunk.table[rows], chunk.columns)
            else:
                shared = self.model.predict_learn_many(*chunk.some(rows))
            self._note(self.model.classes, shared, rows, progress, alone=True)
        groups: dict[str | None, list[int]] = {}
        for row in rows.tolist():
            groups.setdefault(chunk.keys[row] if chunk.keys[row] in self.known else None, []).append(row)
        for key, some in groups.items():
            model = self._model(key, learn=True)
            if key is None or model is None:
                if self.start:
                    self._note(self.model.classes, shared, rows, progress, only=some)
                continue
            said = model.predict_learn_many(*chunk.some(np.array(some)))
            self._note(model.classes, said, np.array(some), progress)
        for row in rows.tolist():
            key = chunk.keys[row]
            if key is not None and key in self.known and chunk.weights[row] > 0.0:
                self.known.move_to_end(key)

    def _nothing_said(self, n: int) -> Predictions:
        unknown = 0.0 if self._regression else -1.0
        own = np.full((n, len(self.learner_names)), unknown)
        return Predictions(np.zeros((n, 1 if self._regression else len(self._space))), own)

    def _note(
        self,
        classes: Sequence[Hashable],
        said: Predictions,
        rows: NDArray[np.int64],
        progress: Predictions,
        alone: bool = False,
        only: Sequence[int] | None = None,
    ) -> None:
        """Enter what a model of these classes said of some records; `alone`: as what it says by itself."""
        chosen = np.arange(rows.size) if only is None else np.searchsorted(rows, only)
        at, n = rows[chosen], np.asarray(said.own).shape[1]
        if self._regression:
            values = np.asarray(said.values)[chosen]
            if alone:
                progress.own[at, -1] = values[:, 0]
            else:
                progress.values[at], progress.own[at, :n] = values, np.asarray(said.own)[chosen]
            return
        places = np.array([self._space.places[label] for label in classes], dtype=np.int64)
        found = np.asarray(said.values)[chosen]
        if alone:
            likeliest = places[found.argmax(axis=1)] if places.size else np.full(at.size, -1)
            progress.own[at, -1] = np.where(found.any(axis=1), likeliest, -1)
            return
        progress.values[np.ix_(at, places)] = found
        own = np.asarray(said.own)[chosen].astype(np.int64)
        progress.own[at, :n] = np.where(own >= 0, np.append(places, -1)[own], -1)

    def _framed(self, frame: Frame, progress: Predictions) -> Predictions:
        own = frame.frame(progress.own, self.learner_names)
        if self._regression:
            return progress._replace(values=frame.series(progress.values[:, 0]), own=own)
        return progress._replace(values=frame.frame(progress.values, self.classes), own=own)

    def progress_many(self, keys: list[str | None], X: Any, names: Sequence[Hashable] | None) -> Predictions:
        """Predict the records."""
        table, columns, frame = self._opened(X, names)
        progress = self._nothing_said(len(keys))
        self._say(Chunk(keys, table, [], columns, _NO_WEIGHTS), progress)
        return progress if frame is None else self._framed(frame, progress)

    def _say(self, chunk: Chunk, progress: Predictions) -> None:
        """Predict."""
        groups: dict[str | None, list[int]] = {}
        for row, key in enumerate(chunk.keys):
            groups.setdefault(key if key in self.known else None, []).append(row)
        for key, rows in groups.items():
            model = self._model(key, learn=False)
            if model is not None:
                said = model.progress_many(chunk.table[rows], chunk.columns)
                self._note(model.classes, said, np.array(rows), progress)
        if self.start and len(chunk.keys):
            shared = self.model.progress_many(chunk.table, chunk.columns)
            self._note(self.model.classes, shared, np.arange(len(chunk.keys)), progress, alone=True)

    def _snapshots(self, in_parts: bool) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Those of the keys' models, in the order of `known`; in parts, one model at a time is in memory for it."""
        for key in self.known:
            metadata, arrays = self._known_model(key).snapshot()
            yield metadata, self._later(key, arrays) if in_parts else arrays

    def _later(self, key: str, arrays: Arrays) -> dict[str, InParts]:
        """The arrays of a key's model, to be made again when they are wanted, one after the other."""

        def part(name: str) -> list[NDArray[Any]]:
            if name == first:
                found.update(self._known_model(key).snapshot()[1])
            return [found.pop(name)]

        first, found = next(iter(arrays), ""), dict[str, NDArray[Any]]()
        return {name: InParts(array.dtype, array.shape, partial(part, name)) for name, array in arrays.items()}

    def forget_key(self, key: str) -> None:
        """Forget a key that is known, and with the last one the classes that keys alone have seen."""
        del self.known[key]
        self._models.pop(key, None)
        if key in self._files:
            self._spill.remove(self._files.pop(key))
        if not self.known:
            self._space = ClassSpace(self.model.max_classes)
            for label in self.model.classes:
                self._space.admit(label)

    def snapshot_key(self, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The model of one key."""
        return (self._models[key] if key in self._models else self._read(key)).snapshot()

    def restore_key(self, key: str, metadata: Any, arrays: Arrays, learners: Any) -> int:
        """Let a key have that; returns how many more records its fleet has learned by that."""
        if self._settings is None:
            self._settings = _settings(self.model.snapshot()[0])
        if _settings(metadata) != self._settings:
            raise BraidedError("the key's model has other settings than the fleet's: give the fleet that it is from")
        model = type(self.model).restore(metadata, arrays, learners)
        model.give_up_encoder()
        new = [label for label in model.classes if label not in self._space.places]
        self._space.check_room(new)
        more = 0 if self.start else model.records_learned
        if key in self.known and not self.start:
            more -= self._known_model(key).records_learned
        self.make_ready(())
        for label in model.classes:
            self._space.admit(label)
        if key in self.known:
            self._hold(key, model)
            self.known.move_to_end(key)
        else:
            self._make_known(key, model)
        return more

    def snapshot(self, in_parts: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Everything needed to go on exactly from here; what keys have as arrays, or `InParts`."""
        model, arrays = self.model.snapshot()
        if self._encoder is not None:
            model["encode"] = pack_encoder(self._encoder)
        found: dict[str, Any] = prefixed(SHARED, arrays)
        models = []
        for place, (one, rows) in enumerate(self._snapshots(in_parts)):
            models.append(one)
            found |= prefixed(f"key {place}", rows)
        labels = [pack_name(label) for label in self.classes]
        return {"model": model, "texts": list(self.known), "models": models, "labels": labels}, found

    def load(self, metadata: Any, arrays: Arrays, learners: Any) -> None:
        """Take over a `snapshot`; refused if keys that are too many for memory cannot be put on disk."""
        kind = type(self.model)
        self.model = kind.restore(checked(_WHAT, metadata, "model", dict), unprefixed(SHARED, arrays), learners)
        self._encoder, self._settings = self.model.give_up_encoder(), None
        models = checked(_WHAT, metadata, "models", list)
        keys = restored_keys(_WHAT, metadata, len(models))
        if len(keys) > self.limits.max_keys:
            raise BraidedError(f"{_WHAT} has {len(keys)} keys, and that is too many; give a file written by save")
        self._load_labels(unpack_names("labels", checked(_WHAT, metadata, "labels", list)))
        own = _by_key(arrays)
        for key, place in keys.items():
            if not isinstance(one := models[place], dict):
                raise BraidedError(f"{_WHAT}: the model of a key is {one!r:.60}; give a file written by save")
            check_alike(_WHAT, metadata["model"], one)
            model = kind.restore(one, own.get(place, {}), learners)
            model.give_up_encoder()
            if not set(model.classes) <= set(self._space.places):
                raise BraidedError(f"{_WHAT}: a key has classes that the fleet does not; give a file written by save")
            self._hold(key, model)
            self.known[key] = None
            self.make_ready(())

    def _load_labels(self, names: Sequence[Hashable]) -> None:
        """Take over the classes of all keys: as many as there may be, with those of the shared model."""
        labels = list(dict.fromkeys(self._space.label(label, 0) for label in names))
        self._space.check_room(labels)
        for label in labels:
            self._space.admit(label)
        if not set(self.model.classes) <= set(self._space.places):
            raise BraidedError(f"{_WHAT}: its labels lack some of the shared model's; give a file written by save")


def _settings(metadata: Mapping[str, Any]) -> str:
    """What a model was made with, as text that is the same before and after it was saved."""
    return json.dumps(checked(_WHAT, metadata, "parameters", dict), sort_keys=True)


def _by_key(arrays: Arrays) -> dict[int, dict[str, NDArray[Any]]]:
    """The arrays of each key's model by its place, in one pass: there may be thousands."""
    found: dict[int, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        prefix, _, rest = name.partition("/")
        place = prefix.removeprefix("key ")
        if prefix != place and place.isascii() and place.isdigit() and len(place) < 12:
            found.setdefault(int(place), {})[rest] = array
    return found
