"""CSV files, with or without a header, plain or gzip-compressed, read in constant memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.kernels.decimal import POWERS, parse_lines
from braided.streams import text
from braided.streams.base import BATCH, Batch

#: Column names that are taken for the target when none is named.
TARGET_NAMES = ("target", "label", "class", "y")
#: What may stand between fields; the one that the first line has most of is taken.
DELIMITERS = (",", ";", "\t", "|")


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
            if _is_number(below) and above.strip().lower() not in text.MISSING and not _is_number(above):
                return True
    return not any(_is_number(field) for field in first)


@dataclass(frozen=True)
class CSVStream:
    """Records from a CSV file; fields are separated by commas, semicolons, tabs or bars.

    Attributes
    ----------
    path
        The file; gzip-compressed if it ends in .gz.
    target
        Name (or, without a header, number from 0) of the label's column. None: a column called target, label, class
        or y, else the last one.
    n_features
        Use only the first so many feature columns.
    header
        Whether the first line names the columns. None: it does if a column of numbers starts with a word there.
    """

    path: Path
    target: str | None = None
    n_features: int | None = None
    header: bool | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def n_records(self) -> int | None:
        """Not known without reading the file."""
        return None

    def _rows(self, lines: Iterable[str], delimiter: str, before: int = 0) -> Iterator[tuple[int, list[str]]]:
        """Line numbers and fields, without blank lines; `before` lines were read before these."""
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            for fields in reader:
                if len(fields) > 1 or (fields and fields[0].strip()):
                    yield before + reader.line_num, fields
        except csv.Error as error:
            line = before + reader.line_num
            raise BraidedError(f"{self.path}:{line}: not readable as CSV ({error}): mend the line") from None

    def _delimiter(self) -> str:
        """What the first line that is not blank has most of."""
        first = next((line for line in text.lines(self.path) if line.strip()), "")
        return max(DELIMITERS, key=first.count)

    def columns(self) -> tuple[list[str], bool, int]:
        """The column names, whether the first line is a header, and the place of the target."""
        opening = [fields for _, fields in islice(self._rows(text.lines(self.path), self._delimiter()), 2)]
        if not opening:
            raise BraidedError(f"{self.path}:1: the file is empty: give a CSV file with one record a line")
        first, second = opening[0], opening[1] if len(opening) > 1 else None
        header = _looks_like_header(first, second) if self.header is None else self.header
        names = [field.strip() for field in first] if header else [str(i) for i in range(len(first))]
        if len(names) < 2:
            raise BraidedError(f"{self.path}:1: only one column: fields are separated by one of , ; | or a tab")
        if len(set(names)) != len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise BraidedError(f"{self.path}:1: column {repeated!r} appears twice: rename one of them")
        if self.target is None:
            named = [i for i, name in enumerate(names) if header and name.lower() in TARGET_NAMES]
            return names, header, named[0] if named else len(names) - 1
        if self.target not in names:
            raise BraidedError(
                f"{self.path}: there is no column {self.target!r}: choose --target from {', '.join(names)}"
            )
        return names, header, names.index(self.target)

    def batches(self) -> Iterator[Batch]:
        """The records, checked line by line.

        After the first block of lines, blocks of plain numbers alone are read by compiled code, with the same values;
        any other block is read by Python, which knows missing values, words and what to say about a bad line.
        """
        names, header, target = self.columns()
        delimiter = self._delimiter()
        features = [i for i in range(len(names)) if i != target][: self.n_features]
        kept = tuple(names[i] for i in features)
        blocks, before = text.blocks(self.path), 0
        for block in blocks:
            plain = None if before == 0 else _plain_numbers(block, delimiter, len(names), features, target)
            if plain is not None:
                values, labels = plain
                for start in range(0, len(labels), BATCH):
                    yield Batch(kept, values[start : start + BATCH], labels[start : start + BATCH])
                before += len(labels)
                continue
            # A quoted field may go on in later blocks, so from the first quote on there are no blocks any more.
            quoted = b'"' in block
            lines = self._lines(chain([block], blocks) if quoted else [block], first=before == 0)
            rows = self._rows(lines, delimiter, before)
            yield from self._checked(islice(rows, int(header and before == 0), None), names, features, target)
            before += max(block.count(b"\n"), 1)

    def _lines(self, blocks: Iterable[bytes], first: bool) -> Iterator[str]:
        """The lines of blocks, without the byte order mark that the first may begin with."""
        for block in blocks:
            try:
                decoded = block.decode("utf-8-sig" if first else "utf-8")
            except UnicodeDecodeError as error:
                raise BraidedError(
                    f"{self.path}: is not text in UTF-8 ({error.reason} at byte {error.start})"
                ) from None
            first = False
            yield from io.StringIO(decoded, newline="")

    def _checked(
        self, numbered: Iterator[tuple[int, list[str]]], names: list[str], features: list[int], target: int
    ) -> Iterator[Batch]:
        """Batches from rows of fields."""
        kept = tuple(names[i] for i in features)
        rows: list[list[float]] = []
        labels: list[Any] = []
        for line, fields in numbered:
            where = f"{self.path}:{line}"
            if len(fields) != len(names):
                raise BraidedError(f"{where}: {len(fields)} fields where {len(names)} are expected: mend the line")
            rows.append([text.number(fields[i], where, names[i]) for i in features])
            labels.append(text.label(fields[target], where))
            if len(rows) == BATCH:
                yield Batch(kept, np.array(rows), labels)
                rows, labels = [], []
        if rows:
            yield Batch(kept, np.array(rows), labels)


def _plain_numbers(
    block: bytes, delimiter: str, n_columns: int, features: list[int], target: int
) -> tuple[NDArray[np.float64], list[Any]] | None:
    """Values and labels of a block in which all that is read is plain numbers and labels are whole; else None."""
    wanted = np.zeros(n_columns, dtype=np.bool_)
    wanted[[*features, target]] = True
    bits = np.empty((block.count(b"\n") + 1, int(wanted.sum())), dtype=np.uint64)
    n = parse_lines(np.frombuffer(block, dtype=np.uint8), np.uint8(ord(delimiter)), wanted, POWERS, bits)
    if n < 0:
        return None
    numbers = bits[:n].view(np.float64)
    place = int(wanted[:target].sum())
    labels = numbers[:, place]
    if (np.abs(labels) >= 2**53).any() or (labels != np.trunc(labels)).any():
        return None
    return np.delete(numbers, place, axis=1), labels.astype(np.int64).tolist()
