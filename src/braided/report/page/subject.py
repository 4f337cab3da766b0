"""What a report is about: the histories of each model, and the figures of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from braided.estimators.tasks import REGRESSION
from braided.evaluation import History
from braided.report.page.hover import Reading
from braided.report.page.svg import svg
from braided.run import Job

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Subject:
    """A run and its histories; it numbers the pictures that are made of them.

    Parameters
    ----------
    job
        The run, which is done.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.document = job.document()
        self.seeds = job.options.seeds
        self.regression = self.document["task"] == REGRESSION
        self.histories: dict[str, list[History]] = {}
        for run in job.finished:
            self.histories.setdefault(run.model, []).append(run.history)
        self._pictures = 0

    @property
    def everything(self) -> list[History]:
        """All histories."""
        return [history for seeds in self.histories.values() for history in seeds]

    def picture(
        self,
        title: str,
        words: str,
        draw: Callable[[Axes], Any],
        numbers: str,
        about: str = "",
        height: float = 2.8,
        readings: Sequence[Reading] | None = None,
    ) -> str:
        """A picture with its title, what it shows, and the table behind it; `readings` as of `svg`."""
        self._pictures += 1
        drawing = svg(draw, f"{title}{about}. {words}", f"p{self._pictures}", height, readings)
        details = f"<details><summary>Numbers</summary>{numbers}</details>" if numbers else ""
        return f"<figure><figcaption>{escape(title)}</figcaption><p>{escape(words)}</p>{drawing}{details}</figure>"
