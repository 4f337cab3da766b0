"""River's bundled data sets and generators as streams by name, for breadth."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from braided.records import Records
from braided.streams.base import ArrayStream

#: Records taken of a generator that has no end.
RECORDS = 10_000
_MakeRecords = Callable[[], Iterable[tuple[dict[Any, Any], Any]]]


def _from_river(module: str, name: str, **arguments: Any) -> _MakeRecords:
    def make() -> Iterable[tuple[dict[Any, Any], Any]]:
        return getattr(importlib.import_module(module), name)(**arguments)  # type: ignore[no-any-return]

    return make


_bundled = partial(_from_river, "river.datasets")
_generated = partial(_from_river, "river.datasets.synth")


def _changing(before: _MakeRecords, after: _MakeRecords) -> _MakeRecords:
    """One concept up to the middle, then another."""

    def make() -> Iterable[tuple[dict[Any, Any], Any]]:
        yield from islice(before(), RECORDS // 2)
        yield from islice(after(), RECORDS // 2)

    return make


_sea = partial(_generated, "SEA", noise=0.1, seed=1)
_agrawal = partial(_generated, "Agrawal", seed=1)
_rbf = {"seed_model": 1, "seed_sample": 1, "n_classes": 4, "n_features": 10, "n_centroids": 30}

#: Name -> how its records are made. Generators have a fixed seed: a stream is the same every time.
RIVER_STREAMS: dict[str, _MakeRecords] = {
    "phishing": _bundled("Phishing"),
    "segments": _bundled("ImageSegments"),
    "bananas": _bundled("Bananas"),
    "sea": _sea(variant=0),
    "sea-drift": _changing(_sea(variant=0), _sea(variant=2)),
    "hyperplane": _generated("Hyperplane", seed=1, n_features=10, n_drift_features=5, mag_change=0.001),
    "led": _generated("LED", seed=1, noise_percentage=0.1, irrelevant_features=True),
    "rbf": _generated("RandomRBF", **_rbf),
    "rbf-drift": _generated("RandomRBFDrift", **_rbf, change_speed=0.0005, n_drift_centroids=15),
    "agrawal": _agrawal(classification_function=4, perturbation=0.05),
    "agrawal-drift": _changing(_agrawal(classification_function=1), _agrawal(classification_function=6)),
}


def _numbers(column: Iterable[Any]) -> list[float]:
    """The values of a column; words are numbered in the order they appear."""
    places: dict[str, int] = {}
    return [float(places.setdefault(v, len(places)) if isinstance(v, str) else v) for v in column]


def _in_memory(name: str, records: Iterable[tuple[dict[Any, Any], Any]]) -> ArrayStream:
    rows, labels = zip(*records, strict=True)
    names = tuple(rows[0])
    values = np.column_stack([_numbers(x[key] for x in rows) for key in names])
    return ArrayStream(name, Records(names, values, [y.item() if isinstance(y, np.generic) else y for y in labels]))


def load(name: str) -> ArrayStream:
    """The stream of that name, in memory.

    >>> load("bananas").n_records
    5300
    """
    bundled = name in {"phishing", "segments", "bananas"}
    return _in_memory(name, islice(RIVER_STREAMS[name](), None if bundled else RECORDS))


def shuttle() -> ArrayStream:
    """River's bundled Shuttle data: 9 sensors of a space shuttle, 49,097 records, 7% anomalies."""
    return _in_memory("shuttle", _bundled("Shuttle")())
