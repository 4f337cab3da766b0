"""Counting how predictions turned out, record by record: what every metric is worked out from.

Sums are added up in the order of the records, so that the chunks in which they came do not matter to the last bit.

One target of 1e308 must leave numbers. A sum stays at the largest double where it would go beyond. The square of what
is beyond 1e150 would always do so: it is added up apart, in units of `HUGE_UNIT` squared.
"""

from __future__ import annotations

import math

import numpy as np

from braided.kernels.native import DoubleRows, Doubles, IntBlocks, IntRows, Ints, entry, kernel

# Columns of the losses: of the answer, of the two plain guesses (what is usual and what was last), of each learner.
ANSWER, USUAL, LAST, LEARNERS = 0, 1, 2, 3
# Places in the sums of a classification: records with an answer, their log loss, their Brier scores.
ANSWERED, LOG_LOSS, BRIER = 0, 1, 2
CLASS_SUMS = 3
# Places in the sums of a regression: records, mean and squared deviations of the target, squared errors.
# The last two are those of huge ones, in units of HUGE_UNIT squared.
COUNT, MEAN, DEVIATIONS, SQUARED_ERRORS, HUGE_DEVIATIONS, HUGE_ERRORS = 0, 1, 2, 3, 4, 5
VALUE_SUMS = 6
# Columns of the calibration's bins: records, the sum of their highest probabilities, and how many had that class.
_IN_BIN, _SUM_OF_TOP, _RIGHT = 0, 1, 2
# Rows of the odds of a class: of records of other classes, and of its own.
_OTHERS, _OWN = 0, 1
# A curve's numbers: records so far, those from one point to the next, and the points. A point: the record, the sums.
_RECORDS, _INTERVAL, _POINTS = 0, 1, 2
_AT_RECORD, _TOTALS = 0, 1
# The two plain guesses; and of the targets that have come, how many there are and their sum.
_USUAL_GUESS, _LAST_GUESS = 0, 1
_COME, _SUM = 0, 1
HUGE_UNIT = 1e160
_HUGE = 1e150
#: Bins of equal width for the probability of the predicted class.
CALIBRATION_BINS = 10
#: Bins for the probability of each class, of equal width in its log odds, between probabilities of 1e-7 and 1 - 1e-7.
ODDS_BINS = 1_024
_LARGEST_LOG_ODDS = 16.0
_FIRST_BIN = 1.0 / (1.0 + math.exp(_LARGEST_LOG_ODDS))
_PER_UNIT = ODDS_BINS / (2.0 * _LARGEST_LOG_ODDS)
#: Probabilities are taken to be at least this, and at most 1 less this, as scikit-learn does it.
_MIN_PROBABILITY = float(np.finfo(np.float64).eps)
LARGEST = float(np.finfo(np.float64).max)


@kernel()
def odds_bin(probability):
    """The bin of a class's probability: monotone, and fine where probabilities are near 0 or 1."""
    if probability <= _FIRST_BIN:
        return 0
    if probability >= 1.0:
        return ODDS_BINS - 1
    place = int((np.log(probability / (1.0 - probability)) + _LARGEST_LOG_ODDS) * _PER_UNIT)
    return min(max(place, 0), ODDS_BINS - 1)


@entry
def tally_classes(
    predictions: DoubleRows, decided: Ints, truth: Ints, own: DoubleRows, confusion: IntRows, calibration: DoubleRows,
    odds: IntBlocks, sums: Doubles, losses: DoubleRows,
) -> None:  # fmt: skip
    """Count in some records of a classification.

    `predictions[t]` are the probabilities of the classes known so far, all 0 where there was no answer; `decided[t]` is
    the place of the class that was answered, or if there are none the likeliest is; `truth[t]` is the label's place,
    `own[t, i]` the place that learner i alone would have answered. `odds[k]` counts the probabilities
    of class k in two rows, over the records of other classes and over its own; it has as many classes as are followed.
    `losses[t]` receives 1 or 0 for the answer and for each learner.
    """
    n_classes = predictions.shape[1]
    n_known = confusion.shape[0]
    for t in range(predictions.shape[0]):
        label = min(max(truth[t], 0), n_known - 1)
        answer = -1
        top = 0.0
        for k in range(n_classes):
            if predictions[t, k] > top:
                top = predictions[t, k]
                answer = k
        likeliest = answer
        if decided.size and answer >= 0:
            answer = decided[t]
        losses[t, ANSWER] = 1.0 if answer != label else 0.0
        for i in range(own.shape[1]):
            losses[t, LEARNERS + i] = 1.0 if own[t, i] != label else 0.0
        confusion[label, answer if answer >= 0 else n_known] += 1
        if answer < 0:
            continue
        place = int(min(top, 1.0) * CALIBRATION_BINS)
        place = min(max(place, 0), CALIBRATION_BINS - 1)
        calibration[place, _IN_BIN] += 1.0
        calibration[place, _SUM_OF_TOP] += top
        calibration[place, _RIGHT] += 1.0 if likeliest == label else 0.0
        right = predictions[t, label] if label < n_classes else 0.0
        sums[ANSWERED] += 1.0
        sums[LOG_LOSS] -= np.log(min(max(right, _MIN_PROBABILITY), 1.0 - _MIN_PROBABILITY))
        squares = 0.0
        for k in range(n_classes):
            gap = predictions[t, k] - (1.0 if k == label else 0.0)
            squares += gap * gap
        sums[BRIER] += squares if label < n_classes else squares + 1.0
        for k in range(odds.shape[0]):
            probability = predictions[t, k] if k < n_classes else 0.0
            odds[k, _OWN if k == label else _OTHERS, odds_bin(probability)] += 1


