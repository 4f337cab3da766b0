"""`braided bench speed`: time per record of the paper's architecture, beside eager PyTorch and the memory floor."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.bench.floor import floor_seconds
from braided.bench.torch_model import torch_seconds
from braided.learners import LogisticConfig, MLPConfig, SetConfig
from braided.presets import Preset

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


def _start_seconds(cache: str | None) -> float:
    """Wall-clock seconds of a fresh interpreter that imports, learns two records and predicts one."""
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", _FIRST_RECORD], check=True, env=environment)
    return time.perf_counter() - start


def _case(width: int, records: int, console: Console) -> dict[str, Any]:
    values, labels = stream(2 * records)
    learners = configs(width)
    preset = Preset("bench", learners, standardise=False)
    model = MODLClassifier(preset=preset)
    model.learn_many(values[:records], labels[:records])
    rows: list[dict[Hashable, float]] = [
        {name: float(value) for name, value in enumerate(row) if not np.isnan(value)} for row in values[records:]
    ]
    times: dict[str, list[float]] = {"ours": [], "floor": [], "one": [], "torch": []}
    for turn in range(_ROUNDS):
        console.print(f"width {width}: round {turn + 1} of {_ROUNDS}", highlight=False)
        start = time.perf_counter()
        model.learn_many(values[records:], labels[records:])
        times["ours"].append((time.perf_counter() - start) / records)
        start = time.perf_counter()
        for x, y in zip(rows, labels[records:].tolist(), strict=True):
            model.predict_proba_one(x)
            model.learn_one(x, y)
        times["one"].append((time.perf_counter() - start) / records)
        times["floor"].append(floor_seconds(_n_weights(model), records))
        if turn < 3:  # PyTorch is slow and its times are steady
            eager = torch_seconds(values, labels, learners[1], learners[2], min(records, 300))
            if eager is not None:
                times["torch"].append(eager)
    us = {name: 1e6 * min(found) if found else None for name, found in times.items()}
    assert us["ours"] is not None
    assert us["floor"] is not None
    return {
        "width": width,
        "weights": _n_weights(model),
        "ours_us": us["ours"],
        "torch_us": us["torch"],
        "floor_us": us["floor"],
        "one_record_us": us["one"],
        "torch_ratio": us["torch"] / us["ours"] if us["torch"] is not None else None,
        "floor_ratio": us["ours"] / us["floor"],
    }


def measure(records: int, console: Console) -> dict[str, Any]:
    """All figures; the best of several interleaved rounds each."""
    cases = [_case(width, records, console) for width in WIDTHS]
    if cases[0]["torch_us"] is None:
        console.print("PyTorch is not installed: its column is left out (install the extra 'torch')", highlight=False)
    console.print("cold start and compile time", highlight=False)
    _start_seconds(None)
    cold = min(_start_seconds(None) for _ in range(3))
    with tempfile.TemporaryDirectory() as cache:
        compiling = _start_seconds(cache) - cold
    return {"cases": cases, "cold_start_s": cold, "compile_s": compiling}


def table(result: dict[str, Any]) -> Table:
    """The figures for a person."""
    shown = Table(title="Time per record, predict + learn, one thread, 21 features, 2 classes")
    for name in ("set width", "weights", "ours", "one record", "PyTorch", "ratio", "floor", "ratio"):
        shown.add_column(name, justify="right")
    for case in result["cases"]:
        eager = case["torch_us"] is not None
        shown.add_row(
            str(case["width"]),
            f"{case['weights']:,}",
            f"{case['ours_us']:.0f} us",
            f"{case['one_record_us']:.0f} us",
            f"{case['torch_us']:,.0f} us" if eager else "-",
            f"{case['torch_ratio']:.1f}" if eager else "-",
            f"{case['floor_us']:.0f} us",
            f"{case['floor_ratio']:.2f}",
        )
    shown.caption = f"cold start {result['cold_start_s']:.2f} s, first compilation {result['compile_s']:.1f} s more"
    return shown
