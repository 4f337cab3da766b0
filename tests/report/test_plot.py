"""Histories against figures worked out record by record, and the pictures drawn from them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from river import datasets, dummy, linear_model

from braided import BraidedError, History, MODLClassifier, MODLRegressor, record
from braided.estimators import explain
from braided.evaluation.history import MAX_WEIGHTS
from braided.learners import LinearConfig, LogisticConfig, MLPConfig
from braided.records import Records
from braided.report import plot
from braided.report.plot.axes import fitted, short
from braided.report.plot.classes import confused
from braided.report.plot.posterior import top_weights
from braided.report.svg import svg
from braided.store import state_digest
from braided.streams import ArrayStream
from conftest import as_records, made_up
from scored import scored

SMALL = (LogisticConfig(), MLPConfig(hidden=(8,)))
N = 700


def fresh() -> MODLClassifier:
    return MODLClassifier(learners=SMALL, seed=3)


@pytest.fixture(scope="module")
def stream() -> ArrayStream:
    values, labels = made_up(N, d=5, classes=3)
    values[:300, 4] = np.nan  # a feature that comes late
    return ArrayStream("made up", Records(tuple("abcde"), values, labels.tolist()))


@pytest.fixture(scope="module")
def history(stream: ArrayStream) -> History:
    return record(fresh(), stream, name="modl")


def axes() -> Any:
    return Figure(layout="constrained").add_subplot()


def test_a_history_is_what_predicting_before_learning_gives(stream: ArrayStream, history: History) -> None:
    model, table = fresh(), stream.table
    wrong, guessed, repeated, own = [], [], [], []
    seen: Counter[Any] = Counter()
    confusion: Counter[Any] = Counter()
    bins = np.zeros((10, 3))
    shares: list[Any] = []
    guess: Any = None
    for t, (row, label) in enumerate(zip(as_records(table.values), table.targets, strict=True)):
        x = {"abcde"[j]: value for j, value in row.items()}
        probabilities = model.predict_proba_one(x)
        said = max(probabilities, key=probabilities.__getitem__, default=None)
        if t:
            scores = scored(model, x)
            k = len(model.classes)
            own.append([model.classes[int(s.argmax())] != label if k > 1 else said != label for s in scores.scores])
            confidence = probabilities[said]
            bins[min(int(confidence * 10), 9)] += [1, confidence, said == label]
        else:
            own.append([True, True])
        wrong.append(said != label)
        # The most frequent so far; of equals the one that was so first.
        guessed.append(guess != label)
        repeated.append(t == 0 or table.targets[t - 1] != label)
        seen[label] += 1
        guess = label if t == 0 or seen[label] > seen[guess] else guess
        confusion[label, said] += 1
        model.learn_one(x, label)
        if (t + 1) % history.block == 0:  # the scores are of before, the combiner's weights of now
            shares.append(explain.shares(model.braid, scores, k))
    curve = history.curve()
    np.testing.assert_array_equal(curve[:, 0], np.arange(1, N + 1))
    expected = np.cumsum(np.column_stack([wrong, guessed, repeated, own]), axis=0)
    np.testing.assert_array_equal(curve[:, 1:], expected)
    assert history.error == np.mean(wrong)
    assert history.window() == 100
    np.testing.assert_array_equal(history.windowed()[-1, 1:], expected[-1] - expected[-101])
    assert history.windowed()[0, 0] == 100
    for i, label in enumerate(history.tally.classes):
        assert history.tally.confusion[i].tolist() == [
            confusion[label, said] for said in [*history.tally.classes, None]
        ]
    np.testing.assert_allclose(history.tally.bins, bins)
    assert history.tally.calibration_error == pytest.approx(np.abs(bins[:, 2] - bins[:, 1]).sum() / (N - 1))
    there = ~np.isnan(table.values)
    assert [history.features.index(name) for name in "abcd"] == sorted(history.features.index(n) for n in "abcd")
    for j, name in enumerate("abcde"):
        place = history.features.index(name)
        assert history.present[place] == there[:, j].sum()
        assert history.availability()[0, place] == there[: history.block, j].mean()
    assert history.availability()[0, history.features.index("e")] == 0
    np.testing.assert_allclose(history.shares()[: len(shares)], shares)
    learner = explain.fast_learner(model.braid)
    assert learner is not None
    np.testing.assert_array_equal(history.weight_mean, learner.state()["mean"][:, 1:])
    np.testing.assert_allclose(history.weight_sd**2, np.diagonal(learner.state()["covariance"])[1:])


class Cut:
    """A stream in batches of uneven lengths."""

    name, n_records = "cut", None

    def __init__(self, table: Records) -> None:
        self.table = table

    def batches(self) -> Any:
        for start, stop in pairwise([0, 1, 2, 9, 31, 32, 230, 231, N]):
            yield self.table.part(start, stop)


def test_chunks_do_not_matter_and_learning_is_not_disturbed(stream: ArrayStream, history: History) -> None:
    model = fresh()
    other = record(model, Cut(stream.table), name="modl")
    one, two = history.state(), other.state()
    assert one[0] == two[0]
    for name, array in one[1].items():
        if name != "blocks/seconds":
            np.testing.assert_array_equal(array, two[1][name], err_msg=name)
    plain = fresh()
    plain.learn_many(stream.table.values, stream.table.targets, stream.table.names)
    assert state_digest(plain) == state_digest(model)


def test_pairs_give_what_a_stream_gives(stream: ArrayStream, history: History) -> None:
    pairs = [({"abcde"[j]: v for j, v in x.items()}, y)
             for x, y in zip(as_records(stream.table.values), stream.table.targets, strict=True)]  # fmt: skip
    model = fresh()
    other = record(model, pairs[:300], name="modl")
    assert record(model, pairs[300:], into=other) is other
    np.testing.assert_array_equal(other.curve(), history.curve())
    np.testing.assert_array_equal(other.tally.confusion, history.tally.confusion)


def test_memory_does_not_grow_with_the_stream() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60_000, 2))
    values[30_000:, 1] = np.nan
    labels = rng.integers(0, 2, 60_000).tolist()
    history = record(
        MODLClassifier(learners=(LogisticConfig(),)), ArrayStream("long", Records(("a", "b"), values, labels))
    )
    assert len(history.curve()) <= 2_001
    assert 32 <= len(history.blocks()) <= 64
    assert history.blocks()[-1, 0] == 60_000
    assert history.curve()[-1].tolist() == [60_000, *history.tally.totals]
    assert history.present.tolist() == [60_000, 30_000]
    b = history.availability()[:, 1]
    assert np.all(b[: len(b) // 2 - 1] == 1.0)
    assert np.all(b[-(len(b) // 2) :] == 0.0)
    assert np.isfinite(history.shares()[:-1]).all()
    assert history.weights()[0].shape == (len(history.blocks()), 1, 2)
    window = history.window()
    assert window % history.tally.loss_curve.interval == 0
    assert 3_000 <= window <= 3_000 + history.tally.loss_curve.interval


def test_weights_over_time_are_bounded() -> None:
    rng = np.random.default_rng(0)
    stream = ArrayStream("wide", Records(tuple(range(900)), rng.normal(size=(80, 900)), [i % 8 for i in range(80)]))
    history = record(MODLClassifier(learners=(LogisticConfig(),)), stream)
    assert history.weights()[0].shape == (2, 8, MAX_WEIGHTS // 8)
    assert history.weight_mean.shape == (8, 900)


def test_two_classes_becoming_three_keep_their_weights() -> None:
    model = MODLClassifier(learners=(LogisticConfig(),))
    rng = np.random.default_rng(1)
    two = [({"a": float(rng.normal())}, t % 2) for t in range(64)]
    history = record(model, two)
    before = history.weights()[0][0, 0, 0]
    record(model, [({"a": 1.0}, 2)], into=history)
    np.testing.assert_allclose(history.weights()[0][0, :2, 0], [-before, before])
    assert np.isnan(history.weights()[0][0, 2, 0])


def test_regression_has_absolute_errors() -> None:
    learners = (LinearConfig(), MLPConfig(hidden=(8,)))
    data = list(datasets.TrumpApproval())[:200]
    history = record(MODLRegressor(learners=learners), data, name="ours")
    model = MODLRegressor(learners=learners)
    errors = []
    for x, y in data:
        errors.append(abs(model.predict_one(x) - y))
        model.learn_one(x, y)
    np.testing.assert_allclose(history.curve()[:, 1], np.cumsum(errors))
    targets = np.array([y for _, y in data])
    guesses = [abs(targets[:t].mean() - targets[t]) if t else targets[0] for t in range(200)]
    np.testing.assert_allclose(history.curve()[:, 2], np.cumsum(guesses))
    np.testing.assert_allclose(history.curve()[:, 3], np.cumsum(np.abs(np.diff(targets, prepend=0.0))))
    ax = plot.error([history, record(linear_model.LinearRegression(), data, name="river")], ax=axes())
    assert ax.get_ylabel() == "absolute error so far"
    assert [text.get_text().split()[0] for text in ax.get_legend().get_texts()] == ["ours", "river", "mean", "last"]
    plot.shares(history, ax=axes())
    plot.weights(history, ax=axes())
    for draw in (plot.calibration, plot.confusion):
        with pytest.raises(BraidedError, match="ours predicts numbers"):
            draw(history, ax=axes())


def test_each_picture_returns_its_axes(history: History) -> None:
    draws: list[Any] = [
        plot.error, plot.learners, plot.shares, plot.availability, plot.calibration, plot.confusion, plot.throughput,
        plot.failures, plot.weights, plot.coverage,
    ]  # fmt: skip
    for draw in draws:
        ax = axes()
        assert draw(history, ax=ax) is ax
    from matplotlib import pyplot

    fresh_axes = plot.error(history, windowed=True)
    assert fresh_axes.get_ylabel() == "errors in the last 100 records"
    pyplot.close(fresh_axes.figure)


def test_lines_are_the_figures(stream: ArrayStream, history: History) -> None:
    ax = plot.error(history, ax=axes())
    line = ax.get_lines()[0].get_ydata()
    assert line[-1] == history.error
    stacked = plot.shares(history, ax=axes())
    assert [text.get_text() for text in stacked.get_legend().get_texts()] == ["olr", "mlp"]
    top = top_weights(history, 3)
    place, row = top[0][1], top[0][0]
    assert abs(top[0][4]) == np.abs(history.weight_mean).max() == abs(history.weight_mean[row, place])
    model = fresh()
    model.learn_many(stream.table.values, stream.table.targets, stream.table.names)
    assert top_weights(model, 3) == top
    assert len(plot.weights(history, most=2, over_time=True, ax=axes()).get_legend().get_texts()) == 2


def test_legends_say_where_lines_end(history: History) -> None:
    def labels(ax: Any) -> list[str]:
        return [text.get_text() for text in ax.get_legend().get_texts()]

    window, end = history.window(), history.windowed()[-1, 1:]
    assert end[0] / window != history.error
    assert labels(plot.error(history, ax=axes()))[0] == f"modl {history.error:.2%}"
    names = ("modl", "majority so far", "last label")
    found = labels(plot.error(history, windowed=True, ax=axes()))
    assert found == [f"{name} {loss / window:.2%}" for name, loss in zip(names, end, strict=False)]
    names = ("together", "olr alone", "mlp alone")
    found = labels(plot.learners(history, ax=axes()))
    assert found == [f"{name} {end[place] / window:.2%}" for name, place in zip(names, (0, 3, 4), strict=True)]


def test_the_majority_is_one_line(stream: ArrayStream, history: History) -> None:
    prior = record(dummy.PriorClassifier(), stream, name="majority")
    lines = [line.get_label() for line in plot.error([history, prior], ax=axes()).get_lines()]
    assert lines == ["modl", "majority", "last label"]


def test_what_is_left_out_is_said_within_the_picture() -> None:
    values, labels = made_up(100, d=46, classes=2)
    names = tuple(f"a name as long as there is room {i}" for i in range(46))
    history = record(fresh(), ArrayStream("s", Records(names, values, labels.tolist())))
    drawn: list[Any] = []
    svg(lambda ax: drawn.append(plot.availability(history, ax=ax)), "a", height=5.3)
    title = drawn[0]._left_title
    assert title.get_text() == "16 features in between not shown"
    assert title.get_window_extent().x1 <= drawn[0].figure.bbox.x1


def test_throughput_leaves_out_a_last_block_that_is_not_full(history: History) -> None:
    ends, sizes = history.blocks().T
    assert sizes[-1] < history.block
    (line,) = plot.throughput(history, ax=axes()).get_lines()
    assert line.get_xdata()[-1] == ends[-2]
    short_one = record(fresh(), [({"a": 1.0}, t % 2) for t in range(5)])
    assert plot.throughput(short_one, ax=axes()).get_lines()[0].get_xdata()[-1] == 5


def test_a_name_is_whole_where_there_is_room() -> None:
    long = "temperature of bearing three"
    values, labels = made_up(200, d=2, classes=3)
    classes = [("idle", "busy", "out of order")[n] for n in labels]
    history = record(fresh(), ArrayStream("s", Records((long, "b"), values, classes)), name="a model with a long name")
    assert plot.error(history, ax=axes()).get_lines()[0].get_label() == "a model with a long name"

    def names(ticks: list[Any]) -> set[str]:
        return {tick.get_text() for tick in ticks}

    assert names(plot.availability(history, ax=axes()).get_yticklabels()) == {long, "b"}
    confusion = plot.confusion(history, ax=axes())
    assert names(confusion.get_xticklabels()) == names(confusion.get_yticklabels()) == set(classes)
    weights = names(plot.weights(history, ax=axes()).get_yticklabels())
    wholes = {f"{name} \N{RIGHTWARDS ARROW} {whose}" for name in (long, "b") for whose in classes}
    assert {name for name in weights if "\u2026" not in name} <= wholes
    assert all(len(name) <= 37 for name in weights)
    assert fitted(["a" * 30, "b"], 20, 40) == ["a" * 10 + "\u2026" + "a" * 8, "b"]


def test_seeds_are_drawn_as_mean_and_band(stream: ArrayStream, history: History) -> None:
    other = record(MODLClassifier(learners=SMALL, seed=4), stream, name="modl")
    ax = plot.error([history, other], ax=axes())
    assert ax.get_lines()[0].get_ydata()[-1] == pytest.approx((history.error + other.error) / 2)
    assert len(ax.collections) == 1
    assert confused([history, other])[1].sum() == 2 * (N - 1)


def test_what_cannot_be_drawn_is_told(stream: ArrayStream, history: History) -> None:
    prior = record(dummy.PriorClassifier(), stream, name="prior")
    with pytest.raises(BraidedError, match="of one model, and the histories are of modl, prior"):
        plot.shares([history, prior], ax=axes())
    with pytest.raises(BraidedError, match="prior has no learners"):
        plot.shares(prior, ax=axes())
    with pytest.raises(BraidedError, match="prior has no linear learner"):
        plot.weights(prior, ax=axes())
    with pytest.raises(BraidedError, match="not over time"):
        plot.weights(record_model(stream), over_time=True, ax=axes())
    with pytest.raises(BraidedError, match="give a History"):
        plot.error([], ax=axes())
    with pytest.raises(BraidedError, match="has no records"):
        plot.error(History("empty"), ax=axes())
    with pytest.raises(BraidedError, match="of another kind of model"):
        record(fresh(), stream, into=prior)
    with pytest.raises(BraidedError, match="record 2 of the stream is 5"):
        record(fresh(), [({"a": 1.0}, 1), 5])
    with pytest.raises(BraidedError, match="feature 'a' is 'word' in record 1"):
        record(fresh(), [({"a": "word"}, 1)])
    with pytest.raises(BraidedError, match="model is 5"):
        record(5, stream)


def record_model(stream: ArrayStream) -> MODLClassifier:
    model = fresh()
    model.learn_many(stream.table.values[:50], stream.table.targets[:50], stream.table.names)
    return model


def test_names_are_shown_as_they_are() -> None:
    assert short("a" * 30) == "a" * 11 + "\u2026" + "a" * 10
    assert len(short("b" * 300, 18)) == 18
    assert short("line\nbreak") == "line\N{MIDDLE DOT}break"
    assert short("_x") == "\N{ZERO WIDTH SPACE}_x"
    names = ("$\\frac$", "_hidden", "<b>&", "x" * 80)
    values, labels = made_up(60, d=4)
    history = record(fresh(), ArrayStream("odd", Records(names, values, [f"${n}_" for n in labels])), name="$model$")
    for draw in (plot.error, plot.availability, plot.confusion, plot.weights):
        figure = Figure(layout="constrained")
        draw(history, ax=figure.add_subplot())
        figure.draw_without_rendering()
