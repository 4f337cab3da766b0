"""`braided serve` and `braided feed`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from braided import checks, extras
from braided.cli.options import DataDirOption, JsonOption, QuietOption, teller, with_options
from braided.cli.settings_file import read_options
from braided.errors import BraidedError
from braided.run import ReadingOptions
from braided.serve.settings import Limits, Settings
from braided.values import printable

app = typer.Typer(add_completion=False)
_FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `braided serve` has as --dir.")]


@app.callback(invoke_without_command=True)
@with_options(Settings, "service")
@with_options(Limits, "limits")
def serve(
    context: typer.Context,
    service: Settings,
    limits: Limits,
    settings: Annotated[
        Path | None,
        typer.Option(help="TOML file of options by the same names; the command line wins. Read again on SIGHUP."),
    ] = None,
) -> None:
    """Serve models over HTTP: learn, predict, and lose nothing that was acknowledged. A live page is at /."""
    if context.invoked_subcommand is not None:
        return
    command = extras.require("braided.serve.command", "serve")
    given = dataclasses.replace(service, limits=limits)

    def read() -> Settings:
        return given if settings is None else _with_file(given, settings, context)

    first = read()
    if first.folder is None:
        raise BraidedError("braided serve needs --dir: give the folder for the models, e.g. --dir state")
    command.serve(first, read=read)


def _with_file(given: Settings, path: Path, context: typer.Context) -> Settings:
    """The settings with those of a file, but for what the command line says."""
    hints = {name: (kind, hint) for kind in (Settings, Limits) for name, hint in get_type_hints(kind).items()}
    # An option is called otherwise than its field, as --dir is the folder.
    fields = {option.opts[0].lstrip("-").replace("-", "_"): str(option.name) for option in context.command.params}
    fields = {name: field for name, field in fields.items() if field in hints}
    kinds = {name: hints[field][1] for name, field in fields.items()}
    kinds = {name: kind if kind in (int, float) else str for name, kind in kinds.items()}
    found: dict[type, dict[str, Any]] = {Settings: {}, Limits: {}}
    for name, value in read_options(path, kinds).items():
        kind, hint = hints[fields[name]]
        if getattr(context.get_parameter_source(fields[name]), "name", "") == "DEFAULT":
            found[kind][fields[name]] = Path(value) if hint in (Path, Path | None) else value
    return dataclasses.replace(given, **found[Settings], limits=dataclasses.replace(given.limits, **found[Limits]))


def _databases(folder: Path, model: str | None) -> list[Path]:
    """The databases in a folder, or that of one model."""
    found = [path for path in extras.require("braided.serve.service", "serve").databases(folder)
             if model in (None, path.stem)]  # fmt: skip
    if model is not None and not found:
        raise BraidedError(f"{folder}: holds no model {model!r}: see the files in {folder / 'models'}")
    return found


@app.command()
def repair(
    folder: _FolderArgument,
    model: Annotated[str | None, typer.Option(help="The model to repair; without it, all are looked at.")] = None,
    remedy: Annotated[str | None, typer.Option("--do", help="rebuild, set-aside or retry, as the look shows.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show which models are damaged or cannot be opened, and mend one of them. What is taken away is in DIR/aside."""
    maintain = extras.require("braided.serve.maintain", "serve")
    service, settings = extras.require("braided.serve.service", "serve"), Settings(folder)
    paths = _databases(folder, model)
    if remedy is None:
        findings = [maintain.look(path, settings) for path in paths]
        if as_json:
            typer.echo(json.dumps([dataclasses.asdict(finding) for finding in findings]))
        else:
            for finding in findings:
                for line in _described(finding, folder, maintain.REMEDIES):
                    typer.echo(printable(line))
        if any(finding.problem is not None or finding.damage for finding in findings):
            raise typer.Exit(1)
        return
    checks.choice("--do", remedy, maintain.REMEDIES)
    if model is None:
        raise BraidedError(f"--do {remedy} needs --model: say which one to repair")
    with service.folder_lock(folder):
        found = maintain.look(paths[0], settings)
        if remedy not in found.remedies:
            possible = ", ".join(found.remedies) or "nothing, as it can be opened and nothing is damaged"
            raise BraidedError(f"model {model}: --do {remedy} would not help: what can be done is {possible}")
        done = maintain.mend(paths[0], settings, remedy)
    typer.echo(json.dumps({"model": model, "done": done}) if as_json else f"{model}: {done}")
    if remedy == "retry" and found.records is None:
        typer.echo(f"braided: model {model} cannot be opened yet: {found.problem}", err=True)
        raise typer.Exit(1)


