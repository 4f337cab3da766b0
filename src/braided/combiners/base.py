"""What a combiner is: the scores of all learners in, a prediction and one gradient per learner out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from braided.kernels.calls import Entry, call_combine, call_gradients, table_row
from braided.store import Array, check

Arrays = dict[str, NDArray[Any]]
#: The first place in every combiner's `shape`: whether targets are numbers.
REGRESSION = 0


class Combiner:
    """Two compiled entry points over flat buffers; a combiner without weights only names its kernels.

    The prediction is the class probabilities, (n_outputs,), or for regression the value in units of the target's
    running statistics, (1,); where a learner follows the target's changes, its distance from the last target in usual
    changes. The gradients are dL/dscores, (n_learners, n_outputs). They do not depend on a record's weight, by which
    the record loop multiplies them (`kernels.record_weight`); what a combiner learns itself does, as its docstring
    says.
    """

    name: ClassVar[str]
    #: Whether it can join numeric predictions, too.
    for_regression: ClassVar[bool] = False
    combine_kernel: ClassVar[Entry]
    gradients_kernel: ClassVar[Entry]

    def __init__(self, regression: bool, seed: int = 0) -> None:
        self.regression = regression
        self.seed = seed
        self.shape = np.array([int(regression)], dtype=np.int64)
        self.hyper = np.zeros(1, dtype=np.float64)
        self.single = np.zeros(1, dtype=np.float32)
        self.double = np.zeros(1, dtype=np.float64)
        self.work = np.zeros(1, dtype=np.float32)
        #: Of numbers, what the record loop keeps above the combiner (`kernels.aggregation`); nothing for most.
        self.experts = np.zeros(0)

    def grow(self, n_features: int, n_outputs: int, n_learners: int) -> None:
        """Make room. A combiner without weights needs none."""

    def forget_features(self, slots: NDArray[np.int64]) -> None:
        """Make some features as new. A combiner that does not look at the record has nothing to do."""

    def raise_plasticity(self, factor: float, fresh: bool) -> None:
        """Follow a stream that has changed, as of `CompiledLearner`. A combiner without weights has nothing to do."""

    def state(self) -> Arrays:
        """All that was learned, as named arrays."""
        return {}

    def schema(self) -> dict[str, Array]:
        """What the arrays of a `state` of these sizes must be."""
        return {}

    def take_over(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state` that fits the schema."""

    def check_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse what is not a `state` of these sizes; nothing changes."""
        check(f"state of combiner {self.name!r}", self.schema(), arrays)

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state` of the same sizes."""
        self.check_state(arrays)
        self.take_over(arrays)

    def table_row(self) -> NDArray[np.int64]:
        """What the record loop needs to call this combiner."""
        arrays: list[NDArray[Any]] = [self.shape, self.hyper, self.single, self.double, self.work]
        return table_row(self.combine_kernel, self.gradients_kernel, arrays)

    def combine(
        self,
        x: NDArray[np.float32],
        mask: NDArray[np.bool_],
        scores: NDArray[np.float32],
        usable: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """The prediction from all usable learners' scores, (n_learners, n_outputs); those of the others are zero."""
        prediction = np.zeros(scores.shape[1], dtype=np.float64)
        call_combine(self.table_row(), x, np.flatnonzero(mask), scores, _flags(usable, scores), prediction)
        return prediction

    def terms(
        self, x: NDArray[np.float32], mask: NDArray[np.bool_], scores: NDArray[np.float32], usable: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """What each learner adds to the final score, (n_learners, n_outputs): the final score is their plain sum.

        Here the scores themselves; a combiner that weights them, or adds up distributions, says so in its own.
        """
        return np.where(usable[:, None], scores, np.float32(0)).astype(np.float64)

    def gradients(
        self,
        x: NDArray[np.float32],
        mask: NDArray[np.bool_],
        scores: NDArray[np.float32],
        y: float,
        prediction: NDArray[np.float64],
        usable: NDArray[np.bool_] | None = None,
        weight: float = 1.0,
    ) -> NDArray[np.float32]:
        """One gradient per learner; a combiner with weights learns here, as the record's weight says."""
        gradients = np.zeros_like(scores)
        flags = _flags(usable, scores)
        active = np.flatnonzero(mask)
        call_gradients(self.table_row(), x, active, scores, flags, float(y), weight, prediction, gradients)
        return gradients


def _flags(usable: NDArray[np.bool_] | None, scores: NDArray[np.float32]) -> NDArray[np.bool_]:
    return np.ones(len(scores), dtype=np.bool_) if usable is None else usable


def distributions(scores: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """g_i softmax(f_i) for each learner, with weights g made to sum to 1: the terms of a mixture."""
    powers = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    shares = weights / (weights.sum() or 1.0)
    return np.asarray(shares[:, None] * powers / powers.sum(axis=1, keepdims=True))
