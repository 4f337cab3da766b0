"""Learning over HTTP with sync durability, beside learning in this process: `python benchmarks/serve.py`."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import multiprocessing.synchronize
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.errors import BraidedError
from measured import parser, show
from speed import stream

_ROUNDS = 3
_CLIENTS = 32
_BATCH = 100
_WINDOW = 8
_START_SECONDS = 120.0
#: Predictions are sent at this pace while the model learns as fast as it can.
_PREDICTIONS_PER_SECOND = 100


class Connection:
    """A plain HTTP connection: what it costs to send and to read must not be counted to the service."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self.socket.makefile("rb")

    def request(self, method: str, path: str, body: bytes, kind: str = "application/json") -> bytes:
        """Send a request and read its answer."""
        self.socket.sendall(head(method, path, kind, f"Content-Length: {len(body)}") + body)
        status, length = self.answer_head()
        content = self._file.read(length or 0)
        if status >= 300:
            raise BraidedError(f"{method} {path} was answered {status}: {content[:200].decode(errors='replace')}")
        return content

    def answer_head(self) -> tuple[int, int | None]:
        """Status and length of an answer."""
        status = int(self._file.readline().split()[1])
        length = None
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, length

    def chunk(self) -> bytes:
        """The next chunk of an answer in chunks."""
        content = self._file.read(int(self._file.readline(), 16))
        self._file.readline()
        return content

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self.socket.close()


def head(method: str, path: str, kind: str, length: str) -> bytes:
    """The head of a request."""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n{length}\r\n\r\n".encode()


def bodies(records: int) -> list[bytes]:
    """Records as JSON."""
    values, labels = stream(records)
    rows = []
    for row, label in zip(values.tolist(), labels.tolist(), strict=True):
        x = {f"f{i}": value for i, value in enumerate(row) if value == value}
        rows.append(json.dumps({"x": x, "y": label}).encode())
    return rows


