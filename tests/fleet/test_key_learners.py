"""The keys' learners against a direct implementation, and states that could not be one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from help_fleet import NAMES, REGRESSION, TASKS, fleet, stream

from braided import BraidedError, Fleet
from braided.estimators.model import Model
from braided.estimators.params import ModelParams
from braided.fleet.cache import KeyLimits
from braided.fleet.key_learners import KeyLearners
from braided.fleet.layout import RowLayout
from braided.kernels import keyed
from braided.records import Admitted, Records


def _admitted(values: Any, targets: Any, new_labels: dict[int, Any]) -> Admitted:
    """Records of key `a`, the first of which has every name first."""
    names = tuple(range(values.shape[1]))
    records = Records(names, values, targets, keys=["a"] * len(values))
    return Admitted(records, np.array(targets, dtype=float), {0: list(names)}, new_labels)


def _standardised(own: KeyLearners, row: Any) -> Any:
    """A record as the kernel sees it before it is learned."""
    from braided.kernels.scale import encode

    x, active = np.zeros(32, dtype=np.float32), np.zeros(33, dtype=np.int64)
    encode(row, np.arange(row.size), np.arange(row.size), own.statistics, True, x, active)
    return np.concatenate([[1.0], x[: row.size].astype(float)])


def test_the_first_own_learner_is_kalmans_recursion_around_the_shared_score() -> None:
    random = np.random.default_rng(5)
    values, shared = random.normal(size=(60, 3)), random.dirichlet([2.0, 2.0], size=60)
    labels = [0, 1, *(values[2:, 0] > 0).astype(int)]
    own = KeyLearners(Model("classification", ModelParams("lean")), KeyLimits(10))
    mean, covariance = np.zeros((2, 4)), np.eye(4) * keyed.VARIANCES[0] / 2.0
    for t in range(60):
        n_classes = min(t + 1, 2)
        u = _standardised(own, values[t])
        score = np.log(np.maximum(shared[t, :n_classes], keyed.FLOOR))
        score -= score.mean()
        latent = score + (mean @ u)[:n_classes]
        p = np.exp(latent - latent.max())
        p /= p.sum()
        v, q = (2.0 * p * (1.0 - p)).max(), u @ covariance @ u
        gain = covariance @ u / (1.0 + v * q)
        for k in range(n_classes):
            mean[k] += gain * ((labels[t] == k) - p[k])
        covariance = covariance - v * np.outer(gain, covariance @ u)
        record = _admitted(values[t : t + 1], labels[t : t + 1], {0: t} if t < 2 else {})
        own._learn_own(record, shared[t : t + 1, :n_classes], np.array([t > 0]))
    start, length = own.layout.parts["mean 0"]
    found = own.single[own.resident["a"], start : start + length].reshape(2, -1)[:, :4]
    np.testing.assert_allclose(found, mean, rtol=1e-3, atol=1e-5)


def test_rows_that_grow_keep_what_they_hold() -> None:
    small, large = RowLayout(False, 8, 2), RowLayout(False, 32, 4)
    rows = np.arange(2 * small.size, dtype=np.float32).reshape(2, -1)
    grown = large.grown(rows, small)
    for own in range(keyed.OWN):
        start, length = small.parts[f"mean {own}"]
        old = rows[:, start : start + length].reshape(2, 2, -1)
        start, length = large.parts[f"mean {own}"]
        new = grown[:, start : start + length].reshape(2, 4, -1)
        np.testing.assert_array_equal(new[:, :2, : old.shape[2]], old)
        assert not new[:, 2:].any()
        assert not new[:, :, old.shape[2] :].any()
    start, length = large.parts["covariance 0"]
    half = grown[0, start : start + length]
    lower = np.zeros((33, 33))
    lower[np.tril_indices(33)] = half
    np.testing.assert_array_equal(lower[:9, :9][np.tril_indices(9)], rows[0, slice(*_part(small, "covariance 0"))])
    np.testing.assert_array_equal(lower[9:], np.eye(33)[9:] * np.float32(keyed.VARIANCES[0] / 2.0))


def _part(layout: RowLayout, name: str) -> tuple[int, int]:
    start, length = layout.parts[name]
    return start, start + length


def test_a_key_is_what_it_was_when_it_comes_back() -> None:
    own = KeyLearners(Model("regression", ModelParams("lean")), KeyLimits(4))
    random = np.random.default_rng(0)
    for _ in range(600):
        key = f"s{random.integers(40)}"
        (place,) = own.use([key], [True])
        own.double[place, 0] += 1.0
    assert sum(own.look(key)[1][0] for key in own.known) == 600


def _change(arrays: dict[str, Any], name: str, value: float, place: tuple[int, ...]) -> None:
    arrays[name] = arrays[name].copy()
    arrays[name][place] = value


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("keys/single", np.nan, (0, 0)),
        ("keys/single", -1.0, (1, -1)),
        ("keys/double", -1.0, (0, keyed.COUNT)),
        ("keys/double", np.inf, (0, keyed.LAST)),
        ("keys/double", -1.0, (0, keyed.NOISE)),
        ("keys/fleet", np.nan, (0,)),
        ("keys/statistics", -1.0, (0, 0)),
    ],
)
def test_changed_numbers_are_refused(task: str, name: str, value: float, place: tuple[int, ...]) -> None:
    metadata, arrays = _learned(task).snapshot()
    Fleet.restore(metadata, arrays)
    _change(arrays, name, value, place)
    with pytest.raises(BraidedError, match="state of the fleet"):
        Fleet.restore(metadata, arrays)


def _learned(task: str) -> Fleet:
    model = fleet(task)
    values, labels, keys = stream(task, n=30)
    model.learn_many(values, labels, NAMES, keys=keys)
    return model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["inside"]["texts"].append("i1"), "should have shape"),
        (lambda m: m["inside"]["texts"].__setitem__(0, " x1"), "' x1' is not a key"),
        (lambda m: m["inside"]["texts"].__setitem__(0, 1), "1 is not a key"),
        (lambda m: m["inside"].pop("texts"), "'texts' is missing"),
        (lambda m: m["inside"]["texts"].__setitem__(0, m["inside"]["texts"][1]), "twice"),
        (lambda m: m["inside"]["names"].append("more"), "should have shape"),
        (lambda m: m["inside"].pop("names"), "is missing"),
        (lambda m: m["inside"].pop("model"), "is missing"),
        (lambda m: m.pop("inside"), "is missing"),
        (lambda m: m["parameters"].__setitem__("share", "all"), "not known"),
        (lambda m: m["parameters"].__setitem__("in_memory", "many"), "in_memory is 'many': give a whole number"),
        (lambda m: m["parameters"].__setitem__("max_keys", 2), "brings key number 3, and max_keys is 2"),
        (lambda m: m["parameters"].pop("evict"), "its parameters are key, share"),
        (lambda m: m["parameters"].__setitem__("folder", "/"), "its parameters are key, share"),
        (lambda m: m.__setitem__("estimator", "Exec"), "not known to this braided"),
        (lambda m: m.__setitem__("learned", -1), "should be from 0"),
    ],
)
def test_changed_metadata_is_refused(change: Any, message: str) -> None:
    metadata, arrays = _learned(REGRESSION).snapshot()
    change(metadata)
    with pytest.raises(BraidedError, match=message):
        Fleet.restore(metadata, arrays)
