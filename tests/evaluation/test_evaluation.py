"""Labels that come late, or never."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from river import datasets, evaluate, linear_model, metrics, preprocessing

from braided import BraidedError, MODLClassifier, MODLRegressor, record
from braided.evaluation import Evaluation, History
from braided.learners import LogisticConfig, MLPConfig
from braided.records import Records
from braided.store import state_digest
from braided.streams import ArrayStream
from conftest import made_up

SMALL = (LogisticConfig(), MLPConfig(hidden=(8,)))


def phishing() -> list[tuple[dict[str, Any], bool]]:
    return list(datasets.Phishing())[:400]


@pytest.mark.parametrize("delay", [1, 7, 100, 1_000])
def test_a_delay_is_that_of_rivers_own_validation(delay: int) -> None:
    ours = MODLClassifier(learners=SMALL)
    history = record(ours, phishing(), delay=delay)
    theirs = MODLClassifier(learners=SMALL, delay=delay)
    rows = list(
        evaluate.iter_progressive_val_score(
            iter(phishing()), theirs, metrics.Accuracy(), delay=delay, step=1, yield_predictions=True
        )
    )
    assert len(rows) == history.records == 400
    assert state_digest(ours) == state_digest(theirs), "at the end all labels are learned"
    # River leaves records out of its metrics that were predicted before any class was known.
    unanswered = int(history.tally.confusion[:, -1].sum())
    assert unanswered == min(delay, 400)
    wrong = round(400 - unanswered - rows[-1]["Accuracy"].get() * (400 - unanswered))
    assert history.tally.totals[0] == wrong + unanswered
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    beside = record(model.clone(), phishing(), delay=delay)
    accuracy = evaluate.progressive_val_score(iter(phishing()), model.clone(), metrics.Accuracy(), delay=delay)
    assert beside.tally.totals[0] == pytest.approx(400 * (1 - accuracy.get()))


def test_no_prediction_sees_a_label_before_its_time() -> None:
    """A label turned at record t changes no prediction before record t + delay, and that one it does."""
    values, labels = made_up(120, d=4)
    delay, turned = 20, 50

    def predictions(labels: Any) -> Any:
        seen = []
        evaluation = Evaluation(
            MODLClassifier(learners=SMALL),
            delay=delay,
            on_predictions=lambda _, __, progress, ___: seen.append(progress),
        )
        for batch in ArrayStream("s", Records(tuple("abcd"), values, labels.tolist())).batches():
            evaluation.observe(batch)
        width = max(progress.values.shape[1] for progress in seen)
        return np.concatenate([np.pad(p.values, ((0, 0), (0, width - p.values.shape[1]))) for p in seen])

    other = labels.copy()
    other[turned] = 1 - other[turned]
    same = (predictions(labels) == predictions(other)).all(axis=1)
    assert same[: turned + delay].all()
    assert not same[turned + delay :].any()


def test_a_broken_off_delay_goes_on_with_what_waits() -> None:
    values, labels = made_up(300, d=4)
    batches = [Records(tuple("abcd"), values[i : i + 75], labels[i : i + 75].tolist()) for i in range(0, 300, 75)]
    straight = Evaluation(MODLClassifier(learners=SMALL), delay=30)
    for batch in batches:
        straight.observe(batch)
    straight.finish()
    first = Evaluation(MODLClassifier(learners=SMALL), delay=30)
    first.observe(batches[0])
    second = Evaluation(first.model, History.restore(*first.history.state()), delay=30)
    about, arrays = first.state()
    assert len(about["delayed"]["waiting"]) == 30
    second.load_state(about, arrays)
    for batch in batches[1:]:
        second.observe(batch)
    second.finish()
    assert second.state()[0]["delayed"]["waiting"] == []
    assert state_digest(second.model) == state_digest(straight.model)  # type: ignore[arg-type]
    np.testing.assert_array_equal(second.history.curve(), straight.history.curve())


def test_a_short_run_has_the_coverage_of_the_levels_that_could_be_judged() -> None:
    values, labels = made_up(60, d=4)
    evaluation = Evaluation(MODLClassifier(learners=SMALL))
    evaluation.observe(Records(tuple("abcd"), values, labels.tolist()))
    evaluation.finish()
    over_time = evaluation.result()["coverage_over_time"]
    assert [row["records"] for row in over_time] == [60]
    assert (
        list(over_time[0])[1:] == list(evaluation.result()["coverage"]) == ["0.5", "0.6", "0.7", "0.8", "0.9", "0.95"]
    )


@pytest.mark.parametrize("delay", [0, 5])
def test_records_without_a_label_are_predicted_and_not_learned(delay: int) -> None:
    values, labels = made_up(200, d=4)
    known = np.arange(200) % 3 > 0
    some = [label if there else None for label, there in zip(labels.tolist(), known, strict=True)]
    told: list[tuple[int, int]] = []
    model = MODLClassifier(learners=SMALL)
    evaluation = Evaluation(
        model,
        delay=delay,
        on_predictions=lambda first, batch, progress, _: told.append((first, len(progress.values))),
    )
    evaluation.observe(Records(tuple("abcd"), values, some))
    evaluation.finish()
    assert (evaluation.records, evaluation.unlabelled) == (int(known.sum()), int((~known).sum()))
    assert [first for first, _ in told] == [1 + sum(n for _, n in told[:i]) for i in range(len(told))]
    assert sum(n for _, n in told) == 200
    if not delay:
        plain = MODLClassifier(learners=SMALL)
        plain.learn_many(values[known], labels[known], tuple("abcd"))
        assert state_digest(plain) == state_digest(model)


def test_regressors_are_late_too() -> None:
    data = list(datasets.TrumpApproval())[:150]
    ours, theirs = MODLRegressor(learners=None, preset="paper"), MODLRegressor(preset="paper", delay=10)
    history = record(ours, data, delay=10)
    error = evaluate.progressive_val_score(iter(data), theirs, metrics.MAE(), delay=10)
    assert history.error == pytest.approx(error.get())
    assert state_digest(ours) == state_digest(theirs)


def test_a_delay_is_a_whole_number() -> None:
    for delay in (-1, 1.5, True):
        with pytest.raises(BraidedError, match="delay is"):
            record(MODLClassifier(learners=SMALL), phishing(), delay=delay)  # type: ignore[arg-type]


def test_coverage_and_importance_of_a_stream_do_not_depend_on_its_chunks() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1_000, 20))
    values[rng.random(values.shape) < 0.2] = np.nan
    labels = (np.nan_to_num(values[:, 3]) > 0).tolist()
    found = []
    for size in (1_000, 37):
        evaluation = Evaluation(MODLClassifier(learners=(LogisticConfig(),)))
        for start in range(0, 1_000, size):
            part = slice(start, start + size)
            evaluation.observe(Records(tuple(range(20)), values[part], labels[part]))
            if start == 37 * 13:
                evaluation = Evaluation(evaluation.model, History.restore(*evaluation.history.state()))
        evaluation.finish()
        found.append(evaluation)
    whole, parts = (one.history for one in found)
    assert whole.importance() == parts.importance()
    np.testing.assert_array_equal(whole.coverage(), parts.coverage())
    names = [one.feature for one in whole.importance()]
    assert names[0] == 3
    assert sorted(names) == list(range(20)), "some features were never replaced"
    assert sum(one.records for one in whole.importance()) <= 16 * (1_000 // 64)
    model: Any = found[0].model
    assert whole.coverage_shares() == model.coverage
    assert whole.coverage()[1:, 4].mean() == pytest.approx(0.9, abs=0.03)
    result = found[0].result()
    assert result["coverage"]["0.9"] == model.coverage[0.9]
    assert result["importance"][0]["feature"] == "3"
    assert result["coverage_over_time"][-1]["records"] == 1_000
