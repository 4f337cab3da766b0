"""The Mondrian forest: its trees' own rules, the mean over all prunings, and what it can learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from river import forest as river_forest

from braided import MODLClassifier, MODLRegressor
from braided.learners import ForestConfig, ForestValueConfig, MondrianForest, build

TIME, WEIGHT, TREE_WEIGHT, RECORDS = range(4)
FEATURE, THRESHOLD, LEFT, RIGHT, PARENT = range(5)
Floats = NDArray[np.float64]


def checkers(n: int, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """Four by four squares in turns: nothing that a line could tell."""
    values = np.random.default_rng(seed).uniform(-2, 2, size=(n, 2))
    return values, np.floor(values).astype(int).sum(axis=1) % 2


def taught(values: Floats, labels: NDArray[np.int64], config: ForestConfig, classes: int = 2) -> MondrianForest:
    learner = build(config, seed=5, place=0)
    assert isinstance(learner, MondrianForest)
    learner.grow(values.shape[1], classes)
    unused = np.zeros(classes, dtype=np.float32)
    for x, y in zip(values.astype(np.float32), labels.tolist(), strict=True):
        learner.learn(x, ~np.isnan(x), y, unused)
    return learner


def test_a_tree_is_one_and_its_figures_add_up() -> None:
    learner = taught(*checkers(400), ForestConfig(trees=3, nodes=300))
    state = learner.state()
    figures, links, counts, ranges = (state[name] for name in ("figures", "links", "counts", "ranges"))
    for tree in range(3):
        first, size = 300 * tree, int(state["sizes"][tree])
        assert links[first, PARENT] == -1
        assert figures[first, RECORDS] == 400
        seen = 0
        for node in range(first, first + size):
            np.testing.assert_allclose(counts[node].sum(), figures[node, RECORDS], rtol=1e-4)
            if links[node, FEATURE] < 0:
                assert figures[node, TREE_WEIGHT] == pytest.approx(figures[node, WEIGHT])
                continue
            left, right = int(links[node, LEFT]), int(links[node, RIGHT])
            seen += 2
            assert links[left, PARENT] == links[right, PARENT] == node
            assert figures[left, TIME] == figures[right, TIME] > figures[node, TIME]
            np.testing.assert_allclose(counts[left] + counts[right], counts[node], atol=1e-3)
            j, at = int(links[node, FEATURE]), np.float32(links[node, THRESHOLD])
            assert ranges[2 * left + 1, j] <= at <= ranges[2 * right, j]
            both = figures[left, TREE_WEIGHT] + figures[right, TREE_WEIGHT]
            assert figures[node, TREE_WEIGHT] == pytest.approx(np.logaddexp(figures[node, WEIGHT], both) - np.log(2))
        assert seen == size - 1


def prunings(links: Floats, node: int) -> list[frozenset[int]]:
    """All sets of leaves that remain when subtrees are cut off."""
    if links[node, FEATURE] < 0:
        return [frozenset([node])]
    pairs = itertools.product(*(prunings(links, int(links[node, side])) for side in (LEFT, RIGHT)))
    return [frozenset([node]), *(one | other for one, other in pairs)]


def weight_of(links: Floats, figures: Floats, node: int, kept: frozenset[int]) -> float:
    """Prior times likelihood of a pruning: half for each choice that was free."""
    if links[node, FEATURE] < 0:
        return float(np.exp(figures[node, WEIGHT]))
    if node in kept:
        return float(0.5 * np.exp(figures[node, WEIGHT]))
    left, right = int(links[node, LEFT]), int(links[node, RIGHT])
    return 0.5 * weight_of(links, figures, left, kept) * weight_of(links, figures, right, kept)


def test_a_tree_says_the_mean_over_all_its_prunings() -> None:
    values, labels = checkers(12)
    learner = taught(values, labels, ForestConfig(trees=1, nodes=11))
    state = learner.state()
    figures, links, counts = (state[name].astype(float) for name in ("figures", "links", "counts"))
    found = prunings(links, 0)
    assert len(found) > 5
    weights = np.array([weight_of(links, figures, 0, kept) for kept in found])
    for x in values[:6].astype(np.float32):
        said = []
        for kept in found:
            node = 0
            while node not in kept:
                node = int(links[node, LEFT if x[int(links[node, FEATURE])] <= links[node, THRESHOLD] else RIGHT])
            said.append((counts[node] + 0.5) / (figures[node, RECORDS] + 1.0))
        expected = np.log(0.999 * (weights @ np.array(said)) / weights.sum() + 0.0005)
        np.testing.assert_allclose(learner.scores(x, np.ones(2, dtype=bool)), expected - expected.mean(), atol=1e-4)


def errors(config: ForestConfig, values: Floats, labels: NDArray[np.int64]) -> int:
    model = MODLClassifier(learners=(config,))
    said = model.predict_learn_many(values, labels).predictions.argmax(axis=1)
    return int((np.array(model.classes)[said] != labels).sum())


def errors_of_river(values: Floats, labels: NDArray[np.int64]) -> int:
    model, wrong = river_forest.AMFClassifier(n_estimators=10, seed=1), 0
    for row, label in zip(values.tolist(), labels.tolist(), strict=True):
        x = dict(enumerate(row))
        wrong += model.predict_one(x) != label
        model.learn_one(x, label)
    return wrong


@pytest.mark.parametrize("seed", range(2))
def test_it_is_about_as_good_as_rivers(seed: int) -> None:
    values, labels = checkers(2_000, seed)
    assert errors(ForestConfig(), values, labels) < 1.15 * errors_of_river(values, labels)


def test_a_stream_that_begins_with_one_class_is_learned_all_the_same() -> None:
    """A leaf of one class gets a wide range; what comes into it later must split it."""
    values, labels = checkers(2_000)
    first = np.flatnonzero(labels == 0)[:40]
    order = np.concatenate([first, np.setdiff1d(np.arange(2_000), first)])
    one_first = errors(ForestConfig(), values[order], labels[order])
    assert one_first < 1.3 * errors(ForestConfig(), values, labels)
    assert one_first < 0.8 * errors_of_river(values[order], labels[order])


def test_at_its_bound_it_goes_on_learning_without_growing() -> None:
    values, labels = checkers(1_000)
    learner = taught(values, labels, ForestConfig(trees=2, nodes=51))
    assert learner.state()["sizes"].tolist() == [51, 51]
    before = learner.state()
    learner.learn(values[0].astype(np.float32), np.ones(2, dtype=bool), int(labels[0]), np.zeros(2, dtype=np.float32))
    after = learner.state()
    assert after["sizes"].tolist() == [51, 51]
    assert after["figures"][0, RECORDS] == before["figures"][0, RECORDS] + 1
    assert all(after[name].shape == before[name].shape for name in after)


def test_with_a_feature_missing_both_sides_of_its_splits_are_heard() -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, size=(1_500, 1))
    learner = taught(values, (values[:, 0] > 0.5).astype(int), ForestConfig())
    known = np.exp(learner.scores(np.array([0.9], dtype=np.float32), np.ones(1, dtype=bool)))
    unknown = np.exp(learner.scores(np.array([0.9], dtype=np.float32), np.zeros(1, dtype=bool)))
    assert known[1] / known.sum() > 0.9
    assert 0.1 < unknown[1] / unknown.sum() < 0.4, "a quarter of all records are of the second class"


def test_numbers() -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(-2, 2, size=(3_000, 2))
    target = np.floor(values[:, 0]) * np.sign(values[:, 1])
    model = MODLRegressor(learners=(ForestValueConfig(),))
    said = model.predict_learn_many(values, target).predictions[:, 0]
    assert np.abs(said - target)[1_500:].mean() < 0.3 * np.abs(target - np.median(target)).mean()
