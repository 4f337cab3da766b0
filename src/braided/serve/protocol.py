"""The HTTP protocol with a bound on what comes before a request's body, and with a short way for some requests."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from braided.serve.guard import HEADERS

_MOST_BYTES = 2**16
_MOST_SECONDS = 30.0
#: The rest of a prediction is awaited for so long before the application, which has time, takes over.
_HELD_SECONDS = 0.05
_HEAD = b"".join(b"%b: %b\r\n" % pair for pair in [(b"content-type", b"application/json"), *HEADERS])


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose headers are too long, or take too long to come.

    A prediction that comes whole, and soon, is first offered to `at_once`; if that gives no answer, the application
    sees the request as if it came now.
    """

    _held: bytes | None = None
    _patience: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _reading_head = True
    _deadline: asyncio.TimerHandle | None = None

    def at_once(self, path: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> bytes | None:
        """The body of the answer to a prediction, or None for the application to give it."""
        return None

    def connection_made(self, transport: Any) -> None:
        """A client is there."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._head_came()
        self._hold(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes; those of a head that is not complete are counted."""
        super().data_received(data)
        if self._held is not None:  # the rest is still to come
            if self.transport.is_closing():
                self._hold(None)
            elif self._patience is None:
                self._patience = self.loop.call_later(_HELD_SECONDS, self._let_go)
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
        if self._may_be_held():
            self._hold(b"")
        else:
            super().on_headers_complete()

    def _may_be_held(self) -> bool:
        """Whether this is a prediction on a connection on which nothing else goes on."""
        return (
            self.url.endswith(b"/predict")
            and self.parser.get_method() == b"POST"
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
            and not self.expect_100_continue
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and (self.limit_concurrency is None or len(self.connections) < self.limit_concurrency)
        )

    def _let_go(self) -> None:
        """Give what was held to the application."""
        held = self._held
        self._hold(None)
        super().on_headers_complete()
        if held:
            super().on_body(held)

    def _hold(self, content: bytes | None) -> None:
        """Hold a body, or none any more."""
        self._held = content
        if content is None and self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def on_body(self, body: bytes) -> None:
        """Some of the request's body."""
        if self._held is None:
            super().on_body(body)
            return
        self._held += body
        if len(self._held) > _MOST_BYTES:
            self._let_go()

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._held is not None:
            answer = self.at_once(self.url, self.headers, self._held)
            if answer is not None:
                self._hold(None)
                head = [b"HTTP/1.1 200 OK\r\n", _HEAD, b"content-length: %d\r\n" % len(answer)]
                head += [b"%b: %b\r\n" % pair for pair in self.server_state.default_headers]
                self.transport.write(b"".join([*head, b"\r\n", answer]))
                self.on_response_complete()
                return
            self._let_go()
        super().on_message_complete()

    def _expect_head(self) -> None:
        self._head_came()
        self._reading_head, self._head_bytes = True, 0
        self._deadline = self.loop.call_later(_MOST_SECONDS, self.transport.close)

    def _head_came(self) -> None:
        self._reading_head = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
