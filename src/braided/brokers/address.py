"""The address of a broker's topic, stream or subject: `kafka://HOST:PORT/TOPIC` and the like."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from braided.errors import BraidedError

KAFKA, REDIS, MQTT, NATS = "kafka", "redis", "mqtt", "nats"
#: For each scheme the kind of broker, whether it is encrypted, and the port if none is given.
_SCHEMES = {
    "kafka": (KAFKA, False, 9092),
    "kafkas": (KAFKA, True, 9093),
    "redis": (REDIS, False, 6379),
    "rediss": (REDIS, True, 6379),
    "mqtt": (MQTT, False, 1883),
    "mqtts": (MQTT, True, 8883),
    "nats": (NATS, False, 4222),
}
FORMS = "kafka://HOST:PORT/TOPIC, redis://HOST/STREAM, mqtt://HOST/TOPIC or nats://HOST/SUBJECT"
#: What may stand behind the question mark of each kind.
_SETTINGS = {
    KAFKA: ("partition", "wait"),
    REDIS: ("db",),
    MQTT: ("client",),
    NATS: (),
}
_SCHEME = re.compile(r"([a-z]+)://")
#: Whatever stands before the host, up to the last @: a user, a password, a token.
_CREDENTIALS = re.compile(r"(?<=://)[^?]*@")
_SECRET = re.compile(r"([?&])(?:password|token)=[^&#]*&?", re.IGNORECASE)
#: Where credentials are looked for that are not in the address.
USER, PASSWORD = "BRAIDED_BROKER_USER", "BRAIDED_BROKER_PASSWORD"
_LONGEST = 1_000


def is_broker(source: str) -> bool:
    """Whether a source is the address of a broker.

    >>> is_broker("redis://127.0.0.1/plant"), is_broker("postgresql://db/plant"), is_broker("plant.csv")
    (True, False, False)
    """
    found = _SCHEME.match(source)
    return found is not None and found[1] in _SCHEMES


def public(source: str) -> str:
    """An address as it may be shown and stored: without user, password or token.

    >>> public("nats://s3cret@127.0.0.1/plant"), public("redis://ann:p/w@db:6379/plant?db=1")
    ('nats://127.0.0.1/plant', 'redis://db:6379/plant?db=1')
    """
    return _SECRET.sub(r"\1", _CREDENTIALS.sub("", source)).rstrip("?&")


@dataclass(frozen=True)
class Address:
    """Where a topic is.

    Attributes
    ----------
    kind
        `kafka`, `redis`, `mqtt` or `nats`.
    shown
        The address for messages, without credentials.
    hosts
        Host and port; of Kafka there may be several.
    name
        The topic, stream or subject.
    tls
        Whether the connection is encrypted.
    user, password
        Credentials, from the address or from BRAIDED_BROKER_USER and BRAIDED_BROKER_PASSWORD.
    settings
        What stands behind the question mark.
    """

    kind: str
    shown: str
    hosts: tuple[tuple[str, int], ...]
    name: str
    tls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """The first host."""
        return self.hosts[0][0]

    @property
    def port(self) -> int:
        """Its port."""
        return self.hosts[0][1]

    def number(self, setting: str, usual: int | None) -> int | None:
        """A setting that is a whole number from 0 on."""
        text = self.settings.get(setting)
        if text is None:
            return usual
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise BraidedError(f"{self.shown}: {setting} is {text[:60]!r}: give a whole number from 0 on")
        return int(text)


def parse(source: str) -> Address:
    """An address taken apart.

    >>> address = parse("kafka://ann:pw@one:9092,two/plant?partition=3")
    >>> address.hosts, address.name, address.password, address.number("partition", None)
    ((('one', 9092), ('two', 9092)), 'plant', 'pw', 3)
    """
    kind, tls, usual_port = _SCHEMES[source.partition("://")[0]]
    shown = public(source)
    parts = urlsplit(source)
    credentials, _, hosts = parts.netloc.rpartition("@")
    if "@" in parts.path or len(source) > _LONGEST:
        raise BraidedError(
            f"{shown[:100]}: an address has at most {_LONGEST:,} characters and no @ behind its host: write %40 for one"
        )
    name = unquote(parts.path.removeprefix("/"))
    found = tuple(_host(each, usual_port, shown) for each in hosts.split(","))
    if not name or "#" in source or (len(found) > 1 and kind != KAFKA):
        raise BraidedError(f"{shown}: give {FORMS}; write %23 for a #")
    user, colon, password = credentials.partition(":")
    settings = dict(parse_qsl(parts.query, keep_blank_values=True))
    for setting in settings:
        if setting not in _SETTINGS[kind]:
            known = " or ".join(_SETTINGS[kind]) or "none"
            raise BraidedError(f"{shown}: {setting[:60]!r} is no setting of {kind}://, which has {known}: leave it out")
    return Address(
        kind,
        shown,
        found,
        name,
        tls,
        unquote(user) or os.environ.get(USER) or None,
        unquote(password) if colon else os.environ.get(PASSWORD) or None,
        settings,
    )


def _host(text: str, usual_port: int, shown: str) -> tuple[str, int]:
    """Host and port."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise BraidedError(f"{shown}: there is no host with a port in it: give {FORMS}")
    return host, port or usual_port
