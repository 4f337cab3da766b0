"""The table of a run on the screen, and the rows that a page has of it, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.evaluation.key_tally import FIRST
from braided.evaluation.metrics import METRICS, chosen
from braided.report.published import beside
from braided.run.option_text import as_options
from braided.values import printable

#: Plain guesses, and where what they got wrong is in a document; the majority class is that of hindsight.
_PLAIN_GUESSES = {
    REGRESSION: {"mean so far": "mean_mae", "last value": "last_value_mae"},
    CLASSIFICATION: {"majority class": "majority_errors", "last label": "last_label_errors"},
}
#: Columns of a screen on which every table fits.
_WIDEST = 1_000
#: Keys on the screen: of the most frequent, and of the worst.
_KEYS_SHOWN = 5


class Row(NamedTuple):
    """A row of the table of models: a model's figures by column, or those of one of its learners alone."""

    label: str
    cells: dict[str, str]
    model: bool


def model_rows(document: dict[str, Any], metrics: Sequence[str] = ()) -> tuple[list[str], list[Row]]:
    """Columns and rows of the table of models and their learners, with the metrics asked for or the main ones."""
    regression, runs_of = document["task"] == REGRESSION, runs_by_model(document)
    names = chosen(metrics, document["task"])
    learners = [learner for run in document["runs"] for learner in run["learners"].values()]
    failures = [name for name in ("skipped", "resets") if any(learner[name] for learner in learners)]
    several = any(len(runs) > 1 for runs in runs_of.values())
    columns = [METRICS[name].title for name in names]
    columns[1:1] = ["sd"] if several else []
    columns += ["records/s", *failures]
    columns += ["drifts"] if any("drifts" in run for run in document["runs"]) else []
    rows = []
    for model, figures in document["summary"].items():
        runs = runs_of[model]
        each = {name: [run["learners"][name] for run in runs] for name in runs[0]["learners"]}
        cells = shown(names, figures["metrics"], len(runs) > 1)
        if several and figures["metrics_sd"][names[0]] is not None:
            cells["sd"] = METRICS[names[0]].shown(figures["metrics_sd"][names[0]], exact=True)
        cells["records/s"] = f"{np.mean([run['records_per_second'] for run in runs]):,.0f}"
        cells |= _sums(failures, [one for own in each.values() for one in own])
        cells |= _sums(["drifts"], [run for run in runs if "drifts" in run])
        rows.append(Row(model, cells, model=True))
        for name, own in each.items() if len(each) > 1 or failures else ():
            loss = mean(one["mae" if regression else "errors"] for one in own)
            alone = shown(names, of_loss(loss, document), len(runs) > 1)
            rows.append(Row(f"{name} alone", alone | _sums(failures, own), model=False))
    return columns, rows


