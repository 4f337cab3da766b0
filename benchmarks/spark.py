"""Fleets in Spark: `python benchmarks/spark.py speed`, and what holding the shared part costs: `... held`.

`speed` runs micro-batches of 5,000 rows, with as few or as many keys among them as a line says. What it prints are
seconds of a processor, of Java and Python together, after the first micro-batch: they are the same on a busy machine.
`held` learns the first half of a stream by `Fleet`, and counts errors on the second.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from braided import Fleet, MODLClassifier, MODLRegressor
from braided.spark import fleet_stream, prepare, read_fleet
from braided.spark.key_steps import state_of
from fleet import Keyed, hyperplanes, surfaces

_ROWS, _FEATURES = 5_000, 8
_NAMES = [f"feature {place}" for place in range(_FEATURES)]
#: share, and keys in a micro-batch.
_CASES = (("braid", 20), ("braid", 1_000), ("none", 20))
#: share, whether what is shared is held, and whether the first half was learned.
_WAYS = (("braid", False, True), ("braid", True, True), ("none", False, True), ("none", False, False))
app = typer.Typer(add_completion=False, help=__doc__)


def _rows(n: int, n_keys: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    values, keys = random.normal(size=(n, _FEATURES)), np.arange(n) % n_keys
    planes = np.random.default_rng(0).normal(size=(n_keys, _FEATURES))
    found = pd.DataFrame(values, columns=_NAMES)
    found["key"], found["time"] = keys, np.arange(n) + seed * n
    found["label"] = ((planes[keys] + 1.0) * values).sum(axis=1) > 0.0
    return found


def _session(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "1").config("spark.local.dir", str(folder / "local"))
    spark = prepare(builder.config("spark.ui.showConsoleProgress", "false")).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _measure(spark: Any, folder: Path, share: str, n_keys: int, batches: int) -> tuple[float, float]:
    """Seconds of a processor that a micro-batch takes, and bytes of a key's state."""
    rows = folder / "rows"
    rows.mkdir(parents=True)
    for part in range(batches):
        _rows(_ROWS, n_keys, part + 1).to_parquet(rows / f"{part}.parquet", index=False)
    given: dict[str, Any] = {"model": MODLClassifier(), "share": share, "key": "key"}
    if share == "braid":
        fleet = Fleet(MODLClassifier(), key="key")
        past = _rows(2_000, n_keys, 0)
        fleet.learn_many(past[_NAMES], past["label"].tolist(), keys=past["key"].tolist())
        given = {"model": fleet}
    stream = spark.readStream.schema(spark.read.parquet(str(rows)).schema).option("maxFilesPerTrigger", 1)
    answers = fleet_stream(stream.parquet(str(rows)), target="label", order="time", **given)
    writer = answers.writeStream.format("parquet").option("path", str(folder / "answers"))
    query = writer.option("checkpointLocation", str(folder / "state")).trigger(availableNow=True).start()
    while not (folder / "state" / "commits" / "0").exists() and query.isActive:
        time.sleep(0.02)
    begun = _processor_seconds()
    query.awaitTermination()
    seconds = (_processor_seconds() - begun) / (batches - 1)
    after = read_fleet(spark, folder / "state", **given)
    return seconds, median(len(state_of(after, key)) for key in after.keys[:50])


def _processor_seconds() -> float:
    """What this process and all that it has started have taken of processors."""
    ticks: dict[int, float] = {}
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(stat.parent.name)] = int(fields[1])
        ticks[int(stat.parent.name)] = sum(map(int, fields[11:15]))  # with its children that have ended
    ours = {os.getpid()}
    for _ in parents:
        more = {process for process, parent in parents.items() if parent in ours} - ours
        if not more:
            break
        ours |= more
    return sum(ticks[process] for process in ours if process in ticks) / os.sysconf("SC_CLK_TCK")


@app.command()
def speed(batches: Annotated[int, typer.Option(min=2, max=100, help="Micro-batches of each case.")] = 5) -> None:
    """Seconds of a processor for a micro-batch, records/s of a core, and bytes of a key."""
    print("| share | keys in a micro-batch | rows of each | seconds | records/s a core | kB a key |")
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        spark = _session(Path(name))
        for case, (share, n_keys) in enumerate(_CASES):
            seconds, size = _measure(spark, Path(name) / str(case), share, n_keys, batches)
            rest = f"{seconds:.1f} | {_ROWS / seconds:,.0f} | {size / 1e3:.1f}"
            print(f"| `{share}` | {n_keys:,} | {_ROWS // n_keys} | {rest} |", flush=True)
        spark.stop()


def _error(fleet: Fleet, stream: Keyed, part: slice) -> float:
    """Percent of errors, or the mean absolute error, of records that are predicted, then learned."""
    names = [str(place) for place in range(stream.values.shape[1])]
    keys, targets = stream.keys[part].tolist(), stream.targets[part]
    said = np.asarray(fleet.predict_learn_many(stream.values[part], targets.tolist(), names, keys=keys).values)
    if targets.dtype.kind == "f":
        return float(np.abs(said[:, 0] - targets).mean())
    labels = np.array([*fleet.classes, -1])
    return 100.0 * float((labels[np.where(said.any(axis=1), said.argmax(axis=1), -1)] != targets).mean())


@app.command()
def held() -> None:
    """Errors on the second half of a stream, by what goes on learning."""
    print("| stream, its second half | all go on | keys alone | a model a key | a model a key, from nothing |")
    print("|---|---:|---:|---:|---:|")
    for name, stream in (
        ("hyperplanes, 200 keys", hyperplanes(1, drifting=0.0)),
        ("the same, a fifth of the keys drift halfway", hyperplanes(1)),
        ("hyperplanes close together, 1,000 keys", hyperplanes(1, n_keys=1_000, apart=0.2, drifting=0.0)),
        ("surfaces, 100 keys (number)", surfaces(1)),
    ):
        model = MODLRegressor if stream.targets.dtype.kind == "f" else MODLClassifier
        half, found = len(stream.keys) // 2, []
        for share, hold, past in (
            ("braid", False, True),
            ("braid", True, True),
            ("none", False, True),
            ("none", False, False),
        ):
            fleet = Fleet(model(), key="key", share=share)
            if past:
                _error(fleet, stream, slice(0, half))
            if hold:
                fleet.hold_shared()
            found.append(_error(fleet, stream, slice(half, None)))
        print(f"| {name} | {' | '.join(f'{error:.3g}' for error in found)} |", flush=True)


if __name__ == "__main__":
    app()
