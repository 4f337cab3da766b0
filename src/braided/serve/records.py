"""Records as they come in: strict JSON, checked, and kept as sparse arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import orjson
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.serve.problems import HTTPProblem, shown
from braided.serve.settings import Limits
from braided.values import key_text

#: A table of records to learn has at most this many cells at a time.
_MAX_CELLS = 1_000_000
_NUMBERS = (int, bool)
_MAX_WHOLE = 2**53
#: The types of values in which there is nothing to check but whether they are finite.
_ONLY_FLOATS = {float}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise HTTPProblem(400, f"the key {shown(twice)} stands twice in one object: give each key once")
    return found


def _no_constant(text: str) -> NoReturn:
    raise HTTPProblem(400, f"{text} is not JSON: leave a missing feature out, or give null")


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant)
#: The fast parser rounds whole numbers beyond 64 bits, and keeps silent about it.
_HUGE = 2.0**63
_NEVER = -(2**60)


def _count_strings(value: Any) -> int:
    """Keys and texts in a decoded document; negative if it holds a number that may have been rounded."""
    kind = type(value)
    if kind is dict:
        count = len(value)
        items: Iterable[Any] = value.values()
    elif kind is list:
        count, items = 0, value
    else:
        return 1 if kind is str else 0
    for item in items:
        if type(item) is float:
            if not -_HUGE < item < _HUGE:
                return _NEVER
        elif item is not None:
            count += _count_strings(item)
    return count


def decode_json(content: bytes, what: str = "the body") -> Any:
    """Strict JSON: UTF-8, no NaN or Infinity, no key twice, no nesting beyond reason.

    A parser that is ten times as fast reads what is plain. It takes the last of two equal keys without a word; where
    nothing is escaped every key and text has two quotation marks, so one that got lost is missed in the count.
    Whatever is not plain is read, or refused, by the slow parser, which knows what to say.
    """
    if b"\\" not in content:
        try:
            document = orjson.loads(content)
            if 2 * _count_strings(document) == content.count(b'"'):
                return document
        except (orjson.JSONDecodeError, RecursionError):
            pass
    return _decode_strictly(content, what)


def _decode_strictly(content: bytes, what: str) -> Any:
    try:
        return _DECODER.decode(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise HTTPProblem(400, f"{what} is not UTF-8 ({error.reason} at byte {error.start})") from None
    except RecursionError:
        raise HTTPProblem(400, f"{what} is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise HTTPProblem(
            400, f"{what} is not JSON: {error.msg} (line {error.lineno}, column {error.colno}, character {error.pos})"
        ) from None
    except ValueError:
        raise HTTPProblem(400, f"{what} holds a number of too many digits: give at most 4,300") from None


def check_text(text: Any, what: str, most: int) -> str:
    """A name or label that can be stored and shown."""
    if not isinstance(text, str):
        raise HTTPProblem(422, f"{what} is {shown(text)}: give text")
    if not 1 <= len(text) <= most:
        raise HTTPProblem(422, f"{what} has {len(text)} characters: give 1 to {most}")
    if not text.isprintable():
        raise HTTPProblem(422, f"{what} is {shown(text)}: it may hold printable characters only")
    return text


def checked_key(value: Any, name: str, place: int, most: int) -> str:
    """A key of a fleet, as the fleet has it."""
    what = f"the key {shown(name)} of record {place}"
    try:
        text = key_text(value, name, place)
    except BraidedError as error:
        raise HTTPProblem(422, str(error)) from None
    if text is None or (type(value) in (int, float) and abs(value) > _MAX_WHOLE):
        raise HTTPProblem(422, f"{what} is {shown(value)}: give text, true, false or a whole number up to 2**53")
    return check_text(text, what, most)


@dataclass(frozen=True)
class Records:
    """Some records, their values as sparse rows.

    Attributes
    ----------
    names
        Feature names that have a value in at least one record.
    counts
        (n,) how many values each record has.
    columns, values
        Which name, and the value; record after record.
    labels
        n labels or targets; empty if the records have none.
    weights
        (n,) how much each counts; None for 1 each.
    keys
        Of a fleet, n keys, None for a record without one.
    """

    names: list[str]
    counts: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]
    labels: list[Any]
    weights: NDArray[np.float64] | None = None
    keys: list[str | None] | None = None

    def __len__(self) -> int:
        return int(self.counts.size)

    def part(self, start: int, stop: int) -> Records:
        """The records from `start` to `stop`."""
        first, last = int(self.counts[:start].sum()), int(self.counts[:stop].sum())
        return renamed(
            self.names, self.counts[start:stop], self.columns[first:last], self.values[first:last],
            self.labels[start:stop], None if self.weights is None else self.weights[start:stop],
            None if self.keys is None else self.keys[start:stop],
        )  # fmt: skip

    def key_of(self, rows: slice) -> dict[str, Any]:
        """What a fleet is told of the keys of some records."""
        return {} if self.keys is None else {"keys": self.keys[rows]}

    def one(self, place: int) -> dict[str, float]:
        """One record by names."""
        first = int(self.counts[:place].sum()) if place else 0
        last = first + int(self.counts[place])
        names = [self.names[column] for column in self.columns[first:last].tolist()]
        return dict(zip(names, self.values[first:last].tolist(), strict=True))

    @property
    def rows_per_table(self) -> int:
        """How many records `tables` puts into one table at most."""
        return max(1, _MAX_CELLS // max(len(self.names), 1))

    def tables(self, most: int = 2**30) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Consecutive slices of at most `most` records, each with its (n, names) table, NaN for missing."""
        step = min(most, self.rows_per_table)
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        for start in range(0, len(self), step):
            stop = min(start + step, len(self))
            table = np.full((stop - start, len(self.names)), np.nan)
            inside = slice(int(ends[start]), int(ends[stop]))
            rows = np.repeat(np.arange(stop - start), self.counts[start:stop])
            table[rows, self.columns[inside]] = self.values[inside]
            yield slice(start, stop), table


