"""MQTT 5 with QoS 1 and a session that the broker keeps: at least once, for there is no place to go back to.

Messages are acknowledged when a checkpoint holds what was learned of them. What came after it comes again. Those
that were sent with QoS 0 are not under the window: what does not fit into the queue is dropped.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from braided.brokers.address import Address
from braided.brokers.base import Message, Sink, Source
from braided.brokers.outage import CONNECT_S, check_reachable, reason_of
from braided.errors import BraidedError

#: Messages that the broker may send before the first of them is acknowledged.
WINDOW = 2_000
#: Seconds that the broker keeps a session whose client is away.
_SESSION_S = 7 * 24 * 3600
#: Messages on their way to the broker.
_MAX_SENT = 1_000
#: The reason of a broker that has given our session to another client of the same name.
_TAKEN_OVER = 142


def _client(address: Address, name: str, **more: Any) -> Any:
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5, **more)
    if address.user is not None or address.password is not None:
        client.username_pw_set(address.user or "", address.password)
    if address.tls:
        client.tls_set()
    client.connect_timeout = CONNECT_S
    client.reconnect_delay_set(1, 5)
    return client


class _Connected:
    """Waits for the answer to the first connection."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._answered = threading.Event()
        self.refusal: str | None = None

    def answer(self, reason: ReasonCode) -> None:
        """The broker has answered to a connection, or a subscription."""
        self.refusal = str(reason) if reason.is_failure else None
        self._answered.set()

    def connect(self, client: paho.Client, close: Callable[[], None], **settings: Any) -> None:
        """Connect, and wait for the broker's answer; what is refused is closed."""
        try:
            client.connect(self._address.host, self._address.port, keepalive=30, **settings)
        except OSError as error:
            raise BraidedError(f"{self._address.shown} cannot be reached ({reason_of(error)}): look at it") from None
        client.loop_start()
        if not self._answered.wait(CONNECT_S):
            self.refusal = f"no answer in {CONNECT_S:g} s"
        if self.refusal is not None:
            close()
            raise BraidedError(f"{self._address.shown}: the broker refuses: {self.refusal}; give what it wants")


def client_name(address: Address) -> str:
    """The name under which the broker keeps the session: that of the setting `client`, or made from the address."""
    digest = hashlib.sha256(f"{address.hosts} {address.name}".encode()).hexdigest()
    return address.settings.get("client") or f"braided-{digest[:16]}"


