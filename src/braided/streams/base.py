"""What a stream is: batches of records with named columns, read once, in order."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError

BATCH = 500


class RecordID(NamedTuple):
    """The ID under which a record's label may come later, and when the record came.

    The time is in seconds since 1970 by the source, None where it has no clock.
    """

    id: str | int
    time: float | None


class LateLabel(NamedTuple):
    """A label that comes on its own, of the record with that ID; times as of `RecordID`.

    The label is None where it is no number, and the target is one.
    """

    id: str | int
    label: Any
    weight: float | None = None
    time: float | None = None


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
    weights
        (n,) how much each record counts; None for 1 each.
    categories
        Which of the features stand for a value of a column: name -> (column, value). Such a feature is 1 where the
        column has the value and 0 where it has another.
    keys
        n keys, by which a fleet finds its models; None where nobody asked for them.
    ids
        The ID of each record, None for one without; None if no record has any.
    late
        Labels of earlier records, which come on their own: in a batch without records.
    """

    names: tuple[Hashable, ...]
    values: NDArray[np.float64]
    labels: list[Any]
    weights: NDArray[np.float64] | None = None
    categories: Mapping[Hashable, tuple[Hashable, str]] = field(default_factory=dict)
    keys: list[Any] | None = None
    ids: Sequence[RecordID | None] | None = None
    late: tuple[LateLabel, ...] = ()

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def part(self, start: int, stop: int) -> Batch:
        """The records from `start` to `stop`."""
        rows = slice(start, stop)
        weights = None if self.weights is None else self.weights[rows]
        keys = None if self.keys is None else self.keys[rows]
        ids = None if self.ids is None else self.ids[rows]
        values, labels = self.values[rows], self.labels[rows]
        return replace(self, values=values, labels=labels, weights=weights, keys=keys, ids=ids)

    def at(self, rows: Sequence[int] | NDArray[np.int64]) -> Batch:
        """The records at these places, in this order."""
        weights = None if self.weights is None else self.weights[rows]
        values = np.ascontiguousarray(self.values[rows])
        keys = None if self.keys is None else [self.keys[i] for i in rows]
        ids = None if self.ids is None else [self.ids[i] for i in rows]
        labels = [self.labels[i] for i in rows]
        return replace(self, values=values, labels=labels, weights=weights, keys=keys, ids=ids)


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
    """A stream whose first records were looked at, and are handed on by the first pass over it.

    Parameters
    ----------
    stream
        The stream; it may be one that can be read only once.
    records
        How many to look at, at least; fewer where the stream is shorter.

    Attributes
    ----------
    first
        The batches looked at.
    """

    def __init__(self, stream: Stream, records: int) -> None:
        self.name, self.n_records = stream.name, stream.n_records
        self._stream = stream
        self._rest: Iterator[Batch] | None = stream.batches()
        self.first: list[Batch] = []
        while sum(len(batch) for batch in self.first) < records:
            batch = next(self._rest, None)
            if batch is None:
                break
            self.first.append(batch)

    def batches(self) -> Iterator[Batch]:
        """All records: at first those looked at and the rest of that pass, later on the stream anew."""
        if self._rest is None:
            yield from self._stream.batches()
            return
        rest, self._rest = self._rest, None
        yield from self.first
        yield from rest


def records_before(stream: Stream) -> int:
    """How many records came before the first that a stream gives: not 0 for one that is followed from a position."""
    return getattr(stream, "records_before", 0)


def labels_before(stream: Stream) -> int:
    """How many labels on their own came before the first record that a stream gives, likewise."""
    return getattr(stream, "labels_before", 0)


def read_whole(stream: Stream) -> ArrayStream:
    """Take a stream into memory, e.g. to shuffle it."""
    return ArrayStream(stream.name, joined(list(stream.batches())))


def joined(batches: list[Batch]) -> Batch:
    """Some batches as one, with a column for every name."""
    if any(batch.late for batch in batches):
        raise BraidedError("labels that come later on their own need their place in the stream: leave it in its order")
    names = list(dict.fromkeys(name for batch in batches for name in batch.names))
    place = {name: i for i, name in enumerate(names)}
    values = np.full((sum(len(batch) for batch in batches), len(names)), np.nan)
    labels: list[Any] = []
    for batch in batches:
        rows = slice(len(labels), len(labels) + len(batch))
        values[rows, [place[name] for name in batch.names]] = batch.values
        labels += batch.labels
    weights = None
    if any(batch.weights is not None for batch in batches):
        weights = np.concatenate([np.ones(len(batch)) if batch.weights is None else batch.weights for batch in batches])
    ids = None
    if any(batch.ids is not None for batch in batches):
        ids = [name for batch in batches for name in ([None] * len(batch) if batch.ids is None else batch.ids)]
    categories = {name: meaning for batch in batches for name, meaning in batch.categories.items()}
    keys = None
    if any(batch.keys is not None for batch in batches):
        keys = [key for batch in batches for key in batch.keys or [None] * len(batch)]
    return Batch(tuple(names), values, labels, weights, categories, keys, ids)
