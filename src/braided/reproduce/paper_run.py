"""One model on one stream of the paper, as `braided run` does it: errors, a learning curve, time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from braided.errors import BraidedError
from braided.reproduce.work_share import WorkShare
from braided.run import Job, RunOptions
from braided.streams import ArrayStream

#: Points of the learning curve that are kept.
_POINTS = 200
#: Seconds between two checkpoints of a long run.
_CHECKPOINT_S = 60.0


def run(
    options: RunOptions, data_dir: Path | None, source: ArrayStream | None, checkpoint: Path | None
) -> dict[str, Any]:
    """Take a model through a stream, and go on from the checkpoint if there is one.

    `seconds` are those of predicting and learning, times the share of the whole that the process was at work.

    Parameters
    ----------
    options
        Data set, model and seed.
    data_dir
        Where the data sets are.
    source
        The data set, if it is in memory.
    checkpoint
        Where a long run keeps how far it has come.
    """
    job = _begun_or_new(options, data_dir, source, checkpoint)
    share = WorkShare()
    for _ in job.run():
        pass
    document, done = job.document(), job.finished[0]
    whole = done.history.curve().astype(int)
    every = max(len(whole) // _POINTS, 1)
    curve = whole[(len(whole) - 1) % every :: every]
    return {
        "errors": done.result["errors"],
        "records": document["records"],
        "majority_errors": document["majority_errors"],
        "learners": {name: own["errors"] for name, own in done.result["learners"].items()},
        "seconds": done.result["seconds"] * share.so_far(),
        "curve": {"records": curve[:, 0].tolist(), "errors": curve[:, 1].tolist()},
    }


def _begun_or_new(
    options: RunOptions, data_dir: Path | None, source: ArrayStream | None, checkpoint: Path | None
) -> Job:
    """The run where its checkpoint left it; from the start if there is none or a broken one, which costs time alone."""
    if checkpoint is not None and checkpoint.exists():
        try:
            return Job(options, data_dir, checkpoint, _CHECKPOINT_S, resume=True)
        except BraidedError:
            checkpoint.unlink()
    return Job(options, data_dir, checkpoint, _CHECKPOINT_S, source=source)
