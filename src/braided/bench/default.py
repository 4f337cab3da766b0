"""`braided bench default`: the default model, one record at a time and in chunks, and each of its learners."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.bench.speed import N_FEATURES, as_dicts, chunk_seconds, one_record_seconds, stream
from braided.presets import default

_ROUNDS = 3


def measure(records: int, console: Console) -> dict[str, Any]:
    """Interleaved rounds, the best of each; then each learner alone, in chunks."""
    values, labels = stream(2 * records)
    first, first_labels, values, labels = values[:records], labels[:records], values[records:], labels[records:]
    rows = as_dicts(values)
    one, chunks = [], []
    for turn in range(_ROUNDS):
        console.print(f"round {turn + 1} of {_ROUNDS}", highlight=False)
        model = MODLClassifier()
        model.learn_many(first, first_labels)
        one.append(1e6 * one_record_seconds(model, rows, labels))
        chunks.append(1e6 * chunk_seconds(model, values, labels))
    learners = {}
    for config in default().learners:
        alone = MODLClassifier(learners=(config,))
        alone.learn_many(first, first_labels)
        learners[alone.learner_names[0]] = 1e6 * chunk_seconds(alone, values, labels)
    best = min(one)
    return {
        "records": records,
        "features": N_FEATURES,
        "one_record_us": best,
        "records_per_second": 1e6 / best,
        "chunk_us": min(chunks),
        "learners_us": learners,
        "python": sys.version.split()[0],
    }


def table(result: dict[str, Any]) -> Table:
    """The figures for a person."""
    shown = Table(title=f"Predict + learn, one thread, {result['features']} features, 2 classes")
    for name in ("", "time per record", "records/s"):
        shown.add_column(name, justify="left" if not name else "right")

    def add(label: str, us: float) -> None:
        shown.add_row(label, f"{us:,.0f} us", f"{1e6 / us:,.0f}")

    add("MODLClassifier(), one record at a time", result["one_record_us"])
    add("MODLClassifier(), in chunks", result["chunk_us"])
    for name, us in result["learners_us"].items():
        add(f"  {name} alone, in chunks", us)
    return shown
