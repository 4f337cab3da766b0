"""One table of checks over every model and every combiner; a new one is covered by being registered."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, MODLClassifier, presets, zoo
from braided.combiners import COMBINERS
from braided.estimators.params import ModelParams
from braided.learners.river_learner import takes_weight
from braided.store import state_digest
from braided.zoo import ModelOptions, names_for, preset_for
from conftest import as_records, made_up

Make = Callable[[int], Any]
BASE = (0, 1)


def _of(name: str, combiner: str | None = None) -> Make:
    return lambda seed: zoo.build(
        name, ModelOptions(ModelParams(presets.default(), combiner=combiner, seed=seed), base_features=BASE)
    )


EVERYTHING: dict[str, Make] = {name: _of(name) for name in names_for("classification")}
EVERYTHING |= {f"modl with {combiner}": _of("modl", combiner) for combiner in COMBINERS}
EVERYTHING |= {
    f"{name} as the paper sets it": lambda seed, name=name: zoo.build(
        name,
        ModelOptions(
            ModelParams(preset_for("released", "svmguide3"), seed=seed), dataset="svmguide3", base_features=BASE
        ),
    )
    for name in ("auxdrop-odl", "auxdrop-ogd", "olvf", "modl-glr", "modl-5")
}
OURS = [name for name in EVERYTHING if not name.startswith(("majority", "river"))]
BINARY = ("olvf", "olvf as the paper sets it")


@pytest.fixture(params=EVERYTHING)
def make(request: pytest.FixtureRequest) -> Make:
    return EVERYTHING[request.param]


@pytest.fixture(params=OURS)
def make_ours(request: pytest.FixtureRequest) -> Make:
    return EVERYTHING[request.param]


def stream(n: int = 60) -> tuple[Any, Any]:
    values, labels = made_up(n)
    values[:, :2] = np.nan_to_num(values[:, :2], nan=0.5)  # the base features are always there
    values[: n // 2, 5] = np.nan  # one appears late
    return values, labels


def frozen(model: Any) -> Any:
    """What the model knows: its state, or for River's own models, which hide theirs, what it says."""
    if isinstance(model, MODLClassifier):
        return state_digest(model)
    return [model.predict_proba_one(x) for x in as_records(stream()[0])]


def test_probabilities_are_finite_and_sum_to_one(make: Make) -> None:
    model = make(0)
    for x, y in zip(as_records(stream()[0]), stream()[1].tolist(), strict=True):
        probabilities = model.predict_proba_one(x)
        if len(probabilities) > 1:
            assert all(0.0 <= p <= 1.0 for p in probabilities.values())
            assert math.isclose(sum(probabilities.values()), 1.0, rel_tol=1e-6)
        model.learn_one(x, y)


def test_predicting_changes_nothing(make: Make) -> None:
    model = make(0)
    values, labels = stream()
    model.predict_learn_many(values, labels)
    before = frozen(model)
    for x in as_records(values):
        model.predict_proba_one(x)
        model.predict_one({"unknown": 1.0})
    assert frozen(model) == before


def test_the_array_path_is_the_one_record_path(make: Make) -> None:
    chunked, single = make(1), make(1)
    values, labels = stream()
    progress = chunked.predict_learn_many(values, labels)
    for i, (x, y) in enumerate(zip(as_records(values), labels.tolist(), strict=True)):
        probabilities = single.predict_proba_one(x)
        np.testing.assert_array_equal(progress.values[i], [probabilities.get(c, 0.0) for c in chunked.classes])
        single.learn_one(x, y)
    assert frozen(chunked) == frozen(single)


def test_the_same_seed_gives_the_same_result_and_copies_go_on_alike(make: Make) -> None:
    values, labels = stream()
    one, other = make(4), make(4)
    one.predict_learn_many(values[:30], labels[:30])
    other.predict_learn_many(values[:30], labels[:30])
    twins = [other, copy.deepcopy(one), pickle.loads(pickle.dumps(one))]
    expected = one.predict_learn_many(values[30:], labels[30:]).values
    for twin in twins:
        np.testing.assert_array_equal(twin.predict_learn_many(values[30:], labels[30:]).values, expected)


