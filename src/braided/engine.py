"""The braid itself: learners, combiner and running statistics, driven over records of known slots.

Where all learners are compiled, a chunk runs inside `kernels.loop`; with any learner in plain Python the same steps are
taken in a Python loop. Both give the same bits, because the compiled parts are the same machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.checkpoint import prefixed, unprefixed
from braided.combiners import Combiner
from braided.errors import BraidedError
from braided.inputs import InputStage
from braided.kernels import loop
from braided.kernels.activations import all_finite
from braided.kernels.doubt import DOUBTS, doubt
from braided.kernels.inputs import COLUMNS as STAGE_COLUMNS
from braided.kernels.record_weight import counted, scale
from braided.kernels.scale import (
    BLOCKS,
    CHANGES,
    COUNT,
    FAR_OUT,
    IN_BLOCK,
    LEAST,
    MOST,
    PAST,
    SQUARES,
    STATISTICS,
    TARGET_STATISTICS,
    WHOLE,
    encode,
    keep_late,
    leaving,
    past_in_units,
    remember,
    remember_target,
)
from braided.learners import CompiledLearner, Learner
from braided.learners.checked_answers import checked_learned, checked_scores, checked_state
from braided.learners.linear import LinearRegression
from braided.state import MOST_COUNT, ArrayRule, check_arrays, counts

Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]
#: After a drift steps are this many times as long as usual, and the excess shrinks by this factor each record.
BOOST, FADING = 4.0, 0.99
#: Below this the plasticity is the usual one again.
_HARDLY_RAISED = 1.01
_NO_WEIGHTS = np.zeros(0)
_NO_DOUBTS = np.zeros((0, DOUBTS))
#: The row of a stage that is not there.
_NO_STAGE = np.zeros(STAGE_COLUMNS, dtype=np.int64)


def _sees_more(learner: Learner) -> bool:
    """Whether a learner wants more than a record's own values."""
    return isinstance(learner, CompiledLearner) and getattr(learner.config, "inputs", "plain") != "plain"


def _learns_changes(learner: Learner) -> bool:
    """Whether a learner learns how far a target lies from the one before it."""
    return isinstance(learner, CompiledLearner) and bool(getattr(learner.config, "change", False))


def _statistics(arrays: Mapping[str, NDArray[Any]], name: str, rows: tuple[int, ...], width: int) -> ArrayRule:
    """The rule of statistics; those of version 0.1 end where the blocks begin."""
    if name in arrays and arrays[name].shape[-1:] == (IN_BLOCK,):
        width = IN_BLOCK
    return ArrayRule((*rows, width), "float64", LEAST[:width], MOST[:width], WHOLE[:width])


def hold_together(statistics: NDArray[Any]) -> bool:
    """Whether nothing is known of values where none were counted; after a target's may stand those of its changes."""
    for first in (0, CHANGES):
        columns = [first + column for column in (SQUARES, FAR_OUT, IN_BLOCK, BLOCKS)]
        columns = [column for column in columns if column < statistics.shape[-1]]
        if columns and (statistics[..., columns].any(axis=-1) & (statistics[..., first + COUNT] == 0)).any():
            return False
    return True


class ScoredRecord(NamedTuple):
    """One record as the learners and the combiner see it.

    Attributes
    ----------
    x, mask
        The values in the units that learners see, once or with an input stage several times (`kernels.inputs`), and
        then the target's past in units of itself, or what late labels need; and which features are there,
        (n_features,).
    scores, usable
        (n_learners, n_outputs), zero where they are not finite, and (n_learners,): whose are.
    own
        (n_learners, n_outputs): the scores in each learner's own units; others than `scores` where a regression follows
        the target's changes, whose `scores` are distances from the last target in usual changes.
    prediction
        (n_outputs,): what the combiner made of them; a regression's in units of the target, or such a distance.
    """

    x: NDArray[np.float32]
    mask: NDArray[np.bool_]
    scores: NDArray[np.float32]
    usable: NDArray[np.bool_]
    own: NDArray[np.float32]
    prediction: Floats


