"""`braided serve` and `braided feed`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from braided import extras
from braided.cli.options import DataDirOption, JsonOption, QuietOption, teller, with_options
from braided.errors import BraidedError
from braided.run import ReadingOptions

app = typer.Typer(add_completion=False)
_FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `braided serve` has as --dir.")]
#: Options by what the service calls them; the others have the same name in both.
_LIMITS = {
    "max_body": "body_bytes", "max_checkpoint": "checkpoint_bytes", "max_records": "records", "max_models": "models",
    "max_features": "features",
    "max_classes": "classes", "max_in_flight": "in_flight", "request_seconds": "request_seconds",
    "observe_count": "observations", "observe_seconds": "observation_seconds", "max_connections": "connections",
    "writer_share": "writer_share", "address_share": "address_share", "token_share": "token_share",
}  # fmt: skip
_SETTINGS = {"interval": "interval_seconds"}
_KINDS: dict[type, type] = {int: int, float: float}


@app.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder for the models; made if it is not there. Has to be given.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than loopback only with --token-file.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File of lines `SCOPE TOKEN [MODEL,MODEL]`; read again on SIGHUP."),
    ] = None,
    durability: Annotated[
        str,
        typer.Option(
            help="sync: on disk before it is acknowledged; interval: at most --interval later; none: when the system "
            "sees fit."
        ),
    ] = "sync",
    interval: Annotated[float, typer.Option(help="Seconds between two syncs, with --durability interval.")] = 1.0,
    snapshot_seconds: Annotated[float, typer.Option(help="Seconds between snapshots of a model that learns.")] = 60.0,
    snapshot_records: Annotated[int, typer.Option(help="Records between snapshots.")] = 100_000,
    segment_bytes: Annotated[int, typer.Option(help="Length at which a new journal file begins.")] = 2**24,
    keep: Annotated[
        str,
        typer.Option(
            help="Snapshots that stay, with the journal since: the first one of each of the last 24 hours and 7 days, "
            "or `none`."
        ),
    ] = "24h,7d",
    keep_bytes: Annotated[int, typer.Option(help="Bytes that they may take per model; the oldest go first.")] = 2**28,
    max_body: Annotated[int, typer.Option(help="Bytes of a request's body.")] = 8 * 2**20,
    max_checkpoint: Annotated[int, typer.Option(help="Bytes of a checkpoint that is imported.")] = 2**28,
    max_records: Annotated[int, typer.Option(help="Records in one request.")] = 1_000,
    max_models: Annotated[int, typer.Option(help="Models.")] = 16,
    max_features: Annotated[int, typer.Option(help="Features of a model.")] = 1_000,
    max_classes: Annotated[int, typer.Option(help="Classes of a model.")] = 100,
    max_in_flight: Annotated[int, typer.Option(help="Requests answered at the same time.")] = 256,
    request_seconds: Annotated[float, typer.Option(help="Seconds for one request.")] = 30.0,
    observe_count: Annotated[int, typer.Option(help="Observed records that may wait for their label.")] = 10_000,
    observe_seconds: Annotated[float, typer.Option(help="Seconds that they may wait.")] = 86_400.0,
    max_connections: Annotated[int, typer.Option(help="Connections; then the oldest idle one is closed.")] = 512,
    writer_share: Annotated[
        float, typer.Option(help="Share of the requests at the same time that is kept for those that change a model.")
    ] = 0.25,
    address_share: Annotated[
        float, typer.Option(help="Share of requests and connections that one address may have; 1 behind a proxy.")
    ] = 0.5,
    token_share: Annotated[float, typer.Option(help="Share of requests that one token may have.")] = 0.5,
    access_log: Annotated[
        str | None, typer.Option(help="File for a line of JSON per request; - is standard output.")
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="TOML file of options by the same names; the command line wins. Read again on SIGHUP."),
    ] = None,
) -> None:
    """Serve models over HTTP: learn, predict, and lose nothing that was acknowledged. A live page is at /."""
    if context.invoked_subcommand is not None:
        return
    command = extras.require("braided.serve.command", "serve")
    values = dict(context.params)
    given = {name for name in values if getattr(context.get_parameter_source(name), "name", "") != "DEFAULT"}

    def read() -> Any:
        in_file = {} if settings is None else _in_file(settings, values)
        return _settings({**values, **{name: value for name, value in in_file.items() if name not in given}})

    command.serve(read(), read=read)


def _in_file(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """The options in a settings file."""
    settings_file = extras.require("braided.serve.settings_file", "serve")
    kinds = {name: _KINDS.get(type(value), str) for name, value in values.items() if name != "settings"}
    kinds["dir"] = kinds.pop("folder")
    options: dict[str, Any] = settings_file.read_options(path, kinds)
    if "dir" in options:
        options["folder"] = options.pop("dir")
    return options | {name: Path(options[name]) for name in ("folder", "token_file") if name in options}


def _settings(options: Mapping[str, Any]) -> Any:
    """What the service is told."""
    if options["folder"] is None:
        raise BraidedError("braided serve needs --dir: give the folder for the models, e.g. --dir state")
    module = extras.require("braided.serve.settings", "serve")
    limits = {field: options[name] for name, field in _LIMITS.items()}
    rest = {_SETTINGS.get(name, name): options[name] for name in options if name not in (*_LIMITS, "settings")}
    return module.Settings(**rest, limits=module.Limits(**limits))


@app.command()
def repair(
    folder: _FolderArgument,
    model: Annotated[str | None, typer.Option(help="The model to repair; without it, all are looked at.")] = None,
    remedy: Annotated[
        str | None, typer.Option("--do", help="What to do: one of those that the look has shown.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show which models cannot be opened and why, and mend one of them. What is taken away is kept in DIR/aside."""
    extras.require("braided.serve.maintenance", "serve").repair(folder, model, remedy, as_json)


