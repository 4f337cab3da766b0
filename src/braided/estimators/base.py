"""What the classifier and the regressor share: features, growth, chunks, saving and loading."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from braided import checks, presets
from braided.checkpoint import pack_config, pack_name, prefixed, read, unpack_names, unprefixed, write
from braided.engine import Aside, Braid
from braided.errors import BraidedError
from braided.estimators import frames
from braided.estimators.build import BraidSettings, build
from braided.estimators.chunks import Chunk, Floats, checked_array, listed, weights_of
from braided.estimators.columns import by_column, columns_of
from braided.estimators.coverage import Coverage, Sure, joined
from braided.estimators.decision import LIKELIEST, ClassWeight, Costs, Decision, packed
from braided.estimators.drift import Detector, Watch, pack, restored_detector
from braided.estimators.encoder import Encoder
from braided.estimators.explain import VALUE, Explanation, explain, left_out
from braided.estimators.features import LAST_SEEN, ClassSpace, FeatureSpace
from braided.estimators.late_answers import LateAnswers
from braided.estimators.model_card import model_card
from braided.estimators.progress import Progress
from braided.estimators.saved import check_numbers, describe, unpack_parameters
from braided.estimators.sparse import ZEROS, ZEROS_MISSING, Piece, is_sparse, n_records, pieces
from braided.estimators.tasks import CLASSIFICATION, REGRESSION
from braided.learners import Learner, LearnerConfig
from braided.presets import Preset
from braided.state import check_arrays, checked, counts
from braided.streams.encode.encoder import Encoder as RawEncoder
from braided.streams.encode.rules import Rules
from braided.streams.encode.saved import pack_encoder, restored_encoder
from braided.values import as_number, as_weight, shown

#: The column of each slot, None if the columns are the slots; and the slots that may have a value, None for all.
Places = tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]
_NO_SLOTS = np.zeros(0, dtype=np.int64)
#: What the arrays of how sure answers are begin with; older files have none.
_COVERAGE = "coverage"
#: What may be left out of a raw record to explain an answer.
COLUMN, FEATURE = BY = ("column", "feature")
#: Where features expire, so many columns and categories may have come and gone.
_MOST_NAMES = 100_000


class DryRun:
    """Whether a model would learn certain chunks, one after another; made by `dry_run`.

    The answer is that of the check with which learning itself begins. A model of compiled learners has no other reason
    to refuse a chunk; a learner in Python may still refuse to grow.

    Parameters
    ----------
    model
        The model. It is not changed, and should not be while it is asked.

    Examples
    --------
    >>> from braided import MODLClassifier
    >>> dry_run = MODLClassifier(max_features=2).dry_run()
    >>> dry_run.learn_many([[1.0, 2.0]], ["idle"], ["a", "b"])
    >>> dry_run.learn_many([[1.0]], ["idle"], ["c"])
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: feature 'c' would be number 3, and max_features is 2: raise max_features, give
    expire_after, or drop or hash rare features
    """

    def __init__(self, model: MODL) -> None:
        model.braid  # noqa: B018 (making it may lower the limit on classes)
        # The engine, whose counts the check may look at, is shared; names and labels are its own.
        self._model = copy.copy(model)
        self._model._features = model._features.copy()
        self._model._classes = copy.copy(model._classes)
        self._model._classes.places = dict(model._classes.places)
        self._model._encoder = None if model._encoder is None else model._encoder.copy()

    def copy(self) -> DryRun:
        """An independent copy."""
        return DryRun(self._model)

    def learn_many(
        self,
        X: ArrayLike,
        y: ArrayLike | Iterable[Any],
        names: Sequence[Hashable] | None = None,
        sample_weight: Any = None,
    ) -> None:
        """Refuse a chunk that the model would refuse after those before it; else count its names and labels as known.

        Arguments as of `MODL.learn_many`, but for data frames.
        """
        with self._model._growing():
            if self._model._encoder is not None:
                X, names, _ = self._model._opened(X, names, learn=True, sample_weight=sample_weight)
            chunk = self._model._checked(X, y, names, sample_weight)
        learned = slice(None) if chunk.weights is None else chunk.weights > 0.0
        self._model._features.arrivals(chunk.values[learned], chunk.columns)
        for label in chunk.new_labels.values():
            self._model._classes.admit(label)


class MODL(base.Estimator):
    """What the classifier and the regressor share."""

    #: `classification` or `regression`.
    task: ClassVar[str]

    def __init__(
        self,
        preset: str | Preset = "default",
        learners: Sequence[LearnerConfig | Learner] | None = None,
        combiner: str | None = None,
        seed: int = 0,
        max_features: int = 10_000,
        max_classes: int = 1_000,
        first_features: tuple[Hashable, ...] | None = None,
        drift_detector: Detector | None = None,
        delay: int = 0,
        expire_after: int | None = None,
        encode: bool | Encoder = False,
        decision: str = LIKELIEST,
        class_weight: ClassWeight = None,
        costs: Costs = None,
        zeros: str = ZEROS_MISSING,
    ) -> None:
        self.preset = preset
        self.learners = learners
        self.combiner = combiner
        self.seed = seed
        self.max_features = max_features
        self.max_classes = max_classes
        self.first_features = first_features
        self.drift_detector = drift_detector
        self.delay = delay
        self.expire_after = expire_after
        self.encode = encode
        self._encoder = self._made_encoder()
        self.decision = decision
        self.class_weight = class_weight
        self.costs = costs
        self._decision = Decision(decision, class_weight, costs)
        self._coverage = Coverage(self._regression, delay)
        self._judging = True
        self.zeros = checks.choice("zeros", zeros, ZEROS)
        self._late_answers = LateAnswers()
        self._watch = None if drift_detector is None else Watch(drift_detector, self._regression)
        self._features = FeatureSpace(max_features, expire_after, self._checked_first_features())
        self._classes = ClassSpace(max_classes)
        self._braid: Braid | None = None

    @property
    def _regression(self) -> bool:
        return self.task == REGRESSION

    def _made_encoder(self) -> RawEncoder | None:
        """What makes numbers of raw records, if the model is to take such."""
        if isinstance(self.encode, Encoder):
            return self.encode._copy()
        if not isinstance(self.encode, bool):
            raise BraidedError(f"encode is {shown(self.encode)}: give True, False or a braided.Encoder")
        most = self.max_features if self.expire_after is None else max(self.max_features, _MOST_NAMES)
        return RawEncoder(Rules(max_features=most)) if self.encode else None

    def _checked_first_features(self) -> list[Hashable]:
        names = self.first_features
        if names is None:
            return []
        if not isinstance(names, list | tuple):
            raise BraidedError(f"first_features is {shown(names)}: give a tuple of feature names")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise BraidedError(f"first_features has {twice!r} twice: give each name once")
        return list(names)

    def _resolved(self) -> Preset:
        """The preset object."""
        return self.preset if isinstance(self.preset, Preset) else presets.get(self.preset)

    @property
    def braid(self) -> Braid:
        """The engine with its learners; sizes are 0 until a record is learned."""
        if self._braid is None:
            settings = BraidSettings(
                self.task, self._resolved(), self.learners, self.combiner, self.seed, self.delay, self.expire_after
            )
            self._braid = build(settings, self._classes)
        return self._braid

    @property
    def learner_names(self) -> list[str]:
        """A name for each learner; a repeated one gets a number."""
        names: list[str] = []
        for learner in self.braid.learners:
            name = plain = str(getattr(learner, "name", type(learner).__name__))
            number = 1
            while name in names:
                number += 1
                name = f"{plain} {number}"
            names.append(name)
        return names

    @property
    def n_features(self) -> int:
        """How many features have been seen, and have not expired."""
        return len(self._features)

    @property
    def feature_names(self) -> list[Hashable]:
        """The features seen so far, in the order of their slots."""
        return list(self._features.slots)

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, in the order of the columns of `predict_proba_many`; none for regression."""
        return list(self._classes.places)

    @property
    def records_learned(self) -> int:
        """How many records this model has learned."""
        return self._braid.steps if self._braid is not None else 0

    @property
    def health(self) -> dict[str, dict[str, int]]:
        """Updates that each learner skipped because they were not finite, and how often it was reset."""
        table = self.braid.health
        return {
            name: {"skipped": int(table[i, 0]), "resets": int(table[i, 2])} for i, name in enumerate(self.learner_names)
        }

    def _repr_html_(self) -> str:
        """What a notebook shows; it changes nothing."""
        return model_card(self if self.records_learned else self.clone())

    @property
    def drifts(self) -> int:
        """How many drifts were found, each of which raised the model's plasticity; 0 without a detector."""
        return self._watch.drifts if self._watch is not None else 0

    @property
    def coverage(self) -> dict[float, float]:
        """For levels from 0.5 to 0.99, the share of the records so far whose interval, or set, held the truth."""
        return self._coverage.shares()

    @property
    def coverage_counts(self) -> NDArray[np.int64]:
        """For each of these levels how many records were judged, and of how many it held the truth."""
        return self._coverage.covered.copy()

    def expect_delay(self, delay: int) -> None:
        """Be told before the first record is learned that labels come late, if nobody has said so yet."""
        if self.delay == 0 and self.records_learned == 0:
            self.delay, self._coverage.delay, self._braid = delay, delay, None

    def _grow(self, n_new_features: int = 0, n_new_labels: int = 0) -> None:
        """Let the engine have the sizes of what is known, and of so many new names and labels."""
        # For classes at least two: the first class is learned against a second one that has not come yet.
        n_outputs = 1 if self._regression else max(2, len(self._classes) + n_new_labels)
        self.braid.grow(len(self._features) + n_new_features, n_outputs)

    def _admit(self, names: list[Hashable], labels: list[Hashable], row: Floats | None = None) -> None:
        """Make room for the new names and labels of a record; `row` has its other values, by slot.

        If a learner refuses to grow, they are not known afterwards.
        """
        given_up = self._features.given_up(names, row) if names else _NO_SLOTS
        self._grow(len(names) - given_up.size, len(labels))
        if names:
            self._features.admit(names, given_up)
        for label in labels:
            self._classes.admit(label)
        if given_up.size:
            self.braid.forget_features(given_up)

    def _predict_row(self, x: Mapping[Hashable, Any], aside: Aside | None = None) -> Floats | None:
        """The engine's prediction for one record; None before anything was learned."""
        if self._encoder is not None:
            x = self._encoder.encode_one(x, learn=False)
        return self._predict_encoded(x, aside)

    def _predict_encoded(
        self, x: Mapping[Hashable, Any], aside: Aside | None = None, keep: bool = True
    ) -> Floats | None:
        """The same of a record of numbers; unless it is to be kept, nobody was told of the answer."""
        row = self._features.row(x, self.records_learned + 1)
        if self.records_learned == 0:
            return None
        if not keep:
            silent, _ = self.braid.run(row[None, :], None, None, self._features.slots_of(x))
            said: Floats = silent[0]
            return said
        if self.braid.lags and aside is None:
            aside = Aside(1)
        predictions, own = self.braid.run(row[None, :], None, None, self._features.slots_of(x), aside=aside)
        if self.braid.lags and aside is not None:
            known = predictions if self._regression else predictions[:, : len(self._classes)]
            answer = Progress(known.copy(), own, self._decided(predictions), self._coverage.sure(aside.doubts))
            self._late_answers.keep(x, self.records_learned, self.delay, answer)
        first: Floats = predictions[0]
        return first

    @abstractmethod
    def _target(self, y: Any, record: int) -> Any:
        """The label or target as it is learned; refused if it cannot be."""

    def learn_one(self, x: Mapping[Hashable, Any], y: Any, w: float = 1.0) -> None:
        """Learn one record.

        Parameters
        ----------
        x
            Feature names to numbers; an absent key, None and NaN all mean missing. With `encode`, a raw record.
        y
            The label, any hashable value (classifier), or a finite number (regressor).
        w
            How much the record counts, a finite number from 0 on; a record of weight 0 changes nothing. What a weight
            is for each learner is in `docs/weights.md`.
        """
        if self._encoder is None:
            self._learn_one(x, y, w)
            return
        learn = as_weight(w, self.braid.steps + 1) > 0.0
        with self._encoder.trial():
            self._learn_one(self._encoder.encode_one(x, learn), y, w)

    def _learn_one(self, x: Mapping[Hashable, Any], y: Any, w: float) -> None:
        record = self.braid.steps + 1
        weight = as_weight(w, record)
        new = self._features.new_in(x)
        for name in new:
            as_number(name, x[name], record)
        row = self._features.row(x, record)
        target = self._target(y, record)
        if weight == 0.0:
            return
        self._features.check_room(new, row)
        unseen = not self._regression and target not in self._classes.places
        if not self._regression:
            self._classes.check_room([target] if unseen else [])
        self._admit(new, [target] if unseen else [], row)
        if not self._regression:
            target = self._classes.places[target]
        if new:
            row = self._features.row(x, record)
        slots = self._features.slots_of(x)
        weights = None if weight == 1.0 else np.array([weight])
        said = self._late_answers.take(x) if self.records_learned >= self.delay else None
        targets = np.array([target], dtype=np.float64)
        if said is None:
            self._run(row[None, :], (None, slots), targets, weights, unseen)
            return
        with self._judged_by(said):
            self._run(row[None, :], (None, slots), targets, weights, unseen)
        self._judge(said, [y], None)

    def _run(
        self, values: Floats, where: Places, targets: Floats | None, weights: Floats | None, unseen: bool = False
    ) -> Progress:
        """Run records through the engine; if they are learned under a drift detector, one by one and watched.

        `where` has the column of each slot, None if they are the same, and the slots that may have a value. `unseen`
        says that the first label is one that the model has not known until this record.
        """
        aside = Aside(len(values))
        if targets is None:
            predictions, own = self.braid.run(values, where[0], None, where[1], aside=aside)
            return Progress(predictions, own, self._decided(predictions), self._coverage.sure(aside.doubts))
        first = self.records_learned == 0
        predictions, own = self._run_learning(values, where, targets, weights, unseen, aside)
        if self.expire_after is not None:
            self._features.see(values, where[0])
        return Progress(predictions, own, self._follow(predictions, targets, weights, aside, first, unseen))

    def _follow(
        self, predictions: Floats, targets: Floats, weights: Floats | None, aside: Aside, first: bool, unseen: bool
    ) -> NDArray[np.int64] | None:
        """After records were learned: count them in beside the braid; returns how they were decided.

        `first` says that there was no answer to the first of them, as nothing had been learned. How sure answers were
        is judged by what was known when they were given, as far as that can be told without them.
        """
        known = aside.as_known
        # Where labels come late, the first records were all answered before anything was learned.
        early = self.delay - (self.records_learned - len(targets)) if self.braid.lags else int(first)
        start = min(max(early, int(unseen)), len(targets))
        if self._regression:
            if self._judging:
                self._coverage.follow_values(known[start:, 0], targets[start:], aside.doubts[start:])
            return None
        then = copy.deepcopy(self._decision) if self.braid.lags and not self._decision.plain else None
        classes = self.classes
        decided = self._decision.follow(predictions, targets, classes, weights)
        if self._judging:
            answers = decided if then is None else then.follow(known, targets, classes, weights)
            if answers is None:
                answers = known[:, : len(classes)].argmax(axis=1)
            if unseen and early <= 0:
                self._coverage.miss()
            if start < len(targets):
                self._coverage.follow_classes(known[start:], targets[start:], answers[start:], len(classes))
        return decided

    @contextmanager
    def _judged_by(self, said: Progress | None) -> Iterator[None]:
        """Within this, records that are learned are not judged if that will be done by what was said of them."""
        self._judging = said is None
        try:
            yield
        finally:
            self._judging = True

    def _judge(self, said: Progress, y: Any, sample_weight: Any) -> None:
        """Count whether answers that were given earlier hold what has turned out to be true, now that it is learned."""
        if said.sure is None:
            return
        truth = listed(frames.targets(y))
        weights = weights_of(sample_weight, len(truth), self.records_learned)
        predictions = np.asarray(said.predictions, dtype=np.float64).reshape(len(truth), -1)
        for t, target in enumerate(truth):
            if weights is not None and weights[t] == 0.0:
                continue
            part = slice(t, t + 1)
            row, sure = predictions[part], said.sure.part(part)
            if self._regression:
                self._coverage.follow_values(row[:, 0], np.array([float(target)]), sure.doubts, sure)
                continue
            place, n_classes = self._classes.places[self._classes.label(target, 0)], row.shape[1]
            if place >= n_classes:
                self._coverage.miss(sure.bounds[0])
                continue
            answers = row.argmax(axis=1) if said.decided is None else said.decided[part]
            self._coverage.follow_classes(row, np.array([float(place)]), answers, n_classes, sure)

    def _decided(self, predictions: Floats) -> NDArray[np.int64] | None:
        """The places of the classes that are answered; None where they are the likeliest."""
        if self._regression or self._decision.plain:
            return None
        return self._decision.places(predictions, self.classes)

    def _run_learning(
        self, values: Floats, where: Places, targets: Floats, weights: Floats | None, unseen: bool, aside: Aside
    ) -> tuple[Floats, Floats]:
        if self._watch is None:
            return self.braid.run(values, where[0], targets, where[1], weights, aside)
        parts, asides = [], []
        for t in range(values.shape[0]):
            first = self.records_learned == 0
            part, weight = slice(t, t + 1), None if weights is None else weights[t : t + 1]
            asides.append(Aside(1))
            parts.append(self.braid.run(values[part], where[0], targets[part], where[1], weight, asides[-1]))
            self.braid.relax()
            if not first and self._watch.update(self._error(parts[-1][0][0], float(targets[t]), unseen and t == 0)):
                self.braid.raise_plasticity()
        aside.doubts = np.concatenate([one.doubts for one in asides])
        aside.as_known = np.concatenate([one.as_known for one in asides])
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    @abstractmethod
    def _error(self, prediction: Floats, target: float, unseen: bool) -> float:
        """How far off the prediction was that was made before this record was learned."""

    @abstractmethod
    def _encode_targets(self, y: ArrayLike | Iterable[Any], n: int) -> tuple[list[Any], Floats, dict[int, Any]]:
        """New labels in order, the targets as the engine takes them, and at which record each new label stands."""

    def _opened(
        self, X: Any, names: Sequence[Hashable] | None, learn: bool = False, sample_weight: Any = None
    ) -> tuple[Any, Any, frames.Frame | None]:
        """A data frame as its values, names and itself; anything else as it is. Raw records are encoded.

        Those to `learn` extend the rules, but for those of weight 0.
        """
        if self._encoder is not None and is_sparse(X):
            raise BraidedError("X is a sparse matrix, and encode=True takes raw records: give a frame, or leave it out")
        frame = frames.opened(X)
        if frame is not None and names is not None:
            raise BraidedError("names are given with a data frame, which has its own: rename its columns instead")
        if self._encoder is not None:
            first = self.records_learned + 1
            columns, n = frames.raw_columns(X, names) if frame is None else frame.raw_columns(first)
            weights = weights_of(sample_weight, n, first)
            settling = learn if weights is None or not learn or weights.all() else weights > 0.0
            names, X = self._encoder.encode_table(columns, n, settling)
        elif frame is not None:
            X, names = frame.table(self.records_learned + 1)
        return X, names, frame

    def give_up_encoder(self) -> RawEncoder | None:
        """Take numbers from now on; what made them of raw records, if anything did."""
        encoder, self._encoder, self.encode = self._encoder, None, False
        return encoder

    def _growing(self) -> AbstractContextManager[Any]:
        """Within this, what raw records settle is taken back if they are refused."""
        return nullcontext() if self._encoder is None else self._encoder.trial()

    def predict_learn_many(
        self, X: Any, y: Any, names: Sequence[Hashable] | None = None, sample_weight: Any = None
    ) -> Progress:
        """Predict each record, then learn it, in order: progressive validation of a chunk at compiled speed.

        The result is bit for bit that of `predict_proba_one` (or `predict_one`) and `learn_one` on each record.

        Parameters
        ----------
        X
            (n, d) numbers, NaN for missing: an array, or a frame of pandas, Polars, PyArrow or any other library that
            narwhals knows, whose nulls are missing too; or a sparse matrix of SciPy, where what is not stored is
            missing (a stored 0 is 0), unless `zeros` says otherwise.
        y
            n labels or targets: an array, list or series, in the order of the records (an index is not looked at).
        names
            The columns' feature names; 0, 1, ... if not given. A frame has its own.
        sample_weight
            n weights, as `w` of `learn_one`; 1 each if not given. A record of weight 0 is predicted.
        """
        with self._growing():
            X, names, frame = self._opened(X, names, learn=True, sample_weight=sample_weight)
            progress = self._predict_learn(X, y, names, sample_weight, frame)
        if frame is None:
            return progress
        return self._framed_progress(frame, progress)

    def _framed_progress(self, frame: frames.Frame, progress: Progress) -> Progress:
        own = frame.frame(progress.own, self.learner_names)
        return progress._replace(predictions=self._framed(frame, progress.predictions), own=own)

    @abstractmethod
    def _framed(self, frame: frames.Frame, predictions: Floats) -> Any:
        """Predictions in the terms of the frame that was given."""

    def _predict_learn(
        self,
        X: ArrayLike,
        y: Any,
        names: Sequence[Hashable] | None,
        sample_weight: Any,
        frame: frames.Frame | None = None,
    ) -> Progress:
        """`predict_learn_many` of an array; what the answer's `frame` could not hold is refused before any learning."""
        if is_sparse(X):
            return self._predict_learn_sparse(X, y, names, sample_weight)
        chunk = self._checked(X, y, names, sample_weight)
        if frame is not None:
            frame.check_names([*self._classes.places, *chunk.new_labels.values()])
        values, columns, targets, weights = chunk.values, chunk.columns, chunk.targets, chunk.weights
        n = values.shape[0]
        width = 1 if self._regression else len(self._classes) + len(chunk.new_labels)
        progress = self._nothing_said(n, width)
        # Where something new appears, the record is predicted by the model as it was and learned by the grown one.
        breaks = sorted(set(chunk.new_features) | set(chunk.new_labels))
        start = 0
        for stop in [*breaks, n]:
            heavy = None if weights is None else weights[start:stop]
            self._learn_part(values[start:stop], columns, targets[start:stop], heavy, progress, start)
            if stop == n:
                break
            self._run_part(values[stop : stop + 1], columns, None, None, progress, stop)
            labels = [chunk.new_labels[stop]] if stop in chunk.new_labels else []
            self._admit(chunk.new_features.get(stop, []), labels, self._features.by_slot(values[stop], columns))
            part = slice(stop, stop + 1)
            heavy = None if weights is None else weights[part]
            self._run(values[part], self._features.columns(columns), targets[part], heavy, stop in chunk.new_labels)
            start = stop + 1
        return progress

    def _pieces(self, X: Any, names: Sequence[Hashable] | None, weights: Floats | None = None) -> Iterator[Piece]:
        """A sparse matrix, some records at a time; each piece is to be learned before the next is asked for."""
        return pieces(X, names, None if self.zeros == ZEROS_MISSING else lambda: self._features.slots, weights)

    def _predict_learn_sparse(self, X: Any, y: Any, names: Sequence[Hashable] | None, sample_weight: Any) -> Progress:
        """The same of a sparse matrix, piece by piece; if one would be refused, none is learned."""
        labels, n = listed(frames.targets(y)), n_records(X)
        if len(labels) != n:
            raise BraidedError(f"X has {n} records and y has {len(labels)} labels: they must be as many")
        weights = weights_of(sample_weight, n, self.records_learned + 1)
        dry_run = self.dry_run()
        for rows, table, used in dry_run._model._pieces(X, names, weights):
            dry_run.learn_many(table, labels[rows], used, None if weights is None else weights[rows])
        return self._joined(
            [
                self._predict_learn(table, labels[rows], used, None if weights is None else weights[rows])
                for rows, table, used in self._pieces(X, names, weights)
            ]
        )

    def _joined(self, parts: list[Progress]) -> Progress:
        """Progress of pieces, one after another; later ones may know more classes."""
        if not parts:
            return self._nothing_said(0, 1 if self._regression else len(self._classes))
        width = max(part.predictions.shape[1] for part in parts)
        predictions = [np.pad(part.predictions, ((0, 0), (0, width - part.predictions.shape[1]))) for part in parts]
        decided = None if parts[0].decided is None else np.concatenate([part.decided for part in parts])
        sures = [part.sure for part in parts if part.sure is not None]
        sure = joined(sures) if len(sures) == len(parts) else None
        return Progress(np.concatenate(predictions), np.concatenate([part.own for part in parts]), decided, sure)

    def _checked(self, X: ArrayLike, y: Any, names: Sequence[Hashable] | None, sample_weight: Any = None) -> Chunk:
        """A chunk as it will be learned, or the refusal of all of it; nothing changes."""
        values, columns = checked_array(X, names, self.records_learned + 1)
        n = values.shape[0]
        y = frames.targets(y)
        if sample_weight is not None and not isinstance(y, np.ndarray):
            y = listed(y)
        _, targets, new_labels = self._encode_targets(y, n)
        weights = weights_of(sample_weight, n, self.records_learned + 1)
        kept = np.arange(n) if weights is None else np.flatnonzero(weights)
        if kept.size < n:  # what only records of weight 0 bring is not known afterwards
            labels = list(y)
            _, targets[kept], found = self._encode_targets([labels[i] for i in kept], kept.size)
            new_labels = {int(kept[at]): label for at, label in found.items()}
        new_features: dict[int, list[Hashable]] = {}
        if not self._features.slots.keys() >= set(columns):
            arrivals = self._features.copy().arrivals(values[kept] if kept.size < n else values, columns)
            new_features = {int(kept[at]): names for at, names in arrivals.items()}
        self._classes.check_room(list(new_labels.values()))
        return Chunk(values, columns, targets, weights, new_features, new_labels)

    def dry_run(self) -> DryRun:
        """Asks whether this model would learn certain chunks, one after another, without learning them."""
        return DryRun(self)

    def _learn_part(
        self,
        values: Floats,
        columns: list[Hashable],
        targets: Floats,
        weights: Floats | None,
        progress: Progress,
        start: int,
    ) -> None:
        """Predict and learn records in which nothing new appears, but those of weight 0, which are only predicted."""
        if weights is None or weights.all():
            self._run_part(values, columns, targets, weights, progress, start)
            return
        ends = [*(np.flatnonzero(np.diff(weights > 0.0)) + 1).tolist(), len(weights)]
        at = 0
        for end in ends:
            part, learned = slice(at, end), weights[at] > 0.0
            known = targets[part] if learned else None
            self._run_part(values[part], columns, known, weights[part] if learned else None, progress, start + at)
            at = end

    def _run_part(
        self,
        values: Floats,
        columns: list[Hashable],
        targets: Floats | None,
        weights: Floats | None,
        progress: Progress,
        start: int,
    ) -> Sure | None:
        """Run records in which nothing new appears, and note the predictions from row `start` on."""
        if values.shape[0] == 0 or (self.records_learned == 0 and targets is None):
            return None
        self._grow()
        predictions, own, decided, sure = self._run(values, self._features.columns(columns), targets, weights)
        rows = slice(start, start + values.shape[0])
        if progress.decided is not None and decided is not None:
            progress.decided[rows] = decided
        if not self._regression and len(self._classes) == 1:
            progress.predictions[rows, 0] = 1.0
            progress.own[rows] = 0.0
        else:
            progress.predictions[rows, : predictions.shape[1]] = predictions
            progress.own[rows] = own
        return sure

    def progress_many(self, X: Any, names: Sequence[Hashable] | None = None) -> Progress:
        """What `predict_learn_many` would give if it did not learn: every record is predicted by the model as it is."""
        X, names, frame = self._opened(X, names)
        if is_sparse(X):
            return self._joined([self.progress_many(piece.table, piece.names) for piece in self._pieces(X, names)])
        values, columns = checked_array(X, names, self.records_learned + 1)
        progress = self._nothing_said(len(values), 1 if self._regression else len(self._classes))
        progress = progress._replace(sure=self._run_part(values, columns, None, None, progress, 0))
        if frame is None:
            return progress
        return self._framed_progress(frame, progress)

    def _nothing_said(self, n: int, width: int) -> Progress:
        """An array for predictions, filled with what is said of a record before the model knows anything."""
        unknown = 0.0 if self._regression else -1.0
        own = np.full((n, len(self.braid.learners)), unknown)
        decides = not self._regression and not self._decision.plain
        return Progress(np.zeros((n, width)), own, np.full(n, -1, dtype=np.int64) if decides else None)

    def learn_many(
        self,
        X: Any,
        y: Any,
        names: Sequence[Hashable] | None = None,
        sample_weight: Any = None,
        said: Progress | None = None,
    ) -> None:
        """Learn a chunk, record by record, in order; arguments as of `predict_learn_many`.

        Parameters
        ----------
        said
            What `progress_many` gave for these records when they came. `coverage` is then that of the answers as they
            were given, however late the labels are; if not given, of what would have been answered by the labels that
            had come by then, going by `delay`.
        """
        if said is not None and len(said.predictions) != n_records(X):
            raise BraidedError(f"X has {n_records(X)} records and said has {len(said.predictions)}: give as many")
        with self._growing():
            X, names, _ = self._opened(X, names, learn=True, sample_weight=sample_weight)
            with self._judged_by(said):
                self._predict_learn(X, y, names, sample_weight)
        if said is not None:
            self._judge(said, y, sample_weight)

    def effects_one(
        self,
        x: Mapping[Hashable, Any],
        features: Iterable[Hashable] | Mapping[Hashable, Sequence[Hashable]] | None = None,
        by: str = COLUMN,
    ) -> dict[Hashable, dict[Hashable, float]]:
        """Feature -> label -> what the feature adds to the label's probability; of numbers, to the `"value"`.

        That is the prediction less the one for the record without the feature. Of several features that say the same,
        each adds little.

        Parameters
        ----------
        x
            The record.
        features
            Those to leave out, each by itself; all that the record has if not given. A mapping has names for features
            that are left out together.
        by
            Of a raw record, whether a `column` is left out, with all the features that it becomes, or each `feature` by
            itself. Both are the same for a record of numbers.
        """
        checks.choice("by", by, BY)
        if self._encoder is None:
            return self._effects(x, features)
        return self._effects(*self._encoded_groups(x, features, by))

    def _encoded_groups(
        self, x: Mapping[Hashable, Any], features: Any, by: str
    ) -> tuple[dict[Hashable, float], Iterable[Hashable] | Mapping[Hashable, Sequence[Hashable]] | None]:
        """A raw record's features, and which of them to leave out together."""
        assert self._encoder is not None
        encoded = self._encoder.encode_one(x, learn=False)
        if by == FEATURE or isinstance(features, Mapping):
            return encoded, features
        groups = by_column(encoded, columns_of(self._encoder))
        if features is None:
            return encoded, groups
        return encoded, {name: groups.get(name, [name]) for name in features}

    def _effects(
        self,
        x: Mapping[Hashable, Any],
        features: Iterable[Hashable] | Mapping[Hashable, Sequence[Hashable]] | None,
    ) -> dict[Hashable, dict[Hashable, float]]:
        row = self._features.row(x, self.records_learned + 1)
        if self.records_learned == 0:
            raise BraidedError("the model has learned nothing yet, so there is nothing to explain")
        slots = self._features.slots
        groups = features if isinstance(features, Mapping) else {name: [name] for name in features or ()}
        if features is None:
            groups = {name: [name] for name in x}
        found = {
            name: [slots[one] for one in group if one in slots and not np.isnan(row[slots[one]])]
            for name, group in groups.items()
        }
        wanted = {name: group for name, group in found.items() if group}
        lost = left_out(self.braid, row, list(wanted.values()))
        labels: list[Hashable] = [VALUE] if self._regression else self.classes
        if not self._regression and len(labels) == 1:
            lost = np.zeros_like(lost)
        return {
            name: {label: -float(change) for label, change in zip(labels, row_lost, strict=False)}
            for name, row_lost in zip(wanted, lost.tolist(), strict=True)
        }

    def explain_one(
        self, x: Mapping[Hashable, Any], features: Iterable[Hashable] | None = None, by: str = COLUMN
    ) -> Explanation:
        """What each feature adds to the answer; and, of the fast learner, its score's parts and how sure they are.

        `effects` are of the whole model, each feature left out by itself (or those among `features`): missing features
        are nothing unusual to it, so that these are exact. Of a raw record they are of its columns, unless `by` is
        `feature`; see `effects_one`. `contributions` are the fast learner's own, where there is
        one; a missing feature is in it by its estimate, and `estimated` names it. `shares` are of all learners.

        Examples
        --------
        >>> from braided import MODLClassifier
        >>> from river import datasets
        >>> model = MODLClassifier()
        >>> for x, y in datasets.Phishing():
        ...     model.learn_one(x, y)
        >>> explanation = model.explain_one({"empty_server_form_handler": 0.0, "ip_in_url": 1, "https": None})
        >>> explanation.top_effects(1)[0][0], sorted(explanation.effects)
        ('empty_server_form_handler', ['empty_server_form_handler', 'ip_in_url'])
        >>> sorted(explanation.contributions.keys() - explanation.estimated)
        ['empty_server_form_handler', 'ip_in_url']
        >>> explanation.top(1)[0][0]
        'empty_server_form_handler'
        """
        checks.choice("by", by, BY)
        groups: Any = features
        if self._encoder is not None:
            x, groups = self._encoded_groups(x, features, by)
        effects = self._effects(x, groups)
        row = self._features.row(x, self.records_learned)
        place = 0
        if not self._regression:
            predictions = self.braid.run(row[None, :], None, None)[0][:, : len(self._classes)]
            decided = self._decided(predictions)
            place = int(predictions.argmax() if decided is None else decided[0])
        found = explain(self.braid, row, self.feature_names, self.classes, self.learner_names, place)
        return replace(found, effects=effects)

    def snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything needed to go on exactly from here: JSON metadata and named arrays."""
        # A name says enough where its settings never change.
        preset: Any = self.preset if self.preset in presets.SETTLED else pack_config(self._resolved())
        metadata: dict[str, Any] = {
            "parameters": {
                "preset": preset,
                "learners": None if self.learners is None else [describe(item) for item in self.learners],
                "combiner": self.combiner,
                "seed": int(self.seed),
                "max_features": int(self.max_features),
                "max_classes": int(self.max_classes),
                "first_features": [pack_name(name) for name in self.first_features or ()],
            },
            "features": [pack_name(name) for name in self._features.slots],
            "classes": [pack_name(label) for label in self._classes.places],
        }
        arrays = self.braid.state()
        if self.delay:
            metadata["parameters"]["delay"] = int(self.delay)
        if self.zeros != ZEROS_MISSING:
            metadata["parameters"]["zeros"] = self.zeros
        if self.expire_after is not None:
            metadata["parameters"]["expire_after"] = int(self.expire_after)
            arrays[LAST_SEEN] = self._features.last_seen.copy()
        arrays |= prefixed(_COVERAGE, self._coverage.state())
        if not self._regression:
            arrays |= self._decision.state()
            if self.decision != LIKELIEST:
                metadata["parameters"]["decision"] = self.decision
            metadata["parameters"] |= packed(self.class_weight, self.costs)
        if self._watch is not None:
            metadata["drift"] = {"detector": pack(self._watch.detector.clone()), "watch": self._watch.state()}
        if self._encoder is not None:
            metadata["encode"] = pack_encoder(self._encoder)
        return metadata, arrays

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, atomically: whoever reads it finds the old file or the new one.

        A loaded model goes on exactly where this one stands, bit for bit. The file holds no code and no pickle.
        """
        write(path, type(self).__name__, *self.snapshot())

    @classmethod
    def load(cls, path: str | os.PathLike[str], learners: Sequence[LearnerConfig | Learner] | None = None) -> Self:
        """Read a model written by `save` (or by `braided run --checkpoint`).

        Parameters
        ----------
        path
            The file.
        learners
            The learners that the model was made with; needed only if some are Python objects of your own, which a file
            without code cannot bring back.
        """
        checkpoint = read(path, cls.__name__)
        return cls.restore(checkpoint.metadata, checkpoint.arrays, learners)

    @classmethod
    def restore(
        cls,
        metadata: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        learners: Sequence[LearnerConfig | Learner] | None = None,
    ) -> Self:
        """The inverse of `snapshot`; what could not have come from there is refused."""
        parameters = unpack_parameters(metadata, learners)
        if cls.task == REGRESSION:
            del parameters["max_classes"], parameters["first_features"]
        drift, encode = metadata.get("drift"), metadata.get("encode")
        if encode is not None:
            parameters["encode"] = Encoder._around(restored_encoder(encode))
        model = cls(**parameters, drift_detector=None if drift is None else restored_detector(drift))
        if model._watch is not None:
            model._watch.load_state(checked("the checkpoint's drift", drift, "watch", dict))
        features = unpack_names("features", metadata.get("features"))
        labels = [model._classes.label(label, 0) for label in unpack_names("classes", metadata.get("classes"))]
        new = [name for name in features if name not in model._features.slots]
        model._features.check_room(new)
        model._features.admit(new)
        braid = model.braid
        model._classes.check_room(labels)
        for label in labels:
            model._classes.admit(label)
        check_arrays("state of the model", {"steps": counts(1)}, arrays)
        learned = int(arrays["steps"][0]) > 0
        if (labels and cls.task == REGRESSION) or (learned and not labels and cls.task == CLASSIFICATION):
            raise BraidedError("the checkpoint's classes do not go with its task: give a file written by save")
        check_numbers(braid, len(model._features), 1 if cls.task == REGRESSION else max(2, len(labels)), arrays)
        if learned:
            model._grow()
            braid.load_state(arrays)
            if model.expire_after is not None:
                model._features.load_last_seen(arrays, model.records_learned)
            kept = unprefixed(_COVERAGE, arrays)
            if kept:
                model._coverage.load_state(kept)
            if not model._regression:
                model._decision.load_state(arrays, len(labels))
        return model

    def _predict_rows(
        self, X: Any, names: Sequence[Hashable] | None, doubts: list[Floats] | None = None
    ) -> Floats | None:
        """The predictions, None before anything was learned; those of `kernels.doubt` are added to `doubts`."""
        if is_sparse(X):
            found = [self._predict_rows(piece.table, piece.names, doubts) for piece in self._pieces(X, names)]
            rows = [part for part in found if part is not None]
            nothing = np.zeros((0, max(self.braid.n_outputs, 1)))
            return np.concatenate([nothing, *rows]) if self.records_learned else None
        values, columns = checked_array(X, names, self.records_learned + 1)
        if self.records_learned == 0:
            return None
        where, slots = self._features.columns(columns)
        aside = None if doubts is None else Aside(len(values))
        predictions, _ = self.braid.run(values, where, None, slots, aside=aside)
        if doubts is not None and aside is not None:
            doubts.append(aside.doubts)
        return predictions
