"""The Mondrian forest: its trees' own rules, the mean over all prunings, and what it can learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from river import forest as river_forest

from braided import MODLClassifier, MODLRegressor
from braided.learners import ForestConfig, ForestValueConfig, MondrianForest, build

FEATURE, THRESHOLD, LEFT, RIGHT, PARENT, ODDS, RECORDS, TIME, COUNTS = range(9)
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
    ends = np.cumsum(state["sizes"]).astype(int)
    assert len(state["nodes"]) == ends[-1] > 300
    for nodes, ranges in zip(
        np.split(state["nodes"], ends[:-1]), np.split(state["ranges"], 2 * ends[:-1]), strict=True
    ):
        assert nodes[0, PARENT] == -1
        assert nodes[0, RECORDS] == 400
        seen = 0
        for place, node in enumerate(nodes):
            np.testing.assert_allclose(node[COUNTS:].sum(), node[RECORDS], rtol=1e-4)
            if node[FEATURE] < 0:
                continue
            left, right = int(node[LEFT]), int(node[RIGHT])
            seen += 2
            assert nodes[left, PARENT] == nodes[right, PARENT] == place
            assert nodes[left, TIME] == nodes[right, TIME] > node[TIME]
            np.testing.assert_allclose(nodes[left, COUNTS:] + nodes[right, COUNTS:], node[COUNTS:], atol=1e-3)
            j, at = int(node[FEATURE]), node[THRESHOLD]
            assert ranges[2 * left + 1, j] <= at <= ranges[2 * right, j]
            for child in (left, right):
                assert (ranges[2 * child] >= ranges[2 * place]).all(), "a range holds those below it"
                assert (ranges[2 * child + 1] <= ranges[2 * place + 1]).all()
        assert seen == len(nodes) - 1


def prunings(nodes: Floats, node: int) -> list[frozenset[int]]:
    """All sets of leaves that remain when subtrees are cut off."""
    if nodes[node, FEATURE] < 0:
        return [frozenset([node])]
    pairs = itertools.product(*(prunings(nodes, int(nodes[node, side])) for side in (LEFT, RIGHT)))
    return [frozenset([node]), *(one | other for one, other in pairs)]


def weight_of(nodes: Floats, node: int, kept: frozenset[int]) -> float:
    """Prior times likelihood of a pruning, against that of the whole tree."""
    if nodes[node, FEATURE] < 0:
        return 1.0
    odds = float(nodes[node, ODDS])
    if node in kept:
        return odds / (1.0 + odds)
    left, right = int(nodes[node, LEFT]), int(nodes[node, RIGHT])
    return weight_of(nodes, left, kept) * weight_of(nodes, right, kept) / (1.0 + odds)


def test_a_tree_says_the_mean_over_all_its_prunings() -> None:
    values, labels = checkers(12)
    learner = taught(values, labels, ForestConfig(trees=1, nodes=11, inputs="plain"))
    nodes = learner.state()["nodes"].astype(float)
    found = prunings(nodes, 0)
    assert len(found) > 5
    weights = np.array([weight_of(nodes, 0, kept) for kept in found])
    assert weights.sum() == pytest.approx(1.0)
    for x in values[:6].astype(np.float32):
        said = []
        for kept in found:
            node = 0
            while node not in kept:
                node = int(nodes[node, LEFT if x[int(nodes[node, FEATURE])] <= nodes[node, THRESHOLD] else RIGHT])
            said.append((nodes[node, COUNTS:] + 0.5) / (nodes[node, RECORDS] + 1.0))
        expected = np.log(0.999 * (weights @ np.array(said)) + 0.0005)
        np.testing.assert_allclose(learner.scores(x, np.ones(2, dtype=bool)), expected - expected.mean(), atol=1e-4)


def log_weights(nodes: Floats, own: Floats, node: int) -> float:
    """log W of a node, from the log weights of all nodes by themselves."""
    if nodes[node, FEATURE] < 0:
        return float(own[node])
    both = sum(log_weights(nodes, own, int(nodes[node, side])) for side in (LEFT, RIGHT))
    return float(np.logaddexp(own[node], both) - np.log(2))


def start_from_odds(nodes: Floats, own: Floats, node: int) -> None:
    """Log weights of all nodes by themselves that give their odds, those of leaves 0."""
    if nodes[node, FEATURE] >= 0:
        sides = [int(nodes[node, side]) for side in (LEFT, RIGHT)]
        for side in sides:
            start_from_odds(nodes, own, side)
        own[node] = np.log(nodes[node, ODDS]) + sum(log_weights(nodes, own, side) for side in sides)


def test_odds_are_those_of_the_weights_that_they_stand_for() -> None:
    """At the bound of its nodes a tree stays as it is: its weights are followed here one by one."""
    values, labels = checkers(300)
    learner = taught(values[:100], labels[:100], ForestConfig(trees=1, nodes=15, inputs="plain"))
    before = learner.state()["nodes"].astype(float)
    gained = np.zeros(len(before))
    counts = before[:, COUNTS:].copy()
    for x, y in zip(values[100:].astype(np.float32), labels[100:].tolist(), strict=True):
        node = 0
        while True:
            gained[node] += np.log((counts[node, y] + 0.5) / (counts[node].sum() + 1.0))
            counts[node, y] += 1
            if before[node, FEATURE] < 0:
                break
            node = int(before[node, LEFT if x[int(before[node, FEATURE])] <= before[node, THRESHOLD] else RIGHT])
        learner.learn(x, np.ones(2, dtype=bool), y, np.zeros(2, dtype=np.float32))
    after = learner.state()["nodes"]
    own = np.zeros(len(before))
    start_from_odds(before, own, 0)
    own += gained
    for node in np.flatnonzero(before[:, FEATURE] >= 0):
        both = sum(log_weights(before, own, int(before[node, side])) for side in (LEFT, RIGHT))
        expected = np.clip(own[node] - both, -12 * np.log(10), 12 * np.log(10))
        assert np.log(after[node, ODDS]) == pytest.approx(expected, abs=1e-3)


def errors(config: ForestConfig, values: Floats, labels: NDArray[np.int64]) -> int:
    model = MODLClassifier(learners=(config,), combiner="kalman")
    said = model.predict_learn_many(values, labels).values.argmax(axis=1)
    return int((np.array(model.classes)[said] != labels).sum())


def errors_of_river(values: Floats, labels: NDArray[np.int64]) -> int:
    model, wrong = river_forest.AMFClassifier(n_estimators=10, seed=1), 0
    for row, label in zip(values.tolist(), labels.tolist(), strict=True):
        x = dict(enumerate(row))
        wrong += model.predict_one(x) != label
        model.learn_one(x, label)
    return wrong


@pytest.mark.parametrize("seed", range(2))
def test_it_is_as_good_as_rivers(seed: int) -> None:
    values, labels = checkers(2_000, seed)
    assert errors(ForestConfig(), values, labels) < 1.02 * errors_of_river(values, labels)


def test_thresholds_stay_where_they_are_while_standardised_values_move() -> None:
    values, labels = checkers(2_000)
    values = values * [1e-3, 1e4] + [5.0, -1e5]
    steady = errors(ForestConfig(), values, labels)
    assert steady < 0.85 * errors(ForestConfig(inputs="plain"), values, labels)
    model = MODLClassifier(learners=(ForestConfig(),))
    model.learn_many(values, labels)
    count, _, squares = model.braid.learners[0].state()["frames"].T
    np.testing.assert_array_equal(count, 2_000)
    unit = np.abs(values[1] - values[0])
    np.testing.assert_allclose(np.sqrt(squares / count), values.std(axis=0) / unit, rtol=1e-3)


def test_a_range_that_is_seen_square_by_square_is_learned_as_it_is() -> None:
    """Each of the first squares lies far outside of what came before; River's forest sees values within 0 and 1."""
    rng = np.random.default_rng(0)
    corners = np.repeat(np.array([[7, 4], [2, 0], [0, 6], [5, 2]]), 250, axis=0)
    squares = np.concatenate([corners, rng.integers(0, 8, size=(2_000, 2))])
    values, labels = (squares + rng.random(squares.shape)) / 8, squares[:, 0] * 3 % 8
    wrong = errors(ForestConfig(), values, labels)
    assert wrong < 1.05 * errors_of_river(values, labels)
    assert wrong < 0.5 * errors(ForestConfig(inputs="steady"), values, labels)
    model = MODLClassifier(learners=(ForestConfig(),))
    model.learn_many(values, labels)
    frame, unit = (model.braid.learners[0].state()[name] for name in ("frames", "units"))
    np.testing.assert_allclose(unit[:, 0], np.abs(values[1] - values[0]), rtol=1e-5)
    np.testing.assert_allclose(frame[:, 1], (values - values[0]).mean(axis=0) / unit[:, 0], rtol=1e-4)


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
    assert after["nodes"][0, RECORDS] == before["nodes"][0, RECORDS] + 1
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
    said = model.predict_learn_many(values, target).values[:, 0]
    assert np.abs(said - target)[1_500:].mean() < 0.3 * np.abs(target - np.median(target)).mean()


def test_what_it_knows_holds_when_there_are_too_many_features_for_the_input_stage() -> None:
    """Values are put back into the same units before and after."""
    values, labels = checkers(2_000)
    model = MODLClassifier(learners=(ForestConfig(),), combiner="kalman")
    names = ["a", "b"]
    model.learn_many(values, labels, names)
    model.learn_many(np.ones((1, 300)), labels[:1], [f"new {j}" for j in range(300)])
    fresh, truth = checkers(500)
    said = np.array(model.classes)[model.predict_proba_many(fresh, names).argmax(axis=1)]
    assert (said != truth).mean() < 0.1
