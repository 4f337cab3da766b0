"""Checkpoints that a stranger has changed and signed anew: what each one does, in a process that it may crash.

    python crafted_checkpoints.py SEED FIRST COUNT

tries the cases FIRST to FIRST + COUNT - 1 of a seed, each of which depends on the seed and its number alone. The number
is written before a case is tried, so that the last one written is that of a crash. Every case must be refused by a
BraidedError (by the service a problem), or be harmless: predict, learn, explain, save, and be loaded again.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import resource
import signal
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from river import drift

from braided import BraidedError, Encoder, Fleet, MODLClassifier, MODLRegressor, presets
from braided.checkpoint import MAGIC, VERSION, decode, encode
from braided.combiners import COMBINERS
from braided.estimators import ESTIMATORS
from braided.evaluation import Evaluation
from braided.fleet import KIND, SHARES
from braided.learners import LEARNERS, FourierConfig, HedgeConfig, LinearConfig, LogisticConfig, MLPConfig, SetConfig
from braided.presets import Preset
from braided.run.checkpoint import FinishedRun, RunCheckpoint
from braided.run.options import RunOptions
from braided.run.predictions import Written
from braided.serve.commit_group import CommitEntry, CommitGroup
from braided.serve.model_spec import state_from_checkpoint
from braided.serve.model_state import MODEL_KINDS, ModelState
from braided.serve.problems import HTTPProblem
from braided.serve.records import RecordParser
from braided.serve.settings import Limits
from braided.streams import Batch
from braided.streams.encode.rules import ReadingCounts, Rules
from braided.streams.encode.saved import summary

NUMBERS = (math.nan, math.inf, -math.inf, -1.0, 0.5, 2.0**31, 2.0**62, 1e300, -1e300, 1e38)
WHOLE_NUMBERS = (-1, 2**31, 2**62, -(2**63), 1, 7)
#: In place of a value of the metadata.
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 2**31, 2**62, 10**12, 10**400, 0.5, 1e300, -1e300, 1e-300, "", "zz", "kalman", [], [1],
    [[]], {}, {"float": "zz"}, {"float": "0x1p+5000"}, {"tuple": 3}, {"tuple": ["a", 1]}, {"type": "MLPConfig"},
    [{"type": "LogisticConfig"}] * 3,
)  # fmt: skip
#: Of a file of predictions.
MACHINES = ("pump", 7, True)
WRITTEN = Written(3, ("p_0", "p_1"))
SECONDS = 20
ROWS = 40


class Case(NamedTuple):
    """What was changed of which model, and the file."""

    model: str
    changes: str
    content: bytes


class Parts(NamedTuple):
    """A file in its parts, to be changed."""

    kind: str
    metadata: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def _values(n: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 3))
    labels = (values[:, 0] > 0).astype(np.int64) + (values[:, 1] > 1)
    values[rng.random(size=values.shape) < 0.2] = np.nan
    return values, labels


def _small(preset: Preset) -> Preset:
    """A preset with all its parts, none of which is large."""

    def smaller(config: Any) -> Any:
        if isinstance(config, FourierConfig):
            return replace(config, functions=6)
        if isinstance(config, MLPConfig):
            return replace(config, hidden=(5, 4))
        return replace(config, width=6) if isinstance(config, SetConfig) else config

    return replace(
        preset,
        learners=tuple(map(smaller, preset.learners)),
        numeric=tuple(map(smaller, preset.numeric)),
    )


def _models() -> Iterator[tuple[str, Callable[[], Any]]]:
    both = (LogisticConfig(), MLPConfig(hidden=(4,), optimiser="rmsprop"))
    for name in ("default", "classic", "lean", "released"):
        yield f"{name} classifier", lambda name=name: MODLClassifier(_small(presets.get(name)))
        yield f"{name} regressor", lambda name=name: MODLRegressor(_small(presets.get(name)))
    yield "late classifier", lambda: MODLClassifier(_small(presets.default()), delay=4)
    yield "late regressor", lambda: MODLRegressor(_small(presets.default()), delay=4)
    yield "first features", lambda: MODLClassifier(learners=both, first_features=("2", "x"))
    yield "expiring", lambda: MODLClassifier(_small(presets.default()), max_features=3, expire_after=5)
    rules = Rules(na=("-999",), hashed=("order",), text=("note",), text_features=4, decimal=",")
    yield "raw classifier", lambda: MODLClassifier(learners=both, encode=Encoder(rules))
    yield "raw regressor", lambda: MODLRegressor(encode=True, preset=_small(presets.lean()))
    yield "untaught", lambda: MODLClassifier(learners=both)
    for name, kind in COMBINERS.items():
        yield name, lambda name=name: MODLClassifier(learners=both, combiner=name)
        if kind.for_regression:
            numeric = tuple(config.for_regression() for config in both)
            yield f"{name} of numbers", lambda name=name, n=numeric: MODLRegressor(learners=n, combiner=name)
    for config, learner in LEARNERS.items():
        for estimator in (MODLClassifier, MODLRegressor):
            if learner.task in (None, estimator.task):
                only = _small(Preset("one", (config(),), standardise=True)).learners
                yield f"{config.__name__} of {estimator.task}", lambda e=estimator, o=only: e(learners=o)
    yield "diagonal", lambda: MODLClassifier(learners=[LogisticConfig(full_covariance_up_to=2, gain="paper")])
    yield "masks", lambda: MODLRegressor(learners=[LinearConfig(mask_inputs=True)])
    yield "aux-drop", lambda: MODLClassifier(learners=[HedgeConfig(layers=3, width=4, aux_layer=2, base_features=1)])
    detectors = (drift.ADWIN, drift.PageHinkley, drift.binary.DDM, drift.binary.EDDM, drift.binary.FHDDM)
    for detector in (*detectors, drift.binary.HDDMA, drift.binary.HDDMW):
        yield f"drift {detector.__name__}", lambda d=detector: MODLClassifier(learners=both, drift_detector=d())


MODELS = dict(_models())
#: Those of the estimators, of the service, and of `braided run`.
SOURCES = [
    *MODELS,
    "whole default classifier",
    "service",
    "service of numbers",
    "service of raw records",
    *(f"service of a {share} fleet" for share in SHARES),
    *(f"{share} fleet" for share in SHARES),
    "braid fleet of numbers",
    "run",
    "late run",
    "run of numbers",
]


def _taught(name: str) -> Any:
    whole = name == "whole default classifier"
    model = MODLClassifier() if whole else MODELS[name]()
    values, labels = _values(ROWS)
    if model.braid.learners[0].name == "olvf":
        labels = np.minimum(labels, 1)
    if name.startswith("raw"):
        for record, label in zip(_raw_records(), labels.tolist(), strict=True):
            model.learn_one(record, label)
    if name != "untaught":
        model.learn_many(values, labels * 1.5 if model.task == "regression" else labels, names=["0", "1", "2"])
    return model


def _items(numeric: bool, key: str | None = None) -> list[dict[str, Any]]:
    values, labels = _values(ROWS)
    return [
        {
            "x": {
                **{str(j): v for j, v in enumerate(row) if v == v},
                **({} if key is None else {key: MACHINES[i % 3]}),
            },
            "y": float(label) if numeric else f"class {label}",
        }
        for i, (row, label) in enumerate(zip(values.tolist(), labels.tolist(), strict=True))
    ]


def _raw_records() -> list[dict[str, Any]]:
    """Text, dates, and categories that come one after the other."""
    return [
        {"machine": f"M-{i % (1 + i // 8)}", "at": f"2026-03-{1 + i % 28:02}", "order": f"{i}", "note": "it is hot"}
        for i in range(ROWS)
    ]


def _fleet(name: str) -> Fleet:
    share = next(share for share in SHARES if share in name)
    model = MODELS["lean regressor" if "numbers" in name else "kalman"]().clone({"max_features": 20})
    return Fleet(model, key="machine", share=share, max_keys=5, in_memory=2 if share == "start" else None)


def _taught_fleet(name: str) -> Fleet:
    fleet = _fleet(name)
    values, labels = _values(ROWS)
    y = (labels * 1.5).tolist() if "numbers" in name else labels.tolist()
    fleet.learn_many(values, y, ["0", "1", "2"], keys=[MACHINES[i % 3] for i in range(ROWS)])
    return fleet


def _served(numeric: bool, raw: bool, name: str) -> bytes:
    fleet = "fleet" in name
    name = name if fleet else "raw classifier" if raw else "default regressor" if numeric else "kalman"
    state = ModelState("m", _fleet(name) if fleet else MODELS[name](), Limits(), bytes(16), 1.0)
    if state.rules is not None:
        for record in _raw_records():
            state.rules.encode_one(record)
    for number, kind in enumerate(("learn", "observe"), start=1):
        labelled = kind == "learn"
        reader = RecordParser(labelled, numeric, Limits(), key=state.key)
        items = _items(numeric, state.key) if labelled else _items(numeric, state.key)[:1]
        for item in items:
            reader.add(item if labelled else {"x": item["x"]})
        records = reader.done()
        if not labelled:
            records = replace(records, labels=[None])
        entry = CommitEntry(kind, len(items), "me", id=None if labelled else "a", time=1.0)
        state.apply(number, CommitGroup([entry], records))
    return state.snapshot()


_FOLDER = tempfile.TemporaryDirectory()


def _run_options(delay: int) -> RunOptions:
    return RunOptions(stream="-", delay=delay)


def _run(numeric: bool, delay: int) -> bytes:
    model = MODELS["lean regressor" if numeric else "greedy"]()
    evaluation = Evaluation(model, delay=delay)
    values, labels = _values(ROWS)
    evaluation.observe(Batch(("0", "1", "2"), values, (labels * 1.5 if numeric else labels).tolist()))
    path = Path(_FOLDER.name) / f"{numeric} {delay}"
    done = [FinishedRun("other", 1, evaluation.result(), copy.deepcopy(evaluation.history))]
    RunCheckpoint(path, None).save(_run_options(delay), done, evaluation, True, ReadingCounts(), None, WRITTEN)
    return path.read_bytes()


@cache
def source(name: str) -> bytes:
    """The file of one of `SOURCES`, as it was written."""
    if name.startswith("service"):
        return _served("numbers" in name, "raw" in name, name)
    if "fleet" in name:
        return encode(KIND, *_taught_fleet(name).snapshot())
    if name.endswith("run") or name.startswith("run"):
        return _run("numbers" in name, 3 if "late" in name else 0)
    model = _taught(name)
    return encode(type(model).__name__, *model.snapshot())


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _paths(item, (*path, key))


def _change_metadata(parts: Parts, rng: np.random.Generator) -> str:
    paths = list(_paths(parts.metadata))
    # As many changes near the top as in long lists far below.
    depth = rng.integers(1, max(map(len, paths)) + 1)
    near = [path for path in paths if len(path) <= depth]
    path = near[rng.integers(len(near))]
    *above, last = path
    owner: Any = parts.metadata
    for key in above:
        owner = owner[key]
    what = rng.integers(len(VALUES) + 4)
    if what < len(VALUES):
        owner[last] = copy.deepcopy(VALUES[what])
        return f"{path} = {str(VALUES[what])[:40]}"
    if what == len(VALUES) and isinstance(owner, list):
        owner.append(owner[last])
        return f"{path} twice"
    if what == len(VALUES) + 1 and isinstance(owner[last], int | float):
        owner[last] = -owner[last] - 1
        return f"{path} negated"
    if what == len(VALUES) + 2 and isinstance(owner, dict):
        owner["surprise"] = owner[last]
        return f"{path} under another name, too"
    del owner[last]
    return f"{path} deleted"


def _change_numbers(array: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], str]:
    """Some element, column or all of an array as another number."""
    array = array.copy()
    choices: tuple[Any, ...] = WHOLE_NUMBERS if array.dtype.kind == "i" else NUMBERS
    number = choices[rng.integers(len(choices))]
    at: Any = tuple(int(rng.integers(n)) for n in array.shape)
    how = rng.integers(6)
    if how == 0:
        at = (..., at[-1]) if at else ()
    elif how == 1:
        at = ...
    with np.errstate(over="ignore"):
        array[at] = number
    return array, f"{at} = {number}"


def _change_shape(array: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], str]:
    how = int(rng.integers(8))
    if how == 0:
        return np.concatenate([array, array[:1]]), "one more row"
    if how == 1:
        return array[:-1], "one row less"
    if how == 2:
        return np.ascontiguousarray(array.T), "transposed"
    if how == 3:
        return array[:0], "empty"
    if how == 4:
        return array.ravel()[:1].reshape(()) if array.size else np.zeros((), array.dtype), "a single number"
    if how == 5:
        return array[..., None], "one dimension more"
    if how == 6:
        return np.repeat(array, 3, axis=-1) if array.ndim else array, "three times as wide"
    with np.errstate(all="ignore"):
        kind = ("float32", "float64", "int64")[rng.integers(3)]
        return np.nan_to_num(array).astype(kind), f"as {kind}"


def _change_arrays(parts: Parts, rng: np.random.Generator) -> str:
    names = list(parts.arrays)
    name = names[rng.integers(len(names))]
    array = parts.arrays[name]
    how = rng.integers(10)
    if how < 6 and array.size:
        parts.arrays[name], said = _change_numbers(array, rng)
    elif how < 8 and array.ndim:
        parts.arrays[name], said = _change_shape(array, rng)
    elif how == 8:
        other = names[rng.integers(len(names))]
        parts.arrays[name], parts.arrays[other] = parts.arrays[other], array
        said = f"swapped with {other}"
    elif rng.integers(2):
        parts.arrays[f"{name} 2"] = array
        said = "once more"
    else:
        del parts.arrays[name]
        said = "deleted"
    return f"{name} {said}"


def signed(header: bytes, blobs: bytes) -> bytes:
    """A file of this header, whose checksum is right."""
    start = struct.pack("<8sIQQ", MAGIC, VERSION, len(header), 28 + len(header) + len(blobs) + 32)
    return start + header + blobs + hashlib.sha256(start + header + blobs).digest()


def _change_directory(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Another header, signed anew."""
    (length,) = struct.unpack_from("<Q", content, 12)
    text, blobs = content[28 : 28 + length], content[28 + length : -32]
    header = json.loads(text)
    how = int(rng.integers(8))
    if how == 0:
        texts = (b"{", b"[]", b"3", b"", b"\xff", b"[" * 100_000, b"{}", b'{"kind": NaN}', b"1" * 5_000)
        text = texts[rng.integers(len(texts))]
        return signed(text, blobs), f"header {text[:20]!r}"
    if how == 1:
        key = list(header)[rng.integers(3)]
        header[key] = VALUES[rng.integers(len(VALUES))]
        said = f"{key} = {str(header[key])[:40]}"
    else:
        entries = header["arrays"]
        place = int(rng.integers(len(entries)))
        key = ("name", "dtype", "shape", "start")[rng.integers(4)]
        others: dict[str, tuple[Any, ...]] = {
            "name": (entries[0]["name"], 3, None, ["a"], "zz"),
            "dtype": ("<f2", "O", "<i4", "<U9", ">f8", 8, None, ["<f8"], "zz", "<f8", "<i8", "<f4"),
            "shape": (
                [-1],
                [2**62],
                [2**31, 2**33, 2**33],
                [0, 2**70],
                [0.5],
                ["a"],
                [True],
                None,
                3,
                [1] * 70,
                [0] * 9,
            ),
            "start": (-1, len(blobs), 2**62, 10**30, 0.5, None, "0", 1, 3),
        }
        entries[place][key] = others[key][rng.integers(len(others[key]))]
        if rng.integers(6) == 0:
            del entries[place][key]
        said = f"directory {place} {key} = {entries[place].get(key)}"
    return signed(json.dumps(header).encode(), blobs), said


