"""Records that wait for their labels: the only queue of them.

A label finds its record by the record's number (labels that come a fixed number of records later), by its ID (labels
that come on their own, in files, from brokers and to the service), or by its content (where River's `predict_one` is
followed by `learn_one`).
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.kernels.coverage import LEVELS
from braided.kernels.doubt import DOUBTS
from braided.records import Confidence, Predictions, Records, join_predictions
from braided.store import (
    REMEDY,
    Array,
    check,
    checked,
    counts,
    length,
    pack_name,
    reject_malformed,
    unpack_name,
    unpack_names,
)

Arrays = dict[str, NDArray[Any]]
MAX_COUNT, MAX_SECONDS, MAX_VALUES = 10_000, 86_400.0, 2_000_000
_WHAT = "the records that wait for their label"
COUNTS = ("asked", "joined", "too_late", "repeated", "unknown", "misfit")
_NO_VALUES = Records((), np.empty((1, 0)))
#: In a state, how sure a prediction is that does not say so.
_UNSAID = Confidence(np.zeros((1, DOUBTS)), np.full(1, np.nan), np.zeros((1, len(LEVELS))))


class Waiting(NamedTuple):
    """A record that waits: what its label finds it by, when it was made (NaN for unknown), and what was predicted.

    `records` has the values that the record has alone; none where the record comes again with its label.
    """

    key: Hashable
    time: float
    records: Records
    predictions: Predictions


class LateLabels:
    """The records that wait for their labels, bounded in number, in values and in time.

    The time is that of the source, not of this machine's clock, so that a stream that is read again drops the same
    records; any number that grows will do. What is too old or too much is dropped, the oldest first.

    Parameters
    ----------
    max_count, max_seconds, max_values
        How many records may wait, how long, and with how many values in all.
    unique
        Whether a key names one record: a later record replaces the earlier one, and the last keys of records that wait
        no longer are remembered for the counts. Otherwise records of one key wait first in, first out.

    Attributes
    ----------
    counts
        `asked`: records that waited; of their labels, how many `joined` their record, came `too_late` (their record was
        dropped), were `repeated`, of an `unknown` key, or a `misfit`: not a number where the target is one.

    Examples
    --------
    >>> late = LateLabels(max_count=1)
    >>> prediction = Predictions(np.array([[0.2, 0.8]]), np.array([[1.0]]))
    >>> for name in ("a", "b"):
    ...     late.keep(name, Records(("x",), np.ones((1, 1))), prediction)
    >>> late.find("a"), late.take("b").predictions.values.tolist(), late.find("b")
    (None, [[0.2, 0.8]], None)
    """

    def __init__(
        self,
        max_count: float = MAX_COUNT,
        max_seconds: float = MAX_SECONDS,
        max_values: float = MAX_VALUES,
        unique: bool = True,
    ) -> None:
        self.max_count = max_count
        self.max_seconds = max_seconds
        self.max_values = max_values
        self.unique = unique
        self.counts = dict.fromkeys(COUNTS, 0)
        #: By the number under which each was kept, the oldest first; and the numbers of each key.
        self._waiting: OrderedDict[int, Waiting] = OrderedDict()
        self._numbers: dict[Hashable, deque[int]] = {}
        self._next = 0
        self._values = 0
        #: The last keys that wait no longer, and whether their label came.
        self._gone: OrderedDict[Hashable, bool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def heard(self) -> int:
        """Labels that were looked for by `find`."""
        return sum(self.counts.values()) - self.counts["asked"]

    def keep(self, key: Hashable, records: Records | None, predictions: Predictions, time: float = math.nan) -> None:
        """Let a record wait, the only one in `records`, with the only row of `predictions`.

        Of alike records that are asked for at the same time, one waits.
        """
        self.counts["asked"] += 1
        if key in self._numbers:
            if self.unique:
                self._remove(key)
            elif self._waiting[self._numbers[key][-1]].time == time:
                return
        self._put(Waiting(key, time, _NO_VALUES if records is None else _alone(records), predictions))
        self.expire(time)

    def _put(self, waiting: Waiting) -> None:
        self._waiting[self._next] = waiting
        self._numbers.setdefault(waiting.key, deque()).append(self._next)
        self._next += 1
        self._values += waiting.records.values.size

    def get(self, key: Hashable) -> Waiting | None:
        """The record that waits under a key, and goes on waiting; None where there is none."""
        return self._waiting[self._numbers[key][0]] if key in self._numbers else None

    def label_came(self, key: Hashable) -> bool:
        """Whether a record of this key has got its label, as far back as is remembered, and none waits."""
        return key not in self._numbers and self._gone.get(key, False)

    def find(self, key: Hashable) -> Waiting | None:
        """The same as `get`; a label that finds no record is counted."""
        found = self.get(key)
        if found is not None:
            return found
        label_came = self._gone.get(key)
        self.counts["unknown" if label_came is None else "repeated" if label_came else "too_late"] += 1
        return None

    def take(self, key: Hashable) -> Waiting | None:
        """The first record that waits under a key, whose label has come: it waits no longer. None if none waits."""
        if key not in self._numbers:
            if key in self._gone:
                self._gone[key] = True
            return None
        self.counts["joined"] += 1
        self._remember(key, label_came=True)
        return self._remove(key)

    def oldest(self) -> Waiting | None:
        """The record that has waited longest; None where none waits."""
        return next(iter(self._waiting.values()), None)

    def keys(self) -> set[Hashable]:
        """Of those that wait, and of those that are remembered."""
        return {*self._numbers, *self._gone}

    def entries(self) -> list[Waiting]:
        """All that wait, the oldest first."""
        return list(self._waiting.values())

    def expire(self, now: float = math.nan) -> None:
        """Drop what is too much, and what is too old at the time `now`."""
        while (oldest := self.oldest()) is not None:
            too_much = len(self._waiting) > self.max_count or self._values > self.max_values
            if not too_much and not oldest.time < now - self.max_seconds:
                break
            self._remove(oldest.key)
            self._remember(oldest.key, label_came=False)

    def _remove(self, key: Hashable) -> Waiting:
        numbers = self._numbers[key]
        found = self._waiting.pop(numbers.popleft())
        if not numbers:
            del self._numbers[key]
        self._values -= found.records.values.size
        return found

    def _remember(self, key: Hashable, label_came: bool) -> None:
        if self.unique:
            self._gone.pop(key, None)
            self._gone[key] = label_came
            while len(self._gone) > self.max_count:
                self._gone.popitem(last=False)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and named arrays to go on from."""
        entries, records = self.entries(), [one.records for one in self._waiting.values()]
        place: dict[Hashable, int] = {}
        for name in (name for record in records for name in record.names):
            place.setdefault(name, len(place))
        about = {
            "counts": self.counts.copy(),
            "waiting": [
                [pack_name(one.key), one.records.keys and one.records.keys[0], pack_name(one.records.known_targets[0])]
                for one in entries
            ],
            "gone": [[pack_name(key), label_came] for key, label_came in self._gone.items()],
            "names": [pack_name(name) for name in place],
        }
        if not entries:
            return about, {}
        predictions = join_predictions([one.predictions for one in entries])
        answers = [one.predictions.answer(0) for one in entries]
        confidence = zip(*(one.predictions.confidence or _UNSAID for one in entries), strict=True)
        arrays: Arrays = {
            "times": np.array([one.time for one in entries], dtype=np.float64),
            "weights": np.array([1.0 if record.weights is None else record.weights[0] for record in records]),
            "sizes": np.array([record.values.size for record in records], dtype=np.int64),
            "columns": np.array([place[name] for record in records for name in record.names], dtype=np.int64),
            "values": np.concatenate([record.values[0] for record in records]),
            "widths": np.array([one.predictions.values.shape[1] for one in entries], dtype=np.int64),
            "predictions": np.asarray(predictions.values, dtype=np.float64),
            "own": np.asarray(predictions.own, dtype=np.float64),
            "decided": np.array([-1 if answer is None else answer for answer in answers], dtype=np.int64),
            **Confidence(*map(np.concatenate, confidence))._asdict(),
        }
        return about, arrays

    def load_state(self, about: Any, arrays: Mapping[str, NDArray[Any]], n_learners: int) -> None:
        """Go on from a `state` of a model with so many learners; one that does not fit is refused."""
        with reject_malformed(_WHAT):
            given = {name: checked(_WHAT, about["counts"], name, int) for name in COUNTS}
            gone = OrderedDict((unpack_name(key), bool(label_came)) for key, label_came in about["gone"])
            entries = _restored(about, arrays, n_learners) if about["waiting"] else []
        self.counts, self._gone = given, gone
        self._waiting, self._numbers, self._values = OrderedDict(), {}, 0
        for one in entries:
            self._put(one)
        self.expire()  # there may be less room than where they were saved


