"""A user's own PyTorch module in the sum."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, MODLClassifier, MODLRegressor, presets
from braided.learners import LogisticConfig, TorchLearner
from braided.store import state_digest
from conftest import as_records, made_up

torch = pytest.importorskip("torch", reason="PyTorch is not installed: run make test EXTRAS=all")


class Masked(torch.nn.Module):
    """Value and availability side by side, a hidden layer, dropout while learning."""

    def __init__(self, n_features: int, n_outputs: int) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(2 * n_features, 12)
        self.out = torch.nn.Linear(12, n_outputs)
        self.dropout = torch.nn.Dropout(0.2)
        self.register_buffer("seen", torch.zeros(n_features, dtype=torch.int32))

    def forward(self, values: Any, mask: Any) -> Any:
        if self.training:
            self.seen += mask.to(torch.int32)
        return self.out(self.dropout(torch.relu(self.hidden(torch.stack([values, mask], -1).flatten()))))


class Pooled(torch.nn.Module):
    """A sum over the set of available features."""

    def __init__(self, n_features: int, n_outputs: int) -> None:
        super().__init__()
        self.ids = torch.nn.Embedding(n_features, 8)
        self.out = torch.nn.Linear(8, n_outputs)

    def forward(self, values: Any, ids: Any) -> Any:
        return self.out(torch.tanh((values[:, None] * self.ids(ids)).sum(0)))


class Misaligned(torch.nn.Module):
    """All values, then all masks: a new feature moves every mask to another weight."""

    def __init__(self, n_features: int, n_outputs: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2 * n_features, n_outputs)

    def forward(self, values: Any, mask: Any) -> Any:
        return self.layer(torch.cat([values, mask]))


class MisalignedLater(Masked):
    """Feature by feature up to four features, and otherwise beyond."""

    def forward(self, values: Any, mask: Any) -> Any:
        if len(values) <= 4:
            return super().forward(values, mask)
        return self.out(torch.relu(self.hidden(torch.cat([values, mask]))))


class FromZero(Misaligned):
    """Says 0 of everything until it has learned."""

    def __init__(self, n_features: int, n_outputs: int) -> None:
        super().__init__(n_features, n_outputs)
        torch.nn.init.zeros_(self.layer.weight)


class OneSize(Misaligned):
    """For three features, and no other number."""

    def __init__(self, n_features: int, n_outputs: int) -> None:
        if n_features != 3:
            raise ValueError("three features only")
        super().__init__(n_features, n_outputs)


class GrowsItself(torch.nn.Module):
    """Has room for a hundred features from the start; only its outputs grow."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2, 100))

    def grow(self, n_features: int, n_outputs: int) -> None:
        if n_outputs > self.weight.shape[0]:
            fresh = torch.zeros(n_outputs - self.weight.shape[0], 100)
            self.weight = torch.nn.Parameter(torch.cat([self.weight.detach(), fresh]))

    def forward(self, values: Any, mask: Any) -> Any:
        return self.weight[:, : values.shape[0]] @ values


ADAM = partial(torch.optim.Adam, lr=0.01)
SGD = partial(torch.optim.SGD, lr=0.05, momentum=0.9)
KINDS = {
    "masked": lambda: TorchLearner(Masked, ADAM, seed=1),
    "set": lambda: TorchLearner(Pooled, SGD, inputs="set", seed=1),
    "grows itself": lambda: TorchLearner(GrowsItself(), ADAM, seed=1),
}


@pytest.fixture(params=KINDS)
def learner(request: pytest.FixtureRequest) -> TorchLearner:
    return KINDS[request.param]()


