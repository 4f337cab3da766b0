"""A drift detector raises the model's plasticity, and nothing changes without one."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import base, drift
from typer.testing import CliRunner

from braided import BraidedError, MODLClassifier, MODLRegressor, engine, zoo
from braided.cli import app
from braided.estimators.drift import DETECTORS, Watch, build, pack, restored_detector
from braided.estimators.params import ModelParams
from braided.learners import LEARNERS, LinearConfig, LogisticConfig, MLPConfig
from braided.store import state_digest
from braided.zoo import ModelOptions, names_for
from conftest import as_records, made_up

OURS = [name for name in names_for("classification") if not name.startswith(("majority", "river"))]


class At(base.DriftDetector):
    """Reports drift at one record, whatever the errors are."""

    def __init__(self, record: int = 120) -> None:
        super().__init__()
        self.record = record
        self.n = 0

    def update(self, x: float) -> None:
        self.n += 1
        self._drift_detected = self.n == self.record


def turned(n: int = 3_000, classes: int = 2) -> tuple[Any, Any]:
    """A concept, and from the middle on its reverse: every label is the next one."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(n, 6))
    labels = np.floor((np.tanh(values[:, 0] + values[:, 1] * values[:, 2]) + 1) / 2 * classes).astype(int)
    labels[n // 2 :] = (labels[n // 2 :] + 1) % classes
    return values, labels


def wrong(model: MODLClassifier, values: Any, labels: Any) -> Any:
    said = model.predict_learn_many(values, labels).values.argmax(axis=1)
    return said != np.array([model.classes.index(label) for label in labels.tolist()])


@pytest.mark.parametrize("name", ["adwin", "ddm", "hddm-a", "hddm-w"])
def test_a_turned_concept_is_recovered_from_faster(name: str) -> None:
    values, labels = turned()
    # Of the presets the one that follows least by itself: the default's mixture turns with such a concept.
    without = wrong(MODLClassifier("classic"), values, labels)
    model = MODLClassifier("classic", drift_detector=build(name))
    watched = wrong(model, values, labels)
    assert model.drifts == 1
    np.testing.assert_array_equal(watched[:1_500], without[:1_500])  # before the drift, nothing is different
    assert watched[1_500:2_000].sum() < 0.85 * without[1_500:2_000].sum()
    assert watched[1_500:].sum() < 0.85 * without[1_500:].sum()


def test_a_turned_regression_is_recovered_from_faster() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3_000, 4))
    target = 1_000.0 + 50.0 * (values[:, 0] + values[:, 1] * values[:, 2])
    target[1_500:] = 2_000.0 - target[1_500:]
    errors = []
    for detector in (None, drift.PageHinkley(mode="up", threshold=10)):
        model = MODLRegressor(drift_detector=detector)
        errors.append(np.abs(model.predict_learn_many(values, target).values[:, 0] - target))
    assert model.drifts == 1
    assert errors[1][1_500:].mean() < 0.9 * errors[0][1_500:].mean()


@pytest.mark.parametrize("name", DETECTORS)
def test_a_stationary_stream_raises_no_alarm_and_keeps_its_bits(name: str) -> None:
    values, labels = made_up(1_500)
    watched, plain = MODLClassifier(drift_detector=build(name)), MODLClassifier()
    said = watched.predict_learn_many(values, labels).values
    if watched.drifts == 0:
        np.testing.assert_array_equal(said, plain.predict_learn_many(values, labels).values)
    else:  # of River's, this one alone is known to be nervous
        assert name == "eddm"


def watched_model(name: str, record: int = 120) -> MODLClassifier:
    options = ModelOptions(ModelParams(seed=3), base_features=(0, 1))
    model = zoo.build(name, options).clone({"drift_detector": At(record)})
    assert isinstance(model, MODLClassifier)
    return model


def rising(n: int = 200) -> tuple[Any, Any]:
    """Records on which errors grow more frequent, so that a report is followed."""
    values, labels = made_up(n)
    labels[:90] = np.arange(90) % 20 == 5
    labels[90:] = np.random.default_rng(0).integers(0, 2, n - 90)
    return values, labels