def content_key(x: Mapping[Hashable, Any]) -> Hashable:
    """What records of the same values have in common.

    >>> content_key({"a": 1, "b": None}) == content_key({"b": float("nan"), "a": 1.0})
    True
    """
    return frozenset((name, value) for name, value in x.items() if value is not None and value == value)


def late_labels_line(counts: Mapping[str, int]) -> str:
    """The counts in words.

    >>> late_labels_line({"asked": 9, "joined": 5, "too_late": 1, "repeated": 0, "unknown": 2, "waiting": 3})
    'labels that came later: 5 joined, 1 too late, 0 repeated, 2 unknown; records that still wait for theirs: 3 of 9'
    """
    shown = [name for name in COUNTS[1:] if name != "misfit" or counts.get(name)]
    came = ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in shown)
    waiting = f"{counts['waiting']:,} of {counts['asked']:,}"
    return f"labels that came later: {came}; records that still wait for theirs: {waiting}"


def _alone(records: Records) -> Records:
    """A record with its own values alone: what waits is then small, and the same after a restart."""
    present = np.flatnonzero(~np.isnan(records.values[0]))
    names = tuple(records.names[place] for place in present.tolist())
    weights = None if records.weights is None else records.weights.copy()
    return Records(names, records.values[:, present], records.targets, weights, records.keys)


