"""What a run leaves in a folder: report.html, curve.csv, metrics.json and curve.png."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from pathlib import Path

from braided import extras
from braided.errors import BraidedError
from braided.files import remove_leftovers, write_atomically
from braided.kernels.tally import ANSWER, LEARNERS
from braided.report.table import title
from braided.run import Job

_FILES = ("curve.csv", "metrics.json", "curve.png", "report.html")


def curve_csv(job: Job) -> str:
    """Error sums of every run along the stream, with those of its learners alone."""
    names = list(dict.fromkeys(name for run in job.finished for name in run.history.learners))
    what = "absolute_error" if job.finished[0].history.tally.regression else "errors"
    number = float if job.finished[0].history.tally.regression else int
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["model", "seed", "records", what, *(f"{name}_{what}" for name in names)])
    for run in job.finished:
        for records, *losses in run.history.curve().tolist():
            errors, own = losses[ANSWER], losses[LEARNERS:]
            values = dict(zip(run.history.learners, map(number, own), strict=True))
            row = [run.model, run.seed, int(records), number(errors), *(values.get(name, "") for name in names)]
            writer.writerow(row)
    return out.getvalue()


def check_folder(folder: Path) -> None:
    """Refuse a folder that could not be written, and what could not be drawn, before anything is run."""
    for needed in ("matplotlib", "jinja2"):
        extras.require(needed, "plot")
    if folder.exists() and not folder.is_dir():
        raise BraidedError(f"--out {folder} is a file: give a folder")
    nearest = next(parent for parent in (folder, *folder.resolve().parents) if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise BraidedError(f"--out {folder}: {nearest} is not a writable folder")
    try:
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise BraidedError(f"--out {folder}: {nearest} cannot be written: {error.strerror or error}") from None
    for name in _FILES:
        remove_leftovers(folder / name)


def write_folder(job: Job, folder: Path, command: str | None = None) -> list[Path]:
    """Write curve.csv, metrics.json, curve.png and report.html, each whole or not at all; returns their paths."""
    from braided.report.page import page
    from braided.report.plot.errors import curve_figure  # matplotlib is slow to import, and not every run draws

    picture = io.BytesIO()
    histories, document = [run.history for run in job.finished], job.document()
    curve_figure(histories, title(document)).savefig(picture, format="png")
    contents = (
        curve_csv(job).encode(errors="backslashreplace"),
        (json.dumps(document, indent=2) + "\n").encode(),
        picture.getvalue(),
        page(job, command).encode(errors="backslashreplace"),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in zip(_FILES, contents, strict=True):
            write_atomically(folder / name, content)
    except OSError as error:
        raise BraidedError(f"--out {folder}: cannot be written: {error.strerror or error}") from None
    return [folder / name for name in _FILES]
