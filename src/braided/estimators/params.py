"""What a model is made with: the only list of its parameters, with their types, defaults, checks and JSON."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from braided import checks, presets
from braided.errors import BraidedError
from braided.estimators.arrays import ZEROS, ZEROS_MISSING
from braided.estimators.decision import LIKELIEST, ClassWeight, Costs, packed, unpacked
from braided.learners import LEARNERS, Learner, LearnerConfig
from braided.presets import Preset
from braided.store import (
    MAX_COUNT,
    checked,
    pack_config,
    pack_name,
    reject_malformed,
    unpack_config,
    unpack_names,
)
from braided.values import shown

if TYPE_CHECKING:
    from braided.estimators.drift import Detector
    from braided.estimators.encoder import Encoder

#: What a model may be for.
CLASSIFICATION, REGRESSION = TASKS = ("classification", "regression")
_MAX_WHOLE = 2**63 - 1
#: Targets that are kept until they count as known.
_MAX_DELAY = 1_000_000
_MAX_LEARNERS = 1_000
_WHAT = "the checkpoint's parameters"
_WHOLE = ("seed", "max_features", "max_classes", "delay")
#: What a regressor does not have.
_ABOUT_CLASSES = ("max_classes", "first_features", "decision", "class_weight", "costs")


@dataclass(frozen=True)
class ModelParams:
    """The parameters of a model; `MODLClassifier` says what each means.

    The estimators' constructors repeat the names, because River and scikit-learn read signatures, and a test compares
    each with these fields. Everything else derives from them.

    Examples
    --------
    >>> ModelParams(seed=-1)
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: seed is -1: use a whole number from 0 to 2**63 - 1
    >>> ModelParams.from_json(ModelParams(delay=3).to_json()).delay
    3
    """

    preset: str | Preset = "default"
    learners: Sequence[LearnerConfig | Learner] | None = None
    combiner: str | None = None
    seed: int = 0
    max_features: int = 10_000
    max_classes: int = 1_000
    first_features: tuple[Hashable, ...] | None = None
    drift_detector: Detector | None = None
    delay: int = 0
    expire_after: int | None = None
    encode: bool | Encoder = False
    decision: str = LIKELIEST
    class_weight: ClassWeight = None
    costs: Costs = None
    zeros: str = ZEROS_MISSING

    def __post_init__(self) -> None:
        _check_whole("seed", self.seed, 0, _MAX_WHOLE, "use a whole number from 0 to 2**63 - 1")
        _check_whole("max_features", self.max_features, 0, _MAX_WHOLE, "use a whole number of features")
        _check_whole("max_classes", self.max_classes, 0, _MAX_WHOLE, "use a whole number of classes")
        _check_whole("delay", self.delay, 0, _MAX_DELAY, f"use a whole number of records from 0 to {_MAX_DELAY:,}")
        if self.expire_after is not None:
            remedy = "use a whole number from 1 to 2**53 of records, or None"
            _check_whole("expire_after", self.expire_after, 1, int(MAX_COUNT), remedy)
        checks.choice("zeros", self.zeros, ZEROS)
        if self.learners is not None and not isinstance(self.learners, list | tuple):
            raise BraidedError(f"learners is {shown(self.learners)}: give a list or tuple of learners")
        names = self.first_features or ()
        if not isinstance(names, list | tuple):
            raise BraidedError(f"first_features is {shown(names)}: give a tuple of feature names")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise BraidedError(f"first_features has {twice!r} twice: give each name once")

    @classmethod
    def names(cls, task: str) -> list[str]:
        """The names of those that models for a task have."""
        found = [field.name for field in fields(cls)]
        return [name for name in found if name not in _ABOUT_CLASSES] if task == REGRESSION else found

    @classmethod
    def read_from(cls, estimator: Any) -> ModelParams:
        """Those that an estimator was made with."""
        return cls(**{name: getattr(estimator, name) for name in cls.names(estimator.task)})

    def arguments(self, task: str) -> dict[str, Any]:
        """The arguments for the constructor of an estimator for a task."""
        return {name: getattr(self, name) for name in self.names(task)}

    def resolved(self, task: str) -> Preset:
        """The preset as it is for a task."""
        preset = self.preset if isinstance(self.preset, Preset) else presets.get(self.preset)
        return preset.for_regression() if task == REGRESSION else preset

    def to_json(self) -> dict[str, Any]:
        """All but the encoder, which is saved with what it has learned."""
        preset = self.preset if isinstance(self.preset, Preset) else presets.get(self.preset)
        return {
            # A name says enough where its settings never change.
            "preset": self.preset if self.preset in presets.SETTLED else pack_config(preset),
            "learners": None if self.learners is None else [describe(item) for item in self.learners],
            "combiner": self.combiner,
            **{name: int(getattr(self, name)) for name in _WHOLE},
            "first_features": [pack_name(name) for name in self.first_features or ()],
            "drift_detector": None if self.drift_detector is None else _drift().pack(self.drift_detector.clone()),
            "expire_after": None if self.expire_after is None else int(self.expire_after),
            "decision": self.decision,
            "zeros": self.zeros,
            **packed(self.class_weight, self.costs),
        }

    @classmethod
    def of_metadata(
        cls, metadata: Mapping[str, Any], learners: Sequence[LearnerConfig | Learner] | None = None
    ) -> ModelParams:
        """Those that a checkpoint's metadata names."""
        return cls.from_json(checked("the checkpoint", metadata, "parameters", dict), learners)

    @classmethod
    def from_json(cls, given: Any, learners: Sequence[LearnerConfig | Learner] | None = None) -> ModelParams:
        """The inverse of `to_json`; `learners` are those in Python, which a file cannot hold."""
        if foreign := sorted(given.keys() - {field.name for field in fields(cls)}):
            raise BraidedError(
                f"{_WHAT}: {foreign[0]!r:.60} is not known to this braided: read it with the one that wrote it"
            )
        with reject_malformed(_WHAT):
            detector, combiner = given["drift_detector"], given["combiner"]
            return cls(
                preset=_unpacked_preset(given["preset"]),
                learners=_unpacked_learners(given["learners"], learners),
                combiner=None if combiner is None else checked(_WHAT, given, "combiner", str),
                first_features=tuple(unpack_names("first features", given["first_features"])) or None,
                drift_detector=None if detector is None else _drift().restored_detector(detector),
                expire_after=given["expire_after"],
                zeros=given["zeros"],
                **{name: given[name] for name in _WHOLE},
                **unpacked(given),
            )


