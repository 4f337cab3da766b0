"""What went wrong for each key of a fleet."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.store import MAX_COUNT, REMEDY, Array, check
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
#: Of each key the sums over the whole stream, and all its numbers.
_SUMS = 4
_WIDTH = _SUMS + 2 * _MAX_PARTS
_WHAT = "the keys of the run"


class KeyTally:
    """Records and losses, 1 for an error or the absolute error, of each key: by the fleet, and by the shared model.

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
        #: Of each key: records, loss, loss of the shared model, loss of its first records; records and loss by part.
        self._rows: dict[str, Floats] = {}
        #: The first three by how many records the key had before.
        self._ages = np.zeros((len(AGES), 3))
        self._part = _FIRST_PART
        #: Records so far, and those of them whose key is not followed.
        self._records = self._others = 0

    def add(self, keys: Sequence[Any], losses: Floats, shared: Floats) -> None:
        """Count records with a label: their keys, and the losses of the fleet and of the shared model."""
        for key, loss, alone in zip(keys, losses.tolist(), shared.tolist(), strict=True):
            while self._records >= _MAX_PARTS * self._part:  # all parts are full: two become one
                self._part *= 2
                for one in self._rows.values():
                    parts = one[_SUMS:].reshape(_MAX_PARTS, 2)
                    parts[:] = np.concatenate([parts[0::2] + parts[1::2], np.zeros((_MAX_PARTS // 2, 2))])
            place = _SUMS + 2 * (self._records // self._part)
            self._records += 1
            row = self._rows.get(key)
            if row is None:
                if key is None or len(self._rows) == MAX_KEYS:
                    self._others += 1
                    continue
                row = self._rows[key] = np.zeros(_WIDTH)
            before = row[0]
            self._ages[bisect(AGES, before) - 1] += (1.0, loss, alone)
            row[:_SUMS] += (1.0, loss, alone, loss if before < FIRST else 0.0)
            row[place : place + 2] += (1.0, loss)

    def result(self) -> dict[str, Any]:
        """The most frequent keys and the worst, and mean losses by how many records a key had learned before."""
        names = list(self._rows)
        records, *sums = np.array(list(self._rows.values())).reshape(-1, _WIDTH)[:, :3].T
        fleet, alone = (total / records for total in sums)
        enough = np.flatnonzero(records >= ENOUGH)
        most, worst = np.argsort(-records, kind="stable"), enough[np.argsort(-fleet[enough], kind="stable")]
        ends = range(self._part, self._records + self._part, self._part)[:_MAX_PARTS]
        ahead = {"ahead": int((fleet < alone).sum()), "behind": int((fleet > alone).sum())} if self._shared else {}
        return {
            "keys": len(names),
            "records_of_others": self._others,
            **ahead,
            "until": [min(end, self._records) for end in ends],
            "most": [self._row(names[place]) for place in most[:_MAX_ROWS].tolist()],
            "worst": [self._row(names[place]) for place in worst[:_MAX_ROWS].tolist()],
            "ages": [
                {"from": age, "records": int(n), "loss": loss / n, **({"shared": shared / n} if self._shared else {})}
                for age, (n, loss, shared) in zip(AGES, self._ages.tolist(), strict=True)
                if n
            ],
        }

    def _row(self, key: str) -> dict[str, Any]:
        n, loss, shared, first, *parts = self._rows[key].tolist()
        row = {"key": printable(key), "records": int(n), "loss": loss / n, "first": first / min(n, FIRST)}
        if self._shared:
            row["shared"] = shared / n
        end = 2 * -(-self._records // self._part)
        row["over_time"] = [
            lost / many if many else None for many, lost in zip(parts[:end:2], parts[1:end:2], strict=True)
        ]
        return row

    def state(self) -> tuple[list[str], dict[str, Floats]]:
        """The keys, and the sums."""
        counted = np.array([self._records, self._others, self._part], dtype=np.float64)
        rows = np.array(list(self._rows.values())).reshape(-1, _WIDTH)
        return list(self._rows), {"rows": rows, "ages": self._ages.copy(), "counted": counted}

    def load_state(self, keys: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
            raise BraidedError(f"{_WHAT} are not different texts: {REMEDY}")
        schema = {
            "rows": Array((len(keys), _WIDTH), low=[1.0] + [0.0] * (_WIDTH - 1)),
            "ages": Array((len(AGES), 3), low=0.0),
            "counted": Array((3,), low=[0.0, 0.0, _FIRST_PART], high=MAX_COUNT),
        }
        check(_WHAT, schema, arrays)
        self._records, self._others, self._part = (int(count) for count in arrays["counted"])
        self._rows = dict(zip(keys, arrays["rows"].copy(), strict=True))
        self._ages = arrays["ages"].copy()
