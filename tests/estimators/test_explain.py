"""explain_one: effects are against a feature's own distribution, the parts add up, and nothing in the model changes."""

from __future__ import annotations

import math
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, MODLClassifier, MODLRegressor, combiners
from braided.combiners import COMBINERS
from braided.estimators import explain, variants
from braided.learners import FourierConfig, LinearConfig, LogisticConfig, MLPConfig
from braided.store import state_digest
from conftest import as_records, made_up
from scored import scored

SMALL = (LogisticConfig(), MLPConfig(hidden=(8,)))


def taught(model: Any, classes: int = 2, n: int = 120) -> tuple[Any, list[dict[int, float]]]:
    values, labels = made_up(n, d=5, classes=classes)
    records = as_records(values)
    for x, label in zip(records, labels.tolist(), strict=True):
        model.learn_one(x, label if isinstance(model, MODLClassifier) else float(label) * 3 + x.get(0, 0.0) / 10)
    return model, records


@pytest.mark.parametrize("preset", ["default", "paper", "released"])
@pytest.mark.parametrize("classes", [2, 3, 0])
def test_parts_add_up_to_the_fast_learners_score(preset: str, classes: int) -> None:
    kind: Any = MODLClassifier if classes else MODLRegressor
    model, records = taught(kind(preset=preset), classes or 2, n=60)
    before = state_digest(model)
    for x in records[:10]:
        found = model.explain_one(x)
        scores = scored(model, x).own[0]
        for k, label in enumerate(found.totals):
            total = found.bias[label].mean + sum(parts[label].mean for parts in found.contributions.values())
            assert total == pytest.approx(found.totals[label].mean, rel=1e-6, abs=1e-9)
            assert found.scores[label] == scores[k]
            if preset != "released" or not classes:
                assert total == pytest.approx(scores[k], rel=1e-5, abs=1e-6)
        if preset == "released" and classes:
            # With two classes the difference is clamped, with more each score.
            latent = np.array([part.mean for part in found.totals.values()])
            latent = np.clip(latent, -5, 5) if classes == 2 else np.clip(latent, -10, 10)
            np.testing.assert_allclose(np.exp(latent) / np.exp(latent).sum(), scores, rtol=1e-5)
        assert set(found.contributions) - found.estimated == set(x)
        assert not found.estimated & set(x)
        assert sum(found.shares.values()) == pytest.approx(1.0)
        assert list(found.shares) == model.learner_names
        expected = model.predict_one(x)
        assert found.prediction == (expected if classes else pytest.approx(expected, rel=1e-12))
    assert state_digest(model) == before


def test_deviations_are_those_of_the_posterior() -> None:
    model, records = taught(MODLClassifier(learners=(LogisticConfig(mask_inputs=True), MLPConfig(hidden=(8,)))))
    x = records[0]
    found = model.explain_one(x)
    state = model.braid.learners[0].state()
    mean, covariance = state["mean"][0], state["covariance"]
    seen = scored(model, x)
    u = np.zeros(len(mean))
    u[0] = 1.0
    for name in x:
        slot = model.core.features.slots[name]
        part = np.zeros(len(mean))
        part[[1 + 2 * slot, 2 + 2 * slot]] = seen.x[slot], 1.0
        u += part
        assert found.contributions[name][1].mean == pytest.approx(part @ mean / 2)
        assert found.contributions[name][0].mean == pytest.approx(-part @ mean / 2)
        assert found.contributions[name][1].sd == pytest.approx(math.sqrt(part @ covariance @ part) / 2)
    assert found.totals[1].sd == pytest.approx(math.sqrt(u @ covariance @ u) / 2)


def test_a_diagonal_posterior_is_explained_too() -> None:
    model, records = taught(MODLClassifier(learners=(LogisticConfig(full_covariance_up_to=2),)))
    state = model.braid.learners[0].state()
    assert state["covariance"].ndim == 1
    x = records[0]
    found = model.explain_one(x)
    name, slot = next((name, model.core.features.slots[name]) for name in x)
    z = scored(model, x).x[slot]
    assert found.contributions[name][1].sd == pytest.approx(abs(z) * math.sqrt(state["covariance"][1 + slot]) / 2)


