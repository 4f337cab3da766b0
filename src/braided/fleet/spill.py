"""Where what does not fit into memory lies: a folder of this process alone, which goes when it goes."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from braided.checkpoint import Checkpoint, read, write
from braided.errors import BraidedError

#: Files are spread over so many folders.
_FOLDERS = 256


class SpillFolder:
    """Checkpoint files by number, written atomically; removed with this object, or when the process ends.

    Parameters
    ----------
    parent
        The folder in which to make one; that of temporary files if not given. It is made with the first file.
    """

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        self._parent = parent
        self._path: Path | None = None
        self._next = 0

    def _made(self) -> Path:
        if self._path is None:
            try:
                if self._parent is not None:
                    Path(self._parent).mkdir(parents=True, exist_ok=True)
                self._path = Path(tempfile.mkdtemp(prefix="braided-fleet-", dir=self._parent))
            except OSError as error:
                raise BraidedError(
                    f"folder {self._parent or tempfile.gettempdir()} cannot be written: {error.strerror or error}"
                ) from None
            weakref.finalize(self, shutil.rmtree, self._path, ignore_errors=True)
        return self._path

    @property
    def path(self) -> Path:
        """The folder."""
        return self._made()

    def _file(self, number: int) -> Path:
        return self._made() / f"{number % _FOLDERS:02x}" / f"{number}.braided"

    def add(self, kind: str, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> int:
        """Write a file; returns its number."""
        number, self._next = self._next, self._next + 1
        file = self._file(number)
        try:
            file.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise BraidedError(f"folder {file.parent} cannot be made: {error.strerror or error}") from None
        write(file, kind, metadata, arrays, durable=False)
        return number

    def read(self, number: int, kind: str) -> Checkpoint:
        """What a file holds."""
        return read(self._file(number), kind)

    def remove(self, number: int) -> None:
        """Remove a file that is needed no more."""
        self._file(number).unlink(missing_ok=True)
