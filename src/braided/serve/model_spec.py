"""From a client's wish, or its checkpoint, to a model that cannot outgrow the service."""

from __future__ import annotations

import json
import time
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from braided import presets
from braided.combiners import COMBINERS
from braided.errors import BraidedError
from braided.estimators import ESTIMATORS, MODLClassifier, MODLRegressor
from braided.estimators.base import MODL
from braided.estimators.encoder import Encoder
from braided.fleet import KIND
from braided.learners import LEARNERS, LearnerConfig
from braided.serve.fleet_spec import check_fleet, fleet_from, models_in, numbers
from braided.serve.key_disk import told_as_problems
from braided.serve.model_state import MODEL_KINDS, Model, ModelState, restored_model
from braided.serve.problems import HTTPProblem, shown
from braided.serve.records import RecordParser, check_text, checked_key
from braided.serve.settings import Limits
from braided.store import REMEDY, Checkpoint, checked, decode, unpack_names
from braided.streams.encode.saved import given_rules, restored_encoder

#: Bounds on a learner's settings; what they multiply to is bounded by `Limits.weights`.
_MAX_LEARNERS, _MAX_WIDTH, _MAX_LAYERS = 8, 1_024, 16
_MAX_DELAY = 100_000
#: Columns and categories that have come and gone, for each feature that there may be at a time.
_MAX_EXPIRED = 10
#: Bytes of a checkpoint's header, which takes many times that in memory; and what no count of a real model comes near,
#: so that it can still be saved when it has learned on for ever.
_MAX_HEADER, _MAX_COUNTED = 8 * 2**20, 2**50
_MOST = {"blocks": _MAX_LAYERS, "layers": _MAX_LAYERS, "nodes": 10_000}
#: Settings that say nothing of a model without keys.
_OF_A_FLEET = ("share", "max_keys", "in_memory", "evict")
_KINDS = {kind.__name__: kind for kind in LEARNERS}


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
        description="Take raw records, whose values may be text, and learn from what comes how to read each column; or "
        'rules for it, e.g. {"decimal": ","}.',
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
    key: str | None = Field(
        default=None, description="Makes a fleet: the field of a record, text or a whole number, that says whose it is."
    )
    share: Literal["braid", "start", "none"] = Field(default="braid", description="What the keys of a fleet share.")
    max_keys: int | None = Field(default=None, ge=1, lt=2**31, description="The service's limit at most.")
    in_memory: int | None = Field(
        default=None, ge=1, lt=2**31, description="So many keys of a fleet are in memory, the others on disk."
    )
    evict: Literal["oldest"] | None = Field(
        default=None, description="Beyond max_keys, forget the key that has learned nothing for longest."
    )


def model_from(spec: ModelSpec, limits: Limits, folder: Path | None = None) -> Model:
    """A fresh model; `folder` is for those keys of a fleet that are not to be in memory."""
    if spec.key is None:
        for name in _OF_A_FLEET:
            if getattr(spec, name) != ModelSpec.model_fields[name].default:
                raise HTTPProblem(422, f"{name} is for a fleet: give key, the field of a record that says whose it is")
    features, classes = spec.max_features or limits.features, spec.max_classes or limits.classes
    for name, value, most in (("max_features", features, limits.features), ("max_classes", classes, limits.classes)):
        if value > most:
            raise HTTPProblem(
                422,
                f"{name} is {value}, and this service allows {most}: ask for less, or start `braided serve` with "
                f"--{name.replace('_', '-')} {value}",
            )
    learners = None if spec.learners is None else tuple(_learner(item, i) for i, item in enumerate(spec.learners))
    try:
        preset = presets.get(spec.preset)
        late: dict[str, Any] = {"delay": spec.delay, "expire_after": spec.expire_after}
        if isinstance(spec.encode, dict) or spec.encode:
            given = spec.encode if isinstance(spec.encode, dict) else {}
            most = _most_names(features, spec.expire_after, limits)
            late["encode"] = Encoder(given_rules({**given, "max_features": most}))
        decision: dict[str, Any] = {
            "decision": spec.decision, "class_weight": spec.class_weight, "costs": spec.costs
        }  # fmt: skip
        _check_decision(spec, classes)
        model: MODLClassifier | MODLRegressor
        if spec.task == "regression":
            model = MODLRegressor(preset, learners, spec.combiner, spec.seed, features, **late)
        else:
            model = MODLClassifier(preset, learners, spec.combiner, spec.seed, features, classes, **late, **decision)
        check_size(model, limits)
        return model if spec.key is None else fleet_from(model, spec, limits, folder)
    except BraidedError as error:
        raise HTTPProblem(422, str(error)) from None


