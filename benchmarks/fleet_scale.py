"""Memory and speed of a braided fleet with 1,000, 10,000 and 100,000 keys: `python benchmarks/fleet_scale.py`."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.fleet import Fleet
from braided.learners import LogisticConfig
from measured import parser, show
from memory import resident_mib

#: Numbers of keys, and features of the records.
KEYS, FEATURES = (1_000, 10_000, 100_000), 8
_CHUNK = 500
#: Keys that are asked for one by one.
_ASKED = 200


def _records(n: int, n_keys: int, seed: int) -> tuple[Any, list[int], list[int]]:
    """Records of which each key has as many, in random order."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(n, FEATURES))
    keys = random.permutation(np.arange(n) % n_keys)
    return values, (values[:, 0] * np.where(keys % 2, 1.0, -1.0) > 0).astype(int).tolist(), keys.tolist()


def _learn(fleet: Fleet, n: int, n_keys: int, seed: int) -> float:
    """Teach it n records; returns how many in a second."""
    values, labels, keys = _records(n, n_keys, seed)
    start = time.perf_counter()
    for first in range(0, n, _CHUNK):
        rows = slice(first, first + _CHUNK)
        fleet.learn_many(values[rows], labels[rows], keys=keys[rows])
    return n / (time.perf_counter() - start)


def _ask(fleet: Fleet, keys: list[int]) -> list[float]:
    """How many milliseconds the answer for each of these keys takes."""
    x: dict[Hashable, Any] = dict.fromkeys(range(FEATURES), 0.5)
    found = []
    for key in keys:
        start = time.perf_counter()
        fleet.predict_proba_one({**x, "key": key})
        found.append(1e3 * (time.perf_counter() - start))
    return found


def measure(records: int, console: Console) -> dict[str, Any]:
    """Learn at least one record of each key, or `records`; then ask for keys in memory, and for such on disk.

    The shared model is a single linear learner, so that the figures are about the fleet.
    """
    model = MODLClassifier(learners=(LogisticConfig(),))
    console.print("first records: compiling", highlight=False)
    _learn(Fleet(model, key="key"), _CHUNK, 10, seed=0)
    points = []
    for n_keys in KEYS:
        before, n = resident_mib(), max(records, n_keys)
        fleet = Fleet(model, key="key")
        speed = _learn(fleet, n, n_keys, seed=1)
        grown = resident_mib() - before
        in_memory = _ask(fleet, list(range(0, n_keys, max(n_keys // _ASKED, 1)))[:_ASKED])
        small = Fleet(model, key="key", in_memory=n_keys // 10)
        disk_speed = _learn(small, n, n_keys, seed=1)
        known = set(small._inside.resident)
        away = [key for key in range(n_keys) if f"i{key}" not in known][:_ASKED]
        on_disk = _ask(small, away)
        points.append(
            {
                "keys": n_keys,
                "mib": round(grown, 1),
                "kb_per_key": round(grown * 2**20 / 1e3 / n_keys, 2),
                "records_per_second": round(speed),
                "ms_in_memory": round(float(np.median(in_memory)), 3),
                "records_per_second_on_disk": round(disk_speed),
                "ms_on_disk": round(float(np.median(on_disk)), 3),
                "ms_on_disk_90": round(float(np.quantile(on_disk, 0.9)), 3),
            }
        )
        console.print(points[-1], highlight=False)
        del fleet, small
    return {"features": FEATURES, "points": points}


def table(result: dict[str, Any]) -> Table:
    """The figures for a person."""
    shown = Table(title=f"A braided fleet, {result['features']} features, two classes")
    titles = (
        "keys", "MiB", "kB a key", "records/s", "ms an answer", "records/s, a tenth in memory",
        "ms an answer from disk", "90 %",
    )  # fmt: skip
    for title in titles:
        shown.add_column(title, justify="right")
    for point in result["points"]:
        shown.add_row(*(f"{value:,}" for value in point.values()))
    return shown


if __name__ == "__main__":
    show(measure, table, parser(__doc__, records=20_000).parse_args())
