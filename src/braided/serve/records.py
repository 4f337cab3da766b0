"""Records as they come in: strict JSON, checked, as the arrays that models take."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import orjson

from braided.encode.encoder import Encoder
from braided.encode.flatten import flatten
from braided.encode.saved import pack_step
from braided.encode.settled import Step
from braided.errors import BraidedError
from braided.records import Records
from braided.serve.problems import HTTPProblem, shown
from braided.serve.settings import Limits
from braided.values import key_text

#: Cells of the table that the records of a request make, with a column for every name among them.
MAX_CELLS = 4_000_000
#: Characters of a value that is text.
_MAX_TEXT = 10_000
_MAX_WHOLE = 2**53
_RAW_KINDS = (str, int, float, bool, type(None))
#: The types of values in which there is nothing to check but whether they are finite.
_ONLY_FLOATS = {float}
#: The fast parser rounds whole numbers beyond 64 bits silently.
_HUGE = 2.0**63
_NEVER = -(2**60)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise HTTPProblem(400, f"the key {shown(name)} stands twice in one object: give each key once")
        found[name] = value
    return found


def _no_constant(text: str) -> NoReturn:
    raise HTTPProblem(400, f"{text} is not JSON: leave a missing feature out, or give null")


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant)


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

    A parser ten times as fast reads what is plain. Of two equal keys it silently takes the last; where nothing is
    escaped every key and text has two quotation marks, so that a lost key shows in the count. The slow parser reads
    the rest, and says what is wrong.
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
        where = f"line {error.lineno}, column {error.colno}, character {error.pos}"
        raise HTTPProblem(400, f"{what} is not JSON: {error.msg} ({where})") from None
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


def as_float(value: Any) -> float:
    """A number of JSON; infinite if it is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def checked_label(y: Any, place: int, regression: bool, limits: Limits) -> Any:
    """A label or target."""
    what = f"the label of record {place}"
    if regression:
        if type(y) in (int, float) and math.isfinite(number := as_float(y)):
            return number
        raise HTTPProblem(422, f"{what} is {shown(y)}: this model predicts numbers, so give a finite one")
    if type(y) is str:
        return check_text(y, what, limits.text)
    if type(y) is bool or (type(y) is int and abs(y) <= _MAX_WHOLE) or (type(y) is float and math.isfinite(y)):
        return y
    raise HTTPProblem(422, f"{what} is {shown(y)}: give text, true, false or a number (whole ones up to 2**53)")


def checked_weight(w: Any, place: int) -> float:
    """How much a record counts."""
    if type(w) in (int, float) and 0.0 <= (number := as_float(w)) < math.inf:
        return number
    raise HTTPProblem(422, f"the weight of record {place} is {shown(w)}: give a finite number from 0 on")


@dataclass(frozen=True)
class RawRecords:
    """Records with text and dates, for a model that encodes: their values by column, and the rest in `about`."""

    items: list[dict[str, Any]]
    about: Records

    def __len__(self) -> int:
        return len(self.items)

    def part(self, start: int, stop: int) -> RawRecords:
        """The records from `start` to `stop`."""
        return RawRecords(self.items[start:stop], self.about.part(start, stop))


