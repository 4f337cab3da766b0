"""How long predictions wait for a model that learns in another thread: `python benchmarks/threads.py`.

One thread learns a chunk, others ask for predictions with a pause in between. The table has how long `predict_one` took
alone and beside that thread, also in updates (the time of a record in a chunk that is learned alone), and how much
longer learning took. `late` is the control: how much longer than they wanted the threads slept at p99, which is the
machine's doing. The last line has what a lock costs where nobody waits, and Python's own `RLock`.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
import timeit
from typing import Any

import numpy as np

from braided import Fleet, MODLClassifier
from braided.estimators.lock import ModelLock

FEATURES, FIRST = 21, 1_000
#: Seconds between a reader's requests.
PAUSE = 0.002


def asked(
    model: Any, records: list[dict[Any, Any]], learned: threading.Event, found: list[tuple[float, float]]
) -> None:
    """Ask for predictions until the chunk is learned; note how long each took, and how long too long the pause was."""
    while not learned.is_set():
        begin = time.perf_counter()
        model.predict_one(records[len(found) % len(records)])
        answered = time.perf_counter()
        time.sleep(PAUSE)
        found.append((answered - begin, time.perf_counter() - answered - PAUSE))


def measured(kind: str, n: int, threads: int) -> list[str]:
    """A row of the table."""
    random = np.random.default_rng(0)
    values = random.normal(size=(FIRST + 2 * n, FEATURES))
    labels = (values[:, 0] * values[:, 1] > 0).astype(np.int64)
    preset, _, fleet = kind.partition(" ")
    model: Any = MODLClassifier(preset)
    more: dict[str, Any] = {}
    records: list[dict[Any, Any]] = [dict(enumerate(row)) for row in values[:100].tolist()]
    if fleet:
        model = Fleet(model, key="key")
        more = {"keys": [f"k{i % 100}" for i in range(n)]}
        records = [x | {"key": f"k{i}"} for i, x in enumerate(records)]
    model.learn_many(
        values[:FIRST], labels[:FIRST], **({"keys": [f"k{i % 100}" for i in range(FIRST)]} if fleet else {})
    )
    begin = time.perf_counter()
    model.learn_many(values[FIRST : FIRST + n], labels[FIRST : FIRST + n], **more)
    alone = time.perf_counter() - begin
    quiet = timeit.repeat(lambda: model.predict_one(records[0]), number=1, repeat=1_000)
    done, seconds = threading.Event(), list[tuple[float, float]]()
    readers = [threading.Thread(target=asked, args=(model, records, done, seconds)) for _ in range(threads)]
    for reader in readers:
        reader.start()
    begin = time.perf_counter()
    model.learn_many(values[FIRST + n :], labels[FIRST + n :], **more)
    together = time.perf_counter() - begin
    done.set()
    for reader in readers:
        reader.join()
    update = alone / n
    took, late = np.array(seconds).T
    half, most, worst = np.quantile(took, [0.5, 0.99, 1.0])
    return [
        kind,
        f"{update * 1e6:.0f} us",
        f"{np.median(quiet) * 1e6:.0f} us",
        f"{len(seconds):,}",
        f"{half * 1e6:,.0f} us = {half / update:.1f} updates",
        f"{most * 1e6:,.0f} us = {most / update:.1f} updates",
        f"{worst * 1e3:,.1f} ms",
        f"{np.quantile(late, 0.99) * 1e6:,.0f} us",
        f"{together / alone - 1:+.0%}",
    ]


def lock_cost(context: Any) -> float:
    """Nanoseconds of processor time to enter and leave a lock that nobody else wants."""
    number = 100_000

    def nothing() -> None:
        for _ in range(number):
            pass

    def enter() -> None:
        for _ in range(number):
            with context:
                pass

    empty, entering = (
        min(timeit.repeat(work, timer=time.process_time, number=1, repeat=15)) for work in (nothing, enter)
    )
    return (entering - empty) / number * 1e9


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="How long predictions wait beside a chunk that is being learned.")
    parser.add_argument("--records", type=int, default=100_000, help="in the chunk; a tenth of it for a fleet")
    parser.add_argument("--threads", type=int, default=3, help="that ask for predictions")
    parser.add_argument("models", nargs="*", default=["default", "lean", "lean fleet"], help="presets, or 'lean fleet'")
    options = parser.parse_args()
    print("| model | update in a chunk | predict_one alone | predictions | median | p99 | longest | late | learning |")
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in options.models:
        n = options.records // 10 if kind.endswith("fleet") else options.records
        print("|", " | ".join(measured(kind, n, options.threads)), "|", flush=True)
    lock = ModelLock()
    costs = [
        f"{name} {lock_cost(one):.0f} ns"
        for name, one in (("a reader's", lock), ("a writer's", lock.writing), ("an RLock", threading.RLock()))
    ]
    print(f"\nThe lock alone: {', '.join(costs)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
