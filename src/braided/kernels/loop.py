"""The record loop: encode, score, combine, learn, for a chunk of records, with no Python in between."""

from __future__ import annotations

import numpy as np
from numba import njit

from braided.kernels.activations import all_finite
from braided.kernels.calls import call_forward, call_learn, combine_at, doubles, gradients_at, ints, singles
from braided.kernels.compile import CACHED, kernel
from braided.kernels.doubt import doubt
from braided.kernels.inputs import FEATURES, fill, take_in
from braided.kernels.mixture import best
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
    SEEN,
    SQUARES,
    Z_BOUND,
    clipped,
    count_in,
    distance,
    encode,
    including,
    keep_late,
    leaving,
    past_in_units,
    remember,
    remember_target,
    standardised,
    usual_change,
)

# Columns of the combiner's row: two addresses, then address and length of each array.
COMBINE_ADDRESS, GRADIENTS_ADDRESS = 0, 1
COMBINER_SHAPE, COMBINER_HYPER, COMBINER_SINGLE, COMBINER_DOUBLE, COMBINER_WORK = range(2, 12, 2)
# Columns of a learner's health.
SKIPPED, IN_A_ROW, RESETS = 0, 1, 2
#: So many unusable records in a row, and a learner is reset.
PATIENCE = 10
#: No value lies further from the last target, in usual changes.
_FAR = 1e6


@kernel()
def call_combine(row, x, active, scores, usable, prediction):
    """Let the combiner of this row turn the scores of the usable learners into a prediction."""
    combine_at(row[COMBINE_ADDRESS])(
        ints(row, COMBINER_SHAPE), doubles(row, COMBINER_HYPER), singles(row, COMBINER_SINGLE),
        doubles(row, COMBINER_DOUBLE), x, active, scores, usable, singles(row, COMBINER_WORK), prediction,
    )  # fmt: skip


@kernel()
def call_gradients(row, x, active, scores, usable, y, weight, prediction, gradients):
    """Let the combiner of this row give each learner its gradient, and learn itself if it has weights."""
    gradients_at(row[GRADIENTS_ADDRESS])(
        ints(row, COMBINER_SHAPE), doubles(row, COMBINER_HYPER), singles(row, COMBINER_SINGLE),
        doubles(row, COMBINER_DOUBLE), x, active, scores, usable, y, weight, prediction, singles(row, COMBINER_WORK),
        gradients,
    )  # fmt: skip


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
def said(score, of_changes, target, known):
    """The value that a learner's score stands for: a target, or a change from the last one that is known."""
    if of_changes == 0 or known[SEEN] == 0:
        return target_from_units(score, target)
    return known[LAST] + target_from_units(score, target[CHANGES:])


@kernel()
def change_in_units(y, target, known):
    """Take the change from the last target that was known to y into its statistics, and return it in their units."""
    change = 0.0 if known[SEEN] == 0 else y - known[LAST]
    return target_in_units(change, target[CHANGES:], FAR_CHANGE)


@njit(cache=CACHED, nogil=True)
def run(
    table, combiner, stage, changes, values, columns, slots, statistics, standardise, targets, weights, target, known,
    late, regression, learn, reuse, first_step, health, x, active, usable, scores, gradients, predictions, own, doubts,
    doubter, waiting,
):  # fmt: skip
    """Predict, and if `learn` then learn, record by record; returns how many were done.

    Fewer than all are done when a learner has failed `PATIENCE` times in a row: it is then to be reset before
    the next record. Learning also stops after the record in hand when `waiting[0]` is not 0, which another
    thread may set at any time. `reuse` says that the learners' work arrays, `usable` and `scores` still hold the
    first record's forward pass. `predictions[t]` receives the class probabilities or the regression value,
    `own[t, i]` what learner i alone would have said (a class's place or a value). `active` has one place more than
    there are features: the last holds how many of them the last record had. A learner with `changes[i, 0]` learns
    how far a numeric target lies from the one before it. With any of them all scores that are combined are distances
    from the last target in usual changes, and every learner has its own loss; `changes[i, 1]` receives its own score.
    `weights` are those of the records, or none; statistics count records, whatever their weight. `doubts[t]` receives
    what learner `doubter` doubts (`kernels.doubt`), unless it has no places.

    Labels may come late (`late` then has places). A record is learned as it was predicted, when the newest targets had
    not come: `known` is then the target's past without them. A learner of labels finds in the last place of x whether
    it has to leave them out, and in the place before it the label that, with this record, is no longer too new.
    """
    n_learners = table.shape[0]
    follow = regression and changes[:, 0].any()
    lags = learn and late.shape[0] > 1
    for t in range(values.shape[0]):
        n_available = encode(values[t], columns, slots, statistics, standardise, x, active)
        available = active[:n_available]
        active[-1] = n_available
        if follow:
            past_in_units(target, known, x[-PAST:])
        elif not regression:
            come = leaving(late) if lags else np.nan
            x[-2], x[-1] = -1.0 if np.isnan(come) else come, lags
        if stage[FEATURES] > 0 and not (reuse and t == 0):
            fill(stage, values[t], columns, x, available)
        # Predictions alone are all made at the step that comes next.
        step = first_step + t if learn else first_step
        for i in range(n_learners):
            if not (reuse and t == 0):
                call_forward(table[i], x, available, step, scores[i])
                usable[i] = all_finite(scores[i])
                if not usable[i]:
                    scores[i, :] = 0.0
                if follow:
                    changes[i, 1] = scores[i, 0]
                    scores[i, 0] = from_last(said(scores[i, 0], changes[i, 0], target, known), target, known)
            if follow:
                own[t, i] = said(changes[i, 1], changes[i, 0], target, known)
            else:
                own[t, i] = target_from_units(scores[i, 0], target) if regression else best(scores[i])
        prediction = predictions[t]
        call_combine(combiner, x, available, scores, usable, prediction)
        answer = prediction[0]
        if regression:
            answer = to_value(prediction[0], target, known) if follow else target_from_units(prediction[0], target)
        if doubts.shape[0] > 0:
            doubt(table[doubter], x, available, target, doubts[t])
        failing = False
        if learn:
            aim = from_last(targets[t], target, known)
            y = target_in_units(targets[t], target) if regression else targets[t]
            change = change_in_units(targets[t], target, known) if follow else 0.0
            weight = counted(weights, t)
            call_gradients(combiner, x, available, scores, usable, aim if follow else y, weight, prediction, gradients)
            for i in range(n_learners):
                learned = usable[i] and all_finite(gradients[i])
                if learned:
                    own_aim = change if follow and changes[i, 0] > 0 else y
                    if follow:
                        gradients[i, 0] = changes[i, 1] - own_aim
                    scale(gradients[i], weight)
                    learned = call_learn(table[i], x, available, step, own_aim, weight, gradients[i])
                if learned:
                    health[i, IN_A_ROW] = 0
                else:
                    health[i, SKIPPED] += 1
                    health[i, IN_A_ROW] += 1
                    failing = failing or health[i, IN_A_ROW] >= PATIENCE
            if follow:
                remember_target(targets[t], target, target)
                if lags and not np.isnan(leaving(late)):
                    remember_target(leaving(late), target, known)
            if lags:
                keep_late(targets[t], late)
            doubtful = remember(values[t], columns, statistics, available)
            if stage[FEATURES] > 0:
                take_in(stage, values[t], columns, statistics, x, available, doubtful)
        prediction[0] = answer
        if failing or (learn and waiting[0] != 0):
            return t + 1
    return values.shape[0]
