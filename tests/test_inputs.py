"""The input stage beside its formulas written down plainly, and models that use it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from river import linear_model, preprocessing

from braided import BraidedError, MODLClassifier, MODLRegressor, presets
from braided.engine.inputs import InputStage
from braided.kernels import inputs
from braided.kernels.inputs import MAX_FEATURES
from braided.kernels.scale import CHANGES, COUNT, SQUARES, STATISTICS
from braided.learners import (
    FourierConfig,
    LinearConfig,
    LogisticConfig,
    MLPConfig,
    RecentValueConfig,
    RiverLearner,
)
from braided.store import state_digest
from conftest import as_records, made_up

Floats = NDArray[np.float64]


class Plainly:
    """The specification, record by record, for streams of fewer than 512 records."""

    def __init__(self, d: int) -> None:
        self.d = d
        self.past: list[list[float]] = [[] for _ in range(d)]
        self.scores: list[list[float]] = [[] for _ in range(d)]
        self.together = np.zeros((d, d))
        self.products = np.zeros((2, d, d))
        self.rho = np.tile(np.eye(d), (2, 1, 1))
        self.records = 0
        #: Feature -> the record that had it last, z and s; (feature, range of gaps) -> products with what came next.
        self.last: dict[int, tuple[int, float, float]] = {}
        self.back: dict[tuple[int, int], list[tuple[float, float]]] = {}

    def _gap(self, j: int) -> int:
        """The range of gaps that feature j is in, at the record after those taken in."""
        return min(int(np.log2(self.records + 1 - self.last[j][0])), 7)

    def planes(self, raw: Floats, z: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Filled z, filled s, sigma, and s itself with 0 for missing."""
        there = ~np.isnan(raw)
        s, sigma = np.zeros(self.d), np.zeros(self.d)
        for j in range(self.d):
            qs = list(self.scores[j])
            if there[j]:
                past = np.array(self.past[j])
                u = ((past < raw[j]).sum() + ((past == raw[j]).sum() + 1) / 2) / (len(past) + 1)
                qs.append(NormalDist().inv_cdf(float(u)))
            sigma[j] = np.std(qs) if qs else 0.0
            if there[j] and sigma[j] > 1e-9:
                s[j] = np.clip((qs[-1] - np.mean(qs)) / sigma[j], -8, 8)
        return self._filled(0, z, there), self._filled(1, s, there), sigma, s

    def _filled(self, which: int, values: Floats, there: NDArray[np.bool_]) -> Floats:
        if there.all():
            return values.copy()
        # Those that are there, and after them the last values of those whose last values say something.
        readings, of, right = list(values[there]), list(np.flatnonzero(there)), [1.0] * int(there.sum())
        for j in np.flatnonzero(~there):
            if j in self.last:
                products = [pair[which] for pair in self.back.get((j, self._gap(j)), [])]
                r = 0.9 * sum(products) / (len(products) + 30)
                if r > 0.2:
                    readings, of, right = [*readings, self.last[j][1 + which]], [*of, j], [*right, min(r, 1.0)]
        weights = np.array(right)
        part = weights[:, None] * weights * self.rho[which][np.ix_(of, of)]
        part[range(len(of)), range(len(of))] = 1.0
        a, r = np.zeros(len(of)), np.array(readings)
        p, squares = r.copy(), r @ r
        for _ in range(5):
            alpha = squares / max(p @ part @ p, 1e-6)
            a, r = a + alpha * p, r - alpha * (part @ p)
            p, squares = r + (r @ r) / max(squares, 1e-12) * p, r @ r
        return np.where(there, values, np.clip(self.rho[which][:, of] @ (weights * a), -3, 3))

    def take_in(self, raw: Floats, z: Floats, s: Floats) -> None:
        there = ~np.isnan(raw)
        for j in np.flatnonzero(there):
            past = np.array(self.past[j])
            u = ((past < raw[j]).sum() + ((past == raw[j]).sum() + 1) / 2) / (len(past) + 1)
            self.scores[j].append(NormalDist().inv_cdf(float(u)))
            self.past[j].append(float(raw[j]))
        self.together += np.outer(there, there)
        self.products += np.array([np.outer(z, z), np.outer(s, s)])
        for j in np.flatnonzero(there):
            if j in self.last:
                self.back.setdefault((j, self._gap(j)), []).append((z[j] * self.last[j][1], s[j] * self.last[j][2]))
            self.last[j] = (self.records + 1, z[j], s[j])
        self.records += 1
        if self.records <= 32 or self.records % 32 == 0:
            self.rho = 0.9 * self.products / (self.together + 30)
            self.rho[:, range(self.d), range(self.d)] = 1.0