def _check_decision(spec: ModelSpec, most: int) -> None:
    """Refuse a decision where there are no classes, and one about more labels than there may be."""
    given = [name for name in ("class_weight", "costs") if getattr(spec, name) is not None]
    given += ["decision"] if spec.decision != "likeliest" else []
    if given and spec.task == "regression":
        raise HTTPProblem(422, f"{given[0]} is for classes: leave it out of a regression")
    weights = {} if isinstance(spec.class_weight, str) else spec.class_weight or {}
    costs = spec.costs or {}
    labels = max([len(weights), len(costs), *map(len, costs.values())])
    if labels > most:
        raise HTTPProblem(422, f"class_weight or costs has {labels} labels: give at most max_classes, {most}")


def _learner(item: dict[str, Any], place: int) -> LearnerConfig:
    """One learner's configuration, strictly typed."""
    values = dict(item)
    kind = values.pop("type", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise HTTPProblem(422, f"learners[{place}].type is {shown(kind)}: use one of {', '.join(_KINDS)}")
    known = {field.name for field in fields(_KINDS[kind])}
    if foreign := sorted(values.keys() - known):
        raise HTTPProblem(
            422, f"learners[{place}] has a setting {shown(foreign[0])}: {kind} has {', '.join(sorted(known))}"
        )
    for name, value in values.items():
        if isinstance(value, list) and len(value) > _MAX_LAYERS:
            raise HTTPProblem(422, f"learners[{place}].{name} has {len(value)} entries: give at most {_MAX_LAYERS}")
        most = _MOST.get(name, _MAX_WIDTH)
        for number in value if isinstance(value, list) else (value,):
            if type(number) is int and number > most:
                raise HTTPProblem(422, f"learners[{place}].{name} is {shown(number)}: give at most {most}")
    try:
        config: LearnerConfig = TypeAdapter(_KINDS[kind]).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f".{part}" for part in first["loc"])
        raise HTTPProblem(422, f"learners[{place}]{where}: {first['msg'][:200]}") from None
    return config


def check_size(model: MODL, limits: Limits) -> None:
    """Refuse a model that may come to hold too many numbers."""
    outputs, total = max(2, model.core.classes.limit) if isinstance(model, MODLClassifier) else 1, numbers(model)
    if total > limits.weights:
        raise HTTPProblem(
            422, f"the model may come to hold {total:,} numbers with {model.max_features} features and {outputs} "
            f"outputs, and this service allows {limits.weights:,}: ask for less of them"
        )  # fmt: skip


def _decoded(content: bytes) -> Checkpoint:
    try:
        found = decode(content, "in the body", *MODEL_KINDS, max_header=_MAX_HEADER)
    except BraidedError as error:
        raise HTTPProblem(422, str(error)) from None
    for name, array in found.arrays.items():
        if array.dtype.kind == "i" and array.size and array.max() > _MAX_COUNTED:
            raise HTTPProblem(422, f"the checkpoint's array {shown(name)} counts to {array.max()}: nothing did")
    return found


def _model_of(found: Checkpoint, limits: Limits, folder: Path | None) -> Model:
    try:
        if found.kind != KIND:
            _check_model(found.kind, found.metadata, limits)
            return restored_model(found)
        kind = checked("the checkpoint", found.metadata, "estimator", str)
        if kind not in ESTIMATORS:
            raise HTTPProblem(422, f"the checkpoint's estimator is {shown(kind)}: {REMEDY}")
        first: MODL | None = None
        for each in models_in(found.metadata):
            model = _check_model(kind, each, limits, first)
            first = first or model
        assert first is not None
        check_fleet(found.metadata, first, limits)
        with told_as_problems():
            return restored_model(found, folder)
    except BraidedError as error:
        raise HTTPProblem(422, str(error)) from None