class RecordParser:
    """Turns decoded JSON objects `{"x": {...}, "y": ..., "w": weight}` into records; "w" may be left out.

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
    raw
        Whether values may be text, for a model that encodes.
    """

    def __init__(
        self,
        labelled: bool,
        regression: bool,
        limits: Limits,
        known: Collection[str] = (),
        key: str | None = None,
        raw: bool = False,
    ) -> None:
        self.labelled = labelled
        self.regression = regression
        self.limits = limits
        self.known = known
        self.key = key
        self.raw = raw
        self._fields = {"x", "y", "w"} if labelled else {"x"}
        self._items: list[dict[str, Any]] = []
        self._keys: list[str | None] = []
        self._names: dict[str, int] = {}
        self._counts: list[int] = []
        self._columns: list[int] = []
        self._values: list[float] = []
        self._labels: list[Any] = []
        self._weights: list[float] = []

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, record: Any) -> None:
        """Take in one record, or refuse it whole."""
        place = len(self._counts)
        if type(record) is not dict or type(record.get("x")) is not dict or not record.keys() <= self._fields:
            wanted = '{"x": {"name": number, ...}, "y": label}' if self.labelled else '{"x": {"name": number, ...}}'
            raise HTTPProblem(422, f"record {place} is {shown(record)}: give {wanted}")
        x = self._flat(record["x"], place) if self.raw else record["x"]
        if self.key is not None:
            x = self._without_key(x, self.key, place)
        if len(x) > self.limits.features:
            raise HTTPProblem(
                422, f"record {place} has {len(x)} features, and the limit is {self.limits.features}: leave some out"
            )
        if self.labelled:
            if "y" not in record:
                raise HTTPProblem(422, f'record {place} has no label "y": every record to learn needs one')
            label = checked_label(record["y"], place, self.regression, self.limits)
            weight = checked_weight(record["w"], place) if "w" in record else 1.0
        if self.raw:
            self._check_cells(x, place)
            self._items.append(x)
            self._counts.append(0)
        else:
            self._add_values(x, place)
        if self.labelled:
            self._labels.append(label)
            self._weights.append(weight)

    def _flat(self, x: dict[str, Any], place: int) -> dict[Any, Any]:
        try:
            return flatten(x)
        except BraidedError as error:
            raise HTTPProblem(422, f"record {place}: {error}") from None

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

    def _check_cells(self, x: dict[str, Any], place: int) -> None:
        for name, value in x.items():
            check_text(name, f"column {shown(name)} in record {place}", self.limits.text)
            if type(value) not in _RAW_KINDS or (type(value) is str and len(value) > _MAX_TEXT):
                wanted = f"a number, null if missing, or text of at most {_MAX_TEXT:,} characters"
                raise HTTPProblem(422, f"column {shown(name)} is {shown(value)} in record {place}: {wanted}")

    def _add_values(self, x: dict[str, Any], place: int) -> None:
        names, columns, values = self._names, self._columns, self._values
        if x.keys() <= names.keys() and set(map(type, x.values())) == _ONLY_FLOATS:
            columns += map(names.__getitem__, x)
            values += x.values()
            self._counts.append(len(x))
            return
        new: list[float] = []
        for name, value in x.items():
            if value is None:
                continue
            if type(value) not in (float, int, bool):
                remedy = '; a model made with {"encode": true} takes text' if type(value) is str else ""
                wanted = f"numbers, or null if missing{remedy}"
                raise HTTPProblem(422, f"feature {shown(name)} is {shown(value)} in record {place}: {wanted}")
            if name not in names:
                if name not in self.known:
                    check_text(name, f"feature {shown(name)} in record {place}", self.limits.text)
                names[name] = len(names)
            columns.append(names[name])
            new.append(as_float(value))
        values += new
        self._counts.append(len(new))

    def done(self) -> Records | RawRecords:
        """What was taken in; values that are not finite are refused, as is a table too large for memory."""
        names, n = tuple(self._names), len(self)
        if len(names) * n > MAX_CELLS:
            raise HTTPProblem(
                413, f"{n} records have {len(names):,} features between them: send fewer records at a time"
            )
        values = np.array(self._values, dtype=np.float64)
        rows = np.repeat(np.arange(n), self._counts)
        if not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            what = f"feature {shown(names[self._columns[at]])} in record {rows[at]}"
            raise HTTPProblem(422, f"{what} is too large for a number: it must be finite, or null")
        table = np.full((n, len(names)), np.nan)
        table[rows, self._columns] = values
        weights = np.array(self._weights) if self.labelled and self._weights != [1.0] * n else None
        keys = None if self.key is None else self._keys
        found = Records(names, table, self._labels if self.labelled else None, weights, keys, first=0)
        return RawRecords(self._items, found) if self.raw else found


def is_plain(document: Any, known: Collection[str]) -> bool:
    """Whether a document is one record without a label in which there is nothing to check: numbers of known features.

    >>> [is_plain({"x": x}, {"a", "b"}) for x in ({"a": 1.0}, {"a": 1e400}, {"c": 1.0})]
    [True, False, False]
    """
    if type(document) is not dict or document.keys() != {"x"} or type(document["x"]) is not dict:
        return False
    x = document["x"]
    # A sum is finite only if all its parts are; where huge parts overflow it, the record is checked one by one.
    return (
        all(name in known for name in x)
        and set(map(type, x.values())) == _ONLY_FLOATS
        and math.isfinite(sum(x.values()))
    )


def encoded(raw: RawRecords, rules: Encoder, limits: Limits, noted: Sequence[Step] | None = None) -> Any:
    """Raw records as a model takes them, and what they add to the rules: the place of a record, and a step as JSON.

    Without a list in which the rules note what they settle, nothing is added to them.
    """
    parser, growth = RecordParser(False, False, limits), []
    for place, x in enumerate(raw.items):
        before = len(noted or ())
        learn = noted is not None and (raw.about.weights is None or bool(raw.about.weights[place] > 0.0))
        try:
            parser.add({"x": rules.encode_one(x, learn)})
        except BraidedError as error:
            raise HTTPProblem(422, f"record {place}: {str(error).removeprefix('the record: ')}") from None
        growth += [[place, *pack_step(step)] for step in (noted or ())[before:]]
    found = parser.done()
    assert isinstance(found, Records)
    return replace(raw.about, names=found.names, values=found.values), growth
