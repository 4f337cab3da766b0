"""Everything that a model will call, compiled or loaded before it takes traffic: a prediction never waits for that."""

from __future__ import annotations

from typing import Any

from braided.model import MODLClassifier
from braided.serve.model_state import Model

#: Growing past two powers of two takes an array through every layout in which the kernels see it.
_FEATURES, _CLASSES = 9, 5


def warm_up(model: Model) -> None:
    """Take a twin of the model through all that a served one does; the model itself is not touched.

    That is predicting and learning, one record and several, growth by features and by classes, and the reset of a
    learner that has failed.
    """
    # The twin's own features must not count against the model's limits.
    room: dict[str, Any] = {"max_features": _FEATURES}
    if isinstance(model, MODLClassifier):
        room |= {"max_classes": _CLASSES, "first_features": None}
    twin = model.clone(room)
    for width in range(1, _FEATURES + 1):
        names = [f"feature {i}" for i in range(width)]
        label = 1.0 if not isinstance(twin, MODLClassifier) else width % min(_CLASSES, twin.class_limit)
        rows = [[0.5 * width] * width, [float(width)] * width]
        twin.predict_learn_many(rows, [label, label], names)
        twin.learn_one(dict(zip(names, rows[0], strict=True)), label)
        twin.predict_one({names[0]: 1.0})
        twin.predict_many(rows, names)
    for learner in twin.braid.learners:
        learner.reset()
