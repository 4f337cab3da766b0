"""The HTTP protocol with a bound on what comes before a request's body, which uvicorn's has not."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_BYTES = 2**16
_MOST_SECONDS = 30.0


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose headers are too long, or take too long to come."""

    _head_bytes = 0
    _reading_head = True
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client is there."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes; those of a head that is not complete are counted."""
        super().data_received(data)
        if self._reading_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_BYTES:
                self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        self._head_came()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        self._head_came()
        self._reading_head, self._head_bytes = True, 0
        self._deadline = self.loop.call_later(_MOST_SECONDS, self.transport.close)

    def _head_came(self) -> None:
        self._reading_head = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