#: Statistics of features whose units never changed.
NO_RESTARTS = np.zeros((8, STATISTICS))


def correlated(n: int, d: int, stays: float, seed: int = 0) -> Floats:
    """Values that go together, and that stay more or less what they were; one is yes or no, and some are missing."""
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(n, 2))
    for t in range(1, n):
        causes[t] = stays * causes[t - 1] + np.sqrt(1 - stays**2) * causes[t]
    values = causes @ rng.normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d))
    values[:, 0] = values[:, 0] > 1.0
    values[rng.random(values.shape) < 0.4] = np.nan
    return values


@pytest.mark.parametrize("stays", [0.0, 0.95])
def test_planes_follow_their_formulas(stays: float) -> None:
    d = 6
    stage, plainly = InputStage(), Plainly(d)
    stage.grow(d)
    every = np.arange(d)
    for t, raw in enumerate(correlated(300, d, stays)):
        active = np.flatnonzero(~np.isnan(raw))
        x = np.zeros(inputs.PLANES * d + 5, dtype=np.float32)
        x[:d] = np.where(np.isnan(raw), 0.0, raw / 2)
        z = x[:d].astype(np.float64)
        inputs.fill(stage.row, raw, every, x, active)
        filled, ranked, sigma, s = plainly.planes(raw, z)
        for plane, expected in (
            (inputs.FILLED, filled),
            (inputs.SCALED, filled * sigma),
            (inputs.SCORES, ranked * sigma),
        ):
            np.testing.assert_allclose(x[plane * d : (plane + 1) * d], expected, atol=2e-4, err_msg=f"{t} {plane}")
        inputs.take_in(stage.row, raw, every, NO_RESTARTS[:d], x, active, False)
        plainly.take_in(raw, z, s)
    carried = [sum(products for products, _ in pairs) / (len(pairs) + 30) > 0.25 for pairs in plainly.back.values()]
    assert any(carried) == (stays > 0)


def test_a_silent_feature_is_filled_by_what_it_said_last() -> None:
    """As far as that has held: one that stays is carried, and one that does not is not."""
    stage, every, rng = InputStage(), np.arange(2), np.random.default_rng(0)
    stage.grow(2)
    x, steady, missed = np.zeros(13, dtype=np.float32), 0.0, []
    for t in range(3_000):
        steady = 0.99 * steady + np.sqrt(1 - 0.99**2) * rng.normal()
        raw = np.array([steady, rng.normal()])
        there = every[rng.random(2) < 0.3]
        x[:2] = 0.0
        x[there] = raw[there]
        inputs.fill(stage.row, np.where(np.isin(every, there), raw, np.nan), every, x, there)
        if t > 500 and there.size == 0:
            missed.append(x[2] - raw[0])
        inputs.take_in(stage.row, raw, every, NO_RESTARTS[:2], x, there, False)
    assert np.std(missed) < 0.35, "1 if it were not carried"
    back = stage.state()["figures"][:, inputs.BACK :].reshape(2, inputs.GAPS, 3)
    worth = back[:, :3, 1] / (back[:, :3, 0] + inputs.PRIOR_COUNT)
    assert (worth[0] > 0.7).all()
    assert (np.abs(worth[1]) < 0.2).all()


def test_where_labels_come_late_nothing_is_carried() -> None:
    stages, every = (InputStage(), InputStage(carry=False)), np.arange(1)
    x = np.zeros((2, 9), dtype=np.float32)
    for stage, row in zip(stages, x, strict=True):
        stage.grow(1)
        for t in range(400):
            row[0] = np.sin(t / 50)
            inputs.fill(stage.row, row[:1].astype(np.float64), every, row, every)
            inputs.take_in(stage.row, row[:1].astype(np.float64), every, NO_RESTARTS[:1], row, every, False)
        row[0] = 0.0
        inputs.fill(stage.row, np.array([np.nan]), every, row, every[:0])
    assert x[0, 1] > 0.4 * np.sin(399 / 50)
    assert x[1, 1] == 0.0


