"""River's own suite for every estimator, and MODL inside what River offers around an estimator."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import pickle
import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from river import (
    bandit,
    checks,
    compose,
    datasets,
    drift,
    ensemble,
    evaluate,
    forest,
    linear_model,
    metrics,
    model_selection,
    multiclass,
    multioutput,
    preprocessing,
    stream,
)

from braided import BraidedError, MODLClassifier, MODLRegressor, presets, zoo
from braided.combiners import COMBINERS
from braided.estimators.params import ModelParams
from braided.estimators.river import RiverClassifier, RiverRegressor
from braided.learners import LogisticConfig, MLPConfig
from braided.store import state_digest
from braided.zoo import ModelOptions, names_for, preset_for
from braided.zoo.rivals import ColumnImputer

#: What River asks of an estimator and does not get here: (model, check) -> why. Nothing else is left out.
EXCEPTIONS = {
    (name, "check_predict_proba_one_binary"): (
        "River's binary classifiers answer with False and True before they have seen a label; ours take any two labels "
        "and answer with those that have occurred, so that nobody is told of a label that is not in the stream"
    )
    for name in ("olvf", "olvf as the paper sets it")
} | {
    ("river-srp", "check_shuffle_features_no_impact"): (
        "River's random patches choose each tree's features by their place in the first record; River leaves the check "
        "out as well"
    ),
    ("river-knn", "check_shuffle_features_no_impact"): (
        "River's check cannot read the parameters of River's own SelectType where it has one type alone"
    ),
}
#: Left to `make slow`, because others of their kind are checked every time.
SLOW = {
    *(f"{name} as the paper sets it" for name in ("auxdrop-odl", "auxdrop-ogd", "modl-glr", "modl-5")),
    *(f"modl with {name}" for name in COMBINERS if name not in ("moe", presets.default().combiner)),
    "modl-olr+mlp",
    "modl-olr+set",
    "river-srp",
    *(f"{kind} {preset}" for kind in ("MODLClassifier", "MODLRegressor") for preset in ("paper", "released")),
}


def _of(name: str, preset: presets.Preset, combiner: str | None = None, dataset: str | None = None) -> Any:
    return zoo.build(name, ModelOptions(ModelParams(preset, combiner=combiner), dataset=dataset, base_features=(0, 1)))


def estimators() -> dict[str, Any]:
    """Every model, preset and combiner, for both tasks; what is the same under two names is there once."""
    default = presets.default()
    table: dict[str, Any] = {f"MODLClassifier {name}": MODLClassifier(name) for name in presets.PRESETS}
    table |= {f"MODLRegressor {name}": MODLRegressor(name) for name in presets.PRESETS}
    table |= {name: _of(name, default) for name in names_for("classification") if name != "modl"}
    # Each tree costs the same again.
    table["river-arf"] = RiverClassifier(forest.ARFClassifier(n_models=2, seed=0))
    table["river-srp"] = RiverClassifier(ensemble.SRPClassifier(n_models=2, seed=0))
    few = forest.AMFClassifier(n_estimators=2, seed=0)
    table["river-amf"] = RiverClassifier(ColumnImputer() | preprocessing.MinMaxScaler() | few)
    table["river-linear"] = RiverRegressor(preprocessing.StandardScaler() | linear_model.LinearRegression())
    for name, kind in COMBINERS.items():
        if name != default.combiner:
            table[f"modl with {name}"] = _of("modl", default, name)
            if kind.for_regression:
                table[f"MODLRegressor with {name}"] = MODLRegressor("classic", combiner=name)
    table["MODLClassifier with a drift detector"] = MODLClassifier(drift_detector=drift.ADWIN())
    table["MODLRegressor with a drift detector"] = MODLRegressor(drift_detector=drift.PageHinkley())
    for name in ("auxdrop-odl", "auxdrop-ogd", "olvf", "modl-glr", "modl-5"):
        table[f"{name} as the paper sets it"] = _of(name, preset_for("released", "svmguide3"), dataset="svmguide3")
    return table


ESTIMATORS = estimators()
#: Whose checks are reported one by one.
OF_EACH_KIND = ("MODLClassifier default", "MODLRegressor default")


def one_by_one() -> list[Any]:
    return [
        pytest.param(name, check, id=f"{name}-{check.__name__}-{number}")
        for name in OF_EACH_KIND
        for number, check in enumerate(checks.yield_checks(ESTIMATORS[name]))
    ]


@pytest.mark.parametrize(("name", "check"), one_by_one())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_each_check(name: str, check: functools.partial[Any]) -> None:
    check(ESTIMATORS[name].clone())


def check_all(name: str) -> None:
    model = ESTIMATORS[name]
    for check in checks.yield_checks(model):
        if (name, check.__name__) not in EXCEPTIONS:
            check(model.clone())


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in SLOW and name not in OF_EACH_KIND])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_all_checks(name: str) -> None:
    check_all(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_all_checks_slow(name: str) -> None:
    check_all(name)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_nothing_is_skipped_in_silence(name: str) -> None:
    assert ESTIMATORS[name]._unit_test_skips() == set()


def test_every_exception_is_still_one() -> None:
    """A listed exception that passes after all would have to leave the list."""
    for name, wanted in EXCEPTIONS:
        model = ESTIMATORS[name]
        found = [check for check in checks.yield_checks(model) if check.__name__ == wanted]
        assert found
        with pytest.raises((AssertionError, IndexError)):
            found[0](model.clone())


def small(seed: int = 0) -> MODLClassifier:
    return MODLClassifier(learners=(LogisticConfig(prior_variance=0.1), MLPConfig(hidden=(16,))), seed=seed)


def small_regressor(seed: int = 0, rate: float = 0.01) -> MODLRegressor:
    return MODLRegressor(learners=(MLPConfig(hidden=(16,), learning_rate=rate),), combiner="score-sum", seed=seed)


def flares() -> Iterator[tuple[dict[str, Any], str]]:
    """Words and numbers side by side."""
    for x, y in datasets.SolarFlare().take(400):
        yield x, "some" if sum(y.values()) else "none"


def test_in_a_pipeline_with_scaler_one_hot_and_union() -> None:
    words = compose.SelectType(str) | preprocessing.OneHotEncoder()
    numbers = compose.SelectType(int, float) | preprocessing.StandardScaler()
    model = compose.Pipeline(compose.TransformerUnion(words, numbers), MODLClassifier())
    metric = evaluate.progressive_val_score(flares(), model, metrics.Accuracy())
    assert metric.get() > 0.75
    names = model["MODLClassifier"].feature_names
    assert "zurich-class_D" in names
    assert "activity" in names


def test_in_a_pipeline_that_selects_features() -> None:
    model = compose.Select("age_of_domain", "is_popular") | MODLClassifier()
    for x, y in datasets.Phishing().take(50):
        model.learn_one(x, y)
    assert sorted(model["MODLClassifier"].feature_names) == ["age_of_domain", "is_popular"]


@pytest.mark.parametrize("metric", [metrics.Accuracy(), metrics.LogLoss(), metrics.ROCAUC()], ids=lambda m: str(m)[:7])
def test_metrics_of_labels_and_of_probabilities(metric: metrics.base.Metric) -> None:
    evaluate.progressive_val_score(datasets.Phishing().take(600), MODLClassifier(), metric)
    if isinstance(metric, metrics.LogLoss):
        assert metric.get() < 0.4
    else:
        assert metric.get() > 0.85


def test_a_report_of_several_classes() -> None:
    report = metrics.ClassificationReport()
    evaluate.progressive_val_score(datasets.ImageSegments().take(1_000), MODLClassifier(), report)
    assert report._accuracy.get() > 0.7
    assert "brickface" in str(report)


def test_several_metrics_of_a_regression() -> None:
    metric = metrics.MAE() + metrics.R2()
    model = MODLRegressor()
    (x, y), *rest = datasets.TrumpApproval()
    model.learn_one(x, y)  # before its first record it says 0, forty points off
    evaluate.progressive_val_score(rest, model, metric)
    mae, r2 = (part.get() for part in metric)
    assert mae < 0.3
    assert r2 > 0.9


def dated() -> Iterator[tuple[dict[str, Any], bool]]:
    start = datetime(2026, 1, 1)
    for minute, (x, y) in enumerate(datasets.Phishing().take(400)):
        yield {**x, "moment": start + timedelta(minutes=minute)}, y


def without_moment() -> compose.Discard:
    return compose.Discard("moment")


def test_delayed_labels() -> None:
    """What learns five minutes later has answered fewer records and has learned the same in the end."""
    delay = timedelta(minutes=5)
    late, prompt = (without_moment() | small() for _ in range(2))
    delayed = evaluate.progressive_val_score(dated(), late, metrics.Accuracy(), moment="moment", delay=delay)
    at_once = evaluate.progressive_val_score(dated(), prompt, metrics.Accuracy())
    assert delayed.get() > 0.8
    assert delayed.cm.n_samples == at_once.cm.n_samples - 4
    assert late["MODLClassifier"].records_learned == 400
    assert state_digest(late["MODLClassifier"]) == state_digest(prompt["MODLClassifier"])


def test_labels_delayed_by_a_number_of_records_step_by_step() -> None:
    model = without_moment() | MODLClassifier()
    steps, totals = [], []
    for step in evaluate.iter_progressive_val_score(
        dated(), model, metrics.LogLoss(), delay=30, step=100, yield_predictions=True
    ):
        steps.append(step["Step"])
        totals.append(step["Step"] * step["LogLoss"].get())
        assert step["Prediction"] is None or set(step["Prediction"]) == {False, True}
    assert steps == [100, 200, 300, 400]
    # The first 30 records are answered before anything is known, which River counts as sure and wrong.
    assert (totals[3] - totals[0]) / 300 < 0.35


def test_model_selection_finds_the_one_that_learns() -> None:
    rates = (0.0, 0.0, 0.01, 0.0)
    candidates = [MODLClassifier(learners=(MLPConfig(hidden=(8,), learning_rate=rate),)) for rate in rates]
    halving = model_selection.SuccessiveHalvingClassifier(candidates, metrics.Accuracy(), budget=1_000, seed=1)
    for x, y in datasets.Phishing().take(500):
        halving.learn_one(x, y)
    assert halving.best_model.learners[0].learning_rate == 0.01

    policy = bandit.EpsilonGreedy(epsilon=0.1, decay=0.001, burn_in=50, seed=1)
    chooser = model_selection.BanditClassifier(candidates, metrics.Accuracy(), policy)
    for x, y in datasets.Phishing().take(500):
        chooser.learn_one(x, y)
    assert chooser.best_model.learners[0].learning_rate == 0.01


def test_model_selection_for_regression() -> None:
    greedy = model_selection.GreedyRegressor([small_regressor(rate=rate) for rate in (0.0, 0.01)], metrics.MAE())
    for x, y in datasets.TrumpApproval().take(200):
        greedy.learn_one(x, y)
    assert greedy.best_model.learners[0].learning_rate == 0.01


META: dict[str, Callable[[], Any]] = {
    "bagging": lambda: ensemble.BaggingClassifier(small(), n_models=3, seed=1),
    "adaptive bagging": lambda: ensemble.ADWINBaggingClassifier(small(), n_models=3, seed=1),
    "voting": lambda: ensemble.VotingClassifier([small(0), small(1), linear_model.LogisticRegression()]),
    "stacking": lambda: ensemble.StackingClassifier([small(0), linear_model.LogisticRegression()], small(1)),
    "one against the rest": lambda: multiclass.OneVsRestClassifier(_of("olvf", presets.default())),
    "retraining after drift": lambda: drift.DriftRetrainingClassifier(small(), drift.binary.DDM()),
}


@pytest.mark.parametrize("name", META)
def test_inside_a_meta_estimator(name: str) -> None:
    metric = evaluate.progressive_val_score(datasets.Phishing().take(500), META[name](), metrics.Accuracy())
    assert metric.get() > 0.75


def test_several_outputs() -> None:
    chain = multioutput.ClassifierChain(small(), order=["first", "second"])
    hits = 0
    for x, y in datasets.Phishing().take(400):
        truth = {"first": y, "second": not y}
        hits += chain.predict_one(x) == truth
        chain.learn_one(x, truth)
    assert hits > 250

    chain_r = multioutput.RegressorChain(MODLRegressor(), order=["a", "b"])
    last: dict[str, float] = {}
    for x, y in datasets.TrumpApproval().take(300):
        last = {name: abs(said - y * factor) for (name, said), factor in zip(chain_r.predict_one(x).items(), (1, 2))}  # noqa: B905 (empty before the first record)
        chain_r.learn_one(x, {"a": y, "b": 2 * y})
    assert max(last.values()) < 2.0


def test_pickles_of_clones_and_copies_are_byte_equal() -> None:
    model = MODLClassifier(seed=3)
    untaught = pickle.dumps(model.clone())
    for x, y in datasets.Phishing().take(60):
        model.learn_one(x, y)
    assert pickle.dumps(model.clone()) == untaught == pickle.dumps(model.clone().clone())
    twin = copy.deepcopy(model)
    assert pickle.dumps(twin) == pickle.dumps(model)
    for x, y in datasets.Phishing().take(20):
        model.learn_one(x, y)
    assert pickle.dumps(twin) != pickle.dumps(model)
    assert state_digest(pickle.loads(pickle.dumps(model))) == state_digest(model)


def test_a_stream_of_ever_new_names_is_refused_and_does_not_fill_the_memory() -> None:
    model = MODLClassifier(max_features=20)
    refused = 0
    sizes = []
    for i in range(600):
        record = {"always": float(i % 3), f"new {i}": 1.0}
        if model.n_features < 20:
            model.learn_one(record, i % 2)
        else:
            with pytest.raises(BraidedError, match="max_features"):
                model.learn_one(record, i % 2)
            refused += 1
        if i >= 100 and i % 100 == 0:
            sizes.append(len(pickle.dumps(model)))
            model.learn_one({"always": 1.0}, i % 2)
    assert model.n_features == 20
    assert refused == 600 - 19
    assert max(sizes) - min(sizes) < 100
    assert set(model.predict_proba_one({"always": 1.0, "new 599": 1.0})) == {0, 1}


def test_the_order_of_features_has_no_impact() -> None:
    shuffled, sorted_ = small(), small()
    rng = random.Random(0)
    for x, y in datasets.Phishing().take(150):
        names = list(x)
        rng.shuffle(names)
        assert shuffled.predict_proba_one({name: x[name] for name in names}) == sorted_.predict_proba_one(x)
        shuffled.learn_one({name: x[name] for name in names}, y)
        sorted_.learn_one(dict(sorted(x.items())), y)
    assert state_digest(shuffled) == state_digest(sorted_)


def test_features_that_come_and_go() -> None:
    """Each feature is there in one of three stretches alone; what is known of it is kept."""
    model = MODLClassifier()
    names = sorted(next(iter(datasets.Phishing()))[0])
    parts = [names[i::3] for i in range(3)]
    records = list(datasets.Phishing().take(600))
    for i, (x, y) in enumerate(records):
        model.learn_one({name: x[name] for name in parts[i // 200 % 3]}, y)
    assert model.n_features == len(names)
    wrong = sum(model.predict_one({name: x[name] for name in parts[0]}) != y for x, y in records[:200])
    assert wrong < 60


def test_from_an_array_with_stream_iter_array() -> None:
    rows = list(itertools.islice(((x, y) for x, y in datasets.Phishing()), 50))
    names = list(rows[0][0])
    values = [[x[name] for name in names] for x, _ in rows]
    model = small()
    for x, y in stream.iter_array(values, [y for _, y in rows], feature_names=names):
        model.learn_one(x, y)
    assert math.isclose(sum(model.predict_proba_one(rows[0][0]).values()), 1.0)
