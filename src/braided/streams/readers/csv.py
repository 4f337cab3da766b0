"""CSV files, with or without a header, plain or packed, read in constant memory."""

from __future__ import annotations

import csv
import re
from collections.abc import Generator, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.encode.chunk import BadRecord, Chunk, Piece
from braided.encode.encoder import Encoder
from braided.encode.missing import MISSING
from braided.encode.rules import Rules
from braided.errors import BraidedError
from braided.records import Records
from braided.streams import text_files
from braided.streams.base import BATCH
from braided.streams.readers.base import TARGET_NAMES, FileStream, target_place

#: Whole numbers below this are exact as float64.
_EXACT = 2**53
#: What may stand between fields; the one that the first line has most of, outside of quotes, is taken.
DELIMITERS = (",", ";", "\t", "|")
_QUOTED = re.compile(r'"[^"]*"')
#: Rows among which the header is looked for where the first one seems to be a title.
_MAX_ABOVE = 20
#: Rows that a table below a title has at least.
_MIN_TABLE = 3
_SAID = re.compile(r"sep=([,;\t|])", re.IGNORECASE)


def delimiter_of(first: str) -> str:
    """What a file's first line that is not blank has most of, or says, as spreadsheets have it.

    >>> delimiter_of('"height, in cm";weight;"a,b,c"'), delimiter_of("sep=|")
    (';', '|')
    """
    if said := _SAID.fullmatch(first.rstrip("\r\n")):
        return said[1]
    return max(DELIMITERS, key=_QUOTED.sub("", first).count)


def check_delimiter(given: str) -> str:
    r"""A delimiter as it was typed: one character, or `\t` or `tab`."""
    delimiter = "\t" if given in {"\\t", "tab"} else given
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise BraidedError(f"`delimiter` {given!r}: give one character, or tab")
    return delimiter


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _looks_like_header(first: list[str], second: list[str] | None) -> bool:
    """A first line is a header if a column of numbers starts with a word there, or if it has no number at all."""
    if any(field.strip().lower() in TARGET_NAMES for field in first):
        return True
    if second is not None and len(second) == len(first):
        for above, below in zip(first, second, strict=True):
            if _is_number(below) and above.strip().lower() not in MISSING and not _is_number(above):
                return True
    return not any(_is_number(field) for field in first)


