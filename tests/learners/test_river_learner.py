"""Any River model in the sum."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import compose, dummy, linear_model, naive_bayes, preprocessing, tree

from braided import BraidedError, MODLClassifier, MODLRegressor, presets
from braided.learners import LogisticConfig, RiverLearner
from conftest import as_records, made_up

UNUSED = np.zeros(2, dtype=np.float32)


def band(n: int = 1_500) -> tuple[Any, Any]:
    """A tree's task: whether a value lies in the middle."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, 2))
    return values, (np.abs(values[:, 0]) < 0.7).astype(int)


def test_the_scores_are_the_models_probabilities() -> None:
    by_hand = naive_bayes.GaussianNB()
    learner, log = RiverLearner(naive_bayes.GaussianNB()), RiverLearner(naive_bayes.GaussianNB(), scores="log")
    for each in (learner, log):
        each.grow(3, 2)
    rng = np.random.default_rng(0)
    for i in range(30):
        mask = rng.random(3) < 0.7
        x = np.where(mask, rng.normal(size=3) + i % 2, 0.0).astype(np.float32)
        record = {int(j): float(x[j]) for j in np.flatnonzero(mask)}
        known = by_hand.predict_proba_one(record)
        wanted = [known.get(0, 0.0), known.get(1, 0.0)]
        np.testing.assert_allclose(learner.scores(x, mask), wanted, rtol=1e-6)
        np.testing.assert_allclose(log.scores(x, mask), [math.log(max(p, 1e-6)) for p in wanted], rtol=1e-5)
        by_hand.learn_one(record, i % 2)
        for each in (learner, log):
            each.learn(x, mask, i % 2, UNUSED)


def test_a_tree_lends_the_sum_what_a_linear_learner_lacks() -> None:
    values, labels = band()
    fast = LogisticConfig(prior_variance=0.1)
    model = MODLClassifier(learners=[fast, RiverLearner(tree.HoeffdingTreeClassifier(grace_period=50))])
    said = model.predict_learn_many(values, labels).values.argmax(axis=1)
    alone = MODLClassifier(learners=[fast]).predict_learn_many(values, labels).values.argmax(axis=1)
    truth = np.array([model.classes.index(label) for label in labels.tolist()])
    assert (said != truth)[750:].mean() < 0.6 * (alone != truth)[750:].mean()


def test_the_array_path_is_the_one_record_path_and_copies_go_on_alike() -> None:
    values, labels = made_up(80, classes=3)
    pipeline = preprocessing.StandardScaler() | naive_bayes.GaussianNB()
    made = [MODLClassifier(learners=[LogisticConfig(), RiverLearner(pipeline)]) for _ in range(2)]
    chunked, single = made
    progress = chunked.predict_learn_many(values[:60], labels[:60])
    for i, (x, y) in enumerate(zip(as_records(values[:60]), labels.tolist(), strict=False)):
        probabilities = single.predict_proba_one(x)
        np.testing.assert_array_equal(progress.values[i], [probabilities.get(c, 0.0) for c in chunked.classes])
        single.learn_one(x, y)
    twins = [copy.deepcopy(chunked), pickle.loads(pickle.dumps(chunked))]
    expected = chunked.predict_learn_many(values[60:], labels[60:]).values
    for twin in [single, *twins]:
        np.testing.assert_array_equal(twin.predict_learn_many(values[60:], labels[60:]).values, expected)


def test_two_models_do_not_share_what_was_given_to_both() -> None:
    river_model = naive_bayes.GaussianNB()
    learner = RiverLearner(river_model)
    one, other = MODLClassifier(learners=[learner]), MODLClassifier(learners=[learner])
    one.learn_many([[1.0]] * 5, [0] * 5)
    assert river_model.class_counts == {}
    assert other.braid.learners[0].model.class_counts == {}  # type: ignore[attr-defined]


def test_what_the_model_knows_already_it_keeps_until_reset() -> None:
    river_model = dummy.PriorClassifier()
    for _ in range(9):
        river_model.learn_one({}, 1)
    river_model.learn_one({}, 0)
    learner = RiverLearner(river_model)
    learner.grow(1, 2)
    x, mask = np.zeros(1, dtype=np.float32), np.array([True])
    np.testing.assert_allclose(learner.scores(x, mask), [0.1, 0.9], rtol=1e-6)
    learner.reset()
    assert learner.scores(x, mask).tolist() == [0.0, 0.0]


def test_regression() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(800, 2))
    target = 1_000.0 + 50.0 * values[:, 0] - 20.0 * values[:, 1]
    model = MODLRegressor(learners=[RiverLearner(linear_model.LinearRegression())], combiner="score-sum")
    errors = np.abs(model.predict_learn_many(values, target).values[:, 0] - target)
    assert errors[-200:].mean() < 5.0


def test_a_binary_model_refuses_a_third_class() -> None:
    model = MODLClassifier(learners=[RiverLearner(linear_model.LogisticRegression())])
    model.learn_many([[1.0], [2.0]], ["a", "b"])
    with pytest.raises(BraidedError, match="river takes 2 classes only"):
        model.learn_one({0: 3.0}, "c")
    assert model.classes == ["a", "b"]


def test_saving_is_refused_with_the_remedy(tmp_path: Path) -> None:
    model = MODLClassifier(learners=[*presets.default().learners, RiverLearner(naive_bayes.GaussianNB())])
    model.learn_many([[1.0], [2.0]], ["a", "b"])
    with pytest.raises(BraidedError, match=r"learner 'river' holds a River model \(GaussianNB\).*pickle.dump instead"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RiverLearner(preprocessing.StandardScaler()), "model is StandardScaler: give a River classifier"),
        (lambda: RiverLearner(naive_bayes.GaussianNB(), scores="odds"), "scores is 'odds': use"),
        (
            lambda: MODLRegressor(learners=[RiverLearner(naive_bayes.GaussianNB())]).learn_one({"a": 1.0}, 1.0),
            "learner 'river' is for classification, not for regression",
        ),
    ],
)
def test_what_does_not_fit_is_named(make: Any, words: str) -> None:
    with pytest.raises(BraidedError, match=words):
        make()


def test_a_selecting_pipeline_is_a_model_too() -> None:
    assert RiverLearner(compose.Select(0) | linear_model.LogisticRegression()).task == "classification"
