"""The kernels that everything is made of, against NumPy."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from braided.kernels import activations, dense, random, scale
from braided.kernels.encoding import encode_piecewise, knots
from braided.kernels.scale import COUNT, MEAN, SQUARES, STATISTICS, count_in


@pytest.mark.parametrize("n_in", [0, 1, 7, 8, 9, 16, 23])
@pytest.mark.parametrize("n_out", [1, 5, 16, 33])
def test_forward_and_backward_of_any_size_and_sparsity(n_in: int, n_out: int) -> None:
    rng = np.random.default_rng(n_in * 100 + n_out)
    weights, bias = rng.normal(size=(n_in, n_out)), rng.normal(size=n_out)
    index = np.zeros(n_in + 1, dtype=np.int64)
    for share_active in (0.0, 0.5, 1.0):
        x = rng.normal(size=n_in) * (rng.random(n_in) < share_active)
        out = np.zeros(n_out)
        dense.forward(weights, bias, x, index, out)
        np.testing.assert_allclose(out, bias + x @ weights, rtol=1e-12, atol=1e-12)

        gradient, below, stepped = rng.normal(size=n_out), np.ones(n_in), weights.copy()
        dense.backward(stepped, stepped, x, gradient, index, below, False, (0.1, 0.0, 0.0, 0.0))
        np.testing.assert_allclose(below, 1.0 + weights @ gradient, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(stepped, weights - 0.1 * np.outer(x, gradient), rtol=1e-12, atol=1e-12)

        below, stepped = np.ones(n_in), weights.copy()
        dense.backward(stepped, stepped, x, gradient, index, below, True, (0.1, 0.0, 0.0, 0.0))
        np.testing.assert_allclose(below, np.where(x != 0, 1.0 + weights @ gradient, 1.0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(stepped, weights - 0.1 * np.outer(x, gradient), rtol=1e-12, atol=1e-12)


def test_activations_keep_nan_and_act_on_both_slopes() -> None:
    for slope in (0.0, 0.01):
        x = np.array([-2.0, 0.0, 3.0, np.nan, -np.inf])
        activations.relu(x, slope)
        expected = [-0.02, 0.0, 3.0, np.nan, -np.inf] if slope else [0.0, 0.0, 3.0, np.nan, 0.0]
        np.testing.assert_array_equal(x, expected)
        gradient = np.ones(3)
        activations.relu_backward(np.array([-1.0, 0.0, 2.0]), slope, gradient)
        np.testing.assert_array_equal(gradient, [slope, slope, 1.0])


def test_all_finite_sees_every_kind_of_non_finite() -> None:
    for bad in (np.nan, np.inf, -np.inf):
        x = np.ones(37, dtype=np.float32)
        assert activations.all_finite(x)
        x[20] = bad
        assert not activations.all_finite(x)


def run_scale(values: list[float], standardise: bool) -> tuple[list[float], np.ndarray]:
    statistics = np.zeros((1, scale.STATISTICS))
    x, active, seen = np.zeros(1, dtype=np.float32), np.zeros(2, dtype=np.int64), []
    columns = np.zeros(1, dtype=np.int64)
    for value in values:
        row = np.array([value])
        active[-1] = n = scale.encode(row, columns, columns, statistics, standardise, x, active)
        seen.append(float(x[0]) if n else np.nan)
        scale.remember(row, columns, statistics, active[:n])
    return seen, statistics[0]


def test_values_are_standardised_by_the_statistics_that_include_them() -> None:
    values = np.random.default_rng(0).normal(50.0, 3.0, size=200)
    seen, statistics = run_scale(values.tolist(), standardise=True)
    expected = [0.0] + [(values[i] - values[: i + 1].mean()) / values[: i + 1].std() for i in range(1, 200)]
    np.testing.assert_allclose(seen, expected, rtol=1e-5, atol=1e-6)
    assert statistics[scale.COUNT] == 200
    assert statistics[scale.MEAN] == pytest.approx(values.mean())
    assert statistics[scale.SQUARES] == pytest.approx(values.var() * 200)


def test_missing_values_are_not_counted_and_constants_are_zero() -> None:
    seen, statistics = run_scale([5.0, np.nan, 5.0, 5.0], standardise=True)
    np.testing.assert_array_equal(seen, [0.0, np.nan, 0.0, 0.0])
    assert statistics[scale.COUNT] == 3


@pytest.mark.parametrize("place", [0, 4, 9, 10, 60])
def test_an_outlier_is_bounded_wherever_it_stands(place: int) -> None:
    values = np.random.default_rng(1).normal(size=100)
    values[place] = 1e300
    _, statistics = run_scale(values.tolist(), standardise=True)
    deviation = np.sqrt(statistics[scale.SQUARES] / statistics[scale.COUNT])
    assert abs(statistics[scale.MEAN]) < 1.0
    assert deviation < 5.0


def test_unscaled_values_are_passed_on_and_bounded() -> None:
    seen, _ = run_scale([1.0, 300.0, -2.0, *([1.0] * 20), 1e9], standardise=False)
    assert seen[:3] == [1.0, 20.0, -2.0], "20 times the lower median of 1 and 300"
    assert seen[-1] < 2_000.0


def test_draws_are_uniform_and_do_not_depend_on_what_else_is_drawn() -> None:
    small, large = np.zeros((50, 40), dtype=np.float32), np.zeros((80, 60), dtype=np.float32)
    random.fill_uniform(small, 7, 0, 0, 0.5)
    random.fill_uniform(large, 7, 0, 0, 0.5)
    np.testing.assert_array_equal(large[:50, :40], small)
    assert np.abs(large).max() <= 0.5
    assert abs(large.mean()) < 0.01
    assert large.std() == pytest.approx(1 / np.sqrt(12), rel=0.02)
    grown = np.zeros_like(large)
    random.fill_uniform(grown, 7, 50, 40, 0.5)
    assert (grown[:50, :40] == 0).all()
    np.testing.assert_array_equal(grown[50:], large[50:])
    np.testing.assert_array_equal(grown[:50, 40:], large[:50, 40:])


def test_the_encoding_interpolates_between_knots() -> None:
    places = np.array(knots(8))
    assert (np.diff(places) > 0).all()
    shares = np.diff([0.0, *(NormalDist().cdf(t) for t in places[1:-1]), 1.0])
    np.testing.assert_allclose(shares, 1 / 8)
    for z in np.linspace(-4, 4, 161):
        out = np.zeros(9)
        encode_piecewise(z, places, out)
        assert out.sum() == pytest.approx(1.0)
        assert (out > 0).sum() <= 2
        assert out @ places == pytest.approx(min(max(z, places[0]), places[-1]))


@pytest.mark.parametrize(
    ("known", "mean", "shift"), [(500, 0.0, 1_000.0), (500, 1e6, 1_000.0), (2_000, 0.0, 20.0), (2_000, 5.0, -40.0)]
)
def test_a_feature_that_has_changed_for_good_gets_new_statistics(known: int, mean: float, shift: float) -> None:
    rng = np.random.default_rng(0)
    column = np.zeros(STATISTICS)
    for value in rng.normal(mean, 1.0, size=known):
        count_in(value, column, False)
    for value in rng.normal(mean + shift, 1.0, size=200):
        count_in(value, column, False)
    assert column[COUNT] <= 200
    assert column[MEAN] == pytest.approx(mean + shift, abs=0.5)
    assert np.sqrt(column[SQUARES] / column[COUNT]) == pytest.approx(1.0, rel=0.2)


def test_outliers_now_and_then_are_no_change() -> None:
    rng = np.random.default_rng(0)
    column = np.zeros(STATISTICS)
    for i, value in enumerate(rng.normal(size=2_000)):
        count_in(1e6 if i % 300 > 291 else value, column, False)  # eight in a row at most
    assert column[COUNT] == 2_000
    rare = np.zeros(STATISTICS)
    for i in range(5_000):
        count_in(float(i % 500 == 0), rare, False)
    assert rare[COUNT] == 5_000
