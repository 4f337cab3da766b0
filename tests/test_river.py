"""River's own suite for estimators, without skips."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from river import checks, compose, datasets, evaluate, metrics, preprocessing

from braided import MODLClassifier, MODLRegressor

ESTIMATORS = [MODLClassifier(), MODLRegressor()]


def all_checks() -> list[Any]:
    return [
        pytest.param(model, check, id=f"{type(model).__name__}-{check.__name__}-{number}")
        for model in ESTIMATORS
        for number, check in enumerate(checks.yield_checks(model))
    ]


@pytest.mark.parametrize(("model", "check"), all_checks())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_river_check(model: Any, check: functools.partial[Any]) -> None:
    check(model.clone())


def test_nothing_is_skipped() -> None:
    for model in ESTIMATORS:
        assert model._unit_test_skips() == set()


def test_in_a_pipeline_with_delayed_labels() -> None:
    model = compose.Pipeline(preprocessing.MinMaxScaler(), MODLClassifier())
    metric = evaluate.progressive_val_score(datasets.Phishing().take(400), model, metrics.Accuracy(), delay=5)
    assert metric.get() > 0.8


def test_more_classes_than_two() -> None:
    metric = evaluate.progressive_val_score(datasets.ImageSegments().take(1_500), MODLClassifier(), metrics.Accuracy())
    assert metric.get() > 0.75
