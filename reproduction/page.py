"""A hand-written page whose tables are those of kept documents: what is between two markers is made again.

`<!-- table1 -->` begins the table of `table1.json`, `<!-- haphazard: auroc -->` a view of one that has several,
`<!-- table1: made -->` the line that says how it was made; `<!-- end -->` ends each.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from braided.errors import BraidedError
from reproduction.documents import Document
from reproduction.tables import TABLES

_MARKED = re.compile(r"(<!-- (\w+)(?:: ([\w -]+))? -->\n).*?(<!-- end -->)", re.DOTALL)
#: What every table of results has.
_NEEDED = {"what", "title", "cells", "command", "circumstances"}


def load(path: Path) -> Document:
    """A document as it was kept."""
    try:
        document: Document = json.loads(path.read_text(encoding="utf-8"))
        if not (isinstance(document, dict) and document.keys() >= _NEEDED):
            raise ValueError(f"it has not all of {', '.join(sorted(_NEEDED))}")
    except FileNotFoundError:
        raise BraidedError(f"{path} is not here: make it first") from None
    except ValueError as error:
        raise BraidedError(f"{path} is not a table of results: remove it, or make it again") from error
    return document


def made(document: Document) -> str:
    """The command, its runs and their seconds, the day and the machine."""
    about = document["circumstances"]
    work = f"{document['jobs']} runs, {document['seconds']:,.0f} s of work; " if document["jobs"] else ""
    return f"<small>`{document['command']}`: {work}{about['date']}, {about['machine']}.</small>"


def refreshed(text: str, folder: Path) -> str:
    """The page with every table made again from the documents of a folder."""

    def block(found: re.Match[str]) -> str:
        begin, what, view, end = found.groups(default="")
        if what not in TABLES:
            raise BraidedError(f"marker {begin.strip()!r} names no table: use one of {', '.join(TABLES)}")
        document, shown = load(folder / f"{what}.json"), {**TABLES[what].views, **TABLES[what].details}
        if view != "made" and view not in shown:
            raise BraidedError(f"marker {begin.strip()!r} names no view: use one of {', '.join([*shown, 'made'])}")
        content = made(document) if view == "made" else shown[view](document).markdown()
        return f"{begin}\n{content}\n\n{end}"

    return _MARKED.sub(block, text)
