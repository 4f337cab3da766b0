"""Counting how predictions turned out, record by record: what every metric is worked out from.

Sums are added up in the order of the records, so that the chunks in which they came do not matter to the last bit.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from braided.kernels.compile import kernel

# Places in the sums of a classification: records with an answer, their log loss, their Brier scores.
ANSWERED, LOG_LOSS, BRIER = 0, 1, 2
CLASS_SUMS = 3
# Places in the sums of a regression: records, mean and squared deviations of the target, its sum, squared errors.
COUNT, MEAN, DEVIATIONS, TOTAL, SQUARED_ERRORS = 0, 1, 2, 3, 4
VALUE_SUMS = 5
#: Bins of equal width for the probability of the predicted class.
CALIBRATION_BINS = 10
#: Bins for the probability of each class, of equal width in its log odds, between probabilities of 1e-7 and 1 - 1e-7.
ODDS_BINS = 1_024
_LARGEST_LOG_ODDS = 16.0
_FIRST_BIN = 1.0 / (1.0 + math.exp(_LARGEST_LOG_ODDS))
_PER_UNIT = ODDS_BINS / (2.0 * _LARGEST_LOG_ODDS)
#: Probabilities are taken to be at least this, and at most 1 less this, as scikit-learn does it.
_LEAST = float(np.finfo(np.float64).eps)
_LARGEST = float(np.finfo(np.float64).max)


@kernel()
def odds_bin(probability):
    """The bin of a class's probability: monotone, and fine where probabilities are near 0 or 1."""
    if probability <= _FIRST_BIN:
        return 0
    if probability >= 1.0:
        return ODDS_BINS - 1
    place = int((np.log(probability / (1.0 - probability)) + _LARGEST_LOG_ODDS) * _PER_UNIT)
    return min(max(place, 0), ODDS_BINS - 1)


@njit(cache=True, nogil=True)
def tally_classes(predictions, truth, own, best, confusion, calibration, odds, sums, losses):
    """Count in some records of a classification.

    `predictions[t]` are the probabilities of the classes known so far, all 0 where there was no answer; `truth[t]` is
    the label's place, `own[t, i]` the place that learner i alone would have said. `best[0]` is the most frequent class
    so far, -1 for none. `odds[k, 1]` counts the probabilities of class k over the records of that class, `odds[k, 0]`
    over the others; it has as many classes as are followed. `losses[t]` receives 1 or 0 for the answer, the most
    frequent class, and each learner.
    """
    n_classes = predictions.shape[1]
    n_known = confusion.shape[0]
    counts = confusion.sum(axis=1)
    for t in range(predictions.shape[0]):
        label = truth[t]
        said = -1
        top = 0.0
        for k in range(n_classes):
            if predictions[t, k] > top:
                top = predictions[t, k]
                said = k
        losses[t, 0] = 1.0 if said != label else 0.0
        losses[t, 1] = 1.0 if best[0] != label else 0.0
        for i in range(own.shape[1]):
            losses[t, 2 + i] = 1.0 if own[t, i] != label else 0.0
        confusion[label, said if said >= 0 else n_known] += 1
        counts[label] += 1
        if best[0] < 0 or counts[label] > counts[best[0]]:
            best[0] = label
        if said < 0:
            continue
        place = min(int(top * CALIBRATION_BINS), CALIBRATION_BINS - 1)
        calibration[place, 0] += 1.0
        calibration[place, 1] += top
        calibration[place, 2] += 1.0 - losses[t, 0]
        right = predictions[t, label] if label < n_classes else 0.0
        sums[ANSWERED] += 1.0
        sums[LOG_LOSS] -= np.log(min(max(right, _LEAST), 1.0 - _LEAST))
        squares = 0.0
        for k in range(n_classes):
            gap = predictions[t, k] - (1.0 if k == label else 0.0)
            squares += gap * gap
        sums[BRIER] += squares if label < n_classes else squares + 1.0
        for k in range(odds.shape[0]):
            probability = predictions[t, k] if k < n_classes else 0.0
            odds[k, 1 if k == label else 0, odds_bin(probability)] += 1


@kernel()
def _error(answer, y):
    """|answer - y|, kept finite; an answer that is no number, or none yet, counts as 0."""
    return min(abs((answer if answer == answer else 0.0) - y), _LARGEST)


@njit(cache=True, nogil=True)
def tally_values(predictions, truth, own, sums, losses):
    """Count in some records of a regression: `losses[t]` receives the absolute errors.

    They are those of the answer, of the mean of the targets so far (0 before the first), and of each learner.
    """
    for t in range(predictions.shape[0]):
        y = truth[t]
        guess = sums[TOTAL] / sums[COUNT] if sums[COUNT] > 0.0 else 0.0
        losses[t, 0] = _error(predictions[t], y)
        losses[t, 1] = _error(guess, y)
        for i in range(own.shape[1]):
            losses[t, 2 + i] = _error(own[t, i], y)
        sums[SQUARED_ERRORS] += min(losses[t, 0] * losses[t, 0], _LARGEST)
        sums[COUNT] += 1.0
        sums[TOTAL] += y
        gap = y - sums[MEAN]
        sums[MEAN] += gap / sums[COUNT]
        sums[DEVIATIONS] += gap * (y - sums[MEAN])


@njit(cache=True, nogil=True)
def count_present(values):
    """How many records of a chunk, (n, columns) with NaN for missing, have a value in each column."""
    counts = np.zeros(values.shape[1], dtype=np.int64)
    for t in range(values.shape[0]):
        for j in range(values.shape[1]):
            counts[j] += 1 if values[t, j] == values[t, j] else 0
    return counts
