"""The table of haphazard inputs: ours beside the best published in each cell, cells won, ranks, and our baselines."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.estimators.decision import BALANCED, LIKELIEST
from braided.report import published_haphazard as published
from braided.report.published_haphazard import METRICS, REVIEWED
from braided.reproduce.grid import Grid, Section
from braided.reproduce.jobs import HAPHAZARD
from braided.reproduce.summary import Results
from braided.reproduce.tables import DEFAULT, DEFAULT_BALANCED, TABLES, Cell

#: Our baselines -> what the review calls them.
BASELINES = {"olvf": "OLVF", "auxdrop-odl": "Aux-Drop"}
#: The metrics that a decision changes.
_BY_DECISION = ("balanced_accuracy", "errors")
_SHOWN = ("balanced_accuracy", "auroc", "errors")
_CALLED = {"balanced_accuracy": "balanced accuracy", "auroc": "AUROC", "errors": "errors", "auprc": "AUPRC"}
#: Published methods that a cell shows.
_BEST = 3
Document = dict[str, Any]


def document(cells: list[Cell], results: Results) -> Document:
    """All cells, the best that is published for each stream, the cells won, and every method's ranks."""
    table = TABLES["haphazard"]
    found: Document = {"what": "haphazard", "title": table.title, "about": table.about}
    found["cells"] = [_cell(cell, results) for cell in cells]
    streams = dict.fromkeys((cell["dataset"], cell["p_f"]) for cell in found["cells"])
    found["published"] = [
        {
            "dataset": dataset,
            "p_f": p_f,
            "metric": metric,
            "best": [
                {"method": figure.method, "mean": figure.mean, "sd": figure.sd, "source": figure.source}
                for figure in published.ranked(dataset, p_f, metric)[:_BEST]
            ],
        }
        for dataset, p_f in streams
        for metric in METRICS
    ]
    found["won"] = {metric: _won(found, metric) for metric in METRICS}
    found["ranks"] = {metric: _ranks(found, metric) for metric in _SHOWN}
    found["summary"] = _sentences(found)
    return found


def _cell(cell: Cell, results: Results) -> Document:
    """One method on one stream: the mean and deviation of each metric over seeds, and the review's of the same method.

    `compared` says whether the stream is the one that the published figures are about.
    """
    done = [results[job] for job in cell.jobs() if job in results]
    fine = [result for result in done if "error" not in result]
    out: Document = {"dataset": cell.job.dataset, "method": cell.method, "p_f": cell.p_f, "seeds": len(fine)}
    failed = [result["error"] for result in done if "error" in result]
    if failed:
        # Both decisions are of the same runs, whose failures are counted once.
        out |= {"error": failed[0]} | ({} if cell.method == DEFAULT_BALANCED else {"failed": len(failed)})
    for metric in METRICS:
        theirs = published.find(BASELINES.get(cell.method, ""), cell.job.dataset, cell.p_f, metric)
        if theirs is not None:
            out[f"review_{metric}"] = theirs.mean
    if not fine:
        return out
    first = fine[0]
    out |= {
        "records": first["records"],
        "compared": cell.job.protocol == HAPHAZARD and first["records"] == first["of_records"],
        "majority": first["majority_errors"],
        "us_per_record": 1e6 * statistics.fmean(result["seconds"] / result["records"] for result in fine),
    }
    decision = BALANCED if cell.method == DEFAULT_BALANCED else LIKELIEST
    for metric in METRICS:
        values = [result["metrics"][decision][metric] for result in fine]
        if None not in values:
            out[metric] = statistics.fmean(values)
            out[f"{metric}_sd"] = statistics.stdev(values) if len(values) > 1 else 0.0
    return out


def _by_stream(found: Document) -> dict[tuple[str, float], dict[str, Document]]:
    """Stream -> method -> its cell."""
    streams: dict[tuple[str, float], dict[str, Document]] = {}
    for cell in found["cells"]:
        streams.setdefault((cell["dataset"], cell["p_f"]), {})[cell["method"]] = cell
    return streams


def _ours(metric: str) -> list[str]:
    return [DEFAULT, DEFAULT_BALANCED] if metric in _BY_DECISION else [DEFAULT]


def _compared(methods: dict[str, Document], metric: str) -> bool:
    return all(methods[name].get("compared") and metric in methods[name] for name in _ours(metric))


def _ahead(ours: float, theirs: float, metric: str) -> bool:
    return ours > theirs if METRICS[metric] else ours < theirs


def _won(found: Document, metric: str) -> Document:
    """In how many cells each of ours is ahead of the best that is published."""
    cells = [(key, methods) for key, methods in _by_stream(found).items() if _compared(methods, metric)]
    best = {key: published.ranked(*key, metric)[0].mean for key, _ in cells}
    won = {name: sum(_ahead(each[name][metric], best[key], metric) for key, each in cells) for name in _ours(metric)}
    return {"of": len(cells), **won}