@kernel()
def _error(answer, y):
    """|answer - y|, kept finite; an answer that is NaN counts as 0."""
    return min(abs((answer if answer == answer else 0.0) - y), LARGEST)


@kernel()
def _kept(number):
    """A number, kept finite; NaN, for what is not known, stays."""
    if number > LARGEST:
        return LARGEST
    return -LARGEST if number < -LARGEST else number


@kernel()
def _add_product(sums, place, huge_place, a, b):
    """Add a b to a sum, or to that of huge products."""
    if abs(a) <= _HUGE and abs(b) <= _HUGE:
        sums[place] += a * b
    else:
        sums[huge_place] += (a / HUGE_UNIT) * (b / HUGE_UNIT)


@entry
def tally_values(predictions: Doubles, truth: Doubles, own: DoubleRows, sums: Doubles, losses: DoubleRows) -> None:
    """Count in some records of a regression: `losses[t]` gets the absolute errors of the answer and each learner."""
    for t in range(predictions.shape[0]):
        y = truth[t]
        losses[t, ANSWER] = _error(predictions[t], y)
        for i in range(own.shape[1]):
            losses[t, LEARNERS + i] = _error(own[t, i], y)
        _add_product(sums, SQUARED_ERRORS, HUGE_ERRORS, losses[t, ANSWER], losses[t, ANSWER])
        sums[COUNT] += 1.0
        gap = _kept(y - sums[MEAN])
        sums[MEAN] += gap / sums[COUNT]
        _add_product(sums, DEVIATIONS, HUGE_DEVIATIONS, gap, _kept(y - sums[MEAN]))


@entry
def add_losses(
    losses: DoubleRows, totals: Doubles, since: Doubles, numbers: Ints, points: DoubleRows, within: DoubleRows
) -> None:
    """Add up some records' losses, (n, width), for a curve; see `Curve` for what is kept.

    `numbers` are the records so far, those from one point to the next, and the points. A curve without room for one
    more point keeps every second one.
    """
    width = totals.size
    for t in range(losses.shape[0]):
        for j in range(width):
            totals[j] = _kept(totals[j] + losses[t, j])
            since[j] = _kept(since[j] + losses[t, j])
        numbers[_RECORDS] += 1
        if numbers[_RECORDS] % numbers[_INTERVAL] == 0 and numbers[_POINTS] == points.shape[0]:
            numbers[_INTERVAL] *= 2
            numbers[_POINTS] //= 2
            for i in range(numbers[_POINTS]):
                for j in range(width):
                    within[i, j] = _kept(within[2 * i, j] + within[2 * i + 1, j])
                    points[i, _TOTALS + j] = points[2 * i + 1, _TOTALS + j]
                points[i, _AT_RECORD] = points[2 * i + 1, _AT_RECORD]
        if numbers[_RECORDS] % numbers[_INTERVAL] == 0:
            place = numbers[_POINTS]
            points[place, _AT_RECORD] = numbers[_RECORDS]
            for j in range(width):
                points[place, _TOTALS + j] = totals[j]
                within[place, j] = since[j]
                since[j] = 0.0
            numbers[_POINTS] += 1


@entry
def guess_classes(truth: Ints, come: Ints, seen: Ints, guesses: Ints, losses: DoubleRows) -> None:
    """What the plain guesses get wrong: the most frequent class of those that have come, and the one that came last.

    `come[t]` is the place of the label that comes after record t and before the next, -1 for none. `seen[k]` counts the
    labels of class k that have come; `guesses` holds the two guesses, -1 for none. `losses[t]` receives 1 or 0 for
    each.
    """
    for t in range(truth.size):
        losses[t, USUAL] = 1.0 if guesses[_USUAL_GUESS] != truth[t] else 0.0
        losses[t, LAST] = 1.0 if guesses[_LAST_GUESS] != truth[t] else 0.0
        label = min(come[t], seen.shape[0] - 1)
        if label < 0:
            continue
        seen[label] += 1
        usual = guesses[_USUAL_GUESS]
        if usual < 0 or seen[label] > seen[min(usual, seen.shape[0] - 1)]:
            guesses[_USUAL_GUESS] = label
        guesses[_LAST_GUESS] = label


@entry
def guess_values(truth: Doubles, come: Doubles, seen: Doubles, guesses: Doubles, losses: DoubleRows) -> None:
    """How far off the plain guesses are: the mean of the targets that have come, and the one that came last.

    `come[t]` is the target that comes after record t and before the next, NaN for none. `seen` is how many have come
    and their sum; `guesses` holds the two guesses, 0 before the first. `losses[t]` receives the absolute error of each.
    """
    for t in range(truth.size):
        losses[t, USUAL] = _error(guesses[_USUAL_GUESS], truth[t])
        losses[t, LAST] = _error(guesses[_LAST_GUESS], truth[t])
        y = come[t]
        if y != y:
            continue
        seen[_COME] += 1.0
        seen[_SUM] = _kept(seen[_SUM] + y)
        guesses[_USUAL_GUESS] = seen[_SUM] / seen[_COME]
        guesses[_LAST_GUESS] = y


@entry
def count_present(values: DoubleRows, counts: Ints) -> None:
    """Count how many records of a chunk, (n, columns) with NaN for missing, have a value in each column."""
    for t in range(values.shape[0]):
        for j in range(values.shape[1]):
            counts[j] += 1 if values[t, j] == values[t, j] else 0
