"""`braided bench memory`: resident memory over a long stream."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.table import Table

from braided import MODLClassifier, portable
from braided.bench.speed import stream
from braided.evaluation import Evaluation
from braided.streams import Batch

_POINTS = 10


def resident_mib() -> float:
    """Memory of this process in RAM, in MiB."""
    return portable.resident_bytes() / 2**20


def measure(records: int, console: Console) -> dict[str, Any]:
    """Run the default model over a thousand records again and again, noting resident memory ten times."""
    evaluation = Evaluation(MODLClassifier())
    values, labels = stream(1_000)
    names = tuple(range(values.shape[1]))
    batch = Batch(names, values, labels.tolist())
    console.print("first records: compiling, filling caches", highlight=False)
    evaluation.observe(batch)
    points: list[dict[str, Any]] = []
    start = time.perf_counter()
    while evaluation.records < records:
        evaluation.observe(batch.part(0, min(len(batch), records - evaluation.records)))
        if evaluation.records >= (len(points) + 1) * records / _POINTS:
            points.append({"records": evaluation.records, "rss_mib": round(resident_mib(), 2)})
            console.print(f"{evaluation.records:,} records: {points[-1]['rss_mib']} MiB", highlight=False)
    first, last = points[0]["rss_mib"], points[-1]["rss_mib"]
    return {
        "records": evaluation.records,
        "points": points,
        "growth_mib": round(last - first, 2),
        "us_per_record": 1e6 * (time.perf_counter() - start) / evaluation.records,
    }


def table(result: dict[str, Any]) -> Table:
    """The figures for a person."""
    shown = Table(title=f"Resident memory, growth {result['growth_mib']} MiB")
    shown.add_column("records", justify="right")
    shown.add_column("MiB", justify="right")
    for point in result["points"]:
        shown.add_row(f"{point['records']:,}", f"{point['rss_mib']:.2f}")
    return shown
