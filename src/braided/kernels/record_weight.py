"""How much one record counts: bounds on its weight, and what a weight is for gradients and for steps in closed form.

A weight that is not 0 is taken within MIN_WEIGHT and MAX_WEIGHT, so that a mistaken one ruins nothing: for a ratio
above MAX_WEIGHT between records, give weights below 1. A gradient is multiplied by the weight, by MAX_OF_GRADIENT at
most. What is not linear in closed form takes several steps, n = min(ceil(weight), MAX_STEPS) of them, each of
weight / n: a whole weight up to MAX_STEPS counts as that many records, and the work for one is bounded. A step of more
than one record's weight moves a score by LARGEST_MOVE at most, or by what one record would: the curvature that it goes
by holds nearby.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.native import kernel

MIN_WEIGHT, MAX_WEIGHT = 1e-6, 100.0
MAX_OF_GRADIENT = 10.0
MAX_STEPS = 8
LARGEST_MOVE = 4.0


@kernel()
def counted(weights, t):
    """The weight of record t within its bounds; 1 where no weights are given."""
    return min(max(weights[t], MIN_WEIGHT), MAX_WEIGHT) if weights.shape[0] > 0 else 1.0


@kernel()
def of_gradient(weight):
    """What a gradient is multiplied by."""
    return min(weight, MAX_OF_GRADIENT)


@kernel()
def scale(gradient, weight):
    """Multiply a gradient by its record's weight."""
    if weight != 1.0:
        for k in range(gradient.shape[0]):
            gradient[k] *= of_gradient(weight)


@kernel()
def n_steps(weight):
    """How many steps in closed form a record is learned by."""
    return min(int(np.ceil(weight)), MAX_STEPS)
