"""Errors over time: of each model, and of each learner of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from braided.evaluation import History
from braided.kernels.tally import ANSWER, LAST, LEARNERS, USUAL
from braided.report.plot.axes import (
    PLAIN,
    Floats,
    Histories,
    axes_of,
    colour,
    draw_line,
    finish,
    groups,
    legend_names,
    logarithmic_scale,
    number_tick,
    one,
    percent,
)
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


def _scale(ax: Axes, lines: Iterable[Floats], regression: bool, logarithmic: bool) -> None:
    """Look at what comes after the first tenth; on a logarithmic scale where small and large are far apart."""
    settled = np.concatenate([line[len(line) // 10 :] for line in lines] or [np.zeros(0)])
    settled = settled[np.isfinite(settled)]
    top = float(settled.max(initial=0.0))
    positive = settled[settled > 0]
    if logarithmic and positive.size == settled.size and top > 4 * positive.min(initial=np.inf):
        logarithmic_scale(ax, float(positive.min()) / 1.25, top * 1.15, number_tick if regression else percent)
        return
    if top > 0:
        ax.set_ylim(0, top * 1.08)
    ax.yaxis.set_major_formatter(number_tick if regression else percent)


def _told(line: Floats, regression: bool) -> str:
    """Where a line of errors ends, as the legend has it; empty of a stream that is shorter than a window."""
    if not line.size:
        return ""
    return number_tick(float(line[-1])) if regression else f"{line[-1]:.2%}"


def guesses(histories: Sequence[History]) -> dict[str, int]:
    """The plain guesses that were counted from the first record on, and their columns of the losses.

    What is usual is left out where a model of the zoo that says it is among the histories: it is that line already.
    """
    first = histories[0]
    named = {name: USUAL + i for i, name in enumerate(first.tally.guess_names)}
    said = any(history.name in _USUAL_MODELS for history in histories)
    return {
        name: loss
        for name, loss in named.items()
        if not np.isnan(first.tally.totals[loss]) and not (said and loss == USUAL)
    }


def _plain_guesses(ax: Axes, histories: Sequence[History], windowed: bool) -> dict[str, Floats]:
    """Draw the errors of what is usual, dashed, and of what was last, dotted, and return them by name."""
    drawn = {}
    for name, loss in guesses(histories).items():
        records, mean, _ = rates([histories[0]], loss, windowed)
        style = ":" if loss == LAST else "--"
        draw_line(ax, records, mean, np.zeros_like(mean), name, color=PLAIN, linestyle=style, linewidth=1.2, zorder=1)
        drawn[name] = mean
    return drawn


def error(histories: Histories, windowed: bool = False, ax: Axes | None = None) -> Axes:
    """Running error of each model, or with `windowed` the one over the last records; in grey the plain guesses.

    The error is the share of wrong predictions, or for regression the mean absolute error. The plain guesses are the
    most frequent class so far, or the mean so far, dashed, and the last label or value, dotted. In the legend stands
    where each line ends. Triangles at the bottom mark the blocks in which drift was found.
    """
    grouped, ax = groups(histories), axes_of(ax)
    first = next(iter(grouped.values()))[0]
    drawn: dict[str, Floats] = {}
    names = legend_names(list(grouped))
    for place, (name, seeds) in enumerate(zip(names, grouped.values(), strict=True)):
        records, mean, sd = rates(seeds, ANSWER, windowed)
        draw_line(ax, records, mean, sd, name, **colour(place))
        drawn[name] = mean
        drifts = np.concatenate([seed.blocks()[seed.drifts() > 0, 0] for seed in seeds])
        if drifts.size:
            ax.scatter(
                drifts, np.zeros_like(drifts), marker="^", s=28, color=colour(place)["color"], zorder=4, clip_on=False,
                transform=ax.get_xaxis_transform(),
            )  # fmt: skip
    drawn |= _plain_guesses(ax, [history for seeds in grouped.values() for history in seeds], windowed)
    return _finish_errors(ax, first, drawn, windowed)


def _finish_errors(ax: Axes, history: History, drawn: Mapping[str, Floats], windowed: bool) -> Axes:
    """The scale and legend of lines of errors."""
    regression = history.tally.regression
    _scale(ax, drawn.values(), regression, logarithmic=not windowed)
    what = "absolute error" if regression else "errors"
    ax.set_ylabel(f"{what} in the last {history.window():,} records" if windowed else f"{what} so far")
    return finish(ax, history.records, figures={name: _told(line, regression) for name, line in drawn.items()})


def learners(histories: Histories, windowed: bool = True, ax: Axes | None = None) -> Axes:
    """Each learner's own error, beside that of all together; if not windowed, also those of the plain guesses."""
    from matplotlib import rcParams

    seeds, ax = one(histories), axes_of(ax)
    first = seeds[0]
    records, mean, sd = rates(seeds, ANSWER, windowed)
    draw_line(
        ax,
        records,
        mean,
        sd,
        "together",
        color=rcParams["text.color"],
        linewidth=2.4,
        zorder=3,
    )
    drawn = {"together": mean}
    for i, name in enumerate(legend_names(first.learners)):
        records, mean, _ = rates(seeds, LEARNERS + i, windowed)
        draw_line(ax, records, mean, np.zeros_like(mean), f"{name} alone", **{**colour(i), "linewidth": 1.3})
        drawn[f"{name} alone"] = mean
    if not windowed:
        drawn |= _plain_guesses(ax, seeds, windowed)
    return _finish_errors(ax, first, drawn, windowed)


def curve_figure(histories: Histories, title: str) -> Figure:
    """The picture of a whole run: running errors of the models, or of one model and each of its learners."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    ax = figure.add_subplot()
    grouped = groups(histories)
    first = next(iter(grouped.values()))[0]
    if len(grouped) == 1 and len(first.learners) > 1:
        learners(histories, windowed=False, ax=ax)
    else:
        error(histories, ax=ax)
    figure.suptitle(printable(title), fontsize=11, parse_math=False)
    return figure
