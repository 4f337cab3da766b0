"""What every request passes first: host, token, requests in flight, size of the body, time."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from braided.serve.problems import Problem
from braided.serve.security import Tokens, is_loopback
from braided.serve.settings import Limits

log = logging.getLogger("braided.serve")
NDJSON = "application/x-ndjson"
#: Open to everybody: the page, which asks for a token itself, and whether the service is up.
_OPEN = {"/", "/healthz"}
_PREDICT = re.compile(r"/models/[^/]+/predict")
#: Of every answer.
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


def header(scope: Scope, name: bytes) -> str | None:
    """A request's header."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return None


@functools.lru_cache(maxsize=64)
def names_loopback(host: str) -> bool:
    """Whether a Host header names this machine as seen from itself."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    return is_loopback(name)


def content_type(scope: Scope) -> str:
    """The media type of a request's body, without parameters."""
    return (header(scope, b"content-type") or "").partition(";")[0].strip().lower()


class Guard:
    """The outermost layer of the application.

    Parameters
    ----------
    app
        What is guarded.
    tokens, limits
        Who may do what, and how much of it.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, limits: Limits) -> None:
        self.app = app
        self.tokens = tokens
        self.limits = limits
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_noted(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        try:
            await self._admit(scope, receive, send_noted)
        except Problem as problem:
            if started:
                raise
            await answer_problem(send_noted, problem)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        self._check_host(scope)
        needed = "read" if scope["method"] in ("GET", "HEAD", "OPTIONS") or _PREDICT.fullmatch(path) else "write"
        if path not in _OPEN:
            scopes = self.tokens.scopes(header(scope, b"authorization"))
            if not scopes:
                raise Problem(
                    401, "a token is needed: send it as Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
                )
            if needed not in scopes:
                raise Problem(403, "this token may only read: use one with the scope write")
        lasting = path == "/events" or content_type(scope) == NDJSON
        if path != "/healthz" and path != "/events":
            if self.in_flight >= self.limits.in_flight:
                raise Problem(429, f"{self.in_flight} requests are in flight: try again later", {"Retry-After": "1"})
            self.in_flight += 1
        try:
            if lasting:
                await self.app(scope, receive, send)
            else:
                async with asyncio.timeout(self.limits.request_seconds):
                    await self.app(scope, self._bounded(scope, receive), send)
        except TimeoutError:
            raise Problem(
                503, f"the request took longer than {self.limits.request_seconds:g} s: whether it was learned is not "
                "known; with a client and a sequence number it can safely be sent again", {"Retry-After": "1"}
            ) from None  # fmt: skip
        finally:
            if path != "/healthz" and path != "/events":
                self.in_flight -= 1

    def _check_host(self, scope: Scope) -> None:
        """Without tokens, let no web page of elsewhere in through the user's browser."""
        if self.tokens:
            return
        if not names_loopback(header(scope, b"host") or ""):
            raise Problem(421, "this service answers to localhost only: use a token file to open it to other names")

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        most = self.limits.body_bytes
        problem = Problem(413, f"the body is longer than {most} bytes: send less at a time, or stream it as {NDJSON}")
        length = header(scope, b"content-length")
        if length is not None and length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > most):
            raise problem
        seen = 0

        async def receive_counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise problem
            return message

        return receive_counted


async def answer_problem(send: Send, problem: Problem) -> None:
    """Send a problem document."""
    body = problem.body()
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    headers += [(key.lower().encode(), value.encode()) for key, value in problem.headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
