"""CSV files, with or without a header, plain or gzip-compressed, read in constant memory."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.streams import text
from braided.streams.base import BATCH, Batch

#: Column names that are taken for the target when none is named.
TARGET_NAMES = ("target", "label", "class", "y")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return field.strip().lower() in text.MISSING
    return True


@dataclass(frozen=True)
class CSVStream:
    """Records from a CSV file.

    Attributes
    ----------
    path
        The file; gzip-compressed if it ends in .gz.
    target
        Name (or, without a header, number from 0) of the label's column. None: a column called target, label, class
        or y, else the last one.
    n_features
        Use only the first so many feature columns.
    """

    path: Path
    target: str | None = None
    n_features: int | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def n_records(self) -> int | None:
        """Not known without reading the file."""
        return None

    def columns(self) -> tuple[list[str], bool, int]:
        """The column names, whether the first line is a header, and the place of the target."""
        first = next(csv.reader(text.lines(self.path)), None)
        if not first:
            raise BraidedError(f"{self.path}:1: the file is empty: give a CSV file with one record a line")
        # A header has no number in it; a record has at least one.
        header = not any(_is_number(field) and field.strip() for field in first)
        names = [field.strip() for field in first] if header else [str(i) for i in range(len(first))]
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
        """The records, checked line by line."""
        names, header, target = self.columns()
        features = [i for i in range(len(names)) if i != target][: self.n_features]
        kept = tuple(names[i] for i in features)
        reader = csv.reader(text.lines(self.path), strict=True)
        rows: list[list[float]] = []
        labels: list[Any] = []
        try:
            for fields in reader:
                if (header and reader.line_num == 1) or not fields:
                    continue
                where = f"{self.path}:{reader.line_num}"
                if len(fields) != len(names):
                    raise BraidedError(f"{where}: {len(fields)} fields where {len(names)} are expected: mend the line")
                rows.append([text.number(fields[i], where, names[i]) for i in features])
                labels.append(text.label(fields[target], where))
                if len(rows) == BATCH:
                    yield Batch(kept, np.array(rows).reshape(len(rows), len(kept)), labels)
                    rows, labels = [], []
        except csv.Error as error:
            raise BraidedError(f"{self.path}:{reader.line_num}: not readable as CSV ({error}): mend the line") from None
        if rows:
            yield Batch(kept, np.array(rows).reshape(len(rows), len(kept)), labels)
