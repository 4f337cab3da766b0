"""The default model beside deep-river's plain MLP, one record at a time: `python benchmarks/beside_deep_river.py`."""

from __future__ import annotations

import json
import os
import subprocess
import time
import venv
from collections.abc import Hashable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.cli.options import JsonOption
from braided.datasets.locate import cache_folder
from braided.errors import BraidedError
from speed import N_FEATURES, as_dicts, one_record_seconds, stream

_ROUNDS = 3
#: deep-river is slow and its times are steady: fewer records will do.
_MAX_DEEP_RIVER_RECORDS = 500
_SCRIPT = Path(__file__).with_name("deep_river_script.py")
#: An interpreter that has deep-river; without it one is set up in the user's cache.
PYTHON_VARIABLE = "BRAIDED_DEEP_RIVER_PYTHON"
#: deep-river asks for an older PyTorch than there is on every machine, but runs with this one: its own requirements
#: are therefore installed by hand.
_PACKAGES = ("torch==2.13.0", "river==0.25.0", "numpy<3", "pandas<3", "scikit-learn", "sortedcontainers", "pytest")
_DEEP_RIVER = "deep-river==0.3.4"


def deep_river_python(console: Console) -> Path:
    """An interpreter with deep-river, set up on first use."""
    if os.environ.get(PYTHON_VARIABLE):
        return Path(os.environ[PYTHON_VARIABLE])
    folder = cache_folder() / "deep-river"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        console.print(f"setting up deep-river in {folder} (once, about a minute)", highlight=False)
        venv.create(folder, with_pip=True, clear=True)
        for packages in (_PACKAGES, ("--no-deps", _DEEP_RIVER)):
            _output(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
        (folder / "ready").touch()
    return python


def _output(python: Path, *arguments: str, text: str | None = None) -> str:
    """What an interpreter prints; one that fails is an error with its last line."""
    done = subprocess.run([str(python), *arguments], input=text, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"{python} ended with {done.returncode}"])[-1]
        raise BraidedError(
            f"deep-river cannot be measured ({reason}): set {PYTHON_VARIABLE} to an interpreter that has it"
        )
    return done.stdout


def _deep_river_us(python: Path, rows: list[dict[Hashable, float]], labels: list[int]) -> float:
    """Microseconds per record. deep-river has no missing values: they are given as zeros."""
    full = [{f"f{j}": row.get(j, 0.0) for j in range(N_FEATURES)} for row in rows]
    return float(_output(python, str(_SCRIPT), text=json.dumps([full, labels])))


def measure(records: int, console: Console) -> dict[str, Any]:
    """Interleaved rounds of both, the best of each, in processor time, which other programs do not take."""
    values, labels = stream(2 * records)
    rows = as_dicts(values)
    python = deep_river_python(console)
    theirs_n = 2 * min(records, _MAX_DEEP_RIVER_RECORDS)
    ours, theirs = [], []
    for turn in range(_ROUNDS):
        console.print(f"round {turn + 1} of {_ROUNDS}", highlight=False)
        theirs.append(_deep_river_us(python, rows[:theirs_n], labels[:theirs_n].tolist()))
        model = MODLClassifier()
        model.learn_many(values[:records], labels[:records])
        ours.append(1e6 * one_record_seconds(model, rows[records:], labels[records:], time.process_time))
    return {
        "records": records,
        "features": N_FEATURES,
        "one_record_us": min(ours),
        "deep_river_us": min(theirs),
        "deep_river_ratio": min(theirs) / min(ours),
    }


def table(result: dict[str, Any]) -> Table:
    """The figures for a person."""
    shown = Table(title=f"Predict + learn, one record at a time, one thread, {result['features']} features, 2 classes")
    for name in ("", "processor time", "records per s"):
        shown.add_column(name, justify="left" if not name else "right")
    for label, us in (
        ("MODLClassifier()", result["one_record_us"]),
        ("deep-river MLP 3x250", result["deep_river_us"]),
    ):
        shown.add_row(label, f"{us:,.0f} us", f"{1e6 / us:,.0f}")
    shown.caption = f"deep-river takes {result['deep_river_ratio']:.1f} times as long"
    return shown


def main(
    records: Annotated[int, typer.Option(min=1, help="Records per measurement.")] = 2_000,
    as_json: JsonOption = False,
) -> None:
    """The default model beside deep-river's MLP, which is set up on first use, in the user's cache."""
    try:
        result = measure(records, Console(stderr=True))
    except BraidedError as error:
        raise SystemExit(str(error)) from None
    if as_json:
        typer.echo(json.dumps(result))
    else:
        Console().print(table(result))


if __name__ == "__main__":
    typer.run(main)
