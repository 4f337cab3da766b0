"""The complete lines of one file that is being appended to, like `tail -F`."""

from __future__ import annotations

import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from braided.errors import BraidedError
from braided.streams import text_files
from braided.streams.readers.live import POLL_S

#: Bytes at a file's beginning by which it is known again.
_HEAD = 4_096


class FilePosition(NamedTuple):
    """A place in a file: the bytes and lines before it, and a digest of what the file begins with."""

    offset: int = 0
    line: int = 0
    head: str = ""


def _head(file: IO[bytes], offset: int) -> str:
    """A digest of what a file begins with, up to `offset`."""
    place = file.tell()
    file.seek(0)
    digest = hashlib.sha256(file.read(min(_HEAD, offset))).hexdigest()
    file.seek(place)
    return digest


class Tail:
    """The complete lines of a growing file; a file that was cut or replaced is read from its start.

    Parameters
    ----------
    path
        The file; it may not be there yet.
    position
        Where to begin.
    over
        Whether to stop waiting: None for not yet, else whether a last line without an end counts as a line.
    say
        Called with a line of text when a file was cut or replaced.
    encoding
        Of the file; None: UTF-8.
    """

    def __init__(
        self,
        path: Path,
        position: FilePosition,
        over: Callable[[], bool | None],
        say: Callable[[str], None],
        encoding: str | None = None,
    ) -> None:
        if encoding is not None and "\n".encode(encoding) != b"\n":
            raise BraidedError(f"`follow` {path}: text in {encoding} cannot be followed: write it in UTF-8 or Latin-1")
        self.encoding = encoding
        self.path = path
        self._over = over
        self._say = say
        self._file: Any = None
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self.offset, self.line = position.offset, position.line
        if position.offset and path.exists():
            with path.open("rb") as file:
                same = path.stat().st_size >= position.offset and _head(file, position.offset) == position.head
            if not same:
                say(f"{path} is another file than before: reading it from its start")
                self.offset = self.line = 0

    def position(self, offset: int, line: int) -> list[Any]:
        """A place in the file as it is stored, to go on from there."""
        return list(FilePosition(offset, line, "" if self._file is None else _head(self._file, offset)))

    def __iter__(self) -> Iterator[str]:
        return self

    def ready(self) -> bool:
        """Whether there is a complete line."""
        if self._lines:
            return True
        try:
            if self._file is None:
                self._file = self.path.open("rb")
                self._file.seek(self.offset)
            piece = self._file.read(text_files.BLOCK)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise BraidedError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        whole, newline, last = piece.rpartition(b"\n")
        if newline:
            self._lines.extend((self._rest + whole + newline).splitlines(keepends=True))
            self._rest = last
        else:
            self._rest += piece
            if len(self._rest) > text_files.MAX_LINE:
                raise text_files.too_long(self.path, self.line + 1)
        return bool(self._lines)

    def __next__(self) -> str:
        while not self.ready():
            if self._replaced():
                continue
            ended = self._over()
            if ended is not None:
                if ended and self._rest:
                    self._lines.append(self._rest)
                    self._rest = b""
                    break
                raise StopIteration
            time.sleep(POLL_S)
        line = self._lines.popleft()
        before, self.line = self.line, self.line + 1
        self.offset += len(line)
        return text_files.decoded(line, self.path, before, self.encoding or text_files.USUAL)

    def _replaced(self) -> bool:
        """Whether the file was cut or another took its name; then the next line is the first."""
        if self._file is None:
            return False
        try:
            now, open_ = os.stat(self.path), os.fstat(self._file.fileno())
        except FileNotFoundError:
            return False
        cut = now.st_size < self.offset + len(self._rest)
        if (now.st_ino, now.st_dev) == (open_.st_ino, open_.st_dev):
            if not cut:
                return False
            self._say(f"{self.path} was cut: reading it from its start")
        else:
            self._say(f"{self.path} was replaced: reading the new one from its start")
        self.close()
        self._rest = b""
        self.offset = self.line = 0
        return True

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
