"""The alarm when an error jumps: raised where it should be, quiet where not, the same after a recovery."""

from __future__ import annotations

import numpy as np
import pytest

from braided.evaluation.alarm import ErrorAlarm

RANDOM = np.random.default_rng(0)


def wrong(n: int, share: float) -> np.ndarray:
    """Errors of a classification."""
    return (RANDOM.random(n) < share).astype(np.float64)


def off(n: int, scale: float) -> np.ndarray:
    """Absolute errors of a regression."""
    return np.abs(RANDOM.normal(size=n)) * scale


def records_to_alarm(alarm: ErrorAlarm, errors: np.ndarray) -> int | None:
    before = alarm.raised
    for i, error in enumerate(errors, start=1):
        alarm.add(np.array([error]))
        if alarm.raised > before:
            return i
    return None


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.5])
def test_a_steady_error_is_none(share: float) -> None:
    alarm = ErrorAlarm(regression=False)
    alarm.add(wrong(100_000, share))
    assert alarm.raised == 0


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3])
def test_swapped_labels_are_noticed_within_a_window(share: float) -> None:
    alarm = ErrorAlarm(regression=False)
    alarm.add(wrong(20_100, share))
    found = records_to_alarm(alarm, wrong(1_000, 1 - share))
    assert found is not None
    assert alarm.reason is not None
    assert alarm.reason.startswith("the error rate of the last 1,000 records is ")


def test_units_of_a_target_are_noticed_and_one_absurd_target_is_not() -> None:
    alarm = ErrorAlarm(regression=True)
    alarm.add(off(20_000, 3.0))
    absurd = off(2_000, 3.0)
    absurd[[17, 900]] = 1e308
    alarm.add(absurd)
    assert alarm.raised == 0
    found = records_to_alarm(alarm, off(1_000, 30.0))
    assert found is not None
    assert found <= 500
    assert alarm.reason is not None
    assert "mean absolute error" in alarm.reason
    assert "inf" not in alarm.reason


def test_it_ends_when_the_error_comes_back() -> None:
    alarm = ErrorAlarm(regression=False)
    alarm.add(wrong(10_000, 0.1))
    alarm.add(wrong(2_000, 0.6))
    assert alarm.reason is not None
    alarm.add(wrong(1_000, 0.1))
    assert alarm.reason is None
    alarm.add(wrong(10_000, 0.1))
    assert alarm.raised == 1


def test_it_ends_when_the_jump_has_become_what_is_usual() -> None:
    alarm = ErrorAlarm(regression=False)
    alarm.add(wrong(10_000, 0.1))
    alarm.add(wrong(9_000, 0.5))
    assert alarm.reason is not None
    alarm.add(wrong(20_000, 0.5))
    assert alarm.reason is None
    assert alarm.raised == 1
    assert records_to_alarm(alarm, wrong(1_000, 0.95)) is not None


@pytest.mark.parametrize("regression", [False, True])
def test_chunks_and_recoveries_do_not_matter(regression: bool) -> None:
    make = off if regression else wrong
    errors = np.concatenate([make(6_100, 0.1), make(3_050, 0.9), make(4_000, 0.1)])
    straight, chunked = ErrorAlarm(regression), ErrorAlarm(regression)
    straight.add(errors)
    start = 0
    while start < errors.size:
        size = int(RANDOM.integers(1, 700))
        chunked.add(errors[start : start + size])
        start += size
        recovered = ErrorAlarm(regression)
        recovered.load_state(chunked.state())
        chunked = recovered
    assert straight.raised == 1
    for name, array in straight.state().items():
        np.testing.assert_array_equal(array, chunked.state()[name], err_msg=name)
