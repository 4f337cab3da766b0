"""What was not run in full, said once for all tables, and how far the learning curves of samples have come."""

from __future__ import annotations

from dataclasses import dataclass

from braided.report import published
from braided.reproduce.documents import CellDocument, Document
from braided.reproduce.findings import listed
from braided.reproduce.grid import Grid
from braided.reproduce.jobs import JobSpec
from braided.reproduce.tables import DEFAULT, TABLES

#: The table whose figures of MODL and Aux-Drop a curve goes towards.
_TABLE = "table2"
#: Points of a percent by which the second half of a curve that still falls is below the first.
_FALLS = 0.1


@dataclass(frozen=True)
class SampleCurve:
    """A learning curve on a sample, in percent of the records.

    Attributes
    ----------
    dataset, method, p_f
        What was run.
    records
        How many.
    first_tenth, first_half, second_half, whole
        Error of these parts.
    paper
        The published error of all records, or None.
    """

    dataset: str
    method: str
    p_f: float
    records: int
    first_tenth: float
    first_half: float
    second_half: float
    whole: float
    paper: float | None


def paper_rate(dataset: str, method: str, p_f: float) -> float | None:
    """The published error in percent, or None."""
    figures = published.find(_TABLE, dataset, method, p_f)
    return 100.0 * figures[0].mean / figures[0].records if figures else None


def sampled_curves(document: Document) -> list[Document]:
    """The curves of a `curves` document that are of samples, each with its availability."""
    cells = {(cell["dataset"], cell["method"]): cell for cell in document["cells"]}
    found = [curve | {"p_f": cells[curve["dataset"], curve["method"]]["p_f"]} for curve in document.get("curves", [])]
    return [c for c in found if cells[c["dataset"], c["method"]].get("file_is_sample") and published_for(c["dataset"])]


def published_for(dataset: str) -> bool:
    """Whether there is a figure that a curve can go towards."""
    return any(figure.table == _TABLE and figure.dataset == dataset for figure in published.figures())


def sample_curves(document: Document) -> list[SampleCurve]:
    """How far each curve of a sample has come."""
    found = []
    for curve in sampled_curves(document):
        records, means = curve["records"], curve["mean"]
        tenth, half = (next(i for i, n in enumerate(records) if n >= records[-1] / part) for part in (10, 2))
        errors = [n * mean for n, mean in zip(records, means, strict=True)]
        second = (errors[-1] - errors[half]) / (records[-1] - records[half]) if half < len(records) - 1 else means[-1]
        found.append(
            SampleCurve(
                dataset=curve["dataset"],
                method=curve["method"],
                p_f=curve["p_f"],
                records=records[-1],
                first_tenth=100.0 * means[tenth],
                first_half=100.0 * means[half],
                second_half=100.0 * second,
                whole=100.0 * means[-1],
                paper=paper_rate(curve["dataset"], curve["method"], curve["p_f"]),
            )
        )
    return found


def curve_sentences(curves: list[SampleCurve]) -> list[str]:
    """Whether the error still falls, and where the default is beside the paper's MODL."""
    sentences = []
    datasets = list(dict.fromkeys(curve.dataset for curve in curves))
    for name in datasets:
        mine = [curve for curve in curves if curve.dataset == name]
        still = [curve.method for curve in mine if curve.first_half - curve.second_half > _FALLS]
        fall = f"the error still falls for {listed(still)}" if still else "the error falls no more"
        text = f"On {name} {fall}"
        default = next((curve for curve in mine if curve.method == DEFAULT), None)
        paper = paper_rate(name, "modl", mine[0].p_f)
        if default and paper is not None:
            text += (
                f"; our default is at {default.whole:.1f}% of {default.records:,} records, and at "
                f"{default.second_half:.1f}% of their second half, where the paper's MODL is at {paper:.1f}% of a "
                f"{_million(published.length(name))}"
            )
        sentences.append(f"{text}.")
    return sentences


def _million(records: int) -> str:
    return "million" if records == 1_000_000 else f"stream of {records:,}"


def curve_grid(curves: list[SampleCurve]) -> Grid:
    """A row for each curve."""
    rows: list[list[list[str]]] = []
    for curve in curves:
        if [f"*{curve.dataset}*"] not in [row[0] for row in rows]:
            rows.append([[f"*{curve.dataset}*"], [""], [""], [""], [""]])
        parts = (curve.first_tenth, curve.whole, curve.second_half, curve.paper)
        rows.append([[curve.method], *([f"{value:.1f}" if value is not None else ""] for value in parts)])
    return Grid(["", "first tenth", "whole", "second half", "paper, all"], rows)


def missing_sentences(documents: list[Document]) -> list[str]:
    """Which data sets are not whole, what that does to the published figures, and how long the rest would take."""
    cells = [cell for document in documents for cell in document["cells"] if cell.get("sample")]
    if not cells:
        return []
    parts = {
        kind: list(
            dict.fromkeys(
                f"{cell['dataset']} ({cell['records']:,} of {cell['paper_records']:,} records)"
                for cell in cells
                if cell["file_is_sample"] == (kind == "sample")
            )
        )
        for kind in ("sample", "limit")
    }
    sentences = []
    if parts["sample"]:
        sentences.append(f"Only a sample of the file was at hand for {listed(parts['sample'])}.")
    if parts["limit"]:
        sentences.append(f"Fewer records than the paper's were asked for of {listed(parts['limit'])}.")
    sentences.append(
        "Published counts of errors are scaled to as many records at the same error rate; a model that has seen fewer "
        "records must be expected to do worse. All records and seeds of these cells would take about "
        f"{hours_in_full(documents):,.0f} hours of one core, a run that several tables share counted once."
    )
    return sentences


def hours_in_full(documents: list[Document]) -> float:
    """What all records and seeds would take of the cells that are samples, at the speed that was measured.

    A run counts once, however many tables show it; where they measured several speeds, by the fastest, since a busy
    machine only adds to it.
    """
    seconds: dict[JobSpec, float] = {}
    for document in documents:
        sampled = {_place(cell): cell for cell in document["cells"] if cell.get("sample")}
        planned = TABLES[document["what"]].cells(document["preset"]) if sampled else []
        for cell in planned:
            measured = sampled.get((cell.job.dataset, cell.method, cell.p_f, cell.setting))
            if measured is not None:
                took = 1e-6 * measured["us_per_record"] * measured["paper_records"]
                seconds |= {job: min(took, seconds.get(job, took)) for job in cell.jobs()}
    return sum(seconds.values()) / 3_600.0


def _place(cell: CellDocument) -> tuple[str, str, float, str]:
    """Where a cell stands in its table."""
    return cell["dataset"], cell["method"], cell["p_f"], cell.get("setting", "")