def test_what_is_missing_is_found_from_what_goes_with_it() -> None:
    stage = InputStage()
    stage.grow(3)
    every, rng = np.arange(3), np.random.default_rng(1)
    x = np.zeros(17, dtype=np.float32)
    for _ in range(2_000):
        a, b = rng.normal(size=2)
        x[:3] = a, b, (a + b) / np.sqrt(2)
        inputs.fill(stage.row, x[:3].astype(np.float64), every, x, every)
        inputs.take_in(stage.row, x[:3].astype(np.float64), every, NO_RESTARTS[:3], x, every, False)
    errors = []
    for _ in range(200):
        a, b = rng.normal(size=2)
        x[:3] = a, b, 0.0
        inputs.fill(stage.row, np.array([a, b, np.nan]), every, x, every[:2])
        errors.append(x[5] - (a + b) / np.sqrt(2))
    assert np.std(errors) < 0.2, "beside the 1 of not knowing, and the shrinking by a tenth"


def test_kept_values_stay_in_order_and_follow_the_stream() -> None:
    stage = InputStage()
    stage.grow(1)
    one = np.zeros(1, dtype=np.int64)
    x = np.zeros(9, dtype=np.float32)
    rng = np.random.default_rng(0)
    for t in range(6_000):
        value = np.array([rng.normal() + (5.0 if t >= 3_000 else 0.0)])
        inputs.fill(stage.row, value, one, x, one)
        inputs.take_in(stage.row, value, one, NO_RESTARTS[:1], x, one, False)
        if t in (100, 2_999):
            kept = stage.state()["kept"][0, : min(t + 1, inputs.KEPT)]
            assert (np.diff(kept) >= 0).all()
            assert abs(np.median(kept)) < 0.3
    kept = stage.state()["kept"][0]
    assert (np.diff(kept) >= 0).all()
    assert 0.3 < (kept > 2.5).mean() < 0.8, "about half of all values were of the second half"


DEFAULT = presets.get("default")


def models() -> list[Any]:
    return [MODLClassifier(DEFAULT, seed=1), MODLRegressor(DEFAULT, seed=1)]


def stream_for(model: Any, n: int = 400) -> tuple[Floats, NDArray[Any]]:
    """Features that come and go, the last two of them late; a target with a past."""
    values, labels = made_up(n, d=7, classes=3, available=0.6)
    values[: n // 2, 5:] = np.nan
    if isinstance(model, MODLClassifier):
        return values, labels
    return values, np.cumsum(np.random.default_rng(2).normal(size=n)) + np.nan_to_num(values[:, 0])


@pytest.mark.parametrize("model", models(), ids=lambda model: model.task)
def test_chunks_records_saving_and_growth_give_the_same_bits(model: Any, tmp_path: Path) -> None:
    values, targets = stream_for(model)
    single, stopped = model.clone(), model.clone()
    said = model.predict_learn_many(values, targets).values
    for i, (x, y) in enumerate(zip(as_records(values), targets.tolist(), strict=True)):
        if isinstance(single, MODLClassifier):
            answer: Any = [single.predict_proba_one(x).get(label, 0.0) for label in model.classes]
        else:
            answer = [single.predict_one(x)]
        np.testing.assert_array_equal(said[i], answer)
        before = state_digest(single) if i % 50 == 0 else None
        single.predict_one(as_records(values)[0])
        assert before is None or state_digest(single) == before, "predicting leaves no trace"
        single.learn_one(x, y)
    stopped.learn_many(values[:250], targets[:250])
    stopped.save(tmp_path / "m")
    resumed = type(stopped).load(tmp_path / "m")
    resumed.learn_many(values[250:], targets[250:])
    assert state_digest(model) == state_digest(single) == state_digest(resumed)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_beside_a_learner_in_python_everything_is_as_without(task: str) -> None:
    """The Python loop takes the same steps as the compiled one."""
    model = models()[task == "regression"]
    configs = DEFAULT.learners if task == "classification" else DEFAULT.numeric
    river = linear_model.SoftmaxRegression() if task == "classification" else linear_model.LinearRegression()
    mixed = type(model)(
        learners=[*configs, RiverLearner(preprocessing.StandardScaler() | river)], combiner="kalman-tanh", seed=1
    )
    alone = type(model)(learners=configs, combiner="kalman-tanh", seed=1)
    values, targets = stream_for(model, 120)
    found, expected = (one.predict_learn_many(values, targets).own for one in (mixed, alone))
    np.testing.assert_array_equal(found[:, :-1], expected)


def test_with_too_many_features_nothing_is_filled_and_nothing_breaks() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(120, MAX_FEATURES + 40))
    values[:60, MAX_FEATURES:] = np.nan  # the bound is passed on the way
    labels = values[:, 0] > 0
    for model, targets in ((MODLClassifier(DEFAULT), labels), (MODLRegressor(DEFAULT), values[:, 0])):
        model.learn_many(values[:60], targets[:60])
        assert model.braid.stage.planes == inputs.PLANES
        model.learn_many(values[60:], targets[60:])
        assert model.braid.stage.planes == 1
        assert all(np.isfinite(array).all() for array in model.braid.state().values())
        twin = type(model).restore(*model.snapshot())
        assert state_digest(twin) == state_digest(model)


