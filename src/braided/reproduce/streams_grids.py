"""The tables of `braided reproduce streams`: a row for each model over all streams, and a row for each stream."""

from __future__ import annotations

import statistics

from braided.estimators.tasks import CLASSIFICATION, REGRESSION
from braided.evaluation.metrics import METRICS
from braided.reproduce.grid import Grid, Section
from braided.reproduce.stream_models import DEFAULT, GUESSES, LEARNED, MODELS, OURS
from braided.reproduce.stream_sources import AVAILABILITIES
from braided.reproduce.streams import MAIN, Document, by_stream, middle_time, where

_SHARES = {1.0: "nothing missing", 0.5: "half missing"}
_HEADINGS = {
    "error_rate": "Errors, as a share of the records.",
    "log_loss": "Log loss, over records that had an answer; what was last has no probabilities.",
    "mae": "Mean absolute error, in the target's own unit.",
}


def sections(found: Document) -> list[Section]:
    """The tables of a page: of each task a row for each model, then a row for each stream."""
    out = []
    for task, metrics in {CLASSIFICATION: ("error_rate", "log_loss"), REGRESSION: ("mae",)}.items():
        if any(cell["task"] == task for cell in found["cells"]):
            out.append(Section(_above(found, task), by_model(found, task)))
            out += [Section(_HEADINGS[metric], by_metric(found, metric)) for metric in metrics]
    return [*out, Section("Microseconds per record, predict and learn.", by_metric(found, "us_per_record"))]


def _above(found: Document, task: str) -> str:
    ranks = found["ranks"][MAIN[task]]
    cells = max((len(values) for values in ranks.values()), default=0)
    what = "classes" if task == CLASSIFICATION else "numbers"
    return (
        f"Streams of {what}: means over the streams, and over {cells} cells (a stream with nothing or half missing) "
        "the mean rank, where each is the best, and where the default is ahead of it."
    )


def _methods(found: Document, task: str) -> list[str]:
    """Of a task, in the order of the table."""
    present = {cell["method"] for cell in found["cells"] if cell["task"] == task}
    names = [entry.method for entry in LEARNED] + [*GUESSES[task]]
    return [name for name in names if name in present]


def by_model(found: Document, task: str) -> Grid:
    """A row for each model: means over streams, ranks, cells in which it is best, its time."""
    metrics = ("error_rate", "log_loss") if task == CLASSIFICATION else ("mae",)
    header = [""]
    if task == CLASSIFICATION:
        header += [f"{METRICS[m].title}, {_SHARES[p]}" for m in metrics for p in AVAILABILITIES]
    for metric in metrics:
        title = METRICS[metric].title
        header += [f"rank by {title}", f"best by {title}", f"default ahead by {title}"]
    rows = []
    for method in _methods(found, task):
        row = [method]
        if task == CLASSIFICATION:
            row += [_mean(found, m, p, method) for m in metrics for p in AVAILABILITIES]
        for metric in metrics:
            row += _compared(found, metric, method)
        time = middle_time(found, method, task)
        rows.append([[text] for text in (*row, "" if time is None else f"{time:,.0f}")])
    return Grid([*header, "us per record"], rows)


def _mean(found: Document, metric: str, p_f: float, method: str) -> str:
    """The mean over the streams, of a model that was run on all of them."""
    cells = [methods for (_, p), methods in by_stream(found, metric).items() if p == p_f]
    if not cells or any(method not in methods for methods in cells):
        return ""
    return METRICS[metric].shown(statistics.fmean(methods[method][metric] for methods in cells))


def _compared(found: Document, metric: str, method: str) -> list[str]:
    """Mean rank, in how many cells it is best, and in how many the default is ahead of it."""
    cells = [methods for methods in by_stream(found, metric).values() if method in methods]
    ranks = found["ranks"][metric].get(method)
    if not cells or not ranks:
        return ["", "", ""]
    best = sum(methods[method][metric] <= min(cell[metric] for cell in methods.values()) for methods in cells)
    both = [methods for methods in cells if DEFAULT in methods]
    ahead = sum(methods[DEFAULT][metric] < methods[method][metric] for methods in both)
    beside = "" if method == DEFAULT else f"{ahead} of {len(both)}"
    return [f"{statistics.fmean(ranks):.1f}", f"{best} of {len(cells)}", beside]


def by_metric(found: Document, metric: str) -> Grid:
    """A row for each stream with nothing or half missing, a column for each model; the best in bold."""
    timed = metric == "us_per_record"
    task = None if timed else METRICS[metric].task
    rows: dict[tuple[str, float], dict[str, Document]] = {}
    for cell in found["cells"]:
        if task in {None, cell["task"]}:
            rows.setdefault((cell["dataset"], cell["p_f"]), {})[cell["method"]] = cell
    shown = {cell["method"] for methods in rows.values() for cell in methods.values() if metric in cell}
    names = [name for name in dict.fromkeys(entry.method for entry in MODELS) if name in shown]
    made = []
    for methods in rows.values():
        values = [methods[name][metric] for name in names if name in methods and metric in methods[name]]
        best = min(values, default=None)
        line = [_figure(methods[name], metric, best) if name in methods else [""] for name in names]
        made.append([[where(next(iter(methods.values())))], *line])
    return Grid(["", *names], made)


def _figure(cell: Document, metric: str, best: float | None) -> list[str]:
    """A cell's figure, its deviation below it; or why there is none."""
    if metric not in cell:
        return [f"failed: {cell['error']}"] if "error" in cell else [""]
    if metric == "us_per_record":
        return [f"{cell[metric]:,.0f}"]
    text = METRICS[metric].shown(cell[metric])
    return [text] + ([f"± {METRICS[metric].shown(cell[f'{metric}_sd'])}"] if cell["seeds"] > 1 else [])


def screen(found: Document) -> Grid:
    """In a few columns, for a terminal: ours, the best of River's and the better guess, means alone."""
    beside = {(row["dataset"], row["p_f"], row["metric"]): row for row in found["beside"] if row["ours"] == DEFAULT}
    rows = []
    for metric in MAIN.values():
        for (dataset, p_f), methods in by_stream(found, metric).items():
            first = next(iter(methods.values()))
            guesses = [methods[name][metric] for name in GUESSES[first["task"]] if name in methods]
            row = [where(first)]
            row += [METRICS[metric].shown(methods[name][metric]) if name in methods else "" for name in OURS]
            row += _best(beside.get((dataset, p_f, metric)))
            row.append(METRICS[metric].shown(min(guesses)) if guesses else "")
            loss = beside.get((dataset, p_f, "log_loss"))
            row += ["" if loss is None else METRICS["log_loss"].shown(loss["value"]), *_best(loss)]
            times = [methods[name].get("us_per_record") for name in OURS if name in methods]
            row.append(" ".join(f"{time:,.0f}" for time in times if time is not None))
            rows.append([[text] for text in row])
    header = ["", "default", "lean", "best of River's", "guess", "log loss", "best of River's", "us"]
    return Grid(header, rows)


def _best(row: Document | None) -> list[str]:
    if row is None:
        return [""]
    return [f"{METRICS[row['metric']].shown(row['best_value'])} {row['best'].removeprefix('river-')}"]
