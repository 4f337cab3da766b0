"""Idle connections, slow streams and greedy clients leave room for others: who teaches, and who asks for health."""

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

from braided.errors import BraidedError
from braided.serve import connections as connections_module
from braided.serve.connections import Connections
from braided.serve.endpoint import Admission
from braided.serve.problems import HTTPProblem
from braided.serve.settings import Limits

ITEMS = rows(10)
TOKENS = tokens_of(("read", "a-long-read-token"), ("learn", "a-long-learn-token"), ("administer", "a-long-write-token"),
                   ("read", "another-read-token"))  # fmt: skip
READING, LEARNING, WRITING, OTHER = (
    {"Authorization": f"Bearer {token}"}
    for token in ("a-long-read-token", "a-long-learn-token", "a-long-write-token", "another-read-token")
)


class Line:
    """A connection that only remembers what was done to it."""

    def __init__(self, address: str = "a") -> None:
        self.address = address
        self.crowded = False
        self.closed = False

    def close_now(self) -> None:
        self.closed = True


def lines(table: Connections, count: int, address: str = "a") -> list[Line]:
    found = [Line(address) for _ in range(count)]
    assert all(table.add(line) for line in found)
    return found


def test_the_oldest_idle_connection_goes_first_and_an_active_one_never() -> None:
    table = Connections(Limits(connections=4, address_share=1.0))
    first, second, third, fourth = lines(table, 4)
    table.begin(first)
    table.begin(third)
    table.rest(first)  # idle again, later than the second and the fourth
    for expected in (second, fourth, first):
        (newer,) = lines(table, 1)
        table.begin(newer)
        assert [line.closed for line in (second, fourth, first)].count(True) == (second, fourth, first).index(
            expected
        ) + 1
        assert expected.closed
    assert not third.closed
    (beyond,) = lines(table, 1)
    assert (beyond.crowded, third.closed, len(table.open), table.closed_idle) == (True, False, 5, 3)


def test_beyond_the_reserve_new_connections_are_refused_unless_an_idle_one_of_it_can_go() -> None:
    table = Connections(Limits(connections=2, address_share=1.0))
    for line in lines(table, 2):
        table.begin(line)
    extra = lines(table, connections_module._RESERVE)
    assert all(line.crowded for line in extra)
    (newest,) = lines(table, 1)
    assert (newest.crowded, extra[0].closed, extra[1].closed) == (True, True, False)
    for line in list(table.idle):
        table.begin(line)
    assert not table.add(Line())
    assert table.refused == 1
    table.remove(newest)
    assert table.add(Line())


def test_one_address_cannot_take_all_connections() -> None:
    table = Connections(Limits(connections=8, address_share=0.5))
    others = lines(table, 3, "b")
    greedy = lines(table, 40, "a")
    assert not any(line.closed for line in others)
    assert sum(not line.closed for line in greedy) == 4
    for line in others + greedy:
        table.remove(line)
    assert (len(table.open), table.idle, table._of_address) == (0, {}, {})


def begun(admission: Admission, address: str, header: dict[str, str], changes: bool) -> Any:
    grant = admission.tokens.grant(header["Authorization"])
    return admission.begin({"client": (address, 1)}, grant, changes)


def test_places_are_kept_for_those_who_teach_and_shared_among_addresses_and_tokens() -> None:
    admission = Admission(TOKENS, Limits(in_flight=16))  # 12 for readers, 6 of them for one
    held = [begun(admission, "a", READING, False) for _ in range(6)]
    for address, header in (("a", OTHER), ("b", READING)):
        with pytest.raises(HTTPProblem, match="requests of this") as refused:
            begun(admission, address, header, False)
        assert refused.value.status == 429
    held += [begun(admission, "b", OTHER, False) for _ in range(6)]
    with pytest.raises(HTTPProblem, match="12 requests are in flight"):
        begun(admission, "c", WRITING, False)
    teaching = [begun(admission, "a", LEARNING, True) for _ in range(4)]
    with pytest.raises(HTTPProblem, match="16 requests are in flight"):
        begun(admission, "d", WRITING, True)
    for keys in held:
        admission.end(keys, False)
    for keys in teaching:
        admission.end(keys, True)
    assert (admission.in_flight, admission._of) == ({False: 0, True: 0}, {})


def test_shares_out_of_range_are_refused() -> None:
    for bad in ({"writer_share": 1.0}, {"address_share": 0.0}, {"token_share": 1.5}, {"connections": 0}):
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


def test_idle_connections_make_room(tmp_path: Path) -> None:
    with serving(tmp_path / "state", TOKENS, connections=30) as own, contextlib.ExitStack() as stack:
        # Its own idle connection makes room too, perhaps while a request is on its way: it takes a new one for each.
        client = stack.enter_context(Client(base_url=own.base_url, timeout=300, headers={"Connection": "close"}))
        assert client.put("/models/m", json=SMALL_SPEC, headers=WRITING).status_code == 201
        stream = stack.enter_context(connected(client))
        stream.sendall(stream_head(READING) + json.dumps({"x": ITEMS[0]["x"]}).encode() + b"\n")
        assert stream.recv(100).startswith(b"HTTP/1.1 200")
        for beginning in (b"", b"GET /models HTTP/1.1\r\n", b"GET /models HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            for _ in range(40):
                stack.enter_context(connected(client)).sendall(beginning)
            assert client.get("/healthz").status_code == 200
            assert client.get("/models", headers=READING).status_code == 200
            assert client.post("/models/m/learn", json=ITEMS[0], headers=LEARNING).status_code == 200
        stream.sendall(json.dumps({"x": ITEMS[0]["x"]}).encode() + b"\n")
        assert stream.recv(1_000), "the stream that was there is still answered"


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


def test_health_is_answered_while_every_connection_is_busy(tmp_path: Path) -> None:
    with serving(tmp_path / "state", connections=4, address_share=1.0) as client, contextlib.ExitStack() as stack:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        client.close()  # its idle connection would make room
        streams = [stack.enter_context(connected(client)) for _ in range(4)]
        for stream in streams:
            stream.sendall(stream_head({"Authorization": "none"}) + b'{"x": {}}\n')
            assert stream.recv(100).startswith(b"HTTP/1.1 200")
        for path, status in ((b"/models", b"503"), (b"/healthz", b"200"), (b"/", b"503"), (b"/healthz", b"200")):
            with connected(client) as connection:
                connection.sendall(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
                answer = connection.makefile("rb").read()  # and the connection is closed after it
                assert answer.startswith(b"HTTP/1.1 " + status)
                assert b"connection: close" in answer
        streams[0].sendall(b'{"x": {}}\n')
        assert streams[0].recv(100)


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
        slow.settimeout(20.0)
        with contextlib.suppress(ConnectionError):
            while part := slow.recv(10_000):  # it is closed soon, and not kept for another request
                found += part
        assert b'"status":408' in found
