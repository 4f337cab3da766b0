"""Two keyed streams with all that may happen in one, as files for Spark and as what `Fleet` takes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from braided import Fleet, MODLClassifier, MODLRegressor
from braided.store import encode

FILES, ROWS, HISTORY = 4, 60, 120
FEATURES = [f"f{j}" for j in range(5)]
#: By the name of a query, what `fleet_stream` is told.
CLASSES = {"target": "label", "order": "time", "keep": ["id"], "weight": "weight"}
VALUES = {"target": "value", "order": ["day", "number"], "keep": ["id"], "features": ["f0", "f1", "f2"]}
#: With a separate model for each key.
ALONE = {"key": "station", "share": "none"}


def frame(n: int, seed: int) -> pd.DataFrame:
    """Rows of a few keys, with nulls wherever there may be some."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(n, len(FEATURES)))
    key = random.integers(6, size=n)
    score = (np.random.default_rng(7).normal(size=(6, len(FEATURES)))[key] * values).sum(axis=1)
    found = pd.DataFrame(values, columns=FEATURES).mask(random.random(values.shape) < 0.1)
    padded = [f"\u2003pump {k}\t " if i % 7 == 3 else f"pump {k}" for i, k in enumerate(key)]
    found["machine"] = [None if i % 31 == 30 else text for i, text in enumerate(padded)]
    found["station"] = key
    found["colour"] = [None if i % 11 == 3 else ("red", "blue", "green")[k % 3] for i, k in enumerate(key)]
    found["label"] = [None if i % 13 == 5 else bool(s > 0) for i, s in enumerate(score)]
    found["value"] = np.where(np.arange(n) % 17 == 6, np.nan, 3.0 * score + 10.0)
    found["weight"] = 1.0 + (np.arange(n) % 3 == 0)
    found["time"] = pd.Timestamp("2026-10-25 00:50", tz="UTC") + pd.to_timedelta(np.arange(n), unit="min")
    found["day"] = [pd.Timestamp("2026-10-25").date()] * n
    found["number"] = np.arange(n)
    found["id"] = pd.array([None if i % 19 == 4 else 2**60 + i for i in range(n)], dtype="Int64")
    return found


def learned(path: Path) -> None:
    """A fleet that knows four of the six keys, in a file."""
    past = frame(HISTORY, seed=1)
    past = past[past["machine"].notnull() & past["label"].notnull() & (past["station"] < 4)]
    fleet = Fleet(MODLClassifier(), key="machine")
    fleet.learn_many(past[[*FEATURES, "machine"]], past["label"].tolist())
    fleet.save(path)


def alone() -> MODLRegressor:
    """What each key of the second query has."""
    return MODLRegressor(preset="lean")


def digests(fleet: Fleet) -> dict[str, str]:
    """Of all that each key has learned."""
    return {key: hashlib.sha256(encode("FleetKey", *fleet.snapshot_key(key))).hexdigest() for key in fleet.keys}


def write(folder: Path) -> pd.DataFrame:
    """The rows as files, those of each in no order; returns them in order."""
    found = frame(FILES * ROWS, seed=2)
    folder.mkdir()
    for part in range(FILES):
        rows = found[part * ROWS : (part + 1) * ROWS].sample(frac=1.0, random_state=part)
        rows.to_parquet(folder / f"{part}.parquet", index=False, coerce_timestamps="us")
    return found


def in_one_process(rows: pd.DataFrame, path: Path) -> dict[str, tuple[list[Any], Fleet]]:
    """What `Fleet` says of the rows, and is in the end."""
    classes = Fleet.load(path)
    classes.hold_shared()
    values = Fleet(alone(), key="station", share="none")
    said: dict[str, list[Any]] = {"classes": [], "values": []}
    for row in rows.astype(object).where(rows.notnull(), None).to_dict("records"):
        x = {name: row[name] for name in (*FEATURES, "machine")}
        said["classes"].append({label: share for label, share in classes.predict_proba_one(x).items() if share > 0.0})
        if row["label"] is not None and row["machine"] is not None:
            classes.learn_one(x, row["label"], row["weight"])
        x = {name: row[name] for name in ("f0", "f1", "f2", "station")}
        said["values"].append(values.predict_one(x))
        if row["value"] is not None:
            values.learn_one(x, row["value"])
    return {"classes": (said["classes"], classes), "values": (said["values"], values)}
