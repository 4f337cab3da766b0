"""What went wrong for each key of a fleet."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.records import Predictions
from braided.store import MAX_COUNT, REMEDY, Array, check, checked
from braided.values import printable

#: Keys that are followed, those that came first.
MAX_KEYS = 100_000
#: Of a table of the most frequent keys, and of the worst.
_SHOWN = 10
#: A key with fewer records than this is not ranked among the worst.
ENOUGH = 10
#: Records of a key that are its first ones, and how many a key had learned before, by which all are counted apart.
FIRST = 20
AGES = (0, 1, 5, 20, 100, 500)
_RECORDS, _LOSS, _SHARED, _FIRST_LOSS = range(4)
#: Parts of equal length that the stream is cut into at most, and the records of each at first.
_PARTS, _PART = 8, 64
_WHAT = "the keys of the run"


class KeyTally:
    """For each key how many records were counted, and the loss of the fleet, over time, and of the shared model alone.

    The loss is 1 for an error, or the absolute error.

    Parameters
    ----------
    regression
        Whether targets are numbers.
    shared
        Whether there is a shared model, which is the last of the learners.

    Examples
    --------
    >>> tally = KeyTally(regression=True, shared=True)
    >>> predictions = Predictions(np.array([[1.0], [2.0]]), np.array([[0.0], [5.0]]))
    >>> tally.add(["a", "b"], predictions, [1.5, 2.0], [])
    >>> tally.result()["most"][0]
    {'key': 'a', 'records': 1, 'loss': 0.5, 'first': 0.5, 'shared': 1.5, 'over_time': [0.5]}
    >>> tally.result()["ages"]
    [{'from': 0, 'records': 2, 'loss': 0.25, 'shared': 2.25}]
    """

    def __init__(self, regression: bool, shared: bool) -> None:
        self._regression = regression
        self._shared = shared
        self._places: dict[str, int] = {}
        self._sums = np.zeros((16, 4))
        self._ages = np.zeros((len(AGES), 3))
        #: Records and loss of each key in each part of the stream.
        self._parts = np.zeros((16, _PARTS, 2))
        self._part = _PART
        #: Records so far, and those of them whose key is not followed.
        self._counted = 0
        self._others = 0

    def add(
        self, keys: Sequence[Any], predictions: Predictions, labels: Sequence[Any], classes: Sequence[Hashable]
    ) -> None:
        """Count records with a label."""
        if self._regression:
            truth = np.array(labels, dtype=np.float64)
            loss = np.abs(predictions.values[:, 0] - truth)
            shared = np.abs(predictions.own[:, -1] - truth)
        else:
            places = {label: place for place, label in enumerate(classes)}
            truth = np.array([places.get(label, -2) for label in labels])
            table = predictions.values
            likeliest = table.argmax(axis=1) if table.shape[1] else np.full(len(labels), -1)
            loss = 1.0 - ((likeliest == truth) & table.any(axis=1))
            shared = (predictions.own[:, -1] != truth).astype(np.float64)
        for key, *losses in zip(keys, loss.tolist(), shared.tolist(), strict=True):
            part = self._next_part()
            place = self._place(str(key))
            if place is None:
                self._others += 1
                continue
            before = self._sums[place, _RECORDS]
            self._ages[np.searchsorted(AGES, before, side="right") - 1] += (1.0, *losses)
            self._sums[place] += (1.0, *losses, losses[0] if before < FIRST else 0.0)
            self._parts[place, part] += (1.0, losses[0])

    def _next_part(self) -> int:
        """The part of the stream that the next record is in; when all are full, two become one."""
        if self._counted == _PARTS * self._part:
            self._part *= 2
            half = self._parts[:, 0::2] + self._parts[:, 1::2]
            self._parts = np.concatenate([half, np.zeros_like(half)], axis=1)
        self._counted += 1
        return (self._counted - 1) // self._part

    def _place(self, key: str) -> int | None:
        place = self._places.get(key)
        if place is None and len(self._places) < MAX_KEYS:
            place = self._places[key] = len(self._places)
            if place == len(self._sums):
                self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
                self._parts = np.concatenate([self._parts, np.zeros_like(self._parts)])
        return place

    def result(self) -> dict[str, Any]:
        """How many keys there are, the most frequent ones, and those with the largest mean loss.

        And the mean losses of records by how many their key had learned before.
        """
        names, sums = list(self._places), self._sums[: len(self._places)]
        means = sums[:, 1:] / np.maximum(sums[:, :1], 1.0)
        enough = np.flatnonzero(sums[:, _RECORDS] >= ENOUGH)
        most, worst = np.argsort(-sums[:, _RECORDS], kind="stable"), np.argsort(-means[enough, 0], kind="stable")
        found: dict[str, Any] = {"keys": len(names), "records_of_others": self._others}
        if self._shared:
            found["ahead"] = int((means[:, 0] < means[:, 1]).sum())
            found["behind"] = int((means[:, 0] > means[:, 1]).sum())
        ends = range(self._part, self._counted + self._part, self._part)
        found["until"] = [min(end, self._counted) for end in ends]
        for name, order in (("most", most), ("worst", enough[worst])):
            found[name] = [self._row(names[place], place) for place in order[:_SHOWN].tolist()]
        found["ages"] = [
            {"from": age, "records": int(n), "loss": loss / n, **({"shared": shared / n} if self._shared else {})}
            for age, (n, loss, shared) in zip(AGES, self._ages.tolist(), strict=True)
            if n
        ]
        return found

    def _row(self, key: str, place: int) -> dict[str, Any]:
        n, loss, shared, first = self._sums[place].tolist()
        row = {"key": printable(key), "records": int(n), "loss": loss / n, "first": first / min(n, FIRST)}
        if self._shared:
            row["shared"] = shared / n
        parts = self._parts[place, : -(-self._counted // self._part)].tolist()
        row["over_time"] = [lost / many if many else None for many, lost in parts]
        return row

    def state(self) -> tuple[list[str], dict[str, NDArray[np.float64]]]:
        """The keys, and the sums."""
        n = len(self._places)
        counted = np.array([self._counted, self._others, self._part], dtype=np.float64)
        sums, parts = self._sums[:n].copy(), self._parts[:n].copy()
        return list(self._places), {"sums": sums, "ages": self._ages.copy(), "counted": counted, "parts": parts}

    def load_state(self, keys: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        known = checked(_WHAT, {"keys": keys}, "keys", list)
        n = len(known)
        if n > MAX_KEYS or not all(isinstance(key, str) for key in known) or len(set(known)) < n:
            raise BraidedError(f"{_WHAT} are not different texts: {REMEDY}")
        schema = {
            "sums": Array((n, 4), low=0.0),
            "ages": Array((len(AGES), 3), low=0.0),
            "counted": Array((3,), low=[0.0, 0.0, _PART], high=MAX_COUNT),
            "parts": Array((n, _PARTS, 2), low=0.0),
        }
        check(_WHAT, schema, arrays)
        counted, others, part = (int(count) for count in arrays["counted"])
        if counted > _PARTS * part:
            raise BraidedError(f"{_WHAT}: {counted} records are more than {_PARTS} parts of {part}: {REMEDY}")
        self._places = {key: place for place, key in enumerate(known)}
        room = max(16, n)
        self._sums = np.concatenate([arrays["sums"], np.zeros((room, 4))])
        self._ages = arrays["ages"].copy()
        self._counted, self._others, self._part = counted, others, part
        self._parts = np.concatenate([arrays["parts"], np.zeros((room, _PARTS, 2))])