def case(seed: int, number: int) -> Case:
    """The case of that number."""
    rng = np.random.default_rng([seed, number])
    # The whole default is slow, and differs from the small one in its sizes alone.
    name = SOURCES[rng.integers(len(SOURCES))]
    if name == "whole default classifier" and rng.integers(4):
        name = "default classifier"
    content = source(name)
    if rng.integers(12) == 0:
        content, said = _change_directory(content, rng)
        return Case(name, said, content)
    found = decode(content, name, *MODEL_KINDS)
    parts = Parts(found.kind, found.metadata, found.arrays)
    changes = []
    for _ in range(1 + (rng.integers(4) == 0)):
        change = _change_metadata if rng.integers(4) == 0 else _change_arrays
        changes.append(change(parts, rng))
    return Case(name, "; ".join(changes), encode(*parts))


def _check_answers(model: Any, values: NDArray[Any], names: list[str]) -> None:
    if model.task == "regression":
        assert np.isfinite(model.predict_many(values, names)).all(), "a prediction is not finite"
        return
    said = model.predict_proba_many(values, names)
    if said.shape[1]:
        assert np.isfinite(said).all(), "a probability is not finite"
        assert np.allclose(said.sum(axis=1), 1.0, atol=1e-6), "probabilities do not sum to 1"


