"""How features go missing: streams with values hidden, each a function of its seed, feature names and record numbers.

All masks leave the first `always` features of the first batch alone, and none depends on how records are cut into
batches.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.kernels.native import DoubleRows, Hashes, Ints, entry
from braided.kernels.random import key_of, mix, unit_interval
from braided.records import Labels, Records
from braided.streams.base import Stream

#: Chunks of a trapezoidal stream.
CHUNKS = 10
#: Mean length of an outage in bursts, in records.
OUTAGE = 20.0
#: How much a value that is one deviation larger lowers the log-odds of being available.
STEEPNESS = 2.0
#: How much the log-odds follow the difference to the asked availability after each value.
_FOLLOW = 0.02


@dataclass(frozen=True)
class Mask(ABC):
    """What the masks share.

    Attributes
    ----------
    stream
        What is masked.
    available
        Probability that a feature is available.
    always
        How many features, from the first, are never hidden.
    seed
        Of all draws.
    length
        How many records the stream has, if that is known; `trapezoidal` and `sudden` need it.
    """

    stream: Stream
    available: float
    always: int
    seed: int
    length: int | None = None

    #: Numbers that are kept for each feature from record to record.
    n_state: ClassVar[int] = 0

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.stream.name

    @property
    def n_records(self) -> int | None:
        """As many as the stream has."""
        return self.stream.n_records

    def batches(self) -> Iterator[Records | Labels]:
        """The stream's batches with values hidden."""
        record = 0
        order: dict[Hashable, int] | None = None
        states: dict[Hashable, NDArray[np.float64]] = {}
        for batch in self.stream.batches():
            if isinstance(batch, Labels):
                yield batch
                continue
            if order is None:
                order = {name: i for i, name in enumerate(batch.names)}
            ranks = [order.get(name, len(order)) for name in batch.names]
            columns = [i for i, rank in enumerate(ranks) if rank >= self.always]
            names = [batch.names[i] for i in columns]
            keys = np.array([key_of(self.seed, "mask", str(name)) for name in names], dtype=np.uint64)
            state = np.zeros((len(names), self.n_state))
            for i, name in enumerate(names):
                state[i] = states.get(name, 0.0)
            n = max(len(order), 1)
            places = np.array([min(ranks[i], n - 1) / n for i in columns])
            values = batch.values.copy()
            self.hide(values, np.array(columns, dtype=np.int64), keys, record, state, places)
            states |= zip(names, state, strict=True)
            yield replace(batch, values=values)
            record += len(batch)

    @abstractmethod
    def hide(
        self,
        values: NDArray[np.float64],
        columns: NDArray[np.int64],
        keys: NDArray[np.uint64],
        first_record: int,
        state: NDArray[np.float64],
        places: NDArray[np.float64],
    ) -> None:
        """Set values to NaN in place.

        Parameters
        ----------
        values
            (records, features).
        columns, keys
            The features that may be hidden, and the key of each one's draws.
        first_record
            Number of the first record.
        state
            (columns, n_state), zero for a feature not seen before; changed in place.
        places
            Each column's place among the features of the first batch, i / d for the one with i before it; that of the
            last for a feature that is not among them.
        """

    def known_length(self) -> int:
        """The number of records, which a schedule needs."""
        if self.length is None:
            raise BraidedError(
                f"stream {self.stream.name!r}: this mask follows a schedule over the whole stream, whose length is "
                f"not known: give `length`"
            )
        return self.length


@entry
def _hide_iid(values: DoubleRows, columns: Ints, keys: Hashes, first_record: int, available: float) -> None:
    for j in range(columns.shape[0]):
        for i in range(values.shape[0]):
            if unit_interval(mix(keys[j], first_record + i)) >= available:
                values[i, columns[j]] = np.nan


@dataclass(frozen=True)
class Masked(Mask):
    """Each feature is available with probability `available`, independently in each record.

    Examples
    --------
    >>> from braided.streams import ArrayStream, read_whole
    >>> stream = ArrayStream("ones", Records(("a", "b"), np.ones((1000, 2)), [0] * 1000))
    >>> masked = read_whole(Masked(stream, available=0.3, always=1, seed=0))
    >>> (~np.isnan(masked.table.values)).mean(axis=0)
    array([1.   , 0.281])
    """

    def hide(self, values, columns, keys, first_record, state, places):  # noqa: D102
        _hide_iid(values, columns, keys, first_record, self.available)


