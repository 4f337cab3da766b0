"""Pictures as inline SVG that takes its colours from the page, with the values of the lines where the pointer is."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup

from braided.evaluation.metrics import quantity
from braided.report.plot.axes import COLOURS, PLAIN, Floats, compact, number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _LINE = "#17202b", "#dfe4ea"
#: Colours of the pictures -> those of the page, which follow dark and light.
_VARIABLES = {_INK: "--ink", _LINE: "--line", PLAIN: "--soft"}
_VARIABLES |= {colour: f"--c{i}" for i, colour in enumerate(COLOURS, start=1)}
_STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "braided", "font.size": 8.5, "axes.labelsize": 8.5, "axes.titlesize": 8.5,
    "legend.fontsize": 8, "xtick.labelsize": 8, "ytick.labelsize": 8, "text.color": _INK, "axes.labelcolor": PLAIN,
    "axes.edgecolor": PLAIN, "axes.titlecolor": PLAIN, "xtick.color": PLAIN, "ytick.color": PLAIN,
    "grid.color": PLAIN, "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "text.parse_math": False, "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none",
}  # fmt: skip
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
#: Inches, so that text can be read on a phone; and SVG's points in one.
_WIDTH, _POINTS = 4.7, 72
#: How values are told that are so formatted at an axis.
_FORMS = {percent: "{:.2%}".format, number: quantity, compact: "{:,.0f}".format}
#: Places along a picture.
_MAX_PLACES = 40


class Reading(NamedTuple):
    """A line to be read: its name and colour, its points and their deviations."""

    name: str
    colour: str
    x: Floats
    y: Floats
    sd: Floats


class Value(NamedTuple):
    """A line's name and colour, what it says at a place, nothing where it is not, and how far down, if it is drawn."""

    name: str
    colour: str
    text: str
    down: float | None


class Tip(NamedTuple):
    """What is said at a place: its name, and how far it is from the left."""

    place: str
    at: float
    values: list[Value]


class Picture(NamedTuple):
    """A drawing of `width` and `height`, read from `top` to `bottom`: its tips, by `unit`, or rows of numbers."""

    drawing: Markup
    width: float
    height: float
    top: float
    bottom: float
    unit: str
    tips: list[Tip]
    header: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()


def svg(
    draw: Callable[..., Any],
    prefix: str,
    height: float = 2.8,
    readings: Sequence[Reading] | None = None,
    **numbers: Any,
) -> Picture:
    """A drawing as SVG, `height` inches high; `prefix` keeps its ids apart from others'.

    Its lines can be read, or other `readings` that are not drawn; numbers of its own are a `header` and `rows`.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    out = io.StringIO()
    with rc_context(_STYLE), warnings.catch_warnings():
        # The browser has the letters that the font used for measuring lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure = Figure(figsize=(_WIDTH, height), dpi=_POINTS, layout="constrained")
        ax = figure.add_subplot()
        draw(ax=ax)
        figure.savefig(out, format="svg", metadata=_NO_METADATA)
        tips = _tips(ax, readings)
    text = out.getvalue()
    inside = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    # Tags alone are changed: between them are names that a user has given.
    inside = re.sub(r"<[^>]*>", lambda tag: _of_page(tag.group(), prefix), inside)
    (width, whole), (bottom, top) = figure.bbox.size, ax.bbox.intervaly
    return Picture(Markup(inside), width, whole, whole - top, whole - bottom, ax.get_xlabel(), tips, **numbers)


def _of_page(tag: str, prefix: str) -> str:
    """A tag with the page's colours, and with ids of its own."""
    for colour, variable in _VARIABLES.items():
        tag = tag.replace(colour, f"var({variable})")
    return re.sub(r'\bid="|href="#|url\(#', lambda found: f"{found.group()}{prefix}-", tag)


def _readings(ax: Axes) -> list[Reading]:
    """The lines of a picture that have a name."""
    from matplotlib.colors import to_hex

    lines = [line for line in ax.get_lines() if not line.get_label().startswith("_")]
    points = [line.get_data() for line in lines]
    return [Reading(line.get_label(), to_hex(line.get_color()), x, y, getattr(line, "sd", 0 * y))
            for line, (x, y) in zip(lines, points, strict=True)]  # fmt: skip


def _tips(ax: Axes, readings: Sequence[Reading] | None) -> list[Tip]:
    """The values of the lines at evenly spaced ones of the points that they are drawn through."""
    shown = [line for line in (_readings(ax) if readings is None else readings) if len(line.x)]
    if not shown:
        return []
    points = shown[0].x
    places = np.unique(points[np.searchsorted(points, np.linspace(points[0], points[-1], _MAX_PLACES))])
    low, high = ax.get_ylim()
    tips = []
    for place in places[places > 0]:
        values = []
        for line in shown:
            # Of two points at one place, the first is of the block that ends there.
            point = min(np.searchsorted(line.x, place), len(line.x) - 1)
            value, sd, text, down = line.y[point], line.sd[point], "", None
            if np.isfinite(value):
                text = _told(ax.yaxis, value) + (f" \N{PLUS-MINUS SIGN} {_told(ax.yaxis, sd)}" if sd > 0 else "")
                if readings is None:
                    up = ax.transData.transform((place, np.clip(value, low, high)))[1]
                    down = float(ax.figure.bbox.height - up)
            values.append(Value(line.name, f"var({_VARIABLES[line.colour]})", text, down))
        tips.append(Tip(_told(ax.xaxis, place), float(ax.transData.transform((place, high))[0]), values))
    return tips


def _told(axis: Any, value: float) -> str:
    """A value as its axis has it, or with more digits."""
    form = getattr(axis.get_major_formatter(), "func", axis.get_major_formatter())
    return _FORMS[form](value) if form in _FORMS else str(form(value, None))
