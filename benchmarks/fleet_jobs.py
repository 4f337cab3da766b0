"""What `braided run --key --jobs 2` gains, by the way of sharing.

    python benchmarks/fleet_jobs.py

prints a table: records per second of one process and of two, and, as other programs may run meanwhile, the processor
time of one process by that of the busier one of two, which is what two cores without other work would gain at most.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from braided import Fleet, MODLClassifier
from braided.estimators.digest import state_digest
from braided.fleet import SHARES, spread
from braided.fleet.spread import SpreadModels

RECORDS, KEYS, FEATURES, CHUNK = 4_000, 40, 10, 500
PRESETS = ("default", "lean")


def records(seed: int = 0) -> tuple[Any, list[int], list[int]]:
    """Each key has a hyperplane of its own, and as many records as others."""
    random = np.random.default_rng(seed)
    values, keys = random.normal(size=(RECORDS, FEATURES)), random.integers(KEYS, size=RECORDS)
    planes = 1.0 + random.normal(size=(KEYS, FEATURES))
    return values, ((planes[keys] * values).sum(axis=1) > 0).astype(int).tolist(), keys.tolist()


def processor_seconds(process: int) -> float:
    """What a process has used, by the system's count."""
    user, system = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def busiest(fleet: Fleet, here: float) -> float:
    """What the process has used that has used most, this one so many seconds."""
    inside: Any = fleet._inside
    others = inside._processes if isinstance(inside, SpreadModels) else []
    return max([here, *(processor_seconds(one._process.pid) for one in others)])


def measured(share: str, preset: str, jobs: int) -> tuple[float, float, str]:
    """Seconds, processor seconds of the busiest, and the digest of what was learned."""
    values, labels, keys = records()
    fleet = Fleet(MODLClassifier(preset), key="key", share=share)
    with ExitStack() as stack:
        stack.enter_context(spread(fleet, jobs))
        # A first chunk of all keys, so that starting and copying are not in what is measured.
        fleet.learn_many(values[:CHUNK], labels[:CHUNK], keys=keys[:CHUNK])
        idle = busiest(fleet, 0.0)
        start, used = time.perf_counter(), time.thread_time()
        for first in range(CHUNK, RECORDS, CHUNK):
            rows = slice(first, first + CHUNK)
            fleet.learn_many(values[rows], labels[rows], keys=keys[rows])
        seconds, used = time.perf_counter() - start, time.thread_time() - used
        return seconds, max(used, busiest(fleet, 0.0) - idle), state_digest(fleet)


def share_of_keys(preset: str) -> float:
    """Under `braid`, the part of the time that keys' own learners take."""
    values, labels, keys = records()
    fleet = Fleet(MODLClassifier(preset), key="key")
    own: Any = fleet._inside.own  # type: ignore[union-attr]
    learn, spent = own.learn, 0.0

    def timed(*what: Any) -> Any:
        nonlocal spent
        begun = time.thread_time()
        found = learn(*what)
        spent += time.thread_time() - begun
        return found

    own.learn, start = timed, time.thread_time()
    for first in range(0, RECORDS, CHUNK):
        rows = slice(first, first + CHUNK)
        fleet.learn_many(values[rows], labels[rows], keys=keys[rows])
    return spent / (time.thread_time() - start)


def main() -> None:
    """Measure and print."""
    table = Table(title=f"{RECORDS:,} records of {KEYS} keys, {FEATURES} features, two classes")
    for name in ("share", "preset", "records/s", "with 2 jobs", "ratio", "by processor time"):
        table.add_column(name, justify="left" if name in ("share", "preset") else "right")
    for share in SHARES[1:]:
        for preset in PRESETS:
            (one, used, digest), (two, most, same) = (measured(share, preset, jobs) for jobs in (1, 2))
            assert digest == same
            n = RECORDS - CHUNK
            table.add_row(share, preset, f"{n / one:,.0f}", f"{n / two:,.0f}", f"{one / two:.2f}", f"{used / most:.2f}")
    Console().print(table)
    for preset in PRESETS:
        print(
            f"braid, {preset}: keys' own learners take {share_of_keys(preset):.0%} of the time, and run in one process"
        )


if __name__ == "__main__":
    main()
