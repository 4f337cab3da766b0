"""One request and its answer, as an ASGI application receives and sends them."""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from starlette.types import Message, Scope

log = logging.getLogger("braided.serve")
Application = Callable[[Scope, Any, Any], Awaitable[None]]
#: Bytes of a body that are kept for an application that does not ask for them.
_MAX_KEPT = 2**16
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus
}  # fmt: skip


class Line(Protocol):
    """What an exchange needs of its connection."""

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """Of every answer."""

    def write(self, content: bytes) -> None:
        """Send bytes."""

    def drained(self) -> Awaitable[Any] | None:
        """Something to wait for before more is sent, if the other side is slow."""

    def read_on(self) -> None:
        """Take more bytes from the other side."""

    def hold_back(self) -> None:
        """Take none for now."""

    def answered(self, exchange: Exchange) -> None:
        """The application is done with it."""


class Exchange:
    """A request and its answer.

    Parameters
    ----------
    line
        The connection.
    scope
        The request's head, as ASGI says it.
    keep_alive
        Whether the connection stays open afterwards.
    expects_continue
        Whether the client waits for a word before it sends the body.
    """

    def __init__(self, line: Line, scope: Scope, keep_alive: bool, expects_continue: bool) -> None:
        self.line = line
        self.scope = scope
        self.keep_alive = keep_alive
        self.more_body = True
        #: The other side is gone; its answer is complete.
        self.gone = self.complete = False
        self._expects_continue = expects_continue
        self._body = bytearray()
        self._news = asyncio.Event()
        self._head: bytes | None = None
        self._started = self._chunked = self._silent = False

    @property
    def begun(self) -> bool:
        """Whether something of the answer is on its way."""
        return self._started or self._head is not None

    @property
    def cut_short(self) -> bool:
        """Whether a stream of answers has ended before the request that it answers line by line."""
        return self.complete and self._chunked and self.more_body

    async def run(self, application: Application) -> None:
        """Let the application answer."""
        try:
            await application(self.scope, self.receive, self.send)
        except Exception:
            log.exception("%s %s failed", self.scope["method"], self.scope["path"])
        finally:
            self.line.answered(self)

    def add_body(self, part: bytes) -> None:
        """A part of the request's body has come."""
        if self.complete:
            return
        self._body += part
        if len(self._body) > _MAX_KEPT:
            self.line.hold_back()
        self._news.set()

    def end_body(self) -> None:
        """All of it has."""
        self.more_body = False
        self._news.set()

    def disconnect(self) -> None:
        """The other side is gone."""
        self.gone = True
        self._news.set()

    async def receive(self) -> Message:
        """The next part of the body, or that there is nobody any more."""
        if self._expects_continue and not self.gone and not self._started:
            self._expects_continue = False
            self.line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not self.gone and not self.complete:
            if not self._news.is_set():
                self.line.read_on()
            await self._news.wait()
            self._news.clear()
        if self.gone or self.complete:
            return {"type": "http.disconnect"}
        body = bytes(self._body)
        self._body.clear()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Message) -> None:
        """Send the head, which leaves with what follows it, or a part of the body."""
        if (drained := self.line.drained()) is not None:
            await drained
        if self.gone:
            return
        if message["type"] == "http.response.start":
            self._head = self._head_of(message)
            return
        if (self._head is None and not self._started) or self.complete:
            raise RuntimeError(f"the application sends {message['type']} out of order")
        parts = []
        if self._head is not None:
            parts.append(self._head)
            self._head, self._started = None, True
        body = message.get("body", b"")
        last = not message.get("more_body", False)
        if not self._silent:
            if not self._chunked:
                parts.append(body)
            elif body:
                parts += (b"%x\r\n" % len(body), body, b"\r\n")
            if self._chunked and last:
                parts.append(b"0\r\n\r\n")
        self.line.write(b"".join(parts))
        if last:
            self.complete = True
            self._news.set()

    def _head_of(self, message: Message) -> bytes:
        status = message["status"]
        headers = [*self.line.default_headers, *message["headers"]]
        self._silent = self.scope["method"] == "HEAD" or status in (204, 304)
        sized = False
        for name, value in headers:
            sized = sized or name == b"content-length"
            if name == b"connection" and value.lower() == b"close":
                self.keep_alive = False
        if not sized and not self._silent:
            self._chunked = self.scope["http_version"] == "1.1"
            self.keep_alive = self.keep_alive and self._chunked
            if self._chunked:
                headers.append((b"transfer-encoding", b"chunked"))
        if not self.keep_alive:
            headers = [*(item for item in headers if item[0] != b"connection"), (b"connection", b"close")]
        return head_bytes(status, headers)


def head_bytes(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The head of an answer."""
    lines = [name + b": " + value + b"\r\n" for name, value in headers]
    return b"".join((_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, *lines, b"\r\n"))
