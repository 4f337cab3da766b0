"""`--predictions` to a broker: each prediction is a message, sent at least once.

A message has the columns of a row as JSON. The record's number is what a consumer knows repeats by: after a crash the
predictions since the last checkpoint are made and sent again. A checkpoint is written when the broker has all before
it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence

from braided.brokers.address import parse
from braided.brokers.base import sink_of
from braided.records import Predictions, Records
from braided.run.prediction_rows import PredictionRows
from braided.run.predictions import Written


class PredictionTopic:
    """Predictions as messages; the methods are those of `PredictionFile`.

    Parameters
    ----------
    address
        Where they go.
    several
        Whether they are of several runs.
    say
        Is told when the broker goes away and when it is back.
    """

    def __init__(self, address: str, several: bool, say: Callable[[str], None]) -> None:
        self._rows = PredictionRows(several)
        self._sink = sink_of(parse(address), say)
        self._sent = 0
        self._open = False
        #: Whether a prediction could not be sent.
        self.broken = False

    @property
    def written(self) -> Written:
        """How many were sent."""
        return Written(self._sent, tuple(self._rows.columns))

    def begin(self, kept: Written = Written()) -> None:  # noqa: B008  # it is frozen
        """Connect; what was sent before stays as it is."""
        self._sent = kept.rows
        self._rows.columns = list(kept.columns)
        self._sink.open()
        self._open = True

    def of_run(self, model: str, seed: int) -> None:
        """The predictions that follow are of this run."""
        self._rows.of_run(model, seed)

    def write(self, first: int, batch: Records, progress: Predictions, classes: Sequence[Hashable]) -> None:
        """Send the predictions of some records, from the number of the first one on."""
        rows = [self._rows.document(*row) for row in self._rows.of(first, batch, progress, classes)]
        self.broken = True
        self._sink.send([json.dumps(row).encode() for row in rows])
        self.broken = False
        self._sent += len(batch)

    def sync(self) -> None:
        """Wait until the broker has all."""
        if self._open:
            self._sink.flush()

    def give_up(self) -> None:
        """Do not wait for a broker that is away."""
        self._sink.give_up()

    def close(self, whole: bool = True) -> None:
        """Send what is left, if what was sent is to be `whole`, and let go of the broker."""
        if not self._open:
            return
        try:
            if whole and not self.broken:
                self._sink.flush()
        finally:
            self._open = False
            self._sink.close()
