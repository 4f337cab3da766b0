"""Which class an answer names: the likeliest, the likeliest for its frequency, or the cheapest."""

from __future__ import annotations

import numpy as np
from numba import njit

from braided.kernels.compile import CACHED, kernel

#: From so many records on, a class's frequency is that of about so many of the last ones.
MEMORY = 10_000


@kernel()
def _choose(row, weights, costs, counts, balanced):
    """The place of the class with the least expected cost, of several the first; `costs` of no size is 1 per error."""
    n = weights.size
    best, least = -1, np.inf
    for k in range(n):
        expected = 0.0
        # Where every error costs 1, the class with the most weight costs least.
        for i in range(n) if costs.size else range(k, k + 1):
            weighted = row[i] * weights[i] / (counts[i] + 1.0 if balanced else 1.0)
            expected += weighted * costs[i, k] if costs.size else -weighted
        if expected < least:
            best, least = k, expected
    return best


@kernel()
def count_label(label, weight, counts):
    """Count a label in by its weight; counts that add up to `MEMORY` make room for it first."""
    weight = min(weight, MEMORY - 1.0)
    total = counts.sum()
    if total + weight > MEMORY:
        counts *= (MEMORY - weight) / total
    counts[label] += weight


@njit(cache=CACHED, nogil=True)
def decide(predictions, weights, costs, counts, balanced, places):
    """The decided class of each record, all by the same counts."""
    for t in range(places.size):
        places[t] = _choose(predictions[t], weights, costs, counts, balanced)


@njit(cache=CACHED, nogil=True)
def decide_and_count(predictions, truth, records, weights, costs, counts, balanced, places):
    """The decided class of each record, by the labels before it; `weights` without places only counts labels.

    `records` are the weights of the records themselves, or empty where each counts as one.
    """
    for t in range(truth.size):
        if weights.size:
            places[t] = _choose(predictions[t], weights, costs, counts, balanced)
        count_label(int(truth[t]), records[t] if records.size else 1.0, counts)
