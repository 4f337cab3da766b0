"""`braided run`: models over a stream.

What is slow to import is imported by the command that needs it, so that the others start sooner.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from braided.cli.options import DataDirOption, JsonOption, QuietOption, teller, with_options
from braided.datasets.catalogue import CATALOGUE
from braided.datasets.river import RIVER_STREAMS
from braided.errors import BraidedError
from braided.late import late_labels_line
from braided.run import Job, RunOptions
from braided.run.progress import Display
from braided.streams.passwords import without_password
from braided.streams.readers.live import stopped_by_signals

_NAMED = f"Data set (shuttle, {', '.join(CATALOGUE)}; of River's {', '.join(RIVER_STREAMS)})"
_STREAM = (
    f"{_NAMED}, a file (CSV, TSV, JSON lines, ARFF or LIBSVM, plain, .gz or .zst; Parquet, Arrow or Feather), a folder "
    "of such files, sqlite:///FILE or postgresql://... with --query, a broker's kafka://HOST:PORT/TOPIC, "
    "redis://HOST/STREAM or mqtt://HOST/TOPIC (at least once), or - for JSON lines "
    '{"x": {...}, "y": ...} on standard input, with "w" for a weight.'
)


def _shown(argument: str) -> str:
    """An argument as a report may show it; an address may stand behind the = of an option."""
    option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    return f"{option}{equals}{without_password(value)}"


@with_options(RunOptions, "options")
def run(
    stream: Annotated[
        str,
        typer.Argument(help=_STREAM),
    ] = "shuttle",
    options: RunOptions = RunOptions(),  # noqa: B008 (a frozen dataclass)
    data_dir: DataDirOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.html, curve.csv, metrics.json and curve.png.")
    ] = None,
    predictions: Annotated[
        str | None,
        typer.Option(
            help="File for every prediction: .csv, .jsonl or .parquet; a row without a label is predicted too. Or a "
            "broker's address, to which each is sent at least once, with the number of its record."
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File to write model and progress to, at intervals and at the end.")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 2.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if it is there.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run models over a stream: predict each record, count the error, then learn it.

    Data sets of the paper follow its protocol (shuffled by seed, features missing at random) unless options say
    otherwise.
    """
    errors = Console(stderr=True, quiet=quiet)
    tell = teller(errors)
    if out is not None:
        _check_out(out, checkpoint)
    if resume and checkpoint is not None and not checkpoint.exists():
        tell(f"no checkpoint at {checkpoint} yet: starting from the first record")
    job = Job(
        dataclasses.replace(options, stream=stream),
        data_dir,
        checkpoint,
        checkpoint_every,
        resume,
        predictions=predictions,
        tell=tell,
    )
    try:
        with Display(errors) as display, stopped_by_signals(job.stop if job.options.follow else None):
            display.follow(job.run())
    except KeyboardInterrupt:
        again = "" if checkpoint is None else "; the same command with --resume goes on from its checkpoint"
        typer.echo(f"braided: interrupted{again}", err=True)
        raise typer.Exit(130) from None
    _tell_result(job, out, predictions, as_json, tell)


def _check_out(out: Path, checkpoint: Path | None) -> None:
    """Refuse a folder that cannot be written to, before hours have gone by."""
    from braided.report.folder import check_folder

    check_folder(out)
    if checkpoint is not None and checkpoint.resolve() == out.resolve():
        raise BraidedError(f"--out and --checkpoint are both {out}: give a folder and a file")


def _tell_result(
    job: Job, out: Path | None, predictions: str | None, as_json: bool, tell: Callable[[str], None]
) -> None:
    """What a person, or with `as_json` a program, wants to know of a finished job; the files of `out` are written."""
    from braided.report.folder import write_folder
    from braided.report.table import summary_table

    document = job.document()
    for warning in document["warnings"]:
        tell(f"warning: {warning}")
    for found in document["runs"]:
        if "late_labels" in found:
            tell(late_labels_line(found["late_labels"]))
    if out is not None:
        for path in write_folder(job, out, shlex.join(["braided", *map(_shown, sys.argv[1:])])):
            tell(f"wrote {path}")
    if predictions is not None:
        tell(f"wrote {without_password(predictions)}")
    if as_json:
        typer.echo(json.dumps(document))
    else:
        Console().print(summary_table(document, job.options.metrics))
