"""Plan, run what is not yet done, and write what came out."""

from __future__ import annotations

import errno
import io
import json
import shlex
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from braided import checks
from braided.datasets.catalogue import CATALOGUE
from braided.errors import BraidedError
from braided.files import write_atomically
from braided.report import published
from braided.report.provenance import provenance
from braided.values import printable
from reproduction.cells import LARGE, Cell
from reproduction.documents import Document, as_csv
from reproduction.executors import Executor
from reproduction.jobs import (
    HAPHAZARD,
    HAPHAZARD_WHOLE,
    PAPER,
    SCALES,
    TIME,
    JobSpec,
    Store,
    code_digest,
    data_digest,
    is_whole,
)
from reproduction.measures import Results
from reproduction.stream_sources import STREAMS
from reproduction.tables import TABLES

_QUICK_RECORDS, _QUICK_SEEDS = 1_000, 2
#: Seconds between two lines that say how far it is, where there is no terminal.
_PLAIN_EVERY = 30.0


def checked(names: list[str]) -> tuple[str, ...]:
    """The tables asked for, `all` written out."""
    for name in names:
        if name not in {*TABLES, "all"}:
            raise BraidedError(f"{name!r} cannot be reproduced: use one of {', '.join(TABLES)}, all")
    return tuple(TABLES) if "all" in names else tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class Options:
    """What was asked for; the fields are those of the command line."""

    tables: tuple[str, ...]
    preset: str = "released"
    #: Instead of each table's own; None keeps these.
    seeds: int | None = None
    limit: int | None = None
    #: Only these; all if empty.
    datasets: tuple[str, ...] = ()
    quick: bool = False
    out: Path = Path("results")
    whole_german: bool = False
    scale: str | None = None

    def __post_init__(self) -> None:
        if self.scale is not None:
            checks.choice("--scale", self.scale, SCALES)
        for name in self.datasets:
            checks.choice("--dataset", name, [*CATALOGUE, *STREAMS])

    def command(self, what: str) -> str:
        """The command that makes this table alone: with those options that make a difference to it."""
        words = ["python", "-m", "reproduction", what]
        given = {
            "preset": ["--preset", self.preset],
            "seeds": ["--seeds", str(self.seeds)],
            "limit": ["--limit", str(self.limit)],
            "datasets": [word for name in self.datasets for word in ("--dataset", name)],
            "quick": ["--quick"],
            "scale": ["--scale", str(self.scale)],
            "whole_german": ["--whole-german"],
        }
        least, usual = self, Options(self.tables)
        for name, option in given.items():
            without = replace(least, **{name: getattr(usual, name)})
            if without.cells(what) == self.cells(what):
                least = without
            else:
                words += option
        return shlex.join(words)

    def cells(self, what: str) -> list[Cell]:
        """The cells of a table, as options."""
        table, found = TABLES[what], []
        for cell in table.cells(self.preset):
            if (self.datasets and cell.job.dataset not in self.datasets) or (self.quick and not table.quick(cell)):
                continue
            limits = [self.limit, _QUICK_RECORDS if self.quick else None]
            if cell.job.dataset in LARGE:  # the paper stops at a million records of these
                limits.append(published.length(cell.job.dataset))
            seeds = self.seeds or (min(cell.seeds, _QUICK_SEEDS) if self.quick else cell.seeds)
            job = replace(cell.job, limit=min((limit for limit in limits if limit), default=None))
            if self.whole_german and (job.dataset, job.protocol) == ("german", HAPHAZARD):
                job = replace(job, protocol=HAPHAZARD_WHOLE)
            if self.scale is not None and job.protocol == PAPER:
                job = replace(job, scale=self.scale)
            found.append(replace(cell, seeds=seeds, job=job))
        return found

    def planned(self) -> dict[str, list[Cell]]:
        """The tables to be made, each with its cells: those that have the data sets asked for."""
        cells = {what: self.cells(what) for what in self.tables}
        if self.scale is not None and not any(cell.job.scale for some in cells.values() for cell in some):
            raise BraidedError(f"--scale is not for {' and '.join(self.tables)}: leave it out")
        if not self.datasets:
            return cells
        found = {what: some for what, some in cells.items() if some}
        if not found:
            raise BraidedError(
                f"{' and '.join(self.tables)} {'has' if len(self.tables) == 1 else 'have'} no cell on "
                f"{' or '.join(self.datasets)}: leave out --dataset, or give another"
            )
        return found


