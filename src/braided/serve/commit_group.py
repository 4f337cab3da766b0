"""What one group commit holds, and its bytes in the journal: JSON for the words, raw arrays for the numbers."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from braided.serve.records import Records
from braided.store import pack_name, unpack_name

_LENGTH = struct.Struct("<I")
_LEARNING = ("learn", "label")


@dataclass(frozen=True)
class CommitEntry:
    """One request within a group.

    Attributes
    ----------
    kind
        `learn`: labelled records; `observe`: one record that waits for its label; `label`: that record with its label;
        `forget`: a client's sequence number; `restore`: everything is as it was at an earlier moment.
    count
        How many of the group's records are its own.
    client, sequence
        Who sent the records, and the number of the first of them.
    id, time
        Of an observation.
    frame, part
        Of a moment: after that frame, and so many of the records that are learned by the one after it.
    """

    kind: Literal["learn", "observe", "label", "forget", "restore"]
    count: int = 0
    client: str | None = None
    sequence: int = 0
    id: str | None = None
    time: float = 0.0
    frame: int = 0
    part: int = 0


@dataclass(frozen=True)
class CommitGroup:
    """What one group commit holds.

    Attributes
    ----------
    entries
        The requests.
    records
        Those of all entries, in order; an observation's label is None.
    time
        When they came.
    growth
        What the records add to the rules of the model's columns, if it has such: the place of a record among them, and
        a step as `pack_step` gives it. The records themselves are numbers, made by these rules, so that they are
        learned again to the same bits by whatever version replays them.
    """

    entries: list[CommitEntry]
    records: Records = field(repr=False)
    time: float = 0.0
    growth: list[list[Any]] = field(default_factory=list)

    @property
    def restores(self) -> CommitEntry | None:
        """The entry that goes back to an earlier moment, which is alone in its group."""
        return self.entries[0] if self.entries and self.entries[0].kind == "restore" else None

    @property
    def learned(self) -> int:
        """How many records are learned."""
        return sum(entry.count for entry in self.entries if entry.kind in _LEARNING)

    def first(self, learned: int) -> CommitGroup:
        """The beginning of the group in which so many records are learned."""
        kept: list[CommitEntry] = []
        for entry in self.entries:
            if learned == 0:
                break
            if entry.kind in _LEARNING:
                entry = replace(entry, count=min(entry.count, learned))
                learned -= entry.count
            kept.append(entry)
        n = sum(entry.count for entry in kept)
        growth = [step for step in self.growth if step[0] < n]
        return CommitGroup(kept, self.records.part(0, n), self.time, growth)

    def encode(self) -> bytes:
        """The group as bytes."""
        records = self.records
        head: dict[str, Any] = {
            "entries": [
                {key: value for key, value in asdict(entry).items() if value not in (None, 0)} for entry in self.entries
            ],
            "names": records.names,
            "labels": [pack_name(label) for label in records.labels],
            "time": self.time,
        }
        if records.weights is not None:
            head["weights"] = True
        if records.keys is not None:
            head["keys"] = records.keys
        if self.growth:
            head["growth"] = self.growth
        text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
        arrays = [records.counts.astype("<u4"), records.columns.astype("<u4"), records.values.astype("<f8")]
        if records.weights is not None:
            arrays.append(records.weights.astype("<f8"))
        return b"".join([_LENGTH.pack(len(text)), text, *(array.tobytes() for array in arrays)])

    @classmethod
    def decode(cls, content: bytes) -> CommitGroup:
        """The inverse of `encode`."""
        (length,) = _LENGTH.unpack_from(content)
        at = _LENGTH.size + length
        head = json.loads(content[_LENGTH.size : at])
        labels = [unpack_name(label) for label in head["labels"]]
        counts = np.frombuffer(content, "<u4", len(labels), at).astype(np.int64)
        at += 4 * len(labels)
        size = int(counts.sum())
        columns = np.frombuffer(content, "<u4", size, at).astype(np.int64)
        values = np.frombuffer(content, "<f8", size, at + 4 * size).astype(np.float64)
        weights = None  # as in all frames of a braided without weights
        if head.get("weights"):
            weights = np.frombuffer(content, "<f8", len(labels), at + 12 * size).astype(np.float64)
        return cls(
            [CommitEntry(**entry) for entry in head["entries"]],
            Records(head["names"], counts, columns, values, labels, weights, head.get("keys")),
            head.get("time", 0.0),
            head.get("growth", []),
        )
