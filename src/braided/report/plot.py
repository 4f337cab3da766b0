"""Pictures of a history: each function draws on `ax`, or on new axes, and returns them.

Histories come from `braided.record`. Where several are taken, those of one name are seeds of one model: their mean is
drawn, and a band of one standard deviation around it. Matplotlib is an extra, and is imported when something is drawn.

Examples
--------
>>> import braided
>>> from braided import plot
>>> from river import datasets, dummy
>>> history = braided.record(braided.MODLClassifier(), datasets.Phishing(), name="modl")
>>> floor = braided.record(dummy.PriorClassifier(), datasets.Phishing(), name="prior")
>>> axes = plot.error([history, floor], windowed=True)
>>> axes.get_ylabel()
'errors in the last 100 records'
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from braided import extras
from braided.errors import BraidedError
from braided.estimators import explain
from braided.estimators.base import MODL
from braided.evaluation import History
from braided.kernels.coverage import LEVELS
from braided.kernels.tally import ANSWER, CALIBRATION_BINS, LAST, LEARNERS, USUAL
from braided.values import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "availability", "calibration", "confusion", "error", "failures", "learners", "shares", "throughput", "weights",
]  # fmt: skip
Floats = NDArray[np.float64]
Histories = History | Sequence[History]
#: Lines, in order; the service's page has the same.
COLOURS = ("#0b6fc2", "#c96a00", "#8a3fb5", "#0a8a80", "#b3245e", "#5f8a00", "#7d4e35", "#b89b00")
PLAIN = "#5c6875"
_STYLES = ("-", "--", ":", "-.")
#: Rows of the availability strip, classes of the confusion matrix, and classes up to which its cells have numbers.
MOST_ROWS, MOST_CLASSES, _NUMBERED = 30, 20, 10
_MOST_DRAWN = 400


def groups(histories: Histories) -> dict[str, list[History]]:
    """Histories by the name of their model, in the order given; those of different tasks do not go together."""
    several = [histories] if isinstance(histories, History) else list(histories)
    if not several or any(not isinstance(history, History) for history in several):
        raise BraidedError("give a History, or a list of them: braided.record(model, stream) makes one")
    if len({history.regression for history in several}) > 1:
        raise BraidedError("the histories are of classification and of regression: draw them apart")
    if any(history.records == 0 for history in several):
        raise BraidedError("a history has no records: record at least one")
    grouped: dict[str, list[History]] = {}
    for history in several:
        grouped.setdefault(history.name, []).append(history)
    return grouped


def one(histories: Histories) -> list[History]:
    """The seeds of the one model that a picture is about."""
    grouped = groups(histories)
    if len(grouped) > 1:
        raise BraidedError(f"this picture is of one model, and the histories are of {', '.join(grouped)}: give one")
    return next(iter(grouped.values()))


def short(name: Hashable, most: int = 22) -> str:
    """A name as a picture can show it: printable, and not too long; the middle of a long one goes."""
    text = "".join(letter if letter.isprintable() else "\N{MIDDLE DOT}" for letter in str(name))
    if len(text) > most:
        text = f"{text[: most - most // 2]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - most // 2 + 1 :]}"
    # Matplotlib leaves labels that begin with an underscore out of legends.
    return f"\N{ZERO WIDTH SPACE}{text}" if text.startswith("_") else text


def rates(seeds: list[History], loss: int, windowed: bool = False) -> tuple[Floats, Floats, Floats]:
    """Records, and the mean and standard deviation over seeds of an error: its column of the losses."""
    lines = []
    for history in seeds:
        rows = history.windowed() if windowed else history.curve()
        lines.append((rows[:, 0], rows[:, 1 + loss] / (history.window() if windowed else rows[:, 0])))
    records = lines[0][0]
    values = np.array([np.interp(records, x, y) for x, y in lines])
    return records, values.mean(axis=0), values.std(axis=0, ddof=1) if len(seeds) > 1 else np.zeros(len(records))


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    fresh: Axes = extras.require("matplotlib.pyplot", "plot").subplots(layout="constrained")[1]
    return fresh


def _thin(*arrays: Floats) -> list[Floats]:
    """The same arrays with at most some hundred points, the last one kept."""
    n = len(arrays[0])
    places = np.unique(np.linspace(0, n - 1, min(n, _MOST_DRAWN)).astype(int)) if n else np.zeros(0, dtype=int)
    return [array[places] for array in arrays]


def _line(ax: Axes, x: Floats, mean: Floats, sd: Floats, label: str, **style: Any) -> None:
    x, mean, sd = _thin(x, mean, sd)
    alone = {"marker": "o", "markersize": 4} if len(x) == 1 else {}
    (line,) = ax.plot(x, mean, label=label, **{"linewidth": 1.8, **style, **alone})
    if sd.any():
        ax.fill_between(x, mean - sd, mean + sd, color=line.get_color(), alpha=0.18, linewidth=0)


def _colour(place: int) -> dict[str, Any]:
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": _STYLES[place // len(COLOURS) % len(_STYLES)]}


def _finish(ax: Axes, records: int | None = None, legend: bool = True) -> Axes:
    """Frame, grid, legend; and names with a dollar sign are no formulas."""
    from matplotlib.text import Text

    ax.spines[["top", "right"]].set_visible(False)
    if records is not None:
        ax.set_xlabel("records")
        ax.set_xlim(0, max(records, 1))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.locator_params(axis="x", nbins=5, integer=True)
        ax.grid(alpha=0.25, linewidth=0.6)
        ax.set_axisbelow(True)
    handles, labels = ax.get_legend_handles_labels()
    if legend and handles:
        # Above the lines, in as many columns as the longest label leaves room for.
        columns = max(1, min(len(handles), 5, 60 // (max(len(label) for label in labels) + 6)))
        ax.legend(
            handles,
            labels,
            frameon=False,
            ncols=columns,
            handlelength=1.2,
            columnspacing=1.2,
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
        )
    for text in ax.findobj(Text):
        text.set_parse_math(False)
    return ax


def _percent(value: float, _: Any = None) -> str:
    return f"{100 * value:.3g}%"


def _number_tick(value: float, _: Any = None) -> str:
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.3g}"


def _compact_tick(value: float, _: Any = None) -> str:
    return _compact(value)


def _logarithmic(ax: Axes, least: float, most: float, formatter: Callable[[float, Any], str]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_yscale("log")
    ax.set_ylim(least, most)
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if most < 100 * least else (1.0,)))
    ax.yaxis.set_major_formatter(formatter)
    ax.yaxis.set_minor_formatter(NullFormatter())


def _scale(ax: Axes, lines: Iterable[Floats], regression: bool, logarithmic: bool) -> None:
    """Look at what comes after the first tenth; on a logarithmic scale where small and large are far apart."""
    settled = np.concatenate([line[len(line) // 10 :] for line in lines] or [np.zeros(0)])
    settled = settled[np.isfinite(settled)]
    top = float(settled.max(initial=0.0))
    positive = settled[settled > 0]
    if logarithmic and positive.size == settled.size and top > 4 * positive.min(initial=np.inf):
        _logarithmic(ax, float(positive.min()) / 1.25, top * 1.15, _number_tick if regression else _percent)
        return
    if top > 0:
        ax.set_ylim(0, top * 1.08)
    ax.yaxis.set_major_formatter(_number_tick if regression else _percent)


def _told(seeds: list[History]) -> str:
    """The final error, as a label has it."""
    final = float(np.mean([seed.error for seed in seeds]))
    return _number_tick(final) if seeds[0].regression else f"{final:.2%}"


def guesses(history: History) -> dict[str, int]:
    """The plain guesses that were counted from the first record on, and their columns of the losses."""
    named = {name: USUAL + i for i, name in enumerate(history.guesses.names)}
    return {name: loss for name, loss in named.items() if not np.isnan(history.totals[loss])}


def _plain_guesses(ax: Axes, history: History, windowed: bool) -> list[Floats]:
    """Draw the errors of what is usual, dashed, and of what was last, dotted, and return them."""
    drawn = []
    for name, loss in guesses(history).items():
        records, mean, _ = rates([history], loss, windowed)
        style = ":" if loss == LAST else "--"
        _line(ax, records, mean, np.zeros_like(mean), name, color=PLAIN, linestyle=style, linewidth=1.2, zorder=1)
        drawn.append(mean)
    return drawn


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


def error(histories: Histories, windowed: bool = False, ax: Axes | None = None) -> Axes:
    """Running error of each model, or with `windowed` the one over the last records; in grey the plain guesses.

    The error is the share of wrong predictions, or for regression the mean absolute error. The plain guesses are the
    most frequent class so far, or the mean so far, dashed, and the last label or value, dotted. Triangles at the bottom
    mark the blocks in which drift was found.
    """
    grouped, ax = groups(histories), _axes(ax)
    first = next(iter(grouped.values()))[0]
    what = "absolute error" if first.regression else "errors"
    drawn = []
    for place, (name, seeds) in enumerate(grouped.items()):
        records, mean, sd = rates(seeds, ANSWER, windowed)
        _line(ax, records, mean, sd, f"{short(name)} {_told(seeds)}", **_colour(place))
        drawn.append(mean)
        drifts = np.concatenate([seed.blocks()[seed.drifts() > 0, 0] for seed in seeds])
        if drifts.size:
            ax.scatter(
                drifts, np.zeros_like(drifts), marker="^", s=28, color=_colour(place)["color"], zorder=4, clip_on=False,
                transform=ax.get_xaxis_transform(),
            )  # fmt: skip
    drawn += _plain_guesses(ax, first, windowed)
    _scale(ax, drawn, first.regression, logarithmic=not windowed)
    ax.set_ylabel(f"{what} in the last {first.window():,} records" if windowed else f"{what} so far")
    return _finish(ax, first.records)


def learners(histories: Histories, windowed: bool = True, ax: Axes | None = None) -> Axes:
    """Each learner's own error, beside that of all together; if not windowed, also those of the plain guesses."""
    from matplotlib import rcParams

    seeds, ax = one(histories), _axes(ax)
    first = seeds[0]
    records, mean, sd = rates(seeds, ANSWER, windowed)
    _line(
        ax,
        records,
        mean,
        sd,
        "together" if windowed else f"together {_told(seeds)}",
        color=rcParams["text.color"],
        linewidth=2.4,
        zorder=3,
    )
    drawn = [mean]
    for i, name in enumerate(first.learners):
        records, mean, _ = rates(seeds, LEARNERS + i, windowed)
        _line(ax, records, mean, np.zeros_like(mean), f"{short(name)} alone", **{**_colour(i), "linewidth": 1.3})
        drawn.append(mean)
    if not windowed:
        drawn += _plain_guesses(ax, first, windowed)
    _scale(ax, drawn, first.regression, logarithmic=not windowed)
    what = "absolute error" if first.regression else "errors"
    ax.set_ylabel(f"{what} in the last {first.window():,} records" if windowed else f"{what} so far")
    return _finish(ax, first.records)