def record(d: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    mask = rng.random(d) < 0.7
    return np.where(mask, rng.normal(size=d), 0.0).astype(np.float32), mask


def taught(learner: TorchLearner, d: int = 3, outputs: int = 2, n: int = 20) -> TorchLearner:
    learner.grow(d, outputs)
    for i in range(n):
        gradient = np.zeros(outputs, dtype=np.float32)
        gradient[i % 2] = 0.5
        assert learner.learn(*record(d, i), 0, gradient)
    return learner


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def model_of(learner: TorchLearner, seed: int = 0) -> MODLClassifier:
    return MODLClassifier(learners=[LogisticConfig(prior_variance=0.1), learner], combiner="score-sum", seed=seed)


def test_growing_changes_nothing_that_is_known(learner: TorchLearner) -> None:
    taught(learner)
    x, mask = record(3, 99)
    before, state = learner.scores(x, mask), learner.state()
    learner.grow(5, 4)
    wider = np.concatenate([x, np.zeros(2, dtype=np.float32)])
    after = learner.scores(wider, np.concatenate([mask, [False, False]]))
    np.testing.assert_allclose(after[:2], before, rtol=1e-5, atol=1e-6)
    assert after.shape == (4,)
    grown = learner.state()
    for name, array in state.items():  # weights, moments, counters: all in their corner, bit for bit
        np.testing.assert_array_equal(grown[name][tuple(slice(0, n) for n in array.shape)], array)


def test_the_moments_of_the_optimiser_go_on_after_growing() -> None:
    learner = taught(TorchLearner(Pooled, SGD, inputs="set"))
    assert np.abs(learner.state()["optimizer/0/momentum_buffer/tensor"]).max() > 0
    learner.grow(4, 2)
    moment = learner.state()["optimizer/0/momentum_buffer/tensor"]
    assert moment.shape == (4, 8)
    assert np.abs(moment[:3]).max() > 0
    assert not moment[3].any()


MISALIGNED = r"lay inputs out feature by feature, as in torch.stack"


@pytest.mark.parametrize("n_features", [1, 2, 5])
@pytest.mark.parametrize("module", [Misaligned, FromZero])
def test_a_module_whose_growth_misaligns_weights_is_refused_before_it_learns(module: Any, n_features: int) -> None:
    learner = TorchLearner(module, ADAM)
    with pytest.raises(BraidedError, match=MISALIGNED):
        learner.grow(n_features, 2)
    assert learner.n_outputs == 0


def test_a_module_of_one_size_is_taken_while_nothing_grows() -> None:
    assert taught(TorchLearner(OneSize, ADAM)).n_features == 3


def test_a_module_that_misaligns_weights_later_is_refused_then() -> None:
    learner = taught(TorchLearner(MisalignedLater, ADAM), d=3)
    state = learner.state()
    with pytest.raises(BraidedError, match=MISALIGNED):
        learner.grow(5, 2)
    assert same(learner.state(), state)
    assert learner.n_features == 3


@pytest.mark.parametrize("path", ["one", "chunk"])
def test_a_refused_growth_leaves_the_model_as_it_was(path: str) -> None:
    values, labels = made_up(20, classes=2)
    model = MODLClassifier(learners=[*presets.default().learners, TorchLearner(MisalignedLater, ADAM)])
    twin = copy.deepcopy(model)
    for each in (model, twin):
        each.learn_many(values[:, :3], labels)
    before = state_digest(model)
    ways = {
        "one": lambda: model.learn_one({0: 1.0, "new": 2.0, "newer": 3.0}, "another"),
        "chunk": lambda: model.learn_many([[1.0, 2.0, 3.0]], ["another"], names=[0, "new", "newer"]),
    }
    with pytest.raises(BraidedError, match=MISALIGNED):
        ways[path]()
    assert state_digest(model) == before
    assert (model.feature_names, model.classes) == (twin.feature_names, twin.classes)
    for each in (model, twin):
        each.learn_one({0: 1.0, 2: -1.0}, labels[0])
    assert state_digest(model) == state_digest(twin)


def test_a_module_that_is_refused_first_leaves_no_names_behind() -> None:
    model = MODLClassifier(learners=[*presets.default().learners, TorchLearner(Misaligned, ADAM)])
    with pytest.raises(BraidedError, match=MISALIGNED):
        model.learn_one({"a": 1.0, "b": 2.0}, "yes")
    assert (model.n_features, model.classes, model.records_learned) == (0, [], 0)
    assert model.braid.n_features == model.braid.learners[0].n_features == 0  # type: ignore[attr-defined]


def test_the_gradient_is_the_combiners(learner: TorchLearner) -> None:
    """A step moves the scores against the gradient that it was given, not against another."""
    taught(learner, n=0)
    x, mask = np.array([1.0, -1.0, 0.5], dtype=np.float32), np.ones(3, dtype=bool)
    before = learner.scores(x, mask)
    for _ in range(10):
        learner.learn(x, mask, 0, np.array([-1.0, 0.3], dtype=np.float32))
    change = learner.scores(x, mask) - before
    assert change[0] > 0 > change[1]


def test_predicting_changes_nothing(learner: TorchLearner) -> None:
    taught(learner)
    state = learner.state()
    said = [learner.scores(*record(3, i)) for i in range(5)]
    assert same(learner.state(), state)
    np.testing.assert_array_equal(said, [learner.scores(*record(3, i)) for i in range(5)])


def test_an_update_that_is_not_finite_is_left_out_whole(learner: TorchLearner) -> None:
    taught(learner)
    before = learner.state()
    assert not learner.learn(*record(3), 0, np.array([np.nan, 1.0], dtype=np.float32))
    huge = np.full(2, 3e38, dtype=np.float32)
    x = np.full(3, 1e30, dtype=np.float32)
    assert not learner.learn(x, np.ones(3, dtype=bool), 0, huge)
    after = learner.state()
    for name in before.keys() - {"steps"}:
        np.testing.assert_array_equal(before[name], after[name])
    assert learner.learn(*record(3), 0, np.array([0.1, -0.1], dtype=np.float32))


def test_reset_returns_to_the_first_weights(learner: TorchLearner) -> None:
    fresh = taught(copy.deepcopy(learner), n=0).state()
    taught(learner)
    learner.reset()
    state = learner.state()
    assert same({**state, "steps": fresh["steps"]}, fresh)


def test_state_goes_over_bit_for_bit(learner: TorchLearner) -> None:
    fresh = copy.deepcopy(learner)
    taught(learner)
    fresh.grow(3, 2)
    fresh.load_state(learner.state())
    copies = [fresh, copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))]
    taught(learner, n=10)
    for twin in copies:
        assert same(taught(twin, n=10).state(), learner.state())


