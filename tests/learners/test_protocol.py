"""A learner of a user's own that gives what it must not is named, with what it gave and what is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, MODLClassifier, MODLRegressor
from braided.learners import LogisticConfig, RiverLearner
from braided.learners.protocol import checked_learned, checked_scores
from constant_learner import Constant

SHAPES: dict[str, tuple[Any, str]] = {
    "a column": (np.zeros((2, 1)), "ndarray of shape (2, 1) and type float64"),
    "one for both": (np.zeros(1), "ndarray of shape (1,) and type float64"),
    "a number": (0.5, "float 0.5"),
    "nothing": (None, "NoneType None"),
    "three": ([0.0, 0.0, 0.0], "list of length 3"),
    "uneven": ([[0.0], [0.0, 1.0]], "list of length 2"),
    "text": (np.array(["a", "b"]), "type <U1"),
    "complex": (np.zeros(2, dtype=complex), "type complex128"),
    "a dict": ({0: 0.5, 1: 0.5}, "dict"),
}


def with_method(method: str, answer: Any) -> Constant:
    """A learner one of whose methods gives this."""

    def replaced(self: Any, *arguments: Any) -> Any:
        return answer

    return type("Own", (Constant,), {method: replaced, "name": "mine"})()


def taught(learner: Any) -> MODLClassifier:
    model = MODLClassifier(learners=[LogisticConfig(), learner])
    for label in ("a", "b", "a"):
        model.learn_one({"x": 1.0}, label)
    return model


@pytest.mark.parametrize("case", SHAPES)
def test_scores_of_a_wrong_shape_or_type(case: str) -> None:
    answer, words = SHAPES[case]
    with pytest.raises(BraidedError) as caught:
        taught(with_method("scores", answer))
    assert str(caught.value).startswith("learner 'mine': scores gave ")
    assert words in str(caught.value)
    assert "an array of shape (2,): one score per output" in str(caught.value)


@pytest.mark.parametrize("answer", [[0.5, 1], (0, 1), np.array([0.5, 1e300])])
def test_what_can_be_read_as_scores_is_taken(answer: Any) -> None:
    assert checked_scores(Constant(), answer, 2).dtype == np.float32
    taught(with_method("scores", answer))


def test_what_learn_says() -> None:
    assert [checked_learned(None, said) for said in (None, np.True_, False, np.False_)] == [True, True, False, False]
    with pytest.raises(BraidedError, match=r"learner 'mine': learn gave float 0.25, and it must give True, False"):
        taught(with_method("learn", 0.25))


def test_an_update_that_numpy_calls_false_counts_as_left_out() -> None:
    assert taught(with_method("learn", np.False_)).health["mine"]["skipped"] == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([np.zeros(2)], "state gave list of length 1, and it must give a dict of names to arrays"),
        ({"bias": [0.0]}, "state gave list of length 1 under 'bias', and it must give arrays of float32"),
        ({"bias": np.zeros(2, dtype=bool)}, "shape (2,) and type bool under 'bias'"),
    ],
)
def test_a_state_that_no_file_can_hold(answer: Any, words: str, tmp_path: Path) -> None:
    model = taught(with_method("state", answer))
    with pytest.raises(BraidedError) as caught:
        model.save(tmp_path / "model.braided")
    assert "learner 'mine': " in str(caught.value)
    assert words in str(caught.value)


class Unweighted(Constant):
    takes_weight = True


class Narrow(Constant):
    def grow(self, n_features: int) -> None:  # type: ignore[override]
        """Without the outputs."""


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (Unweighted(), "it is called as learn(x, mask, y, gradient, weight): let it take these"),
        (Narrow(), "it is called as grow(n_features, n_outputs): let it take these"),
    ],
)
def test_a_method_that_cannot_be_called_is_named_before_anything_is_learned(learner: Any, words: str) -> None:
    with pytest.raises(BraidedError) as caught:
        MODLClassifier(learners=[learner])
    assert words in str(caught.value)


def river_model(kind: str, answer: Any) -> Any:
    from river import dummy

    base, method = {
        "classifier": (dummy.PriorClassifier, "predict_proba_one"),
        "regressor": (dummy.StatisticRegressor, "predict_one"),
    }[kind]
    return type("Mine", (base,), {method: lambda self, x: answer})


def test_a_river_model_that_gives_no_probabilities_or_no_number() -> None:
    model = MODLClassifier(learners=[RiverLearner(river_model("classifier", [0.5, 0.5])())])
    with pytest.raises(BraidedError, match=r"predict_proba_one of the River model Mine gave list .*a dict of classes"):
        model.learn_one({"x": 1.0}, "a")
    model = MODLClassifier(learners=[RiverLearner(river_model("classifier", {0: "much"})())])
    with pytest.raises(BraidedError, match=r"predict_proba_one .* gave str 'much', and it must give a number"):
        model.learn_one({"x": 1.0}, "a")
    from river import stats

    regressor = MODLRegressor(learners=[RiverLearner(river_model("regressor", "much")(stats.Mean()))])
    with pytest.raises(BraidedError, match=r"predict_one of the River model Mine gave str 'much'"):
        regressor.learn_one({"x": 1.0}, 1.0)
