"""What a run leaves behind: a table on the screen, and curve, metrics, picture and report in a folder."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.table import Table
from rich.text import Text

from braided.checkpoint import write_atomically
from braided.errors import BraidedError
from braided.report.published import beside
from braided.run.job import Finished, Job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("#1b4965", "#c8553d", "#588157", "#7b2d8b", "#d4a017", "#2a9d8f", "#6d6875")


def summary_table(document: dict[str, Any]) -> Group:
    """One row a model, the majority class and published figures beside it."""
    records, majority = document["records"], document["majority_errors"]
    title = f"{document['stream']}{' (sample)' if document['sample'] else ''}: {records:,} records, "
    title += f"{document['features']} features, {document['classes']} classes"
    n_seeds = len({run["seed"] for run in document["runs"]})
    title += f", {document['runs'][0]['preset']}" + (f", {n_seeds} seeds" if n_seeds > 1 else "")
    table = Table()
    published = {
        model: beside(document["stream"], model) if document["as_published"] else "" for model in document["summary"]
    }
    learners = [learner for run in document["runs"] for learner in run["learners"].values()]
    failures = {name: sum(learner[name] for learner in learners) for name in ("skipped", "resets")}
    columns = ["errors", "sd", "error rate", "records/s"]
    columns += [name for name in failures if failures[name]]
    columns += ["drifts"] if any("drifts" in run for run in document["runs"]) else []
    columns += ["published"] if any(published.values()) else []

    def add(label: str, style: str | None = None, **cells: str) -> None:
        table.add_row(
            Text(label), *(cells.get(name.replace(" ", "_").replace("/", "_"), "") for name in columns), style=style
        )

    table.add_column("", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right")
    add("majority class", errors=f"{majority:,}", error_rate=f"{majority / records:.2%}")
    for model, figures in document["summary"].items():
        runs = [run for run in document["runs"] if run["model"] == model]
        several = len(runs) > 1
        add(
            model,
            style="bold",
            errors=f"{figures['errors_mean']:,.1f}" if several else f"{runs[0]['errors']:,}",
            sd=f"{figures['errors_sd']:.1f}" if several else "",
            error_rate=f"{figures['errors_mean'] / records:.2%}",
            records_s=f"{np.mean([run['records_per_second'] for run in runs]):,.0f}",
            drifts=drifts(runs),
            published=published[model],
        )
        for name in runs[0]["learners"]:
            own = [run["learners"][name] for run in runs]
            errors = float(np.mean([one["errors"] for one in own]))
            totals = {key: str(sum(one[key] for one in own)) for key in failures}
            if len(runs[0]["learners"]) > 1 or any(failures.values()):
                add(
                    f"  {name} alone",
                    errors=f"{errors:,.1f}" if several else f"{errors:,.0f}",
                    error_rate=f"{errors / records:.2%}",
                    **totals,
                )
    if learners and not any(failures.values()):
        table.caption = "no update was skipped, no learner was reset"
        table.caption_justify = "left"
    passed = misfits(document)
    return Group(Text(title, style="bold"), table, *([Text(passed)] if passed else []))


def drifts(runs: list[dict[str, Any]]) -> str:
    """Drifts found in all runs of a model; empty where there was no detector."""
    found = [run["drifts"] for run in runs if "drifts" in run]
    return f"{sum(found):,}" if found else ""


def misfits(document: dict[str, Any]) -> str:
    """What --on-error let pass, in words; empty if there was nothing."""
    skipped, missing = document["skipped_records"], document["missing_values"]
    if not skipped and not missing:
        return ""
    counts = [f"{skipped:,} {'record' if skipped == 1 else 'records'} skipped"] if skipped else []
    counts += [f"{missing:,} {'value' if missing == 1 else 'values'} taken as missing"] if missing else []
    return f"{', '.join(counts)}; first: {document['first_problem']}"


def curve_csv(job: Job) -> str:
    """Cumulative errors of every run, with those of its learners alone."""
    names = list(dict.fromkeys(name for run in job.finished for name in run.result["learners"]))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["model", "seed", "records", "errors", *(f"{name}_errors" for name in names)])
    for run in job.finished:
        own = list(run.result["learners"])
        for row in run.curve.tolist():
            values = dict(zip(own, row[2:], strict=True))
            writer.writerow([run.model, run.seed, row[0], row[1], *(values.get(name, "") for name in names)])
    return out.getvalue()


def _rates(runs: list[Finished], column: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Records and the mean over runs of the error rate up to there; runs of one stream share their records."""
    records = runs[0].curve[:, 0].astype(float)
    return records, np.mean([run.curve[:, column] / run.curve[:, 0] for run in runs], axis=0)


