"""`--key COLUMN --jobs N`: processes with some of the keys each, and the results of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, Fleet, MODLClassifier, portable
from braided.estimators.digest import state_digest
from braided.fleet import SHARES, spread
from braided.fleet.key_process import KeyProcess
from braided.fleet.rows import KeyLimits
from braided.fleet.separate import SeparateModels
from braided.learners import LogisticConfig
from braided.run import Job, RunOptions

N = 400
CLASSIFICATION, REGRESSION = "classification", "regression"
#: To start a process takes seconds: the rest is for `make slow`.
SLOW = pytest.mark.slow


def written(folder: Path, task: str) -> Path:
    """Keys that come one after the other, in all parts of a chunk; gaps, categories, weights of 0, missing labels."""
    random = np.random.default_rng(0)
    path = folder / "records.csv"
    rows = []
    for i in range(N):
        key, (a, b) = int(random.integers(2 + i // 40)), random.normal(size=2)
        y: Any = round(a * (key - 3), 4)
        if task == CLASSIFICATION:
            y = "odd" if i > 250 and b > 1.5 else "up" if y > 0 else "down"
        label = "" if i % 50 == 7 else y
        rows.append(f"{a!r},m{key},{b!r},{'rg'[i % 2]},{0 if i % 11 == 3 else 1},{label}".replace("np.float64", ""))
    path.write_text("\n".join(["a,machine,b,colour,cost,y", *rows]) + "\n")
    return path


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    return written(tmp_path, CLASSIFICATION)


def options(stream: Path, **more: Any) -> RunOptions:
    return RunOptions(stream=str(stream), target="y", key="machine", weight="cost", preset="lean", **more)


def finished(job: Job) -> dict[str, Any]:
    for _ in job.run():
        pass
    return job.document()


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """All but the time that it took."""
    timed = {"seconds", "records_per_second"}
    for one, other in zip(found["runs"], expected["runs"], strict=True):
        assert {name: one[name] for name in one.keys() - timed} == {name: other[name] for name in other.keys() - timed}
    summaries = ({**document["summary"]["modl"], "seconds_mean": 0.0} for document in (found, expected))
    assert next(summaries) == next(summaries)


def children(of: int) -> set[int]:
    """Processes with keys that a process has started."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == of and b"braided.fleet.key_process" in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def lives(process: int) -> bool:
    """Whether a process runs; one that has ended may wait for ever where nobody asks how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("share", "task", "most"),
    [
        ("start", REGRESSION, 2),
        ("none", CLASSIFICATION, 2),
        ("braid", REGRESSION, 2),
        *(pytest.param(share, task, 3, marks=SLOW) for share in SHARES for task in (CLASSIFICATION, REGRESSION)),
    ],
)
def test_results_are_those_of_one_process(tmp_path: Path, share: str, task: str, most: int) -> None:
    stream = written(tmp_path, task)
    runs, every = {}, range(1, most + 1)
    for jobs in every:
        job = Job(
            options(stream, share=share, jobs=jobs),
            predictions=tmp_path / f"{jobs}.csv", checkpoint=tmp_path / f"{jobs}.braided",
        )  # fmt: skip
        runs[jobs] = finished(job)
        history = job.finished[0].history.state()[1]
        curves = {name: array.tobytes() for name, array in history.items() if "second" not in name}
        if jobs == 1:
            expected_curves = curves
        assert curves.keys() == expected_curves.keys()
        assert sum(curves[name] != expected_curves[name] for name in curves) <= 1, "that of the time"
    for jobs in every[1:]:
        same(runs[jobs], runs[1])
        assert (tmp_path / f"{jobs}.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()
        one, other = (Fleet.load(tmp_path / f"{number}.braided") for number in (1, jobs))
        assert state_digest(one) == state_digest(other)
    assert not children(os.getpid())


@pytest.mark.parametrize("share", ["start", pytest.param("none", marks=SLOW)])
def test_a_run_goes_on_with_another_number_of_processes(stream: Path, tmp_path: Path, share: str) -> None:
    expected = finished(Job(options(stream, share=share)))
    broken = Job(options(stream, share=share, jobs=2), checkpoint=tmp_path / "c", every=0.0)
    for progress in broken.run():
        if progress.evaluation.seen >= 100:
            break
    for jobs, most in ((3, 250), (1, 10**9)):
        job = Job(options(stream, share=share, jobs=jobs), checkpoint=tmp_path / "c", every=0.0, resume=True)
        for progress in job.run():
            if progress.evaluation.seen >= most:
                break
    same(job.document(), expected)


def test_one_process_runs_where_more_would_gain_nothing(stream: Path) -> None:
    told: list[str] = []
    finished(Job(options(stream, jobs=4, limit=50), tell=told.append))
    assert any("one process runs: under --share braid" in line for line in told)


def test_labels_that_come_late(stream: Path) -> None:
    small = {"share": "start", "delay": 3, "limit": 60}
    same(finished(Job(options(stream, jobs=2, **small))), finished(Job(options(stream, **small))))


def test_what_cannot_be_is_refused(stream: Path) -> None:
    with pytest.raises(BraidedError, match="--jobs 2 spreads keys over processes: give --key, or leave it out"):
        Job(RunOptions(stream=str(stream), target="y", jobs=2))
    with pytest.raises(
        BraidedError, match=r"--jobs is 1,000, and this machine takes .* at most: give one for each core"
    ):
        Job(options(stream, jobs=1_000, share="none"))
    with pytest.raises(BraidedError, match="--jobs is 0"):
        Job(options(stream, jobs=0))
    with pytest.raises(BraidedError, match="takes no"):
        finished(Job(options(stream, jobs=2, share="start", expire_after=5)))


def test_what_a_checkpoint_has_and_several_processes_do_not_take_is_told(stream: Path, tmp_path: Path) -> None:
    begun = Job(options(stream, share="none", max_keys=3, evict="oldest"), checkpoint=tmp_path / "c", every=0.0)
    next(steps := begun.run())
    steps.close()  # type: ignore[attr-defined]
    words = "jobs=2 takes no evict, and the fleet, or the checkpoint that it is from, has it: leave out jobs"
    with pytest.raises(BraidedError, match=words):
        finished(Job(options(stream, share="none", jobs=2), checkpoint=tmp_path / "c", resume=True))


@pytest.mark.parametrize("share", ["none", pytest.param("start", marks=SLOW)])
def test_a_refused_chunk_changes_nothing(share: str) -> None:
    fleet = Fleet(MODLClassifier(learners=(LogisticConfig(),), max_features=3), key="machine", share=share, in_memory=2)
    keys = [f"m{i % 5}" for i in range(20)]
    with spread(fleet, 2):
        fleet.learn_many(np.ones((20, 2)), ["a", "b"] * 10, keys=keys)
        before = state_digest(fleet)
        with pytest.raises(BraidedError, match="max_features is 3"):
            fleet.learn_many(np.ones((20, 3)), ["a", "b"] * 10, names=["x", "y", "z"], keys=keys)
        assert state_digest(fleet) == before
        assert fleet.n_in_memory <= 2


def test_a_process_that_dies_is_told_in_a_sentence() -> None:
    fleet = Fleet(MODLClassifier(learners=(LogisticConfig(),)), key="machine", share="none")
    with spread(fleet, 2):
        fleet.learn_many([[1.0], [2.0]], ["a", "b"], keys=["m1", "m2"])
        processes = fleet._inside._processes  # type: ignore[union-attr]
        for process in processes:
            os.kill(process._process.pid, signal.SIGKILL)
        with pytest.raises(BraidedError, match=r"process \d+, which had a part of the keys, has ended by signal 9"):
            fleet.learn_many([[1.0], [2.0]], ["a", "b"], keys=["m1", "m2"])
        with pytest.raises(BraidedError, match=r"has ended by signal 9|learned in part"):
            fleet.snapshot()


def test_what_fails_in_one_process_leaves_the_answers_of_the_others_in_their_place() -> None:
    fleet = Fleet(MODLClassifier(learners=(LogisticConfig(),)), key="machine", share="none")
    keys = [f"m{i % 5}" for i in range(20)]
    with spread(fleet, 2):
        fleet.learn_many(np.ones((20, 2)), ["a", "b"] * 10, keys=keys)
        expected = fleet.predict_proba_many(np.ones((20, 2)), keys=keys)
        fleet._inside._processes[0].send("nothing that it does")  # type: ignore[union-attr]
        with pytest.raises(RuntimeError, match="a process with a part of the keys failed"):
            _ = fleet.n_in_memory
        np.testing.assert_array_equal(fleet.predict_proba_many(np.ones((20, 2)), keys=keys), expected)


def test_a_chunk_that_was_learned_in_part_is_the_last() -> None:
    fleet = Fleet(MODLClassifier(learners=(LogisticConfig(),)), key="machine", share="start", in_memory=2)
    keys = [f"m{i % 5}" for i in range(20)]
    with spread(fleet, 2):
        fleet.learn_many(np.ones((20, 2)), ["a", "b"] * 10, keys=keys)
        for file in fleet._inside._spill.path.rglob("*.braided"):
            file.write_bytes(b"something else")
        with pytest.raises(BraidedError, match="not a braided checkpoint"):
            fleet.learn_many(np.ones((20, 2)), ["a", "b"] * 10, keys=keys)
        for step in (
            lambda: fleet.learn_many(np.ones((1, 2)), ["a"], keys=["new"]),
            lambda: fleet.predict_many(np.ones((1, 2)), keys=["new"]),
            fleet.snapshot,
        ):
            with pytest.raises(BraidedError, match="a chunk was learned in part: go on from the checkpoint before it"):
                step()


def test_a_disk_without_room_for_keys_stops_all_processes_between_chunks() -> None:
    model = MODLClassifier(learners=(LogisticConfig(),))
    fleet, whole = (Fleet(model, key="machine", share="start", in_memory=most) for most in (2, None))
    random = np.random.default_rng(0)
    chunks = [(random.normal(size=(20, 2)), ["a", "b"] * 10, [f"m{i % n}" for i in range(20)]) for n in (3, 6, 7)]
    with spread(fleet, 3):
        for one in (fleet, whole):
            one.learn_many(*chunks[0][:2], keys=chunks[0][2])
        in_the_way = []
        for folder in fleet._inside._spill.path.iterdir():
            in_the_way += [folder / f"{i:02x}" for i in range(256) if not (folder / f"{i:02x}").exists()]
        for file in in_the_way:
            file.touch()
        for one in (fleet, whole):
            one.learn_many(*chunks[1][:2], keys=chunks[1][2])
        with pytest.raises(BraidedError, match="make room there, and go on, as nothing was lost"):
            fleet.learn_many(*chunks[2][:2], keys=chunks[2][2])
        assert state_digest(fleet) == state_digest(whole)
        for file in in_the_way:
            file.unlink()
        for one in (fleet, whole):
            one.learn_many(*chunks[2][:2], keys=chunks[2][2])
        assert state_digest(fleet) == state_digest(whole)


def test_keys_in_other_processes_take_tables_alone() -> None:
    fleet = Fleet(MODLClassifier(learners=(LogisticConfig(),)), key="machine", share="none")
    x = {"machine": "m1", 0: 1.0}
    with spread(fleet, 2):
        fleet.learn_many([[1.0], [2.0]], ["a", "b"], keys=["m1", "m2"])
        before = state_digest(fleet)
        state: Any = {"key": "sm3", "share": "none", "shared": "", "own": {}}, {}
        for ask in (
            lambda: fleet.predict_one(x), lambda: fleet.learn_one(x, "a"), fleet.dry_run,
            lambda: fleet.forget_key("m1"), lambda: fleet.snapshot_key("m1"), lambda: fleet.restore_key(*state),
        ):  # fmt: skip
            with pytest.raises(BraidedError, match="other processes, which take tables alone"):
                ask()
        assert state_digest(fleet) == before


def key_process() -> KeyProcess:
    """One that has begun."""
    model = MODLClassifier(learners=(LogisticConfig(),))
    process = KeyProcess(SeparateModels(model, KeyLimits(2), start=False))
    process.send("collect")
    assert process.collect() == []
    return process


@pytest.mark.skipif(not portable.POSIX, reason="processes are not stopped by a signal there: run it on Linux or macOS")
def test_a_process_that_does_not_read_is_ended() -> None:
    process = key_process()
    os.kill(process._process.pid, signal.SIGSTOP)
    process.send("take", "m1", bytes(2**22))
    closing = threading.Thread(target=process.close, daemon=True)
    closing.start()
    closing.join(30)
    waits = closing.is_alive()
    process._process.kill()
    assert not waits
    assert not lives(process._process.pid)


def test_modules_beside_the_data_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit('imported from where the data is')")
    monkeypatch.chdir(tmp_path)
    key_process().close()


@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=SLOW)])
def test_nothing_is_left_of_a_run_that_is_ended(stream: Path, tmp_path: Path, end: int) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("there is no /proc, where processes are listed: run it on Linux")
    whole = stream.read_text().splitlines()
    long = tmp_path / "long.csv"
    long.write_text("\n".join([whole[0], *whole[1:] * 60]) + "\n")
    words = f"run {long} --target y --key machine --share none --preset lean --jobs 2 --checkpoint {tmp_path / 'c'}"
    command = [sys.executable, "-m", "braided", *words.split(), "--checkpoint-every", "0"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while not (tmp_path / "c").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    started = children(run.pid)
    assert len(started) == 2
    run.send_signal(end)
    errors = run.communicate(timeout=60)[1]
    assert run.returncode == (-9 if end == signal.SIGKILL else 130), errors
    assert b"Traceback" not in errors
    while any(map(lives, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(lives, started))
