"""What every request passes on its way: method, host, token, requests in flight, size of the body, time."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from braided.serve.access_log import AccessLog
from braided.serve.connections import address_group
from braided.serve.problems import PROBLEM, SAFE_HEADERS, HTTPProblem, shown
from braided.serve.request_figures import RequestFigures
from braided.serve.security import NOBODY, Access, Grant, Tokens, is_loopback
from braided.serve.settings import Limits

log = logging.getLogger("braided.serve")
JSON, NDJSON = "application/json", "application/x-ndjson"
OCTETS = "application/octet-stream"
_READING = ("GET", "HEAD", "OPTIONS")
#: What logs and figures call the status of a request whose client went away.
_CLIENT_GONE = 499


def header(scope: Scope, name: bytes) -> str | None:
    """A request's header."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return None


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
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    return is_loopback(name)


@dataclass(frozen=True)
class Operation:
    """What a method does at an address; what is asked of a request for it, and what the OpenAPI document says of it.

    Attributes
    ----------
    method, path, handler
        Such as `GET`, `/models/{name}`.
    access
        Who may ask: `anybody`, or those with a token to `read`, to `learn` or to `administer`.
    in_lines
        Whether it also takes, and then gives, NDJSON, for as long as the client has lines.
    patience
        How many times the usual time it may take.
    counted, lasting
        Whether it counts as a request in flight, and whether it answers for as long as the client listens.
    always
        Whether it is answered even when there are too many connections.
    body, query
        Schemas of the JSON body, or its media type; query parameters and their schemas.
    body_limit
        Which of the limits bounds the body.
    status, answer
        Of success: the schema, or the media type, of what is given.
    documented
        Whether the OpenAPI document has it.
    """

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    access: Access
    in_lines: bool = False
    patience: float = 1.0
    counted: bool = True
    lasting: bool = False
    always: bool = False
    body: tuple[type[BaseModel], ...] | str = ()
    query: dict[str, dict[str, Any]] = field(default_factory=dict)
    body_limit: Literal["body_bytes", "checkpoint_bytes"] = "body_bytes"
    status: int = 200
    answer: type[BaseModel] | str | None = None
    documented: bool = True


class Admission:
    """Who may ask, and how many at once; one for all addresses.

    Parameters
    ----------
    tokens, limits
        Who may do what, and how much of it; both may be replaced while requests come in.
    access_log
        Where requests are logged, if they are; may be replaced as well.
    """

    def __init__(self, tokens: Tokens, limits: Limits, access_log: AccessLog | None = None) -> None:
        self.tokens = tokens
        self.limits = limits
        self.access_log = access_log
        self.figures = RequestFigures()
        #: Requests in flight that only read, and that change something.
        self.in_flight = {False: 0, True: 0}
        self._of: Counter[tuple[str, bool]] = Counter()

    def authorise(self, scope: Scope, access: Access) -> Grant | None:
        """What the request's token may do, if it may do this; None if there is none, and anybody may."""
        # Without tokens, no web page of elsewhere is let in through the user's browser.
        if not self.tokens and not _names_loopback(header(scope, b"host") or ""):
            raise HTTPProblem(421, "this service answers to localhost only: use a token file to open it to other names")
        grant = self.tokens.grant(header(scope, b"authorization"))
        if access == "anybody":
            scope["grant"] = grant or NOBODY
            return grant
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

    def begin(self, scope: Scope, grant: Grant | None, changes: bool) -> list[tuple[str, bool]]:
        """Count a request as in flight, or refuse it; whoever begins, ends with what this returns."""
        limits = self.limits
        most = limits.in_flight if changes else limits.reading
        total = sum(self.in_flight.values())
        if total >= limits.in_flight or self.in_flight[changes] >= most:
            raise _too_many(f"{total} requests are in flight")
        keys = []
        client = scope.get("client")
        token = None if grant is None else grant.name
        for kind, who, share in (
            ("address", address_group(client[0]) if client else None, limits.address_share),
            ("token", token, limits.token_share),
        ):
            if who is None:
                continue
            key = (f"{kind} {who}", changes)
            if self._of[key] >= max(1, int(most * share)):
                raise _too_many(f"{self._of[key]} requests of this {kind} are in flight")
            keys.append(key)
        self.in_flight[changes] += 1
        self._of.update(keys)
        return keys

    def end(self, keys: list[tuple[str, bool]], changes: bool) -> None:
        """It is answered."""
        self.in_flight[changes] -= 1
        for key in keys:
            self._of[key] -= 1
            if not self._of[key]:
                del self._of[key]

    def note(self, scope: Scope, route: str, method: str, status: int, sent: int, seconds: float) -> None:
        """Count a request that is over, and log it."""
        self.figures.add(method, route, status, seconds)
        if self.access_log is None:
            return
        client, grant = scope.get("client"), scope.get("grant")
        model = scope.get("path_params", {}).get("name")
        self.access_log.add(
            {
                "time": round(time.time(), 3),
                "address": client[0] if client else None,
                "method": method,
                "route": route,
                "model": None if model is None else model[:64],
                "status": status,
                "bytes": sent,
                "milliseconds": round(seconds * 1e3, 3),
                "token": None if grant is None else grant.name,
                "scope": None if grant is None or grant.name is None else grant.scope,
            }
        )


