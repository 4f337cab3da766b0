"""Shuffling, fixed by the seed, and shortening."""

from __future__ import annotations

import numpy as np

from braided.streams import ArrayStream, Batch, Limited, Stream, read_whole, shuffled


def ones(n: int, d: int = 4) -> ArrayStream:
    values = np.arange(n, dtype=float)[:, None] + np.zeros(d)
    return ArrayStream("ones", Batch(tuple("abcdefgh"[:d]), values, list(range(n))))


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
