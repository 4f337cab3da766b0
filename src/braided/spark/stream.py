"""`fleet_stream`: a stream of Spark's in, the same with a fleet's answers out."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from braided.errors import BraidedError
from braided.estimators.base import MODL
from braided.estimators.params import REGRESSION
from braided.extras import require
from braided.fleet import KIND, Fleet
from braided.spark.columns import Columns, names, unpacked, whole
from braided.spark.key_steps import state_of
from braided.spark.session import check_session, send_file
from braided.store import decode, encode
from braided.values import shown

_WHOLE, _FLAG = re.compile("-?[0-9]+"), re.compile("true|false")


def fleet_stream(
    df: Any,
    *,
    model: MODL | Fleet | str | os.PathLike[str],
    target: str,
    order: str | Sequence[str],
    key: str | None = None,
    share: str | None = None,
    features: Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    weight: str | None = None,
) -> Any:
    """Predict each row of a stream by the model of its key, then learn it.

    Each key's own part is in Spark's state store, in the format of checkpoints. A key's rows in a micro-batch are
    learned in the order of `order`, micro-batches one after the other. So what is said of a row, and what a key has
    learned, are those of a `braided.Fleet` in one process that is given the same rows in the same order, bit for bit:
    of `Fleet(model, key, share="none")`, or of the given fleet after `hold_shared`.

    Parameters
    ----------
    df
        A streaming `DataFrame`, or one that is not, for which nothing is kept.
    model
        With `share="none"`, a `MODLClassifier` or `MODLRegressor` that has learned nothing: each key has a whole model.
        Else a `Fleet` that has learned, or the file of one. What its keys share stays as it is, since a state store
        shows a key its own state alone; its keys go on from where they stand, and new ones start from what is shared.
    target
        The column with the label or value. A row in which it is null is predicted, and not learned.
    order
        One column or several: times, numbers or text, never null. Rows of a key that are equal in them are learned in
        the order of their text.
    key
        The column with the key: text, whole numbers or booleans; a key is its text, as of a `Fleet`. The fleet's own
        if None. A row without a key, or with a blank one, is predicted by what is shared, and not learned.
    share
        Needed, as "none", for a model alone; a fleet has its own.
    features
        The columns that are features; all that are nothing else if None.
    keep
        Columns to give back beside the answers, which are then no features unless `features` names them.
    weight
        The column with the weight of a row; each counts as 1 if None.

    Returns
    -------
    A `DataFrame` with a row for each row: the key, the columns of the order, those to keep, and `prediction`. For
    classes that is the likeliest label, null before the key knows any, and beside it is `probabilities`, a map from
    labels.
    """
    processor = require("braided.spark.processor", "spark")
    require("google.protobuf", "spark")
    if not hasattr(df, "sparkSession") or not hasattr(df, "dtypes"):
        raise BraidedError(f"df is {shown(df)}: give a DataFrame of Spark's")
    if len(set(df.columns)) < len(df.columns):
        raise BraidedError("the stream has two columns of one name: rename one of them")
    fleet = made_fleet(model, key, share)
    columns = chosen_columns(dict(df.dtypes), fleet, key or str(fleet.key), target, order, weight, features, keep)
    check_session(df.sparkSession)
    start = _initial_state(df.sparkSession, fleet, columns)
    file = send_file(df.sparkSession, saved_without_keys(fleet))
    answers = columns.sent(df).groupBy("key").transformWithStateInPandas(
        processor.FleetProcessor(file, columns), columns.answers(), "Update", "None", initialState=start
    )  # fmt: skip
    return columns.received(answers)


def made_fleet(model: Any, key: Any, share: str | None) -> Fleet:
    """A fleet of this query's own, with what keys share held."""
    if isinstance(model, MODL):
        if share != "none":
            raise BraidedError(
                f"share is {share!r} with a model alone, and a state store shows a key its own state alone: give "
                "share='none', or a Fleet that has learned, whose shared part stays as it is"
            )
        if key is None:
            raise BraidedError("key is None: name the column with the key")
        if model.encode:
            raise BraidedError(
                "the model has encode=True, and what columns of text mean is learned from the records of all keys: "
                "give a Fleet with share='none' that has learned, for which that stays as it is"
            )
        return Fleet(model, key, share)
    if isinstance(model, Fleet):
        fleet = Fleet.restore(*model.snapshot(), model.model.learners)
    elif isinstance(model, str | os.PathLike):
        fleet = Fleet.load(model)
    else:
        raise BraidedError(f"model is {shown(model)}: give a Fleet, the file of one, or an estimator with share='none'")
    if share not in (None, fleet.share):
        raise BraidedError(f"share is {share!r}, and the fleet has {fleet.share!r}: leave it out")
    fleet.hold_shared()
    return fleet