def test_filled_inputs_help_where_features_go_together() -> None:
    rng = np.random.default_rng(0)
    causes = rng.normal(loc=(0.0, 1.0), size=(3_000, 2))
    values = causes.repeat(4, axis=1) + 0.2 * rng.normal(size=(3_000, 8))
    values[rng.random(values.shape) < 0.5] = np.nan
    labels = (causes[:, 0] > causes[:, 1]).astype(int)

    def errors(config: Any) -> int:
        model = MODLClassifier(learners=(config,))
        said = model.predict_learn_many(values, labels).values.argmax(axis=1)
        return int((np.array(model.classes)[said] != labels)[500:].sum())

    plain = LogisticConfig(prior_variance=0.1)
    assert errors(replace(plain, inputs="filled")) < 0.9 * errors(plain)


def test_functions_of_few_features_are_drawn_alike_however_features_come() -> None:
    config = FourierConfig(functions=4_000, subset=3, inputs="scores")
    at_once, in_turn = (MODLClassifier(learners=(config,)) for _ in range(2))
    values = np.ones((8, 8))
    at_once.learn_many(values, [0, 1] * 4)
    in_turn.learn_many(np.where(np.tri(8) > 0, values, np.nan), [0, 1] * 4)
    for model in (at_once, in_turn):
        used = model.braid.learners[0].state()["frequencies"] != 0
        assert used.sum(axis=0).max() <= 3
        assert abs(used.sum(axis=0).mean() - 2.0) < 0.05, "sizes 1 to 3 are equally likely"
        assert np.ptp(used.mean(axis=1)) < 0.05, "every feature takes part as often"


def test_a_feature_that_comes_late_changes_no_answer_for_records_without_it() -> None:
    values, labels = made_up(400, d=5, available=1.0)
    model = MODLClassifier(learners=(FourierConfig(functions=64, subset=5, inputs="scores"),))
    model.learn_many(values, labels)
    before = model.predict_proba_many(values[:50])
    with_new = np.column_stack([values[:1], [1.0]])
    grown = MODLClassifier.restore(*model.snapshot())
    grown.core._admit([5], [], np.full(5, np.nan))
    np.testing.assert_allclose(grown.predict_proba_many(values[:50]), before, atol=1e-6)
    grown.learn_many(with_new, labels[:1])
    assert (grown.braid.learners[0].state()["frequencies"][5] != 0).any()


def test_choices_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(BraidedError, match="choose one of them"):
        LogisticConfig(inputs="filled", mask_inputs=True)
    with pytest.raises(BraidedError, match="inputs"):
        LogisticConfig(inputs="scores")
    with pytest.raises(BraidedError, match="inputs"):
        MLPConfig(inputs="scores")  # type: ignore[arg-type]


