"""The last mixture is never far behind the best of its experts, whatever comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braided.combiners import Aggregate, KalmanTanh
from braided.kernels import aggregation
from braided.kernels.aggregation import CLASS_SHARE, LARGEST, LAST, MORE, REGRET, SAYS, SQUARES

NOTHING, EVERYTHING = np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.bool_)
LEARNERS, CLASSES = 3, 3


def of_classes() -> Aggregate:
    combiner = Aggregate(regression=False)
    combiner.grow(0, CLASSES, LEARNERS)
    return combiner


def said(combiner: Aggregate) -> Any:
    """The experts' probabilities of the record that was combined last."""
    start = combiner.shape[-2] + combiner.shape[-1]
    return combiner.double[start:-1].reshape(LEARNERS + MORE, CLASSES)


Scores = Callable[[int, Any, np.random.Generator], Any]


def loud(t: int, weights: Any, rng: np.random.Generator) -> Any:
    return rng.normal(size=(LEARNERS, CLASSES)) * 20.0


def by_turns(t: int, weights: Any, rng: np.random.Generator) -> Any:
    """Each learner is right for fifty records."""
    scores = np.zeros((LEARNERS, CLASSES))
    scores[t // 50 % LEARNERS, t % CLASSES] = 5.0
    return scores


def against_the_weights(t: int, weights: Any, rng: np.random.Generator) -> Any:
    """The learner that is believed most is sure of what does not come."""
    scores = np.tile(np.eye(CLASSES)[t % CLASSES] * 3.0, (LEARNERS, 1))
    scores[weights[1 : 1 + LEARNERS].argmax()] *= -1.0
    return scores


@pytest.mark.parametrize("scores_of", [loud, by_turns, against_the_weights])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1_000))
def test_the_log_loss_is_within_its_bound(scores_of: Scores, seed: int) -> None:
    combiner, rng, n = of_classes(), np.random.default_rng(seed), 400
    first, losses, ours = combiner.shares, np.zeros(LEARNERS + MORE), 0.0
    for t in range(n):
        scores = scores_of(t, combiner.shares, rng).astype(np.float32)
        p = combiner.combine(NOTHING, EVERYTHING, scores)
        assert p.sum() == pytest.approx(1.0)
        losses -= np.log(np.maximum(said(combiner)[:, t % CLASSES], aggregation.MIN_PROBABILITY))
        ours -= np.log(max(p[t % CLASSES], aggregation.MIN_PROBABILITY))
        combiner.gradients(NOTHING, EVERYTHING, scores, t % CLASSES, p)
    assert ours <= (losses + np.log(1.0 / first)).min() + n * np.log(1.0 / (1.0 - CLASS_SHARE)) + 1e-6


def test_records_that_weigh_more_keep_the_bound() -> None:
    combiner, rng, heaviest = of_classes(), np.random.default_rng(0), 50.0
    first, losses, ours, price = combiner.shares, np.zeros(LEARNERS + MORE), 0.0, 0.0
    for t in range(600):
        label = int(rng.random() < 0.05)
        weight = heaviest if label or t == 0 else 1.0  # the first one tells how much a record may weigh
        scores = (rng.normal(size=(LEARNERS, CLASSES)) * [[1.0], [3.0], [9.0]]).astype(np.float32)
        p = combiner.combine(NOTHING, EVERYTHING, scores)
        losses -= weight * np.log(np.maximum(said(combiner)[:, label], aggregation.MIN_PROBABILITY))
        ours -= weight * np.log(p[label])
        price -= heaviest * np.log(1.0 - CLASS_SHARE * weight / heaviest)
        combiner.gradients(NOTHING, EVERYTHING, scores, label, p, weight=weight)
    assert ours <= (losses + heaviest * np.log(1.0 / first)).min() + price + 1e-6


