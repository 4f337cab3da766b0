"""How each table is made of its finished runs, and shown: one layout each, and one for all of the paper's.

A table that is not laid out like the paper's plugs in by a line in `_OWN`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from braided.reproduce import (
    findings,
    grid,
    haphazard,
    haphazard_tables,
    page_tables,
    pictures,
    streams,
    streams_picture,
    streams_tables,
    toy,
)
from braided.reproduce.documents import Document
from braided.reproduce.grid import Grid, Section
from braided.reproduce.summary import Results, curves_document, table_document
from braided.reproduce.tables import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Layout:
    """How a table is made and shown.

    Attributes
    ----------
    document
        From the table's cells, all results and the data folder to what is kept as JSON.
    sections
        From the document to the tables of a page.
    screen
        From the document to the one table of a terminal.
    picture
        From the document to its picture.
    findings
        From the document to sentences that say what it shows.
    names_rows
        Whether the first column of `screen` has the names of rows, which stay on one line.
    """

    document: Callable[[list[Cell], Results, Path | None], Document]
    sections: Callable[[Document], list[Section]]
    screen: Callable[[Document], Grid]
    picture: Callable[[Document], Figure]
    findings: Callable[[Document], list[str]]
    names_rows: bool = False


def of(what: str) -> Layout:
    """The layout of a table."""
    return _OWN.get(what) or _of_paper(what)


def _of_paper(what: str) -> Layout:
    return Layout(
        document=lambda cells, results, data_dir: table_document(what, cells, results, data_dir),
        sections=_SECTIONS.get(what, page_tables.grouped),
        screen=grid.make_long,
        picture=_PICTURES.get(what, pictures.dots),
        findings=findings.FINDINGS[what],
    )


def _with_curves(cells: list[Cell], results: Results, data_dir: Path | None) -> Document:
    document = table_document("curves", cells, results, data_dir)
    return document | {"curves": curves_document(cells, results)}


_SECTIONS: dict[str, Callable[[Document], list[Section]]] = {
    "curves": page_tables.wide,
    "table2": page_tables.by_availability,
    "ablation": page_tables.by_availability,
    "lr": page_tables.by_rate,
    "depth": page_tables.by_depth,
}

_PICTURES: dict[str, Callable[[Document], Figure]] = {
    "curves": pictures.curves,
    "depth": pictures.ratios,
    "table2": pictures.by_availability,
    "ablation": pictures.by_availability,
    "lr": pictures.by_rate,
}

_OWN: dict[str, Layout] = {
    "curves": replace(_of_paper("curves"), document=_with_curves),
    "haphazard": Layout(
        document=lambda cells, results, data_dir: haphazard.document(cells, results),
        sections=haphazard_tables.sections,
        screen=haphazard_tables.short_grid,
        picture=pictures.ranks,
        findings=findings.stored,
        names_rows=True,
    ),
    "streams": Layout(
        document=lambda cells, results, data_dir: streams.document(cells, results),
        sections=streams_tables.sections,
        screen=streams_tables.screen,
        picture=streams_picture.errors_by_time,
        findings=findings.stored,
        names_rows=True,
    ),
    "toy": Layout(
        document=lambda cells, results, data_dir: toy.document(seed=0),
        sections=lambda document: [Section("", toy.grid(document))],
        screen=toy.grid,
        picture=pictures.toy_surfaces,
        findings=findings.toy,
    ),
}
