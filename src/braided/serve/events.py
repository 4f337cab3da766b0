"""Server-sent events for the live page: each model's figures whenever they have changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from concurrent.futures import Executor
from typing import Any

from starlette.types import Receive

from braided.serve.security import Grant
from braided.serve.service import Service, details
from braided.serve.worker import Worker

_SECONDS = 0.5
_MAX_POINTS, _MAX_FEATURES, _MAX_RECENT, _MAX_CLASSES = 120, 48, 12, 20


def view(worker: Worker) -> dict[str, Any]:
    """What the page shows of a model."""
    shown = details(worker)
    stats = worker.state.stats
    kept = (
        "name", "task", "records", "records_before", "error_is", "error", "window_error", "window", "plain_guesses",
        "learners", "records_per_second", "resets", "trouble", "alarm", "alarm_marks", "waiting_for_labels",
    )  # fmt: skip
    return {
        **{key: shown[key] for key in kept},
        "features": shown["features"],
        "classes": len(shown["classes"]),
        "curve": stats.curve(_MAX_POINTS),
        "window_curve": stats.window_curve(_MAX_POINTS),
        "per_class": stats.per_class(_MAX_CLASSES),
        "strip": stats.strip(_MAX_FEATURES),
        "recent": stats.latest()[:_MAX_RECENT],
        "keys": shown.get("keys"),
        "columns": [] if shown["encode"] is None else shown["encode"]["columns"][:_MAX_FEATURES],
    }


class Events:
    """The pages that listen.

    Parameters
    ----------
    service
        What they listen to.
    stopping
        Set when the service stops, which ends every stream.
    threads
        Where the figures are gathered.
    """

    def __init__(self, service: Service, stopping: asyncio.Event, threads: Executor) -> None:
        self.service = service
        self.stopping = stopping
        self._threads = threads
        self._gathering = asyncio.Lock()
        self.listeners = 0
        self._shown: dict[str, tuple[Any, bytes]] = {}

    def _current(self) -> dict[str, tuple[Any, bytes]]:
        """For each model a key that changes with it, and its event; made once for all pages."""
        current = {}
        for name, worker in self.service.workers.items():
            rate = worker.state.stats.rate()
            key = (worker.state.uid, worker.state.number, rate, worker.trouble)
            old = self._shown.get(name)
            if old is not None and old[0] == key:
                current[name] = old
            else:
                current[name] = (key, _event("model", view(worker)))
        self._shown = current
        return current

    async def _gathered(self) -> dict[str, tuple[Any, bytes]]:
        async with self._gathering:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._current)

    async def stream(self, receive: Receive, grant: Grant) -> AsyncGenerator[bytes, None]:
        """Events of the models that a token is for, until the page goes or the service stops."""
        self.listeners += 1
        gone = asyncio.ensure_future(_until_gone(receive))
        stopping = asyncio.ensure_future(self.stopping.wait())
        seen: dict[str, Any] = {}
        names: list[str] | None = None
        try:
            while not gone.done() and not stopping.done():
                found = await self._gathered()
                current = {name: found[name] for name in found if grant.sees(name)}
                parts = []
                if names != list(current):
                    names = list(current)
                    quarantined = {name: why for name, why in self.service.quarantined.items() if grant.sees(name)}
                    parts.append(
                        _event("models", {"names": names, "quarantined": quarantined, "status": self.service.status})
                    )
                parts += [event for name, (key, event) in current.items() if seen.get(name) != key]
                seen = {name: key for name, (key, _) in current.items()}
                yield b"".join(parts) or b": nothing new\n\n"
                await asyncio.wait({gone, stopping}, timeout=_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.listeners -= 1
            gone.cancel()
            stopping.cancel()


def _event(kind: str, document: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(document, allow_nan=False)}\n\n".encode()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
