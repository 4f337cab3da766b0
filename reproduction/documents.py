"""A table as it is kept: one document of plain values, which any page, terminal or picture is made of."""

from __future__ import annotations

import csv
import io
from typing import Any, NamedTuple

#: A whole table: its name and title, its cells, how it was made.
Document = dict[str, Any]
#: One cell of a table: a method on a stream, and its figures.
CellDocument = dict[str, Any]


class StreamKey(NamedTuple):
    """What the cells of one stream have in common."""

    dataset: str
    p_f: float
    setting: str = ""


def by_stream(document: Document, having: str = "method") -> dict[StreamKey, dict[str, CellDocument]]:
    """Stream -> method -> its cell, of the cells that have a figure of that name; all of them have their method."""
    found: dict[StreamKey, dict[str, CellDocument]] = {}
    for cell in document["cells"]:
        if having in cell:
            key = StreamKey(cell["dataset"], cell["p_f"], cell.get("setting", ""))
            found.setdefault(key, {})[cell["method"]] = cell
    return found


def methods_of(document: Document) -> list[str]:
    """The methods of a table, in its order."""
    return list(dict.fromkeys(cell["method"] for cell in document["cells"]))


def percent(cell: CellDocument, whose: str) -> float | None:
    """The error in percent of the records, `ours` or that of the `paper`; None if there is none.

    >>> percent({"unit": "errors", "ours_mean": 30.0, "records": 200}, "ours")
    15.0
    """
    mean = cell.get(f"{whose}_mean")
    if mean is None:
        return None
    return float(mean) if cell["unit"] == "percent" else 100.0 * float(mean) / float(cell["records"])


def as_csv(document: Document) -> str:
    """One line per cell."""
    names = list(dict.fromkeys(name for cell in document["cells"] for name in cell))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for cell in document["cells"]:
        lists = {name: "; ".join(map(str, value)) for name, value in cell.items() if isinstance(value, list)}
        writer.writerow(cell | lists)
    return out.getvalue()
