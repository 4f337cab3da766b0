"""Requests as bytes on a connection: in pieces, several at once, ambiguous, too slow, broken off."""

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

ITEMS = rows(40)
HOST, JSON = b"Host: localhost\r\n", b"Content-Type: application/json\r\n"
POST = b"POST /models/m/predict HTTP/1.1\r\n" + HOST + JSON
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


def connected(client: Client) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", client.base_url.port or 0))
    connection.settimeout(60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def exchange(client: Client, pieces: list[bytes], answers: int) -> list[dict[str, Any]]:
    """Send pieces one by one on a connection, and read the answers."""
    found = []
    with connected(client) as connection, connection.makefile("rb") as file:
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
    whole = POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    healthy = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    expected = client.post("/models/m/predict", json=RECORD).json()
    assert exchange(client, [whole, whole], 2) == [expected] * 2
    assert exchange(client, [whole * 3], 3) == [expected] * 3
    assert exchange(client, [whole[: -len(BODY)], BODY], 1) == [expected]
    assert exchange(client, [whole[:40], whole[40:-5], whole[-5:]], 1) == [expected]
    assert exchange(client, [whole[:-1], whole[-1:] + whole], 2) == [expected] * 2
    assert exchange(client, [healthy + whole + healthy], 3) == [{"status": "ok"}, expected, {"status": "ok"}]
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert exchange(client, [chunked], 1) == [expected]


def test_learned_in_the_order_in_which_they_were_sent_at_once(client: Client) -> None:
    bodies = [json.dumps({**ITEMS[i % 40], "client": "pipeline", "sequence": i}).encode() for i in range(500)]
    head = b"POST /models/m/learn HTTP/1.1\r\n" + HOST + JSON
    sent = b"".join(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)
    assert [answer["next"] for answer in exchange(client, [sent], 500)] == list(range(1, 501))


def test_a_slow_body_and_a_long_number(client: Client) -> None:
    long = b'{"x": {"f0": ' + b"0" * 70_000 + b"1.0}}"
    with connected(client) as connection:
        connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[:5])
        time.sleep(0.3)
        connection.sendall(BODY[5:])
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    with connected(client) as connection:
        connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(long) + long)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"Content-Length: 3, 4\r\n\r\nabcd",
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: identity\r\n\r\nabc",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length : 1\r\n\r\na",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b" folded: 1\r\n\r\n",
    ],
)
def test_what_two_readers_could_read_in_two_ways_is_refused(client: Client, head: bytes) -> None:
    """uvicorn does that; here it is seen that it still does."""
    with connected(client) as connection:
        connection.sendall(POST + head)
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 400"), "and the connection is closed"
    assert client.get("/healthz").status_code == 200


def test_a_wish_for_another_protocol_harms_nobody(client: Client) -> None:
    before = client.get("/models/m").json()["records"]
    wish = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    body = json.dumps(ITEMS[0]).encode()
    with connected(client) as connection:
        connection.sendall(b"POST /models/m/learn HTTP/1.1\r\n" + HOST + JSON + wish)
        connection.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        learned = connection.recv(100).startswith(b"HTTP/1.1 200")
    assert client.get("/models/m").json()["records"] == before + learned


def test_an_older_client_gets_its_answer_and_the_end(client: Client) -> None:
    with connected(client) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert connection.makefile("rb").read().endswith(b'{"status":"ok"}')
    with connected(client) as connection:
        connection.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert connection.makefile("rb").read().endswith(b"\r\n\r\n"), "an answer to HEAD has no body"


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
    with (
        serving(tmp_path / "state", in_flight=2, address_share=1.0, writer_share=0.0) as client,
        contextlib.ExitStack() as open_connections,
    ):
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        slow = [open_connections.enter_context(connected(client)) for _ in range(2)]
        for connection in slow:
            connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[:5])
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
