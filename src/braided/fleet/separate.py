"""A whole model for each key: `share="none"` and `share="start"`."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.model import Model
from braided.estimators.names import ClassSpace
from braided.fleet.cache import WHAT, KeyCache, KeyLimits, counted_rows, keys_of, likeliest, restored_keys
from braided.records import Admitted, Predictions, Records
from braided.store import REMEDY, Arrays, InParts, checked, pack_name, prefixed, state_digest, unpack_names


class KeyModels(KeyCache[Model]):
    """A model for each key, which learns the records of that key alone.

    A new key starts from nothing; with `start`, as a copy of a model that learns every record.
    """

    kind = "FleetModel"

    def __init__(self, model: Model, limits: KeyLimits, start: bool) -> None:
        super().__init__(model, limits)
        self.shares = start
        self._space = ClassSpace(int(model.params.max_classes))

    def fresh(self) -> Model:
        """The model of a new key."""
        return copy.deepcopy(self.model) if self.shares else Model(self.model.task, self.model.params)

    def pack(self, value: Model) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The metadata and arrays of one model."""
        return value.snapshot()

    def unpack(self, metadata: Any, arrays: Arrays) -> Model:
        """A model with the fleet's parameters."""
        model = Model(self.model.task, self.model.params)
        model.load(metadata, arrays)
        return model

    def digest(self) -> str:
        """A SHA-256 over all that keys share; without a shared model each has all that it needs."""
        return state_digest(self.model) if self.shares else ""

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, by any key."""
        return list(self._space.places)

    def check(self, records: Records) -> Admitted:
        """Refuse records that some model cannot learn, all or none; nothing changes."""
        self.check_room(records)
        rows = counted_rows(records)
        codes, new_labels = self.model.codes(records, self._space)
        self._space.check_room(list(new_labels.values()))
        if self.shares and not self.held:
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
        if not self.shares or self.held or self.model.params.expire_after is None:
            return self.model
        twin = copy.copy(self.model)
        twin.features = self.model.features.copy()
        twin.features.arrivals(records.values[earlier], records.names)
        return twin

    def learn(self, admitted: Admitted) -> Predictions:
        """Predict each record, then learn it, from one new key to the next."""
        records, counted = admitted.records, counted_rows(admitted.records)
        keys = [*keys_of(records), None]
        for label in admitted.new_labels.values():
            self._space.admit(label)
        predictions, start = self._no_answers(len(records)), 0
        with self.learning():
            for row in [*counted.tolist(), len(records)]:
                if keys[row] in self.known:
                    continue
                self._run(records.part(start, row), predictions.part(start, row), learn=True)
                if row < len(records):
                    self.set(keys[row], self.fresh())
                start = row
        self.learned += counted.size
        return predictions

    def learn_row(self, admitted: Admitted, x: Mapping[Hashable, Any]) -> None:
        """Learn a record that counts; where labels are late, coverage is judged by what was said when it came."""
        records = admitted.records
        (key,), (y,) = keys_of(records), records.known_targets
        weight = 1.0 if records.weights is None else float(records.weights[0])
        for label in admitted.new_labels.values():
            self._space.admit(label)
        with self.learning():
            if key not in self.known:
                self.set(key, self.fresh())
            (own,) = self.use([key], [True])
            for model in (self.model, own) if self.shares and not self.held else (own,):
                model.learn_row(x, y, weight)
        self.learned += 1

    def _run(self, records: Records, predictions: Predictions, learn: bool) -> None:
        """Enter what models answer to records among which no key is new, each asked for those of its key."""

        def ask(model: Model, some: Records, learn: bool = learn) -> Predictions:
            # `check` has admitted the whole chunk; here it finds what of it is new to this model as it is by now.
            return model.learn(model.check(some)) if learn else model.predict(some, sure=False)

        if not len(records):
            return
        n, keys, weights = len(self.model.learner_names), keys_of(records), records.weights
        if self.shares:
            shared = ask(self.model, records, learn and not self.held)
            predictions.own[:, n] = self._placed(self.model, likeliest(shared.values, self.model.regression))
        for key, rows in _rows_by_key(records, np.arange(len(records))).items():
            if key in self.known:
                (model,) = self.use([key], [learn and (weights is None or bool(weights[rows].any()))])
                found = ask(model, records.at(rows))
            elif self.shares:
                model, found = self.model, Predictions(shared.values[rows], shared.own[rows])
            else:
                continue
            columns = np.arange(found.values.shape[1])
            predictions.values[np.ix_(np.array(rows), self._placed(model, columns))] = found.values
            predictions.own[rows, :n] = self._placed(model, found.own)
        for row in counted_rows(records).tolist() if learn else ():
            self.known.move_to_end(keys[row])

    def predict_row(self, key: str | None, x: Mapping[Hashable, Any]) -> NDArray[np.float64] | None:
        """Probabilities in the order of `classes`, or a value; None before anything was learned."""
        (model,) = self.use([key], [False])
        if model is None and self.shares:
            model = self.model
        answered = None if model is None else model.predict_row(x)
        if answered is None:
            return None
        row: NDArray[np.float64] = answered.predictions[0]
        if model.regression:
            return row
        n, found = len(model.classes), np.zeros(len(self._space))
        found[self._placed(model, np.arange(n))] = 1.0 if n == 1 else row[:n]
        return found

    def predict(self, records: Records) -> Predictions:
        """Predict each record by its key's model, and by the shared one."""
        predictions = self._no_answers(len(records))
        self._run(records, predictions, learn=False)
        return predictions

    def _no_answers(self, n: int) -> Predictions:
        regression = self.model.regression
        own = np.full((n, len(self.learner_names)), 0.0 if regression else -1.0)
        return Predictions(np.zeros((n, 1 if regression else len(self._space))), own)

    def _placed(self, model: Model, answers: NDArray[Any]) -> NDArray[Any]:
        """A model's answers with the places of its classes among those of all keys, -1 for none; or its numbers."""
        if model.regression:
            return answers
        places = [*(self._space.places[label] for label in model.classes.places), -1]
        return np.array(places)[answers.astype(np.int64)]

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
        model = self.unpack(metadata, arrays)
        self._space.check_room([label for label in model.labels if label not in self._space.places])
        before = self.look(key).records_learned if key in self.known else 0
        self.make_ready()
        self.set(key, model)
        for label in model.labels:
            self._space.admit(label)
        if not self.shares:
            self.learned += model.records_learned - before

    def snapshot(self, later: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """What keys have, to go on exactly from here; `later`: with the arrays of one model at a time in memory."""
        models, found = [], dict[str, Any]()
        for place, key in enumerate(self.known):
            one, arrays = self.snapshot_key(key)
            del one["parameters"]
            models.append(one)
            found |= prefixed(f"key {place}", self._later(key, arrays) if later else arrays)
        labels = [pack_name(label) for label in self.classes]
        return {"texts": list(self.known), "models": models, "labels": labels}, found

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
        names = unpack_names("labels", checked(WHAT, metadata, "labels", list))
        labels = list(dict.fromkeys(self._space.label(label, 0) for label in names))
        self._space.check_room(labels)
        for label in labels:
            self._space.admit(label)
        used = set(self.model.labels)
        keys, models = restored_keys(WHAT, metadata), checked(WHAT, metadata, "models", list)
        if len(keys) != len(models):
            raise BraidedError(f"{WHAT} has {len(keys)} keys and {len(models)} models; {REMEDY}")
        own = defaultdict[str, dict[str, NDArray[Any]]](dict)
        for name, array in arrays.items():
            prefix, _, rest = name.partition("/")
            own[prefix][rest] = array
        for place, (key, one) in enumerate(zip(keys, models, strict=True)):
            if not isinstance(one, dict):
                raise BraidedError(f"{WHAT}: the model of a key is {one!r:.60}; {REMEDY}")
            model = self.unpack(one, own[f"key {place}"])
            used.update(model.labels)
            self.set(key, model)
            self.make_ready()
        if not used <= self._space.places.keys():
            raise BraidedError(f"{WHAT}: a model has classes that the fleet does not; {REMEDY}")


def _rows_by_key(records: Records, rows: NDArray[np.int64]) -> dict[str | None, list[int]]:
    """Some rows of records, by their key."""
    keys, groups = keys_of(records), dict[str | None, list[int]]()
    for row in rows.tolist():
        groups.setdefault(keys[row], []).append(row)
    return groups
