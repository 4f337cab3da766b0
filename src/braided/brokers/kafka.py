"""Kafka: read by the offset of each partition, outside of any group, so that nothing depends on what was committed.

Messages of several partitions come in the order of (timestamp, partition, offset) among the first that each has left:
the same order whenever the same partitions are read. Where a partition has no message left, one of another is given
when it is `wait` seconds old, by its timestamp or since it came here; so the order is that of a later reading as long
as no message needs longer than that to reach its partition.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka as ck

from braided.brokers.address import Address
from braided.brokers.base import Message, Sink, Source
from braided.brokers.outage import CONNECT_S, check_reachable, reason_of
from braided.errors import BraidedError

#: Partitions that are merged at most.
_MAX_PARTITIONS = 256
#: Messages of one partition, and their bytes, that may wait for their turn: from one of the first on it is paused,
#: below both of the second resumed.
_FULL, _LOW = 2_000, 500
_FULL_BYTES, _LOW_BYTES = 16 * 2**20, 4 * 2**20
#: Seconds for an answer from a broker that was away.
_PROBE_S = 1.0
#: Seconds that a message waits for older ones of quiet partitions.
_WAIT_S = 1
#: What librdkafka may fetch in advance.
_PREFETCH = {
    "queued.min.messages": 2_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.message.max.bytes": 2**20,
    "fetch.queue.backoff.ms": 10,  # usually a second, for which a queue of this size does not last
}
#: The environment's name for a file of librdkafka's settings, lines of `name=value`.
SETTINGS_FILE = "BRAIDED_KAFKA_SETTINGS"
_GONE = {ck.KafkaError._AUTO_OFFSET_RESET, ck.KafkaError.OFFSET_OUT_OF_RANGE}
_MISSING = {ck.KafkaError.UNKNOWN_TOPIC_OR_PART, ck.KafkaError._UNKNOWN_TOPIC, ck.KafkaError._UNKNOWN_PARTITION}


def _settings(address: Address, environment: Mapping[str, str]) -> dict[str, Any]:
    """What a client of either kind is made with."""
    found: dict[str, Any] = {
        "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in address.hosts),
        "log_level": 0,
        "reconnect.backoff.max.ms": 5_000,
        "security.protocol": "SSL" if address.tls else "PLAINTEXT",
    }
    if address.user is not None:
        found |= {
            "security.protocol": "SASL_SSL" if address.tls else "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": address.user,
            "sasl.password": address.password or "",
        }
    path = environment.get(SETTINGS_FILE)
    if path:
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BraidedError(f"{SETTINGS_FILE} is {path}: {reason_of(error)}") from None
        pairs = [line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#")]
        found |= {name.strip(): value.strip() for name, _, value in pairs}
    return found


def _partitions(client: Any, address: Address) -> list[int]:
    """The partitions of the topic; one that is not there is refused."""
    try:
        topic = client.list_topics(address.name, timeout=CONNECT_S).topics[address.name]
    except ck.KafkaException as error:
        raise BraidedError(f"{address.shown} cannot be reached ({_words(error.args[0])}): look at the broker") from None
    if topic.error is not None:
        raise BraidedError(
            f"{address.shown}: Kafka says: {_words(topic.error)}: give the name of a topic that is there"
        )
    return sorted(topic.partitions)


def _words(error: Any) -> str:
    return reason_of(error.str())


class _Waiting(NamedTuple):
    """A message of a partition, and when it came here."""

    time_ms: int
    partition: int
    offset: int
    body: bytes
    came: float


class KafkaSource(Source):
    """The messages of one partition, or of all partitions of a topic in one order."""

    @staticmethod
    def check(place: Any) -> None:
        """A place is by each partition's number as text the last offset and its timestamp, -1 for none."""
        for number, (offset, time_ms) in dict(place).items():
            if number != str(int(number)) or int(number) < 0:
                raise ValueError(place)
            if not all(type(each) is int and each >= -1 for each in (offset, time_ms)):
                raise ValueError(place)

    def open(self, place: Any) -> None:
        """Connect, and go to the offset of each partition."""
        check_reachable(self.address)
        self._wait_s = self.address.number("wait", _WAIT_S) or 0
        settings = {
            **_PREFETCH,
            **_settings(self.address, os.environ),
            "group.id": "braided",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "error_cb": self._on_error,
        }
        try:
            self._consumer = ck.Consumer(settings)
        except ck.KafkaException as error:
            raise BraidedError(f"{self.address.shown}: librdkafka says: {_words(error.args[0])}") from None
        try:
            self._begin(self._chosen(_partitions(self._consumer, self.address)), place)
        except ck.KafkaException as error:
            self._consumer.close()
            raise BraidedError(f"{self.address.shown}: Kafka says: {_words(error.args[0])}") from None
        except BaseException:
            self._consumer.close()
            raise

    def _chosen(self, there: list[int]) -> list[int]:
        one = self.address.number("partition", None)
        if one is not None and one not in there:
            raise BraidedError(f"{self.address.shown}: there is no partition {one}: give one up to {there[-1]}")
        if one is None and len(there) > _MAX_PARTITIONS:
            raise BraidedError(
                f"{self.address.shown} has {len(there)} partitions, and {_MAX_PARTITIONS} can be read at once: choose "
                "one by ?partition=NUMBER"
            )
        return there if one is None else [one]

    def _begin(self, chosen: list[int], place: Any) -> None:
        """Assign the partitions, each behind the last message taken of it."""
        if place is not None and sorted(map(int, place)) != chosen:
            raise BraidedError(
                f"{self.address.shown} has other partitions than when the checkpoint was made: start without it"
            )
        before = {number: [-1, -1] if place is None else list(place[str(number)]) for number in chosen}
        self._offsets = {number: offset for number, (offset, _) in before.items()}
        #: Timestamps of the last messages taken: they are read once more, to see that they are the same.
        self._known_ms = {number: time_ms for number, (_, time_ms) in before.items() if time_ms >= 0}
        self._bytes = dict.fromkeys(chosen, 0)
        self._waiting: dict[int, deque[_Waiting]] = {number: deque() for number in chosen}
        self._at_end: set[int] = set()
        self._paused: set[int] = set()
        name = self.address.name
        starts = []
        for number, last in self._offsets.items():
            low, high = self._consumer.get_watermark_offsets(ck.TopicPartition(name, number), timeout=CONNECT_S)
            if place is None:
                before[number][0] = last = low - 1
            elif not low <= last + 1 <= high:
                raise self._gone(number)
            starts.append(ck.TopicPartition(name, number, max(last if number in self._known_ms else last + 1, low)))
        self._offsets = {number: offset for number, (offset, _) in before.items()}
        self._consumer.assign(starts)
        self.place = {str(number): known for number, known in before.items()}

    def _gone(self, partition: int) -> BraidedError:
        return BraidedError(
            f"{self.address.shown} does not have what comes after offset {self._offsets[partition]} of partition "
            f"{partition} any more: it was removed by its age, or the topic was made anew; start without the checkpoint"
        )

    def _on_error(self, error: Any) -> None:
        if error.code() == ck.KafkaError._ALL_BROKERS_DOWN:
            self.outage.begin(_words(error))

    def fetch(self, most: int, wait_s: float) -> list[Message]:
        """The next messages whose turn has come."""
        self._look_for_it()
        self._gather(self._consumer.consume(most, 0.0))
        found = self._merged(most)
        if not found:
            first = self._consumer.poll(wait_s)
            self._gather([] if first is None else [first, *self._consumer.consume(most, 0.0)])
            found = self._merged(most)
        self._balance()
        self.caught_up = not found and len(self._at_end) == len(self._waiting) and not self.holds
        return found

    def _look_for_it(self) -> None:
        """While it is away, ask it now and then: where no message is new, none says that it is back."""
        if not (self.outage.active and self.outage.due()):
            return
        any_one = ck.TopicPartition(self.address.name, next(iter(self._waiting)))
        try:
            self._consumer.get_watermark_offsets(any_one, timeout=_PROBE_S, cached=False)
        except ck.KafkaException as error:
            self.outage.begin(_words(error.args[0]))
        else:
            self.outage.end()

    @property
    def holds(self) -> bool:
        """Whether messages wait for older ones of other partitions."""
        return any(self._waiting.values())

    def _gather(self, messages: Sequence[Any]) -> None:
        """Put messages to those of their partition that wait."""
        now = time.time()
        for message in messages:
            error, partition = message.error(), message.partition()
            if error is None:
                self.outage.end()
                self._at_end.discard(partition)
                waiting = _Waiting(message.timestamp()[1], partition, message.offset(), message.value() or b"", now)
                if not self._is_known(waiting):
                    self._waiting[partition].append(waiting)
                    self._bytes[partition] += len(waiting.body)
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                self.outage.end()
                self._at_end.add(partition)
            elif error.code() in _GONE:
                raise self._gone(partition)
            elif error.code() in _MISSING:
                raise BraidedError(f"{self.address.shown}: Kafka says: {_words(error)}: is the topic still there?")
            elif error.fatal() or (error.code() > 0 and not error.retriable()):  # others are of this side, and pass
                raise BraidedError(f"{self.address.shown}: Kafka says: {_words(error)}")

    def _is_known(self, message: _Waiting) -> bool:
        """Whether it is the last one that was taken; another in its place is of a topic that was made anew."""
        time_ms = self._known_ms.pop(message.partition, None)
        if time_ms is None or message.offset > self._offsets[message.partition]:
            return False
        if message.time_ms != time_ms:
            raise self._gone(message.partition)
        return True

    def _merged(self, most: int) -> list[Message]:
        """Messages in their order, as far as it is known by now."""
        found: list[Message] = []
        now = time.time()
        while len(found) < most:
            heads = [waiting[0] for waiting in self._waiting.values() if waiting]
            quiet = [number for number, waiting in self._waiting.items() if not waiting]
            if not heads or any(number not in self._at_end for number in quiet):
                break
            first = min(heads)
            old = first.time_ms / 1_000 <= now - self._wait_s or first.came <= now - self._wait_s
            if quiet and not old:
                break
            self._waiting[first.partition].popleft()
            self._bytes[first.partition] -= len(first.body)
            where = f"offset {first.offset} of partition {first.partition}"
            found.append(Message(first.body, first.time_ms / 1_000, first[:3], where))
        return found

    def _balance(self) -> None:
        """Fetch nothing of partitions of which much waits, until little does."""
        sizes = {number: (len(waiting), self._bytes[number]) for number, waiting in self._waiting.items()}
        full = {number for number, (n, size) in sizes.items() if n >= _FULL or size >= _FULL_BYTES} - self._paused
        low = {number for number in self._paused if sizes[number][0] < _LOW and sizes[number][1] < _LOW_BYTES}
        for change, numbers in ((self._consumer.pause, full), (self._consumer.resume, low)):
            if numbers:
                change([ck.TopicPartition(self.address.name, number) for number in sorted(numbers)])
        self._paused = (self._paused | full) - low

    def take(self, message: Message) -> None:
        """Note the offset of the message's partition."""
        time_ms, partition, offset = message.place
        self._offsets[partition] = offset
        self.place = {**self.place, str(partition): [offset, time_ms]}

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()


