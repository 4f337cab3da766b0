"""`braided bench speed`: time per record of the paper's architecture, beside the memory floor."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.bench.floor import floor_seconds
from braided.learners import LogisticConfig, MLPConfig, SetConfig
from braided.presets import Preset

Clock = Callable[[], float]
WIDTHS = (128, 250)
N_FEATURES = 21
_ROUNDS = 5
_FIRST_RECORD = (
    "from braided import MODLClassifier; m = MODLClassifier(); "
    "m.learn_one({'a': 1.0}, 0); m.learn_one({'a': 2.0}, 1); m.predict_proba_one({'a': 1.5})"
)


def stream(n: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Standard normal features, 70% available, and labels of which a tenth is noise, so that learning goes on."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, N_FEATURES))
    scores = values @ rng.normal(size=N_FEATURES) + values[:, 0] * values[:, 1]
    labels = ((scores > 0) ^ (rng.random(n) < 0.1)).astype(np.int64)
    values[rng.random(values.shape) >= 0.7] = np.nan
    return values, labels


def as_dicts(values: NDArray[np.float64]) -> list[dict[Hashable, float]]:
    """The records as dicts, without what is missing."""
    return [{name: float(value) for name, value in enumerate(row) if not np.isnan(value)} for row in values]


def chunk_seconds(
    model: MODLClassifier, values: NDArray[np.float64], labels: NDArray[np.int64], clock: Clock = time.perf_counter
) -> float:
    """Seconds per record of predict and learn in the array path."""
    start = clock()
    model.learn_many(values, labels)
    return (clock() - start) / len(values)


def one_record_seconds(
    model: MODLClassifier,
    rows: list[dict[Hashable, float]],
    labels: NDArray[np.int64],
    clock: Clock = time.perf_counter,
) -> float:
    """Seconds per record of `predict_proba_one` and `learn_one`."""
    start = clock()
    for x, y in zip(rows, labels.tolist(), strict=True):
        model.predict_proba_one(x)
        model.learn_one(x, y)
    return (clock() - start) / len(rows)


def configs(width: int) -> tuple[LogisticConfig, MLPConfig, SetConfig]:
    """OLR + MLP 3x250 + set learner of 6 blocks x 3 layers, plain SGD."""
    return (
        LogisticConfig(),
        MLPConfig(hidden=(250, 250, 250), learning_rate=0.01),
        SetConfig(width=width, blocks=6, layers=3, learning_rate=0.01),
    )


def _n_weights(model: MODLClassifier) -> int:
    """Float32 weights of the gradient learners."""
    return sum(
        array.size
        for learner in model.braid.learners
        for array in learner.state().values()
        if array.dtype == np.float32
    )


def _start_seconds() -> float:
    """Wall-clock seconds of a fresh interpreter that imports, learns two records and predicts one."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", _FIRST_RECORD], check=True)
    return time.perf_counter() - start


def paper_model(width: int) -> MODLClassifier:
    """A model of `configs`, on values as they are."""
    return MODLClassifier(preset=Preset("bench", configs(width), standardise=False))


def _case(width: int, records: int, console: Console) -> dict[str, Any]:
    values, labels = stream(2 * records)
    model = paper_model(width)
    model.learn_many(values[:records], labels[:records])
    values, labels = values[records:], labels[records:]
    rows = as_dicts(values)
    times: dict[str, list[float]] = {"ours": [], "floor": [], "one": []}
    for turn in range(_ROUNDS):
        console.print(f"width {width}: round {turn + 1} of {_ROUNDS}", highlight=False)
        times["ours"].append(chunk_seconds(model, values, labels))
        times["one"].append(one_record_seconds(model, rows, labels))
        times["floor"].append(floor_seconds(_n_weights(model), records))
    us = {name: 1e6 * min(found) for name, found in times.items()}
    return {
        "width": width,
        "weights": _n_weights(model),
        "ours_us": us["ours"],
        "floor_us": us["floor"],
        "one_record_us": us["one"],
        "floor_ratio": us["ours"] / us["floor"],
    }


def measure(records: int, console: Console) -> dict[str, Any]:
    """All figures; the best of several interleaved rounds each."""
    cases = [_case(width, records, console) for width in WIDTHS]
    console.print("cold start", highlight=False)
    return {"cases": cases, "cold_start_s": min(_start_seconds() for _ in range(4))}


def table(result: dict[str, Any]) -> Table:
    """The figures for a person."""
    shown = Table(title="Time per record, predict + learn, one thread, 21 features, 2 classes")
    for name in ("set width", "weights", "ours", "one record", "floor", "ratio"):
        shown.add_column(name, justify="right")
    for case in result["cases"]:
        shown.add_row(
            str(case["width"]),
            f"{case['weights']:,}",
            f"{case['ours_us']:.0f} us",
            f"{case['one_record_us']:.0f} us",
            f"{case['floor_us']:.0f} us",
            f"{case['floor_ratio']:.2f}",
        )
    shown.caption = f"cold start {result['cold_start_s']:.2f} s"
    return shown
