"""The engine: learners in Python beside compiled ones, and learners that fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from braided import MODLClassifier, MODLRegressor, presets
from braided.kernels.loop import PATIENCE
from braided.learners import CompiledLearner, LogisticConfig, LogisticRegression, MLPConfig, build
from braided.zoo import preset_for
from conftest import made_up
from constant_learner import Constant


class InPython:
    """A compiled learner behind the plain protocol, so that the engine takes its Python loop."""

    def __init__(self, learner: CompiledLearner) -> None:
        self.learner = learner
        self.name = learner.name

    def scores(self, x: Any, mask: Any) -> Any:
        return self.learner.scores(x, mask)

    def learn(self, x: Any, mask: Any, y: float, gradient: Any) -> bool:
        return self.learner.learn(x, mask, y, gradient)

    def grow(self, n_features: int, n_outputs: int) -> None:
        self.learner.grow(n_features, n_outputs)

    def reset(self) -> None:
        self.learner.reset()

    def state(self) -> dict[str, NDArray[Any]]:
        return self.learner.state()

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.learner.load_state(arrays)


@pytest.mark.parametrize("preset", [presets.classic(), preset_for("released", "svmguide3")], ids=lambda p: p.name)
def test_the_python_loop_gives_the_bits_of_the_compiled_one(preset: presets.Preset) -> None:
    values, labels = made_up(60, classes=3)
    wrapped = [InPython(build(config, 5, place)) for place, config in enumerate(preset.learners)]
    compiled, plain = MODLClassifier(preset=preset, seed=5), MODLClassifier(preset=preset, learners=wrapped, seed=5)
    mixed = MODLClassifier(preset=preset, learners=[wrapped[0], *preset.learners[1:]], seed=5)
    one, two, three = (model.predict_learn_many(values, labels) for model in (compiled, plain, mixed))
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.own, two.own)
    np.testing.assert_array_equal(one.values, three.values)
    for name, array in compiled.braid.state().items():
        np.testing.assert_array_equal(plain.braid.state()[name], array, err_msg=name)


def test_the_python_loop_gives_the_bits_of_the_compiled_one_in_regression() -> None:
    values, labels = made_up(60)
    preset = presets.classic()
    wrapped = [InPython(build(config, 0, place)) for place, config in enumerate(preset.for_regression().learners)]
    compiled, plain = MODLRegressor(preset), MODLRegressor(preset, learners=wrapped)
    one, two = (model.predict_learn_many(values, labels * 10.0) for model in (compiled, plain))
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.own, two.own)


@pytest.mark.parametrize("kind", [MODLClassifier, MODLRegressor])
def test_compiled_learners_give_the_same_bits_in_the_python_loop(kind: type[MODLClassifier]) -> None:
    """All planes of the inputs and the target's past reach them in both."""
    values, labels = made_up(60, available=0.7)
    models = [kind(seed=5), kind(seed=5)]
    models[1].braid.compiled = False
    one, two = (model.predict_learn_many(values, labels) for model in models)
    np.testing.assert_array_equal(one.values, two.values)
    for name, array in models[0].braid.state().items():
        np.testing.assert_array_equal(models[1].braid.state()[name], array, err_msg=name)


def test_every_compiled_learner_has_the_protocol() -> None:
    from braided.learners import LEARNERS, Learner

    for config, kind in LEARNERS.items():
        assert isinstance(kind(config()), Learner)


def breaking(learner: CompiledLearner) -> None:
    """Put a NaN into a learner's weights, as an overflow would."""
    for buffer in (learner.single, learner.double):
        buffer[:] = np.nan


