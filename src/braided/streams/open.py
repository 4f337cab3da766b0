"""From what a user types to a stream."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from braided.datasets import load, river
from braided.datasets.catalogue import CATALOGUE
from braided.errors import BraidedError
from braided.streams import text
from braided.streams.base import Stream
from braided.streams.encode.encoder import Encoded, Rules
from braided.streams.readers import sql
from braided.streams.readers.arff import ARFFStream
from braided.streams.readers.arrow import ArrowStream
from braided.streams.readers.csv import DELIMITERS, CSVStream, check_delimiter
from braided.streams.readers.folder import FolderStream
from braided.streams.readers.follow import FollowStream
from braided.streams.readers.jsonl import JSONLinesStream, standard_input
from braided.streams.readers.libsvm import LibsvmStream

_LIBSVM_LINE = re.compile(r"^\s*[^\s:,]+(\s+(\d+|qid):\S+)*\s*(#.*)?$")
_PACKED = {".gz", ".zst"}
_ARROW = {".parquet", ".arrow", ".feather", ".ipc"}
#: What a file of pyarrow's begins with.
_MAGIC = (b"PAR1", b"ARROW1", b"FEA1")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_stream(
    source: str,
    data_dir: Path | None = None,
    target: str | None = None,
    header: bool | None = None,
    *,
    delimiter: str | None = None,
    query: str | None = None,
    follow: bool = False,
    idle: float | None = None,
    position: dict[str, Any] | None = None,
    rules: Rules | None = None,
) -> Stream:
    """The stream that `source` names.

    A file is read by its name's ending (.csv, .tsv, .jsonl, .parquet, .arrow, .feather, .arff, .libsvm, text with .gz
    or .zst after it or without), else by how it begins.

    Parameters
    ----------
    source
        A data set of the paper or of River; a file; a folder of files; `-` for JSON lines on standard input;
        `sqlite:///FILE` or `postgresql://...` with a query.
    data_dir
        Where the named data sets are.
    target
        The label's column, where columns have names.
    header, delimiter
        Of CSV files: whether the first line names the columns, and what stands between fields. None: seen.
    query
        SQL, for a data base.
    follow, idle
        Wait for more lines, or files in a folder, until nothing has come for `idle` seconds.
    position
        Where to go on following, from `FollowStream.position`.
    rules
        How cells become features.
    """
    rules = rules or Rules()
    if delimiter is not None:
        check_delimiter(delimiter)
    if _SCHEME.match(source) and not sql.is_address(source):
        raise BraidedError(
            f"{sql.without_password(source)!r} cannot be read: give sqlite:///FILE or postgresql://..., or use "
            "braided.streams.SQLStream with a connection of your own"
        )
    if query is not None and not sql.is_address(source):
        raise BraidedError(
            f"--query is for data bases, and {source!r} is none: give sqlite:///FILE or postgresql://..."
        )
    path = Path(source)

    def reader(path: Path) -> Encoded:
        return _open_file(path, target, header, delimiter, rules)

    if follow:
        return _follow(source, FollowStream(path, reader, target, header, delimiter, idle, rules, position))
    if idle is not None:
        raise BraidedError("--idle is for --follow: without it a stream has an end of its own")
    if sql.is_address(source):
        if query is None:
            raise BraidedError(f"{sql.without_password(source)!r} is a data base: give --query 'SELECT ...'")
        stream: Stream = sql.open_address(source, query, target, rules)
    elif source == "-":
        stream = standard_input(target, rules)
    elif source in {"shuttle", *river.RIVER_STREAMS, *CATALOGUE}:
        stream = _data_set(source, data_dir)
    elif path.is_dir():
        stream = FolderStream(path, reader, rules)
    else:
        stream = cast(Stream, reader(path))
    _check_options(stream, source, target, header, delimiter, rules)
    return stream


def _data_set(source: str, data_dir: Path | None) -> Stream:
    if source == "shuttle":
        return river.shuttle()
    return river.load(source) if source in river.RIVER_STREAMS else load.load(source, data_dir)


def _follow(source: str, stream: FollowStream) -> FollowStream:
    if not stream.path.exists():
        raise BraidedError(f"--follow {source}: there is no such file or folder: give one that is there")
    if stream.idle is not None and not stream.idle >= 0:
        raise BraidedError(f"--idle is {stream.idle}: give seconds from 0 on")
    return stream


def _check_options(
    stream: Stream, source: str, target: str | None, header: bool | None, delimiter: str | None, rules: Rules
) -> None:
    """Refuse options that have no meaning for a stream."""
    if isinstance(stream, FolderStream):
        return
    named = isinstance(stream, Encoded) and not isinstance(stream, LibsvmStream)
    if target is not None and not (named and source not in CATALOGUE):
        raise BraidedError(
            f"--target {target!r} is for streams with named columns: in {source!r} the label's place is fixed"
        )
    if rules.drop and not (named and source not in CATALOGUE):
        raise BraidedError(f"--drop {rules.drop[0]!r} is for streams with named columns, and {source!r} is none")
    if not isinstance(stream, CSVStream):
        if header is not None:
            raise BraidedError(f"--header and --no-header are for CSV files, and {source!r} is none")
        if delimiter is not None:
            raise BraidedError(f"--delimiter is for CSV files, and {source!r} is none")


def _open_file(path: Path, target: str | None, header: bool | None, delimiter: str | None, rules: Rules) -> Encoded:
    if not path.is_file():
        known = ", ".join(["shuttle", *CATALOGUE, *river.RIVER_STREAMS])
        raise BraidedError(
            f"stream {str(path)!r} is neither a file nor a folder nor a data set: use a path, - or one of {known}"
        )

    def as_csv() -> Encoded:
        between = "\t" if delimiter is None and kind == ".tsv" else delimiter
        return CSVStream(path, target, None, header, between, rules)

    def as_json() -> Encoded:
        return JSONLinesStream(str(path), lambda: text.lines(path), target, rules)

    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _PACKED]
    kind = suffixes[-1] if suffixes else ""
    by_name: dict[str, Callable[[], Encoded]] = {
        ".csv": as_csv,
        ".tsv": as_csv,
        ".jsonl": as_json,
        ".ndjson": as_json,
        ".arff": lambda: ARFFStream(path, target, rules),
        ".libsvm": lambda: LibsvmStream(path, None, rules),
        ".svm": lambda: LibsvmStream(path, None, rules),
        ".svmlight": lambda: LibsvmStream(path, None, rules),
    }
    if kind in by_name:
        return by_name[kind]()
    with text.told(path), path.open("rb") as file:
        magic = file.read(6)
    if kind in _ARROW or magic.startswith(_MAGIC):
        if path.suffix.lower() in _PACKED:
            raise BraidedError(f"{path}: is packed once more: unpack it, Parquet and Arrow files are packed inside")
        return ArrowStream(path, target, rules)
    first = next((line for line in text.lines(path) if line.strip() and not line.startswith("%")), "")
    if first.lstrip().startswith("{"):
        return as_json()
    if first.lower().startswith("@relation"):
        return ARFFStream(path, target, rules)
    if ":" in first and _LIBSVM_LINE.match(first):
        return LibsvmStream(path, None, rules)
    if any(between in first for between in (DELIMITERS if delimiter is None else (check_delimiter(delimiter),))):
        return as_csv()
    raise BraidedError(
        f"{path}:1: neither CSV nor LIBSVM nor JSON lines nor ARFF, Parquet or Arrow: give a file of one of these kinds"
    )
