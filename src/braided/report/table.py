"""The table of a run on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from braided.estimators.params import REGRESSION
from braided.evaluation.key_tally import FIRST
from braided.evaluation.metrics import METRICS, chosen
from braided.report.published import beside
from braided.run.option_text import as_options
from braided.values import printable

#: Columns of a screen on which every table fits.
_WIDEST = 1_000
#: Keys on the screen: of the most frequent, and of the worst.
_KEYS_SHOWN = 5


def summary_table(document: dict[str, Any], metrics: Sequence[str] = ()) -> Group:
    """One row per model, with the metrics asked for or the main ones; plain guesses and published figures beside it."""
    regression = document["task"] == REGRESSION
    names = chosen(metrics, document["task"])
    learners = [learner for run in document["runs"] for learner in run["learners"].values()]
    failures = {name: sum(learner[name] for learner in learners) for name in ("skipped", "resets")}
    published = {
        model: beside(document["stream"], model) if document["as_published"] else "" for model in document["summary"]
    }
    titles = {name: METRICS[name].title for name in names}
    columns = list(titles)
    columns[1:1] = ["sd"] if len({run["seed"] for run in document["runs"]}) > 1 else []
    columns += ["records/s", *(name for name in failures if failures[name])]
    columns += ["drifts"] if any("drifts" in run for run in document["runs"]) else []
    columns += ["published"] if any(published.values()) else []
    table = _FittingTable()
    table.add_column("", no_wrap=True)
    for name in columns:
        table.add_column(titles.get(name, name), justify="right", no_wrap=name != "published")

    def add(label: str, cells: dict[str, str], style: str | None = None) -> None:
        table.add_row(Text(label), *(cells.get(name, "") for name in columns), style=style)

    for plain, losses in plain_guesses(document).items():
        add(plain, _shown(names, losses, of_seeds(losses)))
    for model, figures in document["summary"].items():
        runs = [run for run in document["runs"] if run["model"] == model]
        several = len(runs) > 1
        cells = _shown(names, figures["metrics"], several)
        if several and figures["metrics_sd"][names[0]] is not None:
            cells["sd"] = METRICS[names[0]].shown(figures["metrics_sd"][names[0]], exact=True)
        cells["records/s"] = f"{np.mean([run['records_per_second'] for run in runs]):,.0f}"
        add(model, {**cells, "drifts": drifts(runs), "published": published[model]}, "bold")
        for name in runs[0]["learners"]:
            own = [run["learners"][name] for run in runs]
            if len(runs[0]["learners"]) > 1 or any(failures.values()):
                alone = _shown(names, own_metrics(own, document["records"], regression), several)
                add(f"  {name} alone", alone | {key: str(sum(one[key] for one in own)) for key in failures})
    sound = learners and not any(failures.values())
    health = [Text("no update was skipped, no learner was reset", style="dim italic")] if sound else []
    notes = [Text(printable(note)) for note in (misfits(document), without_label(document)) if note]
    keys = [_keys_table(document, document["runs"][0]["keys"])] if "keys" in document["runs"][0] else []
    return Group(Text(printable(_title(document)), style="bold"), table, *health, *keys, *notes)


def _loss(loss: float | None, regression: bool) -> str:
    return "" if loss is None else f"{loss:.4g}" if regression else f"{100.0 * loss:.1f}"


def _shown_keys(result: dict[str, Any], most: int | None) -> list[tuple[dict[str, Any], str]]:
    """The most frequent keys, then the worst that are not among them, and which of both each is."""
    frequent = [row["key"] for row in result["most"][:most]]
    rows = [(row, "most frequent") for row in result["most"][:most]]
    return rows + [(row, "worst") for row in result["worst"][:most] if row["key"] not in frequent]


def keys_rows(result: dict[str, Any], regression: bool, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a table of keys: the most frequent ones, then the worst that are not among them.

    Of each at most so many, None for all that are known.
    """
    columns = {"loss": "MAE" if regression else "errors %", "shared": "shared alone", "first": f"first {FIRST}"}
    if "ahead" not in result:
        del columns["shared"]
    rows = [
        [row["key"], why, f"{row['records']:,}", *(_loss(row[name], regression) for name in columns)]
        for row, why in _shown_keys(result, most)
    ]
    return ["key", "", "records", *columns.values()], rows


def keys_over_time_rows(result: dict[str, Any], regression: bool) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a table of the same keys: what went wrong in each part of the stream."""
    rows = [[row["key"], *(_loss(loss, regression) for loss in row["over_time"])]
            for row, _ in _shown_keys(result, None)]  # fmt: skip
    return ["key", *(f"to {end:,}" for end in result["until"])], rows


def ages_rows(result: dict[str, Any], regression: bool) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a table of what went wrong by how many records a key had learned before."""
    columns = {"loss": "MAE" if regression else "errors %", "shared": "shared alone"}
    if "ahead" not in result:
        del columns["shared"]
    rows = []
    for row, following in zip(result["ages"], [*result["ages"][1:], None], strict=True):
        until = "" if following is None else f" to {following['from'] - 1:,}"
        known = f"{row['from']:,}{until}" if until != f" to {row['from']:,}" else f"{row['from']:,}"
        known = known if following is not None else f"{row['from']:,} or more"
        rows.append([known, f"{row['records']:,}", *(_loss(row[name], regression) for name in columns)])
    return ["records the key had learned", "records", *columns.values()], rows


