"""What a fleet will call beside its models, compiled or loaded before it takes records."""

from __future__ import annotations

from typing import Any

from braided.estimators import MODLClassifier
from braided.fleet.fleet import Fleet


def warm_up_fleet(fleet: Fleet) -> None:
    """Take a twin of the fleet through all that one does; `estimators.warm_up` does the same for its models."""
    twin = fleet.clone()
    labels: list[Any] = ["a", "b", "c"]
    labels = labels[: fleet.model.class_limit] if isinstance(fleet.model, MODLClassifier) else [1.0, 2.0, 3.0]
    for row, label in enumerate(labels):
        twin.predict_learn_many([[float(row)]], [label], ["feature"], keys=["key"])
    twin.progress_many([[1.0]], ["feature"], keys=["key"])
