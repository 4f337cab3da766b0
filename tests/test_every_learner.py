"""One table of checks over every registered learner; a new one is covered by its line in `LEARNERS`.

CONTRIBUTING.md has a table of them, which `tests/test_contributing.py` compares with what is here.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from braided import MODLClassifier, MODLRegressor
from braided.kernels.mondrian import FEATURE
from braided.learners import LEARNERS, CompiledLearner, Learner, MondrianForest, build
from braided.learners.fourier import FourierLinear, FourierLogistic
from braided.learners.linear import LinearRegression
from braided.learners.logistic import LogisticRegression
from braided.store import state_digest
from conftest import as_records, made_up

Singles = NDArray[np.float32]
FEATURES = 4


def _name(config: type) -> str:
    return LEARNERS[config].__name__


@pytest.fixture(params=LEARNERS, ids=_name)
def config(request: pytest.FixtureRequest) -> Any:
    """The default settings of one kind of learner."""
    return request.param()


def outputs(learner: CompiledLearner) -> int:
    return 1 if learner.task == "regression" else 2


def fresh(config: Any, features: int = FEATURES, seed: int = 3) -> CompiledLearner:
    learner = build(config, seed, place=0)
    learner.grow(features, outputs(learner))
    return learner


def records(n: int, features: int = FEATURES) -> list[tuple[Singles, NDArray[np.bool_], float, int]]:
    """Values, mask, a numeric target and the sign of it, which depends on the first feature."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(n):
        mask = rng.random(features) < 0.7
        x = np.where(mask, rng.normal(size=features), 0.0).astype(np.float32)
        target = float(x[0] + 0.1 * rng.normal())
        found.append((x, mask, target, int(target > 0)))
    return found


def teach(learner: CompiledLearner, n: int = 50) -> None:
    """Records with the gradient that the learner's own loss would have."""
    for x, mask, target, label in records(n, learner.n_features):
        scores = learner.scores(x, mask).astype(np.float64)
        if outputs(learner) == 1:
            assert learner.learn(x, mask, target, (scores - target).astype(np.float32))
        else:
            p = np.exp(scores - scores.max())
            gradient = p / p.sum() - np.eye(len(scores))[label]
            assert learner.learn(x, mask, label, gradient.astype(np.float32))


def said(learner: CompiledLearner) -> NDArray[np.float32]:
    return np.stack([learner.scores(x, mask) for x, mask, _, _ in records(20)])


def same_state(one: Learner, other: Learner) -> None:
    mine, theirs = one.state(), other.state()
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


def model_of(config: Any, seed: int = 0) -> MODLClassifier | MODLRegressor:
    kind = MODLRegressor if LEARNERS[type(config)].task == "regression" else MODLClassifier
    return kind(learners=(config,), seed=seed)


