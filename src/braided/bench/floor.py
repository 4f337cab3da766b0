"""The memory-traffic floor of online learning: every weight read once forward, read and written once backward."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from braided.kernels.dense import FAST
from braided.kernels.native import Singles, entry, kernel


@kernel(fastmath=FAST)
def _passes(weights, scale):
    """One record's traffic: read all weights (a sum, so that the reads are not dropped), then read and write all."""
    total = weights.dtype.type(0)
    for i in range(weights.shape[0]):
        total += weights[i]
    for i in range(weights.shape[0]):
        weights[i] *= scale
    return total


@entry
def _three_passes(weights: Singles, scale: float) -> float:
    """Its sum, so that the reads are not dropped."""
    return _passes(weights, np.float32(scale))


def floor_seconds(n_weights: int, records: int) -> float:
    """Seconds a record for three passes over `n_weights` float32 weights."""
    weights: NDArray[np.float32] = np.ones(n_weights, dtype=np.float32)
    one = 1.0
    _three_passes(weights, one)
    start = time.perf_counter()
    for _ in range(records):
        _three_passes(weights, one)
    return (time.perf_counter() - start) / records