def _check_whole(name: str, value: Any, least: int, most: int, remedy: str) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= most:
        raise BraidedError(f"{name} is {shown(value)}: {remedy}")


def describe(learner: LearnerConfig | Learner) -> dict[str, Any]:
    """A learner as a checkpoint notes it: its configuration, or only the type of one in Python."""
    return pack_config(learner) if type(learner) in LEARNERS else {"type": type(learner).__name__}


def _drift() -> Any:
    from braided.estimators import drift  # few models have a detector, and start sooner without

    return drift


def _kinds() -> dict[str, type]:
    """What a checkpoint may name; learners can be registered at any time."""
    return {kind.__name__: kind for kind in [Preset, *LEARNERS]}


def _unpacked_preset(given: Any) -> Preset | str:
    if isinstance(given, str):
        return given
    preset: Preset = unpack_config(given, _kinds(), Preset)
    _check_number([*preset.learners, *preset.numeric])
    return preset


def _unpacked_learners(stored: Any, learners: Sequence[LearnerConfig | Learner] | None) -> Any:
    types = [item["type"] for item in stored or ()]
    if learners is not None:
        if [describe(item) for item in learners] != (stored or []):
            known = ", ".join(map(str, types)) or "those of its preset"
            raise BraidedError(f"the checkpoint was made with other learners ({known}): pass the same ones")
        return learners
    if stored is None:
        return None
    if foreign := [name for name in types if name not in _kinds()]:
        raise BraidedError(
            f"the checkpoint holds learners of your own ({', '.join(map(str, foreign))}): pass load(..., "
            "learners=[...]) with the same ones"
        )
    _check_number(stored)
    return tuple(unpack_config(item, _kinds(), LearnerConfig) for item in stored)


def _check_number(learners: Sequence[Any]) -> None:
    if len(learners) > _MAX_LEARNERS:
        raise BraidedError(f"{_WHAT}: there are {len(learners)} learners, and at most {_MAX_LEARNERS:,} are taken")
