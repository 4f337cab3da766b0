"""What went wrong for each key of a fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.store import MAX_COUNT, REMEDY, Array, check, checked
from braided.values import printable

Floats = NDArray[np.float64]
#: Keys that are followed, those that came first.
MAX_KEYS = 100_000
#: Rows in a table of the most frequent keys, or of the worst.
_MAX_ROWS = 10
#: A key with fewer records than this is not ranked among the worst.
ENOUGH = 10
#: The first records of a key, whose loss is counted apart; and how many records a key had before, by which all are.
FIRST, AGES = 20, (0, 1, 5, 20, 100, 500)
#: Parts of equal length that the stream is cut into at most, and the records of each at first.
_MAX_PARTS, _FIRST_PART = 8, 64
_WHAT = "the keys of the run"


class KeyTally:
    """For each key how many records were counted, and the loss of the fleet, over time, and of the shared model alone.

    The loss is 1 for an error, or the absolute error.

    Parameters
    ----------
    shared
        Whether there is a shared model.

    Examples
    --------
    >>> tally = KeyTally(shared=True)
    >>> tally.add(["a", "b"], np.array([0.5, 0.0]), np.array([1.5, 3.0]))
    >>> tally.result()["most"][0]
    {'key': 'a', 'records': 1, 'loss': 0.5, 'first': 0.5, 'shared': 1.5, 'over_time': [0.5]}
    >>> tally.result()["ages"]
    [{'from': 0, 'records': 2, 'loss': 0.25, 'shared': 2.25}]
    """

    def __init__(self, shared: bool) -> None:
        self._shared = shared
        self._places: dict[str, int] = {}
        #: Of each key: records, loss, loss of the shared model, loss of its first records.
        self._sums = np.zeros((16, 4))
        #: The first three by how many records the key had before.
        self._ages = np.zeros((len(AGES), 3))
        #: Records and loss of each key in each part of the stream.
        self._parts = np.zeros((16, _MAX_PARTS, 2))
        self._part = _FIRST_PART
        #: Records so far, and those of them whose key is not followed.
        self._records = self._others = 0

    def add(self, keys: Sequence[Any], losses: Floats, shared: Floats) -> None:
        """Count records with a label: their keys, and the losses of the fleet and of the shared model."""
        for key, loss, alone in zip(map(str, keys), losses.tolist(), shared.tolist(), strict=True):
            while self._records >= _MAX_PARTS * self._part:  # all parts are full: two become one
                self._part *= 2
                half = self._parts[:, 0::2] + self._parts[:, 1::2]
                self._parts = np.concatenate([half, np.zeros_like(half)], axis=1)
            part = self._records // self._part
            self._records += 1
            if key not in self._places and len(self._places) == MAX_KEYS:
                self._others += 1
                continue
            place = self._places.setdefault(key, len(self._places))
            if place == len(self._sums):
                self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
                self._parts = np.concatenate([self._parts, np.zeros_like(self._parts)])
            before = self._sums[place, 0]
            self._ages[np.searchsorted(AGES, before, side="right") - 1] += (1.0, loss, alone)
            self._sums[place] += (1.0, loss, alone, loss if before < FIRST else 0.0)
            self._parts[place, part] += (1.0, loss)

    def result(self) -> dict[str, Any]:
        """How many keys there are, the most frequent ones, and those with the largest mean loss.

        And the mean losses of records by how many their key had learned before.
        """
        names = list(self._places)
        records, *sums = self._sums[: len(names), :3].T
        fleet, alone = (total / records for total in sums)
        enough = np.flatnonzero(records >= ENOUGH)
        most, worst = np.argsort(-records, kind="stable"), enough[np.argsort(-fleet[enough], kind="stable")]
        ends = range(self._part, self._records + self._part, self._part)
        ahead = {"ahead": int((fleet < alone).sum()), "behind": int((fleet > alone).sum())} if self._shared else {}
        return {
            "keys": len(names),
            "records_of_others": self._others,
            **ahead,
            "until": [min(end, self._records) for end in ends],
            "most": [self._row(names[place], place) for place in most[:_MAX_ROWS].tolist()],
            "worst": [self._row(names[place], place) for place in worst[:_MAX_ROWS].tolist()],
            "ages": [
                {"from": age, "records": int(n), "loss": loss / n, **({"shared": shared / n} if self._shared else {})}
                for age, (n, loss, shared) in zip(AGES, self._ages.tolist(), strict=True)
                if n
            ],
        }

    def _row(self, key: str, place: int) -> dict[str, Any]:
        n, loss, shared, first = self._sums[place].tolist()
        row = {"key": printable(key), "records": int(n), "loss": loss / n, "first": first / min(n, FIRST)}
        if self._shared:
            row["shared"] = shared / n
        parts = self._parts[place, : -(-self._records // self._part)].tolist()
        row["over_time"] = [lost / many if many else None for many, lost in parts]
        return row

    def state(self) -> tuple[list[str], dict[str, Floats]]:
        """The keys, and the sums."""
        n = len(self._places)
        counted = np.array([self._records, self._others, self._part], dtype=np.float64)
        sums, parts = self._sums[:n].copy(), self._parts[:n].copy()
        return list(self._places), {"sums": sums, "ages": self._ages.copy(), "counted": counted, "parts": parts}

    def load_state(self, keys: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        known = checked(_WHAT, {"keys": keys}, "keys", list)
        n = len(known)
        if not all(isinstance(key, str) for key in known) or len(set(known)) < n:
            raise BraidedError(f"{_WHAT} are not different texts: {REMEDY}")
        schema = {
            "sums": Array((n, 4), low=[1.0, 0.0, 0.0, 0.0]),
            "ages": Array((len(AGES), 3), low=0.0),
            "counted": Array((3,), low=[0.0, 0.0, _FIRST_PART], high=MAX_COUNT),
            "parts": Array((n, _MAX_PARTS, 2), low=0.0),
        }
        check(_WHAT, schema, arrays)
        self._records, self._others, self._part = (int(count) for count in arrays["counted"])
        self._places = {key: place for place, key in enumerate(known)}
        room = max(16, n)
        self._sums = np.concatenate([arrays["sums"], np.zeros((room, 4))])
        self._ages = arrays["ages"].copy()
        self._parts = np.concatenate([arrays["parts"], np.zeros((room, _MAX_PARTS, 2))])
