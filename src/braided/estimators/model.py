"""The core of a model: names, classes, engine, decision, coverage and drift, over records of numbers.

Nothing is rehearsed: `check` is pure and refuses what cannot be learned, `learn` takes what `check` admitted. Raw
records, data frames, sparse matrices and dicts are made into `Records` before, by the estimators.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from braided.engine import Answered, Braid
from braided.errors import BraidedError
from braided.estimators.build import build
from braided.estimators.coverage import Coverage
from braided.estimators.decision import Decision
from braided.estimators.names import LAST_SEEN, ClassSpace, FeatureSpace
from braided.estimators.params import REGRESSION, ModelParams
from braided.kernels.doubt import DOUBTS
from braided.kernels.scale import target_deviation
from braided.late import LateLabels, content_key
from braided.learners import CompiledLearner
from braided.records import Admitted, Confidence, Predictions, Records
from braided.store import REMEDY, check, checked, counts, pack_name, prefixed, unpack_names, unprefixed
from braided.values import as_number, as_weight, shown

if TYPE_CHECKING:
    from braided.estimators.drift import Watch

Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]
#: What the arrays of the coverage are called in a state.
_COVERAGE = "coverage"
#: A restored model may hold this many numbers whatever the size of its file.
_FREE_NUMBERS = 100_000_000
#: Types of labels in which there is nothing to check.
_PLAIN_TARGETS = (str, int, bool)


class Model:
    """A model of numbers, for a task and with parameters, of which the encoder is the estimator's.

    Examples
    --------
    >>> model = Model("classification", ModelParams("lean"))
    >>> records = Records(("a",), np.array([[1.0], [2.0]]), ["idle", "busy"])
    >>> admitted = model.check(records)
    >>> admitted.new_names, admitted.new_labels
    ({0: ['a']}, {0: 'idle', 1: 'busy'})
    >>> model.learn(admitted).values.shape, model.records_learned
    ((2, 2), 2)
    """

    def __init__(self, task: str, params: ModelParams) -> None:
        self.task = task
        self.params = params
        self.regression = task == REGRESSION
        self.delay = int(params.delay)
        # The names and labels that are known, with their places; learners and combiner; how a class is chosen from its
        # probability, and how often intervals or sets held the truth; the drift detector at work.
        self.features = FeatureSpace(params.max_features, params.expire_after, params.first_features or ())
        self.classes = ClassSpace(params.max_classes)
        self.engine: Braid = build(task, params, self.classes)
        self.decision = Decision(params.decision, params.class_weight, params.costs)
        self.coverage = Coverage(self.delay)
        self.watch: Watch | None = None
        if params.drift_detector is not None:
            from braided.estimators.drift import Watch  # few models have a detector, and start sooner without

            self.watch = Watch(params.drift_detector, self.regression)
        #: What was predicted for records one by one, where labels come late: of about the last two delays.
        self._late = LateLabels(4 * self.delay, 2 * self.delay, alike=True, remember=False)
        #: Lets other threads read the model, which is whole between two pieces of a chunk; None for nobody.
        self.let_others_in: Callable[[], None] | None = None

    @property
    def records_learned(self) -> int:
        """How many records were learned."""
        return self.engine.steps

    @property
    def labels(self) -> list[Hashable]:
        """The labels seen so far, in order."""
        return list(self.classes.places)

    @property
    def learner_names(self) -> list[str]:
        """A name for each learner; a repeated one gets a number."""
        plain = [str(getattr(learner, "name", type(learner).__name__)) for learner in self.engine.learners]
        repeats = [plain[:place].count(name) + 1 for place, name in enumerate(plain)]
        return [name if number == 1 else f"{name} {number}" for name, number in zip(plain, repeats, strict=True)]

    @property
    def health(self) -> dict[str, dict[str, int]]:
        """Updates that each learner skipped because they were not finite, and how often it was reset."""
        pairs = zip(self.learner_names, self.engine.health.tolist(), strict=True)
        return {name: {"skipped": skipped, "resets": resets} for name, (skipped, _, resets) in pairs}

    def check(self, records: Records) -> Admitted:
        """Refuse records that cannot be learned, all or none; nothing changes."""
        values, weights = records.values, records.weights
        kept = None if weights is None or weights.all() else np.flatnonzero(weights)
        codes, new_labels = self.codes(records, kept)
        new_names: dict[int, list[Hashable]] = {}
        if not self.features.slots.keys() >= set(records.names):
            arrivals = self.features.copy().arrivals(values if kept is None else values[kept], records.names)
            new_names = arrivals if kept is None else {int(kept[row]): names for row, names in arrivals.items()}
        self.classes.check_room(list(new_labels.values()))
        return Admitted(records, codes, new_names, new_labels)

    def codes(
        self, records: Records, kept: NDArray[np.int64] | None = None, classes: ClassSpace | None = None
    ) -> tuple[Floats, dict[int, Hashable]]:
        """The targets as the engine takes them, and the row at which each new label comes first.

        What only records of weight 0 bring is not known afterwards: `kept` are the rows of the others, None for all.
        `classes` are those to go by; the model's own if not given.
        """
        targets, first = records.targets, records.first
        if targets is None or len(targets) != len(records):
            kind = "targets" if self.regression else "labels"
            n = 0 if targets is None else len(targets)
            raise BraidedError(f"X has {len(records)} records and y has {n} {kind}: the lengths must match")
        if self.regression:
            if set(map(type, targets)) == {float} and all(map(math.isfinite, targets)):
                return np.array(targets), {}
            return np.array([self.target(y, first + row) for row, y in enumerate(targets)]), {}
        space = self.classes if classes is None else classes
        places, learned = dict(space.places), None if kept is None else set(kept.tolist())
        codes, new_labels = np.empty(len(targets)), {}
        for row, y in enumerate(targets):
            label = space.label(y, first + row)
            place = places.get(label, -1)
            if place < 0 and (learned is None or row in learned):
                place = places[label] = len(places)
                new_labels[row] = label
            codes[row] = place
        return codes, new_labels

    def target(self, y: Any, record: int) -> Any:
        """A label or number as it is learned; refused if it cannot be."""
        if not self.regression:
            return self.classes.label(y, record)
        try:
            number = as_number("y", y, record)
        except BraidedError:
            number = math.nan
        if math.isnan(number):
            raise BraidedError(f"the target of record {record} is {shown(y)}: every record needs a finite number")
        return number

    def learn(self, admitted: Admitted, earlier: Predictions | None = None) -> Predictions:
        """Predict each record, then learn it, in order.

        Nothing may have been learned since `check` admitted the records. `earlier` is what was predicted for them when
        they came: coverage is then judged by it.
        """
        records, codes, new_names, new_labels = admitted
        predictions = self._blank(len(records), 1 if self.regression else len(self.classes) + len(new_labels))
        judge = earlier is None
        for start, stop in pairwise(_cuts(admitted)):
            names, label = new_names.get(start, []), [new_labels[start]] if start in new_labels else []
            learned = records.weights is None or records.weights[start] > 0.0
            note = bool(learned and not names and not label)
            if not note:  # what brings something new is predicted by the model as it was
                self._predict_part(records, start, stop, predictions)
            if names or label:
                self._admit(names, label, self.features.by_slot(records.values[start], records.names))
            if learned:
                self._learn_rows(records, codes, start, stop, predictions if note else None, judge, bool(label))
        if earlier is not None:
            self._judge(earlier, admitted)
        return predictions

    def _blank(self, n: int, width: int) -> Predictions:
        """Predictions of a model that knows nothing."""
        own = np.full((n, len(self.engine.learners)), 0.0 if self.regression else -1.0)
        decided = None if self.regression or self.decision.plain else np.full(n, -1, dtype=np.int64)
        return Predictions(np.zeros((n, width)), own, decided)

    def _admit(self, names: list[Hashable], labels: list[Hashable], row: Floats) -> None:
        """Make room for the new names and labels of a record, whose other values are `row`, by slot.

        If a learner refuses to grow, they stay unknown.
        """
        given_up = self.features.check_room(names, row)
        self._grow(len(names) - given_up.size, len(labels))
        self.features.admit(names, given_up)
        for label in labels:
            self.classes.admit(label)
        if given_up.size:
            self.engine.forget_features(given_up)

    def _grow(self, n_new_features: int = 0, n_new_labels: int = 0) -> None:
        """Let the engine have the sizes of what is known, and of what is new."""
        # At least two classes: the first is learned against a second one that has not come yet.
        n_outputs = 1 if self.regression else max(2, len(self.classes) + n_new_labels)
        self.engine.grow(len(self.features) + n_new_features, n_outputs)

    def _learn_rows(
        self,
        records: Records,
        codes: Floats,
        start: int,
        stop: int,
        predictions: Predictions | None,
        judge: bool,
        unseen: bool = False,
    ) -> None:
        """Learn records in which nothing is new any more; `unseen` if the first has a label that was new until now."""
        self._grow()  # not for records of weight 0: a model that grows in other steps starts elsewhere
        columns, slots = self.features.columns(records.names)
        values, weights = records.values, records.weights
        while start < stop:
            # A detector is fed after each record.
            rows = slice(start, start + 1 if self.watch is not None else stop)
            own_weights = None if weights is None else weights[rows]
            answered, decided = self.learn_piece(values[rows], columns, slots, codes[rows], own_weights, judge, unseen)
            if predictions is not None:
                self._note(predictions, start, answered, decided)
            start += answered.n
            if self.engine.waiting[0] != 0 and self.let_others_in is not None:
                self.let_others_in()

    def learn_piece(
        self,
        values: Floats,
        columns: NDArray[np.int64],
        slots: NDArray[np.int64],
        codes: Floats,
        weights: Floats | None,
        judge: bool = True,
        unseen: bool = False,
    ) -> tuple[Answered, NDArray[np.int64] | None]:
        """Learn records in which nothing is new, or the first of them if another thread waits; the model is whole then.

        Returns what was predicted of each, and how they were decided.
        """
        engine, first = self.engine, self.engine.steps == 0
        answered = engine.run(values, columns, slots, codes, weights, doubt=self.regression and judge)
        n = answered.n
        if n < len(values):
            values, codes, weights = values[:n], codes[:n], None if weights is None else weights[:n]
            answered = Answered(n, *(array[:n] for array in answered[1:]))
        if self.watch is not None:
            self._watch(answered.predictions[0], float(codes[0]), first, unseen)
        if self.params.expire_after is not None:
            self.features.see(values, columns)
        return answered, self._follow(answered, codes, weights, first, unseen, judge)

    def _watch(self, prediction: Floats, target: float, first: bool, unseen: bool) -> None:
        """Feed the detector the error of a record that was learned; the first one was not predicted."""
        assert self.watch is not None
        self.engine.relax()
        if first:
            return
        if self.regression:
            deviation = target_deviation(self.engine.target)
            error = abs(float(prediction[0]) - target) / deviation if deviation > 0 else 0.0
        else:
            error = float(unseen or int(prediction[: len(self.classes)].argmax()) != int(target))
        if self.watch.update(error):
            self.engine.raise_plasticity()

    def _follow(
        self, answered: Answered, codes: Floats, weights: Floats | None, first: bool, unseen: bool, judge: bool
    ) -> NDArray[np.int64] | None:
        """Count records that were learned into decision and coverage; returns how they were decided.

        `first` says that there was no answer to the first of them, as nothing had been learned. How sure answers were
        is judged by what was known when they were given, as far as that can be known without them.
        """
        known, lags = answered.known, self.engine.lags
        # Where labels come late, the first records were all answered before anything was learned.
        early = self.delay - (self.engine.steps - len(codes)) if lags else int(first)
        start = min(max(early, int(unseen)), len(codes))
        if self.regression:
            if judge:
                self.coverage.follow_values(known[start:, 0], codes[start:], answered.doubts[start:])
            return None
        then = copy.deepcopy(self.decision) if lags and judge and not self.decision.plain else None
        labels = () if self.decision.plain else self.labels
        decided = self.decision.follow(answered.predictions, codes, labels, weights)
        if judge:
            answers = decided if then is None else then.follow(known, codes, labels, weights)
            if unseen and not first:
                self.coverage.miss()
            answers = None if answers is None else answers[start:]
            self.coverage.follow_classes(known[start:], codes[start:], answers, len(self.classes.places))
        return decided

    def _judge(self, earlier: Predictions, admitted: Admitted) -> None:
        """Count whether what was predicted earlier held what turned out to be true, now that it is learned."""
        sure, (records, codes, *_) = earlier.confidence, admitted
        if sure is None:
            return
        values = np.asarray(earlier.values, dtype=np.float64).reshape(len(records), -1)
        learned = np.ones(len(records), dtype=np.bool_) if records.weights is None else records.weights > 0.0
        known = learned if self.regression else learned & (codes < values.shape[1])
        for row in np.flatnonzero(learned & ~known):
            self.coverage.miss(sure.bounds[row])
        predicted, targets, given = values[known], codes[known], Confidence(*(array[known] for array in sure))
        if self.regression:
            self.coverage.follow_values(predicted[:, 0], targets, given.doubts, given)
        else:
            decided = None if earlier.decided is None else earlier.decided[known]
            self.coverage.follow_classes(predicted, targets, decided, values.shape[1], given)

    def learn_row(self, x: Mapping[Hashable, Any], y: Any, w: Any) -> None:
        """Learn one record of numbers by name; a record without anything new is learned at once."""
        record = self.engine.steps + 1
        weight = 1.0 if w == 1.0 and type(w) is float else as_weight(w, record)
        names, values = tuple(x), self.features.values_of(x, record)
        columns, slots = self.features.columns(names)
        target = y if type(y) in _PLAIN_TARGETS and not self.regression else self.target(y, record)
        code = target if self.regression else self.classes.places.get(target)
        weights = None if weight == 1.0 else np.array([weight])
        late = self.delay > 0 and len(self._late) > 0 and self.engine.steps >= self.delay
        if late or code is None or weight == 0.0 or (slots.size < len(names) and self._brings_new(names, values)):
            admitted = self.check(Records(names, values, [target], weights, first=record))
            if weight > 0.0:
                self.learn(admitted, self.earlier(x))
            return
        if not self.engine.n_outputs:
            self._grow()
        self.learn_piece(values, columns, slots, np.array([code], dtype=np.float64), weights)

    def earlier(self, x: Mapping[Hashable, Any]) -> Predictions | None:
        """What `predict_row` said of this record, whose label has come; None where labels are not late."""
        late = len(self._late) > 0 and self.engine.steps >= self.delay
        found = self._late.take(content_key(x)) if late else None
        return None if found is None else found.predictions

    def _brings_new(self, names: tuple[Hashable, ...], values: Floats) -> bool:
        """Whether a record has a value under a name that is not known."""
        known = self.features.slots
        return any(name not in known for name, value in zip(names, values[0].tolist(), strict=True) if value == value)

    def predict(self, records: Records, sure: bool = True) -> Predictions:
        """What is predicted for each record, and with `sure` how sure that is."""
        n = len(records)
        predictions = self._blank(n, 1 if self.regression else len(self.classes))
        doubts = self._predict_part(records, 0, n, predictions, doubt=sure)
        if doubts is None or not sure:
            return predictions
        return predictions._replace(confidence=self.coverage.confidence(doubts))

    def _predict_part(
        self, records: Records, start: int, stop: int, predictions: Predictions, doubt: bool = False
    ) -> Floats | None:
        """Predict records into their rows; returns the doubts, None of a model that knows nothing yet."""
        if start == stop or self.engine.steps == 0:
            return None
        self._grow()
        columns, slots = self.features.columns(records.names)
        answered = self.engine.run(records.values[start:stop], columns, slots, doubt=doubt and self.regression)
        self._note(predictions, start, answered, self._decided(answered.predictions))
        return answered.doubts if self.regression else np.zeros((stop - start, DOUBTS))

    def _note(
        self, predictions: Predictions, start: int, answered: Answered, decided: NDArray[np.int64] | None
    ) -> None:
        """Enter what was predicted from row `start` on; one class alone is certain."""
        rows = slice(start, start + answered.n)
        if predictions.decided is not None and decided is not None:
            predictions.decided[rows] = decided
        if not self.regression and len(self.classes) == 1:
            predictions.values[rows, 0] = 1.0
            predictions.own[rows] = 0.0
        else:
            predictions.values[rows, : answered.predictions.shape[1]] = answered.predictions
            predictions.own[rows] = answered.own

    def _decided(self, probabilities: Floats) -> NDArray[np.int64] | None:
        """The places of the classes that are answered; None where they are the likeliest."""
        if self.regression or self.decision.plain:
            return None
        return self.decision.places(probabilities, self.labels)

    def place_of(self, probabilities: Floats) -> int:
        """The place of the class that is answered for one record, (1, outputs)."""
        known = probabilities[:, : len(self.classes)]
        decided = self._decided(known)
        return int(known.argmax() if decided is None else decided[0])

    def predict_row(self, x: Mapping[Hashable, Any], doubt: bool = False, keep: bool = True) -> Answered | None:
        """The engine's predictions for one record by name, None before anything was learned.

        Where labels are late, `keep` the answer until its label comes.
        """
        features = self.features
        values = features.values_of(x, self.engine.steps + 1)
        if self.engine.steps == 0:
            return None
        columns, slots = features.columns(tuple(x))
        late = keep and self.engine.lags
        answered = self.engine.run(values, columns, slots, doubt=doubt or (late and self.regression))
        if late:
            known = answered.predictions if self.regression else answered.predictions[:, : len(self.classes)]
            doubts = answered.doubts if self.regression else np.zeros((1, DOUBTS))
            confidence, decided = self.coverage.confidence(doubts), self._decided(answered.predictions)
            predicted = Predictions(known.copy(), answered.own, decided, confidence)
            self._late.keep(content_key(x), None, predicted, self.engine.steps)
        return answered

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "let_others_in": None}

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Everything needed to go on exactly from here: JSON metadata and named arrays."""
        metadata: dict[str, Any] = {
            "parameters": self.params.to_json(),
            "features": [pack_name(name) for name in self.features.slots],
            "classes": [pack_name(label) for label in self.classes.places],
        }
        arrays = self.engine.state()
        if self.params.expire_after is not None:
            arrays[LAST_SEEN] = self.features.last_seen.copy()
        arrays |= prefixed(_COVERAGE, self.coverage.state())
        if not self.regression:
            arrays |= self.decision.state()
        if self.watch is not None:
            metadata["drift"] = self.watch.state()
        return metadata, arrays

    def load(self, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `snapshot` of a model with the same parameters; this one must have learned nothing."""
        if self.watch is not None:
            self.watch.load_state(checked("the checkpoint", metadata, "drift", dict))
        names = unpack_names("features", metadata.get("features"))
        labels = [self.classes.label(label, 0) for label in unpack_names("classes", metadata.get("classes"))]
        new = [name for name in names if name not in self.features.slots]
        self.features.check_room(new)
        self.features.admit(new)
        self.classes.check_room(labels)
        for label in labels:
            self.classes.admit(label)
        check("state of the model", {"steps": counts(1)}, arrays)
        learned = int(arrays["steps"][0]) > 0
        if bool(labels) != (learned and not self.regression):
            raise BraidedError(f"the checkpoint's classes do not go with its task: {REMEDY}")
        self._check_size(arrays)
        if learned:
            self._grow()
            self.engine.load_state(arrays)
            if self.params.expire_after is not None:
                self.features.load_last_seen(arrays, self.records_learned)
            self.coverage.load_state(unprefixed(_COVERAGE, arrays))
            if not self.regression:
                self.decision.load_state(arrays, len(labels))

    def _check_size(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse a model that would take much more memory than its file: nothing of it has been allocated yet."""
        n_outputs = 1 if self.regression else max(2, len(self.classes))
        own = [learner for learner in self.engine.learners if isinstance(learner, CompiledLearner)]
        total = sum(learner.numbers(len(self.features), n_outputs) for learner in own)
        if total > max(_FREE_NUMBERS, sum(int(np.size(array)) for array in arrays.values())):
            raise BraidedError(
                f"the checkpoint's learners would hold {total:,} numbers, and the file has fewer: give a file written "
                "by save"
            )


def _cuts(admitted: Admitted) -> list[int]:
    """Where runs of records begin and end: one with something new is alone, those of weight 0 are among themselves."""
    weights, new = admitted.records.weights, {*admitted.new_names, *admitted.new_labels}
    cuts = {0, len(admitted.records), *new, *(row + 1 for row in new)}
    if weights is not None and not weights.all():
        cuts.update((np.flatnonzero(np.diff(weights > 0.0)) + 1).tolist())
    return sorted(cuts)
