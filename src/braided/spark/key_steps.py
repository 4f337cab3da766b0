"""What a worker does with one key: its rows in order, its state as bytes, answers back. Knows nothing of Spark."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.fleet import KIND, Fleet
from braided.spark.columns import PREDICTION, PROBABILITIES, Columns, packed, unpacked
from braided.store import decode, encode
from braided.values import is_missing

#: Values by column: not a frame of pandas, which takes a tenth of a millisecond for each step, as many a key has but a
#: row or two.
Rows = dict[str, list[Any]]
#: What a key's state is called in its bytes.
STATE = "FleetKey"
#: So many different fleets a worker has at hand: queries share it.
_FLEETS = 4


@lru_cache(maxsize=_FLEETS)
def fleet_of(saved: bytes) -> Fleet:
    """A fleet without keys from its bytes, ready to run; a worker has it for all its keys, one after the other."""
    checkpoint = decode(saved, "of the query", KIND)
    return Fleet.restore(checkpoint.metadata, checkpoint.arrays)


def state_of(fleet: Fleet, key: Any) -> bytes:
    """What one key of a fleet has, as bytes."""
    return encode(STATE, *fleet.snapshot_key(key))


def put_state(fleet: Fleet, state: bytes) -> None:
    """Let a fleet have a key as `state_of` gave it."""
    checkpoint = decode(state, "of a key", STATE)
    fleet.restore_key(checkpoint.metadata, checkpoint.arrays)


def in_order(rows: Rows, columns: Columns) -> Rows:
    """The rows of a key by the columns of the order; where these are equal, by the text of all that a row holds."""
    by = [rows[f"order_{place}"] for place in range(len(columns.order))]
    for name, values in zip(columns.order, by, strict=True):
        if any(map(is_missing, values)):
            raise BraidedError(f"order {name!r} is null in a record: filter such records out before")
    places = list(zip(*by, strict=True))
    if len(set(places)) < len(places):
        texts = zip(*([str(value) for value in rows[name]] for name in sorted(rows)), strict=True)
        places = [(*place, *text) for place, text in zip(places, texts, strict=True)]
    order = sorted(range(len(places)), key=places.__getitem__)
    return {name: [values[row] for row in order] for name, values in rows.items()}


def _labels(rows: Rows, columns: Columns) -> tuple[list[Any], Any]:
    """A target for each row, and its weight, which is 0 where there is no target."""
    given = rows["target"]
    missing = [is_missing(value) for value in given]
    weights = np.ones(len(given)) if columns.weight is None else np.array(rows["weight"], dtype=np.float64)
    kind = columns.kinds[columns.target]
    nothing: Any = 0.0 if columns.regression else ""
    labels = [
        nothing if gone else value if columns.regression else unpacked(value, kind)
        for value, gone in zip(given, missing, strict=True)
    ]
    return labels, np.where(missing, 0.0, weights)


def _table(rows: Rows, columns: Columns) -> Any:
    """The features as numbers, or as cells where there is text."""
    text = any(columns.kinds[name] == "string" for name in columns.features)
    table = np.empty((len(rows["key"]), len(columns.features)), dtype=object if text else np.float64)
    for place in range(len(columns.features)):
        table[:, place] = rows[f"feature_{place}"]
    return table


def predict_learn(
    fleet: Fleet, columns: Columns, key: Any, rows: Rows, state: bytes | None
) -> tuple[Rows, bytes | None]:
    """Predict the rows of one key, then learn each, in order.

    Parameters
    ----------
    fleet
        Without any key; and so it is afterwards.
    columns
        What is in the rows.
    key
        None for rows without one: what is shared predicts them, and nothing is learned.
    rows
        All those of the key, as `Columns.sent` has them.
    state
        What the key had before; None if it is new.

    Returns
    -------
    answers, state
        As `Columns.answers` has them; and what the key has now, None if that has not changed.
    """
    rows = in_order(rows, columns)
    labels, weights = _labels(rows, columns)
    table, names, n = _table(rows, columns), list(columns.features), len(labels)
    learns = key is not None and bool((weights > 0.0).any())
    try:
        if state is not None:
            put_state(fleet, state)
        if key is None:
            said = fleet.progress_many(table, names, [None] * n).values
        else:
            said = fleet.predict_learn_many(table, labels, names, weights, [key] * n).values
        return _answers(fleet, columns, rows, said), state_of(fleet, key) if learns else None
    finally:
        for known in fleet.keys:
            fleet.forget_key(known)


def _answers(fleet: Fleet, columns: Columns, rows: Rows, said: Any) -> Rows:
    """What was said, beside what is kept."""
    answers = {name: rows[name] for name in ("key", *(f"kept_{place}" for place in range(len(columns.kept))))}
    if columns.regression:
        return {**answers, PREDICTION: said[:, 0].tolist()}
    labels = [packed(label) for label in fleet.classes]
    # Classes that no record of the key has had by then have probability 0, and are not known to it.
    shares = [{label: share for label, share in zip(labels, row, strict=False) if share > 0.0} for row in said.tolist()]
    likeliest = [labels[place] if row else None for row, place in zip(shares, _likeliest(said), strict=True)]
    return {**answers, PREDICTION: likeliest, PROBABILITIES: shares}


def _likeliest(said: Any) -> list[int]:
    found: list[int] = said.argmax(axis=1).tolist() if said.shape[1] else [0] * len(said)
    return found
