"""Time per record of the paper's architecture beside the floor of memory traffic, or beside that of a commit.

    python benchmarks/speed.py                              ours, the floor, and a cold start
    python benchmarks/speed.py --against HEAD~3             presets default and lean, of this tree and of a commit
    python benchmarks/speed.py --against 03c0fc2 lean       this preset alone

The floor is every weight read once forward, read and written once backward. Against a commit, each round starts one
process for each tree, one after the other, so that both meet the same machine; the table has the least processor time
of all rounds. `chunks` are records predicted and learned by `predict_learn_many`, 1,000 at a time, `one by one` the
same by `predict_proba_one` and `learn_one`. The commit is checked out into a temporary git worktree, and compiles its
kernels first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.learners import LogisticConfig, MLPConfig, SetConfig
from braided.presets import Preset
from measured import parser, show

Clock = Callable[[], float]
ROOT = Path(__file__).resolve().parents[1]
FEATURES, CHUNK, FIRST = 21, 1_000, 500
RECORDS = {"chunks": 20_000, "one by one": 6_000}
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


@cache
def _three_passes() -> Any:
    from numba import njit  # slow to import, and of no use against a commit

    def passes(weights: Any, scale: Any) -> Any:
        total = weights.dtype.type(0)
        for i in range(weights.shape[0]):
            total += weights[i]  # returned, so that the reads are not dropped
        for i in range(weights.shape[0]):
            weights[i] *= scale
        return total

    return njit(fastmath={"reassoc", "contract", "nsz", "arcp"})(passes)


def floor_seconds(n_weights: int, records: int) -> float:
    """Seconds per record for three passes over `n_weights` float32 weights: the memory traffic of learning."""
    passes, weights, one = _three_passes(), np.ones(n_weights, dtype=np.float32), np.float32(1.0)
    passes(weights, one)
    start = time.perf_counter()
    for _ in range(records):
        passes(weights, one)
    return (time.perf_counter() - start) / records


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


def processor_times(preset: str) -> dict[str, float]:
    """Seconds of processor time per record, by how records come."""
    random = np.random.default_rng(0)
    n = FIRST + max(RECORDS.values())
    values = random.normal(size=(n, FEATURES))
    labels = (values[:, 0] * values[:, 1] + 0.3 * random.normal(size=n) > 0).astype(np.int64)
    values[random.random(values.shape) < 0.3] = np.nan
    rows: list[dict[Hashable, float]] = [{i: v for i, v in enumerate(row) if v == v} for row in values.tolist()]
    seconds = {}
    for how, records in RECORDS.items():
        model = MODLClassifier(preset)
        model.learn_many(values[:FIRST], labels[:FIRST])
        model.predict_proba_one(rows[0])
        start = time.process_time()
        if how == "chunks":
            for at in range(FIRST, FIRST + records, CHUNK):
                model.predict_learn_many(values[at : at + CHUNK], labels[at : at + CHUNK])
        else:
            for x, y in zip(rows[FIRST : FIRST + records], labels[FIRST : FIRST + records].tolist(), strict=True):
                model.predict_proba_one(x)
                model.learn_one(x, y)
        seconds[how] = (time.process_time() - start) / records
    return seconds


def processor_times_in(tree: Path, preset: str) -> dict[str, float]:
    """The same with the code of that tree, in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--here", preset]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    found = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    seconds: dict[str, float] = json.loads(found.stdout)
    return seconds


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """A commit's files in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="braided-speed-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def main() -> int:
    """The command."""
    given = parser(__doc__, records=2_000)
    given.add_argument("presets", nargs="*", default=["default", "lean"], metavar="PRESET")
    given.add_argument("--against", metavar="COMMIT", help="compare presets with this commit")
    given.add_argument("--rounds", type=int, default=5, help="how often each tree is measured against a commit")
    given.add_argument("--here", metavar="PRESET", help=argparse.SUPPRESS)
    options = given.parse_args()
    if options.here:
        print(json.dumps(processor_times(options.here)))
        return 0
    if not options.against:
        show(measure, table, options)
        return 0
    print(f"| preset | records | {options.against} | this tree | ratio |")
    print("|---|---|---|---|---|")
    with worktree(options.against) as before:
        for preset in options.presets:
            rounds = [
                (processor_times_in(before, preset), processor_times_in(ROOT, preset)) for _ in range(options.rounds)
            ]
            for how in RECORDS:
                was, now = (min(one[tree][how] for one in rounds) * 1e6 for tree in (0, 1))
                print(f"| {preset} | {how} | {was:.1f} us | {now:.1f} us | {now / was:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
