"""`braided serve`: the service as a process."""

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

from braided.errors import BraidedError
from braided.serve.access_log import AccessLog
from braided.serve.app import make_app
from braided.serve.connections import Connections
from braided.serve.disk import Disk
from braided.serve.endpoint import Admission
from braided.serve.security import Tokens, is_loopback, read_tokens
from braided.serve.server import Server, bound_sockets
from braided.serve.service import Service
from braided.serve.settings import Settings, changeable, waits_for_restart
from braided.values import printable

log = logging.getLogger("braided.serve")
#: Seconds after which the interpreter lets another thread run. The learner spends its time outside the interpreter;
#: what it does inside must not keep a prediction waiting for the usual 5 ms.
_SWITCH_SECONDS = 0.0001


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
    return Tokens()


class Running:
    """A service with what may be changed while it runs.

    Parameters
    ----------
    settings
        As it begins.
    disk
        How files are written.
    """

    def __init__(self, settings: Settings, disk: Disk | None = None) -> None:
        self.service = Service(settings, disk)
        self.connections = Connections(settings.limits)
        self.admission = Admission(tokens_for(settings), settings.limits, _access_log(settings))

    def change(self, settings: Settings) -> None:
        """Take over tokens, limits and the access log; refused as a whole if something is wrong with them."""
        allowed = changeable(self.service.settings, settings)
        tokens, access_log = tokens_for(allowed), _access_log(allowed)
        # From here on nothing fails.
        self.service.change(allowed)
        self.admission.tokens, self.admission.limits = tokens, allowed.limits
        self.connections.limits = allowed.limits
        old, self.admission.access_log = self.admission.access_log, access_log
        if old is not None:
            threading.Thread(target=old.close, daemon=True).start()

    def close(self) -> None:
        """Write what is left of the log."""
        if self.admission.access_log is not None:
            self.admission.access_log.close()


def _access_log(settings: Settings) -> AccessLog | None:
    return None if settings.access_log is None else AccessLog(settings.access_log)


def reloader(running: Running, read: Callable[[], Settings]) -> Callable[[], None]:
    """What SIGHUP does: read all again and take it over, or keep what there is and say why."""

    def reload() -> None:
        try:
            settings = read()
            waits = waits_for_restart(running.service.settings, settings)
            running.change(settings)
        except BraidedError as error:
            log.error("SIGHUP: nothing was changed: %s", error)
            return
        log.info("SIGHUP: tokens, limits and the access log were read again")
        if waits:
            log.warning("SIGHUP: %s will change with the next start", ", ".join(waits))

    return reload


def serve(settings: Settings, disk: Disk | None = None, read: Callable[[], Settings] | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then drain, write snapshots and return; `read` gives the settings of a SIGHUP."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(_PrintableLines("%(asctime)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    running = Running(settings, disk)
    # A port that is taken must be told before minutes are spent on models.
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in bound_sockets(settings.host, settings.port)]
        stack.callback(running.close)
        # Until requests are answered there is nothing to read again, and nothing to die of.
        stack.callback(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_IGN))
        running.service.open()
        _run(running, sockets, read or (lambda: settings))
    log.info("braided serve: stopped")


def _run(running: Running, sockets: list[socket.socket], read: Callable[[], Settings]) -> None:
    """Answer requests until a signal ends it."""
    settings, stopping = running.service.settings, asyncio.Event()
    admission, connections = running.admission, running.connections
    app = make_app(running.service, admission.tokens, stopping, connections, admission)
    server = Server(app, connections, stopping, reloader(running, read))
    sys.setswitchinterval(_SWITCH_SECONDS)
    # What is loaded by now stays: the collector need not look at it again while requests wait.
    gc.collect()
    gc.freeze()
    # uvicorn raises the signal again once it is done; by then there is nothing left to do but to return.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    port = sockets[0].getsockname()[1]
    log.info("braided serve: http://%s:%d, state in %s", settings.host, port, settings.folder)
    try:
        server.run(sockets)
    except OSError as error:  # another process may have begun to listen meanwhile
        raise BraidedError(f"port {port} of {settings.host} cannot be used: {error.strerror or error}") from None
    if not server.started:
        raise BraidedError("the service did not start: the lines above say why")
