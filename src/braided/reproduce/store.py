"""Finished jobs on disk: one file each, written at once and atomically, never recomputed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from braided.files import write_atomically


class Store:
    """A folder of results by key.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder) / "cells")
    ...     store.put("abc", {"errors": 3})
    ...     store.get("abc"), store.get("other")
    ({'errors': 3}, None)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def get(self, key: str) -> dict[str, Any] | None:
        """The result under that key; a file that is not one counts as absent and is written anew."""
        try:
            result = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        return result if isinstance(result, dict) else None

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result."""
        write_atomically(self._path(key), (json.dumps(result) + "\n").encode())