def _described(finding: Any, folder: Path, remedies: dict[str, str]) -> list[str]:
    """What a look has shown, in lines."""
    state = finding.problem or (
        f"ok, {finding.records} records" if not finding.damage else f"{finding.records} records"
    )
    lines = [f"{finding.name}: {state}", *(f"  {line}" for line in finding.damage if line != finding.problem)]
    if finding.remedies:
        lines.append("  it can be repaired while the service is stopped:")
    for remedy, records in finding.remedies.items():
        left = f" ({records} records are left)" if records is not None else ""
        lines.append(f"  braided serve repair {folder} --model {finding.name} --do {remedy}")
        lines.append(f"      {remedies[remedy]}{left}")
    return lines


@app.command()
def restore(
    folder: _FolderArgument,
    model: Annotated[str, typer.Option(help="The model.")],
    to: Annotated[
        str | None,
        typer.Option(
            help="Number of records to go back to, or a time such as 2026-03-01T10:00Z. Without it, list the "
            "snapshots; the model can go back to any record since the oldest."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a model of a service that is stopped back to an earlier record. POST .../restore does it while it runs."""
    maintain = extras.require("braided.serve.maintain", "serve")
    recovery = extras.require("braided.serve.recovery", "serve")
    (path,) = _databases(folder, model)
    if to is None:
        found = maintain.snapshots(path)
        if as_json:
            typer.echo(json.dumps({"model": model, "snapshots": found}))
            return
        typer.echo(f"{model}: snapshots, the oldest first; it can go back to any record since the first")
        for one in found:
            typer.echo(f"  record {one['records']}, {recovery.utc(one['time'])}")
        return
    record, at = int(to) if to.isascii() and to.isdigit() else None, None
    if record is None:
        try:
            at = recovery.time_of(to)
        except (ValueError, OverflowError):
            raise BraidedError(
                f"--to is {to!r}: give a number of records, or a time such as 2026-03-01T10:00Z"
            ) from None
    done = maintain.restore(path, Settings(folder), record, at)
    text = f"{model}: went back from record {done['records_before']} to record {done['records']}"
    typer.echo(json.dumps(done) if as_json else text)


@app.command()
def backup(
    folder: _FolderArgument,
    target: Annotated[Path, typer.Argument(metavar="TO", help="A new folder, which `braided serve --dir` can take.")],
    as_json: JsonOption = False,
) -> None:
    """Copy all models, while they are served or not, and check the copies."""
    maintain = extras.require("braided.serve.maintain", "serve")
    found = maintain.backup(Settings(folder), target, lambda text: None if as_json else typer.echo(printable(text)))
    typer.echo(json.dumps({"target": str(target), "records": found}) if as_json else f"the copies are in {target}")
    if unopened := [name for name, records in found.items() if records is None]:
        names = ", ".join(unopened)
        typer.echo(f"braided: {names} cannot be opened, here as there: see braided serve repair", err=True)
        raise typer.Exit(1)


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
    create: Annotated[
        bool, typer.Option("--create", help="Create the model, if needed: one for records as the stream has them.")
    ] = False,
    task: Annotated[
        str, typer.Option(help="What --create makes: classification, regression, or auto, as `braided run` sees it.")
    ] = "auto",
    key: Annotated[
        str | None, typer.Option(help="Column that says whose a record is, for a model that is a fleet; no feature.")
    ] = None,
    share: Annotated[str | None, typer.Option(help="What the keys of a fleet made by --create share.")] = None,
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
    from braided.report.table import misfits

    feeding = extras.require("braided.serve.feed", "serve")
    errors = Console(stderr=True, quiet=quiet)
    settings = feeding.FeedSettings(
        stream, to, token_file, client, create, batch, limit, data_dir, reading, task, key, share
    )
    result = feeding.feed(settings, errors, teller(errors))
    if as_json:
        typer.echo(json.dumps(result))
    else:
        typer.echo(
            f"{result['sent']:,} records sent, {result['acknowledged']:,} acknowledged in all; "
            f"the model has learned {result['records']:,}"
        )
        if skipped := misfits(result):
            typer.echo(printable(skipped))
