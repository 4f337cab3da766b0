"""`braided serve`: the service as a process."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from types import FrameType

import uvicorn

from braided.errors import BraidedError
from braided.serve.app import make_app
from braided.serve.connection_limits import HeadLimitProtocol
from braided.serve.disk import Disk
from braided.serve.security import Tokens, is_loopback, read_tokens
from braided.serve.service import Service
from braided.serve.settings import Settings
from braided.values import printable

log = logging.getLogger("braided.serve")
#: Seconds after which the interpreter lets another thread run. The learner spends its time outside the interpreter;
#: what it does inside must not keep a prediction waiting for the usual 5 ms.
_SWITCH_SECONDS = 0.0001
_GRACE_SECONDS = 10


class _Server(uvicorn.Server):
    """Tells the application that it is about to stop, so that lasting connections end."""

    stopping: asyncio.Event

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stopping.set()
        super().handle_exit(sig, frame)


class _PrintableLines(logging.Formatter):
    """Names of files and folders in what is told do not reach the terminal's control."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        return printable(super().formatMessage(record))


def tokens_for(settings: Settings) -> Tokens:
    """The tokens, without which a service that others can reach must not start."""
    if settings.token_file is not None:
        tokens = read_tokens(settings.token_file)
        if settings.token_file.stat().st_mode & 0o077:
            log.warning("token file %s can be read by others: chmod 600 it", settings.token_file)
        return tokens
    if not is_loopback(settings.host):
        raise BraidedError(
            f"--host {settings.host} can be reached from other machines: give --token-file, or use 127.0.0.1"
        )
    return Tokens([])


def serve(settings: Settings, disk: Disk | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then drain, write snapshots and return."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(_PrintableLines("%(asctime)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    tokens = tokens_for(settings)
    service = Service(settings, disk)
    service.open()
    stopping = asyncio.Event()
    app = make_app(service, tokens, stopping)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=HeadLimitProtocol,
        proxy_headers=False,  # nothing here asks where a request comes from
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        # Beyond requests in flight there may be idle connections, and those that are about to be refused.
        limit_concurrency=2 * settings.limits.in_flight + settings.limits.event_streams,
    )
    server = _Server(config)
    server.stopping = stopping
    sys.setswitchinterval(_SWITCH_SECONDS)
    # What is loaded by now stays: the collector need not look at it again while requests wait.
    gc.collect()
    gc.freeze()
    # uvicorn raises the signal again once it is done; by then there is nothing left to do but to return.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    log.info("braided serve: http://%s:%d, state in %s", settings.host, settings.port, settings.folder)
    server.run()
    if not server.started:
        raise BraidedError("the service did not start: the lines above say why")
    log.info("braided serve: stopped")
