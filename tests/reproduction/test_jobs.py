"""One job of `python -m reproduction`: a long one goes on where it was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from braided.run import Job
from reproduction import runs
from reproduction.jobs import JobSpec, perform

ROOT = Path(__file__).resolve().parents[2]
SPEC = JobSpec("higgs", "modl", "lean", seed=1, available=0.5)


#: Is killed when it has learned a batch, with a checkpoint behind it.
KILLED = """
import os, sys
from pathlib import Path
from reproduction import runs
from reproduction.jobs import JobSpec, perform
from braided.run import Job

run, runs._CHECKPOINT_S = Job.run, 0.0

def killed_after_one(job):
    for progress in run(job):
        print(progress.evaluation.records, flush=True)
        os.kill(os.getpid(), 9)
        yield progress

Job.run = killed_after_one
perform(JobSpec(**eval(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]))
"""


def test_a_long_run_that_was_killed_goes_on_from_its_checkpoint(
    tmp_path: Path, excerpts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = perform(SPEC, excerpts)
    assert "error" not in whole
    begun = tmp_path / "begun"
    arguments = [repr(asdict(SPEC)), str(excerpts), str(begun)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(list(begun.iterdir())) == 1
    run, learned = Job.run, []

    def watched(job: Job) -> Iterator[Any]:
        for progress in run(job):
            learned.append(progress.evaluation.records)
            yield progress

    monkeypatch.setattr(Job, "run", watched)
    rest = perform(SPEC, excerpts, begun)
    assert learned[0] > int(killed.stdout), "a batch was learned twice"
    assert learned[-1] == whole["records"]
    times = {"seconds", "wall_seconds"}
    assert {name: rest[name] for name in rest.keys() - times} == {name: whole[name] for name in whole.keys() - times}


@pytest.mark.parametrize("kept", [0, 5, 1_000])
def test_a_long_run_begins_anew_where_its_checkpoint_is_broken(
    tmp_path: Path, excerpts: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(runs, "_CHECKPOINT_S", 0.0)
    spec = replace(SPEC, limit=400)
    whole = perform(spec, excerpts, tmp_path)
    (checkpoint,) = tmp_path.iterdir()
    checkpoint.write_bytes(checkpoint.read_bytes()[:kept])
    again = perform(spec, excerpts, tmp_path)
    assert {name: again[name] for name in ("errors", "records", "curve")} == {
        name: whole[name] for name in ("errors", "records", "curve")
    }


def test_runs_over_what_fits_into_memory_leave_no_checkpoint(tmp_path: Path, excerpts: Path) -> None:
    assert "error" not in perform(JobSpec("german", "olvf", "released", limit=50), excerpts, tmp_path / "begun")
    assert not (tmp_path / "begun").exists()
