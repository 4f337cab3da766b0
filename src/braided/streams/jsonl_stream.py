"""JSON lines, `{"x": {"name": number, ...}, "y": label}`, from standard input or any other text source."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.features import FeatureSpace, as_number
from braided.streams.base import BATCH, Batch


def _parse(line: str, where: str) -> tuple[dict[Hashable, float], Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BraidedError(f"{where}: not JSON ({error}): give one record a line") from None
    if not isinstance(record, dict) or not isinstance(record.get("x"), dict):
        raise BraidedError(f'{where}: {line.strip():.60}: give {{"x": {{"name": number, ...}}, "y": label}}')
    label = record.get("y")
    if label is None or label != label:
        raise BraidedError(f'{where}: the label "y" is missing: every record needs one')
    if not isinstance(label, str | int | float):
        raise BraidedError(f'{where}: the label "y" is {label!r:.60}: text or a number only')
    try:
        return {name: as_number(name, value, 0) for name, value in record["x"].items()}, label
    except BraidedError as error:
        raise BraidedError(f"{where}: {str(error).replace(' in record 0', '')}") from None


@dataclass(frozen=True)
class JSONLinesStream:
    """Records from lines of JSON.

    Attributes
    ----------
    name
        What errors call the source.
    open
        Gives the lines; called once for each pass.
    """

    name: str
    open: Callable[[], Iterable[str]]

    @property
    def n_records(self) -> int | None:
        """Not known without reading."""
        return None

    def batches(self) -> Iterator[Batch]:
        """Records in batches whose columns are the names that appear in them."""
        records: list[dict[Hashable, float]] = []
        labels: list[Any] = []
        for count, line in enumerate(self.open(), start=1):
            if not line.strip():
                continue
            x, y = _parse(line, f"{self.name}:{count}")
            records.append(x)
            labels.append(y)
            if len(records) == BATCH:
                yield _batch(records, labels)
                records, labels = [], []
        if records:
            yield _batch(records, labels)


def _batch(records: list[dict[Hashable, float]], labels: list[Any]) -> Batch:
    names = FeatureSpace(0).sort({name for record in records for name in record})
    place = {name: i for i, name in enumerate(names)}
    values = np.full((len(records), len(names)), np.nan)
    for i, record in enumerate(records):
        for name, value in record.items():
            values[i, place[name]] = value
    return Batch(tuple(names), values, labels)


def _standard_input_lines() -> Iterator[str]:
    if sys.stdin is None or sys.stdin.closed:
        raise BraidedError("standard input is closed: pipe JSON lines into it")
    try:
        for number, line in enumerate(sys.stdin):
            yield line.removeprefix("\ufeff") if number == 0 else line
    except UnicodeDecodeError as error:
        raise BraidedError(f"standard input is not text in UTF-8 ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise BraidedError(f"standard input cannot be read: {error.strerror or error}") from None


def standard_input() -> JSONLinesStream:
    """The stream of `braided run -`."""
    return JSONLinesStream("standard input", _standard_input_lines)
