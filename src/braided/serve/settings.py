"""What `braided serve` can be told, each defined once: the command line and `--settings` are made from these fields."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from braided import checks
from braided.errors import BraidedError

Durability = Literal["sync", "interval", "none"]
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_RULE = re.compile(r"(\d{1,4})([mhdw])")


@dataclass(frozen=True)
class Limits:
    """Bounds on what a client may send, and on what the service keeps for it.

    These have no option on the command line: `line_bytes` of one line of an NDJSON stream, whose length as a whole has
    no bound; `weights`, numbers that a model may come to hold once it has all its features and classes; `text`,
    characters of a feature's name, a label, a key or a client's name; `fleet_weights`, numbers that the models of all
    keys of a fleet may come to hold; `queue_records` that wait to be learned by one model; `event_streams`, live
    pages; `clients`, names whose sequence numbers a model remembers.
    """

    body_bytes: Annotated[int, Option("--max-body", help="Bytes of a request's body.")] = 8 * 2**20
    checkpoint_bytes: Annotated[int, Option("--max-checkpoint", help="Bytes of a checkpoint that is imported.")] = 2**28
    line_bytes: int = 2**20
    records: Annotated[int, Option("--max-records", help="Records in one request.")] = 1_000
    models: Annotated[int, Option("--max-models", help="Models.")] = 16
    features: Annotated[int, Option("--max-features", help="Features of a model; a model may ask for fewer.")] = 1_000
    classes: Annotated[int, Option("--max-classes", help="Classes of a model; a model may ask for fewer.")] = 100
    weights: int = 20_000_000
    keys: Annotated[int, Option("--max-keys", help="Keys of a fleet; a fleet may ask for fewer.")] = 10_000
    fleet_weights: int = 25_000_000
    text: int = 200
    in_flight: Annotated[int, Option("--max-in-flight", help="Requests answered at the same time.")] = 256
    queue_records: int = 20_000
    event_streams: int = 16
    request_seconds: Annotated[
        float, Option(help="Seconds for one request; in a stream, for one line and for the pause before it.")
    ] = 30.0
    observations: Annotated[int, Option("--observe-count", help="Observed records that may wait for their label.")] = (
        10_000
    )
    observation_seconds: Annotated[float, Option("--observe-seconds", help="Seconds that they may wait.")] = 86_400.0
    clients: int = 1_000
    writer_share: Annotated[float, Option(help="Share of the requests in flight kept for those that write.")] = 0.25
    address_share: Annotated[
        float,
        Option(help="Share of requests in flight that one address may have; reads and writes apart. 1 behind a proxy."),
    ] = 0.5
    token_share: Annotated[float, Option(help="Share that one token may have, counted likewise.")] = 0.5

    def __post_init__(self) -> None:
        checks.sizes(self, 1, *(each.name for each in fields(self) if type(each.default) is int))
        checks.above(self, 0.0, "request_seconds", "observation_seconds", "address_share", "token_share")
        checks.at_most(self, 1.0, "address_share", "token_share")
        checks.share(self, "writer_share")

    @property
    def reading(self) -> int:
        """Requests in flight that only read."""
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
        Option(help="sync: on disk before it is acknowledged; interval: at most --interval later; none: when the "
               "system sees fit, which survives the end of the process but not of the machine."),
    ] = "sync"  # fmt: skip
    interval_seconds: Annotated[
        float, Option("--interval", help="Seconds between two syncs, with --durability interval.")
    ] = 1.0
    snapshot_seconds: Annotated[float, Option(help="Seconds between snapshots of a model that learns.")] = 60.0
    snapshot_records: Annotated[int, Option(help="Records between snapshots.")] = 100_000
    keep: Annotated[
        str,
        Option(help="Snapshots that stay, with every record since the oldest, so that a model can be brought back: the "
               "first one of each of the last 24 hours and 7 days, or `none` but the last two."),
    ] = "24h,7d"  # fmt: skip
    keep_bytes: Annotated[int, Option(help="Bytes that these may take per model; the oldest go first.")] = 2**28
    limits: Limits = field(default_factory=Limits)
    access_log: Annotated[str | None, Option(help="File for a line of JSON per request; - is standard output.")] = None

    def __post_init__(self) -> None:
        checks.one_of(self, "durability", ("sync", "interval", "none"))
        checks.above(self, 0.0, "interval_seconds", "snapshot_seconds")
        checks.sizes(self, 1, "snapshot_records")
        checks.sizes(self, 0, "keep_bytes", "port")
        keep_rules(self.keep)

    @property
    def models(self) -> Path:
        """The folder of the databases."""
        return self.folder / "models"

    @property
    def keys(self) -> Path:
        """Where fleets put the keys that do not fit into memory, in files without names."""
        return self.folder / "keys"


def keep_rules(text: str) -> list[tuple[int, int]]:
    """Rules such as `24h,7d`, or `none`: the first snapshot in each of the last so many spans of so many seconds.

    >>> keep_rules("24h,7d")
    [(24, 3600), (7, 86400)]
    """
    rules = []
    for part in text.split(",") if text != "none" else []:
        match = _RULE.fullmatch(part.strip())
        if match is None:
            raise BraidedError(
                f"keep is {text!r}: give how many minutes (m), hours (h), days (d) or weeks (w), as in 24h,7d, or none"
            )
        rules.append((int(match[1]), _SECONDS[match[2]]))
    return rules


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
    differ = [each.name for each in fields(Settings) if getattr(kept, each.name) != getattr(wanted, each.name)]
    limits = [name for name in _FIXED_LIMITS if getattr(kept.limits, name) != getattr(wanted.limits, name)]
    return [name for name in differ if name != "limits"] + limits
