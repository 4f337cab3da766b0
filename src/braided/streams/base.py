"""What a stream is: batches of records with named columns, read once, in order."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

BATCH = 500


@dataclass(frozen=True)
class Batch:
    """Some consecutive records.

    Attributes
    ----------
    names
        The columns' feature names; may differ from batch to batch.
    values
        (n, columns), NaN for missing.
    labels
        n labels.
    """

    names: tuple[Hashable, ...]
    values: NDArray[np.float64]
    labels: list[Any]

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def part(self, start: int, stop: int) -> Batch:
        """The records from `start` to `stop`."""
        return Batch(self.names, self.values[start:stop], self.labels[start:stop])


class Stream(Protocol):
    """A source of batches. Iterating anew starts from the first record, except on standard input."""

    @property
    def name(self) -> str:
        """What tables and errors call it."""

    @property
    def n_records(self) -> int | None:
        """How many records there are, if that is known without reading them."""

    def batches(self) -> Iterator[Batch]:
        """The records, in order, in batches of any size."""


@dataclass(frozen=True)
class ArrayStream:
    """A stream that is in memory."""

    name: str
    table: Batch

    @property
    def n_records(self) -> int | None:
        """All of the table."""
        return len(self.table)

    def batches(self) -> Iterator[Batch]:
        """The table in pieces."""
        for start in range(0, len(self.table), BATCH):
            yield self.table.part(start, start + BATCH)


class Peeked:
    """A stream that can be read only once, with its first batch looked at beforehand."""

    def __init__(self, stream: Stream) -> None:
        self.name = stream.name
        self.n_records = stream.n_records
        self._batches = stream.batches()
        self.first = next(self._batches, None)

    def batches(self) -> Iterator[Batch]:
        """The first batch, then the others."""
        if self.first is not None:
            yield self.first
        yield from self._batches


def records_before(stream: Stream) -> int:
    """How many records came before the first that a stream gives: not 0 for one that is followed from a position."""
    return getattr(stream, "records_before", 0)


def read_whole(stream: Stream) -> ArrayStream:
    """Take a stream into memory, e.g. to shuffle it."""
    batches = list(stream.batches())
    names = list(dict.fromkeys(name for batch in batches for name in batch.names))
    place = {name: i for i, name in enumerate(names)}
    values = np.full((sum(len(batch) for batch in batches), len(names)), np.nan)
    labels: list[Any] = []
    for batch in batches:
        rows = slice(len(labels), len(labels) + len(batch))
        values[rows, [place[name] for name in batch.names]] = batch.values
        labels += batch.labels
    return ArrayStream(stream.name, Batch(tuple(names), values, labels))
