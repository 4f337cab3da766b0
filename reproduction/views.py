"""The tables of a page and a terminal: narrow enough for a phone, the best in bold, ours beside what is published."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from braided.estimators.params import CLASSIFICATION
from braided.evaluation.metrics import METRICS
from braided.report import published
from reproduction import review
from reproduction.cells import DEFAULT
from reproduction.comparisons import (
    REVIEW_METRICS,
    STREAM_METRICS,
    ahead,
    best_of_river,
    compared,
    ours_of,
    ranks,
    relative,
)
from reproduction.documents import CellDocument, Document, by_stream, methods_of, percent
from reproduction.measures import BASELINES, MAIN, TIME
from reproduction.stream_models import GUESSES, LEARNED, MODELS, OURS, short_name
from reproduction.stream_sources import AVAILABILITIES

#: Below it a difference between two methods is one of the methods.
SIGNIFICANT = 0.05
#: Fewer pairs than these cannot give a p-value below `SIGNIFICANT`.
ENOUGH_SEEDS = 6
#: Marks a figure that the seeds cannot tell from that of the method it is compared with.
ALIKE = "°"
#: Between a mean and its deviation, which stay on one line.
PLUS_MINUS = "\u00a0±\u00a0"
#: Published methods that a stream of the review is shown with.
_BEST = 3
#: The table whose figures of MODL and Aux-Drop the curve of a sample goes towards.
_TOWARDS = "table2"


@dataclass(frozen=True)
class Grid:
    """Header, and rows whose cells are lists of lines; in a line, `**` is around what is bold, `*` around a heading."""

    header: list[str]
    rows: list[list[list[str]]]

    def markdown(self) -> str:
        """As a page has it."""
        lines = [f"| {' | '.join(name or ' ' for name in self.header)} |", f"|---|{'---:|' * (len(self.header) - 1)}"]
        for row in self.rows:
            cells = ("<br>".join(line.replace("|", r"\|") for line in cell) for cell in row)
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)


View = Callable[[Document], Grid]


def bold_best(values: Sequence[float | None], form: Callable[[float], str]) -> list[str]:
    """Each value as it is printed, the best in bold, with all that are printed alike; none where all are.

    >>> bold_best([2.14, None, 2.04, 1.96], lambda value: f"{value:.1f}")
    ['2.1', '', '**2.0**', '**2.0**']
    """
    known = [value for value in values if value is not None]
    texts = ["" if value is None else form(value) for value in values]
    if len({text for text in texts if text}) < 2:
        return texts
    best = form(min(known))
    return [f"**{text}**" if text == best else text for text in texts]


def short(value: float, unit: str = "errors") -> str:
    """A figure in few characters.

    >>> short(5124.66), short(286.12), short(3.811, "percent")
    ('5,125', '286.1', '3.8%')
    """
    if unit == "percent":
        return f"{value:.1f}%"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.1f}"


def nothing(cell: CellDocument) -> str:
    """Why a cell has no figure."""
    return f"failed: {cell['error']}" if "error" in cell else "not run"


def name(cell: CellDocument) -> str:
    """The data set, with the number of records where a limit was given; that a file is a sample is said elsewhere."""
    limited = cell.get("sample") and not cell["file_is_sample"]
    return f"{cell['dataset']}, first {cell['records']:,}" if limited else str(cell["dataset"])


def grouped(document: Document) -> Grid:
    """A row for each method under a heading for each stream: ours, the paper's, the difference; or our time."""
    with_paper = any("paper_mean" in cell for cell in document["cells"])
    timed = any("timed" in cell for cell in document["cells"])
    header = ["", "ours", *(["paper", "difference"] if with_paper else []), *(["us per record"] if timed else [])]
    rows: list[list[list[str]]] = []
    for (_, p_f, _), by_method in by_stream(document).items():
        cells = list(by_method.values())
        done = next((cell for cell in cells if "ours_mean" in cell), None)
        heading = [f"*{name(done or cells[0])}*", f"majority {short(done['majority'], done['unit'])}" if done else ""]
        heading += [f"{p_f:g} there" if p_f < 1.0 else ""] if len(header) > 2 else []
        rows.append([[text] for text in (*heading, *[""] * (len(header) - len(heading)))])
        for cell, (ours, paper, difference) in zip(cells, _beside_paper(cells), strict=True):
            rows.append([[cell["method"]], ours, *([paper, difference] if with_paper else [])])
            if timed:
                rows[-1].append([f"{cell[TIME]:.0f}" if TIME in cell else ""])
    return Grid(header, rows)


