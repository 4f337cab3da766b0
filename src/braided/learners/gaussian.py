"""The common part of the closed-form learners: a Gaussian posterior N(m, P) over linear weights that can grow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.errors import BraidedError
from braided.kernels.inputs import FILLED, PLAIN, SCALED, SCORES
from braided.kernels.posterior import SMALLEST_VARIANCE
from braided.learners.base import ArrayPlan, CompiledLearner, LearnerConfig

#: How a configuration calls what a learner sees -> the plane of x.
PLANES = {"plain": PLAIN, "filled": FILLED, "scaled": SCALED, "scores": SCORES}

#: A variance is never 0: a little less than `kernels.posterior` makes of one.
_MIN_VARIANCE = 0.9 * SMALLEST_VARIANCE


@dataclass(frozen=True)
class GaussianConfig(LearnerConfig):
    """Settings that the closed-form learners share.

    Attributes
    ----------
    prior_variance
        P0 = prior_variance times the identity.
    mask_inputs
        Whether u holds the availability of each feature beside its value.
    full_covariance_up_to
        With more inputs than this (bias and masks counted), P is a diagonal. Full: O(d^2) per record; diagonal: O(d).
    forgetting
        phi: after each record every variance moves back to P0 by this share, P_ii += phi (P0 - P_ii), so that a weight
        can follow a drifting stream; 0 means nothing is ever forgotten.
    inputs
        `plain`: the values that are there. `filled`: those of all known features, missing ones filled in from the
        others (`kernels/inputs.py`), for standardised values.
    """

    prior_variance: float = 1.0
    mask_inputs: bool = False
    full_covariance_up_to: int = 512
    forgetting: float = 0.0
    inputs: str = "plain"

    def __post_init__(self) -> None:
        checks.one_of(self, "inputs", self._planes())
        checks.above(self, 0.0, "prior_variance")
        checks.sizes(self, 0, "full_covariance_up_to")
        checks.share(self, "forgetting")
        if self.mask_inputs and self.inputs != "plain":
            raise BraidedError(f"inputs is {self.inputs!r} and mask_inputs is True: choose one of them")

    @classmethod
    def _planes(cls) -> tuple[str, ...]:
        """What `inputs` may be."""
        return ("plain", "filled")


class GaussianLearner(CompiledLearner):
    """Arrays `mean`, (rows, inputs), float64, and `covariance`, (inputs, inputs) or (inputs,)."""

    config: GaussianConfig
    #: Whether the covariance is of float64.
    double_covariance = True

    def __init__(self, config: GaussianConfig, seed: int = 0, place: int = 0) -> None:
        self.full = True
        super().__init__(config, seed, place)

    def n_inputs(self, n_features: int) -> int:
        """Length of u: the bias, and one or two inputs per feature."""
        return 1 + n_features * (2 if self.config.mask_inputs else 1)

    def rows(self, n_outputs: int) -> int:
        """How many mean vectors there are: two classes need only the one of their difference."""
        return 1 if n_outputs <= 2 else n_outputs

    def variance_at_start(self) -> float:
        """The prior variance of one weight.

        With K > 2 classes each class has its own vector of variance P0 / 2, so that the difference of two
        classes has the variance P0 that it has with two classes.
        """
        return self.config.prior_variance / (1.0 if self.rows(self.n_outputs) == 1 else 2.0)

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Mean vectors and the covariance they share."""
        n = self.n_inputs(n_features)
        return {
            "mean": ArrayPlan((self.rows(n_outputs), n), double=True, finite=True),
            "covariance": ArrayPlan(
                (n, n) if self.full else (n,), double=self.double_covariance, variance=_MIN_VARIANCE
            ),
        }

    def numbers(self, n_features: int, n_outputs: int) -> int:
        """How many numbers the arrays hold for these sizes, with a diagonal covariance where there are many inputs."""
        full, self.full = self.full, self.full and self.n_inputs(n_features) <= self.config.full_covariance_up_to
        try:
            return super().numbers(n_features, n_outputs)
        finally:
            self.full = full

    def initialise(self, name: str, view: NDArray[Any], old: tuple[int, ...], bound: float) -> None:
        """Zero means; independent new weights of the prior variance."""
        super().initialise(name, view, old, bound)
        if name == "covariance":
            fresh = np.arange(old[0], view.shape[0])
            view[(fresh, fresh) if view.ndim == 2 else fresh] = self.variance_at_start()

    def grow(self, n_features: int, n_outputs: int) -> None:
        """Grow, going over to a diagonal covariance or from one mean vector to several where the sizes ask for it."""
        if self.full and self.n_inputs(n_features) > self.config.full_covariance_up_to:
            variances = np.diagonal(self.views["covariance"]).copy()
            self.full = False
            del self.views["covariance"]
            self._allocate(*self._capacities)
            self.views["covariance"][:] = variances
        splits = self.n_outputs == 2 and n_outputs > 2
        if splits:
            self.views["covariance"][self._in_use()["covariance"]] /= 2.0
            difference = self.views["mean"][0].copy()
        super().grow(n_features, n_outputs)
        if splits:
            self.views["mean"][0, : difference.size] = -difference / 2.0
            self.views["mean"][1, : difference.size] = difference / 2.0

    def plastic_numbers(self) -> list[float]:
        """There is no rate: plasticity is in the covariance."""
        return self.hyper_numbers()

    def raise_plasticity(self, factor: float, fresh: bool) -> None:
        """Where a drift was found just now, P <- P0 I; the mean stays, and moves as fast as at the start."""
        if fresh:
            self.initialise("covariance", self.views["covariance"][self._in_use()["covariance"]], (0, 0), 0.0)

    def hyper_numbers(self) -> list[float]:
        """`FORGETTING` and `PRIOR` of `kernels.posterior`, in order."""
        return [self.config.forgetting, self.variance_at_start()]

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """The places of `kernels.posterior`, in order."""
        stride = self.n_inputs(self._capacities[0])
        return [
            self.n_outputs,
            int(self.config.mask_inputs),
            int(self.full),
            stride,
            self.n_inputs(self.n_features),
            offsets["mean"],
            offsets["covariance"],
            self.n_features,
            PLANES[self.config.inputs],
        ]

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """u and P u, then two numbers per class; the places of u."""
        n = self.n_inputs(n_features)
        return 0, 2 * n + 2 * n_outputs, n
