"""Running statistics: units that change, in both directions, and values that are mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from braided import MODLClassifier, MODLRegressor
from braided.kernels import scale
from braided.kernels.scale import COUNT, MEAN, RESTARTS, SQUARES, STATISTICS, count_in, is_doubtful, remember
from braided.learners import LogisticConfig

RNG = np.random.default_rng


def counted(values: Any) -> np.ndarray:
    """The statistics of a feature after these values."""
    column = np.zeros(STATISTICS)
    for value in values:
        count_in(float(value), column, False)
    return column


def deviation(column: np.ndarray) -> float:
    return float(np.sqrt(column[SQUARES] / column[COUNT]))


@pytest.mark.parametrize("mean", [0.0, 10.0])
@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e3, 1e6])
def test_another_unit_is_noticed_in_both_directions(factor: float, mean: float) -> None:
    """After 150 values of the new unit they are in the new unit, and after 150 of the old one they are back."""
    rng = RNG(0)
    column = counted(rng.normal(mean, 1.0, size=3_000))
    for unit, past in ((factor, 1), (1.0, 2)):
        for value in unit * rng.normal(mean, 1.0, size=150):
            count_in(value, column, False)
        assert column[RESTARTS] == past
        assert deviation(column) == pytest.approx(unit, rel=0.3)
        assert column[MEAN] == pytest.approx(unit * mean, abs=0.5 * unit)
        for value in unit * rng.normal(mean, 1.0, size=3_000):
            count_in(value, column, False)
        assert column[RESTARTS] == past


@pytest.mark.parametrize(
    "values",
    [
        np.arange(20_000.0),
        np.cumsum(RNG(0).normal(size=20_000)),
        RNG(0).lognormal(sigma=2.0, size=20_000),
        RNG(0).standard_t(2, size=20_000),
        RNG(0).random(20_000) < 0.001,
    ],
    ids=["counter", "walk", "heavy tail", "heavier tail", "rare"],
)
def test_a_clean_stream_does_not_start_over(values: np.ndarray) -> None:
    column = counted(values)
    assert column[RESTARTS] == 0
    assert column[COUNT] == 20_000


def test_what_moves_in_steps_does_not_start_over_for_ever() -> None:
    column = counted(np.repeat(RNG(0).normal(size=200), 100))
    assert column[COUNT] > 19_000
    assert deviation(column) == pytest.approx(1.0, rel=0.1)


def test_a_range_that_is_seen_part_by_part_at_first_is_no_change_of_units() -> None:
    """Each part is narrow and lies far outside of those before it; then all of them come in turns."""
    rng = RNG(0)
    places = np.concatenate([np.repeat([0.9, 0.3, 0.1, 0.6], 250), rng.random(3_000)])
    column = counted(places + 0.02 * rng.normal(size=4_000))
    assert column[RESTARTS] == 0
    assert column[COUNT] == 4_000


def test_loud_and_quiet_by_turns_is_no_unit() -> None:
    """Each restart would make both look alike."""
    rng = RNG(0)
    column = counted(rng.normal(size=100_000) * np.where(np.arange(100_000) // 500 % 2, 100.0, 1.0))
    assert column[RESTARTS] <= 12


def test_a_record_that_is_half_wild_does_not_count() -> None:
    rng, statistics, every = RNG(0), np.zeros((4, STATISTICS)), np.arange(4)
    for row in rng.normal(size=(100, 4)):
        assert not remember(row, every, statistics, every)
    assert is_doubtful(np.array([1e3, -1e3, 0.0, 0.0]), every, statistics, every)
    assert not is_doubtful(np.array([1e3, 1.0, 0.0, 0.0]), every, statistics, every)
    before = statistics.copy()
    assert remember(np.array([1e300, -1e300, 0.5, 0.0]), every, statistics, every)
    np.testing.assert_array_equal(statistics[:, :3], before[:, :3])
    for _ in range(20):
        remember(np.full(4, 1e3) + rng.normal(size=4), every, statistics, every)
    assert (statistics[:, MEAN] > 900).all(), "ten in a row are no mistake"


def test_bad_records_of_two_signs_do_not_count_for_a_feature_far_from_zero() -> None:
    """To that feature they all lie on one side; the others see that they are not alike."""
    rng, statistics, every = RNG(0), np.zeros((4, STATISTICS)), np.arange(4)
    for t, row in enumerate(rng.normal(size=(3_000, 4)) + np.array([1_000.0, 0.0, 0.0, 0.0])):
        bad = np.full(4, rng.choice([-100.0, 100.0]))
        remember(bad if t > 100 and rng.random() < 0.02 else row, every, statistics, every)
    assert deviation(statistics[0]) < 1.1


def test_one_record_in_twenty_that_is_bad_does_not_count() -> None:
    rng, statistics, every = RNG(3), np.zeros((4, STATISTICS)), np.arange(4)
    for t, row in enumerate(1_000.0 + rng.normal(size=(30_000, 4))):
        bad = np.full(4, rng.choice([-1e4, 1e4]))
        remember(bad if t > 100 and rng.random() < 0.05 else row, every, statistics, every)
    assert max(deviation(column) for column in statistics) < 1.1


def test_a_target_far_out_is_believed_when_it_comes_again() -> None:
    target = np.zeros(scale.TARGET_STATISTICS)
    rng, last = RNG(0), 0.0
    for y in rng.normal(size=200):
        count_in(y - last, target[scale.CHANGES :], False)
        count_in(y, target, False)
        scale.remember_target(y, target, target)
        last = y
    scale.remember_target(1e9, target, target)
    assert target[scale.LAST] == last
    scale.remember_target(-1e9, target, target)
    scale.remember_target(50.0, target, target)
    assert target[scale.LAST] == last
    scale.remember_target(51.0, target, target)
    assert target[scale.LAST] == 51.0


def test_clusters_far_apart_are_no_mistakes() -> None:
    """The first records are of one of them; the others come as often."""
    rng = RNG(0)
    places = np.concatenate([np.zeros(40, dtype=int), rng.integers(0, 3, size=3_000)])
    values = rng.normal(size=(3_040, 4)) + np.array([0.0, 15.0, -15.0])[places][:, None]
    model = MODLClassifier(learners=(LogisticConfig(prior_variance=0.1),))
    said = model.predict_learn_many(values, places).values.argmax(axis=1)
    assert (np.array(model.classes)[said] != places)[1_000:].mean() < 0.01


def test_spikes_of_a_kind_are_believed() -> None:
    rng = RNG(0)
    values, spike = rng.normal(size=(6_000, 3)), rng.random(6_000) < 0.05
    spike[:60] = False
    targets = np.where(spike, 100 + 20 * values[:, 0], values[:, 1])
    said = MODLRegressor().predict_learn_many(np.column_stack([values, spike]), targets).values[:, 0]
    assert np.abs(said - targets)[3_000:][spike[3_000:]].mean() < 6


@pytest.mark.parametrize("first", [9, 10, 15, 19, 20, 40])
def test_a_level_that_changes_early_is_followed(first: int) -> None:
    rng = RNG(0)
    column = counted(rng.normal(size=first))
    for value in 100 + rng.normal(size=500):
        count_in(value, column, abs(value - column[MEAN]) > 10 * max(deviation(column), 1e-9) and column[COUNT] >= 10)
    assert column[MEAN] == pytest.approx(100, abs=5)


def attacked(values: np.ndarray, targets: np.ndarray, kind: str, size: float, share: float) -> tuple[Any, Any, Any]:
    """A stream with records of +-size in it, and which of its records are clean; 5,000 of them come first."""
    rng = RNG(7)
    if kind == "unit":
        wild = values.copy()
        wild[5_000:8_000] *= size
        return wild, targets, np.ones(len(values), dtype=bool)
    if kind == "share":
        hit = rng.random(len(values)) < share
        sign = rng.choice([-1.0, 1.0], size=len(values))
        wild = np.where(hit[:, None], size * sign[:, None], values)
        return wild, np.where(hit, size * sign, targets) if targets.dtype == float else targets, ~hit
    n = int(share)
    sign = np.where(np.arange(n) % 2, 1.0, -1.0)
    lies = size * sign if targets.dtype == float else rng.choice(targets, size=n)
    wild = np.concatenate([values[:5_000], sign[:, None] * np.full((n, values.shape[1]), size), values[5_000:]])
    clean = np.ones(len(wild), dtype=bool)
    clean[5_000 : 5_000 + n] = False
    return wild, np.concatenate([targets[:5_000], lies, targets[5_000:]]), clean


ATTACKS = [("burst", size, n) for n in (20, 50, 200) for size in (1e2, 1e6, 1e300)]
ATTACKS += [("share", size, share) for share in (0.02, 0.05) for size in (1e2, 1e6, 1e300)]
ATTACKS += [("unit", 1e3, 0.0), ("unit", 1e-3, 0.0)]
_BASE: dict[bool, float] = {}


@pytest.mark.slow
@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize(("kind", "size", "share"), ATTACKS)
def test_nothing_poisons_it(kind: str, size: float, share: float, regression: bool) -> None:
    """Over the last 2,000 of 10,000 clean records the error is within a tenth of an untouched model's."""
    rng = RNG(0)
    values = rng.normal(size=(15_000, 8))
    score = values @ RNG(99).normal(size=8) + values[:, 0] * values[:, 1] + 0.3 * rng.normal(size=15_000)
    targets = score if regression else (score > 0).astype(int)
    values = values * [1, 1, 1e-3, 50, 1, 1, 1, 1] + [0, 1_000, 0, 0, 0, 5, 0, 0]
    values[rng.random(values.shape) < 0.2] = np.nan

    def error(x: np.ndarray, y: np.ndarray, clean: np.ndarray) -> float:
        model = MODLRegressor("default") if regression else MODLClassifier("default")
        said = model.predict_learn_many(x, y).values
        loss = np.abs(said[:, 0] - y) if regression else np.array(model.classes)[said.argmax(axis=1)] != y
        return float(loss[clean][-2_000:].mean())

    if regression not in _BASE:
        _BASE[regression] = error(values, targets, np.ones(15_000, dtype=bool))
    assert error(*attacked(values, targets, kind, size, share)) <= 1.1 * _BASE[regression]
