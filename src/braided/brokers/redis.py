"""Redis Streams: read by the ID of the last entry, without a group, so that nothing depends on acknowledgements."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import redis

from braided.brokers.base import CONNECT_S, Client, Message, Sink, Source, reason_of

#: The field of an entry that holds a whole record as JSON; what we write has it.
_FIELD = "json"
#: The client neither waits for long nor tries again by itself.
_OPTIONS = {"socket_connect_timeout": CONNECT_S, "socket_timeout": CONNECT_S, "retry": None, "protocol": 2}


class _RedisClient(Client):
    """A connection to Redis, and the stream's key."""

    def connect(self) -> bool:
        """Connect; whether the stream exists. A key that holds something else is refused."""
        self.check_reachable()
        host, port = self.address.hosts[0]
        login = {"username": self.address.user, "password": self.address.password, "ssl": self.address.tls}
        self._client: Any = redis.Redis(host, port, int(self.address.settings.get("db", 0)), **login, **_OPTIONS)
        kind = self.ask(lambda: self._client.type(self.address.name).decode(), opening=True)
        if kind not in ("none", "stream"):
            raise self.error(f"that key is a {kind}, not a stream: give another name")
        return bool(kind == "stream")

    def ask(self, command: Callable[[], Any], opening: bool = False) -> Any:
        """What Redis answers; None while it is away, but for the first connection."""
        try:
            answer = command()
        except redis.RedisError as error:
            if opening or not isinstance(error, redis.ConnectionError | redis.TimeoutError):
                raise self.error(f"Redis says: {reason_of(error)}") from None
            self.lost(error)
            time.sleep(0.3)
            return None
        self.back()
        return answer

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()


def _order(entry: str) -> tuple[int, int]:
    """An entry's ID as what it is compared by."""
    ms, _, number = entry.partition("-")
    return int(ms), int(number or 0)


class RedisSource(_RedisClient, Source):
    """The entries of a stream in the order of their IDs."""

    #: The ID of an entry, and how many the stream had been given up to it.
    place_as_json = r'\["[0-9]{1,20}-[0-9]{1,20}", [0-9]+\]'

    def open(self, place: Any) -> None:
        """Connect, and look whether the stream has what comes after the place."""
        if not self.connect():
            raise self.error("there is no such stream: give the name of one, which XADD makes")
        about = self.ask(lambda: self._client.xinfo_stream(self.address.name), opening=True)
        # Before version 7, Redis does not say how many entries it was given.
        removed = about.get("entries-added", about["length"]) - about["length"]
        self.place = ["0-0", removed] if place is None else place
        self._entry, self._count = self.place
        if place is not None and self._is_gone(about, removed):
            what = f"what comes after entry {self._entry} is gone: it was trimmed, or the stream was recreated"
            raise self.error(f"{what}; start without the checkpoint")

    def _is_gone(self, about: dict[str, Any], removed: int) -> bool:
        """Whether entries are gone that were not read."""
        newest, deleted = (about.get(name, b"0-0").decode() for name in ("last-generated-id", "max-deleted-entry-id"))
        first, last = about.get("first-entry"), _order(self._entry)
        all_after = first is None or _order(first[0].decode()) > last
        # Where all that is there comes after the place, just those up to it were removed, or it is another stream.
        recreated = "entries-added" in about and all_after and removed < self._count
        return recreated or _order(newest) < last or _order(deleted) > last or removed > self._count

    def fetch(self, most: int, wait_s: float) -> list[Message]:
        """The next entries."""
        wait_ms = max(int(wait_s * 1_000), 1)
        found = self.ask(lambda: self._client.xread({self.address.name: self._entry}, most, wait_ms))
        self.caught_up = found is not None and not found
        return [self._message(*entry) for _, entries in found or () for entry in entries]

    def _message(self, entry: bytes, fields: dict[bytes, bytes]) -> Message:
        """An entry: its field `json`, or its only field if that is an object, else all of its fields."""
        self._entry = entry.decode()
        self._count += 1
        body: bytes | dict[str, str] | None = fields.get(_FIELD.encode())
        if body is None:
            only = next(iter(fields.values())) if len(fields) == 1 else b""
            words = {name.decode(errors="replace"): cell.decode(errors="replace") for name, cell in fields.items()}
            body = only if only.lstrip().startswith(b"{") else words
        time_s = _order(self._entry)[0] / 1_000
        return Message(body, time_s, [self._entry, self._count], f"entry {self._entry}")


class RedisSink(_RedisClient, Sink):
    """Entries with one field, `json`."""

    def open(self) -> None:
        """Connect; the first entry makes the stream."""
        self.connect()

    def send(self, bodies: Sequence[bytes]) -> None:
        """Add entries, in one go, and wait until Redis has them."""
        while self.ask(lambda: self._add(bodies)) is None:
            self.wait()

    def _add(self, bodies: Sequence[bytes]) -> Any:
        pipeline = self._client.pipeline(transaction=False)
        for body in bodies:
            pipeline.xadd(self.address.name, {_FIELD: body})
        return pipeline.execute()


source, sink = RedisSource, RedisSink
