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

    Returns
    -------
    The fleet; its `max_keys` is raised where the query has more.
    """
    processor = require("braided.spark.processor", "spark")
    found = (
        spark.read.format("statestore")
        .option("stateVarName", processor.STATE_NAME)
        .load(os.fspath(checkpoint))
        .selectExpr("key.key AS key", "value.state AS state")
        .orderBy("key")
    )
    fleet = without_keys(made_fleet(model, key, share), found.count())
    for row in found.toLocalIterator():
        put_state(fleet, bytes(row.state))
    return fleet


def without_keys(fleet: Fleet, n_keys: int) -> Fleet:
    """A fleet like this one with room for so many keys, and none of its own; separate models have then learned nothing.

    A query has as many keys as come, of which none is to be forgotten here.
    """
    for known in fleet.keys:
        fleet.forget_key(known)
    metadata, arrays = fleet.snapshot()
    metadata["parameters"]["max_keys"] = max(fleet.max_keys, n_keys)
    if fleet.share == "none":
        metadata["learned"] = 0
    return Fleet.restore(metadata, arrays, fleet.model.learners)
