"""The plain guesses, worked out by hand: what is usual and what was last, of the labels that have come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from braided import MODLClassifier, MODLRegressor, record
from braided.evaluation import Evaluation, History
from braided.kernels.tally import LAST, USUAL
from braided.learners import LinearConfig, LogisticConfig
from braided.records import Records

LABELS = ["a", "a", "b", "b", "b", "a"]
VALUES = [1.0, 3.0, 3.0, 7.0]


def evaluation(labels: list[Any], delay: int = 0) -> Evaluation:
    number = isinstance(next(label for label in labels if label is not None), float)
    model = MODLRegressor(learners=(LinearConfig(),)) if number else MODLClassifier(learners=(LogisticConfig(),))
    return Evaluation(model, delay=delay)


def observe(into: Evaluation, labels: list[Any], size: int) -> None:
    for start in range(0, len(labels), size):
        part = labels[start : start + size]
        into.observe(Records(("x",), np.ones((len(part), 1)), part))


def lost(labels: list[Any], delay: int = 0, size: int = 100) -> tuple[list[float], list[float]]:
    """What each guess has lost up to each record with a label."""
    done = evaluation(labels, delay)
    observe(done, labels, size)
    done.finish()
    usual, last = done.history.curve()[:, [1 + USUAL, 1 + LAST]].T.tolist()
    return usual, last


@pytest.mark.parametrize("size", [1, 2, 6])
def test_labels_by_hand(size: int) -> None:
    # Guessed are: -, a, a, a, a (of equals the one that was so first), b; and -, a, a, b, b, b.
    assert lost(LABELS, size=size) == ([1, 1, 2, 3, 4, 5], [1, 1, 2, 2, 2, 3])
    assert lost(LABELS, delay=1, size=size) == lost(LABELS), "one record late is before the next"
    # Guessed are: -, -, a, a, a, a (of two each); and -, -, a, a, b, b.
    assert lost(LABELS, delay=2, size=size) == ([1, 2, 3, 4, 5, 5], [1, 2, 3, 4, 4, 5])
    assert lost(LABELS, delay=6, size=size) == ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]), "nothing has come"


@pytest.mark.parametrize("size", [1, 3, 4])
def test_values_by_hand(size: int) -> None:
    usual, last = lost(VALUES, size=size)
    # Guessed are: 0, 1, 2, 7/3; and 0, 1, 3, 3.
    assert usual == pytest.approx([1, 3, 4, 4 + 14 / 3])
    assert last == [1, 3, 3, 7]
    # Guessed are: 0, 0, 1, 2; and 0, 0, 1, 3.
    assert lost(VALUES, delay=2, size=size) == ([1, 4, 6, 11], [1, 4, 6, 10])


@pytest.mark.parametrize("size", [1, 2, 6])
def test_labels_come_while_records_without_one_pass(size: int) -> None:
    labels = ["a", None, None, "b", None, "a"]
    # Guessed are for the first, fourth and sixth: -, a, b without delay; two records late the same by then.
    for delay in (0, 2):
        assert lost(labels, delay, size) == ([1, 2, 2], [1, 2, 3])
    # Before the fourth record the label of the first has come, before the sixth that of the third, which has none.
    assert lost(labels, 3, size) == ([1, 2, 2], [1, 2, 2])


@pytest.mark.parametrize("delay", [0, 3, 70])
@pytest.mark.parametrize("regression", [False, True])
def test_chunks_and_breaking_off_change_nothing(delay: int, regression: bool) -> None:
    """The reference looks at all labels that have come, anew for each record."""
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 4, 200)
    labels: list[Any] = [None if rng.random() < 0.2 else float(k) if regression else f"c{k}" for k in drawn]
    expected = np.zeros(2)
    for t, label in enumerate(labels):
        come = [one for one in labels[: max(t + 1 - max(delay, 1), 0)] if one is not None]
        if label is None:
            continue
        if regression:
            guesses = (sum(come) / len(come), come[-1]) if come else (0.0, 0.0)
            expected += np.abs(np.array(guesses) - label)
        else:
            frequent = None
            for n, one in enumerate(come, start=1):
                frequent = one if come[:n].count(one) > come[:n].count(frequent) else frequent
            expected += [frequent != label, (come[-1] if come else None) != label]
    straight = evaluation(labels, delay)
    observe(straight, labels, 200)
    np.testing.assert_allclose(straight.history.tally.totals[[USUAL, LAST]], expected)
    broken = evaluation(labels, delay)
    observe(broken, labels[:90], 7)
    resumed = Evaluation(broken.model, History.restore(*broken.history.state()), delay)
    resumed.load_state(*broken.state())
    observe(resumed, labels[90:], 1)
    np.testing.assert_array_equal(resumed.history.curve()[:, 1:4], straight.history.curve()[:, 1:4])


def test_the_end_of_a_late_stream_is_known_in_the_next() -> None:
    model = MODLClassifier(learners=(LogisticConfig(),))
    first = record(model, [({"x": 1.0}, label) for label in "abb"], delay=2)
    assert first.tally.totals[[USUAL, LAST]].tolist() == [3, 3]
    again = record(model, [({"x": 1.0}, "b")], into=first, delay=2)
    assert again.tally.totals[[USUAL, LAST]].tolist() == [3, 3], (
        "b is the most frequent of the first stream and its last"
    )
