"""Labels that come later on their own: a record waits under its ID, with what was said of it, until its label comes.

What waits is bounded in number, in values and in time. The time is that of the source's messages, not of this machine's
clock, so that a stream that is read again drops the same records.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.checkpoint import pack_name, prefixed, unpack_names, unprefixed
from braided.errors import BraidedError
from braided.estimators.late_answers import pack_said, unpack_said
from braided.records import Predictions
from braided.state import ArrayRule, check_arrays, checked, counts, length
from braided.streams.base import Batch, LateLabel, RecordID

Arrays = dict[str, NDArray[Any]]
MOST_WAITING, MOST_SECONDS = 10_000, 86_400.0
#: Values of all records that wait.
_MOST_VALUES = 2_000_000
_WHAT = "the records that wait for their label"
_COUNTS = ("asked", "joined", "too_late", "repeated", "unknown", "misfit")
_SAID = "said"
#: Of a record that has no time.
_NO_TIME = -1.0
#: In place of a decision: it is the likeliest class.
_LIKELIEST = -2


class Awaited(NamedTuple):
    """A record that waits: when it came, in seconds since 1970 or None, its values, and what was said of it."""

    time: float | None
    record: Batch
    said: Predictions


class LateLabels:
    """The records that wait for their labels.

    Parameters
    ----------
    most, seconds
        How many may wait, and how long by the source's clock; the oldest go first.

    Attributes
    ----------
    counts
        `asked`: records that waited; of the labels that came on their own, how many `joined` their record, came
        `too_late` (their record was dropped), were `repeated`, of an `unknown` ID, or a `misfit`: no number where the
        target is one.
    """

    def __init__(self, most: int = MOST_WAITING, seconds: float = MOST_SECONDS) -> None:
        self.most = most
        self.seconds = seconds
        self.counts = dict.fromkeys(_COUNTS, 0)
        self._waiting: OrderedDict[str | int, Awaited] = OrderedDict()
        self._values = 0
        #: The last IDs that wait no more, and whether they were labelled.
        self._gone: OrderedDict[str | int, bool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def heard(self) -> int:
        """Labels that came on their own."""
        return sum(self.counts.values()) - self.counts["asked"]

    def keep(self, batch: Batch, said: Predictions) -> None:
        """Let the records of a batch wait that have an ID."""
        for row, name in enumerate(batch.ids or ()):
            if name is not None:
                self._wait(name, _alone(batch, row), _row(said, row))

    def _wait(self, name: RecordID, record: Batch, said: Predictions) -> None:
        self.counts["asked"] += 1
        self._pop(name.id)  # an ID that comes again is that of the later record
        self._waiting[name.id] = Awaited(name.time, record, said)
        self._values += record.values.size
        self._drop(name.time)

    def find(self, label: LateLabel) -> Awaited | None:
        """The record of a label, which waits until `join`; None where there is none to learn, which is counted."""
        self._drop(label.time)
        if label.label is None:
            self.counts["misfit"] += 1
            return None
        if label.id not in self._waiting:
            gone = self._gone.get(label.id)
            self.counts["unknown" if gone is None else "repeated" if gone else "too_late"] += 1
        return self._waiting.get(label.id)

    def join(self, label: LateLabel) -> None:
        """The record that was found for a label has learned it, and waits no more."""
        self._pop(label.id)
        self.counts["joined"] += 1
        self._forget(label.id, labelled=True)

    def _pop(self, name: str | int) -> Awaited | None:
        found = self._waiting.pop(name, None)
        self._values -= 0 if found is None else found.record.values.size
        return found

    def _drop(self, now: float | None) -> None:
        """Drop the oldest that are too many, or too old when something comes at `now`."""
        while self._waiting:
            oldest, item = next(iter(self._waiting.items()))
            old = now is not None and item.time is not None and item.time < now - self.seconds
            if len(self._waiting) <= self.most and self._values <= _MOST_VALUES and not old:
                break
            self._pop(oldest)
            self._forget(oldest, labelled=False)

    def _forget(self, name: str | int, labelled: bool) -> None:
        self._gone.pop(name, None)
        self._gone[name] = labelled
        while len(self._gone) > self.most:
            self._gone.popitem(last=False)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and named arrays to go on from."""
        places: dict[Hashable, int] = {}
        sizes, columns, values = array("q"), array("q"), array("d")
        for item in self._waiting.values():
            names = item.record.names
            sizes.append(len(names))
            columns.extend([places.setdefault(name, len(places)) for name in names])
            values.extend(item.record.values[0].tolist())
        items = list(self._waiting.values())
        weights = [1.0 if item.record.weights is None else float(item.record.weights[0]) for item in items]
        arrays: Arrays = {
            "times": np.array([_NO_TIME if item.time is None else item.time for item in items], dtype=np.float64),
            "weights": np.array(weights, dtype=np.float64),
            "sizes": np.asarray(sizes, dtype=np.int64),
            "columns": np.asarray(columns, dtype=np.int64),
            "values": np.asarray(values, dtype=np.float64),
            "own": np.concatenate([item.said.own for item in items]) if items else np.zeros((0, 0)),
            **_pack_answers([item.said for item in items]),
        }
        about = {
            "counts": dict(self.counts),
            "ids": list(self._waiting),
            "gone": [[name, labelled] for name, labelled in self._gone.items()],
            "names": [pack_name(name) for name in places],
            "keys": [None if item.record.keys is None else item.record.keys[0] for item in items],
        }
        return about, arrays | prefixed(_SAID, pack_said([item.said for item in items]))

    def load_state(self, about: Any, arrays: Mapping[str, NDArray[Any]], n_learners: int) -> None:
        """Go on from a `state`; one that cannot be is refused."""
        kept = {"misfit": 0, **checked(_WHAT, about, "counts", dict)}
        self.counts = {name: checked(_WHAT, kept, name, int) for name in _COUNTS}
        ids, gone = _ids(checked(_WHAT, about, "ids", list)), checked(_WHAT, about, "gone", list)
        if not all(isinstance(item, list | tuple) and len(item) == 2 and type(item[1]) is bool for item in gone):
            raise BraidedError(f"{_WHAT}: what is gone is not as it should be; use an older copy")
        self._gone = OrderedDict(zip(_ids([item[0] for item in gone]), [item[1] for item in gone], strict=True))
        names = unpack_names("names of features", checked(_WHAT, about, "names", list))
        if max(len(ids), len(gone)) > self.most:
            raise BraidedError(f"{_WHAT} are {len(ids)}, and can be {self.most} at most; use an older copy")
        records = _records(_keys(about, len(ids)), names, arrays)
        own = arrays["own"] if ids else np.zeros((0, n_learners))
        check_arrays(_WHAT, {"own": ArrayRule((len(ids), n_learners), finite=False)}, {"own": own})
        said = unpack_said(unprefixed(_SAID, arrays), len(ids), n_learners, _WHAT)
        answers = _unpack_answers(len(ids), arrays)
        self._waiting, self._values = OrderedDict(), 0
        for row, (name, (time, record)) in enumerate(zip(ids, records, strict=True)):
            known, (predictions, decided) = said[row], answers[row]
            sure = None if known is None else known.confidence
            self._waiting[name] = Awaited(time, record, Predictions(predictions, own[row : row + 1], decided, sure))
            self._values += record.values.size