def _stairs(history: History, values: Floats) -> tuple[Floats, Floats]:
    """Block ends from 0 on, and the values of each block from its start to its end."""
    ends = np.minimum(history.blocks()[:, 0], history.records)
    edges = np.concatenate([[0.0], ends])
    return np.repeat(edges, 2)[1:-1], np.repeat(values, 2, axis=0)


def shares(histories: Histories, ax: Axes | None = None) -> Axes:
    """Each learner's share of the final score over time; `braided.estimators.explain.shares` has the definition."""
    seeds, ax = one(histories), _axes(ax)
    first = seeds[0]
    if not first.learners:
        raise BraidedError(f"{first.name} has no learners: shares are of a braided model")
    tables = np.array([history.shares() for history in seeds if len(history.blocks()) == len(first.blocks())])
    measured = np.isfinite(tables).all(axis=2, keepdims=True)
    mean = np.where(measured, tables, 0.0).sum(axis=0) / np.maximum(measured.sum(axis=0), 1)
    x, y = _stairs(first, mean)
    ax.stackplot(
        x,
        y.T,
        labels=[short(name) for name in first.learners],
        colors=[COLOURS[i % len(COLOURS)] for i in range(len(first.learners))],
        alpha=0.8,
        linewidth=0,
    )
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(_percent)
    ax.set_ylabel("share of the final score")
    return _finish(ax, first.records)