def test_learning_goes_on_as_if_nobody_had_asked() -> None:
    asked, records = taught(MODLClassifier(combiner="moe", learners=SMALL))
    quiet, _ = taught(MODLClassifier(combiner="moe", learners=SMALL))
    for x in records[:20]:
        for model in (asked, quiet):
            model.predict_proba_one(x)
            if model is asked:
                model.explain_one(records[-1])
            model.learn_one(x, 1)
    assert state_digest(asked) == state_digest(quiet)


def test_missing_and_unknown_features_are_absent() -> None:
    model, _ = taught(MODLClassifier(learners=SMALL))
    found = model.explain_one({0: 1.0, 1: None, 2: math.nan, "never seen": 3.0})
    assert list(found.contributions) == [0]
    assert list(model.explain_one({}).contributions) == []


def test_what_cannot_be_explained_is_told() -> None:
    model, records = taught(MODLClassifier(learners=(FourierConfig(functions=8), MLPConfig(hidden=(8,)))))
    found = model.explain_one(records[0])
    assert (found.learner, dict(found.contributions)) == (None, {})
    assert set(found.effects) == set(records[0])
    assert "parts of its score" not in repr(found)
    with pytest.raises(BraidedError, match="learned nothing yet"):
        MODLClassifier(learners=SMALL).explain_one({"a": 1.0})
    model, _ = taught(MODLClassifier(learners=SMALL))
    with pytest.raises(BraidedError, match="feature 0 is 'abc'"):
        model.explain_one({0: "abc"})
    with pytest.raises(BraidedError, match="label 'x' is not known"):
        model.explain_one({0: 1.0}).top(label="x")


def test_one_class_is_certain() -> None:
    model = MODLClassifier(learners=SMALL)
    model.learn_one({"a": 1.0}, "only")
    found = model.explain_one({"a": 2.0})
    assert (found.prediction, found.probability, list(found.totals)) == ("only", 1.0, ["only"])


def test_it_reads_well_and_is_plain_data() -> None:
    model, _ = taught(MODLClassifier(learners=SMALL))
    found = model.explain_one({0: 30.0, 1: -5.0})
    lines = repr(found).splitlines()
    assert lines[0].startswith(f"predicted {found.prediction!r} with probability 0.")
    assert [line.split()[0] for line in lines[1:-1]] == [
        *(str(name) for name, _ in found.top_effects()),
        "parts",
        str(found.top()[0][0]),
        str(found.top()[1][0]),
        "bias",
        "total",
    ]
    assert lines[-1].startswith("shares: olr ")
    plain = found.to_dict()
    assert plain["totals"][0] == {"mean": found.totals[0].mean, "sd": found.totals[0].sd}
    regressor, _ = taught(MODLRegressor(learners=(LinearConfig(), MLPConfig(hidden=(8,)))))
    assert repr(regressor.explain_one({0: 1.0})).startswith("predicted ")
    assert list(regressor.explain_one({0: 1.0}).totals) == ["value"]


def predicted(model: Any, x: dict[Any, Any]) -> Any:
    """Probabilities by label, or the value."""
    if isinstance(model, MODLClassifier):
        return model.predict_proba_one(x)
    return {"value": model.predict_one(x)}


def log_odds(probability: float) -> float:
    return math.log(probability / (1.0 - probability))


def without(model: Any, x: dict[Any, Any], replaced: list[tuple[float, dict[Any, Any]]]) -> Any:
    """The prediction less the weighted mean over variants of a record, and the same in log-odds."""
    whole = predicted(model, x)
    others = [(weight, predicted(model, {**x, **other})) for weight, other in replaced]
    assert sum(weight for weight, _ in others) == pytest.approx(1.0)
    adds = {label: whole[label] - sum(weight * one[label] for weight, one in others) for label in whole}
    if isinstance(model, MODLRegressor):
        return adds, None
    odds = {
        label: log_odds(whole[label]) - sum(weight * log_odds(one[label]) for weight, one in others) for label in whole
    }
    return adds, odds


