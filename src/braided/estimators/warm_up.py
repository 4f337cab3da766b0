"""Everything that a model will call, compiled or loaded before it is timed or served."""

from __future__ import annotations

from typing import Any

from braided.estimators.base import MODL


def warm_up(model: Any) -> None:
    """Compile, or load, the code that a model of this kind needs, so that its first records are not timed with it."""
    if isinstance(model, MODL):
        # The trial's own feature and classes must not count against the model's limits.
        room = {"max_features": model.max_features + 1}
        if model.task == "classification":
            room["max_classes"] = max(model.max_classes, 2)
        trial = model.clone(room)
        for label in (0, 1):
            trial.predict_learn_many([[0.5], [1.0]], [label, label])
