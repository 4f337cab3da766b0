"""A fleet out of a query's checkpoint."""

from __future__ import annotations

import os
from typing import Any

from braided.estimators.base import MODL
from braided.extras import require
from braided.fleet import Fleet
from braided.spark.key_steps import put_state
from braided.spark.stream import made_fleet


def read_fleet(
    spark: Any,
    checkpoint: str | os.PathLike[str],
    *,
    model: MODL | Fleet | str | os.PathLike[str],
    key: str | None = None,
    share: str | None = None,
) -> Fleet:
    """The fleet that a query of `fleet_stream` has made of its model by its last micro-batch.

    Parameters
    ----------
    spark
        A session; the query may have ended, or run.
    checkpoint
        The query's `checkpointLocation`.
    model, key, share
        As they were given to `fleet_stream`.
    """
    processor = require("braided.spark.processor", "spark")
    fleet = made_fleet(model, key, share)
    for known in fleet.keys:
        fleet.forget_key(known)
    found = (
        spark.read.format("statestore")
        .option("stateVarName", processor.STATE_NAME)
        .load(os.fspath(checkpoint))
        .selectExpr("key.key AS key", "value.state AS state")
        .orderBy("key")
    )
    for row in found.toLocalIterator():
        put_state(fleet, bytes(row.state))
    return fleet