def _check_model(kind: str, metadata: dict[str, Any], limits: Limits, alike: MODL | None = None) -> MODL:
    """Hold what a file says of one model to the bounds of those that the service makes; such a model, untaught.

    The models of a fleet are `alike`, so that one of them is made here.
    """
    parameters = checked("the checkpoint", metadata, "parameters", dict)
    for key, most in (("features", limits.features), ("classes", limits.classes)):
        parameters[f"max_{key}"] = min(checked("the checkpoint", parameters, f"max_{key}", int), most)
        names = checked("the checkpoint", metadata, key, list)
        if len(names) > parameters[f"max_{key}"]:
            raise HTTPProblem(
                422, f"the checkpoint has {len(names)} {key}, and this service allows {parameters[f'max_{key}']}: "
                f"start `braided serve` with --max-{key} {len(names)}"
            )  # fmt: skip
    if metadata.get("drift") is not None or parameters.get("drift_detector") is not None:
        # Detectors are River's, and what a changed one does at some later record cannot be foreseen here.
        raise HTTPProblem(422, "the checkpoint has a drift detector, and this service takes none: save a model without")
    _check_rules(metadata, parameters, limits)
    for name in metadata["features"]:
        check_text(name, f"the checkpoint's feature {shown(name)}", limits.text)
    parser = RecordParser(labelled=True, regression=kind == MODLRegressor.__name__, limits=limits)
    for label in unpack_names("classes", metadata["classes"]):
        parser.label(label, 0)
    _check_configurations(parameters)
    if alike is not None:
        return alike
    empty = {**metadata, "features": [], "classes": [], "encode": None}
    untaught = restored_model(Checkpoint(kind, empty, {"steps": np.zeros(1, dtype=np.int64)}))
    assert isinstance(untaught, MODL)
    check_size(untaught, limits)
    return untaught


def _most_names(features: int, expire_after: Any, limits: Limits) -> int:
    """How many columns and categories the rules of a model may know: more than it has features, where these expire."""
    return features if expire_after is None else _MAX_EXPIRED * limits.features


def _check_rules(metadata: dict[str, Any], parameters: dict[str, Any], limits: Limits) -> None:
    """Hold the rules of a checkpoint's columns to the bounds of those that the service makes."""
    if metadata.get("encode") is None:
        return
    document = checked("the checkpoint", metadata, "encode", dict)
    rules = checked("the checkpoint's column rules", document, "rules", dict)
    most = _most_names(parameters["max_features"], parameters.get("expire_after"), limits)
    document["rules"] = {**rules, "max_features": min(checked("the rules", rules, "max_features", int), most)}
    encoder = restored_encoder(document)
    names = [encoder.categories.name(column, value) for column, of in encoder.categories.known.items() for value in of]
    for name in [*encoder.kinds, *names]:
        check_text(name, f"the checkpoint's column {shown(name)}", limits.text)


def state_from_checkpoint(name: str, content: bytes, limits: Limits, folder: Path | None = None) -> ModelState:
    """A model from such a file, and what clients had left with it where it was exported."""
    found = _decoded(content)
    state = ModelState(name, _model_of(found, limits, folder), limits, created=time.time())
    try:
        state.take_over(found)
    except BraidedError as error:
        raise HTTPProblem(422, str(error)) from None
    if len(state.clients) > limits.clients:
        raise HTTPProblem(422, f"the checkpoint has {len(state.clients)} clients: at most {limits.clients} are allowed")
    waiting = [(one.key, one.records) for one in state.late.entries() if one.records is not None]
    names = (name for _, record in waiting for name in record.names)
    for text in {*state.clients, *state.late.keys(), *names, *state.stats.names}:
        check_text(text, f"the checkpoint's {shown(text)}", limits.text)
    if state.key is not None:
        for _, record in waiting:
            checked_key(None if record.keys is None else record.keys[0], state.key, 0, limits.text)
    return state


def _check_configurations(parameters: dict[str, Any]) -> None:
    """Hold a checkpoint's settings to the same bounds as a client's."""
    preset = parameters.get("preset")
    lists = [parameters.get("learners")]
    if isinstance(preset, dict):
        lists += [preset.get("learners"), preset.get("numeric") or None]
    for items in lists:
        if items is None:
            continue
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise HTTPProblem(422, f"the checkpoint has {shown(items)} for learners: {REMEDY}")
        if not 1 <= len(items) <= _MAX_LEARNERS:
            raise HTTPProblem(422, f"the checkpoint has {len(items)} learners: at most {_MAX_LEARNERS} are allowed")
        for place, item in enumerate(items):
            _learner(item, place)
    delay = parameters.get("delay", 0)
    if not isinstance(delay, int) or not 0 <= delay <= _MAX_DELAY:
        raise HTTPProblem(422, f"the checkpoint's delay is {shown(delay)}: at most {_MAX_DELAY:,} is allowed")