def rows(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    """Number of its last line and fields of each row that is not blank, or what is wrong with one that is no CSV."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        try:
            for fields in reader:
                if not _is_blank(fields) and not _says_delimiter(reader.line_num, fields, delimiter):
                    yield reader.line_num, fields
            return
        except csv.Error as error:
            yield reader.line_num, f"not readable as CSV ({error}): mend the line"


def misfit(fields: list[str] | str, n: int) -> str | None:
    """What is wrong with a row of fields, where n are expected."""
    if isinstance(fields, str):
        return fields
    found = f"{len(fields)} field{'s' if len(fields) != 1 else ''}"
    return None if len(fields) == n else f"{found} where {n} are expected: fix the line"


def header_below(opening: list[tuple[int, list[str] | str]]) -> int | None:
    """The line of the row that seems to be the header, where the first is mostly empty, as a title above a table is.

    >>> header_below([(1, ["Report of May", "", ""]), (2, ["size", "kind", "y"]), (3, ["1", "a", "0"])])
    2
    """
    first = opening[0][1]
    if isinstance(first, str) or 2 * sum(bool(field.strip()) for field in first) > len(first):
        return None
    for line, fields in opening[1:]:
        if not isinstance(fields, str) and all(field.strip() and not _is_number(field) for field in fields):
            return line if len(fields) == len(first) else None
    return None


def title_above(lines: list[str]) -> int | None:
    r"""How many lines stand above a table: its lines have the same number of fields, those above have fewer.

    >>> title_above(["Report, May 2026\n", "\n", "size;kind\n", "1;a\n", "2;b\n", "3;a\n"])
    2
    """
    filled = [place for place, line in enumerate(lines) if line.strip()]
    if len(filled) <= _MIN_TABLE:
        return None
    found = None
    for delimiter in DELIMITERS:
        counts = [_QUOTED.sub("", lines[place]).count(delimiter) for place in filled]
        table = [place for place, count in zip(filled, counts, strict=True) if count == counts[-1]]
        if not counts[-1] or max(counts) > counts[-1]:
            continue
        if len(table) == len(filled):
            return None  # all lines are alike
        if found is None and len(table) > _MIN_TABLE and filled[-len(table) :] == table:
            found = table[0]
    return None if found is None or _SAID.fullmatch(lines[0].rstrip("\r\n")) else found


@dataclass(frozen=True)
class Layout:
    """What a CSV file's first lines say: all columns, whether they are named there, and which are read.

    `line` is that of the first row; `below` the one in which the header seems to be, where the first seems to be none.
    """

    names: list[str]
    header: bool
    target: int
    features: list[int]
    line: int = 1
    below: int | None = None

    def chunk(self, source: str, places: list[int], rows: list[list[str]], after: Any = None) -> Chunk:
        """Rows of fields as columns."""
        turned = list(zip(*rows, strict=True))
        columns: dict[Hashable, Any] = {self.names[i]: turned[i] for i in self.features}
        return Chunk(source, places, columns, turned[self.target], spelled=True, after=after, table=True)


def layout(
    opening: list[tuple[int, list[str] | str]], header: bool | None, target: str | None, source: str, rules: Rules
) -> Layout:
    """The layout that a file's first rows show."""
    line, first = opening[0]
    if isinstance(first, str):
        raise BraidedError(f"{source}:{line}: {first}")
    second = opening[1][1] if len(opening) > 1 and not isinstance(opening[1][1], str) else None
    named = _looks_like_header(first, second) if header is None else header
    names = [field.strip() for field in first] if named else [str(i) for i in range(len(first))]
    if names.count("") > 1:
        names = [name or f"unnamed {i}" for i, name in enumerate(names)]
    if len(names) < 2:
        raise BraidedError(f"{source}:{line}: only one column: fields are separated by one of , ; | or a tab")
    place = target_place(names, target, f"{source}:{line}", rules, named)
    if target is None and named and not first[place].strip():  # a delimiter at the end of each line
        place = max((i for i, field in enumerate(first) if field.strip()), default=place)
    features = [i for i in range(len(names)) if i != place and names[i] not in rules.drop]
    return Layout(names, named, place, features, line, header_below(opening) if named else None)


@dataclass(frozen=True)
class CSVStream(FileStream):
    """Records from a CSV file; fields are separated by commas, semicolons, tabs or bars, and may be quoted.

    Attributes
    ----------
    path
        The file; packed if it ends in .gz or .zst.
    target
        Name (or, without a header, number from 0) of the label's column. None: a column called target, label, class
        or y, else the last one.
    n_features
        How many feature columns are read, from the first; None: all.
    header
        Whether the first line names the columns. None: it does if a column of numbers starts with a word there.
    delimiter
        What stands between fields. None: seen from the first line.
    skip_rows
        Lines before the first one, such as a title, which are not read.
    """

    target: str | None = None
    n_features: int | None = None
    header: bool | None = None
    delimiter: str | None = None
    skip_rows: int = 0

    def _encoding(self) -> str | None:
        return text_files.encoding_of(self.path, self.rules.encoding, latin=self.rules.recognise)

    def _delimiter(self, encoding: str | None) -> str:
        if self.delimiter is not None:
            return check_delimiter(self.delimiter)
        return delimiter_of(next((line for line in self._lines(encoding) if line.strip()), ""))

    def _lines(self, encoding: str | None) -> Iterator[str]:
        return islice(text_files.lines(self.path, encoding), self.skip_rows, None)

    def _layout(self, delimiter: str, encoding: str | None) -> Layout:
        skipped = self.skip_rows
        if (
            not skipped
            and self.delimiter is None
            and (title := title_above(list(islice(self._lines(encoding), _MAX_ABOVE))))
        ):
            raise BraidedError(
                f"{self.path}:1: the lines from {title + 1} on have other fields than those above: if the header is in "
                f"line {title + 1}, give `skip_rows={title}`"
            )
        opening = [(skipped + line, row) for line, row in islice(rows(self._lines(encoding), delimiter), _MAX_ABOVE)]
        if not opening:
            after = f" after line {skipped}" if skipped else ""
            raise BraidedError(f"{self.path}:1: the file is empty{after}: give a CSV file with one record per line")
        return layout(opening, self.header, self.target, str(self.path), self.rules)

    def columns(self) -> list[str]:
        """The names of all columns, numbers if the file gives none."""
        encoding = self._encoding()
        return self._layout(self._delimiter(encoding), encoding).names

    def chunks(self, encoder: Encoder) -> Generator[Piece]:
        """The records.

        Once the columns are known to be numbers, lines of plain numbers alone are read by NumPy, with the same values.
        Others are read by the csv module, which knows quotes and what is wrong with a line.
        """
        encoding = self._encoding()
        delimiter = self._delimiter(encoding)
        shape = self._layout(delimiter, encoding)
        encoder.found |= {"delimiter": delimiter, "encoding": encoding or text_files.USUAL}
        if shape.below is not None:
            encoder.found["header"] = str(shape.below)
        encoder.target = shape.names[shape.target]
        shape = replace(shape, features=shape.features[: self.n_features])
        kept = [shape.names[i] for i in shape.features]
        reading = _Reading(str(self.path), delimiter, shape)
        blocks, before = text_files.blocks(self.path, encoding), 0
        above = shape.line if shape.header else self.skip_rows
        for block in blocks:
            # A quoted field may go on in later blocks, so from the first quote on there are no blocks any more.
            if b'"' in block:
                lines = text_files.lines_of(chain([block], blocks), self.path, before)
                skipped = max(above - before, 0)
                yield from reading.rows(islice(lines, skipped, None), before + skipped)
                return
            whole = list(text_files.lines_of([block], self.path, before))
            for start in range(max(above - before, 0), len(whole), BATCH):
                part = whole[start : start + BATCH]
                plain = reading.plain(part, before + start) if encoder.all_numbers(kept) else None
                if plain is not None:
                    yield plain
                else:
                    yield from reading.rows(part, before + start)
            before += len(whole)


class _Reading:
    """Lines of a file to columns of cells."""

    def __init__(self, source: str, delimiter: str, shape: Layout) -> None:
        self.source = source
        self.delimiter = delimiter
        self.shape = shape
        #: Whether labels were whole numbers so far, and whether fields were empty.
        self._whole_labels, self._gaps = True, False

    def plain(self, lines: list[str], before: int) -> Chunk | Records | None:
        """Lines of numbers, some of them missing, but for the label; None if they are not."""
        shape = self.shape
        if any(line.count(self.delimiter) != len(shape.names) - 1 for line in lines):
            return None
        names = [shape.names[i] for i in shape.features]
        values = None
        if self._whole_labels:
            values = self._numbers(lines, [*shape.features, shape.target])
            labels = np.array([0.5]) if values is None else values[:, -1]
            self._whole_labels = bool((labels == np.trunc(labels)).all() and (np.abs(labels) < _EXACT).all())
            if values is not None and self._whole_labels and not np.isnan(values).any():
                return Records(tuple(names), values[:, :-1], labels.astype(np.int64).tolist())
        if values is None:
            values = self._numbers(lines, shape.features)
        if values is None:
            return None
        place = shape.target - len(shape.names)  # from the end, where it mostly is
        words = [line.rsplit(self.delimiter, -place)[place].strip() for line in lines]
        columns: dict[Hashable, Any] = dict(zip(names, values.T, strict=False))
        places = range(before + 1, before + 1 + len(lines))
        return Chunk(self.source, places, columns, words, spelled=True, table=True)

    def _numbers(self, lines: list[str], places: list[int]) -> NDArray[np.float64] | None:
        """Some columns of lines, NaN for an empty field, if all fields of them are finite numbers or empty."""
        usecols = None if places == list(range(len(self.shape.names))) else places
        for filled in (self._gaps, True):
            some = _with_gaps(lines, self.delimiter) if filled else lines
            try:
                values = np.loadtxt(some, delimiter=self.delimiter, usecols=usecols, comments=None, ndmin=2)
            except ValueError:
                if filled:
                    break
                continue
            self._gaps = filled
            return values if len(values) == len(lines) and not np.isinf(values).any() else None
        return None

    def rows(self, lines: Iterable[str], before: int) -> Iterator[Chunk | BadRecord]:
        """Any lines but the header; `before` came before them."""
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True, skipinitialspace=True)
        n = len(self.shape.names)
        places: list[int] = []
        taken: list[list[str]] = []
        while True:
            wrong = None
            try:
                for fields in reader:
                    if len(fields) == n:
                        places.append(before + reader.line_num)
                        taken.append(fields)
                        if len(taken) == BATCH:
                            break
                    elif not _is_blank(fields) and not (
                        before == 0 and _says_delimiter(reader.line_num, fields, self.delimiter)
                    ):
                        wrong = misfit(fields, n)
                        break
                else:
                    break
            except csv.Error as error:
                wrong = f"not readable as CSV ({error}): mend the line"
            if taken:
                yield self.shape.chunk(self.source, places, taken)
                places, taken = [], []
            if wrong is not None:
                yield BadRecord(f"{self.source}:{before + reader.line_num}", wrong)
        if taken:
            yield self.shape.chunk(self.source, places, taken)


def _with_gaps(lines: list[str], delimiter: str) -> list[str]:
    r"""Lines with `nan` in empty fields.

    >>> _with_gaps([",,1\n", "2,,\n"], ",")
    ['nan,nan,1', '2,nan,nan']
    """
    text, between = "\n" + "".join(lines), f"{delimiter}nan{delimiter}"
    text = text.replace(2 * delimiter, between).replace(2 * delimiter, between)
    for end in ("\r", "\n"):
        text = text.replace(f"{delimiter}{end}", f"{delimiter}nan{end}")
    return text.replace(f"\n{delimiter}", f"\nnan{delimiter}")[1:].splitlines()


def _is_blank(fields: list[str]) -> bool:
    return not fields or (len(fields) == 1 and not fields[0].strip())


def _says_delimiter(line: int, fields: list[str], delimiter: str) -> bool:
    return line == 1 and _SAID.fullmatch(delimiter.join(fields)) is not None
