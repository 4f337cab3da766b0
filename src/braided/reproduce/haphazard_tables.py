"""The table of haphazard inputs as a page and a terminal show it."""

from __future__ import annotations

from collections.abc import Callable

from braided.reproduce.documents import CellDocument, Document, by_stream
from braided.reproduce.grid import PLUS_MINUS, Grid, Section, nothing
from braided.reproduce.haphazard import BASELINES, CALLED, SHOWN, ahead, compared, ours_of
from braided.reproduce.tables import DEFAULT

_EVERY = "Every cell: both decisions, and the three best that are published"
_BASELINES = "Our baselines beside the review's own figures of the same methods"
_OF_BASELINES = (
    "With the settings that the review tuned for each set. The review's OLVF is ours without a feature-space "
    "classifier that learns and without the ball, and it shrinks the smallest weight in each step on diabetes_f and "
    "german, which ours does not; its scores are |w . x|, so that areas are not compared."
)


def sections(found: Document) -> list[Section]:
    """A small table for each metric; folded, every cell, and our baselines."""
    open_ones = [Section(_above(metric), _small(found, metric)) for metric in SHOWN]
    every = [Section(f"**{_title(metric)}**:", _every(found, metric), _EVERY) for metric in SHOWN]
    baselines: list[Section] = []
    for name, theirs in BASELINES.items():
        for metric in ("errors", "balanced_accuracy"):
            lead = "" if baselines else f"{_OF_BASELINES} "
            above = f"{lead}**{theirs}, {CALLED[metric]}**, ours / the review's:"
            baselines.append(Section(above, _against_review(found, name, metric), _BASELINES))
    return [*open_ones, *every, *baselines]


def _title(metric: str) -> str:
    return CALLED[metric][0].upper() + CALLED[metric][1:]


def _above(metric: str) -> str:
    counted = "; in brackets the errors of always answering the majority class" if metric == "errors" else ""
    return f"**{_title(metric)}** by availability, our default / the best published{counted}:"


def _form(metric: str) -> str:
    return ",.0f" if metric == "errors" else ".1f"


def _with_majority(methods: dict[str, CellDocument]) -> str:
    counted = next((cell["majority"] for cell in methods.values() if "majority" in cell), None)
    return _name(methods) if counted is None else f"{_name(methods)} ({counted:,.0f})"


def _by_availability(
    found: Document,
    text: Callable[[dict[str, CellDocument]], str],
    name: Callable[[dict[str, CellDocument]], str] | None = None,
) -> Grid:
    """A row for each data set, a column for each availability."""
    name = _name if name is None else name
    streams = by_stream(found)
    availabilities = sorted({key.p_f for key in streams})
    rows: dict[str, dict[float, str]] = {}
    for (_, p_f, _), methods in streams.items():
        rows.setdefault(name(methods), {})[p_f] = text(methods)
    return Grid(
        ["", *(f"{p_f:g}" for p_f in availabilities)],
        [[[dataset], *([texts.get(p_f, "")] for p_f in availabilities)] for dataset, texts in rows.items()],
    )


def _small(found: Document, metric: str) -> Grid:
    best = _best(found)

    def text(methods: dict[str, CellDocument]) -> str:
        cell = methods[DEFAULT]
        theirs = best[cell["dataset"], cell["p_f"], metric][0]["mean"]
        shown = [_mean(cell, metric), format(theirs, _form(metric))]
        if metric in cell and compared(methods, metric):
            ours = cell[metric]
            if ahead(ours, theirs, metric):
                shown[0] = f"**{shown[0]}**"
            elif ahead(theirs, ours, metric):
                shown[1] = f"**{shown[1]}**"
        return " / ".join(shown)

    return _by_availability(found, text, _with_majority if metric == "errors" else _name)


def _against_review(found: Document, name: str, metric: str) -> Grid:
    def text(methods: dict[str, CellDocument]) -> str:
        return f"{_mean(methods[name], metric)} / {methods[name][f'review_{metric}']:{_form(metric)}}"

    return _by_availability(found, text)


def _every(found: Document, metric: str) -> Grid:
    """A row for each stream: ours with deviations, and the best that are published with their names."""
    best = _best(found)
    decided = ["balanced decision"] if len(ours_of(metric)) > 1 else []
    rows = []
    for (dataset, p_f, _), methods in by_stream(found).items():
        row = [[f"{_name(methods)} {p_f:g}"], *([_with_deviation(methods[name], metric)] for name in ours_of(metric))]
        others = (f"{other['method']} {other['mean']:{_form(metric)}}" for other in best[dataset, p_f, metric])
        rows.append([*row, [", ".join(others)]])
    return Grid(["", "default", *decided, "best published"], rows)


def short_grid(found: Document) -> Grid:
    """In a few columns, for a terminal: means, and the best alone of what is published."""
    header = ["", "balanced accuracy", "decided", "best", "AUROC", "best", "errors", "best"]
    best = _best(found)
    rows = []
    for (dataset, p_f, _), methods in by_stream(found).items():
        row = [f"{_name(methods)} {p_f:g}"]
        for metric in SHOWN:
            names = ours_of(metric) if metric == "balanced_accuracy" else [DEFAULT]
            row += [_mean(methods[name], metric) for name in names]
            row.append(format(best[dataset, p_f, metric][0]["mean"], _form(metric)))
        rows.append([[cell] for cell in row])
    return Grid(header, rows)


def _best(found: Document) -> dict[tuple[str, float, str], list[Document]]:
    return {(row["dataset"], row["p_f"], row["metric"]): row["best"] for row in found["published"]}


def _mean(cell: CellDocument, metric: str) -> str:
    return format(cell[metric], _form(metric)) if metric in cell else nothing(cell)


def _with_deviation(cell: CellDocument, metric: str) -> str:
    if metric not in cell or cell["seeds"] < 2:
        return _mean(cell, metric)
    return f"{cell[metric]:,.1f}{PLUS_MINUS}{cell[f'{metric}_sd']:,.1f}"


def _name(methods: dict[str, CellDocument]) -> str:
    cell = methods[DEFAULT]
    records = f" ({cell['records']:,} records)" if cell.get("compared") is False else ""
    return f"{cell['dataset']}{records}"
