"""What went wrong for each key of a fleet."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.records import Predictions
from braided.state import LARGE, ArrayRule, check_arrays, checked
from braided.values import printable

#: So many keys are followed, those that came first.
MOST_KEYS = 100_000
#: Of a table of the most frequent keys, and of the worst.
_SHOWN = 10
#: A key with fewer records than this is no worst one.
ENOUGH = 10
#: Records of a key that are its first ones, and how many a key had learned before, by which all are counted apart.
FIRST = 20
AGES = (0, 1, 5, 20, 100, 500)
_RECORDS, _LOSS, _SHARED, _FIRST_LOSS = range(4)
#: The stream is cut into so many parts of equal length at most, of so many records at first.
_PARTS, _PART = 8, 64
_WHAT = "the keys of the run"
#: No sum of losses is larger.
_MOST = LARGE * LARGE


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
    >>> said = Predictions(np.array([[1.0], [2.0]]), np.array([[0.0], [5.0]]))
    >>> tally.note(["a", "b"], said, [1.5, 2.0], [])
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
        #: Records and loss of each key in each part of the stream; None where an earlier version has not counted them.
        self._parts: NDArray[np.float64] | None = np.zeros((16, _PARTS, 2))
        self._part = _PART
        #: Records so far, and those of them whose key is none of the first.
        self._counted = 0
        self._others = 0

    def __len__(self) -> int:
        return len(self._places)

    def note(
        self, keys: Sequence[Any], progress: Predictions, labels: Sequence[Any], classes: Sequence[Hashable]
    ) -> None:
        """Count records with a label."""
        if self._regression:
            truth = np.array(labels, dtype=np.float64)
            loss = np.abs(progress.values[:, 0] - truth)
            shared = np.abs(progress.own[:, -1] - truth)
        else:
            places = {label: place for place, label in enumerate(classes)}
            truth = np.array([places.get(label, -2) for label in labels])
            table = progress.values
            likeliest = table.argmax(axis=1) if table.shape[1] else np.full(len(labels), -1)
            loss = 1.0 - ((likeliest == truth) & table.any(axis=1))
            shared = (progress.own[:, -1] != truth).astype(np.float64)
        for key, *losses in zip(keys, loss.tolist(), shared.tolist(), strict=True):
            part = self._next_part()
            place = self._place(str(key))
            if place is None:
                self._others += 1
                continue
            before = self._sums[place, _RECORDS]
            self._ages[np.searchsorted(AGES, before, side="right") - 1] += (1.0, *losses)
            self._sums[place] += (1.0, *losses, losses[0] if before < FIRST else 0.0)
            if self._parts is not None:
                self._parts[place, part] += (1.0, losses[0])

    def _next_part(self) -> int:
        """In which part of the stream the next record is; where these do not suffice, two become one."""
        if self._counted == _PARTS * self._part:
            self._part *= 2
            if self._parts is not None:
                half = self._parts[:, 0::2] + self._parts[:, 1::2]
                self._parts = np.concatenate([half, np.zeros_like(half)], axis=1)
        self._counted += 1
        return (self._counted - 1) // self._part

    def _place(self, key: str) -> int | None:
        place = self._places.get(key)
        if place is None and len(self._places) < MOST_KEYS:
            place = self._places[key] = len(self._places)
            if place == len(self._sums):
                self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
                if self._parts is not None:
                    self._parts = np.concatenate([self._parts, np.zeros_like(self._parts)])
        return place

    def result(self) -> dict[str, Any]:
        """How many keys there are, the most frequent ones, and those with the largest mean loss.

        And for all records of keys that had learned so many before, or more, the mean losses.
        """
        names, sums = list(self._places), self._sums[: len(self._places)]
        means = sums[:, 1:] / np.maximum(sums[:, :1], 1.0)
        enough = np.flatnonzero(sums[:, _RECORDS] >= ENOUGH)
        most, worst = np.argsort(-sums[:, _RECORDS], kind="stable"), np.argsort(-means[enough, 0], kind="stable")
        found: dict[str, Any] = {"keys": len(names), "records_of_others": self._others}
        if self._shared:
            found["ahead"] = int((means[:, 0] < means[:, 1]).sum())
            found["behind"] = int((means[:, 0] > means[:, 1]).sum())
        if self._parts is not None:
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
        if self._parts is not None:
            parts = self._parts[place, : -(-self._counted // self._part)].tolist()
            row["over_time"] = [lost / many if many else None for many, lost in parts]
        return row

    def state(self) -> tuple[list[str], dict[str, NDArray[np.float64]]]:
        """The keys, and the sums."""
        n = len(self._places)
        counted = np.array([self._counted, self._others, self._part], dtype=np.float64)
        arrays = {"sums": self._sums[:n].copy(), "ages": self._ages.copy(), "counted": counted}
        if self._parts is not None:
            arrays["parts"] = self._parts[:n].copy()
        return list(self._places), arrays

    def load_state(self, keys: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        known = checked(_WHAT, {"keys": keys}, "keys", list)
        if len(known) > MOST_KEYS or not all(isinstance(key, str) for key in known) or len(set(known)) != len(known):
            raise BraidedError(f"{_WHAT} are none; use an older copy")
        shapes: dict[str, tuple[int, ...]] = {"sums": (len(known), 4), "ages": (len(AGES), 3)}
        if "counted" in arrays or "parts" in arrays:  # an earlier version has neither
            shapes["counted"] = (3,)
        if "parts" in arrays:  # nor has a run that such a one has begun
            shapes["parts"] = (len(known), _PARTS, 2)
        check_arrays(_WHAT, {name: ArrayRule(shape, low=0.0, high=_MOST) for name, shape in shapes.items()}, arrays)
        self._places = {key: place for place, key in enumerate(known)}
        room = max(16, len(known))
        self._sums = np.concatenate([arrays["sums"], np.zeros((room, 4))])
        self._ages = arrays["ages"].copy()
        self._counted, self._others, self._part = 0, 0, _PART
        if "counted" in arrays:
            counted, others, part = arrays["counted"].tolist()
            doubled = part / _PART
            if not (doubled >= 1.0 and counted <= _PARTS * part and np.log2(doubled).is_integer()):
                raise BraidedError(f"{_WHAT}: parts of {part:g} records are none of {counted:g}; use an older copy")
            self._counted, self._others, self._part = int(counted), int(others), int(part)
        self._parts = None
        if "parts" in arrays:
            self._parts = np.concatenate([arrays["parts"], np.zeros((room, _PARTS, 2))])


def checked_keys(result: Any) -> dict[str, Any]:
    """A `KeyTally.result` that was read from a file; an earlier version has less of it."""
    found: dict[str, Any] = {"keys": checked(_WHAT, result, "keys", int)}
    if "records_of_others" in result:
        found["records_of_others"] = checked(_WHAT, result, "records_of_others", int)
    shared = "ahead" in result
    for name in ("ahead", "behind") if shared else ():
        found[name] = checked(_WHAT, result, name, int)
    if "until" in result:
        until = checked(_WHAT, result, "until", list)[:_PARTS]
        found["until"] = [checked(_WHAT, {"until": end}, "until", int) for end in until]
    usual = {"records": int, "loss": float} | ({"shared": float} if shared else {})
    for name in ("most", "worst"):
        found[name] = [
            _checked_row(row, {"key": str, "first": float} | usual) | _checked_parts(row, found.get("until"))
            for row in checked(_WHAT, result, name, list)[:_SHOWN]
        ]
    ages = checked(_WHAT, result, "ages", list)[:_SHOWN]
    found["ages"] = [_checked_row(row, {"from": int} | usual) for row in ages]
    return found


def _checked_row(row: Any, kinds: Mapping[str, type]) -> dict[str, Any]:
    return {field: checked(_WHAT, row, field, kind, 0.0, _MOST) for field, kind in kinds.items()}


def _checked_parts(row: Mapping[str, Any], until: Sequence[int] | None) -> dict[str, Any]:
    """The losses of a key in the parts of the stream that end there; none where they were not counted."""
    if until is None:
        return {}
    over_time = checked(_WHAT, row, "over_time", list)
    if not until or len(over_time) != len(until):
        raise BraidedError(f"{_WHAT}: a key has {len(over_time)} parts of {len(until)}; use an older copy")
    losses = [
        None if loss is None else checked(_WHAT, {"over_time": loss}, "over_time", float, 0.0, _MOST)
        for loss in over_time
    ]
    return {"over_time": losses}
