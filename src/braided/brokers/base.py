"""What all brokers have in common: messages come from a source and go to a sink, and an outage is waited out."""

from __future__ import annotations

import json
import re
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from braided.brokers.address import Address
from braided.errors import BraidedError
from braided.extras import require

#: Seconds for the first connection.
CONNECT_S = 5.0


def reason_of(error: object) -> str:
    """What a library says of a failure, in one line."""
    text = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return str(text).splitlines()[0].rstrip(".")


class Client(ABC):
    """One end of a topic or stream; `say` is called with a line of text when a user should know of something."""

    #: When the broker was lost; None while it is there.
    away_since: float | None = None

    def __init__(self, address: Address, say: Callable[[str], None]) -> None:
        self.address = address
        self.say = say

    def error(self, text: str) -> BraidedError:
        """An error that begins with the address."""
        return BraidedError(f"{self.address.shown}: {text}")

    def check_reachable(self) -> None:
        """Refuse an address at which nothing listens; libraries would try for long, and say little."""
        for host in self.address.hosts:
            try:
                socket.create_connection(host, timeout=CONNECT_S).close()
                return
            except OSError as error:
                reason = reason_of(error)
        raise self.error(f"cannot be reached ({reason}): start the broker, or give its address")

    def lost(self, error: object) -> None:
        """A try has failed; the first one is said."""
        if self.away_since is None:
            self.away_since = time.monotonic()
            self.say(f"{self.address.shown} cannot be reached ({reason_of(error)}): trying again until it is back")

    def back(self) -> None:
        """A try has succeeded; that the broker is back is said."""
        if self.away_since is not None:
            self.say(f"{self.address.shown} is back after {time.monotonic() - self.away_since:.1f} s")
        self.away_since = None

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection; messages that are still on their way out may be lost."""


class Message(NamedTuple):
    """One message."""

    #: Its bytes; or the fields of an entry that has several.
    body: bytes | dict[str, str]
    #: Seconds since 1970 by the broker, the same whenever it is read; None where the broker keeps none.
    time: float | None
    #: What `Source.open` needs to continue after this message, as JSON can hold it.
    place: Any
    #: The same for people.
    where: str


class Source(Client):
    """Messages in an order that is the same whenever they are read from the same place on."""

    #: The place of the last message that was taken, and what the JSON of such a place looks like.
    place: Any = None
    place_as_json: str
    #: Whether all that the broker had was fetched when it was last asked.
    caught_up = False
    #: Whether messages have come whose turn has not.
    holds = False
    #: Whether the broker is to keep messages until `saved`, where it has no places to go back to.
    keeps = False
    #: Whether the broker gives no more until `saved` is called.
    wants_saving = False

    def check(self, place: Any) -> None:
        """Refuse, by a ValueError, what cannot be a place of such a source."""
        if re.fullmatch(self.place_as_json, json.dumps(place)) is None:
            raise ValueError(place)

    @abstractmethod
    def open(self, place: Any) -> None:
        """Connect, and continue after a place, or before the first message with None; refuse what does not exist."""

    @abstractmethod
    def fetch(self, most: int, wait_s: float) -> list[Message]:
        """The next messages, `most` at most; none if none came for about `wait_s` seconds."""

    def take(self, message: Message) -> None:
        """A message, in order, is with the reader now."""
        self.place = message.place

    def saved(self, place: Any) -> None:
        """All up to this place is safe: nobody will ask for it again; most brokers need not know."""


class Sink(Client):
    """Messages that go out at least once; one that is sent again may come after later ones."""

    #: When the broker last acknowledged something.
    heard_at = 0.0
    _given_up = False

    @abstractmethod
    def open(self) -> None:
        """Connect; refuse a topic that does not exist."""

    @abstractmethod
    def send(self, bodies: Sequence[bytes]) -> None:
        """Hand over some messages; waits while too many are on their way."""

    def flush(self) -> None:
        """Wait until the broker has all that was sent, where `send` does not."""

    def give_up(self) -> None:
        """From now on, do not wait for a broker that is away, or takes nothing."""
        self._given_up = True
        self.heard_at = time.monotonic()

    def wait(self) -> None:
        """Wait a little until more can be sent."""
        silent = self.away_since is not None or time.monotonic() - self.heard_at > CONNECT_S
        if self._given_up and silent:
            what = "the broker is away or takes no more, and has not all predictions"
            raise self.error(f"{what}: repeat the command with `resume`, which sends them from the last checkpoint on")
        time.sleep(0.05)


def source_of(address: Address, say: Callable[[str], None]) -> Source:
    """What reads an address, not yet connected; needs the extra `brokers`."""
    source: Source = require(f"braided.brokers.{address.kind}", "brokers").source(address, say)
    return source


def sink_of(address: Address, say: Callable[[str], None]) -> Sink:
    """What writes to an address, not yet connected; needs the extra `brokers`."""
    sink: Sink = require(f"braided.brokers.{address.kind}", "brokers").sink(address, say)
    return sink
