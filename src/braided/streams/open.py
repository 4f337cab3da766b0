"""From what a user types to a stream."""

from __future__ import annotations

import re
from pathlib import Path

from braided.errors import BraidedError
from braided.streams import datasets, river_streams, text
from braided.streams.base import Stream
from braided.streams.csv_stream import DELIMITERS, CSVStream
from braided.streams.jsonl_stream import JSONLinesStream, standard_input
from braided.streams.libsvm_stream import LibsvmStream

_LIBSVM_LINE = re.compile(r"^\s*[^\s:,]+(\s+\d+:\S+)*\s*(#.*)?$")


def open_stream(
    source: str, data_dir: Path | None = None, target: str | None = None, header: bool | None = None
) -> Stream:
    """The stream that `source` names: a data set of the paper or of River, a file, or `-` for standard input.

    A file is read by its name's ending (.csv, .jsonl, with .gz or without), else by its first line.
    """
    if source == "-":
        stream: Stream = standard_input()
    elif source == "shuttle":
        stream = datasets.shuttle()
    elif source in river_streams.RIVER_STREAMS:
        stream = river_streams.load(source)
    elif source in datasets.SOURCES:
        stream = datasets.load(source, data_dir)
    else:
        stream = _open_file(Path(source), target, header)
    if not isinstance(stream, CSVStream):
        if target is not None:
            raise BraidedError(f"--target {target!r} is for CSV files: in {source!r} the label's place is fixed")
        if header is not None:
            raise BraidedError(f"--header and --no-header are for CSV files, and {source!r} is none")
    return stream


def _open_file(path: Path, target: str | None, header: bool | None) -> Stream:
    if not path.is_file():
        known = ", ".join(["shuttle", *datasets.SOURCES, *river_streams.RIVER_STREAMS])
        raise BraidedError(f"stream {str(path)!r} is neither a file nor a data set: use a path, - or one of {known}")
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    kind = suffixes[-1].lower() if suffixes else ""
    if kind in {".csv", ".tsv"}:
        return CSVStream(path, target, header=header)
    if kind in {".jsonl", ".ndjson"}:
        return JSONLinesStream(str(path), lambda: text.lines(path))
    first = next((line for line in text.lines(path) if line.strip()), "")
    if first.lstrip().startswith("{"):
        return JSONLinesStream(str(path), lambda: text.lines(path))
    if kind in {".libsvm", ".svm", ".svmlight"} or (":" in first and _LIBSVM_LINE.match(first)):
        return LibsvmStream(path)
    if any(delimiter in first for delimiter in DELIMITERS):
        return CSVStream(path, target, header=header)
    raise BraidedError(f"{path}:1: neither CSV nor LIBSVM nor JSON lines: give a file of one of these kinds")