def _too_many(what: str) -> HTTPProblem:
    return HTTPProblem(429, f"{what}: try again later", {"Retry-After": "1"})


class Endpoint:
    """One address as an ASGI application.

    Parameters
    ----------
    admission
        What requests have to pass.
    operations
        What may be done here; nothing at all is an address that there is not.
    """

    def __init__(self, admission: Admission, operations: Sequence[Operation] = ()) -> None:
        self.admission = admission
        self.operations = {operation.method: operation for operation in operations}
        self.route = operations[0].path if operations else "none"
        self._open = any(operation.access == "anybody" for operation in operations)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say what is wrong with it."""
        begun = time.perf_counter()
        status = sent = 0

        async def send_noted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *SAFE_HEADERS]
            else:
                sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._answer(scope, receive, send_noted)
        except ClientDisconnect:
            return
        except Exception as error:
            problem = error if isinstance(error, HTTPProblem) else _fault(scope)
            if status:
                # The connection is closed before the end of the answer, which tells the client as much.
                log.warning("%s %s was broken off: %s", scope["method"], self.route, problem.detail)
                return
            await Response(problem.body(), problem.status, problem.headers, PROBLEM)(scope, receive, send_noted)
        finally:
            method = scope["method"] if scope["method"] in self.operations else "other"
            seconds = time.perf_counter() - begun
            self.admission.note(scope, self.route, method, status or _CLIENT_GONE, sent, seconds)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation, grant = self._authorised(scope)
        if scope.get("crowded") and not operation.always:
            raise HTTPProblem(503, "too many connections are open: try again later", {"Retry-After": "1"})
        if not operation.counted:
            await self._call(operation, scope, receive, send)
            return
        changes = operation.access in ("learn", "administer")
        counted = self.admission.begin(scope, grant, changes)
        try:
            await self._call(operation, scope, receive, send)
        finally:
            self.admission.end(counted, changes)

    async def _call(self, operation: Operation, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the handler answer, within the bounds that it does not keep itself."""
        if operation.lasting or (operation.in_lines and content_type(scope) == NDJSON):
            response = await operation.handler(Request(scope, receive))
            await response(scope, receive, send)
            return
        limits = self.admission.limits
        bounded = _bounded(scope, receive, limits, operation.body_limit)
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

    def _authorised(self, scope: Scope) -> tuple[Operation, Grant | None]:
        """The operation that is asked for; who may not ask is not told whether there is one."""
        method = scope["method"]
        operation = self.operations.get(method)
        if operation is not None:
            return operation, self.admission.authorise(scope, operation.access)
        self.admission.authorise(scope, "anybody" if self._open else "read" if method in _READING else "learn")
        if not self.operations:
            raise HTTPProblem(404, "there is nothing here: see /openapi.json")
        raise HTTPProblem(405, "this method is not for this address", {"Allow": ", ".join(self.operations)})


def _fault(scope: Scope) -> HTTPProblem:
    log.exception("%s %s failed", scope["method"], scope["path"])
    return HTTPProblem(500, "the service made a mistake: its log says more")


def _too_long(most: int, limit: str) -> HTTPProblem:
    if limit == "checkpoint_bytes":
        return HTTPProblem(
            413, f"the checkpoint is longer than {most} bytes: start the service with a larger --max-checkpoint"
        )
    return HTTPProblem(413, f"the body is longer than {most} bytes: send less at a time, or stream it as {NDJSON}")


def _bounded(scope: Scope, receive: Receive, limits: Limits, limit: str) -> Receive:
    """`receive`, of a body that is not too long."""
    most: int = getattr(limits, limit)
    length = header(scope, b"content-length")
    if length is not None and length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > most):
        raise _too_long(most, limit)
    seen = 0

    async def receive_counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise _too_long(most, limit)
        return message

    return receive_counted
