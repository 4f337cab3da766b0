"""What `braided serve` can be told, with its limits."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

from braided import checks
from braided.serve.keep import keep_rules

Durability = Literal["sync", "interval", "none"]


@dataclass(frozen=True)
class Limits:
    """Bounds on what a client may send, and on what the service keeps for it.

    Attributes
    ----------
    body_bytes, checkpoint_bytes, line_bytes
        Of a request's body, of one that is a checkpoint, and of one line of an NDJSON stream (whose length as a whole
        has no bound).
    records
        In one request.
    models, features, classes
        In the service, in a model, in a model. A model may be created with less.
    weights
        Numbers that a model may come to hold once it has all its features and classes.
    text
        Characters of a feature's name, a label or a client's name.
    in_flight, queue_records, event_streams
        Requests at once, records waiting to be learned by one model, and live pages.
    request_seconds
        Time for one request; for a stream, time without a byte, and from the first byte of a line to its end.
    observations, observation_seconds
        How many records wait for their label, and for how long.
    clients
        Names whose sequence numbers a model remembers.
    connections
        Open at once. When they run out, the one that has been idle for longest is closed.
    writer_share
        Of the requests at once, those that are kept for what changes a model.
    address_share, token_share
        Of the requests at once, what one address and one token may have; of the connections, one address. Requests that
        read and those that change a model are counted apart.
    """

    body_bytes: int = 8 * 2**20
    checkpoint_bytes: int = 2**28
    line_bytes: int = 2**20
    records: int = 1_000
    models: int = 16
    features: int = 1_000
    classes: int = 100
    weights: int = 20_000_000
    text: int = 200
    in_flight: int = 256
    queue_records: int = 20_000
    event_streams: int = 16
    request_seconds: float = 30.0
    observations: int = 10_000
    observation_seconds: float = 86_400.0
    clients: int = 1_000
    connections: int = 512
    writer_share: float = 0.25
    address_share: float = 0.5
    token_share: float = 0.5

    def __post_init__(self) -> None:
        checks.sizes(
            self, 1, "body_bytes", "checkpoint_bytes", "line_bytes", "records", "models", "features", "classes",
            "weights", "text", "in_flight", "queue_records", "event_streams", "observations", "clients",
            "connections",
        )  # fmt: skip
        checks.above(self, 0.0, "request_seconds", "observation_seconds", "address_share", "token_share")
        checks.at_most(self, 1.0, "address_share", "token_share")
        checks.share(self, "writer_share")

    @property
    def reading(self) -> int:
        """Requests at once that only read."""
        return max(1, self.in_flight - int(self.in_flight * self.writer_share))


@dataclass(frozen=True)
class Settings:
    """A service.

    Attributes
    ----------
    folder
        Where everything is kept.
    host, port
        Where it listens.
    token_file
        Lines of a scope, a token and the models it is for; None lets everybody in, on loopback only.
    durability
        `sync`: on disk before it is acknowledged. `interval`: at most `interval_seconds` later. `none`: when the
        operating system sees fit, which survives the end of the process but not of the machine.
    snapshot_seconds, snapshot_records
        A changed model is written whole after so much time or learning, whichever comes first.
    segment_bytes
        A journal file that has grown this long is followed by a new one.
    keep, keep_bytes
        Which snapshots of a model stay, with the journal since the oldest of them, so that it can be brought back to
        any record since then: the first one of each of the last 24 hours and 7 days (`24h,7d`), or `none` but the last
        two. All that together takes at most so many bytes; the oldest goes first.
    limits
        Bounds on what clients may do.
    access_log
        File for a line per request; `-` is standard output, None keeps no such log.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    durability: Durability = "sync"
    interval_seconds: float = 1.0
    snapshot_seconds: float = 60.0
    snapshot_records: int = 100_000
    segment_bytes: int = 16 * 2**20
    keep: str = "24h,7d"
    keep_bytes: int = 2**28
    limits: Limits = field(default_factory=Limits)
    access_log: str | None = None

    def __post_init__(self) -> None:
        checks.one_of(self, "durability", ("sync", "interval", "none"))
        checks.above(self, 0.0, "interval_seconds", "snapshot_seconds")
        checks.sizes(self, 1, "snapshot_records", "segment_bytes")
        checks.sizes(self, 0, "keep_bytes")
        keep_rules(self.keep)
        checks.sizes(self, 0, "port")


#: What may be changed while the service runs; of the limits, all but those by which observed records were dropped.
_CHANGEABLE = ("token_file", "access_log", "snapshot_seconds", "snapshot_records", "keep", "keep_bytes")
_FIXED_LIMITS = ("observations", "observation_seconds")


def changeable(now: Settings, wanted: Settings) -> Settings:
    """The settings of a service that runs, with what may be changed of those that are wanted."""
    limits = replace(wanted.limits, **{name: getattr(now.limits, name) for name in _FIXED_LIMITS})
    return replace(now, limits=limits, **{name: getattr(wanted, name) for name in _CHANGEABLE})


def waits_for_restart(now: Settings, wanted: Settings) -> list[str]:
    """Names of settings that differ and cannot be changed while the service runs."""
    kept = changeable(now, wanted)
    found = [each.name for each in fields(Settings) if each.name != "limits"]
    differ = [name for name in found if getattr(kept, name) != getattr(wanted, name)]
    return differ + [name for name in _FIXED_LIMITS if getattr(kept.limits, name) != getattr(wanted.limits, name)]