def test_a_broken_learner_is_skipped_counted_and_reset_while_the_others_go_on() -> None:
    values, labels = made_up(200)
    model = MODLClassifier()
    model.learn_many(values[:100], labels[:100])
    alone = MODLClassifier(learners=presets.default().learners[:1])
    alone.learn_many(values[:100], labels[:100])
    mlp = model.braid.learners[model.learner_names.index("mlp")]
    assert isinstance(mlp, CompiledLearner)
    breaking(mlp)
    probabilities = model.predict_proba_many(values[100:101])
    assert np.isfinite(probabilities).all()
    assert probabilities.sum() == pytest.approx(1.0)

    model.learn_many(values[100 : 100 + PATIENCE - 1], labels[100 : 100 + PATIENCE - 1])
    assert model.health["mlp"] == {"skipped": PATIENCE - 1, "resets": 0}
    model.learn_many(values[100 + PATIENCE - 1 :], labels[100 + PATIENCE - 1 :])
    assert model.health["mlp"] == {"skipped": PATIENCE, "resets": 1}
    assert model.health["olr"] == {"skipped": 0, "resets": 0}
    assert np.isfinite(mlp.single).all()
    # The fast learner never noticed.
    alone.learn_many(values[100:], labels[100:])
    for name in ("mean", "covariance"):
        np.testing.assert_array_equal(
            model.braid.state()[f"learner 0/{name}"], alone.braid.state()[f"learner 0/{name}"]
        )


def test_a_reset_learner_starts_from_its_initial_weights() -> None:
    learner = build(MLPConfig(hidden=(5,), optimiser="rmsprop"), 3, 1)
    learner.grow(4, 2)
    fresh = learner.state()
    learner.learn(np.ones(4, dtype=np.float32), np.ones(4, dtype=bool), 1, np.array([0.5, -0.5], dtype=np.float32))
    assert any((fresh[name] != array).any() for name, array in learner.state().items())
    learner.reset()
    for name, array in learner.state().items():
        np.testing.assert_array_equal(array, fresh[name], err_msg=name)


def test_an_update_that_is_not_finite_is_refused() -> None:
    learner = LogisticRegression(LogisticConfig())
    learner.grow(1, 2)
    x, mask, g = np.array([1.0], dtype=np.float32), np.array([True]), np.zeros(2, dtype=np.float32)
    learner.double[:] = np.nan
    assert not learner.learn(x, mask, 1, g)
    mlp = build(MLPConfig(hidden=(4,)), 0, 0)
    mlp.grow(1, 2)
    before = mlp.state()
    assert not mlp.learn(x, mask, 1, np.array([np.nan, 0.0], dtype=np.float32))
    for name, array in mlp.state().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("preset", ["default", "paper", "released"])
@pytest.mark.parametrize("huge", [1e30, -1e300, 1.7e308])
def test_a_huge_value_does_not_destroy_the_model(preset: str, huge: float) -> None:
    """After one absurd reading the model is still usable, and soon about as good as one that never saw it."""
    values, labels = made_up(1_200, available=0.9)
    model, calm = MODLClassifier(preset=preset), MODLClassifier(preset=preset)
    calm.learn_many(values[:300], labels[:300])
    model.learn_many(values[:300], labels[:300])
    values[300, 2] = huge
    results = {}
    for name, m in (("hit", model), ("calm", calm)):
        start = 300 if name == "hit" else 301
        m.learn_many(values[start:600], labels[start:600])
        progress = m.predict_learn_many(values[600:], labels[600:])
        place = {label: i for i, label in enumerate(m.classes)}
        truth = np.array([place[label] for label in labels[600:].tolist()])
        assert np.isfinite(progress.values).all()
        results[name] = (progress.values.argmax(axis=1) != truth).mean()
    assert results["hit"] < results["calm"] + 0.05


@pytest.mark.parametrize("when", [0, 3, 9])
@pytest.mark.parametrize("huge", [1e4, 1e6, 1e308])
def test_a_huge_value_among_the_first_does_not_hide_its_feature(huge: float, when: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1_500, 3))
    labels = (values[:, 0] > 0).astype(int)
    values[when, 0] = huge
    model = MODLClassifier()
    predictions = model.predict_learn_many(values, labels).values
    truth = np.array([model.classes.index(label) for label in labels.tolist()])
    assert (predictions.argmax(axis=1) != truth)[750:].mean() < 0.1


