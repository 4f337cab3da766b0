"""A forest of Mondrian trees whose every pruning takes part: the local learner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.errors import BraidedError
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.inputs import MOST_FEATURES
from braided.kernels.mondrian import (
    FEATURE,
    KEY,
    LEFT,
    MOST_FORKS,
    NODES,
    NOTHING,
    OUTPUTS,
    PARENT,
    RIGHT,
    TREES,
    USED,
    VALUES,
    forest_arrays,
    look,
    teach_tree,
    tree_says,
)
from braided.kernels.random import key_of, mix
from braided.learners.base import ArrayPlan, CompiledLearner, LearnerConfig
from braided.learners.gaussian import PLANES

#: What every class's probability is mixed with before its logarithm is taken.
_FLOOR = 1e-3


@dataclass(frozen=True)
class ForestConfig(LearnerConfig):
    """Settings of the Mondrian forest; the formulas are in `MondrianForest`.

    Attributes
    ----------
    trees
        How many.
    nodes
        Of each tree at most; it then goes on learning without growing.
    prior
        Records of each class that a node begins with.
    inputs
        `plain`: a missing value is known to be missing. `filled`, `scores`: it is filled in (`kernels/inputs.py`).
    """

    trees: int = 10
    nodes: int = 2_000
    prior: float = 0.5
    inputs: Literal["plain", "filled", "scores"] = "plain"

    def __post_init__(self) -> None:
        checks.sizes(self, 1, "trees", "nodes")
        checks.above(self, 0.0, "prior")
        checks.one_of(self, "inputs", ("plain", "filled", "scores"))

    def for_regression(self) -> ForestValueConfig:
        """The same for numbers."""
        return ForestValueConfig(**{field.name: getattr(self, field.name) for field in fields(ForestConfig)})


@dataclass(frozen=True)
class ForestValueConfig(ForestConfig):
    """The same for a numeric target; the formulas are in `MondrianForestRegressor`.

    Attributes
    ----------
    change
        Learn how far a target lies from the one before it.
    """

    change: bool = False

    def for_regression(self) -> ForestValueConfig:
        """It is for regression already."""
        return self


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    figures, links, sizes = forest_arrays(shape, double)
    n, used = shape[OUTPUTS], shape[USED]
    there, values, total, stack = work[:used], work[used : 2 * used], work64[:n], work64[n:]
    look(shape, x, active, there, values)
    total[:] = 0
    for tree in range(shape[TREES]):
        if sizes[tree] > 0:
            tree_says(shape, hyper, double, figures, links, values, there, tree * shape[NODES], stack, total)
    if hyper[VALUES] > 0:
        scores[0] = total[0] / shape[TREES]
        return
    mean = 0.0
    for k in range(n):
        total[k] = np.log((1.0 - _FLOOR) * total[k] / shape[TREES] + _FLOOR / n) if sizes[0] > 0 else 0.0
        mean += total[k]
    for k in range(n):
        scores[k] = total[k] - mean / n


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, gradient, work, work64, index):
    figures, links, sizes = forest_arrays(shape, double)
    used = shape[USED]
    there, values = work[:used], work[used : 2 * used]
    look(shape, x, active, there, values)
    key = mix(np.uint64(hyper[KEY]) * np.uint64(4294967296) + np.uint64(hyper[KEY + 1]), np.uint64(step))
    for tree in range(shape[TREES]):
        draw = mix(key, np.uint64(tree))
        teach_tree(shape, hyper, single, double, figures, links, sizes, tree, values, there, y, draw)
    return True


def _is_tree(links: NDArray[Any], first: int, used: int) -> bool:
    """Whether the links of some nodes, numbered from `first` on, make one tree that splits on these features."""
    if not len(links):
        return True
    features = links[:, FEATURE]
    inner = np.flatnonzero(features >= 0)
    children = links[inner][:, [LEFT, RIGHT]].ravel() - first
    if (features < -1).any() or (features >= used).any() or sorted(children.tolist()) != list(range(1, len(links))):
        return False
    places, parents = children.astype(np.int64), np.repeat(inner, 2)
    if links[0, PARENT] != -1 or (links[places, PARENT] != parents + first).any():
        return False
    below: dict[int, list[int]] = {}
    for child, parent in zip(places.tolist(), parents.tolist(), strict=True):
        below.setdefault(parent, []).append(child)
    pending, found = [0], 0
    while pending:
        found += 1
        pending += below.get(pending.pop(), [])
    return found == len(links)


class MondrianForest(CompiledLearner):
    """Mondrian trees, each weighing all of its prunings (AMF: Mourtada, Gaiffas and Scornet 2021).

    A node keeps a time, the range of the values that came to it, and counts n_k of the classes. A record outside of a
    node's range by e_j in feature j would split it after a time drawn from an exponential distribution of rate sum_j
    e_j; if that is before its children's time, the node is split there: on feature j with probability proportional to
    e_j, at a place drawn between the range and the value. A node whose records all had the record's class stays whole.
    By itself a node says

        p_k = (n_k + prior) / (n + prior K),   and its weight is w = exp(-sum of log losses of what it has said).

    The weight of all prunings below a node is W = (w + W_left W_right) / 2, and w for a leaf; a tree says the mean of
    what its prunings say, by weight, in one walk along the record's path. The scores are log((1 - 0.001) p + 0.001 / K)
    of the trees' mean, less their mean.

    One rule is ours. A leaf of one class may come to have a wide range, and nothing inside of a range ever splits it: a
    stream that begins with one class would never be told apart there. A leaf of two records or more to which one of
    another class comes is therefore split within its range, at a place drawn evenly from it, its records (and its log
    weight) taken to be spread evenly; and so on, around the new record, while its leaf has two or more.

    A missing feature extends no range. A record goes through a split on one to either side by chance when it is
    learned, and to both, by the records of each, when it is predicted (past 16 such splits to the larger). At the
    bound of its nodes a tree goes on counting and weighing. Draws depend on seed, record and tree alone. A record costs
    O(trees depth features). Of more than 256 features it looks at the first 256: each node keeps a range for each.

    Examples
    --------
    >>> import numpy as np
    >>> learner = MondrianForest(ForestConfig(), seed=1)
    >>> learner.grow(2, 2)
    >>> everything, unused = np.ones(2, dtype=bool), np.zeros(2, dtype=np.float32)
    >>> corners = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=np.float32)
    >>> for i in range(20):
    ...     for x in corners:
    ...         _ = learner.learn(x + i / 100, everything, int(x[0] != x[1]), unused)
    >>> [int(learner.scores(x, everything).argmax()) for x in corners]
    [0, 1, 1, 0]
    """

    name = "forest"
    task = "classification"
    config: ForestConfig
    forward = _forward
    update = _learn

    def _used(self, n_features: int) -> int:
        return min(n_features, MOST_FEATURES)

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Counts by class and ranges by feature of every node; times, weights and records; splits; sizes of trees."""
        size = self.config.trees * self.config.nodes
        return {
            "counts": ArrayPlan((size, n_outputs), double=True),
            "ranges": ArrayPlan((2 * size, self._used(n_features))),
            "figures": ArrayPlan((size, 4), double=True),
            "links": ArrayPlan((size, 5), double=True),
            "sizes": ArrayPlan((self.config.trees,), double=True),
        }

    def initialise(self, name: str, view: NDArray[Any], old: tuple[int, ...], bound: float) -> None:
        """Zeros; ranges that hold nothing."""
        super().initialise(name, view, old, bound)
        if name == "ranges":
            view[::2, old[1] :] = NOTHING
            view[1::2, old[1] :] = -NOTHING
            if old[0] == 0:
                view[::2], view[1::2] = NOTHING, -NOTHING

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """Sizes, row lengths, where the arrays start, all features and the plane of x."""
        features, outputs = self._capacities
        rows = [outputs, self._used(features)]
        places = [offsets[name] for name in ("counts", "ranges", "figures", "links", "sizes")]
        sizes = [self.n_outputs, self._used(self.n_features), self.config.trees, self.config.nodes]
        return [*sizes, *rows, *places, self.n_features, PLANES[self.config.inputs]]

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over arrays made by `state`; what kernels find their way by must be trees."""
        self._check_trees(arrays)
        super().load_state(arrays)

    def _check_trees(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse links that do not make trees: each node but the first is a child once, of an earlier node."""
        nodes, used = self.config.nodes, self._used(self.n_features)
        plans = self.plan(self.n_features, self.n_outputs)
        if any(name not in arrays or arrays[name].shape != plan.shape for name, plan in plans.items()):
            return  # refused by name elsewhere
        sizes, links = arrays["sizes"], arrays["links"]
        finite = all(bool(np.isfinite(arrays[name]).all()) for name in plans)
        whole = finite and all(bool((part == np.floor(part)).all()) for part in (sizes, links[:, [0, 2, 3, 4]]))
        sound = whole and bool(((sizes >= 0) & (sizes <= nodes)).all())
        for tree in range(self.config.trees):
            first = tree * nodes
            sound = sound and _is_tree(links[first : first + int(sizes[tree])], first, used)
        if not sound:
            raise BraidedError(f"state of learner {self.name!r}: its arrays are not trees; give a file written by save")

    def hyper_numbers(self) -> list[float]:
        """The prior, whether targets are numbers, and the key in two halves."""
        key = key_of(self.seed, self.name, self.place)
        return [self.config.prior, float(self.task == "regression"), float(key >> 32), float(key & 0xFFFFFFFF)]

    def plastic_numbers(self) -> list[float]:
        """There is no rate."""
        return self.hyper_numbers()

    def raise_plasticity(self, factor: float, fresh: bool) -> None:
        """There is nothing to raise: a tree follows a stream that has changed by its counts alone."""

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """Availability and values, two rows of outputs, and the sides of forks that wait."""
        return 2 * self._used(n_features), 2 * n_outputs + 2 * (MOST_FORKS + 2), 0


class MondrianForestRegressor(MondrianForest):
    """The same for a numeric target: a node says the mean of its targets, n m / (n + prior), and loses (m - y)^2 / 2.

    A loss is 50 at most.

    Examples
    --------
    >>> import numpy as np
    >>> learner = MondrianForestRegressor(ForestValueConfig(), seed=1)
    >>> learner.grow(1, 1)
    >>> everything, unused = np.ones(1, dtype=bool), np.zeros(1, dtype=np.float32)
    >>> for value in np.random.default_rng(0).uniform(-2, 2, size=1_000):
    ...     _ = learner.learn(np.array([value], dtype=np.float32), everything, float(value > 0), unused)
    >>> [f"{learner.scores(np.array([v], dtype=np.float32), everything)[0]:.1f}" for v in (-1.0, 1.0)]
    ['0.0', '1.0']
    """

    task = "regression"
    config: ForestValueConfig