@pytest.mark.parametrize("name", OURS)
def test_every_model_reacts(name: str) -> None:
    values, labels = rising()
    watched, plain = watched_model(name), watched_model(name, record=10_000)
    a, b = watched.predict_learn_many(values, labels), plain.predict_learn_many(values, labels)
    assert (watched.drifts, plain.drifts) == (1, 0)
    np.testing.assert_array_equal(a.values[:121], b.values[:121])
    assert not np.array_equal(a.values[122:], b.values[122:])
    assert np.isfinite(a.values).all()


@pytest.mark.parametrize("name", [*OURS, "modl with moe"])
def test_the_array_path_is_the_one_record_path(name: str) -> None:
    values, labels = rising()
    values[:150, 5] = np.nan  # a feature appears while the model is plastic
    model, _, combiner = name.partition(" with ")
    chunked, single = (watched_model(model).clone({"combiner": combiner or None}) for _ in range(2))
    progress = chunked.predict_learn_many(values, labels)
    for i, (x, y) in enumerate(zip(as_records(values), labels.tolist(), strict=True)):
        probabilities = single.predict_proba_one(x)
        np.testing.assert_array_equal(progress.values[i], [probabilities.get(c, 0.0) for c in chunked.classes])
        single.learn_one(x, y)
    assert state_of(chunked) == state_of(single)
    assert chunked.drifts == single.drifts == 1


