"""All files of a folder, one after the other in the order of their names, as one stream."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

from braided.encode.chunk import Piece
from braided.encode.encoder import Encoder
from braided.errors import BraidedError
from braided.streams.readers.base import EncodedStream


def files_in(folder: Path) -> list[Path]:
    """The files of a folder by name, without those whose name says that they are hidden or not ready (`.`, `_`)."""
    return sorted(
        (path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._"), key=lambda path: path.name
    )


@dataclass(frozen=True)
class FolderStream(EncodedStream):
    """Records from all files of a folder; the kinds of columns are decided by the first records.

    Attributes
    ----------
    path
        The folder.
    open
        Makes the reader of one file.
    """

    path: Path
    open: Callable[[Path], EncodedStream]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    def _parts(self) -> list[EncodedStream]:
        parts = [self.open(path) for path in files_in(self.path)]
        if not parts:
            raise BraidedError(
                f"{self.path}: the folder has no files: give one with files of records, or `follow=True`"
            )
        width = max(part.least_width() for part in parts)
        return [part.widened(width) for part in parts]

    def chunks(self, encoder: Encoder) -> Generator[Piece]:
        """The records of each file in turn."""
        for part in self._parts():
            yield from part.chunks(encoder)