@pytest.mark.parametrize("model", models(), ids=lambda model: model.task)
def test_explaining_between_predicting_and_learning_changes_nothing(model: Any) -> None:
    values, targets = stream_for(model, 120)
    records, twin = as_records(values), model.clone()
    for i, (x, y) in enumerate(zip(records, targets.tolist(), strict=True)):
        for one in (model, twin):
            one.predict_one(x)
            if i > 5 and one is twin:
                one.explain_one(records[i - 1])
            one.learn_one(x, y)
    assert state_digest(model) == state_digest(twin)
    explained = model.explain_one(records[3])
    for label, total in explained.totals.items():
        assert total.mean == pytest.approx(explained.scores[label], abs=1e-4), "the parts add up to the score"


def test_what_was_reset_is_drawn_as_at_first() -> None:
    values, labels = made_up(300, d=7, available=1.0)
    model = MODLClassifier(learners=(FourierConfig(functions=64, subset=5, inputs="scores"),))
    model.learn_many(values[:1], labels[:1])
    first = model.braid.learners[0].state()["frequencies"].copy()
    model.learn_many(values, labels)
    model.braid.learners[0].reset()
    np.testing.assert_array_equal(model.braid.learners[0].state()["frequencies"], first)


def test_a_saved_model_keeps_its_settings_and_not_a_name_for_them(tmp_path: Path) -> None:
    model = MODLClassifier("default")
    model.learn_one({"a": 1.0}, 0)
    model.save(tmp_path / "m")
    assert MODLClassifier.load(tmp_path / "m").preset == DEFAULT


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("inputs/figures", lambda a: a.__setitem__((slice(None), 0), -1e12)),
        ("inputs/figures", lambda a: a.__setitem__((0, 1), np.nan)),
        ("learner 7/nodes", lambda a: a.__setitem__((slice(None), slice(2, 4)), 1e11)),
        ("learner 7/nodes", lambda a: a.__setitem__((0, 0), 99)),
        ("learner 7/nodes", lambda a: a.__setitem__((0, 6), -1)),
        ("learner 7/sizes", lambda a: a.__setitem__(0, 1e9)),
        ("learner 7/sizes", lambda a: a.__setitem__(0, 0.5)),
        ("learner 7/sizes", lambda a: a.__setitem__(0, a[0] - 1)),
        ("learner 7/nodes", lambda a: a.__setitem__(a[:, 0] < 0, -0.5)),
        ("combiner/weights", lambda a: a.__setitem__(0, np.nan)),
        ("statistics", lambda a: a.__setitem__(slice(None), -1)),
        ("target", lambda a: a.__setitem__(0, np.nan)),
        ("inputs/figures", lambda a: a.__setitem__((0, 0), -1)),
        ("learner 7/nodes", lambda a: a.__setitem__((0, 7), np.inf)),
        ("learner 7/ranges", lambda a: a.__setitem__((0, 0), np.nan)),
    ],
)
def test_arrays_that_kernels_could_not_follow_are_refused(array: str, change: Any) -> None:
    model = MODLClassifier("default")
    values, labels = made_up(100, d=4)
    model.learn_many(values, labels)
    metadata, arrays = model.snapshot()
    MODLClassifier.restore(metadata, arrays)
    assert array in arrays, sorted(arrays)
    change(arrays[array])
    with pytest.raises(BraidedError, match="state of"):
        MODLClassifier.restore(metadata, arrays)


def test_combinations_without_meaning_are_refused() -> None:
    record = {"a": 1.0}
    with pytest.raises(BraidedError, match="raw values"):
        MODLClassifier("released", learners=(LogisticConfig(inputs="filled"),)).learn_one(record, 0)
    with pytest.raises(BraidedError, match="learns changes"):
        MODLRegressor(learners=(LinearConfig(), RecentValueConfig()), combiner="score-sum").learn_one(record, 1.0)


@pytest.mark.parametrize("place", [COUNT, SQUARES])
def test_statistics_of_changes_that_are_none_are_refused(place: int) -> None:
    model = MODLRegressor()
    for t in range(30):
        model.learn_one({"a": float(t)}, float(t))
    metadata, arrays = model.snapshot()
    arrays["target"][CHANGES + place] = -1.0
    with pytest.raises(BraidedError, match="array 'target' holds"):
        MODLRegressor.restore(metadata, arrays)
