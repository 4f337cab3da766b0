"""Records from the messages of a broker: JSON, as in the lines of a JSON lines file."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from braided.brokers.address import Address, public
from braided.brokers.base import CONNECT_S, Message, source_of
from braided.encode.chunk import CHUNK_RECORDS, BadRecord, LabelPiece, Piece, at
from braided.encode.encoder import Encoder
from braided.encode.rules import Rules
from braided.errors import BraidedError
from braided.records import Labels, join_labels
from braided.store import reject_malformed
from braided.streams import text_files
from braided.streams.readers import jsonl
from braided.streams.readers.base import EncodedStream
from braided.streams.readers.live import POLL_S, LiveStream
from braided.streams.readers.mappings import Pair, Splitter, UndecidedError, pairs_chunk


def _record(message: Message) -> Any:
    """What a message holds."""
    if isinstance(message.body, dict):
        return message.body
    if len(message.body) > text_files.MAX_LINE:
        raise BraidedError(f"the message is longer than {text_files.MAX_LINE:,} bytes: give one record per message")
    try:
        text = message.body.decode()
    except UnicodeDecodeError as error:
        raise BraidedError(f"not text in UTF-8 ({error.reason} at byte {error.start}): send JSON") from None
    return jsonl.parse(text, "message")


def _checked_form(form: Any) -> tuple[bool, str | None]:
    """The form of records in a position; one that no splitter has is refused by a ValueError."""
    paired, target = form
    if not isinstance(paired, bool) or not (target is None or isinstance(target, str)):
        raise ValueError(form)
    return paired, target


class _Gathering:
    """Messages in order as chunks, with labels of earlier records and what cannot be read between them.

    Parameters
    ----------
    shown
        What errors call the source.
    splitter
        Takes records apart.
    encoder
        Is told the target.
    """

    def __init__(self, shown: str, splitter: Splitter, encoder: Encoder) -> None:
        self._shown = shown
        self._splitter = splitter
        self._encoder = encoder
        self._places: list[str] = []
        self._pairs: list[Pair] = []
        self._labels: list[Labels] = []

    def add(self, message: Message, after: Callable[[], Any]) -> Iterator[Piece]:
        """Take a message; gives what goes before it, and what is wrong with it. `after` is where the source stands."""
        if not message.body:
            return  # like an empty line
        try:
            found = self._splitter.split(_record(message))
        except UndecidedError as error:
            raise BraidedError(f"{at(self._shown, message.where)}: {error}") from None
        except BraidedError as error:
            yield from self.rest(after())
            yield BadRecord(at(self._shown, message.where), str(error))
            return
        other = self._pairs if isinstance(found, Labels) else self._labels
        if other:
            yield from self.rest(after())
        self._places.append(message.where)
        if isinstance(found, Labels):
            time = np.nan if message.time is None else message.time
            self._labels.append(replace(found, times=np.array([time])))
        else:
            self._splitter.describe_to(self._encoder)
            self._pairs.append(found._replace(time=message.time))

    @property
    def empty(self) -> bool:
        """Whether nothing is gathered."""
        return not self._places

    def rest(self, after: Any) -> Iterator[Piece]:
        """What was gathered so far, if there is any: records, or labels of earlier ones."""
        if self._pairs:
            yield pairs_chunk(self._shown, self._places, self._pairs, after)
        elif self._labels:
            yield LabelPiece([at(self._shown, place) for place in self._places], join_labels(self._labels), after)
        self._places, self._pairs, self._labels = [], [], []


@dataclass(frozen=True)
class _ThereNow(EncodedStream):
    """Messages that are held, as a stream with an end."""

    name: str
    messages: list[Message]
    target: str | None
    record_id: str | None

    def chunks(self, encoder: Encoder) -> Generator[Piece]:
        encoder.target = self.target
        gathering = _Gathering(self.name, Splitter(self.target, self.record_id, encoder.rules.key), encoder)
        for message in self.messages:
            yield from gathering.add(message, lambda: None)
        yield from gathering.rest(None)


@dataclass
class BrokerStream(LiveStream):
    """Records from a topic of Kafka or MQTT, or a stream of Redis.

    All that is there is read first, then what comes. The place in the source is part of `position`, and what the
    broker thinks was acknowledged has no say in it, but for MQTT, which has no places: there, messages since the last
    checkpoint come again.

    Attributes
    ----------
    address
        The source, from `braided.brokers.address.parse`.
    keep_until_saved
        Whether a broker without places is to keep messages until `saved` is called. `close` is then left to the caller.
    """

    address: Address
    keep_until_saved: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._source = source_of(self.address, self.rules.say)
        self._connected = False
        #: Messages that were looked at before anybody asked for the records in them.
        self._looked_at: deque[Message] = deque()

    @property
    def name(self) -> str:
        """The address, without credentials."""
        return public(self.address.shown)

    def connect(self) -> None:
        """Go to the position; what cannot be reached or is not there is refused."""
        if not self._connected:
            place = None
            if self.position is not None:
                with reject_malformed("the position in the stream"):
                    place = self.position["place"]
                    self._source.check(place)
            self._source.keeps = self.keep_until_saved
            self._source.open(place)
            self._connected = True

    def close(self) -> None:
        """Let go of the broker."""
        if self._connected:
            self._connected = False
            self._source.close()

    def there_now(self, records: int, rules: Rules) -> EncodedStream:
        """The first records that are there by now, read by other rules; they come again in `batches`."""
        self.connect()
        until = time.monotonic() + CONNECT_S
        while len(self._looked_at) < records and time.monotonic() < until:
            found = self._source.fetch(records - len(self._looked_at), POLL_S)
            self._looked_at += found
            if self._source.caught_up:
                break
            until = time.monotonic() + CONNECT_S if found else until
        return _ThereNow(self.name, list(self._looked_at), self.target, self.record_id, rules=rules)

    def saved(self, position: dict[str, Any] | None) -> None:
        """Tell the broker what it need not keep."""
        if position is not None and self._connected:
            self._source.saved(position["place"])

    @property
    def wants_saving(self) -> bool:
        """Whether the broker waits for `saved`."""
        return self._connected and self._source.wants_saving

    def _begin(self, start: dict[str, Any] | None) -> None:
        self._form = None if start is None else _checked_form(start["form"])

    def _next(self, most: int) -> list[Message]:
        """The next messages, none if there are none for the moment."""
        if self._looked_at:
            return [self._looked_at.popleft() for _ in range(min(most, len(self._looked_at)))]
        found = self._source.fetch(most, POLL_S)
        if found or self._source.holds or self._source.away_since is not None:
            self._last = time.monotonic()  # a broker that is away is not a stream without records
        return found

    def _pieces(self, encoder: Encoder, start: dict[str, Any] | None) -> Iterator[Piece]:
        splitter = Splitter(self.target, self.record_id, encoder.rules.key)
        if self._form is not None:
            splitter.form = self._form
        gathering = _Gathering(self.name, splitter, encoder)
        given = 0
        self.connect()
        try:
            while not self._stopped:
                room = self._room(0 if encoder.kinds_known else given)
                if room <= 0 and encoder.kinds_known:
                    return
                messages = self._next(room) if room > 0 else []
                for piece in self._as_pieces(messages, gathering, splitter):
                    given += 0 if piece is None else len(piece)
                    yield piece
                if not messages:
                    if room <= 0 or self._source.caught_up or self._stopped:
                        yield None
                    if self._over():
                        return
                    self._pause()
        finally:
            if not self.keep_until_saved:
                self.close()

    def _over(self) -> bool:
        """Whether the stream has ended; not before what is there was fetched, unless that takes long."""
        late = time.monotonic() - self._last > CONNECT_S
        return self._ended() and (self._stopped or self._source.caught_up or late)

    def _room(self, held: int) -> int:
        """How many records may still be asked for; `held` of those given so far are not counted yet."""
        left = CHUNK_RECORDS if self.limit is None else self.limit - self.records_before - held
        return min(left, CHUNK_RECORDS)

    def _as_pieces(self, messages: list[Message], gathering: _Gathering, splitter: Splitter) -> Iterator[Piece]:
        def after() -> dict[str, Any]:
            """The reader's part of `position`."""
            return {"place": self._source.place, "form": list(splitter.form)}

        for message in messages:
            yield from gathering.add(message, after)
            self._source.take(message)
        if messages and gathering.empty:
            yield LabelPiece((), join_labels(()), after())  # the last was no record, and need not be read again
        yield from gathering.rest(after())
