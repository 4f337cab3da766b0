"""What a worker does with one key: its rows in order, its state as bytes, answers back. Knows nothing of Spark."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from braided.checkpoint import decode, encode
from braided.errors import BraidedError
from braided.fleet import KIND, Fleet
from braided.spark.columns import PREDICTION, PROBABILITIES, Columns, unpacked
from braided.spark.compile_once import compile_once

#: What a key's state is called in its bytes.
STATE = "FleetKey"
#: So many different fleets a worker has at hand: queries share it.
_FLEETS = 4


@lru_cache(maxsize=_FLEETS)
def fleet_of(saved: bytes) -> Fleet:
    """A fleet without keys from its bytes, ready to run; a worker has it for all its keys, one after the other."""
    checkpoint = decode(saved, "of the query", KIND)
    fleet = Fleet.restore(checkpoint.metadata, checkpoint.arrays)
    compile_once(fleet)
    return fleet


def state_of(fleet: Fleet, key: Any) -> bytes:
    """What one key of a fleet has, as bytes."""
    return encode(STATE, *fleet.snapshot_key(key))


def put_state(fleet: Fleet, state: bytes) -> None:
    """Let a fleet have a key as `state_of` gave it."""
    checkpoint = decode(state, "of a key", STATE)
    fleet.restore_key(checkpoint.metadata, checkpoint.arrays)


def in_order(frame: Any, columns: Columns) -> Any:
    """The rows of a key by the columns of the order; where these are equal, by the text of all that a row holds."""
    by = [f"order_{place}" for place in range(len(columns.order))]
    for name, column in zip(columns.order, by, strict=True):
        if frame[column].isnull().any():
            raise BraidedError(f"order {name!r} is null in a record: filter such records out before")
    places = list(zip(*(frame[column].tolist() for column in by), strict=True))
    if len(set(places)) < len(places):
        texts = zip(*(frame[name].astype(str).tolist() for name in sorted(frame.columns)), strict=True)
        places = [(*place, *text) for place, text in zip(places, texts, strict=True)]
    # Not by pandas, which takes two texts that differ after a zero byte for the same.
    return frame.iloc[sorted(range(len(places)), key=places.__getitem__)].reset_index(drop=True)


def _labels(frame: Any, columns: Columns) -> tuple[list[Any], Any]:
    """A target for each row, and its weight, which is 0 where there is no target."""
    missing = frame["target"].isnull().to_numpy()
    weights = np.ones(len(frame)) if columns.weight is None else frame["weight"].to_numpy(np.float64)
    kind = columns.kinds[columns.target]
    if columns.regression:
        labels: list[Any] = np.where(missing, 0.0, frame["target"].to_numpy(np.float64)).tolist()
    else:
        labels = ["" if gone else unpacked(text, kind) for text, gone in zip(frame["target"], missing, strict=True)]
    return labels, np.where(missing, 0.0, weights)


def _table(frame: Any, columns: Columns) -> Any:
    """The features as numbers, or as cells where there is text."""
    table = frame[[f"feature_{place}" for place in range(len(columns.features))]]
    text = any(columns.kinds[name] == "string" for name in columns.features)
    return table.to_numpy(object if text else np.float64)


def predict_learn(
    fleet: Fleet, columns: Columns, key: Any, frame: Any, state: bytes | None
) -> tuple[Any, bytes | None]:
    """Predict the rows of one key, then learn each, in order.

    Parameters
    ----------
    fleet
        Without any key; and so it is afterwards.
    columns
        What is in the frame.
    key
        None for rows without one: what is shared predicts them, and nothing is learned.
    frame
        All rows of the key, as `Columns.sent` has them; of pandas.
    state
        What the key had before; None if it is new.

    Returns
    -------
    answers, state
        As `Columns.answers` has them; and what the key has now, None if that has not changed.
    """
    frame = in_order(frame, columns)
    labels, weights = _labels(frame, columns)
    table, names = _table(frame, columns), list(columns.features)
    learns = key is not None and bool((weights > 0.0).any())
    try:
        if state is not None:
            put_state(fleet, state)
        if key is None:
            said = fleet.progress_many(table, names, [None] * len(frame)).predictions
        else:
            said = fleet.predict_learn_many(table, labels, names, weights, [key] * len(frame)).predictions
        return _answers(fleet, columns, frame, said), state_of(fleet, key) if learns else None
    finally:
        for known in fleet.keys:
            fleet.forget_key(known)


def _answers(fleet: Fleet, columns: Columns, frame: Any, said: Any) -> Any:
    """What was said, beside what is kept."""
    answers = frame[["key", *(f"kept_{place}" for place in range(len(columns.kept)))]].copy()
    if columns.regression:
        answers[PREDICTION] = said[:, 0]
        return answers
    labels = [str(label).lower() if isinstance(label, bool) else str(label) for label in fleet.classes]
    rows = [dict(zip(labels, row, strict=False)) for row in said.tolist()]
    # Classes that no record of the key has had by then have probability 0, and are not known to it.
    rows = [{label: share for label, share in row.items() if share > 0.0} for row in rows]
    answers[PREDICTION] = [labels[place] if row else None for row, place in zip(rows, _likeliest(said), strict=True)]
    answers[PROBABILITIES] = rows
    return answers


def _likeliest(said: Any) -> list[int]:
    found: list[int] = said.argmax(axis=1).tolist() if said.shape[1] else [0] * len(said)
    return found
