"""A model for each key, with shared strength."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from river import base

from braided import checks, notebook
from braided.checkpoint import pack_name, prefixed, read, unpack_name, unprefixed, write
from braided.errors import BraidedError
from braided.estimators import ESTIMATORS
from braided.estimators.base import MODL
from braided.estimators.chunks import weights_of
from braided.estimators.frames import opened
from braided.estimators.progress import Progress
from braided.estimators.tasks import REGRESSION
from braided.fleet.dry_run import FleetDryRun
from braided.fleet.keys import KeyedTable, check_alike, key_of, key_text, restored_keys
from braided.fleet.rows import KeyLimits
from braided.fleet.separate import SeparateModels
from braided.fleet.shared import SharedModel
from braided.option_names import option
from braided.state import checked
from braided.streams.encode.encoder import Encoder as RawEncoder
from braided.streams.encode.saved import pack_encoder
from braided.values import as_weight, shown

BRAID, START, NONE = SHARES = ("braid", "start", "none")
OLDEST = "oldest"
#: Keys, or whole models, in memory unless something else is said.
_IN_MEMORY = {BRAID: 100_000, START: 500, NONE: 500}
_MOST_KEYS = 10**9
#: What a checkpoint calls one.
KIND = "Fleet"
_TEMPLATE = "template"
_WHAT = "the fleet"


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
        The name of the field or column with the key: text or whole numbers. A record without a key can be predicted,
        by what is shared, and not learned.
    share
        `braid`, `start` or `none`.
    in_memory
        So many keys are in memory, those used last; the others lie on disk, as checkpoints, and answers are the same.
        None: 100,000 for `braid`, at 3.5 to 20.5 kB each, and 500 for whole models.
    folder
        Where to make a folder for those on disk, which goes when the fleet goes, unless its process is killed; that of
        temporary files if None. Name one where old files are cleaned away.
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
        if cls is not Fleet:
            return super().__new__(cls)
        kind: Any = FleetRegressor if getattr(model, "task", None) == REGRESSION else FleetClassifier
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
        self._learned = 0
        #: Of what keys share, once it is held.
        self._shared_digest = ""
        self._check()
        most = _IN_MEMORY[share] if in_memory is None else in_memory
        limits = KeyLimits(most, folder, max_keys, evict == OLDEST)
        self._inside: SharedModel | SeparateModels
        if share == BRAID:
            self._inside = SharedModel(model.clone(), limits)
        else:
            self._inside = SeparateModels(model.clone(), limits, share == START)

    def _check(self) -> None:
        if not isinstance(self.model, MODL):
            raise BraidedError(f"model is {shown(self.model)}: give a MODLClassifier or MODLRegressor")
        if self.model.records_learned:
            raise BraidedError("the model has learned something, and a fleet starts from nothing: give a new one")
        if getattr(self.model, "decides", False):
            raise BraidedError(
                "the model chooses its answers by decision, class_weight or costs, and a fleet answers with the "
                "likeliest class: leave them out"
            )
        checks.choice("share", self.share, SHARES)
        if self.evict not in (None, OLDEST):
            raise BraidedError(f"evict is {shown(self.evict)}: give None or {OLDEST!r}")
        for name in ("in_memory", "max_keys"):
            value = getattr(self, name)
            if name == "in_memory" and value is None:
                continue
            if type(value) is not int or not 1 <= value <= _MOST_KEYS:
                raise BraidedError(f"{name} is {shown(value)}: give a whole number from 1 to {_MOST_KEYS:,}")
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
        return notebook.card("Fleet", about, figures)

    @property
    def task(self) -> str:
        """`classification` or `regression`."""
        return self.model.task

    @property
    def shared(self) -> MODL | None:
        """The model that learns every record; None if there is none."""
        return None if self.share == NONE else self._inside.model

    @property
    def keys(self) -> list[str | int | bool]:
        """The keys that have learned something, those that did last at the end."""
        return [key_of(text) for text in self._inside.known]

    @property
    def n_keys(self) -> int:
        """How many there are."""
        return len(self._inside.known)

    @property
    def n_in_memory(self) -> int:
        """How many of them are in memory; the others are on disk."""
        return self._inside.n_in_memory

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
        return self._inside.health

    @property
    def n_features(self) -> int:
        """How many features the shared model has seen; 0 where there is none."""
        return 0 if self.shared is None else self.shared.n_features

    @property
    def feature_names(self) -> list[Hashable]:
        """The features that the shared model has seen."""
        return [] if self.shared is None else self.shared.feature_names

    @property
    def records_learned(self) -> int:
        """How many records this fleet has learned."""
        return self._learned

    def expect_delay(self, delay: int) -> None:
        """Be told before the first record is learned that labels come late, if nobody has said so yet."""
        if not self._learned:
            self._inside.model.expect_delay(delay)

    @property
    def encoder(self) -> RawEncoder | None:
        """What makes numbers of raw records, for all keys; None if they are numbers."""
        return self._inside.encoder

    @property
    def shared_is_held(self) -> bool:
        """Whether keys alone learn; see `hold_shared`."""
        return self._inside.held

    def hold_shared(self) -> None:
        """Let keys alone learn from now on: what they share stays as it is.

        That is the shared model, what makes numbers of raw records and, under `braid`, the fleet's weights, its units,
        the standardisation, and which features and classes there are. What is said of a key then depends on its own
        records alone, so that keys may be learned in any order, or on many machines. Under `braid`, a record with a
        label that the shared model does not know is predicted and teaches its key nothing. There is no way back.
        """
        if self.share != NONE and not self._inside.model.records_learned:
            raise BraidedError("the fleet has learned nothing that keys could share: let it learn first")
        encoder = self.encoder
        if encoder is not None and not encoder.kinds:
            raise BraidedError("the fleet has seen no column that encode=True could settle: let it learn first")
        self._inside.hold()
        self._shared_digest = self._inside.digest()
        if encoder is not None:
            settled = json.dumps(pack_encoder(encoder), sort_keys=True)
            self._shared_digest = hashlib.sha256((self._shared_digest + settled).encode()).hexdigest()

    def _known(self, key: Any) -> str:
        text = key_text(key, self.key, self._learned + 1)
        if text is None or text not in self._inside.known:
            raise BraidedError(f"key {shown(key)} is not known to the fleet: give one of its keys")
        return text

    def _check_apart(self) -> None:
        """Refuse to take keys away from what they share while that still learns."""
        if self.share != NONE and not self.shared_is_held:
            raise BraidedError("the fleet still learns what its keys share: call hold_shared before one is taken apart")

    def forget_key(self, key: Any) -> None:
        """Forget a key, as if it were new; what was shared with others has learned from it, and stays."""
        self._inside.forget_key(self._known(key))

    def snapshot_key(self, key: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What one key has of its own, for `restore_key` of a fleet that shares the same, and holds it."""
        self._check_apart()
        text = self._known(key)
        own, arrays = self._inside.snapshot_key(text)
        return {"key": text, "share": self.share, "shared": self._shared_digest, "own": own}, arrays

    def restore_key(self, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Let a key have what `snapshot_key` gave, whatever it had before; what could not be that is refused."""
        self._check_apart()
        texts = restored_keys(_WHAT, {"keys": [checked(_WHAT, metadata, "key", str)]})
        if checked(_WHAT, metadata, "share", str) != self.share:
            raise BraidedError(f"the key is of a fleet with share={metadata['share']!r:.60}: give one of this fleet's")
        if checked(_WHAT, metadata, "shared", str) != self._shared_digest:
            raise BraidedError("the key has learned beside another shared model: give the fleet that it is from")
        if texts[0] not in self._inside.known:
            self._check_room(set(texts), self._learned + 1)
            if self.n_keys >= self.max_keys:
                self._inside.forget_key(next(iter(self._inside.known)))
        own = checked(_WHAT, metadata, "own", dict)
        self._learned += self._inside.restore_key(texts[0], own, arrays, self.model.learners)

    def _text(self, value: Any, record: int, learn: bool) -> str | None:
        """A record's key; a missing one is refused if the record is to be learned."""
        text = key_text(value, self.key, record)
        if text is None and learn:
            raise BraidedError(
                f"record {record} has no key {self.key!r}: give every record that is learned one, or leave it out"
            )
        return text

    def _check_room(self, new: set[str], record: int, n_keys: int | None = None) -> None:
        known = self.n_keys if n_keys is None else n_keys
        if self.evict is None and known + len(new) > self.max_keys:
            raise BraidedError(
                f"record {record} or one after it brings key number {self.max_keys + 1:,}, and max_keys is "
                f"{self.max_keys:,}: raise {option('max_keys')}, or give {option('evict', OLDEST)}"
            )

    def _keyed(self, x: Mapping[Hashable, Any], learn: bool) -> tuple[str | None, dict[Hashable, Any]]:
        """A record's key, and the record without it."""
        rest = dict(x)
        return self._text(rest.pop(self.key, None), self._learned + 1, learn), rest

    def learn_one(self, x: Mapping[Hashable, Any], y: Any, w: float = 1.0) -> None:
        """Learn one record; arguments as of `MODLClassifier.learn_one`, with the key in x."""
        weight = as_weight(w, self._learned + 1)
        key, rest = self._keyed(x, weight > 0.0)
        if key is None:
            return
        if weight > 0.0 and key not in self._inside.known:
            self._check_room({key}, self._learned + 1)
        self._inside.learn_one(key, rest, y, w)
        self._learned += weight > 0.0

    def _predict_row(self, x: Mapping[Hashable, Any]) -> NDArray[np.float64] | None:
        key, rest = self._keyed(x, learn=False)
        return self._inside.predict_one(key, rest)

    def predict_proba_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of each class; empty before anything was learned."""
        row = self._predict_row(x)
        return {} if row is None else dict(zip(self.classes, row.tolist(), strict=False))

    def predict_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> Any:
        """The likeliest label, None before anything was learned; or the value, 0 until then."""
        row = self._predict_row(x)
        if self.task == REGRESSION:
            return 0.0 if row is None else float(row[0])
        return None if row is None or not row.any() else self.classes[int(row.argmax())]

    def _opened(
        self, X: Any, names: Sequence[Hashable] | None, keys: Any, weights: Any, learn: bool
    ) -> tuple[list[str | None], Any, Sequence[Hashable] | None]:
        """The keys of a table's records, checked, and the table without them."""
        table = KeyedTable(X, names, self.key, keys)
        first = self._learned + 1
        heavy = weights_of(weights, len(table.keys), first) if learn else None
        learned = [learn] * len(table.keys) if heavy is None else (heavy > 0.0).tolist()
        found = [
            self._text(value, first + row, counts)
            for row, (value, counts) in enumerate(zip(table.keys, learned, strict=True))
        ]
        return found, table.X, table.names

    def _check_new(self, keys: Sequence[str | None], sample_weight: Any) -> None:
        """Refuse a chunk that brings too many keys."""
        weights = weights_of(sample_weight, len(keys), 1)
        pairs = zip(keys, [True] * len(keys) if weights is None else (weights > 0.0).tolist(), strict=True)
        new = {key for key, counts in pairs if counts and key is not None and key not in self._inside.known}
        self._check_room(new, self._learned + 1)

    def dry_run(self) -> FleetDryRun:
        """Asks whether this fleet would learn certain chunks, one after another, without learning them.

        Examples
        --------
        >>> from braided import Fleet, MODLRegressor
        >>> dry_run = Fleet(MODLRegressor(), key="machine", max_keys=1).dry_run()
        >>> dry_run.learn_many([[1.0]], [2.0], ["load"], keys=["pump"])
        >>> dry_run.learn_many([[1.0]], [2.0], ["load"], keys=["fan"])
        Traceback (most recent call last):
            ...
        braided.errors.BraidedError: record 1 or one after it brings key number 2, and max_keys is 1: raise max_keys, or
        give evict='oldest'
        """
        return FleetDryRun(
            self._inside.dry_run(),
            lambda new, n_keys: self._check_room(new, self._learned + 1, n_keys),
            lambda X, names, keys, weights: self._opened(X, names, keys, weights, learn=True),
        )

    def give_up_encoder(self) -> RawEncoder | None:
        """Take numbers from now on; what made them of raw records, if anything did."""
        self.model.give_up_encoder()
        return self._inside.give_up_encoder()

    def predict_learn_many(
        self, X: Any, y: Any, names: Sequence[Hashable] | None = None, sample_weight: Any = None, keys: Any = None
    ) -> Progress:
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
        found, X, names = self._opened(X, names, keys, sample_weight, learn=True)
        self._check_new(found, sample_weight)
        progress = self._inside.predict_learn_many(found, X, y, names, sample_weight)
        weights = weights_of(sample_weight, len(found), 1)
        self._learned += len(found) if weights is None else int((weights > 0.0).sum())
        return progress

    def learn_many(
        self,
        X: Any,
        y: Any,
        names: Sequence[Hashable] | None = None,
        sample_weight: Any = None,
        keys: Any = None,
    ) -> None:
        """Learn a chunk, record by record, in order; arguments as of `predict_learn_many`."""
        self.predict_learn_many(X, y, names, sample_weight, keys)

    def progress_many(self, X: Any, names: Sequence[Hashable] | None = None, keys: Any = None) -> Progress:
        """What `predict_learn_many` would give if it did not learn."""
        found, X, names = self._opened(X, names, keys, None, learn=False)
        return self._inside.progress_many(found, X, names)

    def predict_proba_many(self, X: Any, names: Sequence[Hashable] | None = None, keys: Any = None) -> Any:
        """Class probabilities, (n, n_classes), columns in the order of `classes`; of a frame, a frame."""
        return self.progress_many(X, names, keys).predictions

    def predict_many(self, X: Any, names: Sequence[Hashable] | None = None, keys: Any = None) -> Any:
        """The likeliest label of each record, as a list, or the values, (n,); of a data frame, a series."""
        found, X, names = self._opened(X, names, keys, None, learn=False)
        frame = opened(X)
        predictions = self._inside.progress_many(found, X, names).predictions
        if self.task == REGRESSION:
            return predictions if frame is not None else predictions[:, 0]
        labels = self.classes
        table = np.asarray(predictions, dtype=np.float64).reshape(len(found), -1)
        if not labels:
            return [None] * len(found) if frame is None else frame.series([None] * len(found))
        places = table.argmax(axis=1)
        return [labels[place] for place in places] if frame is None else frame.series(labels, places)

    def snapshot(self, encode: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything needed to go on exactly from here: JSON metadata and named arrays.

        With `encode`, what makes numbers of raw records (`streams.encode.saved.pack_encoder`), the fleet that is
        restored takes such.
        """
        template, arrays = self.model.snapshot()
        inside, more = self._inside.snapshot()
        if encode is not None:
            template["encode"] = inside["model"]["encode"] = encode
        metadata: dict[str, Any] = {
            "estimator": type(self.model).__name__,
            "parameters": {
                "key": pack_name(self.key),
                "share": self.share,
                "in_memory": self.in_memory,
                "max_keys": self.max_keys,
                "evict": self.evict,
            },
            "learned": self._learned,
            "template": template,
            "inside": inside,
            **({"held": True} if self.shared_is_held else {}),
            # For a digest of all that was learned.
            "features": [pack_name(name) for name in self.feature_names],
            "classes": [pack_name(label) for label in self.classes],
        }
        return metadata, {**prefixed(_TEMPLATE, arrays), **more}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fleet, with the keys on disk, to one file, atomically; see `MODLClassifier.save`."""
        write(path, KIND, *self.snapshot())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        learners: Sequence[Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Read a fleet written by `save`, which goes on exactly where that one stood.

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
        kind = ESTIMATORS.get(checked(_WHAT, metadata, "estimator", str))
        if kind is None:
            raise BraidedError(f"{_WHAT}: estimator {metadata['estimator']!r:.60} is not known to this braided")
        given = checked(_WHAT, metadata, "parameters", dict)
        template = kind.restore(checked(_WHAT, metadata, "template", dict), unprefixed(_TEMPLATE, arrays), learners)
        if "key" not in given:
            raise BraidedError(f"{_WHAT}: its key is missing; give a file written by save")
        optional = {
            name: None if given.get(name) is None else checked(_WHAT, given, name, kind_of)
            for name, kind_of in (("in_memory", int), ("evict", str))
        }
        fleet = cls(
            template,
            unpack_name(given["key"]),
            checked(_WHAT, given, "share", str),
            folder=folder,
            max_keys=checked(_WHAT, given, "max_keys", int, 1, _MOST_KEYS),
            **optional,
        )
        fleet._learned = checked(_WHAT, metadata, "learned", int)
        inside = checked(_WHAT, metadata, "inside", dict)
        check_alike(_WHAT, metadata["template"], checked(_WHAT, inside, "model", dict), but_for=("delay",))
        fleet._inside.load(inside, arrays, learners)
        if "held" in metadata and checked(_WHAT, metadata, "held", bool):
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
