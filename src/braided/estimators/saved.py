"""The settings of a saved model, checked as strictly as if a stranger had written them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import presets
from braided.checkpoint import pack_config, unpack_config, unpack_names
from braided.engine import Braid
from braided.errors import BraidedError
from braided.estimators.decision import DECISION_PARAMETERS, unpacked
from braided.learners import LEARNERS, CompiledLearner, Learner, LearnerConfig
from braided.presets import Preset
from braided.state import checked

#: Whole numbers among the parameters, and the largest that each may be.
_WHOLE = {"seed": 2**63 - 1, "max_features": 2**63 - 1, "max_classes": 2**63 - 1, "delay": 2**63 - 1}
_MOST_LEARNERS = 1_000
#: A model that is restored may come to hold so many numbers whatever the size of its file.
_FREE_NUMBERS = 100_000_000
_WHAT = "the checkpoint's parameters"


def _kinds() -> dict[str, type]:
    """What a checkpoint may name; learners can be registered at any time."""
    return {kind.__name__: kind for kind in [Preset, *LEARNERS]}


def describe(learner: LearnerConfig | Learner) -> dict[str, Any]:
    """A learner as a checkpoint notes it: its configuration, or only the type of one in Python."""
    return pack_config(learner) if type(learner) in LEARNERS else {"type": type(learner).__name__}


def unpack_parameters(
    metadata: Mapping[str, Any], learners: Sequence[LearnerConfig | Learner] | None
) -> dict[str, Any]:
    """The arguments that a saved model was made with; `learners` are those that the caller gives back."""
    packed = checked("the checkpoint", metadata, "parameters", dict)
    names = {"preset", "learners", "combiner", "first_features", "expire_after", "zeros", *DECISION_PARAMETERS, *_WHOLE}
    if foreign := sorted(packed.keys() - names):
        raise BraidedError(
            f"{_WHAT}: {foreign[0]!r:.60} is not known to this braided: read it with the one that wrote it"
        )
    parameters: dict[str, Any] = {
        name: checked(_WHAT, packed, name, int, 0, most)
        for name, most in _WHOLE.items()
        if name in packed or name != "delay"
    }
    parameters["preset"] = _preset(packed)
    parameters["learners"] = _learners(packed, learners)
    parameters["combiner"] = None if packed.get("combiner", "") is None else checked(_WHAT, packed, "combiner", str)
    first = unpack_names("first features", packed.get("first_features"))
    expire_after = None
    if packed.get("expire_after") is not None:
        expire_after = checked(_WHAT, packed, "expire_after", int, 1, 2**63 - 1)
    if "zeros" in packed:
        parameters["zeros"] = checked(_WHAT, packed, "zeros", str)
    return parameters | {"first_features": tuple(first) or None, "expire_after": expire_after} | unpacked(packed)


def _preset(packed: Mapping[str, Any]) -> Preset | str:
    if isinstance(packed.get("preset"), dict):
        preset: Preset = unpack_config(packed["preset"], _kinds(), Preset)
        _check_number(preset.learners)
        _check_number(preset.numeric)
        return preset
    name: str = checked(_WHAT, packed, "preset", str)
    return presets.RENAMED.get(name, name)


def _learners(packed: Mapping[str, Any], given: Sequence[LearnerConfig | Learner] | None) -> Any:
    stored = None if packed.get("learners", "") is None else checked(_WHAT, packed, "learners", list)
    types = [item.get("type") if isinstance(item, dict) else None for item in stored or ()]
    if not all(isinstance(name, str) for name in types):
        raise BraidedError(f"{_WHAT}: a learner has no type; give a file written by save")
    if given is not None:
        if [describe(item) for item in given] != (stored or []):
            known = ", ".join(map(str, types)) or "those of its preset"
            raise BraidedError(f"the checkpoint was made with other learners ({known}): pass the same ones")
        return given
    if stored is None:
        return None
    foreign = [name for name in types if name not in _kinds()]
    if foreign:
        raise BraidedError(
            f"the checkpoint holds learners of your own ({', '.join(map(str, foreign))}): pass load(..., "
            "learners=[...]) with the same ones"
        )
    _check_number(stored)
    return tuple(unpack_config(item, _kinds(), LearnerConfig) for item in stored)


def _check_number(learners: Sequence[Any]) -> None:
    if len(learners) > _MOST_LEARNERS:
        raise BraidedError(f"{_WHAT}: there are {len(learners)} learners, and at most {_MOST_LEARNERS:,} are taken")


def check_numbers(braid: Braid, n_features: int, n_outputs: int, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse a model that would take much more memory than its file: nothing of it has been allocated yet."""
    own = [learner for learner in braid.learners if isinstance(learner, CompiledLearner)]
    total = sum(learner.numbers(n_features, n_outputs) for learner in own)
    most = max(_FREE_NUMBERS, sum(int(np.size(array)) for array in arrays.values()))
    if total > most:
        raise BraidedError(
            f"the checkpoint's learners would hold {total:,} numbers, and the file has fewer: give a file written by "
            "save"
        )