@pytest.mark.parametrize("name", DETECTORS)
def test_saving_and_copying_while_plastic_is_bit_exact(name: str, tmp_path: Path) -> None:
    values, labels = turned(900)
    labels[450:] = 1 - labels[450:]
    labels[150:300] = 1 - labels[150:300]  # an early turn, so that detectors fire by the middle
    detector = build(name)
    straight, stopped = (MODLClassifier(drift_detector=detector) for _ in range(2))
    straight.learn_many(values, labels)
    for stop in range(100, 900, 100):  # at one of these the model is plastic
        part = slice(stop - 100, stop)
        stopped.learn_many(values[part], labels[part])
        stopped.save(tmp_path / "model")
        twins = [MODLClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(stopped)), copy.deepcopy(stopped)]
        for twin in twins:
            assert state_digest(twin) == state_digest(stopped)
            assert twin.drifts == stopped.drifts
            assert type(twin.drift_detector) is type(detector)
        stopped = twins[stop // 100 % 3]
    stopped.learn_many(values[800:], labels[800:])
    assert state_digest(stopped) == state_digest(straight)
    assert stopped.drifts == straight.drifts
    if name not in {"page-hinkley", "adwin"}:  # too slow for turns this short
        assert straight.drifts >= 1


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detectors_state_goes_through_json(name: str) -> None:
    rng = np.random.default_rng(0)
    errors = np.concatenate([rng.random(700) < 0.05, rng.random(300) < 0.9])
    errors = ~errors if name == "fhddm" else errors
    detector = drift.PageHinkley(threshold=10) if name == "page-hinkley" else build(name)
    for error in errors[:350]:
        detector.update(bool(error))
    twin = restored_detector(json.loads(json.dumps(pack(detector))))
    found = []
    for error in errors[350:]:
        detector.update(bool(error))
        twin.update(bool(error))
        found.append(detector.drift_detected)
        assert twin.drift_detected == detector.drift_detected
    assert any(found)


def test_a_detector_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    model = MODLClassifier(drift_detector=drift.KSWIN(seed=1))
    model.learn_many([[1.0], [2.0]], [0, 1])
    with pytest.raises(
        BraidedError, match=r"cannot be written to a checkpoint: use one of ADWIN, .*or pickle the model"
    ):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    assert state_of(pickle.loads(pickle.dumps(model))) == state_of(model)


def state_of(model: MODLClassifier) -> list[bytes]:
    return [array.tobytes() for array in model.braid.state().values()]


def test_a_strange_checkpoint_makes_no_strange_object() -> None:
    with pytest.raises(BraidedError, match=r"the checkpoint.s drift detector cannot be used"):
        restored_detector({"kind": "Popen", "parts": {}})


@pytest.mark.parametrize(
    "change",
    [
        {"seen": -1},
        {"seen": 1.5},
        {"drifts": 10**6},
        {"recent": {"float": "nan"}},
        {"usual": {"float": "-0x1p+3"}},
        {"detector": "nothing"},
        {"detector": {"kind": "ddm", "parts": {}}},
        {"detector": {"kind": "adwin", "parts": {"__class__": 1}}},
        {"detector": {"kind": "adwin", "parts": {"update": "__reduce__"}}},
        {"detector": {"kind": "adwin", "parts": {"_helper": "eA=="}}},
        {},
    ],
    ids=str,
)
def test_a_changed_watch_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    model = MODLClassifier(learners=(LogisticConfig(),), drift_detector=drift.ADWIN())
    values, labels = made_up(60)
    model.learn_many(values, labels)
    metadata, arrays = model.snapshot()
    metadata["drift"] |= change
    if not change:
        restored = MODLClassifier.restore(metadata, arrays)
        assert state_digest(restored) == state_digest(model)
        return
    with pytest.raises(BraidedError, match=r"^the checkpoint's (watch for drift|drift detector)\b"):
        MODLClassifier.restore(metadata, arrays)


def test_plasticity_fades_and_the_rate_returns_to_its_bits() -> None:
    values, labels = rising(900)
    learners = (LogisticConfig(), MLPConfig(hidden=(4,), learning_rate=0.01))
    model = MODLClassifier(learners=learners, drift_detector=At(120))
    rates = []
    for x, y in zip(as_records(values), labels.tolist(), strict=True):
        model.learn_one(x, y)
        rates.append(float(model.braid.learners[1].hyper[0]))  # type: ignore[attr-defined]
    assert rates[119] == 0.01
    assert rates[120] == pytest.approx(0.01 * engine.BOOST)
    assert all(a >= b for a, b in pairwise(rates[120:]))
    assert rates[350] < 0.01 * 1.5
    assert rates[-1] == 0.01
    assert model.braid.plasticity == 1.0


@pytest.mark.parametrize(("config", "task"), [(LogisticConfig(), MODLClassifier), (LinearConfig(), MODLRegressor)])
@pytest.mark.parametrize("most", [512, 2])
def test_a_closed_form_learner_widens_and_keeps_its_mean(config: Any, task: Any, most: int) -> None:
    values, labels = made_up(50)
    config = type(config)(prior_variance=0.3, full_covariance_up_to=most)
    model = task(learners=(config,), combiner="score-sum")
    model.learn_many(values, labels)
    before = model.braid.learners[0].state()
    model.braid.raise_plasticity()
    after = model.braid.learners[0].state()
    np.testing.assert_array_equal(after["mean"], before["mean"])
    wanted = 0.3 * (np.eye(7) if most == 512 else np.ones(7))
    np.testing.assert_array_equal(after["covariance"], wanted)
    assert not np.allclose(before["covariance"], wanted)


def test_the_combiner_widens_and_keeps_its_weights() -> None:
    values, labels = made_up(50)
    model = MODLClassifier()
    model.learn_many(values, labels)
    n = 2 * len(model.braid.learners)
    before = model.braid.combiner.state()["weights"]
    model.braid.raise_plasticity()
    after = model.braid.combiner.state()["weights"]
    np.testing.assert_array_equal(after[:n], before[:n])
    np.testing.assert_array_equal(after[n : n + n * n].reshape(n, n), 0.03 * np.eye(n))


def test_every_kind_of_learner_is_covered() -> None:
    """A learner that is registered has a way to react: a rate that comes first, or a covariance."""
    for kind in LEARNERS.values():
        assert callable(kind.raise_plasticity)


def test_a_learner_without_the_method_is_left_alone() -> None:
    from constant_learner import Constant

    values, labels = rising()
    model = MODLClassifier(learners=[Constant(), LogisticConfig()], drift_detector=At(120))
    model.learn_many(values, labels)
    assert model.drifts == 1


def test_a_torch_learner_takes_longer_steps() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: run make test EXTRAS=all")
    from braided.learners import TorchLearner

    learner = TorchLearner(lambda n, k: torch.nn.Bilinear(n, n, k), partial(torch.optim.SGD, lr=0.5))
    learner.grow(2, 2)
    learner.raise_plasticity(3.0, fresh=True)
    assert learner._optimizer.param_groups[0]["lr"] == 1.5
    learner.raise_plasticity(1.0, fresh=False)
    assert learner._optimizer.param_groups[0]["lr"] == 0.5


def test_fewer_errors_are_no_drift() -> None:
    """ADWIN reports any change; a model that learns something errs less, and is not to be disturbed."""
    rng = np.random.default_rng(0)
    detector, watch = drift.ADWIN(), Watch(drift.ADWIN(), regression=False)
    reported, followed = 0, 0
    for t in range(2_000):
        error = float(rng.random() < (0.5 if t < 500 else 0.1))
        detector.update(error)
        reported += detector.drift_detected
        followed += watch.update(error)
    assert reported >= 1
    assert followed == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MODLClassifier(drift_detector="adwin"), r"drift_detector is str: give one of River's"),  # type: ignore[arg-type]
        (lambda: MODLRegressor(drift_detector=drift.binary.DDM()), "DDM takes right and wrong answers: for regression"),
        (lambda: build("adwim"), "drift detector 'adwim' is not known: use one of adwin, page-hinkley"),
    ],
)
def test_what_does_not_fit_is_named(make: Any, words: str) -> None:
    with pytest.raises(BraidedError, match=words):
        make()