def test_large_numbers_with_small_differences_are_information() -> None:
    """Nanosecond timestamps: 1.7e18 and differences of 1e12."""
    rng = np.random.default_rng(0)
    values = 1.7e18 + 1e12 * rng.normal(size=(800, 1))
    labels = (values[:, 0] > 1.7e18).astype(int)
    model = MODLClassifier()
    predictions = model.predict_learn_many(values, labels).values
    truth = np.array([model.classes.index(label) for label in labels.tolist()])
    assert (predictions.argmax(axis=1) != truth)[400:].mean() < 0.1


def test_a_reset_leaves_no_dangling_addresses() -> None:
    """After a reset the loop must call on the arrays that the learner has now, not on freed ones."""
    learners = (LogisticConfig(), MLPConfig(hidden=(16,), learning_rate=1e30))
    model, twin = MODLClassifier(learners=learners), MODLClassifier(learners=learners)
    values, labels = made_up(400, d=2)
    for i in range(0, 400, 7):
        model.learn_many(values[i : i + 7], labels[i : i + 7])
        _ = [np.full(size, 123_456_789) for size in range(1, 40) for _ in range(20)]  # reuse whatever was freed
        for learner in model.braid.learners:
            assert isinstance(learner, CompiledLearner)
        np.testing.assert_array_equal(
            model.braid._model.table, [learner.table_row() for learner in model.braid.learners]
        )  # type: ignore[attr-defined]
    assert model.health["mlp"]["resets"] >= 2
    twin.learn_many(values, labels)
    for name, array in twin.braid.state().items():
        np.testing.assert_array_equal(model.braid.state()[name], array, err_msg=name)


def test_asking_a_learner_directly_does_not_disturb_the_model() -> None:
    values, labels = made_up(60)
    model, undisturbed = MODLClassifier(), MODLClassifier()
    for row, label in zip(values, labels.tolist(), strict=True):
        x = {j: float(v) for j, v in enumerate(row) if not np.isnan(v)}
        model.predict_proba_one(x)
        for learner in model.braid.learners:
            if model.records_learned:
                n = model.n_features
                learner.scores(np.full(n, 9.0, dtype=np.float32), np.ones(n, dtype=bool))
        model.learn_one(x, label)
        undisturbed.learn_one(x, label)
    for name, array in undisturbed.braid.state().items():
        np.testing.assert_array_equal(model.braid.state()[name], array, err_msg=name)


def test_a_learner_may_return_nothing_and_names_stay_apart() -> None:
    class Silent(Constant):
        name = "my learner"

        def learn(self, *arguments: Any) -> None:  # type: ignore[override]
            super().learn(*arguments)

    values, labels = made_up(40)
    model = MODLClassifier(learners=[Silent(), Silent(), LogisticConfig()])
    model.learn_many(values, labels)
    assert model.learner_names == ["my learner", "my learner 2", "olr"]
    assert all(health == {"skipped": 0, "resets": 0} for health in model.health.values())


def test_a_reader_in_between_changes_nothing_of_what_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers get in between two records of a chunk; they bring features of their own."""
    values, labels = made_up(200, d=4)
    models = [MODLClassifier(), MODLClassifier()]
    for model in models:
        model.learn_many(values[:50], labels[:50])

    def read() -> None:
        models[1].predict_proba_one({3: 1.0})
        models[1].predict_proba_many(values[:3, :2])

    models[1].core.let_others_in = read
    models[1].braid.waiting[0] = 1
    for model in models:
        model.learn_many(values[50:], labels[50:])
    for name, array in models[0].braid.state().items():
        np.testing.assert_array_equal(models[1].braid.state()[name], array, err_msg=name)
