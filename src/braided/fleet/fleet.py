"""A model for each key, with shared strength."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from river import base

from braided.errors import BraidedError
from braided.estimators.base import MODL
from braided.estimators.chunks import weights_of
from braided.estimators.frames import opened
from braided.estimators.tasks import REGRESSION
from braided.fleet.dry_run import FleetDryRun
from braided.fleet.facts import BRAID, NONE, OLDEST, START
from braided.fleet.keys import KeyedTable
from braided.fleet.rows import KeyLimits
from braided.fleet.saved import SavedFleet
from braided.fleet.separate import SeparateModels
from braided.fleet.shared import SharedModel
from braided.records import Predictions
from braided.streams.encode.encoder import Encoder as RawEncoder
from braided.values import as_weight, key_text

#: Keys, or whole models, in memory unless something else is said.
_IN_MEMORY = {BRAID: 100_000, START: 500, NONE: 500}


class Fleet(SavedFleet, base.Wrapper[Any], base.Estimator):
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
        So many keys are in memory, those used last; the others lie on disk, as checkpoints, and answers are the same.
        None: 100,000 for `braid`, at 3.5 to 20.5 kB each, and 500 for whole models.
    folder
        Where to make a folder for those on disk, which goes when the fleet goes, or, if its process was killed, with
        the next fleet that makes one there; that of temporary files if None. Name one where nobody removes old files.
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
        #: Whether a dry run has admitted what is being learned.
        self._admitted = False
        self._check()
        most = _IN_MEMORY[share] if in_memory is None else in_memory
        limits = KeyLimits(most, folder, max_keys, evict == OLDEST)
        if share == BRAID:
            self._inside = SharedModel(model.clone(), limits)
        else:
            self._inside = SeparateModels(model.clone(), limits, share == START)

    @property
    def _wrapped_model(self) -> Any:
        return self.model

    def _text(self, value: Any, record: int, learn: bool) -> str | None:
        """A record's key; a missing one is refused if the record is to be learned."""
        text = key_text(value, self.key, record)
        if text is None and learn:
            raise BraidedError(
                f"record {record} has no key {self.key!r}: give every record that is learned one, or leave it out"
            )
        return text

    def _keyed(self, x: Mapping[Hashable, Any], learn: bool) -> tuple[str | None, dict[Hashable, Any]]:
        """A record's key, and the record without it."""
        rest = dict(x)
        return self._text(rest.pop(self.key, None), self._learned + 1, learn), rest

    def _make_ready(self, keys: Sequence[str | None], learn: bool) -> None:
        """Refuse a step that the disk does not allow; predictions need no room there, nor does what was admitted."""
        if learn and not self._admitted:
            self._inside.make_ready(keys)
        else:
            self._inside.check_files(keys)

    @contextmanager
    def learning_admitted(self) -> Iterator[None]:
        """Within this, chunks are learned that `dry_run` has admitted: a disk that is full by then stops none of them.

        Keys that are too many stay in memory, and the next dry run is refused.
        """
        self._admitted = True
        try:
            yield
        finally:
            self._admitted = False

    def learn_one(self, x: Mapping[Hashable, Any], y: Any, w: float = 1.0) -> None:
        """Learn one record; arguments as of `MODLClassifier.learn_one`, with the key in x."""
        weight = as_weight(w, self._learned + 1)
        key, rest = self._keyed(x, weight > 0.0)
        if weight > 0.0 and key is not None and key not in self._inside.known:
            self._check_room({key}, self._learned + 1)
        self._make_ready([key], learn=True)
        self._inside.learn_one(key, rest, y, w)
        self._learned += weight > 0.0

    def _predict_row(self, x: Mapping[Hashable, Any]) -> NDArray[np.float64] | None:
        key, rest = self._keyed(x, learn=False)
        self._make_ready([key], learn=False)
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
        checked_weights = weights_of(weights, len(table.keys), first) if learn else None
        learned = [learn] * len(table.keys) if checked_weights is None else (checked_weights > 0.0).tolist()
        found = [
            self._text(value, first + row, counts)
            for row, (value, counts) in enumerate(zip(table.keys, learned, strict=True))
        ]
        self._make_ready(found, learn)
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

    def lent_encoder(self) -> AbstractContextManager[RawEncoder | None]:
        """Within this the fleet takes numbers, which the encoder that is lent makes of raw records, if there is one."""
        return self._inside.lent_encoder()

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

    def progress_many(self, X: Any, names: Sequence[Hashable] | None = None, keys: Any = None) -> Predictions:
        """What `predict_learn_many` would give if it did not learn."""
        found, X, names = self._opened(X, names, keys, None, learn=False)
        return self._inside.progress_many(found, X, names)

    def predict_proba_many(self, X: Any, names: Sequence[Hashable] | None = None, keys: Any = None) -> Any:
        """Class probabilities, (n, n_classes), columns in the order of `classes`; of a frame, a frame."""
        return self.progress_many(X, names, keys).values

    def predict_many(self, X: Any, names: Sequence[Hashable] | None = None, keys: Any = None) -> Any:
        """The likeliest label of each record, as a list, or the values, (n,); of a data frame, a series.

        The label is None where nothing is known, as of a new key that shares nothing.
        """
        found, X, names = self._opened(X, names, keys, None, learn=False)
        frame = opened(X)
        predictions = self._inside.progress_many(found, X, names).values
        if self.task == REGRESSION:
            return predictions if frame is not None else predictions[:, 0]
        labels = self.classes
        table = np.asarray(predictions, dtype=np.float64).reshape(len(found), len(labels))
        if frame is not None and labels and table.any(axis=1).all():
            return frame.series(labels, table.argmax(axis=1))
        said = [labels[row.argmax()] if row.any() else None for row in table]
        return said if frame is None else frame.series(said)


class FleetClassifier(Fleet, base.Classifier):
    """A `Fleet` of classifiers; `Fleet(...)` makes one."""


class FleetRegressor(Fleet, base.Regressor):
    """A `Fleet` of regressors; `Fleet(...)` makes one."""
