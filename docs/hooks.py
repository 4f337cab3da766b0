"""What mkdocs does beside reading the pages: files of the root become pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

#: Made here, so that their text is there only once: each is a page of the same name in small letters.
ROOT_PAGES = ("CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "SECURITY")


def on_files(files: Files, config: Any) -> Files:
    """Add the root's pages, their links made relative to docs/."""
    for name in ROOT_PAGES:
        text = Path(config.config_file_path).with_name(f"{name}.md").read_text(encoding="utf-8")
        page = _to_root_pages(re.sub(r"\]\(docs/", "](", text), "")
        files.append(File.generated(config, f"{name.lower()}.md", content=page))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links to the root's files and to notebooks lead there, show sessions, and leave out what only tests read."""
    markdown = _to_root_pages(markdown, "../")
    markdown = markdown.replace("](../examples/", f"]({config.repo_url}/blob/main/examples/")
    markdown = re.sub(r"^```(console|python) (?:slow|needs-\w+)$", r"```\1", markdown, flags=re.MULTILINE)
    markdown = re.sub(r"^```sh$(?=\n\$ )", "```console", markdown, flags=re.MULTILINE)
    return re.sub(r"^```python$(?=\n>>>)", "```pycon", markdown, flags=re.MULTILINE)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Let the source that the reference quotes lead to its place in the repository."""
    quoted = r"<summary>Source code in <code>([^<]+)</code></summary>(.*?<span class=\"normal\">\s*(\d+))"
    link = rf'<summary>Source code in <a href="{config.repo_url}/blob/main/\1#L\3">\1</a></summary>\2'
    return re.sub(quoted, link, html, flags=re.DOTALL)


def _to_root_pages(markdown: str, where: str) -> str:
    """Links to the root's files, which are `where` from here, as links to the pages that they become."""
    for name in ROOT_PAGES:
        markdown = markdown.replace(f"]({where}{name}.md", f"]({name.lower()}.md")
    return markdown
