"""What the default preset was chosen among, measured on many streams: `python benchmarks/candidates.py`."""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.console import Console

from braided import MODLClassifier
from braided.cli.options import JsonOption
from braided.estimators.warm_up import warm_up
from braided.evaluation import Evaluation
from braided.learners import FourierConfig, LearnerConfig, LogisticConfig, MLPConfig, SetConfig
from braided.presets import default
from braided.run import Job, RunOptions

#: Streams that settings were chosen on, and streams that the choice was confirmed on; with how many records.
CHOSEN_ON = {"svmguide3": None, "magic04": 8_000, "bananas": None, "segments": None, "rbf-drift": None, "agrawal": None}
CONFIRMED_ON = {
    "german": None,
    "a8a": 8_000,
    "phishing": None,
    "led": None,
    "hyperplane": None,
    "sea-drift": None,
    "agrawal-drift": None,
    "shuttle": 8_000,
}
STREAMS: dict[str, int | None] = {**CHOSEN_ON, **CONFIRMED_ON}
#: With about a thousand records one seed says little.
_SMALL = ("german", "svmguide3", "phishing")


@dataclass(frozen=True)
class Candidate:
    """Learners, in place of the default's, and a combiner."""

    learners: tuple[LearnerConfig, ...]
    combiner: str = "kalman"


def _default_learners() -> tuple[LogisticConfig, FourierConfig, MLPConfig, SetConfig]:
    olr, fourier, mlp, sets = default().learners
    assert isinstance(olr, LogisticConfig)
    assert isinstance(fourier, FourierConfig)
    assert isinstance(mlp, MLPConfig)
    assert isinstance(sets, SetConfig)
    return olr, fourier, mlp, sets


def candidates() -> dict[str, Candidate]:
    """Name -> what was tried: the default, and the default with one thing changed."""
    olr, fourier, mlp, sets = _default_learners()
    old_set = SetConfig(
        width=64, blocks=2, layers=2, pooling="sqrt", optimiser="rmsprop", learning_rate=3e-4, zero_output=True
    )

    def with_olr(**changes: Any) -> Candidate:
        return Candidate((replace(olr, **changes), fourier, mlp, sets))

    def with_fourier(**changes: Any) -> Candidate:
        return Candidate((olr, replace(fourier, **changes), mlp, sets))

    def with_mlp(**changes: Any) -> Candidate:
        return Candidate((olr, fourier, replace(mlp, **changes), sets))

    def with_set(**changes: Any) -> Candidate:
        return Candidate((olr, fourier, mlp, replace(sets, **changes)))

    everything = (olr, fourier, mlp, sets)
    return {
        "default": Candidate(everything),
        "score sum instead of Kalman weights": Candidate(everything, "score-sum"),
        "ensemble instead of Kalman weights": Candidate(everything, "ensemble"),
        "without olr": Candidate((fourier, mlp, sets)),
        "without fourier": Candidate((olr, mlp, sets)),
        "without mlp": Candidate((olr, fourier, sets)),
        "without set": Candidate((olr, fourier, mlp)),
        "olr alone": Candidate((olr,)),
        "olr: P0 1": with_olr(prior_variance=1.0),
        "olr: P0 0.01": with_olr(prior_variance=0.01),
        "olr: forgetting 1e-5": with_olr(forgetting=1e-5),
        "fourier: 64 functions": with_fourier(functions=64),
        "fourier: 256 functions": with_fourier(functions=256),
        "fourier: bandwidth 0.5": with_fourier(bandwidth=0.5),
        "fourier: bandwidth 2": with_fourier(bandwidth=2.0),
        "fourier: P0 0.2": with_fourier(prior_variance=0.2),
        "fourier: no forgetting": with_fourier(forgetting=0.0),
        "mlp: plain values": with_mlp(encoding="plain"),
        "mlp: plain values and masks": with_mlp(encoding="plain", mask_inputs=True),
        "mlp: encoding and masks": with_mlp(mask_inputs=True),
        "mlp: 16 bins": with_mlp(bins=16),
        "mlp: rate 2e-4": with_mlp(learning_rate=2e-4),
        "mlp: rate 2e-3": with_mlp(learning_rate=2e-3),
        "mlp: AdaGrad, rate 0.01": with_mlp(optimiser="adagrad", learning_rate=0.01),
        "mlp: SGD, rate 0.01": with_mlp(optimiser="sgd", learning_rate=0.01),
        "mlp: three layers": with_mlp(hidden=(128, 128, 128)),
        "mlp: random output layer": with_mlp(zero_output=False),
        "set: product binding": Candidate((olr, fourier, mlp, replace(old_set, binding="product"))),
        "set: ReLU binding": Candidate((olr, fourier, mlp, replace(old_set, binding="relu"))),
        "set: no binding, as published": Candidate((olr, fourier, mlp, old_set)),
        "set: scaled, over sqrt(n)": with_set(pooling="sqrt"),
        "set: rate 1e-3": with_set(learning_rate=1e-3),
        "two MLPs, rates 7e-4 and 1e-4": Candidate((*everything, replace(mlp, learning_rate=1e-4))),
    }


