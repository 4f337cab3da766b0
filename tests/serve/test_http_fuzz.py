"""Request streams that were changed at random: no traceback, no 500, no hang, and the service goes on."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import re
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from help_serve import SMALL_SPEC, ndjson, rows, serving
from httpx import Client

ITEMS = rows(6)
HOST = b"Host: localhost\r\n"
PIECES = [
    b"\r\n", b"\r\n\r\n", b"\n", b"\x00", b"\xff", b" ", b":", b",", b"Host: b\r\n", b"Content-Length: 5\r\n",
    b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n",
    b"Connection: close\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.0",
    b"HTTP/9.9", b"GET ", b"CONNECT ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n",
    b"-1", b"%00", b"%ff", b"%", b"?client=a&sequence=1", b"?sequence=%F0", b"#", b"http://a:b/", b"*", b"X" * 70_000,
    b"Authorization: Bearer \xe9\r\n", b"Content-Type: application/x-ndjson\r\n", b"A: b\r\n" * 201, b"[" * 3_000,
]  # fmt: skip


def seeds() -> list[bytes]:
    """Requests that are right, of every kind."""
    learn, predict = json.dumps(ITEMS[0]).encode(), json.dumps({"x": ITEMS[1]["x"]}).encode()
    lines = ndjson(ITEMS)
    found = [b"GET %b HTTP/1.1\r\n%b\r\n" % (path, HOST) for path in (
        b"/healthz", b"/", b"/models", b"/models/m", b"/metrics", b"/openapi.json", b"/nowhere", b"/models/m/clients/a",
    )]  # fmt: skip
    for path, kind, body in (
        (b"/models/m/predict", b"json", predict),
        (b"/models/m/learn", b"json", learn),
        (b"/models/m/learn?client=a&sequence=0", b"x-ndjson", lines),
        (b"/models/m/predict", b"x-ndjson", ndjson([{"x": item["x"]} for item in ITEMS])),
        (b"/models/m/observe", b"json", predict),
        (b"/models/m/label", b"json", b'{"id": "a", "y": 1}'),
    ):
        head = b"POST %b HTTP/1.1\r\n%bContent-Type: application/%b\r\n" % (path, HOST, kind)
        found.append(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        half = len(body) // 2
        chunks = b"%x\r\n%b\r\n%x;a=b\r\n%b\r\n0\r\nX: y\r\n\r\n" % (half, body[:half], len(body) - half, body[half:])
        found.append(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        found.append(head + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return found


def mutated(chance: random.Random, requests: list[bytes]) -> bytes:
    """A few requests in a row, with a few changes."""
    content = bytearray(b"".join(chance.choices(requests, k=chance.randint(1, 4))))
    for _ in range(chance.randint(0, 4)):
        at = chance.randint(0, len(content))
        change = chance.randrange(6)
        if change == 0:
            content[at:at] = chance.choice(PIECES)
        elif change == 1:
            del content[at : at + chance.choice((1, 2, 10, 100))]
        elif change == 2 and at < len(content):
            content[at] = chance.randrange(256)
        elif change == 3:
            content[at:at] = content[at : at + chance.choice((1, 10, 200))]
        elif change == 4:
            places = [match.end() for match in re.finditer(rb"\r\n", bytes(content))]
            if places:
                place = chance.choice(places)
                content[place:place] = chance.choice(PIECES)
        else:
            del content[at:]
    return bytes(content)


#: What uvicorn and uvloop log where a connection was closed, by them or the client, before its requests were answered.
CLOSED = ("the handler is closed", "returned without completing response")


class Told(logging.Handler):
    """What is logged with a traceback, or as an error."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            text = self.format(record)
            if not any(words in text for words in CLOSED):
                self.found.append(text)


@contextlib.contextmanager
def told() -> Iterator[list[str]]:
    handler = Told()
    loggers = [logging.getLogger(name) for name in ("", "uvicorn", "uvicorn.error")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield handler.found
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def statuses(client: Client, sent: bytes, chance: random.Random, seconds: float = 0.05) -> list[int]:
    """Send a stream, whole or in pieces, and read whatever comes back until nothing comes for so long."""
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0)) as connection:
        connection.settimeout(60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            cuts = sorted(chance.randint(0, len(sent)) for _ in range(chance.choice((0, 0, 1, 5))))
            for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
                connection.sendall(sent[start:end])
            if chance.random() < 0.1:
                return []  # gone without reading
            connection.settimeout(seconds)
            while part := connection.recv(2**16):
                found += part
    return [int(status) for status in re.findall(rb"(?:^|\n|\}|\.)HTTP/1\.1 (\d\d\d) ", found)]


def fuzz(client: Client, count: int, seed: int) -> str:
    chance, requests = random.Random(seed), seeds()
    counts: Counter[int] = Counter()
    for request in requests:  # those are right
        if b"Upgrade" not in request:  # of such a one uvicorn drops the body
            right = request.replace(HOST, HOST + b"Connection: close\r\n")
            assert statuses(client, right, random.Random(0), seconds=60.0)[-1] in (200, 404, 409)
    with told() as problems:
        for number in range(count):
            sent = mutated(chance, requests)
            found = statuses(client, sent, chance)
            assert not any(status >= 500 for status in found), (number, sent, found)
            assert problems == [], (number, sent, problems[0])
            counts.update(found)
            if number % 50 == 0:
                assert client.get("/healthz").status_code == 200
        assert client.post("/models/m/predict", json={"x": {}}).status_code == 200
        assert problems == []
    assert {200, 400} <= counts.keys()
    return f"{count} request streams changed at random: {dict(sorted(counts.items()))}"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder: Path = tmp_path_factory.mktemp("http-fuzz") / "state"
    with serving(folder) as client:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        yield client


def test_changed_request_streams(client: Client) -> None:
    print(fuzz(client, 300, seed=1))


@pytest.mark.slow
def test_changed_request_streams_for_long(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    summary = fuzz(client, 5_000, seed=2)
    with capsys.disabled():
        print(f"\n{summary}")
