"""The record loop: see, score, answer, learn and remember each record of a chunk, with no Python in between.

The arrays of a model stay where they are between two calls, so they travel as one row of addresses and sizes
(`row_of`); the loop opens it into named groups. A learner written in Python is called
back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.kernels import aggregation
from braided.kernels.activations import all_finite
from braided.kernels.calls import (
    COLUMNS,
    array_at,
    call_combine,
    call_forward,
    call_gradients,
    call_learn,
    doubles,
    ints,
    singles,
)
from braided.kernels.doubt import DOUBTS, doubt
from braided.kernels.inputs import COME, FEATURES, LATE, fill, take_in
from braided.kernels.mixture import best
from braided.kernels.native import Ints, entry, kernel, placed
from braided.kernels.raw import answer_of, place
from braided.kernels.record_weight import counted, scale
from braided.kernels.scale import (
    CHANGES,
    COUNT,
    DOUBTFUL_BOUND,
    FAR,
    FAR_CHANGE,
    LAST,
    MEAN,
    PAST,
    RESTARTS,
    SEEN,
    SQUARES,
    STATISTICS,
    Z_BOUND,
    clipped,
    count_in,
    distance,
    encode,
    including,
    keep_late,
    leaving,
    past_in_units,
    remember_target,
    standardised,
    usual_change,
)
from braided.kernels.scale import remember as remember_values

# Columns of a learner's health.
SKIPPED, IN_A_ROW, RESETS = HEALTH = range(3)
# Columns of a learner's changes: what it learns, and what it predicted last in its own units.
LEARNS, OWN_SCORE = range(2)
#: Targets in units of their running statistics, changes of the target, or targets as they are (`kernels.raw`).
TARGETS_IN_UNITS, CHANGES_IN_UNITS, RAW_TARGETS = range(3)
#: A learner is reset after this many unusable records in a row.
PATIENCE = 10
#: The largest distance of a value from the last target, in usual changes; and of what an expert says from the mean, in
#: deviations.
_FAR, _FURTHEST = 1e6, 1e5


class Model(NamedTuple):
    """The arrays of a model.

    Attributes
    ----------
    table, combiner, stage
        (learners, COLUMNS) rows of the learners, that of the combiner, and that of the input stage, with no features
        where there is none.
    changes
        (learners, 2): see `LEARNS`. A learner of changes learns how far a numeric target lies from the one before
        it. With any of them all scores that are combined are distances from the last target in usual changes, and every
        learner has its own loss.
    statistics, target
        (features, STATISTICS), and the target's statistics, past and changes.
    target_then, late
        Where labels come late: the target's past without the newest targets, and these; see `kernels.scale`.
    health
        (learners, 3): updates skipped, how many of them in a row, and resets.
    experts
        Of numbers, what `kernels.aggregation` keeps above the combiner; empty unless the combiner is `aggregate`.
    """

    table: Any
    combiner: Any
    stage: Any
    changes: Any
    statistics: Any
    target: Any
    target_then: Any
    late: Any
    health: Any
    experts: Any


class Scratch(NamedTuple):
    """What is written for each record.

    Attributes
    ----------
    x, active
        The record as learners see it, and its available slots in order; `active` has one place more than there are
        features, the last holds how many of them the record has.
    usable, scores, gradients
        (learners,) whose scores are finite, and (learners, outputs) each.
    combined
        (outputs,) probabilities, or a number in the units of the scores.
    columns, slots
        (features,) each: see `by_slot`.
    waiting
        `waiting[0]` is not 0 while another thread waits for the model.
    failed
        `failed[0]` is not 0 once a learner in Python has raised.
    """

    x: Any
    active: Any
    usable: Any
    scores: Any
    gradients: Any
    combined: Any
    columns: Any
    slots: Any
    waiting: Any
    failed: Any


class Chunk(NamedTuple):
    """The records.

    Attributes
    ----------
    values
        (n, columns), NaN for missing.
    columns, slots
        The column of each slot, -1 for a slot without one; and those that may have a value, in order. Or no columns,
        and the slot of each column, -1 for a column without one, in any order.
    targets, weights
        (n,) class places or values, and (n,) how much each record counts; either may be empty.
    """

    values: Any
    columns: Any
    slots: Any
    targets: Any
    weights: Any


class Answers(NamedTuple):
    """What is predicted.

    Attributes
    ----------
    predictions, own
        (n, outputs) probabilities or values, and (n, learners) the class's place or the value of each learner alone.
    doubts
        (n, DOUBTS): see `kernels.doubt`; may be empty.
    """

    predictions: Any
    own: Any
    doubts: Any


class Flags(NamedTuple):
    """How the records are run.

    Attributes
    ----------
    standardise, regression
        Whether learners see standardised values, and whether the target is a number.
    follow
        Whether any learner learns changes of the target.
    doubter
        The place of the learner whose doubts are asked for.
    lags
        Whether the records are learned by less than is known by then, because labels come late.
    """

    standardise: Any
    regression: Any
    follow: Any
    doubter: Any
    lags: Any


# Places in a model's row: address and length of each array, in the order of the fields of Model and Scratch, then three
# numbers that are not arrays.
_ARRAYS = (*Model._fields, *Scratch._fields)
(
    TABLE, COMBINER, STAGE, CHANGES_AT, STATISTICS_AT, TARGET, TARGET_THEN, LATE_AT, HEALTH_AT, EXPERTS_AT,
    X, ACTIVE, USABLE, SCORES, GRADIENTS, COMBINED, COLUMN_OF, SLOTS_AT, WAITING, FAILED,
) = range(0, 2 * len(_ARRAYS), 2)  # fmt: skip
STANDARDISE, REGRESSION, DOUBTER = range(2 * len(_ARRAYS), 2 * len(_ARRAYS) + 3)
# Places in a chunk's row: in the same way the fields of Chunk, of the Answers that are told and of those that are
# learned from; then how many records there are, the first to run and the one to stop before, how many were learned
# before the chunk, whether records are learned, and whether the first of them was predicted just now: scratch, answers
# and the learners' work arrays still hold its forward pass. After each record the first to run is the next.
(
    VALUES, COLUMNS_AT, SLOTS, TARGETS, WEIGHTS, PREDICTIONS, OWN, DOUBTS_AT, KNOWN, KNOWN_OWN, KNOWN_DOUBTS,
) = range(0, 22, 2)  # fmt: skip
RECORDS, FIRST, STOP, STEP, LEARNING, REUSE = range(22, 28)


def row_of(model: Model, scratch: Scratch, standardise: bool, regression: bool, doubter: int) -> NDArray[np.int64]:
    """The row of a model. It holds addresses: the arrays must live as long as it is used."""
    return np.array([*_placed((*model, *scratch)), standardise, regression, doubter], dtype=np.int64)


class Call:
    """What `run` is called with: a model's row and a chunk's.

    Parameters
    ----------
    row, chunk, answers
        The model's row, the records, and where answers go.
    known
        Where labels come late, where the answers go by what was known when a record was predicted; else the same place.
    """

    def __init__(self, row: NDArray[np.int64], chunk: Chunk, answers: Answers, known: Answers | None = None) -> None:
        self.chunk, self.answers, self.known = chunk, answers, known or answers
        numbers = [*_placed((*chunk, *answers, *self.known)), chunk.values.shape[0], 0, 1, 0, 0, 0]
        self._numbers = np.array(numbers, dtype=np.int64)
        #: The chunk's row.
        self.numbers = self._numbers.data
        self.use(row)

    def use(self, row: NDArray[np.int64]) -> None:
        """Run the model of another row from now on."""
        self._row = row
        #: What the machine code is called with.
        self.block = run.packed(row, self._numbers)

    def place(self, at: int, array: NDArray[Any]) -> None:
        """Let the chunk's row have another array, which must live as long as it is used."""
        self.numbers[at], self.numbers[at + 1] = placed(array)

    def run(self, first: int, stop: int, step: int, learning: bool) -> int:
        """Run the records from `first` to before `stop`; see `run`."""
        numbers = self.numbers
        numbers[FIRST], numbers[STOP], numbers[STEP] = first, stop, step
        numbers[LEARNING], numbers[REUSE] = learning, False
        done: int = run.native(self.block)
        return done


