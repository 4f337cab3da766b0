"""A forest of Mondrian trees whose every pruning takes part: the local learner."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.errors import BraidedError
from braided.kernels.calls import FORWARD, LEARN, entry
from braided.kernels.compile import kernel
from braided.kernels.dense import FAST
from braided.kernels.inputs import has_planes
from braided.kernels.random import key_of, mix, unit_interval
from braided.learners.base import ArrayPlan, CompiledLearner, LearnerConfig
from braided.learners.gaussian import PLANES

#: The forest looks at the first so many features: each node keeps a range for each of them.
MOST_FEATURES = 256
#: The bound of a range that holds nothing yet.
_NOTHING = 3e38
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


# `shape`: outputs, features that are looked at, trees, nodes of each; row lengths of counts and ranges; where the
# arrays start; all features, and the plane of x. `hyper`: the prior, whether targets are numbers, and the key in two
# halves.
_OUTPUTS, _USED, _TREES, _NODES, _COUNT_ROW, _RANGE_ROW, _COUNTS, _RANGES, _FIGURES, _LINKS, _SIZES = range(11)
_ALL, _PLANE = 11, 12
_PRIOR, _VALUES, _KEY = 0, 1, 2
# A node's figures: time, log weight, log weight of its tree, records. Its links: feature (-1 for a leaf), threshold,
# left, right, parent (-1 for the root).
_TIME, _WEIGHT, _TREE_WEIGHT, _RECORDS = range(4)
_FEATURE, _THRESHOLD, _LEFT, _RIGHT, _PARENT = range(5)
_LOG_2 = math.log(2.0)
#: A leaf of fewer records is not split within its range.
_FEWEST = 2.0
#: At most so many splits on missing features are followed on both sides in one tree.
_MOST_FORKS = 16


@kernel()
def _figures(shape, double):
    size = shape[_TREES] * shape[_NODES]
    figures = double[shape[_FIGURES] : shape[_FIGURES] + 4 * size].reshape(size, 4)
    links = double[shape[_LINKS] : shape[_LINKS] + 5 * size].reshape(size, 5)
    return figures, links, double[shape[_SIZES] : shape[_SIZES] + shape[_TREES]]


@kernel()
def _counts(shape, double, node):
    start = shape[_COUNTS] + node * shape[_COUNT_ROW]
    return double[start : start + shape[_OUTPUTS]]


@kernel()
def _range(shape, single, node):
    """Lower and upper bounds of the values that came to a node."""
    low = shape[_RANGES] + 2 * node * shape[_RANGE_ROW]
    high = low + shape[_RANGE_ROW]
    return single[low : low + shape[_USED]], single[high : high + shape[_USED]]


@kernel()
def _node_says(shape, hyper, single, double, figures, node, out):
    """What a node by itself says: smoothed frequencies of the classes, or the mean, drawn to 0 by the prior."""
    counts, records = _counts(shape, double, node), figures[node, _RECORDS]
    n = shape[_OUTPUTS]
    total = records + hyper[_PRIOR] * (1 if hyper[_VALUES] > 0 else n)
    for k in range(n):
        out[k] = (counts[k] + (0.0 if hyper[_VALUES] > 0 else hyper[_PRIOR])) / total


@kernel()
def _tree_says(shape, hyper, single, double, figures, links, values, there, root, stack, out):
    """Add what one tree says of a record to `out`: the mean over its prunings, by their weights.

    Down from the root, each node takes its share 1/2 w / W of what is left, and the leaf the rest. At a split on a
    missing feature both sides go on, by how many records each has; past so many forks, the larger side alone.
    """
    n = shape[_OUTPUTS]
    alone = stack[:n]
    pending = stack[n : n + 2 * (_MOST_FORKS + 2)].reshape(_MOST_FORKS + 2, 2)
    pending[0, 0], pending[0, 1] = root, 1.0
    depth, forks = 1, 0
    while depth > 0:
        depth -= 1
        node, left_over = int(pending[depth, 0]), pending[depth, 1]
        while True:
            _node_says(shape, hyper, single, double, figures, node, alone)
            feature = int(links[node, _FEATURE])
            share = left_over
            if feature >= 0:
                share *= 0.5 * np.exp(min(figures[node, _WEIGHT] - figures[node, _TREE_WEIGHT], _LOG_2))
            for k in range(n):
                out[k] += share * alone[k]
            if feature < 0:
                break
            left_over -= share
            left, right = int(links[node, _LEFT]), int(links[node, _RIGHT])
            if there[feature] > 0:
                node = left if values[feature] <= links[node, _THRESHOLD] else right
                continue
            part = figures[left, _RECORDS] / max(figures[left, _RECORDS] + figures[right, _RECORDS], 1.0)
            if forks >= _MOST_FORKS:
                node = left if part >= 0.5 else right
                continue
            forks += 1
            pending[depth, 0], pending[depth, 1] = right, left_over * (1.0 - part)
            depth += 1
            node, left_over = left, left_over * part


@kernel()
def _look(shape, x, active, there, values):
    """The values of the features that are looked at, from the plane that is wanted, and which there are."""
    n, used = shape[_ALL], shape[_USED]
    if shape[_PLANE] > 0 and has_planes(x, n):
        there[:] = 1
        values[:] = x[shape[_PLANE] * n : shape[_PLANE] * n + used]
        return
    there[:] = 0
    for j in active:
        if j < used:
            there[j] = 1
            values[j] = x[j]


@entry(FORWARD)
def _forward(shape, hyper, single, double, x, active, step, work, work64, index, scores):
    figures, links, sizes = _figures(shape, double)
    n, used = shape[_OUTPUTS], shape[_USED]
    there, values, total, stack = work[:used], work[used : 2 * used], work64[:n], work64[n:]
    _look(shape, x, active, there, values)
    total[:] = 0
    for tree in range(shape[_TREES]):
        if sizes[tree] > 0:
            _tree_says(shape, hyper, single, double, figures, links, values, there, tree * shape[_NODES], stack, total)
    if hyper[_VALUES] > 0:
        scores[0] = total[0] / shape[_TREES]
        return
    mean = 0.0
    for k in range(n):
        total[k] = np.log((1.0 - _FLOOR) * total[k] / shape[_TREES] + _FLOOR / n) if sizes[0] > 0 else 0.0
        mean += total[k]
    for k in range(n):
        scores[k] = total[k] - mean / n


@kernel()
def _enter(shape, hyper, single, double, figures, node, values, there, y, weigh):
    """A record comes to a node: its weight by what the node said of the record, its range, its counts."""
    counts, records = _counts(shape, double, node), figures[node, _RECORDS]
    if weigh and hyper[_VALUES] > 0:
        figures[node, _WEIGHT] -= 0.5 * min((counts[0] / (records + hyper[_PRIOR]) - y) ** 2, 100.0)
    elif weigh:
        figures[node, _WEIGHT] += np.log((counts[int(y)] + hyper[_PRIOR]) / (records + hyper[_PRIOR] * shape[_OUTPUTS]))
    low, high = _range(shape, single, node)
    for j in range(shape[_USED]):
        low[j] = min(low[j], values[j]) if there[j] > 0 else low[j]
        high[j] = max(high[j], values[j]) if there[j] > 0 else high[j]
    figures[node, _RECORDS] += 1.0
    if hyper[_VALUES] > 0:
        counts[0] += y
    else:
        counts[int(y)] += 1


@kernel()
def _extension(low, high, value, there):
    """How far a value lies outside of a range; a range that holds nothing is not extended."""
    outside = max(low - value, np.float32(0)) + max(value - high, np.float32(0))
    return outside if low <= high and there > 0 else np.float32(0)


@kernel(fastmath=FAST)
def _extensions(low, high, values, there):
    """The sum of them."""
    total = np.float32(0)
    for j in range(values.shape[0]):
        total += _extension(low[j], high[j], values[j], there[j])
    return total


@kernel()
def _copy(shape, single, double, figures, links, node, to):
    """Make `to` what a node is, its children included."""
    figures[to] = figures[node]
    links[to] = links[node]
    counts, copied = _counts(shape, double, node), _counts(shape, double, to)
    copied[:] = counts
    (low, high), (new_low, new_high) = _range(shape, single, node), _range(shape, single, to)
    new_low[:] = low
    new_high[:] = high
    if links[node, _FEATURE] >= 0:
        links[int(links[node, _LEFT]), _PARENT] = to
        links[int(links[node, _RIGHT]), _PARENT] = to


@kernel()
def _clear(shape, single, double, figures, links, node, time, parent):
    """An empty leaf."""
    figures[node, :] = 0.0
    figures[node, _TIME] = time
    links[node, :] = -1.0
    links[node, _PARENT] = parent
    counts = _counts(shape, double, node)
    counts[:] = 0
    low, high = _range(shape, single, node)
    low[:] = _NOTHING
    high[:] = -_NOTHING


@kernel()
def _pure(shape, single, double, figures, node, y):
    """Whether all records of a node had this class."""
    return _counts(shape, double, node)[y] >= figures[node, _RECORDS] - 1e-6 * (1.0 + figures[node, _RECORDS])


@kernel()
def _mixed(shape, single, double, figures, node, y):
    """Whether a leaf has records enough, and with this one of more than one class."""
    records = figures[node, _RECORDS]
    return records >= _FEWEST and _counts(shape, double, node)[y] < records - 1e-6 * (1.0 + records)


@kernel()
def _halve(shape, single, double, figures, links, sizes, first, tree, node, there, key, draws):
    """Split a leaf within its range, its records taken to be spread evenly over it; false if it has no width."""
    low, high = _range(shape, single, node)
    width = 0.0
    for j in range(shape[_USED]):
        if there[j] > 0 and high[j] > low[j]:
            width += np.float64(high[j]) - low[j]
    if width <= 0.0:
        return False
    chosen, left_over = -1, width * unit_interval(mix(key, draws - 2))
    for j in range(shape[_USED]):
        if there[j] > 0 and high[j] > low[j]:
            chosen = j
            left_over -= np.float64(high[j]) - low[j]
            if left_over < 0.0:
                break
    part = unit_interval(mix(key, draws - 1))
    threshold = np.float64(low[chosen]) + part * (np.float64(high[chosen]) - low[chosen])
    time = figures[node, _TIME] - np.log(1.0 - unit_interval(mix(key, draws))) / width
    left, right = first + int(sizes[tree]), first + int(sizes[tree]) + 1
    sizes[tree] += 2
    for child, share in ((left, part), (right, 1.0 - part)):
        _copy(shape, single, double, figures, links, node, child)
        figures[child, _TIME] = time
        figures[child, _RECORDS] *= share
        figures[child, _WEIGHT] *= share
        figures[child, _TREE_WEIGHT] = figures[child, _WEIGHT]
        counts = _counts(shape, double, child)
        for k in range(shape[_OUTPUTS]):
            counts[k] *= share
        links[child, _PARENT] = node
        child_low, child_high = _range(shape, single, child)
        if child == left:
            child_high[chosen] = threshold
        else:
            child_low[chosen] = threshold
    links[node, _FEATURE], links[node, _THRESHOLD] = chosen, threshold
    links[node, _LEFT], links[node, _RIGHT] = left, right
    return True


@kernel()
def _teach_tree(shape, hyper, single, double, figures, links, sizes, tree, values, there, y, key):
    """Let one tree learn a record."""
    first, used = tree * shape[_NODES], shape[_USED]
    if sizes[tree] == 0:
        _clear(shape, single, double, figures, links, first, 0.0, -1)
        sizes[tree] = 1
        _enter(shape, hyper, single, double, figures, first, values, there, y, False)
        return None
    node, draws = first, 0
    while True:
        low, high = _range(shape, single, node)
        intensity = 0.0
        leaf = links[node, _FEATURE] < 0
        grows = sizes[tree] + 2 <= shape[_NODES]
        if grows and (hyper[_VALUES] > 0 or not _pure(shape, single, double, figures, node, int(y))):
            intensity = np.float64(_extensions(low, high, values, there))
        split_time = 0.0
        if intensity > 0.0:
            draws += 1
            wait = -np.log(1.0 - unit_interval(mix(key, draws))) / intensity
            split_time = figures[node, _TIME] + wait
            if not leaf and split_time >= figures[int(links[node, _LEFT]), _TIME]:
                split_time = 0.0
        if split_time > 0.0:
            break
        if grows and leaf and hyper[_VALUES] == 0 and _mixed(shape, single, double, figures, node, int(y)):
            draws += 3
            if _halve(shape, single, double, figures, links, sizes, first, tree, node, there, key, draws):
                leaf = False
        _enter(shape, hyper, single, double, figures, node, values, there, y, True)
        if leaf:
            return _go_up(figures, links, node)
        feature = int(links[node, _FEATURE])
        left, right = int(links[node, _LEFT]), int(links[node, _RIGHT])
        if there[feature] > 0:
            node = left if values[feature] <= links[node, _THRESHOLD] else right
        else:
            draws += 1
            part = figures[left, _RECORDS] / max(figures[left, _RECORDS] + figures[right, _RECORDS], 1.0)
            node = left if unit_interval(mix(key, draws)) < part else right
    # Which feature, by how far each is outside; and where between the range and the value.
    chosen, left_over = -1, intensity * unit_interval(mix(key, draws + 1))
    for j in range(used):
        outside = _extension(low[j], high[j], values[j], there[j])
        if outside > 0:
            chosen = j
            left_over -= outside
            if left_over < 0.0:
                break
    value, above = values[chosen], values[chosen] > high[chosen]
    near = np.float64(high[chosen]) if above else np.float64(low[chosen])
    threshold = near + (value - near) * unit_interval(mix(key, draws + 2))
    if above:
        threshold = min(max(threshold, near), np.nextafter(np.float32(value), np.float32(-_NOTHING)))
    else:
        threshold = min(max(threshold, value), np.nextafter(np.float32(near), np.float32(-_NOTHING)))
    old, new = first + int(sizes[tree]), first + int(sizes[tree]) + 1
    sizes[tree] += 2
    _copy(shape, single, double, figures, links, node, old)
    figures[old, _TIME] = split_time
    links[old, _PARENT] = node
    _clear(shape, single, double, figures, links, new, split_time, node)
    links[node, _FEATURE], links[node, _THRESHOLD] = chosen, threshold
    links[node, _LEFT], links[node, _RIGHT] = (old, new) if above else (new, old)
    _enter(shape, hyper, single, double, figures, node, values, there, y, True)
    _enter(shape, hyper, single, double, figures, new, values, there, y, False)
    return _go_up(figures, links, new)


@kernel()
def _go_up(figures, links, node):
    """The weights of the trees below each node, from a leaf to the root."""
    figures[node, _TREE_WEIGHT] = figures[node, _WEIGHT]
    node = int(links[node, _PARENT])
    while node >= 0:
        below = figures[int(links[node, _LEFT]), _TREE_WEIGHT] + figures[int(links[node, _RIGHT]), _TREE_WEIGHT]
        own = figures[node, _WEIGHT]
        top = max(own, below)
        figures[node, _TREE_WEIGHT] = top + np.log(0.5 * (np.exp(own - top) + np.exp(below - top)))
        node = int(links[node, _PARENT])


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, gradient, work, work64, index):
    figures, links, sizes = _figures(shape, double)
    used = shape[_USED]
    there, values = work[:used], work[used : 2 * used]
    _look(shape, x, active, there, values)
    key = mix(np.uint64(hyper[_KEY]) * np.uint64(4294967296) + np.uint64(hyper[_KEY + 1]), np.uint64(step))
    for tree in range(shape[_TREES]):
        draw = mix(key, np.uint64(tree))
        _teach_tree(shape, hyper, single, double, figures, links, sizes, tree, values, there, y, draw)
    return True


def _is_tree(links: NDArray[Any], first: int, used: int) -> bool:
    """Whether the links of some nodes, numbered from `first` on, make one tree that splits on these features."""
    if not len(links):
        return True
    features = links[:, _FEATURE]
    inner = np.flatnonzero(features >= 0)
    children = links[inner][:, [_LEFT, _RIGHT]].ravel() - first
    if (features < -1).any() or (features >= used).any() or sorted(children.tolist()) != list(range(1, len(links))):
        return False
    places, parents = children.astype(np.int64), np.repeat(inner, 2)
    if links[0, _PARENT] != -1 or (links[places, _PARENT] != parents + first).any():
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
    O(trees depth features).

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
            view[::2, old[1] :] = _NOTHING
            view[1::2, old[1] :] = -_NOTHING
            if old[0] == 0:
                view[::2], view[1::2] = _NOTHING, -_NOTHING

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
        sound = finite and bool(((sizes >= 0) & (sizes <= nodes)).all())
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
        return 2 * self._used(n_features), 2 * n_outputs + 2 * (_MOST_FORKS + 2), 0


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