def _restored(about: Any, arrays: Mapping[str, NDArray[Any]], n_learners: int) -> list[Waiting]:
    """What waited when a `state` was made; any error means that its JSON is malformed."""
    names, n, size = unpack_names("names of features", about["names"]), len(about["waiting"]), length(arrays, "values")
    rules = {
        "times": Array((n,), finite=False),
        "weights": Array((n,), low=0.0),
        "sizes": counts(n),
        "columns": counts(size, high=len(names) - 1),
        "values": Array((size,)),
        "predictions": Array((n, None), finite=False),
        "own": Array((n, n_learners), finite=False),
        "doubts": Array((n, DOUBTS), low=0.0),
        "scales": Array((n,), low=0.0, finite=False),
        "bounds": Array((n, len(LEVELS)), low=0.0, finite=False),
    }
    check(_WHAT, rules, arrays)
    check(_WHAT, {"widths": counts(n, high=arrays["predictions"].shape[1])}, arrays)
    check(_WHAT, {"decided": Array((n,), "int64", -1, arrays["widths"] - 1)}, arrays)
    ends = arrays["sizes"].cumsum()
    if ends[-1] != size:
        raise BraidedError(f"{_WHAT} do not have {size} values: {REMEDY}")
    keys, record_keys, targets = zip(*about["waiting"], strict=True)
    if not all(isinstance(key, str | None) for key in record_keys):
        raise TypeError(record_keys)
    confidence = Confidence(arrays["doubts"], arrays["scales"], arrays["bounds"])
    predictions = Predictions(arrays["predictions"], arrays["own"], arrays["decided"], confidence)
    found: list[Waiting] = []
    for row, key in enumerate(unpack_names("records that wait", list(keys))):
        inside = slice(ends[row] - arrays["sizes"][row], ends[row])
        weights = arrays["weights"][row : row + 1]
        record = Records(
            tuple(names[place] for place in arrays["columns"][inside].tolist()),
            arrays["values"][None, inside].copy(),
            [unpack_name(targets[row])],
            None if weights[0] == 1.0 else weights,
            None if record_keys[row] is None else [record_keys[row]],
        )
        one = predictions.part(row, row + 1)
        one = one._replace(values=one.values[:, : arrays["widths"][row]])
        if np.isnan(arrays["scales"][row]):
            one = one._replace(confidence=None)
        found.append(Waiting(key, float(arrays["times"][row]), record, one))
    return found
