"""Which class an answer names: the likeliest, the likeliest for its frequency, or the cheapest."""

from __future__ import annotations

import numpy as np

from braided.kernels.native import DoubleRows, Doubles, Ints, entry, kernel
from braided.kernels.record_weight import counted

#: A class's frequency is that of about this many of the last records.
MEMORY = 10_000
#: The only place of `records`: how many records the counts are of.
_RECORDS = 0


@kernel()
def _choose(row, weights, costs, counts, records, balanced):
    """The place of the class with the least expected cost, of several the first; `costs` of no size is 1 per error."""
    n = weights.size
    # A record of the mean weight, so that the answer is the same whatever unit weights are in.
    usual = counts.sum() / records[_RECORDS] if records[_RECORDS] > 0.0 else 1.0
    best, least = -1, np.inf
    for k in range(n):
        expected = 0.0
        # Where every error costs 1, the class with the most weight costs least.
        for i in range(n) if costs.size else range(k, k + 1):
            weighted = row[i] * weights[i] / (counts[i] + usual if balanced else 1.0)
            expected += weighted * costs[i, k] if costs.size else -weighted
        if expected < least:
            best, least = k, expected
    return best


@kernel()
def count_label(label, weight, counts, records):
    """Count a label in by its weight; `MEMORY` records make room for it first."""
    if records[_RECORDS] + 1.0 > MEMORY:
        counts *= (MEMORY - 1.0) / records[_RECORDS]
        records[_RECORDS] = MEMORY - 1.0
    counts[label] += weight
    records[_RECORDS] += 1.0


@entry
def decide(
    predictions: DoubleRows, weights: Doubles, costs: DoubleRows, counts: Doubles, records: Doubles, balanced: bool,
    places: Ints,
) -> None:  # fmt: skip
    """The decided class of each record, all by the same counts."""
    for t in range(places.size):
        places[t] = _choose(predictions[t], weights, costs, counts, records, balanced)


@entry
def decide_and_count(
    predictions: DoubleRows, truth: Doubles, record_weights: Doubles, weights: Doubles, costs: DoubleRows,
    counts: Doubles, records: Doubles, balanced: bool, places: Ints,
) -> None:  # fmt: skip
    """The decided class of each record, by the labels before it.

    `record_weights` are those of the records themselves, or empty where each counts as one; they count within the
    bounds of `kernels.record_weight`.
    """
    for t in range(truth.size):
        places[t] = _choose(predictions[t], weights, costs, counts, records, balanced)
        count_label(int(truth[t]), counted(record_weights, t), counts, records)
