"""Fleets that cannot outgrow the service: how many keys there may be, and what a stranger's file may hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from braided.errors import BraidedError
from braided.estimators import MODLClassifier
from braided.estimators.base import MODL
from braided.estimators.params import REGRESSION
from braided.fleet import SHARES, Fleet
from braided.fleet.cache import restored_keys
from braided.fleet.layout import RowLayout
from braided.kernels import keyed
from braided.learners import CompiledLearner
from braided.serve.problems import HTTPProblem, shown
from braided.serve.records import RecordParser, check_text, checked_key
from braided.serve.settings import Limits
from braided.store import REMEDY, checked, unpack_name, unpack_names

BRAID, START, NONE = SHARES
#: Each takes some thousand bytes of a file's header, which is bounded.
_MAX_WHOLE_MODELS = 500
_MAX_COUNTED = 2**50
_WHAT = "the checkpoint's fleet"


def numbers(model: MODL) -> int:
    """How many numbers a model may come to hold."""
    outputs = max(2, model.core.classes.limit) if isinstance(model, MODLClassifier) else 1
    total = 0
    for learner in model.braid.learners:
        assert isinstance(learner, CompiledLearner)
        total += learner.numbers(model.max_features, outputs)
    return total


def most_keys(model: MODL, share: str, limits: Limits) -> int:
    """How many keys a fleet of such models may have."""
    one = numbers(model)
    if share != BRAID:
        return min(limits.keys, _MAX_WHOLE_MODELS, limits.fleet_weights // one - (share == START))
    classes = model.core.classes.limit if isinstance(model, MODLClassifier) else 1
    layout = RowLayout.for_sizes(model.task == REGRESSION, model.max_features, classes)
    return min(limits.keys, (limits.fleet_weights - one) // (layout.size + 2 * keyed.DOUBLES))


def checked_max_keys(model: MODL, share: str, wanted: int | None, limits: Limits) -> int:
    """How many keys a fleet may have that is asked for with so many, or with as many as possible."""
    if share == NONE and model.expire_after is not None:
        raise HTTPProblem(
            422, f'expire_after goes by a model that all keys share: leave it out, or give "share": "{BRAID}"'
        )
    most = most_keys(model, share, limits)
    if most < 1 or (wanted is not None and wanted > most):
        asked = "a fleet" if wanted is None else f"max_keys is {wanted}"
        raise HTTPProblem(
            422, f"{asked}, and this service allows {max(most, 0):,} keys with {model.max_features} features"
            f"{_classes(model)} and share {share}: ask for less of them"
        )  # fmt: skip
    return wanted or most


def _classes(model: MODL) -> str:
    return f", {model.core.classes.limit} classes" if isinstance(model, MODLClassifier) else ""


def fleet_from(model: MODL, spec: Any, limits: Limits, folder: Path | None) -> Fleet:
    """A fresh fleet, as a client wants it."""
    key = check_text(spec.key, "key", limits.text)
    max_keys = checked_max_keys(model, spec.share, spec.max_keys, limits)
    return Fleet(model, key, spec.share, spec.in_memory, folder, max_keys, spec.evict)


def models_in(metadata: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a fleet's file says of each of its models, that of which it was made first."""
    template = checked(_WHAT, metadata, "template", dict)
    yield template
    inside = checked(_WHAT, metadata, "inside", dict)
    models = checked(_WHAT, {"models": [], **inside}, "models", list)
    if len(models) > _MAX_WHOLE_MODELS:
        raise HTTPProblem(422, f"the checkpoint has {len(models)} models: at most {_MAX_WHOLE_MODELS} are allowed")
    for model in (inside.get("model"), *models):
        if not isinstance(model, dict):
            raise HTTPProblem(422, f"the checkpoint has {shown(model)} for a model: {REMEDY}")
        yield {**model, "parameters": template["parameters"]}


def check_fleet(metadata: dict[str, Any], model: MODL, limits: Limits) -> None:
    """Hold what a file says of a fleet, made of such models, to the bounds of those that the service makes."""
    parameters = checked(_WHAT, metadata, "parameters", dict)
    check_text(unpack_name(parameters.get("key")), "the checkpoint's key", limits.text)
    share = checked(_WHAT, parameters, "share", str)
    if share not in SHARES:
        raise BraidedError(f"{_WHAT}: share is {share!r:.60}; {REMEDY}")
    if metadata.get("held"):
        raise HTTPProblem(
            422, "the checkpoint's fleet holds what its keys share, and this service learns it: save one that was not "
            "held"
        )  # fmt: skip
    wanted = checked(_WHAT, parameters, "max_keys", int, 1)
    parameters["max_keys"] = min(wanted, checked_max_keys(model, share, None, limits))
    if checked(_WHAT, metadata, "learned", int) > _MAX_COUNTED:
        raise BraidedError(f"{_WHAT}: 'learned' is {metadata['learned']}, and nothing did; {REMEDY}")
    inside = checked(_WHAT, metadata, "inside", dict)
    texts = restored_keys(_WHAT, inside)
    if len(texts) > parameters["max_keys"]:
        raise HTTPProblem(
            422, f"the checkpoint has {len(texts):,} keys, and this service allows {parameters['max_keys']:,} of such: "
            "start `braided serve` with a higher --max-keys, or take a model of fewer features and classes"
        )  # fmt: skip
    for text in texts:
        checked_key(text, "of the checkpoint", 0, limits.text)
    if share != BRAID:
        parser = RecordParser(labelled=True, regression=model.task == REGRESSION, limits=limits)
        for label in unpack_names("labels", checked(_WHAT, inside, "labels", list)):
            parser.label(label, 0)
