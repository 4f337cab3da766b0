"""The table of haphazard inputs: ours, the best published for each stream, cells won, and ranks."""

from __future__ import annotations

import statistics

from braided.datasets.haphazard import review_length
from braided.estimators.decision import BALANCED, LIKELIEST
from braided.report import published_haphazard as published
from braided.report.published_haphazard import METRICS, REVIEWED
from braided.reproduce.documents import CellDocument, Document, by_stream
from braided.reproduce.jobs import HAPHAZARD
from braided.reproduce.ranks import ranked
from braided.reproduce.summary import Results, fine_and_failed
from braided.reproduce.tables import DEFAULT, DEFAULT_BALANCED, TABLES, Cell

#: Our baselines -> what the review calls them.
BASELINES = {"olvf": "OLVF", "auxdrop-odl": "Aux-Drop"}
#: The metrics that a decision changes.
_BY_DECISION = ("balanced_accuracy", "errors")
#: The metrics of the tables and of the ranks.
SHOWN = ("balanced_accuracy", "auroc", "errors")
CALLED = {"balanced_accuracy": "balanced accuracy", "auroc": "AUROC", "errors": "errors", "auprc": "AUPRC"}
#: Published methods that a cell shows.
_BEST = 3


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
    found["ranks"] = {metric: _ranks(found, metric) for metric in SHOWN}
    found["summary"] = _sentences(found)
    return found


def _cell(cell: Cell, results: Results) -> CellDocument:
    """One method on one stream: the mean and deviation of each metric over seeds, and the review's of the same method.

    `compared` says whether the stream is the one that the published figures are about.
    """
    fine, failed = fine_and_failed(cell, results)
    out: CellDocument = {"dataset": cell.job.dataset, "method": cell.method, "p_f": cell.p_f, "seeds": len(fine)}
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
        "compared": cell.job.protocol == HAPHAZARD and first["records"] == review_length(cell.job.dataset),
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


def ours_of(metric: str) -> list[str]:
    """Our columns: the balanced decision has no areas of its own."""
    return [DEFAULT, DEFAULT_BALANCED] if metric in _BY_DECISION else [DEFAULT]


def compared(methods: dict[str, CellDocument], metric: str) -> bool:
    """Whether ours is of the stream that the published figures are about."""
    return all(methods[name].get("compared") and metric in methods[name] for name in ours_of(metric))


def ahead(ours: float, theirs: float, metric: str) -> bool:
    """Whether ours is better."""
    return ours > theirs if METRICS[metric] else ours < theirs


def _won(found: Document, metric: str) -> dict[str, int]:
    """In how many cells each of ours is ahead of the best that is published."""
    cells = [(key, methods) for key, methods in by_stream(found).items() if compared(methods, metric)]
    best = {key: published.ranked(key.dataset, key.p_f, metric)[0].mean for key, _ in cells}
    won = {name: sum(ahead(each[name][metric], best[key], metric) for key, each in cells) for name in ours_of(metric)}
    return {"of": len(cells), **won}


def _ranks(found: Document, metric: str) -> dict[str, list[float]]:
    """The rank of each method in each cell, among ours and the review's; methods that are equal share theirs."""
    ranks: dict[str, list[float]] = {}
    for (dataset, p_f, _), methods in by_stream(found).items():
        if not compared(methods, metric):
            continue
        values = {name: methods[name][metric] for name in ours_of(metric)}
        for name in REVIEWED:
            figure = published.find(name, dataset, p_f, metric)
            assert figure is not None
            values[name] = figure.mean
        for name, rank in zip(values, ranked([*values.values()], METRICS[metric]), strict=True):
            ranks.setdefault(name, []).append(rank)
    return ranks


def _sentences(found: Document) -> list[str]:
    """What the table says, in a line for each metric."""
    lines = []
    for metric, won in found["won"].items():
        if not won["of"]:
            continue
        ahead = f"ahead of the best published method in {won[DEFAULT]} of {won['of']} cells"
        line = f"By {CALLED[metric]} the default is {ahead}"
        if DEFAULT_BALANCED in won:
            line += f", with the balanced decision in {won[DEFAULT_BALANCED]}"
        lines.append(f"{line}.")
    return lines