def curve_figure(job: Job) -> Figure:
    """Running error rate of each model, bold, of its learners alone, thin, and of the majority class, dashed."""
    from matplotlib.figure import Figure  # matplotlib is slow to import, and not every run draws

    document = job.document()
    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for place, model in enumerate(job.options.models):
        runs = [run for run in job.finished if run.model == model]
        several = len(job.options.models) > 1
        axes.plot(
            *_rates(runs, 1), color=_COLOURS[place % len(_COLOURS)], linewidth=2.4, zorder=3,
            label=f"{model}: {document['summary'][model]['errors_mean']:,.0f} errors",
        )  # fmt: skip
        if several or len(runs[0].result["learners"]) == 1:
            continue
        for i, name in enumerate(runs[0].result["learners"]):
            axes.plot(
                *_rates(runs, 2 + i), color=_COLOURS[(1 + i) % len(_COLOURS)], linewidth=1.0, label=f"{name} alone"
            )
    majority = document["majority_errors"] / document["records"]
    if majority > 0:
        axes.axhline(majority, color="grey", linestyle="--", linewidth=1.0, label="majority class")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.2%}" if value < 0.01 else f"{value:.0%}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:.0%}" if value >= 0.01 and _leads(value) else "")
    axes.set_xlim(0, document["records"])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("records")
    axes.set_ylabel("errors so far / records so far")
    seeds = f", mean of {job.options.seeds} seeds" if job.options.seeds > 1 else ""
    mask = f", mask {job.options.mask}" if job.options.mask != "iid" else ""
    if job.options.available != 1.0 and job.options.mask != "trapezoidal":
        mask += f", features available {job.options.available:.0%}"
    axes.set_title(
        f"{document['stream']}{mask}, preset {job.options.preset}{seeds}", loc="left", fontsize=11, parse_math=False
    )
    axes.grid(alpha=0.25, which="both", linewidth=0.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9, ncols=2)
    return figure


def _leads(value: float) -> bool:
    """Whether a tick's first digit is 2 or 5: enough labels on a log scale, and not too many."""
    return f"{value:e}"[0] in "25"


def check_folder(folder: Path) -> None:
    """Refuse a folder that could not be written, before anything is run."""
    if folder.exists() and not folder.is_dir():
        raise BraidedError(f"--out {folder} is a file: give a folder")
    nearest = next(parent for parent in (folder, *folder.resolve().parents) if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise BraidedError(f"--out {folder}: {nearest} is not a writable folder")
    try:
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise BraidedError(f"--out {folder}: {nearest} cannot be written: {error.strerror or error}") from None


def write_folder(job: Job, folder: Path, command: str | None = None) -> list[Path]:
    """Write curve.csv, metrics.json, curve.png and report.html, each whole or not at all; returns their paths."""
    from braided.report.page import page  # draws, too

    picture = io.BytesIO()
    curve_figure(job).savefig(picture, format="png")
    contents = {
        "curve.csv": curve_csv(job).encode(),
        "metrics.json": (json.dumps(job.document(), indent=2) + "\n").encode(),
        "curve.png": picture.getvalue(),
        "report.html": page(job, command).encode(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_atomically(folder / name, content)
    except OSError as error:
        raise BraidedError(f"--out {folder}: cannot be written: {error.strerror or error}") from None
    return [folder / name for name in contents]
