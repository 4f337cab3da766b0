"""A table as text: rows of streams and settings, a column for each method, ours above the paper's."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Grid:
    """Header, and rows whose cells are lists of lines."""

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
    """

    above: str
    grid: Grid


def number(value: float, unit: str) -> str:
    """A figure as it is printed.

    >>> number(5124.66, "errors"), number(3.811, "percent")
    ('5,124.7', '3.8%')
    """
    return f"{value:.1f}%" if unit == "percent" else f"{value:,.1f}"


def _with_sd(mean: float, sd: float | None, unit: str) -> str:
    return number(mean, unit) + (f" ± {number(sd, unit)}" if sd is not None else "")


def _ours(cell: dict[str, Any]) -> str:
    """Our mean, and the deviation if there are several seeds."""
    return _with_sd(cell["ours_mean"], cell["ours_sd"] if cell["seeds"] > 1 else None, cell["unit"])


def _time(cell: dict[str, Any]) -> str:
    return f"{cell['us_per_record']:.0f} us per record"


def _cell(cell: dict[str, Any]) -> list[str]:
    """Ours, the paper's, and the difference; or why there is nothing."""
    unit = cell["unit"]
    if "ours_mean" not in cell:
        return [f"failed: {cell['error']}"] if "error" in cell else ["not run"]
    lines = [_ours(cell)]
    if "p_value" in cell:
        lines[0] += f" (p {cell['p_value']:.2g})"
    if "paper_mean" in cell:
        other = "".join(f"; {number(mean, unit)}" for mean in cell["paper_other"])
        lines.append(f"paper {_with_sd(cell['paper_mean'], cell.get('paper_sd'), unit)}{other}")
        lines.append(f"difference {cell['ours_mean'] - cell['paper_mean']:+,.1f}{'%' * (unit == 'percent')}")
    if "paper_seconds" in cell:
        theirs = 1e6 * cell["paper_seconds"] / cell["paper_records"]
        lines.append(f"{cell['us_per_record']:.0f} us per record; paper {theirs:,.0f} us")
    if "timed" in cell:
        lines.append(_time(cell))
    if "failed" in cell:
        lines.append(f"{cell['failed']} failed: {cell['error']}")
    return lines


def stream_label(cell: dict[str, Any]) -> list[str]:
    """The data set, with the number of records where these are not all of the paper's."""
    if not cell.get("sample"):
        return [cell["dataset"]]
    part = "sample" if cell["file_is_sample"] else "first"
    return [cell["dataset"], f"({part} {cell['records']:,} of {cell['paper_records']:,})"]


def make(document: dict[str, Any]) -> Grid:
    """The document's cells, pivoted."""
    cells = document["cells"]
    methods = list(dict.fromkeys(cell["method"] for cell in cells))
    rows: dict[tuple[str, float, str], dict[str, dict[str, Any]]] = {}
    for cell in cells:
        rows.setdefault((cell["dataset"], cell["p_f"], cell.get("setting", "")), {})[cell["method"]] = cell
    settings = any(setting for _, _, setting in rows)
    header = ["", "available", *(["setting"] if settings else []), "majority", *methods]
    out = []
    for (_, p_f, setting), by_method in rows.items():
        done = next((cell for cell in by_method.values() if "ours_mean" in cell), None)
        first = done or next(iter(by_method.values()))
        line = [stream_label(first), [f"{p_f:g}"], *([[setting]] if settings else [])]
        line.append([number(done["majority"], done["unit"])] if done else [""])
        line += [_cell(by_method[method]) if method in by_method else [""] for method in methods]
        out.append(line)
    return Grid(header, out)


def make_long(document: dict[str, Any]) -> Grid:
    """The document's cells, one row each under a row that names their stream: narrow enough for a terminal."""
    rows: list[list[list[str]]] = []
    before = None
    for cell in document["cells"]:
        key = ", ".join([" ".join(stream_label(cell)), f"{cell['p_f']:g}", *filter(None, [cell.get("setting")])])
        if key != before:
            majority = [number(cell["majority"], cell["unit"])] if "majority" in cell else [""]
            rows += [[[key]], [["  majority class"], majority, [""], [""], [""]]]
        before = key
        ours, paper, difference, p_value = _cell(cell)[:1], [""], "", ""
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


def as_csv(document: dict[str, Any]) -> str:
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