@app.command()
def restore(
    folder: _FolderArgument,
    model: Annotated[str, typer.Option(help="The model.")],
    at: Annotated[
        str | None,
        typer.Option(
            help="When it had learned so many records, or a time such as 2026-03-01T10:00Z; without it, what there is "
            "to go back to is shown."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a model of a service that is stopped back to an earlier record. POST .../restore does it while it runs."""
    extras.require("braided.serve.maintenance", "serve").restore(folder, model, at, as_json)


@app.command()
def backup(
    folder: _FolderArgument,
    target: Annotated[Path, typer.Argument(metavar="TO", help="A new folder, which `braided serve --dir` can take.")],
    as_json: JsonOption = False,
) -> None:
    """Copy all models, while they are served or not, and check the copies."""
    extras.require("braided.serve.maintenance", "serve").backup(folder, target, as_json)


@with_options(ReadingOptions, "reading")
def feed(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="What to send: anything that `braided run` reads.")],
    to: Annotated[str, typer.Option(help="Address of the model, as above.")],
    token_file: Annotated[
        Path | None, typer.Option(help="File whose first line that may learn is used; else $BRAIDED_TOKEN, if set.")
    ] = None,
    client: Annotated[
        str | None, typer.Option(help="Name under which the service counts what it has; by default made from the file.")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the model, with the defaults, if needed.")] = False,
    batch: Annotated[int, typer.Option(help="Records in one request.")] = 500,
    limit: Annotated[int | None, typer.Option(help="Stop after this many records.")] = None,
    reading: ReadingOptions = ReadingOptions(),  # noqa: B008 (a frozen dataclass)
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Send a stream to a service, from where the service's acknowledged count stands; may be broken off and repeated.

    The model's address, --to, is such as http://127.0.0.1:8000/models/demo.

    Options that change what is sent are part of the client's name: with others the stream is sent from its start.
    """
    feeding = extras.require("braided.serve.feed", "serve")
    errors = Console(stderr=True, quiet=quiet)
    settings = feeding.FeedSettings(stream, to, token_file, client, create, batch, limit, data_dir, reading)
    result = feeding.feed(settings, errors, teller(errors))
    if as_json:
        typer.echo(json.dumps(result))
    else:
        typer.echo(
            f"{result['sent']:,} records sent, {result['acknowledged']:,} acknowledged in all; "
            f"the model has learned {result['records']:,}"
        )
