"""From parameters to an engine: the learners and the combiner of a model, each checked."""

from __future__ import annotations

import copy
from typing import Any

from braided import combiners, learners
from braided.engine import Braid
from braided.errors import BraidedError
from braided.estimators.names import ClassSpace
from braided.estimators.params import REGRESSION, ModelParams
from braided.learners import LEARNERS, Learner
from braided.learners.protocol import check_methods, name_of
from braided.values import shown


def build(task: str, params: ModelParams, classes: ClassSpace) -> Braid:
    """The engine; a learner that takes few classes restricts `classes`."""
    preset, seed = params.resolved(task), int(params.seed)
    chosen = preset.learners if params.learners is None else params.learners
    if not chosen:
        raise BraidedError("learners is empty: give at least one learner configuration, or None for the preset's")
    built = [_learner(item, place, seed) for place, item in enumerate(chosen)]
    for learner in built:
        _check_learner(learner, task, params)
        name, most = name_of(learner), getattr(learner, "max_classes", classes.limit)
        if most < classes.limit:
            classes.limit, classes.reason = most, f"{name} takes {most} classes only: use another model"
    combiner = combiners.build(params.combiner or preset.combiner, task == REGRESSION, seed)
    if isinstance(combiner, combiners.KalmanWeights):
        combiner.first_weights = (preset.first_weights or None) if params.learners is None else None
    elif len(built) > 1 and any(_learns_changes(learner) for learner in built):
        raise BraidedError(
            f"combiner {combiner.name!r} adds up what learners say, and one learns changes: use 'kalman' or "
            "'kalman-tanh'"
        )
    return Braid(built, combiner, preset.standardise, task == REGRESSION, int(params.delay))


def _learner(item: Any, place: int, seed: int) -> Learner:
    if type(item) in LEARNERS:
        return learners.build(item, seed, place)
    if isinstance(item, Learner):
        check_methods(item)
        return copy.deepcopy(item)
    raise BraidedError(
        f"learners[{place}] is {shown(item)}: give a learner configuration, or an object with the methods of "
        "braided.learners.Learner"
    )


def _check_learner(learner: Learner, task: str, params: ModelParams) -> None:
    name, only = name_of(learner), getattr(learner, "task", None) or task
    if only != task:
        raise BraidedError(f"learner {name!r} is for {only}, not for {task}: leave it out")
    if task != REGRESSION and _learns_changes(learner):
        raise BraidedError(f"learner {name!r} learns the change of a number: for classes leave out change=True")
    if params.expire_after is not None and not hasattr(learner, "forget_features"):
        raise BraidedError(
            f"expire_after is {params.expire_after}, and learner {name!r} has no method forget_features: leave out "
            "one of them"
        )


def _learns_changes(learner: Learner) -> bool:
    return bool(getattr(getattr(learner, "config", None), "change", False))
