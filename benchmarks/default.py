"""Our presets, one record at a time and in chunks, and each learner of the default: `python benchmarks/default.py`."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.presets import OURS, default
from measured import parser, show
from speed import N_FEATURES, as_dicts, chunk_seconds, one_record_seconds, stream

_ROUNDS = 3


def measure(records: int, console: Console) -> dict[str, Any]:
    """Interleaved rounds of all presets, the best of each; then each learner alone, in chunks."""
    values, labels = stream(2 * records)
    first, first_labels, values, labels = values[:records], labels[:records], values[records:], labels[records:]
    rows = as_dicts(values)
    one: dict[str, list[float]] = {preset: [] for preset in OURS}
    chunks: dict[str, list[float]] = {preset: [] for preset in OURS}
    for turn in range(_ROUNDS):
        console.print(f"round {turn + 1} of {_ROUNDS}", highlight=False)
        for preset in OURS:
            model = MODLClassifier(preset)
            model.learn_many(first, first_labels)
            one[preset].append(1e6 * one_record_seconds(model, rows, labels))
            chunks[preset].append(1e6 * chunk_seconds(model, values, labels))
    learners = {}
    for name, config in zip(MODLClassifier().learner_names, default().learners, strict=True):
        alone = MODLClassifier(learners=(config,))
        alone.learn_many(first, first_labels)
        learners[name] = 1e6 * chunk_seconds(alone, values, labels)
    best = min(one["default"])
    return {
        "records": records,
        "features": N_FEATURES,
        "one_record_us": best,
        "records_per_second": 1e6 / best,
        "chunk_us": min(chunks["default"]),
        "presets_us": {name: {"one_record": min(one[name]), "chunk": min(chunks[name])} for name in OURS},
        "learners_us": learners,
        "python": sys.version.split()[0],
    }


def table(result: dict[str, Any]) -> Table:
    """The figures for a person."""
    shown = Table(title=f"Predict + learn, one thread, {result['features']} features, 2 classes")
    for name in ("", "time per record", "records/s", "of classic's"):
        shown.add_column(name, justify="left" if not name else "right")
    classic = result["presets_us"]["classic"]

    def add(label: str, us: float, of: float | None = None) -> None:
        shown.add_row(label, f"{us:,.0f} us", f"{1e6 / us:,.0f}", "" if of is None else f"{us / of:.2f}")

    for name, times in result["presets_us"].items():
        add(f"{name}, one record at a time", times["one_record"], classic["one_record"])
        add(f"{name}, in chunks", times["chunk"], classic["chunk"])
    for name, us in result["learners_us"].items():
        add(f"  {name} alone, in chunks", us)
    return shown


if __name__ == "__main__":
    show(measure, table, parser(__doc__, records=2_000).parse_args())
