"""Records as their source has them, with text and dates, for a model that has rules for its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from braided.errors import BraidedError
from braided.serve.problems import HTTPProblem, shown
from braided.serve.records import RecordParser, Records, check_text
from braided.serve.settings import Limits
from braided.streams.encode.encoder import Encoder
from braided.streams.encode.flatten import flatten
from braided.streams.encode.saved import pack_step
from braided.streams.encode.settled import Step

#: Characters of one value.
_MAX_TEXT = 10_000
_KINDS = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class RawRecords:
    """Some records.

    Attributes
    ----------
    items
        Column names to values, one for each record.
    about
        Their labels: records without features.
    """

    items: list[dict[str, Any]]
    about: Records

    def __len__(self) -> int:
        return len(self.items)

    def part(self, start: int, stop: int) -> RawRecords:
        """The records from `start` to `stop`."""
        return RawRecords(self.items[start:stop], self.about.part(start, stop))


class RawRecordParser:
    """Turns decoded JSON objects `{"x": {...}, "y": ...}`, whose values may be text, into `RawRecords`.

    Parameters
    ----------
    labelled, regression, limits, key
        As of `RecordParser`.
    """

    def __init__(self, labelled: bool, regression: bool, limits: Limits, key: str | None = None) -> None:
        self.limits = limits
        self.key = key
        self._about = RecordParser(labelled, regression, limits, key=key)
        self._items: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._items)

    def add(self, record: Any) -> None:
        """Take in one record, or refuse it whole."""
        if type(record) is not dict or type(record.get("x")) is not dict:
            self._about.add(record)  # refuses it
        place = len(self)
        try:
            x = flatten(record["x"])
        except BraidedError as error:
            raise HTTPProblem(422, f"record {place}: {error}") from None
        if len(x) > self.limits.features:
            raise HTTPProblem(
                422, f"record {place} has {len(x)} values, and the limit is {self.limits.features}: leave some out"
            )
        for name, value in x.items():
            check_text(name, f"column {shown(name)} in record {place}", self.limits.text)
            if type(value) not in _KINDS or (type(value) is str and len(value) > _MAX_TEXT):
                raise HTTPProblem(
                    422, f"column {shown(name)} is {shown(value)} in record {place}: a number, null if missing, or "
                    f"text of at most {_MAX_TEXT:,} characters"
                )  # fmt: skip
        self._about.add({**record, "x": {name: value for name, value in x.items() if name == self.key}})
        self._items.append({str(name): value for name, value in x.items() if name != self.key})

    def done(self) -> RawRecords:
        """What was taken in."""
        return RawRecords(self._items, self._about.done())


def encoded(raw: RawRecords, rules: Encoder, noted: Sequence[Step], limits: Limits) -> tuple[Records, list[list[Any]]]:
    """Records as a model takes them, and what they add to the rules: the place of a record, and a step as JSON.

    Parameters
    ----------
    raw
        The records.
    rules, noted
        The rules, which grow, and where they note that.
    limits
        Of features in a record, and of characters in their names.
    """
    parser = RecordParser(False, False, limits)
    growth: list[list[Any]] = []
    for place, x in enumerate(raw.items):
        before = len(noted)
        try:
            learn = raw.about.weights is None or raw.about.weights[place] > 0.0
            parser.add({"x": rules.encode_one(x, bool(learn))})
        except BraidedError as error:
            raise HTTPProblem(422, f"record {place}: {str(error).removeprefix('the record: ')}") from None
        growth += [[place, *pack_step(step)] for step in noted[before:]]
    found = parser.done()
    return replace(
        raw.about, names=found.names, counts=found.counts, columns=found.columns, values=found.values
    ), growth