def runs_by_model(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The runs of each model, one per seed."""
    return {model: [run for run in document["runs"] if run["model"] == model] for model in document["summary"]}


def _sums(names: Sequence[str], counts: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Counts added up, by name; none where nothing was counted."""
    return {name: f"{sum(one[name] for one in counts):,}" for name in names if counts}


def summary_table(document: dict[str, Any], metrics: Sequence[str] = ()) -> Group:
    """One row per model and learner, with the plain guesses and what was published."""
    columns, rows = model_rows(document, metrics)
    for row in rows if document["as_published"] else ():
        row.cells["published"] = beside(document["stream"], row.label) if row.model else ""
    columns += ["published"] if any(row.cells.get("published") for row in rows) else []
    table = _FittingTable(["", *columns], 1, "published")
    for plain, key in _PLAIN_GUESSES[document["task"]].items():
        loss = document[key]
        cells = shown(chosen(metrics, document["task"]), of_loss(loss, document), isinstance(loss, float))
        table.add_row(Text(plain), *(cells.get(name, "") for name in columns))
    for row in rows:
        label, style = (row.label, "bold") if row.model else (f"  {row.label}", None)
        table.add_row(Text(label), *(row.cells.get(name, "") for name in columns), style=style)
    sound = not {"skipped", "resets"} & set(columns) and any(run["learners"] for run in document["runs"])
    health = [Text("no update was skipped, no learner was reset", style="dim italic")] if sound else []
    keys = []
    if found := document["runs"][0].get("keys"):
        headings, cells_of = keys_rows(found, document["task"] == REGRESSION, _KEYS_SHOWN)
        keys = [_FittingTable(headings, 2, "key", title=keys_words(found), title_justify="left", title_style="bold")]
        for one in cells_of:
            keys[0].add_row(*map(Text, one))
    heading = Text(title(document, masked=False), style="bold")
    return Group(heading, table, *health, *keys, *map(Text, map(printable, notes(document))))


def key_columns(result: dict[str, Any], regression: bool) -> dict[str, str]:
    """What is known of keys that share a model, or do not: the names of the figures, and their headings."""
    shared = {"shared": "shared alone"} if "ahead" in result else {}
    return {"loss": "MAE" if regression else "errors %", **shared}


def key_loss(loss: float | None, regression: bool) -> str:
    """What went wrong for a key: its mean absolute error, or its errors in percent."""
    return "" if loss is None else f"{loss:.4g}" if regression else f"{100.0 * loss:.1f}"


def shown_keys(result: dict[str, Any], most: int | None = None) -> list[tuple[dict[str, Any], str]]:
    """The most frequent keys, then the worst that are not among them, and which of both each is."""
    frequent = [row["key"] for row in result["most"][:most]]
    rows = [(row, "most frequent") for row in result["most"][:most]]
    return rows + [(row, "worst") for row in result["worst"][:most] if row["key"] not in frequent]


def keys_rows(result: dict[str, Any], regression: bool, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a table of `shown_keys`; of each kind at most so many, None for all that are known."""
    columns = {**key_columns(result, regression), "first": f"first {FIRST}"}
    rows = [
        [row["key"], why, f"{row['records']:,}", *(key_loss(row[name], regression) for name in columns)]
        for row, why in shown_keys(result, most)
    ]
    return ["key", "", "records", *columns.values()], rows


def keys_words(result: dict[str, Any]) -> str:
    """How many keys there are, and for how many it was worth having them."""
    words = counted(result["keys"], "key")
    others = result.get("records_of_others", 0)
    if others:
        words = f"the first {words} are counted, {counted(others, 'record')} of others are not"
    if "ahead" not in result:
        return f"{words}, each with a model of its own"
    return f"{words}: better than the shared model alone for {result['ahead']:,}, worse for {result['behind']:,}"


class _FittingTable(Table):
    """A table that cuts no heading where the screen is narrow, as one of rich does.

    Headings are broken between their words, the widest first, until it fits; then goes the space before the cells.
    """

    def __init__(self, headings: Sequence[str], names: int, wrapped: str, **options: Any) -> None:
        super().__init__(**options)
        for place, heading in enumerate(headings):
            self.add_column(heading, justify="right" if place >= names else "left", no_wrap=heading != wrapped)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def too_wide() -> bool:
            return self.__rich_measure__(console, options.update(max_width=_WIDEST)).maximum > options.max_width

        for column in sorted(self.columns, key=lambda column: len(str(column.header)), reverse=True):
            if too_wide():
                column.header = "\n".join(str(column.header).split())
        if too_wide():
            self.padding = (0, 1, 0, 0)
        yield from super().__rich_console__(console, options)


def counted(n: int, what: str) -> str:
    """A number of things, in words.

    >>> counted(1, "record"), counted(2_000, "class")
    ('1 record', '2,000 classes')
    """
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}{'es' if what.endswith('s') else 's'}"


def about(document: dict[str, Any], masked: bool = True) -> list[str]:
    """How much there was, how it was learned, and if `masked`, what was taken away."""
    n_seeds = len({run["seed"] for run in document["runs"]})
    parts = [counted(document["records"], "record"), counted(document["features"], "feature")]
    parts.append("regression" if document["task"] == REGRESSION else counted(document["classes"], "class"))
    parts += [document["runs"][0]["preset"]] if "preset" in document["runs"][0] else []
    parts += [f"delay {document['delay']:,}"] if document.get("delay") else []
    mask, available = (document.get("mask", "iid"), document.get("available", 1.0)) if masked else ("iid", 1.0)
    parts += [f"mask {mask}"] * (mask != "iid")
    parts += [f"{available:.0%} available"] * (available != 1.0 and mask != "trapezoidal")
    return parts + [f"{n_seeds} seeds"] * (n_seeds > 1)


def title(document: dict[str, Any], masked: bool = True) -> str:
    """The stream, how much there was of it, and how it was learned."""
    stream = f"{document['stream']}{' (sample)' if document['sample'] else ''}"
    return printable(f"{stream}: {', '.join(about(document, masked))}")


def shown(names: Sequence[str], values: dict[str, float | None], several: bool = False) -> dict[str, str]:
    """Metrics as text, by the titles of their columns."""
    return {METRICS[name].title: METRICS[name].shown(values[name], several) for name in names if name in values}


def mean(values: Iterable[float | None]) -> float | None:
    """Their mean; None where one is not known."""
    numbers = [np.nan if value is None else value for value in values]
    return None if np.isnan(numbers).any() else float(np.mean(numbers))


def of_loss(loss: float | None, document: dict[str, Any]) -> dict[str, float | None]:
    """The metrics that need nothing but the number of errors, or the mean absolute error."""
    if document["task"] == REGRESSION:
        return {"mae": loss}
    rate = None if loss is None else loss / document["records"]
    return {"errors": loss, "error_rate": rate, "accuracy": None if rate is None else 1 - rate}


def notes(document: dict[str, Any]) -> list[str]:
    """What was odd about the stream."""
    unlabelled = document.get("unlabelled", 0)
    without = f"{counted(unlabelled, 'record')} had no label: predicted, not learned" if unlabelled else ""
    return [note for note in (misfits(document), without) if note]


def misfits(document: dict[str, Any]) -> str:
    """What --on-error let pass, in words; empty if there was nothing."""
    counts = {"record": document.get("skipped_records", 0), "value": document.get("misfit_values", 0)}
    verbs = {"record": "skipped", "value": "taken as missing"}
    told = [f"{counted(count, what)} {verbs[what]}" for what, count in counts.items() if count]
    return f"{', '.join(told)}; first: {as_options(document['first_problem'])}" if told else ""
