"""Modules of an extra that is not installed are not collected for their examples."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_NEED_SERVE = (
    "app",
    "build",
    "command",
    "document",
    "events",
    "feed",
    "guard",
    "metrics",
    "schemas",
    "service",
    "shortcut",
    "stream",
)

collect_ignore: list[str] = []
if importlib.util.find_spec("fastapi") is None:
    folder = Path(__file__).parent / "braided"
    collect_ignore = [str(folder / "serve" / f"{name}.py") for name in _NEED_SERVE]
    collect_ignore.append(str(folder / "bench" / "serve.py"))
