"""explain_one: the parts add up to the fast learner's score, the shares to the final one, and nothing changes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, MODLClassifier, MODLRegressor, combiners
from braided.combiners import COMBINERS
from braided.estimators import explain
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


@pytest.mark.parametrize("preset", ["default", "lean", "paper"])
@pytest.mark.parametrize("classes", [2, 3, 0])
def test_effects_are_what_goes_with_the_feature(preset: str, classes: int) -> None:
    kind: Any = MODLClassifier if classes else MODLRegressor
    model, records = taught(kind(preset=preset), classes or 2, n=60)
    before = state_digest(model)
    sizes = []
    for x in records[:5]:
        found = model.explain_one({**x, "never seen": 1.0, "none": None})
        assert set(found.effects) == set(x)
        for name, effects in found.effects.items():
            rest = {other: value for other, value in x.items() if other != name}
            if classes:
                whole, without = model.predict_proba_one(x), model.predict_proba_one(rest)
                assert effects == {label: pytest.approx(whole[label] - without[label], abs=1e-12) for label in whole}
            else:
                expected = model.predict_one(x) - model.predict_one(rest)
                assert effects == {"value": pytest.approx(expected, abs=1e-9)}
            sizes += map(abs, effects.values())
    assert max(sizes) > 0.01
    assert state_digest(model) == before


def test_effects_of_many_features_come_in_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, records = taught(MODLClassifier(learners=SMALL))
    x = records[0]
    whole = model.explain_one(x).effects
    monkeypatch.setattr(explain, "_MAX_CELLS", 1)
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


def test_of_raw_records_a_column_is_left_out_with_all_that_it_becomes() -> None:
    model = MODLClassifier(learners=(LogisticConfig(), MLPConfig(hidden=(8,))), encode=True)
    rng = np.random.default_rng(0)
    for i in range(200):
        kind = "rgb"[i % 3]
        x = {"kind": kind, "at": f"2024-01-{1 + i % 28:02d}", "t": float(rng.normal()), "deep": {"u": i % 5}}
        model.learn_one(x, "ab"[kind == "r"])
    x = {"kind": "r", "at": "2024-02-01", "t": 0.3, "deep": {"u": 2}}
    whole = model.predict_proba_one(x)
    effects = model.explain_one(x).effects
    assert list(effects) == ["kind", "at", "t", "deep.u"]
    for column, without in {"kind": {**x, "kind": None}, "at": {**x, "at": None}, "deep.u": {**x, "deep": {}}}.items():
        rest = model.predict_proba_one(without)
        for label in whole:
            assert effects[column][label] == pytest.approx(whole[label] - rest[label], abs=1e-12)
    assert model.explain_one(x).effects == effects
    assert effects["kind"]["b"] > 0.2
    fine = model.explain_one(x, by="feature").effects
    assert {"kind=r", "kind=g", "kind=b", "at.age", "t", "deep.u"} <= fine.keys()
    assert model.explain_one(x, by="feature").effects == fine
    assert model.explain_one(x, ["t", "kind=r"]).effects == {"t": effects["t"], "kind=r": fine["kind=r"]}
    with pytest.raises(BraidedError, match="by 'row' is not known: use one of column, feature"):
        model.explain_one(x, by="row")
