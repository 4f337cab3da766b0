"""Runs summed up: means over seeds, and a history as a notebook shows it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from braided.estimators import cards
from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.evaluation.metrics import MAIN, METRICS
from braided.evaluation.tally import Tally
from braided.kernels.tally import ANSWER, LEARNERS, USUAL

_MAX_POINTS = 80


def summary_of(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means and standard deviations over the seeds of one model, whose results are `result_of`'s."""
    figures: dict[str, Any] = {"seconds_mean": statistics.fmean(result["seconds"] for result in results)}
    if "errors" in results[0]:
        mean, deviation = _over_seeds([result["errors"] for result in results])
        figures = {"errors_mean": mean, "errors_sd": deviation, **figures}
    found = {name: _over_seeds([result["metrics"][name] for result in results]) for name in results[0]["metrics"]}
    means = {name: mean for name, (mean, _) in found.items()}
    return {**figures, "metrics": means, "metrics_sd": {name: deviation for name, (_, deviation) in found.items()}}


def _over_seeds(values: Sequence[Any]) -> tuple[float, float] | tuple[None, None]:
    """Mean and standard deviation, also of values whose sum a double cannot hold; None where one is not defined."""
    if None in values:
        return None, None
    return float(statistics.mean(values)), float(statistics.stdev(values)) if len(values) > 1 else 0.0


def plain_guess(tallies: Sequence[Tally], loss: int) -> float:
    """What a plain guess got wrong, or its mean absolute error: the mean over seeds, whose orders may differ."""
    mean = float(statistics.mean(float(tally.totals[loss]) for tally in tallies))
    if tallies[0].regression:
        return mean / tallies[0].records
    return int(mean) if mean.is_integer() else mean


def error_text(tally: Tally, value: float) -> str:
    """An error as people read it."""
    return METRICS["mae" if tally.regression else "error_rate"].shown(value)


def history_card(name: str, tally: Tally, window: int) -> str:
    """The card of a history, with its errors over a window along the records."""
    if tally.records == 0:
        return cards.card("History", f"of {name}: no records yet", [])
    last, running = tally.window_errors(), (tally.totals / tally.records).tolist()
    what = "off by" if tally.regression else "wrong"
    figures = [
        (error_text(tally, last[ANSWER]), f"{what} in the last {tally.n_last:,}"),
        (error_text(tally, running[ANSWER]), f"{what} in all"),
        (f"{tally.records:,}", "records"),
    ]
    named = [("all together", ANSWER), *((guess, USUAL + i) for i, guess in enumerate(tally.guess_names))]
    listed = [*named, *((f"{label} alone", LEARNERS + i) for i, label in enumerate(tally.learners))]
    rows = [[label, error_text(tally, last[loss]), error_text(tally, running[loss])] for label, loss in listed]
    metrics, task = tally.metrics(), REGRESSION if tally.regression else CLASSIFICATION
    main = ", ".join(f"{METRICS[key].title} {METRICS[key].shown(metrics[key])}" for key in MAIN[task])
    points = tally.loss_curve.windowed(window, _MAX_POINTS)
    lines = [(label, (points[:, [0, 1 + loss]] / (1, window)).tolist()) for label, loss in named]
    title = f"error of the last {window:,} records; dashed: {' and '.join(tally.guess_names)}"
    return cards.card(
        "History",
        f"of {name}: {main}",
        figures,
        cards.line_picture(title, lines),
        cards.table(["", f"last {tally.n_last:,}", "in all"], rows),
    )
