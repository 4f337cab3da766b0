"""The braid itself: learners, combiner and running statistics, driven over records of known slots.

Every chunk runs in `kernels.loop`; a learner in Python is called back from it (`learners.callbacks`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.combiners import Combiner
from braided.engine.inputs import InputStage
from braided.errors import BraidedError
from braided.kernels import loop
from braided.kernels.doubt import DOUBTS
from braided.kernels.inputs import COLUMNS as STAGE_COLUMNS
from braided.kernels.scale import MAX_STATISTICS, MIN_STATISTICS, PAST, STATISTICS, TARGET_STATISTICS
from braided.learners import CompiledLearner, Learner
from braided.learners.callbacks import Callbacks
from braided.learners.linear import LinearRegression
from braided.learners.protocol import checked_state
from braided.store import MAX_COUNT, Array, check, counts, prefixed, unprefixed

Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]
_NONE = np.zeros(0)
_NO_DOUBTS = np.zeros((0, DOUBTS))
#: A chunk is run in pieces of about this many seconds, the first of so many records: then an interrupt is heard.
_PIECE_SECONDS, _FIRST_PIECE = 0.1, 64
#: After a drift steps are this many times as long as usual, and the excess shrinks by this factor with each record,
#: until they are so nearly as long as usual that they are again.
BOOST, _FADING, _NEARLY_USUAL = 4.0, 0.99, 1.01


class Scores(NamedTuple):
    """One record as the learners and the combiner see it.

    Attributes
    ----------
    x, mask
        The values in the units that learners see, once or with an input stage several times (`kernels.inputs`), then
        the target's past or what late labels need; and which features are available, (n_features,).
    scores, usable
        (n_learners, n_outputs), zero where they are not finite, and (n_learners,): whose are.
    own
        (n_learners, n_outputs): the scores in each learner's own units; others than `scores` where a regression follows
        the target's changes, whose `scores` are distances from the last target in usual changes.
    prediction
        (n_outputs,): the probabilities, or the value.
    """

    x: NDArray[np.float32]
    mask: NDArray[np.bool_]
    scores: NDArray[np.float32]
    usable: NDArray[np.bool_]
    own: NDArray[np.float32]
    prediction: Floats


class Answered(NamedTuple):
    """What `Braid.run` predicted: of fewer records than it was to learn where another thread or an interrupt waits.

    Attributes
    ----------
    predictions, own
        (records, n_outputs) probabilities or values, and (records, n_learners) what each learner alone would have
        predicted, a class's place or a value.
    doubts
        (records, DOUBTS): what the closed-form learner of numbers doubts of each record; 0 without one.
    known
        The predictions of records that are learned by the labels that had come when each was predicted: others than
        `predictions` where labels come late. Of a single record, valid until the next one.
    """

    predictions: Floats
    own: Floats
    doubts: Floats
    known: Floats


def _setting(learner: Learner, name: str) -> Any:
    """What the configuration of a compiled learner says; None for one in Python, or without this setting."""
    return getattr(learner.config, name, None) if isinstance(learner, CompiledLearner) else None


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

    Attributes
    ----------
    waiting
        `waiting[0]` is not 0 while another thread waits for the model: `run` then ends after the record in hand if it
        learns.
    plasticity
        How much longer than usual the steps of learners and combiner are.
    lags
        Whether labels come so late that a record is learned by less than is known by then.
    follows
        Whether scores are distances from the last target, because a learner follows its changes.
    """

    def __init__(
        self, learners: Sequence[Learner], combiner: Combiner, standardise: bool, regression: bool, delay: int = 0
    ) -> None:
        self.learners = list(learners)
        self.combiner = combiner
        self.standardise = standardise
        self.regression = regression
        sees_more = any(_setting(learner, "inputs") not in (None, "plain") for learner in self.learners)
        self.stage = InputStage(carry=delay <= 1) if sees_more else None
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
        self.health = np.zeros((len(self.learners), 3), dtype=np.int64)
        self._set_up()

    def _set_up(self) -> None:
        """What follows from the learners, and holds in this process alone."""
        self.waiting = np.zeros(1, dtype=np.int64)
        self.lags = self.late.size > 1
        learns = [self._learns(learner) for learner in self.learners]
        self.follows = loop.CHANGES_IN_UNITS in learns
        self._changes = np.column_stack([learns, np.zeros(len(learns))]).astype(np.float64)
        self._run_learners = [learner for learner in self.learners if isinstance(learner, CompiledLearner)]
        self.compiled = len(self._run_learners) == len(self.learners)
        places = [i for i, learner in enumerate(self.learners) if isinstance(learner, LinearRegression)]
        self._doubter = places[0] if places and self.regression else -1
        #: The record that was predicted last, while scratch and answers hold its forward pass: its values and slots.
        self._scored: tuple[bytes, Any, Any] | None = None
        self._last_prediction: Floats | None = None
        #: Whether the record loop runs, and may call learners in Python.
        self._running = False
        #: What interrupted the loop while it learned; raised by `raise_interrupt`.
        self.interrupt: BaseException | None = None

    def _learns(self, learner: Learner) -> int:
        """What a learner is given as targets; see `kernels.loop`."""
        if self.regression and _setting(learner, "change"):
            return loop.CHANGES_IN_UNITS
        return loop.RAW_TARGETS if self.regression and _setting(learner, "raw") else loop.TARGETS_IN_UNITS

    def _refuse_within(self) -> None:
        """Refuse to be used by a learner in Python while the record loop calls it."""
        if self._running:
            raise BraidedError("a learner uses the model that it is a part of: give it a model of its own")

    def share_waiting(self, waiting: NDArray[np.int64]) -> None:
        """Look at this array after each record, whose first number another thread raises while it waits."""
        self.waiting = waiting
        if self.n_outputs:
            self._bind()

    def grow(self, n_features: int, n_outputs: int) -> None:
        """Make room for more features or outputs; if a learner refuses, the sizes stay as they were."""
        if (n_features, n_outputs) == (self.n_features, self.n_outputs):
            return
        self._refuse_within()
        self._tell_steps()
        parts = [self, self.combiner, *self._run_learners, *([] if self.stage is None else [self.stage])]
        before = [dict(vars(part)) for part in parts]
        try:
            # Learners in Python come first: if one raises, no compiled one has changed.
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
        except BaseException:  # no memory, or an interrupt: arrays were replaced, and the earlier ones are still whole
            for part, attributes in zip(parts, before, strict=True):
                part.__dict__.clear()
                part.__dict__.update(attributes)
            raise

    def _bind(self) -> None:
        """Collect the addresses that the record loop uses, and allocate what it writes to."""
        n_learners, planes = len(self.learners), 1 if self.stage is None else self.stage.planes
        scores = np.zeros((n_learners, self.n_outputs), dtype=np.float32)
        self._scratch = loop.Scratch(
            x=np.zeros(self.n_features * planes + PAST, dtype=np.float32),
            active=np.zeros(self.n_features + 1, dtype=np.int64),
            usable=np.zeros(n_learners, dtype=np.bool_),
            scores=scores,
            gradients=np.zeros_like(scores),
            combined=np.zeros(self.n_outputs),
            columns=np.zeros(self.n_features, dtype=np.int64),
            slots=np.zeros(self.n_features, dtype=np.int64),
            waiting=self.waiting,
            failed=np.zeros(1, dtype=np.int64),
        )
        self._callbacks = Callbacks(self._scratch, self.n_features)
        rows = [
            learner.table_row() if isinstance(learner, CompiledLearner) else self._callbacks.row(learner, i)
            for i, learner in enumerate(self.learners)
        ]
        self._model = loop.Model(
            table=np.stack(rows),
            combiner=self.combiner.table_row(),
            stage=np.zeros(STAGE_COLUMNS, dtype=np.int64) if self.stage is None else self.stage.row,
            changes=self._changes,
            statistics=self.statistics,
            target=self.target,
            target_then=self.target_then,
            late=self.late,
            health=self.health,
            experts=self.combiner.experts,
        )
        self._row = loop.row_of(self._model, self._scratch, self.standardise, self.regression, self._doubter)
        nowhere = np.zeros(0, dtype=np.int64)
        chunk = loop.Chunk(np.zeros((1, 0)), nowhere, nowhere, np.zeros(1), np.zeros(1))
        self._one = loop.Call(self._row, chunk, self._answers(1, asked=True))
        self._placed: tuple[Any, ...] = chunk[:3]
        predictions, own, doubts = self._one.answers
        self._one_target, self._one_prediction = chunk.targets.data, predictions[0]
        doubts_by_asked = _NO_DOUBTS, np.zeros((1, DOUBTS)) if self._doubter < 0 else doubts
        self._one_asked: bool | None = None
        self._one_answered = [Answered(predictions, own, found, predictions) for found in doubts_by_asked]
        # The learners' rows hold addresses: the arrays must live as long as the rows do.
        parts = [self.combiner, *self._run_learners, *([] if self.stage is None else [self.stage])]
        self._addressed = [v for one in parts for v in vars(one).values() if isinstance(v, np.ndarray)]
        self._scored = self._last_prediction = None

    def forget_features(self, slots: NDArray[np.int64]) -> None:
        """Make some slots as they would be if no record had ever had a value there; each learner must be able to."""
        parts: list[Any] = [self.combiner, *self.learners]
        self._tell_steps()
        for part in parts:
            part.forget_features(slots)
        self.statistics[slots] = 0.0
        if self.stage is not None:
            self.stage.forget_features(slots)
        # A forward pass that was kept is of other weights.
        self._scored = self._last_prediction = None

    def run(
        self,
        values: Floats,
        columns: NDArray[np.int64],
        slots: NDArray[np.int64],
        targets: Floats | None = None,
        weights: Floats | None = None,
        doubt: bool = False,
    ) -> Answered:
        """Predict every record of a chunk, each before learning it if there are targets.

        Parameters
        ----------
        values
            (n, columns) raw values in C order, NaN for missing.
        columns
            The column of each slot, -1 for a slot without one.
        slots
            Those that may have a value, in order.
        targets
            (n,) class places or regression targets; None to predict only.
        weights
            (n,) how much each record counts, above 0; None for 1 each.
        doubt
            Whether `doubts` are wanted.
        """
        # The loop is given addresses: what is not laid out as it expects is copied.
        values = np.ascontiguousarray(values, dtype=np.float64)
        columns, slots = np.ascontiguousarray(columns, dtype=np.int64), np.ascontiguousarray(slots, dtype=np.int64)
        n, asked = values.shape[0], doubt and self._doubter >= 0
        if n == 1 and not self.lags:
            target, weight = (None if one is None else float(one[0]) for one in (targets, weights))
            one = self.run_one(values, columns, slots, target, weight, doubt)
            predictions = one.predictions.copy()
            return Answered(predictions, one.own.copy(), one.doubts.copy(), predictions)
        given = (_NONE if one is None else np.ascontiguousarray(one, dtype=np.float64) for one in (targets, weights))
        chunk = loop.Chunk(values, columns, slots, *given)
        known = self._answers(n, asked) if targets is not None and self.lags else None
        call = loop.Call(self._row, chunk, self._answers(n, asked), known)
        self._scored = None
        done = self._run_call(call, n, targets is not None)
        if targets is None:
            self.raise_interrupt()
        predictions, own, doubts = call.answers
        if not asked:
            doubts = np.zeros((n, DOUBTS)) if doubt else _NO_DOUBTS
        return Answered(*(array[:done] for array in (predictions, own, doubts, call.known.predictions)))

    def _answers(self, n: int, asked: bool) -> loop.Answers:
        n_outputs, n_learners = self.n_outputs, len(self.learners)
        return loop.Answers(np.zeros((n, n_outputs)), np.zeros((n, n_learners)), np.zeros((n if asked else 0, DOUBTS)))

    def _run_call(self, call: loop.Call, n: int, learn: bool) -> int:
        """Run the records of a call, or the first of them if another thread or an interrupt waits; returns how many."""
        self._refuse_within()
        begun, done, size = self.steps, 0, _FIRST_PIECE
        while done < n and self.interrupt is None:
            self._running, start, before = not self.compiled, time.perf_counter(), done
            try:
                count = call.run(done, min(done + size, n), begun, learn)
            except BaseException as error:  # an interrupt has waited for the loop to end
                count, self.interrupt = self._counted(call), error
            finally:
                self._running = False
            done = abs(count)
            seconds = max(time.perf_counter() - start, 1e-9)
            size = max(1, min(2 * size, int((done - before) * _PIECE_SECONDS / seconds)))
            if done:
                self._last_prediction = call.known.predictions[done - 1]
            if learn:
                self._count(begun + done, count < 0)
                if count < 0:
                    call.use(self._row)
            if not self.compiled:
                self._callbacks.raise_error()
            if learn and self.waiting[0] != 0:
                break
        return done

    def _counted(self, call: loop.Call) -> int:
        """How many records of a call are done, as the loop would have said it."""
        done: int = call.numbers[loop.FIRST]
        return -done if (self.health[:, loop.IN_A_ROW] >= loop.PATIENCE).any() else done

    def raise_interrupt(self) -> None:
        """Raise what came while the loop ran, now that its records are counted everywhere."""
        if self.interrupt is not None:
            error, self.interrupt = self.interrupt, None
            raise error

    def _count(self, steps: int, failing: bool) -> None:
        """Count the records learned by now; the loop ends early where a learner keeps failing."""
        self.steps = steps
        if failing:
            self._reset_failing()

    def _tell_steps(self) -> None:
        """Let the learners know how many records were learned: they ask when they grow, and when they are copied."""
        for learner in self._run_learners:
            learner.steps = self.steps

    def run_one(
        self,
        values: Any,
        columns: Any,
        slots: Any,
        target: float | None = None,
        weight: float | None = None,
        doubt: bool = False,
    ) -> Answered:
        """The same as `run` for a single record whose label does not come late; valid until the next one.

        Its values, columns and slots are arrays of NumPy or of the standard library; without columns, `slots` has the
        slot of each value, -1 for one without. The call is always the same one: only what has changed is written.
        """
        if self._running:
            self._refuse_within()
        call, answered, scored, learn = self._one, self._one_answered[doubt], self._scored, target is not None
        numbers, reuse = call.numbers, False
        if self._placed[0] is not values:
            call.place(loop.VALUES, values)
        if self._placed[2] is not slots or self._placed[1] is not columns:
            call.place(loop.COLUMNS_AT, columns)
            call.place(loop.SLOTS, slots)
        self._placed = values, columns, slots
        # A record that is predicted and then learned needs its forward pass only once.
        if scored is not None:
            reuse = learn and scored[1] is columns and scored[2] is slots and scored[0] == values.tobytes()
            self._scored = None
        if learn:
            self._one_target[0] = target
            numbers[loop.WEIGHTS + 1] = weight is not None
            if weight is not None:
                call.chunk.weights[0] = weight
        elif self.compiled:
            self._scored = values.tobytes(), columns, slots
        if doubt is not self._one_asked:
            self._one_asked = doubt
            numbers[loop.DOUBTS_AT + 1] = numbers[loop.KNOWN_DOUBTS + 1] = DOUBTS if doubt and self._doubter >= 0 else 0
        numbers[loop.FIRST], numbers[loop.STEP] = 0, self.steps
        numbers[loop.LEARNING], numbers[loop.REUSE] = learn, reuse
        self._running = not self.compiled
        try:
            count = loop.run.native(call.block)
        except BaseException as error:
            count, self.interrupt = self._counted(call), error
        finally:
            self._running = False
        self._last_prediction = self._one_prediction
        if learn:
            self._count(self.steps + abs(count), count < 0)
        if not self.compiled:
            self._callbacks.raise_error()
        if self.interrupt is not None and not (learn and count):
            self.raise_interrupt()
        return answered

    def _reset_failing(self) -> None:
        """Start a learner afresh that has failed too many times in a row."""
        self._tell_steps()
        for i, learner in enumerate(self.learners):
            if self.health[i, loop.IN_A_ROW] >= loop.PATIENCE:
                learner.reset()
                self.health[i, loop.RESETS] += 1
                self.health[i, loop.IN_A_ROW] = 0
        self._bind()  # a reset may replace arrays whose addresses the table holds

    def last_scored(self) -> Scores | None:
        """The last record that `run` was given, as it was scored; None if a learner was reset or has grown since."""
        if self._last_prediction is None:
            return None
        scratch = self._scratch
        own = self._changes[:, 1:].astype(np.float32) if self.follows else scratch.scores
        mask = np.isin(np.arange(self.n_features), scratch.active[: scratch.active[-1]])
        return Scores(scratch.x, mask, scratch.scores, scratch.usable, own, self._last_prediction)

    def raise_plasticity(self) -> None:
        """Learn faster for some hundred records, because the stream has changed."""
        self._use_plasticity(BOOST, fresh=True)

    def relax(self) -> None:
        """One record nearer to the usual plasticity."""
        if self.plasticity != 1.0:
            factor = 1.0 + (self.plasticity - 1.0) * _FADING
            self._use_plasticity(1.0 if factor < _NEARLY_USUAL else factor)

    def _use_plasticity(self, factor: float, fresh: bool = False) -> None:
        """Take steps of this length; `fresh` where a drift was found just now."""
        self.plasticity = factor
        self._scored = None  # a forward pass that was kept may be of other weights
        for part in (self.combiner, *self.learners):
            if hasattr(part, "raise_plasticity"):
                part.raise_plasticity(factor, fresh)

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

    def schema(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
        """What the arrays of a `state` of these sizes must be, but for those of its parts."""

        def statistics(*rows: int, width: int) -> Array:
            return Array((*rows, width), "float64", MIN_STATISTICS[:width], MAX_STATISTICS[:width])

        schema = {
            "statistics": statistics(self.n_features, width=STATISTICS),
            "target": statistics(width=TARGET_STATISTICS if self.follows else STATISTICS),
            "health": counts(len(self.learners), 3),
            "steps": counts(1),
        }
        if "plasticity" in arrays:
            schema["plasticity"] = Array((1,), low=1.0, high=BOOST)
        if self.lags:
            most = np.full(self.late.size, np.inf if self.regression else self.n_outputs - 1)
            least = -most if self.regression else np.zeros(most.size)
            most[0], least[0] = MAX_COUNT, 0.0
            schema["late"] = Array(self.late.shape, "float64", least, most)
            schema["target then"] = statistics(width=TARGET_STATISTICS)
        return schema

    def _saved_parts(self) -> list[tuple[str, InputStage | Learner | Combiner]]:
        """Each part that has a state of its own, and what its arrays' names begin with."""
        stage = [] if self.stage is None else [("inputs", self.stage)]
        learners = [(f"learner {i}", learner) for i, learner in enumerate(self.learners)]
        return [*stage, ("combiner", self.combiner), *learners]

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state` of these sizes; all parts but those in Python are checked before anything changes."""
        check("state of the model", self.schema(arrays), arrays)
        for name, part in self._saved_parts():
            if isinstance(part, InputStage | Combiner | CompiledLearner):
                part.check_state(unprefixed(name, arrays))
        for name, part in self._saved_parts():
            part.load_state(unprefixed(name, arrays))
        self.statistics[:], self.health[:] = arrays["statistics"], arrays["health"]
        self.target[: arrays["target"].size] = arrays["target"]
        self.steps = int(arrays["steps"][0])
        if self.lags:
            self.late[:], self.target_then[:] = arrays["late"], arrays["target then"]
        if "plasticity" in arrays:
            self._use_plasticity(float(arrays["plasticity"][0]))
        self._bind()  # a learner in Python may have taken over arrays of its own

    def __getstate__(self) -> dict[str, Any]:
        """Without the addresses and scratch arrays, which hold only in this process."""
        self._tell_steps()
        here = ("waiting", "interrupt")
        return {name: value for name, value in vars(self).items() if not name.startswith("_") and name not in here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # joblib may open a pickle as a read-only memory map, and the kernels write to whatever address they get.
        for part in (self, self.combiner):
            for name, value in vars(part).items():
                if isinstance(value, np.ndarray) and not value.flags.writeable:
                    setattr(part, name, np.array(value))
        self._set_up()
        if self.n_outputs:
            self._bind()
        if self.plasticity != 1.0:
            self._use_plasticity(self.plasticity)
