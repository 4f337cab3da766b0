"""What a model's writer is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from braided.serve.raw_records import RawRecords
from braided.serve.records import Records


class StreamBatches:
    """The batches of one stream: once one of them is refused, those after it are too."""

    def __init__(self) -> None:
        self.broken = False


@dataclass(eq=False)
class WriteRequest:
    """A request to the writer; `future` gets a dict, bytes (`export`) or an `HTTPProblem`.

    `w` is the weight of a record whose `label` has come. `record` or `at`, a time, say to which moment a `restore` goes
    back.
    """

    kind: Literal["learn", "observe", "label", "forget", "export", "restore"]
    future: Any
    records: Records | RawRecords | None = None
    client: str | None = None
    sequence: int = 0
    id: str | None = None
    label: Any = None
    w: float | None = None
    time: float = 0.0
    stream: StreamBatches | None = None
    record: int | None = None
    at: float | None = None

    @property
    def weight(self) -> int:
        """Records that it adds to the queue."""
        return max(1, 0 if self.records is None else len(self.records))
