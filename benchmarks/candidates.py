"""What the default preset was chosen among, measured on many streams: `python benchmarks/candidates.py`."""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.console import Console

from braided import MODLClassifier
from braided.cli.options import JsonOption
from braided.evaluation import Evaluation
from braided.learners import FourierConfig, LearnerConfig, LogisticConfig, MLPConfig, SetConfig
from braided.presets import Preset, classic, default, lean
from braided.run import Job, RunOptions

#: Streams that settings were chosen on, and streams that the choice was confirmed on; with how many records.
CHOSEN_ON = {
    "german": None,
    "svmguide3": None,
    "magic04": 8_000,
    "a8a": 8_000,
    "bananas": None,
    "segments": None,
}
CONFIRMED_ON = {
    "phishing": None,
    "led": None,
    "hyperplane": None,
    "sea-drift": None,
    "rbf-drift": None,
    "agrawal": None,
    "agrawal-drift": None,
    "shuttle": 8_000,
}
STREAMS: dict[str, int | None] = {**CHOSEN_ON, **CONFIRMED_ON}
#: With about a thousand records one seed says little.
_SMALL = ("german", "svmguide3", "phishing")


def candidates() -> dict[str, Preset]:
    """Name -> what was tried: the default, and the default with one thing changed."""
    whole = default()
    names = MODLClassifier(whole).learner_names
    places = {name: names.index(name) for name in names}

    def without(*left_out: str) -> Preset:
        kept = [place for name, place in places.items() if name not in left_out]
        learners = tuple(whole.learners[place] for place in kept)
        return replace(whole, learners=learners, first_weights=tuple(whole.first_weights[p] for p in kept))

    def changed(*which: str, **changes: Any) -> Preset:
        learners = list(whole.learners)
        for name in which:
            learners[places[name]] = replace(learners[places[name]], **changes)
        return replace(whole, learners=tuple(learners))

    def added(config: LearnerConfig) -> Preset:
        weights = (*whole.first_weights, 0.0)
        return replace(whole, learners=(*whole.learners, config), first_weights=weights)

    of_classic = {type(config): config for config in classic().learners}
    all_plain = tuple(
        replace(config, inputs="plain") if getattr(config, "inputs", "raw") != "raw" else config
        for config in whole.learners
    )
    return {
        "default": whole,
        "classic, the default until 0.2": classic(),
        "classic and filled inputs": replace(classic(), learners=_filled(classic().learners)),
        "classic and recent": replace(classic(), learners=(*classic().learners, whole.learners[places["recent"]])),
        "classic and forest": replace(classic(), learners=(*classic().learners, whole.learners[places["forest"]])),
        "lean": lean(),
        "nothing filled, no ranks": replace(whole, learners=all_plain),
        "without the trackers (olr 2, olr 3)": without("olr 2", "olr 3"),
        "without the cosines of ranks (fourier)": without("fourier"),
        "without the cosines of values (fourier 2)": without("fourier 2"),
        "without mlp": without("mlp"),
        "without recent": without("recent"),
        "without forest": without("forest"),
        "with the set learner of classic": added(of_classic[SetConfig]),
        "one weight per learner (kalman)": replace(whole, combiner="kalman"),
        "the same first weight each": replace(whole, first_weights=()),
        "frequencies that do not learn": changed("fourier", "fourier 2", frequency_rate=0.0),
        "cosines of ranks of all features": changed("fourier", subset=0),
        "192 functions": changed("fourier", "fourier 2", functions=192),
        "mlp: plain values": changed("mlp", encoding="plain"),
        "mlp: nothing filled": changed("mlp", inputs="plain"),
        "mlp: rate 3e-4": changed("mlp", learning_rate=3e-4),
        "mlp: rate 3e-3": changed("mlp", learning_rate=3e-3),
        "forest: 5 trees": changed("forest", trees=5),
        "forest: 4,000 nodes": changed("forest", nodes=4_000),
    }


def _filled(learners: tuple[LearnerConfig, ...]) -> tuple[LearnerConfig, ...]:
    """The same learners, where they can on filled inputs; cosines on ranks."""
    planes = {LogisticConfig: "filled", MLPConfig: "filled", FourierConfig: "scores"}
    return tuple(
        replace(config, inputs=planes[type(config)]) if type(config) in planes else config for config in learners
    )


def _run(name: str, stream: str, seed: int, data_dir: Path | None) -> tuple[int, int, float]:
    """Errors, records and seconds of one candidate on one stream."""
    model = MODLClassifier(candidates()[name], seed=seed)
    evaluation = Evaluation(model)
    job = Job(RunOptions(stream, seed=seed, limit=STREAMS[stream]), data_dir)
    for _ in evaluation.run(job.stream(seed)):
        pass
    return int(evaluation.history.tally.totals[0]), evaluation.records, evaluation.seconds


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
