"""What the text readers share: opening files, lines, labels, missing values, and errors that name file and line."""

from __future__ import annotations

import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from braided.errors import BraidedError
from braided.values import shown

_WHOLE = re.compile(r"[+-]?[0-9]{1,1000}")
MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "?"})


#: Bytes of text that are read at a time.
BLOCK = 2**20
#: Bytes beyond which a line is no record any more, but a file of another kind.
MOST_LINE = 2**25


#: Packed bytes that are unpacked at a time: zstd makes at most 128 KiB of 4 bytes, so that 8 MiB come of these.
_PACKED = 256


class _Zstandard(io.RawIOBase):
    """The unpacked bytes of a zstd file of any number of frames; one that breaks off is an error."""

    def __init__(self, path: Path) -> None:
        self._frames = needed("zstandard", "files").ZstdDecompressor()
        self._file = path.open("rb")
        self._frame: Any = None
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            packed = self._file.read(_PACKED)
            if not packed:
                if self._frame is not None:
                    raise EOFError("the file breaks off within a zstd frame")
                return 0
            self._left = self._unpacked(packed)
        n = min(len(buffer), len(self._left))
        buffer[:n], self._left = self._left[:n], self._left[n:]
        return n

    def _unpacked(self, packed: bytes) -> bytes:
        pieces = []
        while packed:
            self._frame = self._frame or self._frames.decompressobj()
            try:
                pieces.append(self._frame.decompress(packed))
            except needed("zstandard", "files").ZstdError as error:
                raise EOFError(str(error)) from None
            packed = b""
            if self._frame.eof:
                packed, self._frame = self._frame.unused_data, None
        return b"".join(pieces)

    def close(self) -> None:
        self._file.close()
        super().close()


def needed(module: str, extra: str) -> Any:
    """A module of an extra, or what to do about it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise BraidedError(f"{module.partition('.')[0]} is not installed: pip install 'braided[{extra}]'") from None


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn what can go wrong while a file is read into one line."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise BraidedError(f"{path}: cannot be read: {reason}") from None


def open_binary(path: Path) -> IO[bytes]:
    """A file's bytes, unpacked if its name ends in .gz or .zst."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.suffix == ".zst":
        return io.BufferedReader(_Zstandard(path), BLOCK)
    return path.open("rb")


def decoded(block: bytes, path: Path, before: int) -> str:
    """A block of lines as text, without the byte order mark of a file's first; `before` lines came before it."""
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        line = before + block.count(b"\n", 0, error.start) + 1
        raise BraidedError(
            f"{path}:{line}: is not text in UTF-8 ({error.reason}, byte {block[error.start]:#04x}): "
            "convert the file to UTF-8"
        ) from None
    if b"\0" in block:
        line = before + block.count(b"\n", 0, block.index(b"\0")) + 1
        raise BraidedError(f"{path}:{line}: has a NUL byte: give a text file in UTF-8")
    return text.removeprefix("\ufeff") if before == 0 else text


def lines(path: Path) -> Iterator[str]:
    """The lines of a text file, unpacked if its name ends in .gz or .zst."""
    before = 0
    for block in blocks(path):
        yield from io.StringIO(decoded(block, path, before), newline="")
        before += block.count(b"\n")


def blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a text file in blocks of whole lines, about BLOCK long."""
    with told(path), open_binary(path) as file:
        rest: list[bytes] = []
        length = before = 0
        while piece := file.read(BLOCK):
            whole, newline, last = piece.rpartition(b"\n")
            if newline:
                block = b"".join([*rest, whole, newline])
                yield block
                before += block.count(b"\n")
                rest, length = [], 0
            rest.append(last)
            length += len(last)
            if length > MOST_LINE:
                raise BraidedError(
                    f"{path}:{before + 1}: the line is longer than {MOST_LINE:,} bytes: give a file with one record "
                    "a line"
                )
        if length:
            yield b"".join(rest)


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
            f"{where}: column {column!r} is {shown(text.strip())}: features must be numbers, or empty if missing; "
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
