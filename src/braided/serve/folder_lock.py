"""One process per folder: two would write over each other."""

from __future__ import annotations

import os
from pathlib import Path

from braided import files
from braided.errors import BraidedError


class FolderLock:
    """Held from its making to `release`, or to the end of the process.

    Parameters
    ----------
    folder
        Which has to be there.
    """

    def __init__(self, folder: Path) -> None:
        self._file = files.lock_folder(folder)
        if self._file is None:
            raise BraidedError(f"{folder}: another braided serve uses it: stop that one, or give another folder")

    def __enter__(self) -> None:
        """It is held already."""

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others in. May be called again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
