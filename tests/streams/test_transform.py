"""Shuffling, masking and shortening: functions of the seed and the record's number alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from braided.streams import ArrayStream, Batch, Limited, Masked, Stream, read_whole, shuffled


def ones(n: int, d: int = 4) -> ArrayStream:
    values = np.arange(n, dtype=float)[:, None] + np.zeros(d)
    return ArrayStream("ones", Batch(tuple("abcdefgh"[:d]), values, list(range(n))))


@dataclass(frozen=True)
class Rebatched:
    """The same records in batches of another size."""

    stream: ArrayStream
    size: int
    name: str = "rebatched"
    n_records: int | None = None

    def batches(self) -> Iterator[Batch]:
        for start in range(0, len(self.stream.table), self.size):
            yield self.stream.table.part(start, start + self.size)


def test_availability_is_what_was_asked_for_and_independent() -> None:
    hidden = np.isnan(read_whole(Masked(ones(20_000), 0.3, 1, seed=5)).table.values)
    assert not hidden[:, 0].any()
    np.testing.assert_allclose(hidden[:, 1:].mean(axis=0), 0.7, atol=0.015)
    correlation = np.corrcoef(hidden[:, 1:].T) - np.eye(3)
    assert np.abs(correlation).max() < 0.03
    assert abs(np.corrcoef(hidden[:-1, 1], hidden[1:, 1])[0, 1]) < 0.03


def test_masks_do_not_depend_on_batches_or_columns_order() -> None:
    whole = read_whole(Masked(ones(1_300), 0.5, 0, seed=1)).table.values
    small = read_whole(Masked(Rebatched(ones(1_300), 7), 0.5, 0, seed=1)).table.values
    np.testing.assert_array_equal(whole, small)
    other = read_whole(Masked(ones(1_300), 0.5, 0, seed=2)).table.values
    assert (np.isnan(other) != np.isnan(whole)).mean() > 0.4


def test_shuffling_is_a_permutation_fixed_by_the_seed() -> None:
    one, same, other = (shuffled(ones(1_000), seed).table for seed in (0, 0, 1))
    assert one.labels == same.labels
    assert one.labels != other.labels
    assert sorted(one.labels) == list(range(1_000))
    np.testing.assert_array_equal(one.values[:, 0], one.labels)
    assert abs(np.corrcoef(one.labels, range(1_000))[0, 1]) < 0.1


def test_limits() -> None:
    for limit, expected in ((1, 1), (500, 500), (501, 501), (1_200, 1_200), (5_000, 1_200)):
        stream: Stream = Limited(ones(1_200), limit)
        assert stream.n_records == expected
        assert len(read_whole(stream).table) == expected
