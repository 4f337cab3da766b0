"""What is a request and what is not, byte by byte: upgrades, pipelines, heads together with bodies, headers twice."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httptools
import pytest
import uvicorn
from help_serve import SMALL_SPEC, ndjson, rows, serving
from httpx import Client

from braided.serve import http_connection

ITEMS = rows(40)
JSON = b"Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("bytes") / "state") as client:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        assert client.post("/models/m/learn", json={"records": ITEMS}).status_code == 200
        yield client


def connected(client: Client) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", client.base_url.port or 0))
    connection.settimeout(60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def request(path: str, document: Any, head: bytes = b"", host: bytes = b"Host: localhost\r\n") -> bytes:
    body = json.dumps(document).encode()
    return b"POST %b HTTP/1.1\r\n%b%b%bContent-Length: %d\r\n\r\n%b" % (
        path.encode(), host, JSON, head, len(body), body,
    )  # fmt: skip


def answers(connection: socket.socket, count: int) -> list[tuple[int, Any]]:
    """Status and document of so many answers."""
    found = []
    with connection.makefile("rb") as file:
        for _ in range(count):
            status = int(file.readline().split()[1])
            length = 0
            while (line := file.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            found.append((status, json.loads(file.read(length))))
    return found


def exchanged(client: Client, sent: bytes, count: int = 1) -> list[tuple[int, Any]]:
    with connected(client) as connection:
        connection.sendall(sent)
        return answers(connection, count)


@pytest.mark.parametrize(
    "wish",
    [
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
        b"Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n",
        b"Upgrade: TLS/1.0, IRC/6.9\r\nConnection: upgrade\r\n",
        b"Upgrade: h2c\r\n",
    ],
)
def test_a_wish_for_another_protocol_is_ignored_and_the_body_is_not(client: Client, wish: bytes) -> None:
    plain = request("/models/m/predict", {"x": ITEMS[0]["x"]})
    upgrading = request("/models/m/predict", {"x": ITEMS[0]["x"]}, wish)
    (expected,) = exchanged(client, plain)
    assert expected[0] == 200
    assert exchanged(client, upgrading) == [expected]
    assert exchanged(client, upgrading + plain + upgrading, 3) == [expected] * 3
    with connected(client) as connection:  # in pieces that end at no border of anything
        for place in range(0, len(upgrading), 7):
            connection.sendall(upgrading[place : place + 7])
            time.sleep(0.001)
        assert answers(connection, 1) == [expected]
    chunked = upgrading.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
    body = json.dumps({"x": ITEMS[0]["x"]}).encode()
    assert exchanged(client, chunked + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)) == [expected]


def test_two_thousand_learns_in_one_send(client: Client) -> None:
    before = client.get("/models/m").json()["records"]
    sent = b"".join(
        request("/models/m/learn", {**ITEMS[i % 40], "client": "pipeline", "sequence": i}) for i in range(2_000)
    )
    assert len(sent) > 4 * 2**16
    found = exchanged(client, sent, 2_000)
    assert {status for status, _ in found} == {200}
    assert [answer["next"] for _, answer in found] == list(range(1, 2_001))
    assert client.get("/models/m").json()["records"] == before + 2_000


def test_what_was_sent_whole_is_answered_after_the_client_has_nothing_more_to_send(client: Client) -> None:
    one = request("/models/m/predict", {"x": ITEMS[0]["x"]})
    with connected(client) as connection:
        connection.sendall(one * 30 + one[:-3])
        connection.shutdown(socket.SHUT_WR)
        assert [status for status, _ in answers(connection, 30)] == [200] * 30
        assert connection.recv(10) == b""


def test_nothing_is_answered_after_a_request_that_closes(client: Client) -> None:
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connected(client) as connection:
        connection.sendall(last * 3)
        assert connection.makefile("rb").read().count(b"HTTP/1.1 ") == 1


def test_bodies_are_not_counted_as_heads(client: Client) -> None:
    """A read that holds the end of a long body and the beginning of a head."""
    body = json.dumps({"x": {"f0": 1.0}}).encode() + b" " * 300_000
    long = (
        b"POST /models/m/predict HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: %d\r\n\r\n" % (JSON, len(body)) + body
    )
    healthy = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for cut in (1, 20, len(healthy) - 1):
        with connected(client) as connection:
            connection.sendall(long + healthy[:cut])
            assert answers(connection, 1)[0][0] == 200
            connection.sendall(healthy[cut:])
            assert answers(connection, 1) == [(200, {"status": "ok"})]


@pytest.mark.parametrize("filler", [b"X-%d: %b\r\n", b"X: %d%b\r\n", b"%d%b:x\r\n"])
def test_heads_are_counted_even_where_they_come_in_one_piece_with_a_body(client: Client, filler: bytes) -> None:
    head = b"".join(filler % (i, b"a" * 1_000) for i in range(70))
    sent = request("/models/m/predict", {"x": {}}, head)
    assert exchanged(client, sent)[0][0] == 431
    assert (
        exchanged(client, request("/models/m/predict", {"x": {}}, head[:60_000].rpartition(b"\r\n")[0] + b"\r\n"))[0][0]
        == 200
    )
    with connected(client) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 120_000)
        assert answers(connection, 1)[0][0] == 431
    assert exchanged(client, request("/models/m/predict", {"x": {}}, b"A: b\r\n" * 300))[0][0] == 431


HOST = b"Host: localhost\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nhost: elsewhere.example\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"POST /models/m/predict HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (b"POST /models/m/predict HTTP/1.1\r\n" + HOST + b"Content-Length: 3, 4\r\n\r\nabcd", 400),
        (b"POST /models/m/predict HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"POST /m HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /m HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
        (b"POST /m HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /m HTTP/1.1\r\n" + HOST + 2 * b"Transfer-Encoding: chunked\r\n" + b"\r\n0\r\n\r\n", 400),
        (b"POST /m HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: identity\r\n\r\nabc", 400),
        (b"POST /m HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /m HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400),
        (b"POST /m HTTP/1.1\r\n" + HOST + b"Content-Length : 1\r\n\r\na", 400),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b" folded: 1\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
    ],
)  # fmt: skip
def test_what_two_readers_could_read_in_two_ways_is_refused(client: Client, head: bytes, status: int) -> None:
    healthy = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(client) as connection:
        connection.sendall(head)
        ((found, document),) = answers(connection, 1)
        assert (found, document["status"]) == (status, status)
        assert connection.recv(10) == b"", "and the connection is closed"
    # Those before it are answered, and those after it are not.
    with connected(client) as connection:
        connection.sendall(healthy + head + healthy)
        assert [status for status, _ in answers(connection, 2)] == [200, status]
        assert connection.recv(10) == b""


def test_an_older_client_gets_its_answer_and_the_end(client: Client) -> None:
    with connected(client) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert answers(connection, 1) == [(200, {"status": "ok"})]
        assert connection.recv(10) == b""
    lines = ndjson([{"x": item["x"]} for item in ITEMS])
    with connected(client) as connection:  # no chunks for one that does not know them
        connection.sendall(
            b"POST /models/m/predict HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            b"Content-Length: %d\r\n\r\n" % len(lines) + lines
        )
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert len([json.loads(line) for line in body.splitlines()]) == len(ITEMS)


def test_an_answer_to_head_has_no_body(client: Client) -> None:
    with connected(client) as connection:
        connection.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    assert (head.startswith(b"HTTP/1.1 405"), body) == (True, b"")


def test_trailers_and_chunk_extensions_have_a_bound(client: Client) -> None:
    head = b"POST /models/m/predict HTTP/1.1\r\n" + HOST + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
    for endless in (b"1;" + b"a" * 400_000, b"0\r\nX: " + b"a" * 400_000):
        with connected(client) as connection:
            connection.sendall(head + endless)
            assert answers(connection, 1)[0][0] == 400
    trailing = head + b'9\r\n{"x": {}}\r\n0\r\nHost: elsewhere.example\r\n\r\n'
    assert exchanged(client, trailing)[0][0] == 200


def test_no_timer_of_heads_or_idle_connections_cuts_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_MAX_HEAD_SECONDS", 0.3)
    monkeypatch.setattr("braided.serve.server._KEEP_ALIVE_SECONDS", 0.3)
    head = b"POST /models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    healthy = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    line = json.dumps({"x": ITEMS[0]["x"]}).encode() + b"\n"
    with serving(tmp_path / "state") as client:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        with connected(client) as connection, connection.makefile("rb") as file:
            connection.sendall(healthy)  # sets the timer of idle connections
            assert b"200" in file.readline()
            while file.readline().strip():
                pass
            assert file.read(15) == b'{"status":"ok"}'
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % (3 * len(line)))
            for _ in range(3):
                time.sleep(0.8)
                connection.sendall(line)
            assert b"200" in file.readline()
        with connected(client) as connection:  # half a head behind a request that takes long
            slow = head + b"Content-Length: %d\r\n\r\n" % len(line)
            connection.sendall(slow)
            time.sleep(0.8)
            connection.sendall(line + healthy[:20])
            assert connection.recv(12) == b"HTTP/1.1 200"


def test_an_early_answer_lets_the_connection_go_on_and_does_not_leave_it_open_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braided.serve.server._KEEP_ALIVE_SECONDS", 0.5)
    with serving(tmp_path / "state", body_bytes=1_000) as client:
        head = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
        with connected(client) as connection:
            connection.sendall(head)
            assert answers(connection, 1)[0][0] == 404
            connection.sendall(b"a" * 100 + head)
            assert answers(connection, 1)[0][0] == 404
            connection.sendall(b"a" * 100)
            assert connection.recv(10) == b"", "an idle connection is closed"


def test_uvicorn_is_used_only_as_far_as_this_says() -> None:
    """If one of these fails, `http_connection` and `server` have to be read against the new uvicorn."""
    state = uvicorn.server.ServerState()
    assert isinstance(state.connections, set)
    assert isinstance(state.tasks, set)
    assert isinstance(state.default_headers, list)
    config = uvicorn.Config(lambda scope: None, http=http_connection.HTTPConnection, ws="none")
    config.load()
    assert config.http_protocol_class is http_connection.HTTPConnection
    assert config.loaded_app is not None
    source = inspect.getsource(uvicorn.Server)
    for call in (
        "config=config",
        "server_state=self.server_state",
        "app_state=",
        "_loop=_loop",
        "connection.shutdown()",
    ):
        assert call in source
    assert issubclass(http_connection.HTTPConnection, asyncio.Protocol)


def test_httptools_says_where_another_protocol_begins() -> None:
    class Callbacks:
        def on_headers_complete(self) -> None:
            pass

    parser = httptools.HttpRequestParser(Callbacks())
    head = b"POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\n"
    with pytest.raises(httptools.HttpParserUpgrade) as raised:
        parser.feed_data(head + b"abc")
    assert raised.value.args == (len(head),)
    problem = ValueError("told in a callback")

    class Refusing:
        def on_headers_complete(self) -> None:
            raise problem

    with pytest.raises(httptools.HttpParserError) as refused:
        httptools.HttpRequestParser(Refusing()).feed_data(b"GET / HTTP/1.1\r\n\r\n")
    assert refused.value.__context__ is problem