def test_saving_loading_and_resuming_is_bit_exact(make_ours: Make, tmp_path: Path) -> None:
    values, labels = stream()
    straight, stopped = make_ours(2), make_ours(2)
    straight.learn_many(values, labels)
    stopped.learn_many(values[:25], labels[:25])
    stopped.save(tmp_path / "model")
    resumed = MODLClassifier.load(tmp_path / "model")
    resumed.learn_many(values[25:], labels[25:])
    assert state_digest(resumed) == state_digest(straight)
    np.testing.assert_array_equal(resumed.predict_proba_many(values), straight.predict_proba_many(values))


def test_names_expire_alike_in_chunks_one_by_one_and_after_a_restart(make_ours: Make, tmp_path: Path) -> None:
    values, labels = stream()
    values[:, 2:][np.random.default_rng(5).random(values[:, 2:].shape) < 0.7] = np.nan

    def expiring() -> MODLClassifier:
        return make_ours(3).clone({"max_features": 4, "expire_after": 2})

    single, in_chunks = expiring(), expiring()
    taken = []
    for x, y in zip(as_records(values), labels.tolist(), strict=True):
        before = single.feature_names
        try:
            single.learn_one(x, y)
        except BraidedError:
            assert single.feature_names == before
            continue
        taken.append((x, y))
    assert 20 < len(taken) < 60
    names = sorted({name for x, _ in taken for name in x})
    array = np.array([[x.get(name, np.nan) for name in names] for x, _ in taken])
    for start, stop in ((0, 1), (1, 4), (4, 15), (15, len(taken))):
        part, kinds = array[start:stop], [y for _, y in taken[start:stop]]
        in_chunks.learn_many(part, kinds, names)
        in_chunks.predict_proba_many(array, names)
        in_chunks.save(tmp_path / "model")
        in_chunks = MODLClassifier.load(tmp_path / "model")
    assert state_digest(in_chunks) == state_digest(single)


def test_missing_features_and_empty_records_are_handled(make: Make) -> None:
    model = make(0)
    model.learn_one({}, 0)
    model.learn_one({"a": None, "b": math.nan}, 1)
    model.learn_one({"a": 1.0}, 0)
    model.learn_one({"b": 2.0}, 1)
    for x in ({}, {"a": None}, {"c": 1.0}, {"a": 1.0, "b": 1.0}):
        assert set(model.predict_proba_one(x)) == {0, 1}


@pytest.mark.parametrize("name", EVERYTHING)
def test_an_unseen_class_is_handled_or_refused_clearly(name: str) -> None:
    model = EVERYTHING[name](0)
    values, labels = stream()
    model.predict_learn_many(values, labels)
    before = frozen(model)
    if name in BINARY:
        with pytest.raises(BraidedError, match="olvf takes 2 classes only: use another model"):
            model.learn_one({0: 1.0, 1: 1.0}, 2)
        with pytest.raises(BraidedError, match="olvf takes 2 classes only"):
            model.learn_many([[1.0, 2.0]], [2])
        assert frozen(model) == before
        return
    model.learn_one({0: 1.0, 1: 1.0}, 2)
    known = set(model.predict_proba_one({0: 1.0, 1: 1.0}))
    # River's forest may leave out a class that none of its leaves has seen.
    assert known <= {0, 1, 2} if name == "river-arf" else known == {0, 1, 2}


