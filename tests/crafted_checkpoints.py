"""Checkpoints that a stranger has changed and signed anew: what each one does, in a process that it may crash.

    python crafted_checkpoints.py SEED FIRST COUNT

tries the cases FIRST to FIRST + COUNT - 1 of a seed, each of which depends on the seed and its number alone. The number
is written before a case is tried, so that the last one written is that of a crash. Every case must be refused by a
BraidedError (by the service a problem), or be harmless: predict, learn, explain and save without a crash. What it
predicts need not make sense, so that what it saves may be refused.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided import BraidedError, Fleet
from braided.encode.saved import summary
from braided.estimators import ESTIMATORS
from braided.fleet import KIND
from braided.records import Records
from braided.run.checkpoint import RunCheckpoint
from braided.serve.problems import HTTPProblem
from braided.serve.requests import WriteRequest
from braided.serve.settings import Limits
from braided.serve.spec import state_from_checkpoint
from braided.serve.state import MODEL_KINDS, ModelState
from braided.store import decode, encode
from crafted_changes import Parts, change_arrays, change_directory, change_metadata
from crafted_sources import (
    FOLDER,
    MACHINES,
    SOURCES,
    WRITTEN,
    labelled_items,
    raw_records,
    records_of,
    run_options,
    some_values,
    source,
)

SECONDS = 20


class Case(NamedTuple):
    """What was changed of which model, and the file."""

    model: str
    changes: str
    content: bytes


def case(seed: int, number: int) -> Case:
    """The case of that number."""
    rng = np.random.default_rng([seed, number])
    # The whole default is slow, and differs from the small one in its sizes alone.
    name = SOURCES[rng.integers(len(SOURCES))]
    if name == "whole default classifier" and rng.integers(4):
        name = "default classifier"
    content = source(name)
    if rng.integers(12) == 0:
        content, said = change_directory(content, rng)
        return Case(name, said, content)
    found = decode(content, name, *MODEL_KINDS)
    parts = Parts(found.kind, found.metadata, found.arrays)
    changes = []
    for _ in range(1 + (rng.integers(4) == 0)):
        change = change_metadata if rng.integers(4) == 0 else change_arrays
        changes.append(change(parts, rng))
    return Case(name, "; ".join(changes), encode(*parts))


def _predict(model: Any, values: NDArray[Any], names: list[str]) -> None:
    said = model.predict_many(values, names) if model.task == "regression" else model.predict_proba_many(values, names)
    assert len(said) == len(values)


def _use(model: Any) -> None:
    """Predict, learn, predict, explain and save."""
    if isinstance(model, Fleet):
        _use_fleet(model)
        return
    names = ["0", "1", "2"]
    values, labels = some_values(30, seed=1)
    if model.encode is not False:
        try:
            for record in raw_records():
                model.learn_one(record, 1.5 if model.task == "regression" else (model.classes or [0])[0])
            model.predict_many(values, names)
        except BraidedError:  # a changed rule may be one that does not fit these records
            return
    _predict(model, values, names)
    known = model.classes or [0, 1]
    y = (labels * 1.5).tolist() if model.task == "regression" else [known[place % len(known)] for place in labels]
    try:
        model.learn_many(values, y, names)
        model.learn_one({"0": 0.5, "new": 1.0}, y[0])  # which takes the place of a name that has expired
    except BraidedError as error:  # the limit on features or classes may be a changed one
        if "max_" not in str(error):
            raise
        return
    _predict(model, values, names)
    try:
        model.explain_one({"0": 1.0, "2": -1.0})
    except BraidedError as error:
        if "explain_one needs" not in str(error):
            raise
    again = decode(encode(type(model).__name__, *model.snapshot()), "again", type(model).__name__)
    with suppress(BraidedError):
        type(model).restore(again.metadata, again.arrays)


def _use_fleet(fleet: Fleet) -> None:
    values, labels = some_values(30, seed=1)
    keys = [(*MACHINES, "new")[i % 4] for i in range(30)]
    known = fleet.classes or [0, 1]
    y = (labels * 1.5).tolist() if fleet.task == "regression" else [known[place % len(known)] for place in labels]
    for _ in range(2):
        assert len(fleet.progress_many(values, ["0", "1", "2"], keys).values) == len(values)
        try:
            fleet.core.check(Records(("0", "1", "2"), values, y, keys=keys))
        except BraidedError as error:  # the limit on features, classes or keys may be a changed one
            if "max_" not in str(error):
                raise
            return
        fleet.learn_many(values, y, ["0", "1", "2"], keys=keys)
    again = decode(encode(KIND, *fleet.snapshot()), "again", KIND)
    with suppress(BraidedError):
        Fleet.restore(again.metadata, again.arrays)


def _restored(found: Case, number: int) -> Any:
    """The model of a case's file, by the way that such files go; None where it was only read."""
    if found.model.startswith("service") and number % 2:
        state = ModelState.restored(decode(found.content, "it", *MODEL_KINDS), Limits())
        json.dumps([state.stats.summary(), state.stats.metrics(), state.stats.strip(9), state.stats.curve(9)])
        records = records_of(state, labelled_items(state.regression, state.key))
        known = state.classes or ["class 1"]
        if not state.regression:
            records = replace(records, targets=[known[i % len(known)] for i in range(len(records))])
        if isinstance(state.apply([WriteRequest("learn", None, records)])[0], HTTPProblem):
            return None
        json.dumps([state.stats.summary(), state.stats.metrics(), state.stats.strip(9), state.stats.curve(9)])
        if state.rules is not None:
            json.dumps(summary(state.rules))
            with suppress(BraidedError):
                for record in raw_records():
                    state.rules.encode_one(record)
        with suppress(BraidedError, HTTPProblem):
            ModelState.restored(decode(state.snapshot(), "again", *MODEL_KINDS), Limits())
        return state.model
    if found.model.endswith("run") or found.model.startswith("run"):
        path = Path(FOLDER.name) / "case"
        path.write_bytes(found.content)
        delay = 3 if "late" in found.model else 0
        job = RunCheckpoint(path, None).load(run_options(delay))
        assert job is not None
        if job.current is None:
            return None
        values, labels = some_values(100, seed=2)
        known = list(job.current.model.classes) or [0]
        y = (labels * 1.5).tolist() if job.current.history.tally.regression else [known[i % len(known)] for i in labels]
        model: Any = job.current.model
        try:
            model.core.check(Records(("0", "1", "2"), values, y))
        except BraidedError:
            return None
        job.current.observe(Records(("0", "1", "2"), values, y))
        job.current.finish()
        json.dumps([job.current.result(), *(run.result for run in job.finished)])
        RunCheckpoint(path, None).save(run_options(delay), job.finished, job.current, True, job.counts, None, WRITTEN)
        with suppress(BraidedError):
            RunCheckpoint(path, None).load(run_options(delay))
        return model
    if number % 3 == 0 and not found.model.startswith("drift"):
        return state_from_checkpoint("m", found.content, Limits()).model
    loaded = decode(found.content, "it", *MODEL_KINDS)
    if loaded.kind == KIND:
        return Fleet.restore(loaded.metadata, loaded.arrays)
    return ESTIMATORS[loaded.kind].restore(loaded.metadata, loaded.arrays)


def try_case(seed: int, number: int) -> str:
    """`refused` or `harmless`; anything else is raised."""
    found = case(seed, number)
    try:
        model = _restored(found, number)
    except BraidedError:
        return "refused"
    except HTTPProblem as problem:
        if problem.status != 422:
            raise
        return "refused"
    if model is not None:
        _use(model)
    return "harmless"


def main() -> None:
    seed, first, count = map(int, sys.argv[1:])
    unraisable: list[str] = []
    sys.unraisablehook = lambda found: unraisable.append(repr(found.exc_value))
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    counted = {"refused": 0, "harmless": 0}
    for name in SOURCES:  # as they are written they are harmless; and kernels are compiled without a limit of time
        _use(_restored(Case(name, "", source(name)), 1))
    for number in range(first, first + count):
        print(number, flush=True)
        signal.alarm(SECONDS)
        try:
            counted[try_case(seed, number)] += 1
            assert not unraisable, unraisable
        except Exception as error:
            found = case(seed, number)
            raise RuntimeError(f"case {number} of {found.model} ({found.changes}): {error!r}") from error
        signal.alarm(0)
    print(json.dumps(counted))


if __name__ == "__main__":
    main()
