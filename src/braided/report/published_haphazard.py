"""Published figures of learning with haphazard inputs, to print beside ours.

`published_haphazard.csv` holds the tables of the review (Agarwal et al. 2024, arXiv 2404.04903), and what later papers
report: HI2 (arXiv 2504.02912), packetLSTM (arXiv 2410.17394; read off a chart, to within 0.7), and the tables of the
Aux-Drop paper. Accuracies and areas are in percent. Every line has its source.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

#: Metrics that are published and that we measure -> whether more of it is better.
METRICS = {"balanced_accuracy": True, "auroc": True, "errors": False, "auprc": True}
#: Methods that the review ran on every stream.
REVIEWED = ("NB3", "FAE", "OLVF", "OCDS", "OVFM", "DynFo", "ORF3V", "Aux-Net", "Aux-Drop")
#: Its tables are of streams on which the first features are always there.
_OTHER_STREAMS = "Aux-Drop TMLR"


@dataclass(frozen=True)
class Figure:
    """One published number.

    Attributes
    ----------
    method, dataset, metric
        What it is about; metrics are those of `METRICS`, `accuracy` and `seconds`.
    available
        Probability that a feature is available, as text; `trapezoidal`, or empty for data with gaps of their own.
    mean, sd
        Over the runs; `sd` is None where none is given.
    source
        Paper and table.
    """

    method: str
    dataset: str
    available: str
    metric: str
    mean: float
    sd: float | None
    source: str


@cache
def figures() -> tuple[Figure, ...]:
    """All of them.

    >>> len(figures())
    2887
    """
    text = resources.files("braided.report").joinpath("published_haphazard.csv").read_text(encoding="utf-8")
    return tuple(
        Figure(
            method=row["method"],
            dataset=row["dataset"],
            available=row["p"],
            metric=row["metric"],
            mean=float(row["mean"]),
            sd=float(row["sd"]) if row["sd"] else None,
            source=row["source"],
        )
        for row in csv.DictReader(text.splitlines())
    )


@cache
def _by_cell() -> dict[tuple[str, str, str], list[Figure]]:
    found: dict[tuple[str, str, str], list[Figure]] = {}
    for figure in figures():
        if not figure.source.startswith(_OTHER_STREAMS):
            found.setdefault((figure.dataset, figure.available, figure.metric), []).append(figure)
    return found


def ranked(dataset: str, available: float, metric: str) -> list[Figure]:
    """What is published for a stream of the review, the best first.

    >>> [(figure.method, figure.mean) for figure in ranked("wpbc", 0.5, "balanced_accuracy")][:2]
    [('OLVF', 53.76), ('ORF3V', 52.6)]
    """
    sign = -1 if METRICS[metric] else 1
    return sorted(_by_cell().get((dataset, f"{available:g}", metric), []), key=lambda figure: sign * figure.mean)


def find(method: str, dataset: str, available: float, metric: str) -> Figure | None:
    """What the review reports of one of its methods."""
    return next((figure for figure in ranked(dataset, available, metric) if figure.method == method), None)
