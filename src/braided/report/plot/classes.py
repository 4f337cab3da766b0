"""Pictures of classes: how sure answers were, and which class was taken for which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.evaluation import History
from braided.kernels.tally import CALIBRATION_BINS
from braided.report.plot import axes
from braided.report.plot.axes import COLOURS, PLAIN, Histories

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Classes of the confusion matrix, and those up to which its cells have numbers.
MAX_CLASSES, _NUMBERED = 20, 10
#: Letters of a class's name in a table.
MAX_LETTERS = 60


def _seeds(histories: Histories, what: str) -> list[History]:
    """The seeds of the one model that a picture of classes is about."""
    seeds = axes.one(histories)
    if seeds[0].tally.regression:
        raise BraidedError(f"{what} is of class probabilities, and {seeds[0].name} predicts numbers: use plot.error")
    return seeds


def calibration(histories: Histories, ax: Axes | None = None) -> Axes:
    """How often predictions of a given probability were right, with their number; the diagonal is well calibrated.

    The probability is that of the predicted class, in ten bins; the expected calibration error is in the title.
    """
    seeds, ax = _seeds(histories, "calibration"), axes.given(ax)
    bins = np.sum([history.tally.bins for history in seeds], axis=0)
    count, confidence, right = bins[bins[:, 0] > 0].T
    ax.plot([0, 1], [0, 1], color=PLAIN, linestyle="--", linewidth=1.0)
    centres = (np.flatnonzero(bins[:, 0]) + 0.5) / CALIBRATION_BINS
    ax.bar(centres, right / count, width=0.9 / CALIBRATION_BINS, color=COLOURS[0], alpha=0.35)
    ax.plot(confidence / count, right / count, label="right", color=COLOURS[0], marker="o", markersize=4, linewidth=1.6)
    for centre, number in zip(centres, count, strict=True):
        ax.text(centre, 0.02, axes.compact(number), ha="center", va="bottom", fontsize="x-small")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.02)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(axes.percent)
    gap = np.abs(right - confidence).sum() / max(count.sum(), 1.0)
    ax.set_title(f"expected calibration error {gap:.3f}", loc="left")
    ax.set_xlabel("probability of the predicted class")
    return axes.finish(ax, upwards="how often it was right")


def confused(histories: Histories, most: int = MAX_CLASSES) -> tuple[list[str], NDArray[np.int64], int]:
    """Names, counts (true, predicted) over all seeds, and how many records had no prediction.

    Classes beyond the `most` frequent are one row and column.
    """
    seeds = _seeds(histories, "confusion")
    labels = list(dict.fromkeys(label for history in seeds for label in history.tally.classes))
    place = {label: i for i, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    unanswered = 0
    for history in seeds:
        places = [place[label] for label in history.tally.classes]
        counts[np.ix_(places, places)] += history.tally.confusion[:, :-1]
        unanswered += int(history.tally.confusion[:, -1].sum())
    names = [axes.short(label, MAX_LETTERS) for label in labels]
    if len(labels) > most:
        kept = np.argsort(-counts.sum(axis=1), kind="stable")[: most - 1]
        group = np.full(len(labels), most - 1)
        group[kept] = np.arange(most - 1)
        merged = np.zeros((most, most), dtype=np.int64)
        np.add.at(merged, (group[:, None], group[None, :]), counts)
        counts, names = merged, [names[i] for i in kept] + [f"{len(labels) - most + 1} others"]
    return names, counts, unanswered


def confusion(histories: Histories, ax: Axes | None = None) -> Axes:
    """Records of each class by the class that was predicted; the darker, the larger the share of the row."""
    ax = axes.given(ax)
    names, counts, _ = confused(histories)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(shares, cmap=axes.ramp(0.71), vmin=0, vmax=1, aspect="auto")
    ax.set_yticks(range(len(names)), [axes.short(name, 24) for name in names])
    across = axes.fitted(names, 56 - 3 * len(names), 24)
    upright = len(names) > 8 or sum(len(name) + 3 for name in across) > 56
    ax.set_xticks(range(len(names)), [axes.short(name, 24) for name in names] if upright else across,
                  rotation=90 if upright else 0)  # fmt: skip
    if len(names) <= _NUMBERED:
        for row, line in enumerate(counts.tolist()):
            for column, count in enumerate(line):
                told = f"{count:,}" if len(names) <= 5 else axes.compact(count)
                ax.text(column, row, told, ha="center", va="center", fontsize="small")
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_xlabel("predicted")
    return axes.finish(ax, upwards="label")
