"""`braided serve`: the service as a process, behind stock uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable

import uvicorn

from braided.errors import BraidedError
from braided.serve.access_log import AccessLog
from braided.serve.app import make_app
from braided.serve.middleware import Policy
from braided.serve.security import Tokens, is_loopback, read_tokens
from braided.serve.service import Service
from braided.serve.settings import Settings, changeable, waits_for_restart
from braided.values import printable

log = logging.getLogger("braided.serve")
#: Seconds after which the interpreter lets another thread run. The learner spends its time outside the interpreter;
#: what it does inside must not keep a prediction waiting for the usual 5 ms.
_SWITCH_SECONDS = 0.0001
_GRACE_SECONDS, _KEEP_ALIVE_SECONDS = 10, 30
#: How soon lasting answers end once the service is told to stop.
_LOOK_SECONDS = 0.1


class _PrintableLines(logging.Formatter):
    """Names of files and folders in the log do not reach the terminal's control."""

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
    return Tokens()


def _access_log(settings: Settings) -> AccessLog | None:
    return None if settings.access_log is None else AccessLog(settings.access_log)


class Running:
    """A service, and what its requests are held to.

    Parameters
    ----------
    settings
        As it begins.
    """

    def __init__(self, settings: Settings) -> None:
        self.service = Service(settings)
        self.policy = Policy(tokens_for(settings), settings.limits, _access_log(settings))

    def change(self, settings: Settings) -> None:
        """Take over tokens, limits and the access log; refused as a whole if something is wrong with them."""
        allowed = changeable(self.service.settings, settings)
        tokens, access_log = tokens_for(allowed), _access_log(allowed)
        # From here on nothing fails.
        self.service.change(allowed)
        self.policy.tokens, self.policy.limits = tokens, allowed.limits
        old, self.policy.access_log = self.policy.access_log, access_log
        if old is not None:
            threading.Thread(target=old.close, daemon=True).start()

    def reload(self, read: Callable[[], Settings]) -> None:
        """What SIGHUP does: read all again and take it over, or keep what there is and say why."""
        try:
            settings = read()
            waits = waits_for_restart(self.service.settings, settings)
            self.change(settings)
        except BraidedError as error:
            log.error("SIGHUP: nothing was changed: %s", error)
            return
        log.info("SIGHUP: tokens, limits and the access log were read again")
        if waits:
            log.warning("SIGHUP: %s will change with the next start", ", ".join(waits))

    def server(self, read: Callable[[], Settings] | None = None) -> uvicorn.Server:
        """The server, not yet running; lasting answers end when it is told to stop."""
        stopping = asyncio.Event()
        tasks = set()

        async def watch() -> None:
            while not server.should_exit:
                await asyncio.sleep(_LOOK_SECONDS)
            stopping.set()

        def on_start() -> None:
            loop = asyncio.get_running_loop()
            tasks.add(loop.create_task(watch()))
            if read is not None:
                loop.add_signal_handler(signal.SIGHUP, self.reload, read)

        config = uvicorn.Config(
            make_app(self.service, self.policy, stopping, on_start),
            proxy_headers=False,  # the address that is counted is the one that connects
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        server = uvicorn.Server(config)
        return server

    def close(self) -> None:
        """Write what is left of the log."""
        if self.policy.access_log is not None:
            self.policy.access_log.close()


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket for a host's first address, which listens once the service is ready; refused if the port is taken."""
    try:
        (family, *_, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise BraidedError(
            f"--host {host} is not a valid address: {getattr(error, 'strerror', None) or error}"
        ) from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was just given up may be taken
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        why = error.strerror or error
        raise BraidedError(
            f"port {port} of {host} cannot be used ({why}): stop what uses it, or give another --port"
        ) from None
    return listener


def serve(settings: Settings, read: Callable[[], Settings] | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then drain, write snapshots and return; `read` gives the settings of a SIGHUP."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(_PrintableLines("%(asctime)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    running = Running(settings)
    # A port that is taken must be told before minutes are spent on models.
    with bound_socket(settings.host, settings.port) as listener, contextlib.closing(running):
        # Until requests are answered there is nothing to read again, and nothing to die of.
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        running.service.open()
        sys.setswitchinterval(_SWITCH_SECONDS)
        # What is loaded by now stays: the collector need not look at it again while requests wait.
        gc.collect()
        gc.freeze()
        # uvicorn raises the signal again once it is done; by then there is nothing left to do but to return.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        port = listener.getsockname()[1]
        log.info("braided serve: http://%s:%d, state in %s", settings.host, port, settings.folder)
        server = running.server(read or (lambda: settings))
        try:
            server.run([listener])
        except OSError as error:  # another process may have begun to listen meanwhile
            raise BraidedError(f"port {port} of {settings.host} cannot be used: {error.strerror or error}") from None
        finally:
            signal.signal(signal.SIGHUP, before)
        if not server.started:
            raise BraidedError("the service did not start: the lines above say why")
    log.info("braided serve: stopped")
