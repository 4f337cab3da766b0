"""From finished jobs to one document per table: means over seeds, the paper's figures, tests, times."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import extras
from braided.datasets.locate import locate
from braided.report import published
from braided.reproduce.documents import CellDocument, Document
from braided.reproduce.jobs import JobSpec
from braided.reproduce.tables import TABLES, Cell

Results = dict[JobSpec, dict[str, Any]]


def _wilcoxon(ours: list[float], other: list[float]) -> float | None:
    """The two-sided p-value of the paired test; None with fewer than five pairs, of which it says nothing."""
    if len(ours) < 5:
        return None
    if ours == other:
        return 1.0
    return float(extras.require("scipy.stats", "reproduce").wilcoxon(ours, other).pvalue)


def fine_and_failed(cell: Cell, results: Results) -> tuple[list[dict[str, Any]], list[str]]:
    """The results of a cell's runs that came to their end, and why the others failed."""
    done = [results[job] for job in cell.jobs() if job in results]
    return [result for result in done if "error" not in result], [r["error"] for r in done if "error" in r]


def cell_document(what: str, cell: Cell, results: Results, data_dir: Path | None) -> CellDocument:
    """One cell: ours, the paper's, and how the two compare."""
    fine, failed = fine_and_failed(cell, results)
    paper = cell.paper(what)
    errors_or_percent = [figure for figure in paper if figure.unit != "seconds"]
    unit = errors_or_percent[0].unit if errors_or_percent else "percent" if what == "table3" else "errors"
    out: CellDocument = {"dataset": cell.job.dataset, "method": cell.method, "p_f": cell.p_f}
    if cell.setting:
        out["setting"] = cell.setting
    out |= {"seeds": len(fine), "unit": unit}
    if failed:
        out |= {"failed": len(failed), "error": failed[0]}
    if not fine:
        return out
    records = fine[0]["records"]
    scale = 100.0 / records if unit == "percent" else 1.0
    ours = [result["errors"] * scale for result in fine]
    out |= {
        "ours_mean": statistics.fmean(ours),
        "ours_sd": statistics.stdev(ours) if len(ours) > 1 else 0.0,
        "records": records,
        "sample": records < published.length(cell.job.dataset),
        "paper_records": published.length(cell.job.dataset),
        "file_is_sample": locate(cell.job.dataset, data_dir).sample,
        "majority": fine[0]["majority_errors"] * scale,
        "us_per_record": 1e6 * statistics.median(result["seconds"] / result["records"] for result in fine),
    }
    if TABLES[what].timed:
        out["timed"] = True
    if errors_or_percent:
        figure = errors_or_percent[0]
        shrink = records / figure.records if unit == "errors" else 1.0
        out["paper_mean"] = figure.mean * shrink
        if figure.sd is not None:
            out["paper_sd"] = figure.sd * shrink
        out["paper_other"] = [other.mean * shrink for other in errors_or_percent[1:]]
    seconds = [figure.mean for figure in paper if figure.unit == "seconds"]
    if seconds:
        out["paper_seconds"] = seconds[0]
    return out


def table_document(what: str, cells: list[Cell], results: Results, data_dir: Path | None) -> Document:
    """All cells of a table."""
    documents = [cell_document(what, cell, results, data_dir) for cell in cells]
    base = TABLES[what].compare
    for cell, document in zip(cells, documents, strict=True):
        if base is None or cell.method == base:
            continue
        twins = next((other.jobs() for other in cells if other.method == base and _same_stream(cell, other)), [])
        pairs = [(results.get(job), results.get(twin)) for job, twin in zip(cell.jobs(), twins, strict=False)]
        both = [(a["errors"], b["errors"]) for a, b in pairs if a and b and "error" not in a and "error" not in b]
        p_value = _wilcoxon([b for _, b in both], [a for a, _ in both])
        if p_value is not None:
            document["p_value"] = p_value
    return {"what": what, "title": TABLES[what].title, "about": TABLES[what].about, "cells": documents}


def _same_stream(one: Cell, other: Cell) -> bool:
    """Whether two cells see the same records under the same setting."""
    return (one.job.dataset, one.p_f, one.setting) == (other.job.dataset, other.p_f, other.setting)


def band(curves: list[dict[str, list[int]]]) -> dict[str, list[float]]:
    """Mean error rate over seeds along the stream, and its 95% confidence band (Student's t)."""
    records = curves[0]["records"]
    rates: NDArray[np.float64] = np.array([np.array(curve["errors"]) / np.array(records) for curve in curves])
    mean = rates.mean(axis=0)
    half = np.zeros_like(mean)
    if len(curves) > 1:
        t = extras.require("scipy.stats", "reproduce").t
        half = t.ppf(0.975, len(curves) - 1) * rates.std(axis=0, ddof=1) / np.sqrt(len(curves))
    return {
        "records": list(records),
        "mean": mean.tolist(),
        "low": (mean - half).tolist(),
        "high": (mean + half).tolist(),
    }


def curves_document(cells: list[Cell], results: Results) -> list[dict[str, Any]]:
    """A band for each cell that has results."""
    found = []
    for cell in cells:
        fine, _ = fine_and_failed(cell, results)
        if fine:
            found.append(
                {"dataset": cell.job.dataset, "method": cell.method, **band([result["curve"] for result in fine])}
            )
    return found
