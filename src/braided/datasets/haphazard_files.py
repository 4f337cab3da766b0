"""The files of the review of learning with haphazard inputs (Agarwal et al. 2024), read as it reads them.

An identifier is no feature, a question mark is a missing value, and the letters of `krvskp` are the numbers 1 to 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from braided.errors import BraidedError
from braided.records import Records
from braided.streams import text_files
from braided.streams.base import ArrayStream

_MISSING = "?"


@dataclass(frozen=True)
class Layout:
    """How a record stands in a line.

    Attributes
    ----------
    label
        Place of the label; -1 for the last.
    separator
        What stands between fields; None for any white space.
    identifier
        Whether the first field names the record.
    header
        Whether the first line names the columns.
    letters
        Stand for 1, 2, ... in this order.
    """

    label: int = -1
    separator: str | None = ","
    identifier: bool = False
    header: bool = False
    letters: str = ""


LAYOUTS: dict[str, Layout] = {
    "wpbc": Layout(label=1, identifier=True),
    "ionosphere": Layout(),
    "wdbc": Layout(label=1, identifier=True),
    "australian": Layout(separator=None),
    "wbc": Layout(identifier=True),
    "diabetes_f": Layout(header=True),
    "ipd": Layout(label=0, separator=None),
    "krvskp": Layout(letters="bfglntw"),
    "spambase": Layout(),
}


def _label(field: str) -> str | int:
    """A label as the other data sets have theirs: whole numbers as such, words as they are."""
    try:
        return int(float(field))
    except ValueError:
        return field


def _records(path: Path, layout: Layout, n_features: int) -> Iterator[tuple[list[float], str | int]]:
    codes = {letter: float(code) for code, letter in enumerate(layout.letters, start=1)} | {_MISSING: np.nan}
    n_fields = n_features + 1 + layout.identifier
    for count, line in enumerate(text_files.lines(path), start=1):
        if not line.strip() or (layout.header and count == 1):
            continue
        fields = [field.strip() for field in line.split(layout.separator)]
        if len(fields) != n_fields:
            raise BraidedError(f"{path}:{count}: {len(fields)} fields where {n_fields} are expected: mend the line")
        label = _label(fields.pop(layout.label))
        try:
            values = [codes[field] if field in codes else float(field) for field in fields[layout.identifier :]]
        except ValueError as error:
            raise BraidedError(f"{path}:{count}: {error}: mend the line") from None
        yield values, label


def read(name: str, paths: tuple[Path, ...], n_features: int) -> ArrayStream:
    """The records of a data set, its files one after the other; features are named by their places from 0."""
    values: list[list[float]] = []
    labels: list[str | int] = []
    for path in paths:
        for record, label in _records(path, LAYOUTS[name], n_features):
            values.append(record)
            labels.append(label)
    names = tuple(str(i) for i in range(n_features))
    return ArrayStream(name, Records(names, np.array(values, dtype=np.float64).reshape(-1, n_features), labels))
