"""A line of JSON per request, written by a thread of its own: a slow disk or a full pipe holds up no answer."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from typing import Any, BinaryIO

import orjson

from braided.errors import BraidedError

log = logging.getLogger("braided.serve")
#: Lines that wait to be written; those beyond it are dropped, and counted.
_MAX_WAITING = 10_000
_STOP_SECONDS = 5.0


class AccessLog:
    """The log.

    Parameters
    ----------
    target
        A file, to whose end lines are added, or `-` for standard output.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.dropped = 0
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(_MAX_WAITING)
        try:
            self._file: BinaryIO = sys.stdout.buffer if target == "-" else open(target, "ab")  # noqa: SIM115
        except OSError as error:
            raise BraidedError(f"--access-log {target} cannot be written: {error.strerror or error}") from None
        self._thread = threading.Thread(target=self._write, name="access log", daemon=True)
        self._thread.start()

    def add(self, line: dict[str, Any]) -> None:
        """Log a request; never waits."""
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Write what is there, and end."""
        try:
            self._queue.put(None, timeout=_STOP_SECONDS)
        except queue.Full:
            return
        self._thread.join(_STOP_SECONDS)

    def _write(self) -> None:
        told, failing = 0, False
        while (line := self._queue.get()) is not None:
            try:
                if self.dropped > told:
                    line["dropped_before"] = self.dropped - told
                    told = self.dropped
                self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                if self._queue.empty():
                    self._file.flush()
                failing = False
            except OSError as error:
                if not failing:
                    log.error("the access log cannot be written: %s", error.strerror or error)
                failing = True
        try:
            self._file.flush()
            if self.target != "-":
                self._file.close()
        except OSError:
            pass
