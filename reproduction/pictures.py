"""Pictures of the tables, and the two figures of the paper."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from reproduction import toy
from reproduction.comparisons import REVIEW_METRICS, relative
from reproduction.comparisons import ranks as ranks_of
from reproduction.documents import CellDocument, Document, by_stream, methods_of, percent
from reproduction.measures import MAIN, TIME
from reproduction.stream_models import GUESSES, LEARNED, OURS, short_name
from reproduction.stream_sources import AVAILABILITIES
from reproduction.views import published_rate, sampled_curves

_RED, _BLUE = "#c8553d", "#1b4965"
_COLOURS = (_RED, _BLUE, "#588157", "#7b2d8b", "#d4a017")
_MARKERS = "oDv^PsX*h"


def _colour(method: str, place: int) -> str:
    """MODL and Aux-Drop look the same in every picture; others by their place."""
    return {"modl": _RED, "auxdrop-odl": _BLUE}.get(method, _COLOURS[2 + place % 3])


def _panels(names: Iterable[str], about: str, height: float = 3.2) -> tuple[Figure, dict[str, Axes]]:
    """A figure with one panel per name, at most two in a row: it is looked at on phones, too."""
    names = list(names)
    columns = min(len(names), 2) or 1
    rows = -(-len(names) // columns) or 1
    figure = Figure(figsize=(3.6 * columns, 0.9 * height * rows), dpi=140, layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for spare in axes[len(names) :]:
        spare.set_visible(False)
    panels = dict(zip(names, axes, strict=False))
    for name, panel in panels.items():
        panel.set_title(name, loc="left", fontsize=10)
        panel.grid(alpha=0.25, linewidth=0.5)
        panel.tick_params(labelsize=8)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    figure.suptitle(about, fontsize=9, x=0.01, ha="left")
    return figure, panels


def _name_axes(panels: dict[str, Axes], x: str, y: str) -> None:
    """Their names, and a legend of the first panel; a table of failed cells has no panel, or nothing to name."""
    for axes in panels.values():
        axes.set_xlabel(x, fontsize=9)
        axes.set_ylabel(y, fontsize=9)
    handles, labels = next((axes.get_legend_handles_labels() for axes in panels.values()), ([], []))
    if labels:
        axes.figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)


class Line(NamedTuple):
    """A line of a panel; without a label it is not in the legend."""

    panel: str
    label: str | None
    colour: str
    style: str
    x: Sequence[float]
    y: Sequence[float]


def _lines(lines: list[Line], about: str, x: str, y: str) -> tuple[Figure, dict[str, Axes]]:
    figure, panels = _panels(dict.fromkeys(line.panel for line in lines), about)
    for line in lines:
        axes = panels[line.panel]
        axes.plot(line.x, line.y, line.style, color=line.colour, markersize=4, linewidth=1.4, label=line.label)
    _name_axes(panels, x, y)
    return figure, panels


def _without_start(lines: list[Line], panels: dict[str, Axes]) -> None:
    """Limit the errors so far to those after a twentieth of the stream: before, they jump."""
    for name, axes in panels.items():
        late = [value for line in lines if line.panel == name for value in line.y[len(line.y) // 20 :]]
        axes.set_ylim(min(late) * 0.95, max(late) * 1.05)


def _done(document: Document) -> dict[str, list[CellDocument]]:
    """Data set -> its cells that have a figure."""
    found: dict[str, list[CellDocument]] = {}
    for cell in document["cells"]:
        if "ours_mean" in cell:
            found.setdefault(cell["dataset"], []).append(cell)
    return found


def _places(axes: Axes, labels: list[str]) -> None:
    """Names down the side, the first on top."""
    axes.set_yticks([-i for i in range(len(labels))], labels, fontsize=8)
    axes.set_ylim(-len(labels) + 0.4, 0.6)


def dots(document: Document) -> Figure:
    """Ours, filled with its standard deviation, and the paper's, hollow; the majority class dashed."""
    datasets, methods = _done(document), methods_of(document)
    about = "filled: ours; hollow: the paper's; dashed: majority class"
    figure, panels = _panels(datasets, about, 0.9 + 0.42 * len(methods))
    for name, axes in panels.items():
        for cell in datasets[name]:
            place = -methods.index(cell["method"])
            ours = {"fmt": "o", "color": _RED, "markersize": 6, "capsize": 3}
            axes.errorbar(cell["ours_mean"], place, xerr=cell["ours_sd"], **ours)
            if "paper_mean" in cell:
                paper = {"fmt": "o", "color": _BLUE, "markerfacecolor": "white", "markersize": 5, "capsize": 2}
                axes.errorbar(cell["paper_mean"], place - 0.22, xerr=cell.get("paper_sd"), linewidth=1, **paper)
            axes.axvline(cell["majority"], color="grey", linestyle="--", linewidth=0.8)
        _places(axes, methods)
        axes.set_xlabel("error in percent" if datasets[name][0]["unit"] == "percent" else "errors", fontsize=8)
    return figure


