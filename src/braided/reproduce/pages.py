"""What a run leaves behind: CSV, JSON and PNG for each table, and one page that reads from top to bottom."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

from braided.checkpoint import write_atomically
from braided.report.provenance import provenance
from braided.reproduce import grid, layouts, pictures

__all__ = ["gather", "markdown", "page", "picture", "provenance", "write"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; color: #222;
  background: #fff; }
h2 { margin-top: 3rem; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
td, th { border-bottom: 1px solid #ddd; padding: .35rem .7rem; text-align: right; vertical-align: top; }
td:first-child, th:first-child { text-align: left; }
td span { display: block; white-space: nowrap; }
td span + span { color: #777; }
code { background: #f3f3f0; padding: .1rem .3rem; }
img { max-width: 100%; margin-top: 1rem; }
.wide { overflow-x: auto; }
.meta { color: #666; font-size: 13px; }
@media (prefers-color-scheme: dark) {
  body { background: #16181b; color: #ddd; } td, th { border-color: #333; } code { background: #24272b; }
  td span + span, .meta { color: #999; } img { background: #fff; }
}
"""


def picture(document: dict[str, Any]) -> bytes:
    """The PNG of a document."""
    return pictures.png(layouts.of(document["what"]).picture(document))


def write(document: dict[str, Any], folder: Path) -> list[Path]:
    """CSV, JSON and PNG of one table."""
    what = document["what"]
    contents = {
        f"{what}.csv": grid.as_csv(document).encode(),
        f"{what}.json": (json.dumps(document, indent=1) + "\n").encode(),
        f"{what}.png": picture(document),
    }
    for name, content in contents.items():
        write_atomically(folder / name, content)
    return [folder / name for name in contents]


def gather(folder: Path, order: list[str]) -> list[dict[str, Any]]:
    """The documents that stand in a folder."""
    return [json.loads((folder / f"{what}.json").read_text()) for what in order if (folder / f"{what}.json").exists()]


def _notes(document: dict[str, Any]) -> list[str]:
    """Circumstances of a table: times, and what was not run in full."""
    about = document["circumstances"]
    machine = ", ".join(f"{name} {value}" for name, value in about.items() if name != "machine")
    notes = [f"{machine}; {about['machine']}; {document['jobs']} runs, {document['seconds']:.0f} s of work in all."]
    partial = [cell for cell in document["cells"] if "full_hours" in cell]
    if partial:
        hours = sum(cell["full_hours"] for cell in partial)
        names = ", ".join(dict.fromkeys(cell["dataset"] for cell in partial))
        notes.append(
            f"Not run in full here: {names}. At the speed measured, all records and seeds of this table would take "
            f"{hours:,.1f} hours of one core."
        )
    return notes


def markdown(documents: list[dict[str, Any]], pictures_at: str) -> str:
    """All tables as one Markdown page, each under the command that made it."""
    parts = [
        "# Results\n",
        "Ours above, the published below, where there is one; the standard deviation is over seeds, p is the paired "
        "Wilcoxon test against MODL (in `merge` against the score sum, in `logistic` against the Kalman gain). Made by "
        f"the command above each table; the same tables as CSV and JSON are in `{pictures_at}/`.\n",
    ]
    for document in documents:
        parts.append(f"## {document['title']}\n\n`{document['command']}`\n\n{document['about']}\n")
        parts += [f"{sentence}\n" for sentence in document.get("summary", [])]
        for section in layouts.of(document["what"]).sections(document):
            above, made = section.above, section.grid
            parts += [f"\n{above}\n"] if above else []
            parts.append(f"| {' | '.join(name or ' ' for name in made.header)} |")
            parts.append(f"|{'---|' * len(made.header)}")
            parts += [f"| {' | '.join('<br>'.join(lines) for lines in row)} |" for row in made.rows]
        parts.append(f"\n![{document['title']}]({pictures_at}/{document['what']}.png)\n")
        parts += [f"{note}\n" for note in _notes(document)]
    return "\n".join(parts)


def page(documents: list[dict[str, Any]]) -> str:
    """All tables and pictures as one HTML file that needs nothing else."""
    parts = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>braided: the paper's results</title>"
        f"<meta name='viewport' content='width=device-width, initial-scale=1'><style>{_STYLE}</style>",
        "<h1>The paper's results, ours beside theirs</h1>",
        "<p>In each cell: ours, the paper's, the difference. The standard deviation is over seeds; p is the paired "
        "Wilcoxon test against MODL (among combiners against the score sum, among logistic learners against the "
        "Kalman gain).</p>",
    ]
    for document in documents:
        parts.append(f"<h2>{html.escape(document['title'])}</h2><p><code>{html.escape(document['command'])}</code></p>")
        parts += [f"<p>{html.escape(text)}</p>" for text in (document["about"], *document.get("summary", []))]
        for section in layouts.of(document["what"]).sections(document):
            above, made = section.above, section.grid
            parts += [f"<p>{html.escape(above)}</p>"] if above else []
            parts += _html_table(made)
        drawn = base64.b64encode(picture(document)).decode()
        parts.append(f"<img alt='{html.escape(document['title'])}' src='data:image/png;base64,{drawn}'>")
        parts += [f"<p class='meta'>{html.escape(note)}</p>" for note in _notes(document)]
    return "\n".join(parts) + "\n</html>\n"


def _html_table(made: grid.Grid) -> list[str]:
    parts = ["<div class='wide'><table><tr>", *(f"<th>{html.escape(name)}</th>" for name in made.header)]
    for row in made.rows:
        cells = ("".join(f"<span>{html.escape(line)}</span>" for line in lines) for lines in row)
        parts.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells))
    return [*parts, "</table></div>"]