def _beside_paper(cells: list[CellDocument]) -> list[tuple[list[str], list[str], list[str]]]:
    """Of each method of a stream: ours, the paper's, the difference."""
    unit = cells[0]["unit"]
    means = (
        bold_best([cell.get(f"{whose}_mean") for cell in cells], lambda value: short(value, unit))
        for whose in ("ours", "paper")
    )
    found = []
    for cell, ours, paper in zip(cells, *means, strict=True):
        mine, theirs, difference = [nothing(cell)], [""], [""]
        if ours:
            alike = cell["seeds"] >= ENOUGH_SEEDS and cell.get("p_value", 0.0) >= SIGNIFICANT
            mine = [ours + (_deviation(cell["ours_sd"]) if cell["seeds"] > 1 else "") + (ALIKE if alike else "")]
            mine += [f"{cell['failed']} failed: {cell['error']}"] if "failed" in cell else []
        if paper:
            theirs = [paper + _deviation(cell.get("paper_sd")), *(short(other, unit) for other in cell["paper_other"])]
        if ours and paper:
            more = cell["ours_mean"] - cell["paper_mean"]
            difference = [("+" if more >= 0 else "") + short(more, unit)]
        found.append((mine, theirs, difference))
    return found


def _deviation(sd: float | None) -> str:
    if sd is None:
        return ""
    return PLUS_MINUS + (f"{sd:,.0f}" if sd >= 100 else f"{sd:.1f}")


def wide(document: Document) -> Grid:
    """A row for each data set, a column for each method: ours alone."""
    columns = methods_of(document)
    rows = []
    for by_method in by_stream(document).values():
        cells = [by_method[method] for method in columns if method in by_method]
        found = {cell["method"]: ours for cell, (ours, _, _) in zip(cells, _beside_paper(cells), strict=True)}
        rows.append([[name(cells[0])], *(found.get(method, [""]) for method in columns)])
    return Grid(["", *columns], rows)


def _time_ratio(by_method: dict[str, CellDocument]) -> str:
    """How many times longer ODL takes than Fast ODL: ours / the paper's."""
    slow, fast = by_method.get("auxdrop-odl", {}), by_method.get("auxdrop-fodl", {})
    return " / ".join(f"{slow[key] / fast[key]:.1f}" for key in (TIME, "paper_seconds") if key in slow and key in fast)


def series(along: str, dataset: str, document: Document) -> Grid:
    """A row for each availability, rate or depth of one data set: in percent, ours / the paper's."""
    columns, timed = methods_of(document), along == "layers x width"
    rows = []
    for (stream, p_f, setting), by_method in by_stream(document).items():
        if stream != dataset:
            continue
        cells = [by_method[method] for method in columns if method in by_method]
        texts = dict(zip([cell["method"] for cell in cells], _in_percent(cells, not timed), strict=True))
        # The values of a setting such as `layers=5 width=25`, or the availability.
        label = " x ".join(part.partition("=")[2] for part in setting.split()) or f"{p_f:g}"
        row = [label, *(texts.get(method, "") for method in columns)]
        rows.append([[text] for text in (*row, *([_time_ratio(by_method)] if timed else []))])
    return Grid([along, *columns, *(["time, odl / fodl"] if timed else [])], rows)


