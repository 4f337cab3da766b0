"""What a picture says where the pointer is: the value of each line there, without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from braided.report.plot.axes import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Places along a picture, and lines at each.
_MAX_PLACES, _MAX_LINES = 40, 12
#: Points (1/72 inch) from one line of text to the next, of a letter on average, and around a box.
_LINE, _LETTER, _MARGIN = 10.0, 4.3, 5.0


@dataclass(frozen=True)
class Reading:
    """A line to be read: its name, its colour, its points, and whether they lie where they are read."""

    name: str
    colour: str
    x: Floats
    y: Floats
    drawn: bool = True


def readings_of(ax: Axes) -> list[Reading]:
    """The lines of a picture that have a name."""
    from matplotlib.colors import to_hex

    return [
        Reading(line.get_label(), to_hex(line.get_color()), np.asarray(line.get_xdata()), np.asarray(line.get_ydata()))
        for line in ax.get_lines()
        if not line.get_label().startswith("_")
    ]


def hover(ax: Axes, readings: Sequence[Reading]) -> str:
    """A strip for each of some places, which shows its values while the pointer is on it: pieces of SVG."""
    shown = [reading for reading in readings[:_MAX_LINES] if len(reading.x)]
    if not shown:
        return ""
    first, last = (pick(pick(reading.x) for reading in shown) for pick in (min, max))
    places = np.unique(np.linspace(first, last, _MAX_PLACES if last > first else 1))
    edges = np.concatenate([places[:1], (places[1:] + places[:-1]) / 2, places[-1:]])
    parts = [
        _strip(ax, place, (left, right), shown)
        for place, left, right in zip(places.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    return f'<g aria-hidden="true">{"".join(parts)}</g>'


def _strip(ax: Axes, place: float, edges: tuple[float, float], readings: list[Reading]) -> str:
    """One place: where the pointer is looked for, a line, a dot on each curve, and the box of values."""
    bottom, top = ax.get_ylim()
    (left, base), (right, roof) = _point(ax, edges[0], bottom), _point(ax, edges[1], top)
    at = _point(ax, place, bottom)[0]
    rows, dots = [], []
    for reading in readings:
        value = float(np.interp(place, reading.x, reading.y, left=np.nan, right=np.nan))
        if np.isfinite(value):
            rows.append((f"{reading.name} {_said(ax.yaxis.get_major_formatter()(value))}", reading.colour))
            height = _point(ax, place, min(max(value, min(bottom, top)), max(bottom, top)))[1]
            if reading.drawn:
                dots.append(f'<circle cx="{at:.1f}" cy="{height:.1f}" r="1.8" fill="{reading.colour}"/>')
    title = f"{_said(ax.xaxis.get_major_formatter()(place))} {ax.get_xlabel()}"
    return (
        f'<g class="at"><rect class="hit" x="{left:.1f}" y="{roof:.1f}" width="{max(right - left, 1.0):.1f}" '
        f'height="{base - roof:.1f}"/><g class="tip"><path d="M{at:.1f} {roof:.1f}V{base:.1f}"/>{"".join(dots)}'
        f"{_box(ax, at, roof, title, rows)}</g></g>"
    )


def _box(ax: Axes, at: float, roof: float, title: str, rows: list[tuple[str, str]]) -> str:
    """The values, on whichever side of the place there is more room."""
    width = _LETTER * max([len(title), *(len(text) + 2 for text, _ in rows)]) + 2 * _MARGIN
    whole = ax.figure.get_figwidth() * 72
    x = at + _MARGIN if at < whole / 2 else at - _MARGIN - width
    x = min(max(x, 0.0), max(whole - width, 0.0))
    texts = [f'<text x="{x + _MARGIN:.1f}" y="{roof + _LINE:.1f}" class="soft">{escape(title)}</text>']
    for number, (text, colour) in enumerate(rows, start=2):
        texts.append(
            f'<text x="{x + _MARGIN:.1f}" y="{roof + number * _LINE:.1f}">'
            f'<tspan fill="{colour}">\N{BLACK CIRCLE}</tspan> {escape(text)}</text>'
        )
    height = _LINE * (len(rows) + 1) + _MARGIN
    return f'<rect x="{x:.1f}" y="{roof:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3"/>{"".join(texts)}'


def _point(ax: Axes, x: float, y: float) -> tuple[float, float]:
    """A point of the data as the SVG has it, in points from its upper left corner."""
    across, up = ax.figure.transFigure.inverted().transform(ax.transData.transform((x, y))).tolist()
    return across * ax.figure.get_figwidth() * 72, (1.0 - up) * ax.figure.get_figheight() * 72


def _said(text: str) -> str:
    """A value in a box; Matplotlib's minus is one of typography."""
    return text.replace("\N{MINUS SIGN}", "-")
