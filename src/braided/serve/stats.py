"""What a model's page shows: errors of the sum and of each learner, availability of features, recent predictions.

Everything here follows from the records in their order, however they were chunked, so that it is the same after a
recovery; only the throughput is of this process.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.estimators.base import Progress
from braided.serve.records import Records

Floats = NDArray[np.float64]
#: The windowed error is over so many records.
WINDOW = 1_000
#: Availability is counted in blocks of so many records, of which the latest are kept.
BLOCK, BLOCKS = 50, 40
_MOST_POINTS = 512
_RECENT = 20
_RATE_SECONDS = 10.0


class Stats:
    """Running figures of one model.

    Parameters
    ----------
    learners
        Their names.
    regression
        Whether the error is the absolute difference, rather than being wrong.

    Examples
    --------
    >>> stats = Stats(["olr"], regression=False)
    >>> records = Records(["t"], np.array([1, 0]), np.array([0]), np.array([20.5]), ["idle", "busy"])
    >>> stats.update(Progress(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[-1.0], [0.0]])), records, ["idle", "busy"])
    >>> summary = stats.summary()
    >>> summary["records"], summary["error"], summary["availability"]
    (2, 1.0, [{'name': 't', 'count': 1, 'share': 0.5}])
    """

    def __init__(self, learners: list[str], regression: bool) -> None:
        self.learners = learners
        self.regression = regression
        self.lock = threading.Lock()
        width = 1 + len(learners)
        self.records = 0
        self.totals = np.zeros(width)
        self.window = np.zeros((WINDOW, width))
        self.interval = 1
        self.points = np.zeros((0, 1 + width))
        self.places: dict[str, int] = {}
        self.present = np.zeros(0, dtype=np.int64)
        self.blocks = np.zeros((BLOCKS, 0), dtype=np.int64)
        self.recent: deque[dict[str, Any]] = deque(maxlen=_RECENT)
        self._learned: deque[tuple[float, int]] = deque()

    def update(self, progress: Progress, records: Records, classes: list[Any], timed: bool = True) -> None:
        """Take in records that were predicted and then learned."""
        if self.regression:
            truth = np.array(records.labels, dtype=np.float64)
            losses = np.abs(np.column_stack([progress.predictions[:, 0], progress.own]) - truth[:, None])
            losses = np.nan_to_num(losses, nan=0.0, posinf=np.finfo(np.float64).max)
        else:
            place = {label: i for i, label in enumerate(classes)}
            truth = np.array([place[label] for label in records.labels], dtype=np.float64)
            said = np.where(progress.predictions.any(axis=1), progress.predictions.argmax(axis=1), -1)
            losses = (np.column_stack([said, progress.own]) != truth[:, None]).astype(np.float64)
        with self.lock:
            self._count_losses(losses)
            self._count_present(records)
            self._remember(progress, records, classes)
            self.records += len(records)
            if timed:
                self._learned.append((time.monotonic(), len(records)))
                self._forget_old()

    def _count_losses(self, losses: Floats) -> None:
        # One long cumulative sum, so that the chunks in which records came do not matter to the last bit.
        running = np.cumsum(np.vstack([self.totals, losses]), axis=0)[1:]
        numbers = self.records + 1 + np.arange(len(losses))
        self.totals = running[-1].copy()
        last = min(len(losses), WINDOW)
        self.window[(numbers[-last:] - 1) % WINDOW] = losses[-last:]
        points = np.column_stack([numbers, running])
        rows = np.concatenate([self.points, points[numbers % self.interval == 0]])
        while len(rows) > _MOST_POINTS:
            self.interval *= 2
            rows = rows[rows[:, 0] % self.interval == 0]
        self.points = rows

    def _count_present(self, records: Records) -> None:
        slots = np.array([self.places.setdefault(name, len(self.places)) for name in records.names], dtype=np.int64)
        more = len(self.places) - self.present.size
        if more:
            self.present = np.concatenate([self.present, np.zeros(more, dtype=np.int64)])
            self.blocks = np.concatenate([self.blocks, np.zeros((BLOCKS, more), dtype=np.int64)], axis=1)
        block_of = (self.records + np.arange(len(records))) // BLOCK
        for block in np.unique(block_of).tolist():
            if block * BLOCK >= self.records:
                self.blocks[block % BLOCKS] = 0
        columns = slots[records.columns] if records.columns.size else records.columns
        rows = np.repeat(block_of, records.counts)
        recent = rows > block_of[-1] - BLOCKS
        np.add.at(self.blocks, (rows[recent] % BLOCKS, columns[recent]), 1)
        np.add.at(self.present, columns, 1)

    def _remember(self, progress: Progress, records: Records, classes: list[Any]) -> None:
        start = max(len(records) - _RECENT, 0)
        for place in range(start, len(records)):
            row, label = progress.predictions[place], records.labels[place]
            entry: dict[str, Any] = {"record": self.records + place + 1, "label": label}
            if self.regression:
                entry["predicted"] = finite(row[0])
            else:
                best = int(row.argmax()) if row.any() else None
                entry["predicted"] = None if best is None else classes[best]
                entry["probability"] = None if best is None else finite(row[best])
            self.recent.append(entry)

    def _forget_old(self) -> None:
        while self._learned and self._learned[0][0] < time.monotonic() - _RATE_SECONDS:
            self._learned.popleft()

    def rate(self) -> float:
        """Records learned per second over the last ten."""
        with self.lock:
            return self._rate()

    def _rate(self) -> float:
        self._forget_old()
        return round(sum(count for _, count in self._learned) / _RATE_SECONDS, 1)

    def window_errors(self) -> list[float]:
        """Mean error over the window, of the sum and of each learner."""
        filled = min(self.records, WINDOW)
        return [float(mean) for mean in self.window[:filled].mean(axis=0)] if filled else [0.0] * self.totals.size

    def summary(self) -> dict[str, Any]:
        """The figures as JSON."""
        with self.lock:
            running = (self.totals / max(self.records, 1)).tolist()
            window = self.window_errors()
            return {
                "records": self.records,
                "error_is": "mean absolute error" if self.regression else "error rate",
                "error": finite(running[0]),
                "window_error": finite(window[0]),
                "window": min(self.records, WINDOW),
                "learners": [
                    {"name": name, "error": finite(running[i]), "window_error": finite(window[i])}
                    for i, name in enumerate(self.learners, start=1)
                ],
                "records_per_second": self._rate(),
                "availability": [
                    {"name": name, "count": int(self.present[i]), "share": int(self.present[i]) / max(self.records, 1)}
                    for name, i in self.places.items()
                ],
            }

    def strip(self, most: int) -> list[list[Any]]:
        """For each of the first features its name and its availability, block by block, the oldest first."""
        with self.lock:
            last = (self.records - 1) // BLOCK if self.records else -1
            first = max(last - BLOCKS + 1, 0)
            blocks = list(range(first, last + 1))
            sizes = [min(BLOCK, self.records - block * BLOCK) for block in blocks]
            table = self.blocks[[block % BLOCKS for block in blocks]]
            return [
                [name, [round(count / size, 2) for count, size in zip(table[:, i].tolist(), sizes, strict=True)]]
                for name, i in list(self.places.items())[:most]
            ]

    def curve(self, most: int) -> list[list[float | None]]:
        """Running means at evenly spaced records: rows of the record's number, the sum's, and each learner's."""
        with self.lock:
            rows = self.points[:: -(-len(self.points) // most) or 1]
            if self.records and (not len(rows) or rows[-1, 0] != self.records):
                rows = np.vstack([rows, [self.records, *self.totals]])
        return [[row[0], *(finite(total / row[0]) for total in row[1:])] for row in rows.tolist()]

    def latest(self) -> list[dict[str, Any]]:
        """Recent predictions, the last one first."""
        with self.lock:
            return list(self.recent)[::-1]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON and named arrays to go on from."""
        filled = min(self.records, WINDOW)
        return (
            {"records": self.records, "interval": self.interval, "names": list(self.places)},
            {
                "totals": self.totals, "window": self.window[:filled], "points": self.points, "present": self.present,
                "blocks": self.blocks,
            },
        )  # fmt: skip

    def load_state(self, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        self.records, self.interval = metadata["records"], metadata["interval"]
        self.places = {name: i for i, name in enumerate(metadata["names"])}
        self.totals, self.points = arrays["totals"].copy(), arrays["points"].copy()
        self.window[: len(arrays["window"])] = arrays["window"]
        self.present, self.blocks = arrays["present"].copy(), arrays["blocks"].copy()


def finite(number: float) -> float | None:
    """The number, or None where JSON has no word for it."""
    return float(number) if math.isfinite(number) else None
