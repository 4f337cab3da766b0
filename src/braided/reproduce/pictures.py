"""Pictures of the tables and of the two figures."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from braided.reproduce import toy
from braided.reproduce.documents import CellDocument, Document, by_stream, methods_of, percent
from braided.reproduce.haphazard import CALLED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#c8553d", "#1b4965", "#588157", "#7b2d8b", "#d4a017")


def _colour(method: str, place: int) -> str:
    """MODL and Aux-Drop look the same in every picture; others by their place."""
    return {"modl": _COLOURS[0], "auxdrop-odl": _COLOURS[1]}.get(method, _COLOURS[2 + place % 3])


def png(figure: Figure) -> bytes:
    """The figure as a file."""
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def _panels(names: Iterable[str], height: float = 3.2) -> tuple[Figure, dict[str, Axes]]:
    """A figure with one panel per name, at most two in a row: it is looked at on phones, too."""
    from matplotlib.figure import Figure

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
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    return figure, panels


def _legend(panels: dict[str, Axes]) -> None:
    """In the first panel, if there is one: a table of failed cells has none."""
    for axes in list(panels.values())[:1]:
        axes.legend(frameon=False, fontsize=8)


def _name_axes(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)


def _explain(figure: Figure, text: str) -> None:
    figure.suptitle(text, fontsize=9, x=0.01, ha="left")


def _done(document: Document) -> Document:
    """The table without the cells that have no figure."""
    return document | {"cells": [cell for cell in document["cells"] if "ours_mean" in cell]}


def _datasets(document: Document) -> dict[str, list[CellDocument]]:
    """Data set -> its cells."""
    found: dict[str, list[CellDocument]] = {}
    for cell in document["cells"]:
        found.setdefault(cell["dataset"], []).append(cell)
    return found


def _rate(cell: CellDocument, whose: str) -> float:
    """The error as a share of the records; NaN, which is not drawn, if there is none."""
    value = percent(cell, whose)
    return math.nan if value is None else value / 100.0


def dots(document: Document) -> Figure:
    """Ours, filled with its standard deviation, and the paper's, hollow; the majority class dashed."""
    done = _done(document)
    methods, datasets = methods_of(done), _datasets(done)
    figure, panels = _panels(datasets, 0.9 + 0.42 * len(methods))
    for name, axes in panels.items():
        for cell in datasets[name]:
            place = -methods.index(cell["method"])
            axes.errorbar(
                cell["ours_mean"], place, xerr=cell["ours_sd"], fmt="o", color=_COLOURS[0], markersize=6, capsize=3
            )
            if "paper_mean" in cell:
                axes.errorbar(
                    cell["paper_mean"], place - 0.22, xerr=cell.get("paper_sd"), fmt="o", color=_COLOURS[1],
                    markerfacecolor="white", markersize=5, capsize=2, linewidth=1,
                )  # fmt: skip
            axes.axvline(cell["majority"], color="grey", linestyle="--", linewidth=0.8)
        axes.set_yticks([-i for i in range(len(methods))], methods, fontsize=8)
        axes.set_ylim(-len(methods) + 0.4, 0.6)
        axes.tick_params(axis="x", labelsize=8)
        axes.set_xlabel("error in percent" if datasets[name][0]["unit"] == "percent" else "errors", fontsize=8)
    _explain(figure, "filled: ours; hollow: the paper's; dashed: majority class")
    return figure


def by_availability(document: Document) -> Figure:
    """Error rate along the availability."""
    return _lines(document, "p_f", "availability", "linear")


def by_rate(document: Document) -> Figure:
    """Error rate along the learning rate."""
    return _lines(document, "setting", "learning rate", "log")


def _lines(document: Document, along: str, label: str, scale: str) -> Figure:
    """Error rate along a setting: ours with full lines, the paper's dotted."""
    done = _done(document)
    datasets = _datasets(done)
    figure, panels = _panels(datasets)
    for name, axes in panels.items():
        for place, method in enumerate(methods_of(done)):
            mine = [cell for cell in datasets[name] if cell["method"] == method]
            x = [float(str(cell[along]).rpartition("=")[2]) for cell in mine]
            colour = _colour(method, place)
            axes.plot(x, [_rate(cell, "ours") for cell in mine], "o-", color=colour, markersize=4, label=method)
            axes.plot(x, [_rate(cell, "paper") for cell in mine], ":", color=colour, linewidth=1.5)
        axes.set_xscale(scale)
        _name_axes(axes, label, "error rate")
    _legend(panels)
    _explain(figure, "full lines: ours; dotted: the paper's (a million records)")
    return figure


def ratios(document: Document) -> Figure:
    """How many times longer ODL takes than Fast ODL, by depth."""
    done = _done(document)
    figure, panels = _panels(_datasets(done))
    for name, axes in panels.items():
        pairs = {
            key.setting: (pair["auxdrop-odl"], pair["auxdrop-fodl"])
            for key, pair in by_stream(done).items()
            if key.dataset == name and len(pair) == 2
        }
        for place, width in enumerate(dict.fromkeys(setting.rpartition("=")[2] for setting in pairs)):
            some = {setting: pair for setting, pair in pairs.items() if setting.endswith(f"width={width}")}
            layers = [int(setting.split()[0].partition("=")[2]) for setting in some]
            for key, style in (("us_per_record", "o-"), ("paper_seconds", ":")):
                times = [slow[key] / fast[key] for slow, fast in some.values()]
                label = f"width {width}" if key == "us_per_record" else None
                axes.plot(layers, times, style, color=_COLOURS[place], markersize=4, label=label)
        _name_axes(axes, "layers", "time ODL / time Fast ODL")
    _legend(panels)
    _explain(figure, "full lines: ours; dotted: the paper's")
    return figure