def _in_percent(cells: list[CellDocument], bold: bool) -> list[str]:
    """Ours / the paper's and the difference, of each method of a stream."""
    ours, paper = ([percent(cell, whose) for cell in cells] for whose in ("ours", "paper"))
    shown = [bold_best(values, lambda value: f"{value:.1f}") for values in (ours, paper)]
    texts = []
    for cell, mine, theirs, one, other in zip(cells, ours, paper, *shown, strict=True):
        text = one or nothing(cell)
        if mine is not None and theirs is not None:
            text += f" / {other} <small>{mine - theirs:+.1f}</small>"
        texts.append(text if bold else text.replace("**", ""))
    return texts


def published_rate(dataset: str, method: str, p_f: float) -> float | None:
    """The published error of all records in percent, or None."""
    figures = published.find(_TOWARDS, dataset, method, p_f)
    return 100.0 * figures[0].mean / figures[0].records if figures else None


def sampled_curves(document: Document) -> list[Document]:
    """The learning curves that are of samples and have a published figure to go towards, each with its availability."""
    cells = {(cell["dataset"], cell["method"]): cell for cell in document["cells"]}
    known = {figure.dataset for figure in published.figures() if figure.table == _TOWARDS}
    found = [curve | {"p_f": cells[curve["dataset"], curve["method"]]["p_f"]} for curve in document.get("curves", [])]
    return [c for c in found if cells[c["dataset"], c["method"]].get("file_is_sample") and c["dataset"] in known]


def parts_of_curve(curve: Document) -> list[float | None]:
    """The error in percent of the first tenth, the whole and the second half, and the paper's of all records."""
    records, means = curve["records"], curve["mean"]
    tenth, half = (next(i for i, n in enumerate(records) if n >= records[-1] / part) for part in (10, 2))
    errors = [n * mean for n, mean in zip(records, means, strict=True)]
    second = (errors[-1] - errors[half]) / (records[-1] - records[half]) if half < len(records) - 1 else means[-1]
    ours = [100.0 * value for value in (means[tenth], means[-1], second)]
    return [*ours, published_rate(curve["dataset"], curve["method"], curve["p_f"])]


def sample(document: Document) -> Grid:
    """How far the curve of each sample has come."""
    rows: list[list[list[str]]] = []
    for curve in sampled_curves(document):
        if [f"*{curve['dataset']}*"] not in [row[0] for row in rows]:
            rows.append([[f"*{curve['dataset']}*"], [""], [""], [""], [""]])
        texts = ("" if value is None else f"{value:.1f}" for value in parts_of_curve(curve))
        rows.append([[curve["method"]], *([text] for text in texts)])
    return Grid(["", "first tenth", "whole", "second half", "paper, all"], rows)


def _by_availability(text: Callable[[dict[str, CellDocument]], str], count: bool, document: Document) -> Grid:
    """A row for each data set, with the majority class's errors if they `count`; a column for each availability."""
    streams = by_stream(document)
    shares = sorted({key.p_f for key in streams})
    rows: dict[str, dict[float, str]] = {}
    for (_, p_f, _), methods in streams.items():
        majority = next((f" ({cell['majority']:,.0f})" for cell in methods.values() if "majority" in cell), "")
        rows.setdefault(_name(methods) + (majority if count else ""), {})[p_f] = text(methods)
    lines = [[dataset, *(texts.get(p_f, "") for p_f in shares)] for dataset, texts in rows.items()]
    return Grid(["", *(f"{p_f:g}" for p_f in shares)], [[[text] for text in line] for line in lines])


def _form(metric: str) -> str:
    return ",.0f" if metric == "errors" else ".1f"


def _mean(cell: CellDocument, metric: str) -> str:
    return format(cell[metric], _form(metric)) if metric in cell else nothing(cell)


