"""The source or sink of an address; what is imported needs the extra `brokers`."""

from __future__ import annotations

from collections.abc import Callable

from braided.brokers.address import KAFKA, MQTT, NATS, REDIS, Address
from braided.brokers.base import Sink, Source
from braided.extras import require

_MODULES = {KAFKA: "kafka", REDIS: "redis_streams", MQTT: "mqtt", NATS: "jetstream"}


def source_of(address: Address, say: Callable[[str], None]) -> Source:
    """What reads an address, not yet connected."""
    module = require(f"braided.brokers.{_MODULES[address.kind]}", "brokers")
    source: Source = module.source(address, say)
    return source


def sink_of(address: Address, say: Callable[[str], None]) -> Sink:
    """What writes to an address, not yet connected."""
    module = require(f"braided.brokers.{_MODULES[address.kind]}", "brokers")
    sink: Sink = module.sink(address, say)
    return sink
