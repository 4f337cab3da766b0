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
from braided.kernels.inputs import MAX_FEATURES
from braided.kernels.mondrian import (
    COUNTS,
    FEATURE,
    FRAME,
    GAINS,
    IN_STEPS,
    KEY_HIGH,
    KEY_LOW,
    LEFT,
    MAX_FORKS,
    MAX_IN_NODE,
    MAX_NODES,
    MIN_IN_NODE,
    NOTHING,
    OUTPUTS,
    PARENT,
    RECORDS,
    RIGHT,
    STEADY,
    TREES,
    USED,
    VALUES,
    drop_splits,
    follow_error,
    follow_frames,
    forest_arrays,
    look,
    teach_tree,
    tree_says,
    weigh_features,
)
from braided.kernels.random import key_of, mix
from braided.learners.base import ArrayPlan, CompiledLearner, LearnerConfig
from braided.learners.gaussian import PLANES
from braided.store import MAX_COUNT, REMEDY, check

#: What every class's probability is mixed with before its logarithm is taken.
_FLOOR = 1e-3
#: Nodes are numbered in float32.
_MAX_NODES = 2**24
#: The arrays that have rows for each node.
_BY_NODE = ("nodes", "ranges")
#: What a node of numbers divides by, which is less than any record counts as.
_MIN_RECORDS = 1e-7


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
        Records that a node begins with, the same part of each class.
    inputs
        `raw`: a missing value is known to be missing, and values are as they came, in units of the feature's first step
        (`MondrianForest`). `steady`: the same, from standardised values. `plain`: these as they are. `filled`,
        `scores`: missing ones are filled in (`kernels/inputs.py`).
    """

    trees: int = 10
    nodes: int = 2_000
    prior: float = 1.0
    inputs: Literal["raw", "steady", "plain", "filled", "scores"] = "raw"

    def __post_init__(self) -> None:
        checks.sizes(self, 1, "trees", "nodes", most=_MAX_NODES)
        checks.above(self, 0.0, "prior")
        checks.one_of(self, "inputs", ("raw", "steady", "plain", "filled", "scores"))

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
    nodes, _, sizes = forest_arrays(shape, single, double)
    n, used = shape[OUTPUTS], shape[USED]
    lower, total = work[:used], work[3 * used : 3 * used + n]
    look(shape, double, x, active, lower, work[used : 2 * used])
    total[:] = 0
    for tree in range(shape[TREES]):
        if sizes[tree] > 0:
            tree_says(shape, hyper, nodes, lower, tree * shape[MAX_NODES], work64, total)
    if hyper[VALUES] > 0:
        total[0] /= shape[TREES]
        scores[0] = total[0]
        return
    mean = 0.0
    for k in range(n):
        total[k] = np.log((1.0 - _FLOOR) * total[k] / shape[TREES] + _FLOOR / n) if sizes[0] > 0 else 0.0
        mean += total[k]
    for k in range(n):
        scores[k] = total[k] - mean / n


@entry(LEARN)
def _learn(shape, hyper, single, second, double, x, active, step, y, weight, gradient, work, work64, index):
    nodes, ranges, sizes = forest_arrays(shape, single, double)
    used = shape[USED]
    lower, upper, weights = work[:used], work[used : 2 * used], work[2 * used : 3 * used]  # filled by `_forward`
    follow_frames(shape, double, x, active)
    weigh_features(shape, double, weights)
    error = follow_error(shape, double, (work[3 * used] - y) ** 2) if hyper[VALUES] > 0 else 1.0
    gains = double[shape[GAINS] : shape[GAINS] + 2 * used].reshape(used, 2)
    own_weight = np.float32(weight)
    seed = np.uint64(hyper[KEY_HIGH]) * np.uint64(4294967296) + np.uint64(hyper[KEY_LOW])
    key = mix(seed, np.uint64(step))
    for tree in range(shape[TREES]):
        draw = mix(key, np.uint64(tree))
        teach_tree(shape, hyper, nodes, ranges, sizes, tree, lower, upper, weights, y, own_weight, error, gains, draw)
    return True


def _is_tree(nodes: NDArray[Any]) -> bool:
    """Whether the links of some nodes make one tree, from the first of them on."""
    if not len(nodes):
        return True
    features = nodes[:, FEATURE]
    if (features != np.floor(features)).any():
        return False
    inner = np.flatnonzero(features >= 0)
    children = nodes[inner][:, [LEFT, RIGHT]].ravel()
    if sorted(children.tolist()) != list(range(1, len(nodes))):
        return False
    places, parents = children.astype(np.int64), np.repeat(inner, 2)
    if nodes[0, PARENT] != -1 or (nodes[places, PARENT] != parents).any():
        return False
    below: dict[int, list[int]] = {}
    for child, parent in zip(places.tolist(), parents.tolist(), strict=True):
        below.setdefault(parent, []).append(child)
    pending, found = [0], 0
    while pending:
        found += 1
        pending += below.get(pending.pop(), [])
    return found == len(nodes)


class MondrianForest(CompiledLearner):
    """Mondrian trees, each weighing all of its prunings (AMF: Mourtada, Gaiffas and Scornet 2021).

    A node keeps a time, the range of the values that came to it, and counts n_k of the classes. A record outside of a
    node's range by e_j in feature j would split it after a time drawn from an exponential distribution of rate sum_j
    r_j e_j; if that is before its children's time, the node is split there: on feature j with probability proportional
    to r_j e_j, at a place drawn between the range and the value. A node whose records all had the record's class stays
    whole. By itself a node says

        p_k = (n_k + prior / K) / (n + prior),   and its weight is w = product of all p_y that it has said.

    The weight of all prunings below a node is W = (w + W_left W_right) / 2, and w for a leaf; a tree says the mean of
    what its prunings say, by weight, in one walk along the record's path. Of all weights only the odds of each inner
    node against what is below it are kept, o = w / (W_left W_right), within 1e-12 and 1e12. With q what is said of y
    below it, p_y at the leaf, and 1 for a leaf that is new,

        a record's share for the node is o / (1 + o),   q <- (o p_y + q) / (1 + o),   o <- o p_y / q,

    the old o and q on the right of each. The scores are log((1 - 0.001) p + 0.001 / K) of the trees' mean, less their
    mean.

    Three rules are ours. A leaf of one class may come to have a wide range, and nothing inside of a range ever splits
    it: a stream that begins with one class would never be told apart there. A leaf of two records or more to which one
    of another class comes is therefore split within its range, at a place drawn evenly from it, its records (and its
    log weight) taken to be spread evenly; and so on, around the new record, while its leaf has two or more.

    And features differ in weight, since units say nothing of their use. With G_j the sum of what splits on feature j
    have gained, p_y of the child less p_y of the node, over V_j visits of learned records in all trees,

        r_j = 0.6 + 0.4 g_j / mean of g,   g_j = sqrt(max(G_j, 0) / (V_j + 100)).

    And a threshold must stay where it is, while standardised values move with the mean and deviation of the stream so
    far. `raw` inputs are how far a value v lies from the feature's first one, v_1, in units of the first step u that it
    made from there, with count n, mean m and squared deviations Q of these:

        x = m + d,   d = (v - v_1) / u - m,   within 20 sqrt(Q / n).

    e_j is then divided by the deviation sqrt(Q / n), so that features weigh the same in whatever units. A feature whose
    unit has changed is standardised from the start (`kernels.scale`), and goes on by its standardised value z, with
    itself counted in. So do all features once there are more than 256, and those of `steady` inputs always:

        d = z sqrt(Q (n + 1) / (n (n - z^2))),   within 20 sqrt(Q / n);   and the sign of z while Q = 0.

    That is the same value while z is within its bound and no record is taken for a mistake; after one that is not, a
    threshold no longer stays where it is.

    A record of weight c counts as c in n, n_k and V_j, as c times the gain in G_j, and o is multiplied by (p_y / q)^c;
    c is taken within 1e-6 and 100. Ranges, splits and the frames of values go by records, whatever their weight.

    A missing feature extends no range. A record goes through a split on one to either side by chance when it is
    learned, and to both, by the records of each, when it is predicted (past two such splits to the larger). At the
    bound of its nodes a tree goes on counting and weighing. A node halves its counts at 4,194,304 records. Draws depend
    on seed, record, tree and node alone. A record costs O(trees depth), and the features times the nodes that it lies
    outside of. Of more than 256 features it looks at the first 256: each node keeps a range for each.

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
        return min(n_features, MAX_FEATURES)

    def plan(self, n_features: int, n_outputs: int) -> dict[str, ArrayPlan]:
        """Sizes of trees; a row and a range for every node; gains of splits by feature; errors of numeric targets.

        Sizes come first: they say which nodes are in use. Of others neither rows nor ranges are read, copied or even
        touched, so that a forest takes the memory of the nodes that it has.
        """
        size, used = self.config.trees * self.config.nodes, self._used(n_features)
        nodes = np.concatenate([MIN_IN_NODE, np.full(n_outputs, -np.inf if self._numeric else 0.0)])
        most = np.concatenate([MAX_IN_NODE, np.full(n_outputs, np.inf)])
        most[[FEATURE, LEFT, RIGHT, PARENT]] = used - 1, *[self.config.nodes - 1] * 3
        if self._numeric:
            nodes[RECORDS] = _MIN_RECORDS
        units = (
            {"units": ArrayPlan((used, 1), double=True, low=0.0, finite=True)} if self.config.inputs == "raw" else {}
        )
        return {
            **units,
            "sizes": ArrayPlan((self.config.trees,), double=True, low=0.0, high=self.config.nodes, finite=True),
            "nodes": ArrayPlan((size, COUNTS + n_outputs), low=nodes, high=most, finite=True),
            "ranges": ArrayPlan((2 * size, used), finite=True),
            "gains": ArrayPlan((used, 2), double=True, low=(-np.inf, 0.0), finite=True),
            "errors": ArrayPlan((2,), double=True, low=0.0, finite=True),
            "frames": ArrayPlan(
                (used, FRAME), double=True, low=(0.0, -np.inf, 0.0), high=(MAX_COUNT, np.inf, np.inf), finite=True
            ),
        }

    @property
    def _numeric(self) -> bool:
        return self.task == "regression"

    def numbers(self, n_features: int, n_outputs: int) -> int:
        """How many numbers the arrays hold for these sizes, but for those of nodes, which come with records."""
        plans = self.plan(n_features, n_outputs)
        return sum(plan.size for name, plan in plans.items() if name not in _BY_NODE)

    def _rows(self, name: str, sizes: NDArray[Any]) -> NDArray[np.int64]:
        """Where the rows of all nodes in use stand in `nodes`, or those of their lower and upper bounds in `ranges`."""
        firsts = range(0, self.config.trees * self.config.nodes, self.config.nodes)
        rows = np.concatenate([first + np.arange(int(size)) for first, size in zip(firsts, sizes, strict=True)])
        return np.stack([2 * rows, 2 * rows + 1], axis=1).ravel() if name == "ranges" else rows

    def initialise(self, name: str, view: NDArray[Any], old: tuple[int, ...], bound: float) -> None:
        """Zeros; ranges that hold nothing of new features. A node's row and range are cleared when it comes to be."""
        if name not in _BY_NODE:
            super().initialise(name, view, old, bound)
        elif name == "ranges" and old[0] > 0:
            rows = self._rows(name, self.views["sizes"])
            view[rows[::2], old[1] :], view[rows[1::2], old[1] :] = NOTHING, -NOTHING

    def take_over(self, name: str, old: NDArray[Any]) -> None:
        """Copy what is in use."""
        if name not in _BY_NODE:
            super().take_over(name, old)
            return
        rows = self._rows(name, self.views["sizes"])
        self.views[name][rows, : old.shape[1]] = old[rows]

    def forget_features(self, slots: NDArray[np.int64]) -> None:
        """No range, gain or frame of theirs, and no split: in place of one stands its child with more records."""
        views = self.views
        place, pending = np.zeros((2, self.config.nodes), dtype=np.int64)
        for slot in slots[slots < self._used(self.n_features)].tolist():
            for tree in range(self.config.trees):
                drop_splits(
                    views["nodes"], views["ranges"], views["sizes"], tree, self.config.nodes, slot, place, pending
                )
            rows = self._rows("ranges", views["sizes"])
            views["ranges"][rows[::2], slot], views["ranges"][rows[1::2], slot] = NOTHING, -NOTHING
            for name in {"gains", "frames", "units"} & views.keys():
                views[name][slot] = 0.0

    def shape_numbers(self, offsets: dict[str, int]) -> list[int]:
        """The places of `kernels.mondrian` in `shape`, in order."""
        features, outputs = self._capacities
        sizes = [self.n_outputs, self._used(self.n_features), self.config.trees, self.config.nodes]
        rows = [COUNTS + outputs, self._used(features)]
        places = [offsets[name] for name in ("nodes", "ranges", "sizes", "gains", "errors", "frames")]
        plane = {"raw": IN_STEPS, "steady": STEADY, **PLANES}[self.config.inputs]
        return [*sizes, *rows, *places, self.n_features, plane, offsets.get("units", 0)]

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of all arrays, trimmed to what is in use: of nodes and ranges those of one tree after another."""
        parts = self._in_use()
        rows = {name: self._rows(name, self.views["sizes"]) for name in _BY_NODE}
        return {
            name: self.views[name][rows[name], corner[1]] if name in _BY_NODE else self.views[name][corner].copy()
            for name, corner in parts.items()
        }

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over arrays made by `state`; what kernels find their way by must be trees."""
        self.check_state(arrays)
        for name, corner in self._in_use().items():
            if name in _BY_NODE:
                self.views[name][self._rows(name, arrays["sizes"]), corner[1]] = arrays[name]
            else:
                self.views[name][corner] = arrays[name]

    def check_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse arrays that are not trees: each node but the first is a child once, of the node it says."""
        schema = self.schema()
        check(f"state of learner {self.name!r}", {"sizes": schema["sizes"]}, arrays)
        sizes = arrays["sizes"].astype(np.int64)
        for name, rows in zip(_BY_NODE, (1, 2), strict=True):
            schema[name] = schema[name]._replace(shape=(rows * int(sizes.sum()), *schema[name].shape[1:]))
        check(f"state of learner {self.name!r}", schema, arrays)
        counts, _, squares = arrays["frames"].T
        sound = bool((sizes == arrays["sizes"]).all() and ((counts >= 1) | (squares == 0)).all())
        for tree in np.split(arrays["nodes"], np.cumsum(sizes)[:-1]):
            sound = sound and _is_tree(tree)
        if not sound:
            raise BraidedError(f"state of learner {self.name!r}: its arrays are not trees; {REMEDY}")

    def hyper_numbers(self) -> list[float]:
        """`PRIOR`, `VALUES`, `KEY_HIGH` and `KEY_LOW`, in order."""
        key = key_of(self.seed, self.name, self.place)
        return [self.config.prior, float(self._numeric), float(key >> 32), float(key & 0xFFFFFFFF)]

    def plastic_numbers(self) -> list[float]:
        """There is no rate."""
        return self.hyper_numbers()

    def raise_plasticity(self, factor: float, fresh: bool) -> None:
        """There is nothing to raise: a tree follows a stream that has changed by its counts alone."""

    def work_sizes(self, n_features: int, n_outputs: int) -> tuple[int, int, int]:
        """Values twice, weights of features and a row of outputs; the sides of forks that wait."""
        return 3 * self._used(n_features) + n_outputs, 2 * (MAX_FORKS + 2), 0


class MondrianForestRegressor(MondrianForest):
    """The same for a numeric target: a node says the mean m of its targets, and has no prior.

    In place of p_y stands exp(-min((m - y)^2 / (2 s^2), 50)), where s^2 = (S + 1) / (N + 1), and S and N are running
    sums, forgetting at a rate of 0.001, of the squared errors of the forest and of 1. What a split has gained is (m -
    y)^2 of the node less that of the child. The errors count records, whatever their weight. No leaf is split within
    its range.

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