def _name(methods: dict[str, CellDocument]) -> str:
    cell = methods[DEFAULT]
    records = f" ({cell['records']:,} records)" if cell.get("compared") is False else ""
    return f"{cell['dataset']}{records}"


def _beside_best(metric: str, methods: dict[str, CellDocument]) -> str:
    cell = methods[DEFAULT]
    theirs = review.ranked(cell["dataset"], cell["p_f"], metric)[0].mean
    shown = [_mean(cell, metric), format(theirs, _form(metric))]
    if metric in cell and compared(methods, metric):
        if ahead(cell[metric], theirs, metric):
            shown[0] = f"**{shown[0]}**"
        elif ahead(theirs, cell[metric], metric):
            shown[1] = f"**{shown[1]}**"
    return " / ".join(shown)


def _beside_review(method: str, metric: str, methods: dict[str, CellDocument]) -> str:
    return f"{_mean(methods[method], metric)} / {methods[method][f'review_{metric}']:{_form(metric)}}"


def _every(metric: str, document: Document) -> Grid:
    """A row for each stream: ours with deviations, and the best that are published with their names."""
    decided = ["balanced decision"] if len(ours_of(metric)) > 1 else []
    rows = []
    for (dataset, p_f, _), methods in by_stream(document).items():
        row = [f"{_name(methods)} {p_f:g}", *(_with_deviation(methods[each], metric) for each in ours_of(metric))]
        best = review.ranked(dataset, p_f, metric)[:_BEST]
        row.append(", ".join(f"{other.method} {other.mean:{_form(metric)}}" for other in best))
        rows.append([[text] for text in row])
    return Grid(["", "default", *decided, "best published"], rows)


def _with_deviation(cell: CellDocument, metric: str) -> str:
    if metric not in cell or cell["seeds"] < 2:
        return _mean(cell, metric)
    return f"{cell[metric]:,.1f}{PLUS_MINUS}{cell[f'{metric}_sd']:,.1f}"


def _by_model(task: str, document: Document) -> Grid:
    """A row for each model: means over streams, its rank, cells in which the default is ahead of it, its time."""
    present = {cell["method"] for cell in document["cells"] if cell["task"] == task}
    names = [each for each in (*(entry.method for entry in LEARNED), *GUESSES[task]) if each in present]
    header, columns = [""], [[short_name(each) for each in names]]
    titles = {"error_rate": "errors, %", "log_loss": "log loss", "mae": "mean absolute error, %"}
    for metric in STREAM_METRICS[task]:
        form = "{:.2f}".format if metric == "log_loss" else lambda share: f"{100.0 * share:.1f}"
        for p_f in AVAILABILITIES:
            header.append("half" if p_f < 1.0 else titles[metric])
            columns.append(bold_best([_mean_of(document, task, metric, p_f, each) for each in names], form))
    places = ranks(document, MAIN[task])
    means = [statistics.fmean(places[each]) if each in places else None for each in names]
    columns.append(bold_best(means, "{:.1f}".format))
    columns.append([_default_ahead(document, MAIN[task], each) for each in names])
    times = [[c[TIME] for c in document["cells"] if (c["method"], c["task"]) == (e, task) and TIME in c] for e in names]
    columns.append([f"{statistics.median(some):,.0f}" if some else "" for some in times])
    return Grid([*header, "rank", "ahead", "us"], [[[text] for text in row] for row in zip(*columns, strict=True)])


def _mean_of(document: Document, task: str, metric: str, p_f: float, method: str) -> float | None:
    """The mean over the streams, of a method that has been run on all of them."""
    streams = [methods for (_, p, _), methods in by_stream(document, metric).items() if p == p_f]
    if not streams or any(method not in methods for methods in streams):
        return None
    if task == CLASSIFICATION:
        return statistics.fmean(methods[method][metric] for methods in streams)
    ratios = [relative(methods, method) for methods in streams]
    known = [ratio for ratio in ratios if ratio is not None]
    return statistics.geometric_mean(known) if len(known) == len(streams) else None