class MQTTSource(Source):
    """The messages of a topic as the broker sends them; those without acknowledgement come again after a restart."""

    @staticmethod
    def check(place: Any) -> None:
        """A place is a whole number from 0 on."""
        if not isinstance(place, int) or isinstance(place, bool) or place < 0:
            raise ValueError(place)

    def open(self, place: Any) -> None:
        """Connect to the session, and subscribe."""
        check_reachable(self.address)
        self.place = place or 0
        self._number = self.place
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        #: Messages of QoS 0 that came when the queue was full.
        self._dropped = 0
        #: Number and packet of each message that is not acknowledged, and the packets among them.
        self._held: deque[tuple[int, int]] = deque()
        self._packets: set[int] = set()
        self._lock = threading.Lock()
        self._taken_over = False
        self._closing = False
        self._resumed = place is not None
        self._ready = _Connected(self.address)
        self._client = _client(self.address, client_name(self.address), manual_ack=True)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_disconnect = self._on_disconnect
        self._client.on_message = self._on_message
        wanted = Properties(PacketTypes.CONNECT)
        wanted.SessionExpiryInterval = _SESSION_S
        wanted.ReceiveMaximum = WINDOW
        self._ready.connect(self._client, self.close, clean_start=False, properties=wanted)

    def _on_connect(self, client: Any, _: Any, flags: Any, reason: ReasonCode, *__: Any) -> None:
        if reason.is_failure:
            self._ready.answer(reason)
            return
        with self._lock:
            if not flags.session_present:
                self._held.clear()
                self._packets.clear()
        if self._resumed and not flags.session_present:
            self.say(f"{self.address.shown} has no session of this client any more: what came meanwhile is lost")
        self._resumed = True
        again = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe(self.address.name, options=again)

    def _on_subscribe(self, _: Any, __: Any, ___: int, reasons: list[ReasonCode], *____: Any) -> None:
        self._ready.answer(reasons[0])
        if not reasons[0].is_failure:
            self.outage.end()

    def _on_disconnect(self, _: Any, __: Any, ___: Any, reason: ReasonCode, *____: Any) -> None:
        self._taken_over = self._taken_over or reason.value == _TAKEN_OVER
        if not self._closing:
            self.outage.begin(str(reason))

    def _on_message(self, _: Any, __: Any, message: Any) -> None:
        with self._lock:
            if message.dup and message.mid in self._packets:
                return  # sent again after the connection broke, and still here
            if not message.qos and self._queue.qsize() >= 2 * WINDOW:
                self._drop()  # for these the broker waits for nothing
                return
            self._number += 1
            if message.qos:
                self._held.append((self._number, message.mid))
                self._packets.add(message.mid)
            self._queue.put(Message(message.payload, None, self._number, f"message {self._number} of this run"))

    def _drop(self) -> None:
        if not self._dropped:
            self.say(
                f"{self.address.shown}: messages of QoS 0 come faster than they are learned, and are dropped: let "
                "their senders use QoS 1"
            )
        self._dropped += 1

    def fetch(self, most: int, wait_s: float) -> list[Message]:
        """What has come."""
        if self._taken_over:
            raise BraidedError(
                f"{self.address.shown}: another client has taken over the session {client_name(self.address)!r}: end "
                "it, or give each its own by ?client=NAME"
            )
        found: list[Message] = []
        try:
            found.append(self._queue.get(timeout=wait_s))
            while len(found) < most:
                found.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        self.caught_up = not found
        return found

    def take(self, message: Message) -> None:
        """A message is with the reader: without a checkpoint that is all there is to wait for."""
        super().take(message)
        if not self.keeps:
            self.saved(self.place)

    @property
    def wants_saving(self) -> bool:
        """Whether the window is full of messages that were taken: a save before that frees only a part of it."""
        with self._lock:
            return len(self._held) >= WINDOW and self._held[-1][0] <= self.place

    def saved(self, place: Any) -> None:
        """Acknowledge all messages up to a place."""
        with self._lock:
            while self._held and self._held[0][0] <= place:
                _, packet = self._held.popleft()
                self._packets.discard(packet)
                self._client.ack(packet, 1)

    def close(self) -> None:
        """Let go of the connection; the broker keeps the session."""
        if self._dropped and not self._closing:
            self.say(f"{self.address.shown}: {self._dropped:,} messages of QoS 0 were dropped")
        self._closing = True
        self._client.disconnect()
        self._client.loop_stop()


class MQTTSink(Sink):
    """Messages that the broker has acknowledged."""

    def open(self) -> None:
        """Connect."""
        check_reachable(self.address)
        self._closing = False
        self._sent: deque[tuple[Any, bytes]] = deque()
        self._ready = _Connected(self.address)
        self._client = _client(self.address, "")
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._ready.connect(self._client, self.close)

    def _on_connect(self, _: Any, __: Any, ___: Any, reason: ReasonCode, *____: Any) -> None:
        self._ready.answer(reason)
        if not reason.is_failure:
            self.outage.end()

    def _on_disconnect(self, _: Any, __: Any, ___: Any, reason: ReasonCode, *____: Any) -> None:
        if not self._closing:
            self.outage.begin(str(reason))

    def send(self, bodies: Sequence[bytes]) -> None:
        """Publish, with a bounded number of acknowledgements awaited."""
        for body in bodies:
            self._sent.append((self._publish(body), body))
            while len(self._sent) >= _MAX_SENT:
                self._settle_first()

    def _publish(self, body: bytes) -> Any:
        while not self._client.is_connected():
            self.wait()
        return self._client.publish(self.address.name, body, qos=1)

    def _settle_first(self) -> None:
        """Wait for the oldest acknowledgement; what the connection broke off is sent again."""
        sent, body = self._sent[0]
        try:
            sent.wait_for_publish(1.0)
            over = sent.is_published()
        except RuntimeError:
            self._sent[0] = (self._publish(body), body)
            return
        except ValueError as error:
            raise BraidedError(f"{self.address.shown}: a prediction cannot be sent ({reason_of(error)})") from None
        if over:
            self.heard()
            self._sent.popleft()
        else:
            self.wait()

    def flush(self) -> None:
        """Wait for all acknowledgements."""
        while self._sent:
            self._settle_first()

    def close(self) -> None:
        """Let go of the connection."""
        self._closing = True
        self._client.disconnect()
        self._client.loop_stop()


def source(address: Address, say: Callable[[str], None]) -> MQTTSource:
    """What reads a topic."""
    return MQTTSource(address, say)


def sink(address: Address, say: Callable[[str], None]) -> MQTTSink:
    """What publishes to a topic."""
    return MQTTSink(address, say)
