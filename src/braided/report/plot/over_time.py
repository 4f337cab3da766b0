"""What else is followed from block to block: shares, features, speed, coverage, failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from braided.errors import BraidedError
from braided.evaluation import History
from braided.kernels.coverage import LEVELS
from braided.report.plot.axes import (
    COLOURS,
    PLAIN,
    Floats,
    Histories,
    axes_of,
    colour,
    compact_tick,
    draw_line,
    finish,
    groups,
    legend_names,
    logarithmic_scale,
    one,
    percent,
    short,
    stairs,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Rows of the availability strip.
MAX_ROWS = 30


def shares(histories: Histories, ax: Axes | None = None) -> Axes:
    """Each learner's share of the final score over time; `braided.estimators.explain.shares` has the definition."""
    seeds, ax = one(histories), axes_of(ax)
    first = seeds[0]
    if not first.learners:
        raise BraidedError(f"{first.name} has no learners: shares are of a braided model")
    tables = np.array([history.shares() for history in seeds if len(history.blocks()) == len(first.blocks())])
    measured = np.isfinite(tables).all(axis=2, keepdims=True)
    mean = np.where(measured, tables, 0.0).sum(axis=0) / np.maximum(measured.sum(axis=0), 1)
    x, y = stairs(first, mean)
    ax.stackplot(
        x,
        y.T,
        labels=legend_names(first.learners),
        colors=[COLOURS[i % len(COLOURS)] for i in range(len(first.learners))],
        alpha=0.8,
        linewidth=0,
    )
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(percent)
    ax.set_ylabel("share of the final score")
    return finish(ax, first.records)


def rows_of_strip(history: History) -> tuple[list[int], int]:
    """Which features the availability strip shows, the most and the least available, and how many are left out."""
    followed = history.availability().shape[1]
    if followed <= MAX_ROWS:
        return list(range(followed)), len(history.features) - followed
    order = np.argsort(-history.present[:followed], kind="stable").tolist()
    half = MAX_ROWS // 2
    return order[:half] + order[-half:], len(history.features) - 2 * half


def availability(histories: Histories, ax: Axes | None = None) -> Axes:
    """How often each feature was there, over time: the darker, the more often."""
    from matplotlib.colors import ListedColormap

    seeds, ax = one(histories), axes_of(ax)
    history = seeds[0]
    rows, left_out = rows_of_strip(history)
    red, green, blue = (int(COLOURS[0][i : i + 2], 16) / 255 for i in (1, 3, 5))
    ramp = ListedColormap([(red, green, blue, 0.04 + 0.96 * step / 255) for step in range(256)])
    end = len(history.blocks()) * history.block
    ax.imshow(
        history.availability()[:, rows].T,
        cmap=ramp,
        vmin=0,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
        extent=(0, end, max(len(rows), 1) - 0.5, -0.5),
    )
    ax.set_yticks(range(len(rows)), [short(history.features[row], 30) for row in rows])
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    if left_out:
        # Short: beside the names of features there is little room.
        ax.set_title(f"{left_out:,} features in between not shown", loc="left")
    finish(ax, history.records, legend=False)
    ax.grid(visible=False)
    return ax


def mean_throughput(seeds: list[History]) -> Floats:
    """Records per second in each block, (blocks,): the mean over the seeds that have as many blocks as the first."""
    same = [history.throughput() for history in seeds if len(history.blocks()) == len(seeds[0].blocks())]
    return np.asarray(np.mean(same, axis=0))


def _full_blocks(history: History) -> int:
    """How many blocks there are without a last one that is not full; one that is the only one counts."""
    sizes = history.blocks()[:, 1]
    return len(sizes) - int(len(sizes) > 1 and sizes[-1] < history.block)


def throughput(histories: Histories, ax: Axes | None = None) -> Axes:
    """Records per second, predicting and learning, over time; a last block that is not full has too few to say."""
    grouped, ax = groups(histories), axes_of(ax)
    drawn = []
    names = legend_names(list(grouped))
    for place, (name, seeds) in enumerate(zip(names, grouped.values(), strict=True)):
        x, y = (values[: 2 * _full_blocks(seeds[0])] for values in stairs(seeds[0], mean_throughput(seeds)))
        draw_line(ax, x, y, np.zeros_like(y), name, **colour(place))
        drawn.append(y)
    everything = np.concatenate(drawn)
    everything = everything[np.isfinite(everything)]
    if everything.size and everything.max() > 10 * everything.min():
        logarithmic_scale(ax, float(everything.min()) / 1.5, float(everything.max()) * 1.5, compact_tick)
    else:
        ax.set_ylim(0, 1.08 * float(everything.max(initial=1e-9)))
        ax.yaxis.set_major_formatter(compact_tick)
    ax.set_ylabel("records per second")
    return finish(ax, next(iter(grouped.values()))[0].records)


def coverage(histories: Histories, level: float = 0.9, ax: Axes | None = None) -> Axes:
    """Share of records whose interval or set held the truth, over time; the dotted line is what was promised."""
    seeds, ax = one(histories), axes_of(ax)
    column = LEVELS.index(level)
    for place, history in enumerate(seeds[: len(COLOURS)]):
        x, y = stairs(history, history.coverage()[:, column])
        ax.plot(x, y, color=COLOURS[place], label=f"level {level:g}" if place == 0 else None)
    ax.axhline(level, color=PLAIN, linestyle=":")
    ax.set_ylim(0, 1.02)
    ax.yaxis.set_major_formatter(percent)
    ax.set_ylabel("held")
    return finish(ax, seeds[0].records)


def failures(histories: Histories, ax: Axes | None = None) -> Axes:
    """Resets of each learner so far, and dashed the updates it skipped."""
    seeds, ax = one(histories), axes_of(ax)
    history = seeds[0]
    for i, name in enumerate(history.learners):
        for table, what, style in ((history.resets(), "resets", "-"), (history.skipped(), "skipped", "--")):
            x, y = stairs(history, np.cumsum(table[:, i]))
            if y.any():
                ax.plot(x, y, label=f"{short(name)} {what}", color=COLOURS[i % len(COLOURS)], linestyle=style)
    ax.set_ylabel("so far")
    ax.set_ylim(bottom=0)
    ax.locator_params(axis="y", integer=True)
    return finish(ax, history.records)
