"""Files of text, plain or packed: their bytes, blocks and lines, with errors that name file and line."""

from __future__ import annotations

import codecs
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
MAX_LINE = 2**25


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


#: What text is in unless something else is said or found.
USUAL = "utf-8"
#: How files begin that are not in UTF-8.
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
#: Bytes that no text in Latin-1 has: control characters but for white space.
_CONTROLS = bytes(sorted({*range(32), 127} - {*b"\t\n\r\f"}))


def encoding_of(path: Path, given: str | None, latin: bool = False) -> str | None:
    """The encoding of a text file if it is other than UTF-8: as given, or as a byte order mark says.

    With `latin`, text that cannot be UTF-8 is in Windows-1252 or Latin-1, which differ in the bytes from 0x80 to 0x9f.
    """
    if given is not None:
        return None if codecs.lookup(given).name == USUAL else given
    with errors_in_one_line(path), open_binary(path) as file:
        first = file.read(BLOCK)
    if first[:2] in _MARKS:
        return _MARKS[first[:2]]
    try:
        codecs.getincrementaldecoder(USUAL)().decode(first)
    except UnicodeDecodeError:
        if latin and not first.translate(None, delete=bytes(set(range(256)) - set(_CONTROLS))):
            return "cp1252" if any(0x80 <= byte < 0xA0 for byte in first) and _decodes(first, "cp1252") else "latin-1"
    return None


def _decodes(text: bytes, encoding: str) -> bool:
    try:
        text.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


class _Recoded:
    """The bytes of a file of text in another encoding, in UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str, path: Path) -> None:
        self._file, self._encoding, self._path = file, encoding, path
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._lines = 0

    def read(self, size: int) -> bytes:
        """About as many bytes, none at the end."""
        text = ""
        while not text:
            piece = self._file.read(size)
            try:
                text = self._decoder.decode(piece, final=not piece)
            except UnicodeError as error:
                raise BraidedError(
                    f"{self._path}: is not text in {self._encoding} after line {self._lines} "
                    f"({getattr(error, 'reason', error)}): give another `encoding`"
                ) from None
            if not piece:
                break
        self._lines += text.count("\n")
        return text.encode(errors="surrogatepass")


def beginning(path: Path, size: int) -> bytes:
    """The first bytes of a file, as they are stored."""
    with errors_in_one_line(path), path.open("rb") as file:
        return file.read(size)


def decoded(block: bytes, path: Path, before: int, encoding: str = USUAL) -> str:
    """A block of lines as text, without the byte order mark of a file's first; `before` lines came before it."""
    if b"\0" in block:  # before anything about encodings, which would lead astray
        line = before + block.count(b"\n", 0, block.index(b"\0")) + 1
        raise BraidedError(
            f"{path}:{line}: has a NUL byte, so it is no text file: give CSV, JSON lines, ARFF, LIBSVM, Parquet or "
            f"Arrow; text in UTF-16 needs `encoding='utf-16'`"
        )
    try:
        text = block.decode(encoding)
    except UnicodeDecodeError as error:
        line = before + block.count(b"\n", 0, error.start) + 1
        raise BraidedError(
            f"{path}:{line}: is not text in {encoding.upper()} ({error.reason}, byte {block[error.start]:#04x}): "
            f"give `encoding`, such as latin-1"
        ) from None
    return text.removeprefix("\ufeff") if before == 0 else text


def lines(path: Path, encoding: str | None = None) -> Iterator[str]:
    """The lines of a text file, unpacked if its name ends in .gz or .zst; of no encoding: as it begins, or UTF-8."""
    return lines_of(blocks(path, encoding_of(path, encoding)), path)


def lines_of(some: Iterable[bytes], path: Path, before: int = 0) -> Iterator[str]:
    """The lines of blocks of a file; `before` lines came before them."""
    for block in some:
        yield from io.StringIO(decoded(block, path, before), newline="")
        before += block.count(b"\n")


def too_long(path: Path, line: int) -> BraidedError:
    """The refusal of a line that cannot be a record."""
    return BraidedError(
        f"{path}:{line}: the line is longer than {MAX_LINE:,} bytes: give a file with one record per line"
    )


def blocks(path: Path, encoding: str | None = None) -> Iterator[bytes]:
    """The bytes of a text file in UTF-8, in blocks of whole lines, about BLOCK long; `encoding`: of the file."""
    with errors_in_one_line(path), open_binary(path) as opened:
        file = opened if encoding is None else _Recoded(opened, encoding, path)
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
            if length > MAX_LINE:
                raise too_long(path, before + 1)
        if length:
            yield b"".join(rest)