@pytest.mark.parametrize("preset", ["default", "lean", "paper"])
@pytest.mark.parametrize("classes", [2, 3, 0])
def test_effects_are_against_the_quantiles_of_what_was_learned(preset: str, classes: int) -> None:
    """Where values are kept they are the sorted past ones; else those of a normal distribution."""
    kind: Any = MODLClassifier if classes else MODLRegressor
    model, records = taught(kind(preset=preset), classes or 2, n=60)
    before = state_digest(model)
    sizes = []
    for x in records[:5]:
        found = model.explain_one({**x, "never seen": 1.0, "none": None})
        assert set(found.effects) == set(x)
        for name, effects in found.effects.items():
            past = sorted(record[name] for record in records if name in record)
            if preset == "paper":
                normal = NormalDist(float(np.mean(past)), float(np.std(past)))
                values = [normal.inv_cdf((k + 0.5) / 8) for k in range(8)]
            else:
                values = [past[int((k + 0.5) / 8 * len(past))] for k in range(8)]
            adds, odds = without(model, x, [(1 / 8, {name: value}) for value in values])
            assert effects == pytest.approx(adds, abs=1e-9)
            if classes:
                assert found.log_odds[name] == pytest.approx(odds, abs=1e-6)
            sizes += map(abs, effects.values())
        assert bool(found.log_odds) == bool(classes)
    assert max(sizes) > 0.01
    assert state_digest(model) == before


