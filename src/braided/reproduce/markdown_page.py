"""A page of results as Markdown that a repository, the site and a phone all show."""

from __future__ import annotations

from collections.abc import Iterable

from braided.reproduce.grid import Grid
from braided.reproduce.story import Block, Folded, Heading, Items, Paragraph, Picture, Table


def render(title: str, blocks: Iterable[Block], pictures_at: str, docs_at: str) -> str:
    """The page; `class="figures"` lets the site set its tables closely, `docs_at` is where links into docs/ lead."""
    parts = [
        f"# {title}",
        '<div class="figures" markdown="1">',
        *(_block(block, pictures_at) for block in blocks),
        "</div>",
    ]
    return "\n\n".join(parts).replace("](docs/", f"]({docs_at}") + "\n"


def _block(block: Block, pictures_at: str) -> str:
    match block:
        case Heading(text):
            return f"## {text}"
        case Paragraph(text, small):
            return f"<small>{text}</small>" if small else text
        case Table(grid):
            return _table(grid)
        case Folded(title, inside):
            shown = "\n\n".join(_block(each, pictures_at) for each in inside)
            return f'<details markdown="1"><summary>{title}</summary>\n\n{shown}\n\n</details>'
        case Picture(name, title):
            address = f"{pictures_at}/{name}.png"
            return f"[![{title}]({address})]({address})"
        case Items(texts):
            return "\n".join(f"- {text}" for text in texts)


def _table(grid: Grid) -> str:
    lines = [f"| {' | '.join(name or ' ' for name in grid.header)} |", f"|---|{'---:|' * (len(grid.header) - 1)}"]
    for row in grid.rows:
        cells = ("<br>".join(line.replace("|", r"\|") for line in cell) for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
