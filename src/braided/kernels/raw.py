"""How a learner of raw values exchanges them with the record loop: through the start of its `work64`.

Other learners see float32 numbers in running units, which move with each record. A learner that keeps its own units
needs the values in float64. `work64` starts with three numbers, followed by the values: one per feature where missing
values are filled in (`kernels.inputs`), otherwise one per available feature, in order.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.calls import WORK64, doubles
from braided.kernels.inputs import FILLED, has_planes
from braided.kernels.native import kernel
from braided.kernels.scale import COUNT, LARGEST, MEAN, SQUARES, clipped, is_doubtful

#: Whether values follow, whether at least half of them are outliers, and the learner's prediction in units of the
#: target.
PLACED, DOUBTFUL, ANSWER, VALUES_AT = range(4)


@kernel()
def place(row, values, columns, statistics, x, active):
    """Write a record's values for the learner of this row of the table."""
    work, n = doubles(row, WORK64), statistics.shape[0]
    work[PLACED] = 1.0
    work[DOUBTFUL] = is_doubtful(values, columns, statistics, active)
    if has_planes(x, n):
        at = 0
        for slot in range(n):
            if at < active.shape[0] and active[at] == slot:
                work[VALUES_AT + slot] = clipped(values[columns[slot]], LARGEST)
                at += 1
            else:
                count = statistics[slot, COUNT]
                deviation = np.sqrt(statistics[slot, SQUARES] / count) if count > 0 else 0.0
                work[VALUES_AT + slot] = statistics[slot, MEAN] + deviation * x[FILLED * n + slot]
    else:
        for k in range(active.shape[0]):
            work[VALUES_AT + k] = clipped(values[columns[active[k]]], LARGEST)


@kernel()
def answer_of(row):
    """The prediction of the learner of this row."""
    return doubles(row, WORK64)[ANSWER]
