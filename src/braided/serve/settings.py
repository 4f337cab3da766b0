"""What `braided serve` can be told, each defined once: the command line and `--settings` are made from these fields."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from braided import checks
from braided.serve.keep import keep_rules

Durability = Literal["sync", "interval", "none"]


@dataclass(frozen=True)
class Limits:
    """Bounds on what a client may send, and on what the service keeps for it.

    What has no option on the command line is told here: `line_bytes` of one line of an NDJSON stream, whose length as a
    whole has no bound; `weights`, numbers that a model may come to hold once it has all its features and classes;
    `text`, characters of a feature's name, a label, a key or a client's name; `fleet_weights`, numbers that the models
    of all keys of a fleet may come to hold; `queue_records` that wait to be learned by one
    model; `event_streams`, live pages; `clients`, names whose sequence numbers a model remembers.
    """

    body_bytes: Annotated[int, Option("--max-body", help="Bytes of a request's body.")] = 8 * 2**20
    checkpoint_bytes: Annotated[int, Option("--max-checkpoint", help="Bytes of a checkpoint that is imported.")] = 2**28
    line_bytes: int = 2**20
    records: Annotated[int, Option("--max-records", help="Records in one request.")] = 1_000
    models: Annotated[int, Option("--max-models", help="Models.")] = 16
    features: Annotated[int, Option("--max-features", help="Features of a model; one may be created with less.")] = (
        1_000
    )
    classes: Annotated[int, Option("--max-classes", help="Classes of a model; one may be created with less.")] = 100
    weights: int = 20_000_000
    keys: Annotated[int, Option("--max-keys", help="Keys of a fleet; one may be created with less.")] = 10_000
    fleet_weights: int = 25_000_000
    text: int = 200
    in_flight: Annotated[int, Option("--max-in-flight", help="Requests answered at the same time.")] = 256
    queue_records: int = 20_000
    event_streams: int = 16
    request_seconds: Annotated[
        float,
        Option(
            help="Seconds for one request; for a stream, without a byte, and from the first byte of a line to its end."
        ),
    ] = 30.0
    observations: Annotated[int, Option("--observe-count", help="Observed records that may wait for their label.")] = (
        10_000
    )
    observation_seconds: Annotated[float, Option("--observe-seconds", help="Seconds that they may wait.")] = 86_400.0
    clients: int = 1_000
    connections: Annotated[
        int, Option("--max-connections", help="Connections; then the one that is idle for longest is closed.")
    ] = 512
    writer_share: Annotated[
        float, Option(help="Share of the requests at the same time that is kept for those that change a model.")
    ] = 0.25
    address_share: Annotated[
        float,
        Option(
            help="Share of connections and of requests that one address may have; those that read and those that "
            "change a model are counted apart. 1 behind a proxy."
        ),
    ] = 0.5
    token_share: Annotated[float, Option(help="Share of requests that one token may have, counted likewise.")] = 0.5

    def __post_init__(self) -> None:
        checks.sizes(
            self, 1, "body_bytes", "checkpoint_bytes", "line_bytes", "records", "models", "features", "classes",
            "weights", "keys", "fleet_weights", "text", "in_flight", "queue_records", "event_streams", "observations",
            "clients", "connections",
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
    """A service."""

    folder: Annotated[Path, Option("--dir", help="Folder for the models; made if it is not there. Has to be given.")]
    host: Annotated[str, Option(help="Address to listen on; other than loopback only with --token-file.")] = "127.0.0.1"
    port: Annotated[int, Option(help="Port to listen on.")] = 8000
    token_file: Annotated[
        Path | None, Option(help="File of lines `SCOPE TOKEN [MODEL,MODEL]`; without it, everybody may do everything.")
    ] = None
    durability: Annotated[
        Durability,
        Option(
            help="sync: on disk before it is acknowledged; interval: at most --interval later; none: when the system "
            "sees fit, which survives the end of the process but not of the machine."
        ),
    ] = "sync"
    interval_seconds: Annotated[
        float, Option("--interval", help="Seconds between two syncs, with --durability interval.")
    ] = 1.0
    snapshot_seconds: Annotated[float, Option(help="Seconds between snapshots of a model that learns.")] = 60.0
    snapshot_records: Annotated[int, Option(help="Records between snapshots.")] = 100_000
    segment_bytes: Annotated[int, Option(help="Length at which a new journal file begins.")] = 2**24
    keep: Annotated[
        str,
        Option(
            help="Snapshots that stay, with the journal since the oldest, so that a model can be brought back: the "
            "first one of each of the last 24 hours and 7 days, or `none` but the last two."
        ),
    ] = "24h,7d"
    keep_bytes: Annotated[int, Option(help="Bytes that they may take per model; the oldest go first.")] = 2**28
    limits: Limits = field(default_factory=Limits)
    access_log: Annotated[str | None, Option(help="File for a line of JSON per request; - is standard output.")] = None

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
