"""`braided bench default`: the default model, one record at a time, beside deep-river's plain MLP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pooch
from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.bench.speed import N_FEATURES, stream
from braided.presets import default

_ROUNDS = 3
_SCRIPT = Path(__file__).with_name("deep_river_script.py")
#: An interpreter that has deep-river; without it one is set up in the user's cache.
PYTHON_VARIABLE = "BRAIDED_DEEP_RIVER_PYTHON"
#: deep-river asks for an older PyTorch than there is on every machine, but runs with this one: its own requirements
#: are therefore installed by hand.
_PACKAGES = ("torch==2.13.0", "river==0.25.0", "numpy<3", "pandas<3", "scikit-learn", "sortedcontainers", "pytest")
_DEEP_RIVER = "deep-river==0.3.4"


def deep_river_python(console: Console) -> Path | None:
    """An interpreter with deep-river, set up on first use; None, with a word on why, where that fails."""
    if os.environ.get(PYTHON_VARIABLE):
        return Path(os.environ[PYTHON_VARIABLE])
    folder = Path(pooch.os_cache("braided")) / "deep-river"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (folder / "ready").exists():
        console.print(f"setting up deep-river in {folder} (once, about a minute)", highlight=False)
        try:
            venv.create(folder, with_pip=True, clear=True)
            install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            for packages in (_PACKAGES, ("--no-deps", _DEEP_RIVER)):
                subprocess.run([*install, *packages], check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            console.print(f"deep-river could not be set up ({error}): its figures are left out", highlight=False)
            return None
        (folder / "ready").touch()
    return python


def _deep_river_us(python: Path, rows: list[dict[Hashable, float]], labels: list[int]) -> float:
    """Microseconds a record. deep-river has no missing values: they are given as zeros."""
    full = [{f"f{j}": row.get(j, 0.0) for j in range(N_FEATURES)} for row in rows]
    done = subprocess.run(
        [str(python), str(_SCRIPT)], input=json.dumps([full, labels]), capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def measure(records: int, console: Console) -> dict[str, Any]:
    """Interleaved rounds of both, the best of each; then each of our learners alone, in chunks."""
    values, labels = stream(2 * records)
    rows: list[dict[Hashable, float]] = [
        {name: float(value) for name, value in enumerate(row) if not np.isnan(value)} for row in values
    ]
    python = deep_river_python(console)
    ours, theirs, chunks = [], [], []
    for turn in range(_ROUNDS):
        console.print(f"round {turn + 1} of {_ROUNDS}", highlight=False)
        model = MODLClassifier()
        model.learn_many(values[:records], labels[:records])
        start = time.perf_counter()
        for x, y in zip(rows[records:], labels[records:].tolist(), strict=True):
            model.predict_proba_one(x)
            model.learn_one(x, y)
        ours.append(1e6 * (time.perf_counter() - start) / records)
        start = time.perf_counter()
        model.learn_many(values[records:], labels[records:])
        chunks.append(1e6 * (time.perf_counter() - start) / records)
        if python is not None:
            n = min(records, 500)
            try:
                theirs.append(_deep_river_us(python, rows[: 2 * n], labels[: 2 * n].tolist()))
            except subprocess.CalledProcessError as error:
                reason = error.stderr.strip().splitlines()[-1] if error.stderr else error
                console.print(f"deep-river failed ({reason}): its figures are left out", highlight=False)
                python = None
    learners = {}
    for config in default().learners:
        alone = MODLClassifier(learners=(config,))
        alone.learn_many(values[:records], labels[:records])
        start = time.perf_counter()
        alone.learn_many(values[records:], labels[records:])
        learners[alone.learner_names[0]] = 1e6 * (time.perf_counter() - start) / records
    best = min(ours)
    return {
        "records": records,
        "features": N_FEATURES,
        "one_record_us": best,
        "records_per_second": 1e6 / best,
        "chunk_us": min(chunks),
        "learners_us": learners,
        "deep_river_us": min(theirs) if theirs else None,
        "deep_river_ratio": min(theirs) / best if theirs else None,
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
    if result["deep_river_us"] is not None:
        add("deep-river MLP 3x250, one record at a time", result["deep_river_us"])
        shown.caption = f"deep-river takes {result['deep_river_ratio']:.1f} times as long"
    return shown
