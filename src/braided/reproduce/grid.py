"""A table as text: what a cell says, the table of a terminal, and the CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from braided.reproduce.documents import CellDocument, Document


@dataclass(frozen=True)
class Grid:
    """Header, and rows whose cells are lists of lines; in a line, `**` is around what is bold, `*` around a heading."""

    header: list[str]
    rows: list[list[list[str]]]


@dataclass(frozen=True)
class Section:
    """A table of a page.

    Attributes
    ----------
    above
        What stands above it, if anything.
    grid
        The table.
    folded
        What stands in its place until a reader opens it; empty for a table that is open. Neighbours with the same
        text are opened together.
    """

    above: str
    grid: Grid
    folded: str = ""


#: Between a mean and its deviation, which stay on one line.
PLUS_MINUS = "\u00a0±\u00a0"


def bold_best(values: Sequence[float | None], form: Callable[[float], str]) -> list[str]:
    """Each value as it is printed, the best in bold, with all that are printed alike; none where all are.

    >>> bold_best([2.14, None, 2.04, 1.96], lambda value: f"{value:.1f}")
    ['2.1', '', '**2.0**', '**2.0**']
    """
    known = [value for value in values if value is not None]
    texts = ["" if value is None else form(value) for value in values]
    if len({text for text in texts if text}) < 2:
        return texts
    best = form(min(known))
    return [f"**{text}**" if text == best else text for text in texts]


def number(value: float, unit: str) -> str:
    """A figure as it is printed.

    >>> number(5124.66, "errors"), number(3.811, "percent")
    ('5,124.7', '3.8%')
    """
    return f"{value:.1f}%" if unit == "percent" else f"{value:,.1f}"


def _with_sd(mean: float, sd: float | None, unit: str) -> str:
    return number(mean, unit) + (f" ± {number(sd, unit)}" if sd is not None else "")


def _ours(cell: CellDocument) -> str:
    """Our mean, and the deviation if there are several seeds."""
    return _with_sd(cell["ours_mean"], cell["ours_sd"] if cell["seeds"] > 1 else None, cell["unit"])


def _time(cell: CellDocument) -> str:
    return f"{cell['us_per_record']:.0f} us per record"


def nothing(cell: CellDocument) -> str:
    """Why a cell has no figure."""
    return f"failed: {cell['error']}" if "error" in cell else "not run"


def stream_label(cell: CellDocument) -> list[str]:
    """The data set, with the number of records where these are not all of the paper's."""
    if not cell.get("sample"):
        return [cell["dataset"]]
    part = "sample" if cell["file_is_sample"] else "first"
    return [cell["dataset"], f"({part} {cell['records']:,} of {cell['paper_records']:,})"]


def make_long(document: Document) -> Grid:
    """The document's cells, one row each under a row that names their stream: narrow enough for a terminal."""
    rows: list[list[list[str]]] = []
    before = None
    for cell in document["cells"]:
        key = ", ".join([" ".join(stream_label(cell)), f"{cell['p_f']:g}", *filter(None, [cell.get("setting")])])
        if key != before:
            majority = [number(cell["majority"], cell["unit"])] if "majority" in cell else [""]
            rows += [[[key]], [["  majority class"], majority, [""], [""], [""]]]
        before = key
        ours, paper, difference, p_value = [nothing(cell)], [""], "", ""
        if "ours_mean" in cell:
            unit = cell["unit"]
            ours = [_ours(cell), *([_time(cell)] if "timed" in cell else [])]
            ours += [f"{cell['failed']} failed: {cell['error']}"] if "failed" in cell else []
            p_value = f"{cell['p_value']:.2g}" if "p_value" in cell else ""
            if "paper_mean" in cell:
                paper = [_with_sd(cell["paper_mean"], cell.get("paper_sd"), unit)]
                paper += [number(mean, unit) for mean in cell["paper_other"]]
                difference = f"{cell['ours_mean'] - cell['paper_mean']:+,.1f}"
        rows.append([[f"  {cell['method']}"], ours, paper, [difference], [p_value]])
    return Grid(["", "ours", "paper", "difference", "p"], rows)


def as_csv(document: Document) -> str:
    """One line per cell."""
    names = list(dict.fromkeys(name for cell in document["cells"] for name in cell))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for cell in document["cells"]:
        writer.writerow({name: _flat(value) for name, value in cell.items()})
    return out.getvalue()


def _flat(value: Any) -> Any:
    return "; ".join(str(item) for item in value) if isinstance(value, list) else value
