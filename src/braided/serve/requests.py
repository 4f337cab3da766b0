"""What clients ask of a model that changes it: the request as it is queued, logged and applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from braided.records import Records
from braided.serve.records import RawRecords

Kind = Literal["learn", "observe", "label", "forget", "restore", "export"]


class StreamBatches:
    """The batches of one stream: once one of them is refused, those after it are too."""

    def __init__(self) -> None:
        self.broken = False


@dataclass(eq=False)
class WriteRequest:
    """A request that changes a model; all but an `export` is logged.

    Attributes
    ----------
    kind
        `learn`: labelled records; `observe`: a record that waits for its label; `label`: that label; `forget`: a
        client's sequence number; `restore`: the model is as it was at an earlier moment; `export`: a checkpoint.
    future
        Gets the answer, bytes for an `export`, or an `HTTPProblem`. None when it is read from the log.
    records
        Of a `label` one record without features: its label and weight.
    client, sequence
        Who sent the records, and the number of the first of them.
    id
        Of an observation.
    time
        When it came, in seconds since 1970.
    growth
        What raw records add to the rules of their columns: the place of a record, and a step.
    back_to, part
        Of a `restore`: after that request, and after so many records of the next one.
    record, at
        The moment that a client wants restored: a number of records, or a time.
    stream
        The stream that it is a batch of.
    number
        In the log; 0 as long as it is not logged.
    """

    kind: Kind
    future: Any = None
    records: Records | RawRecords | None = None
    client: str | None = None
    sequence: int = 0
    id: str | None = None
    time: float = 0.0
    growth: list[list[Any]] = field(default_factory=list)
    back_to: int = 0
    part: int = 0
    record: int | None = None
    at: float | None = None
    stream: StreamBatches | None = None
    number: int = 0

    @property
    def size(self) -> int:
        """Records that it adds to the queue."""
        return max(1, 0 if self.records is None else len(self.records))
