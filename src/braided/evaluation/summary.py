"""Means and deviations over the seeds of a model, and of what needs no features."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from braided.evaluation.history import History


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


def plain_guess(histories: Sequence[History], loss: int) -> float | None:
    """What a plain guess got wrong, or its mean absolute error: the mean over seeds, whose orders may differ.

    None where an earlier version has not counted it.
    """
    mean = _mean([float(history.totals[loss]) for history in histories])
    if histories[0].regression:
        return _finite(mean / histories[0].records)
    return int(mean) if mean.is_integer() else _finite(mean)


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


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