def _ranks(found: Document, metric: str) -> dict[str, list[float]]:
    """The rank of each method in each cell, among ours and the review's; methods that are equal share theirs."""
    ranks: dict[str, list[float]] = {}
    for (dataset, p_f), methods in _by_stream(found).items():
        if not _compared(methods, metric):
            continue
        values = {name: methods[name][metric] for name in _ours(metric)}
        for name in REVIEWED:
            figure = published.find(name, dataset, p_f, metric)
            assert figure is not None
            values[name] = figure.mean
        for name, rank in zip(values, _ranked(np.array([*values.values()]), METRICS[metric]), strict=True):
            ranks.setdefault(name, []).append(rank)
    return ranks


def _ranked(values: NDArray[np.float64], more_is_better: bool) -> list[float]:
    """1 for the best; the mean of their places for equal ones.

    >>> _ranked(np.array([3.0, 5.0, 3.0]), more_is_better=True)
    [2.5, 1.0, 2.5]
    """
    signed = -values if more_is_better else values
    return [float((signed < value).sum() + ((signed == value).sum() + 1) / 2) for value in signed]


def _sentences(found: Document) -> list[str]:
    """What the table says, in a line for each metric."""
    lines = []
    for metric, won in found["won"].items():
        if not won["of"]:
            continue
        ahead = f"ahead of the best published method in {won[DEFAULT]} of {won['of']} cells"
        line = f"By {_CALLED[metric]} the default is {ahead}"
        if DEFAULT_BALANCED in won:
            line += f", with the balanced decision in {won[DEFAULT_BALANCED]}"
        lines.append(f"{line}.")
    return lines


def _number(value: float) -> str:
    return f"{value:,.1f}"


def _mean(cell: Document, metric: str, form: str = ",.1f") -> str:
    if metric not in cell:
        return f"failed: {cell['error']}" if "error" in cell else "not run"
    return format(cell[metric], form) + (f" ± {_number(cell[f'{metric}_sd'])}" if cell["seeds"] > 1 else "")


def _stream(methods: dict[str, Document]) -> str:
    cell = methods[DEFAULT]
    records = f" ({cell['records']:,} records)" if cell.get("compared") is False else ""
    return f"{cell['dataset']}{records}"


def sections(found: Document) -> list[Section]:
    """The tables of a page."""
    return [
        Section("", main_grid(found)),
        Section(
            "Our baselines, with the settings that the review tuned for each set, and below them the review's own "
            "figures. The review's OLVF is ours without a feature-space classifier that learns and without the "
            "ball, and it shrinks the smallest weight in each step on diabetes_f and german, which ours does not; "
            "its scores are |w . x|, so that areas are not compared.",
            baseline_grid(found),
        ),
    ]


def main_grid(found: Document) -> Grid:
    """A row for each stream: of each metric ours, and the best that are published."""
    header = ["", "available"]
    for metric in _SHOWN:
        decided = ["balanced decision"] if metric in _BY_DECISION else []
        header += [f"{_CALLED[metric]}, ours", *decided, "best published"]
    best = _best(found)
    rows = []
    for (dataset, p_f), methods in _by_stream(found).items():
        row = [[_stream(methods)], [f"{p_f:g}"]]
        for metric in _SHOWN:
            row += [[_mean(methods[name], metric)] for name in _ours(metric)]
            row.append([f"{other['method']} {_number(other['mean'])}" for other in best[dataset, p_f, metric]])
        rows.append(row)
    return Grid(header, rows)


def short_grid(found: Document) -> Grid:
    """The same in a few columns, for a terminal: means, and the best alone of what is published."""
    header = ["", "balanced accuracy", "decided", "best", "AUROC", "best", "errors", "best"]
    best = _best(found)
    rows = []
    for (dataset, p_f), methods in _by_stream(found).items():
        row = [f"{_stream(methods)} {p_f:g}"]
        for metric in _SHOWN:
            form = ",.0f" if metric == "errors" else ",.1f"
            names = _ours(metric) if metric == "balanced_accuracy" else [DEFAULT]
            row += [_mean(methods[name] | {"seeds": 1}, metric, form) for name in names]
            row.append(format(best[dataset, p_f, metric][0]["mean"], form))
        rows.append([[cell] for cell in row])
    return Grid(header, rows)


def _best(found: Document) -> dict[tuple[str, float, str], list[Document]]:
    return {(row["dataset"], row["p_f"], row["metric"]): row["best"] for row in found["published"]}


def baseline_grid(found: Document) -> Grid:
    """A row for each stream: of each of our baselines ours, and the review's below it."""
    metrics = ("errors", "balanced_accuracy")
    header = ["", "available", *(f"{theirs}, {_CALLED[metric]}" for theirs in BASELINES.values() for metric in metrics)]
    rows = []
    for (_, p_f), methods in _by_stream(found).items():
        row = [[_stream(methods)], [f"{p_f:g}"]]
        for name in BASELINES:
            for metric in metrics:
                row.append([_mean(methods[name], metric), f"review {_number(methods[name][f'review_{metric}'])}"])
        rows.append(row)
    return Grid(header, rows)
