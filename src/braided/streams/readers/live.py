"""Streams without an end of their own: what they share, and how an interrupt ends them."""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from braided.encode.chunk import Piece
from braided.encode.encoder import Encoder
from braided.encode.rules import DEFAULT_RULES, ReadingCounts, Rules
from braided.errors import BraidedError
from braided.records import Labels, Records
from braided.store import reject_malformed

#: Seconds between two looks.
POLL_S = 0.1


@dataclass(kw_only=True)
class LiveStream(ABC):
    """Records as they come, until `stop`, or until nothing has come for `idle` seconds.

    Attributes
    ----------
    target
        The label's name, where columns have names.
    record_id
        As of `Splitter`, for JSON.
    idle
        Seconds; None: for ever.
    rules
        How cells become features.
    position
        Where to go on, and where it stands: after each batch, what another reader needs to give the records after
        it. Those before it are not given again.
    limit
        Records after which nobody will ask for more, counting those before the position; None: not known.
    """

    target: str | None = None
    record_id: str | None = None
    idle: float | None = None
    rules: Rules = DEFAULT_RULES
    position: dict[str, Any] | None = None
    limit: int | None = None
    counts: ReadingCounts = field(default_factory=ReadingCounts)
    n_records: int | None = None
    #: Called while nothing comes; every record given so far has then been taken.
    on_pause: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        if self.idle is not None and not self.idle >= 0:
            raise BraidedError(f"`idle` is {self.idle}: give seconds from 0 on")
        self._stopped = False
        self._last = time.monotonic()

    @property
    def records_before(self) -> int:
        """Records before the first that `batches` would give."""
        return 0 if self.position is None else int(self.position["records"])

    @property
    def labels_before(self) -> int:
        """Labels on their own that came before it."""
        return 0 if self.position is None else int(self.position.get("labels", 0))

    def stop(self) -> None:
        """End the stream with the records that are complete."""
        self._stopped = True

    def saved(self, position: dict[str, Any] | None) -> None:  # noqa: B027  # files need not know
        """A checkpoint holds all records up to a position."""

    @property
    def wants_saving(self) -> bool:
        """Whether nothing more will come until `saved` is called."""
        return False

    def _ended(self) -> bool:
        return self._stopped or (self.idle is not None and time.monotonic() - self._last >= self.idle)

    def _pause(self) -> None:
        if self.on_pause is not None:
            self.on_pause()

    @abstractmethod
    def _begin(self, start: dict[str, Any] | None) -> None:
        """Take up what `position` says, by errors of Python's own if it cannot be."""

    @abstractmethod
    def _pieces(self, encoder: Encoder, start: dict[str, Any] | None) -> Iterator[Piece]:
        """The records as they come, and None where there are no more for the moment."""

    def batches(self) -> Iterator[Records | Labels]:
        """The records as they come."""
        self.counts.restart()
        encoder = self.counts.encoder = Encoder(self.rules, self.counts)
        encoder.target = self.target
        start = self.position
        with reject_malformed("the position in the stream"):
            records, labels = self.records_before, self.labels_before
            self._begin(start)
            if start is not None:
                encoder.load_state(start["encoder"])
        if start is not None:
            for line in () if self.counts.plan is None else self.counts.plan.lines():
                self.rules.say(line)
        self._last = time.monotonic()
        for batch, after in encoder.encode(self._pieces(encoder, start)):
            if isinstance(batch, Records):
                records += len(batch)
            else:
                labels += len(batch)
            self.position = {**after, "records": records, "labels": labels, "encoder": encoder.state()}
            yield batch
            self._last = time.monotonic()


@contextmanager
def stopped_by_signals(stop: Callable[[], None] | None) -> Iterator[None]:
    """Within this context the first Ctrl-C or SIGTERM calls `stop`, and the next acts as usual; with None all do."""
    if stop is None:
        yield
        return

    def on_signal(*_: Any) -> None:
        restore()
        stop()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        restore()
