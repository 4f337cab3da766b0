"""The estimators: paths that must agree, growth, purity, and records of any shape."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braided import BraidedError, MODLClassifier, MODLRegressor, presets
from braided.learners import HedgeConfig, LinearConfig, LogisticConfig, MLPConfig, OLVFConfig, SetConfig
from braided.presets import Preset
from braided.store import state_digest
from braided.zoo import preset_for
from conftest import as_records, made_up

SMALL = (
    LogisticConfig(),
    MLPConfig(hidden=(8, 8), optimiser="rmsprop", learning_rate=0.003),
    SetConfig(width=8, blocks=2, layers=2, binding="relu", pooling="sqrt", dropout=0.2, learning_rate=0.01),
)
PRESETS = [
    presets.default(),
    Preset("small", SMALL, standardise=True),
    Preset("raw", SMALL, standardise=False),
    preset_for("released", "svmguide3"),
    presets.paper(),
]


def state_of(model: MODLClassifier | MODLRegressor) -> dict[str, Any]:
    return model.braid.state()


def assert_same_state(one: MODLClassifier | MODLRegressor, other: MODLClassifier | MODLRegressor) -> None:
    first, second = state_of(one), state_of(other)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
@pytest.mark.parametrize("classes", [2, 4])
def test_the_array_path_is_the_one_record_path_bit_for_bit(preset: Preset, classes: int) -> None:
    values, labels = made_up(150, classes=classes)
    values[:40, 3] = np.nan  # a feature that appears late
    chunked, single = MODLClassifier(preset=preset, seed=7), MODLClassifier(preset=preset, seed=7)
    parts = [chunked.predict_learn_many(values[a:b], labels[a:b]) for a, b in ((0, 1), (1, 60), (60, 150))]
    width = len(chunked.classes)
    chunk_probabilities = np.concatenate([np.pad(p.values, ((0, 0), (0, width - p.values.shape[1]))) for p in parts])
    for i, (x, y) in enumerate(zip(as_records(values), labels.tolist(), strict=True)):
        probabilities = single.predict_proba_one(x)
        single.learn_one(x, y)
        expected = [probabilities.get(label, 0.0) for label in chunked.classes]
        np.testing.assert_array_equal(chunk_probabilities[i], expected, err_msg=f"record {i}")
    assert chunked.classes == single.classes
    assert_same_state(chunked, single)
    np.testing.assert_array_equal(
        chunked.predict_proba_many(values), [list(single.predict_proba_one(x).values()) for x in as_records(values)]
    )


def test_learning_without_predicting_first_is_the_same() -> None:
    values, labels = made_up(80)
    one, other = MODLClassifier(seed=1), MODLClassifier(seed=1)
    for x, y in zip(as_records(values), labels.tolist(), strict=True):
        one.predict_proba_one(x)
        one.predict_proba_one({0: 5.0})  # another record in between: its forward pass must not be taken for x's
        one.learn_one(x, y)
        other.learn_one(x, y)
    assert_same_state(one, other)


def test_a_changed_record_is_not_taken_for_the_predicted_one() -> None:
    values, labels = made_up(50)
    one, other = MODLClassifier(), MODLClassifier()
    for x, y in zip(as_records(values), labels.tolist(), strict=True):
        record = {**x, 0: 100.0}
        one.predict_proba_one(record)
        record[0] = 1.0  # the same dict, altered between predicting and learning
        one.learn_one(record, y)
        other.learn_one({**x, 0: 1.0}, y)
    assert_same_state(one, other)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_predicting_changes_nothing(preset: Preset) -> None:
    values, labels = made_up(60)
    model = MODLClassifier(preset=preset)
    model.learn_many(values, labels)
    before = state_digest(model)
    first = model.predict_proba_many(values)
    model.predict_proba_one({"unknown": 3.0, 0: 1.0})
    model.predict_one({})
    np.testing.assert_array_equal(model.predict_proba_many(values), first)
    assert state_digest(model) == before


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_growth_by_features_changes_no_prediction_on_old_records(preset: Preset) -> None:
    values, labels = made_up(120)
    model = MODLClassifier(preset=preset)
    model.learn_many(values, labels)
    old = model.predict_proba_many(values)
    model.core.features.admit([f"new {i}" for i in range(20)])
    model.core._grow()
    assert model.n_features == 26
    # The frequencies of cosines of all features are multiplied by a root and divided by it: that is rounded.
    tolerance = 1e-6 if preset.name == "default" else 0.0
    np.testing.assert_allclose(model.predict_proba_many(values), old, rtol=tolerance)


@pytest.mark.parametrize("config", [*SMALL, MLPConfig(hidden=()), SetConfig(width=8, blocks=1, layers=1)], ids=str)
def test_growth_leaves_old_weights_alone(config: Any) -> None:
    values, labels = made_up(40)
    model = MODLClassifier(preset=Preset("one", (config,), standardise=True))
    model.learn_many(values, labels)
    before = state_of(model)
    for n in (7, 8, 9, 17):  # within capacity and beyond
        model.core.features.admit([f"new {i}" for i in range(n - model.n_features)])
        model.core._grow()
        after = state_of(model)
        for name, array in before.items():
            corner = tuple(slice(0, size) for size in array.shape)
            np.testing.assert_array_equal(after[name][corner], array, err_msg=name)


def test_a_new_class_keeps_the_odds_of_the_old_ones() -> None:
    values, labels = made_up(80)
    model = MODLClassifier(preset=Preset("olr", (LogisticConfig(),), standardise=True))
    model.learn_many(values, labels)
    old = model.predict_proba_many(values)
    model.core.classes.admit("third")
    model.core._grow()
    new = model.predict_proba_many(values)
    np.testing.assert_allclose(new[:, 0] / new[:, 1], old[:, 0] / old[:, 1], rtol=1e-5)


def test_slots_do_not_depend_on_the_order_of_keys_or_on_how_a_value_is_missing() -> None:
    one, other = MODLClassifier(), MODLClassifier()
    one.learn_one({"b": 1.0, "a": 2.0, "c": None, "d": math.nan}, "x")
    other.learn_one({"a": 2.0, "b": 1.0}, "x")
    one.learn_one({"d": 1, "c": True}, "y")
    other.learn_one({"c": 1, "d": 1.0, "a": None}, "y")
    assert list(one.core.features.slots) == ["a", "b", "c", "d"]
    assert_same_state(one, other)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    values, labels = made_up(50)
    models = [MODLClassifier(seed=seed) for seed in (3, 3, 4)]
    for model in models:
        model.learn_many(values, labels)
    digests = [state_digest(model) for model in models]
    assert digests[0] == digests[1] != digests[2]


def test_clones_copies_and_pickles_go_on_alike() -> None:
    values, labels = made_up(120)
    model = MODLClassifier(seed=2)
    model.learn_many(values[:60], labels[:60])
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for m in (model, *twins):
        m.learn_many(values[60:], labels[60:])
    for twin in twins:
        assert_same_state(model, twin)
    fresh = model.clone()
    assert fresh.records_learned == 0


NAMES = st.one_of(st.text(max_size=3), st.integers(-3, 3))
NUMBERS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_infinity=False), st.floats(allow_infinity=False, width=32)
).filter(lambda v: not isinstance(v, int) or abs(v) < 10**300)
RECORDS = st.lists(
    st.tuples(st.dictionaries(NAMES, NUMBERS, max_size=5), st.one_of(st.integers(0, 4), st.text(max_size=2))),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(records=RECORDS, standardise=st.booleans())
def test_records_of_any_shape(records: list[tuple[dict[Any, Any], Any]], standardise: bool) -> None:
    """Whatever the names, values and labels: finite probabilities over the classes seen that sum to one."""
    preset = Preset("small", SMALL, standardise)
    model, twin = MODLClassifier(preset=preset), MODLClassifier(preset=preset)
    seen: list[Any] = []
    for x, y in records:
        probabilities = model.predict_proba_one(x)
        assert set(probabilities) == set(seen)
        if seen:
            assert math.isclose(sum(probabilities.values()), 1.0)
            assert all(0.0 <= p <= 1.0 for p in probabilities.values())
        kept = dict(x)
        model.learn_one(x, y)
        assert list(map(repr, x.items())) == list(map(repr, kept.items()))
        seen.append(y)
        twin.learn_one(dict(reversed(list(x.items()))), y)
    assert_same_state(model, twin)


@pytest.mark.parametrize(
    ("record", "label", "message"),
    [
        ({"age": "abc"}, 1, "feature 'age' is 'abc' in record 1: numbers, None or NaN only"),
        ({"age": math.inf}, 1, "feature 'age' is inf in record 1: it must be finite"),
        ({"age": 10**400}, 1, "it must be finite"),
        ({"age": 10**5000}, 1, "feature 'age' is a int in record 1: it must be finite"),
        ({"age": np.array([1.0, 2.0])}, 1, "numbers, None or NaN only"),
        ({"age": np.timedelta64(1, "s")}, 1, "numbers, None or NaN only"),
        ({"age": [1.0]}, 1, "numbers, None or NaN only"),
        ({"age": 1 + 2j}, 1, "numbers, None or NaN only"),
        ({"age": 1.0}, None, "the label of record 1 is None: every record to learn needs one"),
        ({"age": 1.0}, math.nan, "the label of record 1 is nan"),
        ({"age": 1.0}, [1], "labels must be hashable"),
        ({"age": 1.0}, (1, [2]), "labels must be hashable"),
        ({"age": 1.0}, np.array([1, 2]), "labels must be hashable"),
    ],
)
def test_bad_records_are_refused_and_change_nothing(record: dict[str, Any], label: Any, message: str) -> None:
    model = MODLClassifier()
    with pytest.raises(BraidedError, match=message.replace("(", r"\(")):
        model.learn_one(record, label)
    assert model.n_features == 0
    assert model.classes == []
    model.learn_one({"height": 1.0}, "ok")
    before = state_digest(model)
    with pytest.raises(BraidedError):
        model.learn_one(record, label)
    assert state_digest(model) == before


def test_a_bad_value_is_refused_by_prediction_too() -> None:
    model = MODLClassifier()
    model.learn_one({"a": 1.0}, 0)
    for value in ("x", math.inf, b"1"):
        with pytest.raises(BraidedError):
            model.predict_proba_one({"a": value})
        with pytest.raises(BraidedError):
            model.predict_proba_one({"never seen": value})


def test_limits_on_features_and_classes() -> None:
    model = MODLClassifier(max_features=2, max_classes=2)
    model.learn_one({"a": 1.0, "b": 1.0}, 0)
    model.learn_one({"a": 2.0}, 1)
    before = state_digest(model)
    with pytest.raises(BraidedError, match=r"feature 'c' would be number 3, .* is 2: raise `max_features`"):
        model.learn_one({"c": 1.0}, 0)
    with pytest.raises(BraidedError, match="class 2 would be number 3, and max_classes is 2"):
        model.learn_one({"a": 1.0}, 2)
    with pytest.raises(BraidedError, match="max_features"):
        model.learn_many([[1.0, 2.0, 3.0]], [0], names=["a", "b", "c"])
    with pytest.raises(BraidedError, match="max_classes"):
        model.learn_many([[1.0], [1.0]], [0, "z"], names=["a"])
    assert state_digest(model) == before
    model.learn_one({"a": 1.0, "c": None}, 0)  # a missing value takes no place


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([1.0, 2.0], [0, 1], "X has 1 dimension"),
        ([["a"]], [0], "X holds values of type <U1"),
        (np.array([["1.5"]]), [0], "X holds values of type <U3"),
        (np.array([[1 + 2j]]), [0], "X holds values of type complex128"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), [0], "X holds values of type datetime64"),
        (np.array([[1.0, "abc"]], dtype=object), [0], "feature 1 is 'abc' in record 1: numbers, None or NaN only"),
        (np.array([[1.0, 10**400]], dtype=object), [0], "feature 1 is .* in record 1: it must be finite"),
        ([[1.0]], 0, "y is 0: give a list or array"),
        ([[1.0]], np.array([[0, 1]]), "y is .*: give a list or array of one label or target per record"),
        ([[1.0], [math.inf]], [0, 1], "feature 0 is inf in record 2"),
        ([[1.0], [2.0]], [0], "X has 2 records and y has 1 labels"),
        ([[1.0]], [None], "the label of record 1 is None"),
        (np.ones((2, 1)), np.array([0.0, np.nan]), "the label of record 2 is nan"),
    ],
)
def test_bad_arrays_are_refused(X: Any, y: Any, message: str) -> None:
    model = MODLClassifier()
    with pytest.raises(BraidedError, match=message):
        model.learn_many(X, y)
    assert model.records_learned == 0
    assert model.n_features == 0


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("ab", "first_features is 'ab': give a tuple of feature names"),
        (("a", "b", "a"), "first_features has 'a' twice: give each name once"),
        (("a", "b", "c"), "feature 'c' would be number 3, and max_features is 2"),
    ],
)
def test_bad_first_features_are_named(first: Any, message: str) -> None:
    with pytest.raises(BraidedError, match=message):
        MODLClassifier(first_features=first, max_features=2)


def test_bad_arguments_are_named() -> None:
    for arguments, message in [
        ({"preset": "tuned"}, "preset 'tuned' is not known: use one of default"),
        ({"combiner": "vote"}, "combiner 'vote' is not known: use one of score-sum"),
        ({"learners": ()}, "learners has 0 items: give 1 to"),
        ({"learners": ("mlp",)}, "learners\\[0\\] is 'mlp'"),
        ({"learners": MLPConfig()}, "learners is MLPConfig.* give a list or tuple"),
        ({"learners": (LinearConfig(),)}, "learner 'linear' is for regression, not for classification"),
        ({"seed": -1}, "seed is -1: use a whole number from 0"),
        ({"seed": 2**64}, "use a whole number from 0"),
        ({"seed": None}, "seed is None"),
    ]:
        with pytest.raises(BraidedError, match=message):
            MODLClassifier(**arguments).learn_one({"a": 1.0}, 0)  # type: ignore[arg-type]


def test_labels_of_any_hashable_type() -> None:
    model = MODLClassifier()
    labels = ["a", 3, ("x", 1), True, 2.5, frozenset({1})]
    for i, label in enumerate(labels * 3):
        model.learn_one({"v": float(i % 6)}, label)
    assert model.classes == labels
    assert set(model.predict_proba_one({"v": 1.0})) == set(labels)


def test_the_first_class_is_learned_against_the_one_to_come() -> None:
    model = MODLClassifier()
    for i in range(50):
        model.learn_one({"v": float(i * 17 % 50)}, "only")
    assert model.predict_proba_one({"v": 1.0}) == {"only": 1.0}
    model.learn_one({"v": 3.0}, "other")
    assert model.predict_one({"v": 40.0}) == "only"


def test_nothing_known_yet() -> None:
    model = MODLClassifier()
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_many(np.ones((2, 1))) == [None, None]
    assert MODLRegressor().predict_one({"a": 1.0}) == 0.0
    assert MODLRegressor().predict_many(np.ones((2, 1))).tolist() == [0.0, 0.0]


def test_the_sum_beats_its_parts_on_a_stream_with_a_product_in_it() -> None:
    values, labels = made_up(6_000, available=0.8, seed=3)
    errors = {}
    for name, learners in {"sum": None, "olr": presets.default().learners[:1]}.items():
        model = MODLClassifier(learners=learners)
        progress = model.predict_learn_many(values, labels)
        place = {label: i for i, label in enumerate(model.classes)}
        truth = np.array([place[label] for label in labels.tolist()])
        errors[name] = (progress.values.argmax(axis=1) != truth).sum()
    majority = min(np.bincount(labels))
    assert errors["sum"] < 0.9 * errors["olr"] < 0.9 * majority


class TestRegressor:
    def stream(self, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        values = rng.normal(size=(n, 4)) * [1.0, 100.0, 0.01, 5.0]
        targets = 1e4 + 300 * values[:, 0] + 2 * values[:, 1] + rng.normal(size=n)
        values[rng.random(values.shape) < 0.1] = np.nan
        return values, targets

    def test_both_paths_agree_bit_for_bit(self) -> None:
        values, targets = self.stream()
        chunked, single = MODLRegressor(seed=1), MODLRegressor(seed=1)
        predictions = chunked.predict_learn_many(values, targets).values[:, 0]
        for i, (x, y) in enumerate(zip(as_records(values), targets.tolist(), strict=True)):
            assert single.predict_one(x) == predictions[i]
            single.learn_one(x, y)
        assert_same_state(chunked, single)

    def test_a_prediction_does_not_see_its_own_target(self) -> None:
        values, targets = self.stream(50)
        one, other = MODLRegressor(), MODLRegressor()
        changed = targets.copy()
        changed[-1] += 1e6
        first = one.predict_learn_many(values, targets).values
        second = other.predict_learn_many(values, changed).values
        np.testing.assert_array_equal(first, second)

    def test_it_learns(self) -> None:
        values, targets = self.stream(3_000)
        predictions = MODLRegressor().predict_learn_many(values, targets).values[:, 0]
        late = slice(1_500, None)
        assert np.abs(predictions - targets)[late].mean() < 0.5 * np.abs(targets - targets.mean())[late].mean()

    def test_the_fast_learner_is_the_exact_recursion(self) -> None:
        model = MODLRegressor()
        model.learn_one({"a": 1.0}, 2.0)
        assert isinstance(model.braid.learners[0].config, LinearConfig)  # type: ignore[attr-defined]

    @pytest.mark.parametrize("huge", [1e100, 1e160, -1.7e308])
    @pytest.mark.parametrize("when", [0, 3, 500])
    def test_a_huge_target_does_not_ruin_the_model(self, huge: float, when: int) -> None:
        values, targets = self.stream(2_000)
        targets = targets - 1e4
        targets[when] = huge
        model = MODLRegressor()
        predictions = model.predict_learn_many(values, targets).values[:, 0]
        late = slice(1_000, None)
        assert np.abs(predictions - targets)[late].mean() < np.abs(targets - targets[late].mean())[late].mean()

    def test_classification_learners_are_refused(self) -> None:
        with pytest.raises(BraidedError, match="learner 'olr' is for classification, not for regression"):
            MODLRegressor(learners=(LogisticConfig(),)).learn_one({"a": 1.0}, 1.0)

    def test_bad_targets_are_refused(self) -> None:
        model = MODLRegressor()
        for target in (None, "high", math.nan, math.inf):
            with pytest.raises(BraidedError):
                model.learn_one({"a": 1.0}, target)
        assert model.n_features == 0
        assert model.records_learned == 0


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (MLPConfig, {"optimiser": "adam"}, "MLPConfig.optimiser is 'adam': use one of 'sgd', 'rmsprop', 'adagrad'"),
        (MLPConfig, {"hidden": (0,)}, "MLPConfig.hidden is"),
        (MLPConfig, {"learning_rate": -1.0}, "MLPConfig.learning_rate is -1.0"),
        (MLPConfig, {"epsilon": 0.0, "optimiser": "rmsprop"}, "MLPConfig.epsilon is 0.0: use a finite number above 0"),
        (SetConfig, {"binding": "glue"}, "SetConfig.binding is 'glue'"),
        (SetConfig, {"pooling": "max"}, "SetConfig.pooling is 'max'"),
        (SetConfig, {"output": "tanh"}, "SetConfig.output is 'tanh'"),
        (SetConfig, {"blocks": 0}, "SetConfig.blocks is 0: use a whole number of at least 1"),
        (SetConfig, {"layers": 0}, "SetConfig.layers is 0"),
        (SetConfig, {"width": 1, "normalise": True}, "SetConfig.width is 1"),
        (SetConfig, {"dropout": 1.0}, "SetConfig.dropout is 1.0"),
        (LogisticConfig, {"gain": "best"}, "LogisticConfig.gain is 'best'"),
        (LogisticConfig, {"score": "prob"}, "LogisticConfig.score is 'prob'"),
        (LogisticConfig, {"prior_variance": -1.0}, "LogisticConfig.prior_variance is -1.0"),
        (LinearConfig, {"noise_variance": 0.0}, "LinearConfig.noise_variance is 0.0"),
        (HedgeConfig, {"aux_layer": 6}, "HedgeConfig.aux_layer is 6 of 6 layers"),
        (HedgeConfig, {"exits": "all"}, "HedgeConfig.exits is 'all'"),
        (OLVFConfig, {"aggressiveness": 0.0}, "OLVFConfig.aggressiveness is 0.0"),
        (MLPConfig, {"bins": 10**12}, "MLPConfig.bins is 1000000000000"),
    ],
)
def test_bad_settings_are_refused_when_made(kind: type, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BraidedError, match=message):
        kind(**arguments)


def test_numpy_scalars_and_arrays_of_many_kinds(tmp_path: Path) -> None:
    values, labels = made_up(30)
    expected = MODLClassifier(seed=3)
    expected.learn_many(values, labels, names=[0, 1, 2, 3, 4, 5])
    read_only = np.asfortranarray(values)
    read_only.setflags(write=False)
    objects = np.where(np.isnan(values), None, values.astype(object))
    for X in (read_only, objects, np.ma.masked_invalid(values)):
        model = MODLClassifier(seed=np.int64(3), max_features=np.int64(50))  # type: ignore[arg-type]
        model.learn_many(X, labels, names=np.arange(6))  # type: ignore[arg-type]
        model.save(tmp_path / "model")
        assert state_digest(MODLClassifier.load(tmp_path / "model")) == state_digest(expected)


def test_slots_of_huge_integer_names_do_not_depend_on_the_order_of_keys() -> None:
    one, other = MODLClassifier(), MODLClassifier()
    one.learn_one({2**53: 1.0, 2**53 + 1: 2.0, 10**400: 3.0}, 0)
    other.learn_one({10**400: 3.0, 2**53 + 1: 2.0, 2**53: 1.0}, 0)
    assert list(one.core.features.slots) == list(other.core.features.slots) == [2**53, 2**53 + 1, 10**400]


def test_empty_chunks_and_records() -> None:
    model = MODLClassifier()
    model.learn_many(np.zeros((0, 3)), [])
    assert model.records_learned == 0
    model.learn_many(np.zeros((4, 0)), [0, 1, 0, 1])
    model.learn_one({}, 1)
    assert model.records_learned == 5
    assert model.predict_proba_many(np.zeros((2, 0))).shape == (2, 2)
    assert sum(model.predict_proba_one({}).values()) == pytest.approx(1.0)