NOTHING = Records([], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), [])


def renamed(
    names: Sequence[str],
    counts: NDArray[np.int64],
    columns: NDArray[np.int64],
    values: NDArray[np.float64],
    labels: list[Any],
    weights: NDArray[np.float64] | None = None,
    keys: list[str | None] | None = None,
) -> Records:
    """Records whose names are only those that they use."""
    used, places = np.unique(columns, return_inverse=True)
    if used.size == len(names):
        return Records(list(names), counts, columns, values, labels, weights, keys)
    return Records([names[i] for i in used.tolist()], counts, places.astype(np.int64), values, labels, weights, keys)


def joined(parts: Sequence[Records]) -> Records:
    """Records of several requests, one after another."""
    if len(parts) == 1:
        return parts[0]
    places: dict[str, int] = {}
    columns = []
    for part in parts:
        to = np.array([places.setdefault(name, len(places)) for name in part.names], dtype=np.int64)
        columns.append(to[part.columns] if part.columns.size else part.columns)
    empty = np.zeros(0, dtype=np.int64)
    return Records(
        list(places),
        np.concatenate([empty, *(part.counts for part in parts)]),
        np.concatenate([empty, *columns]),
        np.concatenate([np.zeros(0), *(part.values for part in parts)]),
        [label for part in parts for label in part.labels],
        _joined_weights(parts),
        _joined_keys(parts),
    )


def _joined_keys(parts: Sequence[Records]) -> list[str | None] | None:
    if all(part.keys is None for part in parts):
        return None
    return [key for part in parts for key in (part.keys or [None] * len(part))]


def _joined_weights(parts: Sequence[Records]) -> NDArray[np.float64] | None:
    if all(part.weights is None for part in parts):
        return None
    return np.concatenate([np.ones(len(part)) if part.weights is None else part.weights for part in parts])


def is_plain(document: Any, known: Set[str]) -> bool:
    """Whether a document is one record without a label in which there is nothing to check: numbers of known features.

    >>> [is_plain({"x": x}, {"a", "b"}) for x in ({"a": 1.0}, {"a": 1e400}, {"c": 1.0})]
    [True, False, False]
    """
    if type(document) is not dict or document.keys() != {"x"} or type(document["x"]) is not dict:
        return False
    x = document["x"]
    # A sum is finite only if all its parts are; where huge parts overflow it, the record is checked one by one.
    return x.keys() <= known and set(map(type, x.values())) == _ONLY_FLOATS and math.isfinite(sum(x.values()))


