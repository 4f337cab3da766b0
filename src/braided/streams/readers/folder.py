"""All files of a folder, one after the other in the order of their names, as one stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from braided.errors import BraidedError
from braided.streams.encode.encoder import DEFAULT_RULES, Encoded, Encoder, Found, Piece, Rules
from braided.streams.readers.libsvm import LibsvmStream


def files_in(folder: Path) -> list[Path]:
    """The files of a folder by name, without those whose name says that they are hidden or not ready (`.`, `_`)."""
    return sorted(
        (path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._"), key=lambda path: path.name
    )


@dataclass(frozen=True)
class FolderStream(Encoded):
    """Records from all files of a folder; kinds are seen from the first records of the whole.

    Attributes
    ----------
    path
        The folder.
    open
        Makes the reader of one file.
    rules
        How cells become features.
    """

    path: Path
    open: Callable[[Path], Encoded]
    rules: Rules = DEFAULT_RULES
    found: Found = field(default_factory=Found, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    def _parts(self) -> list[Encoded]:
        parts = [self.open(path) for path in files_in(self.path)]
        if not parts:
            raise BraidedError(f"{self.path}: the folder has no files: give one with files of records, or --follow")
        sparse = [part for part in parts if isinstance(part, LibsvmStream)]
        n = max((part.largest_index() for part in sparse), default=0)
        return [dataclasses.replace(part, n_features=n) if isinstance(part, LibsvmStream) else part for part in parts]

    def chunks(self, encoder: Encoder) -> Iterator[Piece]:
        """The records of each file in turn."""
        for part in self._parts():
            yield from part.chunks(encoder)
