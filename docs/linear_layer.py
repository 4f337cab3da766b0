"""A linear layer trained by gradient: the compiled learner that docs/learner.md goes through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braided import checks
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.learners.base import ArrayPlan, CompiledLearner, LearnerConfig


@dataclass(frozen=True)
class LinearLayerConfig(LearnerConfig):
    """Settings of a linear layer.

    Attributes
    ----------
    learning_rate
        eta.
    """

    learning_rate: float = 0.02

    def __post_init__(self) -> None:
        checks.above(self, 0.0, "learning_rate")


# Places in `shape`: outputs in use, row length of the weights, where weights and biases start in `single`.
_OUTPUTS, _ROW, _WEIGHTS, _BIAS = range(4)
# Place in `hyper`. The first is the one that a drift detector raises.
_RATE = 0


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    for k in range(shape[_OUTPUTS]):
        weights = single[shape[_WEIGHTS] + k * shape[_ROW] :]
        total = single[shape[_BIAS] + k]
        for slot in active:
            total += weights[slot] * x[slot]
        scores[k] = total


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index):
    for k in range(shape[_OUTPUTS]):
        if not np.isfinite(gradient[k]):
            return False
    for k in range(shape[_OUTPUTS]):
        weights = single[shape[_WEIGHTS] + k * shape[_ROW] :]
        change = np.float32(hyper[_RATE]) * gradient[k]
        single[shape[_BIAS] + k] -= change
        for slot in active:
            weights[slot] -= change * x[slot]
    return True


class LinearLayer(CompiledLearner):
    """One step of gradient descent per record, on a bias and one weight per feature for each output.

    With A the available features and g = dL/df from the combiner,

        f_k = b_k + sum over A of W_kj x_j,   b_k -= eta g_k,   W_kj -= eta g_k x_j for j in A

    Examples
    --------
    >>> learner = LinearLayer(LinearLayerConfig(learning_rate=0.5))
    >>> learner.grow(2, 2)
    >>> x, mask = np.array([3.0, 0.0], dtype=np.float32), np.array([True, False])
    >>> learner.learn(x, mask, 1, np.array([0.5, -0.5], dtype=np.float32))
    True
    >>> learner.scores(x, mask)
    array([-2.5,  2.5], dtype=float32)
    """

    name = "layer"
    config: LinearLayerConfig
    forward = _forward
    update = _learn

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Weights and biases, which start at zero."""
        return {"weights": ArrayPlan((n_outputs, n_features)), "bias": ArrayPlan((n_outputs,))}

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """In the order of the places above. Rows are as long as there is room for features, not as are in use."""
        row = self.views["weights"].shape[1]
        return [self.n_outputs, row, offsets["weights"], offsets["bias"]]

    def hyper_numbers(self) -> list[float]:
        """The rate."""
        return [self.config.learning_rate]

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """No scratch is needed."""
        return 0, 0, 0
