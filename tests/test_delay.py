"""Labels that come late: a record is learned from what was known when it was predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braided
from braided import BraidedError, MODLClassifier, MODLRegressor, presets
from braided.kernels import scale
from braided.learners import LogisticConfig, RecentConfig, RecentValueConfig, build

LATE = 7


def persistent(n: int, seed: int = 0, share: float = 0.03) -> tuple[np.ndarray, np.ndarray]:
    """Values that say little, and labels that stay the same for some thirty records."""
    rng = np.random.default_rng(seed)
    labels = np.cumsum(rng.random(n) < share) % 3
    return rng.normal(size=(n, 3)) + 0.5 * labels[:, None], labels


def run_late(model: Any, values: np.ndarray, targets: np.ndarray, delay: int) -> list[Any]:
    """What the model says of each record when each label comes `delay` records late."""
    said = []
    for t, row in enumerate(values):
        if t >= delay:
            model.learn_one(dict(enumerate(values[t - delay])), targets[t - delay].item())
        said.append(model.predict_one(dict(enumerate(row))))
    return said


def test_labels_count_as_known_when_they_would_have_been() -> None:
    """The frequencies that record t is learned by are those of a learner that has seen t - LATE labels and no more."""
    _, labels = persistent(60)
    model = MODLClassifier(learners=(RecentConfig(),), delay=LATE)
    for t, label in enumerate(labels.tolist()):
        model.learn_one({"a": 1.0}, label)
        past = model.braid.learners[0].views["past"][:, : max(2, len(model.classes))]  # type: ignore[attr-defined]
        for rows, last in ((past[:5], t + 1), (past[5:], t + 1 - (LATE - 1))):
            seen = build(RecentConfig(), seed=0, place=0)
            seen.grow(0, past.shape[1])
            nothing, unused = np.zeros(0, dtype=np.float32), np.zeros(past.shape[1], dtype=np.float32)
            for earlier in labels[: max(last, 0)].tolist():
                seen.learn(nothing, nothing.astype(bool), model.classes.index(earlier), unused)
            np.testing.assert_array_equal(rows, seen.views["past"][:5, : past.shape[1]])


def test_the_targets_past_is_the_one_that_was_known() -> None:
    y = np.random.default_rng(0).normal(size=40).cumsum()
    model = MODLRegressor(learners=(RecentValueConfig(),), combiner="kalman-tanh", delay=LATE)
    for t, value in enumerate(y.tolist()):
        model.learn_one({"a": 1.0}, value)
        then = model.braid.target_then
        if t >= LATE:
            assert then[scale.LAST] == y[t - LATE + 1]
            assert then[scale.LAST + 1] == y[t - LATE]
        assert model.braid.target[scale.LAST] == value


@pytest.mark.parametrize("preset", ["classic", "default"])
def test_labels_that_come_at_once_have_a_delay_of_0_or_1(preset: str) -> None:
    values, labels = persistent(80)
    models = [MODLClassifier(preset, delay=delay) for delay in (0, 1)]
    for model in models:
        model.learn_many(values, labels)
    a, b = (model.predict_proba_many(values) for model in models)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", [MODLClassifier, MODLRegressor])
def test_chunks_records_and_saved_models_agree(kind: type[MODLClassifier], tmp_path: Path) -> None:
    values, labels = persistent(120)
    values[::5, 1] = np.nan
    one, many, saved = (kind("default", delay=LATE) for _ in range(3))
    said = many.predict_learn_many(values, labels).values
    for t, (row, label) in enumerate(zip(values, labels.tolist(), strict=True)):
        x = dict(enumerate(row))
        answer = one.predict_proba_one(x) if isinstance(one, MODLClassifier) else {0: one.predict_one(x)}
        np.testing.assert_array_equal(list(answer.values()), said[t, : len(answer)])
        one.learn_one(x, label)
        if t == 60:
            saved.learn_many(values[:61], labels[:61])
            saved.save(tmp_path / "model")
            saved = kind.load(tmp_path / "model")
            assert saved.delay == LATE
    saved.learn_many(values[61:], labels[61:])
    for model in (many, saved):
        for name, array in one.braid.state().items():
            np.testing.assert_array_equal(array, model.braid.state()[name], err_msg=name)


@pytest.mark.parametrize("regression", [False, True])
def test_the_compiled_loop_and_the_one_in_python_agree(regression: bool) -> None:
    """With one learner in Python all steps are taken in Python."""
    values, labels = persistent(60)
    preset = presets.get("default").for_regression() if regression else presets.get("default")
    kind = MODLRegressor if regression else MODLClassifier

    class Silent:
        """A learner in Python that says nothing."""

        def scores(self, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
            return np.zeros(self.n, dtype=np.float32)

        def learn(self, *args: Any) -> bool:
            return True

        def grow(self, n_features: int, n_outputs: int) -> None:
            self.n = n_outputs

        def reset(self) -> None: ...

        def state(self) -> dict[str, np.ndarray]:
            return {}

        def load_state(self, arrays: Any) -> None: ...

    recent = RecentValueConfig(inputs="plain") if regression else RecentConfig()
    fast = preset.learners[0]
    other = LogisticConfig().for_regression() if regression else LogisticConfig()
    compiled = kind(learners=(fast, recent, other), combiner="kalman-tanh", delay=LATE)
    python = kind(learners=(fast, recent, Silent()), combiner="kalman-tanh", delay=LATE)
    assert compiled.braid.compiled
    assert not python.braid.compiled
    own = [model.predict_learn_many(values, labels).own[:, :2] for model in (compiled, python)]
    np.testing.assert_allclose(own[0], own[1], rtol=1e-5)
    for name in ("late", "target then"):
        np.testing.assert_array_equal(*(model.braid.state()[name] for model in (compiled, python)))


@pytest.mark.parametrize("delay", [10, 50])
def test_habit_is_trusted_only_as_far_as_it_goes(delay: int) -> None:
    values, labels = persistent(4_000)
    stream = [(dict(enumerate(row)), label) for row, label in zip(values.tolist(), labels.tolist(), strict=True)]
    told = braided.record(MODLClassifier("default"), stream, delay=delay)
    untold = np.array(run_late(MODLClassifier("default"), values, labels, delay))
    if delay > 30:  # the labels have changed by then, and repeating an old one is worse than looking at the record
        assert told.error < 0.9 * (untold[delay:] != labels[delay:]).mean()
    assert told.error <= 1.02 * braided.record(MODLClassifier("classic"), stream, delay=delay).error


def test_a_delay_that_is_none_is_refused() -> None:
    for delay in (-1, 1.5, "late", 10**9):
        with pytest.raises(BraidedError, match="use a whole number of records from 0"):
            MODLClassifier(delay=delay).learn_one({"a": 1.0}, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("place", "value"), [(1, 7.0), (1, -1.0), (0, -5.0), (3, np.nan)])
def test_late_labels_that_are_none_are_refused(place: int, value: float) -> None:
    values, labels = persistent(60)
    model = MODLClassifier("default", delay=LATE)
    model.learn_many(values, labels)
    metadata, arrays = model.snapshot()
    arrays["late"][place] = value
    with pytest.raises(BraidedError, match="array 'late' holds"):
        MODLClassifier.restore(metadata, arrays)
