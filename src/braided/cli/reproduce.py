"""`braided reproduce`: the paper's tables and figures.

What is slow to import is imported by the command that needs it, so that the others start sooner.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from braided import checks, extras
from braided.cli.options import DataDirOption, JsonOption
from braided.errors import BraidedError
from braided.presets import PRESETS


def reproduce(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="table1, table2, table3, merge, ablation, glr, five, lr, depth, logistic, curves, haphazard, streams, "
            "toy, or all; nothing to write --page of what stands in --out."
        ),
    ] = None,
    preset: Annotated[str, typer.Option(help="Of MODL and the baselines: released, paper or default.")] = "released",
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds per cell, instead of the paper's 20 or 5.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only this many records of each stream.")] = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Only this data set. Repeatable.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A minute's worth: 1,000 records, 2 seeds, fewer cells.")
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(help="Run on a Ray cluster: its address, or local for one on this machine. Needs braided\\[ray]."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for CSV, JSON, PNG, index.html and finished runs.")] = Path(
        "results"
    ),
    page: Annotated[Path | None, typer.Option(help="Also write all that stands in --out as a Markdown page.")] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="Scale each feature of the small sets to a range over the whole file, -1,1 or 0,1, as the published "
            "figures seem to have had german."
        ),
    ] = None,
    whole_german: Annotated[
        bool,
        typer.Option(
            "--whole-german",
            help="In haphazard, read all 1,000 records of german, of which the review's way of reading leaves 959.",
        ),
    ] = False,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reproduce tables and figures of the paper, ours beside theirs.

    Every run is kept under --out as it ends and never done twice: after an interruption the same command goes on, in a
    run over a large file from its last checkpoint, which is written every minute.
    """
    from braided.report.folder import check_folder
    from braided.reproduce.command import Reproduction, ReproductionOptions, checked, render, screen_table
    from braided.reproduce.executors import Executor, Processes, Ray

    checks.choice("preset", preset, PRESETS)
    for needed in ("matplotlib", "scipy"):
        extras.require(needed, "reproduce")
    check_folder(out)
    if not what:
        if page is None:
            raise BraidedError("nothing to reproduce: name a table such as table1, or all, or give --page")
        render(out, page, Console(stderr=True))
        return
    options = ReproductionOptions(
        checked(what), preset, seeds, limit, tuple(dataset or ()), quick, out, page, whole_german, scale
    )
    executor: Executor = Processes(jobs) if ray is None else Ray(ray, jobs)
    documents = Reproduction(options, data_dir, executor, Console(stderr=True)).run()
    if as_json:
        typer.echo(json.dumps(documents[0] if len(documents) == 1 else {"what": "all", "documents": documents}))
    else:
        for document in documents:
            Console().print(screen_table(document))
    failed = sum(cell.get("failed", 0) for document in documents for cell in document["cells"])
    if failed:
        typer.echo(
            f"braided: {failed} runs failed: their cells say why; run the command again to try them again", err=True
        )
        raise typer.Exit(1)
