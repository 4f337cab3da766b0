"""HTTP/1.1 on one connection: heads within bounds, requests answered in their order, one place for every deadline.

uvicorn calls it as it calls its own protocols: the four arguments of the constructor, `shutdown`, and the sets
`connections` and `tasks` of its `server_state`. That is all that is used of uvicorn here.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable
from typing import Any

import httptools

from braided.serve.connections import Connections, address_group
from braided.serve.http_exchange import Exchange, head_bytes
from braided.serve.problems import PROBLEM, SAFE_HEADERS, HTTPProblem
from braided.serve.request_head import MAX_HEAD_BYTES, RequestHead

#: Seconds for a head, from its first byte; for the first one, from the connection on.
_MAX_HEAD_SECONDS = 30.0
#: Seconds in which the other side has to take what it is sent.
_MAX_STALL_SECONDS = 30.0
#: Seconds in which the other side may read the last answer before the connection is closed.
_LINGER_SECONDS = 2.0
#: Bytes that are thrown away meanwhile.
_MAX_LINGER_BYTES = 2**20
#: Bytes parsed at a time: a head is counted to within this.
_PIECE = 2**14
#: Requests that are read ahead of the one that is being answered; those of one piece are read to its end.
_MAX_WAITING = 16
#: Bytes around each byte of a body that comes in chunks; more is no body.
_MAX_AROUND_A_BYTE = 16


class HTTPConnection(asyncio.Protocol):
    """A connection.

    Parameters
    ----------
    connections
        All of them.
    config, server_state, app_state, _loop
        uvicorn's.
    """

    def __init__(
        self, connections: Connections, config: Any, server_state: Any, app_state: Any, _loop: Any = None
    ) -> None:
        if not config.loaded:
            config.load()
        self.connections = connections
        self.address = ""
        self.crowded = False
        self._application = config.loaded_app
        self._keep_alive_seconds = float(config.timeout_keep_alive)
        self._server_state = server_state
        self._loop = _loop or asyncio.get_running_loop()
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._client: tuple[str, int] | None = None
        self._server: tuple[str, int] | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._head = RequestHead()
        self._in_head = self._upgrading = False
        self._head_started = False
        self._body_bytes = self._body_of_piece = self._around_bytes = 0
        #: Whose body is being read; who is answered; who waits for that.
        self._incoming: Exchange | None = None
        self._current: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._unparsed = b""
        self._thrown_away = 0
        self._problem: HTTPProblem | None = None
        #: Nothing that comes is looked at any more; no further request is begun; the other side sends no more.
        self._deaf = self._ending = self._eof = False
        self._held_back = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._stall: asyncio.TimerHandle | None = None
        self._due = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """Of every answer: the date."""
        found: list[tuple[bytes, bytes]] = self._server_state.default_headers
        return found

    def connection_made(self, transport: Any) -> None:
        """A client is there."""
        self._transport = transport
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self._client = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None
        self._server = (str(own[0]), int(own[1])) if isinstance(own, tuple) else None
        self.address = address_group(self._client[0]) if self._client else ""
        if not self.connections.add(self):
            self._deaf = True
            transport.abort()
            return
        self._server_state.connections.add(self)
        self._expect(_MAX_HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._server_state.connections.discard(self)
        self.connections.remove(self)
        self._deaf = True
        for timer in (self._timer, self._stall):
            if timer is not None:
                timer.cancel()
        self._timer = self._stall = None
        self._waiting.clear()
        self._unparsed = b""
        if self._current is not None:
            self._current.disconnect()
        self._writable.set()

    def eof_received(self) -> bool:
        """It sends no more; what it has sent as a whole is answered."""
        self._eof = True
        return self._current is not None and not self._current.more_body

    def data_received(self, data: bytes) -> None:
        """Bytes."""
        if self._deaf:
            self._throw_away(len(data))
        elif self._unparsed:
            self._unparsed += data
        else:
            self._parse(data)

    def _throw_away(self, number: int) -> None:
        self._thrown_away += number
        if self._current is not None:
            self.hold_back()  # its answer comes first
        elif self._thrown_away > _MAX_LINGER_BYTES:
            self._transport.abort()

    def pause_writing(self) -> None:
        """The other side is slow to take what it is sent."""
        self._writable.clear()
        self._stall = self._loop.call_later(_MAX_STALL_SECONDS, self._transport.abort)

    def resume_writing(self) -> None:
        """It has taken enough of it."""
        self._writable.set()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def shutdown(self) -> None:
        """The service stops: end after the request in hand."""
        self._ending = True
        if self._current is None:
            self._close_soon()
        else:
            self._current.keep_alive = False

    def close_now(self) -> None:
        """Close it, whether the other side reads or not."""
        self._deaf = True
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    def write(self, content: bytes) -> None:
        """Send bytes."""
        if not self._transport.is_closing():
            self._transport.write(content)

    def drained(self) -> Awaitable[Any] | None:
        """Something to wait for before more is sent, if the other side is slow."""
        return None if self._writable.is_set() else self._writable.wait()

    def read_on(self) -> None:
        """Take more bytes from the other side."""
        if self._held_back and not self._waiting and not self._unparsed and not self._transport.is_closing():
            self._held_back = False
            self._transport.resume_reading()

    def hold_back(self) -> None:
        """Take none for now."""
        if not self._held_back and not self._transport.is_closing():
            self._held_back = True
            self._transport.pause_reading()

    def answered(self, exchange: Exchange) -> None:
        """The application is done with a request."""
        if exchange is not self._current:
            return
        self._current = None
        if exchange.gone or self._transport.is_closing():
            return
        if not exchange.complete:
            self._transport.abort()
        elif not exchange.keep_alive or exchange.cut_short or self._ending:
            self._end()
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Begin with the next request, if there is one."""
        if self._waiting and not (self._eof and self._waiting[0].more_body):
            self._start(self._waiting.popleft())
        elif self._problem is not None:
            self._tell(self._problem)
            return
        elif self._eof:
            self._close_soon()
            return
        else:
            self.connections.rest(self)
            self._expect(_MAX_HEAD_SECONDS if self._in_head else self._keep_alive_seconds)
        if self._unparsed:
            rest, self._unparsed = self._unparsed, b""
            self._parse(rest)
        if self._current is None or not self._waiting:
            self.read_on()

    def _start(self, exchange: Exchange) -> None:
        self._current = exchange
        self._due = math.inf
        task = self._loop.create_task(exchange.run(self._application))
        self._server_state.tasks.add(task)
        task.add_done_callback(self._server_state.tasks.discard)

    def _end(self) -> None:
        """Close after the last answer, and not before the other side has had time to read it."""
        unread = self._held_back or self._in_head or (self._incoming is not None and self._incoming.more_body)
        if unread and not self._eof:
            self._linger()
        else:
            self._close_soon()

    def _close_soon(self) -> None:
        """Close as soon as the other side has read what it was sent, and at last if it does not."""
        self._deaf = True
        self.connections.rest(self)
        self._expect(_MAX_STALL_SECONDS)
        self._transport.close()

    def _linger(self) -> None:
        # To close while bytes are unread makes the system take back what was sent.
        self._deaf = True
        self._unparsed = b""
        self._waiting.clear()
        if self._transport.is_closing():
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self.connections.rest(self)
        self._expect(_LINGER_SECONDS)
        self.read_on()

    def _expect(self, seconds: float) -> None:
        """Close the connection unless something happens in time. One timer serves, and is seldom set anew."""
        self._due = self._loop.time() + seconds
        if self._timer is not None and self._timer_at > self._due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer_at = self._due
            self._timer = self._loop.call_later(seconds, self._look_at_the_clock)

    def _look_at_the_clock(self) -> None:
        self._timer = None
        left = self._due - self._loop.time()
        if math.isinf(left):
            return
        if left > 0:
            self._expect(left)
        else:
            self.close_now()

    def _parse(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self._deaf:
            if len(self._waiting) >= _MAX_WAITING:
                self._unparsed = data[at:]
                self.hold_back()
                return
            piece = data[at : at + _PIECE]
            going_on = self._in_head
            self._head_started = False
            self._body_of_piece = 0
            try:
                self._parser.feed_data(piece)
                if self._in_head and going_on and not self._head_started:
                    self._head.add_unfinished(len(piece))
                self._count_around(len(piece) - self._body_of_piece)
            except httptools.HttpParserUpgrade as upgrade:
                # The parser leaves the body to the other protocol: it is given the head again, without the wish.
                head = self._head.without_upgrade(self._method(), self._parser.get_http_version())
                data = head + data[at + upgrade.args[0] :]
                at = 0
                self._upgrading = self._in_head = False
                self._parser = httptools.HttpRequestParser(self)
                continue
            except (httptools.HttpParserError, HTTPProblem) as error:
                self._refuse(error)
                return
            at += len(piece)

    def _count_around(self, number: int) -> None:
        """Bytes of chunk sizes, their extensions and trailers, which nothing else bounds."""
        if self._incoming is None or not self._incoming.more_body or self._in_head:
            self._around_bytes = 0
            return
        self._around_bytes += number
        if self._around_bytes > MAX_HEAD_BYTES + _PIECE + _MAX_AROUND_A_BYTE * self._body_bytes:
            raise HTTPProblem(400, "the body's chunks hold hardly any bytes: send longer ones")

    def _method(self) -> str:
        return str(self._parser.get_method().decode("ascii"))

    def on_message_begin(self) -> None:
        """The parser has found a request."""
        self._head = RequestHead()
        self._in_head = self._head_started = True
        if self._current is None:
            self._expect(_MAX_HEAD_SECONDS)

    def on_url(self, url: bytes) -> None:
        """A part of its address."""
        self._head.add_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers, or of the trailers of its body, which nobody asks for."""
        if self._in_head:
            self._head.add_header(name, value)

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        method, version = self._method(), self._parser.get_http_version()
        self._head.check(method, version)
        if self._parser.should_upgrade():
            self._upgrading = True
            return
        self._in_head = False
        scope = self._head.scope(method, version)
        scope["client"], scope["server"], scope["crowded"] = self._client, self._server, self.crowded
        keep_alive = version == "1.1" and self._parser.should_keep_alive() and not self.crowded and not self._ending
        expects = any(name == b"expect" and value.lower() == b"100-continue" for name, value in self._head.headers)
        self._incoming = Exchange(self, scope, keep_alive, expects)
        self._body_bytes = 0
        if self._current is None:
            self.connections.begin(self)
            self._start(self._incoming)
        else:
            self._waiting.append(self._incoming)
            self.hold_back()

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        self._body_bytes += len(body)
        self._body_of_piece += len(body)
        assert self._incoming is not None
        self._incoming.add_body(body)

    def on_message_complete(self) -> None:
        """It is complete."""
        if self._upgrading or self._incoming is None:
            return
        self._incoming.end_body()
        if not self._incoming.keep_alive:
            self._deaf = True  # nothing may follow

    def _refuse(self, error: Exception) -> None:
        """Answer what is no request, after those before it."""
        if self._deaf:
            return
        problem = error if isinstance(error, HTTPProblem) else error.__context__
        if not isinstance(problem, HTTPProblem):
            problem = HTTPProblem(400, "this is not HTTP/1.1: send a request of that")
        self._deaf = True
        broken = self._incoming
        if broken is not None and broken.more_body and not self._in_head:
            if broken in self._waiting:
                self._waiting.remove(broken)
            elif broken is self._current:
                if broken.begun:
                    self._transport.abort()
                    return
                broken.disconnect()
                self._current = None
        if self._current is None and not self._waiting:
            self._tell(problem)
        else:
            self._problem = problem

    def _tell(self, problem: HTTPProblem) -> None:
        body = problem.body()
        headers = [
            *self.default_headers,
            (b"content-type", PROBLEM.encode()),
            (b"content-length", b"%d" % len(body)),
            *SAFE_HEADERS,
            (b"connection", b"close"),
        ]
        self.connections.bad_requests += 1
        self.write(head_bytes(problem.status, headers) + body)
        self._linger()
