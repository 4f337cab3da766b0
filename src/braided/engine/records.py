"""Records on their way through the braid: as they are given, as they are scored, and what else is known of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.kernels.doubt import DOUBTS

Floats = NDArray[np.float64]


class ScoredRecord(NamedTuple):
    """One record as the learners and the combiner see it.

    Attributes
    ----------
    x, mask
        The values in the units that learners see, once or with an input stage several times (`kernels.inputs`), and
        then the target's past in units of itself, or what late labels need; and which features are there,
        (n_features,).
    scores, usable
        (n_learners, n_outputs), zero where they are not finite, and (n_learners,): whose are.
    own
        (n_learners, n_outputs): the scores in each learner's own units; others than `scores` where a regression follows
        the target's changes, whose `scores` are distances from the last target in usual changes.
    prediction
        (n_outputs,): what the combiner made of them; a regression's in units of the target, or such a distance.
    """

    x: NDArray[np.float32]
    mask: NDArray[np.bool_]
    scores: NDArray[np.float32]
    usable: NDArray[np.bool_]
    own: NDArray[np.float32]
    prediction: Floats


class RecordPart(NamedTuple):
    """Records that are run in one go, and where what is said of them goes; the fields are those of `Braid.run`."""

    values: Floats
    columns: NDArray[np.int64]
    slots: NDArray[np.int64]
    targets: Floats
    weights: Floats
    predictions: Floats
    own: Floats
    doubts: Floats

    def between(self, first: int, last: int) -> RecordPart:
        """Some of the records."""
        values, columns, slots, targets, weights, predictions, own, doubts = self
        return RecordPart(
            values[first:last], columns, slots, targets[first:last], weights[first:last], predictions[first:],
            own[first:], doubts[first:],
        )  # fmt: skip


class Aside:
    """What else is to be known of records that are run; `Braid.run` fills it.

    Attributes
    ----------
    doubts
        (n, 3): what the closed-form learner of numbers doubts of each record (`kernels.doubt`); 0 without one.
    as_known
        (n, n_outputs): the predictions of records that are learned, by the labels that had come when each was
        predicted; others than the predictions where labels come late.
    """

    def __init__(self, n: int) -> None:
        self.doubts = np.zeros((n, DOUBTS))
        self.as_known = np.zeros((0, 0))