def _use(model: Any) -> None:
    """Predict, learn, predict, explain, save and load."""
    if isinstance(model, Fleet):
        _use_fleet(model)
        return
    names = ["0", "1", "2"]
    values, labels = _values(30, seed=1)
    if model.encode is not False:
        try:
            for record in _raw_records():
                model.learn_one(record, 1.5 if model.task == "regression" else (model.classes or [0])[0])
            model.predict_many(values, names)
        except BraidedError:  # a changed rule may be one that does not fit these records
            return
    _check_answers(model, values, names)
    known = model.classes or [0, 1]
    y = (labels * 1.5).tolist() if model.task == "regression" else [known[place % len(known)] for place in labels]
    try:
        model.learn_many(values, y, names)
        model.learn_one({"0": 0.5, "new": 1.0}, y[0])  # which takes the place of a name that has expired
    except BraidedError as error:  # the limit on features or classes may be a changed one
        if "max_" not in str(error):
            raise
        return
    _check_answers(model, values, names)
    try:
        model.explain_one({"0": 1.0, "2": -1.0})
    except BraidedError as error:
        if "explain_one needs" not in str(error):
            raise
    again = decode(encode(type(model).__name__, *model.snapshot()), "again", type(model).__name__)
    type(model).restore(again.metadata, again.arrays)