@pytest.mark.parametrize("preset", ["default", "classic"])
def test_the_same_question_has_nearly_the_same_answer_at_any_time(preset: str) -> None:
    """Features change slowly here: what a missing one is filled with is the record learned last."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_100, 6))
    for t in range(1, len(X)):
        X[t] = 0.97 * X[t - 1] + math.sqrt(1 - 0.97**2) * X[t]
    y = (X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=len(X)) > 0).tolist()
    model = MODLClassifier(preset)
    model.learn_many(X[:2_000], y[:2_000])
    x, found = dict(enumerate([0.5, 0.3, -0.2, 0.1, 1.0, -1.0])), []
    for t in range(2_000, 2_100):
        if t % 13 == 0:
            before = state_digest(model)
            found.append(model.explain_one(x))
            assert model.explain_one(x) == found[-1]
            assert state_digest(model) == before
        model.learn_one(dict(enumerate(X[t])), y[t])
    assert len(found) == 8
    for effects in ([one.effects for one in found], [one.log_odds for one in found]):
        for name in (0, 1):
            answers = [one[name][True] for one in effects]
            assert np.std(answers) < 0.1 * np.mean(answers)


@pytest.mark.parametrize("preset", ["default", "classic"])
def test_the_effect_of_a_linear_feature_is_its_slope_times_its_distance_from_the_mean(preset: str) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(50.0, 4.0, 3_000), rng.normal(size=3_000)])
    model = MODLRegressor(preset)
    model.learn_many(X, 3.0 * X[:, 0] + rng.normal(size=3_000), ["a", "noise"])
    for a in (44.0, 50.0, 55.0):
        effects = model.explain_one({"a": a, "noise": 0.5}).effects
        assert effects["a"]["value"] == pytest.approx(3.0 * (a - X[:, 0].mean()), abs=0.8)
        assert abs(effects["noise"]["value"]) < 0.3


def test_log_odds_go_on_where_probabilities_saturate() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 2))
    model = MODLClassifier(learners=(LogisticConfig(),), combiner="score-sum")
    model.learn_many(X, (X @ [3.0, 1.0] + rng.logistic(size=3_000) > 0).tolist(), ["a", "b"])
    near, far = (model.explain_one({"a": 1.0, "b": b}) for b in (1.0, 6.0))
    assert far.effects["a"][True] < 0.5 * near.effects["a"][True]
    assert far.log_odds["a"][True] == pytest.approx(near.log_odds["a"][True], rel=0.03)
    assert far.log_odds["b"][True] == pytest.approx(6 * near.log_odds["b"][True], rel=0.15)


@pytest.mark.parametrize("preset", ["default", "classic"])
def test_two_values_come_by_their_shares(preset: str) -> None:
    """By the values that are kept, or by mean and deviation alone, whatever the two values are."""
    rng = np.random.default_rng(0)
    on, level = rng.random(600) < 0.25, np.where(rng.random(600) < 0.5, 7.0, 12.5)
    X = np.column_stack([on, level, rng.normal(size=600)])
    model = MODLClassifier(preset)
    model.learn_many(X[:500], (on ^ (level > 10))[:500].tolist(), ["on", "level", "z"])
    x = {"on": 1.0, "level": 7.0, "z": 0.0}
    found, share, high = model.explain_one(x), float(on[:500].mean()), float((level > 10)[:500].mean())
    for name, others in {
        "on": [(share, {"on": 1.0}), (1 - share, {"on": 0.0})],
        "level": [(high, {"level": 12.5}), (1 - high, {"level": 7.0})],
    }.items():
        adds, _ = without(model, x, others)
        assert found.effects[name] == pytest.approx(adds, abs=0.003), "shares are told to 1 in 512"


@pytest.mark.parametrize("preset", ["default", "classic"])
def test_with_more_features_than_are_kept_values_of_there_are_effects_too(preset: str) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(10.0, 2.0, (800, 258)), rng.random(800) < 0.3])
    model = MODLRegressor(preset, learners=None if preset == "default" else (LinearConfig(),))
    model.learn_many(X, X[:, 0] + 4.0 * X[:, -1] + 0.1 * rng.normal(size=800))
    assert model.braid.stage is None or model.braid.stage.planes == 1
    x = dict(enumerate(X[0])) | {0: 13.0, 258: 1.0}
    effects = model.explain_one(x, [0, 1, 258]).effects
    expected, _ = without(model, x, [(float(X[:, -1].mean()), {258: 1.0}), (1 - float(X[:, -1].mean()), {258: 0.0})])
    assert effects[258] == pytest.approx(expected, abs=0.02)
    assert effects[258]["value"] > 1.0
    assert effects[0]["value"] > 1.0 > abs(effects[1]["value"])


def test_effects_of_many_features_come_in_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, records = taught(MODLClassifier(learners=SMALL))
    x = records[0]
    whole = model.explain_one(x).effects
    monkeypatch.setattr(variants, "_MAX_CELLS", 1)
    assert model.explain_one(x).effects == whole
    some = list(x)[:2]
    assert model.explain_one(x, some).effects == {name: whole[name] for name in some}
    assert model.explain_one({}).effects == {}


def test_the_explained_label_is_the_decided_one() -> None:
    model, records = taught(MODLClassifier(learners=SMALL, class_weight={0: 1e9}))
    found = model.explain_one(records[0])
    assert found.prediction == model.predict_one(records[0]) == 0
    assert found.probability == model.predict_proba_one(records[0])[0]


@pytest.mark.parametrize("name", COMBINERS)
@pytest.mark.parametrize("usable", [[True, True, True], [True, False, True]])
def test_terms_add_up_to_the_final_score(name: str, usable: list[bool]) -> None:
    rng = np.random.default_rng(5)
    combiner, together = (combiners.build(kind, regression=False, seed=2) for kind in (name, "kalman-tanh"))
    combiner.grow(3, 4, 3)
    together.grow(3, 4, 3)
    x, mask = np.array([0.5, 0.0, -1.5], dtype=np.float32), np.array([True, False, True])
    flags = np.array(usable)
    for label in rng.integers(0, 4, 30):
        scores = (rng.normal(size=(3, 4)) * 2).astype(np.float32)
        scores[~flags] = 0.0
        prediction = combiner.combine(x, mask, scores, flags)
        final = combiner.terms(x, mask, scores, flags).sum(axis=0)
        if name not in {"ensemble", "moe", "greedy"}:
            final = np.exp(final - final.max()) / np.exp(final - final.max()).sum()
        said = together.combine(x, mask, scores, flags)
        np.testing.assert_allclose(final, said if name == "aggregate" else prediction, rtol=2e-6)
        together.gradients(x, mask, scores, int(label), said, flags)
        combiner.gradients(x, mask, scores, int(label), prediction, flags)


def test_shares_follow_the_weights_of_the_combiner() -> None:
    def shares(terms: Any, regression: bool = False) -> Any:
        braid: Any = SimpleNamespace(regression=regression, combiner=SimpleNamespace(terms=lambda *_: terms))
        record: Any = SimpleNamespace(x=None, mask=None, scores=None, usable=None, prediction=np.array([0.6, 0.4]))
        return explain.shares(braid, record, 2)

    scores = np.array([[2.0, 0.0], [1.0, 0.0]], dtype=np.float32)
    np.testing.assert_allclose(shares(np.array([0.5, 3.0])[:, None] * scores), [1.0 / 4.0, 3.0 / 4.0])
    np.testing.assert_array_equal(shares(np.zeros((2, 2))), [0.0, 0.0])
    np.testing.assert_allclose(shares(np.array([[-3.0], [1.0]]), regression=True), [0.75, 0.25])


def raw_model() -> MODLClassifier:
    model = MODLClassifier(learners=(LogisticConfig(), MLPConfig(hidden=(8,))), encode=True)
    rng = np.random.default_rng(0)
    for i in range(200):
        kind = "rrgb"[i % 4]
        x = {"kind": kind, "at": f"2024-01-{1 + i % 28:02d}", "t": float(rng.normal()), "deep": {"u": i % 5}}
        model.learn_one(x, "ab"[kind == "r"])
    return model


RAW = {"kind": "r", "at": "2024-02-01", "t": 0.3, "deep": {"u": 2}}


def test_of_raw_records_a_column_is_replaced_by_its_categories() -> None:
    model, x = raw_model(), RAW
    effects = model.explain_one(x).effects
    assert list(effects) == ["kind", "at", "t", "deep.u"]
    adds, _ = without(model, x, [(0.5, {"kind": "r"}), (0.25, {"kind": "g"}), (0.25, {"kind": "b"})])
    assert effects["kind"] == pytest.approx(adds, abs=1e-9)
    adds, _ = without(model, x, [(0.2, {"deep": {"u": u}}) for u in range(5)])
    assert effects["deep.u"] == pytest.approx(adds, abs=0.002)
    assert model.explain_one(x).effects == effects
    assert effects["kind"]["b"] > 0.2
    fine = model.explain_one(x, by="feature").effects
    assert {"kind=r", "kind=g", "kind=b", "at.age", "t", "deep.u"} <= fine.keys()
    assert model.explain_one(x, by="feature").effects == fine
    assert model.explain_one(x, ["t", "kind=r"]).effects == {"t": effects["t"], "kind=r": fine["kind=r"]}
    with pytest.raises(BraidedError, match="by 'row' is not known: use one of column, feature"):
        model.explain_one(x, by="row")


def test_categories_that_came_late_have_the_share_of_their_records() -> None:
    model = MODLClassifier(learners=(LogisticConfig(),), encode=True)
    for i in range(400):
        kind = "ab"[i % 2] if i < 300 else "c"
        model.learn_one({"kind": kind}, kind == "a")
    slots = [model.core.features.slots[f"kind={kind}"] for kind in "abc"]
    values, weights = variants.Distribution(model.braid, slots).support()
    np.testing.assert_array_equal(values, np.eye(3))
    np.testing.assert_array_equal(weights, [0.375, 0.375, 0.25])


def test_a_group_that_is_not_one_hot_varies_in_each_member_by_itself() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=2_000)
    X = np.column_stack([z, -z, rng.random(2_000) < 0.5, rng.random(2_000) < 0.5])
    model = MODLRegressor(learners=(LinearConfig(),))
    model.learn_many(X, 2 * X[:, 2] + X[:, 3] + X[:, 0] + rng.normal(size=2_000), list("abcd"))
    x = {"a": 1.0, "b": -1.0, "c": 1.0, "d": 0.0}
    effects = model.explain_one(x, {"numbers": ["a", "b"], "flags": ["c", "d", "never seen"], "none": ["e"]}).effects
    assert list(effects) == ["numbers", "flags"]
    one_by_one = {name: one["value"] for name, one in model.explain_one(x).effects.items()}
    assert effects["numbers"]["value"] == pytest.approx(one_by_one["a"] + one_by_one["b"], abs=0.1)
    assert effects["flags"]["value"] == pytest.approx(one_by_one["c"] + one_by_one["d"], abs=0.1)
    values, weights = variants.Distribution(model.braid, [0, 1]).support()
    assert abs(np.corrcoef(values.T)[0, 1]) < 0.3, "they would be coupled if both had the same level"
    assert weights.sum() == pytest.approx(1.0)