class KafkaSink(Sink):
    """Messages that all replicas which keep up have acknowledged."""

    def open(self) -> None:
        """Connect, and look whether the topic is there."""
        check_reachable(self.address)
        settings = {
            **_settings(self.address, os.environ),
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "queue.buffering.max.messages": 10_000,
            "error_cb": self._on_error,
        }
        self._failure: Any = None
        try:
            self._producer = ck.Producer(settings)
        except ck.KafkaException as error:
            raise BraidedError(f"{self.address.shown}: librdkafka says: {_words(error.args[0])}") from None
        there = _partitions(self._producer, self.address)
        one = self.address.number("partition", None)
        if one is not None and one not in there:
            raise BraidedError(f"{self.address.shown}: there is no partition {one}: give one up to {there[-1]}")
        self._to = {} if one is None else {"partition": one}

    def _on_error(self, error: Any) -> None:
        if error.code() == ck.KafkaError._ALL_BROKERS_DOWN:
            self.outage.begin(_words(error))

    def _on_delivery(self, error: Any, _: Any) -> None:
        self._failure = self._failure or error
        if error is None:
            self.heard()
            self.outage.end()

    def _look(self) -> None:
        """See what was delivered; a message that will never be is an error."""
        self._producer.poll(0)
        if self._failure is not None:
            raise BraidedError(f"{self.address.shown}: Kafka says: {_words(self._failure)}")

    def send(self, bodies: Sequence[bytes]) -> None:
        """Produce; waits while the producer's queue is full."""
        for body in bodies:
            while True:
                try:
                    self._producer.produce(self.address.name, body, on_delivery=self._on_delivery, **self._to)
                    break
                except BufferError:
                    self._look()
                    self.wait()
                except ck.KafkaException as error:
                    raise BraidedError(
                        f"{self.address.shown}: a prediction cannot be sent ({_words(error.args[0])}): raise "
                        f"message.max.bytes in {SETTINGS_FILE} if it is too large"
                    ) from None
        self._look()

    def flush(self) -> None:
        """Wait until all are delivered."""
        while self._producer.flush(0.5):
            self._look()
            self.wait()
        self._look()

    def close(self) -> None:
        """Give up what is not delivered."""
        self._producer.purge()
        self._producer.flush(CONNECT_S)


def source(address: Address, say: Callable[[str], None]) -> KafkaSource:
    """What reads a topic."""
    return KafkaSource(address, say)


def sink(address: Address, say: Callable[[str], None]) -> KafkaSink:
    """What produces to a topic."""
    return KafkaSink(address, say)