def _default_ahead(document: Document, metric: str, method: str) -> str:
    both = [methods for methods in by_stream(document, metric).values() if {method, DEFAULT} <= methods.keys()]
    if method == DEFAULT or not both:
        return ""
    return f"{sum(methods[DEFAULT][metric] < methods[method][metric] for methods in both)}/{len(both)}"


def _by_stream(task: str, document: Document) -> Grid:
    """A row for each stream: ours, the best of River's and which that is, and the better guess; the best in bold."""
    metric, rows = MAIN[task], []
    for (dataset, p_f, _), methods in by_stream(document, metric).items():
        best = best_of_river(methods, metric)
        guesses = [methods[guess][metric] for guess in GUESSES[task] if guess in methods]
        values = [methods[each][metric] if each in methods else None for each in OURS]
        values += [None if best is None else best[metric], min(guesses, default=None)]
        texts = bold_best(values, METRICS[metric].shown)
        texts[2] = f"{texts[2]} {'' if best is None else short_name(best['method'])}".strip()
        rows.append([[dataset, *(["half missing"] if p_f < 1.0 else [])], *([text] for text in texts)])
    return Grid(["", "default", "lean", "best of River's", "guess"], rows)


def _by_metric(metric: str, document: Document) -> Grid:
    """A row for each stream with nothing or half missing, a column for each model; the best error in bold."""
    of_task = [cell for cell in document["cells"] if metric == TIME or METRICS[metric].task == cell["task"]]
    shown = {cell["method"] for cell in of_task if metric in cell}
    names = [each for each in (entry.method for entry in MODELS) if each in shown]
    rows = []
    for (dataset, p_f, _), methods in by_stream({"cells": of_task}).items():
        cells = [methods.get(each, {}) for each in names]
        values = [cell.get(metric) for cell in cells]
        if metric == TIME:  # no contest: ours learn in compiled chunks, River's one record at a time
            texts = ["" if value is None else f"{value:,.0f}" for value in values]
        else:
            texts = bold_best(values, METRICS[metric].shown)
        lines = [_lines(cell, metric, text) for cell, text in zip(cells, texts, strict=True)]
        rows.append([[", ".join([dataset, *(["half missing"] if p_f < 1.0 else [])])], *lines])
    return Grid(["", *names], rows)


def _lines(cell: CellDocument, metric: str, text: str) -> list[str]:
    """A cell's mean with its standard deviation below it, or the reason why the cell is empty."""
    if metric not in cell:
        return [nothing(cell) if "error" in cell else ""]
    if metric == TIME or cell["seeds"] < 2:
        return [text]
    return [text, f"± {METRICS[metric].shown(cell[f'{metric}_sd'])}"]


#: For each metric our default / the best that is published, by availability.
REVIEW: dict[str, View] = {
    each: partial(_by_availability, partial(_beside_best, each), each == "errors") for each in REVIEW_METRICS
}
#: For each metric every stream with deviations; and our baselines / the review's figures of the same methods.
REVIEW_DETAILS: dict[str, View] = {
    **{f"every {each}": partial(_every, each) for each in REVIEW_METRICS},
    **{
        f"{method} {each}": partial(_by_availability, partial(_beside_review, method, each), False)
        for method in BASELINES
        for each in ("errors", "balanced_accuracy")
    },
}
#: Of each task a row for each model over all streams, and a row for each stream.
STREAMS: dict[str, View] = {
    **{task: partial(_by_model, task) for task in STREAM_METRICS},
    **{f"{task} streams": partial(_by_stream, task) for task in STREAM_METRICS},
}
#: For each metric, and for the time, every model on every stream.
STREAM_DETAILS: dict[str, View] = {
    each: partial(_by_metric, each) for each in (*(m for metrics in STREAM_METRICS.values() for m in metrics), TIME)
}
