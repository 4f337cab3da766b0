"""One shared model, and beside it learners of each key's own: `share="braid"`."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.checkpoint import prefixed, unprefixed
from braided.errors import BraidedError
from braided.estimators import frames
from braided.estimators.base import MODL
from braided.estimators.chunks import Chunk, checked_array, weights_of
from braided.estimators.digest import state_digest
from braided.estimators.frames import Frame
from braided.estimators.sparse import is_sparse
from braided.estimators.tasks import REGRESSION
from braided.fleet.dry_run import SharedDryRun
from braided.fleet.key_learners import KeyLearners, New
from braided.fleet.rows import KeyLimits
from braided.records import Predictions
from braided.state import checked
from braided.streams.encode.encoder import Encoder as RawEncoder
from braided.values import as_weight

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]
#: What the shared model alone is called among the learners.
SHARED = "shared"
_KEYS = "keys"


class SharedModel:
    """A model that learns every record, with `KeyLearners` beside it.

    Parameters
    ----------
    model
        The model; it has learned nothing yet.
    limits
        How many keys there may be.
    """

    def __init__(self, model: MODL, limits: KeyLimits) -> None:
        self.model = model
        self._regression = model.task == REGRESSION
        self.own = KeyLearners(self._regression, model.seed, limits)
        #: How many records had been learned, the record that the shared model was asked last, and what it said.
        self._last: tuple[int, dict[Hashable, Any], Floats | None] | None = None
        #: What went wrong while keys learned; empty if nothing did.
        self._torn = ""

    @property
    def known(self) -> Mapping[str, None]:
        """The keys that have learned something, those that did last at the end."""
        return self.own.rows.known

    def make_ready(self, keys: Iterable[str | None]) -> None:
        """Refuse to learn, before anything has changed, if keys cannot leave memory or come back."""
        self._check_whole()
        self.own.rows.make_ready(keys)

    def check_files(self, keys: Iterable[str | None]) -> None:
        """Refuse a step if what some keys have on disk is gone."""
        self._check_whole()
        self.own.rows.check_files(keys)

    def _check_whole(self) -> None:
        if self._torn:
            raise BraidedError(f"{self._torn}: load its last file")

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Within this, keys learn, after the shared model or alone; if they cannot, nothing is done or saved again."""
        try:
            yield
        except BaseException as error:
            why = str(error) or type(error).__name__
            behind = "may have learned a part of it" if self.held else "have not learned what the shared model has"
            self._torn = f"the fleet has failed in the middle of a step ({why}), and its keys {behind}"
            raise

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
    def n_in_memory(self) -> int:
        """How many of them are in memory."""
        return len(self.own.rows.resident)

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far."""
        return self.model.classes

    def dry_run(self) -> SharedDryRun:
        """Whether chunks would be learned."""
        return SharedDryRun(self.model, self.known, self._own_chunk if self.held else None)

    @property
    def encoder(self) -> RawEncoder | None:
        """What makes numbers of raw records."""
        return self.model._encoder

    def give_up_encoder(self) -> RawEncoder | None:
        """Take numbers from now on."""
        return self.model.give_up_encoder()

    def lent_encoder(self) -> AbstractContextManager[RawEncoder | None]:
        """Within this numbers are taken, which the encoder that is lent makes of raw records, if there is one."""
        return self.model.lent_encoder()

    @property
    def learner_names(self) -> list[str]:
        """Those of the shared model, and that model itself."""
        return [*self.model.learner_names, SHARED]

    @property
    def health(self) -> dict[str, dict[str, int]]:
        """That of the shared model's learners."""
        return {**self.model.health, SHARED: {"skipped": 0, "resets": 0}}

    def _said_one(self, x: Mapping[Hashable, Any], keep: bool) -> Floats | None:
        """What the shared model says of a record of numbers, which it is not asked twice before it learns again."""
        learned = self.model.records_learned
        if not keep and self._last is not None and self._last[:2] == (learned, x):
            return self._last[2]
        said = self.model._predict_encoded(x, keep=keep)
        if said is not None and not self._regression:
            n = len(self.model.classes)
            said = np.ones(1) if n == 1 else said[:n].copy()
        self._last = (learned, dict(x), said)
        return said

    def predict_one(self, key: str | None, x: Mapping[Hashable, Any]) -> Floats | None:
        """Probabilities in the order of `classes`, or a value; None before anything was learned."""
        if self.model._encoder is not None:
            x = self.model._encoder.encode_one(x, learn=False)
        said = self._said_one(x, keep=not self.held)
        return None if said is None else self.own.predict_one(x, key, said)

    def learn_one(self, key: str | None, x: Mapping[Hashable, Any], y: Any, w: float) -> None:
        """Learn one record; one of weight 0, which may have no key, is checked alone."""
        if self.held:
            self._learn_own(key, x, y, w)
            return
        if self.model._encoder is None:
            self._learn_one(key, x, y, w)
            return
        learn = as_weight(w, self.model.records_learned + 1) > 0.0
        with self.model._encoder.trial():
            self._learn_one(key, self.model._encoder.encode_one(x, learn), y, w)

    def _learn_one(self, key: str | None, x: Mapping[Hashable, Any], y: Any, w: float) -> None:
        model, record = self.model, self.model.records_learned + 1
        weight = as_weight(w, record)
        if weight == 0.0:
            model._learn_one(x, y, w)
            return
        assert key is not None
        said, new, before = self._said_one(x, keep=False), model._features.new_in(x), len(model.classes)
        model._learn_one(x, y, w)
        n = 1 if self._regression else len(model.classes)
        shared = np.zeros((1, n))
        if said is not None:
            shared[0, : said.size] = said
        target = model._target(y, record)
        if not self._regression:
            target = model._classes.places[target]
        grown = New(new, len(model.classes) - before)
        with self._together():
            self.own.learn_one(x, key, float(target), weight, shared, record == 1, grown)

    def _learn_own(self, key: str | None, x: Mapping[Hashable, Any], y: Any, w: float) -> None:
        """Let the key alone learn one record; a label that the shared model does not know teaches it nothing."""
        model, record = self.model, self.model.records_learned + 1
        weight = as_weight(w, record)
        if model._encoder is not None:
            x = model._encoder.encode_one(x, learn=False)
        said, target = self._said_one(x, keep=False), model._target(y, record)
        assert said is not None
        if not self._regression:
            target = model._classes.places.get(target, len(model.classes))
        if weight > 0.0:
            assert key is not None
            with self._together():
                self.own.learn_one(x, key, float(target), weight, said[None], False, New([], 0))

    def _opened(
        self, X: Any, names: Sequence[Hashable] | None, learn: bool = False, sample_weight: Any = None
    ) -> tuple[Any, Any, Frame | None]:
        if is_sparse(X):
            raise BraidedError("X is a sparse matrix, and a fleet takes arrays and frames: give X.toarray()")
        return self.model._opened(X, names, learn, sample_weight)

    def predict_learn_many(
        self, keys: list[str | None], X: Any, y: Any, names: Sequence[Hashable] | None, sample_weight: Any
    ) -> Predictions:
        """Predict each record, then learn it."""
        if self.held:
            return self._predict_learn_own(keys, X, y, names, sample_weight)
        model, first = self.model, self.model.records_learned == 0
        with model._growing():
            X, names, frame = self._opened(X, names, True, sample_weight)
            chunk = model._checked(X, y, names, sample_weight)
            progress = model._predict_learn(X, y, names, sample_weight, frame)
        with self._together():
            predictions = self.own.learn(chunk, keys, progress.values, first)
        progress = self._with_own(progress, predictions)
        return progress if frame is None else self._framed(frame, progress)

    def _own_chunk(
        self, X: Any, y: Any, names: Sequence[Hashable] | None, sample_weight: Any
    ) -> tuple[Chunk, Frame | None]:
        """A chunk that keys alone learn, with labels that are not known beyond those that are."""
        first = self.model.records_learned + 1
        X, names, frame = self._opened(X, names)
        values, columns = checked_array(X, names, first)
        _, targets, _ = self.model._encode_targets(frames.targets(y), len(values))
        return Chunk(values, columns, targets, weights_of(sample_weight, len(values), first), {}, {}), frame

    def _predict_learn_own(
        self, keys: list[str | None], X: Any, y: Any, names: Sequence[Hashable] | None, sample_weight: Any
    ) -> Predictions:
        chunk, frame = self._own_chunk(X, y, names, sample_weight)
        shared = self._asked(chunk.values, chunk.columns)
        with self._together():
            predictions = self.own.learn(chunk, keys, shared.values, first=False)
        progress = self._with_own(shared, predictions)
        return progress if frame is None else self._framed(frame, progress)

    def _with_own(self, progress: Predictions, predictions: Floats) -> Predictions:
        """What was said with the keys' learners, the shared model's answer as one more of what learners say."""
        shared = progress.values
        if self._regression:
            alone = shared[:, 0]
        else:
            alone = np.where(shared.any(axis=1), shared.argmax(axis=1) if shared.shape[1] else 0, -1)
        return Predictions(predictions, np.column_stack([progress.own, alone]).astype(np.float64))

    def _framed(self, frame: Frame, progress: Predictions) -> Predictions:
        own = frame.frame(progress.own, self.learner_names)
        return progress._replace(values=self.model._framed(frame, progress.values), own=own)

    def progress_many(self, keys: list[str | None], X: Any, names: Sequence[Hashable] | None) -> Predictions:
        """Predict the records."""
        X, names, frame = self._opened(X, names)
        values, columns = checked_array(X, names, self.model.records_learned + 1)
        shared = self._asked(values, columns)
        predictions = np.asarray(shared.values)
        if self.model.records_learned:
            predictions = self.own.predict(values, columns, keys, predictions)
        progress = self._with_own(shared, predictions)
        return progress if frame is None else self._framed(frame, progress)

    def _asked(self, values: Floats, columns: list[Hashable]) -> Predictions:
        """What the shared model says of records that are encoded by now: it is asked behind its encoder."""
        encoder, self.model._encoder = self.model._encoder, None
        try:
            return self.model.progress_many(values, columns)
        finally:
            self.model._encoder = encoder

    def forget_key(self, key: str) -> None:
        """Forget a key that is known."""
        self.own.rows.forget(key)

    def snapshot_key(self, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What one key has of its own."""
        return self.own.snapshot_key(key)

    def restore_key(self, key: str, metadata: Any, arrays: Arrays, learners: Any) -> int:
        """Let a key have that; what it has learned is not counted."""
        self.own.restore_key(key, metadata, arrays)
        return 0

    def snapshot(self, in_parts: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Everything needed to go on exactly from here; what is large as arrays, or `InParts`."""
        self._check_whole()
        model, arrays = self.model.snapshot()
        own, rows = self.own.snapshot(in_parts)
        return {"model": model, "own": own}, {**prefixed(SHARED, arrays), **prefixed(_KEYS, rows)}

    def load(self, metadata: Any, arrays: Arrays, learners: Any) -> None:
        """Take over a `snapshot`."""
        model = checked("the fleet", metadata, "model", dict)
        self.model, self._last = type(self.model).restore(model, unprefixed(SHARED, arrays), learners), None
        own = checked("the fleet", metadata, "own", dict)
        self.own.load(len(self.model.classes), own, unprefixed(_KEYS, arrays))
        if self.known and not self.model.records_learned:
            raise BraidedError("the fleet has keys, and its shared model has learned nothing; give a file from save")
