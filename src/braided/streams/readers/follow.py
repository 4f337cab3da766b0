"""A file or folder that is being appended to: what is there, then what comes, like `tail -f`."""

from __future__ import annotations

import copy
import hashlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from braided.errors import BraidedError
from braided.streams import text
from braided.streams.base import BATCH, Batch
from braided.streams.encode.encoder import DEFAULT_RULES, SAMPLE, Chunk, Encoded, Encoder, Found, Piece, Problem, Rules
from braided.streams.readers import csv, jsonl
from braided.streams.readers.folder import files_in
from braided.streams.readers.libsvm import LibsvmStream
from braided.streams.readers.mappings import Splitter, UndecidedError, columns

#: Seconds between two looks.
POLL = 0.1
#: Bytes at a file's beginning by which it is known again.
_HEAD = 4_096
_LINE_KINDS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json"}


class Spot(NamedTuple):
    """A place in a file: the bytes and lines before it, and what the file begins with."""

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
    spot
        Where to begin.
    over
        Whether to stop waiting: None for not yet, else whether a last line without an end counts as a line.
    say
        Hears of a file that was cut or replaced.
    """

    def __init__(self, path: Path, spot: Spot, over: Callable[[], bool | None], say: Callable[[str], None]) -> None:
        self.path = path
        self._over = over
        self._say = say
        self._file: Any = None
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self.offset, self.line = spot.offset, spot.line
        if spot.offset and path.exists():
            with path.open("rb") as file:
                same = path.stat().st_size >= spot.offset and _head(file, spot.offset) == spot.head
            if not same:
                say(f"{path} is another file than before: reading it from its start")
                self.offset = self.line = 0

    def spot(self, offset: int, line: int) -> list[Any]:
        """A place in the file by which to go on from there."""
        return list(Spot(offset, line, "" if self._file is None else _head(self._file, offset)))

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
            piece = self._file.read(text.BLOCK)
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
            if len(self._rest) > text.MOST_LINE:
                raise BraidedError(f"{self.path}:{self.line + 1}: the line is longer than {text.MOST_LINE:,} bytes")
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
            time.sleep(POLL)
        line = self._lines.popleft()
        before, self.line = self.line, self.line + 1
        self.offset += len(line)
        return text.decoded(line, self.path, before)

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


@dataclass
class FollowStream:
    """Records from a file or folder that is being appended to, without an end of its own.

    A line without its end waits until it has one, or until its folder has a later file. The stream ends after `stop`,
    or when nothing has come for `idle` seconds.

    Attributes
    ----------
    path
        A CSV or JSON lines file, or a folder of files of any kind; new ones are read whole, in the order of their
        names, and only the lines of CSV and JSON lines files are awaited.
    open
        Makes the reader of a file of another kind.
    target, header, delimiter
        As of `CSVStream` and `JSONLinesStream`.
    idle
        Seconds; None: for ever.
    rules
        How cells become features.
    position
        Where to go on: what `position` was when this many records were known. The records before it are stood for by
        blank ones, which a resumed run passes over.
    """

    path: Path
    open: Callable[[Path], Encoded]
    target: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    idle: float | None = None
    rules: Rules = DEFAULT_RULES
    position: dict[str, Any] | None = None
    found: Found = field(default_factory=Found)
    n_records: int | None = None
    #: Called while nothing comes; every record given so far has then been taken.
    on_pause: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        self._stopped = False
        self._last = time.monotonic()
        self._done: list[str] = []
        self._reading: str | None = None
        self._largest = 0  # index in the LIBSVM files so far

    @property
    def name(self) -> str:
        """The file's or folder's name."""
        return self.path.name

    def stop(self) -> None:
        """End the stream with the records that are complete."""
        self._stopped = True

    def _ended(self) -> bool:
        return self._stopped or (self.idle is not None and time.monotonic() - self._last >= self.idle)

    def _over(self) -> bool | None:
        """As `Tail` asks."""
        if self._reading is not None and not self._stopped and self._next_file() is not None:
            return True
        if self._ended():
            return False
        self._pause()
        return None

    def _pause(self) -> None:
        if self.on_pause is not None:
            self.on_pause()

    def batches(self) -> Iterator[Batch]:
        """The records as they come."""
        self.found.restart()
        encoder = Encoder(self.rules, self.found)
        encoder.target = self.target
        start = self.position
        self._done = [] if start is None else list(start["done"])
        self._reading = None
        self._largest = 0 if start is None else start.get("largest", 0)
        records = 0
        if start is not None:
            encoder.load_state(start["encoder"])
            self.rules.say(str(self.found.kinds))
            records = start["records"]
            for first in range(0, records, BATCH):
                n = min(BATCH, records - first)
                yield Batch((), np.empty((n, 0)), [None] * n)
        self._last = time.monotonic()
        for batch, after in encoder.encode(self._pieces(encoder, start)):
            records += len(batch)
            self.position = {**after, "records": records, "encoder": encoder.state()}
            yield batch
            self._last = time.monotonic()

    def _next_file(self) -> Path | None:
        """The next file of the folder that was not read."""
        seen = {*self._done, self._reading}
        return next((path for path in files_in(self.path) if path.name not in seen), None)

    def _pieces(self, encoder: Encoder, start: dict[str, Any] | None) -> Iterator[Piece]:
        spot = None if start is None else start["spot"]
        if not self.path.is_dir():
            yield from self._file(self.path, encoder, spot)
            return
        if start is not None and start["file"] is not None and (self.path / start["file"]).exists():
            yield from self._file(self.path / start["file"], encoder, spot)
        while not self._stopped:
            path = self._next_file()
            if path is not None:
                yield from self._file(path, encoder, None)
            elif self._ended():
                return
            else:
                yield None
                self._pause()
                time.sleep(POLL)

    def _file(self, path: Path, encoder: Encoder, spot: list[Any] | None) -> Iterator[Piece]:
        if self.path.is_dir():
            self._reading = path.name
        kind = self._kind(path)
        if kind is None:
            yield from self._whole(path, encoder, 0 if spot is None else spot[0])
        else:
            tail = Tail(path, Spot(*(spot or ())), self._over, self.rules.say)
            try:
                yield from (self._csv if kind == "csv" else self._json)(tail, encoder)
            finally:
                tail.close()
        if self._reading is not None and not self._stopped and (kind is None or self._next_file() is not None):
            self._done.append(self._reading)
            self._reading = None

    def _kind(self, path: Path) -> str | None:
        """How the lines of a file are read; None for one that is read whole."""
        kind = _LINE_KINDS.get(path.suffix.lower())
        if kind is None and not self.path.is_dir():
            with path.open("rb") as file:
                beginning = file.read(_HEAD).lstrip()
            if path.suffix.lower() in {".gz", ".zst", ".parquet", ".arrow", ".feather", ".arff"} or not beginning:
                raise BraidedError(f"--follow {path}: give a CSV (.csv, .tsv) or JSON lines (.jsonl) file, or a folder")
            kind = "json" if beginning.startswith(b"{") else "csv"
        return kind

    def _after(self, spot: list[Any]) -> dict[str, Any]:
        return {"done": list(self._done), "file": self._reading, "spot": spot, "largest": self._largest}

    def _whole(self, path: Path, encoder: Encoder, skip: int) -> Iterator[Piece]:
        """The records of a file that is complete; the first `skip` were read before."""
        before = copy.copy(self.found)
        at = 0
        reader = self.open(path)
        if isinstance(reader, LibsvmStream):  # what earlier files have and this one leaves out is 0, not missing
            self._largest = max(self._largest, reader.largest_index())
            reader = replace(reader, n_features=self._largest)
        for piece in reader.chunks(encoder):
            if piece is None:
                continue
            if isinstance(piece, Problem):
                yield piece
                continue
            at += len(piece)
            self._last = time.monotonic()
            if at <= skip:
                self.found.load_state(before.state())
                continue
            new = min(len(piece), at - skip)
            rest = slice(len(piece) - new, len(piece))
            part = piece.part(rest.start, rest.stop) if isinstance(piece, Batch) else piece.rows(rest)
            yield _as_chunk(part, str(path), at - new, self._after([at]))
            if self._stopped:
                return

    def _gathered(
        self,
        tail: Tail,
        records: Iterator[tuple[Any, str | None]],
        make: Callable[[list[Any], list[int], Any], Chunk],
    ) -> Iterator[Piece]:
        """Chunks of what is there, whenever nothing more is; `records` are records, or what is wrong with one."""
        taken: list[Any] = []
        places: list[int] = []
        spot = (tail.offset, tail.line)
        while not self._stopped:
            ready = tail.ready()
            if taken and (len(taken) == SAMPLE or not ready):
                yield make(taken, places, self._after(tail.spot(*spot)))
                taken, places = [], []
                continue
            if not ready:
                yield None
            record, wrong = next(records, (None, None))
            if wrong is not None:
                if taken:
                    yield make(taken, places, self._after(tail.spot(*spot)))
                    taken, places = [], []
                yield Problem(f"{tail.path}:{tail.line}", wrong)
                continue
            if record is None:
                break
            self._last = time.monotonic()
            places.append(tail.line)
            taken.append(record)
            spot = (tail.offset, tail.line)
        if taken:
            yield make(taken, places, self._after(tail.spot(*spot)))

    def _json(self, tail: Tail, encoder: Encoder) -> Iterator[Piece]:
        splitter = Splitter(self.target)
        source = str(tail.path)

        def records() -> Iterator[tuple[Any, str | None]]:
            for line in tail:
                if not line.strip():
                    continue
                try:
                    yield splitter.split(jsonl.parse(line)), None
                except UndecidedError as error:
                    raise BraidedError(f"{source}:{tail.line}: {error}") from None
                except BraidedError as error:
                    yield None, str(error)
                encoder.target = encoder.target or splitter.target

        def make(taken: list[Any], places: list[int], after: Any) -> Chunk:
            return Chunk(source, places, columns([x for x, _ in taken]), [y for _, y in taken], after=after)

        yield from self._gathered(tail, records(), make)

    def _csv(self, tail: Tail, encoder: Encoder) -> Iterator[Piece]:
        source = str(tail.path)
        delimiter = "\t" if tail.path.suffix.lower() == ".tsv" and self.delimiter is None else self.delimiter
        # The first two rows are looked at apart, so that a file that is gone on with needs no other treatment.
        start = Tail(tail.path, Spot(), self._over, lambda _: None)
        first = next((line for line in start if line.strip()), None)
        if first is None:
            return
        chosen = csv.delimiter_of(first) if delimiter is None else csv.check_delimiter(delimiter)
        opening = list(islice(csv.rows(chain([first], start), chosen), 2))
        start.close()
        shape = csv.layout(opening, self.header, self.target, source, self.rules)
        encoder.target = encoder.target or shape.names[shape.target]

        def records() -> Iterator[tuple[Any, str | None]]:
            for _, fields in csv.rows(tail, chosen):
                wrong = shape.misfit(fields)
                if isinstance(fields, str) and self._ended() and not tail.ready():
                    continue  # a quoted field that is open at the end of what there is waits like any other line
                if not (shape.header and [field_.strip() for field_ in fields] == shape.names):
                    yield fields, wrong

        def make(taken: list[Any], places: list[int], after: Any) -> Chunk:
            return shape.chunk(source, places, taken, after)

        yield from self._gathered(tail, records(), make)


@contextmanager
def stopped_by_interrupt(stop: Callable[[], None] | None) -> Iterator[None]:
    """While this is entered, the first Ctrl-C calls `stop`, and the next interrupts as ever; None: all do."""
    if stop is None:
        yield
        return

    def on_interrupt(*_: Any) -> None:
        signal.signal(signal.SIGINT, before)
        stop()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _as_chunk(piece: Chunk | Batch, source: str, before: int, after: Any) -> Chunk:
    """Numbers as cells again, so that they carry where the reader stands."""
    if isinstance(piece, Chunk):
        return replace(piece, after=after)
    table: dict[Hashable, Any] = {name: np.ascontiguousarray(piece.values[:, i]) for i, name in enumerate(piece.names)}
    places = range(before + 1, before + 1 + len(piece))
    return Chunk(source, places, table, piece.labels, by_row=True, after=after)
