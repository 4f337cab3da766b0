"""The work behind `braided reproduce`: plan, run what is not yet done, write it up."""

from __future__ import annotations

import errno
import shlex
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from braided import checks
from braided.datasets.catalogue import CATALOGUE
from braided.datasets.locate import locate
from braided.errors import BraidedError
from braided.report.published import length
from braided.reproduce import layouts, pages, stream_models, stream_sources
from braided.reproduce.documents import Document
from braided.reproduce.executors import Executor
from braided.reproduce.jobs import (
    HAPHAZARD,
    HAPHAZARD_WHOLE,
    PAPER,
    SCALES,
    STREAMS,
    TIME,
    JobSpec,
    code_digest,
    data_digest,
    is_whole,
)
from braided.reproduce.store import Store
from braided.reproduce.summary import Results
from braided.reproduce.tables import LARGE, TABLES, Cell
from braided.values import printable

#: Everything, in the order in which a page shows it.
WHATS = (*TABLES, "toy")
_QUICK_RECORDS, _QUICK_SEEDS = 1_000, 2
#: Rough cost of a record relative to MODL's, to weigh the time left.
_CHEAP = {"olvf": 0.01, "auxdrop-odl": 0.15, "auxdrop-fodl": 0.08, "auxdrop-ogd": 0.05}
#: What a record of MODL costs, roughly.
_SECONDS_OF_MODL = 500e-6
_PLAIN_EVERY = 30.0
_SAMPLE_RECORDS = 10_000


@dataclass(frozen=True)
class ReproductionOptions:
    """What `braided reproduce` was asked for.

    Attributes
    ----------
    whats
        Tables and figures.
    preset
        Of MODL and the baselines.
    seeds, limit
        Instead of each table's own; None keeps these.
    datasets
        Only these; all if empty.
    quick
        A minute's worth.
    out
        Folder for results and finished jobs.
    page
        Markdown file to write as well, with everything that stands in `out`.
    whole_german
        In `haphazard`, read all of german, instead of what the review's way of reading leaves of it.
    scale
        In the paper's tables, scale features of sets that fit into memory to one of `jobs.SCALES`.
    """

    whats: tuple[str, ...]
    preset: str = "released"
    seeds: int | None = None
    limit: int | None = None
    datasets: tuple[str, ...] = ()
    quick: bool = False
    out: Path = Path("results")
    page: Path | None = None
    whole_german: bool = False
    scale: str | None = None

    def __post_init__(self) -> None:
        if self.scale is not None:
            checks.choice("--scale", self.scale, SCALES)
        for name in self.datasets:
            checks.choice("--dataset", name, [*CATALOGUE, *stream_sources.STREAMS])

    def command(self, what: str) -> str:
        """The command that makes this table alone: with those options that make a difference to it."""
        words = ["braided", "reproduce", what]
        given = {
            "preset": ["--preset", self.preset],
            "seeds": ["--seeds", str(self.seeds)],
            "limit": ["--limit", str(self.limit)],
            "datasets": [word for name in self.datasets for word in ("--dataset", name)],
            "quick": ["--quick"],
            "scale": ["--scale", str(self.scale)],
            "whole_german": ["--whole-german"],
        }
        least = self
        usual = ReproductionOptions(self.whats)
        for name, option in given.items() if what in TABLES else ():
            without = replace(least, **{name: getattr(usual, name)})
            if without.cells(what) == self.cells(what):
                least = without
            else:
                words += option
        return shlex.join(words)

    def cells(self, what: str) -> list[Cell]:
        """The cells of a table, as options."""
        table = TABLES[what]
        found = []
        for cell in table.cells(self.preset):
            if (self.datasets and cell.job.dataset not in self.datasets) or (self.quick and not table.quick(cell)):
                continue
            limit = self.limit
            if cell.job.dataset in LARGE:  # the paper stops at a million rows of these
                limit = min(limit or length(cell.job.dataset), length(cell.job.dataset))
            if self.quick:
                limit = min(limit or _QUICK_RECORDS, _QUICK_RECORDS)
            seeds = self.seeds or (min(cell.seeds, _QUICK_SEEDS) if self.quick else cell.seeds)
            job = replace(cell.job, limit=limit)
            if self.whole_german and (job.dataset, job.protocol) == ("german", HAPHAZARD):
                job = replace(job, protocol=HAPHAZARD_WHOLE)
            if self.scale is not None and job.protocol == PAPER:
                job = replace(job, scale=self.scale)
            found.append(replace(cell, seeds=seeds, job=job))
        return found

    def tables(self) -> dict[str, list[Cell]]:
        """The tables to be made, each with its cells: those of `whats` that have the data sets asked for."""
        cells = {what: self.cells(what) if what in TABLES else [] for what in self.whats}
        if self.scale is not None and not any(cell.job.scale for some in cells.values() for cell in some):
            raise BraidedError(f"--scale is not for {' and '.join(self.whats)}: leave it out")
        if not self.datasets:
            return cells
        found = {what: some for what, some in cells.items() if some}
        if not found:
            raise BraidedError(
                f"{' and '.join(self.whats)} {'has' if len(self.whats) == 1 else 'have'} no cell on "
                f"{' or '.join(self.datasets)}: leave out --dataset, or give another"
            )
        return found


