"""A file or folder that is being appended to: what is there, then what comes, like `tail -f`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from braided.encode.chunk import CHUNK_RECORDS, BadRecord, Chunk, LabelPiece, Piece
from braided.encode.encoder import Encoder
from braided.errors import BraidedError
from braided.records import Labels, Records
from braided.streams import text_files
from braided.streams.readers import csv, jsonl
from braided.streams.readers.base import EncodedStream
from braided.streams.readers.folder import files_in
from braided.streams.readers.live import POLL_S, LiveStream
from braided.streams.readers.mappings import Splitter, UndecidedError, pairs_chunk
from braided.streams.readers.tail import FilePosition, Tail

_LINE_KINDS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json"}


def _check_spot(file: Any, spot: Any) -> None:
    """Refuse, by a ValueError, a place that no reader has noted: a file of another folder, or a spot that is none."""
    kinds = (int, int, str)
    named = file is None or (isinstance(file, str) and file == Path(file).name)
    if not named or not isinstance(spot, list) or not 1 <= len(spot) <= len(kinds):
        raise ValueError(file)
    for value, kind in zip(spot, kinds, strict=False):
        if not isinstance(value, kind) or (isinstance(value, int) and value < 0):
            raise ValueError(value)


@dataclass
class FollowStream(LiveStream):
    """Records from a file or folder that is being appended to, without an end of its own.

    A line without its end waits until it has one, or until its folder has a later file.

    Attributes
    ----------
    path
        A CSV or JSON lines file, or a folder of files of any kind; new ones are read whole, in the order of their
        names, and only the lines of CSV and JSON lines files are awaited.
    open
        Makes the reader of a file of another kind.
    header, delimiter
        As of `CSVStream`; and `target` as of `CSVStream` and `JSONLinesStream`.
    """

    path: Path
    open: Callable[[Path], EncodedStream]
    header: bool | None = None
    delimiter: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._done: list[str] = []
        self._reading: str | None = None
        self._width = 0  # of the files so far that leave out columns that are 0

    @property
    def name(self) -> str:
        """The file's or folder's name."""
        return self.path.name

    def _over(self) -> bool | None:
        """As `Tail` asks."""
        if self._reading is not None and not self._stopped and self._next_file() is not None:
            return True
        if self._ended():
            return False
        self._pause()
        return None

    def _begin(self, start: dict[str, Any] | None) -> None:
        self._done = [] if start is None else list(map(str, start["done"]))
        self._reading = None
        self._width = 0 if start is None else int(start.get("largest", 0))
        if start is not None:
            _check_spot(start["file"], start["spot"])

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
                time.sleep(POLL_S)

    def _file(self, path: Path, encoder: Encoder, spot: list[Any] | None) -> Iterator[Piece]:
        if self.path.is_dir():
            self._reading = path.name
        kind = self._kind(path)
        if kind is None:
            yield from self._whole(path, encoder, 0 if spot is None else spot[0])
        else:
            encoding = None
            if path.exists():
                encoding = text_files.encoding_of(path, self.rules.encoding, self.rules.recognise and kind == "csv")
            tail = Tail(path, FilePosition(*(spot or ())), self._over, self.rules.say, encoding)
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
            beginning = text_files.beginning(path, 4_096).lstrip()
            if path.suffix.lower() in {".gz", ".zst", ".parquet", ".arrow", ".feather", ".arff"} or not beginning:
                raise BraidedError(f"`follow` {path}: give a CSV (.csv, .tsv) or JSON lines (.jsonl) file, or a folder")
            kind = "json" if beginning.startswith(b"{") else "csv"
        return kind

    def _after(self, spot: list[Any]) -> dict[str, Any]:
        """The reader's part of `position`; its keys are those of checkpoints."""
        return {"done": list(self._done), "file": self._reading, "spot": spot, "largest": self._width}

    def _whole(self, path: Path, encoder: Encoder, skip: int) -> Iterator[Piece]:
        """The records of a file that is complete; the first `skip` were read before."""
        before = self.counts.state()
        at = 0
        reader = self.open(path)
        self._width = max(self._width, reader.least_width())
        for piece in reader.widened(self._width).chunks(encoder):
            if piece is None:
                continue
            if isinstance(piece, BadRecord | LabelPiece):
                yield piece
                continue
            at += len(piece)
            self._last = time.monotonic()
            if at <= skip:
                self.counts.load_state(before)
                continue
            new = min(len(piece), at - skip)
            part = piece.part(len(piece) - new, len(piece))
            after = self._after([at])
            if isinstance(part, Records):
                yield Chunk.of_numbers(part, str(path), at - new, after)
            else:
                yield replace(part, after=after)
            if self._stopped:
                return

    def _gathered(
        self,
        tail: Tail,
        records: Iterator[tuple[Any, str | None]],
        make: Callable[[list[int], list[Any], Any], Chunk],
    ) -> Iterator[Piece]:
        """The records that have come, as a chunk whenever no more are ready; `records` may hold bad ones."""
        places: list[int] = []
        taken: list[Any] = []
        place = (tail.offset, tail.line)

        def gathered() -> Iterator[Chunk]:
            if taken:
                yield make(places[:], taken[:], self._after(tail.position(*place)))
                places.clear()
                taken.clear()

        while not self._stopped:
            ready = tail.ready()
            if taken and (len(taken) == CHUNK_RECORDS or not ready):
                yield from gathered()
                continue
            if not ready:
                yield None
            record, wrong = next(records, (None, None))
            if wrong is not None:
                yield from gathered()
                yield BadRecord(f"{tail.path}:{tail.line}", wrong)
                continue
            if record is None:
                break
            self._last = time.monotonic()
            if isinstance(record, Labels):
                yield from gathered()
                place = (tail.offset, tail.line)
                yield LabelPiece([f"{tail.path}:{tail.line}"], record, self._after(tail.position(*place)))
                continue
            places.append(tail.line)
            taken.append(record)
            place = (tail.offset, tail.line)
        yield from gathered()

    def _json(self, tail: Tail, encoder: Encoder) -> Iterator[Piece]:
        splitter = Splitter(self.target, self.record_id, encoder.rules.key)
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
                splitter.describe_to(encoder)

        yield from self._gathered(tail, records(), partial(pairs_chunk, source))

    def _csv(self, tail: Tail, encoder: Encoder) -> Iterator[Piece]:
        source = str(tail.path)
        delimiter = "\t" if tail.path.suffix.lower() == ".tsv" and self.delimiter is None else self.delimiter
        # The first two rows are read apart, so that it does not matter where in the file the tail begins.
        start = Tail(tail.path, FilePosition(), self._over, lambda _: None, tail.encoding)
        first = next((line for line in start if line.strip()), None)
        if first is None:
            return
        chosen = csv.delimiter_of(first) if delimiter is None else csv.check_delimiter(delimiter)
        opening = list(islice(csv.rows(chain([first], start), chosen), 2))
        start.close()
        shape = csv.layout(opening, self.header, self.target, source, self.rules)
        encoder.target = encoder.target or shape.names[shape.target]
        encoder.found |= {"delimiter": chosen, "encoding": tail.encoding or text_files.USUAL}

        def records() -> Iterator[tuple[Any, str | None]]:
            for _, fields in csv.rows(tail, chosen):
                wrong = csv.misfit(fields, len(shape.names))
                if isinstance(fields, str) and self._ended() and not tail.ready():
                    continue  # a quoted field that is open at the end of what there is waits like any other line
                if not (shape.header and [field_.strip() for field_ in fields] == shape.names):
                    yield fields, wrong

        yield from self._gathered(tail, records(), partial(shape.chunk, source))