def _alone(batch: Batch, row: int) -> Batch:
    """A record with its own values alone: what waits is to be small, and the same after a restart."""
    values = batch.values[row]
    there = np.flatnonzero(~np.isnan(values))
    names = tuple(batch.names[place] for place in there.tolist())
    alone = batch.part(row, row + 1)
    weights = None if alone.weights is None else alone.weights.copy()
    return replace(alone, names=names, values=values[there][None, :], weights=weights, categories={}, ids=None)


def _row(said: Predictions, row: int) -> Predictions:
    rows = slice(row, row + 1)
    decided = None if said.decided is None else said.decided[rows].copy()
    sure = None if said.confidence is None else said.confidence.part(rows)
    return Predictions(said.values[rows].copy(), said.own[rows].copy(), decided, sure)


def _pack_answers(said: list[Predictions]) -> Arrays:
    """What was answered to each record; `pack_said` keeps it of those alone that say how sure they are."""
    widths = [one.values.shape[1] for one in said]
    predictions = np.zeros((len(said), max(widths, default=0)))
    for row, one in enumerate(said):
        predictions[row, : widths[row]] = one.values[0]
    decided = [_LIKELIEST if one.decided is None else int(one.decided[0]) for one in said]
    return {
        "widths": np.array(widths, dtype=np.int64),
        "predictions": predictions,
        "decided": np.array(decided, dtype=np.int64),
    }