def stream(model: MODLClassifier | MODLRegressor, n: int = 60) -> tuple[Any, Any]:
    values, labels = made_up(n)
    values[: n // 2, 5] = np.nan  # a feature appears late
    return values, labels * 10.0 if isinstance(model, MODLRegressor) else labels


def predict(model: MODLClassifier | MODLRegressor) -> Callable[[Any], Any]:
    return model.predict_proba_one if isinstance(model, MODLClassifier) else model.predict_one


def test_it_has_the_protocol_a_name_and_a_docstring(config: Any) -> None:
    learner = fresh(config)
    assert isinstance(learner, Learner)
    assert learner.name
    assert ">>>" in (type(learner).__doc__ or ""), "formulas and an example that runs belong in the docstring"


def test_scoring_changes_nothing(config: Any) -> None:
    learner, twin = fresh(config), fresh(config)
    teach(learner)
    teach(twin)
    for x, mask, _, _ in records(20):
        first = learner.scores(x, mask)
        np.testing.assert_array_equal(learner.scores(x, mask), first)
    same_state(learner, twin)


def test_the_value_of_a_missing_feature_has_no_influence(config: Any) -> None:
    learner, other = fresh(config), fresh(config)
    for x, mask, target, label in records(50):
        y, gradient = (target, [0.3]) if outputs(learner) == 1 else (label, [0.3, -0.3])
        garbage = np.where(mask, x, 77.0).astype(np.float32)
        np.testing.assert_array_equal(learner.scores(x, mask), other.scores(garbage, mask))
        learner.learn(x, mask, y, np.array(gradient, dtype=np.float32))
        other.learn(garbage, mask, y, np.array(gradient, dtype=np.float32))
    same_state(learner, other)


def test_a_record_without_any_feature_is_scored_and_learned(config: Any) -> None:
    learner = fresh(config)
    teach(learner)
    nothing, none = np.zeros(FEATURES, dtype=np.float32), np.zeros(FEATURES, dtype=bool)
    assert np.isfinite(learner.scores(nothing, none)).all()
    gradient = np.full(outputs(learner), 0.1, dtype=np.float32)
    assert learner.learn(nothing, none, 1.0, gradient)
    assert all(np.isfinite(array).all() for array in learner.state().values())


def test_it_learns_from_records(config: Any) -> None:
    learner = fresh(config)
    before = said(learner)
    teach(learner)
    assert not np.array_equal(said(learner), before)


def test_a_new_feature_changes_no_score_of_records_without_it(config: Any) -> None:
    learner = fresh(config)
    teach(learner)
    before = said(learner)
    learner.grow(FEATURES + 3, outputs(learner))
    longer = [
        (np.append(x, np.zeros(3, dtype=np.float32)), np.append(mask, [False] * 3)) for x, mask, _, _ in records(20)
    ]
    np.testing.assert_array_equal(np.stack([learner.scores(x, mask) for x, mask in longer]), before)


def test_growing_in_steps_ends_with_the_same_sizes(config: Any) -> None:
    learner = fresh(config, features=1)
    for features in (2, 5, 9):
        learner.grow(features, outputs(learner))
    for name, array in learner.state().items():
        assert np.isfinite(array).all(), name
        assert array.shape == fresh(config, features=9).state()[name].shape, name


def test_a_reset_gives_back_the_initial_weights(config: Any) -> None:
    learner = fresh(config)
    teach(learner)
    learner.reset()
    same_state(learner, fresh(config))


def test_forgetting_a_feature_that_no_record_had_changes_nothing(config: Any) -> None:
    learner, twin = fresh(config), fresh(config)
    for one in (learner, twin):
        for x, mask, target, label in records(50):
            x[2], mask[2] = 0.0, False
            y, gradient = (target, [0.3]) if outputs(one) == 1 else (label, [0.3, -0.3])
            one.learn(x, mask, y, np.array(gradient, dtype=np.float32))
    learner.forget_features(np.array([2]))
    same_state(learner, twin)


def test_forgetting_a_feature_changes_no_score_of_records_without_it(config: Any) -> None:
    learner = fresh(config)
    teach(learner)
    without = [(np.where(np.arange(FEATURES) == 2, np.float32(0), x), mask & (np.arange(FEATURES) != 2))
               for x, mask, _, _ in records(20)]  # fmt: skip
    before = np.stack([learner.scores(x, mask) for x, mask in without])
    learner.forget_features(np.array([2]))
    after = np.stack([learner.scores(x, mask) for x, mask in without])
    if isinstance(learner, MondrianForest):  # one side of a split on that feature is gone
        assert 2 not in learner.state()["nodes"][:, FEATURE]
    else:
        np.testing.assert_array_equal(after, before)
    other = fresh(config)
    other.load_state(learner.state())
    teach(learner, 30)
    assert all(np.isfinite(array).all() for array in learner.state().values())


def test_a_forgotten_feature_starts_as_at_first(config: Any) -> None:
    learner, at_first = fresh(config), fresh(config).state()
    teach(learner)
    learner.forget_features(np.arange(FEATURES))
    found, plans, fewer = learner.state(), learner.plan(FEATURES, outputs(learner)), learner.plan(1, outputs(learner))
    for name, plan in plans.items():
        if isinstance(learner, MondrianForest) and name in ("nodes", "ranges"):
            assert (found["nodes"][:, FEATURE] == -1).all()
            continue
        for axis, (size, least) in enumerate(zip(plan.shape, fewer[name].shape, strict=True)):
            step = (size - least) // (FEATURES - 1)
            belonging = (slice(None),) * axis + (slice(size - FEATURES * step, None) if step else slice(0, 0),)
            np.testing.assert_array_equal(found[name][belonging], at_first[name][belonging], err_msg=name)


def test_the_state_can_be_taken_over(config: Any) -> None:
    learner, other = fresh(config), fresh(config, seed=9)
    teach(learner)
    other.load_state(learner.state())
    same_state(learner, other)
    copied = pickle.loads(pickle.dumps(learner))
    teach(learner, 30)
    teach(copied, 30)
    same_state(learner, copied)


def test_the_same_seed_gives_the_same_bits(config: Any) -> None:
    one, other = fresh(config), fresh(config)
    teach(one)
    teach(other)
    same_state(one, other)


def test_alone_in_a_model_chunks_and_single_records_agree(config: Any) -> None:
    chunked, single = model_of(config), model_of(config)
    values, labels = stream(chunked)
    progress = chunked.predict_learn_many(values, labels)
    for i, (x, y) in enumerate(zip(as_records(values), labels.tolist(), strict=True)):
        answer = predict(single)(x)
        if isinstance(single, MODLClassifier):
            answer = [answer.get(label, 0.0) for label in chunked.classes]  # type: ignore[union-attr]
        np.testing.assert_array_equal(progress.values[i], answer)
        single.learn_one(x, y)


def test_alone_in_a_model_it_is_saved_and_goes_on_bit_for_bit(config: Any, tmp_path: Path) -> None:
    straight, stopped = model_of(config), model_of(config)
    values, labels = stream(straight)
    straight.learn_many(values, labels)
    stopped.learn_many(values[:25], labels[:25])
    stopped.save(tmp_path / "model")
    resumed = type(stopped).load(tmp_path / "model")
    resumed.learn_many(values[25:], labels[25:])
    assert state_digest(resumed) == state_digest(straight)  # type: ignore[arg-type]


def test_alone_in_a_model_it_beats_a_constant_on_an_easy_stream(config: Any) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3_000, 3))
    values[:, 0] += 2.0 * np.sin(np.arange(3_000) / 50)  # easy by what came last, too
    signal = values[:, 0] + values[:, 1] - 0.5
    model = model_of(config)
    if isinstance(model, MODLRegressor):
        predictions = model.predict_learn_many(values, signal).values[1_500:, 0]
        assert np.abs(predictions - signal[1_500:]).mean() < 0.5 * np.abs(signal - np.median(signal))[1_500:].mean()
    else:
        labels = (signal > 0).astype(int)
        predictions = model.predict_learn_many(values, labels).values[1_500:]
        truth = np.array([model.classes.index(label) for label in labels.tolist()])[1_500:]
        assert (predictions.argmax(axis=1) != truth).mean() < 0.7 * labels[1_500:].mean()


