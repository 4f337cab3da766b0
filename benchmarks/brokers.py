"""Records per second through brokers, beside reading the same from a file.

    python benchmarks/brokers.py --records 20000 redis://127.0.0.1/bench mqtt://127.0.0.1/bench

Each address must be empty. The records, of 8 numbers and a label, are sent
there, then read to the end, once alone and once with the model `olr`, which is small, predicting and learning each.
The best of three rounds counts. MQTT gives its messages once, so they are sent again for each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from braided.brokers.address import MQTT, is_broker, parse, public
from braided.brokers.base import sink_of, source_of
from braided.run import Job, RunOptions
from braided.streams import open_stream

#: Seconds without a record after which a stream has shown all; they are taken off.
_IDLE_S = 1.0
_ROUNDS = 3


def bodies(records: int) -> list[bytes]:
    """Records as JSON."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(records, 8)).round(4)
    labels = values[:, 0] + values[:, 1] > 0
    rows = zip(values.tolist(), labels.tolist(), strict=True)
    return [json.dumps({"x": {f"f{i}": v for i, v in enumerate(row)}, "y": int(y)}).encode() for row, y in rows]


def send(address: str, messages: list[bytes]) -> float:
    """Seconds until a broker has all."""
    if parse(address).kind == MQTT:  # it keeps what comes for a session that is there
        source = source_of(parse(address), print)
        source.keeps = True
        source.open(None)
        source.close()
    sink = sink_of(parse(address), print)
    sink.open()
    start = time.perf_counter()
    sink.send(messages)
    sink.flush()
    spent = time.perf_counter() - start
    sink.close()
    return spent


def read(source: str) -> int:
    """Read all records, and do nothing with them."""
    stream = open_stream(source, idle=_IDLE_S if is_broker(source) else None)
    return sum(map(len, stream.batches()))


def learn(source: str) -> int:
    """Predict and learn all records."""
    options: dict[str, Any] = {"models": ("olr",), "task": "classification"}
    job = Job(RunOptions(stream=source, idle=_IDLE_S if is_broker(source) else None, **options))
    for _ in job.run():
        pass
    return int(job.document()["records"])


def rate(work: Callable[[str], int], source: str, messages: list[bytes]) -> str:
    """Records per second, in the best of the rounds."""
    best = 0.0
    for _ in range(_ROUNDS):
        if is_broker(source) and parse(source).kind == MQTT:
            send(source, messages)
        start = time.perf_counter()
        found = work(source)
        spent = time.perf_counter() - start - (_IDLE_S if is_broker(source) else 0.0)
        if found != len(messages):
            return f"{found:,} of {len(messages):,} came"
        best = max(best, found / spent)
    return f"{best:,.0f}"


def main() -> None:
    """Print a row for the file, and one for each address."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("addresses", nargs="*")
    parser.add_argument("--records", type=int, default=20_000)
    asked = parser.parse_args()
    messages = bodies(asked.records)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        path.write_bytes(b"\n".join(messages) + b"\n")
        learn(str(path))  # compiles
        print("| source | sent, records/s | read alone, records/s | read and learned, records/s |")
        print("|---|---:|---:|---:|")
        print(f"| a JSON lines file | | {rate(read, str(path), messages)} | {rate(learn, str(path), messages)} |")
        for address in asked.addresses:
            sent = len(messages) / send(address, messages)
            if parse(address).kind == MQTT:
                read(address)
            alone, learned = rate(read, address, messages), rate(learn, address, messages)
            print(f"| {public(address)} | {sent:,.0f} | {alone} | {learned} |", flush=True)


if __name__ == "__main__":
    main()
