"""What went wrong for each key of a fleet."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.progress import Progress
from braided.state import LARGE, ArrayRule, check_arrays, checked
from braided.values import printable

#: So many keys are followed, those that came first.
MOST_KEYS = 100_000
#: Of a table of the most frequent keys, and of the worst.
_SHOWN = 10
#: A key with fewer records than this is no worst one.
_ENOUGH = 10
#: Records of a key that are its first ones, and how many a key had learned before, by which all are counted apart.
_FIRST = 20
AGES = (0, 1, 5, 20, 100, 500)
_RECORDS, _LOSS, _SHARED, _FIRST_LOSS = range(4)
_WHAT = "the keys of the run"
#: No sum of losses is larger.
_MOST = LARGE * LARGE


class KeyTally:
    """For each key how many records were counted, and the loss of the fleet and of the shared model alone.

    The loss is 1 for an error, or the absolute error.

    Parameters
    ----------
    regression
        Whether targets are numbers.

    Examples
    --------
    >>> tally = KeyTally(regression=True)
    >>> said = Progress(np.array([[1.0], [2.0]]), np.array([[0.0], [5.0]]))
    >>> tally.note(["a", "b"], said, [1.5, 2.0], [])
    >>> tally.result()["most"][0]
    {'key': 'a', 'records': 1, 'loss': 0.5, 'shared': 1.5, 'first': 0.5}
    >>> tally.result()["ages"]
    [{'from': 0, 'records': 2, 'loss': 0.25, 'shared': 2.25}]
    """

    def __init__(self, regression: bool) -> None:
        self._regression = regression
        self._places: dict[str, int] = {}
        self._sums = np.zeros((16, 4))
        self._ages = np.zeros((len(AGES), 3))

    def __len__(self) -> int:
        return len(self._places)

    def note(self, keys: Sequence[Any], progress: Progress, labels: Sequence[Any], classes: Sequence[Hashable]) -> None:
        """Count records with a label."""
        if self._regression:
            truth = np.array(labels, dtype=np.float64)
            loss = np.abs(progress.predictions[:, 0] - truth)
            shared = np.abs(progress.own[:, -1] - truth)
        else:
            places = {label: place for place, label in enumerate(classes)}
            truth = np.array([places.get(label, -2) for label in labels])
            table = progress.predictions
            likeliest = table.argmax(axis=1) if table.shape[1] else np.full(len(labels), -1)
            loss = 1.0 - ((likeliest == truth) & table.any(axis=1))
            shared = (progress.own[:, -1] != truth).astype(np.float64)
        for key, *losses in zip(keys, loss.tolist(), shared.tolist(), strict=True):
            place = self._place(str(key))
            if place is not None:
                before = self._sums[place, _RECORDS]
                self._ages[np.searchsorted(AGES, before, side="right") - 1] += (1.0, *losses)
                self._sums[place] += (1.0, *losses, losses[0] if before < _FIRST else 0.0)

    def _place(self, key: str) -> int | None:
        place = self._places.get(key)
        if place is None and len(self._places) < MOST_KEYS:
            place = self._places[key] = len(self._places)
            if place == len(self._sums):
                self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
        return place

    def result(self) -> dict[str, Any]:
        """How many keys there are, the most frequent ones, and those with the largest mean loss.

        And for all records of keys that had learned so many before, or more, the mean losses.
        """
        names, sums = list(self._places), self._sums[: len(self._places)]
        means = sums[:, 1:] / np.maximum(sums[:, :1], 1.0)
        first = sums[:, _FIRST_LOSS] / np.clip(sums[:, _RECORDS], 1.0, _FIRST)

        def rows(order: NDArray[np.int64]) -> list[dict[str, Any]]:
            return [
                {
                    "key": printable(names[i]),
                    "records": int(sums[i, _RECORDS]),
                    "loss": float(means[i, 0]),
                    "shared": float(means[i, 1]),
                    "first": float(first[i]),
                }
                for i in order[:_SHOWN].tolist()
            ]

        enough = np.flatnonzero(sums[:, _RECORDS] >= _ENOUGH)
        return {
            "keys": len(names),
            "ahead": int((means[:, 0] < means[:, 1]).sum()),
            "behind": int((means[:, 0] > means[:, 1]).sum()),
            "most": rows(np.argsort(-sums[:, _RECORDS], kind="stable")),
            "worst": rows(enough[np.argsort(-means[enough, 0], kind="stable")]),
            "ages": [
                {"from": age, "records": int(n), "loss": loss / n, "shared": shared / n}
                for age, (n, loss, shared) in zip(AGES, self._ages.tolist(), strict=True)
                if n
            ],
        }

    def state(self) -> tuple[list[str], dict[str, NDArray[np.float64]]]:
        """The keys, and the sums."""
        return list(self._places), {"sums": self._sums[: len(self._places)].copy(), "ages": self._ages.copy()}

    def load_state(self, keys: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        known = checked(_WHAT, {"keys": keys}, "keys", list)
        if len(known) > MOST_KEYS or not all(isinstance(key, str) for key in known) or len(set(known)) != len(known):
            raise BraidedError(f"{_WHAT} are none; use an older copy")
        rules = {name: ArrayRule(shape, low=0.0, high=_MOST) for name, shape in
                 (("sums", (len(known), 4)), ("ages", (len(AGES), 3)))}  # fmt: skip
        check_arrays(_WHAT, rules, arrays)
        self._places = {key: place for place, key in enumerate(known)}
        self._sums = np.concatenate([arrays["sums"], np.zeros((max(16, len(known)), 4))])
        self._ages = arrays["ages"].copy()


def checked_keys(result: Any) -> dict[str, Any]:
    """A `KeyTally.result` that was read from a file."""
    found: dict[str, Any] = {name: checked(_WHAT, result, name, int) for name in ("keys", "ahead", "behind")}
    kinds: dict[str, type] = {"key": str, "from": int, "records": int, "loss": float, "shared": float, "first": float}
    for name, fields in (
        ("most", ("key", "records", "loss", "shared", "first")),
        ("worst", ("key", "records", "loss", "shared", "first")),
        ("ages", ("from", "records", "loss", "shared")),
    ):
        rows = checked(_WHAT, result, name, list)[:_SHOWN]
        found[name] = [
            {field: checked(_WHAT, row, field, kinds[field], 0.0, _MOST) for field in fields} for row in rows
        ]
    return found
