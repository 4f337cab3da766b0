"""What the live page is told: records of an imported model, classes, errors over a window, where an alarm stood."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from help_serve import rows, saved_and_restored, small_model, state_of, taught
from test_error_alarm import noisy_rows

from braided import MODLClassifier
from braided.evaluation.alarm import ErrorAlarm
from braided.serve.events import _MAX_POINTS
from braided.serve.settings import Limits
from braided.serve.spec import state_from_checkpoint

ITEMS = rows(700)


def test_records_from_before_a_model_was_imported_are_told_apart(tmp_path: Path) -> None:
    taught(ITEMS[:300]).save(tmp_path / "model")
    state = state_of(ITEMS[300:500], state_from_checkpoint("m", (tmp_path / "model").read_bytes(), Limits()))
    for one in (state, saved_and_restored(state), state_from_checkpoint("n", state.snapshot(), Limits())):
        summary = one.stats.summary()
        assert (summary["records"], summary["records_before"]) == (200, 300)
        assert isinstance(one.model, MODLClassifier)
        assert one.model.records_learned == 500
    assert state_of(ITEMS[:20]).stats.summary()["records_before"] == 0


def test_classes_are_those_that_were_counted() -> None:
    state = state_of(ITEMS[:400])
    wrong: Counter[str] = Counter()
    model = small_model()
    for item in ITEMS[:400]:
        wrong[item["y"]] += model.predict_one(item["x"]) != item["y"]
        model.learn_one(item["x"], item["y"])
    support = Counter(item["y"] for item in ITEMS[:400])
    found = state.stats.per_class(20)
    assert [one["support"] for one in found] == sorted(support.values(), reverse=True)
    for one in found:
        label = one["label"]
        assert one["support"] == one["window_support"] == support[label]
        assert abs(one["recall"] - (1 - wrong[label] / support[label])) < 1e-12
        assert abs(one["window_recall"] - one["recall"]) < 1e-12
    assert [one["label"] for one in state.stats.per_class(2)] == [one["label"] for one in found[:2]]
    assert state.stats.tally.window_recall() == saved_and_restored(state).stats.tally.window_recall()


def test_the_recall_of_the_last_records_is_of_them_alone() -> None:
    state = state_of(noisy_rows(3_000, change=2_000))
    found = state.stats.per_class(2)
    for which, low, high in (("recall", 0.75, 1.0), ("window_recall", 0.4, 0.6)):
        assert low < np.mean([one[which] for one in found]) < high


def test_errors_over_a_window_are_those_of_its_records() -> None:
    state = state_of(ITEMS)
    losses = []
    model = small_model()
    for item in ITEMS:
        losses.append(model.predict_one(item["x"]) != item["y"])
        model.learn_one(item["x"], item["y"])
    found = state.stats.window_curve(_MAX_POINTS)
    assert found["window"] == 140
    assert 60 < len(found["rows"]) <= _MAX_POINTS
    for record, together, *others in found["rows"]:
        assert abs(together - np.mean(losses[int(record) - 140 : int(record)])) < 1e-12
        assert len(others) == 4
    assert found["rows"][-1][0] == 700
    assert state_of(ITEMS[:90]).stats.window_curve(_MAX_POINTS)["rows"] == []


def test_where_an_alarm_stood_is_kept() -> None:
    alarm = ErrorAlarm(regression=False)
    quiet, loud = np.tile([0.0, 0.0, 0.0, 1.0], 1_000), np.ones(500)
    alarm.add(np.concatenate([quiet, loud]))
    assert alarm.marks == [(4_250, None)]
    for _ in range(2):
        alarm.add(quiet)
        assert len(alarm.marks) == alarm.raised == 1
        (raised, cleared), restored = alarm.marks[0], ErrorAlarm(regression=False)
        assert raised == 4_250
        assert cleared is not None
        assert 5_250 <= cleared < 8_500
        restored.load_state(alarm.state())
        assert restored.marks == alarm.marks
    for _ in range(25):
        alarm.add(np.concatenate([quiet, quiet, quiet, loud]))
    assert alarm.raised > 20
    assert len(alarm.marks) == 20
    assert state_marks(alarm) == alarm.marks


def state_marks(alarm: ErrorAlarm) -> list[tuple[int, int | None]]:
    again = ErrorAlarm(regression=False)
    again.load_state(alarm.state())
    return again.marks
