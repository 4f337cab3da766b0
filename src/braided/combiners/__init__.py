"""Ways to join the learners' scores, each registered here under its name."""

from __future__ import annotations

from braided import checks
from braided.combiners.aggregate import Aggregate
from braided.combiners.base import Combiner
from braided.combiners.greedy import Greedy
from braided.combiners.kalman import KalmanTanh, KalmanWeights
from braided.combiners.moe import MixtureOfExperts
from braided.combiners.paper import Ensemble, Multiplication, ScoreSum
from braided.errors import BraidedError

#: Name -> combiner class. Adding a combiner is its file and one line here.
COMBINERS: dict[str, type[Combiner]] = {
    ScoreSum.name: ScoreSum,
    Multiplication.name: Multiplication,
    Ensemble.name: Ensemble,
    MixtureOfExperts.name: MixtureOfExperts,
    Greedy.name: Greedy,
    KalmanWeights.name: KalmanWeights,
    KalmanTanh.name: KalmanTanh,
    Aggregate.name: Aggregate,
}


def build(name: str, regression: bool, seed: int) -> Combiner:
    """The combiner of that name.

    >>> build("score-sum", regression=False, seed=0).name
    'score-sum'
    """
    checks.choice("combiner", name, COMBINERS)
    if regression and not COMBINERS[name].for_regression:
        others = " or ".join(repr(other) for other, kind in COMBINERS.items() if kind.for_regression)
        raise BraidedError(f"combiner {name!r} mixes class probabilities: for regression use {others}")
    return COMBINERS[name](regression, seed)


__all__ = [
    "COMBINERS",
    "Aggregate",
    "Combiner",
    "Ensemble",
    "Greedy",
    "KalmanTanh",
    "KalmanWeights",
    "MixtureOfExperts",
    "Multiplication",
    "ScoreSum",
    "build",
]
