"""The place in a source that a checkpoint holds: what is no place, or is not there any more, is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from broker_servers import KINDS, Kafka, Server, started, wait_for

from braided import BraidedError
from braided.brokers.address import parse
from braided.brokers.base import Source, source_of
from braided.streams import open_stream


def opened(address: str, place: Any = None) -> Source:
    source = source_of(parse(address), lambda _: None)
    source.open(place)
    return source


def read(address: str, place: Any = None) -> tuple[list[Any], Any]:
    """All messages behind a place, and the place behind them."""
    source, bodies = opened(address, place), []
    try:

        def over() -> bool:
            for message in source.fetch(100, 0.2):
                bodies.append(message.body)
                source.take(message)
            return source.caught_up

        wait_for(over)
        return bodies, json.loads(json.dumps(source.place))
    finally:
        source.close()


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("kafka", {"²": [0, 0]}),
        ("kafka", {"00": [5, 0]}),
        ("kafka", {"-1": [5, 0]}),
        ("kafka", {"0": [True, 0]}),
        ("kafka", {"0": 5}),
        ("redis", ["1-1", True]),
        ("redis", ["1", 1]),
        ("redis", 7),
        ("mqtt", True),
        ("mqtt", "7"),
    ],
)
def test_what_is_no_place_is_refused_before_anything_is_connected(kind: str, place: Any) -> None:
    pytest.importorskip("confluent_kafka", reason="confluent_kafka is not installed: run make test EXTRAS=all")
    position = {"place": place, "form": [True, None], "records": 1, "labels": 0}
    stream: Any = open_stream(f"{kind}://127.0.0.1:1/plant", position=position)
    with pytest.raises(BraidedError, match="the position in the stream cannot be used"):
        stream.connect()


def test_what_an_empty_partition_lost_meanwhile_is_not_passed_over(tmp_path: Path) -> None:
    server = started("kafka", tmp_path)
    assert isinstance(server, Kafka)
    try:
        server.publish("plant", [b"a", b"b"])
        address = f"kafka://127.0.0.1:{server.port}/plant"
        bodies, place = read(address)
        assert bodies == [b"a", b"b"]
        assert [place[number][0] for number in "0123"] == [1, -1, -1, -1]
        assert read(address, place)[0] == []
        server.publish("plant", [b"x" * 900_000] * 8, partitions=[1] * 8)  # a mock keeps 5 MB of each partition
        with pytest.raises(BraidedError, match="what comes after offset -1 of partition 1 is gone"):
            opened(address, place)
        begun_late = read(f"{address}?partition=1")[1]
        server.publish("plant", [b"c"], partitions=[1])
        assert read(f"{address}?partition=1", begun_late)[0] == [b"c"]
    finally:
        server.stop()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mqtt"])
def test_a_recreated_topic_is_not_read_on_from_the_middle(kind: str, tmp_path: Path) -> None:
    server = started(kind, tmp_path)
    try:
        server.make("plant")
        server.publish("plant", [b'{"a": 1}', b'{"a": 2}'])
        _, place = read(server.address("plant"))
        server.publish("plant", [b'{"a": 3}'])
        assert read(server.address("plant"), place)[0] == [b'{"a": 3}']
        server = recreated(server, "plant", tmp_path)
        server.publish("plant", [b'{"b": 1}', b'{"b": 2}', b'{"b": 3}'])
        with pytest.raises(
            BraidedError, match=r"what comes after \w+ \S+ .*is gone: .* the \w+ was recreated; start without"
        ):
            read(server.address("plant"), place)
    finally:
        server.stop()


def recreated(server: Server, name: str, folder: Path) -> Server:
    """A server with a topic of this name that is another."""
    if isinstance(server, Kafka):  # a mock cluster can delete none
        server.stop()
        return started("kafka", folder)
    server.client().delete(name)  # type: ignore[attr-defined]
    return server


def test_a_stream_whose_read_part_was_trimmed_is_gone_on_with(tmp_path: Path) -> None:
    server = started("redis", tmp_path)
    try:
        server.publish("plant", [b'{"a": 1}'] * 5)
        _, place = read(server.address("plant"))
        server.publish("plant", [b'{"a": 2}'] * 3)
        server.client().xtrim("plant", maxlen=3, approximate=False)  # type: ignore[attr-defined]
        assert read(server.address("plant"), place)[0] == [b'{"a": 2}'] * 3
        _, place = read(server.address("plant"), place)
        server.client().xtrim("plant", maxlen=0, approximate=False)  # type: ignore[attr-defined]
        assert read(server.address("plant"), place)[0] == []
    finally:
        server.stop()
