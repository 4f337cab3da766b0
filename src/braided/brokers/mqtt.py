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
from contextlib import suppress
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from braided.brokers.base import CONNECT_S, Client, Message, Sink, Source, reason_of

#: Messages that the broker may send before the first of them is acknowledged.
WINDOW = 2_000
#: Messages on their way to the broker.
_MAX_SENT = 1_000


class _MQTTClient(Client):
    """A connection that the library keeps up in a thread of its own."""

    def connect(self, name: str, callbacks: dict[str, Any], **settings: Any) -> None:
        """Connect under the name of a session, and wait for the broker's answer; what it refuses is closed."""
        self._answered = threading.Event()
        self._refusal: str | None = None
        self._closing = self._taken_over = False
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5, manual_ack=True)
        if self.address.user is not None or self.address.password is not None:
            self._client.username_pw_set(self.address.user or "", self.address.password)
        if self.address.tls:
            self._client.tls_set()
        self._client.connect_timeout = CONNECT_S
        self._client.reconnect_delay_set(1, 5)
        for event, callback in {"on_disconnect": self._on_disconnect, **callbacks}.items():
            setattr(self._client, event, callback)
        try:
            self._client.connect(*self.address.hosts[0], keepalive=30, **settings)
        except OSError as error:
            raise self.error(f"cannot be reached ({reason_of(error)}): look at the broker") from None
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
        self._taken_over = self._taken_over or reason == "Session taken over"
        if not self._closing:
            self.lost(str(reason))

    def close(self) -> None:
        """Let go of the connection; the broker keeps a session that has a name."""
        self._closing = True
        self._client.disconnect()
        self._client.loop_stop()


class MQTTSource(_MQTTClient, Source):
    """The messages of a topic as the broker sends them; those without acknowledgement come again after a restart."""

    #: How many messages were taken.
    place_as_json = "[0-9]+"

    def open(self, place: Any) -> None:
        """Connect to the session, and subscribe."""
        self.place = self._number = place or 0
        self._resumed = place is not None
        self._dropping = False
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        #: The number of each message that is not acknowledged, by its packet, in their order.
        self._held: OrderedDict[int, int] = OrderedDict()
        self._lock = threading.Lock()
        digest = hashlib.sha256(f"{self.address.hosts} {self.address.name}".encode()).hexdigest()
        self._session = self.address.settings.get("client") or f"braided-{digest[:16]}"
        wanted = Properties(PacketTypes.CONNECT)
        wanted.SessionExpiryInterval = 7 * 24 * 3600  # seconds without a client
        wanted.ReceiveMaximum = WINDOW
        callbacks: dict[str, Any] = {"on_connect": self._on_connect, "on_message": self._on_message}
        callbacks["on_subscribe"] = lambda *said: self.answer(said[3][0])
        self.connect(self._session, callbacks, clean_start=False, properties=wanted)

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
                if not self._dropping:
                    what = "messages of QoS 0 come faster than they are learned, and are dropped"
                    self.say(f"{self.address.shown}: {what}: let their senders use QoS 1")
                self._dropping = True
                return
            self._number += 1
            if message.qos:
                self._held[message.mid] = self._number
            self._queue.put(Message(message.payload, None, self._number, f"message {self._number} of this run"))

    def fetch(self, most: int, wait_s: float) -> list[Message]:
        """What has come."""
        if self._taken_over:
            raise self.error(f"another client has the session {self._session!r} now: give each its own by ?client=NAME")
        found: list[Message] = []
        with suppress(queue.Empty):
            found.append(self._queue.get(timeout=wait_s))
            while len(found) < most:
                found.append(self._queue.get_nowait())
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


class MQTTSink(_MQTTClient, Sink):
    """Messages that the broker has acknowledged; the library sends again what a broken connection left open."""

    def open(self) -> None:
        """Connect."""
        self._sent = self._acknowledged = 0
        self.connect("", {"on_connect": lambda *said: self.answer(said[3]), "on_publish": self._on_publish})

    def _on_publish(self, *_: Any) -> None:
        self._acknowledged += 1
        self.heard_at = time.monotonic()

    def send(self, bodies: Sequence[bytes]) -> None:
        """Publish, with a bounded number of acknowledgements awaited."""
        for body in bodies:
            while self._sent - self._acknowledged >= _MAX_SENT:
                self.wait()
            try:
                self._client.publish(self.address.name, body, qos=1)
            except ValueError as error:
                raise self.error(f"a prediction cannot be sent ({reason_of(error)})") from None
            self._sent += 1

    def flush(self) -> None:
        """Wait for all acknowledgements."""
        while self._sent > self._acknowledged:
            self.wait()


source, sink = MQTTSource, MQTTSink
