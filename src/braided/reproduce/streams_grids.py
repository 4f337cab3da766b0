"""The tables of `braided reproduce streams`: a row for each model over all streams, and a row for each stream."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from braided.estimators.tasks import CLASSIFICATION, REGRESSION
from braided.evaluation.metrics import METRICS
from braided.reproduce.grid import Grid, Section, bold_best
from braided.reproduce.stream_models import DEFAULT, GUESSES, LEARNED, MODELS, OURS
from braided.reproduce.stream_sources import AVAILABILITIES
from braided.reproduce.streams import COMPARED, MAIN, TIME, Document, by_stream, called, middle_time, relative, where

_HEADINGS = {
    "error_rate": "Errors, as a share of the records.",
    "log_loss": "Log loss, over records that had an answer; the last label has no probabilities.",
    "mae": "Mean absolute error, in the target's own unit.",
    TIME: "Microseconds per record, predict and learn.",
}


def sections(found: Document) -> list[Section]:
    """The tables of a page: of each task a row for each model, then a row for each stream."""
    out = []
    for task, metrics in COMPARED.items():
        if any(cell["task"] == task for cell in found["cells"]):
            out.append(Section(_above(found, task), by_model(found, task)))
            out += [Section(_HEADINGS[metric], by_metric(found, metric)) for metric in metrics]
    return [*out, Section(_HEADINGS[TIME], by_metric(found, TIME))]


def _above(found: Document, task: str) -> str:
    cells = max((len(ranks) for ranks in found["ranks"][MAIN[task]].values()), default=0)
    what = (
        "Streams of classes: errors and log loss, means over the streams"
        if task == CLASSIFICATION
        else "Streams of numbers: absolute error over that of the mean so far, geometric mean over the streams"
    )
    return (
        f"{what}; mean rank over {cells} cells, each a stream with nothing or half missing; in how many of them the "
        "default is ahead; and the median time."
    )


def by_model(found: Document, task: str) -> Grid:
    """A row for each model: means over streams, ranks, cells in which the default is ahead of it, its time."""
    metrics = COMPARED[task]
    present = {cell["method"] for cell in found["cells"] if cell["task"] == task}
    names = [name for name in (*(entry.method for entry in LEARNED), *GUESSES[task]) if name in present]
    header, columns = [""], [names]
    for metric in metrics:
        form = METRICS["error_rate"].shown if task == REGRESSION else METRICS[metric].shown
        for p_f in AVAILABILITIES:
            header.append(f"{called(metric)}, {'nothing' if p_f == 1.0 else 'half'} missing")
            columns.append(bold_best([_mean(found, task, metric, p_f, name) for name in names], form))
    for metric in metrics:
        header.append(f"rank by {called(metric)}")
        ranks = found["ranks"][metric]
        means = [statistics.fmean(ranks[name]) if name in ranks else None for name in names]
        columns.append(bold_best(means, "{:.1f}".format))
    for metric in metrics:
        header.append(f"default ahead by {called(metric)}")
        columns.append([_default_ahead(found, metric, name) for name in names])
    times = [middle_time(found, name, task) for name in names]
    columns.append(["" if time is None else f"{time:,.0f}" for time in times])
    rows = [[[text] for text in row] for row in zip(*columns, strict=True)]
    return Grid([*header, "us per record"], rows)


def _mean(found: Document, task: str, metric: str, p_f: float, method: str) -> float | None:
    """The mean over the streams, of a method that has been run on all of them."""
    streams = [methods for (_, p), methods in by_stream(found, metric).items() if p == p_f]
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
    return f"{sum(methods[DEFAULT][metric] < methods[method][metric] for methods in both)} of {len(both)}"


def by_metric(found: Document, metric: str) -> Grid:
    """A row for each stream with nothing or half missing, a column for each model; the best in bold."""
    rows: dict[tuple[str, float], dict[str, Document]] = {}
    for cell in found["cells"]:
        if metric == TIME or METRICS[metric].task == cell["task"]:
            rows.setdefault((cell["dataset"], cell["p_f"]), {})[cell["method"]] = cell
    shown = {cell["method"] for methods in rows.values() for cell in methods.values() if metric in cell}
    names = [name for name in (entry.method for entry in MODELS) if name in shown]
    made = []
    for methods in rows.values():
        cells = [methods.get(name, {}) for name in names]
        values = [cell.get(metric) for cell in cells]
        form: Callable[[float], str] = "{:,.0f}".format if metric == TIME else METRICS[metric].shown
        texts = bold_best(values, form)
        lines = [_lines(cell, metric, text) for cell, text in zip(cells, texts, strict=True)]
        made.append([[where(next(iter(methods.values())))], *lines])
    return Grid(["", *names], made)


def _lines(cell: Document, metric: str, text: str) -> list[str]:
    """A cell's figure, its deviation over runs below it; or why there is none."""
    if metric not in cell:
        return [f"failed: {cell['error']}" if "error" in cell else ""]
    if metric == TIME or cell["seeds"] < 2:
        return [text]
    return [text, f"± {METRICS[metric].shown(cell[f'{metric}_sd'])}"]


def screen(found: Document) -> Grid:
    """In a few columns, for a terminal: ours, the best of River's and the better guess, means alone."""
    beside = {(row["dataset"], row["p_f"], row["metric"]): row for row in found["beside"] if row["ours"] == DEFAULT}
    rows = []
    for metric in MAIN.values():
        shown = METRICS[metric].shown
        for (dataset, p_f), methods in by_stream(found, metric).items():
            best = beside.get((dataset, p_f, metric))
            task = METRICS[metric].task
            guesses = [methods[name][metric] for name in GUESSES[task] if name in methods]
            times = [methods[name][TIME] for name in OURS if name in methods]
            row = [f"{dataset}{'' if p_f == 1.0 else ', half'}"]
            row += [shown(methods[name][metric]) if name in methods else "" for name in OURS]
            row.append("" if best is None else f"{shown(best['best_value'])} {best['best'].removeprefix('river-')}")
            row.append(shown(min(guesses)) if guesses else "")
            row.append(", ".join(f"{time:,.0f}" for time in times))
            rows.append([[text] for text in row])
    return Grid(["", "default", "lean", "best of River's", "guess", "us of ours"], rows)
