"""`braided datasets`: which data sets are here, whether they are right, and how to get those that are not.

What is slow to import is imported by the command that needs it, so that the others start sooner.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from braided import checks
from braided.cli.options import DataDirOption, JsonOption
from braided.values import printable

app = typer.Typer(no_args_is_help=True, help="Data sets of publications: list, verify, fetch.")


def _check(name: str) -> None:
    from braided.datasets.catalogue import CATALOGUE

    checks.choice("data set", name, CATALOGUE)


def _rows(data_dir: Path | None) -> list[dict[str, Any]]:
    """What `list` says of each data set."""
    from braided.datasets.catalogue import CATALOGUE
    from braided.datasets.locate import search
    from braided.datasets.protocol import PAPER_SETTINGS

    rows = []
    for name, dataset in CATALOGUE.items():
        located = search(name, data_dir)
        rows.append(
            {
                "name": name,
                "records": dataset.records,
                "features": dataset.features,
                "features_used": PAPER_SETTINGS[name].n_features if name in PAPER_SETTINGS else dataset.features,
                "classes": dataset.classes,
                "origin": dataset.origin,
                "files": [str(path) for path in located.paths] if located else [],
                "sample": located.sample if located else None,
            }
        )
    return rows


@app.command("list")
def list_(
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """What there is, and what of it is on this machine."""
    rows = _rows(data_dir)
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table()
    for name in ("", "records", "features", "classes", "here"):
        table.add_column(name, justify="left" if name in {"", "here"} else "right", no_wrap=True)
    for row in rows:
        used = "" if row["features"] == row["features_used"] else f"{row['features_used']} of "
        here = {None: "no", False: "full", True: "sample"}[row["sample"]]
        table.add_row(row["name"], f"{row['records']:,}", f"{used}{row['features']:,}", str(row["classes"]), here)
    console = Console()
    console.print(table)
    for row in rows:
        where = ", ".join(row["files"]) or f"not here, get it with `braided datasets fetch {row['name']}`"
        console.print(Text(printable(f"{row['name']}: {where}; origin: {row['origin']}")), soft_wrap=True)


@app.command()
def verify(
    name: Annotated[str | None, typer.Argument(help="A data set; all that are here if not given.")] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Check files by SHA-256 where the official one is known, and otherwise by size and number of records."""
    from braided.datasets import fetch as files
    from braided.datasets.catalogue import CATALOGUE
    from braided.datasets.locate import locate, search

    if name is not None:
        _check(name)
        found = [locate(name, data_dir)]
    else:
        found = [located for each in CATALOGUE if (located := search(each, data_dir)) is not None]
    for located in found:
        kind = "sample" if located.sample else "full"
        typer.echo(f"{located.dataset.name}: {kind}, right by {files.verify(located)}")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A data set, as `braided datasets list` names it.")],
    to: Annotated[Path | None, typer.Option(help="Folder to put it in; the user's cache if not given.")] = None,
) -> None:
    """Download a data set's official files; after an interruption the same command goes on where it stopped."""
    from braided.datasets import fetch as downloads
    from braided.datasets.catalogue import CATALOGUE, DataFile
    from braided.datasets.locate import cache_folder

    _check(name)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    errors = Console(stderr=True)
    with Progress(
        *columns, TimeRemainingColumn(), console=errors, transient=True, disable=not errors.is_terminal
    ) as bars:

        def bar(file: DataFile) -> downloads.Progress:
            task = bars.add_task(file.name, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        paths = downloads.fetch(CATALOGUE[name], to or cache_folder(), bar)
    for path in paths:
        typer.echo(printable(str(path)))
