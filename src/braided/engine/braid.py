"""The braid itself: learners, combiner and running statistics, driven over records of known slots.

Where all learners are compiled, a chunk runs inside `kernels.loop`; with any learner in plain Python the same steps are
taken in a Python loop. Both give the same bits, because the compiled parts are the same machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.combiners import Combiner
from braided.engine.records import Aside, Floats, RecordPart, ScoredRecord
from braided.engine.saved_state import BraidState
from braided.errors import BraidedError
from braided.kernels import loop
from braided.kernels.activations import all_finite
from braided.kernels.doubt import DOUBTS, doubt
from braided.kernels.inputs import COLUMNS as STAGE_COLUMNS
from braided.kernels.record_weight import counted, scale
from braided.kernels.scale import (
    PAST,
    STATISTICS,
    encode,
    keep_late,
    leaving,
    past_in_units,
    remember,
    remember_target,
)
from braided.learners import CompiledLearner, Learner
from braided.learners.linear import LinearRegression
from braided.learners.protocol import checked_learned, checked_scores

_NO_WEIGHTS = np.zeros(0)
_NO_DOUBTS = np.zeros((0, DOUBTS))
#: The row of a stage that is not there.
_NO_STAGE = np.zeros(STAGE_COLUMNS, dtype=np.int64)


class Braid(BraidState):
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
        super().__init__(learners, combiner, standardise, regression, delay)
        self.compiled = all(isinstance(learner, CompiledLearner) for learner in self.learners)
        self._doubter = self._who_doubts()
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
        self._scored = None
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
            part = RecordPart(values, columns, slots, known, heavy, predictions, own, doubts)
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

    def _reset_failing(self) -> None:
        """Start a learner afresh that has failed too many times in a row."""
        for i, learner in enumerate(self.learners):
            if self.health[i, loop.IN_A_ROW] >= loop.PATIENCE:
                learner.reset()
                self.health[i, loop.RESETS] += 1
                self.health[i, loop.IN_A_ROW] = 0
                self._bind()  # a reset may replace arrays whose addresses the table holds

    def _run_compiled(self, part: RecordPart, learn: bool) -> int:
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

    def _run_python(self, part: RecordPart, learn: bool) -> int:
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
