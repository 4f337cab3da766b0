"""What comes too fast, is too large, or is not taken: bounded, said once, and no run hangs by it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from broker_servers import Kafka, started, wait_for

from braided import BraidedError
from braided.brokers import base
from braided.brokers.address import parse
from braided.brokers.base import sink_of, source_of


def test_kafka_is_back_though_no_message_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"socket.timeout.ms": 1_000, "socket.connection.setup.timeout.ms": 1_000, "reconnect.backoff.max.ms": 500}
    (tmp_path / "settings").write_text("".join(f"{name}={value}\n" for name, value in quick.items()))
    monkeypatch.setenv("BRAIDED_KAFKA_SETTINGS", str(tmp_path / "settings"))
    server = started("kafka", tmp_path)
    told: list[str] = []
    try:
        server.publish("plant", [b"a", b"b"])
        source = source_of(parse(server.address("plant")), told.append)
        source.open(None)
        wait_for(lambda: source.fetch(10, 0.1) == [] and source.caught_up)
        server.process.send_signal(signal.SIGSTOP)  # it answers nothing, and can go on
        wait_for(lambda: source.fetch(10, 0.1) or source.away_since)
        server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: source.fetch(10, 0.1) or source.away_since is None)
        assert "cannot be reached" in told[0]
        assert "is back after" in told[-1]
        source.close()
    finally:
        server.process.send_signal(signal.SIGCONT)
        server.stop()


def test_messages_of_a_partition_that_wait_are_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = started("kafka", tmp_path)
    assert isinstance(server, Kafka)
    from braided.brokers import kafka

    monkeypatch.setattr(kafka, "_MAX_WAITING_BYTES", 500_000)
    try:
        server.publish("plant", [b"x" * 100_000] * 40)
        source: Any = source_of(parse(f"kafka://127.0.0.1:{server.port}/plant?wait=3"), lambda _: None)
        source.open(None)
        found: list[Any] = []
        most = 0

        def all_there() -> bool:
            nonlocal most
            found.extend(source.fetch(4, 0.1))
            most = max(most, sum(len(message.body) for message in source._partitions[0].waiting))
            return len(found) == 40

        wait_for(all_there)
        assert 400_000 <= most <= 1_300_000, "it is paused behind the fifth, with two more fetches at most"
        source.close()
    finally:
        server.stop()


def test_what_kafka_takes_never_is_one_sentence(tmp_path: Path) -> None:
    server = started("kafka", tmp_path)
    try:
        server.make("plant")
        sink = sink_of(parse(server.address("plant")), lambda _: None)
        sink.open()
        with pytest.raises(BraidedError, match=r"Kafka says: .*too large: if .* too large, raise message.max.bytes"):
            sink.send([b"x" * 2_000_000])
        sink.close()
    finally:
        server.stop()


@pytest.mark.parametrize("kind", ["kafka", "mqtt"])
def test_a_broker_that_takes_no_more_ends_a_run_that_is_told_to(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = started(kind, tmp_path)
    told: list[str] = []
    try:
        server.make("plant")
        sink = sink_of(parse(server.address("plant")), told.append)
        sink.open()
        sink.send([b"1", b"2"])
        sink.flush()
        monkeypatch.setattr(base, "CONNECT_S", 1.0)
        server.process.send_signal(signal.SIGSTOP)  # the connection stays, and nothing is acknowledged
        os.waitpid(server.process.pid, os.WUNTRACED)
        sink.send([b"3"])
        sink.give_up()
        with pytest.raises(BraidedError, match="takes no more, and has not all predictions: repeat the command with"):
            sink.flush()
        assert told == []
    finally:
        server.process.send_signal(signal.SIGCONT)
        sink.close()
        server.stop()


def test_messages_that_mqtt_does_not_hold_back_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = started("mqtt", tmp_path)
    import paho.mqtt.client as paho

    from braided.brokers import mqtt

    monkeypatch.setattr(mqtt, "WINDOW", 10)
    told: list[str] = []
    try:
        source: Any = source_of(parse(server.address("plant")), told.append)
        source.open(None)
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.connect("127.0.0.1", server.port)
        client.loop_start()
        for number in range(100):
            client.publish("plant", str(number), qos=0)
        client.publish("plant", "last", qos=1).wait_for_publish(30)
        client.disconnect()
        client.loop_stop()
        wait_for(lambda: source._held)
        bodies = [message.body for message in source.fetch(500, 0.2)]
        assert bodies == [*(str(number).encode() for number in range(20)), b"last"]
        source.close()
        (line,) = told
        assert "messages of QoS 0 come faster than they are learned" in line
    finally:
        server.stop()


def test_a_backlog_of_mqtt_is_saved_once_for_each_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = started("mqtt", tmp_path)
    from braided.brokers import mqtt

    monkeypatch.setattr(mqtt, "WINDOW", 20)
    try:
        server.make("plant")
        server.publish("plant", [str(number).encode() for number in range(60)])
        source: Any = source_of(parse(server.address("plant")), lambda _: None)
        source.keeps = True
        source.open(None)
        taken, saves = 0, 0
        wait_for(lambda: len(source._held) >= 20)

        def over() -> bool:
            nonlocal taken, saves
            for message in source.fetch(5, 0.05):
                source.take(message)
                taken += 1
            if source.wants_saving:
                source.saved(source.place)
                saves += 1
            return taken == 60

        wait_for(over)
        assert 2 <= saves <= 3
        source.close()
    finally:
        server.stop()


def test_a_session_that_another_client_has_taken_over_ends_a_run(tmp_path: Path) -> None:
    server = started("mqtt", tmp_path)
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.reasoncodes import ReasonCode

    try:
        source: Any = source_of(parse(server.address("plant")), lambda _: None)
        source.open(None)
        taken = ReasonCode(PacketTypes.DISCONNECT, "Session taken over")  # not every mosquitto says so
        source._client.on_disconnect(None, None, None, taken, None)
        with pytest.raises(BraidedError, match=r"another client has the session .* now: give each its own by .client="):
            source.fetch(1, 0.1)
        source.close()
    finally:
        server.stop()


def test_a_refused_reconnection_is_not_a_broker_that_is_back(tmp_path: Path) -> None:
    server = started("mqtt", tmp_path)
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.reasoncodes import ReasonCode

    told: list[str] = []
    refused, fine = (ReasonCode(PacketTypes.CONNACK, name) for name in ("Not authorized", "Success"))
    try:
        sink: Any = sink_of(parse(server.address("plant")), told.append)
        sink.open()
        sink.lost("gone")
        sink._client.on_connect(None, None, None, refused, None)
        assert sink.away_since is not None
        sink._client.on_connect(None, None, None, fine, None)
        assert sink.away_since is None
        sink.close()
    finally:
        server.stop()
