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
from braided.kernels import loop
from braided.kernels.activations import all_finite
from braided.kernels.scale import STATISTICS, encode, remember
from braided.learners import CompiledLearner, Learner

Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]
#: After a drift steps are this many times as long as usual, and the excess shrinks by this factor each record.
BOOST, FADING = 4.0, 0.99
#: Below this the plasticity is the usual one again.
_HARDLY_RAISED = 1.01


class ScoredRecord(NamedTuple):
    """One record as the learners and the combiner see it.

    Attributes
    ----------
    x, mask
        (n_features,): values in the units that learners see, and which of them are there.
    scores, usable
        (n_learners, n_outputs), zero where they are not finite, and (n_learners,): whose are.
    prediction
        (n_outputs,): what the combiner made of them; a regression's in units of the target.
    """

    x: NDArray[np.float32]
    mask: NDArray[np.bool_]
    scores: NDArray[np.float32]
    usable: NDArray[np.bool_]
    prediction: Floats


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
    """

    def __init__(self, learners: Sequence[Learner], combiner: Combiner, standardise: bool, regression: bool) -> None:
        self.learners = list(learners)
        self.combiner = combiner
        self.standardise = standardise
        self.regression = regression
        self.compiled = all(isinstance(learner, CompiledLearner) for learner in self.learners)
        self.n_features = 0
        self.n_outputs = 0
        self.steps = 0
        self.plasticity = 1.0
        self.statistics = np.zeros((0, STATISTICS))
        self.target = np.zeros(STATISTICS)
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
        self.n_features, self.n_outputs = n_features, n_outputs
        self._bind()

    def _bind(self) -> None:
        """Collect the addresses that the record loop calls, and allocate what it writes to."""
        n_learners = len(self.learners)
        self._x = np.zeros(self.n_features, dtype=np.float32)
        self._active = np.zeros(self.n_features + 1, dtype=np.int64)
        self._usable = np.zeros(n_learners, dtype=np.bool_)
        self._scores = np.zeros((n_learners, self.n_outputs), dtype=np.float32)
        self._gradients = np.zeros_like(self._scores)
        self._identity = np.arange(self.n_features, dtype=np.int64)
        self._scored: bytes | None = None
        self._last_prediction = None
        if self.compiled:
            rows = [learner.table_row() for learner in self.learners if isinstance(learner, CompiledLearner)]
            self._table = np.stack(rows)
            self._combiner_row = self.combiner.table_row()
            # The rows hold addresses: the arrays must live as long as the rows do.
            parts = [self.combiner, *self.learners]
            self._addressed = [v for one in parts for v in vars(one).values() if isinstance(v, np.ndarray)]

    def run(self, values: Floats, columns: NDArray[np.int64] | None, targets: Floats | None) -> tuple[Floats, Floats]:
        """Predict every record of a chunk, each before learning it if there are targets.

        Parameters
        ----------
        values
            (n, columns) raw values, NaN for missing.
        columns
            The column of each slot, -1 for none; None if the columns are the slots.
        targets
            (n,) class places or regression targets; None to predict only.

        Returns
        -------
        The predictions, (n, n_outputs), and what each learner alone would have said, (n, n_learners).
        """
        n = values.shape[0]
        predictions = np.zeros((n, self.n_outputs))
        own = np.zeros((n, len(self.learners)))
        columns = self._identity if columns is None else columns
        learn = targets is not None
        known = np.zeros(n) if targets is None else targets
        done = 0
        while done < n:
            run = self._run_compiled if self.compiled else self._run_python
            count = run(values[done:], columns, known[done:], learn, predictions[done:], own[done:])
            done += count
            self._last_prediction = predictions[done - 1]
            if learn:
                self.steps += count
                for learner in self.learners:
                    if isinstance(learner, CompiledLearner):
                        learner.steps = self.steps
                self._reset_failing()
                if self._give_way is not None and self._waiting[0] != 0:
                    self._give_way()
        return predictions, own

    def score(self, values: Floats, columns: NDArray[np.int64] | None = None) -> ScoredRecord:
        """Score one raw record, (columns,), by the learners' Python protocol, without leaving a trace."""
        x, active = np.zeros(self.n_features, dtype=np.float32), np.zeros(self.n_features, dtype=np.int64)
        columns = self._identity if columns is None else columns
        n_active = encode(values, columns, self.statistics, self.standardise, x, active)
        mask = np.zeros(self.n_features, dtype=np.bool_)
        mask[active[:n_active]] = True
        scores = np.zeros((len(self.learners), self.n_outputs), dtype=np.float32)
        for i, learner in enumerate(self.learners):
            scores[i] = learner.scores(x, mask)
        usable = np.array([all_finite(row) for row in scores])
        scores[~usable] = 0.0
        return ScoredRecord(x, mask, scores, usable, self.combiner.combine(x, mask, scores, usable))

    def last_scored(self) -> ScoredRecord | None:
        """The last record that `run` was given, as it was scored; None if a learner was reset or has grown since."""
        if self._last_prediction is None:
            return None
        mask = np.zeros(self.n_features, dtype=np.bool_)
        mask[self._active[: self._active[-1]]] = True
        return ScoredRecord(self._x, mask, self._scores, self._usable, self._last_prediction)

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

    def _run_compiled(
        self, values: Floats, columns: NDArray[np.int64], targets: Floats, learn: bool, predictions: Floats, own: Floats
    ) -> int:
        # A single record predicted and then learned needs its forward pass only once.
        record = values.tobytes() if values.shape[0] == 1 and columns is self._identity else None
        reuse = learn and record is not None and record == self._scored
        count = loop.run(
            self._table, self._combiner_row, values, columns, self.statistics, self.standardise, targets, self.target,
            self.regression, learn, reuse, self.steps, self.health, self._x, self._active, self._usable, self._scores,
            self._gradients, predictions, own, self._waiting,
        )  # fmt: skip
        self._scored = None if learn else record
        return int(count)

    def _run_python(
        self, values: Floats, columns: NDArray[np.int64], targets: Floats, learn: bool, predictions: Floats, own: Floats
    ) -> int:
        """One record, by the learners' Python protocol."""
        x, mask, scores, usable, prediction = self.score(values[0], columns)
        active = np.flatnonzero(mask)
        self._active[: active.size], self._active[-1] = active, active.size
        self._x, self._scores, self._usable = x, scores, usable
        for i in range(len(self.learners)):
            own[0, i] = loop.target_from_units(scores[i, 0], self.target) if self.regression else scores[i].argmax()
        predictions[0] = prediction
        if self.regression:
            predictions[0, 0] = loop.target_from_units(prediction[0], self.target)
        if learn:
            y = loop.target_in_units(targets[0], self.target) if self.regression else targets[0]
            gradients = self.combiner.gradients(x, mask, scores, y, prediction, usable)
            for i, learner in enumerate(self.learners):
                fine = (
                    usable[i]
                    and bool(all_finite(gradients[i]))
                    and learner.learn(x, mask, y, gradients[i]) is not False
                )
                if fine:
                    self.health[i, loop.IN_A_ROW] = 0
                else:
                    self.health[i, [loop.SKIPPED, loop.IN_A_ROW]] += 1
            remember(values[0], columns, self.statistics, active)
        return 1

    def state(self) -> Arrays:
        """Everything that was learned, as named arrays."""
        arrays: Arrays = {
            "statistics": self.statistics.copy(),
            "target": self.target.copy(),
            "health": self.health.copy(),
            "steps": np.array([self.steps], dtype=np.int64),
        }
        if self.plasticity != 1.0:
            arrays["plasticity"] = np.array([self.plasticity])
        parts: list[tuple[str, Learner | Combiner]] = [("combiner", self.combiner)]
        parts += [(f"learner {i}", learner) for i, learner in enumerate(self.learners)]
        for name, one in parts:
            arrays |= prefixed(name, one.state())
        return arrays

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`; the sizes must have been set by `grow`."""
        self.statistics[:] = arrays["statistics"]
        self.target[:] = arrays["target"]
        self.health[:] = arrays["health"]
        self.steps = int(arrays["steps"][0])
        parts: list[tuple[str, Learner | Combiner]] = [("combiner", self.combiner)]
        parts += [(f"learner {i}", learner) for i, learner in enumerate(self.learners)]
        for name, one in parts:
            one.load_state(unprefixed(name, arrays))
        for learner in self.learners:
            if isinstance(learner, CompiledLearner):
                learner.steps = self.steps
        self._scored = None
        if "plasticity" in arrays:
            self.plasticity = float(arrays["plasticity"][0])
            self._tell_plasticity(fresh=False)

    def __getstate__(self) -> dict[str, Any]:
        """Without the addresses and scratch arrays, which hold only in this process."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # joblib may open a pickle as a read-only memory map, and the kernels write to whatever address they get.
        for part in (self, self.combiner):
            for name, value in vars(part).items():
                if isinstance(value, np.ndarray) and not value.flags.writeable:
                    setattr(part, name, np.array(value))
        self._waiting, self._give_way = np.zeros(1, dtype=np.int64), None
        self._last_prediction = None
        if self.n_outputs:
            self._bind()
        if self.plasticity != 1.0:
            self._tell_plasticity(fresh=False)
