"""From settings to an engine: the learners and the combiner of a model, each checked."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braided import combiners, learners
from braided.engine import Braid
from braided.errors import BraidedError
from braided.estimators.features import ClassSpace
from braided.estimators.tasks import REGRESSION
from braided.learners import LEARNERS, Learner, LearnerConfig
from braided.learners.protocol import check_methods, name_of
from braided.presets import Preset
from braided.state import MOST_COUNT
from braided.values import shown

#: So many targets at most are kept until they count as known.
_MOST_DELAY = 1_000_000


@dataclass(frozen=True)
class BraidSettings:
    """What an engine is made of; the fields are the parameters of `MODLClassifier`, unchecked.

    Attributes
    ----------
    task
        `classification` or `regression`.
    preset
        The preset object.
    learners, combiner
        In place of the preset's; None for those.
    seed, delay, expire_after
        As of the model.
    """

    task: str
    preset: Preset
    learners: Sequence[LearnerConfig | Learner] | None
    combiner: str | None
    seed: Any
    delay: Any
    expire_after: Any


def build(settings: BraidSettings, classes: ClassSpace) -> Braid:
    """The engine; a learner that takes few classes restricts `classes`."""
    _check_numbers(settings)
    regression = settings.task == REGRESSION
    preset = settings.preset.for_regression() if regression else settings.preset
    built = [_learner(item, place, int(settings.seed)) for place, item in enumerate(_chosen(settings, preset))]
    for learner in built:
        _check_learner(learner, settings)
        name, most = name_of(learner), getattr(learner, "max_classes", classes.limit)
        if most < classes.limit:
            classes.restrict(most, f"{name} takes {most} classes only: use another model")
    combiner = combiners.build(settings.combiner or preset.combiner, regression, int(settings.seed))
    if isinstance(combiner, combiners.KalmanWeights):
        combiner.first_weights = (preset.first_weights or None) if settings.learners is None else None
    elif len(built) > 1 and any(_learns_changes(learner) for learner in built):
        raise BraidedError(
            f"combiner {combiner.name!r} adds up what learners say, and one learns changes: use 'kalman' or "
            "'kalman-tanh'"
        )
    return Braid(built, combiner, preset.standardise, regression, int(settings.delay))


def _check_numbers(settings: BraidSettings) -> None:
    seed, delay, expire_after = settings.seed, settings.delay, settings.expire_after
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise BraidedError(f"seed is {shown(seed)}: use a whole number from 0 to 2**63 - 1")
    if not isinstance(delay, int | np.integer) or not 0 <= delay <= _MOST_DELAY:
        raise BraidedError(f"delay is {shown(delay)}: use a whole number of records from 0 to {_MOST_DELAY:,}")
    if expire_after is not None and (
        not isinstance(expire_after, int | np.integer) or not 1 <= expire_after <= MOST_COUNT
    ):
        raise BraidedError(
            f"expire_after is {shown(expire_after)}: use a whole number from 1 to 2**53 of records, or None"
        )


def _chosen(settings: BraidSettings, preset: Preset) -> Sequence[LearnerConfig | Learner]:
    if settings.learners is not None and not isinstance(settings.learners, list | tuple):
        raise BraidedError(f"learners is {shown(settings.learners)}: give a list or tuple of learners")
    chosen = preset.learners if settings.learners is None else settings.learners
    if not chosen:
        raise BraidedError("learners is empty: give at least one learner configuration, or None for the preset's")
    return chosen


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


def _check_learner(learner: Learner, settings: BraidSettings) -> None:
    name, only = name_of(learner), getattr(learner, "task", None) or settings.task
    if only != settings.task:
        raise BraidedError(f"learner {name!r} is for {only}, not for {settings.task}: leave it out")
    if settings.task != REGRESSION and _learns_changes(learner):
        raise BraidedError(f"learner {name!r} learns the change of a number: for classes leave out change=True")
    if settings.expire_after is not None and not hasattr(learner, "forget_features"):
        raise BraidedError(
            f"expire_after is {settings.expire_after}, and learner {name!r} has no method forget_features: leave out "
            "one of them"
        )


def _learns_changes(learner: Learner) -> bool:
    return bool(getattr(getattr(learner, "config", None), "change", False))
