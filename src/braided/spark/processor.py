"""What Spark runs on a worker: a key's rows come, its state is read, answers go, its state is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark import SparkFiles
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from braided.fleet import Fleet
from braided.spark.columns import Columns
from braided.spark.key_steps import fleet_of, predict_learn

#: The name of the state's variable, and its schema.
STATE_NAME, STATE_SCHEMA = "model", "state binary"


class FleetProcessor(StatefulProcessor):
    """A keyed fleet, of which each key's own part is in the state store, as bytes in the format of checkpoints.

    Parameters
    ----------
    file
        The name under which workers have been sent the fleet, without its keys: see `session.send_file`.
    columns
        What comes and goes.
    """

    def __init__(self, file: str, columns: Columns) -> None:
        self._file = file
        self._columns = columns
        #: Made on the worker, with the first row.
        self._fleet: Fleet | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once a partition and micro-batch, and on the driver."""
        self._state = handle.getValueState(STATE_NAME, STATE_SCHEMA)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802
        """A key that the fleet knew when the query was started for the first time."""
        self._state.update((bytes(initialState["state"].iloc[0]),))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        """All rows of a key in a micro-batch."""
        if self._fleet is None:
            self._fleet = fleet_of(Path(SparkFiles.get(self._file)).read_bytes())
        own = key[0]
        found = self._state.get() if own is not None else None
        before = None if found is None else bytes(found[0])
        frames = list(rows)
        values = {name: [value for frame in frames for value in frame[name].tolist()] for name in frames[0].columns}
        answers, after = predict_learn(self._fleet, self._columns, own, values, before)
        if after is not None:
            self._state.update((after,))
        yield pd.DataFrame(answers)

    def close(self) -> None:
        """Nothing is left open."""
