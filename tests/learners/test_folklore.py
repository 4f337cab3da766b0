"""FOLKLORE against its definition: the sum of surrogates and of the classes' losses, minimised as a whole."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from braided import BraidedError, MODLClassifier
from braided.learners import Folklore, FolkloreConfig


@pytest.mark.parametrize("n_outputs", [2, 3])
def test_scores_are_those_of_the_minimum(n_outputs: int) -> None:
    rng = np.random.default_rng(n_outputs)
    config = FolkloreConfig(regularisation=0.3, largest_score=2.0)
    learner = Folklore(config)
    learner.grow(3, n_outputs)
    eta = 1.0 / (2.0 + np.log(n_outputs) / 2.0)
    before: list[tuple[np.ndarray, ...]] = []
    for t in range(25):
        mask = rng.random(3) < 0.7
        x = rng.normal(size=3).astype(np.float32)
        u = np.concatenate([[1.0], np.where(mask, x, 0.0)])

        def loss(flat: np.ndarray, u: np.ndarray = u) -> float:
            weights = flat.reshape(n_outputs, 4)
            total = 0.15 * float((weights**2).sum()) - float(log_softmax(weights @ u).sum())
            for v, z, g, h in before:
                apart = weights @ v - z
                total += float(g @ apart) + eta / 2 * float(apart @ h @ apart)
            return total

        found = minimize(loss, np.zeros(4 * n_outputs), method="BFGS", options={"gtol": 1e-9}).x
        z = found.reshape(n_outputs, 4) @ u
        scores = learner.scores(x, mask)
        np.testing.assert_allclose(softmax(scores), softmax(z), atol=2e-5, err_msg=f"record {t}")
        p, label = softmax(z), int(rng.integers(n_outputs))
        before.append((u, z, p - np.eye(n_outputs)[label], np.diag(p) - np.outer(p, p)))
        assert learner.learn(x, mask, label, np.zeros(n_outputs, dtype=np.float32))


def test_a_new_class_leaves_the_weights_of_the_others() -> None:
    learner = Folklore(FolkloreConfig())
    learner.grow(2, 2)
    everything, unused = np.ones(2, dtype=bool), np.zeros(2, dtype=np.float32)
    for value, label in [(-1.0, 0), (1.0, 1), (-2.0, 0)]:
        learner.learn(np.array([value, 1.0], dtype=np.float32), everything, label, unused)
    old = learner.state()
    learner.grow(3, 3)
    new = learner.state()
    mean = new["mean"].reshape(4, 3)
    np.testing.assert_array_equal(mean[:3, :2], old["mean"].reshape(3, 2))
    assert not mean[3:].any()
    assert not mean[:, 2].any()
    covariance = new["covariance"].reshape(4, 3, 4, 3)
    np.testing.assert_array_equal(covariance[:3, :2, :3, :2], old["covariance"].reshape(3, 2, 3, 2))
    np.testing.assert_array_equal(covariance[:, 2, :, 2], np.eye(4) / 10)
    assert not covariance[:, 2, :, :2].any()


def test_far_scores_under_a_wide_prior_are_found() -> None:
    """Plain Newton steps from the mean would jump to and fro here."""
    learner = Folklore(FolkloreConfig(regularisation=1e-6))
    learner.grow(1, 2)
    unused = np.zeros(2, dtype=np.float32)
    for value in (1.0, -1.0, 0.5, -0.5) * 10:
        assert learner.learn(np.array([value], dtype=np.float32), np.array([True]), float(value > 0), unused)
    near, far = (learner.scores(np.array([value], dtype=np.float32), np.array([True])) for value in (1.0, 30.0))
    assert near[1] - near[0] > 2.0
    assert np.isfinite(far).all()
    assert 0.0 < far[1] - far[0] < near[1] - near[0], "it is less sure of what is far from all records"


def test_too_many_weights_are_refused_before_anything_changes() -> None:
    model = MODLClassifier(learners=(FolkloreConfig(),))
    model.learn_one({"a": 1.0}, "x")
    model.learn_one({"a": 2.0}, "y")
    said = model.predict_proba_one({"a": 1.0})
    with pytest.raises(BraidedError, match=r"folklore would have .* weights, and takes at most 2,048: use another"):
        model.learn_one({str(i): 1.0 for i in range(1_500)}, "y")
    assert model.predict_proba_one({"a": 1.0}) == said
