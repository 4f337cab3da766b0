"""Published figures of learning with haphazard inputs, to print beside ours.

`review.csv` holds the tables of the review (Agarwal et al. 2024, arXiv 2404.04903), and what later papers
report: HI2 (arXiv 2504.02912), packetLSTM (arXiv 2410.17394; read off a chart, to within 0.7), and the tables of the
Aux-Drop paper. Accuracies and areas are in percent. Every line has its source.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

#: Metrics that are published and that we measure -> whether more of it is better.
METRICS = {"balanced_accuracy": True, "auroc": True, "errors": False, "auprc": True}
#: Methods that the review ran on every stream.
REVIEWED = ("NB3", "FAE", "OLVF", "OCDS", "OVFM", "DynFo", "ORF3V", "Aux-Net", "Aux-Drop")
#: Its tables are of streams on which the first features are always there.
_OTHER_STREAMS = "Aux-Drop TMLR"


class Figure(NamedTuple):
    """One published number; `sd` over the runs, None where none is given, and the paper and table as `source`."""

    method: str
    mean: float
    sd: float | None
    source: str


@cache
def figures() -> dict[tuple[str, str, str], list[Figure]]:
    """Data set, availability as text (or empty, for data with gaps of their own) and metric -> what is published.

    >>> sum(map(len, figures().values()))
    2887
    """
    found: dict[tuple[str, str, str], list[Figure]] = {}
    text = Path(__file__).with_name("review.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        figure = Figure(row["method"], float(row["mean"]), float(row["sd"]) if row["sd"] else None, row["source"])
        found.setdefault((row["dataset"], row["p"], row["metric"]), []).append(figure)
    return found


def ranked(dataset: str, available: float, metric: str) -> list[Figure]:
    """What is published for a stream of the review, the best first.

    >>> [(figure.method, figure.mean) for figure in ranked("wpbc", 0.5, "balanced_accuracy")][:2]
    [('OLVF', 53.76), ('ORF3V', 52.6)]
    """
    found = figures().get((dataset, f"{available:g}", metric), [])
    of_these = [figure for figure in found if not figure.source.startswith(_OTHER_STREAMS)]
    return sorted(of_these, key=lambda figure: figure.mean, reverse=METRICS[metric])


def find(method: str, dataset: str, available: float, metric: str) -> Figure | None:
    """What the review reports of one of its methods."""
    return next((figure for figure in ranked(dataset, available, metric) if figure.method == method), None)
