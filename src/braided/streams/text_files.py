"""Files of text, plain or packed: their bytes, blocks and lines, with errors that name file and line."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from braided.errors import BraidedError
from braided.extras import require

#: Bytes of text that are read at a time.
BLOCK = 2**20
#: Bytes beyond which a line is no record any more, but a file of another kind.
MOST_LINE = 2**25


@contextmanager
def errors_in_one_line(path: Path, *more: type[Exception]) -> Iterator[None]:
    """Turn what can go wrong while a file is read into one line; `more` are errors of its own format."""
    expected: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, *more)
    try:
        yield
    except expected as error:
        reason = getattr(error, "strerror", None) or error
        raise BraidedError(f"{path}: cannot be read: {reason}") from None


def open_binary(path: Path) -> IO[bytes]:
    """A file's bytes, unpacked if its name ends in .gz or .zst."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.suffix == ".zst":
        return cast(IO[bytes], require("pyarrow", "files").CompressedInputStream(str(path), "zstd"))
    return path.open("rb")


def beginning(path: Path, size: int) -> bytes:
    """The first bytes of a file, as they are stored."""
    with errors_in_one_line(path), path.open("rb") as file:
        return file.read(size)


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
    return lines_of(blocks(path), path)


def lines_of(some: Iterable[bytes], path: Path, before: int = 0) -> Iterator[str]:
    """The lines of blocks of a file; `before` lines came before them."""
    for block in some:
        yield from io.StringIO(decoded(block, path, before), newline="")
        before += block.count(b"\n")


def too_long(path: Path, line: int) -> BraidedError:
    """The refusal of a line that cannot be a record."""
    return BraidedError(
        f"{path}:{line}: the line is longer than {MOST_LINE:,} bytes: give a file with one record per line"
    )


def blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a text file in blocks of whole lines, about BLOCK long."""
    with errors_in_one_line(path), open_binary(path) as file:
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
                raise too_long(path, before + 1)
        if length:
            yield b"".join(rest)
