"""While a broker cannot be reached: said once, tried again with back-off, and said once when it is back."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from braided.brokers.address import Address
from braided.errors import BraidedError

#: Seconds until the next try after one that failed: the first, and the longest.
_FIRST_S, _LONGEST_S = 0.1, 5.0
#: Seconds for the first connection.
CONNECT_S = 5.0


def reason_of(error: object) -> str:
    """What a library says of a failure, in one line."""
    text = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return str(text).splitlines()[0].rstrip(".")


def check_reachable(address: Address) -> None:
    """Refuse an address at which nothing listens; libraries would try for long, and say little."""
    failure: OSError | None = None
    for host, port in address.hosts:
        try:
            socket.create_connection((host, port), timeout=CONNECT_S).close()
        except OSError as error:
            failure = error
        else:
            return
    raise BraidedError(
        f"{address.shown} cannot be reached ({reason_of(failure)}): start the broker, or give its host and port"
    )


class Outage:
    """Whether a broker is away.

    Parameters
    ----------
    address
        The broker.
    say
        Is called with a line of text when it goes and when it is back.
    """

    def __init__(self, address: Address, say: Callable[[str], None]) -> None:
        self._shown = address.shown
        self._say = say
        self._since: float | None = None
        self._wait = _FIRST_S
        self._next = 0.0

    @property
    def active(self) -> bool:
        """Whether it is away now."""
        return self._since is not None

    def due(self) -> bool:
        """Whether it is time for the next try."""
        return time.monotonic() >= self._next

    def begin(self, error: object) -> None:
        """A try has failed."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
            self._say(f"{self._shown} cannot be reached ({reason_of(error)}): trying again until it is back")
        self._next = now + self._wait
        self._wait = min(2 * self._wait, _LONGEST_S)

    def end(self) -> None:
        """A try has succeeded."""
        if self._since is not None:
            self._say(f"{self._shown} is back after {time.monotonic() - self._since:.1f} s")
        self._since, self._wait, self._next = None, _FIRST_S, 0.0
