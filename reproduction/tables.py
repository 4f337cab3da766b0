"""Every table: its cells, how a cell is measured, the views that a page shows of it, and its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from braided.datasets.catalogue import CATALOGUE
from reproduction import cells, measures, pictures, stream_sources, toy, views
from reproduction.cells import AVAILABILITIES, DEFAULT, KALMAN, LARGE, RATES, SMALL, SMALL_RUNS, Cell, Run, grid
from reproduction.documents import Document
from reproduction.measures import Count, Measure, Results
from reproduction.views import View

_QUICK_AVAILABILITIES = {0.1, 0.5, 0.99}
_QUICK_RATES = ("=0.0001", "=0.01", "=0.1")


def _nothing(document: Document, cells: list[Cell], results: Results) -> None:
    """Count nothing over the cells."""


@dataclass(frozen=True)
class Table:
    """A table: its cells, how each is measured, and what is shown of it."""

    title: str
    #: From the preset's name.
    cells: Callable[[str], list[Cell]]
    #: From a cell's finished runs to its figures.
    measure: Measure
    #: By the name that a page's marker has.
    views: Mapping[str, View]
    picture: Callable[[Document], Figure]
    #: Adds what is counted over all cells.
    count: Count = _nothing
    #: Shown by a page alone.
    details: Mapping[str, View] = field(default_factory=dict)
    #: By names of their own.
    more_pictures: Mapping[str, Callable[[Document], Figure]] = field(default_factory=dict)
    #: Whether a cell belongs to `--quick`.
    quick: Callable[[Cell], bool] = lambda cell: True

    def document(self, what: str, some: list[Cell], results: Results, data_dir: Path | None) -> Document:
        """The cells with the figures of their runs, and what is counted over them."""
        document: Document = {"what": what, "title": self.title, "cells": []}
        for cell in some:
            done = [results[job] for job in cell.jobs() if job in results]
            fine = [result for result in done if "error" not in result]
            found = {"dataset": cell.job.dataset, "method": cell.method, "p_f": cell.p_f}
            found |= {"setting": cell.setting} if cell.setting else {}
            found["seeds"] = len(fine)
            if len(fine) < len(done):
                found["error"] = next(result["error"] for result in done if "error" in result)
                found |= {} if cell.twin else {"failed": len(done) - len(fine)}
            document["cells"].append(found | self.measure(cell, fine, data_dir))
        self.count(document, some, results)
        return document


def _of_paper(
    what: str,
    title: str,
    some: Callable[[str], list[Cell]],
    compare: str | None = "modl",
    along: str = "",
    picture: Callable[[Document], Figure] = pictures.dots,
    quick: Callable[[Cell], bool] = lambda cell: True,
) -> Table:
    """A table of errors: a row for each method of each stream, or `along` a setting of the two large data sets."""
    return Table(
        title=title,
        cells=some,
        measure=partial(measures.of_paper, what),
        count=partial(measures.wilcoxon, compare) if compare else _nothing,
        views={name: partial(views.series, along, name) for name in LARGE} if along else {"": views.grouped},
        picture=picture,
        quick=quick,
    )


_LARGE_AVAILABILITIES: list[Run] = [(name, p, 5) for name in LARGE for p in AVAILABILITIES]
_LARGE_MOST: list[Run] = [(name, 0.99, 5) for name in LARGE]
_LARGE_HALF: list[Run] = [(name, 0.5, 5) for name in LARGE]
_DEPTHS: list[tuple[str, ...]] = [
    (f"layers={layers}", f"width={width}") for layers in (5, 11, 20) for width in (25, 50, 100)
]

TABLES: dict[str, Table] = {
    "table1": _of_paper(
        "table1",
        "Four small sets",
        grid(("olvf", "auxdrop-odl", "auxdrop-ogd", "modl", DEFAULT), SMALL_RUNS),
    ),
    "table2": _of_paper(
        "table2",
        "HIGGS and SUSY by availability",
        grid(("auxdrop-odl", "modl"), _LARGE_AVAILABILITIES),
        along="available",
        picture=pictures.by_availability,
        quick=lambda cell: cell.p_f in _QUICK_AVAILABILITIES,
    ),
    "table3": _of_paper(  # two seeds of a million records each, where the paper has five
        "table3",
        "Images",
        grid(("auxdrop-odl", "modl", DEFAULT), [("cifar10", None, 5), ("imnist", None, 2)]),
    ),
    "merge": _of_paper("merge", "Ways to combine learners", cells.merge, compare="score-sum"),
    "ablation": _of_paper(
        "ablation",
        "Which learners",
        grid(("modl-olr+mlp", "modl-olr+set", "modl"), _LARGE_AVAILABILITIES),
        along="available",
        picture=pictures.by_availability,
        quick=lambda cell: cell.p_f in _QUICK_AVAILABILITIES,
    ),
    "glr": _of_paper(
        "glr",
        "The fast learner in closed form, and by gradient",
        grid(("modl-glr", "modl"), [*SMALL_RUNS, *_LARGE_MOST]),
    ),
    "five": _of_paper("five", "Three learners or five", grid(("modl", "modl-5"), SMALL_RUNS)),
    "lr": _of_paper(
        "lr",
        "Learning rates",
        grid(("auxdrop-odl", "modl"), _LARGE_MOST, [(f"learning_rate={rate}",) for rate in RATES]),
        along="rate",
        picture=pictures.by_rate,
        quick=lambda cell: cell.setting.endswith(_QUICK_RATES),
    ),
    "depth": _of_paper(
        "depth",
        "Depth and width of Aux-Drop, on ODL and Fast ODL",
        grid(("auxdrop-odl", "auxdrop-fodl"), _LARGE_HALF, _DEPTHS),
        compare=None,
        along="layers x width",
        picture=pictures.ratios,
        quick=lambda cell: "width=50" in cell.setting,
    ),
    "logistic": _of_paper("logistic", "Ways to learn a logistic regression online", cells.logistic, compare=KALMAN),
    "curves": Table(
        title="Learning curves",
        cells=grid(("auxdrop-odl", "modl", DEFAULT), [*SMALL_RUNS, *_LARGE_HALF]),
        measure=partial(measures.of_paper, "curves"),
        count=measures.with_curves,
        views={"": views.wide},
        details={"sample": views.sample},
        picture=pictures.curves,
        more_pictures={"sample": pictures.towards_paper},
        quick=lambda cell: cell.job.dataset in SMALL,
    ),
    "haphazard": Table(
        title="Haphazard inputs",
        cells=cells.haphazard,
        measure=measures.of_review,
        views=views.REVIEW,
        details=views.REVIEW_DETAILS,
        picture=pictures.ranks,
        quick=lambda cell: CATALOGUE[cell.job.dataset].records < 700,
    ),
    "streams": Table(
        title="Beside River, on streams",
        cells=cells.streams,
        measure=measures.of_streams,
        views=views.STREAMS,
        details=views.STREAM_DETAILS,
        picture=pictures.errors_by_time,
        quick=lambda cell: cell.job.dataset in stream_sources.QUICK,
    ),
    "toy": Table(
        title="Log-likelihood and its quadratic approximation",
        cells=lambda preset: [],
        measure=lambda cell, fine, data_dir: {},
        count=toy.count,
        views={"": toy.grid},
        picture=pictures.surfaces,
    ),
}