def test_the_random_numbers_of_the_process_are_left_alone(learner: TorchLearner) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one = taught(learner).state()
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(8)
    again = KINDS["masked"]()
    if learner.module is Masked:
        assert same(taught(again).state(), one)
        other = TorchLearner(Masked, ADAM, seed=2)
        assert not same(taught(other).state(), one)


def test_beside_other_learners_the_array_path_is_the_one_record_path(learner: TorchLearner, tmp_path: Path) -> None:
    values, labels = made_up(60, classes=3)
    values[:30, 5] = np.nan  # one appears late
    chunked, single, stopped = model_of(learner), model_of(learner), model_of(learner)
    progress = chunked.predict_learn_many(values, labels)
    for i, (x, y) in enumerate(zip(as_records(values), labels.tolist(), strict=True)):
        probabilities = single.predict_proba_one(x)
        np.testing.assert_array_equal(progress.values[i], [probabilities.get(c, 0.0) for c in chunked.classes])
        single.learn_one(x, y)
    assert state_digest(chunked) == state_digest(single)
    stopped.learn_many(values[:35], labels[:35])
    stopped.save(tmp_path / "model")
    resumed = MODLClassifier.load(tmp_path / "model", learners=stopped.learners)
    resumed.learn_many(values[35:], labels[35:])
    assert state_digest(resumed) == state_digest(chunked)
    twin = pickle.loads(pickle.dumps(stopped))
    twin.learn_many(values[35:], labels[35:])
    assert state_digest(twin) == state_digest(chunked)


def test_beside_the_standard_learners_it_is_of_use() -> None:
    """A product of two features is beyond the linear learner and within the module's reach."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1_500, 3))
    labels = (values[:, 0] * values[:, 1] > 0).astype(int)
    module = TorchLearner(Masked, ADAM)
    with_module = model_of(module)
    own = with_module.predict_learn_many(values, labels).own
    assert with_module.learner_names == ["olr", "torch"]
    late = labels[1_000:] != own[1_000:].T
    assert late[1].mean() < 0.2 < 0.4 < late[0].mean()
    beside = MODLClassifier(learners=[*presets.default().learners, module])
    beside.learn_many(values[:100], labels[:100])
    assert beside.learner_names == [*MODLClassifier().learner_names, "torch"]


def test_regression() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1_000, 2))
    target = values[:, 0] + np.abs(values[:, 1])
    model = MODLRegressor(learners=[TorchLearner(Masked, ADAM)], combiner="score-sum")
    errors = np.abs(model.predict_learn_many(values, target).values[:, 0] - target)
    assert errors[-200:].mean() < 0.4 * np.abs(target - target.mean()).mean()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((torch.nn.Linear(2, 2), ADAM), r"module is Linear: give a class or function"),
        ((3, ADAM), "module is int: give a class or function"),
        ((Masked, "adam"), "optimizer is str: give a function"),
        ((Masked, ADAM, "sets"), "inputs is 'sets': use 'masked' or 'set'"),
    ],
)
def test_bad_settings_are_named(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(BraidedError, match=words):
        TorchLearner(*arguments)


def test_a_module_that_gives_too_few_scores_is_named() -> None:
    learner = TorchLearner(lambda n, k: Masked(n, 1), ADAM)
    learner.grow(3, 2)
    with pytest.raises(BraidedError, match="gives 1 scores for 2 outputs"):
        learner.scores(*record(3))


class Talkative(Masked):
    """Gives its scores in company, as many a module does."""

    def forward(self, values: Any, mask: Any) -> Any:
        return super().forward(values, mask), mask


class Rounded(Masked):
    def forward(self, values: Any, mask: Any) -> Any:
        return super().forward(values, mask).long()


@pytest.mark.parametrize(("module", "found"), [(Talkative, "tuple"), (Rounded, "torch.int64")])
def test_a_module_that_gives_no_float_tensor_is_named_before_it_learns(module: Any, found: str) -> None:
    with pytest.raises(BraidedError, match=f"'torch' gives {found}: it must give a float tensor, one score per output"):
        TorchLearner(module, ADAM).grow(3, 2)


def test_a_module_that_gives_other_scores_when_it_learns_is_named() -> None:
    class Halved(Masked):
        def forward(self, values: Any, mask: Any) -> Any:
            return super().forward(values, mask)[: 1 if self.training else None]

    learner = TorchLearner(Halved, ADAM)
    learner.grow(3, 2)
    with pytest.raises(BraidedError, match="gives 1 scores for 2 outputs"):
        learner.learn(*record(3), 1, np.zeros(2, dtype=np.float32))


def test_the_state_of_another_module_is_refused() -> None:
    state = taught(TorchLearner(Masked, ADAM)).state()
    other = taught(TorchLearner(Pooled, SGD, inputs="set"), n=0)
    with pytest.raises(BraidedError, match="the state belongs to another module"):
        other.load_state(state)


def test_torch_is_not_imported_before_it_is_used() -> None:
    code = "import sys; from braided.learners import TorchLearner; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
