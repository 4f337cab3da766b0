"""The metrics beside scikit-learn's and River's, on the same predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from river import metrics as river_metrics

from braided import BraidedError, MODLClassifier, MODLRegressor
from braided.evaluation import Tally
from braided.evaluation.metrics import chosen
from braided.evaluation.tally import MAX_CLASSES_FOLLOWED, WINDOW
from braided.records import Predictions
from conftest import made_up

sk = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed: pip install 'braided[sklearn]'")


def counted(probabilities: NDArray[Any], labels: list[Any], classes: list[Any], cuts: tuple[int, ...] = ()) -> Tally:
    """A tally of these predictions, in chunks that end at the cuts."""
    tally = Tally()
    for start, stop in zip((0, *cuts), (*cuts, len(labels)), strict=True):
        tally.add(Predictions(probabilities[start:stop], np.zeros((stop - start, 0))), labels[start:stop], classes)
    return tally


@pytest.fixture(scope="module", params=[2, 4])
def predicted(request: pytest.FixtureRequest) -> tuple[NDArray[Any], list[Any], list[Any]]:
    """Real predictions of a model that has learned something, with its labels."""
    values, labels = made_up(3_000, classes=request.param)
    model = MODLClassifier("paper")
    model.learn_many(values[:500], labels[:500])
    progress = model.predict_learn_many(values[500:], labels[500:])
    return progress.values, labels[500:].tolist(), model.classes


def test_classification_beside_scikit_learn(predicted: tuple[NDArray[Any], list[Any], list[Any]]) -> None:
    probabilities, labels, classes = predicted
    tally = counted(probabilities, labels, classes)
    order = np.argsort(classes)  # scikit-learn wants the classes sorted
    said = [classes[k] for k in probabilities.argmax(axis=1)]
    ordered = probabilities[:, order]
    binary = len(classes) == 2
    expected = {
        "errors": sum(a != b for a, b in zip(said, labels, strict=True)),
        "accuracy": sk.accuracy_score(labels, said),
        "balanced_accuracy": sk.balanced_accuracy_score(labels, said),
        "macro_f1": sk.f1_score(labels, said, average="macro"),
        "kappa": sk.cohen_kappa_score(labels, said),
        "log_loss": sk.log_loss(labels, ordered),
        "brier": sk.brier_score_loss(labels, ordered[:, 1]) if binary
        else np.mean(((ordered - np.eye(4)[labels]) ** 2).sum(axis=1)),
    }  # fmt: skip
    found = tally.metrics()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-12), name
    auc = sk.roc_auc_score(labels, ordered[:, 1] if binary else ordered, multi_class="ovr", average="macro")
    assert found["roc_auc_within"] is not None
    assert found["roc_auc"] is not None
    assert abs(found["roc_auc"] - auc) <= found["roc_auc_within"] < 2e-3
    report = sk.classification_report(labels, said, output_dict=True)
    for label, own in tally.per_class().items():
        theirs = report[str(label)]
        assert (own["precision"], own["recall"]) == pytest.approx((theirs["precision"], theirs["recall"]))
        assert own["support"] == theirs["support"]


def test_classification_beside_river(predicted: tuple[NDArray[Any], list[Any], list[Any]]) -> None:
    probabilities, labels, classes = predicted
    found = counted(probabilities, labels, classes).metrics()
    for name, metric in {
        "accuracy": river_metrics.Accuracy(), "balanced_accuracy": river_metrics.BalancedAccuracy(),
        "macro_f1": river_metrics.MacroF1(), "kappa": river_metrics.CohenKappa(),
    }.items():  # fmt: skip
        for row, label in zip(probabilities, labels, strict=True):
            metric.update(label, classes[int(row.argmax())])
        assert found[name] == pytest.approx(metric.get(), rel=1e-12), name


def test_the_window_is_of_the_last_records_alone(predicted: tuple[NDArray[Any], list[Any], list[Any]]) -> None:
    probabilities, labels, classes = predicted
    whole = counted(probabilities, labels, classes, cuts=(1, 700, 1_999))
    last = counted(probabilities[-WINDOW:], labels[-WINDOW:], classes)
    assert whole.n_last == WINDOW
    assert whole.window_metrics() == last.metrics()
    assert whole.window_errors()[0] == last.error
    assert whole.window_metrics() != whole.metrics()


def test_chunks_and_going_on_from_a_state_do_not_matter(predicted: tuple[NDArray[Any], list[Any], list[Any]]) -> None:
    probabilities, labels, classes = predicted
    straight = counted(probabilities, labels, classes)
    broken = counted(probabilities[:1_234], labels[:1_234], classes, cuts=(3, 1_200))
    metadata, arrays = broken.state()
    resumed = Tally()
    resumed.load_state(metadata, {name: array.copy() for name, array in arrays.items()})
    resumed.add(Predictions(probabilities[1_234:], np.zeros((len(labels) - 1_234, 0))), labels[1_234:], classes)
    assert resumed.metrics() == straight.metrics()
    assert resumed.window_metrics() == straight.window_metrics()


def test_classes_that_come_late_had_no_probability_before() -> None:
    early = Predictions(np.array([[1.0, 0.0], [0.7, 0.3]]), np.zeros((2, 0)))
    late = Predictions(np.array([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]), np.zeros((2, 0)))
    tally = Tally()
    tally.add(early, ["a", "c"], ["a", "b"])  # the label of the second record is one that the model does not know
    tally.add(late, ["c", "b"], ["a", "b", "c"])
    assert tally.classes == ["a", "b", "c"]
    whole = np.array([[1.0, 0.0, 0.0], [0.7, 0.3, 0.0], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1]])
    found = tally.metrics()
    assert found["roc_auc"] == sk.roc_auc_score([0, 2, 2, 1], whole, multi_class="ovr")
    assert found["log_loss"] == pytest.approx(sk.log_loss([0, 2, 2, 1], whole, labels=[0, 1, 2]))
    assert found["brier"] == pytest.approx(np.mean(((whole - np.eye(3)[[0, 2, 2, 1]]) ** 2).sum(axis=1)))


def test_a_record_without_an_answer_is_an_error_and_has_no_probability() -> None:
    tally = Tally()
    tally.add(Predictions(np.zeros((1, 1)), np.zeros((1, 0))), ["a"], ["a"])
    assert tally.metrics()["errors"] == 1
    assert tally.metrics()["log_loss"] is None
    tally.add(Predictions(np.ones((1, 1)), np.zeros((1, 0))), ["a"], ["a"])
    assert tally.metrics()["accuracy"] == 0.5
    assert tally.metrics()["kappa"] == 0
    assert tally.metrics()["roc_auc"] is None, "with one class there is nothing to tell apart"


def test_answers_decided_from_the_middle_of_a_window_on_leave_the_earlier_ones_alone() -> None:
    probabilities = np.array([[0.8, 0.2], [0.4, 0.6]])
    tally = Tally()
    tally.add(Predictions(probabilities, np.zeros((2, 0))), ["a", "a"], ["a", "b"])
    tally.add(Predictions(probabilities, np.zeros((2, 0)), np.array([0, 0])), ["a", "a"], ["a", "b"])
    assert tally.metrics()["errors"] == tally.window_metrics()["errors"] == 1


def test_many_classes_are_counted_without_roc_auc() -> None:
    n = MAX_CLASSES_FOLLOWED + 5
    tally = counted(np.eye(n), list(range(n)), list(range(n)))
    assert tally.metrics()["accuracy"] == 1.0
    assert tally.metrics()["roc_auc"] is None
    assert tally.window_metrics()["accuracy"] == 1.0
    assert tally.window_metrics()["kappa"] is None


def test_regression_beside_scikit_learn_and_river() -> None:
    values, _ = made_up(2_500, d=4, available=1.0)
    targets = 3.0 * values[:, 0] - values[:, 1] + 50.0
    model = MODLRegressor("paper")
    progress = model.predict_learn_many(values, targets)
    said = progress.values[:, 0]
    tally = Tally(model.learner_names, regression=True)
    for start in (0, 1, 999):
        stop = {0: 1, 1: 999, 999: 2_500}[start]
        tally.add(Predictions(progress.values[start:stop], progress.own[start:stop]), targets[start:stop].tolist(), [])
    expected = {
        "mae": sk.mean_absolute_error(targets, said), "rmse": sk.root_mean_squared_error(targets, said),
        "r2": sk.r2_score(targets, said),
    }  # fmt: skip
    last = {
        "mae": sk.mean_absolute_error(targets[-1_000:], said[-1_000:]),
        "r2": sk.r2_score(targets[-1_000:], said[-1_000:]),
    }
    for name, value in expected.items():
        assert tally.metrics()[name] == pytest.approx(value, rel=1e-9), name
        metric: Any = {"mae": river_metrics.MAE, "rmse": river_metrics.RMSE, "r2": river_metrics.R2}[name]()
        for y, p in zip(targets, said, strict=True):
            metric.update(y, p)
        assert tally.metrics()[name] == pytest.approx(metric.get(), rel=1e-6), name
    for name, value in last.items():
        assert tally.window_metrics()[name] == pytest.approx(value, rel=1e-9), name


def test_an_answer_that_is_no_number_is_not_right() -> None:
    tally = Tally(regression=True)
    tally.add(Predictions(np.full((2, 1), np.nan), np.zeros((2, 0))), [5.0, 7.0], [])
    assert tally.metrics()["mae"] == 6.0


def test_metrics_that_are_not_there_are_refused() -> None:
    assert chosen([], "regression") == ("mae", "rmse", "r2")
    assert chosen(["kappa", "kappa"], "classification") == ("kappa",)
    with pytest.raises(BraidedError, match="`metric` 'kappa' is not for regression: use one of mae, rmse, r2"):
        chosen(["kappa"], "regression")
