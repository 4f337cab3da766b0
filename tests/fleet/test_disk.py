"""A disk that is full, or loses files, under the keys that do not fit into memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from help_fleet import CLASSIFICATION, NAMES, REGRESSION, fleet, records, stream

from braided import BraidedError, Fleet, portable
from braided.checkpoint import encode
from braided.estimators.digest import state_digest
from braided.fleet import KIND, SHARES, spill


def _full(*arguments: Any, **settings: Any) -> None:
    raise BraidedError("checkpoint x cannot be written: No space left on device")


@pytest.mark.parametrize("share", SHARES)
def test_a_full_disk_stops_a_fleet_between_steps_and_nothing_is_lost(
    share: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, labels, keys = stream(CLASSIFICATION, n=140, n_keys=12)
    whole, few = fleet(CLASSIFICATION, share=share), fleet(CLASSIFICATION, share=share, in_memory=3)
    for part in (slice(0, 60), slice(60, 100)):
        if part.start:
            monkeypatch.setattr(spill, "write", _full)
        expected = whole.predict_learn_many(values[part], labels[part], NAMES, keys=keys[part])
        found = few.predict_learn_many(values[part], labels[part], NAMES, keys=keys[part])
        np.testing.assert_array_equal(found.values, expected.values)
    assert few.n_in_memory > 3, "what could not leave has stayed"
    x = records(values, keys)[100]
    for step in (
        lambda: few.learn_many(values[100:], labels[100:], NAMES, keys=keys[100:]),
        lambda: few.learn_one(x, labels[100]),
        lambda: few.dry_run().learn_many(values[100:], labels[100:], NAMES, keys=keys[100:]),
    ):
        with pytest.raises(BraidedError, match="No space left on device; make room there, and go on, as nothing was"):
            step()
        assert state_digest(few) == state_digest(whole)
    assert few.records_learned == 100
    in_memory = few.n_in_memory
    expected_rows = whole.predict_proba_many(values, NAMES, keys=keys)
    for _ in range(2):  # predictions go on, and keys that come back for them do not pile up
        np.testing.assert_array_equal(few.predict_proba_many(values, NAMES, keys=keys), expected_rows)
        assert [few.predict_one(x) for x in records(values, keys)] == whole.predict_many(values, NAMES, keys=keys)
        assert few.n_in_memory <= in_memory + 3
    assert state_digest(few) == state_digest(whole)
    monkeypatch.undo()
    for model in (few, whole):
        model.learn_many(values[100:], labels[100:], NAMES, keys=keys[100:])
    assert few.n_in_memory <= 3
    assert state_digest(few) == state_digest(whole)


@pytest.mark.parametrize("share", SHARES)
def test_what_a_dry_run_has_admitted_is_learned_on_a_full_disk(share: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values, labels, keys = stream(CLASSIFICATION, n=100, n_keys=12)
    whole, few = fleet(CLASSIFICATION, share=share), fleet(CLASSIFICATION, share=share, in_memory=3)
    monkeypatch.setattr(spill, "write", _full)
    few.dry_run().learn_many(values, labels, NAMES, keys=keys)
    with few.learning_admitted():
        for start in range(0, 100, 25):
            part = slice(start, start + 25)
            few.learn_many(values[part], labels[part], NAMES, keys=keys[part])
    whole.learn_many(values, labels, NAMES, keys=keys)
    assert state_digest(few) == state_digest(whole)
    with pytest.raises(BraidedError, match="No space left on device"):
        few.dry_run().learn_many(values, labels, NAMES, keys=keys)


@pytest.mark.parametrize("share", SHARES)
def test_a_fleet_with_keys_that_do_not_fit_is_not_loaded_on_a_full_disk(
    share: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, labels, keys = stream(REGRESSION, n=60, n_keys=8)
    model = fleet(REGRESSION, share=share, in_memory=3)
    model.learn_many(values, labels, NAMES, keys=keys)
    model.save(tmp_path / "fleet")
    monkeypatch.setattr(spill, "write", _full)
    with pytest.raises(BraidedError, match="keys that are too many for memory cannot be put on disk"):
        Fleet.load(tmp_path / "fleet")
    monkeypatch.undo()
    assert state_digest(Fleet.load(tmp_path / "fleet")) == state_digest(model)


@pytest.mark.parametrize("share", SHARES)
def test_keys_whose_files_are_gone_are_missed_before_anything_is_learned(share: str, tmp_path: Path) -> None:
    values, labels, keys = stream(REGRESSION, n=60, n_keys=8)
    model = fleet(REGRESSION, share=share, in_memory=3, folder=tmp_path)
    model.learn_many(values, labels, NAMES, keys=keys)
    for file in tmp_path.rglob("*.braided"):
        file.unlink()
    shared = None if model.shared is None else state_digest(model.shared)
    with pytest.raises(BraidedError, match=r"\.braided, where a key was put .* is gone: load the fleet's last file"):
        model.learn_many(values, labels, NAMES, keys=keys)
    assert shared == (None if model.shared is None else state_digest(model.shared))
    model.learn_one({"machine": "another", "f0": 1.0}, 2.0)
    assert model.records_learned == 61


def test_a_fleet_that_was_torn_in_a_step_is_not_saved(tmp_path: Path) -> None:
    values, labels, keys = stream(REGRESSION, n=60, n_keys=8)
    model = fleet(REGRESSION, in_memory=3, folder=tmp_path / "spill")
    model.learn_many(values, labels, NAMES, keys=keys)
    model.save(tmp_path / "good")
    shutil.copy(tmp_path / "good", tmp_path / "before")
    for file in (tmp_path / "spill").rglob("*.braided"):
        file.write_bytes(b"something else")
    with pytest.raises(BraidedError, match="not a braided checkpoint"):
        model.learn_many(values, labels, NAMES, keys=keys)
    torn = "has failed in the middle of a step .*, and its keys have not learned what the shared model has: load its"
    for step in (lambda: model.save(tmp_path / "good"), lambda: model.learn_one({"machine": keys[-1], "f0": 1.0}, 2.0)):
        with pytest.raises(BraidedError, match=torn):
            step()
    assert (tmp_path / "good").read_bytes() == (tmp_path / "before").read_bytes()
    assert Fleet.load(tmp_path / "good").n_keys == len(set(keys))


def _one_by_one(model: Fleet, values: Any, labels: list[Any], keys: list[str]) -> None:
    for x, y in zip(records(values, keys), labels, strict=True):
        model.learn_one(x, y)


def _at_once(model: Fleet, values: Any, labels: list[Any], keys: list[str]) -> None:
    model.learn_many(values, labels, NAMES, keys=keys)


@pytest.mark.parametrize("learn", [_one_by_one, _at_once])
def test_a_held_fleet_that_was_torn_in_a_step_is_not_saved(learn: Any, tmp_path: Path) -> None:
    values, labels, keys = stream(REGRESSION, n=60, n_keys=8)
    model = fleet(REGRESSION, in_memory=3, folder=tmp_path)
    model.learn_many(values, labels, NAMES, keys=keys)
    model.hold_shared()
    for file in tmp_path.rglob("*.braided"):
        file.write_bytes(b"something else")
    with pytest.raises(BraidedError, match="not a braided checkpoint"):
        learn(model, values, labels, keys)
    torn = "has failed in the middle of a step .*, and its keys may have learned a part of it: load its last file"
    for step in (model.snapshot, lambda: model.learn_one({"machine": keys[-1], "f0": 1.0}, 2.0)):
        with pytest.raises(BraidedError, match=torn):
            step()


@pytest.mark.skipif(not portable.POSIX, reason="folders are locked by flock: run it on Linux or macOS")
def test_what_a_killed_process_has_left_goes_with_the_next_and_nothing_else_does(tmp_path: Path) -> None:
    program = (
        "import os, sys; from braided.fleet.spill import SpillFolder; folder = SpillFolder(sys.argv[1])\n"
        "folder.add('FleetRows', {}, {}); print(folder.path, flush=True); os.kill(os.getpid(), 9)"
    )
    found = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    left = Path(found.stdout.strip())
    assert list(left.rglob("*.braided")), found.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "braided-keys-link").symlink_to(elsewhere)
    (tmp_path / "braided-fleet-other").mkdir()
    first = spill.SpillFolder(tmp_path)
    number = first.add("FleetRows", {}, {})
    second = spill.SpillFolder(tmp_path)
    assert second.path != first.path
    assert not left.exists()
    assert elsewhere.exists()
    assert (tmp_path / "braided-fleet-other").exists()
    first.read(number, "FleetRows")
    path = first.path
    del first
    assert not path.exists()
    assert second.path.exists()


def test_a_folder_that_is_gone_does_not_come_back_without_its_lock(tmp_path: Path) -> None:
    folder = spill.SpillFolder(tmp_path)
    number = folder.add("FleetRows", {}, {})
    shutil.rmtree(folder.path)
    for step in (lambda: folder.add("FleetRows", {}, {}), lambda: folder.check(number)):
        with pytest.raises(spill.KeysLostError, match="is gone: load the fleet's last file"):
            step()
    folder.remove(number)
    inside = spill.SpillFolder(folder.path)  # as a process has it
    with pytest.raises(BraidedError, match="cannot be written: No such file"):
        inside.add("FleetRows", {}, {})
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_removed_stops_nothing(tmp_path: Path) -> None:
    folder = spill.SpillFolder(tmp_path)
    number = folder.add("FleetRows", {}, {})
    file = next(folder.path.rglob("*.braided"))
    file.unlink()
    file.mkdir()  # what no unlink removes
    folder.remove(number)


def test_one_file_that_cannot_be_read_keeps_no_other_from_being_taken_apart(tmp_path: Path) -> None:
    n = 200
    model = fleet(REGRESSION, in_memory=32, folder=tmp_path)
    values, every = np.random.default_rng(0).normal(size=(n, 1)), [f"pump {i}" for i in range(n)]
    model.learn_many(values, values[:, 0], keys=every)
    rows = model._inside.own.rows  # type: ignore[union-attr]
    number, first = next((number, keys) for number, (keys, _) in rows._files.items() if len(keys) > 8)
    rows._spill._file(number).write_bytes(b"something else")
    rare = {keys[0] for keys, _ in rows._files.values()}
    often = [key for key in every if key not in rare and key not in first]
    for key in first[1:]:
        rows.forget(key)
    for _ in range(20):  # so that there is one key left in each of the first files
        model.learn_many(values[: len(often)], values[: len(often), 0], keys=often)
    assert number in rows._files
    assert [keys for other, (keys, needed) in rows._files.items() if other != number and needed == 1 < len(keys)] == []


@pytest.mark.parametrize("share", SHARES)
def test_a_file_that_is_written_in_parts_is_that_of_the_whole(share: str, tmp_path: Path) -> None:
    values, labels, keys = stream(CLASSIFICATION, n=140, n_keys=12)
    model = fleet(CLASSIFICATION, share=share, in_memory=3)
    model.learn_many(values, labels, NAMES, keys=keys)
    model.predict_many(values[:9], NAMES, keys=keys[:9])
    model.save(tmp_path / "fleet")
    assert (tmp_path / "fleet").read_bytes() == encode(KIND, *model.snapshot())
    whole = fleet(CLASSIFICATION, share=share)
    assert whole.n_keys == 0
    whole.save(tmp_path / "empty")
    assert (tmp_path / "empty").read_bytes() == encode(KIND, *whole.snapshot())


@pytest.mark.parametrize("share", ["braid", "none"])
def test_to_save_needs_memory_for_a_part_of_the_keys(share: str, tmp_path: Path) -> None:
    n = 3_000 if share == "braid" else 60
    model = fleet(REGRESSION, share=share, in_memory=n)
    values = np.random.default_rng(0).normal(size=(n, 3))
    model.learn_many(values, values[:, 0].tolist(), keys=list(range(n)))
    model.save(tmp_path / "fleet")
    tracemalloc.start()
    model.save(tmp_path / "fleet")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (tmp_path / "fleet").stat().st_size / 3


@pytest.mark.parametrize("share", SHARES)
def test_a_key_that_is_refused_costs_no_other(share: str) -> None:
    values, labels, _ = stream(REGRESSION, n=60, n_keys=3)
    model = fleet(REGRESSION, share=share, max_keys=2, evict="oldest")
    other = fleet(REGRESSION, share=share)
    for one in (model, other):
        one.learn_many(values[:40], labels[:40], NAMES, keys=[f"pump {i % 2}" for i in range(40)])
        one.hold_shared()
    other.learn_many(values[40:], labels[40:], NAMES, keys=["new"] * 20)
    metadata, arrays = other.snapshot_key("new")
    before = state_digest(model)
    for wrong in (
        ({**metadata, "own": {}}, arrays),
        (metadata, {}),
        (metadata, {name: array - 10**9 for name, array in arrays.items()}),
    ):
        with pytest.raises(BraidedError):
            model.restore_key(*wrong)
        assert (model.keys, state_digest(model)) == (["pump 0", "pump 1"], before)
    model.restore_key(metadata, arrays)
    assert model.keys == ["pump 1", "new"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork there: run it on Linux or macOS")
def test_a_forked_process_leaves_the_keys_of_its_parent_alone(tmp_path: Path) -> None:
    program = """
import os, sys
from braided import BraidedError
from braided.fleet.spill import SpillFolder

folder = SpillFolder(sys.argv[1])
number = folder.add("FleetRows", {}, {})
child = os.fork()
if child == 0:
    folder.read(number, "FleetRows")
    try:
        folder.add("FleetRows", {}, {})
    except BraidedError as error:
        print(error, flush=True)
    sys.exit()
os.waitpid(child, 0)
folder.read(number, "FleetRows")
print(folder.add("FleetRows", {}, {}))
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    refused, added = done.stdout.splitlines()
    assert refused.startswith("this process was forked from the one that puts keys into")
    assert added == "1"
    assert not list(tmp_path.iterdir()), "the folder goes with the process that made it"
