"""The pieces of HTML that a report is made of; everything is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from braided.evaluation.metrics import METRICS

#: Features and classes in a table, and its rows where it goes along the stream.
MAX_LISTED, _ROWS = 60, 12


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], kind: str = "") -> str:
    """An HTML table; everything is escaped.

    Of the kind "main", each cell says what it is, for screens too narrow for columns: page.css makes it a list there.
    """
    head = "".join(f'<th scope="col">{escape(str(cell))}</th>' for cell in header)
    names = [f' data-name="{escape(str(cell))}"' if kind == "main" and cell else "" for cell in header]
    body = "".join(
        "<tr>" + "".join(f"<td{name}>{escape(str(cell))}</td>" for name, cell in zip(names, row, strict=True)) + "</tr>"
        for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    return f'<div class="wide"><table class="{kind}">{top}<tbody>{body}</tbody></table></div>'


def section(title: str, body: str) -> str:
    """A part of the page with its title; the body is HTML."""
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def cells(names: Sequence[str], values: dict[str, float | None], several: bool = False) -> list[str]:
    """Metrics as text; empty where one is not known of this row."""
    return [METRICS[name].shown(values[name], several) if name in values else "" for name in names]


def places(n: int) -> list[int]:
    """At most a dozen evenly spaced places among n, the last one with them."""
    return sorted(set(np.linspace(0, n - 1, min(n, _ROWS)).astype(int).tolist())) if n else []