@pytest.mark.parametrize("name", [name for name in EVERYTHING if name not in ("majority", "recent", *BINARY[1:])])
def test_it_beats_the_majority_class_on_an_easy_stream(name: str) -> None:
    rng = np.random.default_rng(0)
    n = 600 if name == "river-srp" else 3_000  # which learns each record six times in the mean, in each of ten trees
    values = rng.normal(size=(n, 3))
    labels = (values[:, 0] + values[:, 1] > 0.5).astype(int)
    model = EVERYTHING[name](0)
    predictions = model.predict_learn_many(values, labels).values
    truth = np.array([model.classes.index(label) for label in labels.tolist()])
    errors = (predictions.argmax(axis=1) != truth)[n // 2 :].mean()
    assert errors < 0.7 * labels[n // 2 :].mean()


def test_more_classes(make: Make) -> None:
    model = make(0)
    if isinstance(model, MODLClassifier) and any(getattr(k, "max_classes", 9) < 5 for k in model.braid.learners):
        return  # binary by nature; that it says so is checked above
    values, labels = made_up(300, classes=5)
    model.predict_learn_many(values, labels)
    assert set(model.predict_proba_one({0: 1.0})) == set(range(5))


def test_each_learner_has_its_own_name() -> None:
    assert zoo.build("modl-glr", ModelOptions(ModelParams("classic"))).learner_names == ["glr", "fourier", "mlp", "set"]


def test_random_dropout_acts_on_predictions_under_released_alone() -> None:
    for preset in (presets.default(), preset_for("paper", "german"), preset_for("released", "german")):
        config = zoo.build("auxdrop-odl", ModelOptions(ModelParams(preset))).braid.learners[0].config  # type: ignore[union-attr]
        assert config.dropout_when_predicting == (preset.name == "released")


def test_options_reach_the_learners_that_have_them() -> None:
    options = ModelOptions(overrides=("layers=7", "aux_layer=2", "dropout=0.1", "beta=0.9", "learning_rate=0.5"))
    config = zoo.build("auxdrop-odl", options).braid.learners[0].config  # type: ignore[union-attr]
    assert (config.layers, config.aux_layer, config.dropout, config.beta, config.learning_rate) == (7, 2, 0.1, 0.9, 0.5)
    options = ModelOptions(overrides=("hidden=9,8", "zero_output=false"))
    fast, *_, mlp, _, _ = zoo.build("modl", options).learners  # type: ignore[union-attr,misc]
    assert fast == presets.default().learners[0]
    assert (mlp.hidden, mlp.zero_output) == ((9, 8), False)


def weights_for(model: Any, n: int) -> Any:
    """Weights of all kinds; River's models that take none get 0 and 1."""
    kinds = [0.0, 0.4, 1.0, 2.0, 7.5, 1e9]
    if not isinstance(model, MODLClassifier) and not takes_weight(model.model):
        kinds = [0.0, 1.0]
    return np.random.default_rng(1).choice(kinds, size=n)


def test_the_weighted_array_path_is_the_one_record_path(make: Make) -> None:
    chunked, single = make(1), make(1)
    values, labels = stream()
    weights = weights_for(chunked, len(labels))
    progress = chunked.predict_learn_many(values, labels, sample_weight=weights)
    for i, (x, y) in enumerate(zip(as_records(values), labels.tolist(), strict=True)):
        probabilities = single.predict_proba_one(x)
        np.testing.assert_array_equal(progress.values[i], [probabilities.get(c, 0.0) for c in chunked.classes])
        single.learn_one(x, y, w=weights[i].item())
    assert frozen(chunked) == frozen(single)


def test_weight_one_is_no_weight_and_other_weights_are_learned(make_ours: Make) -> None:
    values, labels = stream()
    plain, ones, heavy = make_ours(1), make_ours(1), make_ours(1)
    plain.learn_many(values, labels)
    ones.learn_many(values, labels, sample_weight=np.ones(len(labels)))
    heavy.learn_many(values, labels, sample_weight=np.where(labels == 1, 5.0, 1.0))
    assert frozen(ones) == frozen(plain) != frozen(heavy)


def test_weight_zero_changes_nothing(make: Make) -> None:
    model = make(1)
    values, labels = stream()
    model.learn_one({"new": 1.0}, "new", w=0)
    model.learn_many(values, labels)
    before, known = frozen(model), (model.n_features, list(model.classes))
    model.learn_one({"new": 1.0}, "new", w=0)
    model.learn_many(values, ["new"] * len(labels), sample_weight=np.zeros(len(labels)))
    model.predict_learn_many(np.ones((2, 1)), ["new", "newer"], ["another"], sample_weight=[0, 0.0])
    assert (frozen(model), (model.n_features, list(model.classes))) == (before, known)


def test_what_is_no_weight_is_refused(make: Make) -> None:
    model = make(1)
    values, labels = stream()
    model.learn_many(values, labels)
    before = frozen(model)
    refusal = r"the weight of record \d+ is .*: give a finite number of at least 0"
    for weight in (-1.0, -1e-300, math.nan, math.inf, "2", None):
        with pytest.raises(BraidedError, match=refusal):
            model.learn_one({0: 1.0, 1: 1.0}, 0, w=weight)
        with pytest.raises(BraidedError, match=refusal):
            model.learn_many(values[:3], labels[:3], sample_weight=[1.0, weight, 1.0])
    with pytest.raises(BraidedError, match="X has 3 records and sample_weight has 2 weights"):
        model.learn_many(values[:3], labels[:3], sample_weight=[1.0, 1.0])
    assert frozen(model) == before