@contextlib.contextmanager
def running_service() -> Iterator[int]:
    """A service of its own process; its port."""
    with socket.socket() as free, tempfile.TemporaryDirectory(prefix="braided-bench-") as folder:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
        free.close()
        command = [sys.executable, "-m", "braided", "serve", "--dir", folder, "--port", str(port)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                _wait_for(port, process)
                yield port
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            connection = Connection(port)
        except OSError:
            time.sleep(0.1)
            continue
        connection.request("GET", "/healthz", b"")
        connection.close()
        return
    raise BraidedError("the service under test did not start: run `braided serve` to see why")


def in_process(records: int) -> tuple[float, float]:
    """Seconds per record: learned in batches of 100 from arrays, and one by one from dicts."""
    values, labels = stream(records)
    model = MODLClassifier()
    model.learn_many(values[:_BATCH], labels[:_BATCH])
    start = time.perf_counter()
    for at in range(0, records, _BATCH):
        model.learn_many(values[at : at + _BATCH], labels[at : at + _BATCH])
    batched = (time.perf_counter() - start) / records
    rows: list[dict[Hashable, float]] = [
        {f"f{i}": v for i, v in enumerate(row) if v == v} for row in values[:2_000].tolist()
    ]
    model = MODLClassifier()
    for x, y in zip(rows[:200], labels[:200].tolist(), strict=True):
        model.learn_one(x, y)
    start = time.perf_counter()
    for x, y in zip(rows, labels[:2_000].tolist(), strict=False):
        model.learn_one(x, y)
    return batched, (time.perf_counter() - start) / len(rows)


def singles(port: int, model: str, rows: list[bytes]) -> float:
    """Seconds per record, sent one by one by many clients at once."""
    _create(port, model)
    start = time.perf_counter()
    threads = [threading.Thread(target=_send_singles, args=(port, model, rows[i::_CLIENTS])) for i in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - start) / len(rows)


def _send_singles(port: int, model: str, rows: list[bytes]) -> None:
    connection = Connection(port)
    for row in rows:
        connection.request("POST", f"/models/{model}/learn", row)
    connection.close()


def lines(port: int, model: str, rows: list[bytes]) -> float:
    """Seconds per record, sent as NDJSON on one connection in batches of 100, a few of them ahead of the answers."""
    connection = Connection(port)
    batches = [b"\n".join(rows[at : at + _BATCH]) + b"\n" for at in range(0, len(rows), _BATCH)]
    path = f"/models/{model}/learn"
    start = time.perf_counter()
    connection.socket.sendall(head("POST", path, "application/x-ndjson", "Transfer-Encoding: chunked"))
    sent = learned = 0
    started = False
    while learned < len(rows):
        while sent < len(batches) and sent * _BATCH < learned + _WINDOW * _BATCH:
            connection.socket.sendall(b"%x\r\n%b\r\n" % (len(batches[sent]), batches[sent]))
            sent += 1
            if sent == len(batches):
                connection.socket.sendall(b"0\r\n\r\n")
        if not started:
            status, _ = connection.answer_head()
            if status != 200:
                raise BraidedError(f"POST {path} was answered {status}")
            started = True
        answer = json.loads(connection.chunk())
        if "problem" in answer:
            raise BraidedError(f"POST {path}: {answer['problem']['detail']}")
        learned += answer["learned"]
    seconds = (time.perf_counter() - start) / len(rows)
    connection.close()
    return seconds


def _create(port: int, model: str) -> None:
    connection = Connection(port)
    connection.request("PUT", f"/models/{model}", b"{}")
    connection.close()


def _keep_learning(
    port: int, model: str, rows: list[bytes], stop: multiprocessing.synchronize.Event, rates: Any
) -> None:
    """Teach the same records again and again; the load under which predictions are timed."""
    while not stop.is_set():
        rates.append(lines(port, model, rows))


def _echo(ports: Any) -> None:
    """Send back what comes, and do nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ports.append(listener.getsockname()[1])
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while content := connection.recv(2**16):
                connection.sendall(content)


@dataclass(frozen=True)
class Latencies:
    """Seconds of each prediction under load and of each echo beside them, and the load's seconds per record."""

    predictions: list[float]
    echoes: list[float]
    load: float


def predictions(port: int, model: str, rows: list[bytes], count: int) -> Latencies:
    """Time predictions while another process teaches the model; an echo in turn shows what the machine itself takes."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        stop, rates, ports = context.Event(), manager.list(), manager.list()
        load = context.Process(target=_keep_learning, args=(port, model, rows, stop, rates))
        echo = context.Process(target=_echo, args=(ports,))
        load.start()
        echo.start()
        connection = Connection(port)
        questions = [json.dumps({"x": json.loads(row)["x"]}).encode() for row in rows[:500]]
        path = f"/models/{model}/predict"
        while not rates or not ports:
            time.sleep(0.05)
        asked, echoed = [], []
        with socket.create_connection(("127.0.0.1", ports[0])) as mirror:
            mirror.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(count):
                question = questions[i % len(questions)]
                time.sleep(0.5 / _PREDICTIONS_PER_SECOND)
                start = time.perf_counter()
                connection.request("POST", path, question)
                asked.append(time.perf_counter() - start)
                time.sleep(0.5 / _PREDICTIONS_PER_SECOND)
                start = time.perf_counter()
                mirror.sendall(question)
                mirror.recv(2**16)
                echoed.append(time.perf_counter() - start)
        stop.set()
        load.join()
        echo.join()
        connection.close()
        return Latencies(asked, echoed, statistics.median(rates))


def measure(records: int, console: Console) -> dict[str, Any]:
    """All figures: the best of several interleaved rounds, and for latency the worst round as well."""
    rows = bodies(records)
    found: dict[str, list[float]] = {"batched": [], "one": [], "singles": [], "lines": [], "loaded": []}
    latencies: list[tuple[float, float, float, float]] = []
    with running_service() as port:
        _create(port, "warm")
        lines(port, "warm", rows[:1_000])
        for turn in range(_ROUNDS):
            console.print(f"round {turn + 1} of {_ROUNDS}", highlight=False)
            batched, one = in_process(records)
            found["batched"].append(batched)
            found["one"].append(one)
            _create(port, f"lines-{turn}")
            found["lines"].append(lines(port, f"lines-{turn}", rows))
            found["singles"].append(singles(port, f"singles-{turn}", rows[: records // 4]))
            count = max(records // 20, 100)
            seen = predictions(port, f"lines-{turn}", rows[: max(records // 4, 1_000)], count)
            found["loaded"].append(seen.load)
            p50, p99 = (float(q) for q in np.quantile(seen.predictions, [0.5, 0.99]))
            echo50, echo99 = (float(q) for q in np.quantile(seen.echoes, [0.5, 0.99]))
            latencies.append((p99, p50, echo99, echo50))
    best = {name: min(seconds) for name, seconds in found.items()}
    p99, p50, echo99, echo50 = min(latencies)
    worst = max(latencies)[0]
    return {
        "records": records,
        "cores": os.cpu_count(),
        "in_process_batches_us": 1e6 * best["batched"],
        "in_process_update_us": 1e6 * best["one"],
        "http_ndjson_us": 1e6 * best["lines"],
        "http_singles_us": 1e6 * best["singles"],
        "http_ndjson_share": best["batched"] / best["lines"],
        "http_singles_share": best["batched"] / best["singles"],
        "predictions_a_round": count,
        "predict_p50_us": 1e6 * p50,
        "predict_p99_us": 1e6 * p99,
        "predict_p50_updates": p50 / best["one"],
        "predict_p99_updates": p99 / best["one"],
        "predict_p99_worst_round_us": 1e6 * worst,
        "echo_p50_us": 1e6 * echo50,
        "echo_p99_us": 1e6 * echo99,
        "load_us": 1e6 * best["loaded"],
        "load_share": best["batched"] / best["loaded"],
    }


def table(result: dict[str, Any]) -> Table:
    """The figures for a person."""
    shown = Table(title=f"Learning over HTTP, each record on disk before it is acknowledged, {result['cores']} cores")
    for name in ("", "per record", "records/s", "share of in-process"):
        shown.add_column(name, justify="right" if name else "left")
    for name, key, share in (
        ("in process, batches of 100", "in_process_batches_us", None),
        ("in process, one by one", "in_process_update_us", None),
        ("NDJSON, batches of 100", "http_ndjson_us", "http_ndjson_share"),
        ("single records, 32 clients", "http_singles_us", "http_singles_share"),
        ("NDJSON, while predictions are asked", "load_us", "load_share"),
    ):
        us = result[key]
        shown.add_row(name, f"{us:.0f} us", f"{1e6 / us:,.0f}", f"{result[share]:.0%}" if share else "")
    shown.caption = (
        f"predict under full learning load: p50 {result['predict_p50_us']:.0f} us, "
        f"p99 {result['predict_p99_us']:.0f} us, which is {result['predict_p50_updates']:.1f} and "
        f"{result['predict_p99_updates']:.1f} in-process updates (p99 of the worst of {_ROUNDS} rounds: "
        f"{result['predict_p99_worst_round_us']:.0f} us); of the same bytes sent back by a process that does nothing "
        f"else, beside the same load: p50 {result['echo_p50_us']:.0f} us, p99 {result['echo_p99_us']:.0f} us"
    )
    return shown


if __name__ == "__main__":
    show(measure, table, parser(__doc__, records=20_000).parse_args())
