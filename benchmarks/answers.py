"""How often intervals hold what they say: with labels that come late, and for records that say little.

    python benchmarks/answers.py delay      coverage at level 0.9, as given when the record was predicted
    python benchmarks/answers.py missing    the same for records with few and with many of their features, and the width
    python benchmarks/answers.py sparse     one-hot columns of scikit-learn, with zeros missing and as values

Each prints a table for `docs/answers.md`. SciPy and scikit-learn are needed for the last one.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
from river import datasets
from river.datasets import synth

from braided import MODLClassifier, MODLRegressor

RIVER: Any = datasets
LEVEL = 0.9
#: Records before which nothing is counted.
START = 200
Records = list[tuple[dict[Hashable, float], float]]


def numbers(stream: Any) -> Records:
    """Records with numbers alone: a text is a feature of its own, a time its hour."""
    found = []
    for x, y in stream:
        record: dict[Hashable, float] = {
            str(name): float(value) for name, value in x.items() if isinstance(value, int | float)
        }
        record |= {f"{name} {value}": 1.0 for name, value in x.items() if isinstance(value, str)}
        record |= {f"hour of {name}": float(value.hour) for name, value in x.items() if hasattr(value, "hour")}
        found.append((record, float(y)))
    return found


def walk(n: int) -> Records:
    """A random walk, and a feature that says nothing of it."""
    steps = np.random.default_rng(0).normal(size=(n, 2))
    return [({"a": float(a)}, float(y)) for a, y in zip(steps[:, 0], np.cumsum(steps[:, 1]), strict=True)]


def asked(model: MODLRegressor, records: Records, delay: int) -> Iterator[tuple[bool, float]]:
    """Of each record whether the interval asked for when it came held its value, and how wide it was."""
    waiting: deque[tuple[dict[Hashable, float], float]] = deque()
    for x, y in records:
        low, high = model.predict_interval_one(x, LEVEL)
        yield low <= y <= high, high - low
        waiting.append((x, y))
        if len(waiting) >= max(delay, 1):
            model.learn_one(*waiting.popleft())


def delays() -> None:
    """Coverage of intervals where labels come late."""
    streams = {
        "random walk": walk(4_000),
        "TrumpApproval": numbers(RIVER.TrumpApproval()),
        "WaterFlow": numbers(RIVER.WaterFlow()),
        "Friedman": numbers(synth.Friedman(seed=1).take(4_000)),
        "FriedmanDrift": numbers(synth.FriedmanDrift("gra", (1_500, 2_500), 500, seed=1).take(4_000)),
    }
    late = (0, 20, 100)
    print("| stream | records |", " | ".join(f"{delay} late" for delay in late), "|")
    print("|---|---|" + "---|" * len(late))
    for name, records in streams.items():
        found = []
        for delay in late:
            model = MODLRegressor("lean", delay=delay)
            held = [hit for hit, _ in asked(model, records, delay)][START + 2 * delay :]
            found.append(f"{np.mean(held):.1%} ({model.coverage[LEVEL]:.1%})")
        print(f"| {name} | {len(records):,} |", " | ".join(found), "|", flush=True)


def missing() -> None:
    """Coverage for records with few and with many features, half of which are missing."""
    print("| stream | all | few features | many features | mean width |")
    print("|---|---|---|---|---|")
    for name, stream in {
        "Friedman": synth.Friedman(seed=1),
        "FriedmanDrift": synth.FriedmanDrift("gra", (1_000, 2_000), 200, seed=1),
        "Planes2D": synth.Planes2D(seed=1),
        "Mv": synth.Mv(seed=1),
    }.items():
        rng = np.random.default_rng(0)
        records = [
            ({name: value for name, value in x.items() if rng.random() < 0.5}, y)
            for x, y in numbers(stream.take(3_000))
        ]
        there = np.array([len(x) for x, _ in records])[START:]
        pairs = list(asked(MODLRegressor("lean"), records, 0))[START:]
        held, width = np.array([hit for hit, _ in pairs]), np.mean([width for _, width in pairs])
        few = there < np.median(there)
        print(
            f"| {name} | {held.mean():.1%} | {held[few].mean():.1%} | {held[~few].mean():.1%} | {width:.3g} |",
            flush=True,
        )


def sparse() -> None:
    """Errors on one-hot columns, by what a zero is."""
    from sklearn.preprocessing import OneHotEncoder

    categories = np.random.default_rng(0).integers(5, size=(4_000, 3))
    labels = ((categories[:, 0] > 2) ^ (categories[:, 1] > 2)).astype(int)
    encoded = OneHotEncoder().fit_transform(categories)
    print("| X | errors |")
    print("|---|---|")
    for name, zeros, X in (
        ("sparse", "missing", encoded),
        ("sparse", "value", encoded),
        ("`X.toarray()`", "missing", encoded.toarray()),
    ):
        model = MODLClassifier(zeros=zeros)
        places = model.predict_learn_many(X, labels).values.argmax(axis=1)
        wrong = np.mean(np.array(model.classes)[places] != labels)
        print(f"| {name}{f', zeros={zeros!r}' if name == 'sparse' else ''} | {wrong:.2%} |")


if __name__ == "__main__":
    {"delay": delays, "missing": missing, "sparse": sparse}[sys.argv[1]]()