def test_following_another_expert_has_its_price_and_no_more() -> None:
    combiner, ours, theirs = of_classes(), 0.0, 0.0
    for t in range(600):
        scores = np.zeros((LEARNERS, CLASSES), dtype=np.float32)
        scores[t // 300, t % 2] = 8.0
        p = combiner.combine(NOTHING, EVERYTHING, scores)
        ours, theirs = ours - np.log(p[t % 2]), theirs - np.log(said(combiner)[1 + t // 300, t % 2])
        combiner.gradients(NOTHING, EVERYTHING, scores, t % 2, p)
    first = combiner.shares.size and 0.1 / (LEARNERS + MORE - 1)
    price = np.log(1.0 / first) + np.log(1.0 / (CLASS_SHARE * first)) + 600 * np.log(1.0 / (1.0 - CLASS_SHARE))
    assert ours <= theirs + price


def test_experts_are_what_they_are_said_to_be() -> None:
    combiner, together = of_classes(), KalmanTanh(regression=False)
    together.grow(0, CLASSES, LEARNERS)
    rng = np.random.default_rng(0)
    labels = [0, 0, 1, 1, 1, 2]
    for label in labels:
        scores = rng.normal(size=(LEARNERS, CLASSES)).astype(np.float32)
        p, q = (one.combine(NOTHING, EVERYTHING, scores) for one in (combiner, together))
        experts = said(combiner).copy()
        np.testing.assert_allclose(experts[0], q, rtol=1e-12)
        softmax = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(experts[1 : 1 + LEARNERS], softmax, rtol=1e-5)
        np.testing.assert_allclose(p, combiner.shares @ experts, rtol=1e-12)
        gradients = combiner.gradients(NOTHING, EVERYTHING, scores, label, p)
        np.testing.assert_allclose(gradients, softmax - np.eye(CLASSES)[label], atol=1e-6)
        together.gradients(NOTHING, EVERYTHING, scores, label, q)
    combiner.combine(NOTHING, EVERYTHING, scores)
    frequencies = (np.array([2, 3, 1]) + 1 / 3) / 7
    np.testing.assert_allclose(said(combiner)[-2], frequencies)
    stays = 4 / 7  # 3 of the 5 that had one before them stayed; with one of each on top
    others = frequencies[:2] / frequencies[:2].sum() * (1 - stays)
    np.testing.assert_allclose(said(combiner)[-1], [*others, stays], rtol=1e-6)


def test_a_learner_that_says_nothing_stands_for_what_all_say_together() -> None:
    combiner, usable = of_classes(), np.array([True, False, True])
    combiner.combine(NOTHING, EVERYTHING, np.eye(3, dtype=np.float32), usable)
    np.testing.assert_array_equal(said(combiner)[2], said(combiner)[0])


def of_numbers(n: int) -> Any:
    combiner = Aggregate(regression=True)
    combiner.grow(0, 1, n)
    return combiner.experts


def follow(numbers: Any, says: Any, y: float, doubtful: bool = False) -> float:
    experts = aggregation.experts_of(numbers)
    experts[:, SAYS] = [0.0, *says, 0.0, numbers[LAST]]
    answer: float = aggregation.mean_value(numbers)
    aggregation.learn_value(numbers, y, 1.0, doubtful, 0.0)
    return answer


def misleading(kind: str, numbers: Any, t: int, rng: np.random.Generator) -> tuple[list[float], float]:
    """What two learners say, and a target, chosen to cost as much as possible."""
    weights = aggregation.experts_of(numbers)[:, aggregation.WEIGHT]
    if kind == "heavy tails":
        return rng.standard_cauchy(2).tolist(), float(rng.standard_cauchy())
    if kind == "scales":
        return [10.0 ** rng.integers(-6, 7), 0.0], float(10.0 ** rng.integers(-6, 7) * rng.choice([-1, 1]))
    if kind == "against the weights":
        return [1.0, -1.0], -1.0 if weights[1] > weights[2] else 1.0
    return [1.0, -1.0], 1.0 if t // 100 % 2 else -1.0


@pytest.mark.parametrize("kind", ["heavy tails", "scales", "against the weights", "by turns"])
@pytest.mark.parametrize("seed", range(3))
def test_the_regret_of_numbers_is_within_its_bound(kind: str, seed: int) -> None:
    numbers, rng = of_numbers(2), np.random.default_rng(seed)
    experts = aggregation.experts_of(numbers)
    priors, largest = experts[:, aggregation.WEIGHT].copy(), np.zeros(len(experts))
    with np.errstate(all="ignore"):
        for t in range(600):
            follow(numbers, *misleading(kind, numbers, t, rng))
            largest = np.maximum(largest, experts[:, LARGEST])
            price = np.sqrt(experts[:, SQUARES] * np.log(1 / priors)) + largest * np.log(1 / priors)
            assert (experts[:, REGRET] <= 4.0 * price + 1e-9).all(), t


def test_an_expert_that_is_exact_is_followed_exactly_whatever_came_before() -> None:
    numbers, rng = of_numbers(2), np.random.default_rng(0)
    for t in range(1_500):
        y = float(100.0 * rng.normal())
        off = abs(follow(numbers, [y + (30.0 if t < 100 else 1e-6), y + 10.0 * rng.normal()], y) - y)
    assert off < 5.0 * aggregation.VALUE_SHARE * abs(y)  # what is passed round


def test_a_target_from_elsewhere_does_not_undo_what_is_known() -> None:
    numbers, rng, off = of_numbers(2), np.random.default_rng(0), []
    for t in range(1_000):
        y = float(rng.normal())
        answer = follow(numbers, [y + 0.1 * rng.normal(), y + rng.normal()], 1e9 if t == 500 else y, t == 500)
        off.append(abs(answer - y))
    assert np.mean(off[501:600]) < 1.2 * np.mean(off[400:500]) + 0.01
