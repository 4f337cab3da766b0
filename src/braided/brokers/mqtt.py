"""MQTT 5 with QoS 1 and a session that the broker keeps: at least once, for there is no place to go back to.

Messages are acknowledged when a checkpoint holds what was learned of them. What came after it comes again. Those
that were sent with QoS 0 are not under the window: what does not fit into the queue is dropped.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from braided.brokers.base import CONNECT_S, Client, Message, Sink, Source, reason_of

#: Messages that the broker may send before the first of them is acknowledged.
WINDOW = 2_000
#: Seconds that the broker keeps a session whose client is away.
_SESSION_S = 7 * 24 * 3600
#: Messages on their way to the broker.
_MAX_SENT = 1_000
#: The reason of a broker that has given our session to another client of the same name.
_TAKEN_OVER = 142


class _MQTTClient(Client):
    """A connection that the library keeps up in a thread of its own."""

    def prepare(self, name: str, manual_ack: bool = False) -> None:
        """Make the client of the library; its name is that of the session which the broker keeps."""
        self._answered = threading.Event()
        self._refusal: str | None = None
        self._closing = self._taken_over = False
        version = paho.CallbackAPIVersion.VERSION2
        self._client = paho.Client(version, name, protocol=paho.MQTTv5, manual_ack=manual_ack)
        if self.address.user is not None or self.address.password is not None:
            self._client.username_pw_set(self.address.user or "", self.address.password)
        if self.address.tls:
            self._client.tls_set()
        self._client.connect_timeout = CONNECT_S
        self._client.reconnect_delay_set(1, 5)
        self._client.on_disconnect = self._on_disconnect

    def connect(self, **settings: Any) -> None:
        """Connect, and wait for the broker's answer; a connection that it refuses is closed."""
        self.check_reachable()
        try:
            self._client.connect(*self.address.hosts[0], keepalive=30, **settings)
        except OSError as error:
            raise self.error(
                f"cannot be reached ({reason_of(error)}): look at the broker, and whether it has TLS"
            ) from None
        self._client.loop_start()
        if not self._answered.wait(CONNECT_S):
            self._refusal = f"no answer in {CONNECT_S:g} s"
        if self._refusal is not None:
            self.close()
            raise self.error(f"the broker refuses: {self._refusal}; give what it wants")

    def answer(self, reason: ReasonCode) -> None:
        """The broker has answered to a connection, or a subscription."""
        self._refusal = str(reason) if reason.is_failure else None
        if not reason.is_failure:
            self.back()
        self._answered.set()

    def _on_disconnect(self, _: Any, __: Any, ___: Any, reason: ReasonCode, ____: Any) -> None:
        self._taken_over = self._taken_over or reason.value == _TAKEN_OVER
        if not self._closing:
            self.lost(str(reason))

    def close(self) -> None:
        """Let go of the connection; the broker keeps a session that has a name."""
        self._closing = True
        self._client.disconnect()
        self._client.loop_stop()


class MQTTSource(_MQTTClient, Source):
    """The messages of a topic as the broker sends them; those without acknowledgement come again after a restart."""

    @staticmethod
    def check(place: Any) -> None:
        """A place is a whole number from 0 on."""
        if not isinstance(place, int) or isinstance(place, bool) or place < 0:
            raise ValueError(place)

    def open(self, place: Any) -> None:
        """Connect to the session, and subscribe."""
        self.place = self._number = place or 0
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        #: Messages of QoS 0 that came when the queue was full.
        self._dropped = 0
        #: The number of each message that is not acknowledged, by its packet, in their order.
        self._held: OrderedDict[int, int] = OrderedDict()
        self._lock = threading.Lock()
        self._resumed = place is not None
        digest = hashlib.sha256(f"{self.address.hosts} {self.address.name}".encode()).hexdigest()
        self._session = self.address.settings.get("client") or f"braided-{digest[:16]}"
        self.prepare(self._session, manual_ack=True)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = lambda _, __, ___, reasons, ____: self.answer(reasons[0])
        self._client.on_message = self._on_message
        wanted = Properties(PacketTypes.CONNECT)
        wanted.SessionExpiryInterval = _SESSION_S
        wanted.ReceiveMaximum = WINDOW
        self.connect(clean_start=False, properties=wanted)

    def _on_connect(self, client: Any, _: Any, flags: Any, reason: ReasonCode, __: Any) -> None:
        if reason.is_failure:
            self.answer(reason)
            return
        if not flags.session_present:
            with self._lock:
                self._held.clear()
            if self._resumed:
                self.say(f"{self.address.shown} no longer has this client's session: what came meanwhile is lost")
        self._resumed = True
        again = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe(self.address.name, options=again)

    def _on_message(self, _: Any, __: Any, message: Any) -> None:
        with self._lock:
            if message.dup and message.mid in self._held:
                return  # sent again after the connection broke, and still here
            if not message.qos and self._queue.qsize() >= 2 * WINDOW:
                if not self._dropped:
                    what = "messages of QoS 0 come faster than they are learned, and are dropped"
                    self.say(f"{self.address.shown}: {what}: let their senders use QoS 1")
                self._dropped += 1
                return
            self._number += 1
            if message.qos:
                self._held[message.mid] = self._number
            self._queue.put(Message(message.payload, None, self._number, f"message {self._number} of this run"))

    def fetch(self, most: int, wait_s: float) -> list[Message]:
        """What has come."""
        if self._taken_over:
            what = f"another client has taken over the session {self._session!r}"
            raise self.error(f"{what}: end it, or give each its own by ?client=NAME")
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
        with self._lock:  # a save before all of a full window was taken would free only a part of it
            full = len(self._held) >= WINDOW
            self.wants_saving = full and next(reversed(self._held.values())) <= self.place

    def saved(self, place: Any) -> None:
        """Acknowledge all messages up to a place, in their order."""
        with self._lock:
            self.wants_saving = False
            while self._held and next(iter(self._held.values())) <= place:
                packet, _ = self._held.popitem(last=False)
                self._client.ack(packet, 1)

    def close(self) -> None:
        """Let go of the connection; the broker keeps the session."""
        if self._dropped and not self._closing:
            self.say(f"{self.address.shown}: {self._dropped:,} messages of QoS 0 were dropped")
        super().close()


class MQTTSink(_MQTTClient, Sink):
    """Messages that the broker has acknowledged; the library sends again what a broken connection left open."""

    def open(self) -> None:
        """Connect."""
        self._sent = self._acknowledged = 0
        self.prepare("")
        self._client.on_connect = lambda _, __, ___, reason, ____: self.answer(reason)
        self._client.on_publish = self._on_publish
        self.connect()

    def _on_publish(self, *_: Any) -> None:
        self._acknowledged += 1
        self.heard_at = time.monotonic()

    def send(self, bodies: Sequence[bytes]) -> None:
        """Publish, with a bounded number of acknowledgements awaited."""
        for body in bodies:
            self._settle(_MAX_SENT - 1)
            try:
                self._client.publish(self.address.name, body, qos=1)
            except ValueError as error:
                raise self.error(f"a prediction cannot be sent ({reason_of(error)})") from None
            self._sent += 1

    def _settle(self, most: int) -> None:
        """Wait until so many acknowledgements at most are awaited."""
        while self._sent - self._acknowledged > most:
            self.wait()

    def flush(self) -> None:
        """Wait for all acknowledgements."""
        self._settle(0)


source, sink = MQTTSource, MQTTSink
