"""What the files of a stream are known again by."""

from __future__ import annotations

import hashlib
from pathlib import Path

from braided.datasets.catalogue import CATALOGUE
from braided.datasets.locate import locate
from braided.datasets.river import RIVER_STREAMS
from braided.streams import text
from braided.streams.readers.folder import files_in
from braided.streams.readers.sql import is_address, sqlite_path


def fingerprint(source: str, data_dir: Path | None = None) -> str | None:
    """Length and first megabyte of each file that is read; None of standard input, a server or a stream made here."""
    paths: tuple[Path, ...] = (Path(source),)
    if source in {"-", "shuttle", *RIVER_STREAMS}:
        return None
    if is_address(source):
        path = sqlite_path(source)
        paths = () if path is None else (path,)
    elif source in CATALOGUE:
        paths = locate(source, data_dir).paths
    elif paths[0].is_dir():
        paths = tuple(files_in(paths[0]))
    marks = []
    for path in paths:
        with text.told(path), path.open("rb") as file:
            marks.append(f"{path.stat().st_size} {hashlib.sha256(file.read(2**20)).hexdigest()}")
    return " ".join(marks) or None
