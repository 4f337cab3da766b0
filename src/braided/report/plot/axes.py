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
    from matplotlib.colors import ListedColormap

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


def fitted(names: Sequence[Hashable], room: int = _LEGEND_ROOM, most: int = _LEGEND_NAME) -> list[str]:
    """Names in `room` letters, a legend's, if six of each fit: short ones leave theirs to long ones, up to `most`.

    >>> fitted(["idle", "a long name of a class"], 26, 40)
    ['idle', 'a long name of a class']
    >>> fitted(["idle", "a long name of a class"], 16, 40)
    ['idle', 'a long…class']
    """
    lengths = [len(str(name)) for name in names]
    each = next((each for each in range(most, 6, -1) if sum(min(length, each) for length in lengths) <= room), 6)
    return [short(name, each) for name in names]


def given(ax: Axes | None) -> Axes:
    """The axes to draw on: those given, or new ones."""
    return extras.require("matplotlib.pyplot", "plot").subplots(layout="constrained")[1] if ax is None else ax


def line(ax: Axes, x: Floats, mean: Floats, sd: Floats, label: str, **style: Any) -> None:
    """A line of at most some hundred points, with a band of one standard deviation where there is any."""
    points = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MAX_DRAWN)).astype(int)) if len(x) else slice(0)
    x, mean, sd = x[points], mean[points], sd[points]
    alone = {"marker": "o", "markersize": 4} if len(x) == 1 else {}
    (drawn,) = ax.plot(x, mean, label=label, **{"linewidth": 1.8, **style, **alone})
    drawn.sd = sd  # what is told where the pointer is
    if sd.any():
        ax.fill_between(x, mean - sd, mean + sd, color=drawn.get_color(), alpha=0.18, linewidth=0)


def colour(place: int) -> dict[str, Any]:
    """How the line at a place among others looks."""
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": _STYLES[place // len(COLOURS) % len(_STYLES)]}


def finish(ax: Axes, records: int | None = None, upwards: str = "", figures: Mapping[str, str] | None = None) -> Axes:
    """Frame, and what is drawn upwards; along the stream also grid and legend, with the figures of its lines."""
    from matplotlib.text import Text

    ax.spines[["top", "right"]].set_visible(False)
    ax.set_ylabel(upwards)
    if records is not None:
        ax.set_xlabel("records")
        ax.set_xlim(0, max(records, 1))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.locator_params(axis="x", nbins=5, integer=True)
        ax.grid(alpha=0.25, linewidth=0.6)
        ax.set_axisbelow(True)
    handles, labels = ax.get_legend_handles_labels()
    if records is not None and handles:
        labels = [f"{label} {figures[label]}" if figures and label in figures else label for label in labels]
        # Above the lines, in as many columns as the longest label leaves room for.
        columns = max(1, min(len(handles), 5, _LEGEND_ROW // (max(len(label) for label in labels) + 6)))
        ax.legend(
            handles, labels, frameon=False, ncols=columns, handlelength=1.2, columnspacing=1.2, loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
        )  # fmt: skip
    for text in ax.findobj(Text):  # names with a dollar sign are not formulas
        text.set_parse_math(False)
    return ax


def ramp(fullest: float) -> ListedColormap:
    """From nearly nothing to the first colour, as full as that."""
    from matplotlib.colors import ListedColormap, to_rgb

    return ListedColormap([(*to_rgb(COLOURS[0]), 0.04 + fullest * step / 255) for step in range(256)])


def percent(value: float, _: Any = None) -> str:
    """A share, at an axis."""
    return f"{100 * value:.3g}%"


def number(value: float, _: Any = None) -> str:
    """A quantity, at an axis."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.3g}"


def compact(value: float, _: Any = None) -> str:
    """A number in few letters, at an axis or elsewhere.

    >>> compact(1_250), compact(3e6)
    ('1.25k', '3M')
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def scale(ax: Axes, values: Floats, tick: Callable[[float, Any], str], spread: float) -> None:
    """Make the vertical axis one from 0 on, or logarithmic where the largest value is so many times the smallest."""
    from matplotlib.ticker import LogLocator, NullFormatter

    known = values[np.isfinite(values)]
    least, most = float(known.min(initial=np.inf)), float(known.max(initial=0.0))
    if most > spread * least > 0:
        ax.set_yscale("log")
        ax.set_ylim(least / 1.25, most * 1.15)
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if most < 70 * least else (1.0,)))
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_ylim(0, 1.08 * most if most > 0 else None)
    ax.yaxis.set_major_formatter(tick)


def stairs(history: History, values: Floats) -> tuple[Floats, Floats]:
    """Block ends from 0 on, and the values of each block from its start to its end."""
    ends = np.minimum(history.blocks()[:, 0], history.records)
    edges = np.concatenate([[0.0], ends])
    return np.repeat(edges, 2)[1:-1], np.repeat(values, 2, axis=0)
