"""What a request passes on its way to its handler: figures and log, tokens and scopes, limits. One class for each."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Histogram
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from braided.serve.access_log import AccessLog
from braided.serve.operations import NDJSON, Operation
from braided.serve.problems import PROBLEM, HTTPProblem, shown, too_busy
from braided.serve.security import NOBODY, Grant, Tokens, is_loopback
from braided.serve.settings import Limits

log = logging.getLogger("braided.serve")
#: Headers of every answer.
_SAFE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
#: What logs and figures call the status of a request whose client went away.
_CLIENT_GONE = 499


class Policy:
    """What all requests are held to, which may be replaced while they come in, and how many there are of them.

    Parameters
    ----------
    tokens, limits
        Who may do what, and how much of it.
    access_log
        Where requests are logged, if they are.
    """

    def __init__(self, tokens: Tokens, limits: Limits, access_log: AccessLog | None = None) -> None:
        self.tokens = tokens
        self.limits = limits
        self.access_log = access_log
        self.figures = CollectorRegistry()
        self.seconds = Histogram(
            "braided_request_seconds", "Seconds of requests; status 499 is one whose client left.",
            ["method", "route", "status"], buckets=_BUCKETS, registry=self.figures,
        )  # fmt: skip
        #: Requests in flight that only read, and that change something; and those of each address and token.
        self.in_flight = {False: 0, True: 0}
        self.of: Counter[tuple[str, bool]] = Counter()


def header(scope: Scope, name: bytes) -> str | None:
    """A request's header."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


@functools.lru_cache(maxsize=64)
def _media_type(value: str) -> str:
    return value.partition(";")[0].strip().lower()


def content_type(scope: Scope) -> str:
    """The media type of a request's body, without parameters."""
    return _media_type(header(scope, b"content-type") or "")


