"""Pictures as inline SVG that takes its colours from the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from braided.report.page.hover import Reading, hover, readings_of
from braided.report.plot.axes import COLOURS, PLAIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_INK, _LINE = "#17202b", "#dfe4ea"
#: Colours of the pictures -> those of the page, which follow dark and light.
_VARIABLES = {
    _INK: "--ink",
    _LINE: "--line",
    PLAIN: "--soft",
    **{colour: f"--c{i}" for i, colour in enumerate(COLOURS, start=1)},
}
_STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "braided", "font.size": 8.5, "axes.labelsize": 8.5, "axes.titlesize": 8.5,
    "legend.fontsize": 8, "xtick.labelsize": 8, "ytick.labelsize": 8, "text.color": _INK, "axes.labelcolor": PLAIN,
    "axes.edgecolor": PLAIN, "axes.titlecolor": PLAIN, "xtick.color": PLAIN, "ytick.color": PLAIN,
    "grid.color": PLAIN, "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "text.parse_math": False, "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none",
}  # fmt: skip
_WIDTH = 4.7  # inches: text is then readable on a phone


def svg(
    draw: Callable[[Axes], Any], title: str, prefix: str, height: float = 2.8, readings: Sequence[Reading] | None = None
) -> str:
    """A picture as inline SVG that takes its colours from the page; `prefix` keeps its ids apart from others'.

    Its lines can be read where the pointer is, or other `readings` if they are given.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    out = io.StringIO()
    with rc_context(_STYLE), warnings.catch_warnings():
        # The browser has the letters that the font used for measuring lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        ax = figure.add_subplot()
        draw(ax)
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        values = hover(ax, readings_of(ax) if readings is None else readings)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = _in_tags(text, lambda tag: _own_names(tag, prefix))
    text = _in_tags(text.replace("</svg>", f"{values}</svg>"), _colours_of_page)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def _in_tags(text: str, change: Callable[[str], str]) -> str:
    """Change tags alone: what stands between them are names that a user has given."""
    return re.sub(r"<[^>]*>", lambda tag: change(tag.group()), text)


def _own_names(tag: str, prefix: str) -> str:
    tag = re.sub(r'\bid="', f'id="{prefix}-', tag)
    return tag.replace('href="#', f'href="#{prefix}-').replace("url(#", f"url(#{prefix}-")


def _colours_of_page(tag: str) -> str:
    for colour, variable in _VARIABLES.items():
        tag = tag.replace(colour, f"var({variable})")
    return tag
