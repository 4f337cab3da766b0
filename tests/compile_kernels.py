"""Compile what the tests will need, once: two test processes that start with an empty cache would both do it."""

from __future__ import annotations

from braided import MODLClassifier, MODLRegressor
from braided.combiners import COMBINERS
from braided.estimators.warm_up import warm_up
from braided.fleet import Fleet
from braided.learners import LEARNERS, LogisticConfig


def main() -> None:
    """Take a model with each learner, and one with each combiner, through all that models do; and teach a fleet."""
    for kind in LEARNERS:
        task = LEARNERS[kind].task
        if task != "regression":
            warm_up(MODLClassifier(learners=(kind(),)))
        if task != "classification":
            warm_up(MODLRegressor(learners=(kind(),)))
    for preset in ("default", "classic"):
        warm_up(MODLClassifier(preset))
        warm_up(MODLRegressor(preset))
    for name, combiner in COMBINERS.items():
        warm_up(MODLClassifier(combiner=name))
        if combiner.for_regression:
            warm_up(MODLRegressor("classic", combiner=name))
    Fleet(MODLClassifier(learners=(LogisticConfig(),)), key="key").learn_one({"key": 1, "feature": 1.0}, 0)


if __name__ == "__main__":
    main()