def rows_of_strip(history: History) -> tuple[list[int], int]:
    """Which features the availability strip shows, the most and the least available, and how many are left out."""
    followed = history.availability().shape[1]
    if followed <= MOST_ROWS:
        return list(range(followed)), len(history.features) - followed
    order = np.argsort(-history.present[:followed], kind="stable").tolist()
    half = MOST_ROWS // 2
    return order[:half] + order[-half:], len(history.features) - 2 * half


def availability(histories: Histories, ax: Axes | None = None) -> Axes:
    """How often each feature was there, over time: the darker, the more often."""
    from matplotlib.colors import ListedColormap

    seeds, ax = one(histories), _axes(ax)
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
    ax.set_yticks(range(len(rows)), [short(history.features[row], 18) for row in rows])
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    if left_out:
        ax.set_title(f"{left_out:,} features between the most and the least available are not shown", loc="left")
    _finish(ax, history.records, legend=False)
    ax.grid(visible=False)
    return ax


def _classes_only(history: History, what: str) -> None:
    if history.regression:
        raise BraidedError(f"{what} is of class probabilities, and {history.name} predicts numbers: use plot.error")


def calibration(histories: Histories, ax: Axes | None = None) -> Axes:
    """How often predictions of a given probability were right, with their number; the diagonal is well calibrated.

    The probability is that of the predicted class, in ten bins; the expected calibration error is in the title.
    """
    seeds, ax = one(histories), _axes(ax)
    _classes_only(seeds[0], "calibration")
    bins = np.sum([history.bins for history in seeds], axis=0)
    count, confidence, right = bins[bins[:, 0] > 0].T
    ax.plot([0, 1], [0, 1], color=PLAIN, linestyle="--", linewidth=1.0)
    centres = (np.flatnonzero(bins[:, 0]) + 0.5) / CALIBRATION_BINS
    ax.bar(centres, right / count, width=0.9 / CALIBRATION_BINS, color=COLOURS[0], alpha=0.35)
    ax.plot(confidence / count, right / count, color=COLOURS[0], marker="o", markersize=4, linewidth=1.6)
    for centre, number in zip(centres, count, strict=True):
        ax.text(centre, 0.02, _compact(number), ha="center", va="bottom", fontsize="x-small")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.02)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(_percent)
    gap = np.abs(right - confidence).sum() / max(count.sum(), 1.0)
    ax.set_title(f"expected calibration error {gap:.3f}", loc="left")
    ax.set_xlabel("probability of the predicted class")
    ax.set_ylabel("how often it was right")
    return _finish(ax, legend=False)


