"""Sparse matrices: the same bits as tables with NaN, whole or not at all, in memory for what is there."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy", reason="SciPy is not installed: run make test")

import scipy.sparse as scipy_sparse

from braided import BraidedError, MODLClassifier, MODLRegressor
from braided.learners import LinearConfig, LogisticConfig
from braided.store import state_digest


def matrix(n: int, width: int, each: int = 5, seed: int = 0) -> tuple[Any, Any, np.ndarray]:
    """A sparse matrix, the same with NaN for what it does not store, and labels."""
    rng = np.random.default_rng(seed)
    rows, columns = np.repeat(np.arange(n), each), rng.integers(width, size=n * each)
    dense = np.full((n, width), np.nan)
    dense[rows, columns] = rng.normal(size=n * each).round(1)
    at = np.argwhere(~np.isnan(dense))
    values = dense[tuple(at.T)]
    return scipy_sparse.csr_array((values, tuple(at.T)), shape=dense.shape), dense, np.nansum(dense, axis=1) > 0


@pytest.mark.parametrize("layout", ["csr_array", "csc_matrix", "coo_array"])
@pytest.mark.parametrize("kind", [MODLClassifier, MODLRegressor])
def test_it_is_the_table_with_missing_values(kind: Any, layout: str) -> None:
    plain, dense, labels = matrix(200, 40)
    assert (plain.data == 0).any(), "no stored zero to be told from what is missing"
    found = getattr(scipy_sparse, layout)(plain)
    learner = LogisticConfig() if kind is MODLClassifier else LinearConfig()
    ours, theirs = (kind(learners=(learner,)) for _ in range(2))
    y: Any = labels.tolist() if kind is MODLClassifier else labels * 1.0
    names = [f"f{i}" for i in range(40)]
    np.testing.assert_array_equal(ours.progress_many(found, names).own, theirs.progress_many(dense, names).own)
    one, two = ours.predict_learn_many(found, y, names), theirs.predict_learn_many(dense, y, names)
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.own, two.own)
    assert state_digest(ours) == state_digest(theirs)
    np.testing.assert_array_equal(ours.predict_many(found, names), theirs.predict_many(dense, names))
    if kind is MODLClassifier:
        np.testing.assert_array_equal(ours.predict_proba_many(found, names), theirs.predict_proba_many(dense, names))
        assert ours.predict_set_many(found, 0.8, names) == theirs.predict_set_many(dense, 0.8, names)
    else:
        np.testing.assert_array_equal(
            ours.predict_interval_many(found, 0.8, names), theirs.predict_interval_many(dense, 0.8, names)
        )
    ours.learn_many(found, y, names)
    theirs.learn_many(dense, y, names)
    assert state_digest(ours) == state_digest(theirs)


def with_zeros(found: Any, weights: np.ndarray | None = None) -> np.ndarray:
    """What is not stored is 0 in each column that a record up to this one has a value in."""
    stored = scipy_sparse.csr_array((np.ones_like(found.data), found.indices, found.indptr), shape=found.shape)
    there = stored.toarray() > 0
    counts = there if weights is None else there & (weights > 0)[:, None]
    before = np.cumsum(counts, axis=0) > 0
    return np.where(there, found.toarray(), np.where(before, 0.0, np.nan))


@pytest.mark.parametrize("kind", [MODLClassifier, MODLRegressor])
@pytest.mark.parametrize("weighted", [False, True])
def test_zeros_may_be_values(kind: Any, weighted: bool, tmp_path: Path) -> None:
    found, _, labels = matrix(300, 60, each=2)
    weights = np.where(np.arange(300) % 4 == 0, 0.0, 1.5) if weighted else None
    learner = LogisticConfig() if kind is MODLClassifier else LinearConfig()
    ours, theirs = (kind(learners=(learner,), zeros=zeros) for zeros in ("value", "missing"))
    y: Any = labels.tolist() if kind is MODLClassifier else labels * 1.0
    names = [f"f{i}" for i in range(60)]
    dense = with_zeros(found, weights)
    ours.learn_many(found[:130], y[:130], names, None if weights is None else weights[:130])
    ours.save(tmp_path / "model")
    ours = kind.load(tmp_path / "model")
    assert ours.zeros == "value"
    ours.learn_many(found[130:], y[130:], names, None if weights is None else weights[130:])
    theirs.learn_many(dense, y, names, weights)
    assert ours.feature_names == theirs.feature_names
    for name, array in theirs.braid.state().items():
        np.testing.assert_array_equal(array, ours.braid.state()[name], err_msg=name)
    zeros = np.where(np.isnan(dense), 0.0, dense)
    np.testing.assert_array_equal(ours.predict_many(found[:40], names), theirs.predict_many(zeros[:40], names))
    with pytest.raises(BraidedError, match="zeros 'no' is not known: use one of missing, value"):
        kind(zeros="no")


def test_before_anything_was_learned_and_without_records() -> None:
    found, _, labels = matrix(5, 10)
    model = MODLClassifier(learners=(LogisticConfig(),))
    assert model.predict_many(found) == [None] * 5
    assert model.predict_proba_many(found).shape == (5, 0)
    assert MODLRegressor().predict_many(found).tolist() == [0.0] * 5
    model.learn_many(found[:0], [])
    assert model.records_learned == 0
    model.learn_many(found, labels.tolist())
    assert model.predict_proba_many(found[:0]).shape == (0, 2)


def test_a_matrix_is_learned_whole_or_not_at_all() -> None:
    found, _, labels = matrix(200, 40)
    model = MODLClassifier(learners=(LogisticConfig(),), max_features=30)
    with pytest.raises(BraidedError, match="max_features is 30"):
        model.learn_many(found, labels.tolist())
    broken = found.copy()
    broken.data[-1] = np.inf
    with pytest.raises(BraidedError, match="it must be finite"):
        MODLClassifier().learn_many(broken, labels.tolist())
    with pytest.raises(BraidedError, match="200 records and y has 199 labels"):
        model.learn_many(found, labels.tolist()[1:])
    with pytest.raises(BraidedError, match="40 columns and 3 names"):
        model.learn_many(found, labels.tolist(), names=["a", "b", "c"])
    assert model.records_learned == model.n_features == 0


def test_memory_grows_with_what_is_there() -> None:
    n, width = 2_000, 100_000
    rng = np.random.default_rng(0)
    columns = rng.integers(300, size=n * 3) * 300
    found = scipy_sparse.csr_array((np.ones(n * 3), (np.repeat(np.arange(n), 3), columns)), shape=(n, width))
    model = MODLClassifier(learners=(LogisticConfig(),), max_features=400)
    model.learn_many(found[:64], (columns[: 64 * 3 : 3] > 45_000).tolist())
    tracemalloc.start()
    model.learn_many(found, (columns[::3] > 45_000).tolist())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e7 < n * width * 8
    assert model.n_features <= 300


def test_a_stored_missing_value_brings_no_feature_where_zeros_are_values() -> None:
    plain = scipy_sparse.csr_array((np.array([1.0, np.nan]), (np.array([0, 3]), np.array([0, 1]))), shape=(100, 2))
    model = MODLClassifier(learners=(LogisticConfig(),), zeros="value", max_features=1)
    model.learn_many(plain, np.arange(100) % 2)
    assert model.feature_names == [0]
    assert model.records_learned == 100
