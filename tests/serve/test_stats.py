"""The figures of a served model: those of an evaluation, kept through snapshots."""

from __future__ import annotations

from itertools import pairwise

import pytest
from help_serve import rows, saved_and_restored, small_model, state_of

from braided import record
from braided.kernels.tally import USUAL
from braided.serve.stats import Stats


def test_the_figures_are_those_of_an_evaluation() -> None:
    state = state_of(rows(400))
    history = record(small_model(), [(item["x"], item["y"]) for item in rows(400)])
    summary = state.stats.summary()
    assert summary["error"] == history.error
    assert [learner["error"] for learner in summary["learners"]] == list(history.tally.learner_errors.values())
    assert state.stats.metrics() == {"metrics": history.metrics(), "window_metrics": history.tally.window_metrics()}
    labels = [item["y"] for item in rows(400)]
    repeated = (1 + sum(one != other for one, other in pairwise(labels))) / 400
    majority, last = summary["plain_guesses"]
    assert majority["error"] == history.tally.totals[USUAL] / 400
    assert last == {"name": "last label", "error": repeated, "window_error": pytest.approx(repeated)}
    assert state.stats.curve(50)[-1][1:] == [
        summary["error"], *(one["error"] for one in summary["learners"] + summary["plain_guesses"])
    ]  # fmt: skip
    shares = {one["name"]: one["count"] for one in summary["availability"]}
    assert shares == dict(zip(history.features, history.present.tolist(), strict=True))


def test_the_strip_begins_with_the_least_available() -> None:
    items = [{"x": {"a": 1.0} | ({"b": 1.0} if t % 2 else {}) | ({"c": 1.0} if t < 9 else {}), "y": t % 2}
             for t in range(100)]  # fmt: skip
    assert Stats(["olr"], regression=False).strip(2) == []
    state = state_of(items)
    assert state.stats.strip(2) == [["c", [0.18, 0.0]], ["b", [0.5, 0.5]]]


def test_a_restart_keeps_the_plain_guesses() -> None:
    straight = state_of(rows(300))
    again = saved_and_restored(straight)
    for state in (straight, again):
        state_of(rows(310)[300:], state)
    assert again.stats.summary()["plain_guesses"] == straight.stats.summary()["plain_guesses"]
    assert again.stats.curve(400) == straight.stats.curve(400)
