"""LIBSVM (SVMlight) text: `label index:value ...`; an index that is not there means 0, not missing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.streams import text
from braided.streams.base import BATCH, Batch
from braided.streams.encode.encoder import DEFAULT_RULES, Encoded, Encoder, Found, Piece, Rules
from braided.values import shown

_MOST_FEATURES = 100_000
_INDEX = re.compile(r"0*[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class LibsvmStream(Encoded):
    """Records from a LIBSVM file; features are named by their numbers, from 1. A query id (`qid:`) is passed over.

    Attributes
    ----------
    path
        The file; packed if it ends in .gz or .zst.
    n_features
        How many features there are. None: the largest index in the file, found in a pass of its own.
    rules
        What to do about bad values; nothing is categorical here.
    """

    path: Path
    n_features: int | None = None
    rules: Rules = DEFAULT_RULES
    found: Found = field(default_factory=Found, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    def _records(self, encoder: Encoder) -> Iterator[tuple[str, Any, list[tuple[int, float]]]]:
        for count, line in enumerate(text.lines(self.path), start=1):
            fields = line.split("#")[0].split()
            if not fields:
                continue
            where = f"{self.path}:{count}"
            try:
                label = text.label(fields[0], where)
                pairs = self._pairs(fields[1:], where, encoder)
            except BraidedError as error:
                encoder.problem(where, str(error).removeprefix(f"{where}: "))
                continue
            yield where, label, pairs

    def _pairs(self, fields: list[str], where: str, encoder: Encoder) -> list[tuple[int, float]]:
        pairs = []
        for field_ in fields:
            index, colon, value = field_.partition(":")
            if index == "qid" and colon:
                continue
            if not colon or not _INDEX.fullmatch(index):
                raise BraidedError(f"{where}: {shown(field_)} is not index:value with an index from 1: mend the line")
            try:
                number = text.number(value, where, index)
            except BraidedError as error:
                if encoder.rules.on_error != "missing":
                    raise
                encoder.count(str(error), values=1)
                number = math.nan
            pairs.append((int(index), number))
        return pairs

    def largest_index(self) -> int:
        """How many features the file has: the largest index in it."""
        largest = 0
        for where, _, pairs in self._records(Encoder(self.rules, Found())):
            largest = max([largest, *(index for index, _ in pairs)])
            if largest > _MOST_FEATURES:
                raise BraidedError(f"{where}: feature {largest}: at most {_MOST_FEATURES} are read from LIBSVM files")
        return largest

    def chunks(self, encoder: Encoder) -> Iterator[Piece]:
        """The records, dense."""
        n = self.largest_index() if self.n_features is None else self.n_features
        names = tuple(range(1, n + 1))
        values = np.zeros((BATCH, n))
        labels: list[Any] = []
        for _, label, pairs in self._records(encoder):
            for index, value in pairs:
                if index <= n:
                    values[len(labels), index - 1] = value
            labels.append(label)
            if len(labels) == BATCH:
                yield Batch(names, values, labels)
                values, labels = np.zeros((BATCH, n)), []
        if labels:
            yield Batch(names, values[: len(labels)], labels)
