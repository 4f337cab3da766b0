"""Whether a data set's files are what they should be: checksums where they are known, else sizes and records."""

from __future__ import annotations

import hashlib
from io import BufferedReader
from pathlib import Path
from typing import cast

from braided.datasets.catalogue import DataFile
from braided.datasets.locate import Located
from braided.errors import BraidedError
from braided.streams.text_files import blocks, errors_in_one_line, open_binary


def sha256(path: Path, unpacked: bool = False) -> str:
    """The SHA-256 of a file, or of what a .gz file holds."""
    with errors_in_one_line(path), open_binary(path) if unpacked else path.open("rb") as file:
        return hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()


def text_sha256(path: Path) -> str:
    """The SHA-256 of a file's lines that are not blank, however they end."""
    digest = hashlib.sha256()
    for block in blocks(path):
        for line in block.split(b"\n"):
            if line.strip():
                digest.update(line.rstrip(b"\r") + b"\n")
    return digest.hexdigest()


def count_records(path: Path, header: bool) -> int:
    """Lines that are not blank, less the header."""
    return sum(sum(bool(line.strip()) for line in block.split(b"\n")) for block in blocks(path)) - int(header)


def what_is_wrong(file: DataFile, path: Path) -> str | None:
    """What is wrong with a file, by its size, checksum or number of records, or None."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return f"{size:,} bytes where {file.size:,} are expected"
    if file.content_sha256 is not None:
        return None if sha256(path, unpacked=True) == file.content_sha256 else "its content has another SHA-256"
    if file.text_sha256 is not None:
        return None if text_sha256(path) == file.text_sha256 else "its text has another SHA-256"
    if file.sha256 is not None:
        return None if sha256(path) == file.sha256 else "another SHA-256 than the official file's"
    if file.records is not None:
        found = count_records(path, file.header)
        return None if found == file.records else f"{found:,} records where {file.records:,} are expected"
    return None


def verify(located: Located) -> str:
    """Check all files; returns what was checked, or raises at the first that is wrong."""
    checked = set()
    for file, path in zip(located.form.files, located.paths, strict=True):
        wrong = what_is_wrong(file, path)
        if wrong is not None:
            raise BraidedError(f"{path}: {wrong}: get it anew with `braided datasets fetch {located.dataset.name}`")
        with_sum = file.content_sha256 or file.text_sha256 or file.sha256
        size = "size and " if file.size else ""
        checked.add("SHA-256" if with_sum else f"{size}number of records (the official SHA-256 is not known)")
    return ", ".join(sorted(checked))
