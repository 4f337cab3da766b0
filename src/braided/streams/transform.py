"""Streams made from streams: shuffled, masked, shortened; each a function of its seed and the record's number."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from braided.kernels.random import key_of, mix, unit_interval
from braided.streams.base import ArrayStream, Batch, Stream


@njit(cache=True)
def _hashes(key, n):
    """One 64-bit hash per record number."""
    out = np.empty(n, np.uint64)
    for i in range(n):
        out[i] = mix(key, i)
    return out


@njit(cache=True)
def _hide(values, columns, keys, first_record, available):
    """Set values to NaN with probability 1 - available; a column's draws depend on its key and the record alone."""
    for column, key in zip(columns, keys):  # noqa: B905 (Numba's zip takes no strict)
        for i in range(values.shape[0]):
            if unit_interval(mix(key, first_record + i)) >= available:
                values[i, column] = np.nan


def shuffled(stream: ArrayStream, seed: int) -> ArrayStream:
    """The records in an order fixed by the seed, the same on every platform."""
    order: NDArray[np.int64] = np.argsort(_hashes(np.uint64(key_of(seed, "shuffle")), len(stream.table)), kind="stable")
    table = stream.table
    return ArrayStream(
        stream.name, Batch(table.names, np.ascontiguousarray(table.values[order]), [table.labels[i] for i in order])
    )


@dataclass(frozen=True)
class Masked:
    """Each feature but the first `always` is available with probability `available`, independently in each record.

    Examples
    --------
    >>> from braided.streams import read_whole
    >>> stream = ArrayStream("ones", Batch(("a", "b"), np.ones((1000, 2)), [0] * 1000))
    >>> masked = read_whole(Masked(stream, available=0.3, always=1, seed=0))
    >>> (~np.isnan(masked.table.values)).mean(axis=0)
    array([1.   , 0.281])
    """

    stream: Stream
    available: float
    always: int
    seed: int

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.stream.name

    @property
    def n_records(self) -> int | None:
        """As many as the stream has."""
        return self.stream.n_records

    def batches(self) -> Iterator[Batch]:
        """The stream's batches with values hidden."""
        record = 0
        always: set[Hashable] | None = None
        for batch in self.stream.batches():
            always = set(batch.names[: self.always]) if always is None else always
            hidden = [i for i, name in enumerate(batch.names) if name not in always]
            keys = [key_of(self.seed, "mask", str(batch.names[i])) for i in hidden]
            values = batch.values.copy()
            _hide(values, np.array(hidden, dtype=np.int64), np.array(keys, dtype=np.uint64), record, self.available)
            yield Batch(batch.names, values, batch.labels)
            record += len(batch)


@dataclass(frozen=True)
class Limited:
    """The first `limit` records."""

    stream: Stream
    limit: int

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.stream.name

    @property
    def n_records(self) -> int | None:
        """The limit, or what the stream has if that is less."""
        n = self.stream.n_records
        return None if n is None else min(n, self.limit)

    def batches(self) -> Iterator[Batch]:
        """Batches up to the limit; the source is not read beyond it."""
        left = self.limit
        if left <= 0:
            return
        for batch in self.stream.batches():
            if len(batch) >= left:
                yield batch.part(0, left)
                return
            yield batch
            left -= len(batch)
