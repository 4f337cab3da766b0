"""Saving and loading: exact, and honest about damaged files."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, MODLClassifier, MODLRegressor, presets, store
from braided.learners import LEARNERS, LogisticConfig, MLPConfig
from braided.presets import Preset
from braided.store import state_digest
from braided.zoo import preset_for
from conftest import made_up
from constant_learner import Constant


@pytest.mark.parametrize("preset", ["default", "paper", "released"])
def test_resuming_is_bit_exact(preset: str, tmp_path: Path) -> None:
    values, labels = made_up(160, classes=3)
    values[:100, 4] = np.nan  # a feature that appears after the save
    straight, broken_off = MODLClassifier(preset=preset, seed=9), MODLClassifier(preset=preset, seed=9)
    straight.learn_many(values, labels)
    broken_off.learn_many(values[:90], labels[:90])
    broken_off.save(tmp_path / "model")
    resumed = MODLClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(resumed.predict_proba_many(values[:90]), broken_off.predict_proba_many(values[:90]))
    resumed.learn_many(values[90:], labels[90:])
    assert state_digest(resumed) == state_digest(straight)
    np.testing.assert_array_equal(resumed.predict_proba_many(values), straight.predict_proba_many(values))


def test_the_regressor_resumes_too(tmp_path: Path) -> None:
    values, labels = made_up(100)
    straight, other = MODLRegressor(), MODLRegressor()
    straight.learn_many(values, labels * 3.5)
    other.learn_many(values[:50], labels[:50] * 3.5)
    other.save(tmp_path / "model")
    resumed = MODLRegressor.load(tmp_path / "model")
    resumed.learn_many(values[50:], labels[50:] * 3.5)
    assert state_digest(resumed) == state_digest(straight)  # type: ignore[arg-type]


def test_parameters_names_and_labels_keep_their_types(tmp_path: Path) -> None:
    preset = Preset("mine", (LogisticConfig(prior_variance=0.3), MLPConfig(hidden=(4, 5))), standardise=True)
    model = MODLClassifier(preset=preset, learners=preset.learners[:1], seed=3, max_features=50, max_classes=7)
    for name, label in [("a", "1"), (1, 1), (2.5, 2.5), (("s", 3), ("t", None)), ("1", "b")]:
        model.learn_one({name: 1.0}, label)
    model.save(tmp_path / "model")
    loaded = MODLClassifier.load(tmp_path / "model")
    assert loaded._get_params() == model._get_params()
    assert list(map(repr, loaded.classes)) == list(map(repr, model.classes))
    assert list(map(repr, loaded.core.features.slots)) == list(map(repr, model.core.features.slots))


def test_an_untrained_model_can_be_saved(tmp_path: Path) -> None:
    MODLClassifier(seed=5).save(tmp_path / "model")
    loaded = MODLClassifier.load(tmp_path / "model")
    assert loaded.seed == 5
    assert loaded.predict_proba_one({"a": 1.0}) == {}


def test_learners_of_ones_own_are_given_back_by_the_caller(tmp_path: Path) -> None:
    values, labels = made_up(30)
    model = MODLClassifier(learners=[LogisticConfig(), Constant()])
    model.learn_many(values, labels)
    model.save(tmp_path / "model")
    with pytest.raises(BraidedError, match="holds learners of your own \\(Constant\\)"):
        MODLClassifier.load(tmp_path / "model")
    for others in ([Constant()], [Constant(), LogisticConfig()], [LogisticConfig(gain="paper"), Constant()]):
        with pytest.raises(BraidedError, match="was made with other learners"):
            MODLClassifier.load(tmp_path / "model", learners=others)
    loaded = MODLClassifier.load(tmp_path / "model", learners=[LogisticConfig(), Constant()])
    assert state_digest(loaded) == state_digest(model)


def test_a_label_that_json_cannot_hold_is_named(tmp_path: Path) -> None:
    model = MODLClassifier()
    model.learn_one({"a": 1.0}, frozenset({1}))
    with pytest.raises(BraidedError, match=r"frozenset.*cannot be written to a checkpoint"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = MODLClassifier(preset=Preset("small", (LogisticConfig(),), standardise=True))
    model.learn_many(*made_up(20))
    model.save(tmp_path / "model")
    return tmp_path / "model"


def flip(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def other_version(content: bytes) -> bytes:
    body = content[:8] + struct.pack("<I", 99) + content[12:-32]
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: c[: len(c) // 2], "is truncated"),
        (lambda c: c[:-1], "is truncated"),
        (lambda c: c[:15], "is truncated"),
        (lambda c: flip(c, len(c) // 2), "does not match its checksum"),
        (lambda c: flip(c, len(c) - 1), "does not match its checksum"),
        (lambda c: c + b"x", "does not match its checksum"),
        (other_version, "is of format version 99"),
        (lambda c: b"", "is not a braided checkpoint"),
        (lambda c: b"PK" + c[2:], "is not a braided checkpoint"),
    ],
)
def test_a_damaged_file_is_refused_and_the_error_says_how(
    saved: Path, damage: Callable[[bytes], bytes], message: str
) -> None:
    saved.write_bytes(damage(saved.read_bytes()))
    with pytest.raises(BraidedError, match=message):
        MODLClassifier.load(saved)


def test_every_single_flipped_byte_is_noticed(saved: Path) -> None:
    content = saved.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 300)):
        saved.write_bytes(flip(content, place))
        with pytest.raises(BraidedError):
            MODLClassifier.load(saved)


def test_a_file_of_another_kind_is_refused(saved: Path) -> None:
    with pytest.raises(BraidedError, match="holds a MODLClassifier, not a MODLRegressor"):
        MODLRegressor.load(saved)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BraidedError, match="cannot be read: No such file"):
        MODLClassifier.load(tmp_path / "nothing")
    with pytest.raises(BraidedError, match="cannot be written"):
        MODLClassifier().save(tmp_path / "no folder" / "model")


def test_a_failed_write_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = saved.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BraidedError, match="No space left on device"):
        MODLClassifier().save(saved)
    assert saved.read_bytes() == old
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_no_pickle_is_involved(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("pickle was used")

    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "load", refuse)
    MODLClassifier.load(saved)


def test_presets_travel_by_value() -> None:
    kinds: dict[str, type] = {kind.__name__: kind for kind in [Preset, *LEARNERS]}
    for preset in (presets.default(), preset_for("paper", "higgs"), preset_for("released", "a8a")):
        assert store.unpack_config(store.pack_config(preset), kinds) == preset


def test_the_default_is_saved_with_its_settings(tmp_path: Path) -> None:
    """What the name means may change."""
    model = MODLClassifier()
    model.learn_one({"a": 1.0}, 0)
    model.save(tmp_path / "m")
    loaded = MODLClassifier.load(tmp_path / "m")
    assert loaded.preset == presets.default()
    assert loaded.learner_names == model.learner_names
