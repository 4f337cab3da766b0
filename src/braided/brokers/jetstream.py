"""JetStream of NATS: read by the sequence number of the stream, so that nothing depends on acknowledgements."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import nats
from nats.errors import Error as NATSError
from nats.errors import MaxPayloadError
from nats.js import api
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from braided.brokers.address import Address
from braided.brokers.base import Message, Sink, Source
from braided.brokers.outage import CONNECT_S, Outage, check_reachable, reason_of
from braided.errors import BraidedError

#: Seconds after which the server forgets a consumer that asks for nothing; another is then made.
_FORGOTTEN_S = 300.0
#: Seconds without a message after which the server is asked whether it still has the consumer.
_LOOK_S = 0.5
#: Messages on their way to the server.
_MAX_SENT = 500
#: Seconds after which a stream that does not answer is taken for gone: a server that was started again takes some.
_NO_STREAM_S = 10.0


class _Connection:
    """A connection whose event loop has a thread of its own, in which the server's pings are answered.

    Parameters
    ----------
    address
        The server.
    outage
        Is told when the connection breaks and when it is back.
    """

    def __init__(self, address: Address, outage: Outage) -> None:
        check_reachable(address)
        self.address = address
        self._outage = outage
        self.reconnected = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="nats")
        self._thread.start()
        try:
            self.client: Any = self.run(self._connect())
        except BaseException:
            self._end()
            raise
        self.js = self.client.jetstream(timeout=CONNECT_S)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine gives; errors of the server in words."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except (NATSError, APIError, OSError) as error:
            raise BraidedError(f"{self.address.shown}: NATS says: {reason_of(error)}") from None

    async def _connect(self) -> Any:
        address = self.address
        known: dict[str, Any] = {"token": address.user} if address.password is None else {}
        if address.password is not None:
            known = {"user": address.user, "password": address.password}

        said: list[Exception] = []

        async def note(error: Exception) -> None:
            """Why the first connection fails, which is tried for ever; later errors are seen where they happen."""
            said[:] = [error]

        async def gone() -> None:
            if not self.client.is_closed:
                self._outage.begin("the connection broke")

        async def back() -> None:
            self.reconnected = True
            self._outage.end()

        first = nats.connect(
            f"nats://{address.host}:{address.port}",
            connect_timeout=CONNECT_S,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.5,
            error_cb=note,
            disconnected_cb=gone,
            reconnected_cb=back,
            **known,
        )
        try:
            return await asyncio.wait_for(first, CONNECT_S)
        except TimeoutError:
            why = reason_of(said[-1]) if said else f"no answer in {CONNECT_S:g} s"
            raise BraidedError(f"{address.shown}: the broker refuses: {why}; give what it wants") from None

    def stream(self) -> str:
        """The stream that takes the subject."""

        async def find() -> str:
            try:
                name: str = await self.js.find_stream_name_by_subject(self.address.name)
            except NotFoundError:
                raise BraidedError(
                    f"{self.address.shown}: no stream of JetStream takes this subject: make one with `nats stream add`"
                ) from None
            return name

        name: str = self.run(find())
        return name

    def close(self) -> None:
        """End the connection and its thread."""
        with suppress(BraidedError, TimeoutError):
            self.run(asyncio.wait_for(self.client.close(), CONNECT_S))
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONNECT_S)
        if not self._thread.is_alive():
            self._loop.close()


class _PlaceGoneError(BraidedError):
    """What comes behind a place is gone for good, so that there is nothing to wait for."""


def _created(about: Any) -> str | None:
    """When a stream was made; None where the server does not say."""
    return None if about.created is None else str(about.created.isoformat())


class JetStreamSource(Source):
    """The messages of a subject in the order of the stream's sequence numbers."""

    @staticmethod
    def check(place: Any) -> None:
        """A place is a whole number from 0 on, and when the stream was made, None where the server does not say."""
        number, created = place
        if type(number) is not int or number < 0 or not (created is None or isinstance(created, str)):
            raise ValueError(place)

    def open(self, place: Any) -> None:
        """Connect, and look whether the stream has what comes behind the place."""
        self._connection = _Connection(self.address, self.outage)
        try:
            self._stream = self._connection.stream()
            about = self._connection.run(self._connection.js.stream_info(self._stream))
            self._created = _created(about)
            self._last: int = 0 if place is None else place[0]
            if place is not None:
                self._check_place(about, place[1])
            self.place = [self._last, self._created]
            self._pull: Any = self._connection.run(self._consumer())
            #: When the consumer was last known to be there.
            self._known_at = time.monotonic()
            self._failing_since: float | None = None
        except BaseException:
            self._connection.close()
            raise

    def _check_place(self, about: Any, created: str | None, running: bool = False) -> None:
        """Refuse to go on where messages are gone that were not read, or may have been of the subject.

        Of a run that was there all the time, messages of other subjects may go, and those before its first.
        """
        what = ""
        now = _created(about)
        other = None not in (created, now) and created != now
        alone = about.config.subjects == [self.address.name]
        if other or self._last > about.state.last_seq:
            what = "the stream was made anew"
        elif self._last < about.state.first_seq - 1 and (not running or (alone and self._last)):
            what = "it was purged" if alone else "messages were purged, and may have been of this subject"
        if what:
            raise _PlaceGoneError(
                f"{self.address.shown} does not have what comes after message {self._last} any more: {what}; start "
                "without the checkpoint"
            )

    @property
    def holds(self) -> bool:
        """Whether it is not known what there is, since the stream or its consumer does not answer."""
        return self._failing_since is not None

    def take(self, message: Message) -> None:
        """Note the number of the message."""
        self.place = [message.place, self._created]

    async def _consumer(self) -> Any:
        """A consumer of the server's that begins behind the last message, and keeps nothing."""
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._last + 1,
            ack_policy=api.AckPolicy.NONE,
            inactive_threshold=_FORGOTTEN_S,
            mem_storage=True,
        )
        return await self._connection.js.pull_subscribe(self.address.name, stream=self._stream, config=config)

    async def _next(self, most: int, wait_s: float) -> list[Any]:
        try:
            found: list[Any] = await self._pull.fetch(most, timeout=wait_s)
        except (TimeoutError, nats.errors.TimeoutError):
            return []
        return found

    def _renew(self) -> None:
        """Another consumer behind the last message, if the stream is still the one that was read."""
        self._check_place(self._connection.run(self._connection.js.stream_info(self._stream)), self._created, True)
        with suppress(BraidedError):
            self._connection.run(self._pull.unsubscribe())
        self._pull = self._connection.run(self._consumer())
        self._known_at = time.monotonic()

    async def _is_lost(self) -> bool:
        """Whether the server has no such consumer any more: it answers to it as to one without messages."""
        try:
            await self._pull.consumer_info()
        except NotFoundError:
            return True
        return False

    def _found(self, most: int, wait_s: float) -> list[Any]:
        """What the server gives; nothing only if its consumer was there a moment ago."""
        if self._connection.reconnected:
            self._connection.reconnected = False
            self._renew()
        found: list[Any] = self._connection.run(self._next(most, wait_s))
        if not found and time.monotonic() - self._known_at < _LOOK_S:
            return found
        if not found and self._connection.run(self._is_lost()):
            self._renew()
            found = self._connection.run(self._next(most, wait_s))
        self._known_at = time.monotonic()
        return found

    def fetch(self, most: int, wait_s: float) -> list[Message]:
        """The next messages; a consumer that the server has lost is made anew behind the last one."""
        if self.outage.active:
            time.sleep(wait_s)
            return []
        try:
            found = self._found(most, wait_s)
        except _PlaceGoneError:
            raise
        except BraidedError:
            now = time.monotonic()
            self._failing_since = self._failing_since or now
            if now - self._failing_since > _NO_STREAM_S and not self.outage.active:
                raise
            self._connection.reconnected = True
            self.caught_up = False
            time.sleep(wait_s)
            return []
        self._failing_since = None
        self.caught_up = not found
        messages = []
        for each in found:
            about = each.metadata
            number = about.sequence.stream
            if number <= self._last:
                continue
            self._last = number
            messages.append(Message(each.data, about.timestamp.timestamp(), number, f"message {number}"))
        return messages

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


