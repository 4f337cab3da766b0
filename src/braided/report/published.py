"""Published figures, to print beside ours.

`published.csv` holds the tables of the MODL paper (Valkanas, Oreshkin and Coates, AISTATS 2025) and, for Aux-Drop on
the four small sets, the means that its own paper reports (Agarwal et al. 2023). Errors in thousands are written out. In
the ablation table the standard deviations on HIGGS from availability .4 on are printed in errors, the others in
thousands of errors; here all are in errors.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Figure:
    """One published number.

    Attributes
    ----------
    table
        The table it stands in, by the name that `python -m reproduction` gives it.
    dataset, method, p_f, setting
        What it is about; `setting` is like `learning_rate=0.001`, or empty.
    mean, sd
        Over the runs; `sd` is None where none is given.
    unit
        `errors` over all records, `percent` of them, or `seconds`.
    records
        Length of the stream.
    source
        The paper that reports it.
    """

    table: str
    dataset: str
    method: str
    p_f: float
    setting: str
    mean: float
    sd: float | None
    unit: str
    records: int
    source: str


@cache
def figures() -> tuple[Figure, ...]:
    """All of them.

    >>> len(figures())
    312
    """
    found = []
    text = resources.files("braided.report").joinpath("published.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        found.append(
            Figure(
                table=row["table"],
                dataset=row["dataset"],
                method=row["method"],
                p_f=float(row["p_f"]),
                setting=row["setting"],
                mean=float(row["mean"]),
                sd=float(row["sd"]) if row["sd"] else None,
                unit=row["unit"],
                records=int(row["records"]),
                source=row["source"],
            )
        )
    return tuple(found)


@cache
def length(dataset: str) -> int:
    """Records of the stream that published figures of a data set are about.

    >>> length("higgs")
    1000000
    """
    return next(figure.records for figure in figures() if figure.dataset == dataset)


def find(table: str, dataset: str, method: str, p_f: float | None = None, setting: str = "") -> list[Figure]:
    """What is published for one cell of a table, the MODL paper's own figure first."""
    return [
        figure
        for figure in figures()
        if (figure.table, figure.dataset, figure.method, figure.setting) == (table, dataset, method, setting)
        and (p_f is None or abs(figure.p_f - p_f) < 1e-9)
    ]


def beside(stream: str, model: str) -> str:
    """Table 1's figure as it is printed beside ours, or nothing.

    >>> beside("magic04", "auxdrop-odl")
    '5607.1 +- 235.1; 5536.7'
    """
    shown = [f"{figure.mean}" + (f" +- {figure.sd}" if figure.sd else "") for figure in find("table1", stream, model)]
    return "; ".join(shown)