def by_availability(document: Document) -> Figure:
    """Error rate along the availability."""
    return _along(document, "p_f", "availability", "linear")


def by_rate(document: Document) -> Figure:
    """Error rate along the learning rate."""
    return _along(document, "setting", "learning rate", "log")


def _along(document: Document, along: str, label: str, scale: str) -> Figure:
    """Error rate along a setting: ours with full lines, the paper's dotted."""
    lines = []
    for dataset, cells in _done(document).items():
        for place, method in enumerate(methods_of(document)):
            mine = [cell for cell in cells if cell["method"] == method]
            x = [float(str(cell[along]).rpartition("=")[2]) for cell in mine]
            for whose, label_of, style in (("ours", method, "o-"), ("paper", None, ":")):
                y = [math.nan if (rate := percent(cell, whose)) is None else rate / 100.0 for cell in mine]
                lines.append(Line(dataset, label_of, _colour(method, place), style, x, y))
    figure, panels = _lines(lines, "full lines: ours; dotted: the paper's (a million records)", label, "error rate")
    for axes in panels.values():
        axes.set_xscale(scale)
    return figure


def ratios(document: Document) -> Figure:
    """How many times longer ODL takes than Fast ODL, by depth; a line for each width."""
    points: dict[tuple[str, str], list[list[float]]] = {}
    for (dataset, _, setting), pair in by_stream(document, "ours_mean").items():
        if len(pair) == 2:
            layers, width = (part.partition("=")[2] for part in setting.split())
            times = (pair["auxdrop-odl"][key] / pair["auxdrop-fodl"][key] for key in (TIME, "paper_seconds"))
            points.setdefault((dataset, width), []).append([float(layers), *times])
    widths, lines = [*dict.fromkeys(width for _, width in points)], []
    for (dataset, width), rows in points.items():
        colour, (x, ours, paper) = _COLOURS[widths.index(width)], zip(*rows, strict=True)
        lines.append(Line(dataset, f"width {width}", colour, "o-", x, ours))
        lines.append(Line(dataset, None, colour, ":", x, paper))
    return _lines(lines, "full lines: ours; dotted: the paper's", "layers", "time ODL / time Fast ODL")[0]


def curves(document: Document) -> Figure:
    """Running error rate with its band."""
    found = document["curves"]
    lines = [Line(c["dataset"], c["method"], _colour(c["method"], 2), "-", c["records"], c["mean"]) for c in found]
    figure, panels = _lines(lines, "mean and 95% band over seeds", "records", "errors so far / records")
    for line, curve in zip(lines, found, strict=True):
        panels[line.panel].fill_between(line.x, curve["low"], curve["high"], color=line.colour, alpha=0.2, linewidth=0)
    _without_start(lines, panels)
    return figure


def towards_paper(document: Document) -> Figure:
    """Running error of samples in percent, and dashed what the paper has after all records."""
    lines = []
    for curve in sampled_curves(document):
        name, method, records = curve["dataset"], curve["method"], curve["records"]
        colour, paper = _colour(method, 2), published_rate(name, method, curve["p_f"])
        lines.append(Line(name, f"{method}, ours", colour, "-", records, [100.0 * mean for mean in curve["mean"]]))
        if paper is not None:
            lines.append(Line(name, f"{method}, paper", colour, "--", [records[0], records[-1]], [paper, paper]))
    about = "full lines: error so far of ours, on the sample; dashed: the paper's after all records"
    figure, panels = _lines(lines, about, "records", "errors so far, percent")
    _without_start(lines, panels)
    return figure


