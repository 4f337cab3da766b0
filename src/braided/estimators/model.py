"""The core of a model: names, classes, engine, decision, coverage and drift, over records of numbers.

Nothing is rehearsed: `check` is pure and refuses what cannot be learned, `learn` takes what `check` admitted. Raw
records, data frames, sparse matrices and dicts are made into `Records` before, by the estimators.
"""

from __future__ import annotations

import copy
from array import array
from collections.abc import Callable, Hashable, Mapping
from itertools import pairwise
from math import isfinite
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
from braided.kernels.scale import target_deviation
from braided.late import LateLabels, content_key
from braided.learners import CompiledLearner
from braided.records import Admitted, Confidence, Predictions, Records
from braided.store import REMEDY, check, checked, counts, pack_name, prefixed, unpack_names, unprefixed
from braided.values import as_weight, number_of, shown

if TYPE_CHECKING:
    from braided.estimators.drift import Watch

Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]
Places = NDArray[np.int64]
#: As of `FeatureSpace.columns`.
Where = tuple[Places, Places]
#: A record that comes alone has slots in place of columns.
_NO_COLUMNS = array("q")
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
        self._late = LateLabels(4 * self.delay, 2 * self.delay, unique=False)
        #: The target of a record that comes alone; always the same array, as compiled code is given its address.
        self._code = np.zeros(1)
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
        codes, new_labels = self.codes(records)
        new_names: dict[int, list[Hashable]] = {}
        if not self.features.slots.keys() >= set(records.names):
            arrivals = self.features.copy().arrivals(values if kept is None else values[kept], records.names)
            new_names = arrivals if kept is None else {int(kept[row]): names for row, names in arrivals.items()}
        self.classes.check_room(list(new_labels.values()))
        return Admitted(records, codes, new_names, new_labels)

    def codes(self, records: Records, classes: ClassSpace | None = None) -> tuple[Floats, dict[int, Hashable]]:
        """The targets as the engine takes them, and the row at which each new label comes first.

        New are labels that these `classes`, or else the model's own, lack; -1 stands for one that only records of
        weight 0 have, which is not known afterwards.
        """
        targets, weights, first = records.targets, records.weights, records.first
        if targets is None or len(targets) != len(records):
            kind = "targets" if self.regression else "labels"
            n = 0 if targets is None else len(targets)
            raise BraidedError(f"X has {len(records)} records and y has {n} {kind}: the lengths must match")
        if self.regression:
            if set(map(type, targets)) == {float} and all(map(isfinite, targets)):
                return np.array(targets), {}
            return np.array([self.target(y, first + row) for row, y in enumerate(targets)]), {}
        space = self.classes if classes is None else classes
        places, codes, new_labels = dict(space.places), np.empty(len(targets)), {}
        for row, y in enumerate(targets):
            label = space.label(y, first + row)
            place = places.get(label, -1)
            if place < 0 and (weights is None or weights[row] > 0.0):
                place = places[label] = len(places)
                new_labels[row] = label
            codes[row] = place
        return codes, new_labels

    def target(self, y: Any, record: int) -> Any:
        """A label or number as it is learned; refused if it cannot be."""
        if not self.regression:
            return self.classes.label(y, record)
        number = number_of(y)
        if number is None or not isfinite(number):
            raise BraidedError(f"the target of record {record} is {shown(y)}: every record needs a finite number")
        return number

    def learn(self, admitted: Admitted, earlier: Predictions | None = None) -> Predictions:
        """Predict each record, then learn it, in order.

        Nothing may have been learned since `check` admitted the records. `earlier` is what was predicted for them when
        they came: coverage is then judged by it.
        """
        records, codes, new_names, new_labels = admitted
        values, weights = records.values, records.weights
        predictions = self._blank(len(records), len(new_labels))
        for start, stop in pairwise(_cuts(admitted)):
            unseen, new = start in new_labels, start in new_names or start in new_labels
            learned = weights is None or weights[start] > 0.0
            if new or not learned:  # what brings something new is predicted by the model as it was
                self._enter(predictions, start, *self.predict(records.part(start, stop), sure=False)[:3])
            if not learned:
                continue
            if new:
                labels = [new_labels[start]] if unseen else []
                self._admit(new_names.get(start, []), labels, self.features.by_slot(values[start], records.names))
            self._grow()
            where = self.features.columns(records.names)
            while start < stop:
                rows = slice(start, stop if self.watch is None else start + 1)  # a detector is fed after each record
                some = None if weights is None else weights[rows]
                answered, decided = self._learn_known(values[rows], where, codes[rows], some, earlier is None, unseen)
                if not new:
                    self._enter(predictions, start, answered.predictions, answered.own, decided)
                start += len(answered.own)
                self.engine.raise_interrupt()
                if self.engine.waiting[0] != 0 and self.let_others_in is not None:
                    self.let_others_in()
        if earlier is not None:
            self._judge(earlier, admitted)
        return predictions

    def _blank(self, n: int, n_new_labels: int = 0) -> Predictions:
        """Predictions of a model that knows nothing."""
        width = 1 if self.regression else len(self.classes) + n_new_labels
        own = np.full((n, len(self.engine.learners)), 0.0 if self.regression else -1.0)
        return Predictions(np.zeros((n, width)), own, None if self.decision.plain else np.full(n, -1, dtype=np.int64))

    def _admit(self, names: list[Hashable], labels: list[Hashable], row: Floats) -> None:
        """Make room for the new names and labels of a record, whose other values are `row`, by slot.

        If a learner refuses to grow, they stay unknown.
        """
        given_up = self.features.check_room(names, row)
        self._grow(len(names) - given_up.size, len(labels))
        if given_up.size:
            self.engine.forget_features(given_up)
        self.features.admit(names, given_up)
        for label in labels:
            self.classes.admit(label)

    def _grow(self, n_new_features: int = 0, n_new_labels: int = 0) -> None:
        """Let the engine have the sizes of what is known, and of what is new."""
        # At least two classes: the first is learned against a second one that has not come yet.
        n_outputs = 1 if self.regression else max(2, len(self.classes) + n_new_labels)
        self.engine.grow(len(self.features) + n_new_features, n_outputs)

    def _learn_known(
        self, values: Floats, where: Where, codes: Floats, weights: Floats | None, judge: bool, unseen: bool
    ) -> tuple[Answered, Places | None]:
        """Learn records of names and labels that are known, or the first of them if another thread waits.

        Returns what was predicted of each, and how they were decided. To `judge` is to count into the coverage whether
        it held the truth; `unseen` says that the label of the first has only just become known.
        """
        before = self.engine.steps
        answered = self.engine.run(values, *where, codes, weights, doubt=self.regression and judge)
        n = len(answered.own)
        if n < len(values):
            values, codes, weights = values[:n], codes[:n], None if weights is None else weights[:n]
        if self.params.expire_after is not None:
            self.features.see(values, where[0])
        return answered, self._follow(answered, codes, weights, before, judge, unseen)

    def _follow(
        self, answered: Answered, codes: Floats, weights: Floats | None, before: int, judge: bool, unseen: bool
    ) -> Places | None:
        """Feed detector, coverage and decision what was predicted of records that are learned now; returns answers."""
        engine = self.engine
        if self.watch is not None and codes.size:
            self._watch(answered.predictions[0], float(codes[0]), before == 0, unseen)
        # The first records were answered before anything was learned: there is nothing to judge.
        start, known, learned = max(1 - before, self.delay - before, int(unseen)), answered.known, codes
        if start > 0:
            known, learned = known[start:], learned[start:]
        if self.regression:
            if judge:
                self.coverage.follow_values(known[:, 0], learned, answered.doubts[max(start, 0) :])
            return None
        decision, labels = self.decision, self.classes.places
        # Answers are judged by what was known when they were given, as far as that can be known without them.
        then = copy.deepcopy(decision) if judge and engine.lags and not decision.plain else None
        decided = decision.places(answered.predictions, labels, codes, weights)
        if judge:
            if unseen and before:
                self.coverage.miss()
            answers = decided if then is None else then.places(answered.known, labels, codes, weights)
            answers = None if answers is None else answers[max(start, 0) :]
            self.coverage.follow_classes(known, learned, answers, len(labels))
        return decided

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
        weight = 1.0 if type(w) is float and w == 1.0 else as_weight(w, record)
        values, slots = self.features.place(x, record)
        plain = (
            isfinite(y) if self.regression and type(y) is float else type(y) in _PLAIN_TARGETS and not self.regression
        )
        target = y if plain else self.target(y, record)
        code = target if self.regression else self.classes.places.get(target)
        weights = None if weight == 1.0 else np.array([weight])
        new = -1 in slots and any(slot < 0 and value == value for slot, value in zip(slots, values, strict=True))
        if new or code is None or weight == 0.0 or self.engine.lags:
            admitted = self.check(Records(tuple(x), np.array([values]), [target], weights, first=record))
            if weight > 0.0:
                self.learn(admitted, self.earlier(x))
            return
        if not self.engine.n_outputs:
            self._grow()
        engine, step, self._code[0] = self.engine, self.engine.steps, code
        weight_given = None if weights is None else weight
        answered = engine.run_one(values, _NO_COLUMNS, slots, code, weight_given, self.regression)
        if engine.steps > step:
            if self.params.expire_after is not None:
                self.features.see_one(values, slots)
            self._follow(answered, self._code, weights, step, judge=True, unseen=False)
        if engine.interrupt is not None:
            engine.raise_interrupt()

    def earlier(self, x: Mapping[Hashable, Any]) -> Predictions | None:
        """What `predict_row` said of this record, whose label has come; None where labels are not late."""
        if not len(self._late) or self.engine.steps < self.delay:
            return None
        found = self._late.take(content_key(x))
        return None if found is None else found.predictions

    def predict(self, records: Records, sure: bool = True) -> Predictions:
        """What is predicted for each record, and with `sure` how sure that is."""
        predictions = self._blank(len(records))
        if not len(records) or self.engine.steps == 0:
            return predictions
        self._grow()
        answered = self.engine.run(records.values, *self.features.columns(records.names), doubt=sure)
        decided = self.decision.places(answered.predictions, self.classes.places)
        self._enter(predictions, 0, answered.predictions, answered.own, decided)
        return predictions._replace(confidence=self.coverage.confidence(answered.doubts)) if sure else predictions

    def _enter(self, predictions: Predictions, start: int, values: Floats, own: Floats, decided: Places | None) -> None:
        """Enter what was predicted from row `start` on; one class alone is certain."""
        rows = slice(start, start + len(values))
        if predictions.decided is not None and decided is not None:
            predictions.decided[rows] = decided
        if not self.regression and len(self.classes) == 1:
            predictions.values[rows, 0] = 1.0
            predictions.own[rows] = 0.0
        else:
            predictions.values[rows, : values.shape[1]] = values
            predictions.own[rows] = own

    def place_of(self, probabilities: Floats) -> int:
        """The place of the class that is answered for one record, (1, outputs)."""
        known = probabilities[:, : len(self.classes)]
        decided = self.decision.places(known, self.classes.places)
        return int(known.argmax() if decided is None else decided[0])

    def predict_row(self, x: Mapping[Hashable, Any], doubt: bool = False, keep: bool = True) -> Answered | None:
        """The engine's predictions for one record by name, valid until the next; None before anything was learned.

        Where labels are late, `keep` the answer until its label comes.
        """
        engine = self.engine
        values, slots = self.features.place(x, engine.steps + 1)
        if engine.steps == 0:
            return None
        if not engine.lags:
            return engine.run_one(values, _NO_COLUMNS, slots, doubt=doubt)
        answered = engine.run(np.array([values]), *self.features.columns(tuple(x)), doubt=doubt or keep)
        if keep:
            predicted, decided = self._blank(1), self.decision.places(answered.predictions, self.classes.places)
            self._enter(predicted, 0, answered.predictions, answered.own, decided)
            predicted = predicted._replace(confidence=self.coverage.confidence(answered.doubts))
            self._late.keep(content_key(x), None, predicted, self.engine.steps)
        return answered

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "let_others_in": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _code=np.zeros(1))  # joblib may open a pickle as a read-only memory map

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
        arrays |= prefixed(_COVERAGE, self.coverage.state()) | self.decision.state()
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
