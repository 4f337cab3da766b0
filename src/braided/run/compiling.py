"""Compiling the models' code ahead, and telling that it takes a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from braided.estimators.base import MODL
from braided.estimators.warm_up import warm_up
from braided.fleet import Fleet, warm_up_fleet
from braided.kernels import loop
from braided.records import Records
from braided.streams import ArrayStream
from braided.streams.decimal import POWERS, parse_lines

#: Seconds from which on it was a compilation, whatever the cache looked like.
_LONG = 10.0


def compiled_before() -> bool:
    """Whether the disk cache has the record loop, which is compiled for every model."""
    index = getattr(getattr(loop.run._cache, "_cache_file", None), "_index_path", None)
    return index is not None and Path(index).exists()


def compile_model(model: Any, tell: Callable[[str], None]) -> None:
    """Compile all that a model calls, or load it, and tell if it is the first time."""
    first = isinstance(model, MODL | Fleet) and not compiled_before()
    if first:
        tell("compiling the model's code, which is done once and takes about a minute; `braided warm-up` does it ahead")
    start = time.perf_counter()
    warm_up(model.model if isinstance(model, Fleet) else model)
    if isinstance(model, Fleet):
        warm_up_fleet(model)
    seconds = time.perf_counter() - start
    if first or seconds > _LONG:
        tell(f"compiled in {seconds:.0f} s")


def compile_reading() -> None:
    """Compile what reads numbers from CSV files."""
    block = np.frombuffer(b"1,2\n", dtype=np.uint8)
    parse_lines(block, np.uint8(ord(",")), np.ones(2, dtype=np.bool_), POWERS, np.empty((2, 2), dtype=np.uint64))


def tiny_stream(regression: bool) -> ArrayStream:
    """A stream that takes a run through all that runs do."""
    labels: list[Any] = [0.5, 1.5, 2.5, 3.5] if regression else ["a", "b", "c", "a"]
    return ArrayStream("warm-up", Records(("x",), np.arange(4.0)[:, None], labels))