@dataclass(frozen=True)
class Trapezoidal(Mask):
    """Ten chunks of equal length; in chunk k = 1, ..., 10 the first ceil(k d / 10) of the d features are available.

    `available` is not used. d and the order are those of the first batch; a feature that is not in it comes with the
    last chunk.

    Examples
    --------
    >>> from braided.streams import ArrayStream, read_whole
    >>> stream = ArrayStream("ones", Records(tuple("abcd"), np.ones((20, 4)), [0] * 20))
    >>> masked = read_whole(Trapezoidal(stream, 1.0, always=0, seed=0, length=20))
    >>> (~np.isnan(masked.table.values)).sum(axis=1)[::2]
    array([1, 1, 2, 2, 2, 3, 3, 4, 4, 4])
    """

    def hide(self, values, columns, keys, first_record, state, places):  # noqa: D102
        length = self.known_length()
        record = first_record + np.arange(len(values))
        chunk = np.minimum(record * CHUNKS // length, CHUNKS - 1) + 1
        for column, place in zip(columns, places, strict=True):
            # i < ceil(k d / 10) for whole numbers is i < k d / 10.
            values[place >= chunk / CHUNKS, column] = np.nan


@dataclass(frozen=True)
class Sudden(Mask):
    """Each feature is away for one stretch of the stream, a share 1 - `available` of it, from a random record on.

    A stretch that would go beyond the end goes on at the beginning, so some features are new at some time, some
    become obsolete, and some fail and come back; at any time the share of features there is `available`.

    Examples
    --------
    >>> from braided.streams import ArrayStream, read_whole
    >>> stream = ArrayStream("ones", Records(tuple("abc"), np.ones((10, 3)), [0] * 10))
    >>> masked = read_whole(Sudden(stream, 0.6, always=0, seed=0, length=10))
    >>> print((~np.isnan(masked.table.values)).astype(int).T)
    [[1 1 0 0 0 0 1 1 1 1]
     [1 1 1 1 1 0 0 0 0 1]
     [0 0 0 1 1 1 1 1 1 0]]
    """

    def hide(self, values, columns, keys, first_record, state, places):  # noqa: D102
        length = self.known_length()
        record = first_record + np.arange(len(values))
        away = round((1.0 - self.available) * length)
        for column, key in zip(columns, keys, strict=True):
            start = int(unit_interval(np.uint64(mix(key, 0))) * length)
            values[(record - start) % length < away, column] = np.nan


@entry
def _hide_bursts(
    values: DoubleRows, columns: Ints, keys: Hashes, first_record: int, state: DoubleRows, available: float,
    recover: float, fail: float,
) -> None:  # fmt: skip
    for j in range(columns.shape[0]):
        # The state is the number of records gone through, and whether the feature was there in the last of them.
        n, there = np.int64(state[j, 0]), state[j, 1] > 0
        while n < first_record + values.shape[0]:
            draw = unit_interval(mix(keys[j], n))
            there = draw < (available if n == 0 else 1.0 - fail if there else recover)
            if n >= first_record and not there:
                values[n - first_record, columns[j]] = np.nan
            n += 1
        state[j, 0], state[j, 1] = n, np.float64(there)


@dataclass(frozen=True)
class Bursts(Mask):
    """Each feature fails and recovers at random: outages of geometric length, and in the mean `available` of the time.

    An outage lasts 20 records in the mean, or (1 - available) / available if that is more: a feature so rarely there
    fails after every record.

    Examples
    --------
    >>> from braided.streams import ArrayStream, read_whole
    >>> stream = ArrayStream("ones", Records(tuple("ab"), np.ones((50_000, 2)), [0] * 50_000))
    >>> masked = read_whole(Bursts(stream, 0.6, always=1, seed=0))
    >>> (~np.isnan(masked.table.values)).mean(axis=0).round(2)
    array([1.  , 0.59])
    """

    n_state: ClassVar[int] = 2

    def hide(self, values, columns, keys, first_record, state, places):  # noqa: D102
        odds = math.inf if self.available == 1.0 else self.available / (1.0 - self.available)
        recover = min(1.0 / OUTAGE, odds)
        fail = 0.0 if odds == math.inf else recover / odds if odds > 0 else 1.0
        _hide_bursts(values, columns, keys, first_record, state, self.available, recover, fail)


@entry
def _hide_by_value(
    values: DoubleRows, columns: Ints, keys: Hashes, first_record: int, state: DoubleRows, available: float,
    start: float,
) -> None:  # fmt: skip
    for j in range(columns.shape[0]):
        n, mean, squares, shift = state[j, 0], state[j, 1], state[j, 2], state[j, 3]
        for i in range(values.shape[0]):
            value = values[i, columns[j]]
            if np.isnan(value):
                continue
            n += 1.0
            step = value - mean
            mean += step / n
            squares += step * (value - mean)
            deviation = math.sqrt(squares / n)
            z = min(max((value - mean) / deviation, -5.0), 5.0) if deviation > 0.0 else 0.0
            probability = 1.0 / (1.0 + math.exp(STEEPNESS * z - start - shift))
            shift += _FOLLOW * (available - probability)
            if unit_interval(mix(keys[j], first_record + i)) >= probability:
                values[i, columns[j]] = np.nan
        state[j, 0], state[j, 1], state[j, 2], state[j, 3] = n, mean, squares, shift


@dataclass(frozen=True)
class ByValue(Mask):
    """The larger a value, the likelier it is missing, so that being missing says something about the value.

    With z the value standardised by the feature's mean and deviation up to this record, hidden values counted,

        P(available) = sigma(b - 2 z),    b += 0.02 (available - P(available))

    b starts where a normal z gives `available` in the mean, and is held there for other distributions by the second
    rule.

    Examples
    --------
    >>> from braided.streams import ArrayStream, read_whole
    >>> values = np.random.default_rng(0).exponential(size=(20_000, 1))
    >>> stream = ArrayStream("d", Records(("a",), values, [0] * 20_000))
    >>> masked = read_whole(ByValue(stream, 0.6, 0, seed=0)).table.values
    >>> there = ~np.isnan(masked[:, 0])
    >>> print(f"{there.mean():.2f} {there[values[:, 0] > 2].mean():.2f} {there[values[:, 0] < 0.5].mean():.2f}")
    0.60 0.05 0.86
    """

    n_state: ClassVar[int] = 4

    def hide(self, values, columns, keys, first_record, state, places):  # noqa: D102
        if self.available in {0.0, 1.0}:
            _hide_iid(values, columns, keys, first_record, self.available)
            return
        log_odds = math.log(self.available / (1.0 - self.available))
        start = log_odds * math.sqrt(1.0 + math.pi * STEEPNESS**2 / 8.0)
        _hide_by_value(values, columns, keys, first_record, state, self.available, start)


MASKS: dict[str, type[Mask]] = {
    "iid": Masked,
    "trapezoidal": Trapezoidal,
    "sudden": Sudden,
    "burst": Bursts,
    "value": ByValue,
}
