"""Figures that a text repeats from the pages it links to."""

from __future__ import annotations

import re
from pathlib import Path

NUMBER = re.compile(r"(?<![\w.`/-])\d[\d,]*(?:\.\d+)?%?(?![\w`])")


def stand_where_their_links_lead(text: str, folder: Path) -> int:
    """Assert that each figure of a part with links is on a linked page, word for word; how many there were."""
    checked = 0
    for part in re.split(r"\n(?=- )|\n\n(?!\|)", text):
        pages = [page for page in re.findall(r"\]\(([\w/-]+\.md)", part) if (folder / page).exists()]
        known = " ".join((folder / page).read_text(encoding="utf-8") for page in pages).replace(",", "")
        said = re.sub(r"\]\([^)]*\)|`[^`]*`|\b0\.[12]\.0\b", "", part)
        for figure in NUMBER.findall(said) if pages else []:
            seen = re.search(rf"(?<![\d.]){re.escape(figure.replace(',', ''))}(?![\d])", known)
            assert seen, f"{figure} is not on {pages}: {part}"
            checked += 1
    return checked
