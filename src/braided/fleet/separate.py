"""A whole model for each key: `share="none"` and `share="start"`."""

from __future__ import annotations

import copy
import json
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.model import Model
from braided.estimators.names import ClassSpace
from braided.fleet.cache import SHARED, WHAT, KeyCache, KeyLimits, counted_rows
from braided.records import Admitted, Predictions, Records
from braided.store import (
    REMEDY,
    Arrays,
    Checkpoint,
    InParts,
    checked,
    pack_name,
    prefixed,
    state_digest,
    unpack_names,
)

Floats = NDArray[np.float64]


class KeyModels(KeyCache[Model]):
    """A model for each key, which learns the records of that key alone.

    Parameters
    ----------
    model
        What a new key starts as; it has learned nothing yet. Under `start` it learns every record.
    limits
        How many keys there may be, and how many models in memory.
    start
        Whether there is a model that learns every record, of which a new key starts as a copy.
    """

    kind = "FleetModel"

    def __init__(self, model: Model, limits: KeyLimits, start: bool) -> None:
        super().__init__(model, limits)
        self.start = start
        self._space = ClassSpace(int(model.params.max_classes))

    def fresh(self) -> Model:
        """The model of a new key."""
        return copy.deepcopy(self.model) if self.start else Model(self.model.task, self.model.params)

    def pack(self, value: Model) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The metadata and arrays of one model."""
        return value.snapshot()

    def unpack(self, checkpoint: Checkpoint) -> Model:
        """The model in a file, checked."""
        return self._restored(checkpoint.metadata, checkpoint.arrays)

    def _restored(self, metadata: Any, arrays: Arrays) -> Model:
        """A model out of a file."""
        model = Model(self.model.task, self.model.params)
        model.load(metadata, arrays)
        return model

    def digest(self) -> str:
        """A SHA-256 over all that keys share; without a shared model each has all that it needs."""
        return state_digest(self.model) if self.start else ""

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
        (model,) = self.use([key], [False])
        return self.model if model is None and self.start else model

    def check(self, records: Records) -> Admitted:
        """Refuse records that some model cannot learn, all or none; nothing changes."""
        self.check_room(records)
        rows = counted_rows(records)
        codes, new_labels = self.model.codes(records, None if records.weights is None else rows, self._space)
        self._space.check_room(list(new_labels.values()))
        if self.start and not self.held:
            self.model.check(records)
        new_names: dict[int, list[Hashable]] = {}
        for key, own in _rows_by_key(records, rows).items():
            assert key is not None, "refused by check_room"
            model = self.look(key) if key in self.known else self._before(records, rows[rows < own[0]])
            found = model.check(records.at(own))
            new_names |= {own[row]: names for row, names in found.new_names.items()}
        return Admitted(records, codes, new_names, new_labels)

    def _before(self, records: Records, earlier: NDArray[np.int64]) -> Model:
        """What a new key starts as after the shared model has learned earlier records, as far as its names go."""
        if not self.start or self.held or self.model.params.expire_after is None:
            return self.model
        twin = copy.copy(self.model)
        twin.features = self.model.features.copy()
        twin.features.arrivals(records.values[earlier], records.names)
        return twin

    def learn(self, admitted: Admitted, x: Mapping[Hashable, Any] | None = None) -> Predictions:
        """Predict each record, then learn it, from one new key to the next.

        `x` is a record that is learned alone: where labels are late, coverage is judged by what was said when it came.
        """
        records = admitted.records
        n, counted = len(records), counted_rows(records)
        for label in admitted.new_labels.values():
            self._space.admit(label)
        predictions, start = self._no_answers(n), 0
        with self.learning("may have learned a part of it"):
            for row, key in zip([*counted.tolist(), n], [*_keys_of(records, counted), None], strict=True):
                if key in self.known:
                    continue
                self._learn_part(records.part(start, row), start, predictions, x)
                if key is not None:
                    self.set(key, self.fresh())
                start = row
        self.learned += len(counted)
        return predictions

    def _learn_part(
        self, records: Records, start: int, predictions: Predictions, x: Mapping[Hashable, Any] | None
    ) -> None:
        """Records among which no key is new, key by key; the first of them has the row `start` among predictions."""
        if not len(records):
            return

        def learned(model: Model, records: Records) -> Predictions:
            return model.learn(model.check(records), None if x is None else model.earlier(x))

        if self.start:
            shared = self.model.predict(records) if self.held else learned(self.model, records)
            self._enter(self.model, shared, start + np.arange(len(records)), predictions, alone=True)
        counted = counted_rows(records)
        for key, rows in _rows_by_key(records, np.arange(len(records))).items():
            if key in self.known:
                (model,) = self.use([key], [bool(np.isin(rows, counted).any())])
                self._enter(model, learned(model, records.at(rows)), start + np.array(rows), predictions)
            elif self.start:
                answers = Predictions(shared.values[rows], shared.own[rows])
                self._enter(self.model, answers, start + np.array(rows), predictions)
        for key in _keys_of(records, counted):
            if key is not None:
                self.known.move_to_end(key)

    def predict_row(self, key: str | None, x: Mapping[Hashable, Any]) -> Floats | None:
        """Probabilities in the order of `classes`, or a value; None before anything was learned."""
        model = self._model(key)
        answered = None if model is None else model.predict_row(x)
        if model is None or answered is None:
            return None
        row: Floats = answered.predictions[0]
        if model.regression:
            return row
        found = np.zeros(len(self._space))
        found[self._places(model)] = 1.0 if len(model.classes) == 1 else row[: len(model.classes)]
        return found

    def predict(self, records: Records) -> Predictions:
        """Predict each record by its key's model, and by the shared one."""
        rows = np.arange(len(records))
        predictions = self._no_answers(len(records))
        groups: dict[str | None, list[int]] = {}
        for key, own in _rows_by_key(records, rows).items():
            groups.setdefault(key if key in self.known else None, []).extend(own)
        for key, own in groups.items():
            model = self._model(key)
            if model is not None:
                self._enter(model, model.predict(records.at(own)), np.array(own), predictions)
        if self.start and len(records):
            self._enter(self.model, self.model.predict(records), rows, predictions, alone=True)
        return predictions

    def _no_answers(self, n: int) -> Predictions:
        regression = self.model.regression
        own = np.full((n, len(self.learner_names)), 0.0 if regression else -1.0)
        return Predictions(np.zeros((n, 1 if regression else len(self._space))), own)

    def _places(self, model: Model) -> NDArray[np.int64]:
        """The places of a model's classes among those of all keys."""
        return np.array([self._space.places[label] for label in model.classes.places], dtype=np.int64)

    def _enter(
        self,
        model: Model,
        answers: Predictions,
        rows: NDArray[np.int64],
        predictions: Predictions,
        alone: bool = False,
    ) -> None:
        """Enter the answers of a model to some rows; `alone`: as those of the shared model."""
        n, found = answers.own.shape[1], answers.values
        if model.regression:
            if alone:
                predictions.own[rows, -1] = found[:, 0]
            else:
                predictions.values[rows], predictions.own[rows, :n] = found, answers.own
            return
        places = self._places(model)
        if alone:
            likeliest = places[found.argmax(axis=1)] if places.size else np.full(rows.size, -1)
            predictions.own[rows, -1] = np.where(found.any(axis=1), likeliest, -1)
            return
        predictions.values[np.ix_(rows, places)] = found
        own = answers.own.astype(np.int64)
        predictions.own[rows, :n] = np.where(own >= 0, np.append(places, -1)[own], -1)

    def forget_key(self, key: str) -> None:
        """Forget a key that is known, and with the last one the classes that keys alone have seen."""
        super().forget_key(key)
        if not self.known:
            self._space = ClassSpace(int(self.model.params.max_classes))
            for label in self.model.labels:
                self._space.admit(label)

    def restore_key(self, key: str, metadata: Any, arrays: Arrays) -> None:
        """Let a key have what `snapshot_key` gave, whatever it had before."""
        given, own = checked(WHAT, metadata, "parameters", dict), self.model.params.to_json()
        if json.dumps(given, sort_keys=True) != json.dumps(own, sort_keys=True):
            raise BraidedError("the key's model has other settings than the fleet's: give the fleet that it is from")
        model = self._restored(metadata, arrays)
        self._space.check_room([label for label in model.labels if label not in self._space.places])
        more = 0 if self.start else model.records_learned
        if key in self.known and not self.start:
            more -= self.look(key).records_learned
        self.make_ready()
        for label in model.labels:
            self._space.admit(label)
        self.set(key, model)
        self.learned += more

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Everything needed to go on exactly from here, with the arrays of one key's model at a time in memory."""
        metadata, found = self._snapshot()
        metadata |= {"models": [], "labels": [pack_name(label) for label in self.classes]}
        for place, key in enumerate(self.known):
            one, arrays = self.snapshot_key(key)
            del one["parameters"]
            metadata["models"].append(one)
            found |= prefixed(f"key {place}", self._later(key, arrays))
        return metadata, found

    def _later(self, key: str, arrays: Arrays) -> dict[str, InParts]:
        """The arrays of a key's model, made again when the first of them is wanted."""

        def part(name: str) -> list[NDArray[Any]]:
            if name == first:
                found.update(self.snapshot_key(key)[1])
            return [found.pop(name)]

        first, found = next(iter(arrays), ""), dict[str, NDArray[Any]]()
        return {name: InParts(array.dtype, array.shape, partial(part, name)) for name, array in arrays.items()}

    def load(self, metadata: Any, arrays: Arrays) -> None:
        """Take over a `snapshot`, before anything was learned; what could not be one is refused."""
        super().load(metadata, arrays)
        names = unpack_names("labels", checked(WHAT, metadata, "labels", list))
        labels = list(dict.fromkeys(self._space.label(label, 0) for label in names))
        self._space.check_room(labels)
        for label in labels:
            self._space.admit(label)
        self._check_labels(self.model)
        models, own = checked(WHAT, metadata, "models", list), _by_key(arrays)
        self._load_keys(metadata, len(models), (self._loaded(one, own.get(i, {})) for i, one in enumerate(models)))

    def _loaded(self, metadata: Any, arrays: Arrays) -> Model:
        """One of the models in a file."""
        if not isinstance(metadata, dict):
            raise BraidedError(f"{WHAT}: the model of a key is {metadata!r:.60}; {REMEDY}")
        model = self._restored(metadata, arrays)
        self._check_labels(model)
        return model

    def _check_labels(self, model: Model) -> None:
        if not model.classes.places.keys() <= self._space.places.keys():
            raise BraidedError(f"{WHAT}: a model has classes that the fleet does not; {REMEDY}")


def _rows_by_key(records: Records, rows: NDArray[np.int64]) -> dict[str | None, list[int]]:
    """Some rows of records, by their key."""
    groups: dict[str | None, list[int]] = {}
    for row, key in zip(rows.tolist(), _keys_of(records, rows), strict=True):
        groups.setdefault(key, []).append(row)
    return groups


def _keys_of(records: Records, rows: NDArray[np.int64]) -> list[str | None]:
    return [None] * len(rows) if records.keys is None else [records.keys[row] for row in rows.tolist()]


def _by_key(arrays: Arrays) -> dict[int, dict[str, NDArray[Any]]]:
    """The arrays of each key's model by its place, in one pass: there may be thousands."""
    found: dict[int, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        prefix, _, rest = name.partition("/")
        place = prefix.removeprefix("key ")
        if prefix != place and place.isascii() and place.isdigit() and len(place) < 12:
            found.setdefault(int(place), {})[rest] = array
    return found