def test_on_the_command_line(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        done = CliRunner().invoke(
            app, ["run", "agrawal-drift", "--preset", "classic", "--limit", "6000", "--json", *arguments]
        )
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout.splitlines()[-1])["runs"][0]

    plain, watched = run(), run("--drift", "ddm")
    assert "drifts" not in plain
    assert watched["drifts"] >= 1
    assert watched["state_sha256"] != plain["state_sha256"]
    with pytest.raises(BraidedError, match="drift detector 'no' is not known"):
        CliRunner().invoke(app, ["run", "sea", "--drift", "no"], catch_exceptions=False)
    with pytest.raises(BraidedError, match="--drift has no effect on majority"):
        CliRunner().invoke(app, ["run", "sea", "--drift", "adwin", "-m", "majority"], catch_exceptions=False)


def test_a_killed_run_goes_on_with_its_detector(tmp_path: Path) -> None:
    from braided.run import Job, RunOptions

    options = RunOptions(stream="agrawal-drift", preset="classic", drift="ddm", limit=6_000)
    whole = Job(options)
    for _ in whole.run():
        pass
    stopped = Job(options, checkpoint=tmp_path / "run", every=0.0)
    for number, _ in enumerate(stopped.run()):
        if number == 2:
            break
    resumed = Job(options, checkpoint=tmp_path / "run", resume=True)
    for _ in resumed.run():
        pass
    assert resumed.finished[0].result["state_sha256"] == whole.finished[0].result["state_sha256"]
    assert resumed.finished[0].result["drifts"] == whole.finished[0].result["drifts"] >= 1


def test_rivers_detectors_are_not_imported_before_they_are_used() -> None:
    code = "import sys, braided; sys.exit('river.drift' in sys.modules or 'river.compose' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_detector_that_could_not_begin_anew_is_refused() -> None:
    watch = Watch(drift.binary.FHDDM(), regression=False)
    watch.update(1.0)
    state = watch.state()
    state["detector"]["parts"]["sliding_window_size"] = -100
    with pytest.raises(BraidedError, match="drift detector cannot be used"):
        Watch(drift.binary.FHDDM(), regression=False).load_state(state)


@pytest.mark.parametrize("number", [2**31, 10**12])
def test_a_detector_that_would_fill_the_memory_is_refused(number: int) -> None:
    packed = pack(drift.ADWIN())
    packed["parts"]["max_buckets"] = number
    with pytest.raises(BraidedError, match="drift detector cannot be used"):
        restored_detector(packed)
