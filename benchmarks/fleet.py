"""A braided fleet beside what else can be done with keys: `python benchmarks/fleet.py`.

Each stream has a key: a machine, a chick, an hour of the day. Predicted record by record, then learned, are (a) one
model with the key one-hot, (b) one model without it, (c) a model for each key, (d) one for each key that starts as a
copy of (b), and the fleet. Generated streams are those of several seeds; (a) is left out beyond 250 keys.
"""

from __future__ import annotations

import csv
import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from river import datasets
from river.datasets import synth

from braided import Fleet, MODLClassifier, MODLRegressor

_MAX_ONE_HOT = 250
_CHUNK = 500


class Keyed(NamedTuple):
    """Records, their targets and keys; a target of whole numbers is a class."""

    values: NDArray[np.float64]
    targets: NDArray[Any]
    keys: NDArray[np.int64]


def _zipf(random: np.random.Generator, n_keys: int, n: int, exponent: float = 1.0) -> NDArray[np.int64]:
    """Keys of which the k-th most frequent comes as often as 1 / k^exponent."""
    shares = 1.0 / np.arange(1, n_keys + 1) ** exponent
    return random.permutation(n_keys)[random.choice(n_keys, n, p=shares / shares.sum())]


def hyperplanes(
    seed: int, n_keys: int = 200, n: int = 12_000, apart: float = 0.7, classes: int = 2, drifting: float = 0.2
) -> Keyed:
    """For each key a random hyperplane around a common one; some change halfway; 5 % of the labels are noise."""
    random = np.random.default_rng(seed)
    keys, rows = _zipf(random, n_keys, n), 1 if classes == 2 else classes
    common = random.normal(size=(rows, 11))
    planes = [common + apart * random.normal(size=(n_keys, rows, 11)) for _ in range(2)]
    drifts = random.random(n_keys) < drifting
    values = random.normal(size=(n, 10))
    of_record = np.where((drifts[keys] & (np.arange(n) > n // 2))[:, None, None], planes[1][keys], planes[0][keys])
    scores = (of_record * np.column_stack([np.ones(n), values])[:, None, :]).sum(axis=2)
    targets = (scores[:, 0] > 0).astype(np.int64) if classes == 2 else scores.argmax(axis=1)
    noise = random.random(n) < 0.05
    targets[noise] = random.integers(classes, size=int(noise.sum()))
    return Keyed(values, targets, keys)


def states(seed: int, n_keys: int = 100, n: int = 12_000) -> Keyed:
    """Machines in one of three states, each of which lasts for ten records of the machine; sensors tell little."""
    random = np.random.default_rng(seed)
    keys, state = _zipf(random, n_keys, n, 0.7), random.integers(3, size=n_keys)
    means, targets = 0.4 * random.normal(size=(3, 4)), np.zeros(n, dtype=np.int64)
    for t, key in enumerate(keys):
        if random.random() < 0.1:
            state[key] = random.integers(3)
        targets[t] = state[key]
    return Keyed(means[targets] + random.normal(size=(n, 4)), targets, keys)


def surfaces(seed: int, n_keys: int = 100, n: int = 12_000) -> Keyed:
    """A number: a level and slopes of each key, and a curve that all have."""
    random = np.random.default_rng(seed)
    keys, values = _zipf(random, n_keys, n), random.normal(size=(n, 8))
    slopes, levels = random.normal(size=8) + 0.7 * random.normal(size=(n_keys, 8)), random.normal(size=n_keys)
    targets = 1.4 * levels[keys] + (slopes[keys] * values).sum(axis=1) + np.sin(2.0 * values[:, 0])
    return Keyed(values, targets + 0.5 * random.normal(size=n), keys)


def agrawal(seed: int, n_keys: int = 20, n: int = 12_000) -> Keyed:
    """River's Agrawal stream: each key has one of its ten functions, none of which is linear."""
    keys = _zipf(np.random.default_rng(seed), n_keys, n, 0.5)
    sources = [iter(synth.Agrawal(classification_function=k % 10, seed=100 * seed + k)) for k in range(n_keys)]
    records = [next(sources[key]) for key in keys]
    values = np.array([list(x.values()) for x, _ in records], dtype=np.float64)
    return Keyed(values, np.array([y for _, y in records]), keys)


def products(seed: int, n_keys: int = 20, n: int = 8_000) -> Keyed:
    """Whether two of four values have the same sign, or another one, as the key has it: no key is linear at all."""
    random = np.random.default_rng(seed)
    keys, values = _zipf(random, n_keys, n, 0.5), random.normal(size=(n, 4))
    signs = np.where(random.random(n_keys) < 0.5, -1.0, 1.0)
    return Keyed(values, (signs[keys] * values[:, 0] * values[:, 1] > 0.0).astype(np.int64), keys)


def chicks(seed: int) -> Keyed:
    """River's ChickWeights: the weight of a chick by its age and diet."""
    records: list[Any] = list(datasets.ChickWeights())  # type: ignore[no-untyped-call]
    values = [[float(x["time"]), *(float(int(x["diet"]) == diet) for diet in range(1, 5))] for x, _ in records]
    keys = np.array([int(x["chick"]) for x, _ in records])
    return Keyed(np.array(values), np.array([float(y) for _, y in records]), keys)


def pollsters(seed: int) -> Keyed:
    """River's TrumpApproval, one record a pollster: what it says by the day."""
    names = ("gallup", "ipsos", "morning_consult", "rasmussen", "you_gov")
    polls: list[Any] = list(datasets.TrumpApproval())  # type: ignore[no-untyped-call]
    records = [(x["ordinal_date"], x[name], key) for x, _ in polls for key, name in enumerate(names)]
    days, targets, keys = zip(*records, strict=True)
    return Keyed(np.array(days, dtype=np.float64)[:, None], np.array(targets), np.array(keys))


def _electricity(n: int) -> list[dict[str, str]]:
    folder = os.environ.get("BRAIDED_DATA", "../shared/data")
    with gzip.open(Path(folder) / "streams" / "electricity.csv.gz", "rt") as file:
        return [row for row, _ in zip(csv.DictReader(file), range(n), strict=False)]


def demand(seed: int) -> Keyed:
    """New South Wales's demand for electricity, by half-hour of the day."""
    rows = _electricity(12_000)
    values = [
        [*(float(row[name]) for name in ("date", "vicprice", "vicdemand", "transfer")), *_weekday(row)] for row in rows
    ]
    return Keyed(np.array(values), np.array([float(row["nswdemand"]) for row in rows]), _half_hours(rows))


def price(seed: int) -> Keyed:
    """Whether its price rises, by half-hour of the day: its label hardly depends on the key."""
    rows, names = _electricity(12_000), ("date", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")
    values = [[*(float(row[name]) for name in names), *_weekday(row)] for row in rows]
    return Keyed(np.array(values), np.array([int(row["class"] == "UP") for row in rows]), _half_hours(rows))


def _weekday(row: dict[str, str]) -> list[float]:
    return [float(float(row["day"]) == day) for day in range(1, 8)]


def _half_hours(rows: list[dict[str, str]]) -> NDArray[np.int64]:
    return np.array([round(47 * float(row["period"])) for row in rows])


#: Name -> stream, and whether it is generated.
STREAMS: dict[str, tuple[Callable[[int], Keyed], bool]] = {
    "hyperplanes, 200 keys, some drift": (hyperplanes, True),
    "hyperplanes close together, 1,000 keys": (
        lambda seed: hyperplanes(seed, 1_000, apart=0.2, drifting=0.0),
        True,
    ),
    "hyperplanes, 20 keys far apart": (lambda seed: hyperplanes(seed, 20, 8_000, apart=1.0), True),
    "hyperplanes, 4 classes, 50 keys": (lambda seed: hyperplanes(seed, 50, apart=1.0, classes=4), True),
    "one concept for all 200 keys": (lambda seed: hyperplanes(seed, 200, 8_000, apart=0.0, drifting=0.0), True),
    "states that last, 100 keys": (states, True),
    "Agrawal, a function per key, 20 keys": (agrawal, True),
    "products, a sign per key, 20 keys": (products, True),
    "surfaces, 100 keys": (surfaces, True),
    "chick weights, 50 chicks": (chicks, False),
    "approval, 5 pollsters": (pollsters, False),
    "electricity demand, 48 half-hours": (demand, False),
    "electricity price, 48 half-hours": (price, False),
}
COLUMNS = ("fleet", "a one-hot", "b one model", "c separate", "d start")


def _error(predictions: NDArray[np.float64], classes: list[Any], targets: NDArray[Any]) -> float:
    """The share of errors in percent, or the mean absolute error."""
    if not classes:
        return float(np.abs(predictions[:, 0] - targets).mean())
    return 100.0 * float((np.array(classes)[predictions.argmax(axis=1)] != targets).mean())


def _run(model: Any, stream: Keyed, keys: bool) -> float:
    found = []
    labels = stream.targets.tolist()
    for start in range(0, len(labels), _CHUNK):
        rows = slice(start, start + _CHUNK)
        given = {"keys": stream.keys[rows]} if keys else {}
        found.append(model.predict_learn_many(stream.values[rows], labels[rows], **given).values)
    width = max(part.shape[1] for part in found)
    whole = np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in found])
    return _error(whole, model.classes, stream.targets)


def measure(stream: Keyed, seed: int, start: bool) -> dict[str, float]:
    """Each contestant's error."""
    kind = MODLClassifier if stream.targets.dtype.kind in "iub" else MODLRegressor
    distinct = np.unique(stream.keys)
    found = {
        "fleet": _run(Fleet(kind(seed=seed), key="key"), stream, keys=True),
        "b one model": _run(kind(seed=seed), stream, keys=False),
        "c separate": _run(Fleet(kind(seed=seed), key="key", share="none", in_memory=2_000), stream, keys=True),
    }
    if start:
        found["d start"] = _run(Fleet(kind(seed=seed), key="key", share="start", in_memory=2_000), stream, keys=True)
    if distinct.size <= _MAX_ONE_HOT:
        one_hot = (stream.keys[:, None] == distinct).astype(np.float64)
        wide = stream._replace(values=np.column_stack([stream.values, one_hot]))
        found["a one-hot"] = _run(kind(seed=seed), wide, keys=False)
    return found


def main(
    seeds: Annotated[int, typer.Option(help="Seeds of the generated streams.")] = 3,
    only: Annotated[list[str] | None, typer.Option(help="Streams whose name holds this text. Repeatable.")] = None,
    start: Annotated[bool, typer.Option(help="Also models that start as copies, which takes long.")] = True,
) -> None:
    """Print a Markdown table: percent of errors, or mean absolute errors."""
    print(f"| stream | {' | '.join(COLUMNS)} | seconds |\n|---|{'---:|' * (len(COLUMNS) + 1)}")
    for name, (make, generated) in STREAMS.items():
        if only and not any(text in name for text in only):
            continue
        began, many = time.perf_counter(), range(1, 1 + (seeds if generated else 1))
        results = [measure(make(seed), seed, start) for seed in many]
        cells = []
        for column in COLUMNS:
            values = [result[column] for result in results if column in result]
            cells.append(f"{fmean(values):.3g}" if values else "")
        print(f"| {name} | {' | '.join(cells)} | {time.perf_counter() - began:.0f} |", flush=True)


if __name__ == "__main__":
    typer.run(main)
