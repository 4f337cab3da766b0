"""Sums of errors after targets near the largest double: numbers, and right where they can be."""

from __future__ import annotations

import numpy as np
import pytest

from braided.errors import BraidedError
from braided.evaluation.tally import WINDOW, Tally
from braided.kernels.tally import ANSWER, LARGEST
from braided.records import Predictions

HUGE = 1e308


def targets(n: int, **huge: int) -> np.ndarray:
    values = np.random.default_rng(0).normal(size=n)
    values[list(huge.values())] = HUGE
    return values


def tally_of(values: np.ndarray, chunk: int = 500) -> Tally:
    """What is counted of a model that says 0 always."""
    tally = Tally(["zero"], regression=True)
    for start in range(0, len(values), chunk):
        part = values[start : start + chunk]
        tally.add(Predictions(np.zeros((len(part), 1)), np.zeros((len(part), 1))), part.tolist(), [])
    return tally


def test_one_target_among_many_leaves_the_true_figures() -> None:
    values = targets(10_000, one=3_000)
    tally = tally_of(values)
    exact = values.astype(np.longdouble)
    expected = {
        "mae": np.abs(exact).mean(),
        "rmse": np.sqrt((exact**2).mean()),
        "r2": 1 - (exact**2).sum() / ((exact - exact.mean()) ** 2).sum(),
    }
    for name, value in tally.metrics().items():
        assert value == pytest.approx(float(expected[name]), rel=1e-12), name


@pytest.mark.parametrize("at", [8_998, 9_000, 9_999])
def test_the_window_is_right_as_soon_as_it_has_left(at: int) -> None:
    values = targets(10_000, one=at)
    tally = tally_of(values)
    inside = np.abs(values[-WINDOW:])
    assert tally.window_errors()[ANSWER] == pytest.approx(inside.mean(), rel=1e-12)
    assert tally.window_metrics()["mae"] == pytest.approx(inside.mean(), rel=1e-12)


def test_the_windowed_curve_is_right_before_and_after() -> None:
    values = targets(10_000, one=3_000)
    curve = tally_of(values).loss_curve
    rows = curve.windowed(1_000)
    errors = np.abs(values)
    for records, found in rows[:, : 2 + ANSWER].tolist():
        expected = errors[int(records) - 1_000 : int(records)].sum()
        assert found == pytest.approx(expected, rel=1e-12), records


def test_many_of_them_stay_numbers() -> None:
    values = np.where(np.arange(3_000) % 2, HUGE, -HUGE)
    tally = tally_of(values)
    assert tally.metrics()["rmse"] == pytest.approx(HUGE)
    figures = [*tally.totals, *tally.window_errors(), *tally.window_metrics().values(), *tally.loss_curve.table().flat]
    figures += list(tally.loss_curve.windowed(500).flat)
    assert np.isfinite(np.array(figures, dtype=np.float64)).all()
    assert tally.totals[ANSWER] == LARGEST


def test_chunks_do_not_matter_to_the_last_bit() -> None:
    values = targets(5_000, one=2_222, another=4_100)
    several = [tally_of(values, chunk).state()[1] for chunk in (1, 7, 5_000)]
    for other in several[1:]:
        for name, array in several[0].items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)


def test_sums_that_are_no_number_are_refused_or_left_out() -> None:
    about, own = tally_of(targets(100)).state()
    own["_sums"][3] = np.nan
    tally = Tally(["zero"], regression=True)
    tally.load_state(about, own)
    assert tally.metrics()["rmse"] is None
    classes = Tally(["zero"], regression=False)
    classes.add(Predictions(np.full((4, 2), 0.5), np.zeros((4, 1))), [0, 1, 0, 1], [0, 1])
    about, own = classes.state()
    own["_sums"][2] = np.nan
    with pytest.raises(BraidedError, match="array '_sums' holds nan"):
        Tally(["zero"], regression=False).load_state(about, own)
