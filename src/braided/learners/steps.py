"""How gradient learners step: one dataclass of settings, and the numbers their kernels read from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from braided import checks
from braided.kernels.native import kernel
from braided.learners.base import RATE, LearnerConfig

# Places in `hyper` of a learner that steps along its gradient, after `RATE`; a learner with more numbers has its own
# from `STEP_PLACES` on.
DECAY, SHARE, EPSILON, STEP_PLACES = range(RATE + 1, RATE + 5)


@kernel()
def step_size_of(hyper, single):
    """rate, decay, share and epsilon in the weights' own type, as `kernels.dense` takes them."""
    kind = single.dtype.type
    return kind(hyper[RATE]), kind(hyper[DECAY]), kind(hyper[SHARE]), kind(hyper[EPSILON])


@dataclass(frozen=True)
class StepConfig(LearnerConfig):
    """Settings of the gradient step of one weight w with gradient g.

    The gradient of a record of weight c is c g, c within 1e-6 and 10.

    Attributes
    ----------
    learning_rate
        The rate in the formulas below.
    optimiser
        `sgd`: w -= rate g. `rmsprop`: v = decay v + (1 - decay) g^2, w -= rate g / (sqrt(v) + epsilon).
        `adagrad`: v += g^2, w -= rate g / (sqrt(v) + epsilon). A weight whose input is zero keeps its v.
    decay
        For `rmsprop` alone.
    epsilon
        For the adaptive two.
    """

    learning_rate: float = 0.01
    optimiser: Literal["sgd", "rmsprop", "adagrad"] = "sgd"
    decay: float = 0.999
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        checks.one_of(self, "optimiser", ("sgd", "rmsprop", "adagrad"))
        checks.at_least(self, 0.0, "learning_rate")
        checks.share(self, "decay")
        checks.above(self, 0.0, "epsilon")

    def step_numbers(self) -> list[float]:
        """`RATE`, `DECAY`, `SHARE` and `EPSILON`, in order, as `kernels.dense` reads them."""
        if self.optimiser == "sgd":
            return [self.learning_rate, 0.0, 0.0, 0.0]
        if self.optimiser == "rmsprop":
            return [self.learning_rate, self.decay, 1.0 - self.decay, self.epsilon]
        return [self.learning_rate, 1.0, 1.0, self.epsilon]
