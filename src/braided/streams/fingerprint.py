"""A fingerprint of the files of a stream, to notice that they have changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from braided.streams.named import named_streams
from braided.streams.readers.folder import files_in
from braided.streams.readers.sql import is_address, sqlite_path
from braided.streams.text_files import beginning


def fingerprint(source: str, data_dir: Path | None = None) -> str | None:
    """Length and first megabyte of each file that is read.

    None of standard input, a server, a stream made here, and what is not there at all.
    """
    path = sqlite_path(source) if is_address(source) else Path(source)
    if source in named_streams():
        paths = named_streams()[source].paths(data_dir)
    elif source == "-" or path is None or not path.exists():
        return None
    else:
        paths = tuple(files_in(path)) if path.is_dir() else (path,)
    digests = (hashlib.sha256(beginning(path, 2**20)).hexdigest() for path in paths)
    return " ".join(f"{path.stat().st_size} {digest}" for path, digest in zip(paths, digests, strict=True)) or None
