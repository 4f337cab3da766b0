"""What a model is made with: the only list of its parameters, with their types, defaults, checks and JSON."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from braided import checks, presets
from braided.errors import BraidedError
from braided.estimators import drift
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
    from braided.estimators.encoder import Encoder

#: What a model may be for.
CLASSIFICATION, REGRESSION = TASKS = ("classification", "regression")
#: Targets that are kept until they count as known.
_MAX_DELAY = 1_000_000
_WHAT = "the checkpoint's parameters"
#: Whole numbers: from, to, and what to do about others.
_WHOLE = {
    "seed": (0, 2**63 - 1, "use a whole number from 0 to 2**63 - 1"),
    "max_features": (0, 2**63 - 1, "use a whole number of features"),
    "max_classes": (0, 2**63 - 1, "use a whole number of classes"),
    "delay": (0, _MAX_DELAY, f"use a whole number of records from 0 to {_MAX_DELAY:,}"),
    "expire_after": (1, int(MAX_COUNT), "use a whole number from 1 to 2**53 of records, or None"),
}
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
    >>> ModelParams.of_metadata({"parameters": ModelParams(delay=3).to_json()}).delay
    3
    """

    preset: str | Preset = "default"
    learners: Sequence[LearnerConfig | Learner] | None = None
    combiner: str | None = None
    seed: int = 0
    max_features: int = 10_000
    max_classes: int = 1_000
    first_features: tuple[Hashable, ...] | None = None
    drift_detector: drift.Detector | None = None
    delay: int = 0
    expire_after: int | None = None
    encode: bool | Encoder = False
    decision: str = LIKELIEST
    class_weight: ClassWeight = None
    costs: Costs = None
    zeros: str = ZEROS_MISSING

    def __post_init__(self) -> None:
        for name, (least, most, remedy) in _WHOLE.items():
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= value <= most
            if not whole and not (name == "expire_after" and value is None):
                raise BraidedError(f"{name} is {shown(value)}: {remedy}")
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
        given = {name: getattr(self, name) for name in _STORED}
        return given | {
            # A name says enough where its settings never change.
            "preset": self.preset if self.preset in presets.SETTLED else pack_config(self.resolved(CLASSIFICATION)),
            "learners": None if self.learners is None else [_described(item) for item in self.learners],
            **{name: int(given[name]) for name in _WHOLE if given[name] is not None},
            "first_features": [pack_name(name) for name in self.first_features or ()],
            "drift_detector": None if self.drift_detector is None else drift.pack(self.drift_detector.clone()),
            "class_weight": packed(self.class_weight),
            "costs": packed(self.costs),
        }

    @classmethod
    def of_metadata(
        cls, metadata: Mapping[str, Any], learners: Sequence[LearnerConfig | Learner] | None = None
    ) -> ModelParams:
        """Those that a checkpoint's metadata has, by `to_json`; `learners` in Python, which a file cannot hold."""
        given = checked("the checkpoint", metadata, "parameters", dict)
        if wrong := sorted(given.keys() ^ set(_STORED)):
            raise BraidedError(f"{_WHAT}: {wrong[0]!r:.60} is missing or unknown: use the braided that wrote it")
        with reject_malformed(_WHAT):
            kinds = {kind.__name__: kind for kind in [Preset, *LEARNERS]}  # learners can be registered at any time
            preset, detector = given["preset"], given["drift_detector"]
            return cls(**given | {
                "preset": preset if isinstance(preset, str) else unpack_config(preset, kinds, Preset),
                "learners": _unpacked_learners(given["learners"], learners, kinds),
                "combiner": given["combiner"] and checked(_WHAT, given, "combiner", str),
                "first_features": tuple(unpack_names("first features", given["first_features"])) or None,
                "drift_detector": detector and drift.restored_detector(detector),
                "class_weight": unpacked(given["class_weight"]),
                "costs": unpacked(given["costs"]),
            })  # fmt: skip


#: What a checkpoint has of them.
_STORED = tuple(field.name for field in fields(ModelParams) if field.name != "encode")


def _described(learner: LearnerConfig | Learner) -> dict[str, Any]:
    """A learner as a checkpoint notes it: its configuration, or only the type of one in Python."""
    return pack_config(learner) if type(learner) in LEARNERS else {"type": type(learner).__name__}


def _unpacked_learners(
    stored: Any, given: Sequence[LearnerConfig | Learner] | None, kinds: Mapping[str, type]
) -> Sequence[LearnerConfig | Learner] | None:
    """The learners that a checkpoint names: its own, or those that are given, which must be the same."""
    types = [str(item["type"]) for item in stored or ()]
    if given is not None:
        if [_described(item) for item in given] != (stored or []):
            known = ", ".join(types) or "those of its preset"
            raise BraidedError(f"the checkpoint was made with other learners ({known}): pass the same ones")
        return given
    if foreign := ", ".join(name for name in types if name not in kinds):
        raise BraidedError(
            f"the checkpoint holds learners of your own ({foreign}): pass load(..., learners=[...]) with the same ones"
        )
    return None if stored is None else tuple(unpack_config(item, kinds, LearnerConfig) for item in stored)
