"""Which connections are open, and which has to go when there are too many."""

from __future__ import annotations

import functools
import ipaddress
from collections import Counter
from typing import Protocol

from braided.serve.settings import Limits

#: Connections beyond the limit, on which `/healthz` alone is answered.
_RESERVE = 16


class Closable(Protocol):
    """A connection, as far as it is counted."""

    address: str
    crowded: bool

    def close_now(self) -> None:
        """Close it, whether the other side reads or not."""


@functools.lru_cache(maxsize=4_096)
def address_group(host: str) -> str:
    """Whom an address belongs to: of IPv6, the network of 64 bits that one customer has for himself.

    >>> address_group("10.0.0.7"), address_group("2001:db8::7"), address_group("?")
    ('10.0.0.7', '2001:db8::/64', '?')
    """
    if ":" not in host:
        return host
    try:
        return str(ipaddress.ip_network(f"{host.partition('%')[0]}/64", strict=False))
    except ValueError:
        return host


class Connections:
    """The open connections. One that has no request is idle, and the oldest idle one makes room for a new one.

    Parameters
    ----------
    limits
        How many there may be, and what share of them one address may have.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.open: set[Closable] = set()
        #: In the order in which they became idle.
        self.idle: dict[Closable, None] = {}
        self.closed_idle = 0
        self.refused = 0
        self.bad_requests = 0
        self._of_address: Counter[str] = Counter()

    def add(self, connection: Closable) -> bool:
        """Take a new connection, which is idle at first; False if there is no room even for `/healthz`.

        An active connection never goes for an idle one. While all are active, a few more are taken, as `crowded`.
        """
        of_address = max(1, int(self.limits.connections * self.limits.address_share))
        room = True
        if self._of_address[connection.address] >= of_address:
            room = self._make_room(connection, connection.address, self._of_address[connection.address] - of_address)
        if room and len(self.open) >= self.limits.connections:
            room = self._make_room(connection, None, len(self.open) - self.limits.connections)
        if not room:
            self.refused += 1
            return False
        self.open.add(connection)
        self.idle[connection] = None
        self._of_address[connection.address] += 1
        return True

    def _make_room(self, connection: Closable, address: str | None, beyond: int) -> bool:
        if self._close_oldest(address, crowded=False):
            return True
        connection.crowded = True
        return beyond < _RESERVE or self._close_oldest(address, crowded=True)

    def _close_oldest(self, address: str | None, crowded: bool) -> bool:
        for connection in self.idle:
            if connection.crowded == crowded and address in (None, connection.address):
                self.remove(connection)
                connection.close_now()
                self.closed_idle += 1
                return True
        return False

    def begin(self, connection: Closable) -> None:
        """It has a request."""
        self.idle.pop(connection, None)

    def rest(self, connection: Closable) -> None:
        """It has none any more."""
        if connection in self.open:
            self.idle[connection] = None

    def remove(self, connection: Closable) -> None:
        """It is gone."""
        if connection not in self.open:
            return
        self.open.discard(connection)
        self.idle.pop(connection, None)
        self._of_address[connection.address] -= 1
        if self._of_address[connection.address] == 0:
            del self._of_address[connection.address]
