"""Runs summed up: means over seeds, and a history as a notebook shows it."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        errors = [result["errors"] for result in results]
        figures = {"errors_mean": statistics.fmean(errors), "errors_sd": _deviation(errors), **figures}
    means: dict[str, float | None] = {}
    deviations: dict[str, float | None] = {}
    for metric in results[0]["metrics"]:
        values = [result["metrics"][metric] for result in results]
        known = None not in values
        means[metric] = _mean(values) if known else None
        deviations[metric] = _deviation(values) if known else None
    return {**figures, "metrics": means, "metrics_sd": deviations}


def plain_guess(tallies: Sequence[Tally], loss: int) -> float:
    """What a plain guess got wrong, or its mean absolute error: the mean over seeds, whose orders may differ."""
    mean = _mean([float(tally.totals[loss]) for tally in tallies])
    if tallies[0].regression:
        return mean / tallies[0].records
    return int(mean) if mean.is_integer() else mean


def _mean(values: list[float]) -> float:
    """The mean over seeds, also of values whose sum a double cannot hold."""
    try:
        return statistics.fmean(values)
    except OverflowError:
        return sum(value / len(values) for value in values)


def _deviation(values: list[float]) -> float:
    """The standard deviation over seeds, also of values whose squares a double cannot hold."""
    if len(values) < 2:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        found = float(np.std(values, ddof=1))
    if math.isfinite(found):
        return found
    largest = max(map(abs, values))
    return min(float(np.std([value / largest for value in values], ddof=1)) * largest, sys.float_info.max)


def error_text(tally: Tally, value: float) -> str:
    """An error as people read it."""
    if not math.isfinite(value):
        return "-"
    return METRICS["mae" if tally.regression else "error_rate"].shown(value)


def history_card(name: str, tally: Tally, windowed: NDArray[np.float64], window: int) -> str:
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
    named = [("all together", ANSWER), *((guess, USUAL + i) for i, guess in enumerate(tally.guesses.names))]
    rows = [[label, error_text(tally, last[loss]), error_text(tally, running[loss])] for label, loss in named]
    rows += [[f"{label} alone", error_text(tally, last[LEARNERS + i]), error_text(tally, running[LEARNERS + i])]
             for i, label in enumerate(tally.learners)]  # fmt: skip
    metrics, task = tally.metrics(), REGRESSION if tally.regression else CLASSIFICATION
    listed = ", ".join(
        f"{METRICS[key].title} {METRICS[key].shown(metrics[key])}" for key in MAIN[task] if key in metrics
    )
    lines = [(label, _points(windowed, loss, window)) for label, loss in named]
    title = f"error of the last {window:,} records; dashed: {' and '.join(tally.guesses.names)}"
    return cards.card(
        "History",
        f"of {name}: {listed}",
        figures,
        cards.line_picture(title, lines),
        cards.table(["", f"last {tally.n_last:,}", "in all"], rows),
    )


def _points(windowed: NDArray[np.float64], loss: int, window: int) -> Sequence[tuple[float, float]]:
    """Some points of a line, the last one with them."""
    rows = windowed[np.isfinite(windowed[:, 1 + loss])]
    places = np.unique(np.linspace(0, max(len(rows) - 1, 0), min(len(rows), _MAX_POINTS)).astype(int)).tolist()
    return [(float(rows[place, 0]), float(rows[place, 1 + loss]) / window) for place in places]
