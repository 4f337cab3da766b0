"""From a client's wish, or its checkpoint, to a model that cannot outgrow the service."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from braided import presets
from braided.combiners import COMBINERS
from braided.encode.saved import given_rules
from braided.errors import BraidedError
from braided.estimators import ESTIMATORS, MODLClassifier, MODLRegressor
from braided.estimators.base import MODL
from braided.estimators.encoder import Encoder
from braided.estimators.params import REGRESSION, ModelParams
from braided.fleet import KIND, SHARES, Fleet
from braided.fleet.layout import RowLayout
from braided.kernels import keyed
from braided.learners import LEARNERS, CompiledLearner, LearnerConfig
from braided.presets import Preset
from braided.serve.problems import HTTPProblem, key_errors_as_problems, shown
from braided.serve.records import check_text, checked_label
from braided.serve.settings import Limits
from braided.serve.state import MODEL_KINDS, Model, ModelState, restored_model
from braided.store import REMEDY, Checkpoint, checked, decode, unpack_name

BRAID, START, NONE = SHARES
#: Bounds on a learner's settings; what they multiply to is bounded by `Limits.weights`.
_MAX_LEARNERS, _MAX_WIDTH, _MAX_LAYERS, _MAX_DELAY = 8, 1_024, 16, 100_000
_MAX_OF = {"blocks": _MAX_LAYERS, "layers": _MAX_LAYERS, "nodes": 10_000}
#: Columns and categories that have come and gone, for each feature that there may be at a time.
_MAX_EXPIRED = 10
#: Bytes of a checkpoint's header, which takes many times that in memory; and what no count of a real model comes near,
#: so that it can still be saved when it has learned on for ever.
_MAX_HEADER, _MAX_COUNTED = 8 * 2**20, 2**50
#: Whole models in a fleet: each takes some thousand bytes of a file's header.
_MAX_MODELS = 500
#: Settings that say nothing of a model without keys.
_OF_A_FLEET = ("share", "max_keys", "in_memory", "evict")
#: And those that say nothing of a regression.
_OF_CLASSES = ("decision", "class_weight", "costs")
_KINDS = {kind.__name__: kind for kind in LEARNERS}
_FILE, _FLEET = "the checkpoint", "the checkpoint's fleet"


class ModelSpec(BaseModel):
    """What a model is made of. Everything may be left out."""

    model_config = ConfigDict(extra="forbid", strict=True)

    task: Literal["classification", "regression"] = "classification"
    preset: str = Field(default="default", json_schema_extra={"enum": list(presets.PRESETS)})
    learners: list[dict[str, Any]] | None = Field(
        default=None,
        min_length=1,
        max_length=_MAX_LEARNERS,
        description='Learner configurations in place of the preset\'s, e.g. {"type": "MLPConfig", "hidden": [32]}.',
    )
    combiner: str | None = Field(default=None, json_schema_extra={"enum": [*COMBINERS, None]})
    seed: int = Field(default=0, ge=0, lt=2**53)
    max_features: int | None = Field(default=None, ge=1, lt=2**31, description="The service's limit at most.")
    max_classes: int | None = Field(default=None, ge=1, lt=2**31, description="The service's limit at most.")
    expire_after: int | None = Field(
        default=None,
        ge=1,
        lt=2**53,
        description="At max_features, a new feature takes the place of the one not seen for longest, if that was in "
        "none of the last so many records.",
    )
    delay: int = Field(default=0, ge=0, le=_MAX_DELAY, description="How many records later labels come.")
    encode: bool | dict[str, Any] = Field(
        default=False,
        description="Whether records may hold text and dates; an object gives rules for reading them.",
    )
    decision: Literal["likeliest", "balanced"] = Field(
        default="likeliest", description="How a label is chosen from the probabilities."
    )
    class_weight: dict[str, float] | Literal["balanced"] | None = Field(
        default=None, description="Weights of labels, by their text, when one is chosen."
    )
    costs: dict[str, dict[str, float]] | None = Field(
        default=None, description="True label to answer to cost, by their texts; the label that costs least is chosen."
    )
    key: str | None = Field(default=None, description="Makes a fleet: the field of a record that says whose it is.")
    share: Literal["braid", "start", "none"] = Field(default="braid", description="What the keys of a fleet share.")
    max_keys: int | None = Field(default=None, ge=1, lt=2**31, description="The service's limit at most.")
    in_memory: int | None = Field(
        default=None, ge=1, lt=2**31, description="So many keys of a fleet are in memory, the others on disk."
    )
    evict: Literal["oldest"] | None = Field(
        default=None, description="Beyond max_keys, forget the key that has learned nothing for longest."
    )


def _refuse_beyond(what: str, value: int, most: int, option: str) -> None:
    if value > most:
        raise HTTPProblem(
            422, f"{what} is {value}, and this service allows {most}: ask for less, or start `braided serve` with "
            f"--{option} {value}"
        )  # fmt: skip


def _refuse_given(spec: ModelSpec, names: Iterable[str], why: str) -> None:
    """Refuse settings that say nothing of such a model."""
    for name in names:
        if getattr(spec, name) != ModelSpec.model_fields[name].default:
            raise HTTPProblem(422, f"{name} is for {why}")


def model_from(spec: ModelSpec, limits: Limits, folder: Path | None = None) -> Model:
    """A fresh model; `folder` is for those keys of a fleet that are not to be in memory."""
    if spec.key is None:
        _refuse_given(spec, _OF_A_FLEET, "a fleet: give key, the field of a record that says whose it is")
    if spec.task == REGRESSION:
        _refuse_given(spec, _OF_CLASSES, "classes: leave it out of a regression")
    features, classes = spec.max_features or limits.features, spec.max_classes or limits.classes
    _refuse_beyond("max_features", features, limits.features, "max-features")
    _refuse_beyond("max_classes", classes, limits.classes, "max-classes")
    learners = None if spec.learners is None else tuple(_learner(item, i) for i, item in enumerate(spec.learners))
    _bound_learners(learners or ())
    wanted = {**vars(spec), "learners": learners, "max_features": features, "max_classes": classes}
    try:
        wanted["preset"] = presets.get(spec.preset)
        if spec.encode is not False:
            most = _most_names(features, spec.expire_after, limits)
            rules = spec.encode if isinstance(spec.encode, dict) else {}
            wanted["encode"] = Encoder(given_rules({**rules, "max_features": most}))
        given = {name: wanted[name] for name in ModelParams.names(spec.task) if name in wanted}
        model: MODLClassifier | MODLRegressor = (
            MODLRegressor(**given) if spec.task == REGRESSION else MODLClassifier(**given)
        )
        check_size(model, limits)
        if spec.key is None:
            return model
        key = check_text(spec.key, "key", limits.text)
        max_keys = _checked_max_keys(model, spec.share, spec.max_keys, limits)
        return Fleet(model, key, spec.share, spec.in_memory, folder, max_keys, spec.evict)
    except BraidedError as error:
        raise HTTPProblem(422, str(error)) from None


def _learner(item: dict[str, Any], place: int) -> LearnerConfig:
    """One learner's configuration, strictly typed."""
    values, where = dict(item), f"learners[{place}]"
    kind = values.pop("type", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise HTTPProblem(422, f"{where}.type is {shown(kind)}: use one of {', '.join(_KINDS)}")
    known = {field.name for field in fields(_KINDS[kind])}
    if foreign := sorted(values.keys() - known):
        raise HTTPProblem(422, f"{where} has a setting {shown(foreign[0])}: {kind} has {', '.join(sorted(known))}")
    try:
        config: LearnerConfig = TypeAdapter(_KINDS[kind]).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        part = "".join(f".{part}" for part in first["loc"])
        raise HTTPProblem(422, f"{where}{part}: {first['msg'][:200]}") from None
    return config


def _bound_learners(learners: Sequence[Any]) -> None:
    """Refuse learners that are too many, or one that is too large."""
    if len(learners) > _MAX_LEARNERS:
        raise HTTPProblem(422, f"there are {len(learners)} learners: give at most {_MAX_LEARNERS}")
    for place, learner in enumerate(learners):
        for name, value in asdict(learner).items():
            numbers = value if isinstance(value, tuple) else (value,)
            if len(numbers) > _MAX_LAYERS:
                raise HTTPProblem(422, f"learners[{place}].{name} has {len(numbers)} entries: at most {_MAX_LAYERS}")
            most = _MAX_OF.get(name, _MAX_WIDTH)
            for number in numbers:
                if type(number) is int and number > most:
                    raise HTTPProblem(422, f"learners[{place}].{name} is {shown(number)}: give at most {most}")


def _n_outputs(model: MODL) -> int:
    """How many classes a model may have, or its one value."""
    return max(2, model.core.classes.limit) if isinstance(model, MODLClassifier) else 1


def _numbers(model: MODL) -> int:
    """How many numbers a model may come to hold."""
    learners = [learner for learner in model.braid.learners if isinstance(learner, CompiledLearner)]
    return sum(learner.numbers(model.max_features, _n_outputs(model)) for learner in learners)


def check_size(model: MODL, limits: Limits) -> None:
    """Refuse a model that may come to hold too many numbers."""
    if (total := _numbers(model)) > limits.weights:
        raise HTTPProblem(
            422, f"the model may come to hold {total:,} numbers with {model.max_features} features and "
            f"{_n_outputs(model)} outputs, and this service allows {limits.weights:,}: ask for less of them"
        )  # fmt: skip


def _checked_max_keys(model: MODL, share: str, wanted: int | None, limits: Limits) -> int:
    """How many keys a fleet may have that is asked for with so many, or with as many as possible."""
    if share == NONE and model.expire_after is not None:
        raise HTTPProblem(
            422, f'expire_after goes by a model that all keys share: leave it out, or give "share": "{BRAID}"'
        )
    one = _numbers(model)
    if share == BRAID:
        classes = model.core.classes.limit if isinstance(model, MODLClassifier) else 1
        layout = RowLayout.for_sizes(model.task == REGRESSION, model.max_features, classes)
        most = (limits.fleet_weights - one) // (layout.size + 2 * keyed.DOUBLES)
    else:
        most = min(_MAX_MODELS, limits.fleet_weights // one - (share == START))
    most = min(limits.keys, most)
    if most < 1 or (wanted is not None and wanted > most):
        asked = "a fleet" if wanted is None else f"max_keys is {wanted}"
        raise HTTPProblem(
            422, f"{asked}, and this service allows {max(most, 0):,} keys with {model.max_features} features, "
            f"{_n_outputs(model)} outputs and share {share}: ask for less of them"
        )  # fmt: skip
    return wanted or most


def _most_names(features: int, expire_after: Any, limits: Limits) -> int:
    """How many columns and categories the rules of a model may know: more than it has features, where these expire."""
    return features if expire_after is None else _MAX_EXPIRED * limits.features


def state_from_checkpoint(name: str, content: bytes, limits: Limits, folder: Path | None = None) -> ModelState:
    """A model from a client's file, and what clients had left with it where it was exported.

    To read it refuses what could crash the process; here it is held to the bounds of what the service makes itself.
    """
    try:
        found = decode(content, "in the body", *MODEL_KINDS, max_header=_MAX_HEADER)
        for array_name, array in found.arrays.items():
            if array.dtype.kind == "i" and array.size and array.max() > _MAX_COUNTED:
                raise BraidedError(f"the checkpoint's array {shown(array_name)} counts to {array.max()}: nothing did")
        if found.kind == KIND:
            _bound_fleet(found.metadata, limits)
        else:
            _bound_model(found.kind, found.metadata, limits)
        with key_errors_as_problems():
            state = ModelState(name, restored_model(found, folder), limits, created=time.time())
        state.take_over(found)
    except BraidedError as error:
        raise HTTPProblem(422, str(error)) from None
    if len(state.clients) > limits.clients:
        raise HTTPProblem(422, f"the checkpoint has {len(state.clients)} clients: at most {limits.clients} are allowed")
    for label in state.classes:
        checked_label(label, 0, False, limits)
    for text in _texts(state, found.metadata):
        check_text(text, f"the checkpoint's {shown(text)}", limits.text)
    return state


def _texts(state: ModelState, metadata: dict[str, Any]) -> set[Any]:
    """Names and keys that come from a checkpoint, which answers, logs and the page may show."""
    found = {*state.model.feature_names, *state.stats.names, *state.clients, *state.late.keys()}
    for one in state.late.entries():
        found |= {*one.records.names, *(one.records.keys or [None] if state.key is not None else ())}
    if state.rules is not None:
        found |= state.rules.kinds.keys() | state.rules.feature_columns().keys()
    return found | {*metadata.get("inside", {}).get("texts", ())}


def _bound_model(kind: str, metadata: dict[str, Any], limits: Limits) -> MODL:
    """Hold the settings of a checkpoint's model to the bounds of those that the service makes; such a model, untaught.

    The models of a fleet have the settings of the one of which it was made.
    """
    parameters = checked(_FILE, metadata, "parameters", dict)
    for key, most in (("features", limits.features), ("classes", limits.classes)):
        parameters[f"max_{key}"] = most = min(checked(_FILE, parameters, f"max_{key}", int), most)
        _refuse_beyond(
            f"the number of {key} in the checkpoint", len(checked(_FILE, metadata, key, list)), most, f"max-{key}"
        )
    params = ModelParams.of_metadata(metadata)
    if params.drift_detector is not None:
        # Detectors are River's, and what a changed one does at some later record cannot be foreseen here.
        raise BraidedError("the checkpoint has a drift detector, and this service takes none: save a model without")
    if params.delay > _MAX_DELAY:
        raise BraidedError(f"the checkpoint's delay is {shown(params.delay)}: at most {_MAX_DELAY:,} is allowed")
    for learners in (params.learners, *((params.preset.learners, params.preset.numeric)
                                        if isinstance(params.preset, Preset) else ())):  # fmt: skip
        _bound_learners(learners or ())
    if metadata.get("encode") is not None:
        rules = checked("the checkpoint's column rules", checked(_FILE, metadata, "encode", dict), "rules", dict)
        most = _most_names(parameters["max_features"], params.expire_after, limits)
        rules["max_features"] = min(checked("the rules", rules, "max_features", int), most)
    empty = {**metadata, "features": [], "classes": [], "encode": None}
    untaught = restored_model(Checkpoint(kind, empty, {"steps": np.zeros(1, dtype=np.int64)}))
    assert isinstance(untaught, MODL)
    check_size(untaught, limits)
    return untaught


def _bound_fleet(metadata: dict[str, Any], limits: Limits) -> None:
    """Hold the settings of a checkpoint's fleet to the bounds of those that the service makes."""
    kind = checked(_FILE, metadata, "estimator", str)
    if kind not in ESTIMATORS:
        raise BraidedError(f"the checkpoint's estimator is {shown(kind)}: {REMEDY}")
    model = _bound_model(kind, checked(_FLEET, metadata, "template", dict), limits)
    parameters = checked(_FLEET, metadata, "parameters", dict)
    check_text(unpack_name(parameters.get("key")), "the checkpoint's key", limits.text)
    share = checked(_FLEET, parameters, "share", str)
    if share not in SHARES:
        raise BraidedError(f"{_FLEET}: share is {share!r:.60}; {REMEDY}")
    if metadata.get("held"):
        raise BraidedError("the checkpoint's fleet holds what its keys share: this service takes one that learns it")
    wanted = checked(_FLEET, parameters, "max_keys", int, 1)
    parameters["max_keys"] = min(wanted, _checked_max_keys(model, share, None, limits))
    if checked(_FLEET, metadata, "learned", int) > _MAX_COUNTED:
        raise BraidedError(f"{_FLEET}: 'learned' is {metadata['learned']}, and nothing did; {REMEDY}")
    keys = len(checked(_FLEET, checked(_FLEET, metadata, "inside", dict), "texts", list))
    if keys > parameters["max_keys"]:
        raise BraidedError(
            f"the checkpoint has {keys:,} keys, and this service allows {parameters['max_keys']:,} of such: start "
            "`braided serve` with a higher --max-keys, or take a model of fewer features and classes"
        )