def _compact(number: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def confused(histories: Histories, most: int = MOST_CLASSES) -> tuple[list[str], NDArray[np.int64], int]:
    """Names, counts (true, predicted) over all seeds, and how many records had no prediction.

    Classes beyond the `most` frequent are one row and column.
    """
    seeds = one(histories)
    _classes_only(seeds[0], "confusion")
    labels = list(dict.fromkeys(label for history in seeds for label in history.classes))
    place = {label: i for i, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    unanswered = 0
    for history in seeds:
        places = [place[label] for label in history.classes]
        counts[np.ix_(places, places)] += history.confusion[:, :-1]
        unanswered += int(history.confusion[:, -1].sum())
    names = [short(label) for label in labels]
    if len(labels) > most:
        totals = counts.sum(axis=1)
        order = np.argsort(-totals, kind="stable")
        kept = order[: most - 1]
        group = np.full(len(labels), most - 1)
        group[kept] = np.arange(most - 1)
        merged = np.zeros((most, most), dtype=np.int64)
        np.add.at(merged, (group[:, None], group[None, :]), counts)
        counts, names = merged, [names[i] for i in kept] + [f"{len(labels) - most + 1} others"]
    return names, counts, unanswered


def confusion(histories: Histories, ax: Axes | None = None) -> Axes:
    """Records of each class by the class that was predicted; the darker, the larger the share of the row."""
    from matplotlib.colors import ListedColormap

    ax = _axes(ax)
    names, counts, _ = confused(histories)
    red, green, blue = (int(COLOURS[0][i : i + 2], 16) / 255 for i in (1, 3, 5))
    ramp = ListedColormap([(red, green, blue, 0.04 + 0.71 * step / 255) for step in range(256)])
    ax.imshow(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), cmap=ramp, vmin=0, vmax=1, aspect="auto")
    narrow = [short(name, 12) for name in names]
    ax.set_yticks(range(len(names)), narrow)
    wide = sum(len(name) + 2 for name in narrow) > 60
    ax.set_xticks(range(len(names)), narrow, rotation=90 if wide else 0)
    if len(names) <= _NUMBERED:
        for row, line in enumerate(counts.tolist()):
            for column, count in enumerate(line):
                told = f"{count:,}" if len(names) <= 5 else _compact(count)
                ax.text(column, row, told, ha="center", va="center", fontsize="small")
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_xlabel("predicted")
    ax.set_ylabel("label")
    return _finish(ax, legend=False)


def mean_throughput(seeds: list[History]) -> Floats:
    """Records per second in each block, (blocks,): the mean over the seeds that have as many blocks as the first."""
    same = [history.throughput() for history in seeds if len(history.blocks()) == len(seeds[0].blocks())]
    return np.asarray(np.mean(same, axis=0))


def throughput(histories: Histories, ax: Axes | None = None) -> Axes:
    """Records per second, predicting and learning, over time."""
    grouped, ax = groups(histories), _axes(ax)
    drawn = []
    for place, (name, seeds) in enumerate(grouped.items()):
        x, y = _stairs(seeds[0], mean_throughput(seeds))
        _line(ax, x, y, np.zeros_like(y), short(name), **_colour(place))
        drawn.append(y)
    everything = np.concatenate(drawn)
    everything = everything[np.isfinite(everything)]
    if everything.size and everything.max() > 10 * everything.min():
        _logarithmic(ax, float(everything.min()) / 1.5, float(everything.max()) * 1.5, _compact_tick)
    else:
        ax.set_ylim(0, 1.08 * float(everything.max(initial=1e-9)))
        ax.yaxis.set_major_formatter(_compact_tick)
    ax.set_ylabel("records per second")
    return _finish(ax, next(iter(grouped.values()))[0].records)


def coverage(histories: Histories, level: float = 0.9, ax: Axes | None = None) -> Axes:
    """Share of records whose interval or set held the truth, over time; the dotted line is what was promised."""
    seeds, ax = one(histories), _axes(ax)
    column = LEVELS.index(level)
    for place, history in enumerate(seeds[: len(COLOURS)]):
        x, y = _stairs(history, history.coverage()[:, column])
        ax.plot(x, y, color=COLOURS[place], label=f"level {level:g}" if place == 0 else None)
    ax.axhline(level, color=PLAIN, linestyle=":")
    ax.set_ylim(0, 1.02)
    ax.yaxis.set_major_formatter(_percent)
    ax.set_ylabel("held")
    return _finish(ax, seeds[0].records)


def failures(histories: Histories, ax: Axes | None = None) -> Axes:
    """Resets of each learner so far, and dashed the updates it skipped."""
    seeds, ax = one(histories), _axes(ax)
    history = seeds[0]
    for i, name in enumerate(history.learners):
        for table, what, style in ((history.resets(), "resets", "-"), (history.skipped(), "skipped", "--")):
            x, y = _stairs(history, np.cumsum(table[:, i]))
            if y.any():
                ax.plot(x, y, label=f"{short(name)} {what}", color=COLOURS[i % len(COLOURS)], linestyle=style)
    ax.set_ylabel("so far")
    ax.set_ylim(bottom=0)
    ax.locator_params(axis="y", integer=True)
    return _finish(ax, history.records)


def _known_weights(source: Any) -> tuple[list[Hashable], list[Hashable], Floats, Floats, bool]:
    """Features, classes of the rows, means (rows, features), standard deviations (features,), whether regression."""
    if isinstance(source, MODL):
        learner = explain.fast_learner(source.braid)
        if learner is None or learner.n_outputs == 0:
            raise BraidedError("the model has no linear learner in closed form that has learned: there are no weights")
        posterior = explain.posterior(learner)
        mean = posterior.mean[:, posterior.value_at]
        labels: list[Hashable] = list(source._classes.places)
        deviations = np.sqrt(posterior.variances[posterior.value_at])
        mean = mean[-1:] if learner.n_outputs == 2 else mean
        return source.feature_names, labels, mean, deviations, source._regression
    history = one(source)[0]
    if history.weight_mean.size == 0:
        raise BraidedError(f"{history.name} has no linear learner in closed form: there are no weights")
    return history.weight_names, history.classes, history.weight_mean, history.weight_sd, history.regression


def top_weights(source: Any, most: int) -> list[tuple[int, int, Hashable, str, float, float]]:
    """The largest weights: row, feature's place, feature's name, whose score it is part of, mean, standard deviation.

    A feature appears once, with the class for which its weight is largest.
    """
    names, labels, mean, deviations, regression = _known_weights(source)
    rows = np.abs(mean).argmax(axis=0)
    sizes = np.abs(mean).max(axis=0)
    found = []
    for place in np.argsort(-sizes, kind="stable")[:most].tolist():
        row = int(rows[place])
        label = row if len(mean) > 1 else 1
        whose = "the value" if regression else short(labels[label]) if label < len(labels) else "a second class"
        found.append((row, place, names[place], whose, float(mean[row, place]), float(deviations[place])))
    return found


def weights(source: Any, most: int = 15, over_time: bool = False, ax: Axes | None = None) -> Axes:
    """The fast learner's largest weights with one standard deviation of their posterior.

    Parameters
    ----------
    source
        A model, or a history; of several seeds the first.
    most
        How many weights.
    over_time
        From block to block rather than at the end; needs a history.
    ax
        Where to draw.
    """
    ax = _axes(ax)
    _, labels, mean, _, regression = _known_weights(source)
    several = len(mean) > 1
    second = short(labels[1]) if len(labels) > 1 else "a second class"
    unit = "the value" if regression else "the scores" if several else f"the score of {second}"
    top = top_weights(source, most)
    names = [f"{short(name, 18)} \N{RIGHTWARDS ARROW} {short(whose, 10)}" if several else short(name)
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
        return _finish(ax, legend=False)
    if isinstance(source, MODL):
        raise BraidedError("a model knows its weights now, not over time: give a history")
    history = one(source)[0]
    followed, deviations = history.weights()
    x = np.minimum(history.blocks()[: len(followed), 0], history.records)
    for number, ((row, place, *_), name) in enumerate(zip(top, names, strict=True)):
        if place < followed.shape[2]:
            _line(ax, x, followed[:, row, place], deviations[:, place], name, **_colour(number))
    ax.axhline(0, color=PLAIN, linewidth=0.8)
    ax.set_ylabel(f"weight in {unit}")
    return _finish(ax, history.records)
