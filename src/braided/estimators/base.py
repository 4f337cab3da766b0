"""What the classifier and the regressor share: records of any form come in, are checked once, and go to the core."""

from __future__ import annotations

import copy
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from river import base

from braided import checks
from braided.engine import Braid
from braided.errors import BraidedError
from braided.estimators.arrays import ZEROS_MISSING, is_sparse, listed, n_records, records_of, weights_of
from braided.estimators.coverage import fits
from braided.estimators.lock import ModelLock
from braided.estimators.model import Model
from braided.estimators.params import ModelParams
from braided.learners import Learner, LearnerConfig
from braided.presets import Preset
from braided.records import Admitted, Predictions, Records, join_predictions
from braided.store import read, write
from braided.values import as_weight, shown

if TYPE_CHECKING:
    from braided.encode.encoder import Encoder as RawEncoder
    from braided.estimators.drift import Detector
    from braided.estimators.explain import Explanation
    from braided.estimators.frames import Frame

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
#: A record by the names of its features; the names of a chunk's columns; learners in place of a preset's.
Record = Mapping[Hashable, Any]
Names = Sequence[Hashable] | None
Learners = Sequence[LearnerConfig | Learner] | None
#: Of what the effects of a raw record may be.
COLUMN, FEATURE = BY = ("column", "feature")
#: Where features expire, this many columns and categories may have come and gone.
_MAX_NAMES = 100_000


