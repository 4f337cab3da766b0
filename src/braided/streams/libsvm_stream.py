"""LIBSVM (SVMlight) text: `label index:value ...`; an index that is not there means 0, not missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.streams import text
from braided.streams.base import BATCH, Batch

_MOST_FEATURES = 100_000
_INDEX = re.compile(r"0*[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class LibsvmStream:
    """Records from a LIBSVM file; features are named by their numbers, from 1.

    Attributes
    ----------
    path
        The file; gzip-compressed if it ends in .gz.
    n_features
        How many features there are. None: the largest index in the file, found in a pass of its own.
    """

    path: Path
    n_features: int | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def n_records(self) -> int | None:
        """Not known without reading the file."""
        return None

    def _records(self) -> Iterator[tuple[str, Any, list[tuple[int, float]]]]:
        for count, line in enumerate(text.lines(self.path), start=1):
            fields = line.split("#")[0].split()
            if not fields:
                continue
            where = f"{self.path}:{count}"
            pairs = []
            for field in fields[1:]:
                index, colon, value = field.partition(":")
                if not colon or not _INDEX.fullmatch(index):
                    raise BraidedError(f"{where}: {field!r} is not index:value with an index from 1: mend the line")
                pairs.append((int(index), text.number(value, where, index)))
            yield where, text.label(fields[0], where), pairs

    def _largest_index(self) -> int:
        largest = 0
        for where, _, pairs in self._records():
            largest = max([largest, *(index for index, _ in pairs)])
            if largest > _MOST_FEATURES:
                raise BraidedError(f"{where}: feature {largest}: at most {_MOST_FEATURES} are read from LIBSVM files")
        return largest

    def batches(self) -> Iterator[Batch]:
        """The records, dense."""
        n = self._largest_index() if self.n_features is None else self.n_features
        names = tuple(range(1, n + 1))
        values = np.zeros((BATCH, n))
        labels: list[Any] = []
        for _, label, pairs in self._records():
            for index, value in pairs:
                if index <= n:
                    values[len(labels), index - 1] = value
            labels.append(label)
            if len(labels) == BATCH:
                yield Batch(names, values, labels)
                values, labels = np.zeros((BATCH, n)), []
        if labels:
            yield Batch(names, values[: len(labels)], labels)
