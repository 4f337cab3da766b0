"""Everything that a model will call, compiled or loaded before it is timed or takes traffic."""

from __future__ import annotations

from typing import Any

from braided.estimators.base import MODL
from braided.estimators.params import CLASSIFICATION
from braided.kernels import loop

#: Growing past two powers of two takes an array through every layout in which the kernels see it.
_FEATURES, _CLASSES = 9, 5


def warm_up(model: Any) -> None:
    """Take a twin of the model through all that one does; the model itself is not touched.

    That is predicting and learning, one record and several, growth by features and by classes, a feature that gives up
    its place, and the reset of a learner that has failed. A model of River's has nothing to compile.
    """
    if not isinstance(model, MODL):
        return
    classes = model.task == CLASSIFICATION
    # The twin's own features must not count against the model's limits.
    room: dict[str, Any] = {"max_features": _FEATURES}
    if classes:
        room |= {"max_classes": _CLASSES, "first_features": None}
    if model.expire_after is not None:
        room["expire_after"] = 1
    twin: Any = model.clone(room)
    for width in range(1, _FEATURES + 1):
        names = [f"feature {i}" for i in range(width)]
        label = width % min(_CLASSES, twin.core.classes.limit) if classes else 1.0
        rows = [[0.5 * width] * width, [float(width)] * width]
        twin.predict_learn_many(rows, [label, label], names)
        twin.learn_one(dict(zip(names, rows[0], strict=True)), label)
        twin.predict_one({names[0]: 1.0})
        twin.predict_many(rows, names)
        if classes:
            twin.predict_set_many(rows, 0.5, names)
        else:
            twin.predict_interval_many(rows, 0.5, names)
    if model.expire_after is not None:
        twin.learn_one({"one more": 1.0}, label)
    twin.braid.health[:, loop.IN_A_ROW] = loop.PATIENCE
    twin.predict_learn_many([[1.0]], [label], names[:1])
