"""What mkdocs does beside reading the pages: the root's CONTRIBUTING.md becomes one of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_files(files: Files, config: Any) -> Files:
    """Add CONTRIBUTING.md as `contributing.md`, its links into docs/ made relative to docs/."""
    text = Path(config.config_file_path).with_name("CONTRIBUTING.md").read_text(encoding="utf-8")
    page = re.sub(r"\]\(docs/", "](", text)
    files.append(File.generated(config, "contributing.md", content=page))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links to the root's file lead to its page, show sessions as sessions, and leave out what only tests read."""
    markdown = markdown.replace("](../CONTRIBUTING.md", "](contributing.md")
    markdown = re.sub(r"^```(console|python) (?:slow|needs-\w+)$", r"```\1", markdown, flags=re.MULTILINE)
    return re.sub(r"^```python$(?=\n>>>)", "```pycon", markdown, flags=re.MULTILINE)
