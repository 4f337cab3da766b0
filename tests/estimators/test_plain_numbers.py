"""Plain numeric streams on which a deep model has no excuse: the default beside what least squares or memory reach."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from braided import MODLRegressor

Floats = NDArray[np.float64]
Made = tuple[Floats, Floats]
N = 8_000


def fahrenheit(rng: np.random.Generator) -> Made:
    celsius = rng.uniform(-20, 40, (2_000, 1))
    return celsius, 32 + 1.8 * celsius[:, 0]


def steep(rng: np.random.Generator) -> Made:
    values = rng.normal(size=(4_000, 3))
    return values, 100 * values[:, 0] + rng.normal(size=4_000)


def walk(rng: np.random.Generator) -> Made:
    values = np.cumsum(rng.normal(size=N))
    return values[:, None], values + 0.05 * rng.normal(size=N)


def heavy_tails(rng: np.random.Generator) -> Made:
    values = rng.standard_t(1.5, (N, 3))
    return values, values @ [1.0, -2.0, 0.5] + rng.normal(size=N)


def setpoints(hold: int) -> Callable[[np.random.Generator], Made]:
    def made(rng: np.random.Generator) -> Made:
        setpoint = np.repeat(rng.integers(0, 101, N // hold + 1), hold)[:N].astype(float)
        return np.column_stack([setpoint, rng.normal(size=N)]), setpoint + 0.05 * rng.normal(size=N)

    return made


def levels(rng: np.random.Generator) -> Made:
    return rng.normal(size=(N, 3)), np.repeat(rng.normal(0, 1e4, N // 500), 500) + rng.normal(size=N)


def idle_then_load(rng: np.random.Generator) -> Made:
    noise, on = rng.normal(size=(20_000, 2)), np.arange(20_000) >= 2_000
    values = np.column_stack([np.where(on, 50 + 20 * noise[:, 0], 0.01 * noise[:, 0]), noise[:, 1]])
    return values, np.where(on, 3 * values[:, 0] + 5 * values[:, 1], 0.0) + rng.normal(size=20_000)


def off(made: Callable[[np.random.Generator], Made], seed: int = 1) -> Floats:
    values, targets = made(np.random.default_rng(seed))
    return np.abs(MODLRegressor().predict_learn_many(values, targets).values[:, 0] - targets)


@pytest.mark.parametrize(
    ("made", "most"),
    [
        (fahrenheit, 0.01),
        (steep, 0.82),
        (walk, 0.043),
        (heavy_tails, 1.0),
        (setpoints(30), 0.1),
        (setpoints(300), 0.08),
        (levels, 60.0),
        (idle_then_load, 0.87),
    ],
)
def test_the_second_half_is_as_good_as_a_plain_method(made: Callable[[np.random.Generator], Made], most: float) -> None:
    errors = off(made)
    assert errors[len(errors) // 2 :].mean() < most


def test_a_steep_line_is_known_after_a_few_records() -> None:
    assert off(steep)[50:200].mean() < 3.5


def rare(rng: np.random.Generator) -> Made:
    values = rng.normal(size=(N, 3))
    return values, np.where(values[:, 0] > np.quantile(values[:, 0], 0.98), 100 + 10 * values[:, 1], 0.0)


def sales(rng: np.random.Generator) -> Made:
    values = rng.normal(size=(N, 3))
    return values, rng.poisson(np.exp(0.7 * values[:, 0] - 1.3)).astype(float)


@pytest.mark.parametrize("made", [rare, sales])
def test_what_is_rare_is_no_mistake(made: Callable[[np.random.Generator], Made]) -> None:
    """The whole is never more than a little behind its best learner, in squared error."""
    values, targets = made(np.random.default_rng(2))
    said = MODLRegressor().predict_learn_many(values, targets)
    squares = ((np.column_stack([said.values, said.own]) - targets[:, None]) ** 2)[500:].mean(axis=0)
    assert np.sqrt(squares[0]) < 1.015 * np.sqrt(squares[1:].min())