def test_alone_in_a_model_huge_values_and_constants_do_not_break_it(config: Any) -> None:
    model = model_of(config)
    values, labels = stream(model, 200)
    values[50] = 1e30
    values[100:, 3] = 4.0
    model.learn_many(values, labels)
    assert all(np.isfinite(array).all() for array in model.braid.state().values())


#: Learners for which a weight of 2 is the record twice, with their default settings: nothing is forgotten.
REPEATED = {LogisticRegression, LinearRegression, FourierLogistic, FourierLinear}


def test_weight_two_is_the_record_twice_or_a_longer_step(config: Any) -> None:
    once, heavy, twice, half = (fresh(config) for _ in range(4))
    for learner in (once, heavy, twice, half):
        teach(learner)
    before = once.state()
    x, mask, target, label = records(1)[0]
    y = target if outputs(once) == 1 else label
    gradient = np.array([0.3] if outputs(once) == 1 else [0.3, -0.3], dtype=np.float32)
    once.learn(x, mask, y, gradient)
    heavy.learn(x, mask, y, 2 * gradient, 2.0)
    half.learn(x, mask, y, gradient / 2, 0.5)
    for _ in range(2):
        twice.learn(x, mask, y, gradient)
    if type(once) in REPEATED:
        for name, array in twice.state().items():
            np.testing.assert_allclose(heavy.state()[name], array, rtol=1e-6, atol=1e-9, err_msg=name)

    def moved(learner: CompiledLearner) -> float:
        state = learner.state()
        if any(state[name].shape != before[name].shape for name in before):
            return float(np.abs(state["nodes"]).sum() - np.abs(before["nodes"]).sum())
        return float(sum(np.abs(state[name].astype(float) - before[name]).sum() for name in before))

    assert moved(half) < moved(once) < moved(heavy)


def test_a_huge_weight_ruins_nothing(config: Any) -> None:
    """Some hundred records after one of weight 1e300 with a wrong label, the error is not far from what it would be."""
    errors = []
    for weight in (1.0, 1e300):
        model = model_of(config)
        rng = np.random.default_rng(0)
        values = rng.normal(size=(2_000, 3))
        signal = values[:, 0] + values[:, 1]
        regression = isinstance(model, MODLRegressor)
        targets: Any = signal if regression else (signal > 0).astype(int)
        weights = np.ones(2_000)
        weights[1_000] = weight
        targets[1_000] = -targets[1_000] if regression else 1 - targets[1_000]
        predictions = model.predict_learn_many(values, targets, sample_weight=weights).values
        assert all(np.isfinite(array).all() for array in model.braid.state().values())
        if regression:
            errors.append(np.abs(predictions[1_500:, 0] - targets[1_500:]).mean())
        else:
            truth = np.array([model.classes.index(label) for label in targets.tolist()])
            errors.append((predictions.argmax(axis=1) != truth)[1_500:].mean())
    assert errors[1] <= errors[0] + 0.15


def test_alone_in_a_model_weighted_chunks_and_single_records_agree(config: Any, tmp_path: Path) -> None:
    chunked, single = model_of(config), model_of(config)
    values, labels = stream(chunked)
    weights = np.random.default_rng(1).choice([0.0, 1e-9, 0.3, 1.0, 2.0, 3.5, 50.0, 1e12], size=len(labels))
    progress = chunked.predict_learn_many(values[:30], labels[:30], sample_weight=weights[:30])
    chunked.save(tmp_path / "model")
    chunked = type(chunked).load(tmp_path / "model")
    chunked.learn_many(values[30:], labels[30:], sample_weight=weights[30:].tolist())
    for i, (x, y, w) in enumerate(zip(as_records(values), labels.tolist(), weights.tolist(), strict=True)):
        answer = predict(single)(x)
        if isinstance(single, MODLClassifier):
            answer = [answer.get(label, 0.0) for label in chunked.classes]  # type: ignore[union-attr]
        if i < 30:
            np.testing.assert_array_equal(progress.values[i], np.atleast_1d(answer)[: progress.values.shape[1]])
        single.learn_one(x, y, w=w)
    assert state_digest(chunked) == state_digest(single)  # type: ignore[arg-type]
