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

_MAX_LEARNERS = 1_000


def build(task: str, params: ModelParams, classes: ClassSpace) -> Braid:
    """The engine; a learner that takes few classes restricts `classes`."""
    preset, seed = params.resolved(task), int(params.seed)
    chosen = preset.learners if params.learners is None else params.learners
    if not 1 <= len(chosen) <= _MAX_LEARNERS:
        raise BraidedError(f"learners has {len(chosen)} items: give 1 to {_MAX_LEARNERS:,}, or None for the preset's")
    built = [_learner(item, place, task, params) for place, item in enumerate(chosen)]
    for learner in built:
        most = getattr(learner, "max_classes", classes.limit)
        if most < classes.limit:
            classes.limit = most
            classes.reason = f"{name_of(learner)} takes {most} classes only: use another model"
    combiner = combiners.build(params.combiner or preset.combiner, task == REGRESSION, seed)
    if isinstance(combiner, combiners.KalmanWeights):
        combiner.first_weights = (preset.first_weights or None) if params.learners is None else None
    elif len(built) > 1 and any(map(_learns_changes, built)):
        raise BraidedError(
            f"combiner {combiner.name!r} adds up what learners say, and one learns changes: use 'aggregate', 'kalman' "
            "or 'kalman-tanh'"
        )
    return Braid(built, combiner, preset.standardise, task == REGRESSION, int(params.delay))


def _learner(item: Any, place: int, task: str, params: ModelParams) -> Learner:
    """A learner of its configuration, or a copy of one; it must go with the task and the parameters."""
    if type(item) in LEARNERS:
        learner: Learner = learners.build(item, int(params.seed), place)
    elif isinstance(item, Learner):
        check_methods(item)
        learner = copy.deepcopy(item)
    else:
        raise BraidedError(
            f"learners[{place}] is {shown(item)}: give a learner configuration, or an object with the methods of "
            "braided.learners.Learner"
        )
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
    return learner


def _learns_changes(learner: Learner) -> bool:
    return bool(getattr(getattr(learner, "config", None), "change", False))
