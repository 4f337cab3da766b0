"""`braided warm-up`: compile ahead."""

from __future__ import annotations

import time
from typing import Annotated

import numba
import typer
from rich.console import Console

from braided import zoo
from braided.cli.options import QuietOption, teller


def warm_up(
    model: Annotated[list[str] | None, typer.Option("--model", "-m", help="A model; modl if none. Repeatable.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Compile what runs of a model need, for classes and for numbers, so that no run has to: for container images.

    What is compiled is kept in NUMBA_CACHE_DIR, if it is set.
    """
    from braided.run import Job, RunOptions
    from braided.run.compiling import compile_reading, tiny_stream

    say = teller(Console(stderr=True, quiet=quiet))
    start = time.perf_counter()
    compile_reading()
    for name in model or ["modl"]:
        for task in zoo.MODELS[name].tasks if name in zoo.MODELS else ["classification"]:
            options = RunOptions(stream="warm-up", models=(name,), task=task)
            for _ in Job(options, source=tiny_stream(task == "regression")).run():
                pass
    where = numba.config.CACHE_DIR or "the usual folder of Numba"
    say(f"compiled and kept in {where}: {time.perf_counter() - start:.0f} s")