def _unpack_answers(
    n: int, arrays: Mapping[str, NDArray[Any]]
) -> list[tuple[NDArray[np.float64], NDArray[np.int64] | None]]:
    """The inverse of `_pack_answers` for n records."""
    found = arrays.get("predictions", np.zeros(0))
    width = found.shape[1] if found.ndim == 2 else 0
    rules = {
        "widths": counts(n, high=width),
        "predictions": ArrayRule((n, width), finite=False),
        "decided": ArrayRule((n,), "int64", low=_LIKELIEST, high=width),
    }
    check_arrays(_WHAT, rules, arrays)
    rows = [slice(row, row + 1) for row in range(n)]
    return [
        (arrays["predictions"][row, : int(size)], None if decided == _LIKELIEST else arrays["decided"][row])
        for row, size, decided in zip(rows, arrays["widths"].tolist(), arrays["decided"].tolist(), strict=True)
    ]


def _ids(found: list[Any]) -> list[str | int]:
    """Different IDs."""
    if not all(type(name) in (str, int) for name in found) or len(set(found)) != len(found):
        raise BraidedError(f"{_WHAT}: IDs are not different texts or whole numbers; use an older copy")
    return found


def _keys(about: Any, n: int) -> list[str | None]:
    """The keys of n records, None for one without."""
    keys = checked(_WHAT, about, "keys", list)
    if len(keys) != n or not all(key is None or isinstance(key, str) for key in keys):
        raise BraidedError(f"{_WHAT}: keys are not {n} texts; use an older copy")
    return list(keys)


def _records(
    keys: list[str | None], names: list[Hashable], arrays: Mapping[str, NDArray[Any]]
) -> list[tuple[float | None, Batch]]:
    """Records with their times, out of a `state`."""
    n, size = len(keys), length(arrays, "values")
    rules = {
        "times": ArrayRule((n,), low=_NO_TIME),
        "weights": ArrayRule((n,), low=0.0),
        "sizes": counts(n, high=max(size, 0)),
        "columns": counts(size, high=max(len(names) - 1, 0)),
        "values": ArrayRule((size,)),
    }
    check_arrays(_WHAT, rules, arrays)
    if arrays["sizes"].sum() != size or (size and not names):
        raise BraidedError(f"{_WHAT} have {arrays['sizes'].sum()} values, and {size} are there; use an older copy")
    found = []
    for row, end in enumerate(np.cumsum(arrays["sizes"]).tolist()):
        inside = slice(end - int(arrays["sizes"][row]), end)
        own = tuple(names[place] for place in arrays["columns"][inside].tolist())
        time, weight = float(arrays["times"][row]), arrays["weights"][row : row + 1]
        record = Batch(own, arrays["values"][inside][None, :].copy(), [None], None if weight[0] == 1.0 else weight)
        record = record if keys[row] is None else replace(record, keys=[keys[row]])
        found.append((None if time == _NO_TIME else time, record))
    return found


def labelled(found: Awaited, label: LateLabel) -> Batch:
    """The record with its label; the label's weight counts, if it has one."""
    weights = found.record.weights if label.weight is None else np.array([label.weight])
    return replace(found.record, labels=[label.label], weights=weights)


def late_labels_line(counts: Mapping[str, int]) -> str:
    """The counts in words.

    >>> late_labels_line({"asked": 9, "joined": 5, "too_late": 1, "repeated": 0, "unknown": 2, "waiting": 3})
    'labels that came later: 5 joined, 1 too late, 0 repeated, 2 unknown; records that still wait for theirs: 3 of 9'
    """
    told = [name for name in _COUNTS if name != "asked" and (name != "misfit" or counts.get(name))]
    came = ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in told)
    waiting = f"{counts['waiting']:,} of {counts['asked']:,}"
    return f"labels that came later: {came}; records that still wait for theirs: {waiting}"
