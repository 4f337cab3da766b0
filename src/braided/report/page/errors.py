"""Errors along the stream, in pictures and numbers."""

from __future__ import annotations

from braided.evaluation import History
from braided.evaluation.metrics import quantity
from braided.kernels.tally import ANSWER
from braided.report import plot
from braided.report.page.markup import places, section, table
from braided.report.page.subject import Subject
from braided.report.plot.errors import guesses, rates


def errors(subject: Subject) -> str:
    """Running and windowed errors of all models."""
    everything = subject.everything
    columns = {name: (seeds, ANSWER) for name, seeds in subject.histories.items()}
    columns |= {name: (everything[:1], loss) for name, loss in guesses(everything).items()}
    what, share = ("Absolute errors", "Their mean") if subject.regression else ("Errors", "Share of errors")
    spread = f" Mean of {subject.seeds} seeds; the band is one standard deviation." if subject.seeds > 1 else ""
    if any(history.drifts().any() for history in everything):
        spread += " Triangles mark where drift was found."
    window = everything[0].window()
    pictures = subject.picture(
        "Running error",
        f"{what} so far, divided by records so far.{spread}",
        lambda ax: plot.error(everything, ax=ax),
        curves(subject, columns, windowed=False),
    )
    pictures += subject.picture(
        "Windowed error",
        f"{share} among the last {window:,} records.{spread}",
        lambda ax: plot.error(everything, windowed=True, ax=ax),
        curves(subject, columns, windowed=True) if len(everything[0].windowed()) else "",
    )
    return section("Errors", f'<div class="pictures">{pictures}</div>')


def curves(subject: Subject, columns: dict[str, tuple[list[History], int]], windowed: bool) -> str:
    """Some rows of error curves."""
    curves = {name: rates(seeds, loss, windowed) for name, (seeds, loss) in columns.items()}
    records = next(iter(curves.values()))[0]
    rows = []
    for place in places(len(records)):
        cells = [
            _error(subject, mean[place]) + (f" \N{PLUS-MINUS SIGN} {_error(subject, sd[place])}" if sd.any() else "")
            for _, mean, sd in curves.values()
        ]
        rows.append([f"{records[place]:,.0f}", *cells])
    return table(["records", *curves], rows)


def _error(subject: Subject, value: float) -> str:
    return quantity(value) if subject.regression else f"{value:.2%}"
