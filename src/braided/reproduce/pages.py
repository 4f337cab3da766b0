"""What a run leaves behind: CSV, JSON and PNG for each table, and pages that read from top to bottom."""

from __future__ import annotations

import json
from pathlib import Path

from braided.errors import BraidedError
from braided.files import write_atomically
from braided.report.provenance import provenance
from braided.reproduce import grid, html_page, layouts, markdown_page, pictures, story
from braided.reproduce.documents import Document

__all__ = ["gather", "markdown", "page", "picture", "provenance", "write", "write_pages"]

TITLE = "Results"
_DOCS = "https://github.com/braided-ml/braided/blob/main/docs/"
#: What every table of results has.
_NEEDED = {"what", "title", "about", "cells", "command", "circumstances"}


def picture(document: Document) -> bytes:
    """The PNG of a document."""
    return pictures.png(layouts.of(document["what"]).picture(document))


def write(document: Document, folder: Path) -> list[Path]:
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


def gather(folder: Path, order: list[str]) -> list[Document]:
    """The documents that stand in a folder."""
    found = []
    for path in (folder / f"{what}.json" for what in order):
        if path.exists():
            try:
                document = json.loads(path.read_text(encoding="utf-8"))
                if not (isinstance(document, dict) and document.keys() >= _NEEDED):
                    raise ValueError(f"it has not all of {', '.join(sorted(_NEEDED))}")
            except ValueError as error:
                raise BraidedError(f"{path} is not a table of results: remove it, or make it again") from error
            found.append(document)
    return found


def markdown(documents: list[Document], pictures_at: str, docs_at: str = _DOCS) -> str:
    """All tables as one Markdown page; `docs_at` is where the pages of docs/ are, "" for beside it."""
    return markdown_page.render(TITLE, story.blocks(documents, f"`{pictures_at}/`"), pictures_at, docs_at)


def page(documents: list[Document], drawn: dict[str, bytes] | None = None) -> str:
    """All tables and pictures as one HTML file that needs nothing else."""
    drawn = drawn or _draw(documents)
    return html_page.render(TITLE, story.blocks(documents, "this folder"), drawn)


def _draw(documents: list[Document]) -> dict[str, bytes]:
    return {name: pictures.png(figure) for name, figure in story.drawings(documents)}


def write_pages(documents: list[Document], folder: Path, markdown_file: Path | None) -> list[Path]:
    """Every picture, `index.html`, and the Markdown page if there is to be one."""
    drawn = _draw(documents)
    files = {folder / f"{name}.png": content for name, content in drawn.items()}
    files[folder / "index.html"] = page(documents, drawn).encode()
    if markdown_file is not None:
        beside_docs = (markdown_file.parent / "baselines.md").exists()
        files[markdown_file] = markdown(documents, folder.name, "" if beside_docs else _DOCS).encode()
    for path, content in files.items():
        write_atomically(path, content)
    return [path for path in files if path.suffix != ".png" or path.stem == story.SAMPLE]
