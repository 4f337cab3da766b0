"""What a model, a fleet and an encoder are after a step that failed, or was refused, in the middle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braided
from braided import BraidedError, Fleet, MODLClassifier, MODLRegressor
from braided.evaluation.tally import Tally
from braided.learners import LogisticConfig
from braided.records import Predictions
from constant_learner import Constant


class Breaks(Constant):
    """Raises at the third record that it is to learn."""

    learned = 0

    def learn(self, *arguments: Any) -> bool:
        self.learned += 1
        if self.learned == 3:
            raise RuntimeError("the learner broke")
        return super().learn(*arguments)


def broken_model(**more: Any) -> MODLClassifier:
    return MODLClassifier(learners=[LogisticConfig(), Breaks()], **more)


def test_a_fleet_whose_shared_model_failed_half_way_is_refused() -> None:
    fleet: Any = Fleet(broken_model(), key="key")
    X, y = np.arange(10.0).reshape(5, 2), ["a", "b", "a", "b", "a"]
    with pytest.raises(RuntimeError, match="the learner broke"):
        fleet.predict_learn_many(X, y, keys=["k"] * 5)
    with pytest.raises(BraidedError, match="the learner broke"):
        fleet.predict_learn_many(X, y, keys=["k"] * 5)


def test_an_encoder_keeps_what_the_records_that_were_learned_are_read_by() -> None:
    model = broken_model(encode=True)
    rows = [["p", "1"], ["q", "2"], ["p", "3"], ["q", "4"]]
    with pytest.raises(RuntimeError, match="the learner broke"):
        model.learn_many(rows, ["a", "b", "a", "b"], names=["m", "t"])
    assert model.records_learned == 2
    assert model.encoder is not None
    assert set(model.encoder.kinds) == {"m", "t"}


def test_predictions_of_another_model_are_refused_before_anything_is_learned() -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    classifier, regressor = MODLClassifier("lean"), MODLRegressor("lean")
    classifier.learn_many(X, y)
    regressor.learn_many(X, y)
    given = regressor.progress_many(X)
    assert given.confidence is not None
    short = given._replace(confidence=given.confidence.part(slice(0, 30)))
    for wrong in (short, classifier.progress_many(X)):
        with pytest.raises(BraidedError, match="earlier is of another model or of other records"):
            regressor.learn_many(X, y, earlier=wrong)
        assert regressor.records_learned == 60
    regressor.learn_many(X, y, earlier=given)


def test_a_delay_that_is_refused_is_not_kept() -> None:
    model = MODLRegressor()
    with pytest.raises(BraidedError, match="delay is 10000000"):
        model.expect_delay(10_000_000)
    assert model.delay == model.core.delay == 0


def test_learners_are_counted_by_the_classes_of_the_tally() -> None:
    tally = Tally(("one",), regression=False)
    tally.add(Predictions(np.zeros((1, 0)), np.full((1, 1), -1.0)), ["unseen"], [])
    right = Predictions(np.array([[0.1, 0.9]]), np.array([[1.0]]))
    tally.add(right, ["b"], ["a", "b"])
    assert tally.classes == ["unseen", "a", "b"]
    assert tally.learner_errors == {"one": 0.5}


def test_a_refused_late_record_goes_on_waiting() -> None:
    from braided.evaluation import Evaluation
    from braided.records import Records

    evaluation = Evaluation(MODLRegressor("lean", max_features=1), delay=1)
    evaluation.observe(Records(("a", "b"), np.ones((1, 2)), [1.0]))
    with pytest.raises(BraidedError, match="max_features is 1"):
        evaluation.observe(Records(("a",), np.ones((1, 1)), [1.0]))
    assert len(evaluation._delayed) == 1


def test_keys_of_a_history_are_the_fleets() -> None:
    pairs = [({"key": key, "a": float(i)}, i % 2) for i, key in enumerate([7, 7.0, " 7 ", None, "b"] * 4)]
    pairs = [pair for pair in pairs if pair[0]["key"] is not None]
    fleet: Any = Fleet(MODLClassifier("lean"), key="key")
    braided.record(fleet, pairs)
    assert fleet.keys == ["7", "b"]


class Recursive(Constant):
    """Asks the model that it is a part of."""

    model: Any = None

    def scores(self, *arguments: Any) -> Any:
        if self.model is not None:
            self.model.predict_proba_one({"a": 1.0})
        return super().scores(*arguments)


def test_a_learner_may_not_use_the_model_that_it_is_a_part_of() -> None:
    model = MODLClassifier(learners=[Recursive(), LogisticConfig()])
    for i in range(10):
        model.learn_one({"a": float(i)}, i % 2)
    learner: Any = model.braid.learners[0]
    learner.model = model
    for use in (lambda: model.predict_one({"a": 1.0}), lambda: model.learn_one({"b": 1.0}, 2)):
        with pytest.raises(BraidedError, match="uses the model that it is a part of"):
            use()
    learner.model = None
    model.learn_one({"b": 1.0}, 2)
    assert model.records_learned == 11


@pytest.mark.parametrize("part", ["stage", "learner", "combiner"])
def test_a_model_that_could_not_grow_has_its_earlier_sizes(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODLClassifier()
    for i in range(30):
        model.learn_one({"a": float(i % 7), "b": float(i % 3)}, i % 2)
    braid = model.braid
    owner: Any = {"stage": braid.stage, "learner": braid.learners[-1], "combiner": braid.combiner}[part]
    grow = type(owner).grow

    def fails(self: Any, *arguments: Any) -> None:
        grow(self, *arguments)
        raise MemoryError

    sizes = {name: array.shape for name, array in model.snapshot()[1].items()}
    monkeypatch.setattr(type(owner), "grow", fails)
    with pytest.raises(MemoryError):
        model.learn_one({"a": 1.0, "c": 2.0}, 2)
    monkeypatch.undo()
    assert {name: array.shape for name, array in model.snapshot()[1].items()} == sizes
    assert (model.n_features, model.classes, model.records_learned) == (2, [0, 1], 30)
    for i in range(30):
        model.learn_one({"a": float(i % 7), "c": float(i % 3)}, i % 3)
    assert sum(model.predict_proba_one({"a": 1.0, "c": 2.0}).values()) == pytest.approx(1.0)
