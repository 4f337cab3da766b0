"""A disk that is full, or loses files, under the keys that do not fit into memory."""

from __future__ import annotations

import errno
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

from braided import BraidedError, Fleet
from braided.fleet import KIND, SHARES, cache
from braided.records import Records
from braided.store import encode, state_digest


def _full(*arguments: Any) -> int:
    """A disk that takes a part of what is written."""
    return 100


def _unreadable(*arguments: Any) -> bytes:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("share", SHARES)
def test_a_full_disk_stops_a_fleet_between_steps_and_nothing_is_lost(
    share: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, labels, keys = stream(CLASSIFICATION, n=140, n_keys=12)
    whole, few = fleet(CLASSIFICATION, share=share), fleet(CLASSIFICATION, share=share, in_memory=3)
    for part in (slice(0, 60), slice(60, 100)):
        if part.start:
            monkeypatch.setattr(os, "pwrite", _full)
        expected = whole.predict_learn_many(values[part], labels[part], NAMES, keys=keys[part])
        found = few.predict_learn_many(values[part], labels[part], NAMES, keys=keys[part])
        np.testing.assert_array_equal(found.values, expected.values)
    assert few.n_in_memory > 3, "what could not leave has stayed"
    x = records(values, keys)[100]
    for step in (
        lambda: few.learn_many(values[100:], labels[100:], NAMES, keys=keys[100:]),
        lambda: few.learn_one(x, labels[100]),
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
def test_what_was_admitted_is_learned_on_a_full_disk(share: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values, labels, keys = stream(CLASSIFICATION, n=100, n_keys=12)
    whole, few = fleet(CLASSIFICATION, share=share), fleet(CLASSIFICATION, share=share, in_memory=3)
    monkeypatch.setattr(os, "pwrite", _full)
    for start in range(0, 100, 25):
        part = slice(start, start + 25)
        few.core.learn(few.core.check(Records(tuple(NAMES), values[part], labels[part], keys=keys[part])))
    whole.learn_many(values, labels, NAMES, keys=keys)
    assert state_digest(few) == state_digest(whole)
    with pytest.raises(BraidedError, match="No space left on device"):
        few.learn_many(values, labels, NAMES, keys=keys)


@pytest.mark.parametrize("share", SHARES)
def test_a_fleet_with_keys_that_do_not_fit_is_not_loaded_on_a_full_disk(
    share: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, labels, keys = stream(REGRESSION, n=60, n_keys=8)
    model = fleet(REGRESSION, share=share, in_memory=3)
    model.learn_many(values, labels, NAMES, keys=keys)
    model.save(tmp_path / "fleet")
    monkeypatch.setattr(os, "pwrite", _full)
    with pytest.raises(BraidedError, match="keys that are too many for memory cannot be put into a file in"):
        Fleet.load(tmp_path / "fleet")
    monkeypatch.undo()
    assert state_digest(Fleet.load(tmp_path / "fleet")) == state_digest(model)


def test_a_fleet_that_was_torn_in_a_step_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values, labels, keys = stream(REGRESSION, n=60, n_keys=8)
    model = fleet(REGRESSION, in_memory=3)
    model.learn_many(values, labels, NAMES, keys=keys)
    model.save(tmp_path / "good")
    shutil.copy(tmp_path / "good", tmp_path / "before")
    monkeypatch.setattr(os, "pread", _unreadable)
    with pytest.raises(cache.KeysLostError, match="cannot be read from disk: Input/output error; load the fleet's"):
        model.learn_many(values, labels, NAMES, keys=keys)
    torn = "the fleet failed in the middle of a step .*, and its keys may lack a part of it: load its last file"
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
def test_a_held_fleet_that_was_torn_in_a_step_is_not_saved(learn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    values, labels, keys = stream(REGRESSION, n=60, n_keys=8)
    model = fleet(REGRESSION, in_memory=3)
    model.learn_many(values, labels, NAMES, keys=keys)
    model.hold_shared()
    monkeypatch.setattr(os, "pread", _unreadable)
    with pytest.raises(cache.KeysLostError, match="cannot be read from disk"):
        learn(model, values, labels, keys)
    torn = "the fleet failed in the middle of a step .*, and its keys may lack a part of it: load its last file"
    for step in (model.snapshot, lambda: model.learn_one({"machine": keys[-1], "f0": 1.0}, 2.0)):
        with pytest.raises(BraidedError, match=torn):
            step()


def test_keys_on_disk_leave_nothing_behind_when_their_process_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, sys; from braided.fleet.cache import KeyFile; file = KeyFile(sys.argv[1])\n"
        "file.write('pump', b'state'); print(file.read('pump')); sys.stdout.flush(); os.kill(os.getpid(), 9)"
    )
    found = subprocess.run([sys.executable, "-c", program, str(tmp_path / "new")], capture_output=True, text=True)
    assert found.stdout == "b'state'\n", found.stderr
    assert not list((tmp_path / "new").iterdir())


def test_room_in_the_file_is_used_again() -> None:
    file, random = cache.KeyFile(), np.random.default_rng(0)
    kept: dict[str, bytes] = {}
    for i in range(2_000):
        key = f"pump {random.integers(20)}"
        file.remove(key)
        kept[key] = bytes([i % 256]) * int(random.integers(1, 2_000))
        file.write(key, kept[key])
    assert {key: file.read(key) for key in kept} == kept
    assert file._end < 20 * 4 * 2_560
    assert "pump 0" in file
    file.remove("pump 0")
    assert "pump 0" not in file


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(cache.KeysNotWrittenError, match="file cannot be written: File exists"):
        cache.KeyFile(tmp_path / "file").write("pump", b"state")


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
def test_a_forked_process_leaves_the_keys_of_its_parent_alone_and_takes_no_others_for_them(tmp_path: Path) -> None:
    program = """
import os, sys
from braided import BraidedError
from braided.fleet.cache import KeyFile

file = KeyFile(sys.argv[1])
file.write("pump", b"state")
read, write = os.pipe()
done, finished = os.pipe()
child = os.fork()
if child == 0:
    print(file.read("pump"))
    os.write(finished, b"x")
    os.read(read, 1)
    for step in (lambda: file.write("fan", b"state"), lambda: file.read("pump")):
        try:
            step()
        except BraidedError as error:
            print(error, flush=True)
    sys.exit()
os.read(done, 1)
file.remove("pump")
file.write("pump", b"other")
os.write(write, b"x")
os.waitpid(child, 0)
print(file.read("pump"))
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before, refused, changed, after = done.stdout.splitlines()
    assert (before, after) == ("b'state'", "b'other'")
    assert refused.startswith("this process was forked from the one that puts keys into")
    assert changed.startswith("key 'pump' is no longer on disk as this process had it")
