"""The figures of a served model: those of an evaluation, kept through snapshots, also of earlier versions."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from help_serve import records, rows, small_model

from braided import MODLRegressor, record
from braided.checkpoint import decode
from braided.estimators import ESTIMATORS
from braided.kernels.tally import LAST, USUAL
from braided.learners import LinearConfig
from braided.serve.model_state import ModelState
from braided.serve.settings import Limits

OLD = Path(__file__).parent / "of_version_0_1" / "model.snapshot"


def learned(n: int, **settings: Any) -> ModelState:
    state = ModelState("m", small_model(**settings), Limits())
    state._learn(records(rows(n)), live=True)
    return state


def test_the_figures_are_those_of_an_evaluation() -> None:
    state = learned(400)
    history = record(small_model(), [(item["x"], item["y"]) for item in rows(400)])
    summary = state.stats.summary()
    assert summary["error"] == history.error
    assert [learner["error"] for learner in summary["learners"]] == list(history.learner_errors.values())
    assert state.stats.metrics() == {"metrics": history.metrics(), "window_metrics": history.window_metrics()}
    labels = [item["y"] for item in rows(400)]
    repeated = (1 + sum(one != other for one, other in pairwise(labels))) / 400
    majority, last = summary["plain_guesses"]
    assert majority["error"] == history.totals[USUAL] / 400
    assert last == {"name": "last label", "error": repeated, "window_error": pytest.approx(repeated)}
    assert state.stats.curve(50)[-1][1:] == [
        summary["error"], *(one["error"] for one in summary["learners"] + summary["plain_guesses"])
    ]  # fmt: skip
    shares = {one["name"]: one["count"] for one in summary["availability"]}
    assert shares == dict(zip(history.features, history.present.tolist(), strict=True))


def test_the_strip_begins_with_the_least_available() -> None:
    items = [{"x": {"a": 1.0} | ({"b": 1.0} if t % 2 else {}) | ({"c": 1.0} if t < 9 else {}), "y": t % 2}
             for t in range(100)]  # fmt: skip
    state = ModelState("m", small_model(), Limits())
    assert state.stats.strip(2) == []
    state._learn(records(items), live=True)
    assert state.stats.strip(2) == [["c", [0.18, 0.0]], ["b", [0.5, 0.5]]]


def test_a_snapshot_of_version_0_1_goes_on() -> None:
    """It was written by that version after 300 of these records."""
    state = ModelState.restored(decode(OLD.read_bytes(), "old", *ESTIMATORS), Limits())
    straight = learned(300, preset="classic")
    old, new = state.stats.summary(), straight.stats.summary()
    for name in ("records", "error", "availability"):
        assert old[name] == new[name], name
    assert [row[:-2] for row in state.stats.curve(50)] == [row[:-2] for row in straight.stats.curve(50)]
    assert state.stats.curve(50)[-1][-2:] == [None, None], "what the plain guesses lost until then is not known"
    assert state.stats.strip(10) == straight.stats.strip(10)
    assert old["window"] == 0, "of the last records nothing is known but their errors"
    assert state.stats.metrics()["metrics"]["accuracy"] == pytest.approx(1 - old["error"])
    assert state.stats.metrics()["metrics"]["kappa"] is None
    later = records(rows(360)[300:])
    state._learn(later, live=True)
    straight._learn(later, live=True)
    assert state.stats.summary()["error"] == straight.stats.summary()["error"]
    assert state.stats.summary()["window"] == 60
    again = ModelState.restored(decode(state.snapshot(), "new", *ESTIMATORS), Limits())
    assert again.stats.metrics() == state.stats.metrics()
    assert again.stats.summary() | {"records_per_second": 0} == state.stats.summary() | {"records_per_second": 0}


def test_an_older_regression_has_the_error_it_had() -> None:
    model = MODLRegressor(learners=(LinearConfig(),))
    state = ModelState("m", model, Limits())
    older = {"records": 4, "interval": 1, "names": ["f0"]}
    points = np.column_stack([np.arange(1.0, 5.0), np.arange(1.0, 5.0), np.arange(1.0, 5.0)])
    arrays = {
        "totals": np.array([4.0, 4.0]),
        "points": points,
        "present": np.array([4]),
        "blocks": np.zeros((40, 1), int),
    }
    state.stats.load_state(older, arrays)
    found = state.stats.metrics()["metrics"]
    assert found == {"mae": 1.0, "rmse": None, "r2": None}
    assert state.stats.summary()["error"] == 1.0


def test_a_snapshot_without_the_last_label_goes_on() -> None:
    """As it was before that guess was counted: its errors are known once the window is full of newer records."""
    straight = learned(300)
    metadata, arrays = straight.stats.state()
    for name, place in (("curve/points", 1 + LAST), ("curve/totals", LAST), ("_last_losses", LAST)):
        arrays[f"tally/{name}"] = np.delete(arrays[f"tally/{name}"], place, axis=-1)
    arrays["tally/_best"] = arrays.pop("tally/guesses/said")[:1]
    del arrays["tally/guesses/seen"]
    state = ModelState("m", small_model(), Limits())
    state.stats.load_state(metadata, arrays)
    assert state.stats.summary()["plain_guesses"][1]["window_error"] is None
    later = records(rows(1_200))
    for one in (state, straight):
        one._learn(later, live=True)
    (majority, last), (majority_2, last_2) = (one.stats.summary()["plain_guesses"] for one in (state, straight))
    assert majority == majority_2
    assert last == last_2 | {"error": None}


def test_a_restart_keeps_the_plain_guesses() -> None:
    straight = learned(300)
    again = ModelState.restored(decode(straight.snapshot(), "new", *ESTIMATORS), Limits())
    for state in (straight, again):
        state._learn(records(rows(310)[300:]), live=True)
    assert again.stats.summary()["plain_guesses"] == straight.stats.summary()["plain_guesses"]
    assert again.stats.curve(400) == straight.stats.curve(400)
