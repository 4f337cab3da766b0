"""From what a user types to a stream."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from braided.brokers.address import is_broker, parse
from braided.encode.rules import Rules
from braided.errors import BraidedError
from braided.streams import text_files
from braided.streams.base import Stream
from braided.streams.named import named_streams
from braided.streams.passwords import without_password
from braided.streams.readers import sql
from braided.streams.readers.arff import ARFFStream
from braided.streams.readers.arrow import MAGIC, ArrowStream
from braided.streams.readers.base import EncodedStream
from braided.streams.readers.broker import BrokerStream
from braided.streams.readers.csv import DELIMITERS, CSVStream, check_delimiter
from braided.streams.readers.folder import FolderStream
from braided.streams.readers.follow import FollowStream
from braided.streams.readers.jsonl import JSONLinesStream, standard_input
from braided.streams.readers.libsvm import LibsvmStream, is_libsvm_line

_PACKED = {".gz", ".zst"}
_ARROW = {".parquet", ".arrow", ".feather", ".ipc"}
#: How a zip archive and an old Excel workbook begin, and the endings of names of Excel workbooks.
_ZIP, _OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_EXCEL = {".xlsx", ".xlsm", ".xltx", ".xls"}
#: A line with which an array of objects or of arrays begins; a column may be called [a].
_ARRAY = re.compile(r"\s*\[\s*(?:[{\[]|$)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_stream(
    source: str,
    data_dir: Path | None = None,
    target: str | None = None,
    header: bool | None = None,
    *,
    delimiter: str | None = None,
    skip_rows: int = 0,
    query: str | None = None,
    follow: bool = False,
    idle: float | None = None,
    position: dict[str, Any] | None = None,
    rules: Rules | None = None,
    record_id: str | None = None,
) -> Stream:
    """The stream that `source` names.

    A file is read by its name's ending (.csv, .tsv, .jsonl, .parquet, .arrow, .feather, .arff, .libsvm, text with .gz
    or .zst after it or without), else by how it begins.

    Parameters
    ----------
    source
        A data set of the paper or of River; a file; a folder of files; `-` for JSON lines on standard input;
        `sqlite:///FILE` or `postgresql://...` with a query; a broker's `kafka://HOST:PORT/TOPIC`,
        `redis://HOST/STREAM` or `mqtt://HOST/TOPIC`, which is followed.
    data_dir
        Where the named data sets are.
    target
        The label's column, where columns have names.
    header, delimiter
        Of CSV files: whether the first line names the columns, and what stands between fields. None: seen from the
        first lines.
    skip_rows
        Lines at the beginning of a CSV file, such as a title, which are not read.
    query
        SQL, for a database.
    follow, idle
        Wait for more lines, or files in a folder, until nothing has come for `idle` seconds.
    position
        Where to go on following, from `FollowStream.position`.
    rules
        How cells become features.
    record_id
        Of flat JSON records: the name of the column with their IDs, under which labels may come later.
    """
    rules = rules or Rules()
    _check_source(source, query, delimiter)
    live: Any = dict(target=target, idle=idle, rules=rules, position=position, record_id=record_id)  # noqa: C408
    if is_broker(source):
        _check_broker_options(source, header, delimiter, rules)
        return BrokerStream(parse(source), **live)
    path = Path(source)
    reader = partial(_open_file, target=target, header=header, delimiter=delimiter, rules=rules, record_id=record_id)
    if skip_rows:
        if skip_rows < 0 or follow or not path.is_file():
            raise BraidedError(
                f"`skip_rows` is {skip_rows}: give a number of lines from 0 on, of a CSV file with an end"
            )
        reader = partial(reader, skip_rows=skip_rows)
    if follow:
        if not path.exists():
            raise BraidedError(f"`follow` {source}: there is no such file or folder: give one that is there")
        return FollowStream(path, reader, header, delimiter, **live)
    if idle is not None:
        raise BraidedError("`idle` is for `follow`: without it a stream has an end of its own")
    if sql.is_address(source):
        stream: Stream = _open_data_base(source, query, target, rules)
    elif source == "-":
        stream = standard_input(target, rules, record_id)
    elif source in named_streams():
        stream = named_streams()[source].load(data_dir)
    elif path.is_dir():
        stream = FolderStream(path, reader, rules=rules)
    else:
        stream = cast(Stream, reader(path))
    _check_options(stream, source, target, header, delimiter, rules)
    _check_record_id(stream, source, record_id)
    return stream


def _check_source(source: str, query: str | None, delimiter: str | None) -> None:
    """Refuse an address of something that cannot be read, a query for what is no database, and a bad delimiter."""
    if delimiter is not None:
        check_delimiter(delimiter)
    if _SCHEME.match(source) and not sql.is_address(source) and not is_broker(source):
        raise BraidedError(
            f"{sql.without_password(source)!r} cannot be read: give sqlite:///FILE, postgresql://... or a broker's "
            "address, or use braided.streams.SQLStream with a connection of your own"
        )
    if query is not None and not sql.is_address(source):
        raise BraidedError(
            f"`query` is for databases, and {without_password(source)!r} is none: give sqlite:///FILE or "
            "postgresql://..."
        )


def _open_data_base(source: str, query: str | None, target: str | None, rules: Rules) -> Stream:
    """The rows that a query finds."""
    if query is None:
        raise BraidedError(f"{sql.without_password(source)!r} is a database: give `query` 'SELECT ...'")
    return sql.open_address(source, query, target, rules)


def _check_broker_options(source: str, header: bool | None, delimiter: str | None, rules: Rules) -> None:
    """Refuse what is for files alone."""
    given = {"header": header, "delimiter": delimiter, "encoding": rules.encoding}
    for name, value in given.items():
        if value is not None:
            raise BraidedError(f"`{name}` is for text files, and {without_password(source)!r} is none")


def _check_options(
    stream: Stream, source: str, target: str | None, header: bool | None, delimiter: str | None, rules: Rules
) -> None:
    """Refuse options that have no meaning for a stream."""
    if isinstance(stream, FolderStream):
        return
    named = source not in named_streams() and isinstance(stream, EncodedStream) and stream.has_named_columns
    if target is not None and not named:
        raise BraidedError(
            f"`target` {target!r} is for streams with named columns: in {source!r} the label's place is fixed"
        )
    if rules.named_columns() and not named:
        setting, name = rules.named_columns()[0]
        raise BraidedError(f"`{setting}` {name!r} is for streams with named columns, and {source!r} is none")
    text = isinstance(stream, CSVStream | JSONLinesStream | ARFFStream | LibsvmStream) and source != "-"
    if rules.encoding is not None and not (text and source not in named_streams()):
        raise BraidedError(f"`encoding` is for text files, and {source!r} is none")
    if not isinstance(stream, CSVStream):
        if header is not None:
            either = "`header=True` and `header=False`"
            raise BraidedError(f"{either} are for CSV files, and {source!r} is none")
        if delimiter is not None:
            raise BraidedError(f"`delimiter` is for CSV files, and {source!r} is none")


def _check_record_id(stream: Stream, source: str, record_id: str | None) -> None:
    """Refuse IDs of records that cannot have any."""
    if record_id is not None and not isinstance(stream, JSONLinesStream | FolderStream):
        raise BraidedError(f"`id` {record_id!r} is for records of JSON, and {source!r} has none")


def _open_file(
    path: Path,
    target: str | None,
    header: bool | None,
    delimiter: str | None,
    rules: Rules,
    record_id: str | None = None,
    skip_rows: int = 0,
) -> EncodedStream:
    """The reader of a file, by its name's ending, else by how it begins."""
    if not path.is_file():
        if path.suffix or len(path.parts) > 1:
            raise BraidedError(f"{path}: no such file or folder: give one that is there")
        raise BraidedError(
            f"stream {str(path)!r} is neither a file nor a folder nor a data set: use a path, - or one of "
            f"{', '.join(named_streams())}"
        )

    def as_csv() -> EncodedStream:
        between = "\t" if delimiter is None and kind == ".tsv" else delimiter
        return CSVStream(path, target, None, header, between, skip_rows, rules=rules)

    def as_json() -> EncodedStream:
        lines = partial(text_files.lines, path, rules.encoding)
        return JSONLinesStream(str(path), lines, target, record_id, rules=rules)

    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _PACKED]
    kind = suffixes[-1] if suffixes else ""
    by_name: dict[str, Callable[[], EncodedStream]] = {
        ".csv": as_csv,
        ".tsv": as_csv,
        ".jsonl": as_json,
        ".ndjson": as_json,
        ".arff": lambda: ARFFStream(path, target, rules=rules),
        ".libsvm": lambda: LibsvmStream(path, rules=rules),
        ".svm": lambda: LibsvmStream(path, rules=rules),
        ".svmlight": lambda: LibsvmStream(path, rules=rules),
    }
    _refuse_workbook(path, kind)
    if kind in by_name:
        return by_name[kind]()
    if kind in _ARROW or text_files.beginning(path, 6).startswith(MAGIC):
        if path.suffix.lower() in _PACKED:
            raise BraidedError(f"{path}: is packed once more: unpack it, Parquet and Arrow files are packed inside")
        return ArrowStream(path, target, rules=rules)
    encoding = text_files.encoding_of(path, rules.encoding, latin=rules.recognise)
    first = next((line for line in text_files.lines(path, encoding) if line.strip() and not line.startswith("%")), "")
    if first.lstrip().startswith("{"):
        return as_json()
    if _ARRAY.match(first) or (kind == ".json" and first.lstrip().startswith("[")):
        raise BraidedError(f"{path}:1: is a JSON array: give JSON lines, one object per line and nothing around them")
    if first.lower().startswith("@relation"):
        return ARFFStream(path, target, rules=rules)
    if is_libsvm_line(first):
        return LibsvmStream(path, rules=rules)
    if any(between in first for between in (DELIMITERS if delimiter is None else (check_delimiter(delimiter),))):
        return as_csv()
    raise BraidedError(
        f"{path}:1: neither CSV nor LIBSVM nor JSON lines nor ARFF, Parquet or Arrow: give a file of one of these kinds"
    )


def _refuse_workbook(path: Path, kind: str) -> None:
    """Refuse Excel workbooks and zip archives, whatever they are called."""
    beginning = text_files.beginning(path, 64)
    packed = beginning.startswith(_ZIP)
    if beginning.startswith(_OLD_EXCEL) or (packed and (kind in _EXCEL or b"[Content_Types].xml" in beginning)):
        raise BraidedError(f"{path}: is an Excel workbook: save it as CSV")
    if packed:
        raise BraidedError(f"{path}: is a zip archive: unpack it")
