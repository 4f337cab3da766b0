"""`GET /metrics`: the figures in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from braided.serve.service import Service


class Collector:
    """Reads the figures when they are asked for."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Metric]:
        """All families."""
        counters = {
            "records_learned": "Records learned.",
            "commits": "CommitGroup commits to the journal.",
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
        for name, worker in self.service.workers.items():
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
                "features": len(summary["availability"]),
                "queued_records": worker.queued_records,
                "waiting_for_labels": len(worker.state.waiting),
                "trouble": int(bool(worker.trouble or worker.broken)),
            }
            for key, value in values.items():
                families[key].add_metric([name], value)
            for learner in summary["learners"]:
                learner_error.add_metric([name, learner["name"]], _number(learner["error"]))
            for learner_name, health in worker.health().items():
                resets.add_metric([name, learner_name], health["resets"])
        yield GaugeMetricFamily("braided_models", "Models in service.", value=len(self.service.workers))
        quarantined = GaugeMetricFamily(
            "braided_quarantined", "1 for a model that could not be opened.", labels=["model"]
        )
        for name in self.service.quarantined:
            quarantined.add_metric([name], 1)
        yield quarantined
        yield from families.values()
        yield learner_error
        yield resets


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def exposition(service: Service) -> bytes:
    """The text."""
    registry = CollectorRegistry()
    registry.register(Collector(service))
    text: bytes = generate_latest(registry)
    return text
