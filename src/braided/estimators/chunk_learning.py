"""Chunks of records: arrays, frames and sparse matrices, in which names and labels may be new."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from braided.engine import Aside
from braided.errors import BraidedError
from braided.estimators import frames
from braided.estimators.chunks import Chunk, Floats, checked_array, listed, weights_of
from braided.estimators.record_learning import RecordLearning
from braided.estimators.sparse import ZEROS_MISSING, Piece, is_sparse, n_records, pieces
from braided.records import Confidence, Predictions, join_predictions
from braided.streams.encode.encoder import Encoder as RawEncoder


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

    def __init__(self, model: ChunkLearning) -> None:
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


class ChunkLearning(RecordLearning):
    """Predicts and learns chunks, each as its records one by one would be."""

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

    @contextmanager
    def lent_encoder(self) -> Iterator[RawEncoder | None]:
        """Within this the model takes numbers, which the encoder that is lent makes of raw records, if there is one."""
        encoder, self._encoder = self._encoder, None
        try:
            yield encoder
        finally:
            self._encoder = encoder

    def _growing(self) -> AbstractContextManager[Any]:
        """Within this, what raw records settle is taken back if they are refused."""
        return nullcontext() if self._encoder is None else self._encoder.trial()

    def predict_learn_many(
        self, X: Any, y: Any, names: Sequence[Hashable] | None = None, sample_weight: Any = None
    ) -> Predictions:
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

    def _framed_progress(self, frame: frames.Frame, progress: Predictions) -> Predictions:
        own = frame.frame(progress.own, self.learner_names)
        return progress._replace(values=self._framed(frame, progress.values), own=own)

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
    ) -> Predictions:
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

    def _predict_learn_sparse(
        self, X: Any, y: Any, names: Sequence[Hashable] | None, sample_weight: Any
    ) -> Predictions:
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

    def _joined(self, parts: list[Predictions]) -> Predictions:
        """Predictions of pieces, one after another."""
        return (
            join_predictions(parts) if parts else self._nothing_said(0, 1 if self._regression else len(self._classes))
        )

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
        progress: Predictions,
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
        progress: Predictions,
        start: int,
    ) -> Confidence | None:
        """Run records in which nothing new appears, and note the predictions from row `start` on."""
        if values.shape[0] == 0 or (self.records_learned == 0 and targets is None):
            return None
        self._grow()
        predictions, own, decided, sure = self._run(values, self._features.columns(columns), targets, weights)
        rows = slice(start, start + values.shape[0])
        if progress.decided is not None and decided is not None:
            progress.decided[rows] = decided
        if not self._regression and len(self._classes) == 1:
            progress.values[rows, 0] = 1.0
            progress.own[rows] = 0.0
        else:
            progress.values[rows, : predictions.shape[1]] = predictions
            progress.own[rows] = own
        return sure

    def progress_many(self, X: Any, names: Sequence[Hashable] | None = None) -> Predictions:
        """What `predict_learn_many` would give if it did not learn: every record is predicted by the model as it is."""
        X, names, frame = self._opened(X, names)
        if is_sparse(X):
            return self._joined([self.progress_many(piece.table, piece.names) for piece in self._pieces(X, names)])
        values, columns = checked_array(X, names, self.records_learned + 1)
        progress = self._nothing_said(len(values), 1 if self._regression else len(self._classes))
        progress = progress._replace(confidence=self._run_part(values, columns, None, None, progress, 0))
        if frame is None:
            return progress
        return self._framed_progress(frame, progress)

    def _nothing_said(self, n: int, width: int) -> Predictions:
        """An array for predictions, filled with what is said of a record before the model knows anything."""
        unknown = 0.0 if self._regression else -1.0
        own = np.full((n, len(self.braid.learners)), unknown)
        decides = not self._regression and not self._decision.plain
        return Predictions(np.zeros((n, width)), own, np.full(n, -1, dtype=np.int64) if decides else None)

    def learn_many(
        self,
        X: Any,
        y: Any,
        names: Sequence[Hashable] | None = None,
        sample_weight: Any = None,
        said: Predictions | None = None,
    ) -> None:
        """Learn a chunk, record by record, in order; arguments as of `predict_learn_many`.

        Parameters
        ----------
        said
            What `progress_many` gave for these records when they came. `coverage` is then that of the answers as they
            were given, however late the labels are; if not given, of what would have been answered by the labels that
            had come by then, going by `delay`.
        """
        if said is not None and len(said.values) != n_records(X):
            raise BraidedError(f"X has {n_records(X)} records and said has {len(said.values)}: give as many")
        with self._growing():
            X, names, _ = self._opened(X, names, learn=True, sample_weight=sample_weight)
            with self._judged_by(said):
                self._predict_learn(X, y, names, sample_weight)
        if said is not None:
            self._judge(said, y, sample_weight)

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
