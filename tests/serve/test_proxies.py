"""The service behind Caddy and nginx, with the files of docs/proxy: what they limit, and what they must not hold up."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from help_serve import LINES, SMALL_SPEC, Server, free_port, ndjson, rows, served

from serve import Connection, head

DOCS = Path(__file__).resolve().parents[2] / "docs" / "proxy"
ITEMS = rows(3_000)
BATCH = 100
#: The timeouts of the files, and how long they are here.
HEAD_SECONDS, STALL_SECONDS = 2, 2
REQUESTS_PER_ADDRESS = 6


@dataclass
class Proxy:
    """A proxy that runs."""

    kind: str
    version: tuple[int, ...]
    port: int

    @property
    def both_ways(self) -> bool:
        """Whether an answer can begin before its request has ended."""
        return self.kind == "nginx" or self.version >= (2, 8)

    @property
    def cuts_stalled(self) -> bool:
        """Whether a client that reads nothing is cut."""
        return self.kind == "nginx" or self.version >= (2, 11, 7)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def nginx_file(port: int, service: int, folder: Path) -> str:
    # As packaged, nginx keeps these where only root can write.
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"    {kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    return replaced(
        (DOCS / "nginx.conf").read_text(),
        ("http {\n", f"http {{\n{paths}"),
        ("127.0.0.1:8080", f"127.0.0.1:{port}"),
        ("127.0.0.1:8000", f"127.0.0.1:{service}"),
        ("client_header_timeout 10s", f"client_header_timeout {HEAD_SECONDS}s"),
        ("send_timeout 40s", f"send_timeout {STALL_SECONDS}s"),
        ("limit_conn addresses 64", f"limit_conn addresses {REQUESTS_PER_ADDRESS}"),
    )


def caddy_file(version: tuple[int, ...]) -> str:
    """The file as it says to change it for this version."""
    lines = []
    for line in (DOCS / "Caddyfile").read_text().splitlines():
        mark = re.search(r" # (FROM|BEFORE) ([\d.]+)$", line)
        later = mark is not None and version < tuple(map(int, mark[2].split(".")))
        if mark is not None and mark[1] == "BEFORE" and later:
            line = line[: mark.start()].replace("# ", "", 1)
        if mark is None or mark[1] == "BEFORE" or not later:
            lines.append(line)
    text = "\n".join(lines) + "\n"
    if version >= (2, 11, 7):
        text = replaced(text, ("write_idle 40s", f"write_idle {STALL_SECONDS}s"))
    return replaced(
        text, ("\n{\n", "\n{\n\tadmin off\n"), ("read_header 10s", f"read_header {HEAD_SECONDS}s")
    )  # no port that others may use


def program(kind: str) -> str:
    path = shutil.which(kind, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if path is None:
        pytest.skip(f"{kind} is not here: install it, or run make test EXTRAS=all as root on Debian")
    return path


@contextlib.contextmanager
def proxied(kind: str, server: Server, folder: Path) -> Iterator[Proxy]:
    """A proxy in front of a service."""
    path, port = program(kind), free_port()
    shown = subprocess.run([path, "version" if kind == "caddy" else "-v"], capture_output=True, text=True, check=True)
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", shown.stdout + shown.stderr)
    assert found is not None
    proxy = Proxy(kind, tuple(map(int, found.groups())), port)
    folder.mkdir()
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    config = folder / "config"
    if kind == "caddy":
        config.write_text(caddy_file(proxy.version))
        environment |= {"BRAIDED_SITE": proxy.url, "BRAIDED_SERVICE": f"127.0.0.1:{server.port}"}
        command = [path, "run", "--adapter", "caddyfile", "--config", str(config)]
    else:
        config.write_text(nginx_file(port, server.port, folder))
        command = [path, "-p", str(folder), "-c", str(config), "-e", "stderr"]
        command += ["-g", f"daemon off; pid {folder}/pid;"]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 30
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            with contextlib.suppress(httpx.TransportError):
                assert httpx.get(f"{proxy.url}/healthz").json() == {"status": "ok"}
                break
            time.sleep(0.05)
        yield proxy
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("behind") / "state", "--address-share", "1") as server:
        yield server


@pytest.fixture(scope="module", params=["caddy", "nginx"])
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    program(request.param)  # before a service is started for nothing
    server = request.getfixturevalue("service")
    with proxied(request.param, server, tmp_path_factory.mktemp("proxy") / request.param) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=proxy.url, timeout=60) as client:
        client.put(f"/models/{proxy.kind}", json=SMALL_SPEC)
        yield client


class Stream(Connection):
    """A stream of records, and the lines of its answer: a proxy may cut these into chunks of its own."""

    def __init__(self, proxy: Proxy, path: str) -> None:
        super().__init__(proxy.port)
        self.socket.settimeout(30)
        self.socket.sendall(head("POST", path, LINES["Content-Type"], "Transfer-Encoding: chunked"))
        self._rest: bytes | None = None

    def send(self, body: bytes) -> None:
        """Send a part of it; an empty one is its end."""
        self.socket.sendall(b"%x\r\n%b\r\n" % (len(body), body))

    def acknowledged(self) -> int:
        """How many records the next lines acknowledge; none at the end of the answer."""
        if self._rest is None:
            if (status := self.answer_head()[0]) != 200:
                raise ConnectionError(f"answered {status}")
            self._rest = b""
        while part := self.chunk():
            *lines, self._rest = (self._rest + part).split(b"\n")
            if lines:
                return sum(int(json.loads(line)["learned"]) for line in lines)
        return 0


def test_learn_and_predict(proxy: Proxy, client: httpx.Client) -> None:
    model = f"/models/{proxy.kind}"
    answer = client.post(f"{model}/learn", json={"records": ITEMS[:50]})
    assert answer.json()["learned"] == 50
    predicted = client.post(f"{model}/predict", json={"x": ITEMS[50]["x"]}).json()
    assert predicted["predictions"][0]["version"] == answer.json()["records"]
    content = client.get(f"{model}/checkpoint").content
    octets = {"Content-Type": "application/octet-stream"}
    imported = client.put(f"{model}-again/checkpoint", content=content, headers=octets)
    assert (imported.status_code, imported.json()["records"]) == (201, answer.json()["records"])


def test_names_of_elsewhere_are_not_answered(proxy: Proxy, client: httpx.Client) -> None:
    """The service has no tokens; nginx passes the name on, and Caddy has no such site."""
    answer = client.get("/models", headers={"Host": "example.org"})
    assert answer.status_code == 421 or (proxy.kind == "caddy" and answer.content == b"")


def test_a_body_that_is_too_long(proxy: Proxy, client: httpx.Client) -> None:
    answer = client.put("/models/long", content=b"[" * (8 * 2**20 + 1), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


def test_a_stream(proxy: Proxy, client: httpx.Client) -> None:
    url = f"/models/{proxy.kind}/learn?client=stream&sequence=0"
    answer = client.post(url, content=ndjson(ITEMS), headers=LINES)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert sum(line["learned"] for line in lines) == lines[-1]["next"] == len(ITEMS)
    unlabelled = [{"x": item["x"]} for item in ITEMS]
    parts = (ndjson(unlabelled[i : i + BATCH]) for i in range(0, len(ITEMS), BATCH))  # in chunks, without a length
    answer = client.post(f"/models/{proxy.kind}/predict", content=parts, headers=LINES)
    assert len(answer.text.splitlines()) == len(ITEMS)


def test_both_ways_at_once(proxy: Proxy, client: httpx.Client) -> None:
    """Each batch is acknowledged before the next one is sent, or where the proxy cannot do that, all at the end."""
    learned = 0
    with contextlib.closing(Stream(proxy, f"/models/{proxy.kind}/learn")) as records:
        for i in range(0, 10 * BATCH, BATCH):
            records.send(ndjson(ITEMS[i : i + BATCH]))
            while proxy.both_ways and learned < i + BATCH:
                learned += records.acknowledged()
        records.send(b"")
        while found := records.acknowledged():
            learned += found
    assert learned == 10 * BATCH


def test_events_come_as_they_happen(proxy: Proxy, client: httpx.Client) -> None:
    with client.stream("GET", "/events") as answer:
        lines = answer.iter_lines()
        for line in lines:
            if line.startswith("data:") and json.loads(line[5:]).get("name") == proxy.kind:
                break
        client.post(f"/models/{proxy.kind}/learn", json=ITEMS[0])
        assert any(line.startswith("event: model") for line in lines)


def test_a_slow_head_is_cut(proxy: Proxy, client: httpx.Client) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as slow:
        slow.settimeout(1)
        since, closed = time.monotonic(), False
        for byte in b"GET /healthz HTTP/1.1\r\nHost":
            try:
                slow.sendall(bytes([byte]))
                while slow.recv(1024):
                    pass
                closed = True
            except TimeoutError:
                assert client.post(f"/models/{proxy.kind}/predict", json={"x": {}}).status_code == 200
            except OSError:
                closed = True
            if closed:
                break
        assert closed
        assert time.monotonic() - since < HEAD_SECONDS + 10


def test_a_client_that_reads_nothing_holds_nobody_up(proxy: Proxy, client: httpx.Client) -> None:
    """Where the proxy can, it is cut."""
    body = ndjson([{"x": item["x"]} for item in ITEMS])
    cut = threading.Event()

    def send(records: Stream) -> None:
        with contextlib.suppress(TimeoutError):
            try:
                for _ in range(1_000 if proxy.both_ways else 30):  # 7 MB, below what is read before the answer
                    records.send(body)
                records.send(b"")
            except ConnectionError:
                cut.set()

    with contextlib.closing(Stream(proxy, f"/models/{proxy.kind}/predict")) as records:
        sender = threading.Thread(target=send, args=(records,))
        sender.start()
        until = time.monotonic() + 1
        while time.monotonic() < until:
            assert client.post(f"/models/{proxy.kind}/learn", json=ITEMS[0], timeout=10).status_code == 200
        assert not proxy.cuts_stalled or cut.wait(20)
        with contextlib.suppress(OSError):  # it is cut
            records.socket.shutdown(socket.SHUT_RDWR)
        sender.join()


@pytest.mark.parametrize("proxy", ["nginx"], indirect=True)  # Caddy does not count them, as its file says
def test_requests_per_address(proxy: Proxy, client: httpx.Client) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(REQUESTS_PER_ADDRESS):
            records = stack.enter_context(contextlib.closing(Stream(proxy, f"/models/{proxy.kind}/learn")))
            records.send(ndjson(ITEMS[:1]))
            assert records.acknowledged() == 1
        assert client.get("/healthz").status_code == 429


class Teacher(threading.Thread):
    """Streams records until that breaks off, and counts those that were acknowledged."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__()
        self.proxy = proxy
        self.acknowledged = self.sent = 0

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):  # the end, in one of its shapes
            while True:
                # One stream without an end, or, where answers wait for that, one after the other.
                self._stream(10**9 if self.proxy.both_ways else 5 * BATCH)

    def _stream(self, most: int) -> None:
        path = f"/models/m/learn?client=teacher&sequence={self.acknowledged}"
        end = self.acknowledged + most
        with contextlib.closing(Stream(self.proxy, path)) as records:
            while self.acknowledged < end:
                while self.sent < min(end, self.acknowledged + 5 * BATCH):
                    at = self.sent % len(ITEMS)
                    records.send(ndjson(ITEMS[at : at + BATCH]))
                    self.sent += BATCH
                if self.sent == end:
                    records.send(b"")
                if not (found := records.acknowledged()):
                    raise ConnectionError("the answer ended before the stream")
                self.acknowledged += found


def test_what_was_acknowledged_outlives_a_stop(proxy: Proxy, tmp_path: Path) -> None:
    options: tuple[Any, ...] = ("--address-share", "1")
    with served(tmp_path / "state", *options) as server, proxied(proxy.kind, server, tmp_path / "proxy") as own:
        assert httpx.put(f"{own.url}/models/m", json=SMALL_SPEC).status_code == 201
        teacher = Teacher(own)
        teacher.start()
        while teacher.acknowledged < 10 * BATCH and teacher.is_alive():
            time.sleep(0.01)
        assert server.stop() == 0
        teacher.join(timeout=60)
        assert not teacher.is_alive()
        server.start()
        known = httpx.get(f"{own.url}/models/m/clients/teacher").json()["next"]
        assert 10 * BATCH <= teacher.acknowledged <= known <= teacher.sent
        assert httpx.get(f"{own.url}/models/m").json()["records"] == known
