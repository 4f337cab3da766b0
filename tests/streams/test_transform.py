"""Shuffling, fixed by the seed, and shortening."""

from __future__ import annotations

import numpy as np

from braided.records import Records
from braided.streams import ArrayStream, Limited, Stream, read_whole, shuffled
from braided.streams.transform import scaled


def ones(n: int, d: int = 4) -> ArrayStream:
    values = np.arange(n, dtype=float)[:, None] + np.zeros(d)
    return ArrayStream("ones", Records(tuple("abcdefgh"[:d]), values, list(range(n))))


def test_shuffling_is_a_permutation_fixed_by_the_seed() -> None:
    one, same, other = (shuffled(ones(1_000), seed).table for seed in (0, 0, 1))
    assert one.targets == same.targets
    assert one.targets != other.targets
    assert sorted(one.targets) == list(range(1_000))
    np.testing.assert_array_equal(one.values[:, 0], one.targets)
    assert abs(np.corrcoef(one.targets, range(1_000))[0, 1]) < 0.1


def test_limits() -> None:
    for limit, expected in ((1, 1), (500, 500), (501, 501), (1_200, 1_200), (5_000, 1_200)):
        stream: Stream = Limited(ones(1_200), limit)
        assert stream.n_records == expected
        assert len(read_whole(stream).table) == expected


def test_scaled_features_span_the_range_and_stay_missing_where_they_are() -> None:
    values = np.array([[1.0, 5.0, 7.0], [3.0, np.nan, 7.0], [2.0, 9.0, 7.0]])
    stream = ArrayStream("s", Records(("a", "b", "c"), values, ["x", "y", "x"]))
    found = scaled(stream, -1.0, 1.0).table
    np.testing.assert_array_equal(found.values, [[-1.0, -1.0, -1.0], [1.0, np.nan, -1.0], [0.0, 1.0, -1.0]])
    assert found.targets == ["x", "y", "x"]
