"""A small keyed stream with all that may happen in one."""

from __future__ import annotations

from typing import Any

import numpy as np

from braided import Fleet, MODLClassifier, MODLRegressor

CLASSIFICATION, REGRESSION = "classification", "regression"
TASKS = (CLASSIFICATION, REGRESSION)


def fleet(task: str, **settings: Any) -> Fleet:
    model = MODLClassifier(preset="lean") if task == CLASSIFICATION else MODLRegressor(preset="lean")
    return Fleet(model, key="machine", **settings)


def stream(task: str, n: int = 160, n_keys: int = 7, seed: int = 1) -> tuple[Any, list[Any], list[str]]:
    """Values, with NaN, in which columns 8 to 10 come later; labels, of which the third comes later; and keys."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(n, 11))
    keys = random.integers(n_keys, size=n)
    scores = (random.normal(size=(n_keys, 4))[keys] * values[:, :4]).sum(axis=1)
    labels: list[Any] = (scores * 3.0 + 10.0).tolist()
    if task == CLASSIFICATION:
        labels = [("high" if score > 0 else "low") for score in scores]
        labels = ["odd" if i > 60 and values[i, 2] > 1.0 else label for i, label in enumerate(labels)]
    values[random.random(values.shape) < 0.1] = np.nan
    values[:50, 8:] = np.nan
    return values, labels, [f"pump {key}" for key in keys]


def records(values: Any, keys: list[str]) -> list[dict[str, Any]]:
    return [
        {"machine": key, **{f"f{j}": value for j, value in enumerate(row) if value == value}}
        for row, key in zip(values.tolist(), keys, strict=True)
    ]


NAMES = [f"f{j}" for j in range(11)]
