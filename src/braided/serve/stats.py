"""What a model's page shows: errors of the sum, each learner and the plain guesses, features, recent predictions.

Everything here follows from the records in their order, however they were chunked, so that it is the same after a
recovery; only the throughput is of this process.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.evaluation.alarm import ErrorAlarm
from braided.evaluation.availability import Places
from braided.evaluation.latest import Latest
from braided.evaluation.tally import WINDOW, Tally
from braided.kernels.tally import ANSWER, LEARNERS, USUAL
from braided.records import Predictions, Records
from braided.store import checked, prefixed, unprefixed

_RECENT = 20
#: Records of a window at least.
_MIN_WINDOW = 100
_RATE_SECONDS = 10.0


class Stats:
    """Running figures of one model.

    Parameters
    ----------
    learners
        Their names.
    regression
        Whether the error is the absolute difference, rather than being wrong.
    before
        How many records the model had learned before it came here, of which nothing is counted.

    Examples
    --------
    >>> stats = Stats(["olr"], regression=False)
    >>> records = Records(("t",), np.array([[20.5], [np.nan]]), ["idle", "busy"])
    >>> said = Predictions(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[-1.0], [0.0]]))
    >>> stats.update(said, records, ["idle", "busy"])
    >>> summary = stats.summary()
    >>> summary["records"], summary["error"], summary["availability"]
    (2, 1.0, [{'name': 't', 'count': 1, 'share': 0.5}])
    """

    def __init__(self, learners: list[str], regression: bool, before: int = 0) -> None:
        self.before = before
        self.tally = Tally(learners, regression)
        self.alarm = ErrorAlarm(regression)
        self.lock = threading.Lock()
        self.recent: deque[dict[str, Any]] = deque(maxlen=_RECENT)
        self._places = Places()
        self._latest = Latest()
        self._learned: deque[tuple[float, int]] = deque()

    @property
    def records(self) -> int:
        """Records learned."""
        return self.tally.records

    @property
    def names(self) -> list[Any]:
        """The features that were counted."""
        return list(self._places.places)

    def update(self, progress: Predictions, records: Records, classes: list[Any], timed: bool = True) -> None:
        """Take in records that were predicted and then learned."""
        with self.lock:
            self._count_present(records)
            self._remember(progress, records, classes)
            losses = self.tally.add(progress, records.known_targets, classes)
            self.alarm.add(losses[:, ANSWER])
            if timed:
                self._learned.append((time.monotonic(), len(records)))
                self._forget_old()

    def _count_present(self, records: Records) -> None:
        present = ~np.isnan(records.values)
        places = self._places.count(records.names, present.sum(axis=0))
        rows, columns = np.nonzero(present)
        self._latest.count(rows, places[columns], len(self._places.places), self.records, len(records))

    def keep_features(self, names: Collection[str]) -> None:
        """Forget all features but these."""
        with self.lock:
            before, self._places = self._places, Places()
            kept = [place for name, place in before.places.items() if name in names]
            self._places.count([name for name in before.places if name in names], before.present[kept])
            self._latest.blocks = self._latest.blocks[:, kept]

    def _remember(self, progress: Predictions, records: Records, classes: list[Any]) -> None:
        start = max(len(records) - _RECENT, 0)
        for place in range(start, len(records)):
            row, label = progress.values[place], records.known_targets[place]
            entry: dict[str, Any] = {"record": self.records + place + 1, "label": label}
            if self.tally.regression:
                entry["predicted"] = finite(row[0])
            else:
                best = progress.answer(place)
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

    def summary(self) -> dict[str, Any]:
        """The figures as JSON."""
        with self.lock:
            tally, records = self.tally, max(self.records, 1)
            running, window = (tally.totals / records).tolist(), tally.window_errors()

            def named(names: Sequence[str], start: int) -> list[dict[str, Any]]:
                return [
                    {"name": name, "error": finite(running[i]), "window_error": finite(window[i])}
                    for i, name in enumerate(names, start)
                ]

            return {
                "records": self.records,
                "records_before": self.before,
                "error_is": "mean absolute error" if tally.regression else "error rate",
                "error": finite(running[ANSWER]),
                "window_error": finite(window[ANSWER]),
                "window": tally.n_last,
                "alarm": self.alarm.reason,
                "alarms": self.alarm.raised,
                "alarm_marks": [list(mark) for mark in self.alarm.marks],
                "plain_guesses": named(tally.guess_names, USUAL),
                "learners": named(tally.learners, LEARNERS),
                "records_per_second": self._rate(),
                "availability": [
                    {"name": name, "count": int(count), "share": int(count) / records}
                    for name, count in zip(self._places.places, self._places.present, strict=True)
                ],
            }

    def metrics(self) -> dict[str, dict[str, float | None]]:
        """Every metric, over all records and over the last ones."""
        with self.lock:
            found = {"metrics": self.tally.metrics(), "window_metrics": self.tally.window_metrics()}
        return {
            kind: {name: None if value is None else finite(value) for name, value in values.items()}
            for kind, values in found.items()
        }

    def strip(self, most: int) -> list[list[Any]]:
        """Names of the features least available of late, and the share of each, block by block, the oldest first."""
        with self.lock:
            shares = self._latest.shares(self.records)
            names = list(self._places.places)
        least = np.argsort(shares.sum(axis=0), kind="stable")[:most].tolist()
        return [[names[i], shares[:, i].round(2).tolist()] for i in least]

    def curve(self, most: int) -> list[list[float | None]]:
        """Running means at evenly spaced records: rows of its number, the sum's, each learner's, the plain guesses'."""
        with self.lock:
            points = self.tally.loss_curve.points
            rows = points[:: -(-len(points) // most) or 1]
            if self.records and (not len(rows) or rows[-1, 0] != self.records):
                rows = np.vstack([rows, [self.records, *self.tally.totals]])
        return _means(rows, None)

    def window_curve(self, most: int) -> dict[str, Any]:
        """The same over the last `window` records up to each: about 1,000, of few records fewer; empty until full."""
        with self.lock:
            curve = self.tally.loss_curve
            wanted = min(WINDOW, max(_MIN_WINDOW, self.records // 5))
            window = -(-wanted // curve.interval) * curve.interval
            rows = curve.windowed(window, most)
        return {"window": window, "rows": _means(rows, window)}

    def per_class(self, most: int) -> list[dict[str, Any]]:
        """The most frequent classes: label, support, and the share of it that was found, also of the last records."""
        with self.lock:
            last = self.tally.window_recall()
            found = sorted(self.tally.per_class().items(), key=lambda entry: -entry[1]["support"])[:most]
        return [
            {"label": label, "support": own["support"], "recall": own["recall"], "window_support": last[label][0],
             "window_recall": last[label][1]}
            for label, own in found
        ]  # fmt: skip

    def latest(self) -> list[dict[str, Any]]:
        """Recent predictions, the last one first."""
        with self.lock:
            return list(self.recent)[::-1]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON and named arrays to go on from."""
        metadata, arrays = self.tally.state()
        kept = {"present": self._places.present, "blocks": self._latest.blocks}
        kept |= prefixed("alarm", self.alarm.state())
        figures = {"tally": metadata, "names": self._places.names(), "before": self.before}
        return figures, prefixed("tally", arrays) | kept

    def load_state(self, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`."""
        self.tally.load_state(checked("the figures", metadata, "tally", dict), unprefixed("tally", arrays))
        self.alarm.load_state(unprefixed("alarm", arrays))
        self._places.load(metadata.get("names"), arrays)
        self._latest.load(arrays, len(self._places.places))
        self.before = checked("the figures", metadata, "before", int)


def _means(rows: NDArray[Any], window: int | None) -> list[list[float | None]]:
    """Rows of sums as means over the records so far, or over a window; the plain guesses go to the end."""
    guesses = 1 + np.arange(USUAL, LEARNERS)
    rows = np.hstack([np.delete(rows, guesses, axis=1), rows[:, guesses]])
    return [[row[0], *(finite(total / (window or row[0])) for total in row[1:])] for row in rows.tolist()]


def finite(number: float) -> float | None:
    """The number, or None where JSON has no word for it."""
    return float(number) if math.isfinite(number) else None
