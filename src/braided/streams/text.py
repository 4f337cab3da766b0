"""What the text readers share: opening files, numbers, labels, missing values, and errors that name file and line."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from braided.errors import BraidedError

_WHOLE = re.compile(r"[+-]?[0-9]{1,1000}")
MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "?"})


#: Bytes of text that are read at a time.
BLOCK = 2**20


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what can go wrong while a file is read into one line."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise BraidedError(f"{path}: cannot be read: {reason}") from None
    except UnicodeDecodeError as error:
        raise BraidedError(f"{path}: is not text in UTF-8 ({error.reason} at byte {error.start})") from None


def open_binary(path: Path) -> IO[bytes]:
    """A file's bytes, decompressed if its name ends in .gz."""
    return cast(IO[bytes], gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def lines(path: Path) -> Iterator[str]:
    """The lines of a text file, gzip-compressed if its name ends in .gz."""
    how: dict[str, Any] = {"mode": "rt", "encoding": "utf-8-sig", "newline": ""}
    with _told(path), gzip.open(path, **how) if path.suffix == ".gz" else path.open(**how) as file:
        yield from file


def blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a text file in blocks of whole lines, about BLOCK long."""
    with _told(path), open_binary(path) as file:
        rest = b""
        while piece := file.read(BLOCK):
            whole, newline, last = piece.rpartition(b"\n")
            if not newline:
                rest += piece
                continue
            yield rest + whole + newline
            rest = last
        if rest:
            yield rest


def number(text: str, where: str, column: str) -> float:
    """A field as a number; NaN for one of the usual spellings of a missing value."""
    try:
        value = float(text) if "_" not in text else None
    except ValueError:
        value = None
    if value is None:
        if text.strip().lower() in MISSING:
            return math.nan
        raise BraidedError(
            f"{where}: column {column!r} is {text.strip()!r}: features must be numbers, or empty if missing; "
            "encode categories as numbers first"
        )
    if math.isinf(value):
        raise BraidedError(
            f"{where}: column {column!r} is {text.strip()!r}: features must be finite, or empty if missing"
        )
    return value


def label(text: str, where: str) -> Any:
    """A field as a class label: an integer if it is a whole number in any spelling, else the text as it stands.

    >>> label("+1", "file:1"), label("1.000e+00", "file:1"), label(" g ", "file:1"), label("0.5", "file:1")
    (1, 1, 'g', '0.5')
    """
    text = text.strip()
    if text.lower() in MISSING:
        raise BraidedError(f"{where}: the label is missing: every record needs one")
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() and abs(value) < 2**53 else text
