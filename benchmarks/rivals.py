"""What River's models are best given: `python benchmarks/rivals.py`.

Each gets a category as numbers or as a word, and what is missing left out or filled in by River's imputer. A rival
that is run otherwise than its users would run it is no rival.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from numbers import Number
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from river.compose import Pipeline, SelectType
from river.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from braided import record, zoo
from braided.cli.options import JsonOption
from braided.estimators.params import ModelParams
from braided.estimators.river import RiverClassifier
from braided.run import Job, RunOptions
from braided.zoo import ModelOptions
from braided.zoo.rivals import ColumnImputer

RIVALS = ("river-logistic", "river-nb", "river-tree", "river-arf", "river-srp", "river-amf", "river-knn")
#: What stands before a rival's numbers.
SCALERS = {"river-logistic": StandardScaler, "river-amf": MinMaxScaler, "river-knn": StandardScaler}
#: Whose own business words are; the others get them one-hot, beside the scaled numbers.
TAKE_WORDS = ("river-tree", "river-arf", "river-srp")
#: (words, imputer) of each column of the table.
WAYS = {
    "numbers": (False, False),
    "words": (True, False),
    "numbers, imputer": (False, True),
    "words, imputer": (True, True),
}
_DELIVERIES = str(Path(__file__).resolve().parents[1] / "docs" / "deliveries.csv")


def write_machines(path: Path, records: int = 4_000) -> None:
    """Thirty machines, each of which fails above a load of its own."""
    rng = random.Random(0)
    most = {f"M-{i:02}": rng.uniform(20, 80) for i in range(30)}
    lines = ["machine,load,failed"]
    for _ in range(records):
        machine, load = rng.choice(list(most)), rng.uniform(0, 100)
        lines.append(f"{machine},{load:.1f},{'yes' if load > most[machine] else 'no'}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def streams(folder: Path, files: list[Path]) -> dict[str, RunOptions]:
    """What is measured on, each with a name; of what is complete by nature, half of the values are hidden."""
    write_machines(folder / "machines.csv")
    deliveries = RunOptions(_DELIVERIES, drop=("order",), na=("temperature=-999",))
    half = {name: RunOptions(name, available=0.5, always=0) for name in ("svmguide3", "german", "magic04")}
    half |= {file.name.partition(".")[0]: RunOptions(str(file), available=0.5) for file in files}
    return {
        "machines": RunOptions(str(folder / "machines.csv")),
        "deliveries": deliveries,
        "deliveries, half": RunOptions(_DELIVERIES, drop=("order",), na=("temperature=-999",), available=0.5),
        **{f"{name}, half": options for name, options in half.items()},
    }


def built(name: str, words: bool, imputer: bool, seed: int) -> RiverClassifier:
    """A rival that is given its records in one of the ways."""
    model: Any = zoo.build(name, ModelOptions(ModelParams(seed=seed)))
    last = model.model
    while hasattr(last, "steps"):
        last = list(last.steps.values())[-1]
    scaler = SCALERS.get(name)
    before: list[Any] = [ColumnImputer()] if imputer else []
    if words and name not in TAKE_WORDS:
        numbers: Any = SelectType(Number) if scaler is None else SelectType(Number) | scaler()
        before.append(numbers + (SelectType(str) | OneHotEncoder()))
    elif scaler is not None:
        before.append(scaler())
    return RiverClassifier(Pipeline(*before, last.clone()), words)


def measure(
    models: list[str], files: list[Path], limit: int, seeds: int, data_dir: Path | None, console: Console
) -> list[dict[str, Any]]:
    """A row for each model and stream: errors, means over the seeds."""
    found = []
    with TemporaryDirectory() as folder:
        for stream, options in streams(Path(folder), files).items():
            console.print(stream, highlight=False)
            job = Job(replace(options, limit=limit), data_dir)
            for model in models:
                errors = {
                    way: fmean(errors_of(built(model, words, imputer, seed), job.stream(seed)) for seed in range(seeds))
                    for way, (words, imputer) in WAYS.items()
                }
                found.append({"model": model, "stream": stream, "errors": errors})
    return found


def errors_of(model: RiverClassifier, stream: Any) -> float:
    """How many records a model gets wrong."""
    history = record(model, stream)
    return history.error * history.records


def markdown(rows: list[dict[str, Any]]) -> str:
    """The figures as a Markdown table, for each model with the sum over the streams."""
    lines = [f"| model | stream | {' | '.join(WAYS)} |", f"|---|---|{'---:|' * len(WAYS)}"]
    for model in dict.fromkeys(row["model"] for row in rows):
        of_model = [row for row in rows if row["model"] == model]
        sums = {way: sum(row["errors"][way] for row in of_model) for way in WAYS}
        for row in (*of_model, {"model": model, "stream": "**sum**", "errors": sums}):
            cells = [f"{row['errors'][way]:.0f}" for way in WAYS]
            lines.append(f"| {model} | {row['stream']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(
    model: Annotated[list[str], typer.Option("--model", "-m", help="Models; repeat for more.")] = list(RIVALS),  # noqa: B006
    file: Annotated[
        list[Path], typer.Option("--file", help="More streams, of whose values half are hidden; repeat for more.")
    ] = [],  # noqa: B006
    limit: Annotated[int, typer.Option(min=1, help="Records of each stream.")] = 1_000,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each model and stream.")] = 1,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="BRAIDED_DATA", help="Folder with the data sets, one sub-folder each.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """River's models, given their records in several ways (a quarter of an hour, most of it for river-srp)."""
    rows = measure(model, file, limit, seeds, data_dir, Console(stderr=True))
    typer.echo(json.dumps(rows) if as_json else markdown(rows))


if __name__ == "__main__":
    typer.run(main)
