"""Requests as bytes on a connection: in pieces, several at once, too long, too slow, broken off."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from help_serve import SMALL_SPEC, rows, serving, tokens_of
from httpx import Client

from braided.serve import http_connection

ITEMS = rows(40)
RECORD = {"x": {name: float(value) for name, value in ITEMS[0]["x"].items() if value is not None}}
BODY = json.dumps(RECORD).encode()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path / "state") as client:
        client.put("/models/m", json=SMALL_SPEC)
        client.post("/models/m/learn", json={"records": ITEMS})
        yield client


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("m", b'{"x": {"unknown": 1.0}}', {}, 200),
        ("m", b'{"x": {"a": 1}}', {}, 200),
        ("m", b'{"x": {"a": null}}', {}, 200),
        ("m", b'{"x": {}}', {}, 200),
        ("m", b'{"records": [{"x": {"a": 1.0}}]}', {}, 200),
        ("m", b'{"x": {"a": 1.0}, "y": 1}', {}, 422),
        ("m", b'{"x": {"a": "b"}}', {}, 422),
        ("m", b'{"x": [1.0]}', {}, 422),
        ("m", b"[1.0]", {}, 422),
        ("m", b'{"x": {"a": 1.0, "a": 2.0}}', {}, 400),
        ("m", b'{"x": {"a": 1e999}}', {}, 422),
        ("m", b"{", {}, 400),
        ("m", b"", {}, 400),
        ("other", BODY, {}, 404),
        ("m", BODY, {"Content-Type": "text/plain"}, 415),
        ("m", BODY, {"Host": "example.org"}, 421),
        ("m", BODY, {"Connection": "close"}, 200),
    ],
)
def test_predictions_that_are_not_plain(
    client: Client, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    headers = {"Content-Type": "application/json", **headers}
    assert client.post(f"/models/{path}/predict", content=body, headers=headers).status_code == status


def test_a_token_is_needed_where_there_is_one(tmp_path: Path) -> None:
    tokens = tokens_of(("read", "a-long-read-token"), ("administer", "a-long-write-token"))
    with serving(tmp_path / "state", tokens) as client:
        write = {"Authorization": "Bearer a-long-write-token"}
        client.put("/models/m", json=SMALL_SPEC, headers=write)
        client.post("/models/m/learn", json={"records": ITEMS}, headers=write)
        for header, status in (("", 401), ("Bearer wrong", 401), ("Bearer a-long-read-token", 200)):
            answer = client.post("/models/m/predict", json=RECORD, headers={"Authorization": header})
            assert answer.status_code == status


def exchange(client: Client, pieces: list[bytes], answers: int) -> list[dict[str, Any]]:
    """Send pieces one by one on a connection, and read the answers."""
    port = client.base_url.port
    assert port is not None
    found = []
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as file:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
            if piece is not pieces[-1]:
                client.get("/healthz")  # by now the service has read the piece
        for _ in range(answers):
            assert file.readline().startswith(b"HTTP/1.1 200")
            length = 0
            while (line := file.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            found.append(json.loads(file.read(length)))
    return found


def test_requests_in_pieces_and_several_at_once(client: Client) -> None:
    head = b"POST /models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    healthy = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    expected = client.post("/models/m/predict", json=RECORD).json()
    assert exchange(client, [whole, whole], 2) == [expected] * 2
    assert exchange(client, [whole * 3], 3) == [expected] * 3
    assert exchange(client, [whole[: -len(BODY)], BODY], 1) == [expected]
    assert exchange(client, [whole[:40], whole[40:-5], whole[-5:]], 1) == [expected]
    assert exchange(client, [whole[:-1], whole[-1:] + whole], 2) == [expected] * 2
    assert exchange(client, [healthy + whole + healthy], 3) == [{"status": "ok"}, expected, {"status": "ok"}]
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert exchange(client, [chunked], 1) == [expected]


def test_a_body_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "state", body_bytes=len(BODY) - 1) as client:
        assert client.put("/models/m", json={}).status_code == 201
        for place, name in enumerate(RECORD["x"]):
            assert client.post("/models/m/learn", json={"x": {name: 1.0}, "y": place}).status_code == 200
        head = b"POST /models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", client.base_url.port or 0)) as connection:
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
            assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_slow_body_and_a_long_number(client: Client) -> None:
    head = b"POST /models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    long = b'{"x": {"f0": ' + b"0" * 70_000 + b"1.0}}"
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0)) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[:5])
        time.sleep(0.3)
        connection.sendall(BODY[5:])
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0)) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(long) + long)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_half_a_request_that_is_broken_off_does_no_harm(client: Client) -> None:
    port = client.base_url.port
    assert port is not None
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(
            b"POST /models/m/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    assert client.post("/models/m/predict", json=RECORD).status_code == 200


def connected(client: Client) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", client.base_url.port or 0))
    connection.settimeout(30)
    return connection


def test_a_head_that_is_too_long_ends_the_connection(client: Client) -> None:
    with connected(client) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                connection.sendall(b"X-Long: " + b"a" * 1_000 + b"\r\n")
        with contextlib.suppress(ConnectionError):
            assert connection.recv(100).startswith(b"HTTP/1.1 431")
    assert client.get("/healthz", headers={"X-Long": "a" * 50_000}).status_code == 200


def test_a_head_that_is_too_slow_ends_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_MAX_HEAD_SECONDS", 0.2)
    with serving(tmp_path / "state") as client:
        for beginning in (b"", b"GET /healthz HTTP/1.1\r\nHost: loc"):
            with connected(client) as connection:
                connection.sendall(beginning)
                assert connection.recv(100) == b""
        healthy = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with connected(client) as connection:  # between two requests the bound is that of idle connections
            connection.sendall(healthy)
            assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
            time.sleep(0.5)
            connection.sendall(healthy)
            assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
            connection.sendall(healthy[:10])
            assert connection.recv(100) == b""


def test_a_body_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    head = b"POST /models/m/%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: %b\r\nContent-Length: 100\r\n\r\n{"
    with serving(tmp_path / "state", request_seconds=0.3) as client:
        while client.put("/models/m", json=SMALL_SPEC).status_code != 409:  # it may be made after its answer
            time.sleep(0.1)
        for operation, kind, status in (
            (b"predict", b"application/json", b"503"),
            (b"learn", b"application/json", b"503"),
            (b"predict", b"application/x-ndjson", b"408"),
            (b"learn", b"application/x-ndjson", b"408"),
        ):
            with connected(client) as connection:
                connection.sendall(head % (operation, kind))
                assert connection.recv(100).startswith(b"HTTP/1.1 " + status)
        assert client.get("/models/m").json()["records"] == 0


def test_requests_in_flight_are_bounded_and_health_is_not(tmp_path: Path) -> None:
    head = b"POST /models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with (
        serving(tmp_path / "state", in_flight=2, address_share=1.0, writer_share=0.0) as client,
        contextlib.ExitStack() as open_connections,
    ):
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        slow = [open_connections.enter_context(connected(client)) for _ in range(2)]
        for connection in slow:
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[:5])
        # Until the service has seen the other two. A request of ours in the same moment would have one of them refused.
        for _ in range(50):
            time.sleep(0.2)
            answer = client.post("/models/m/predict", json=RECORD)
            if answer.status_code != 200:
                break
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert client.get("/healthz").status_code == 200
        for connection in slow:
            connection.sendall(BODY[5:])
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert client.post("/models/m/predict", json=RECORD).status_code == 200


def test_who_may_not_ask_is_not_told_what_there_is(tmp_path: Path) -> None:
    tokens = tokens_of(("read", "a-long-read-token"))
    with serving(tmp_path / "state", tokens) as client:
        for method, path in (("GET", "/nowhere"), ("POST", "/models"), ("PATCH", "/models/m"), ("GET", "/models/m")):
            assert client.request(method, path).status_code == 401
        reading = {"Authorization": "Bearer a-long-read-token"}
        assert client.get("/nowhere", headers=reading).status_code == 404
        assert client.post("/nowhere", headers=reading).status_code == 403
        answer = client.post("/healthz")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


def test_every_answer_carries_the_same_headers(client: Client) -> None:
    for path in ("/", "/healthz", "/models/m", "/models/none", "/nowhere", "/openapi.json"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_a_fault_of_ours_is_told_without_details(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*anything: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("braided.serve.handlers.details", fail)
    answer = client.get("/models/m")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in answer.text
