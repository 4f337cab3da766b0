"""The files that `crafted_checkpoints` changes: of models, fleets, the service and runs, each of which has learned."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import drift

from braided import Encoder, Fleet, MODLClassifier, MODLRegressor, presets
from braided.combiners import COMBINERS
from braided.encode.rules import ReadingCounts, Rules
from braided.evaluation import Evaluation
from braided.fleet import KIND, SHARES
from braided.learners import LEARNERS, FourierConfig, HedgeConfig, LinearConfig, LogisticConfig, MLPConfig, SetConfig
from braided.presets import Preset
from braided.records import Records
from braided.run.checkpoint import FinishedRun, RunCheckpoint
from braided.run.options import RunOptions
from braided.run.predictions import Written
from braided.serve.records import RecordParser
from braided.serve.requests import WriteRequest
from braided.serve.settings import Limits
from braided.serve.state import ModelState
from braided.store import encode

#: Of a file of predictions.
MACHINES = ("pump", 7, True)
WRITTEN = Written(3, ("p_0", "p_1"))
ROWS = 40


def some_values(n: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
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
    values, labels = some_values(ROWS)
    if model.braid.learners[0].name == "olvf":
        labels = np.minimum(labels, 1)
    if name.startswith("raw"):
        for record, label in zip(raw_records(), labels.tolist(), strict=True):
            model.learn_one(record, label)
    if name != "untaught":
        model.learn_many(values, labels * 1.5 if model.task == "regression" else labels, names=["0", "1", "2"])
    return model


def labelled_items(numeric: bool, key: str | None = None) -> list[dict[str, Any]]:
    values, labels = some_values(ROWS)
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


def raw_records() -> list[dict[str, Any]]:
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
    values, labels = some_values(ROWS)
    y = (labels * 1.5).tolist() if "numbers" in name else labels.tolist()
    fleet.learn_many(values, y, ["0", "1", "2"], keys=[MACHINES[i % 3] for i in range(ROWS)])
    return fleet


def records_of(state: ModelState, items: list[dict[str, Any]]) -> Records:
    """Records of numbers, as the service reads them for this model."""
    parser = RecordParser("y" in items[0], state.regression, Limits(), key=state.key)
    for item in items:
        parser.add(item)
    found = parser.done()
    assert isinstance(found, Records)
    return found


def _served(numeric: bool, raw: bool, name: str) -> bytes:
    fleet = "fleet" in name
    name = name if fleet else "raw classifier" if raw else "default regressor" if numeric else "kalman"
    state = ModelState("m", _fleet(name) if fleet else MODELS[name](), Limits(), "0" * 32, 1.0)
    if state.rules is not None:
        for record in raw_records():
            state.rules.encode_one(record)
    items = labelled_items(numeric, state.key)
    learn = WriteRequest("learn", None, records_of(state, items), "me")
    wait = WriteRequest("observe", None, records_of(state, [{"x": items[0]["x"]}]), id="a", time=1.0)
    for number, request in enumerate((learn, wait), start=1):
        request.number = number
        (outcome,) = state.apply([request])
        assert isinstance(outcome, dict), outcome
    return state.snapshot()


FOLDER = tempfile.TemporaryDirectory()


def run_options(delay: int) -> RunOptions:
    return RunOptions(stream="-", delay=delay)


def _run(numeric: bool, delay: int) -> bytes:
    model = MODELS["lean regressor" if numeric else "greedy"]()
    evaluation = Evaluation(model, delay=delay)
    values, labels = some_values(ROWS)
    evaluation.observe(Records(("0", "1", "2"), values, (labels * 1.5 if numeric else labels).tolist()))
    path = Path(FOLDER.name) / f"{numeric} {delay}"
    done = [FinishedRun("other", 1, evaluation.result(), copy.deepcopy(evaluation.history), evaluation.keys)]
    RunCheckpoint(path, None).save(run_options(delay), done, evaluation, True, ReadingCounts(), None, WRITTEN)
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