def _placed(arrays: tuple[Any, ...]) -> list[int]:
    return [number for array in arrays for number in placed(array)]


@kernel()
def _model_at(row):
    n_learners = row[TABLE + 1] // COLUMNS
    return Model(
        array_at(row[TABLE], np.int64, n_learners, COLUMNS),
        ints(row, COMBINER),
        ints(row, STAGE),
        array_at(row[CHANGES_AT], np.float64, n_learners, 2),
        array_at(row[STATISTICS_AT], np.float64, row[STATISTICS_AT + 1] // STATISTICS, STATISTICS),
        doubles(row, TARGET),
        doubles(row, TARGET_THEN),
        doubles(row, LATE_AT),
        array_at(row[HEALTH_AT], np.int64, n_learners, 3),
        doubles(row, EXPERTS_AT),
    )


@kernel()
def _scratch_at(row):
    n_learners = row[TABLE + 1] // COLUMNS
    n_outputs = row[SCORES + 1] // n_learners
    return Scratch(
        singles(row, X),
        ints(row, ACTIVE),
        array_at(row[USABLE], np.bool_, n_learners),
        array_at(row[SCORES], np.float32, n_learners, n_outputs),
        array_at(row[GRADIENTS], np.float32, n_learners, n_outputs),
        doubles(row, COMBINED),
        ints(row, COLUMN_OF),
        ints(row, SLOTS_AT),
        ints(row, WAITING),
        ints(row, FAILED),
    )


@kernel()
def _chunk_at(row):
    n = row[RECORDS]
    return Chunk(
        array_at(row[VALUES], np.float64, n, row[VALUES + 1] // max(n, 1)),
        ints(row, COLUMNS_AT),
        ints(row, SLOTS),
        doubles(row, TARGETS),
        doubles(row, WEIGHTS),
    )


@kernel()
def _answers_at(row, predictions, own, doubts):
    n = max(row[RECORDS], 1)
    return Answers(
        array_at(row[predictions], np.float64, n, row[predictions + 1] // n),
        array_at(row[own], np.float64, n, row[own + 1] // n),
        array_at(row[doubts], np.float64, row[doubts + 1] // DOUBTS, DOUBTS),
    )


@kernel()
def by_slot(chunk, scratch):
    """The chunk with the column of each slot, where it has the slot of each column.

    A slot that none of them has keeps a column of an earlier chunk: only those that are listed are looked at.
    """
    columns, slots, n = scratch.columns, scratch.slots, 0
    for column in range(chunk.slots.shape[0]):
        slot = chunk.slots[column]
        if slot >= 0:
            columns[slot] = column
            at = n
            while at > 0 and slots[at - 1] > slot:
                slots[at] = slots[at - 1]
                at -= 1
            slots[at] = slot
            n += 1
    return Chunk(chunk.values, columns, slots[:n], chunk.targets, chunk.weights)


@kernel()
def target_in_units(y, target, far=FAR):
    """Take y into the target's statistics and return it in units of them (regression)."""
    value, count, mean, squares = including(y, target)
    mistake = count_in(y, target, distance(y, target) > far)
    return clipped(standardised(value, count, mean, squares), DOUBTFUL_BOUND if mistake else Z_BOUND)


@kernel()
def target_from_units(z, target):
    """The value that z stands for; 0 before any target was seen, and the mean while none has varied."""
    if target[COUNT] == 0.0:
        return 0.0
    return target[MEAN] + z * np.sqrt(target[SQUARES] / target[COUNT])


@kernel()
def from_last(value, target, known):
    """How far a value lies from the last target that is known, in usual changes; 0 before there was one."""
    deviation = usual_change(target)
    if known[SEEN] == 0 or deviation == 0.0:
        return 0.0
    return clipped((value - known[LAST]) / deviation, _FAR)


@kernel()
def to_value(changes, target, known):
    """The value that lies so many usual changes from the last target that is known."""
    if known[SEEN] == 0:
        return 0.0
    return known[LAST] + changes * usual_change(target)


@kernel()
def said(score, learns, target, known):
    """The value that a learner's score stands for: a target, or a change from the last one that is known."""
    if learns == RAW_TARGETS:
        return score
    if learns == TARGETS_IN_UNITS or known[SEEN] == 0:
        return target_from_units(score, target)
    return known[LAST] + target_from_units(score, target[CHANGES:])


@kernel()
def change_in_units(y, target, known):
    """Take the change from the last target that was known to y into its statistics, and return it in their units."""
    change = 0.0 if known[SEEN] == 0 else y - known[LAST]
    return target_in_units(change, target[CHANGES:], FAR_CHANGE)


@kernel()
def known_past(model, flags):
    """The target's past as far as it was known when the record was predicted."""
    return model.target_then if flags.lags else model.target


@kernel()
def see(model, scratch, chunk, flags, t):
    """Record t as learners see it, in the scratch; returns its available slots.

    Where labels come late, a learner of labels finds in the last place of x whether it has to leave out the newest
    ones, and in the place before it the label that, with this record, is no longer too new.
    """
    x, active = scratch.x, scratch.active
    n_available = encode(
        chunk.values[t], chunk.columns, chunk.slots, model.statistics, flags.standardise, x, active
    )  # fmt: skip
    available = active[:n_available]
    active[-1] = n_available
    if flags.follow:
        past_in_units(model.target, known_past(model, flags), x[-PAST:])
    elif not flags.regression:
        come = leaving(model.late) if flags.lags else np.nan
        x[COME], x[LATE] = -1.0 if np.isnan(come) else come, flags.lags
    if model.stage[FEATURES] > 0:
        fill(model.stage, chunk.values[t], chunk.columns, x, available)
    return available


@kernel()
def score(model, scratch, chunk, flags, t, i, available, step):
    """Let learner i score record t, which was seen; scores that are not finite are left out."""
    if model.changes[i, LEARNS] == RAW_TARGETS:
        place(model.table[i], chunk.values[t], chunk.columns, model.statistics, scratch.x, available)
    call_forward(model.table[i], scratch.x, available, step, scratch.scores[i])
    scores = scratch.scores
    scratch.usable[i] = all_finite(scores[i])
    if not scratch.usable[i]:
        scores[i, :] = 0.0
    if flags.regression:
        to_common_units(model, scratch, flags, i)


@kernel()
def to_common_units(model, scratch, flags, i):
    """Bring the score of a number into usual changes of the target, if it is followed, or units of its statistics."""
    target, known, learns, scores = model.target, known_past(model, flags), model.changes[i, LEARNS], scratch.scores
    model.changes[i, OWN_SCORE] = scores[i, 0]
    if learns == RAW_TARGETS and scratch.usable[i]:
        model.changes[i, OWN_SCORE] = answer_of(model.table[i])
    if flags.follow:
        scores[i, 0] = from_last(said(model.changes[i, OWN_SCORE], learns, target, known), target, known)
    elif learns == RAW_TARGETS:
        deviation = np.sqrt(target[SQUARES] / max(target[COUNT], 1.0))
        scores[i, 0] = 0.0
        if deviation > 0.0:
            scores[i, 0] = clipped((model.changes[i, OWN_SCORE] - target[MEAN]) / deviation, _FAR)


@kernel()
def answer(model, scratch, answers, flags, t, available):
    """Combine the scores into the prediction of record t."""
    target, known = model.target, known_past(model, flags)
    for i in range(model.table.shape[0]):
        if flags.regression:
            answers.own[t, i] = said(model.changes[i, OWN_SCORE], model.changes[i, LEARNS], target, known)
        else:
            answers.own[t, i] = best(scratch.scores[i])
    combined, prediction = scratch.combined, answers.predictions[t]
    call_combine(model.combiner, scratch.x, available, scratch.scores, scratch.usable, combined)
    for k in range(combined.shape[0]):
        prediction[k] = combined[k]
    if flags.follow:
        prediction[0] = to_value(combined[0], target, known)
    elif flags.regression:
        prediction[0] = target_from_units(combined[0], target)
    if model.experts.shape[0] > 0:
        prediction[0] = mix_experts(model, scratch, answers.own[t], flags, prediction[0])


@kernel()
def mix_experts(model, scratch, own, flags, together):
    """What the experts say together, of numbers: the combiner, each learner that can be used, and two guesses."""
    experts, n, target = aggregation.experts_of(model.experts), own.shape[0], model.target
    experts[0, aggregation.SAYS] = together
    for i in range(n):
        experts[1 + i, aggregation.SAYS] = own[i] if scratch.usable[i] else together
    experts[n + 1, aggregation.SAYS] = target[MEAN]
    experts[n + 2, aggregation.SAYS] = model.experts[aggregation.LAST]
    if flags.lags:  # the last target that was known when the record was predicted, where a learner of changes needs it
        experts[n + 2, aggregation.SAYS] = model.target_then[LAST] if flags.follow else together
    reach = _FURTHEST * np.sqrt(target[SQUARES] / max(target[COUNT], 1.0))
    for i in range(1, n + 3):
        if reach > 0.0:
            distance_from_mean = clipped(experts[i, aggregation.SAYS] - target[MEAN], reach)
            experts[i, aggregation.SAYS] = target[MEAN] + distance_from_mean
    return aggregation.mean_value(model.experts)


@kernel()
def aims_of(model, chunk, flags, t):
    """What the combiner, a learner of targets and one of changes learn record t by; a number is counted in."""
    target, known, y = model.target, known_past(model, flags), chunk.targets[t]
    if not flags.regression:
        return y, y, 0.0
    distance_from_last = from_last(y, target, known)
    in_units = target_in_units(y, target)
    change = change_in_units(y, target, known) if flags.follow else 0.0
    return distance_from_last if flags.follow else in_units, in_units, change


@kernel()
def gradient_of(model, scratch, flags, i, own_aim, weight):
    """Bring learner i's gradient into its own units and weight it; returns whether there is one to learn from."""
    gradients = scratch.gradients
    fine = scratch.usable[i] and all_finite(gradients[i])
    if flags.follow:
        gradients[i, 0] = model.changes[i, OWN_SCORE] - own_aim
    scale(gradients[i], weight)
    return fine


@kernel()
def note_health(health, i, learned):
    """Count whether learner i has learned a record; returns whether it is to be reset."""
    if learned:
        health[i, IN_A_ROW] = 0
        return False
    health[i, SKIPPED] += 1
    health[i, IN_A_ROW] += 1
    return health[i, IN_A_ROW] >= PATIENCE


@kernel()
def learn(model, scratch, chunk, flags, t, available, step):
    """Let the combiner and all learners learn record t; returns whether one of them is to be reset."""
    # Once its statistics have started over twice, a target is known to jump.
    doubtful = distance(chunk.targets[t], model.target) > FAR and model.target[RESTARTS] < 2.0
    aim, in_units, change = aims_of(model, chunk, flags, t)
    weight = counted(chunk.weights, t)
    call_gradients(
        model.combiner, scratch.x, available, scratch.scores, scratch.usable, aim, weight, scratch.combined,
        scratch.gradients,
    )  # fmt: skip
    if model.experts.shape[0] > 0:
        aggregation.learn_value(model.experts, chunk.targets[t], weight, doubtful, model.target[RESTARTS])
    failing = False
    for i in range(model.table.shape[0]):
        own_aim, learns = in_units, model.changes[i, LEARNS]
        if flags.regression and learns != TARGETS_IN_UNITS:
            own_aim = change if learns == CHANGES_IN_UNITS else chunk.targets[t]
        learned = gradient_of(model, scratch, flags, i, own_aim, weight)
        if learned:
            learned = call_learn(model.table[i], scratch.x, available, step, own_aim, weight, scratch.gradients[i])
            if scratch.failed[0] != 0:
                return False
        if note_health(model.health, i, learned):
            failing = True
    return failing


@kernel()
def remember(model, scratch, chunk, flags, t, available):
    """Take record t into the target's past, the features' statistics and the input stage; weights do not matter."""
    target, y = model.target, chunk.targets[t]
    if flags.follow:
        remember_target(y, target, target)
        if flags.lags and not np.isnan(leaving(model.late)):
            remember_target(leaving(model.late), target, model.target_then)
    if flags.lags:
        keep_late(y, model.late)
    doubtful = remember_values(chunk.values[t], chunk.columns, model.statistics, available)
    if model.stage[FEATURES] > 0:
        take_in(model.stage, chunk.values[t], chunk.columns, model.statistics, scratch.x, available, doubtful)


@entry
def run(row: Ints, chunk_row: Ints) -> int:
    """Predict, and if `LEARNING` then learn, from `FIRST` to before `STOP`; returns how many of the chunk are done.

    When a learner has failed `PATIENCE` times in a row, so that it has to be reset before the next record, the loop
    ends, and the number is negative. Learning also ends after the record in hand when another thread waits, and where
    a learner in Python raises before the record that it raised for.
    """
    model, scratch, chunk = _model_at(row), _scratch_at(row), _chunk_at(chunk_row)
    step, learning, reuse = chunk_row[STEP], chunk_row[LEARNING] != 0, chunk_row[REUSE] != 0
    if chunk.columns.shape[0] == 0:
        chunk = by_slot(chunk, scratch)
    answers = _answers_at(chunk_row, PREDICTIONS, OWN, DOUBTS_AT)
    known = _answers_at(chunk_row, KNOWN, KNOWN_OWN, KNOWN_DOUBTS)
    regression = row[REGRESSION] != 0
    follow = False
    for i in range(model.changes.shape[0]):
        follow = follow or (regression and model.changes[i, LEARNS] == CHANGES_IN_UNITS)
    lags = learning and model.late.shape[0] > 1
    stop = chunk_row[STOP]
    for t in range(chunk_row[FIRST], stop):
        # Predictions alone are all made at the step that comes next.
        now = step + t if learning else step
        failing = False
        # Where labels come late a record is answered by all that is known by now, and learned by what was known then.
        for turn in range(2 if lags else 1):
            learns = learning and (turn == 1 or not lags)
            told = known if turn == 1 else answers
            flags = Flags(row[STANDARDISE] != 0, regression, follow, row[DOUBTER], lags and learns)
            available = scratch.active[: scratch.active[-1]]
            if not (reuse and t == 0):
                available = see(model, scratch, chunk, flags, t)
                for i in range(model.table.shape[0]):
                    score(model, scratch, chunk, flags, t, i, available, now)
                if scratch.failed[0] != 0:
                    return t
                answer(model, scratch, told, flags, t, available)
            if told.doubts.shape[0] > 0:
                doubt(model.table[flags.doubter], scratch.x, available, model.target, told.doubts[t])
            if learns:
                failing = learn(model, scratch, chunk, flags, t, available, now)
                if scratch.failed[0] != 0:
                    return t
                remember(model, scratch, chunk, flags, t, available)
        chunk_row[FIRST] = t + 1
        if failing:
            return -(t + 1)
        if learning and scratch.waiting[0] != 0:
            return t + 1
    return stop
