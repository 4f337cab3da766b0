"""The scikit-learn estimators: its own suite for estimators, and the conventions that the suite does not look at."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("sklearn", reason="scikit-learn is not installed: run make test")

import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_classification
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import braided
import braided.sklearn
from braided import BraidedError, estimators
from braided.learners import LinearConfig, LogisticConfig, MLPConfig
from braided.sklearn import MODLClassifier, MODLRegressor
from conftest import made_up

FAST = (LogisticConfig(),)


#: Of a stream, a record of weight 2 is not the record twice at another place, and statistics of features count records.
NOT_MET = tuple(f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse"))


def all_checks() -> list[Any]:
    """Every check but the one that SciPy must be prepared for when it is imported, which the next test runs."""
    return [
        pytest.param(estimator, check, id=f"{type(estimator).__name__}-{name}")
        for kind in (MODLClassifier, MODLRegressor)
        for estimator, check in estimator_checks_generator(kind())
        if (name := getattr(check, "func", check).__name__) not in ("check_array_api_input", *NOT_MET)
    ]


@pytest.mark.parametrize(("estimator", "check"), all_checks())
def test_check_of_sklearn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_the_whole_suite_passes_without_a_skip() -> None:
    program = (
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from braided.sklearn import MODLClassifier, MODLRegressor\n"
        "for estimator in (MODLClassifier(), MODLRegressor()):\n"
        "    for check in check_estimator(estimator, on_fail=None, on_skip=None):\n"
        f"        assert check['status'] == 'passed' or check['check_name'] in {NOT_MET}, check\n"
        "    print(type(estimator).__name__)\n"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=300)
    assert done.stdout.split() == ["MODLClassifier", "MODLRegressor"], done.stderr


def test_fit_in_order_is_learn_many_bit_for_bit() -> None:
    values, places = made_up(80, classes=3)
    labels = np.array(["c", "a", "b"])[places]
    model = MODLClassifier(shuffle=False, passes=2, random_state=4).fit(values, labels)
    plain = braided.MODLClassifier(seed=model.model_.seed)
    plain.learn_many(values, labels)
    plain.learn_many(values, labels)
    rows = plain.predict_proba_many(values)
    assert model.classes_.tolist() == ["a", "b", "c"] != plain.classes
    for place, label in enumerate(model.classes_.tolist()):
        np.testing.assert_array_equal(model.predict_proba(values)[:, place], rows[:, plain.classes.index(label)])
    assert model.predict(values).tolist() == plain.predict_many(values)
    regressor = MODLRegressor(shuffle=False, random_state=4).fit(values, places)
    plain_regressor = braided.MODLRegressor(seed=regressor.model_.seed)
    plain_regressor.learn_many(values, places)
    np.testing.assert_array_equal(regressor.predict(values), plain_regressor.predict_many(values))


def test_sample_weights_reach_the_model_with_their_records() -> None:
    values, labels = made_up(80)
    weights = np.where(labels == 1, 3.0, 0.5)
    weights[:7] = 0.0
    model = MODLClassifier(shuffle=False, random_state=4).fit(values, labels, sample_weight=weights)
    plain = braided.MODLClassifier(seed=model.model_.seed)
    plain.learn_many(values, labels, sample_weight=weights)
    places = [plain.classes.index(label) for label in model.classes_.tolist()]
    np.testing.assert_array_equal(model.predict_proba(values), plain.predict_proba_many(values)[:, places])
    parts = MODLClassifier(random_state=4).partial_fit(values[:40], labels[:40], [0, 1], sample_weight=weights[:40])
    parts.partial_fit(values[40:], labels[40:], sample_weight=weights[40:])
    np.testing.assert_array_equal(parts.predict_proba(values), model.predict_proba(values))
    # In random order each record keeps its own: those of weight 0 are as if they were not there.
    some = MODLRegressor(learners=(LinearConfig(),), random_state=1)
    spoilt = np.where(weights == 0.0, 1e6, labels)
    np.testing.assert_array_equal(
        some.fit(values, spoilt, sample_weight=weights).predict(values),
        clone(some).fit(values, labels, sample_weight=weights).predict(values),
    )
    ones = clone(some).fit(values, labels, sample_weight=1.0).predict(values)
    np.testing.assert_array_equal(ones, clone(some).fit(values, labels).predict(values))
    with pytest.raises(BraidedError, match="the weight of record 2 is -1"):
        some.fit(values[:2], labels[:2], sample_weight=[1, -1])
    with pytest.raises(BraidedError, match="sample_weight has 1 weights"):
        some.partial_fit(values[:2], labels[:2], sample_weight=[1])


def test_partial_fit_goes_on_in_order() -> None:
    values, labels = made_up(60)
    whole = MODLClassifier(shuffle=False, random_state=1).fit(values, labels)
    parts = MODLClassifier(random_state=1)
    for start, stop in ((0, 1), (1, 30), (30, 60)):
        assert parts.partial_fit(values[start:stop], labels[start:stop], classes=[1, 0]) is parts
    np.testing.assert_array_equal(parts.predict_proba(values), whole.predict_proba(values))
    whole.partial_fit(values, labels)
    assert whole.model_.records_learned == 120
    whole.fit(values, labels)
    assert whole.model_.records_learned == 60
    regressor = (
        MODLRegressor(random_state=1).partial_fit(values[:30], labels[:30]).partial_fit(values[30:], labels[30:])
    )
    expected = MODLRegressor(shuffle=False, random_state=1).fit(values, labels)
    np.testing.assert_array_equal(regressor.predict(values), expected.predict(values))


def test_a_class_never_seen_has_probability_zero() -> None:
    values, labels = made_up(30)
    model = MODLClassifier(learners=FAST, random_state=0).partial_fit(values, labels * 2, classes=[3, 2, 1, 0])
    probabilities = model.predict_proba(values)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert not probabilities[:, [1, 3]].any()
    assert (probabilities[:, [0, 2]] > 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    model.partial_fit(values[:1], [3])
    assert (model.predict_proba(values)[:, 3] > 0).all()


def test_labels_outside_the_classes_are_refused_and_nothing_is_learned() -> None:
    values, labels = made_up(20)
    model = MODLClassifier(learners=FAST, random_state=0)
    with pytest.raises(BraidedError, match="classes is None in the first call of partial_fit: give all labels"):
        model.partial_fit(values, labels)
    with pytest.raises(BraidedError, match="y holds 1: it must be one of the classes"):
        model.partial_fit(values, labels, classes=[0, 2])
    with pytest.raises(NotFittedError):
        model.predict(values)
    model.partial_fit(values, labels, classes=[0, 1])
    before = pickle.dumps(model)
    with pytest.raises(BraidedError, match="y holds '0': it must be one of the classes"):
        model.partial_fit(values, labels.astype(str))
    with pytest.raises(BraidedError, match=r"classes is \[0, 1, 2\] and was \[0, 1\] before: give the same"):
        model.partial_fit(values, labels, classes=[0, 1, 2])
    with pytest.raises(BraidedError, match="none of them may be missing"):
        model.partial_fit(values, labels, classes=[0, None])
    with pytest.raises(ValueError, match="X has 5 features, but MODLClassifier is expecting 6"):
        model.partial_fit(values[:, :5], labels)
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(np.full((20, 6), np.inf), labels)
    assert pickle.dumps(model) == before


def test_missing_labels_are_refused() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed: run make test")
    pl = pytest.importorskip("polars", reason="Polars is not installed: run make test")
    values = np.ones((3, 2))
    for y in (pd.Series(["a", None, "b"], dtype="string"), pl.Series(["a", None, "b"]), ["a", None, "b"]):
        with pytest.raises(BraidedError, match=r"y is (None|<NA>) in row 1: every record"):
            MODLClassifier().fit(values, y)
    for y in (pd.Series([1.0, None, 2.0]), pl.Series([1.0, None, 2.0]).to_numpy()):
        for estimator in (MODLClassifier(), MODLRegressor()):
            with pytest.raises(ValueError, match=r"y is nan in row 1|Input y contains NaN"):
                estimator.fit(values, y)


def test_labels_keep_their_type() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed: run make test")
    values = np.arange(8.0).reshape(4, 2)
    for y, kind in (
        (pd.Series([2, 1, 2, 1], dtype="Int64"), "i"),
        (pd.Series([True, False] * 2, dtype="boolean"), "b"),
        (pd.Series(["x", "y"] * 2, dtype="category"), "U"),
        (np.array([2.0, 1.0, 2.0, 1.0]), "f"),
        (np.array(["x", "y", "x", "y"], dtype=object), "O"),
    ):
        model = MODLClassifier(learners=FAST).fit(values, y)
        assert model.classes_.dtype.kind == model.predict(values).dtype.kind == kind
        assert sorted(set(y)) == model.classes_.tolist()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"passes": 0}, "passes is 0: use a whole number of at least 1"),
        ({"passes": 1.5}, "passes is 1.5"),
        ({"shuffle": "no"}, "shuffle is 'no': use True or False"),
        ({"preset": "deep"}, "deep"),
        ({"random_state": "x"}, "'x' cannot be used to seed"),
    ],
)
def test_bad_parameters_are_told_when_fitting(changed: dict[str, Any], message: str) -> None:
    values, labels = made_up(10)
    for kind in (MODLClassifier, MODLRegressor):
        model = kind(**changed)
        with pytest.raises(ValueError, match=message):
            model.fit(values, labels)
        with pytest.raises(NotFittedError):
            model.predict(values)


def test_random_state_fixes_everything() -> None:
    values, labels = made_up(60)

    def fitted(random_state: Any) -> Any:
        return MODLClassifier(random_state=random_state).fit(values, labels).predict_proba(values)

    np.testing.assert_array_equal(fitted(3), fitted(3))
    np.testing.assert_array_equal(fitted(np.random.RandomState(3)), fitted(3))
    assert (fitted(3) != fitted(4)).any()
    assert (fitted(None) != fitted(None)).any()


def test_a_shuffled_pass_is_not_lost_on_sorted_data() -> None:
    X, y = load_iris(return_X_y=True)
    assert (np.diff(y) >= 0).all()
    shuffled = cross_val_score(MODLClassifier(random_state=0), X, y).mean()
    in_order = cross_val_score(MODLClassifier(shuffle=False, random_state=0), X, y).mean()
    assert shuffled > 0.85 > in_order


def test_more_passes_fit_closer() -> None:
    X, y = load_diabetes(return_X_y=True)
    learners = (MLPConfig(hidden=(16,), optimiser="rmsprop", learning_rate=0.001),)
    once, often = (MODLRegressor(learners=learners, passes=n, random_state=0).fit(X, y).score(X, y) for n in (1, 10))
    assert often > once


def test_missing_values_need_no_imputation() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X[np.random.default_rng(0).random(X.shape) < 0.5] = np.nan
    assert cross_val_score(MODLClassifier(random_state=0), X, y).mean() > 0.9


def test_in_pipelines_searches_and_ensembles() -> None:
    X, y = make_classification(200, 8, random_state=0)
    names = np.array(["no", "yes"])[y]
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), MODLClassifier(learners=FAST, random_state=0))
    grid = {
        "modlclassifier__learners": [FAST, (LogisticConfig(prior_variance=1e-9),)],
        "modlclassifier__passes": [1, 2],
    }
    search = GridSearchCV(pipeline, grid, cv=3, scoring="neg_log_loss").fit(X, names)
    assert search.best_params_["modlclassifier__learners"] == FAST
    assert search.score(X, names) > -0.5
    np.testing.assert_array_equal(
        cross_val_predict(pipeline, X, names, method="predict_proba").argmax(axis=1),
        (cross_val_predict(pipeline, X, names) == "yes").astype(int),
    )
    vote = VotingClassifier(
        [("modl", MODLClassifier(learners=FAST)), ("logistic", LogisticRegression())], voting="soft"
    )
    assert vote.fit(X, names).score(X, names) > 0.8


def test_clone_and_parameters() -> None:
    model = MODLClassifier(learners=FAST, passes=3, random_state=5)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model.fit([[0.0], [1.0]], [0, 1])), "model_")
    assert model.set_params(passes=1).passes == 1


def test_data_frames_by_name() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed: run make test")
    pl = pytest.importorskip("polars", reason="Polars is not installed: run make test")
    pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed: run make test")
    values, labels = made_up(40)
    names = list("fedcba")
    by_array = MODLClassifier(random_state=0).fit(values, labels)
    cells = {
        name: [None if v != v else v for v in column] for name, column in zip(names, values.T.tolist(), strict=True)
    }
    for frame in (pd.DataFrame(values, columns=names), pd.DataFrame(cells), pl.DataFrame(cells), pa.table(cells)):
        model = MODLClassifier(random_state=0).fit(frame, labels)
        assert model.feature_names_in_.tolist() == names
        np.testing.assert_array_equal(model.predict_proba(frame), by_array.predict_proba(values))
        turned = frame[names[::-1]] if isinstance(frame, pd.DataFrame) else frame.select(names[::-1])
        with pytest.raises(ValueError, match="must be in the same order"):
            model.predict(turned)
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            model.predict(values)
    with pytest.raises(BraidedError, match=r"'city' (is 'Rome' in record 1|holds text).*encode=True takes text"):
        MODLClassifier().fit(pd.DataFrame({"city": ["Rome", "Oslo"]}), [0, 1])
    with pytest.raises(ValueError, match="0 sample"):
        MODLClassifier().fit(pd.DataFrame({"a": []}), [])
    with pytest.raises(ValueError, match="0 feature"):
        MODLClassifier().fit(pd.DataFrame(index=range(2)), [0, 1])


def test_a_refused_fit_leaves_the_old_one_in_place() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed: run make test")
    values, labels = made_up(30)
    model = MODLClassifier(learners=FAST, random_state=0).fit(values, labels)
    before = pickle.dumps(model)
    with pytest.raises(BraidedError):
        model.fit(pd.DataFrame({"city": ["Rome", "Oslo"]}), [0, 1])
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("combiner", ["kalman", "moe", "greedy"])
def test_a_read_only_copy_predicts_and_learns_on(combiner: str, tmp_path: Path) -> None:
    """The kernels write to addresses: arrays that joblib maps from a file read-only would end the process."""
    joblib = pytest.importorskip("joblib", reason="joblib is not installed: run make test")
    values, labels = made_up(60)
    model = MODLClassifier(combiner=combiner, random_state=0).fit(values, labels)
    model.predict(values)
    joblib.dump(model, tmp_path / "model")
    loaded = joblib.load(tmp_path / "model", mmap_mode="r")
    np.testing.assert_array_equal(loaded.predict_proba(values), model.predict_proba(values))
    weights = np.full(60, 0.5)
    model.partial_fit(values, labels, sample_weight=weights)
    weights.flags.writeable = False
    loaded.partial_fit(values, labels, sample_weight=weights)
    np.testing.assert_array_equal(loaded.predict_proba(values), model.predict_proba(values))


def test_without_scikit_learn_the_message_says_what_to_install() -> None:
    program = "import sys; sys.modules['sklearn'] = None; import braided.sklearn"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: scikit-learn 1.6 or later is needed")
    assert last.endswith("pip install 'braided[sklearn]'")


def test_nothing_begins_with_records_of_which_none_counts() -> None:
    X, y = np.zeros((4, 2)), np.array([0, 1, 0, 1])
    model = MODLClassifier("lean", decision="balanced", random_state=0)
    with pytest.raises(BraidedError, match="sample_weight is zero for every record"):
        model.partial_fit(X, y, classes=[0, 1], sample_weight=np.zeros(4))
    model.partial_fit(X, y, classes=[0, 1]).partial_fit(X, y, sample_weight=np.zeros(4))
    assert set(model.predict(X)) <= {0, 1}


@pytest.mark.parametrize("settings", [{"decision": "balanced"}, {"class_weight": {1: 50.0}}, {"costs": {1: {0: 50.0}}}])
def test_a_decision_changes_labels_and_no_probability(settings: dict[str, Any]) -> None:
    X, y = make_classification(400, weights=[0.9], flip_y=0.2, random_state=0)
    plain, decided = (MODLClassifier(learners=FAST, random_state=0, **more).fit(X, y) for more in ({}, settings))
    np.testing.assert_array_equal(plain.predict_proba(X), decided.predict_proba(X))
    assert decided.predict(X).sum() > 1.5 * plain.predict(X).sum()
    assert decided.predict(X).dtype == y.dtype
    assert clone(decided).get_params()["costs"] == settings.get("costs")


def test_sets_and_intervals() -> None:
    X, y = load_iris(return_X_y=True)
    model = MODLClassifier(learners=FAST, random_state=0).fit(X, y)
    sets = model.predict_set(X, 0.9)
    assert all(answer in found for answer, found in zip(model.predict(X), sets, strict=True))
    assert np.mean([label in found for label, found in zip(y, sets, strict=True)]) > 0.85
    X, y = load_diabetes(return_X_y=True)
    intervals = MODLRegressor(random_state=0).fit(X, y).predict_interval(X, 0.9)
    assert np.mean((intervals[:, 0] <= y) & (y <= intervals[:, 1])) > 0.85


def test_what_a_sparse_matrix_does_not_store_is_missing() -> None:
    from scipy.sparse import csr_matrix

    values, labels = made_up(300, d=6)
    there = ~np.isnan(values)
    found = csr_matrix((values[there], np.nonzero(there)), shape=values.shape)
    ours, theirs = (MODLClassifier(learners=FAST, random_state=0).fit(X, labels) for X in (found, values))
    np.testing.assert_array_equal(ours.predict_proba(found), theirs.predict_proba(values))
    np.testing.assert_array_equal(ours.predict(found), theirs.predict(values))


#: What the estimators have and the wrapper gives by other means.
ELSEWHERE = {"seed": "random_state", "max_classes": "the classes are known", "first_features": "columns have places"}


@pytest.mark.parametrize("name", ["MODLClassifier", "MODLRegressor"])
def test_the_wrapper_has_the_parameters_of_the_estimator(name: str) -> None:
    own = inspect.signature(getattr(estimators, name)).parameters
    wrapped = inspect.signature(getattr(braided.sklearn, name)).parameters
    assert own.keys() - wrapped.keys() == own.keys() & ELSEWHERE.keys()
    assert wrapped.keys() - own.keys() == {"passes", "shuffle", "random_state"}
    for parameter in own.keys() & wrapped.keys() - {"max_features"}:
        assert wrapped[parameter].default == own[parameter].default, parameter


def raw_frame(n: int) -> Any:
    rng = np.random.default_rng(0)
    kind = rng.choice(["lathe", "press", "saw"], size=n)
    heat = rng.normal(60.0, 10.0, size=n)
    frame = pd.DataFrame({"kind": kind, "heat": [f"{value:.1f}" for value in heat], "at": "2026-03-01 10:00"})
    frame.loc[::7, "kind"] = None
    return frame, np.where((kind == "saw") ^ (heat > 60.0), "fails", "holds")


@pytest.mark.parametrize("form", ["frame", "array"])
def test_raw_records_are_learned_as_the_estimator_inside_does(form: str) -> None:
    frame, y = raw_frame(120)
    X = frame if form == "frame" else frame.to_numpy(dtype=object)
    model = braided.sklearn.MODLClassifier(learners=[LogisticConfig()], encode=True, shuffle=False, random_state=0)
    model.fit(X[:100], y[:100])
    inner = estimators.MODLClassifier(learners=[LogisticConfig()], seed=model.model_.seed, encode=True)
    names = list(frame) if form == "frame" else [0, 1, 2]
    for row, label in zip(frame.to_numpy(dtype=object)[:100], y[:100], strict=True):
        inner.learn_one(dict(zip(names, row, strict=True)), label)
    known = [dict(zip(names, row, strict=True)) for row in frame.to_numpy(dtype=object)[100:]]
    wanted = [[inner.predict_proba_one(x)[label] for label in model.classes_.tolist()] for x in known]
    assert model.predict_proba(X[100:]).tolist() == wanted
    assert model.score(X[100:], y[100:]) > 0.5
    assert clone(model).fit(X[:100], y[:100]).predict(X[100:]).tolist() == model.predict(X[100:]).tolist()


def test_raw_records_of_a_regression_and_what_is_refused() -> None:
    frame, _ = raw_frame(60)
    y = frame["heat"].astype(float).to_numpy()
    model = braided.sklearn.MODLRegressor(learners=[LinearConfig()], encode=True, random_state=0).fit(frame, y)
    assert model.predict_interval(frame[:5]).shape == (5, 2)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["kind", "at"]])
    with pytest.raises(BraidedError, match="encode takes raw records"):
        braided.sklearn.MODLRegressor(encode=True).fit(scipy.sparse.eye(3).tocsr(), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="inconsistent"):
        braided.sklearn.MODLRegressor(encode=True).fit(frame, y[:5])


def test_names_expire_and_labels_come_late_inside() -> None:
    frame, y = raw_frame(60)
    settings = {"max_features": 12, "expire_after": 5, "delay": 3}
    model = braided.sklearn.MODLClassifier(learners=[LogisticConfig()], encode=True, **settings).fit(frame, y)
    assert {name: getattr(model.model_, name) for name in settings} == settings


def test_of_a_one_hot_encoder_zeros_may_be_values() -> None:
    rng = np.random.default_rng(0)
    categories = rng.integers(5, size=(1_500, 3))
    y = (categories[:, 0] > 2) ^ (categories[:, 1] > 2)
    X = OneHotEncoder().fit_transform(categories)
    settings: dict[str, Any] = {"random_state": 0, "shuffle": False}
    missing, value, dense = (
        MODLClassifier("lean", zeros=zeros, **settings).fit(table[:1_000], y[:1_000]).score(table[1_000:], y[1_000:])
        for zeros, table in (("missing", X), ("value", X), ("missing", X.toarray()))
    )
    assert value >= dense - 0.01
    assert value > missing
    with pytest.raises(BraidedError, match="zeros 'no' is not known"):
        MODLClassifier("lean", zeros="no").fit(X, y)
    assert MODLRegressor("lean", zeros="value", **settings).fit(X, y * 1.0).model_.zeros == "value"
