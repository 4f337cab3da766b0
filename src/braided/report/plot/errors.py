"""Errors over time: of each model, and of each learner of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from braided.evaluation import History
from braided.kernels.tally import ANSWER, LAST, LEARNERS, USUAL
from braided.report.plot import axes
from braided.report.plot.axes import PLAIN, Floats, Histories
from braided.values import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The zoo's models that say what is usual.
_USUAL_MODELS = ("majority", "mean")


def rates(seeds: list[History], loss: int, windowed: bool = False) -> tuple[Floats, Floats, Floats]:
    """Records, and the mean and standard deviation over seeds of an error: its column of the losses."""
    lines = []
    for history in seeds:
        rows = history.windowed() if windowed else history.curve()
        lines.append((rows[:, 0], rows[:, 1 + loss] / (history.window() if windowed else rows[:, 0])))
    records = lines[0][0]
    values = np.array([np.interp(records, x, y) for x, y in lines])
    return records, values.mean(axis=0), values.std(axis=0, ddof=1) if len(seeds) > 1 else np.zeros(len(records))


def guesses(histories: Sequence[History]) -> dict[str, int]:
    """The plain guesses that were counted from the first record on, and their columns of the losses.

    What is usual is left out where a model of the zoo that says it is among the histories: it is that line already.
    """
    tally = histories[0].tally
    known = {name: loss for loss, name in enumerate(tally.guess_names, USUAL) if not np.isnan(tally.totals[loss])}
    drawn = any(history.name in _USUAL_MODELS for history in histories)
    return {name: loss for name, loss in known.items() if not (drawn and loss == USUAL)}


def _draw(ax: Axes, seeds: list[History], loss: int, windowed: bool, name: str, **style: Any) -> dict[str, Floats]:
    """Draw one error, that of the answers with its band, and return it by its name."""
    records, mean, sd = rates(seeds, loss, windowed)
    axes.line(ax, records, mean, sd if loss == ANSWER else 0 * sd, name, **style)
    return {name: mean}


def _draw_guesses(ax: Axes, histories: Sequence[History], windowed: bool) -> dict[str, Floats]:
    """Draw the errors of what is usual, dashed, and of what was last, dotted."""
    drawn: dict[str, Floats] = {}
    for name, loss in guesses(histories).items():
        style: dict[str, Any] = {
            "color": PLAIN,
            "linestyle": ":" if loss == LAST else "--",
            "linewidth": 1.2,
            "zorder": 1,
        }
        drawn |= _draw(ax, [histories[0]], loss, windowed, name, **style)
    return drawn


def error(histories: Histories, windowed: bool = False, ax: Axes | None = None) -> Axes:
    """Running error of each model, or with `windowed` the one over the last records; in grey the plain guesses.

    The error is the share of wrong predictions, or for regression the mean absolute error. The plain guesses are the
    most frequent class so far, or the mean so far, dashed, and the last label or value, dotted. In the legend stands
    where each line ends. Triangles at the bottom mark the blocks in which drift was found.
    """
    grouped, ax = axes.groups(histories), axes.given(ax)
    first = next(iter(grouped.values()))[0]
    drawn: dict[str, Floats] = {}
    names = axes.fitted(list(grouped))
    for place, (name, seeds) in enumerate(zip(names, grouped.values(), strict=True)):
        drawn |= _draw(ax, seeds, ANSWER, windowed, name, **axes.colour(place))
        drifts = np.concatenate([seed.blocks()[seed.drifts() > 0, 0] for seed in seeds])
        if drifts.size:
            look = {"marker": "^", "s": 28, "color": axes.colour(place)["color"], "zorder": 4, "clip_on": False}
            ax.scatter(drifts, np.zeros_like(drifts), transform=ax.get_xaxis_transform(), **look)
    drawn |= _draw_guesses(ax, [history for seeds in grouped.values() for history in seeds], windowed)
    return _finish_errors(ax, first, drawn, windowed)


def _finish_errors(ax: Axes, history: History, drawn: Mapping[str, Floats], windowed: bool) -> Axes:
    """The scale, and a legend that says where each line of errors ends; of less than a window there is no line.

    What comes after the first tenth is looked at, on a logarithmic scale where small and large are far apart.
    """
    regression = history.tally.regression
    settled = np.concatenate([line[len(line) // 10 :] for line in drawn.values()])
    axes.scale(ax, settled, axes.number if regression else axes.percent, np.inf if windowed else 4.0)
    what = "absolute error" if regression else "errors"
    what = f"{what} in the last {history.window():,} records" if windowed else f"{what} so far"
    ends = {name: float(line[-1]) for name, line in drawn.items() if line.size}
    told = {name: axes.number(end) if regression else f"{end:.2%}" for name, end in ends.items()}
    return axes.finish(ax, history.records, what, figures=told)


def learners(histories: Histories, windowed: bool = True, ax: Axes | None = None) -> Axes:
    """Each learner's own error, beside that of all together; if not windowed, also those of the plain guesses."""
    from matplotlib import rcParams

    seeds, ax = axes.one(histories), axes.given(ax)
    style: dict[str, Any] = {"color": rcParams["text.color"], "linewidth": 2.4, "zorder": 3}
    drawn = _draw(ax, seeds, ANSWER, windowed, "together", **style)
    for i, name in enumerate(axes.fitted(seeds[0].learners)):
        drawn |= _draw(ax, seeds, LEARNERS + i, windowed, f"{name} alone", **axes.colour(i) | {"linewidth": 1.3})
    if not windowed:
        drawn |= _draw_guesses(ax, seeds, windowed)
    return _finish_errors(ax, seeds[0], drawn, windowed)


def curve_figure(histories: Histories, title: str) -> Figure:
    """The picture of a whole run: running errors of the models, or of one model and each of its learners."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    ax = figure.add_subplot()
    models = list(axes.groups(histories).values())
    if len(models) == 1 and len(models[0][0].learners) > 1:
        learners(histories, windowed=False, ax=ax)
    else:
        error(histories, ax=ax)
    figure.suptitle(printable(title), fontsize=11, parse_math=False)
    return figure
