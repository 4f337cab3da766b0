"""One record at a time: room for what is new in it, its prediction, its learning, and how sure the answer was."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.engine import Aside
from braided.estimators import frames
from braided.estimators.chunks import Floats, listed, weights_of
from braided.estimators.settings import ModelSettings
from braided.records import Predictions
from braided.values import as_number, as_weight

#: The column of each slot, None if the columns are the slots; and the slots that may have a value, None for all.
Places = tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]
_NO_SLOTS = np.zeros(0, dtype=np.int64)


class RecordLearning(ModelSettings):
    """Predicts and learns single records, and runs of records in which nothing is new."""

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
            answer = Predictions(known.copy(), own, self._decided(predictions), self._coverage.confidence(aside.doubts))
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
    ) -> Predictions:
        """Run records through the engine; if they are learned under a drift detector, one by one and watched.

        `where` has the column of each slot, None if they are the same, and the slots that may have a value. `unseen`
        says that the first label is one that the model has not known until this record.
        """
        aside = Aside(len(values))
        if targets is None:
            predictions, own = self.braid.run(values, where[0], None, where[1], aside=aside)
            return Predictions(predictions, own, self._decided(predictions), self._coverage.confidence(aside.doubts))
        first = self.records_learned == 0
        predictions, own = self._run_learning(values, where, targets, weights, unseen, aside)
        if self.expire_after is not None:
            self._features.see(values, where[0])
        return Predictions(predictions, own, self._follow(predictions, targets, weights, aside, first, unseen))

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
    def _judged_by(self, said: Predictions | None) -> Iterator[None]:
        """Within this, records that are learned are not judged if that will be done by what was said of them."""
        self._judging = said is None
        try:
            yield
        finally:
            self._judging = True

    def _judge(self, said: Predictions, y: Any, sample_weight: Any) -> None:
        """Count whether answers that were given earlier hold what has turned out to be true, now that it is learned."""
        if said.confidence is None:
            return
        truth = listed(frames.targets(y))
        weights = weights_of(sample_weight, len(truth), self.records_learned)
        predictions = np.asarray(said.values, dtype=np.float64).reshape(len(truth), -1)
        for t, target in enumerate(truth):
            if weights is not None and weights[t] == 0.0:
                continue
            part = slice(t, t + 1)
            row, sure = predictions[part], said.confidence.part(part)
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
