"""The application behind a socket: uvicorn with our connections."""

from __future__ import annotations

import asyncio
import functools
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from braided.errors import BraidedError
from braided.serve.connections import Connections
from braided.serve.http_connection import HTTPConnection

_GRACE_SECONDS = 10
_KEEP_ALIVE_SECONDS = 30.0


class Server(uvicorn.Server):
    """Tells the application that it is about to stop, so that lasting connections end; reloads on SIGHUP.

    Parameters
    ----------
    application
        What answers.
    connections
        Where connections are counted.
    stopping
        Set when the service stops.
    reload
        What SIGHUP does.
    """

    def __init__(
        self,
        application: Any,
        connections: Connections,
        stopping: asyncio.Event | None = None,
        reload: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=functools.partial(HTTPConnection, connections),
                proxy_headers=False,  # the address that is counted is the one that connects
                log_level="warning",
                access_log=False,
                server_header=False,
                ws="none",
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        self.stopping = stopping
        self.reload = reload

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM and SIGINT."""
        if self.stopping is not None:
            self.stopping.set()
        super().handle_exit(sig, frame)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop."""
        if self.reload is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)
        await super().serve(sockets)


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets for a host's addresses, which listen once the service is ready; refused if the port is taken."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise BraidedError(f"--host {host} is no address: {getattr(error, 'strerror', None) or error}") from None
    sockets: list[socket.socket] = []
    for family, kind, protocol, _, address in dict.fromkeys(found):
        listener = socket.socket(family, kind, protocol)
        sockets.append(listener)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was just given up may be taken
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            # Of several addresses, all take the port that the first was given.
            listener.bind((address[0], port or (sockets[0].getsockname()[1]), *address[2:]))
        except OSError as error:
            for each in sockets:
                each.close()
            raise BraidedError(
                f"port {port} of {host} cannot be used ({error.strerror or error}): stop what uses it, or give another "
                "--port"
            ) from None
    return sockets
