"""Addresses without what must not be shown or stored."""

from __future__ import annotations

from braided.brokers.address import is_broker, public
from braided.streams.readers import sql


def without_password(source: str) -> str:
    """The address of a database or broker as it may be shown and stored; any other text as it is.

    >>> without_password("postgresql://ann:secret@db.example/sales"), without_password("redis://:secret@h/plant")
    ('postgresql://ann@db.example/sales', 'redis://h/plant')
    """
    return public(source) if is_broker(source) else sql.without_password(source)
