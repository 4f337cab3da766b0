"""How features go missing: as asked for, and functions of seed, feature and record number alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from braided import BraidedError
from braided.records import Records
from braided.streams import MASKS, ArrayStream, read_whole
from braided.streams.masks import OUTAGE, Bursts, ByValue, Masked, Sudden, Trapezoidal


def normal(n: int, d: int = 4) -> ArrayStream:
    values = np.random.default_rng(0).normal(size=(n, d)) * 3 + 10
    return ArrayStream("normal", Records(tuple(f"f{i}" for i in range(d)), values, list(range(n))))


@dataclass(frozen=True)
class Rebatched:
    """The same records in batches of another size."""

    stream: ArrayStream
    size: int
    name: str = "rebatched"
    n_records: int | None = None

    def batches(self) -> Iterator[Records]:
        for start in range(0, len(self.stream.table), self.size):
            yield self.stream.table.part(start, start + self.size)


def hidden(kind: str, stream: ArrayStream, available: float, always: int = 0, seed: int = 0) -> NDArray[np.bool_]:
    mask = MASKS[kind](stream, available, always, seed, len(stream.table))
    return np.isnan(read_whole(mask).table.values)


@pytest.mark.parametrize("kind", MASKS)
def test_batches_do_not_matter(kind: str) -> None:
    whole = hidden(kind, normal(1_300), 0.5)
    for size in (1, 7, 499):
        mask = MASKS[kind](Rebatched(normal(1_300), size), 0.5, 0, 0, 1_300)
        np.testing.assert_array_equal(np.isnan(read_whole(mask).table.values), whole)
    mask = MASKS[kind](normal(1_300), 0.5, 0, 0, 1_300)
    first, second = (read_whole(mask).table.values for _ in range(2))
    np.testing.assert_array_equal(first, second, err_msg="reading again starts over")


@pytest.mark.parametrize("kind", MASKS)
def test_values_that_are_not_hidden_stay_and_the_first_features_are_always_there(kind: str) -> None:
    stream = normal(2_000)
    masked = read_whole(MASKS[kind](stream, 0.5, 2, 0, 2_000)).table
    there = ~np.isnan(masked.values)
    assert there[:, :2].all()
    assert not there[:, 2:].all()
    np.testing.assert_array_equal(masked.values[there], stream.table.values[there])
    assert masked.targets == stream.table.targets


@pytest.mark.parametrize("kind", ["iid", "sudden", "burst", "value"])
@pytest.mark.parametrize("available", [0.03, 0.3, 0.8])
def test_the_mean_availability_is_what_was_asked_for(kind: str, available: float) -> None:
    away = hidden(kind, normal(30_000, 12), available)
    assert 1 - away.mean() == pytest.approx(available, abs=0.02)


@pytest.mark.parametrize("kind", ["iid", "sudden", "burst", "value"])
def test_the_ends(kind: str) -> None:
    assert hidden(kind, normal(100), 0.0).all()
    assert not hidden(kind, normal(100), 1.0).any()


@pytest.mark.parametrize("kind", ["iid", "sudden", "burst", "value"])
def test_seeds_and_features_differ(kind: str) -> None:
    one, other = hidden(kind, normal(2_000, 8), 0.5), hidden(kind, normal(2_000, 8), 0.5, seed=1)
    assert (one != other).mean() > 0.2
    assert (one[:, :-1] != one[:, 1:]).mean() > 0.2


def test_iid_is_independent() -> None:
    away = np.isnan(read_whole(Masked(normal(20_000), 0.3, 1, seed=5)).table.values)
    assert np.abs(np.corrcoef(away[:, 1:].T) - np.eye(3)).max() < 0.03
    assert abs(np.corrcoef(away[:-1, 1], away[1:, 1])[0, 1]) < 0.03


def test_trapezoidal_chunks() -> None:
    there = ~np.isnan(read_whole(Trapezoidal(normal(1_000, 21), 1.0, 0, 0, 1_000)).table.values)
    for k in range(1, 11):
        chunk = there[(k - 1) * 100 : k * 100]
        n = int(np.ceil(k * 21 / 10))
        assert chunk[:, :n].all()
        assert not chunk[:, n:].any()


def test_sudden_outages_are_one_stretch_round_the_stream() -> None:
    away = np.isnan(read_whole(Sudden(normal(1_000, 40), 0.7, 0, 0, 1_000)).table.values)
    assert (away.sum(axis=0) == 300).all()
    changes = (away != np.roll(away, 1, axis=0)).sum(axis=0)
    assert (changes == 2).all()
    assert {bool(x) for x in away[0]} == {True, False}, "some features are new later, some are there from the start"


def test_bursts_have_geometric_outages() -> None:
    away = np.isnan(read_whole(Bursts(normal(60_000, 3), 0.6, 0, 0)).table.values)
    lengths = []
    for column in away.T:
        edges = np.flatnonzero(np.diff(column.astype(int)))
        runs = np.diff(edges)
        lengths += runs[int(column[edges[0]]) :: 2].tolist() if column[edges[0]] else runs[::2].tolist()
    assert np.mean(lengths) == pytest.approx(OUTAGE, rel=0.08)
    assert np.std(lengths) == pytest.approx(np.sqrt(OUTAGE * (OUTAGE - 1)), rel=0.12)


def test_large_values_go_missing() -> None:
    stream = normal(20_000, 2)
    away = np.isnan(read_whole(ByValue(stream, 0.6, 0, 0)).table.values)
    z = (stream.table.values - 10) / 3
    assert away[z > 1].mean() > 0.8
    assert away[z < -1].mean() < 0.1
    assert np.corrcoef(away[:, 0], away[:, 1])[0, 1] == pytest.approx(0.0, abs=0.03)


def test_missing_values_stay_missing_and_constants_do_not_matter() -> None:
    values = np.ones((5_000, 2))
    values[::2, 1] = np.nan
    away = np.isnan(read_whole(ByValue(ArrayStream("c", Records((1, 2), values, [0] * 5_000)), 0.7, 0, 0)).table.values)
    assert away[::2, 1].all()
    assert 1 - away[:, 0].mean() == pytest.approx(0.7, abs=0.02)
    assert 1 - away[1::2, 1].mean() == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize("kind", ["burst", "value"])
def test_features_that_come_and_go_keep_their_state(kind: str) -> None:
    """A feature's fate does not depend on which batches name it."""

    @dataclass(frozen=True)
    class Named:
        """Column b is named in every other batch only."""

        name: str = "named"
        n_records: int | None = None

        def batches(self) -> Iterator[Records]:
            table = normal(600, 2).table
            for start in range(0, 600, 100):
                part = table.part(start, start + 100)
                if start % 200:
                    yield part
                else:
                    yield Records(part.names[:1], part.values[:, :1], part.targets)

    some = np.isnan(read_whole(MASKS[kind](Named(), 0.5, 0, 0)).table.values)
    if kind == "burst":
        whole = hidden(kind, normal(600, 2), 0.5)
        for start in range(100, 600, 200):
            np.testing.assert_array_equal(some[start : start + 100], whole[start : start + 100])
    assert some[:100, 1].all()
    assert not some[100:200, 1].all()


@pytest.mark.parametrize("kind", ["trapezoidal", "sudden"])
def test_a_schedule_needs_a_length(kind: str) -> None:
    with pytest.raises(BraidedError, match="give `length`"):
        read_whole(MASKS[kind](normal(10), 0.5, 0, 0))
