"""A model for each key, with shared strength."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from river import base

from braided import checks
from braided.encode.encoder import Encoder as RawEncoder
from braided.encode.saved import pack_encoder
from braided.errors import BraidedError
from braided.estimators import ESTIMATORS, cards
from braided.estimators.arrays import column_of, frame_of, is_sparse, n_records, records_of
from braided.estimators.base import MODL
from braided.estimators.lock import ModelLock
from braided.estimators.params import REGRESSION
from braided.fleet.cache import SHARED, WHAT, KeyLimits, restored_key
from braided.fleet.key_learners import KeyLearners
from braided.fleet.separate import KeyModels
from braided.records import Predictions, Records, join_predictions
from braided.store import REMEDY, checked, pack_name, parts_of, prefixed, read, unpack_name, unprefixed, write
from braided.values import as_weight, key_text, shown

if TYPE_CHECKING:
    from braided.estimators.frames import Frame

BRAID, START, NONE = SHARES = ("braid", "start", "none")
OLDEST = "oldest"
#: The parameters but for the model, and the folder, which is of one machine.
_SETTINGS = ("key", "share", "in_memory", "max_keys", "evict")
#: What a checkpoint calls a fleet.
KIND = "Fleet"
#: The number of keys, or whole models, in memory if none is given.
_IN_MEMORY = {BRAID: 100_000, START: 500, NONE: 500}
_MAX_KEYS = 10**9
#: Of a chunk as many records are learned at a time as take these seconds of processor time: first and at least so many.
_SECONDS, _FIRST, _LEAST = 0.005, 32, 4
_TEMPLATE, _KEYS = "template", "keys"


class Fleet(base.Wrapper[Any], base.Estimator):
    """A model for each key: machines, customers, stations, each with a concept of its own, and strength in common.

    The key is a field of the record, or a column, and is no feature. What a key's model is depends on `share`:

    - `braid`: one shared model learns every record. Beside it a key has learners in closed form of a few kilobytes, a
      posterior around what the shared model says, and weights that start as those of the whole fleet. A new key is the
      shared model exactly; the more a key has learned, the more it has a concept of its own. The formulas are in
      `braided.fleet.KeyLearners`.
    - `start`: a whole model for each key, which begins as a copy of one that learns every record.
    - `none`: a whole model for each key, which begins from nothing.

    Parameters
    ----------
    model
        A `MODLClassifier` or `MODLRegressor` that has learned nothing; it is copied.
    key
        The name of the field or column with the key: text, a whole number, or true or false. A key is its text without
        spaces around it: `7`, `7.0` and `"7"` are one key, `True` is `"true"`. A record without a key, or with a blank
        one, can be predicted, by what is shared, and not learned.
    share
        `braid`, `start` or `none`.
    in_memory
        The number of keys in memory, those used last; the others are on disk, as checkpoints. Answers are the same.
        None: 100,000 for `braid`, at 3.5 to 20.5 kB each, and 500 for whole models.
    folder
        Where those on disk are: in a file without a name, which goes with the fleet or its process, however that ends.
        The folder of temporary files if None.
    max_keys
        Limit beyond which a record with a new key is refused, so that a stream gone wrong cannot fill the disk.
    evict
        None, or `oldest`: beyond `max_keys`, the key that has learned nothing for longest is forgotten instead.

    Examples
    --------
    >>> from braided import Fleet, MODLRegressor
    >>> from river import datasets, evaluate, metrics
    >>> fleet = Fleet(MODLRegressor(), key="chick")
    >>> error = evaluate.progressive_val_score(datasets.ChickWeights(), fleet, metrics.MAE())
    >>> print(f"{error.get():.0f}, {fleet.n_keys} keys")
    7, 50 keys
    """

    def __new__(cls, model: Any = None, *arguments: Any, **settings: Any) -> Self:
        """One that River takes for a classifier, or for a regressor, as the model is."""
        kind: Any = cls
        if cls is Fleet:
            kind = FleetRegressor if getattr(model, "task", None) == REGRESSION else FleetClassifier
        made: Self = super().__new__(kind)
        return made

    def __init__(
        self,
        model: MODL,
        key: Hashable,
        share: str = BRAID,
        in_memory: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        max_keys: int = 1_000_000,
        evict: str | None = None,
    ) -> None:
        self.model = model
        self.key = key
        self.share = share
        self.in_memory = in_memory
        self.folder = folder
        self.max_keys = max_keys
        self.evict = evict
        self._check_settings()
        self._lock = ModelLock()
        self._start_over()
        #: A digest of what keys share, once it is held.
        self._shared_digest = ""

    def _start_over(self) -> None:
        """Make what is inside of copies of the model."""
        fresh, in_memory = self.model.clone(), self.in_memory or _IN_MEMORY[self.share]
        limits = KeyLimits(in_memory, self.folder, self.max_keys, self.evict == OLDEST, self.key)
        self._encoder = fresh.encoder
        self._inside: KeyLearners | KeyModels
        if self.share == BRAID:
            self._inside = KeyLearners(fresh.core, limits)
        else:
            self._inside = KeyModels(fresh.core, limits, self.share == START)

    def _check_settings(self) -> None:
        if not isinstance(self.model, MODL):
            raise BraidedError(f"model is {shown(self.model)}: give a MODLClassifier or MODLRegressor")
        if self.model.records_learned:
            raise BraidedError("the model has learned something, and a fleet starts from nothing: give a new one")
        if not self.model.core.decision.plain:
            raise BraidedError(
                "the model chooses its answers by decision, class_weight or costs, and a fleet answers with the "
                "likeliest class: leave them out"
            )
        checks.choice("share", self.share, SHARES)
        if self.evict not in (None, OLDEST):
            raise BraidedError(f"evict is {shown(self.evict)}: give None or {OLDEST!r}")
        in_memory = 1 if self.in_memory is None else self.in_memory
        for name, value in (("in_memory", in_memory), ("max_keys", self.max_keys)):
            if type(value) is not int or not 1 <= value <= _MAX_KEYS:
                raise BraidedError(f"{name} is {shown(value)}: give a whole number from 1 to {_MAX_KEYS:,}")
        pack_name(self.key)

    @property
    def _wrapped_model(self) -> Any:
        return self.model

    def __repr__(self) -> str:
        task = "regressor" if self.task == REGRESSION else "classifier"
        return f"Fleet({task} by {self.key!r}, share={self.share!r}, {self.n_keys:,} keys)"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        about = f"a {type(self.model).__name__} for each {self.key}, share {self.share}"
        figures = [(f"{self.records_learned:,}", "records learned"), (f"{self.n_keys:,}", "keys")]
        return cards.card("Fleet", about, figures)

    @property
    def task(self) -> str:
        """`classification` or `regression`."""
        return self.model.task

    @property
    def core(self) -> KeyLearners | KeyModels:
        """The fleet of numbers behind the conversions; whoever uses it holds `lock`."""
        return self._inside

    @property
    def lock(self) -> ModelLock:
        """Held by each method while it uses the fleet; to be entered around several that belong together."""
        return self._lock

    def without_encoder(self) -> Self:
        """The same fleet for records that are numbers already: it shares all but the encoder."""
        view = type(self).__new__(type(self), self.model)
        view.__dict__.update({**vars(self), "_encoder": None})
        return view

    @property
    def shared(self) -> MODL | None:
        """The model that learns every record, to be asked; None if there is none."""
        return None if self.share == NONE else type(self.model)._around(self._inside.model, self._lock, self._encoder)

    @property
    def keys(self) -> list[str]:
        """The keys that have learned something, as their text, those that did last at the end."""
        return list(self._inside.known)

    @property
    def n_keys(self) -> int:
        """How many keys there are."""
        return len(self._inside.known)

    @property
    def n_in_memory(self) -> int:
        """How many of them are in memory; the others are on disk."""
        return len(self._inside.resident)

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, in the order of the columns of `predict_proba_many`; none for regression."""
        return self._inside.classes

    @property
    def learner_names(self) -> list[str]:
        """Names of the learners inside, with `shared` for what the shared model alone would say."""
        return self._inside.learner_names

    @property
    def health(self) -> dict[str, dict[str, int]]:
        """Updates that the shared model's learners skipped, and how often they were reset."""
        nothing = {name: {"skipped": 0, "resets": 0} for name in self.learner_names}
        return {**nothing, **self._inside.model.health} if self.share == BRAID else nothing

    @property
    def n_features(self) -> int:
        """How many features the shared model has seen; 0 where there is none."""
        return len(self.feature_names)

    @property
    def feature_names(self) -> list[Hashable]:
        """The features that the shared model has seen."""
        return [] if self.share == NONE else list(self._inside.model.features.slots)

    @property
    def records_learned(self) -> int:
        """How many records this fleet has learned."""
        return self._inside.learned

    def expect_delay(self, delay: int) -> None:
        """Set the delay of labels, before the first record is learned, unless it was given."""
        with self._lock.writing:
            if not self._inside.learned and not self._inside.model.delay:
                self.model, encoder = self.model.clone({"delay": delay}), self._encoder
                self._start_over()
                self._encoder = encoder

    @property
    def encoder(self) -> RawEncoder | None:
        """What makes numbers of raw records, for all keys; None if they are numbers."""
        return self._encoder

    @property
    def shared_is_held(self) -> bool:
        """Whether keys alone learn; see `hold_shared`."""
        return self._inside.held

    def _keyed(self, x: Mapping[Hashable, Any]) -> tuple[str | None, dict[Hashable, Any]]:
        """A record's key, and the record without it."""
        rest = dict(x)
        return key_text(rest.pop(self.key, None), self.key, self._inside.learned + 1), rest

    def _growing(self) -> AbstractContextManager[Any]:
        """Within this, what raw records settle is taken back if they are refused."""
        return nullcontext() if self._encoder is None else self._encoder.trial()

    def learn_one(self, x: Mapping[Hashable, Any], y: Any, w: float = 1.0) -> None:
        """Learn one record; arguments as of `MODLClassifier.learn_one`, with the key in x."""
        with self._lock.writing:
            inside, record = self._inside, self._inside.learned + 1
            weight = as_weight(w, record)
            key, rest = self._keyed(x)
            inside.make_ready()
            with self._growing():
                if self._encoder is not None:
                    rest = self._encoder.encode_one(rest, weight > 0.0 and not inside.held)
                values, target = inside.model.features.values_of(rest, record), inside.model.target(y, record)
                weights = None if weight == 1.0 else np.array([weight])
                admitted = inside.check(Records(tuple(rest), values, [target], weights, [key], first=record))
                if weight > 0.0:
                    inside.learn_row(admitted, rest)

    def _predict_row(self, x: Mapping[Hashable, Any]) -> NDArray[np.float64] | None:
        key, rest = self._keyed(x)
        self._inside.check_whole()
        if self._encoder is not None:
            rest = self._encoder.encode_one(rest, learn=False)
        return self._inside.predict_row(key, rest)

    def predict_proba_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of each class; empty before anything was learned."""
        with self._lock:
            row = self._predict_row(x)
            return {} if row is None else dict(zip(self.classes, row.tolist(), strict=False))

    def predict_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> Any:
        """The likeliest label, None before anything was learned; or the value, 0 until then."""
        with self._lock:
            row = self._predict_row(x)
            if self.task == REGRESSION:
                return 0.0 if row is None else float(row[0])
            return None if row is None or not row.any() else self.classes[int(row.argmax())]

    def _records(
        self,
        X: Any,
        names: Sequence[Hashable] | None,
        keys: Any,
        y: Any = None,
        sample_weight: Any = None,
        learn: bool = False,
    ) -> tuple[Records, Frame | None]:
        """A chunk as checked records of numbers with their keys, and the data frame that X is without them."""
        if is_sparse(X):
            raise BraidedError("X is a sparse matrix, and a fleet takes arrays and frames: give X.toarray()")
        given, X, names = _without_keys(X, names, self.key, keys)
        first = self._inside.learned + 1
        texts = [key_text(value, self.key, first + row) for row, value in enumerate(given)]
        if learn:
            self._inside.make_ready()
        else:
            self._inside.check_whole()
        records, frame = records_of(X, names, y, sample_weight, self._encoder, first, learn, not self._inside.held)
        return replace(records, keys=texts), frame

    def predict_learn_many(
        self, X: Any, y: Any, names: Sequence[Hashable] | None = None, sample_weight: Any = None, keys: Any = None
    ) -> Predictions:
        """Predict each record, then learn it, in order; the result is that of doing so one by one, bit for bit.

        Parameters
        ----------
        X
            As of `MODLClassifier.predict_learn_many`, with the keys in a column, which may hold text.
        y, sample_weight
            n labels or targets, and n weights.
        names
            The columns' names, one of which is the key.
        keys
            n keys, where X has no column with them.
        """
        with self._lock.writing:
            with self._growing():
                records, frame = self._records(X, names, keys, y, sample_weight, learn=True)
                admitted = self._inside.check(records)
            parts, start, size = list[Predictions](), 0, _FIRST
            while not parts or start < len(records):
                began = time.thread_time()
                parts.append(self._inside.learn(admitted.part(start, start + size)))
                seconds = max(time.thread_time() - began, 1e-6)
                start, size = start + size, max(_LEAST, min(2 * size, int(size * _SECONDS / seconds)))
                self._lock.let_readers_in()
            predictions = join_predictions(parts)
            return predictions if frame is None else self._framed(frame, predictions)

    def _framed(self, frame: Frame, predictions: Predictions) -> Predictions:
        """Predictions as frames of the library that the records came in."""
        values, own = predictions.values, frame.frame(predictions.own, self.learner_names)
        if self.task == REGRESSION:
            return predictions._replace(values=frame.series(values[:, 0]), own=own)
        return predictions._replace(values=frame.frame(values, self.classes[: values.shape[1]]), own=own)

    def learn_many(
        self, X: Any, y: Any, names: Sequence[Hashable] | None = None, sample_weight: Any = None, keys: Any = None
    ) -> None:
        """Learn a chunk, record by record, in order; arguments as of `predict_learn_many`."""
        self.predict_learn_many(X, y, names, sample_weight, keys)

    def progress_many(self, X: Any, names: Sequence[Hashable] | None = None, keys: Any = None) -> Predictions:
        """What `predict_learn_many` would give if it did not learn."""
        with self._lock:
            records, frame = self._records(X, names, keys)
            predictions = self._inside.predict(records)
            return predictions if frame is None else self._framed(frame, predictions)

    def predict_proba_many(self, X: Any, names: Sequence[Hashable] | None = None, keys: Any = None) -> Any:
        """Class probabilities, (n, n_classes), columns in the order of `classes`; of a frame, a frame."""
        return self.progress_many(X, names, keys).values

    def predict_many(self, X: Any, names: Sequence[Hashable] | None = None, keys: Any = None) -> Any:
        """The likeliest label of each record, as a list, or the values, (n,); of a data frame, a series.

        The label is None where nothing is known, as of a new key that shares nothing.
        """
        with self._lock:
            records, frame = self._records(X, names, keys)
            values, labels = self._inside.predict(records).values, self.classes
        if self.task == REGRESSION:
            return values[:, 0] if frame is None else frame.series(values[:, 0])
        if frame is not None and labels and values.any(axis=1).all():
            return frame.series(labels, values.argmax(axis=1))
        answers = [labels[row.argmax()] if row.any() else None for row in values]
        return answers if frame is None else frame.series(answers)

    def hold_shared(self) -> None:
        """Let keys alone learn from now on: what they share stays as it is.

        That is the shared model, what makes numbers of raw records and, under `braid`, the fleet's weights, its units,
        the standardisation, and which features and classes there are. The predictions for a key then depend on its own
        records alone, so that keys may be learned in any order, or on many machines. Under `braid`, a record with a
        label that the shared model does not know is predicted and teaches its key nothing. There is no way back.
        """
        with self._lock.writing:
            if self.share != NONE and not self._inside.model.records_learned:
                raise BraidedError("the fleet has learned nothing that keys could share: let it learn first")
            if self._encoder is not None and not self._encoder.kinds:
                raise BraidedError("the fleet has seen no column that encode=True could settle: let it learn first")
            self._inside.hold()
            self._shared_digest = self._inside.digest()
            if self._encoder is not None:
                settled = json.dumps(pack_encoder(self._encoder), sort_keys=True)
                self._shared_digest = hashlib.sha256((self._shared_digest + settled).encode()).hexdigest()

    def _known(self, key: Any) -> str:
        text = key_text(key, self.key)
        if text is None or text not in self._inside.known:
            raise BraidedError(f"key {shown(key)} is not known to the fleet: give one of its keys")
        return text

    def _check_apart(self) -> None:
        """Refuse to take keys away from what they share while that still learns."""
        if self.share != NONE and not self.shared_is_held:
            raise BraidedError("the fleet still learns what its keys share: call hold_shared before one is taken apart")

    def forget_key(self, key: Any) -> None:
        """Forget a key, as if it were new; what was shared with others has learned from it, and stays."""
        with self._lock.writing:
            self._inside.forget_key(self._known(key))

    def snapshot_key(self, key: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What one key has of its own, for `restore_key` of a fleet that shares the same, and holds it."""
        with self._lock:
            self._check_apart()
            text = self._known(key)
            own, arrays = self._inside.snapshot_key(text)
        return {"text": text, "share": self.share, "shared": self._shared_digest, "own": own}, arrays

    def restore_key(self, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Let a key have what `snapshot_key` gave, whatever it had before; what could not be that is refused."""
        self._check_apart()
        key = restored_key(WHAT, checked(WHAT, metadata, "text", str))
        if checked(WHAT, metadata, "share", str) != self.share:
            raise BraidedError(f"the key is of a fleet with share={metadata['share']!r:.60}: give one of this fleet's")
        if checked(WHAT, metadata, "shared", str) != self._shared_digest:
            raise BraidedError("the key has learned with another shared model: give the fleet that it is from")
        own = checked(WHAT, metadata, "own", dict)
        with self._lock.writing:
            self._inside.restore_key(key, own, arrays)

    def snapshot(self, encode: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything needed to go on exactly from here: JSON metadata and named arrays.

        With `encode`, what makes numbers of raw records (`encode.saved.pack_encoder`), the fleet that is
        restored takes such.
        """
        with self._lock:
            metadata, arrays = self.snapshot_in_parts(encode, later=False)
            parts = {name: list(parts_of(array)) for name, array in arrays.items()}
        return metadata, {name: found[0] if len(found) == 1 else np.concatenate(found) for name, found in parts.items()}

    def snapshot_in_parts(
        self, encode: dict[str, Any] | None = None, later: bool = True
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The same, to be written before anything else is done: keys on disk are read as they are written."""
        template, arrays = self.model.snapshot()
        with self._lock:
            self._inside.check_whole()
            model, shared = self._inside.model.snapshot()
            del model["parameters"]  # those of the template
            own, own_arrays = self._inside.snapshot(later)
            if encode is None and self._encoder is not None:
                encode = pack_encoder(self._encoder)
            metadata: dict[str, Any] = {
                "estimator": type(self.model).__name__,
                "parameters": {name: getattr(self, name) for name in _SETTINGS} | {"key": pack_name(self.key)},
                "learned": self._inside.learned,
                "template": template if encode is None else {**template, "encode": encode},
                "inside": {"model": model, **own},
                "held": self.shared_is_held,
                # For a digest of all that was learned.
                "features": [pack_name(name) for name in self.feature_names],
                "classes": [pack_name(label) for label in self.classes],
            }
        return metadata, {**prefixed(_TEMPLATE, arrays), **prefixed(SHARED, shared), **prefixed(_KEYS, own_arrays)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fleet, with the keys on disk, to one file, atomically; see `MODLClassifier.save`."""
        with self._lock:
            write(path, KIND, *self.snapshot_in_parts())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        learners: Sequence[Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Read a fleet written by `save`; it goes on exactly from there.

        Parameters
        ----------
        path
            The file.
        learners
            As of `MODLClassifier.load`.
        folder
            As of the fleet itself: a file does not say where to put keys on disk.
        """
        checkpoint = read(path, KIND)
        return cls.restore(checkpoint.metadata, checkpoint.arrays, learners, folder)

    @classmethod
    def restore(
        cls,
        metadata: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        learners: Sequence[Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> Self:
        """The inverse of `snapshot`; what could not have come from there is refused."""
        kind = ESTIMATORS.get(checked(WHAT, metadata, "estimator", str))
        if kind is None:
            raise BraidedError(f"{WHAT}: estimator {metadata['estimator']!r:.60} is not known to this braided")
        given = checked(WHAT, metadata, "parameters", dict)
        if given.keys() != set(_SETTINGS):
            raise BraidedError(f"{WHAT}: its parameters are {', '.join(given):.60}; {REMEDY}")
        template = kind.restore(checked(WHAT, metadata, "template", dict), unprefixed(_TEMPLATE, arrays), learners)
        fleet = cls(template, folder=folder, **{**given, "key": unpack_name(given["key"])})
        fleet._encoder = template.encoder
        inside = checked(WHAT, metadata, "inside", dict)
        fleet._inside.model.load(checked(WHAT, inside, "model", dict), unprefixed(SHARED, arrays))
        fleet._inside.load(inside, unprefixed(_KEYS, arrays))
        fleet._inside.learned = checked(WHAT, metadata, "learned", int)
        if checked(WHAT, metadata, "held", bool):
            fleet.hold_shared()
        return fleet

    def __getstate__(self) -> dict[str, Any]:
        """As a file has it: keys on disk come along, and their folder does not."""
        return {"snapshot": self.snapshot(), "learners": self.model.learners, "folder": self.folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        metadata, arrays = state["snapshot"]
        restored = type(self).restore(metadata, arrays, state["learners"], state["folder"])
        self.__dict__.update(restored.__dict__)


class FleetClassifier(Fleet, base.Classifier):
    """A `Fleet` of classifiers; `Fleet(...)` makes one."""


class FleetRegressor(Fleet, base.Regressor):
    """A `Fleet` of regressors; `Fleet(...)` makes one."""


def _without_keys(
    X: Any, names: Sequence[Hashable] | None, key: Hashable, keys: Any = None
) -> tuple[list[Any], Any, Sequence[Hashable] | None]:
    """The keys of an array's or frame's records as they were given, and the rest with its names."""
    frame = frame_of(X)
    if keys is not None:
        columns = names if names is not None else [] if frame is None else frame.columns
        if key in columns:
            raise BraidedError(f"keys are given, and X has the column {key!r} as well: give one of the two")
        given = column_of(keys, "keys")
        if isinstance(given, str | Set | Mapping) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) != 1:
            raise BraidedError(f"keys is {shown(keys)}: give a list or array of one key per record")
        # Times as a list would be whole numbers of nanoseconds, and keys.
        listed = given.tolist() if isinstance(given, np.ndarray) and given.dtype.kind not in "mM" else list(given)
        if len(listed) != n_records(X):
            raise BraidedError(f"X has {n_records(X)} records and keys has {len(listed)}: the lengths must match")
        return listed, X, names
    if frame is not None:
        rest, found = frame.without(key)
        return found, rest, names
    array = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    known: list[Hashable] = list(range(array.shape[1] if array.ndim == 2 else 0) if names is None else names)
    if array.ndim != 2 or key not in known or len(known) != array.shape[1]:
        raise BraidedError(f"X has no column {key!r}: name its columns, one of them by the key, or give keys=[...]")
    place = known.index(key)
    return array[:, place].tolist(), np.delete(array, place, axis=1), known[:place] + known[place + 1 :]
