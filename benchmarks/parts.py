"""The default beside its own learners and the plain guesses: `python benchmarks/parts.py`.

The first records decide whether a model is used at all, and a sum of learners must not be worse than one of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

import candidates
from braided import MODLClassifier, zoo
from braided.cli.options import JsonOption
from braided.estimators.params import ModelParams
from braided.evaluation import Evaluation
from braided.kernels.tally import LAST, USUAL
from braided.run import Job, RunOptions
from braided.streams.base import only_records
from braided.zoo import ModelOptions

#: Those of the candidates, the long ones less short.
STREAMS: dict[str, int | None] = {**candidates.STREAMS, "magic04": None, "a8a": 10_000, "shuttle": 10_000}
#: Where the first errors are counted, and from where on the sum and its learners are compared.
FIRST = (200, 500, 1_000)
_AFTER = 200
_RIVAL = "river-logistic"


def _losses(model: Any, stream: str, seed: int, limit: int | None, data_dir: Path | None) -> tuple[Any, Any]:
    """Errors so far at each of `FIRST` and at the end, one row each: answer, plain guesses, learners; and the names."""
    evaluation = Evaluation(model)
    rows: list[Any] = []
    job = Job(RunOptions(stream, seed=seed, limit=limit), data_dir)
    for batch in only_records(job.stream(seed)):
        start = 0
        while start < len(batch):
            stop = next((n for n in FIRST if n > evaluation.records), None)
            end = len(batch) if stop is None else min(len(batch), start + stop - evaluation.records)
            evaluation.observe(batch.part(start, end))
            start = end
            if evaluation.records in FIRST and len(rows) < len(FIRST):
                rows.append(evaluation.history.tally.totals.copy())
    rows.append(evaluation.history.tally.totals.copy())
    return np.array(rows), list(evaluation.history.learners)


def measure(seeds: int, data_dir: Path | None, console: Console) -> list[dict[str, Any]]:
    """A row for each stream: means over the seeds."""
    found = []
    for stream, limit in STREAMS.items():
        console.print(stream, highlight=False)
        ours, theirs = [], []
        for seed in range(seeds):
            losses, names = _losses(MODLClassifier(seed=seed), stream, seed, limit, data_dir)
            ours.append(losses)
            rival = zoo.build(_RIVAL, ModelOptions(ModelParams(seed=seed)))
            theirs.append(_losses(rival, stream, seed, limit, data_dir)[0])
        losses, rival_losses = np.mean(ours, axis=0), np.mean(theirs, axis=0)
        after = losses[-1] - losses[FIRST.index(_AFTER)]
        parts = after[LAST + 1 :]
        best = int(parts.argmin())
        found.append(
            {
                "stream": stream,
                "first": {n: losses[i, [0, USUAL, LAST]].tolist() for i, n in enumerate(FIRST)},
                "rival_first": {n: float(rival_losses[i, 0]) for i, n in enumerate(FIRST)},
                "errors": float(losses[-1, 0]),
                "rival_errors": float(rival_losses[-1, 0]),
                "best_learner": names[best],
                "against_best": float(after[0] / max(parts[best], 1.0) - 1.0),
            }
        )
    return found


def markdown(rows: list[dict[str, Any]]) -> str:
    """The figures as a Markdown table: ours / majority / last label / logistic regression."""
    header = [
        "stream",
        *(f"at {n:,}" for n in FIRST),
        "all, ours / logistic",
        f"from {_AFTER} on, against its best learner",
    ]
    lines = [f"| {' | '.join(header)} |", f"|---|{'---:|' * (len(header) - 1)}"]
    for row in rows:
        cells = []
        for n in FIRST:
            ours, majority, last = row["first"][n]
            cells.append(f"{ours:.0f} / {majority:.0f} / {last:.0f} / {row['rival_first'][n]:.0f}")
        cells.append(f"{row['errors']:.0f} / {row['rival_errors']:.0f}")
        cells.append(f"{100 * row['against_best']:+.1f}% ({row['best_learner']})")
        lines.append(f"| {row['stream']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each stream.")] = 3,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="BRAIDED_DATA", help="Folder with the data sets, one sub-folder each.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The default beside the plain guesses, River's logistic regression and its own learners (some minutes)."""
    rows = measure(seeds, data_dir, Console(stderr=True))
    typer.echo(json.dumps(rows) if as_json else markdown(rows))


if __name__ == "__main__":
    typer.run(main)
