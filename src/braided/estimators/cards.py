"""What a notebook shows of a model, a fleet or a history: a small piece of HTML in the notebook's own colours.

A card has no script, no style sheet and nothing from elsewhere, and everything in it is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

#: Letters of a name, rows of a table.
_MAX_LETTERS, _MAX_ROWS = 60, 24
_SOFT = "opacity:.7"
_CARD = (
    "display:inline-block;max-width:100%;box-sizing:border-box;overflow-x:auto;padding:.7em 1em;"
    "border:1px solid rgba(128,128,128,.4);border-radius:8px;font:13px/1.45 system-ui,sans-serif"
)
_TABLE = "border-collapse:collapse;margin:.4em 0 0;font:inherit;color:inherit;font-variant-numeric:tabular-nums"
_WIDTH, _HEIGHT = 320.0, 70.0


def model_card(model: Any) -> str:
    """The card of a `MODLClassifier` or `MODLRegressor`."""
    preset = model.preset if isinstance(model.preset, str) else "a preset of its own"
    about = f"preset {preset}, combiner {model.braid.combiner.name}, seed {model.seed}"
    about += f", labels {model.delay:,} records late" if model.delay else ""
    figures = [(f"{model.records_learned:,}", "records learned"), (f"{model.n_features:,}", "features")]
    if model.task == "classification":
        figures.append((f"{len(model.classes):,}", "classes"))
    if model.drift_detector is not None:
        figures.append((f"{model.drifts:,}", "drifts"))
    learners = zip(model.health.items(), model.braid.learners, strict=True)
    rows = [[f"{name} {type(learner).__name__}", *health.values()] for (name, health), learner in learners]
    if not any(any(row[1:]) for row in rows):
        rows = [row[:1] for row in rows]
    return card(type(model).__name__, about, figures, table(["learner", "skipped", "resets"][: len(rows[0])], rows))


def shortened(text: Any, most: int = _MAX_LETTERS) -> str:
    """What an object prints as, cut if it is long, and escaped."""
    told = str(text)
    return escape(told if len(told) <= most else f"{told[: most - 1]}\N{HORIZONTAL ELLIPSIS}")


def card(title: str, about: str, figures: Sequence[tuple[str, str]], *parts: str) -> str:
    """A box: what it is, some large figures with their names, and further parts, which are HTML.

    >>> card("MODL<Classifier>", "new", [])[-71:]
    '<b>MODL&lt;Classifier&gt;</b> <span style="opacity:.7">new</span></div>'
    """
    boxes = "".join(
        f'<span style="display:inline-block;margin:.3em 1.4em .2em 0"><b style="font-size:1.5em">{shortened(value)}</b>'
        f'<br><span style="{_SOFT}">{shortened(name)}</span></span>'
        for value, name in figures
    )
    below = f"<div>{boxes}</div>" if boxes else ""
    head = f'<b>{shortened(title)}</b> <span style="{_SOFT}">{shortened(about, 200)}</span>'
    return f'<div style="{_CARD}">{head}{below}{"".join(parts)}</div>'


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of at most two dozen rows, and how many more there are; all columns but the first are numbers."""
    body = ""
    for row in (header, *rows[:_MAX_ROWS]):
        kind, look = ("th", f";font-weight:normal;{_SOFT}") if row is header else ("td", "")
        cells = "".join(
            f'<{kind} style="padding:.1em .8em .1em 0;border:0;text-align:{"right" if place else "left"}{look}">'
            f"{shortened(cell)}</{kind}>"
            for place, cell in enumerate(row)
        )
        body += f'<tr style="background:none">{cells}</tr>'
    more = len(rows) - _MAX_ROWS
    note = f'<div style="{_SOFT}">and {more:,} more</div>' if more > 0 else ""
    return f'<table style="{_TABLE}">{body}</table>{note}'


def line_picture(title: str, lines: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> str:
    """Lines from 0 on, the first one strong and the others dashed, each given by its name and its points."""
    points = [point for _, line in lines for point in line]
    if len(points) < 2:
        return ""
    top, first, last = max(y for _, y in points), min(x for x, _ in points), max(x for x, _ in points)
    across, up = _WIDTH / max(last - first, 1e-9), (_HEIGHT - 4) / max(top, 1e-300)
    paths = ""
    for number, (name, line) in enumerate(lines):
        drawn = " ".join(f"{across * (x - first):.1f},{_HEIGHT - up * y:.1f}" for x, y in line)
        dashed = f'stroke-width="1" stroke-dasharray="{6 - 2 * number} 3" opacity=".6"'
        look = dashed if number else 'stroke-width="1.8"'
        paths += f'<polyline points="{drawn}" fill="none" stroke="currentColor" {look}>'
        paths += f"<title>{shortened(name)}</title></polyline>"
    told = shortened(title, 120)
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="{told}" '
        f'style="display:block;width:{_WIDTH:.0f}px;max-width:100%;margin:.4em 0 0">'
        f'{paths}</svg><div style="{_SOFT}">{told}</div>'
    )