class MODL(base.Estimator):
    """A model with River's methods, and the same for chunks.

    It may be used from several threads: see `docs/faq.md`.
    """

    #: `classification` or `regression`.
    task: ClassVar[str]
    #: The model of numbers behind the conversions; whoever uses it holds `lock`.
    core: Model
    #: Held by each method while it uses the model; to be entered around several that belong together.
    lock: ModelLock
    #: What makes numbers of raw records; None where records are numbers.
    encoder: RawEncoder | None
    # Parameters that both have, see `ModelParams`.
    preset: str | Preset
    learners: Learners
    combiner: str | None
    seed: int
    max_features: int
    drift_detector: Detector | None
    delay: int
    expire_after: int | None
    encode: Any
    zeros: str

    def _set_up(self, given: Mapping[str, Any]) -> None:
        """Store the parameters that a constructor was given, and make the model of them."""
        vars(self).update({name: given[name] for name in ModelParams.names(self.task)})
        self.lock = ModelLock()
        self._use(Model(self.task, ModelParams.read_from(self)))
        self.encoder = self._made_encoder()

    def _use(self, model: Model) -> None:
        """Let this be the model, which other threads may read between two records."""
        self.core = model
        model.let_others_in = self.lock.let_readers_in
        model.engine.share_waiting(self.lock.waiting)

    def _made_encoder(self) -> RawEncoder | None:
        """What makes numbers of raw records, if the model is to take such."""
        encode = self.encode
        if encode is False:
            return None
        from braided.encode.encoder import Encoder as RawEncoder
        from braided.encode.rules import Rules
        from braided.estimators.encoder import Encoder

        if isinstance(encode, Encoder):
            return encode._settled.copy()
        if encode is not True:
            raise BraidedError(f"encode is {shown(encode)}: give True, False or a braided.Encoder")
        return RawEncoder(Rules(max_features=max(self.max_features, 0 if self.expire_after is None else _MAX_NAMES)))

    @classmethod
    def _around(cls, model: Model, lock: ModelLock, encoder: RawEncoder | None) -> Self:
        """An estimator of a model that another object uses, too, and whose lock this is."""
        made = cls.__new__(cls)
        made.__dict__.update(model.params.arguments(cls.task), core=model, lock=lock, encoder=encoder)
        return made

    def without_encoder(self) -> Self:
        """The same model for records that are numbers already: it shares all but the encoder."""
        return self._around(self.core, self.lock, None)

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            return copy.deepcopy({name: value for name, value in vars(self).items() if name != "lock"})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.lock = ModelLock()
        self._use(self.core)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self).__new__(type(self))
        made.__setstate__(self.__getstate__())
        return made

    def _repr_html_(self) -> str:
        """What a notebook shows; it changes nothing."""
        from braided.estimators.cards import model_card

        with self.lock:
            return model_card(self)

    @property
    def braid(self) -> Braid:
        """The engine with its learners; sizes are 0 until a record is learned."""
        return self.core.engine

    @property
    def learner_names(self) -> list[str]:
        """A name for each learner; a repeated one gets a number."""
        return self.core.learner_names

    @property
    def n_features(self) -> int:
        """How many features have been seen, and have not expired."""
        return len(self.core.features)

    @property
    def feature_names(self) -> list[Hashable]:
        """The features seen so far, in the order of their slots."""
        return list(self.core.features.slots)

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, in the order of the columns of `predict_proba_many`; none for regression."""
        return self.core.labels

    @property
    def records_learned(self) -> int:
        """How many records this model has learned."""
        return self.core.engine.steps

    @property
    def health(self) -> dict[str, dict[str, int]]:
        """Updates that each learner skipped because they were not finite, and how often it was reset."""
        return self.core.health

    @property
    def drifts(self) -> int:
        """How many drifts were found, each of which raised the model's plasticity; 0 without a detector."""
        return 0 if self.core.watch is None else self.core.watch.drifts

    @property
    def coverage(self) -> dict[float, float]:
        """For levels from 0.5 to 0.99, the share of the records so far whose interval, or set, held the truth."""
        return self.core.coverage.shares()

    def expect_delay(self, delay: int) -> None:
        """Set the delay unless it was given; possible until the first record is learned."""
        with self.lock.writing:
            if self.core.delay == 0 and self.records_learned == 0:
                self._use(Model(self.task, replace(self.core.params, delay=delay)))
                self.delay = delay

    def _records(
        self, X: Any, names: Names, y: Any = None, sample_weight: Any = None, learn: bool = False
    ) -> tuple[Iterable[Records], Frame | None]:
        """X as checked records of numbers, and the data frame that it is, if it is one.

        A sparse matrix comes in pieces, each to be learned before the next is asked for. If one would be refused, none
        is learned: names and labels are checked as a whole, except where names expire.
        """
        model, first = self.core, self.core.engine.steps + 1
        if not is_sparse(X):
            records, frame = records_of(X, names, y, sample_weight, self.encoder, first, learn)
            return [records], frame
        if self.encoder is not None:
            raise BraidedError("X is a sparse matrix, and encode=True takes raw records: give a frame, or leave it out")
        from braided.estimators.sparse import SparseRows

        n, rows = n_records(X), SparseRows(X, names, first)
        labels, weights = listed(y) if learn else None, weights_of(sample_weight, n, first)
        if learn:
            model.check(Records((), np.empty((n, 0)), labels, weights, first=first))
            if model.params.expire_after is None:
                model.features.check_room(rows.new_names(model.features.slots, weights))
        known = None if self.zeros == ZEROS_MISSING else lambda: model.features.slots
        return rows.pieces(labels, weights, known), None

    def learn_one(self, x: Record, y: Any, w: float = 1.0) -> None:
        """Learn one record.

        Parameters
        ----------
        x
            Feature names to numbers; an absent key, None and NaN all mean missing. With `encode`, a raw record.
        y
            The label, any hashable value (classifier), or a finite number (regressor).
        w
            How much the record counts, a finite number of at least 0 (`docs/weights.md`); one of 0 changes nothing.
        """
        with self.lock.writing:
            if self.encoder is None:
                self.core.learn_row(x, y, w)
                return
            learn = as_weight(w, self.core.engine.steps + 1) > 0.0
            with self.encoder.trial():
                self.core.learn_row(self.encoder.encode_one(x, learn), y, w)

    def learn_many(
        self, X: Any, y: Any, names: Names = None, sample_weight: Any = None, earlier: Predictions | None = None
    ) -> None:
        """Learn a chunk, record by record, in order; arguments as of `predict_learn_many`.

        `earlier` is what `progress_many` gave for these records when they came: `coverage` then judges those answers.
        Without it, what would have been answered is judged, going by `delay`.
        """
        if earlier is not None:
            n, width = n_records(X), 1 if self.core.regression else len(self.classes)
            if len(earlier.values) != n:
                raise BraidedError(f"X has {n} records and earlier has {len(earlier.values)}: the lengths must match")
            if not fits(earlier, n, width):
                raise BraidedError("earlier is of another model or of other records: give what progress_many gave")
        self._learn(X, y, names, sample_weight, earlier)

    def _learn(
        self, X: Any, y: Any, names: Names, sample_weight: Any, earlier: Predictions | None = None, answer: bool = False
    ) -> tuple[Predictions, Frame | None]:
        """Predict and learn; a frame that could not hold the `answer` is refused before anything is learned."""
        model, encoder, sparse, parts, done = self.core, self.encoder, is_sparse(X), [], 0
        with self.lock.writing:
            # Others may read while a table is converted and checked; what a refused one settles is taken back.
            reading = nullcontext() if sparse or encoder is not None else self.lock.letting_others_read()
            with reading, nullcontext() if encoder is None else encoder.trial():
                pieces, frame = self._records(X, names, y, sample_weight, learn=True)
                admitted: Iterable[Admitted] = map(model.check, pieces)
                if not sparse:
                    admitted = list(admitted)
                if frame is not None and answer:
                    new = [label for one in admitted for label in one.new_labels.values()]
                    frame.check_names([*model.classes.places, *new])
            for one in admitted:
                n = len(one.records)
                parts.append(model.learn(one, None if earlier is None else earlier.part(done, done + n)))
                done += n
            return join_predictions(parts), frame

    def predict_learn_many(self, X: Any, y: Any, names: Names = None, sample_weight: Any = None) -> Predictions:
        """Predict each record, then learn it, in order: progressive validation of a chunk at compiled speed.

        The result is bit for bit that of `predict_proba_one` (or `predict_one`) and `learn_one` on each record.

        Parameters
        ----------
        X
            (n, d) numbers, NaN for missing: an array; a frame of pandas, Polars, PyArrow or any other library that
            narwhals knows, whose nulls are missing too; or a sparse matrix of SciPy, where what is not stored is
            missing unless `zeros` says otherwise.
        y
            n labels or targets: an array, list or series, in the order of the records (an index is ignored).
        names
            The columns' feature names; 0, 1, ... if not given. A frame has its own.
        sample_weight
            n weights, as `w` of `learn_one`; 1 each if not given. A record of weight 0 is predicted.
        """
        return self._framed_predictions(*self._learn(X, y, names, sample_weight, answer=True))

    def progress_many(self, X: Any, names: Names = None) -> Predictions:
        """What `predict_learn_many` would give if it did not learn: every record is predicted by the model as it is."""
        return self._framed_predictions(*self._predict(X, names, sure=True))

    def _predict(self, X: Any, names: Names, sure: bool = False) -> tuple[Predictions, Frame | None]:
        with self.lock:
            pieces, frame = self._records(X, names)
            return join_predictions([self.core.predict(records, sure) for records in pieces]), frame

    def _framed(self, values: Floats, frame: Frame | None) -> Any:
        """The values of predictions, in the terms of the frame that was given, if one was."""
        if frame is None:
            return values
        if self.core.regression:
            return frame.series(values[:, 0])
        return frame.frame(values, self.classes[: values.shape[1]])

    def _framed_predictions(self, predictions: Predictions, frame: Frame | None) -> Predictions:
        if frame is None:
            return predictions
        own = frame.frame(predictions.own, self.learner_names)
        return predictions._replace(values=self._framed(predictions.values, frame), own=own)

    def _encoded(self, x: Record) -> Mapping[Hashable, Any]:
        """A record of numbers."""
        return x if self.encoder is None else self.encoder.encode_one(x, learn=False)

    def explain_one(
        self,
        x: Record,
        features: Iterable[Hashable] | Mapping[Hashable, Sequence[Hashable]] | None = None,
        by: str = COLUMN,
    ) -> Explanation:
        """What each feature adds to the answer; and, of the fast learner, its score's parts and how sure they are.

        The `effects` are of the whole model: the prediction less the mean of the predictions with other values of the
        feature, which stand for its own distribution so far; all other features keep theirs. `log_odds` has the same
        in log-odds. Of several features that say the same, each adds little. `contributions` are the fast learner's
        own, if there is one, with missing features by their estimates (`estimated`); `shares` are of all learners.

        A column that was one-hot encoded is replaced by each of its categories in turn, by their shares. The features
        of any other group are replaced at once and each by itself: how they go together is not known.

        Parameters
        ----------
        x
            The record.
        features
            Those whose effects are wanted, by default all; a mapping names groups that are replaced together.
        by
            Of a raw record, whether effects are of a `column` with all its features, or of each `feature` by itself.

        Examples
        --------
        >>> from braided import MODLClassifier
        >>> from river import datasets
        >>> model = MODLClassifier()
        >>> for x, y in datasets.Phishing():
        ...     model.learn_one(x, y)
        >>> explanation = model.explain_one({"empty_server_form_handler": 0.0, "ip_in_url": 1, "https": None})
        >>> for name, effect in explanation.top_effects():
        ...     print(f"{name}: {effect:+.3f}, log-odds {explanation.log_odds[name][True]:+.2f}")
        empty_server_form_handler: +0.541, log-odds +4.14
        ip_in_url: -0.006, log-odds -0.23
        >>> sorted(explanation.contributions.keys() - explanation.estimated)
        ['empty_server_form_handler', 'ip_in_url']
        >>> explanation.top(1)[0][0]
        'empty_server_form_handler'
        """
        checks.choice("by", by, BY)
        from braided.estimators import explain

        with self.lock:
            encoded = self._encoded(x)
            groups = explain.groups_of(encoded, features, None if by == FEATURE else self.encoder)
            return explain.explain(self.core, encoded, groups)

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Everything needed to go on exactly from here: JSON metadata and named arrays."""
        with self.lock:
            metadata, arrays = self.core.snapshot()
            if self.encoder is not None:
                from braided.encode.saved import pack_encoder

                metadata["encode"] = pack_encoder(self.encoder)
            return metadata, arrays

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, atomically: whoever reads it finds the old file or the new one.

        A loaded model goes on exactly where this one stands, bit for bit. The file holds no code and no pickle.
        """
        write(path, type(self).__name__, *self.snapshot())

    @classmethod
    def load(cls, path: str | os.PathLike[str], learners: Learners = None) -> Self:
        """Read a model written by `save` (or by `braided run --checkpoint`).

        Parameters
        ----------
        path
            The file.
        learners
            The learners that the model was made with; needed if some are Python objects of your own.
        """
        checkpoint = read(path, cls.__name__)
        return cls.restore(checkpoint.metadata, checkpoint.arrays, learners)

    @classmethod
    def restore(
        cls, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], learners: Learners = None
    ) -> Self:
        """The inverse of `snapshot`; what could not have come from there is refused."""
        arguments = ModelParams.of_metadata(metadata, learners).arguments(cls.task)
        if metadata.get("encode") is not None:
            from braided.encode.saved import restored_encoder
            from braided.estimators.encoder import Encoder

            arguments["encode"] = Encoder._around(restored_encoder(metadata["encode"]))
        model = cls(**arguments)
        model.core.load(metadata, arrays)
        return model
