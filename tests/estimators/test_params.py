"""The one list of model parameters: the constructors that repeat it, and what a file holds of it."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields
from typing import Any

import pytest
from river import drift

import braided
from braided.estimators.params import CLASSIFICATION, REGRESSION, TASKS, ModelParams
from braided.learners import LogisticConfig, MLPConfig
from braided.zoo import preset_for

#: What scikit-learn's conventions have in place of a field, or beside the fields.
OF_SKLEARN = {"passes": 1, "shuffle": True, "random_state": None, "max_features": None}
NOT_OF_SKLEARN = {"seed", "max_classes", "first_features"}
#: A value for each field that is not its default.
CHANGED: dict[str, Any] = {
    "preset": preset_for("released", "svmguide3"),
    "learners": (LogisticConfig(), MLPConfig(hidden=(3, 2))),
    "combiner": "moe",
    "seed": 7,
    "max_features": 12,
    "max_classes": 5,
    "first_features": ("a", 1, ("b", 2.5)),
    "drift_detector": drift.ADWIN(delta=0.01),
    "delay": 3,
    "expire_after": 90,
    "encode": True,
    "decision": "balanced",
    "class_weight": {"a": 2.0, 1: 0.5},
    "costs": {"a": {1: 3.0}, True: {"a": 0.5}},
    "zeros": "value",
}


def defaults(constructor: Any) -> dict[str, Any]:
    """The parameters of a constructor in order, with their defaults."""
    return {name: one.default for name, one in inspect.signature(constructor).parameters.items()}


def of_task(task: str) -> dict[str, Any]:
    """The same of the fields that are for a task."""
    return ModelParams().arguments(task)


@pytest.mark.parametrize("kind", [braided.MODLClassifier, braided.MODLRegressor])
def test_an_estimator_has_the_fields_in_their_order(kind: Any) -> None:
    assert list(defaults(kind).items()) == list(of_task(kind.task).items())


@pytest.mark.parametrize("task", TASKS)
def test_an_estimator_for_scikit_learn_has_them_but_for_its_conventions(task: str) -> None:
    sklearn = pytest.importorskip(
        "braided.sklearn", reason="scikit-learn is not installed: run make test", exc_type=ImportError
    )
    found = defaults(sklearn.MODLRegressor if task == REGRESSION else sklearn.MODLClassifier)
    kept = {name: value for name, value in of_task(task).items() if name not in NOT_OF_SKLEARN}
    assert found == kept | OF_SKLEARN
    assert next(iter(found)) == "preset"


def test_the_fields_of_both_tasks() -> None:
    assert set(CHANGED) == {field.name for field in fields(ModelParams)} == set(ModelParams.names(CLASSIFICATION))


@pytest.mark.parametrize("name", [name for name in CHANGED if name != "encode"])
def test_each_changed_field_comes_back_from_json(name: str) -> None:
    params = ModelParams(**{name: CHANGED[name]})
    assert params.to_json() != ModelParams().to_json()
    packed = json.loads(json.dumps(params.to_json()))
    restored = ModelParams.of_metadata({"parameters": packed})
    assert restored.to_json() == params.to_json()
    if name != "drift_detector":  # River's have no equality
        assert getattr(restored, name) == CHANGED[name]


def test_all_changed_fields_come_back_together() -> None:
    params = ModelParams(**{**CHANGED, "encode": False})
    metadata = json.loads(json.dumps({"parameters": params.to_json()}))
    assert ModelParams.of_metadata(metadata).to_json() == params.to_json()
    estimator = braided.MODLClassifier(**CHANGED)
    assert ModelParams.read_from(estimator).arguments(CLASSIFICATION) == CHANGED
    assert estimator.core.params.arguments(CLASSIFICATION) == CHANGED
