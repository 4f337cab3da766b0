"""The picture of `braided reproduce streams`: error against time per record, a point for each model."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from braided.estimators.params import CLASSIFICATION
from braided.reproduce.documents import Document, by_stream
from braided.reproduce.stream_models import DEFAULT, GUESSES, LEAN, LEARNED, short_name
from braided.reproduce.stream_sources import AVAILABILITIES
from braided.reproduce.streams import MAIN, TIME, missing, relative

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RED, _DARK, _PALE = "#c8553d", "#1b4965", "#8d99a6"
#: Method -> marker and colour; ours are red.
_LOOKS = {
    DEFAULT: ("o", _RED),
    LEAN: ("D", _RED),
    "river-logistic": ("v", _DARK),
    "river-linear": ("v", _DARK),
    "river-nb": ("^", "#d4a017"),
    "river-knn": ("P", "#588157"),
    "river-tree": ("s", "#7b2d8b"),
    "river-arf": ("X", _DARK),
    "river-srp": ("*", "#588157"),
    "river-amf": ("h", "#d4a017"),
}
#: Time and error of a model, as powers of ten.
_Point = tuple[float, float]


class _Side(NamedTuple):
    """Where a name may stand: how far from its point, in powers of ten and in points, and how it is aligned."""

    x: float
    y: float
    points: tuple[int, int]
    align: str


_SIDES = (
    _Side(0.25, 0.0, (8, -3), "left"),
    _Side(0.0, 0.07, (0, 8), "center"),
    _Side(0.0, -0.07, (0, -15), "center"),
    _Side(-0.25, 0.0, (-8, -3), "right"),
)
#: Half of the room that a name takes.
_NAME = (0.22, 0.05)


def errors_by_time(found: Document) -> Figure:
    """Errors relative to those of the majority class or the mean, against microseconds per record."""
    from matplotlib.figure import Figure

    tasks = [task for task in MAIN if any(cell["task"] == task for cell in found["cells"])]
    figure = Figure(figsize=(10.4, 0.9 + 3.6 * len(tasks)), dpi=120, layout="constrained")
    panels = figure.subplots(len(tasks), len(AVAILABILITIES), sharex=True, sharey="row", squeeze=False)
    handles: dict[str, Any] = {}
    for row, task in zip(panels, tasks, strict=True):
        for axes, p_f in zip(row, AVAILABILITIES, strict=True):
            handles |= _panel(axes, found, task, p_f)
            what = "classes" if task == CLASSIFICATION else "numbers"
            axes.set_title(f"streams of {what}, {missing(p_f)}", loc="left", fontsize=10)
        row[0].set_ylabel(
            "errors, of the majority class's" if task == CLASSIFICATION else "absolute error, of the mean's", fontsize=9
        )
    for axes in panels[-1]:
        axes.set_xlabel("microseconds per record, predict and learn (ours in chunks)", fontsize=9)
    named = {entry.method: handles[entry.method] for entry in LEARNED if entry.method in handles}
    figure.legend([*named.values()], [*named], loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    text = "large: a model, geometric mean over streams; small: one stream; lower and further left is better"
    figure.suptitle(text, fontsize=9, x=0.01, ha="left")
    return figure


def _panel(axes: Axes, found: Document, task: str, p_f: float) -> dict[str, Any]:
    """One task at one availability; the handles of a legend."""
    streams = [methods for (_, p, _), methods in by_stream(found, MAIN[task]).items() if p == p_f]
    handles: dict[str, Any] = {}
    means: dict[str, _Point] = {}
    for entry in LEARNED:
        mine = [methods for methods in streams if entry.method in methods]
        timed = [(methods[entry.method][TIME], relative(methods, entry.method)) for methods in mine]
        points = [(time, error) for time, error in timed if error is not None]
        if not points:
            continue
        marker, colour = _LOOKS[entry.method]
        axes.scatter(*zip(*points, strict=True), s=10, color=colour, alpha=0.4, linewidth=0, marker=marker)
        if len(points) < len(streams):  # a mean over the streams that it has been run on would be of other streams
            continue
        time, error = (statistics.geometric_mean(values) for values in zip(*points, strict=True))
        size = {DEFAULT: 160, "river-srp": 170}.get(entry.method, 100)
        handles[entry.method] = axes.scatter(
            time, error, s=size, color=colour, marker=marker, edgecolor="white", linewidth=0.8, zorder=3
        )
        means[entry.method] = (math.log10(time), math.log10(error))
    taken = list(means.values())
    for method, mean in means.items():
        taken.append(_label(axes, method, mean, [point for point in taken if point != mean]))
    for guess, style, side in zip(GUESSES[task], ("-", "--"), ("top", "bottom"), strict=True):
        errors = [relative(methods, guess) for methods in streams if guess in methods]
        known = [error for error in errors if error is not None]
        if known:
            height = statistics.geometric_mean(known)
            axes.axhline(height, color=_PALE, linestyle=style, linewidth=1)
            axes.text(1.0, height, guess, transform=axes.get_yaxis_transform(), fontsize=8, ha="right", va=side)
    _scales(axes)
    return handles


def _label(axes: Axes, method: str, mean: _Point, taken: list[_Point]) -> _Point:
    """A model's name beside its point, on the first side on which there is nothing yet; returns its middle."""
    from matplotlib.patheffects import withStroke

    time, error = mean

    def free(side: _Side) -> bool:
        x, y = time + side.x, error + side.y
        return all(abs(x - other[0]) > _NAME[0] or abs(y - other[1]) > _NAME[1] for other in taken)

    side = next(filter(free, _SIDES), _SIDES[0])
    axes.annotate(
        short_name(method),
        (10.0**time, 10.0**error),
        xytext=side.points,
        textcoords="offset points",
        ha=side.align,
        fontsize=8,
        color=_LOOKS[method][1],
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
        zorder=4,
    )
    return time + side.x, error + side.y


def _scales(axes: Axes) -> None:
    """Logarithms, in plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
