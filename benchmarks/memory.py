"""Resident memory over a long stream: `python benchmarks/memory.py`."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.evaluation import Evaluation
from braided.records import Records
from measured import parser, show
from speed import stream

_MEMORY = Path("/proc/self/statm")
_POINTS = 10


def resident_mib() -> float:
    """Memory of this process in RAM, in MiB; asked of `ps` where there is no /proc."""
    try:
        return int(_MEMORY.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        command = ["ps", "-o", "rss=", "-p", str(os.getpid())]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 2**10


def measure(records: int, console: Console) -> dict[str, Any]:
    """Run the default model over a thousand records again and again, noting resident memory ten times."""
    evaluation = Evaluation(MODLClassifier())
    values, labels = stream(1_000)
    names = tuple(range(values.shape[1]))
    batch = Records(names, values, labels.tolist())
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


if __name__ == "__main__":
    show(measure, table, parser(__doc__, records=1_000_000).parse_args())