def _records(job: JobSpec) -> int:
    known = STREAMS[job.dataset].records if job.dataset in STREAMS else CATALOGUE[job.dataset].records
    return min(known, job.limit or known)


def write(document: Document, folder: Path) -> list[Path]:
    """CSV, JSON and pictures of one table."""
    what, table = document["what"], TABLES[document["what"]]
    contents = {
        f"{what}.csv": as_csv(document).encode(),
        f"{what}.json": (json.dumps(document, indent=1) + "\n").encode(),
    }
    for name, picture in {what: table.picture, **table.more_pictures}.items():
        figure, drawn = picture(document), io.BytesIO()
        if any(axes.get_visible() for axes in figure.axes):  # there is something to draw
            figure.savefig(drawn, format="png")
            contents[f"{name}.png"] = drawn.getvalue()
    for name, content in contents.items():
        write_atomically(folder / name, content)
    return [folder / name for name in contents]


class Reproduction:
    """One call of `python -m reproduction`: what to do, where the data sets are, where jobs are done, and progress."""

    def __init__(self, options: Options, data_dir: Path | None, executor: Executor, console: Console) -> None:
        self.options = options
        self.data_dir = data_dir
        self.executor = executor
        self.console = console
        self.store = Store(options.out / "cells")
        #: Checkpoints of long runs that are not finished, by the code that began them.
        self.begun = options.out / "begun" / code_digest()
        self.results: Results = {}
        self.reused = 0

    def _key(self, job: JobSpec) -> str:
        return job.key(data_digest(job.dataset, self.data_dir))

    def _known(self, job: JobSpec) -> dict[str, Any] | None:
        """The result of a job that was done before; what is not a whole result of this job is done again."""
        result = self.store.get(self._key(job))
        return result if result is not None and result.get("spec") == job.plain() and is_whole(job, result) else None

    def run(self) -> list[Document]:
        """Do what is left, write everything, return the documents."""
        try:
            return self._run()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise BraidedError(
                f"there is no space left for {self.options.out}: free some and run the command again, which goes on"
            ) from None

    def _run(self) -> list[Document]:
        for folder in self.begun.parent.glob("*"):
            if folder != self.begun:  # other code began them: this one does not go on with them
                shutil.rmtree(folder, ignore_errors=True)
        planned = self.options.planned()
        jobs = list(dict.fromkeys(job for some in planned.values() for cell in some for job in cell.jobs()))
        left = []
        for job in jobs:
            try:
                known = self._known(job)
            except BraidedError as error:  # the data set is not here: its cells say so, the others are run
                self.results[job] = {"error": str(error)}
                continue
            if known is None:
                left.append(job)
            else:
                self.results[job] = known
                self.reused += 1
        if jobs and not left and not self.reused:
            raise BraidedError(next(result["error"] for result in self.results.values()))
        self._do(left)
        documents = [self._document(what, some) for what, some in planned.items()]
        for document in documents:
            for path in write(document, self.options.out):
                self.console.print(f"wrote {printable(str(path))}", markup=False, highlight=False)
        return documents

    def _do(self, jobs: list[JobSpec]) -> None:
        """Run jobs, the longest first, keeping each result as it comes."""
        if self.reused:
            self.console.print(f"{self.reused} runs were done before, {len(jobs)} are left", highlight=False)
        jobs = sorted(jobs, key=_records, reverse=True)
        printed = time.monotonic()
        done = self.executor.run(jobs, self.data_dir, self.begun)
        shown = track(done, f"{len(jobs)} runs", len(jobs), console=self.console, transient=True)
        for number, (job, result) in enumerate(shown, start=1):
            if "error" not in result:
                self.store.put(self._key(job), result)
                (self.begun / self._key(job)).unlink(missing_ok=True)
            self.results[job] = result
            if not self.console.is_terminal and time.monotonic() - printed > _PLAIN_EVERY:
                printed = time.monotonic()
                self.console.print(f"{number} of {len(jobs)} runs", highlight=False)

    def _document(self, what: str, cells: list[Cell]) -> Document:
        jobs = dict.fromkeys(job for cell in cells for job in cell.jobs())
        done = [self.results[job] for job in jobs if "error" not in self.results[job]]
        return TABLES[what].document(what, cells, self.results, self.data_dir) | {
            "command": self.options.command(what),
            "preset": self.options.preset,
            "jobs": len(done),
            "seconds": sum(result[TIME] for result in done),
            "circumstances": provenance(),
        }
