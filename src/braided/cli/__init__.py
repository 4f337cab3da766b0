"""The command line."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from braided import __version__
from braided.cli import datasets, inspect, run, serve
from braided.errors import BraidedError
from braided.run.option_text import as_options
from braided.values import printable

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Online deep learning for data streams whose features come and go.",
)
for command in (run.run, inspect.inspect):
    app.command()(command)
app.add_typer(serve.app, name="serve")
app.command()(serve.feed)
app.add_typer(datasets.app, name="datasets")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"braided {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # shown as an escape, where its encoding has no such letter
    try:
        app()
    except BraidedError as error:
        print(f"braided: {printable(as_options(str(error)))}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        what = f"{error.filename or 'output'}: {error.strerror or error}"
        print(f"braided: {printable(what)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("braided: interrupted", file=sys.stderr)
        sys.exit(130)
