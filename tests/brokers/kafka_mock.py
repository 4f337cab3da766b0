"""librdkafka's own mock cluster in a process of its own: prints its bootstrap server, and ends with its input."""

from __future__ import annotations

import sys


def main() -> None:
    from confluent_kafka import Producer

    cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(cluster.list_topics(timeout=30).brokers.values()))
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
