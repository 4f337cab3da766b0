"""Slow streams and greedy clients leave room for others: who teaches, and who asks for health."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from help_serve import SMALL_SPEC, rows, serving, tokens_of
from httpx import Client
from starlette.requests import Request
from starlette.responses import Response

from braided.errors import BraidedError
from braided.serve.middleware import Limited, Policy
from braided.serve.operations import Operation
from braided.serve.problems import HTTPProblem
from braided.serve.settings import Limits

ITEMS = rows(10)
TOKENS = tokens_of(("read", "a-long-read-token"), ("learn", "a-long-learn-token"), ("administer", "a-long-write-token"),
                   ("read", "another-read-token"))  # fmt: skip
READING, LEARNING, WRITING, OTHER = (
    {"Authorization": f"Bearer {token}"}
    for token in ("a-long-read-token", "a-long-learn-token", "a-long-write-token", "another-read-token")
)


class Held:
    """Requests that stay in flight as long as a test wants."""

    def __init__(self, limits: Limits) -> None:
        self.policy = Policy(TOKENS, limits)
        self.released = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, address: str, header: dict[str, str], access: Any) -> None:
        """Let a request in, or raise the problem with which it is refused."""

        async def wait(request: Request) -> Response:
            await self.released.wait()
            return Response()

        async def nothing(*message: Any) -> Any:
            pass

        grant = TOKENS.grant(header["Authorization"])
        operation = Operation("POST", "/", wait, access)
        scope: dict[str, Any] = {
            "type": "http",
            "client": (address, 1),
            "grant": grant,
            "operation": operation,
            "headers": [],
        }
        task = asyncio.create_task(Limited(self.policy)(scope, nothing, nothing))
        await asyncio.sleep(0)
        if task.done():
            task.result()
        self.tasks.append(task)


def test_places_are_kept_for_those_who_teach_and_shared_among_addresses_and_tokens() -> None:
    async def run() -> None:
        held = Held(Limits(in_flight=16))  # 12 for readers, 6 of them for one
        for _ in range(6):
            await held.ask("a", READING, "read")
        for address, header in (("a", OTHER), ("b", READING)):
            with pytest.raises(HTTPProblem, match="requests of this") as refused:
                await held.ask(address, header, "read")
            assert refused.value.status == 429
        for _ in range(6):
            await held.ask("b", OTHER, "read")
        with pytest.raises(HTTPProblem, match="12 requests are in flight"):
            await held.ask("c", WRITING, "read")
        for _ in range(4):
            await held.ask("a", LEARNING, "learn")
        with pytest.raises(HTTPProblem, match="16 requests are in flight"):
            await held.ask("d", WRITING, "learn")
        assert held.policy.in_flight == {False: 12, True: 4}
        held.released.set()
        await asyncio.gather(*held.tasks)
        assert (held.policy.in_flight, held.policy.of) == ({False: 0, True: 0}, {})

    asyncio.run(run())


def test_shares_out_of_range_are_refused() -> None:
    for bad in ({"writer_share": 1.0}, {"address_share": 0.0}, {"token_share": 1.5}, {"in_flight": 0}):
        with pytest.raises(BraidedError, match=next(iter(bad))):
            Limits(**bad)  # type: ignore[arg-type]


@contextlib.contextmanager
def connected(client: Client, address: str = "127.0.0.1") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0), source_address=(address, 0)) as connection:
        connection.settimeout(60)
        yield connection


def stream_head(header: dict[str, str], operation: bytes = b"predict") -> bytes:
    return (
        b"POST /models/m/%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        b"Authorization: %b\r\nContent-Length: 100000\r\n\r\n" % (operation, header["Authorization"].encode())
    )


def test_slow_streams_of_readers_do_not_keep_teachers_out(tmp_path: Path) -> None:
    with serving(tmp_path / "state", TOKENS, in_flight=16) as client, contextlib.ExitStack() as stack:
        assert client.put("/models/m", json=SMALL_SPEC, headers=WRITING).status_code == 201
        for _ in range(200):  # until the service has seen enough of them that have not timed out yet
            stack.enter_context(connected(client)).sendall(stream_head(READING) + b"{")
            answer = client.post("/models/m/predict", json={"x": {}}, headers=READING)
            if answer.status_code != 200:
                break
        assert answer.status_code == 429
        for item in ITEMS:
            assert client.post("/models/m/learn", json=item, headers=LEARNING).status_code == 200
        assert client.get("/healthz").status_code == 200
        with connected(client, "127.0.0.2") as elsewhere:  # another token, from another address
            elsewhere.sendall(
                b"GET /models HTTP/1.1\r\nHost: localhost\r\nAuthorization: %b\r\n\r\n"
                % OTHER["Authorization"].encode()
            )
            assert elsewhere.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("operation", [b"predict", b"learn"])
def test_a_line_has_to_be_complete_in_time_and_a_stream_need_not_be(tmp_path: Path, operation: bytes) -> None:
    # Compiling may take longer than a request is given here: the model is made by another service.
    with serving(tmp_path / "state") as client:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
    head, line = stream_head({"Authorization": "none"}, operation), b'{"x": {"a": 1.0}%b}\n'
    line %= b', "y": 1' if operation == b"learn" else b""
    with serving(tmp_path / "state", request_seconds=2.0) as client, contextlib.ExitStack() as stack:
        slow, steady = (stack.enter_context(connected(client)) for _ in range(2))
        slow.sendall(head + line)
        steady.sendall(head + line)
        begun_at = time.monotonic()
        while time.monotonic() < begun_at + 3.0:
            with contextlib.suppress(ConnectionError):
                slow.sendall(b" ")  # a byte at a time keeps no line alive
            steady.sendall(line)
            time.sleep(0.25)
        answers = steady.recv(100_000)
        assert answers.startswith(b"HTTP/1.1 200")
        assert b"problem" not in answers
        found = b""
        while b'"status":408' not in found:
            found += slow.recv(10_000)
