"""A history as a notebook shows it: its errors beside those of the plain guesses, and the metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from braided import notebook
from braided.estimators.tasks import CLASSIFICATION, REGRESSION
from braided.evaluation.metrics import MAIN, METRICS
from braided.evaluation.tally import Tally
from braided.kernels.tally import ANSWER, LEARNERS, USUAL

_MOST_POINTS = 80


def told(tally: Tally, value: float) -> str:
    """An error as people read it."""
    if not math.isfinite(value):
        return "-"
    return METRICS["mae" if tally.regression else "error_rate"].shown(value)


def history_card(name: str, tally: Tally, windowed: NDArray[np.float64], window: int) -> str:
    """The card of a history, with its errors over a window along the records."""
    if tally.records == 0:
        return notebook.card("History", f"of {name}: no records yet", [])
    last, running = tally.window_errors(), (tally.totals / tally.records).tolist()
    what = "off by" if tally.regression else "wrong"
    figures = [
        (told(tally, last[ANSWER]), f"{what} in the last {tally.n_last:,}"),
        (told(tally, running[ANSWER]), f"{what} in all"),
        (f"{tally.records:,}", "records"),
    ]
    named = [("all together", ANSWER), *((guess, USUAL + i) for i, guess in enumerate(tally.guesses.names))]
    rows = [[label, told(tally, last[loss]), told(tally, running[loss])] for label, loss in named]
    rows += [[f"{label} alone", told(tally, last[LEARNERS + i]), told(tally, running[LEARNERS + i])]
             for i, label in enumerate(tally.learners)]  # fmt: skip
    metrics, task = tally.metrics(), REGRESSION if tally.regression else CLASSIFICATION
    listed = ", ".join(
        f"{METRICS[key].title} {METRICS[key].shown(metrics[key])}" for key in MAIN[task] if key in metrics
    )
    lines = [(label, _points(windowed, loss, window)) for label, loss in named]
    title = f"error of the last {window:,} records; dashed: {' and '.join(tally.guesses.names)}"
    return notebook.card(
        "History",
        f"of {name}: {listed}",
        figures,
        notebook.line_picture(title, lines),
        notebook.table(["", f"last {tally.n_last:,}", "in all"], rows),
    )


def _points(windowed: NDArray[np.float64], loss: int, window: int) -> Sequence[tuple[float, float]]:
    """Some points of a line, the last one with them."""
    rows = windowed[np.isfinite(windowed[:, 1 + loss])]
    places = np.unique(np.linspace(0, max(len(rows) - 1, 0), min(len(rows), _MOST_POINTS)).astype(int)).tolist()
    return [(float(rows[place, 0]), float(rows[place, 1 + loss]) / window) for place in places]
