"""What every picture of a history is drawn with: axes, lines, colours, scales, a legend, and names that fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from braided import extras
from braided.errors import BraidedError
from braided.evaluation import History

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
Histories = History | Sequence[History]
#: Lines, in order; the service's page has the same.
COLOURS = ("#0b6fc2", "#c96a00", "#8a3fb5", "#0a8a80", "#b3245e", "#5f8a00", "#7d4e35", "#b89b00")
PLAIN = "#5c6875"
_STYLES = ("-", "--", ":", "-.")
_MAX_DRAWN = 400
#: Letters of all names in a legend together, and of one; those of a row of it.
_LEGEND_ROOM, _LEGEND_NAME, _LEGEND_ROW = 200, 46, 60


def groups(histories: Histories) -> dict[str, list[History]]:
    """Histories by the name of their model, in the order given; those of different tasks do not go together."""
    several = [histories] if isinstance(histories, History) else list(histories)
    if not several or any(not isinstance(history, History) for history in several):
        raise BraidedError("give a History, or a list of them: braided.record(model, stream) makes one")
    if len({history.tally.regression for history in several}) > 1:
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


def fitted(names: Sequence[Hashable], room: int, most: int) -> list[str]:
    """Names in `room` letters together, if six of each fit: short ones leave theirs to long ones, up to `most`.

    >>> fitted(["idle", "a long name of a class"], 26, 40)
    ['idle', 'a long name of a class']
    >>> fitted(["idle", "a long name of a class"], 16, 40)
    ['idle', 'a long…class']
    """
    lengths = sorted(len(str(name)) for name in names)
    each = most
    for place, length in enumerate(lengths):
        each = (room - sum(lengths[:place])) // (len(lengths) - place)
        if length > each:
            break
    else:
        each = most
    return [short(name, min(max(each, 6), most)) for name in names]


def legend_names(names: Sequence[Hashable]) -> list[str]:
    """Names as a legend has room for them."""
    return fitted(names, _LEGEND_ROOM, _LEGEND_NAME)


def axes_of(ax: Axes | None) -> Axes:
    """The axes to draw on: those given, or new ones."""
    if ax is not None:
        return ax
    fresh: Axes = extras.require("matplotlib.pyplot", "plot").subplots(layout="constrained")[1]
    return fresh


def _thin(*arrays: Floats) -> list[Floats]:
    """The same arrays with at most some hundred points, the last one kept."""
    n = len(arrays[0])
    places = np.unique(np.linspace(0, n - 1, min(n, _MAX_DRAWN)).astype(int)) if n else np.zeros(0, dtype=int)
    return [array[places] for array in arrays]


def draw_line(ax: Axes, x: Floats, mean: Floats, sd: Floats, label: str, **style: Any) -> None:
    """A line, with a band of one standard deviation where there is any."""
    x, mean, sd = _thin(x, mean, sd)
    alone = {"marker": "o", "markersize": 4} if len(x) == 1 else {}
    (line,) = ax.plot(x, mean, label=label, **{"linewidth": 1.8, **style, **alone})
    if sd.any():
        ax.fill_between(x, mean - sd, mean + sd, color=line.get_color(), alpha=0.18, linewidth=0)


def colour(place: int) -> dict[str, Any]:
    """How the line at a place among others looks."""
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": _STYLES[place // len(COLOURS) % len(_STYLES)]}


def finish(ax: Axes, records: int | None = None, legend: bool = True, figures: Mapping[str, str] | None = None) -> Axes:
    """Frame, grid, legend, with the figure of each line if there are any; names with a dollar sign are no formulas."""
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
        labels = [f"{label} {figures[label]}" if figures and label in figures else label for label in labels]
        # Above the lines, in as many columns as the longest label leaves room for.
        columns = max(1, min(len(handles), 5, _LEGEND_ROW // (max(len(label) for label in labels) + 6)))
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


def percent(value: float, _: Any = None) -> str:
    """A share, at an axis."""
    return f"{100 * value:.3g}%"


def number_tick(value: float, _: Any = None) -> str:
    """A quantity, at an axis."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.3g}"


def compact(number: float) -> str:
    """A number in few letters.

    >>> compact(1_250), compact(3e6)
    ('1.25k', '3M')
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def compact_tick(value: float, _: Any = None) -> str:
    """A number in few letters, at an axis."""
    return compact(value)


def logarithmic_scale(ax: Axes, least: float, most: float, formatter: Callable[[float, Any], str]) -> None:
    """Make the vertical axis logarithmic, from `least` to `most`."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_yscale("log")
    ax.set_ylim(least, most)
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if most < 100 * least else (1.0,)))
    ax.yaxis.set_major_formatter(formatter)
    ax.yaxis.set_minor_formatter(NullFormatter())


def stairs(history: History, values: Floats) -> tuple[Floats, Floats]:
    """Block ends from 0 on, and the values of each block from its start to its end."""
    ends = np.minimum(history.blocks()[:, 0], history.records)
    edges = np.concatenate([[0.0], ends])
    return np.repeat(edges, 2)[1:-1], np.repeat(values, 2, axis=0)
