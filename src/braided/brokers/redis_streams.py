"""Redis Streams: read by the ID of the last entry, without a group, so that nothing depends on acknowledgements."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis

from braided.brokers.address import Address
from braided.brokers.base import Message, Sink, Source
from braided.brokers.outage import CONNECT_S, check_reachable, reason_of
from braided.errors import BraidedError

_AWAY = (redis.ConnectionError, redis.TimeoutError)
#: The field of an entry that holds a whole record as JSON; what we write has it.
_FIELD = "json"
_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


def _client(address: Address) -> Any:
    return redis.Redis(
        address.host,
        address.port,
        db=address.number("db", 0) or 0,
        username=address.user,
        password=address.password,
        ssl=address.tls,
        socket_connect_timeout=CONNECT_S,
        socket_timeout=CONNECT_S,
        retry=None,
        retry_on_error=[],
        protocol=2,
    )


def _order(entry: str) -> tuple[int, int]:
    """An entry's ID as what it is compared by."""
    ms, _, number = entry.partition("-")
    return int(ms), int(number or 0)


class RedisSource(Source):
    """The entries of a stream in the order of their IDs."""

    @staticmethod
    def check(place: Any) -> None:
        """A place is the ID of an entry, and how many the stream had been given up to it."""
        entry, count = place
        if _ID.fullmatch(entry) is None or type(count) is not int or count < 0:
            raise ValueError(place)

    def open(self, place: Any) -> None:
        """Connect, and look whether the stream has what comes behind the place."""
        shown = self.address.shown
        check_reachable(self.address)
        self._client = _client(self.address)
        try:
            kind = self._client.type(self.address.name).decode()
            about = self._client.xinfo_stream(self.address.name) if kind == "stream" else {}
        except redis.RedisError as error:
            raise BraidedError(f"{shown}: Redis says: {reason_of(error)}") from None
        if kind != "stream":
            what = "there is no such stream" if kind == "none" else f"that key is a {kind} and no stream"
            raise BraidedError(f"{shown}: {what}: give the name of one, which XADD makes")
        # Before version 7, Redis does not say how many entries it was given.
        removed = about.get("entries-added", about["length"]) - about["length"]
        self._last: str = "0-0" if place is None else place[0]
        self._count: int = removed if place is None else place[1]
        if place is not None:
            self._check_place(removed, about)
        self.place = [self._last, self._count]

    def _check_place(self, removed: int, about: dict[str, Any]) -> None:
        """Refuse to go on where entries are gone that were not read."""
        entry = self._last
        newest, deleted = (about.get(name, b"0-0").decode() for name in ("last-generated-id", "max-deleted-entry-id"))
        first = about.get("first-entry")
        all_behind = first is None or _order(first[0].decode()) > _order(entry)
        # Where all that is there comes behind the place, just those up to it were removed, or it is another stream.
        anew = "entries-added" in about and all_behind and removed < self._count
        if anew or _order(newest) < _order(entry) or _order(deleted) > _order(entry) or removed > self._count:
            raise BraidedError(
                f"{self.address.shown} does not have what comes after entry {entry} any more: it was trimmed or made "
                "anew; start without the checkpoint"
            )

    def fetch(self, most: int, wait_s: float) -> list[Message]:
        """The next entries."""
        if not self.outage.due():
            time.sleep(wait_s)
            return []
        try:
            found = self._client.xread({self.address.name: self._last}, most, max(int(wait_s * 1_000), 1))
        except _AWAY as error:
            self.outage.begin(error)
            return []
        except redis.RedisError as error:
            raise BraidedError(f"{self.address.shown}: Redis says: {reason_of(error)}") from None
        self.outage.end()
        self.caught_up = not found
        messages = [_message(*entry) for _, entries in found or () for entry in entries]
        if messages:
            self._last = messages[-1].place
        return messages

    def take(self, message: Message) -> None:
        """Count an entry."""
        self._count += 1
        self.place = [message.place, self._count]

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()


def _message(entry: bytes, fields: dict[bytes, bytes]) -> Message:
    """An entry: its field `json`, or its only field if that is an object, else all of its fields."""
    place = entry.decode()
    body: bytes | dict[str, str] | None = fields.get(_FIELD.encode())
    if body is None:
        only = next(iter(fields.values())) if len(fields) == 1 else b""
        words = {name.decode(errors="replace"): cell.decode(errors="replace") for name, cell in fields.items()}
        body = only if only.lstrip().startswith(b"{") else words
    return Message(body, int(place.partition("-")[0]) / 1_000, place, f"entry {place}")


class RedisSink(Sink):
    """Entries with one field, `json`."""

    def open(self) -> None:
        """Connect; the stream may still have to be made."""
        check_reachable(self.address)
        self._client = _client(self.address)
        self._left: list[bytes] = []
        try:
            kind = self._client.type(self.address.name).decode()
        except redis.RedisError as error:
            raise BraidedError(f"{self.address.shown}: Redis says: {reason_of(error)}") from None
        if kind not in ("none", "stream"):
            raise BraidedError(f"{self.address.shown}: that key is a {kind} and no stream: give another name")

    def send(self, bodies: Sequence[bytes]) -> None:
        """Add entries, in one go."""
        self._left += bodies
        while not self._try():
            self.wait()

    def _try(self) -> bool:
        """Add what is left, if it is time to; whether all is there."""
        if not self._left or not self.outage.due():
            return not self._left
        pipeline = self._client.pipeline(transaction=False)
        for body in self._left:
            pipeline.xadd(self.address.name, {_FIELD: body})
        try:
            pipeline.execute()
        except _AWAY as error:
            self.outage.begin(error)
            return False
        except redis.RedisError as error:
            raise BraidedError(f"{self.address.shown}: Redis says: {reason_of(error)}") from None
        self.outage.end()
        self._left = []
        return True

    def flush(self) -> None:
        """Nothing is on its way once `send` has returned."""

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()


def source(address: Address, say: Callable[[str], None]) -> RedisSource:
    """What reads a stream."""
    return RedisSource(address, say)


def sink(address: Address, say: Callable[[str], None]) -> RedisSink:
    """What adds to a stream."""
    return RedisSink(address, say)
