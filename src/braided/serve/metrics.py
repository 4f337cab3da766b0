"""`GET /metrics`: the figures in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from braided.serve.middleware import Policy
from braided.serve.security import EVERYBODY, Grant
from braided.serve.service import Service, keys, n_features

_COUNTERS = {
    "records_learned": "Records learned.",
    "commits": "Group commits to the log.",
    "snapshots": "Snapshots written by this process.",
    "refused": "Requests that the writer refused.",
    "alarms": "How often the error of the last records jumped against its own history.",
}
_GAUGES = {
    "error": "Running error of the model: error rate, or mean absolute error.",
    "window_error": "The same over the last records.",
    "alarm": "1 while the error of the last records is far above what it usually was.",
    "records_per_second": "Records learned per second over the last ten seconds.",
    "features": "Features seen.",
    "queued_records": "Records that wait to be learned.",
    "waiting_for_labels": "Observed records that wait for their label.",
    "database_bytes": "Size of the model's database.",
    "trouble": "1 while nothing can be learned, e.g. because the disk is full.",
    "keys": "Keys of a fleet.",
    "keys_in_memory": "Those of them that are in memory.",
}


class Collector:
    """Reads the figures of the models that a token is for when they are asked for."""

    def __init__(self, service: Service, grant: Grant) -> None:
        self.workers = {name: worker for name, worker in service.workers.items() if grant.sees(name)}
        self.quarantined = [name for name in service.quarantined if grant.sees(name)]

    def collect(self) -> Iterator[Metric]:
        """All families."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {
            name: kind(f"braided_{name}", text, labels=["model"])
            for kind, some in ((CounterMetricFamily, _COUNTERS), (GaugeMetricFamily, _GAUGES))
            for name, text in some.items()
        }
        learner_error = GaugeMetricFamily(
            "braided_learner_error", "Running error of each learner alone.", labels=["model", "learner"]
        )
        resets = CounterMetricFamily("braided_learner_resets", "Resets of each learner.", labels=["model", "learner"])
        for name, worker in self.workers.items():
            summary = worker.state.stats.summary()
            values = {
                **{key: summary[key] for key in ("alarms", "error", "window_error", "records_per_second")},
                "records_learned": worker.version(),
                "commits": worker.commits,
                "snapshots": worker.snapshots,
                "refused": worker.refused,
                "alarm": int(summary["alarm"] is not None),
                "features": n_features(worker.state, summary),
                "queued_records": worker.queued_records,
                "waiting_for_labels": len(worker.state.late),
                "database_bytes": worker.storage.size,
                "trouble": int(bool(worker.trouble or worker.broken)),
                **{key: count for key, count in keys(worker.state).items() if key in _GAUGES},
            }
            for key, value in values.items():
                families[key].add_metric([name], _number(value))
            for learner in summary["learners"]:
                learner_error.add_metric([name, learner["name"]], _number(learner["error"]))
            for learner_name, health in worker.health().items():
                resets.add_metric([name, learner_name], health["resets"])
        yield GaugeMetricFamily("braided_models", "Models in service.", value=len(self.workers))
        quarantined = GaugeMetricFamily("braided_quarantined", "1 for a model that cannot be opened.", labels=["model"])
        for name in self.quarantined:
            quarantined.add_metric([name], 1)
        yield from (quarantined, *families.values(), learner_error, resets)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def exposition(service: Service, policy: Policy, grant: Grant = EVERYBODY) -> bytes:
    """The text; figures of requests go to a token that is for all models."""
    registry = CollectorRegistry()
    registry.register(Collector(service, grant))
    text: bytes = generate_latest(registry)
    if grant.limited:
        return text
    in_flight = "".join(
        f'braided_requests_in_flight{{changes="{str(changes).lower()}"}} {count}\n'
        for changes, count in policy.in_flight.items()
    )
    about = "# HELP braided_requests_in_flight Requests being answered.\n# TYPE braided_requests_in_flight gauge\n"
    found: bytes = text + generate_latest(policy.figures) + (about + in_flight).encode()
    return found
