"""What else is followed from block to block: shares, features, speed, coverage, failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from braided.errors import BraidedError
from braided.evaluation import History
from braided.kernels.coverage import LEVELS
from braided.report.plot import axes
from braided.report.plot.axes import COLOURS, PLAIN, Histories

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Rows of the availability strip.
MAX_ROWS = 30


def shares(histories: Histories, ax: Axes | None = None) -> Axes:
    """Each learner's share of the final score over time; `braided.estimators.explain.shares` has the definition."""
    seeds, ax = axes.one(histories), axes.given(ax)
    first = seeds[0]
    if not first.learners:
        raise BraidedError(f"{first.name} has no learners: shares are of a braided model")
    tables = np.array([history.shares() for history in seeds if len(history.blocks()) == len(first.blocks())])
    measured = np.isfinite(tables).all(axis=2, keepdims=True)
    mean = np.where(measured, tables, 0.0).sum(axis=0) / np.maximum(measured.sum(axis=0), 1)
    x, y = axes.stairs(first, mean)
    colours = [axes.colour(i)["color"] for i in range(len(first.learners))]
    ax.stackplot(x, y.T, labels=axes.fitted(first.learners), colors=colours, alpha=0.8, linewidth=0)
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(axes.percent)
    return axes.finish(ax, first.records, "share of the final score")


def rows_of_strip(history: History) -> tuple[list[int], int]:
    """Which features the availability strip shows, the most and the least available, and how many are left out."""
    followed = history.availability().shape[1]
    order = np.argsort(-history.present[:followed], kind="stable").tolist()
    rows = list(range(followed)) if followed <= MAX_ROWS else order[: MAX_ROWS // 2] + order[-(MAX_ROWS // 2) :]
    return rows, len(history.features) - len(rows)


def availability(histories: Histories, ax: Axes | None = None) -> Axes:
    """How often each feature was there, over time: the darker, the more often."""
    seeds, ax = axes.one(histories), axes.given(ax)
    history = seeds[0]
    rows, left_out = rows_of_strip(history)
    ax.imshow(
        history.availability()[:, rows].T, cmap=axes.ramp(0.96), vmin=0, vmax=1, aspect="auto", interpolation="nearest",
        extent=(0, len(history.blocks()) * history.block, max(len(rows), 1) - 0.5, -0.5),
    )  # fmt: skip
    ax.set_yticks(range(len(rows)), [axes.short(history.features[row], 30) for row in rows])
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    if left_out:
        ax.set_title(f"{left_out:,} features in between not shown", loc="left")
    axes.finish(ax, history.records)
    ax.grid(visible=False)
    return ax


def throughput(histories: Histories, ax: Axes | None = None) -> Axes:
    """Records per second, predicting and learning, over time; a last block that is not full has too few to say."""
    grouped, ax = axes.groups(histories), axes.given(ax)
    drawn = []
    names = axes.fitted(list(grouped))
    for place, (name, seeds) in enumerate(zip(names, grouped.values(), strict=True)):
        first = seeds[0]
        sizes = first.blocks()[:, 1]
        full = len(sizes) - int(len(sizes) > 1 and sizes[-1] < first.block)
        speeds = [history.throughput() for history in seeds if len(history.blocks()) == len(sizes)]
        x, y = (values[: 2 * full] for values in axes.stairs(first, np.asarray(np.mean(speeds, axis=0))))
        axes.line(ax, x, y, np.zeros_like(y), name, **axes.colour(place))
        drawn.append(y)
    axes.scale(ax, np.concatenate(drawn), axes.compact, 10.0)
    return axes.finish(ax, next(iter(grouped.values()))[0].records, "records per second")


def coverage(histories: Histories, level: float = 0.9, ax: Axes | None = None) -> Axes:
    """Share of records whose interval or set held the truth, over time; the dotted line is what was promised."""
    seeds, ax = axes.one(histories), axes.given(ax)
    column = LEVELS.index(level)
    for place, history in enumerate(seeds[: len(COLOURS)]):
        x, y = axes.stairs(history, history.coverage()[:, column])
        ax.plot(x, y, color=COLOURS[place], label=f"level {level:g}" if place == 0 else None)
    ax.axhline(level, color=PLAIN, linestyle=":")
    ax.set_ylim(0, 1.02)
    ax.yaxis.set_major_formatter(axes.percent)
    return axes.finish(ax, seeds[0].records, "held")


def failures(histories: Histories, ax: Axes | None = None) -> Axes:
    """Resets of each learner so far, and dashed the updates it skipped."""
    seeds, ax = axes.one(histories), axes.given(ax)
    history = seeds[0]
    for i, name in enumerate(history.learners):
        for table, what, style in ((history.resets(), "resets", "-"), (history.skipped(), "skipped", "--")):
            x, y = axes.stairs(history, np.cumsum(table[:, i]))
            if y.any():
                ax.plot(x, y, label=f"{axes.short(name)} {what}", color=axes.colour(i)["color"], linestyle=style)
    ax.set_ylim(bottom=0)
    ax.locator_params(axis="y", integer=True)
    return axes.finish(ax, history.records, "so far")
