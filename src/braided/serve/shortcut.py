"""The short way to the handlers that are called for every record."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

Handler = Callable[[Request], Awaitable[Response]]
_PATH = re.compile(r"/models/([^/]+)/([a-z]+)")


class Shortcut:
    """Calls the handlers of `POST /models/{name}/...` without routing, validation and exit stacks.

    They read the request themselves, so that nothing is lost; routing alone takes longer than a prediction. The same
    handlers are routes of the application too, for its OpenAPI document.

    Parameters
    ----------
    app
        Where everything else goes.
    handlers
        Last part of the path -> handler.
    """

    def __init__(self, app: ASGIApp, handlers: Mapping[str, Handler]) -> None:
        self.app = app
        self.handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        match = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        handler = self.handlers.get(match[2]) if match is not None else None
        if match is None or handler is None:
            await self.app(scope, receive, send)
            return
        scope["path_params"] = {"name": match[1]}
        try:
            response = await handler(Request(scope, receive))
            await response(scope, receive, send)
        except ClientDisconnect:
            return