def checked(whats: list[str]) -> tuple[str, ...]:
    """The names asked for, `all` written out."""
    for what in whats:
        if what not in {*WHATS, "all"}:
            raise BraidedError(f"{what!r} cannot be reproduced: use one of {', '.join(WHATS)}, all")
    return WHATS if "all" in whats else tuple(dict.fromkeys(whats))


def _weight(job: JobSpec, data_dir: Path | None) -> float:
    """How long a job takes, roughly, relative to others."""
    if job.protocol == STREAMS:
        return stream_models.seconds(job.model, job.preset, job.dataset, job.limit) / _SECONDS_OF_MODL
    records = _SAMPLE_RECORDS if locate(job.dataset, data_dir).sample else CATALOGUE[job.dataset].records
    return _CHEAP.get(job.model, 1.0) * (min(records, job.limit) if job.limit else records)


def _tell_written(path: Path, console: Console) -> None:
    console.print(f"wrote {printable(str(path))}", markup=False, highlight=False)


def render(folder: Path, page: Path | None, console: Console) -> None:
    """Write pages and pictures of the documents that stand in a folder, running nothing."""
    standing = pages.gather(folder, list(WHATS))
    if not standing:
        raise BraidedError(f"there are no results in {folder}: name a table to make, such as table1")
    for path in pages.write_pages(standing, folder, page):
        _tell_written(path, console)


class Reproduction:
    """One call of `braided reproduce`.

    Parameters
    ----------
    options
        What to do.
    data_dir
        Where the data sets are.
    executor
        Where jobs are done.
    console
        For progress.
    """

    def __init__(
        self, options: ReproductionOptions, data_dir: Path | None, executor: Executor, console: Console
    ) -> None:
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
        """The result of a job that was done before; what is no whole result of this job is done again."""
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
        self._remove_stale()
        cells = self.options.tables()
        jobs = list(dict.fromkeys(job for some in cells.values() for cell in some for job in cell.jobs()))
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
        documents = []
        for what, some in cells.items():
            documents.append(self._document(what, some))
            for path in pages.write(documents[-1], self.options.out):
                _tell_written(path, self.console)
        render(self.options.out, self.options.page, self.console)
        return documents

    def _remove_stale(self) -> None:
        """Remove checkpoints that other code began: this one does not go on with them."""
        for folder in self.begun.parent.glob("*"):
            if folder != self.begun:
                shutil.rmtree(folder, ignore_errors=True)

    def _do(self, jobs: list[JobSpec]) -> None:
        """Run jobs, the longest first, keeping each result as it comes."""
        if self.reused:
            self.console.print(f"{self.reused} runs were done before, {len(jobs)} are left", highlight=False)
        weights = {job: _weight(job, self.data_dir) for job in jobs}
        jobs = sorted(jobs, key=lambda job: -weights[job])
        progress = Progress(
            TextColumn("{task.fields[done]} of {task.fields[of]} runs"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}"),
            console=self.console,
            transient=True,
        )
        printed = time.monotonic()
        with progress:
            task = progress.add_task("", total=sum(weights.values()), done=0, of=len(jobs), last="")
            for done, (job, result) in enumerate(self.executor.run(jobs, self.data_dir, self.begun), start=1):
                if "error" not in result:
                    self.store.put(self._key(job), result)
                    (self.begun / self._key(job)).unlink(missing_ok=True)
                self.results[job] = result
                last = f"{job.dataset} {job.model} seed {job.seed}"
                progress.update(task, advance=weights[job], done=done, last=last)
                if not self.console.is_terminal and time.monotonic() - printed > _PLAIN_EVERY:
                    printed = time.monotonic()
                    left = progress.tasks[0].time_remaining
                    note = f", about {left / 60:.0f} min left" if left is not None else ""
                    self.console.print(f"{done} of {len(jobs)} runs{note}", highlight=False)

    def _document(self, what: str, cells: list[Cell]) -> Document:
        jobs = dict.fromkeys(job for cell in cells for job in cell.jobs())
        done = [self.results[job] for job in jobs if "error" not in self.results[job]]
        document = layouts.of(what).document(cells, self.results, self.data_dir)
        return document | {
            "command": self.options.command(what),
            "preset": self.options.preset,
            "jobs": len(done),
            "seconds": sum(result[TIME] for result in done),
            "circumstances": pages.provenance(),
        }


def screen_table(document: Document) -> Table:
    """A document for the terminal."""
    layout = layouts.of(document["what"])
    made = layout.screen(document)
    table = Table(title=f"{document['what']}: {document['title']}", title_justify="left", box=box.SIMPLE_HEAD)
    for i, name in enumerate(made.header):
        table.add_column(Text(name), justify="right" if i else "left", no_wrap=layout.names_rows and i == 0)
    for row in made.rows:
        heading = len(row) == 1
        if heading and table.row_count:
            table.add_section()
        table.add_row(*(Text("\n".join(lines), style="bold" if heading else "") for lines in row))
    if any(cell.get("sample") and "paper_mean" in cell and cell["unit"] == "errors" for cell in document["cells"]):
        table.caption = "the paper's figures are of all records: scaled to as many as were run, at the same error rate"
    if document.get("summary"):
        table.caption = "\n".join(document["summary"])
    table.caption_justify = "left"
    return table