def _use_fleet(fleet: Fleet) -> None:
    values, labels = _values(30, seed=1)
    keys = [(*MACHINES, "new")[i % 4] for i in range(30)]
    known = fleet.classes or [0, 1]
    y = (labels * 1.5).tolist() if fleet.task == "regression" else [known[place % len(known)] for place in labels]
    for _ in range(2):
        said = fleet.progress_many(values, ["0", "1", "2"], keys).predictions
        assert np.isfinite(said).all(), "a prediction is not finite"
        try:
            fleet.dry_run().learn_many(values, y, ["0", "1", "2"], keys=keys)
        except BraidedError as error:  # the limit on features, classes or keys may be a changed one
            if "max_" not in str(error):
                raise
            return
        fleet.learn_many(values, y, ["0", "1", "2"], keys=keys)
    again = decode(encode(KIND, *fleet.snapshot()), "again", KIND)
    Fleet.restore(again.metadata, again.arrays)


def _restored(found: Case, number: int) -> Any:
    """The model of a case's file, by the way that such files go; None where it was only read."""
    if found.model.startswith("service") and number % 2:
        state = ModelState.restored(decode(found.content, "it", *MODEL_KINDS), Limits())
        json.dumps([state.stats.summary(), state.stats.metrics(), state.stats.strip(9), state.stats.curve(9)])
        reader = RecordParser(True, state.regression, Limits(), key=state.key)
        for item in _items(state.regression, state.key):
            reader.add(item)
        records = reader.done()
        known = state.classes or ["class 1"]
        if not state.regression:
            records = replace(records, labels=[known[i % len(known)] for i in range(len(records))])
        try:
            table = next(records.tables())[1]
            state.model.dry_run().learn_many(table, records.labels, records.names, **records.key_of(slice(None)))
        except BraidedError:
            return None
        state.apply(state.number + 1, CommitGroup([CommitEntry("learn", len(records))], records))
        json.dumps([state.stats.summary(), state.stats.metrics(), state.stats.strip(9), state.stats.curve(9)])
        if state.rules is not None:
            json.dumps(summary(state.rules))
            with suppress(BraidedError):
                for record in _raw_records():
                    state.rules.encode_one(record)
        ModelState.restored(decode(state.snapshot(), "again", *MODEL_KINDS), Limits())
        return state.model
    if found.model.endswith("run") or found.model.startswith("run"):
        path = Path(_FOLDER.name) / "case"
        path.write_bytes(found.content)
        delay = 3 if "late" in found.model else 0
        job = RunCheckpoint(path, None).load(_run_options(delay))
        assert job is not None
        if job.current is None:
            return None
        values, labels = _values(100, seed=2)
        known = list(job.current.model.classes) or [0]
        y = (labels * 1.5).tolist() if job.current.history.regression else [known[i % len(known)] for i in labels]
        model: Any = job.current.model
        try:
            model.dry_run().learn_many(values, y, ["0", "1", "2"])
        except BraidedError:
            return None
        job.current.observe(Batch(("0", "1", "2"), values, y))
        job.current.finish()
        json.dumps([job.current.result(), *(run.result for run in job.finished)])
        RunCheckpoint(path, None).save(_run_options(delay), job.finished, job.current, True, job.counts, None, WRITTEN)
        RunCheckpoint(path, None).load(_run_options(delay))
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
