"""Real servers on free ports of the loopback, with their data in a folder, and plain clients to talk to them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

KINDS = ("redis", "mqtt", "kafka")
_CLIENTS = {"redis": "redis", "mqtt": "paho", "kafka": "confluent_kafka"}
_PROGRAMS = {"redis": "redis-server", "mqtt": "mosquitto"}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def started(kind: str, folder: Path) -> Server:
    """A server of this kind; its tests are skipped where it cannot be had."""
    if importlib.util.find_spec(_CLIENTS[kind]) is None:
        pytest.skip(f"{_CLIENTS[kind]} is not installed: run make test EXTRAS=all")
    if kind in _PROGRAMS and program(_PROGRAMS[kind]) is None:
        pytest.skip(f"{_PROGRAMS[kind]} is not here: install it, or run make test EXTRAS=all as root on Debian")
    return {"redis": Redis, "mqtt": Mosquitto, "kafka": Kafka}[kind](folder)


def wait_for(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait until something is so."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "it did not come to be"
        time.sleep(0.05)
    return found


class Server(ABC):
    """A server, its process and its port."""

    kind: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: Any = None
        self.start()

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it."""

    @abstractmethod
    def make(self, name: str) -> None:
        """Make a topic or stream."""

    @abstractmethod
    def publish(self, name: str, bodies: Sequence[bytes]) -> None:
        """Send messages, and wait until the server has them."""

    @abstractmethod
    def received(self, name: str) -> list[dict[str, Any]]:
        """All messages so far."""

    def address(self, name: str) -> str:
        return f"{self.kind}://127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command(), cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

        def listens() -> bool:
            assert self.process.poll() is None, "the server has ended"
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        wait_for(listens)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


class Redis(Server):
    kind = "redis"

    def command(self) -> list[str]:
        settings = ["--port", str(self.port), "--bind", "127.0.0.1", "--appendonly", "yes", "--appendfsync", "always"]
        return [str(program("redis-server")), *settings, "--dir", str(self.folder)]

    def client(self) -> Any:
        import redis

        return redis.Redis("127.0.0.1", self.port)

    def make(self, name: str) -> None:
        self.client().xgroup_create(name, "made", mkstream=True)

    def publish(self, name: str, bodies: Sequence[bytes]) -> None:
        pipeline = self.client().pipeline(transaction=False)
        for body in bodies:
            pipeline.xadd(name, {"json": body})
        pipeline.execute()

    def received(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(fields[b"json"]) for _, fields in self.client().xrange(name)]


class Mosquitto(Server):
    kind = "mqtt"

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._seen: dict[str, list[dict[str, Any]]] = {}
        self._listeners: list[Any] = []
        super().__init__(folder)

    def command(self) -> list[str]:
        lines = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            "max_queued_messages 0",
            "persistence true",
            "user root",
        ]
        lines += [f"persistence_location {self.folder}/"]
        (self.folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        return [str(program("mosquitto")), "-c", str(self.folder / "mosquitto.conf")]

    def make(self, name: str) -> None:
        """Let the session of a run be there, and listen to what is sent."""
        from braided.brokers.address import parse
        from braided.brokers.mqtt import MQTTSource

        source = MQTTSource(parse(self.address(name)), lambda _: None)
        source.keeps = True
        source.open(None)
        source.close()

    def listen(self, name: str) -> None:
        import paho.mqtt.client as paho

        seen = self._seen.setdefault(name, [])
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.on_message = lambda _, __, message: seen.append(json.loads(message.payload))
        ready: list[int] = []
        client.on_subscribe = lambda *_: ready.append(1)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        client.subscribe(name, qos=1)
        wait_for(lambda: ready)
        self._listeners.append(client)

    def publish(self, name: str, bodies: Sequence[bytes]) -> None:
        import paho.mqtt.client as paho

        client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for sent in [client.publish(name, body, qos=1) for body in bodies]:
            sent.wait_for_publish(30)
        client.disconnect()
        client.loop_stop()

    def received(self, name: str) -> list[dict[str, Any]]:
        return list(self._seen[name])

    def stop(self) -> None:
        for client in self._listeners:
            client.disconnect()
            client.loop_stop()
        self._listeners = []
        super().stop()


class Kafka(Server):
    """A mock cluster makes a topic of four partitions when something is first sent to it."""

    kind = "kafka"

    def command(self) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("kafka_mock.py"))]

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def address(self, name: str) -> str:
        return f"{super().address(name)}?partition=0"

    def make(self, name: str) -> None:
        from confluent_kafka import Producer

        Producer({"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0}).list_topics(name, timeout=30)

    def publish(
        self, name: str, bodies: Sequence[bytes], partitions: Sequence[int] = (), times_ms: Sequence[int] = ()
    ) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0})
        for t, body in enumerate(bodies):
            more = {"timestamp": times_ms[t]} if times_ms else {}
            producer.produce(name, body, partition=partitions[t] if partitions else 0, **more)
        assert producer.flush(30) == 0

    def received(self, name: str) -> list[dict[str, Any]]:
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        server = f"127.0.0.1:{self.port}"
        settings = {"bootstrap.servers": server, "group.id": "test", "enable.partition.eof": True, "log_level": 0}
        consumer = Consumer(settings)
        partitions = range(4)
        consumer.assign([TopicPartition(name, number, 0) for number in partitions])
        found, ended = [], set()
        while len(ended) < len(partitions):
            message = consumer.poll(10)
            assert message is not None
            if message.error() is None:
                found.append(json.loads(message.value()))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
        consumer.close()
        return found

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
