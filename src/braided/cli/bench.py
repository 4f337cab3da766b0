"""`braided bench`: commands that measure and print, on this machine, now.

What is slow to import is imported by the command that needs it, so that the others start sooner.
"""

from __future__ import annotations

import json
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console

from braided import extras
from braided.cli.options import JsonOption

app = typer.Typer(no_args_is_help=True, help="Benchmarks: commands that measure and print, on this machine, now.")


def _bench(benchmark: ModuleType, records: int, as_json: bool) -> None:
    """Measure, and print the figures for a person or a program."""
    result = benchmark.measure(records, Console(stderr=True))
    if as_json:
        typer.echo(json.dumps(result))
    else:
        Console().print(benchmark.table(result))


@app.command()
def speed(
    records: Annotated[int, typer.Option(help="Records per measurement.")] = 2_000, as_json: JsonOption = False
) -> None:
    """Time per record beside a memory-traffic floor; cold start."""
    from braided.bench import speed as benchmark

    _bench(benchmark, records, as_json)


@app.command()
def default(
    records: Annotated[int, typer.Option(help="Records per measurement.")] = 2_000, as_json: JsonOption = False
) -> None:
    """Time per record of the default model, one record at a time and in chunks, and of each of its learners."""
    from braided.bench import default as benchmark

    _bench(benchmark, records, as_json)


@app.command()
def evaluation(
    records: Annotated[int, typer.Option(help="Records per measurement.")] = 20_000, as_json: JsonOption = False
) -> None:
    """What counting outcomes costs per record, over predicting and learning alone."""
    from braided.bench import evaluation as benchmark

    _bench(benchmark, records, as_json)


@app.command()
def memory(
    records: Annotated[int, typer.Option(help="Records to learn.")] = 1_000_000, as_json: JsonOption = False
) -> None:
    """Resident memory while a long stream is learned: it must stay where it is."""
    from braided.bench import memory as benchmark

    _bench(benchmark, records, as_json)


@app.command()
def depth(
    records: Annotated[int, typer.Option(help="Records per measurement.")] = 1_000, as_json: JsonOption = False
) -> None:
    """Time per record of ODL and Fast ODL at several depths and widths, beside the paper's wall-clock ratios."""
    from braided.bench import depth as benchmark

    _bench(benchmark, records, as_json)


@app.command()
def fleet(
    records: Annotated[int, typer.Option(help="Records per measurement, or one of each key.")] = 20_000,
    as_json: JsonOption = False,
) -> None:
    """Memory and speed of a fleet with 1,000, 10,000 and 100,000 keys, in memory and on disk."""
    from braided.bench import fleet as benchmark

    _bench(benchmark, records, as_json)


@app.command("serve")
def bench_serve(
    records: Annotated[int, typer.Option(help="Records per measurement.")] = 20_000, as_json: JsonOption = False
) -> None:
    """Learning over HTTP with sync durability, and predictions meanwhile, beside learning in this process."""
    _bench(extras.require("braided.bench.serve", "serve"), records, as_json)
