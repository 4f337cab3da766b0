"""What a stream is: batches of records, and of labels of earlier records, read once, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from braided.errors import BraidedError
from braided.records import Labels, Records, join

BATCH = 500


class Stream(Protocol):
    """A source of batches. Iterating again starts from the first record, except on standard input."""

    @property
    def name(self) -> str:
        """What tables and errors call it."""

    @property
    def n_records(self) -> int | None:
        """How many records there are, if that is known without reading them."""

    def batches(self) -> Iterator[Records | Labels]:
        """The records, in order, in batches of any size, and labels of earlier ones where they came.

        A batch may be empty: behind it a stream that is followed knows where it goes on.
        """


@dataclass(frozen=True)
class ArrayStream:
    """A stream that is in memory."""

    name: str
    table: Records

    @property
    def n_records(self) -> int | None:
        """All of the table."""
        return len(self.table)

    def batches(self) -> Iterator[Records]:
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
        self._rest: Iterator[Records | Labels] | None = stream.batches()
        self.first: list[Records | Labels] = []
        while records > 0 and (batch := next(self._rest, None)) is not None:
            self.first.append(batch)
            records -= len(batch) if isinstance(batch, Records) else 0

    def batches(self) -> Iterator[Records | Labels]:
        """All records: at first those looked at and the rest of that pass, later on the stream again."""
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


def only_records(stream: Stream) -> Iterator[Records]:
    """The records of a stream, which must not have labels on their own: without their place in it they say nothing."""
    for batch in stream.batches():
        if isinstance(batch, Records):
            yield batch
        elif len(batch):
            raise BraidedError(
                "labels that come later on their own need their place in the stream: leave it in its order"
            )


def read_whole(stream: Stream) -> ArrayStream:
    """Take a stream into memory, e.g. to shuffle it."""
    return ArrayStream(stream.name, join(list(only_records(stream))))
