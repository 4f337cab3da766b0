"""The fast learner's weights, of a model or a history, with what their posterior leaves open."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from braided.errors import BraidedError
from braided.estimators import explain
from braided.estimators.base import MODL
from braided.estimators.params import REGRESSION
from braided.report.plot import axes
from braided.report.plot.axes import COLOURS, PLAIN, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Letters beside a weight: of the feature, and of the class whose score it is part of.
_ROOM = 34


def _known_weights(source: Any) -> tuple[list[Hashable], list[Hashable], Floats, Floats, bool]:
    """Features, classes of the rows, means (rows, features), standard deviations (features,), whether regression."""
    if isinstance(source, MODL):
        learner = explain.fast_learner(source.braid)
        if learner is None or learner.n_outputs == 0:
            raise BraidedError("the model has no linear learner in closed form that has learned: there are no weights")
        mean, deviations = explain.weights(learner)
        return source.feature_names, source.classes, mean, deviations, source.task == REGRESSION
    history = axes.one(source)[0]
    if history.weight_mean.size == 0:
        raise BraidedError(f"{history.name} has no linear learner in closed form: there are no weights")
    return history.weight_names, history.tally.classes, history.weight_mean, history.weight_sd, history.tally.regression


def top_weights(source: Any, most: int) -> list[tuple[int, int, Hashable, str, float, float]]:
    """The largest weights: row, feature's place, feature's name, whose score it is part of, mean, standard deviation.

    A feature appears once, with the class for which its weight is largest.
    """
    names, labels, mean, deviations, regression = _known_weights(source)
    rows = np.abs(mean).argmax(axis=0)
    sizes = np.abs(mean).max(axis=0)
    classes = [axes.short(label, 60) for label in labels] + ["a second class"]
    found = []
    for place in np.argsort(-sizes, kind="stable")[:most].tolist():
        row = int(rows[place])
        whose = "the value" if regression else classes[min(row if len(mean) > 1 else 1, len(labels))]
        found.append((row, place, names[place], whose, float(mean[row, place]), float(deviations[place])))
    return found


def weights(source: Any, most: int = 15, over_time: bool = False, ax: Axes | None = None) -> Axes:
    """The fast learner's `most` largest weights with one standard deviation of their posterior, now or `over_time`.

    The source is a model, or a history, of several seeds the first; over time it is a history, followed by its blocks.
    """
    ax = axes.given(ax)
    _, labels, mean, _, regression = _known_weights(source)
    several = len(mean) > 1
    second = axes.short(labels[1], 40) if len(labels) > 1 else "a second class"
    unit = "the value" if regression else "the scores" if several else f"the score of {second}"
    top = top_weights(source, most)
    names = [" \N{RIGHTWARDS ARROW} ".join(axes.fitted([name, whose] if several else [name], _ROOM, _ROOM))
             for _, _, name, whose, _, _ in top]  # fmt: skip
    if not over_time:
        rows = np.arange(len(top))
        means, sds = np.array([entry[4] for entry in top]), np.array([entry[5] for entry in top])
        ax.axvline(0, color=PLAIN, linewidth=0.8)
        ax.errorbar(means, rows, xerr=sds, fmt="o", color=COLOURS[0], markersize=4, elinewidth=1.4, capsize=2.5)
        ax.set_yticks(rows, names)
        ax.set_ylim(len(top) - 0.4, -0.6)
        ax.set_xlabel(f"weight in {unit}")
        ax.grid(axis="x", alpha=0.25, linewidth=0.6)
        return axes.finish(ax)
    if isinstance(source, MODL):
        raise BraidedError("a model knows its weights now, not over time: give a history")
    history = axes.one(source)[0]
    followed, deviations = history.weights()
    x = np.minimum(history.blocks()[: len(followed), 0], history.records)
    for number, ((row, place, *_), name) in enumerate(zip(top, names, strict=True)):
        if place < followed.shape[2]:
            axes.line(ax, x, followed[:, row, place], deviations[:, place], name, **axes.colour(number))
    ax.axhline(0, color=PLAIN, linewidth=0.8)
    ax.yaxis.set_major_formatter(axes.number)
    return axes.finish(ax, history.records, f"weight in {unit}")
