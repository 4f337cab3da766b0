"""`GET /metrics`: the figures in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from braided.serve.connections import Connections
from braided.serve.endpoint import Admission
from braided.serve.request_figures import BUCKETS
from braided.serve.security import EVERYBODY, Grant
from braided.serve.service import Service, keys, n_features


@dataclass(frozen=True)
class Traffic:
    """What is told of requests and connections."""

    admission: Admission
    connections: Connections

    def collect(self) -> Iterator[Metric]:
        """The families."""
        labels = ["method", "route", "status"]
        total = CounterMetricFamily(
            "braided_requests", "Requests answered; 499 is one whose client left.", None, labels
        )
        seconds = HistogramMetricFamily("braided_request_seconds", "How long they took.", labels=labels)
        for key, counts, sum_of_seconds in self.admission.figures.all():
            upper = [*(f"{end:g}" for end in BUCKETS), "+Inf"]
            total.add_metric(key, sum(counts))
            seconds.add_metric(key, list(zip(upper, accumulate(counts), strict=True)), sum_of_seconds)
        yield total
        yield seconds
        in_flight = GaugeMetricFamily("braided_requests_in_flight", "Requests being answered.", labels=["changes"])
        for changes, count in self.admission.in_flight.items():
            in_flight.add_metric([str(changes).lower()], count)
        yield in_flight
        there = self.connections
        yield GaugeMetricFamily("braided_connections", "Open connections.", value=len(there.open))
        yield CounterMetricFamily("braided_connections_closed_idle", "Closed to make room.", value=there.closed_idle)
        yield CounterMetricFamily("braided_connections_refused", "Refused for want of room.", value=there.refused)
        yield CounterMetricFamily("braided_bad_requests", "What was no HTTP/1.1.", value=there.bad_requests)


class Collector:
    """Reads the figures of the models that a token is for when they are asked for."""

    def __init__(self, service: Service, grant: Grant) -> None:
        self.workers = {name: worker for name, worker in service.workers.items() if grant.sees(name)}
        self.quarantined = [name for name in service.quarantined if grant.sees(name)]

    def collect(self) -> Iterator[Metric]:
        """All families."""
        counters = {
            "records_learned": "Records learned.",
            "commits": "Group commits to the journal.",
            "journal_bytes": "Bytes written to the journal by this process.",
            "snapshots": "Snapshots written by this process.",
            "refused": "Requests that the writer refused.",
            "alarms": "How often the error of the last records jumped against its own history.",
        }
        gauges = {
            "error": "Running error of the model: error rate, or mean absolute error.",
            "window_error": "The same over the last records.",
            "alarm": "1 while the error of the last records is far above what it usually was.",
            "records_per_second": "Records learned per second over the last ten seconds.",
            "features": "Features seen.",
            "queued_records": "Records that wait to be learned.",
            "waiting_for_labels": "Observed records that wait for their label.",
            "trouble": "1 while nothing can be learned, e.g. because the disk is full.",
            "keys": "Keys of a fleet.",
            "keys_in_memory": "Those of them that are in memory.",
        }
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, text in counters.items():
            families[name] = CounterMetricFamily(f"braided_{name}", text, labels=["model"])
        for name, text in gauges.items():
            families[name] = GaugeMetricFamily(f"braided_{name}", text, labels=["model"])
        learner_error = GaugeMetricFamily(
            "braided_learner_error", "Running error of each learner alone.", labels=["model", "learner"]
        )
        resets = CounterMetricFamily("braided_learner_resets", "Resets of each learner.", labels=["model", "learner"])
        for name, worker in self.workers.items():
            summary = worker.state.stats.summary()
            journal = worker.folder.journal
            values = {
                "records_learned": worker.version(),
                "commits": worker.commits,
                "journal_bytes": journal.bytes_written if journal else 0,
                "snapshots": worker.snapshots,
                "refused": worker.refused,
                "alarms": summary["alarms"],
                "alarm": int(summary["alarm"] is not None),
                "error": _number(summary["error"]),
                "window_error": _number(summary["window_error"]),
                "records_per_second": summary["records_per_second"],
                "features": n_features(worker.state, summary),
                "queued_records": worker.queued_records,
                "waiting_for_labels": len(worker.state.late),
                "trouble": int(bool(worker.trouble or worker.broken)),
                **{key: count for key, count in keys(worker.state).items() if key in ("keys", "keys_in_memory")},
            }
            for key, value in values.items():
                families[key].add_metric([name], value)
            for learner in summary["learners"]:
                learner_error.add_metric([name, learner["name"]], _number(learner["error"]))
            for learner_name, health in worker.health().items():
                resets.add_metric([name, learner_name], health["resets"])
        yield GaugeMetricFamily("braided_models", "Models in service.", value=len(self.workers))
        quarantined = GaugeMetricFamily(
            "braided_quarantined", "1 for a model that could not be opened.", labels=["model"]
        )
        for name in self.quarantined:
            quarantined.add_metric([name], 1)
        yield quarantined
        yield from families.values()
        yield learner_error
        yield resets


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def exposition(service: Service, traffic: Traffic | None = None, grant: Grant = EVERYBODY) -> bytes:
    """The text; requests and connections are told to a token that is for all models."""
    registry = CollectorRegistry()
    registry.register(Collector(service, grant))
    if traffic is not None and not grant.limited:
        registry.register(traffic)
    text: bytes = generate_latest(registry)
    return text
