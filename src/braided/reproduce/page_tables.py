"""The paper's tables for a page: narrow enough for a phone, the best in bold, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable

from braided.reproduce.documents import CellDocument, Document, by_stream, methods_of, percent
from braided.reproduce.grid import PLUS_MINUS, Grid, Section, bold_best, nothing

#: Below it a difference between two methods is one of the methods.
SIGNIFICANT = 0.05
#: Fewer pairs than these cannot give a p-value below `SIGNIFICANT`.
ENOUGH_SEEDS = 6
#: Stands at a figure that the seeds cannot tell from that of the method it is compared with.
ALIKE = "°"


def short(value: float, unit: str = "errors") -> str:
    """A figure in few characters.

    >>> short(5124.66), short(286.12), short(3.811, "percent")
    ('5,125', '286.1', '3.8%')
    """
    if unit == "percent":
        return f"{value:.1f}%"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.1f}"


def name(cell: CellDocument) -> str:
    """The data set, with the number of records where a limit was given; that a file is a sample is said elsewhere."""
    limited = cell.get("sample") and not cell["file_is_sample"]
    return f"{cell['dataset']}, first {cell['records']:,}" if limited else str(cell["dataset"])


def grouped(document: Document) -> list[Section]:
    """A row for each method under a heading for each stream: ours, the paper's, the difference; or our time."""
    published = any("paper_mean" in cell for cell in document["cells"])
    timed = any("timed" in cell for cell in document["cells"])
    header = ["", "ours", *(["paper", "difference"] if published else []), *(["us per record"] if timed else [])]
    rows: list[list[list[str]]] = []
    for (_, p_f, _), by_method in by_stream(document).items():
        rows.append(_heading(list(by_method.values()), p_f, len(header)))
        for cell, line in zip(by_method.values(), _lines(list(by_method.values())), strict=True):
            rows.append([[cell["method"]], line["ours"]])
            if published:
                rows[-1] += [line["paper"], line["difference"]]
            if timed:
                rows[-1].append([f"{cell['us_per_record']:.0f}" if "us_per_record" in cell else ""])
    return [Section("", Grid(header, rows))]


def _heading(cells: list[CellDocument], p_f: float, width: int) -> list[list[str]]:
    done = next((cell for cell in cells if "ours_mean" in cell), None)
    row = [[f"*{name(done or cells[0])}*"], [f"majority {short(done['majority'], done['unit'])}" if done else ""]]
    if width > 2:
        row.append([f"{p_f:g} there" if p_f < 1.0 else ""])
    return row + [[""]] * (width - len(row))


def _lines(cells: list[CellDocument]) -> list[dict[str, list[str]]]:
    """What each method of a stream says."""
    unit = cells[0]["unit"]
    means = {
        whose: bold_best([cell.get(f"{whose}_mean") for cell in cells], lambda value: short(value, unit))
        for whose in ("ours", "paper")
    }
    lines = []
    for cell, ours, paper in zip(cells, means["ours"], means["paper"], strict=True):
        line = {"ours": [nothing(cell)], "paper": [""], "difference": [""]}
        if ours:
            line["ours"] = [ours + (_deviation(cell["ours_sd"]) if cell["seeds"] > 1 else "") + _alike(cell)]
            line["ours"] += [f"{cell['failed']} failed: {cell['error']}"] if "failed" in cell else []
        if paper:
            line["paper"] = [paper + _deviation(cell.get("paper_sd"))]
            line["paper"] += [short(other, unit) for other in cell["paper_other"]]
        if ours and paper:
            difference = cell["ours_mean"] - cell["paper_mean"]
            line["difference"] = [("+" if difference >= 0 else "") + short(difference, unit)]
        lines.append(line)
    return lines


def _deviation(sd: float | None) -> str:
    if sd is None:
        return ""
    return PLUS_MINUS + (f"{sd:,.0f}" if sd >= 100 else f"{sd:.1f}")