class _Part(NamedTuple):
    """Records that are run in one go, and where what is said of them goes; the fields are those of `Braid.run`."""

    values: Floats
    columns: NDArray[np.int64]
    slots: NDArray[np.int64]
    targets: Floats
    weights: Floats
    predictions: Floats
    own: Floats
    doubts: Floats

    def between(self, first: int, last: int) -> _Part:
        """Some of the records."""
        values, columns, slots, targets, weights, predictions, own, doubts = self
        return _Part(
            values[first:last], columns, slots, targets[first:last], weights[first:last], predictions[first:],
            own[first:], doubts[first:],
        )  # fmt: skip


class Aside:
    """What else is to be known of records that are run; `Braid.run` fills it.

    Attributes
    ----------
    doubts
        (n, 3): what the closed-form learner of numbers doubts of each record (`kernels.doubt`); 0 without one.
    as_known
        (n, n_outputs): the predictions of records that are learned, by the labels that had come when each was
        predicted; others than the predictions where labels come late.
    """

    def __init__(self, n: int) -> None:
        self.doubts = np.zeros((n, DOUBTS))
        self.as_known = np.zeros((0, 0))


class Braid:
    """Learners and their combiner over numbered features and outputs.

    Parameters
    ----------
    learners
        The learners; each gets the same inputs and its own gradient.
    combiner
        Joins their scores.
    standardise
        Whether learners see standardised values or (bounded) raw ones.
    regression
        One numeric output instead of class probabilities.
    delay
        How many records later a label comes: that of record t just before record t + delay is predicted.
    """

    def __init__(
        self, learners: Sequence[Learner], combiner: Combiner, standardise: bool, regression: bool, delay: int = 0
    ) -> None:
        self.learners = list(learners)
        self.combiner = combiner
        self.standardise = standardise
        self.regression = regression
        self.compiled = all(isinstance(learner, CompiledLearner) for learner in self.learners)
        self.stage = InputStage(carry=delay <= 1) if any(_sees_more(learner) for learner in self.learners) else None
        if self.stage is not None and not standardise:
            raise BraidedError("a learner's inputs are filled, and the preset has raw values: use another preset")
        self.n_features = 0
        self.n_outputs = 0
        self.steps = 0
        self.plasticity = 1.0
        self.statistics = np.zeros((0, STATISTICS))
        self.target = np.zeros(TARGET_STATISTICS)
        # How many targets have come, and those that had not when the next record to be learned was predicted; and, in
        # the layout of `target`, its past without them.
        self.late = np.zeros(max(delay, 1))
        self.target_then = np.zeros(TARGET_STATISTICS)
        self._changes = self._changes_of_learners()
        self._doubter = self._who_doubts()
        self.health = np.zeros((len(self.learners), 3), dtype=np.int64)
        self._waiting = np.zeros(1, dtype=np.int64)
        self._give_way: Callable[[], None] | None = None
        self._last_prediction: Floats | None = None

    def give_way(self, waiting: NDArray[np.int64], call: Callable[[], None]) -> None:
        """Let other threads in between two records of a chunk that is being learned.

        Whenever `waiting[0]` is not 0 after a record, `call` is called, and the model is whole while it runs.
        """
        self._waiting, self._give_way = waiting, call

    def grow(self, n_features: int, n_outputs: int) -> None:
        """Make room for more features or outputs; if a learner refuses, the sizes stay as they were."""
        if (n_features, n_outputs) == (self.n_features, self.n_outputs):
            return
        # Compiled learners cannot fail, so those in Python come first: if one raises, no compiled one has changed.
        for learner in sorted(self.learners, key=lambda learner: isinstance(learner, CompiledLearner)):
            learner.grow(n_features, n_outputs)
        self.combiner.grow(n_features, n_outputs, len(self.learners))
        statistics = np.zeros((n_features, STATISTICS))
        statistics[: self.n_features] = self.statistics
        self.statistics = statistics
        if self.stage is not None and n_features != self.n_features:
            self.stage.grow(n_features)
        self.n_features, self.n_outputs = n_features, n_outputs
        self._bind()

    def _bind(self) -> None:
        """Collect the addresses that the record loop calls, and allocate what it writes to."""
        n_learners = len(self.learners)
        self._compiled_learners = [learner for learner in self.learners if isinstance(learner, CompiledLearner)]
        self._x = self._blank()
        self._stage_row = _NO_STAGE if self.stage is None else self.stage.row
        self._active = np.zeros(self.n_features + 1, dtype=np.int64)
        self._usable = np.zeros(n_learners, dtype=np.bool_)
        self._scores = np.zeros((n_learners, self.n_outputs), dtype=np.float32)
        self._gradients = np.zeros_like(self._scores)
        self._identity = np.arange(self.n_features, dtype=np.int64)
        self._scored: tuple[bytes, bytes] | None = None
        self._last_prediction = None
        if self.compiled:
            self._table = np.stack([learner.table_row() for learner in self._compiled_learners])
            self._combiner_row = self.combiner.table_row()
            # The rows hold addresses: the arrays must live as long as the rows do.
            parts = [self.combiner, *self.learners]
            self._addressed = [v for one in parts for v in vars(one).values() if isinstance(v, np.ndarray)]

    def forget_features(self, slots: NDArray[np.int64]) -> None:
        """Make some slots as they would be if no record had ever had a value there; each learner must be able to."""
        parts: list[Any] = [self.combiner, *self.learners]
        for part in parts:
            part.forget_features(slots)
        self.statistics[slots] = 0.0
        if self.stage is not None:
            self.stage.forget_features(slots)
        # A forward pass that was kept is of other weights.
        self._scored = None
        self._last_prediction = None

    def _changes_of_learners(self) -> Floats:
        """For each learner whether it learns changes, and room for what it says of one."""
        flags = [float(self.regression and _learns_changes(learner)) for learner in self.learners]
        return np.column_stack([flags, np.zeros(len(flags))])

    def _who_doubts(self) -> int:
        """The place of the learner that says how sure it is of a number, -1 for none."""
        places = [i for i, learner in enumerate(self.learners) if isinstance(learner, LinearRegression)]
        return places[0] if places and self.regression else -1

    def _blank(self) -> NDArray[np.float32]:
        """An array for one record as the learners see it."""
        planes = 1 if self.stage is None else self.stage.planes
        return np.zeros(self.n_features * planes + PAST, dtype=np.float32)

    def run(
        self,
        values: Floats,
        columns: NDArray[np.int64] | None,
        targets: Floats | None,
        slots: NDArray[np.int64] | None = None,
        weights: Floats | None = None,
        aside: Aside | None = None,
    ) -> tuple[Floats, Floats]:
        """Predict every record of a chunk, each before learning it if there are targets.

        Parameters
        ----------
        values
            (n, columns) raw values, NaN for missing.
        columns
            The column of each slot, -1 for none; None if the columns are the slots.
        targets
            (n,) class places or regression targets; None to predict only.
        slots
            Those that may have a value, in order; None for all.
        weights
            (n,) how much each record counts, above 0; None for 1 each.
        aside
            Filled with what else is to be known.

        Returns
        -------
        The predictions, (n, n_outputs), and what each learner alone would have said, (n, n_learners).
        """
        n = values.shape[0]
        predictions = np.zeros((n, self.n_outputs))
        own = np.zeros((n, len(self.learners)))
        columns = self._identity if columns is None else columns
        slots = self._identity if slots is None else slots
        learn = targets is not None
        known = np.zeros(n) if targets is None else targets
        heavy = _NO_WEIGHTS if weights is None else weights
        doubts = _NO_DOUBTS if aside is None or self._doubter < 0 else aside.doubts
        lagging = predictions.copy() if learn and self.lags else predictions
        done = 0
        run = self._run_compiled if self.compiled else self._run_python
        while done < n:
            last = done + 1 if learn and self.lags else n
            part = _Part(values, columns, slots, known, heavy, predictions, own, doubts)
            if (done, last) != (0, n):
                part = part.between(done, last)
            if learn and self.lags:  # what is said of a record knows more than what is learned from it
                run(part, False)
                answer, of_learners = predictions[done].copy(), own[done].copy()
            count = run(part, learn)
            self._last_prediction = predictions[done + count - 1].copy()
            if learn and self.lags:
                lagging[done] = predictions[done]
                predictions[done], own[done] = answer, of_learners
            done += count
            if learn:
                self.steps += count
                for learner in self._compiled_learners:
                    learner.steps = self.steps
                self._reset_failing()
                if self._give_way is not None and self._waiting[0] != 0:
                    self._give_way()
        if aside is not None:
            aside.as_known = lagging
        return predictions, own

    def score(self, values: Floats, columns: NDArray[np.int64] | None = None, learning: bool = False) -> ScoredRecord:
        """Score one raw record, (columns,), by the learners' Python protocol, without leaving a trace in the model.

        One that will be learned is scored by what was known when it was predicted.
        """
        lags, known = learning and self.lags, self._known(learning)
        self._scored = None  # the scratch of a forward pass that was kept is used here, too
        x, active = self._blank(), np.zeros(self.n_features + 1, dtype=np.int64)
        columns = self._identity if columns is None else columns
        n_active = encode(values, columns, self._identity, self.statistics, self.standardise, x, active)
        if self.follows:
            past_in_units(self.target, known, x[-PAST:])
        elif not self.regression:
            come = leaving(self.late) if lags else np.nan
            x[-2:] = -1.0 if np.isnan(come) else come, lags
        if self.stage is not None:
            self.stage.fill(values, columns, x, active[:n_active])
        mask = np.zeros(self.n_features, dtype=np.bool_)
        mask[active[:n_active]] = True
        scores = np.zeros((len(self.learners), self.n_outputs), dtype=np.float32)
        for i, learner in enumerate(self.learners):
            found = learner.scores(self._seen_by(learner, x), mask)
            scores[i] = checked_scores(learner, found, self.n_outputs)
        usable = np.array([all_finite(row) for row in scores])
        scores[~usable] = 0.0
        own = scores.copy()
        if self.follows:
            self._changes[:, 1] = scores[:, 0]
            for i, (of_changes, score) in enumerate(self._changes):
                scores[i] = loop.from_last(loop.said(score, of_changes, self.target, known), self.target, known)
        return ScoredRecord(x, mask, scores, usable, own, self.combiner.combine(x, mask, scores, usable))

    @property
    def follows(self) -> bool:
        """Whether scores are distances from the last target, because a learner follows its changes."""
        return bool(self._changes[:, 0].any())

    @property
    def lags(self) -> bool:
        """Whether labels come so late that a record is learned by less than is known by then."""
        return self.late.size > 1

    def _known(self, learning: bool) -> Floats:
        """Where the target's past stands as far as it is known, or was when a record that is learned was predicted."""
        return self.target_then if learning and self.lags else self.target

    def value_of(self, prediction: float, learning: bool = False) -> float:
        """The value that a numeric prediction of the combiner stands for."""
        if self.follows:
            return float(loop.to_value(prediction, self.target, self._known(learning)))
        return float(loop.target_from_units(prediction, self.target))

    def said(self, place: int, scores: NDArray[np.float32], learning: bool = False) -> float:
        """What a learner by itself says of the record that was scored last: a class's place or a value."""
        if self.follows:
            of_changes, score = self._changes[place]
            return float(loop.said(score, of_changes, self.target, self._known(learning)))
        return float(loop.target_from_units(scores[0], self.target) if self.regression else scores.argmax())

    def _seen_by(self, learner: Learner, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """A record as this learner sees it: one in Python sees the record's own values alone."""
        return x if isinstance(learner, CompiledLearner) else x[: self.n_features]

    def last_scored(self) -> ScoredRecord | None:
        """The last record that `run` was given, as it was scored; None if a learner was reset or has grown since."""
        if self._last_prediction is None:
            return None
        mask = np.zeros(self.n_features, dtype=np.bool_)
        mask[self._active[: self._active[-1]]] = True
        own = self._changes[:, 1:].astype(np.float32) if self.follows else self._scores
        return ScoredRecord(self._x, mask, self._scores, self._usable, own, self._last_prediction)

    def raise_plasticity(self) -> None:
        """Learn faster for some hundred records, because the stream has changed."""
        self.plasticity = BOOST
        self._tell_plasticity(fresh=True)

    def relax(self) -> None:
        """One record nearer to the usual plasticity."""
        if self.plasticity != 1.0:
            self.plasticity = 1.0 + (self.plasticity - 1.0) * FADING
            if self.plasticity < _HARDLY_RAISED:
                self.plasticity = 1.0
            self._tell_plasticity(fresh=False)

    def _tell_plasticity(self, fresh: bool) -> None:
        for part in [self.combiner, *self.learners]:
            tell = getattr(part, "raise_plasticity", None)
            if tell is not None:
                tell(self.plasticity, fresh)
        self._scored = None  # a forward pass that was kept may be of other weights

    def _reset_failing(self) -> None:
        """Start a learner afresh that has failed too many times in a row."""
        for i, learner in enumerate(self.learners):
            if self.health[i, loop.IN_A_ROW] >= loop.PATIENCE:
                learner.reset()
                self.health[i, loop.RESETS] += 1
                self.health[i, loop.IN_A_ROW] = 0
                self._bind()  # a reset may replace arrays whose addresses the table holds

    def _run_compiled(self, part: _Part, learn: bool) -> int:
        values, columns, slots, targets, weights, predictions, own, doubts = part
        # A single record predicted and then learned needs its forward pass only once.
        single = values.shape[0] == 1 and columns is self._identity
        record = (slots.tobytes(), values[0, slots].tobytes()) if single else None
        reuse = learn and not self.lags and record is not None and record == self._scored
        count = loop.run(
            self._table, self._combiner_row, self._stage_row, self._changes, values, columns, slots,
            self.statistics, self.standardise, targets, weights, self.target, self._known(learn), self.late,
            self.regression, learn, reuse, self.steps, self.health, self._x, self._active, self._usable, self._scores,
            self._gradients, predictions, own, doubts, self._doubter, self._waiting,
        )  # fmt: skip
        self._scored = None if learn else record
        return int(count)

    def _run_python(self, part: _Part, learn: bool) -> int:
        """One record, by the learners' Python protocol."""
        values, columns, _, targets, weights, predictions, own, doubts = part
        x, mask, scores, usable, _, prediction = self.score(values[0], columns, learn)
        active = np.flatnonzero(mask)
        self._active[: active.size], self._active[-1] = active, active.size
        self._x, self._scores, self._usable = x, scores, usable
        for i in range(len(self.learners)):
            own[0, i] = self.said(i, scores[i], learn)
        predictions[0] = prediction
        if self.regression:
            predictions[0, 0] = self.value_of(prediction[0], learn)
        if doubts.shape[0]:
            learner = self.learners[self._doubter]
            assert isinstance(learner, CompiledLearner)
            doubt(learner.table_row(own_scratch=True), x, active, self.target, doubts[0])
        if learn:
            known = self._known(learn)
            aim = loop.from_last(targets[0], self.target, known)
            y = loop.target_in_units(targets[0], self.target) if self.regression else targets[0]
            change = loop.change_in_units(targets[0], self.target, known) if self.follows else 0.0
            weight = float(counted(weights, 0))
            gradients = self.combiner.gradients(x, mask, scores, aim if self.follows else y, prediction, usable, weight)
            for i, learner in enumerate(self.learners):
                own_aim = change if self._changes[i, 0] else y
                finite = bool(all_finite(gradients[i]))
                if self.follows:
                    gradients[i, 0] = self._changes[i, 1] - own_aim
                scale(gradients[i], weight)
                told = (weight,) if getattr(learner, "takes_weight", False) else ()
                fine = bool(usable[i]) and finite
                if fine:
                    learned = learner.learn(self._seen_by(learner, x), mask, own_aim, gradients[i], *told)
                    fine = checked_learned(learner, learned)
                if fine:
                    self.health[i, loop.IN_A_ROW] = 0
                else:
                    self.health[i, [loop.SKIPPED, loop.IN_A_ROW]] += 1
            if self.follows:
                remember_target(targets[0], self.target, self.target)
                if self.lags and not np.isnan(leaving(self.late)):
                    remember_target(leaving(self.late), self.target, known)
            if self.lags:
                keep_late(targets[0], self.late)
            doubtful = remember(values[0], columns, self.statistics, active)
            if self.stage is not None:
                self.stage.take_in(values[0], columns, self.statistics, x, active, doubtful)
        return 1

    def state(self) -> Arrays:
        """Everything that was learned, as named arrays."""
        arrays: Arrays = {
            "statistics": self.statistics.copy(),
            "target": self.target[: None if self.follows else STATISTICS].copy(),
            "health": self.health.copy(),
            "steps": np.array([self.steps], dtype=np.int64),
        }
        if self.plasticity != 1.0:
            arrays["plasticity"] = np.array([self.plasticity])
        if self.lags:
            arrays |= {"late": self.late.copy(), "target then": self.target_then.copy()}
        for name, part in self._saved_parts():
            arrays |= prefixed(name, checked_state(part, part.state()))
        return arrays

    def rules(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, ArrayRule]:
        """What the arrays of a `state` of these sizes must be, but for those of its parts."""
        rules = {
            "statistics": _statistics(arrays, "statistics", (self.n_features,), STATISTICS),
            "target": _statistics(arrays, "target", (), self.target.size if self.follows else STATISTICS),
            "health": counts(len(self.learners), 3),
            "steps": counts(1),
        }
        if "plasticity" in arrays:
            rules["plasticity"] = ArrayRule((1,), low=1.0, high=BOOST)
        if self.lags:
            most = np.full(self.late.size, np.inf if self.regression else self.n_outputs - 1)
            least, whole = (-most, np.arange(most.size) == 0) if self.regression else (0.0 * most, most >= 0)
            most[0], least[0] = MOST_COUNT, 0.0
            rules["late"] = ArrayRule(self.late.shape, "float64", least, most, whole)
            rules["target then"] = _statistics({}, "target then", (), TARGET_STATISTICS)
        return rules

    def check_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse what is no `state` of these sizes, or of one of the parts; nothing changes."""
        check_arrays("state of the model", self.rules(arrays), arrays)
        for name in ("statistics", "target", "target then"):
            if name in arrays and not hold_together(arrays[name]):
                raise BraidedError(f"state of the model: {name} are no statistics; give a file written by save")
        for name, part in self._saved_parts():
            if isinstance(part, InputStage | Combiner | CompiledLearner):
                part.check_state(unprefixed(name, arrays))

    def _saved_parts(self) -> list[tuple[str, InputStage | Learner | Combiner]]:
        """Each part that has a state of its own, and what its arrays' names begin with."""
        parts: list[tuple[str, InputStage | Learner | Combiner]] = []
        if self.stage is not None:
            parts.append(("inputs", self.stage))
        parts.append(("combiner", self.combiner))
        return parts + [(f"learner {i}", learner) for i, learner in enumerate(self.learners)]

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`, whole or not at all; the sizes must have been set by `grow`."""
        self.check_state(arrays)
        for name, part in self._saved_parts():
            part.load_state(unprefixed(name, arrays))
        # Statistics of version 0.1 end where the blocks begin.
        self.statistics[:], self.target[:] = 0.0, 0.0
        self.statistics[:, : arrays["statistics"].shape[1]] = arrays["statistics"]
        self.target[: arrays["target"].size] = arrays["target"]
        self.health[:] = arrays["health"]
        self.steps = int(arrays["steps"][0])
        for learner in self._compiled_learners:
            learner.steps = self.steps
        self._scored = None
        if self.lags:
            self.late[:], self.target_then[:] = arrays["late"], arrays["target then"]
        if "plasticity" in arrays:
            self.plasticity = float(arrays["plasticity"][0])
            self._tell_plasticity(fresh=False)

    def __getstate__(self) -> dict[str, Any]:
        """Without the addresses and scratch arrays, which hold only in this process."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "late" not in state or state["statistics"].shape[1] != STATISTICS:
            raise BraidedError("the model was pickled by an older braided: load it there, save it, and load that file")
        self.__dict__.update(state)
        # joblib may open a pickle as a read-only memory map, and the kernels write to whatever address they get.
        for part in (self, self.combiner):
            for name, value in vars(part).items():
                if isinstance(value, np.ndarray) and not value.flags.writeable:
                    setattr(part, name, np.array(value))
        self._waiting, self._give_way = np.zeros(1, dtype=np.int64), None
        self._last_prediction = None
        self._changes = self._changes_of_learners()
        self._doubter = self._who_doubts()
        if self.n_outputs:
            self._bind()
        if self.plasticity != 1.0:
            self._tell_plasticity(fresh=False)
