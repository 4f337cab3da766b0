"""What is common to all brokers: messages come from a source, and go to a sink."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from braided.brokers.address import Address
from braided.brokers.outage import CONNECT_S, Outage
from braided.errors import BraidedError

#: Seconds between two looks.
POLL_S = 0.05


class Message(NamedTuple):
    """One message.

    Attributes
    ----------
    body
        Its bytes; or the fields of an entry that has several.
    time
        Seconds since 1970 by the broker, which are the same whenever it is read; None where it keeps none.
    place
        Where it stands, for `Source.take`.
    where
        The same for people.
    """

    body: bytes | dict[str, str]
    time: float | None
    place: Any
    where: str


class Source(ABC):
    """Messages in an order that is the same whenever they are read from the same place on.

    Parameters
    ----------
    address
        What to read.
    say
        Is called with a line of text when something happens that a user should know.

    Attributes
    ----------
    place
        What `open` needs to go on behind the last message that was taken, as JSON can hold it.
    caught_up
        Whether all that the broker had was fetched when it was last asked.
    keeps
        Whether the broker is to keep messages until `saved`: it has no place to go back to.
    """

    def __init__(self, address: Address, say: Callable[[str], None]) -> None:
        self.address = address
        self.say = say
        self.outage = Outage(address, say)
        self.place: Any = None
        self.caught_up = False
        self.keeps = False

    @staticmethod
    @abstractmethod
    def check(place: Any) -> None:
        """Refuse, by a ValueError, what is no place of such a source."""

    @abstractmethod
    def open(self, place: Any) -> None:
        """Connect, and go behind a place, or before the first message with None; what is not there is refused."""

    @abstractmethod
    def fetch(self, most: int, wait_s: float) -> list[Message]:
        """The next messages, `most` at most; none if none came for about `wait_s` seconds."""

    def take(self, message: Message) -> None:
        """A message, in order, is with the reader now."""
        self.place = message.place

    @property
    def holds(self) -> bool:
        """Whether messages have come whose turn has not, or may have and cannot be asked for."""
        return False

    @property
    def wants_saving(self) -> bool:
        """Whether the broker gives no more until `saved` is called."""
        return False

    def saved(self, place: Any) -> None:  # noqa: B027  # most brokers need not know
        """All up to this place is safe: nobody will ask for it again."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""


class Sink(ABC):
    """Messages that go out at least once, with back-off while the broker is away.

    One that is sent again may come after later ones.
    """

    def __init__(self, address: Address, say: Callable[[str], None]) -> None:
        self.address = address
        self.say = say
        self.outage = Outage(address, say)
        self._given_up_at: float | None = None
        self._heard_at = 0.0

    @abstractmethod
    def open(self) -> None:
        """Connect; a topic that is not there is refused."""

    @abstractmethod
    def send(self, bodies: Sequence[bytes]) -> None:
        """Hand over some messages; waits while too many are on their way."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until the broker has all that was sent."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection; what is still on its way may be lost."""

    def heard(self) -> None:
        """The broker has acknowledged something."""
        self._heard_at = time.monotonic()

    def give_up(self) -> None:
        """From now on, do not wait for a broker that is away, or takes nothing."""
        self._given_up_at = time.monotonic()

    def wait(self) -> None:
        """Wait a little until more can be sent."""
        if self._given_up_at is not None:
            silent = time.monotonic() - max(self._heard_at, self._given_up_at) > CONNECT_S
            if silent or self.outage.active:
                what, when = ("is away", "is back") if self.outage.active else ("takes no more", "does")
                raise BraidedError(
                    f"{self.address.shown} {what}, and has not all predictions: repeat the command with "
                    f"`resume` when it {when}, and they are sent again from the last checkpoint on"
                )
        time.sleep(POLL_S)