def curves(document: Document) -> Figure:
    """Running error rate with its band."""
    found = document["curves"]
    figure, panels = _panels(dict.fromkeys(curve["dataset"] for curve in found))
    for name, axes in panels.items():
        for curve in (curve for curve in found if curve["dataset"] == name):
            colour = _colour(curve["method"], 2)
            axes.plot(curve["records"], curve["mean"], color=colour, linewidth=1.4, label=curve["method"])
            axes.fill_between(curve["records"], curve["low"], curve["high"], color=colour, alpha=0.2, linewidth=0)
        late = [v for c in found if c["dataset"] == name for v in c["mean"][len(c["mean"]) // 10 :]]
        axes.set_ylim(min(late) * 0.9, max(late) * 1.15)
        _name_axes(axes, "records", "errors so far / records")
    _legend(panels)
    _explain(figure, "mean and 95% band over seeds")
    return figure


def towards_paper(sampled: list[Document], paper_rate: Callable[[str, str, float], float | None]) -> Figure:
    """Running error of samples in percent, and dashed what the paper has after all records."""
    figure, panels = _panels(dict.fromkeys(curve["dataset"] for curve in sampled), 3.6)
    for name, axes in panels.items():
        late: list[float] = []
        for curve in (curve for curve in sampled if curve["dataset"] == name):
            colour = _colour(curve["method"], 2)
            percent = 100.0 * np.array(curve["mean"])
            axes.plot(curve["records"], percent, color=colour, linewidth=1.4, label=f"{curve['method']}, ours")
            late += percent[len(percent) // 20 :].tolist()
            paper = paper_rate(name, curve["method"], curve["p_f"])
            if paper is not None:
                axes.axhline(paper, color=colour, linestyle="--", linewidth=1.2, label=f"{curve['method']}, paper")
                late.append(paper)
        axes.set_ylim(min(late) - 0.6, max(late) + 0.6)
        _name_axes(axes, "records", "errors so far, percent")
    labelled = next(iter(panels.values())).get_legend_handles_labels()
    figure.legend(*labelled, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    _explain(figure, "full lines: error so far of ours, on the sample; dashed: the paper's after all records")
    return figure


def ranks(document: Document) -> Figure:
    """How often each method has which rank, by metric; the best mean rank on top, ours in colour."""
    shown = {CALLED[metric]: by_method for metric, by_method in document["ranks"].items() if by_method}
    figure, panels = _panels(shown, 4.2)
    for name, axes in panels.items():
        by_method = sorted(shown[name].items(), key=lambda item: float(np.mean(item[1])))
        for place, (method, values) in enumerate(by_method):
            colour = _COLOURS[0] if method.startswith("modl") else _COLOURS[1]
            at, counts = np.unique(values, return_counts=True)
            axes.scatter(at, np.full(len(at), -place), s=9.0 * counts, color=colour, alpha=0.35, linewidth=0)
            axes.plot(np.mean(values), -place, "|", color=colour, markersize=16, markeredgewidth=2.2)
        labels = [f"{method}  {np.mean(values):.1f}" for method, values in by_method]
        axes.set_yticks([-i for i in range(len(labels))], labels, fontsize=8)
        axes.set_ylim(-len(labels) + 0.4, 0.6)
        axes.set_xticks(range(1, len(labels) + 1))
        axes.tick_params(axis="x", labelsize=8)
        axes.set_xlabel("rank", fontsize=9)
    cells = max((len(values) for by_method in shown.values() for values in by_method.values()), default=0)
    _explain(figure, f"ranks over {cells} cells: an area is how many cells, a bar and the number the mean rank")
    return figure


def toy_surfaces(document: Document) -> Figure:
    """Level lines of the exact log-likelihood, of its quadratic around (1, 2), and of the one-pass posterior."""
    u, y = toy.records(document["seed"])
    mean, covariance = toy.posterior(u, y)
    first, second = np.meshgrid(np.linspace(-0.5, 2.5, 121), np.linspace(0.0, 4.0, 121))
    theta = np.column_stack([first.ravel(), second.ravel()])
    step = theta - mean
    gaussian = -0.5 * ((step @ np.linalg.inv(covariance)) * step).sum(axis=1)
    surfaces = {
        "exact log-likelihood": toy.log_likelihood(theta, u, y),
        "quadratic around (1, 2)": toy.quadratic(theta, u, y),
        "fast learner, after one pass": gaussian + toy.log_likelihood(mean, u, y),
    }
    top = surfaces["exact log-likelihood"].max()
    levels = top - np.array([40, 30, 22, 15, 10, 6, 3, 1, 0.3])
    figure, panels = _panels(surfaces, 3.8)
    for name, axes in panels.items():
        shown = axes.contour(first, second, surfaces[name].reshape(first.shape), levels=levels, linewidths=1.1)
        axes.clabel(shown, fontsize=6, fmt="%.0f")
        axes.plot(*toy.THETA, "x", color=_COLOURS[0], markersize=9, markeredgewidth=2)
        _name_axes(axes, "weight of x", "weight of the constant")
    return figure
