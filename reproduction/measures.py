"""The figures of one cell from its finished runs, and what is counted over the cells of a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from braided.datasets.haphazard import review_length
from braided.datasets.locate import locate
from braided.estimators.decision import BALANCED, LIKELIEST
from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.report import published
from reproduction import review
from reproduction.cells import DEFAULT_BALANCED, Cell
from reproduction.documents import CellDocument, Document
from reproduction.jobs import HAPHAZARD, JobSpec
from reproduction.stream_models import GUESSES, LAST
from reproduction.stream_sources import STREAMS

#: Finished runs, of which those that failed have an `error`.
Results = dict[JobSpec, dict[str, Any]]
#: From a cell, its runs without those that failed, and the folder of data sets to its figures.
Measure = Callable[[Cell, list[dict[str, Any]], Path | None], CellDocument]
#: Adds to a document what is counted over its cells.
Count = Callable[[Document, list[Cell], Results], None]

TIME = "us_per_record"
#: Fewer pairs than these say nothing in a paired test.
_MIN_PAIRS = 5
#: Our baselines -> what the review calls them.
BASELINES = {"olvf": "OLVF", "auxdrop-odl": "Aux-Drop"}
#: What streams are compared by first; less is better.
MAIN = {CLASSIFICATION: "error_rate", REGRESSION: "mae"}


def _microseconds(fine: list[dict[str, Any]], middle: Callable[[list[float]], float]) -> float:
    return 1e6 * middle([result["seconds"] / result["records"] for result in fine])


def _sd(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def of_paper(what: str, cell: Cell, fine: list[dict[str, Any]], data_dir: Path | None) -> CellDocument:
    """Errors beside the paper's, which are scaled to as many records at the same error rate."""
    paper = cell.paper(what)
    figures = [figure for figure in paper if figure.unit != "seconds"]
    unit = figures[0].unit if figures else "percent" if what == "table3" else "errors"
    if not fine:
        return {"unit": unit}
    records, length = fine[0]["records"], published.length(cell.job.dataset)
    scale = 100.0 / records if unit == "percent" else 1.0
    ours = [result["errors"] * scale for result in fine]
    out: CellDocument = {
        "unit": unit,
        "ours_mean": statistics.fmean(ours),
        "ours_sd": _sd(ours),
        "records": records,
        "sample": records < length,
        "paper_records": length,
        "file_is_sample": locate(cell.job.dataset, data_dir).sample,
        "majority": fine[0]["majority_errors"] * scale,
        TIME: _microseconds(fine, statistics.median),
    }
    if what == "logistic":
        out["timed"] = True
    if figures:
        shrink = records / figures[0].records if unit == "errors" else 1.0
        out["paper_mean"] = figures[0].mean * shrink
        if figures[0].sd is not None:
            out["paper_sd"] = figures[0].sd * shrink
        out["paper_other"] = [other.mean * shrink for other in figures[1:]]
    seconds = [figure.mean for figure in paper if figure.unit == "seconds"]
    return out | ({"paper_seconds": seconds[0]} if seconds else {})


def wilcoxon(base: str, document: Document, cells: list[Cell], results: Results) -> None:
    """The p-value of each method against `base`: two-sided, paired over the seeds."""

    def stream(cell: Cell) -> tuple[str, float, str]:
        return cell.job.dataset, cell.p_f, cell.setting

    twins = {stream(cell): cell.jobs() for cell in reversed(cells) if cell.method == base}
    for cell, found in zip(cells, document["cells"], strict=True):
        if cell.method == base:
            continue
        pairs = zip(twins.get(stream(cell), []), cell.jobs(), strict=False)
        both = [(results.get(one, {}).get("errors"), results.get(other, {}).get("errors")) for one, other in pairs]
        known = [(a, b) for a, b in both if a is not None and b is not None]
        if len(known) >= _MIN_PAIRS:
            ours, other = zip(*known, strict=True)
            found["p_value"] = 1.0 if ours == other else float(stats.wilcoxon(ours, other).pvalue)


def with_curves(document: Document, cells: list[Cell], results: Results) -> None:
    """The p-values against MODL, and a learning curve with its band for each cell that has results."""
    wilcoxon("modl", document, cells, results)
    document["curves"] = []
    for cell in cells:
        curves = [results[job]["curve"] for job in cell.jobs() if "curve" in results.get(job, {})]
        if curves:
            document["curves"].append({"dataset": cell.job.dataset, "method": cell.method, **band(curves)})


def band(curves: list[dict[str, list[int]]]) -> dict[str, list[float]]:
    """Mean error rate over seeds along the stream, and its 95% confidence band (Student's t)."""
    records = curves[0]["records"]
    rates: NDArray[np.float64] = np.array([np.array(curve["errors"]) / np.array(records) for curve in curves])
    mean = rates.mean(axis=0)
    half = np.zeros_like(mean)
    if len(curves) > 1:
        half = stats.t.ppf(0.975, len(curves) - 1) * rates.std(axis=0, ddof=1) / np.sqrt(len(curves))
    return {
        "records": list(records),
        "mean": mean.tolist(),
        "low": (mean - half).tolist(),
        "high": (mean + half).tolist(),
    }


def of_review(cell: Cell, fine: list[dict[str, Any]], data_dir: Path | None) -> CellDocument:
    """The mean and deviation of each metric over seeds, and the review's of the same method.

    `compared` says whether the stream is the one that the published figures are about.
    """
    out: CellDocument = {}
    for metric in review.METRICS:
        theirs = review.find(BASELINES.get(cell.method, ""), cell.job.dataset, cell.p_f, metric)
        if theirs is not None:
            out[f"review_{metric}"] = theirs.mean
    if not fine:
        return out
    records = fine[0]["records"]
    out |= {
        "records": records,
        "compared": cell.job.protocol == HAPHAZARD and records == review_length(cell.job.dataset),
        "majority": fine[0]["majority_errors"],
        TIME: _microseconds(fine, statistics.fmean),
    }
    decision = BALANCED if cell.method == DEFAULT_BALANCED else LIKELIEST
    for metric in review.METRICS:
        values = [result["metrics"][decision][metric] for result in fine]
        if None not in values:
            out |= {metric: statistics.fmean(values), f"{metric}_sd": _sd(values)}
    return out


def of_streams(cell: Cell, fine: list[dict[str, Any]], data_dir: Path | None) -> CellDocument:
    """The mean and deviation over runs of each metric, and the time per record."""
    task = STREAMS[cell.job.dataset].task
    if not fine:
        return {"task": task}
    out: CellDocument = {"task": task, "records": fine[0]["records"]}
    figures = [{MAIN[task]: result["last"]} if cell.method in LAST else result["metrics"] for result in fine]
    for metric in figures[0]:
        values = [each[metric] for each in figures]
        if None not in values:
            # Rounded, so that means over a different number of equal values are equal.
            out |= {metric: round(statistics.fmean(values), 12), f"{metric}_sd": _sd(values)}
    if cell.method not in GUESSES[task]:
        out[TIME] = _microseconds(fine, statistics.fmean)
    return out
