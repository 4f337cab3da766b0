"""One shared model, and learners of each key's own around it: `share="braid"`."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.model import Model
from braided.estimators.params import ModelParams
from braided.fleet.cache import KeyLimits
from braided.fleet.key_learners import KeyLearners
from braided.records import Admitted, Predictions, Records
from braided.store import checked, prefixed, state_digest, unprefixed

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]
#: What the shared model alone is called among the learners.
SHARED = "shared"
_KEYS = "keys"


class SharedModel:
    """A model that learns every record, with `KeyLearners` around it.

    Parameters
    ----------
    model
        The model; it has learned nothing yet.
    limits
        How many keys there may be.

    Attributes
    ----------
    learned
        How many records were learned.
    """

    def __init__(self, model: Model, limits: KeyLimits) -> None:
        self.model = model
        self.own = KeyLearners(model.regression, int(model.params.seed), limits)
        self.cache = self.own.cache
        self.learned = 0

    def hold(self) -> None:
        """Let keys alone learn from now on."""
        self.own.hold()

    @property
    def held(self) -> bool:
        """Whether keys alone learn."""
        return self.own.held

    def digest(self) -> str:
        """A SHA-256 over all that keys share."""
        digest = hashlib.sha256(state_digest(self.model).encode())
        digest.update(repr(list(self.own.names)).encode())
        for array in (self.own.statistics, self.own.fleet):
            digest.update(array.tobytes())
        return digest.hexdigest()

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far."""
        return self.model.labels

    @property
    def learner_names(self) -> list[str]:
        """Those of the shared model, and that model itself."""
        return [*self.model.learner_names, SHARED]

    def check(self, records: Records) -> Admitted:
        """Refuse records that cannot be learned, all or none; nothing changes.

        Where the shared model is held, a label that it does not know teaches its key nothing.
        """
        self.cache.check_room(records)
        if self.held:
            return Admitted(records, self.model.codes(records)[0], {}, {})
        return self.model.check(records)

    def learn(self, admitted: Admitted, earlier: Predictions | None = None) -> Predictions:
        """Predict each record, then learn it, by the shared model and by the keys; `earlier` as of `Model.learn`."""
        return self._with_own(*self._learn(admitted, earlier))

    def _learn(self, admitted: Admitted, earlier: Predictions | None) -> tuple[Predictions, Floats]:
        """The shared model's predictions, and those with the keys' learners."""
        first = self.model.records_learned == 0
        shared = self.model.predict(admitted.records) if self.held else self.model.learn(admitted, earlier)
        behind = "may have learned a part of it" if self.held else "have not learned what the shared model has"
        with self.cache.learning(behind):
            values = self.own.learn(admitted, shared.values, first)
        weights = admitted.records.weights
        self.learned += len(admitted.records) if weights is None else int((weights > 0.0).sum())
        return shared, values

    def learn_row(self, key: str | None, x: Mapping[Hashable, Any], y: Any, weight: float) -> None:
        """Learn one record of numbers; one of weight 0, which may have no key, is only checked."""
        admitted = self.check(self._one(key, x, [self.model.target(y, self.learned + 1)], weight))
        if weight > 0.0:
            self._learn(admitted, None if self.held else self.model.earlier(x))

    def _one(
        self, key: str | None, x: Mapping[Hashable, Any], targets: list[Any] | None, weight: float = 1.0
    ) -> Records:
        values = self.model.features.values_of(x, self.learned + 1)
        weights = None if weight == 1.0 else np.array([weight])
        return Records(tuple(x), values, targets, weights, [key], first=self.learned + 1)

    def predict_row(self, key: str | None, x: Mapping[Hashable, Any]) -> Floats | None:
        """Probabilities in the order of `classes`, or a value; None before anything was learned."""
        answered = self.model.predict_row(x, keep=not self.held)
        if answered is None:
            return None
        n = 1 if self.model.regression else len(self.model.classes)
        shared = np.ones((1, 1)) if n == 1 and not self.model.regression else answered.predictions[:, :n].copy()
        found: Floats = shared[0]
        if key is not None and key in self.cache.known:
            found = self.own.predict(self._one(key, x, None), shared)[0]
        return found

    def predict(self, records: Records) -> Predictions:
        """Predict the records."""
        shared = self.model.predict(records)
        values = shared.values
        if self.model.records_learned:
            values = self.own.predict(records, values)
        return self._with_own(shared, values)

    def _with_own(self, shared: Predictions, values: Floats) -> Predictions:
        """The predictions with the keys' learners, and the shared model's answer as one more learner's."""
        alone = shared.values
        if self.model.regression:
            answers = alone[:, 0]
        else:
            answers = np.where(alone.any(axis=1), alone.argmax(axis=1) if alone.shape[1] else 0, -1)
        return Predictions(values, np.column_stack([shared.own, answers]).astype(np.float64))

    def forget_key(self, key: str) -> None:
        """Forget a key that is known."""
        self.cache.forget(key)

    def snapshot_key(self, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What one key has of its own."""
        return self.own.snapshot_key(key)

    def restore_key(self, key: str, metadata: Any, arrays: Arrays, learners: Any) -> None:
        """Let a key have that; what it has learned is not counted."""
        self.own.restore_key(key, metadata, arrays)

    def snapshot(self, in_parts: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Everything needed to go on exactly from here; what is large as arrays, or `InParts`."""
        self.cache.check_whole()
        model, arrays = self.model.snapshot()
        own, rows = self.own.snapshot(in_parts)
        return {"model": model, "own": own}, {**prefixed(SHARED, arrays), **prefixed(_KEYS, rows)}

    def load(self, metadata: Any, arrays: Arrays, learners: Any) -> None:
        """Take over a `snapshot`."""
        about = checked("the fleet", metadata, "model", dict)
        self.model = Model(self.model.task, ModelParams.of_metadata(about, learners))
        self.model.load(about, unprefixed(SHARED, arrays))
        own = checked("the fleet", metadata, "own", dict)
        self.own.load(len(self.model.classes), own, unprefixed(_KEYS, arrays))
        if self.cache.known and not self.model.records_learned:
            raise BraidedError("the fleet has keys, and its shared model has learned nothing; give a file from save")