def _run(name: str, stream: str, seed: int, data_dir: Path | None) -> tuple[int, int, float]:
    """Errors, records and seconds of one candidate on one stream."""
    candidate = candidates()[name]
    model = MODLClassifier(learners=candidate.learners, combiner=candidate.combiner, seed=seed)
    warm_up(model)
    evaluation = Evaluation(model)
    job = Job(RunOptions(stream, seed=seed, limit=STREAMS[stream]), data_dir)
    for _ in evaluation.run(job.stream(seed)):
        pass
    return int(evaluation.history.totals[0]), evaluation.records, evaluation.seconds


def measure(seeds: int, jobs: int | None, data_dir: Path | None, console: Console) -> dict[str, Any]:
    """Mean errors of every candidate on every stream, and microseconds per record over all of them."""
    plan = [
        (name, stream, seed)
        for name in candidates()
        for stream in STREAMS
        for seed in range(seeds if stream in _SMALL else max(seeds // 5, 1))
    ]
    found: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
    with ProcessPoolExecutor(jobs or os.cpu_count(), get_context("spawn")) as pool:
        futures = {pool.submit(_run, *item, data_dir): item for item in plan}
        for done, future in enumerate(as_completed(futures), start=1):
            name, stream, _ = futures[future]
            found.setdefault((name, stream), []).append(future.result())
            if done % 50 == 0:
                console.print(f"{done} of {len(plan)} runs", highlight=False)
    rows = []
    base = {stream: fmean(errors for errors, _, _ in found["default", stream]) for stream in STREAMS}
    for name in candidates():
        errors = {stream: fmean(errors for errors, _, _ in found[name, stream]) for stream in STREAMS}
        runs = [run for stream in STREAMS for run in found[name, stream]]
        change = {stream: errors[stream] / base[stream] - 1.0 for stream in STREAMS}
        rows.append(
            {
                "candidate": name,
                "errors": errors,
                "change_chosen_on": fmean(change[stream] for stream in CHOSEN_ON),
                "change_confirmed_on": fmean(change[stream] for stream in CONFIRMED_ON),
                "us_per_record": 1e6 * sum(run[2] for run in runs) / sum(run[1] for run in runs),
            }
        )
    return {"seeds": seeds, "rows": rows}


def markdown(result: dict[str, Any]) -> str:
    """The figures as a Markdown table."""
    header = ["candidate", *STREAMS, "chosen on", "confirmed on", "us"]
    lines = [f"| {' | '.join(header)} |", f"|---|{'---:|' * (len(header) - 1)}"]
    for row in result["rows"]:
        cells = [f"{row['errors'][stream]:.0f}" for stream in STREAMS]
        cells += [f"{100 * row[key]:+.1f}%" for key in ("change_chosen_on", "change_confirmed_on")]
        lines.append(f"| {row['candidate']} | {' | '.join(cells)} | {row['us_per_record']:.0f} |")
    return "\n".join(lines)


def main(
    seeds: Annotated[
        int, typer.Option(min=1, help="Seeds on the smallest streams; a fifth of them on the others.")
    ] = 5,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="BRAIDED_DATA", help="Folder with the data sets, one sub-folder each.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What the default was chosen among: errors of each candidate on many streams, and its cost (many minutes)."""
    result = measure(seeds, jobs, data_dir, Console(stderr=True))
    typer.echo(json.dumps(result) if as_json else markdown(result))


if __name__ == "__main__":
    typer.run(main)
