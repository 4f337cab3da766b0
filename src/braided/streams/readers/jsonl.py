"""JSON lines, `{"x": {"name": value, ...}, "y": label}` or flat with a target, from a file or standard input.

The former may have a weight, too: `"w": 2`; and an ID: `{"id": 17, "x": {...}}`, whose label comes later on a line of
its own, `{"id": 17, "y": label}`.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from braided.encode.chunk import Piece
from braided.encode.encoder import Encoder
from braided.encode.rules import Rules
from braided.errors import BraidedError
from braided.streams.readers.base import EncodedStream
from braided.streams.readers.mappings import Splitter, chunked


def parse(line: str, unit: str = "line") -> Any:
    """What one line, or another unit of text, holds."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BraidedError(f"not JSON ({error}): give one record per {unit}") from None


@dataclass(frozen=True)
class JSONLinesStream(EncodedStream):
    """Records from lines of JSON.

    Attributes
    ----------
    name
        What errors call the source.
    open
        Gives the lines; called once for each pass.
    target
        The label's name in flat records; None: the label is "y", or a name like target, label or class.
    record_id
        As of `Splitter`.
    """

    name: str
    open: Callable[[], Iterable[str]]
    target: str | None = None
    record_id: str | None = None

    def chunks(self, encoder: Encoder) -> Generator[Piece]:
        """Records in chunks whose columns are the names that appear in them."""
        encoder.target = self.target
        numbered = ((count, line) for count, line in enumerate(self.open(), start=1) if line.strip())
        yield from chunked(
            self.name, numbered, parse, Splitter(self.target, self.record_id, encoder.rules.key), encoder
        )


def _standard_input_lines() -> Iterator[str]:
    if sys.stdin is None or sys.stdin.closed:
        raise BraidedError("standard input is closed: pipe JSON lines into it")
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.encoding.lower() not in ("utf-8", "utf8"):
        sys.stdin.reconfigure(encoding="utf-8")  # whatever the system's own encoding is
    try:
        for number, line in enumerate(sys.stdin):
            yield line.removeprefix("\ufeff") if number == 0 else line
    except UnicodeDecodeError as error:
        raise BraidedError(f"standard input is not text in UTF-8 ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise BraidedError(f"standard input cannot be read: {error.strerror or error}") from None


def standard_input(
    target: str | None = None, rules: Rules | None = None, record_id: str | None = None
) -> JSONLinesStream:
    """The stream of `braided run -`."""
    return JSONLinesStream("standard input", _standard_input_lines, target, record_id, rules=rules or Rules())