def chosen_columns(
    kinds: dict[str, str],
    fleet: Fleet,
    key: str,
    target: str,
    order: Any,
    weight: str | None,
    features: Any,
    keep: Any,
) -> Columns:
    """What the columns are, checked against the types of the stream's and against the fleet."""
    ordered, kept = names("order", order), names("keep", keep)
    taken = {key, target, weight, *ordered, *kept}
    chosen = [name for name in kinds if name not in taken] if features is None else names("features", features)
    kept = list(dict.fromkeys([*ordered, *(name for name in kept if name != key)]))
    columns = Columns(key, target, weight, tuple(ordered), tuple(chosen), tuple(kept), kinds, fleet.task == REGRESSION)
    encodes = bool(fleet.model.encode)
    columns.check(encodes)
    _check_text(columns, fleet)
    known = fleet.feature_names
    if known and not encodes and not set(known) & set(chosen):
        raise BraidedError(
            f"no feature of the stream is known to the fleet, which has {', '.join(map(str, known[:5]))} and so on: "
            "give the columns the names that they had when it learned"
        )
    _check_classes(columns, fleet)
    return columns


def _check_classes(columns: Columns, fleet: Fleet) -> None:
    """Refuse a target whose type is not that of the fleet's classes, none of which it could ever name."""
    if columns.regression:
        return
    kind = columns.kinds[columns.target]
    wanted = type(unpacked("1", kind))
    strange = [label for label in fleet.classes if type(label) is not wanted]
    if strange:
        listed = ", ".join(map(shown, strange[:3]))
        raise BraidedError(f"the fleet has classes such as {listed}, and column {columns.target!r} is {kind}: cast it")


def _check_text(columns: Columns, fleet: Fleet) -> None:
    """Refuse text of which the fleet has settled nothing: what it is would depend on where micro-batches are cut."""
    settled = () if fleet.encoder is None else fleet.encoder.kinds
    for name in columns.features:
        if columns.kinds[name] == "string" and name not in settled:
            raise BraidedError(
                f"column {name!r} is text, and the fleet has learned no such column: leave it out of features, or let "
                "the fleet learn it before"
            )


def saved_without_keys(fleet: Fleet) -> bytes:
    """What workers are sent of a fleet, which has no keys afterwards; refused if they could not make it of that."""
    for known in fleet.keys:
        fleet.forget_key(known)
    saved = encode(KIND, *fleet.snapshot())
    checkpoint = decode(saved, "of the query", KIND)
    Fleet.restore(checkpoint.metadata, checkpoint.arrays)
    return saved


def _check_keys(columns: Columns, fleet: Fleet) -> None:
    """Refuse a column that can have none of the fleet's keys."""
    kind = columns.kinds[columns.key]
    fits = _WHOLE if whole(kind) else _FLAG if kind == "boolean" else None
    if fits is not None and not any(map(fits.fullmatch, fleet.keys)):
        listed = ", ".join(map(shown, fleet.keys[:3]))
        raise BraidedError(f"the fleet has keys such as {listed}, and column {columns.key!r} is {kind}: cast it")


def _initial_state(spark: Any, fleet: Fleet, columns: Columns) -> Any:
    """What the fleet's keys have, for the first micro-batch; None if there are none."""
    if not fleet.keys:
        return None
    _check_keys(columns, fleet)
    rows = [(known, bytearray(state_of(fleet, known))) for known in fleet.keys]
    return spark.createDataFrame(rows, "key string, state binary").groupBy("key")
