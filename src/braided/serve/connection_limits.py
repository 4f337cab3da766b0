"""A bound on what comes before a request's body, which no application sees and no setting of uvicorn bounds."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_HEAD_BYTES = 2**16
_MOST_HEAD_SECONDS = 30.0


class HeadLimitProtocol(HttpToolsProtocol):
    """Closes a connection whose request's head is too long, or takes too long to come.

    It stands between the calls of asyncio's protocols (`connection_made`, `data_received`, `connection_lost`) and of
    httptools' parser (`on_message_begin`, `on_headers_complete`), and looks at nothing else of uvicorn's class.
    """

    _bounded_transport: asyncio.Transport
    _head_bytes = 0
    _head_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client is there."""
        self._bounded_transport = transport
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes; those of a head that is not complete are counted."""
        super().data_received(data)
        if self._head_deadline is not None:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES:
                self._bounded_transport.close()

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
        self._head_bytes = 0
        loop = asyncio.get_running_loop()
        self._head_deadline = loop.call_later(_MOST_HEAD_SECONDS, self._bounded_transport.close)

    def _head_came(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None