def keys_words(result: dict[str, Any]) -> str:
    """How many keys there are, and for how many it was worth having them."""
    words = counted(result["keys"], "key")
    others = result.get("records_of_others", 0)
    if others:
        words = f"the first {words} are counted, {counted(others, 'record')} of others are not"
    if "ahead" not in result:
        return f"{words}, each with a model of its own"
    return f"{words}: better than the shared model alone for {result['ahead']:,}, worse for {result['behind']:,}"


def _keys_table(document: dict[str, Any], result: dict[str, Any]) -> Table:
    headings, rows = keys_rows(result, document["task"] == REGRESSION, _KEYS_SHOWN)
    table = _FittingTable(title=keys_words(result), title_justify="left", title_style="bold")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place > 1 else "left", no_wrap=place != 0)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


class _FittingTable(Table):
    """A table that cuts no heading where the screen is narrow, as one of rich does.

    Headings are broken between their words, the widest first, until it fits; then goes the space before the cells.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for column in sorted(self.columns, key=lambda column: len(str(column.header)), reverse=True):
            if not self._fits(console, options):
                column.header = "\n".join(str(column.header).split())
        if not self._fits(console, options):
            self.padding = (0, 1, 0, 0)
        yield from super().__rich_console__(console, options)

    def _fits(self, console: Console, options: ConsoleOptions) -> bool:
        natural = self.__rich_measure__(console, options.update(max_width=_WIDEST)).maximum
        return natural <= options.max_width


def counted(n: int, what: str) -> str:
    """A number of things, in words.

    >>> counted(1, "record"), counted(2_000, "class")
    ('1 record', '2,000 classes')
    """
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}{'es' if what.endswith('s') else 's'}"


def _title(document: dict[str, Any]) -> str:
    n_seeds = len({run["seed"] for run in document["runs"]})
    parts = [counted(document["records"], "record"), counted(document["features"], "feature")]
    parts.append("regression" if document["task"] == REGRESSION else counted(document["classes"], "class"))
    parts.append(document["runs"][0]["preset"])
    parts += [f"delay {document['delay']:,}"] if document["delay"] else []
    parts += [f"{n_seeds} seeds"] if n_seeds > 1 else []
    return f"{document['stream']}{' (sample)' if document['sample'] else ''}: {', '.join(parts)}"


def _shown(names: Sequence[str], values: dict[str, float | None], several: bool = False) -> dict[str, str]:
    return {name: METRICS[name].shown(values[name], several) for name in names if name in values}


def own_metrics(own: list[dict[str, Any]], records: int, regression: bool) -> dict[str, float | None]:
    """What is known of a learner alone."""
    if regression:
        known = [one["mae"] for one in own if one["mae"] is not None]
        return {"mae": float(np.mean(known)) if len(known) == len(own) else None}
    return counted_errors(float(np.mean([one["errors"] for one in own])), records)


def plain_guesses(document: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """The plain guesses by name, with their metrics: majority class in hindsight or mean so far, and the last one."""
    if document["task"] == REGRESSION:
        values = ("mean so far", "mean_mae"), ("last value", "last_value_mae")
        return {name: {"mae": document[key]} for name, key in values}
    labels = ("majority class", "majority_errors"), ("last label", "last_label_errors")
    return {name: counted_errors(document[key], document["records"]) for name, key in labels}


def of_seeds(losses: dict[str, float | None]) -> bool:
    """Whether the errors of a plain guess are a mean over seeds, and no whole number."""
    return (losses.get("errors") or 0) % 1 != 0


def counted_errors(errors: float | None, records: int) -> dict[str, float | None]:
    """The metrics that need nothing but the number of errors; None where that is not known."""
    rate = None if errors is None else errors / records
    return {"errors": errors, "error_rate": rate, "accuracy": None if rate is None else 1 - rate}


def drifts(runs: list[dict[str, Any]]) -> str:
    """Drifts found in all runs of a model; empty where there was no detector."""
    found = [run["drifts"] for run in runs if "drifts" in run]
    return f"{sum(found):,}" if found else ""


def without_label(document: dict[str, Any]) -> str:
    """How many records had no label, in words; empty if there was none."""
    n = document["unlabelled"]
    return f"{counted(n, 'record')} had no label: predicted, not learned" if n else ""


def misfits(document: dict[str, Any]) -> str:
    """What --on-error let pass, in words; empty if there was nothing."""
    skipped, misfit = document["skipped_records"], document["misfit_values"]
    if not skipped and not misfit:
        return ""
    counts = [f"{counted(skipped, 'record')} skipped"] if skipped else []
    counts += [f"{counted(misfit, 'value')} taken as missing"] if misfit else []
    return f"{', '.join(counts)}; first: {as_options(document['first_problem'])}"
