"""A whole model for each key: `share="none"` and `share="start"`."""

from __future__ import annotations

import copy
import json
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.model import Model
from braided.estimators.names import ClassSpace
from braided.estimators.params import ModelParams
from braided.fleet.cache import KeyCache, KeyLimits
from braided.fleet.schema import check_same_settings, restored_keys
from braided.fleet.shared import SHARED
from braided.records import Admitted, Predictions, Records
from braided.store import (
    REMEDY,
    Checkpoint,
    InParts,
    checked,
    pack_name,
    prefixed,
    state_digest,
    unpack_names,
    unprefixed,
)

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]
_WHAT = "state of the fleet"
_BEHIND = "may have learned a part of it"


def _restored(task: str, metadata: Any, arrays: Arrays, learners: Any) -> Model:
    """A model out of a file."""
    model = Model(task, ModelParams.of_metadata(metadata, learners))
    model.load(metadata, arrays)
    return model


class KeyModels:
    """The models of the keys in memory: what a `KeyCache` holds of `SeparateModels`.

    Parameters
    ----------
    shared
        What a new key starts as.
    start
        Whether it starts as a copy of the shared model as it is then, and not as a fresh one.
    """

    kind = "FleetModel"

    def __init__(self, shared: Model, start: bool) -> None:
        self.shared = shared
        self.start = start
        self._models: list[Any] = []

    def resize(self, n: int) -> None:
        """Have n places, of which the first keep what they hold."""
        self._models += [None] * (n - len(self._models))

    def fresh(self, n: int) -> list[Model]:
        """The models of n new keys."""
        shared = self.shared
        return [copy.deepcopy(shared) if self.start else Model(shared.task, shared.params) for _ in range(n)]

    def get(self, places: list[int]) -> list[Model]:
        """The models in some places, themselves."""
        return [self._models[place] for place in places]

    def put(self, places: list[int], values: list[Model]) -> None:
        """Let some places have these models."""
        for place, model in zip(places, values, strict=True):
            self._models[place] = model

    def clear(self, place: int) -> None:
        """A place is free, and the memory of its model, too."""
        self._models[place] = None

    def pack(self, values: list[Model]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The metadata and arrays of one model."""
        return values[0].snapshot()

    def unpack(self, checkpoint: Checkpoint) -> list[Model]:
        """The model in a file, checked."""
        task, learners = self.shared.task, self.shared.params.learners
        return [_restored(task, checkpoint.metadata, checkpoint.arrays, learners)]


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

    Attributes
    ----------
    learned
        How many records were learned.
    """

    def __init__(self, model: Model, limits: KeyLimits, start: bool) -> None:
        self.start = start
        self.held = False
        self.learned = 0
        self._regression = model.regression
        self._space = ClassSpace(int(model.params.max_classes))
        self._models = KeyModels(model, start)
        self.cache: KeyCache[list[Model]] = KeyCache(self._models, limits)
        #: The models' settings, once they were needed.
        self._settings: str | None = None

    @property
    def model(self) -> Model:
        """What a new key starts as; under `start` it learns every record."""
        return self._models.shared

    def hold(self) -> None:
        """Let keys alone learn from now on."""
        self.held = True

    def digest(self) -> str:
        """A SHA-256 over all that keys share; without a shared model each has all that it needs."""
        return state_digest(self.model) if self.start else ""

    def _look(self, key: str) -> Model:
        """The model of a key that is known, which stays where it is."""
        ((_, (model,)),) = self.cache.look([key])
        return model

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, by any key."""
        return list(self._space.places)

    @property
    def learner_names(self) -> list[str]:
        """Those of a model; and the shared one, if there is one."""
        return [*self.model.learner_names, *([SHARED] if self.start else [])]

    def _model(self, key: str | None) -> Model | None:
        """The model of a key, in memory; for one that is not known the shared one, if there is one."""
        if key is None or key not in self.cache.known:
            return self.model if self.start else None
        return self._models.get(self.cache.places([key], None).tolist())[0]

    def _rows_by_key(self, records: Records) -> dict[str | None, list[int]]:
        """The rows of each key; of those of weight 0, which are predicted alone, where their key is known."""
        groups: dict[str | None, list[int]] = {}
        assert records.keys is not None
        for row, key in enumerate(records.keys):
            groups.setdefault(key, []).append(row)
        return groups

    def check(self, records: Records) -> Admitted:
        """Refuse records that some model cannot learn, all or none; nothing changes."""
        self.cache.check_room(records)
        codes, new_labels = self.model.codes(records, self._space)
        self._space.check_room(list(new_labels.values()))
        if self.start and not self.held:
            self.model.check(records)
        new_names: dict[int, list[Hashable]] = {}
        for key, rows in self._rows_by_key(records).items():
            learned = [row for row in rows if records.weights is None or records.weights[row] > 0.0]
            if key is None or not learned:
                continue
            model = self._look(key) if key in self.cache.known else self._before(records, learned[0])
            found = model.check(records if len(learned) == len(records) else records.at(learned))
            for row, names in found.new_names.items():
                new_names.setdefault(learned[row], []).extend(names)
        return Admitted(records, codes, new_names, new_labels)

    def _before(self, records: Records, row: int) -> Model:
        """What a new key starts as when its first record comes, as far as its room for names goes."""
        if not self.start or self.held or self.model.params.expire_after is None:
            return self.model
        kept = np.arange(row) if records.weights is None else np.flatnonzero(records.weights[:row])
        twin = copy.copy(self.model)
        twin.features = self.model.features.copy()
        twin.features.arrivals(records.values[kept], records.names)
        return twin

    def learn(self, admitted: Admitted, earlier: Predictions | None = None) -> Predictions:
        """Predict each record, then learn it, from one new key to the next."""
        records = admitted.records
        keys, weights, n = records.keys or [], records.weights, len(records)
        for label in admitted.new_labels.values():
            self._space.admit(label)
        predictions = self._no_answers(n)
        with self.cache.learning(_BEHIND):
            done = 0
            while done < n:
                stop = done
                while stop < n and (keys[stop] in self.cache.known or (weights is not None and weights[stop] == 0.0)):
                    stop += 1
                self._learn_part(records, predictions, np.arange(done, stop))
                key = keys[stop] if stop < n else None
                if key is not None:
                    self.cache.set([key], self._models.fresh(1))
                done = stop
        self.learned += n if weights is None else int((weights > 0.0).sum())
        return predictions

    def _learn_part(self, records: Records, predictions: Predictions, rows: NDArray[np.int64]) -> None:
        """Records among which no key is new, key by key."""
        if not rows.size:
            return
        some = records.at(rows)
        if self.start:
            shared = self.model.predict(some) if self.held else self.model.learn(self.model.check(some))
            self._enter(self.model.labels, shared, rows, predictions, alone=True)
        for key, places in self._rows_by_key(some).items():
            at = rows[places]
            model = self._model(key)
            if key is None or key not in self.cache.known:
                if self.start:
                    self._enter(self.model.labels, _rows_of(shared, places), at, predictions)
                continue
            assert model is not None
            self.cache.changed(key)
            found = model.learn(model.check(some.at(places)))
            self._enter(model.labels, found, at, predictions)
        for key, weight in zip(
            some.keys or [], np.ones(len(some)) if some.weights is None else some.weights, strict=True
        ):
            if key is not None and key in self.cache.known and weight > 0.0:
                self.cache.known.move_to_end(key)

    def learn_row(self, key: str | None, x: Mapping[Hashable, Any], y: Any, weight: float) -> None:
        """Learn one record of numbers; one of weight 0, which may have no key, is only checked."""
        model, record = self.model, self.learned + 1
        values = model.features.values_of(x, record)
        weights = None if weight == 1.0 else np.array([weight])
        admitted = self.check(Records(tuple(x), values, [model.target(y, record)], weights, [key], first=record))
        if weight == 0.0:
            return
        assert key is not None
        new = key not in self.cache.known
        own = self._models.fresh(1)[0] if new else self._model(key)
        assert own is not None
        with self.cache.learning(_BEHIND):
            if self.start and not self.held:
                model.learn_row(x, y, weight)
            self.cache.changed(key)
            own.learn_row(x, y, weight)
            if new:
                self.cache.set([key], [own])
            self.cache.known.move_to_end(key)
        for label in admitted.new_labels.values():
            self._space.admit(label)
        self.learned += 1

    def predict_row(self, key: str | None, x: Mapping[Hashable, Any]) -> Floats | None:
        """Probabilities in the order of `classes`, or a value; None before anything was learned."""
        model = self._model(key)
        answered = None if model is None else model.predict_row(x)
        if model is None or answered is None:
            return None
        row: Floats = answered.predictions[0]
        if self._regression:
            return row
        own = model.labels
        found = np.zeros(len(self._space))
        found[[self._space.places[label] for label in own]] = 1.0 if len(own) == 1 else row[: len(own)]
        return found

    def predict(self, records: Records) -> Predictions:
        """Predict each record by its key's model, and by the shared one."""
        n = len(records)
        predictions = self._no_answers(n)
        groups: dict[str | None, list[int]] = {}
        for key, rows in self._rows_by_key(records).items():
            groups.setdefault(key if key in self.cache.known else None, []).extend(rows)
        for key, rows in groups.items():
            model = self._model(key)
            if model is not None:
                self._enter(model.labels, model.predict(records.at(rows)), np.array(rows), predictions)
        if self.start and n:
            self._enter(self.model.labels, self.model.predict(records), np.arange(n), predictions, alone=True)
        return predictions

    def _no_answers(self, n: int) -> Predictions:
        own = np.full((n, len(self.learner_names)), 0.0 if self._regression else -1.0)
        return Predictions(np.zeros((n, 1 if self._regression else len(self._space))), own)

    def _enter(
        self,
        classes: Sequence[Hashable],
        answers: Predictions,
        rows: NDArray[np.int64],
        predictions: Predictions,
        alone: bool = False,
    ) -> None:
        """Enter the answers of a model of these classes to some rows; `alone`: as those of the shared model."""
        n, found = answers.own.shape[1], answers.values
        if self._regression:
            if alone:
                predictions.own[rows, -1] = found[:, 0]
            else:
                predictions.values[rows], predictions.own[rows, :n] = found, answers.own
            return
        places = np.array([self._space.places[label] for label in classes], dtype=np.int64)
        if alone:
            likeliest = places[found.argmax(axis=1)] if places.size else np.full(rows.size, -1)
            predictions.own[rows, -1] = np.where(found.any(axis=1), likeliest, -1)
            return
        predictions.values[np.ix_(rows, places)] = found
        own = answers.own.astype(np.int64)
        predictions.own[rows, :n] = np.where(own >= 0, np.append(places, -1)[own], -1)

    def _later(self, key: str, arrays: Arrays) -> dict[str, InParts]:
        """The arrays of a key's model, made again when they are wanted, so that one model at a time is in memory."""

        def part(name: str) -> list[NDArray[Any]]:
            if name == first:
                found.update(self._look(key).snapshot()[1])
            return [found.pop(name)]

        first, found = next(iter(arrays), ""), dict[str, NDArray[Any]]()
        return {name: InParts(array.dtype, array.shape, partial(part, name)) for name, array in arrays.items()}

    def forget_key(self, key: str) -> None:
        """Forget a key that is known, and with the last one the classes that keys alone have seen."""
        self.cache.forget(key)
        if not self.cache.known:
            self._space = ClassSpace(int(self.model.params.max_classes))
            for label in self.model.labels:
                self._space.admit(label)

    def snapshot_key(self, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The model of one key."""
        return self._look(key).snapshot()

    def restore_key(self, key: str, metadata: Any, arrays: Arrays, learners: Any) -> None:
        """Let a key have that, whatever it had before."""
        if self._settings is None:
            self._settings = _settings(self.model.snapshot()[0])
        if _settings(metadata) != self._settings:
            raise BraidedError("the key's model has other settings than the fleet's: give the fleet that it is from")
        model = _restored(self.model.task, metadata, arrays, learners)
        self._space.check_room([label for label in model.labels if label not in self._space.places])
        more = 0 if self.start else model.records_learned
        if key in self.cache.known and not self.start:
            more -= self._look(key).records_learned
        self.cache.make_ready()
        for label in model.labels:
            self._space.admit(label)
        self.cache.set([key], [model])
        self.learned += more

    def snapshot(self, in_parts: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Everything needed to go on exactly from here; what keys have as arrays, or `InParts`."""
        self.cache.check_whole()
        model, arrays = self.model.snapshot()
        found: dict[str, Any] = prefixed(SHARED, arrays)
        models = []
        for place, key in enumerate(self.cache.known):
            one, own = self._look(key).snapshot()
            models.append(one)
            found |= prefixed(f"key {place}", self._later(key, own) if in_parts else own)
        labels = [pack_name(label) for label in self.classes]
        return {"model": model, "texts": list(self.cache.known), "models": models, "labels": labels}, found

    def load(self, metadata: Any, arrays: Arrays, learners: Any) -> None:
        """Take over a `snapshot`; refused if keys that are too many for memory cannot be put on disk."""
        task, shared = self.model.task, checked(_WHAT, metadata, "model", dict)
        self._models.shared, self._settings = _restored(task, shared, unprefixed(SHARED, arrays), learners), None
        models = checked(_WHAT, metadata, "models", list)
        keys = restored_keys(_WHAT, metadata, len(models))
        if len(keys) > self.cache.limits.max_keys:
            raise BraidedError(f"{_WHAT} has {len(keys)} keys, and that is too many; {REMEDY}")
        self._load_labels(unpack_names("labels", checked(_WHAT, metadata, "labels", list)))
        own = _by_key(arrays)
        for place, key in enumerate(keys):
            if not isinstance(one := models[place], dict):
                raise BraidedError(f"{_WHAT}: the model of a key is {one!r:.60}; {REMEDY}")
            check_same_settings(_WHAT, shared, one)
            model = _restored(task, one, own.get(place, {}), learners)
            if not set(model.labels) <= set(self._space.places):
                raise BraidedError(f"{_WHAT}: a key has classes that the fleet does not; {REMEDY}")
            self.cache.set([key], [model])
            self.cache.make_ready()

    def _load_labels(self, names: Sequence[Hashable]) -> None:
        """Take over the classes of all keys: as many as there may be, with those of the shared model."""
        labels = list(dict.fromkeys(self._space.label(label, 0) for label in names))
        self._space.check_room(labels)
        for label in labels:
            self._space.admit(label)
        if not set(self.model.labels) <= set(self._space.places):
            raise BraidedError(f"{_WHAT}: its labels lack some of the shared model's; {REMEDY}")


def _rows_of(predictions: Predictions, rows: list[int]) -> Predictions:
    return Predictions(predictions.values[rows], predictions.own[rows])


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
