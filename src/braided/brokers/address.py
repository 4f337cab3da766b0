"""The address of a broker's topic or stream: `kafka://HOST:PORT/TOPIC` and the like."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from braided.errors import BraidedError

#: The kinds of brokers; each has a module of this name.
KAFKA, REDIS, MQTT = "kafka", "redis", "mqtt"
#: For each scheme the kind of broker, whether it is encrypted, and the port if none is given.
_SCHEMES = {
    "kafka": (KAFKA, False, 9092),
    "kafkas": (KAFKA, True, 9093),
    "redis": (REDIS, False, 6379),
    "rediss": (REDIS, True, 6379),
    "mqtt": (MQTT, False, 1883),
    "mqtts": (MQTT, True, 8883),
}
_FORMS = "kafka://HOST:PORT/TOPIC, redis://HOST/STREAM or mqtt://HOST/TOPIC"
#: What may stand behind the question mark of each kind.
_SETTINGS = {KAFKA: {"partition": "NUMBER", "wait": "NUMBER"}, REDIS: {"db": "NUMBER"}, MQTT: {"client": "NAME"}}
_PATTERNS = {"NUMBER": "[0-9]{1,9}", "NAME": ".+"}
#: Whatever stands before the host, up to the last @.
_CREDENTIALS = re.compile(r"(?<=://)[^?]*@")
_SECRET = re.compile(r"([?&])(?:password|token)=[^&#]*&?", re.IGNORECASE)
_MAX_LENGTH = 1_000


def is_broker(source: str) -> bool:
    """Whether a source is the address of a broker.

    >>> is_broker("redis://127.0.0.1/plant"), is_broker("postgresql://db/plant"), is_broker("plant.csv")
    (True, False, False)
    """
    return "://" in source and source.partition("://")[0] in _SCHEMES


def public(source: str) -> str:
    """An address as it may be shown and stored: without user, password or token.

    >>> public("mqtt://s3cret@127.0.0.1/plant"), public("redis://ann:p/w@db:6379/plant?db=1")
    ('mqtt://127.0.0.1/plant', 'redis://db:6379/plant?db=1')
    """
    return _SECRET.sub(r"\1", _CREDENTIALS.sub("", source)).rstrip("?&")


@dataclass(frozen=True)
class Address:
    """Where a topic or stream is."""

    kind: str
    #: The address for messages, without credentials.
    shown: str
    #: Host and port; Kafka may have several.
    hosts: tuple[tuple[str, int], ...]
    #: The topic or stream.
    name: str
    tls: bool
    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    #: What stands behind the question mark.
    settings: Mapping[str, str]


def parse(source: str) -> Address:
    """An address taken apart; credentials that it lacks are those of the environment.

    >>> address = parse("kafka://ann:pw@one:9092,two/plant?partition=3")
    >>> address.hosts, address.name, address.password, address.settings
    ((('one', 9092), ('two', 9092)), 'plant', 'pw', {'partition': '3'})
    """
    kind, tls, usual_port = _SCHEMES[source.partition("://")[0]]
    shown = public(source)
    try:
        parts = urlsplit(source)
        credentials, _, netloc = parts.netloc.rpartition("@")
        split = [urlsplit(f"//{each}") for each in netloc.split(",")]
        hosts = tuple((each.hostname or "", each.port or usual_port) for each in split)
        name = unquote(parts.path.removeprefix("/"))
        whole = name and all(host for host, _ in hosts) and (len(hosts) == 1 or kind == KAFKA)
        if not whole or "@" in parts.path or "#" in source or len(source) > _MAX_LENGTH:
            raise ValueError(source)
    except ValueError:
        rule = f"of at most {_MAX_LENGTH:,} characters, with %40 for an @ and %23 for a # in names and passwords"
        raise BraidedError(f"{shown[:100]}: give {_FORMS}, {rule}") from None
    settings = dict(parse_qsl(parts.query, keep_blank_values=True))
    for setting, text in settings.items():
        usable = _SETTINGS[kind]
        if setting not in usable or not re.fullmatch(_PATTERNS[usable[setting]], text):
            known = " or ".join(f"{name}={value}" for name, value in usable.items())
            raise BraidedError(f"{shown}: {setting[:60]!r} cannot be set like this: give {known} behind the ?")
    user, colon, password = credentials.partition(":")
    some_user = unquote(user) or os.environ.get("BRAIDED_BROKER_USER") or None
    some_password = unquote(password) if colon else os.environ.get("BRAIDED_BROKER_PASSWORD") or None
    return Address(kind, shown, hosts, name, tls, some_user, some_password, settings)
