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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka as ck

from braided.brokers.base import CONNECT_S, Client, Message, Sink, Source, reason_of
from braided.errors import BraidedError

#: Partitions that are merged at most.
_MAX_PARTITIONS = 256
#: Messages of one partition, and their bytes, that may wait for their turn; it is then paused until none is left.
_MAX_WAITING, _MAX_WAITING_BYTES = 2_000, 16 * 2**20
#: What librdkafka may fetch in advance, and that we alone say where to read.
_READING = {
    "queued.min.messages": 2_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 10,  # the default is a second, for which a queue of this size does not last
    "group.id": "braided",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}
_WRITING = {"enable.idempotence": True, "message.timeout.ms": 0, "queue.buffering.max.messages": 10_000}
#: The environment's name for a file of librdkafka's settings, lines of `name=value`.
_SETTINGS_FILE = "BRAIDED_KAFKA_SETTINGS"
_GONE = {ck.KafkaError._AUTO_OFFSET_RESET, ck.KafkaError.OFFSET_OUT_OF_RANGE}
_MISSING = {ck.KafkaError._UNKNOWN_TOPIC, ck.KafkaError._UNKNOWN_PARTITION, ck.KafkaError.UNKNOWN_TOPIC_OR_PART}


class _KafkaClient(Client):
    """The library's client, and its errors as ours."""

    def connect(self, make: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> list[int]:
        """The partitions of the topic, or the one that the address chooses; what does not exist is refused."""
        self.check_reachable()
        self._kafka = make({**settings, **self._connection(), "error_cb": self._on_error})
        topic = self._kafka.list_topics(self.address.name, timeout=CONNECT_S).topics[self.address.name]
        if topic.error is not None:
            raise self.says(topic.error, "give the name of a topic that exists")
        #: The partition that the address chooses; librdkafka, too, takes -1 for any.
        self._one = int(self.address.settings.get("partition", -1))
        if self._one >= 0 and self._one not in topic.partitions:
            raise self.error(f"there is no partition {self._one}: give one up to {max(topic.partitions)}")
        return sorted(topic.partitions) if self._one < 0 else [self._one]

    def _connection(self) -> dict[str, Any]:
        """Where the brokers are, what they want to know, and what the user's file of settings says."""
        user, password = self.address.user, self.address.password or ""
        found: dict[str, Any] = {
            "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in self.address.hosts),
            "log_level": 0,
            "reconnect.backoff.max.ms": 5_000,
            "security.protocol": ("SASL_" if user else "") + ("SSL" if self.address.tls else "PLAINTEXT"),
        }
        if user:
            found |= {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password}
        path = os.environ.get(_SETTINGS_FILE)
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines() if path else []
        except (OSError, UnicodeDecodeError) as error:
            raise BraidedError(f"{_SETTINGS_FILE} is {path}: {reason_of(error)}") from None
        pairs = [line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#")]
        return found | {name.strip(): value.strip() for name, _, value in pairs}

    def _on_error(self, error: Any) -> None:
        if error.code() == ck.KafkaError._ALL_BROKERS_DOWN:
            self.lost(error.str())

    @contextmanager
    def one_line(self, remedy: str = "look at the broker and at its address") -> Iterator[None]:
        """Exceptions of the library as errors of ours."""
        try:
            yield
        except ck.KafkaException as error:
            raise self.says(error.args[0], remedy) from None

    def says(self, error: Any, remedy: str) -> BraidedError:
        """An error of Kafka, or of its library, as one of ours."""
        return self.error(f"Kafka says: {reason_of(error.str())}: {remedy}")


class _Waiting(NamedTuple):
    """A message of a partition, and when it came here."""

    time_ms: int
    partition: int
    offset: int
    body: bytes
    came: float


@dataclass
class _Partition:
    """How far a partition was read, and its messages that wait for their turn."""

    #: Offset and timestamp of the last message that was given, -1 for none.
    offset: int
    time_ms: int
    #: Whether that message is read once more, to see that it is the one of the checkpoint.
    comes_again: bool
    waiting: deque[_Waiting] = field(default_factory=deque)
    bytes: int = 0
    at_end: bool = False
    paused: bool = False


class KafkaSource(_KafkaClient, Source):
    """The messages of one partition, or of all partitions of a topic in one order."""

    #: By each partition's number as text the last offset and its timestamp, -1 for none.
    place_as_json = r'\{("(0|[1-9][0-9]*)": \[(-1|[0-9]+), (-1|[0-9]+)\](, |(?=\})))+\}'

    def open(self, place: Any) -> None:
        """Connect, and assign the partitions, each from behind the last message taken of it."""
        self._wait_s = int(self.address.settings.get("wait", 1))
        with self.one_line():
            chosen = self.connect(ck.Consumer, _READING)
            if len(chosen) > _MAX_PARTITIONS:
                raise self.error(f"more than {_MAX_PARTITIONS} partitions: choose one by ?partition=NUMBER")
            if place is not None and sorted(map(int, place)) != chosen:
                raise self.error("it has other partitions than when the checkpoint was made: start without it")
            self._partitions: dict[int, _Partition] = {}
            starts = []
            for number in chosen:
                low, high = self._kafka.get_watermark_offsets(self._named(number), timeout=CONNECT_S)
                offset, time_ms = (low - 1, -1) if place is None else place[str(number)]
                self._partitions[number] = _Partition(offset, time_ms, comes_again=time_ms >= 0)
                if not low <= offset + 1 <= high:
                    raise self._gone(number)
                starts.append(self._named(number, max(low, offset if time_ms >= 0 else offset + 1)))
            self._kafka.assign(starts)
        self.place = self._place_given = {str(n): [each.offset, each.time_ms] for n, each in self._partitions.items()}

    def _named(self, number: int, *offset: int) -> Any:
        return ck.TopicPartition(self.address.name, number, *offset)

    def _gone(self, number: int) -> BraidedError:
        what = f"what comes after offset {self._partitions[number].offset} of partition {number} is gone"
        return self.error(f"{what}: it expired, or the topic was recreated; start without the checkpoint")

    def fetch(self, most: int, wait_s: float) -> list[Message]:
        """The next messages whose turn has come."""
        if self.away_since is not None:  # where no message is new, none says that it is back
            self._probe()
        self._gather(self._kafka.consume(most, 0.0))
        found = self._merged(most)
        if not found:
            first = self._kafka.poll(wait_s)
            self._gather([] if first is None else [first, *self._kafka.consume(most, 0.0)])
            found = self._merged(most)
        self._balance()
        self.holds = any(each.waiting for each in self._partitions.values())
        self.caught_up = not (found or self.holds) and all(each.at_end for each in self._partitions.values())
        return found

    def _probe(self) -> None:
        try:
            self._kafka.get_watermark_offsets(self._named(min(self._partitions)), timeout=1.0, cached=False)
            self.back()
        except ck.KafkaException as error:
            self.lost(error.args[0].str())

    def _gather(self, messages: Sequence[Any]) -> None:
        """Put messages to those of their partition that wait."""
        now = time.time()
        for message in messages:
            error, number = message.error(), message.partition()
            if error is None or error.code() == ck.KafkaError._PARTITION_EOF:
                self.back()
                self._partitions[number].at_end = error is not None
                if error is None:
                    self._keep(_Waiting(message.timestamp()[1], number, message.offset(), message.value() or b"", now))
            elif error.code() in _GONE:
                raise self._gone(number)
            elif error.code() in _MISSING or error.fatal() or (error.code() > 0 and not error.retriable()):
                raise self.says(error, "look whether the topic still exists")

    def _keep(self, message: _Waiting) -> None:
        """Let a message wait, unless it was given before; another in that one's place is of a recreated topic."""
        partition = self._partitions[message.partition]
        known = partition.comes_again and message.offset <= partition.offset
        partition.comes_again = False
        if known and message.time_ms != partition.time_ms:
            raise self._gone(message.partition)
        if not known:
            partition.waiting.append(message)
            partition.bytes += len(message.body)

    def _merged(self, most: int) -> list[Message]:
        """Messages in their order, as far as it is known by now."""
        found: list[Message] = []
        partitions = self._partitions.values()
        before = time.time() - self._wait_s
        while len(found) < most:
            heads = [each.waiting[0] for each in partitions if each.waiting]
            if not heads or not all(each.waiting or each.at_end for each in partitions):
                break
            first = min(heads)
            if len(heads) < len(partitions) and min(first.time_ms / 1_000, first.came) > before:
                break
            partition = self._partitions[first.partition]
            partition.waiting.popleft()
            partition.bytes -= len(first.body)
            partition.offset, partition.time_ms = first.offset, first.time_ms
            self._place_given = {**self._place_given, str(first.partition): [first.offset, first.time_ms]}
            where = f"offset {first.offset} of partition {first.partition}"
            found.append(Message(first.body, first.time_ms / 1_000, self._place_given, where))
        return found

    def _balance(self) -> None:
        """Fetch nothing of partitions of which much waits, until nothing does."""
        for number, partition in self._partitions.items():
            full = len(partition.waiting) >= _MAX_WAITING or partition.bytes >= _MAX_WAITING_BYTES
            if full != partition.paused and (full or not partition.waiting):
                (self._kafka.pause if full else self._kafka.resume)([self._named(number)])
                partition.paused = full

    def close(self) -> None:
        """Let go of the connection."""
        self._kafka.close()


class KafkaSink(_KafkaClient, Sink):
    """Messages that all replicas which keep up have acknowledged."""

    def open(self) -> None:
        """Connect, and look whether the topic exists."""
        with self.one_line():
            self.connect(ck.Producer, _WRITING)

    def _on_delivery(self, error: Any, _: Any) -> None:
        """A message was delivered, or never will be: what is raised here comes out of `poll` and `flush`."""
        if error is not None:
            raise self.says(error, "this prediction was not taken")
        self.heard_at = time.monotonic()
        self.back()

    def send(self, bodies: Sequence[bytes]) -> None:
        """Produce; waits while the producer's queue is full."""
        left = deque(bodies)
        with self.one_line(f"if a prediction is too large, raise message.max.bytes in {_SETTINGS_FILE}"):
            while left:
                try:
                    self._kafka.produce(self.address.name, left[0], partition=self._one, on_delivery=self._on_delivery)
                    left.popleft()
                except BufferError:
                    self._kafka.poll(0)
                    self.wait()
        self._kafka.poll(0)

    def flush(self) -> None:
        """Wait until all are delivered."""
        while self._kafka.flush(0.5):
            self.wait()

    def close(self) -> None:
        """Give up what is not delivered."""
        self._kafka.purge()


source, sink = KafkaSource, KafkaSink