def ranks(document: Document) -> Figure:
    """How often each method has which rank, by metric; the best mean rank on top, ours in colour."""
    shown = {metric: by_method for metric in REVIEW_METRICS if (by_method := ranks_of(document, metric))}
    cells = max((len(values) for by_method in shown.values() for values in by_method.values()), default=0)
    about = f"ranks over {cells} cells: an area is how many cells, a bar and the number the mean rank"
    figure, panels = _panels(shown, about, 4.2)
    for name, axes in panels.items():
        ranked = sorted(shown[name].items(), key=lambda item: float(np.mean(item[1])))
        for place, (method, values) in enumerate(ranked):
            colour = _RED if method.startswith("modl") else _BLUE
            at, counts = np.unique(values, return_counts=True)
            axes.scatter(at, np.full(len(at), -place), s=9.0 * counts, color=colour, alpha=0.35, linewidth=0)
            axes.plot(np.mean(values), -place, "|", color=colour, markersize=16, markeredgewidth=2.2)
        _places(axes, [f"{method}  {np.mean(values):.1f}" for method, values in ranked])
        axes.set_title(name.replace("_", " "), loc="left", fontsize=10)
        axes.set_xlabel("rank", fontsize=9)
    return figure


def errors_by_time(document: Document) -> Figure:
    """Errors relative to those of the majority class or the mean, against microseconds per record."""
    about = "large: a model, geometric mean over streams; small: one stream; lower and further left is better"
    tasks = [task for task in MAIN if any(cell["task"] == task for cell in document["cells"])]
    panels_of = {f"{task}, available {p_f:g}": (task, p_f) for task in tasks for p_f in AVAILABILITIES}
    figure, panels = _panels(panels_of, about, 4.2)
    for name, axes in panels.items():
        task, p_f = panels_of[name]
        streams = [methods for (_, p, _), methods in by_stream(document, MAIN[task]).items() if p == p_f]
        for place, entry in enumerate(LEARNED):
            mine = [(methods[entry.method][TIME], relative(methods, entry.method))
                    for methods in streams if entry.method in methods]  # fmt: skip
            points = [(time, error) for time, error in mine if error is not None]
            if not points:
                continue
            colour = _RED if entry.method in OURS else _COLOURS[1 + place % 4]
            style: dict[str, Any] = {"color": colour, "marker": _MARKERS[place % len(_MARKERS)]}
            axes.scatter(*zip(*points, strict=True), s=8, alpha=0.4, linewidth=0, **style)
            if len(points) < len(streams):  # a mean over the streams that it has been run on would be of other streams
                continue
            middle = [statistics.geometric_mean(values) for values in zip(*points, strict=True)]
            axes.scatter(*middle, s=60, edgecolor="white", linewidth=0.8, zorder=3, **style)
            axes.annotate(short_name(entry.method), middle, (5, 5), textcoords="offset points", fontsize=7)
        for guess, line in zip(GUESSES[task], ("-", "--"), strict=True):
            errors = [error for methods in streams if guess in methods if (error := relative(methods, guess))]
            if errors:
                axes.axhline(statistics.geometric_mean(errors), color="grey", linestyle=line, linewidth=1, label=guess)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    _name_axes(panels, "microseconds per record (ours in chunks)", "error, of the first guess's")
    return figure


def surfaces(document: Document) -> Figure:
    """Level lines of the exact log-likelihood, of its quadratic around (1, 2), and of the one-pass posterior."""
    u, y = toy.records(document["seed"])
    mean, covariance = toy.posterior(u, y)
    first, second = np.meshgrid(np.linspace(-0.5, 2.5, 121), np.linspace(0.0, 4.0, 121))
    theta = np.column_stack([first.ravel(), second.ravel()])
    step = theta - mean
    gaussian = -0.5 * ((step @ np.linalg.inv(covariance)) * step).sum(axis=1)
    found = {
        "exact log-likelihood": toy.log_likelihood(theta, u, y),
        "quadratic around (1, 2)": toy.quadratic(theta, u, y),
        "fast learner, after one pass": gaussian + toy.log_likelihood(mean, u, y),
    }
    levels = found["exact log-likelihood"].max() - np.array([40, 30, 22, 15, 10, 6, 3, 1, 0.3])
    figure, panels = _panels(found, "level lines; a cross: the true weights", 3.8)
    for name, axes in panels.items():
        shown = axes.contour(first, second, found[name].reshape(first.shape), levels=levels, linewidths=1.1)
        axes.clabel(shown, fontsize=6, fmt="%.0f")
        axes.plot(*toy.THETA, "x", color=_RED, markersize=9, markeredgewidth=2, label="true")
    _name_axes(panels, "weight of x", "weight of the constant")
    return figure
