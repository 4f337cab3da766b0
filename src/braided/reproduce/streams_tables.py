"""The tables of `braided reproduce streams`: a row for each model over all streams, and a row for each stream."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.evaluation.metrics import METRICS
from braided.reproduce.documents import CellDocument, Document, by_stream
from braided.reproduce.grid import Grid, Section, bold_best, nothing
from braided.reproduce.stream_models import DEFAULT, GUESSES, LEARNED, MODELS, OURS, short_name
from braided.reproduce.stream_sources import AVAILABILITIES
from braided.reproduce.streams import COMPARED, MAIN, TIME, called, middle_time, relative, where

_HEADINGS = {
    "error_rate": "Errors, as a share of the records.",
    "log_loss": "Log loss, over records that had an answer; the last label has no probabilities.",
    "mae": "Mean absolute error, in the target's own unit.",
    TIME: "Microseconds per record, predict and learn: ours in chunks, River's one record at a time.",
}
_BESIDE = {
    CLASSIFICATION: "Errors on each stream of classes; the guess is the better of majority class and last label.",
    REGRESSION: "Mean absolute error on each stream of numbers; the guess is the better of mean and last value.",
}
_FOLDED = "Every model on every stream"


def sections(found: Document) -> list[Section]:
    """The tables of a page: of each task a row for each model, and for each stream; all figures for who opens them."""
    tasks = [task for task in COMPARED if any(cell["task"] == task for cell in found["cells"])]
    out = []
    for task in tasks:
        out += [Section(_above(found, task), by_model(found, task)), Section(_BESIDE[task], beside(found, task))]
    shown = [*(metric for task in tasks for metric in COMPARED[task]), TIME]
    return [*out, *(Section(_HEADINGS[metric], by_metric(found, metric), _FOLDED) for metric in shown)]


def _above(found: Document, task: str) -> str:
    cells = max((len(ranks) for ranks in found["ranks"][MAIN[task]].values()), default=0)
    if task == CLASSIFICATION:
        what = "Streams of classes: errors and log loss, means over the streams; mean rank by errors"
    else:
        what = (
            "Streams of numbers: absolute error in percent of what the mean so far would make (geometric mean over "
            "streams); mean rank"
        )
    return (
        f"{what}, and where the default is ahead, over {cells} cells (*ahead*); and the median time in "
        "microseconds per record. *half*: with half of the values missing."
    )


def by_model(found: Document, task: str) -> Grid:
    """A row for each model: means over streams, its rank, cells in which the default is ahead of it, its time."""
    present = {cell["method"] for cell in found["cells"] if cell["task"] == task}
    names = [name for name in (*(entry.method for entry in LEARNED), *GUESSES[task]) if name in present]
    header, columns = [""], [[short_name(name) for name in names]]
    for metric in COMPARED[task]:
        in_percent = metric != "log_loss"
        for p_f in AVAILABILITIES:
            header.append("half" if p_f < 1.0 else f"{called(metric)}, %" if in_percent else called(metric))
            columns.append(
                bold_best(
                    [_mean(found, task, metric, p_f, name) for name in names],
                    _percent if in_percent else "{:.2f}".format,
                )
            )
    ranks = found["ranks"][MAIN[task]]
    means = [statistics.fmean(ranks[name]) if name in ranks else None for name in names]
    columns.append(bold_best(means, "{:.1f}".format))
    columns.append([_default_ahead(found, MAIN[task], name) for name in names])
    times = [middle_time(found, name, task) for name in names]
    columns.append(["" if time is None else f"{time:,.0f}" for time in times])
    rows = [[[text] for text in row] for row in zip(*columns, strict=True)]
    return Grid([*header, "rank", "ahead", "us"], rows)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f}"


def _mean(found: Document, task: str, metric: str, p_f: float, method: str) -> float | None:
    """The mean over the streams, of a method that has been run on all of them."""
    streams = [methods for (_, p, _), methods in by_stream(found, metric).items() if p == p_f]
    if not streams or any(method not in methods for methods in streams):
        return None
    if task == CLASSIFICATION:
        return statistics.fmean(methods[method][metric] for methods in streams)
    ratios = [relative(methods, method) for methods in streams]
    known = [ratio for ratio in ratios if ratio is not None]
    return statistics.geometric_mean(known) if len(known) == len(streams) else None


def _default_ahead(found: Document, metric: str, method: str) -> str:
    both = [methods for methods in by_stream(found, metric).values() if method in methods and DEFAULT in methods]
    if method == DEFAULT or not both:
        return ""
    return f"{sum(methods[DEFAULT][metric] < methods[method][metric] for methods in both)}/{len(both)}"


def beside(found: Document, task: str) -> Grid:
    """A row for each stream: ours, the best of River's and which that is, and the better guess; the best in bold."""
    metric = MAIN[task]
    best = {(row["dataset"], row["p_f"]): row for row in found["beside"] if row["metric"] == metric}
    rows = []
    for (dataset, p_f, _), methods in by_stream(found, metric).items():
        row = best.get((dataset, p_f))
        guesses = [methods[name][metric] for name in GUESSES[task] if name in methods]
        values = [methods[name][metric] if name in methods else None for name in OURS]
        values += [None if row is None else row["best_value"], min(guesses, default=None)]
        texts = bold_best(values, METRICS[metric].shown)
        which = "" if row is None else short_name(row["best"])
        texts[2] = f"{texts[2]} {which}".strip()
        rows.append([where(next(iter(methods.values()))).split(", "), *([text] for text in texts)])
    return Grid(["", "default", "lean", "best of River's", "guess"], rows)


def by_metric(found: Document, metric: str) -> Grid:
    """A row for each stream with nothing or half missing, a column for each model; the best error in bold."""
    of_task = [cell for cell in found["cells"] if metric == TIME or METRICS[metric].task == cell["task"]]
    shown = {cell["method"] for cell in of_task if metric in cell}
    names = [name for name in (entry.method for entry in MODELS) if name in shown]
    rows = []
    for methods in by_stream({"cells": of_task}).values():
        cells = [methods.get(name, {}) for name in names]
        values = [cell.get(metric) for cell in cells]
        form: Callable[[float], str] = "{:,.0f}".format if metric == TIME else METRICS[metric].shown
        # Times are of no contest: ours learn in compiled chunks, River's one record at a time.
        bold = metric != TIME
        texts = bold_best(values, form) if bold else ["" if value is None else form(value) for value in values]
        lines = [_lines(cell, metric, text) for cell, text in zip(cells, texts, strict=True)]
        rows.append([[where(next(iter(methods.values())))], *lines])
    return Grid(["", *names], rows)


def _lines(cell: CellDocument, metric: str, text: str) -> list[str]:
    """A cell's figure, its deviation over runs below it; or why there is none."""
    if metric not in cell:
        return [nothing(cell) if "error" in cell else ""]
    if metric == TIME or cell["seeds"] < 2:
        return [text]
    return [text, f"± {METRICS[metric].shown(cell[f'{metric}_sd'])}"]


def screen(found: Document) -> Grid:
    """For a terminal: the rows of `beside`, without marks, and the microseconds per record of ours."""
    rows = []
    for task, metric in MAIN.items():
        for row, methods in zip(beside(found, task).rows, by_stream(found, metric).values(), strict=True):
            times = [methods[name][TIME] for name in OURS if name in methods]
            texts = [[", ".join(lines).replace("**", "")] for lines in row]
            rows.append([*texts, [", ".join(f"{time:,.0f}" for time in times)]])
    return Grid(["", "default", "lean", "best of River's", "guess", "us of ours"], rows)
