"""Streams made from streams: shuffled, by a seed, scaled, and shortened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from braided.kernels.native import Hashes, entry
from braided.kernels.random import key_of, mix
from braided.records import Labels, Records
from braided.streams.base import ArrayStream, Stream, labels_before, records_before


@entry
def _hash_numbers(key: np.uint64, out: Hashes) -> None:
    """One 64-bit hash per record number."""
    for i in range(out.shape[0]):
        out[i] = mix(key, i)


def shuffled(stream: ArrayStream, seed: int) -> ArrayStream:
    """The records in an order fixed by the seed, the same on every platform."""
    hashes = np.empty(len(stream.table), dtype=np.uint64)
    _hash_numbers(np.uint64(key_of(seed, "shuffle")), hashes)
    order: NDArray[np.int64] = np.argsort(hashes, kind="stable")
    return ArrayStream(stream.name, stream.table.at(order))


def scaled(stream: ArrayStream, low: float, high: float) -> ArrayStream:
    """Each feature between `low` and `high` over the whole stream, which no learner could know; a constant at `low`."""
    values = stream.table.values
    least, most = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    wide = np.where(most > least, most - least, 1.0)
    return ArrayStream(stream.name, replace(stream.table, values=low + (high - low) * (values - least) / wide))


@dataclass(frozen=True)
class Limited:
    """The first `limit` records, where those count too that a follower had read before it was resumed."""

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

    @property
    def records_before(self) -> int:
        """As of the stream."""
        return records_before(self.stream)

    @property
    def labels_before(self) -> int:
        """As of the stream."""
        return labels_before(self.stream)

    def batches(self) -> Iterator[Records | Labels]:
        """Batches up to the limit; the source is not read beyond it."""
        left = self.limit - records_before(self.stream)
        if left <= 0:
            return
        for batch in self.stream.batches():
            if isinstance(batch, Labels):
                yield batch
                continue
            if len(batch) >= left:
                yield batch.part(0, left)
                return
            yield batch
            left -= len(batch)