class JetStreamSink(Sink):
    """Messages that the stream has acknowledged."""

    def open(self) -> None:
        """Connect, and look whether a stream takes the subject."""
        self._refused = False
        self._connection = _Connection(self.address, self.outage)
        try:
            self._connection.stream()
        except BaseException:
            self._connection.close()
            raise

    def send(self, bodies: Sequence[bytes]) -> None:
        """Publish, some at a time, and again what was not acknowledged."""
        left = list(bodies)
        lost_since: float | None = None
        while left:
            part = left[:_MAX_SENT]
            answers = self._connection.run(self._publish(part))
            lost = [body for body, answer in zip(part, answers, strict=True) if isinstance(answer, BaseException)]
            left = lost + left[len(part) :]
            if len(lost) < len(part):
                self.heard()
            self._look_at(answers)
            if not lost:
                lost_since = None
                continue
            nobody = any(isinstance(answer, NoStreamResponseError) for answer in answers) and not self.outage.active
            lost_since = (lost_since or time.monotonic()) if nobody else None
            if lost_since is not None and time.monotonic() - lost_since > _NO_STREAM_S:
                raise BraidedError(f"{self.address.shown}: no stream takes this subject any more: make one")
            self.wait()

    def _look_at(self, answers: list[Any]) -> None:
        """An error for what the server will never take; what it does not take for now is said once."""
        if any(isinstance(answer, MaxPayloadError) for answer in answers):
            raise BraidedError(
                f"{self.address.shown}: a prediction is larger than the server's max_payload: raise it there"
            )
        refusal = next((answer for answer in answers if isinstance(answer, APIError)), None)
        if refusal is not None and not self._refused:
            why = reason_of(refusal.description or refusal)
            self.say(f"{self.address.shown} takes no predictions ({why}): trying again until it does")
        elif refusal is None and self._refused:
            self.say(f"{self.address.shown} takes predictions again")
        self._refused = refusal is not None

    async def _publish(self, bodies: list[bytes]) -> list[Any]:
        """The acknowledgement of each message, or the error in its place."""
        js, name = self._connection.js, self.address.name
        sent = [js.publish(name, body, timeout=CONNECT_S) for body in bodies]
        return list(await asyncio.gather(*sent, return_exceptions=True))

    def flush(self) -> None:
        """Nothing is on its way once `send` has returned."""

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def source(address: Address, say: Callable[[str], None]) -> JetStreamSource:
    """What reads a subject."""
    return JetStreamSource(address, say)


def sink(address: Address, say: Callable[[str], None]) -> JetStreamSink:
    """What publishes to a subject."""
    return JetStreamSink(address, say)
