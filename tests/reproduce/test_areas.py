"""Areas under curves against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest

from braided.reproduce.areas import pr_area, roc_area


@pytest.mark.parametrize("digits", [1, 8])
def test_areas_are_those_of_scikit_learn_with_and_without_ties(digits: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed: run make test")
    rng = np.random.default_rng(0)
    for _ in range(20):
        positive = rng.random(80) < 0.3
        scores = np.round(rng.random(80) + 0.2 * positive, digits)
        precision, recall, _ = metrics.precision_recall_curve(positive, scores)
        assert pr_area(positive, scores) == pytest.approx(metrics.auc(recall, precision), abs=1e-12)
        assert roc_area(positive, scores) == pytest.approx(metrics.roc_auc_score(positive, scores), abs=1e-12)


def test_with_one_class_alone_there_is_no_curve() -> None:
    scores = np.array([0.2, 0.8])
    assert roc_area(np.array([True, True]), scores) is None
    assert roc_area(np.array([False, False]), scores) is None
    assert pr_area(np.array([False, False]), scores) is None
    assert pr_area(np.array([True, True]), scores) == 1.0
