"""The live view of a run, on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from braided.evaluation import Tally
from braided.evaluation.metrics import quantity
from braided.kernels.tally import ANSWER, LEARNERS
from braided.run.job import JobProgress

_PLAIN_EVERY = 30.0


def _view(progress: JobProgress) -> Group:
    evaluation = progress.evaluation
    records = evaluation.seen
    rate = records / evaluation.seconds if evaluation.seconds else 0.0
    head = Text.assemble(
        (f"{progress.model}", "bold"),
        f" seed {progress.seed} ({progress.number} of {progress.of})  {records:,}",
        f" of {progress.n_records:,} records" if progress.n_records else " records",
        f"  {rate:,.0f}/s",
    )
    if progress.n_records and rate:
        head.append(f"  {max(progress.n_records - records, 0) / rate:,.0f} s left")
    table = Table(box=None, padding=(0, 2, 0, 0))
    tally = evaluation.history.tally
    for name in ("", "MAE") if tally.regression else ("", "errors", "rate"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row("together", *_cells(tally, tally.totals[ANSWER]), style="bold")
    for name, loss in zip(tally.learners, tally.totals[LEARNERS:], strict=True):
        health = evaluation.model.health[name]
        note = f"  ({health['resets']} resets)" if health["resets"] else ""
        table.add_row(f"{name} alone{note}", *_cells(tally, loss))
    bar = ProgressBar(total=progress.n_records, completed=records, pulse=progress.n_records is None, width=60)
    line = Table.grid()
    line.add_row(bar)
    return Group(head, line, table)


def _told(tally: Tally) -> str:
    """How it goes, in words."""
    return f"MAE {quantity(tally.error)}" if tally.regression else f"{tally.totals[ANSWER]:,.0f} errors"


def _cells(tally: Tally, loss: float) -> list[str]:
    """A sum of losses as the table shows it."""
    mean = loss / max(tally.records, 1)
    return [quantity(mean)] if tally.regression else [f"{loss:,.0f}", f"{mean:.2%}"]


class Display:
    """Shows progress while a job runs: live on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        self._printed = time.monotonic()

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def follow(self, steps: Iterable[JobProgress]) -> None:
        """Run the job to its end."""
        for progress in steps:
            if self._live:
                self._live.update(_view(progress))
            elif time.monotonic() - self._printed > _PLAIN_EVERY:
                self._printed = time.monotonic()
                evaluation = progress.evaluation
                self.console.print(
                    f"{progress.model} seed {progress.seed} ({progress.number} of {progress.of}): "
                    f"{evaluation.seen:,} records, {_told(evaluation.history.tally)}",
                    highlight=False,
                )
