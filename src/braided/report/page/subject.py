"""What a report is about: the histories of each model, and the figures of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from braided.estimators.params import REGRESSION
from braided.evaluation import History
from braided.report.page.hover import Reading
from braided.report.page.svg import svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Subject:
    """Histories and their figures; it numbers the pictures that are made of them.

    Parameters
    ----------
    histories
        Those of each model, one for each seed.
    document
        What a run writes as JSON, or as much of it as is known.
    metrics
        Those of the first table; the main ones if none is given.
    delay
        How many records later labels were learned.
    drift
        The detector that watched for drift.
    """

    def __init__(
        self,
        histories: dict[str, list[History]],
        document: dict[str, Any],
        metrics: Sequence[str] = (),
        delay: int = 0,
        drift: str | None = None,
    ) -> None:
        self.histories = histories
        self.document = document
        self.metrics = metrics
        self.delay = delay
        watched = any("drifts" in run for run in document["runs"])
        self.drift = drift or ("the detector" if watched else None)
        self.seeds = max(map(len, histories.values()))
        self.regression = document["task"] == REGRESSION
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