@functools.lru_cache(maxsize=64)
def _names_loopback(host: str) -> bool:
    """Whether a Host header names this machine as seen from itself."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


@functools.lru_cache(maxsize=4_096)
def address_group(host: str) -> str:
    """Whom an address belongs to: of IPv6, the network of 64 bits that one customer has.

    >>> address_group("10.0.0.7"), address_group("2001:db8::7"), address_group("?")
    ('10.0.0.7', '2001:db8::/64', '?')
    """
    if ":" not in host:
        return host
    try:
        return str(ipaddress.ip_network(f"{host.partition('%')[0]}/64", strict=False))
    except ValueError:
        return host


class Observed:
    """Answers with a problem document where a request is refused; counts and logs what was answered."""

    def __init__(self, app: ASGIApp, policy: Policy, operations: Sequence[Operation] = ()) -> None:
        self.app = app
        self.policy = policy
        self.methods = {operation.method for operation in operations}
        self.route = operations[0].path if operations else "none"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request pass."""
        begun, status, sent = time.perf_counter(), 0, 0

        async def send_noted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_SAFE_HEADERS]
            else:
                sent += len(message.get("body", b""))
            try:
                await send(message)
            except RuntimeError:  # of the event loop: the connection is closed
                raise ClientDisconnect from None

        try:
            await self.app(scope, receive, send_noted)
        except ClientDisconnect:
            pass
        except Exception as error:
            if not isinstance(error, HTTPProblem):
                log.exception("%s %s failed", scope["method"], scope["path"])
                error = HTTPProblem(500, "the service made a mistake: its log says more")
            if status:
                # The connection is closed before the end of the answer, which tells the client as much.
                log.warning("%s %s was broken off: %s", scope["method"], self.route, error.detail)
                return
            with contextlib.suppress(ClientDisconnect):
                await Response(error.body(), error.status, error.headers, PROBLEM)(scope, receive, send_noted)
        finally:
            self._note(scope, status or _CLIENT_GONE, sent, time.perf_counter() - begun)

    def _note(self, scope: Scope, status: int, sent: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in self.methods else "other"
        self.policy.seconds.labels(method, self.route, str(status)).observe(seconds)
        if self.policy.access_log is None:
            return
        client, grant = scope.get("client"), scope.get("grant")
        model = scope.get("path_params", {}).get("name")
        self.policy.access_log.add(
            {
                "time": round(time.time(), 3),
                "address": client[0] if client else None,
                "method": method,
                "route": self.route,
                "model": None if model is None else model[:64],
                "status": status,
                "bytes": sent,
                "milliseconds": round(seconds * 1e3, 3),
                "token": None if grant is None else grant.name,
                "scope": None if grant is None or grant.name is None else grant.scope,
            }
        )


class Authorised:
    """Lets requests pass whose token may ask for this; `scope` gets the `operation` and the `grant`."""

    def __init__(self, app: ASGIApp, policy: Policy, operations: Sequence[Operation] = ()) -> None:
        self.app = app
        self.policy = policy
        self.operations = {operation.method: operation for operation in operations}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request pass."""
        operation = self.operations.get(scope["method"])
        # Who may not ask is not told whether there is something.
        reading = scope["method"] in ("GET", "HEAD", "OPTIONS")
        is_open = any(one.access == "anybody" for one in self.operations.values())
        access = operation.access if operation else "anybody" if is_open else "read" if reading else "learn"
        scope["grant"] = self._grant(scope, access)
        if not self.operations:
            raise HTTPProblem(404, "there is nothing here: see /openapi.json")
        if operation is None:
            raise HTTPProblem(405, "this method is not for this address", {"Allow": ", ".join(self.operations)})
        scope["operation"] = operation
        await self.app(scope, receive, send)

    def _grant(self, scope: Scope, access: Any) -> Grant:
        """What the request's token may do, if it may do this."""
        tokens = self.policy.tokens
        # Without tokens, no web page of elsewhere is let in through the user's browser.
        if not tokens and not _names_loopback(header(scope, b"host") or ""):
            raise HTTPProblem(421, "this service answers to localhost only: use a token file to open it to other names")
        grant = tokens.grant(header(scope, b"authorization"))
        if access == "anybody":
            return grant or NOBODY
        if grant is None:
            raise HTTPProblem(
                401, "a token is needed: send it as Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
            )
        scope["grant"] = grant
        if not grant.may(access):
            may = {"read": "only read", "learn": "only read and learn"}[grant.scope]
            raise HTTPProblem(403, f"this token may {may}: use one with the scope {access}")
        model = scope.get("path_params", {}).get("name")
        if model is not None and not grant.may(access, model):
            # The same whether or not there is such a model.
            raise HTTPProblem(403, f"this token is not to {access} model {shown(model)}: use one that is")
        return grant


class Limited:
    """Bounds the requests in flight, in all and of one address or token; the body; and the time."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request pass to its handler."""
        operation: Operation = scope["operation"]
        if not operation.counted:
            await self._call(operation, scope, receive, send)
            return
        changes = operation.access in ("learn", "administer")
        keys = self._begin(scope, changes)
        try:
            await self._call(operation, scope, receive, send)
        finally:
            policy = self.policy
            policy.in_flight[changes] -= 1
            for key in keys:
                policy.of[key] -= 1
                if not policy.of[key]:
                    del policy.of[key]

    def _begin(self, scope: Scope, changes: bool) -> list[tuple[str, bool]]:
        """Count a request as in flight, or refuse it; by what it is counted."""
        policy, limits = self.policy, self.policy.limits
        most = limits.in_flight if changes else limits.reading
        total = sum(policy.in_flight.values())
        if total >= limits.in_flight or policy.in_flight[changes] >= most:
            raise too_busy(f"{total} requests are in flight")
        client, token = scope.get("client"), scope["grant"].name
        keys = (
            [] if not client else [((f"address {address_group(client[0])}", changes), "address", limits.address_share)]
        )
        keys += [] if token is None else [((f"token {token}", changes), "token", limits.token_share)]
        for key, kind, share in keys:
            if policy.of[key] >= max(1, int(most * share)):
                raise too_busy(f"{policy.of[key]} requests of this {kind} are in flight")
        policy.in_flight[changes] += 1
        policy.of.update(key for key, *_ in keys)
        return [key for key, *_ in keys]

    async def _call(self, operation: Operation, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the handler answer, within the bounds that it does not keep itself."""
        if operation.lasting or (operation.in_lines and content_type(scope) == NDJSON):
            response = await operation.handler(Request(scope, receive))
            await response(scope, receive, send)
            return
        limits = self.policy.limits
        bounded = _bounded(scope, receive, getattr(limits, operation.body_limit), operation.body_limit)
        seconds = operation.patience * limits.request_seconds
        try:
            async with asyncio.timeout(seconds):
                response = await operation.handler(Request(scope, bounded))
                await response(scope, bounded, send)
        except TimeoutError:
            raise HTTPProblem(
                503, f"the request took longer than {seconds:g} s: whether it was done is not known; see the model's "
                "figures, or with a client and a sequence number send records again", {"Retry-After": "1"}
            ) from None  # fmt: skip


def _bounded(scope: Scope, receive: Receive, most: int, limit: str) -> Receive:
    """`receive`, of a body that is not too long."""

    def too_long() -> HTTPProblem:
        remedy = f"send less at a time, or stream it as {NDJSON}"
        what = "body"
        if limit == "checkpoint_bytes":
            what, remedy = "checkpoint", "start the service with a larger --max-checkpoint"
        return HTTPProblem(413, f"the {what} is longer than {most} bytes: {remedy}")

    length = header(scope, b"content-length")
    if length is not None and length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > most):
        raise too_long()
    seen = 0

    async def receive_counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise too_long()
        return message

    return receive_counted