def _alike(cell: CellDocument) -> str:
    return ALIKE if cell["seeds"] >= ENOUGH_SEEDS and cell.get("p_value", 0.0) >= SIGNIFICANT else ""


def wide(document: Document) -> list[Section]:
    """A row for each data set, a column for each method: ours alone."""
    columns = methods_of(document)
    rows = []
    for by_method in by_stream(document).values():
        cells = [by_method[method] for method in columns if method in by_method]
        found = {cell["method"]: line["ours"] for cell, line in zip(cells, _lines(cells), strict=True)}
        rows.append([[name(cells[0])], *(found.get(method, [""]) for method in columns)])
    return [Section("", Grid(["", *columns], rows))]


def by_availability(document: Document) -> list[Section]:
    """For each data set a row for each availability: in percent, ours / the paper's, and the difference."""
    return _series(document, "available", lambda p_f, setting: f"{p_f:g}")


def by_rate(document: Document) -> list[Section]:
    """For each data set a row for each learning rate."""
    return _series(document, "rate", lambda p_f, setting: setting.rpartition("=")[2])


def by_depth(document: Document) -> list[Section]:
    """For each data set a row for each depth and width, with the ratio of times."""

    def label(p_f: float, setting: str) -> str:
        layers, width = (part.partition("=")[2] for part in setting.split())
        return f"{layers} x {width}"

    return _series(document, "layers x width", label, _time_ratio)


def _time_ratio(by_method: dict[str, CellDocument]) -> str:
    """How many times longer ODL takes than Fast ODL: ours / the paper's."""
    slow, fast = by_method.get("auxdrop-odl", {}), by_method.get("auxdrop-fodl", {})
    times = ("us_per_record", "paper_seconds")
    return " / ".join(f"{slow[key] / fast[key]:.1f}" for key in times if key in slow and key in fast)


def _series(
    document: Document,
    along: str,
    label: Callable[[float, str], str],
    ratio: Callable[[dict[str, CellDocument]], str] | None = None,
) -> list[Section]:
    columns = methods_of(document)
    tables: dict[str, list[list[list[str]]]] = {}
    above: dict[str, str] = {}
    for (dataset, p_f, setting), by_method in by_stream(document).items():
        cells = [by_method[method] for method in columns if method in by_method]
        texts = dict(zip([cell["method"] for cell in cells], _in_percent(cells), strict=True))
        if ratio:  # it is the times that are compared there, and not the errors
            texts = {method: text.replace("**", "") for method, text in texts.items()}
        row = [[label(p_f, setting)], *([texts.get(method, "")] for method in columns)]
        tables.setdefault(dataset, []).append([*row, *([[ratio(by_method)]] if ratio else [])])
        done = next((cell for cell in cells if "ours_mean" in cell), None)
        if done and dataset not in above:
            majority = 100.0 * done["majority"] / done["records"] if done["unit"] == "errors" else done["majority"]
            above[dataset] = f"**{name(done)}** in percent, ours / paper (majority class {majority:.1f}):"
    header = [along, *columns, *(["time, odl / fodl"] if ratio else [])]
    return [Section(above.get(dataset, f"**{dataset}**:"), Grid(header, rows)) for dataset, rows in tables.items()]


def _in_percent(cells: list[CellDocument]) -> list[str]:
    """Ours / the paper's and the difference, of each method of a stream."""
    ours, paper = ([percent(cell, whose) for cell in cells] for whose in ("ours", "paper"))
    shown = [bold_best(values, lambda value: f"{value:.1f}") for values in (ours, paper)]
    texts = []
    for i, cell in enumerate(cells):
        mine, theirs = ours[i], paper[i]
        text = shown[0][i] or nothing(cell)
        if mine is not None and theirs is not None:
            text += f" / {shown[1][i]} <small>{mine - theirs:+.1f}</small>"
        texts.append(text)
    return texts