class RecordParser:
    """Turns decoded JSON objects `{"x": {...}, "y": ..., "w": weight}` into `Records`; "w" may be left out.

    Parameters
    ----------
    labelled
        Whether each record must have a label, or none.
    regression
        Whether labels are numbers to predict.
    limits
        Of features in a record, and of characters in a name or label.
    known
        Feature names that need no further check.
    key
        The field with the key, of a fleet; it is no feature.
    """

    def __init__(
        self, labelled: bool, regression: bool, limits: Limits, known: Iterable[str] = (), key: str | None = None
    ) -> None:
        self.labelled = labelled
        self.regression = regression
        self.limits = limits
        self.known = known if isinstance(known, set | dict) else set(known)
        self.key = key
        self._keys: list[str | None] = []
        self._names: dict[str, int] = {}
        self._counts: list[int] = []
        self._columns: list[int] = []
        self._values: list[float] = []
        self._labels: list[Any] = []
        #: Of the records that have one.
        self._weights: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, record: Any) -> None:
        """Take in one record, or refuse it whole."""
        place = len(self._counts)
        allowed = 1 + self.labelled + (self.labelled and type(record) is dict and "w" in record)
        if type(record) is not dict or "x" not in record or type(record["x"]) is not dict or len(record) > allowed:
            wanted = '{"x": {"name": number, ...}, "y": label}' if self.labelled else '{"x": {"name": number, ...}}'
            raise HTTPProblem(422, f"record {place} is {shown(record)}: give {wanted}")
        x = record["x"]
        if self.key is not None:
            x = self._without_key(x, self.key, place)
        if len(x) > self.limits.features:
            raise HTTPProblem(
                422, f"record {place} has {len(x)} features, and the limit is {self.limits.features}: leave "
                "some out"
            )  # fmt: skip
        if self.labelled:
            if "y" not in record:
                raise HTTPProblem(422, f'record {place} has no label "y": every record to learn needs one')
            label = self.label(record["y"], place)
            if "w" in record:
                self._weights[place] = self.weight(record["w"], place)
            self._labels.append(label)
        names, columns, values = self._names, self._columns, self._values
        if x.keys() <= names.keys() and set(map(type, x.values())) == _ONLY_FLOATS:
            columns += map(names.__getitem__, x)
            values += x.values()
            self._counts.append(len(x))
            return
        before = len(values)
        for name, value in x.items():
            if type(value) is not float:
                if value is None:
                    continue
                if type(value) not in _NUMBERS:
                    remedy = '; a model made with {"encode": true} takes text' if type(value) is str else ""
                    raise HTTPProblem(
                        422, f"feature {shown(name)} is {shown(value)} in record {place}: numbers, or null if missing"
                        f"{remedy}"
                    )  # fmt: skip
                try:
                    value = float(value)
                except OverflowError:
                    value = math.inf
            column = names.get(name)
            if column is None:
                if name not in self.known:
                    check_text(name, f"feature {shown(name)} in record {place}", self.limits.text)
                column = names[name] = len(names)
            columns.append(column)
            values.append(value)
        self._counts.append(len(values) - before)

    def _without_key(self, x: dict[str, Any], name: str, place: int) -> dict[str, Any]:
        """Take in the key of a record; the record without it."""
        value = x.get(name)
        missing = value is None or (type(value) is str and not value.strip())
        if missing and self.labelled:
            raise HTTPProblem(
                422, f"record {place} has no key {shown(name)}: the model is a fleet, so give text or a whole number"
            )
        self._keys.append(None if missing else checked_key(value, name, place, self.limits.text))
        return {other: found for other, found in x.items() if other != name}

    def label(self, y: Any, place: int) -> Any:
        """A label or target, checked."""
        what = f"the label of record {place}"
        if self.regression:
            if type(y) in (int, float):
                try:
                    number = float(y)
                except OverflowError:
                    number = math.inf
                if math.isfinite(number):
                    return number
            raise HTTPProblem(422, f"{what} is {shown(y)}: this model predicts numbers, so give a finite one")
        if type(y) is str:
            return check_text(y, what, self.limits.text)
        if type(y) is bool or (type(y) is int and abs(y) <= 2**53) or (type(y) is float and math.isfinite(y)):
            return y
        raise HTTPProblem(422, f"{what} is {shown(y)}: give text, true, false or a number (whole ones up to 2**53)")

    def weight(self, w: Any, place: int) -> float:
        """A weight, checked."""
        if type(w) in (int, float):
            try:
                number = float(w)
            except OverflowError:
                number = math.inf
            if 0.0 <= number < math.inf:
                return number
        raise HTTPProblem(422, f"the weight of record {place} is {shown(w)}: give a finite number from 0 on")

    def done(self) -> Records:
        """What was taken in; values that are not finite are refused."""
        values = np.array(self._values, dtype=np.float64)
        counts = np.array(self._counts, dtype=np.int64)
        if not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            name = list(self._names)[self._columns[at]]
            place = int(np.searchsorted(np.cumsum(counts), at, side="right"))
            raise HTTPProblem(
                422, f"feature {shown(name)} in record {place} is too large for a number: it must be finite, or null"
            )
        columns = np.array(self._columns, dtype=np.int64)
        weights = None
        if self._weights:
            weights = np.array([self._weights.get(place, 1.0) for place in range(len(counts))])
        keys = None if self.key is None else self._keys
        return Records(list(self._names), counts, columns, values, self._labels, weights, keys)
