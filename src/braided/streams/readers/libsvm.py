"""LIBSVM (SVMlight) text: `label index:value ...`; an index that is not there means 0, not missing."""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from braided.encode.cells import as_feature, as_label
from braided.encode.chunk import Piece
from braided.encode.encoder import Encoder
from braided.encode.rules import ReadingCounts
from braided.errors import BraidedError
from braided.records import Records
from braided.streams import text_files
from braided.streams.base import BATCH
from braided.streams.readers.base import FileStream
from braided.values import shown

_MAX_FEATURES = 100_000
_LINE = re.compile(r"^\s*[^\s:,]+(\s+(\d+|qid):\S+)*\s*(#.*)?$")
_INDEX = re.compile(r"0*[1-9][0-9]{0,8}")


def is_libsvm_line(line: str) -> bool:
    """Whether a file that begins with this line is taken for LIBSVM.

    >>> is_libsvm_line("+1 3:0.5 7:1"), is_libsvm_line("10:20,3")
    (True, False)
    """
    return ":" in line and _LINE.match(line) is not None


@dataclass(frozen=True)
class LibsvmStream(FileStream):
    """Records from a LIBSVM file; features are named by their numbers, from 1. A query id (`qid:`) is passed over.

    Attributes
    ----------
    path
        The file; packed if it ends in .gz or .zst.
    n_features
        How many features there are. None: the largest index in the file, found in a pass of its own.
    """

    has_named_columns: ClassVar[bool] = False

    n_features: int | None = None

    def _records(self, encoder: Encoder) -> Iterator[tuple[str, Any, list[tuple[int, float]]]]:
        for count, line in enumerate(text_files.lines(self.path, self.rules.encoding), start=1):
            fields = line.split("#")[0].split()
            if not fields:
                continue
            where = f"{self.path}:{count}"
            try:
                label = as_label(fields[0], spelled=True)
                pairs = self._pairs(fields[1:], where, encoder)
            except BraidedError as error:
                encoder.problem(where, str(error))
                continue
            yield where, label, pairs

    def _pairs(self, fields: list[str], where: str, encoder: Encoder) -> list[tuple[int, float]]:
        pairs = []
        for field_ in fields:
            index, colon, value = field_.partition(":")
            if index == "qid" and colon:
                continue
            if not colon or not _INDEX.fullmatch(index):
                raise BraidedError(f"{shown(field_)} is not index:value with an index from 1: mend the line")
            try:
                number = as_feature(value)
            except BraidedError as error:
                reason = f"column {index!r} {error}"
                if encoder.rules.on_error != "missing":
                    raise BraidedError(reason) from None
                encoder.counts.add(f"{where}: {reason}", values=1)
                number = math.nan
            pairs.append((int(index), number))
        return pairs

    def least_width(self) -> int:
        """The largest index in the file."""
        largest = 0
        for where, _, pairs in self._records(Encoder(self.rules, ReadingCounts())):
            largest = max([largest, *(index for index, _ in pairs)])
            if largest > _MAX_FEATURES:
                raise BraidedError(f"{where}: feature {largest}: at most {_MAX_FEATURES} are read from LIBSVM files")
        return largest

    def widened(self, width: int) -> Self:
        """The same with this many features."""
        return replace(self, n_features=width)

    def chunks(self, encoder: Encoder) -> Generator[Piece]:
        """The records, dense."""
        n = self.least_width() if self.n_features is None else self.n_features
        names = tuple(range(1, n + 1))
        values = np.zeros((BATCH, n))
        labels: list[Any] = []
        for _, label, pairs in self._records(encoder):
            for index, value in pairs:
                if index <= n:
                    values[len(labels), index - 1] = value
            labels.append(label)
            if len(labels) == BATCH:
                yield Records(names, values, labels)
                values, labels = np.zeros((BATCH, n)), []
        if labels:
            yield Records(names, values[: len(labels)], labels)
