"""A page of results as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable

from braided.reproduce.grid import Grid
from braided.reproduce.story import Block, Folded, Heading, Items, Paragraph, Picture, Table

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; color: #222;
  background: #fff; }
h1 { line-height: 1.2; }
h2 { margin-top: 3rem; line-height: 1.25; }
table { border-collapse: collapse; font-size: 13px; line-height: 1.35; font-variant-numeric: tabular-nums; }
td, th { border-bottom: 1px solid #ddd; padding: .15rem .6rem; text-align: right; vertical-align: top; }
td:first-child, th:first-child { text-align: left; padding-left: 0; }
td span { display: block; }
td span + span, small { color: #777; }
tr.heading td { padding-top: .7rem; color: #777; }
tr.heading em { color: #222; font-style: normal; font-weight: 600; }
code { background: #f3f3f0; padding: .1rem .3rem; overflow-wrap: anywhere; }
img { max-width: min(100%, 44rem); margin-top: 1rem; }
details { margin: 1rem 0; }
summary { cursor: pointer; }
.wide { overflow-x: auto; }
.small { color: #666; font-size: 13px; }
@media (max-width: 480px) { table { font-size: 12px; } td, th { padding: .18rem .25rem; } }
@media (max-width: 380px) { body { padding: 0 .6rem; } table { font-size: 11px; } td, th { padding: .15rem .22rem; } }
@media (prefers-color-scheme: dark) {
  body { background: #16181b; color: #ddd; } td, th { border-color: #333; } code { background: #24272b; }
  td span + span, small, .small, tr.heading td { color: #999; } tr.heading em { color: #ddd; } img { background: #fff; }
}
"""


def render(title: str, blocks: Iterable[Block], drawn: dict[str, bytes]) -> str:
    """The page, with the pictures inside."""
    parts = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>braided: {html.escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width, initial-scale=1'><style>{_STYLE}</style>",
        f"<h1>{html.escape(title)}</h1>",
    ]
    return "\n".join([*parts, *(_block(block, drawn) for block in blocks), "</html>"]) + "\n"


def inline(text: str) -> str:
    """Text with its few kinds of markup; the page stands alone, so that of a link there is its name.

    >>> inline("**2 < 3** of `a`, [how](docs/default.md)")
    '<b>2 &lt; 3</b> of <code>a</code>, how: docs/default.md'
    """
    text = html.escape(text, quote=False)
    text = re.sub(r"\[([^\]]+)\]\((docs/[^)]+)\)", r"\1: \2", text)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    text = re.sub(r"\*(\S[^*]*)\*", r"<em>\1</em>", text)
    return re.sub(r"&lt;(/?small)&gt;", r"<\1>", text)


def _block(block: Block, drawn: dict[str, bytes]) -> str:
    match block:
        case Heading(text):
            return f"<h2>{html.escape(text)}</h2>"
        case Paragraph(text, small):
            return f"<p{' class=small' if small else ''}>{inline(text)}</p>"
        case Table(grid):
            return _table(grid)
        case Folded(title, inside):
            shown = "\n".join(_block(each, drawn) for each in inside)
            return f"<details><summary>{inline(title)}</summary>\n{shown}\n</details>"
        case Picture(name, title):
            data = base64.b64encode(drawn[name]).decode()
            return f"<img alt='{html.escape(title)}' src='data:image/png;base64,{data}'>"
        case Items(texts):
            return "<ul>" + "\n".join(f"<li>{inline(text)}</li>" for text in texts) + "</ul>"


def _table(grid: Grid) -> str:
    parts = ["<div class='wide'><table><tr>", *(f"<th>{html.escape(name)}</th>" for name in grid.header), "</tr>"]
    for row in grid.rows:
        cells = ("".join(f"<span>{inline(line)}</span>" for line in lines) for lines in row)
        heading = re.match(r"\*[^*]", row[0][0]) is not None
        parts.append(
            f"<tr{' class=heading' if heading else ''}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
        )
    return "".join([*parts, "</table></div>"])
