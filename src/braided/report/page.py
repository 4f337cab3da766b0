"""The report of a run, or of histories: one HTML file that needs nothing else.

Its words are in `templates`, which escape all they are given; here are its figures. The pictures are those of
`braided.plot`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from braided.errors import BraidedError
from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.evaluation import History, key_tally
from braided.evaluation.evaluation import result_of
from braided.evaluation.metrics import METRICS, quantity
from braided.evaluation.summary import summary_of
from braided.evaluation.tally import Tally
from braided.kernels.coverage import LEVELS
from braided.report import plot, table
from braided.report.plot import axes, classes, errors, over_time, posterior
from braided.report.provenance import provenance
from braided.report.svg import Picture, Reading, svg
from braided.run import Job

#: Models with pictures of their own; features and classes in a table.
_DETAILED, _MAX_LISTED = 6, 60


def page(job: Job, command: str | None = None) -> str:
    """The report of a job that is done, as HTML; `command` is the command line that started it."""
    return _filled(job.document(), [run.history for run in job.finished], job, command)


def page_of_histories(histories: Sequence[History], title: str = "") -> str:
    """The report of histories recorded in Python, as HTML; those of one name are seeds of one model."""
    lengths = list(dict.fromkeys(history.records for history in histories))
    if len(lengths) > 1:
        raise BraidedError(
            f"the histories are of {lengths[0]:,} and {lengths[1]:,} records: a report compares models on one stream, "
            "so write one for each"
        )
    grouped = axes.groups(list(histories))
    runs = [
        {"model": name, "seed": seed, **_result(history)}
        for name, seeds in grouped.items()
        for seed, history in enumerate(seeds)
    ]
    tally = histories[-1].tally
    supports = tally.confusion.sum(axis=1)
    document = {
        "stream": title or ", ".join(grouped),
        "sample": False,
        "task": REGRESSION if tally.regression else CLASSIFICATION,
        "records": lengths[0],
        "features": len(histories[0].features),
        "classes": None if tally.regression else int((supports > 0).sum()),
        "majority_errors": None if tally.regression else int(lengths[0] - supports.max()),
        "runs": runs,
        "summary": {name: summary_of([run for run in runs if run["model"] == name]) for name in grouped},
    }
    return _filled(document, histories)


def _result(history: History) -> dict[str, Any]:
    """The figures of one history; what failed and how long it took is known from block to block."""
    skipped, resets = history.skipped().sum(axis=0).tolist(), history.resets().sum(axis=0).tolist()
    health = {name: {"skipped": skipped[i], "resets": resets[i]} for i, name in enumerate(history.learners)}
    seconds = float(np.nansum(history.blocks()[:, 1] / history.throughput()))
    drifts = int(history.drifts().sum())
    return result_of(history, health, 0, seconds) | ({"drifts": drifts} if drifts else {})


def _filled(
    document: dict[str, Any], everything: Sequence[History], job: Job | None = None, command: str | None = None
) -> str:
    """The page of these figures."""
    histories = axes.groups(everything)
    environment = Environment(loader=PackageLoader("braided.report"), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters |= {"short": axes.short, "quantity": quantity, "share": _share, "number": "{:,}".format}
    environment.globals |= {"tables": table, "key_tally": key_tally, "METRICS": METRICS, "MAX_LISTED": _MAX_LISTED}
    environment.globals |= {"taken_for": _taken_for, "rows_of_strip": over_time.rows_of_strip}
    filled: str = environment.get_template("report.html").render(
        document=document,
        job=job,
        command=command,
        histories=histories,
        guesses=_guesses(everything, document),
        running=svg(partial(plot.error, everything), "running"),
        windowed=svg(partial(plot.error, everything, windowed=True), "windowed"),
        models=[_model(number, seeds) for number, seeds in enumerate([*histories.values()][:_DETAILED])],
        availability=_availability(everything[0]),
        throughput=svg(partial(plot.throughput, everything), "throughput"),
        provenance=provenance() | {"date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")},
    )
    return filled


def _guesses(everything: Sequence[History], document: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """The metrics of the plain guesses that were counted; means over the histories."""
    records = document["records"] if document["task"] == REGRESSION else 1
    losses = {name: [history.tally.totals[loss] for history in everything]
              for name, loss in errors.guesses(everything).items()}  # fmt: skip
    return {name: table.of_loss(float(np.mean(sums)) / records, document) for name, sums in losses.items()}


def _share(value: float | None) -> str:
    return "-" if value is None or np.isnan(value) else f"{value:.1%}"


def _taken_for(tally: Tally, label: Hashable) -> tuple[Hashable, int]:
    """The class that records of another were wrongly predicted as most often, and how often."""
    place = tally.classes.index(label)
    counts = tally.confusion[place, :-1].copy()
    counts[place] = 0
    other = int(counts.argmax())
    return tally.classes[other], int(counts[other])


def _availability(history: History) -> Picture | None:
    """How often each feature was there; of many features the numbers of the most and the least available."""
    if not history.features:
        return None
    order = np.argsort(-history.present, kind="stable").tolist()
    listed = order if len(order) <= _MAX_LISTED else order[: _MAX_LISTED // 2] + order[-_MAX_LISTED // 2 :]
    rows = [(history.features[i], f"{history.present[i]:,}", _share(history.present[i] / history.records))
            for i in listed]  # fmt: skip
    height = max(0.8 + 0.15 * len(over_time.rows_of_strip(history)[0]), 1.4)
    header = ("feature", "records", "share")
    return svg(partial(plot.availability, history), "availability", height, header=header, rows=rows)


def _model(number: int, seeds: list[History]) -> dict[str, Any]:
    """What is known of one model: its pictures by name, and how many records had no prediction."""
    first, unanswered = seeds[0], 0
    learners = first.learners
    pictures: dict[str, Picture] = {}

    def draw(name: str, picture: Callable[..., Any], height: float = 2.8, **numbers: Any) -> None:
        pictures[name] = svg(partial(picture, seeds), f"m{number}-{name}", height, **numbers)

    if len(learners) > 1:
        draw("learners", plot.learners, 2.8 if len(learners) < 6 else 3.2)
        if np.isfinite(first.shares()).all(axis=1).any():
            draw("shares", plot.shares, readings=_stairs(first, axes.fitted(learners), first.shares()))
    if first.weight_mean.size:
        top = posterior.top_weights(seeds, 15)
        rows: list[Sequence[Any]] = [(name, whose, f"{mean:+.4g}", f"{sd:.3g}") for _, _, name, whose, mean, sd in top]
        height = max(1.2 + 0.17 * len(top), 2.0)
        draw("weights", plot.weights, height, header=("feature", "score of", "mean", "sd"), rows=rows)
        if len(first.blocks()) > 1:
            draw("followed", partial(plot.weights, most=6, over_time=True), 3.2)
    if not first.tally.regression:
        bins = np.sum([history.tally.bins for history in seeds], axis=0)
        if bins[:, 0].any():
            rows = [(f"{10 * i}% to {10 * i + 10}%", f"{count:,.0f}", _share(confidence / count), _share(right / count))
                    for i, (count, confidence, right) in enumerate(bins) if count]  # fmt: skip
            draw("calibration", plot.calibration, header=("probability", "records", "mean", "right"), rows=rows)
        names, counts, unanswered = classes.confused(seeds)
        rows = [(name, *map("{:,}".format, row)) for name, row in zip(names, counts.tolist(), strict=True)]
        draw("confusion", plot.confusion, 2.8 if len(names) <= 8 else 3.8, header=("", *names), rows=rows)
    if first.coverage_shares() and np.isfinite(first.coverage()).any():
        levels = [f"level {level:g}" for level in LEVELS]
        draw("coverage", plot.coverage, readings=_stairs(first, levels, first.coverage()))
    if first.resets().any() or first.skipped().any():
        draw("failures", plot.failures)
    return {"first": first, "pictures": pictures, "unanswered": unanswered}


def _stairs(history: History, names: Sequence[str], values: Any) -> list[Reading]:
    """Values from block to block, as the pointer reads them."""
    x, y = axes.stairs(history, values)
    return [Reading(name, axes.colour(i)["color"], x, y[:, i], 0 * x) for i, name in enumerate(names)]
