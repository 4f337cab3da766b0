"""Mondrian trees over flat buffers: what a tree says of a record, and how it learns one.

The rules and their formulas are in `learners.forest`. Nodes of all trees are numbered through, those of tree t from
t NODES on; its root is the first.
"""

from __future__ import annotations

import math

import numpy as np

from braided.kernels.compile import kernel
from braided.kernels.dense import FAST
from braided.kernels.inputs import has_planes
from braided.kernels.random import mix, unit_interval

#: The bound of a range that holds nothing yet.
NOTHING = 3e38
# `shape`: outputs, features that are looked at, trees, nodes of each; row lengths of counts and ranges; where the
# arrays start; all features, and the plane of x. `hyper`: the prior, whether targets are numbers, and the key in two
# halves.
OUTPUTS, USED, TREES, NODES, COUNT_ROW, RANGE_ROW, COUNTS, RANGES, FIGURES, LINKS, SIZES = range(11)
ALL, PLANE = 11, 12
PRIOR, VALUES, KEY = 0, 1, 2
# A node's figures: time, log weight, log weight of its tree, records. Its links: feature (-1 for a leaf), threshold,
# left, right, parent (-1 for the root).
TIME, WEIGHT, TREE_WEIGHT, RECORDS = range(4)
FEATURE, THRESHOLD, LEFT, RIGHT, PARENT = range(5)
_LOG_2 = math.log(2.0)
#: A leaf of fewer records is not split within its range.
_FEWEST = 2.0
#: At most so many splits on missing features are followed on both sides in one tree.
MOST_FORKS = 16


@kernel()
def forest_arrays(shape, double):
    """Figures and links of all nodes, and how many each tree has."""
    size = shape[TREES] * shape[NODES]
    figures = double[shape[FIGURES] : shape[FIGURES] + 4 * size].reshape(size, 4)
    links = double[shape[LINKS] : shape[LINKS] + 5 * size].reshape(size, 5)
    return figures, links, double[shape[SIZES] : shape[SIZES] + shape[TREES]]


@kernel()
def _counts(shape, double, node):
    start = shape[COUNTS] + node * shape[COUNT_ROW]
    return double[start : start + shape[OUTPUTS]]


@kernel()
def _range(shape, single, node):
    """Lower and upper bounds of the values that came to a node."""
    low = shape[RANGES] + 2 * node * shape[RANGE_ROW]
    high = low + shape[RANGE_ROW]
    return single[low : low + shape[USED]], single[high : high + shape[USED]]


@kernel()
def _node_says(shape, hyper, double, figures, node, out):
    """What a node by itself says: smoothed frequencies of the classes, or the mean, drawn to 0 by the prior."""
    counts, records = _counts(shape, double, node), figures[node, RECORDS]
    n = shape[OUTPUTS]
    total = records + hyper[PRIOR] * (1 if hyper[VALUES] > 0 else n)
    for k in range(n):
        out[k] = (counts[k] + (0.0 if hyper[VALUES] > 0 else hyper[PRIOR])) / total


@kernel()
def tree_says(shape, hyper, double, figures, links, values, there, root, stack, out):
    """Add what one tree says of a record to `out`: the mean over its prunings, by their weights.

    Down from the root, each node takes its share 1/2 w / W of what is left, and the leaf the rest. At a split on a
    missing feature both sides go on, by how many records each has; past so many forks, the larger side alone.
    """
    n = shape[OUTPUTS]
    alone = stack[:n]
    pending = stack[n : n + 2 * (MOST_FORKS + 2)].reshape(MOST_FORKS + 2, 2)
    pending[0, 0], pending[0, 1] = root, 1.0
    depth, forks = 1, 0
    while depth > 0:
        depth -= 1
        node, left_over = int(pending[depth, 0]), pending[depth, 1]
        while True:
            _node_says(shape, hyper, double, figures, node, alone)
            feature = int(links[node, FEATURE])
            share = left_over
            if feature >= 0:
                share *= 0.5 * np.exp(min(figures[node, WEIGHT] - figures[node, TREE_WEIGHT], _LOG_2))
            for k in range(n):
                out[k] += share * alone[k]
            if feature < 0:
                break
            left_over -= share
            left, right = int(links[node, LEFT]), int(links[node, RIGHT])
            if there[feature] > 0:
                node = left if values[feature] <= links[node, THRESHOLD] else right
                continue
            part = figures[left, RECORDS] / max(figures[left, RECORDS] + figures[right, RECORDS], 1.0)
            if forks >= MOST_FORKS:
                node = left if part >= 0.5 else right
                continue
            forks += 1
            pending[depth, 0], pending[depth, 1] = right, left_over * (1.0 - part)
            depth += 1
            node, left_over = left, left_over * part


@kernel()
def look(shape, x, active, there, values):
    """The values of the features that are looked at, from the plane that is wanted, and which there are."""
    n, used = shape[ALL], shape[USED]
    if shape[PLANE] > 0 and has_planes(x, n):
        there[:] = 1
        values[:] = x[shape[PLANE] * n : shape[PLANE] * n + used]
        return
    there[:] = 0
    for j in active:
        if j < used:
            there[j] = 1
            values[j] = x[j]


@kernel()
def _enter(shape, hyper, single, double, figures, node, values, there, y, weigh):
    """A record comes to a node: its weight by what the node said of the record, its range, its counts."""
    counts, records = _counts(shape, double, node), figures[node, RECORDS]
    if weigh and hyper[VALUES] > 0:
        figures[node, WEIGHT] -= 0.5 * min((counts[0] / (records + hyper[PRIOR]) - y) ** 2, 100.0)
    elif weigh:
        figures[node, WEIGHT] += np.log((counts[int(y)] + hyper[PRIOR]) / (records + hyper[PRIOR] * shape[OUTPUTS]))
    low, high = _range(shape, single, node)
    for j in range(shape[USED]):
        low[j] = min(low[j], values[j]) if there[j] > 0 else low[j]
        high[j] = max(high[j], values[j]) if there[j] > 0 else high[j]
    figures[node, RECORDS] += 1.0
    if hyper[VALUES] > 0:
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
    if links[node, FEATURE] >= 0:
        links[int(links[node, LEFT]), PARENT] = to
        links[int(links[node, RIGHT]), PARENT] = to


@kernel()
def _clear(shape, single, double, figures, links, node, time, parent):
    """An empty leaf."""
    figures[node, :] = 0.0
    figures[node, TIME] = time
    links[node, :] = -1.0
    links[node, PARENT] = parent
    counts = _counts(shape, double, node)
    counts[:] = 0
    low, high = _range(shape, single, node)
    low[:] = NOTHING
    high[:] = -NOTHING


@kernel()
def _pure(shape, double, figures, node, y):
    """Whether all records of a node had this class."""
    return _counts(shape, double, node)[y] >= figures[node, RECORDS] - 1e-6 * (1.0 + figures[node, RECORDS])


@kernel()
def _mixed(shape, double, figures, node, y):
    """Whether a leaf has records enough, and with this one of more than one class."""
    records = figures[node, RECORDS]
    return records >= _FEWEST and _counts(shape, double, node)[y] < records - 1e-6 * (1.0 + records)


@kernel()
def _halve(shape, single, double, figures, links, sizes, first, tree, node, there, key, draws):
    """Split a leaf within its range, its records taken to be spread evenly over it; false if it has no width."""
    low, high = _range(shape, single, node)
    width = 0.0
    for j in range(shape[USED]):
        if there[j] > 0 and high[j] > low[j]:
            width += np.float64(high[j]) - low[j]
    if width <= 0.0:
        return False
    chosen, left_over = -1, width * unit_interval(mix(key, draws - 2))
    for j in range(shape[USED]):
        if there[j] > 0 and high[j] > low[j]:
            chosen = j
            left_over -= np.float64(high[j]) - low[j]
            if left_over < 0.0:
                break
    part = unit_interval(mix(key, draws - 1))
    threshold = np.float64(low[chosen]) + part * (np.float64(high[chosen]) - low[chosen])
    time = figures[node, TIME] - np.log(1.0 - unit_interval(mix(key, draws))) / width
    left, right = first + int(sizes[tree]), first + int(sizes[tree]) + 1
    sizes[tree] += 2
    for child, share in ((left, part), (right, 1.0 - part)):
        _copy(shape, single, double, figures, links, node, child)
        figures[child, TIME] = time
        figures[child, RECORDS] *= share
        figures[child, WEIGHT] *= share
        figures[child, TREE_WEIGHT] = figures[child, WEIGHT]
        counts = _counts(shape, double, child)
        for k in range(shape[OUTPUTS]):
            counts[k] *= share
        links[child, PARENT] = node
        child_low, child_high = _range(shape, single, child)
        if child == left:
            child_high[chosen] = threshold
        else:
            child_low[chosen] = threshold
    links[node, FEATURE], links[node, THRESHOLD] = chosen, threshold
    links[node, LEFT], links[node, RIGHT] = left, right
    return True


@kernel()
def teach_tree(shape, hyper, single, double, figures, links, sizes, tree, values, there, y, key):
    """Let one tree learn a record."""
    first, used = tree * shape[NODES], shape[USED]
    if sizes[tree] == 0:
        _clear(shape, single, double, figures, links, first, 0.0, -1)
        sizes[tree] = 1
        _enter(shape, hyper, single, double, figures, first, values, there, y, False)
        return None
    node, draws = first, 0
    while True:
        low, high = _range(shape, single, node)
        intensity = 0.0
        leaf = links[node, FEATURE] < 0
        grows = sizes[tree] + 2 <= shape[NODES]
        if grows and (hyper[VALUES] > 0 or not _pure(shape, double, figures, node, int(y))):
            intensity = np.float64(_extensions(low, high, values, there))
        split_time = 0.0
        if intensity > 0.0:
            draws += 1
            wait = -np.log(1.0 - unit_interval(mix(key, draws))) / intensity
            split_time = figures[node, TIME] + wait
            if not leaf and split_time >= figures[int(links[node, LEFT]), TIME]:
                split_time = 0.0
        if split_time > 0.0:
            break
        if grows and leaf and hyper[VALUES] == 0 and _mixed(shape, double, figures, node, int(y)):
            draws += 3
            if _halve(shape, single, double, figures, links, sizes, first, tree, node, there, key, draws):
                leaf = False
        _enter(shape, hyper, single, double, figures, node, values, there, y, True)
        if leaf:
            return _go_up(figures, links, node)
        feature = int(links[node, FEATURE])
        left, right = int(links[node, LEFT]), int(links[node, RIGHT])
        if there[feature] > 0:
            node = left if values[feature] <= links[node, THRESHOLD] else right
        else:
            draws += 1
            part = figures[left, RECORDS] / max(figures[left, RECORDS] + figures[right, RECORDS], 1.0)
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
        threshold = min(max(threshold, near), np.nextafter(np.float32(value), np.float32(-NOTHING)))
    else:
        threshold = min(max(threshold, value), np.nextafter(np.float32(near), np.float32(-NOTHING)))
    old, new = first + int(sizes[tree]), first + int(sizes[tree]) + 1
    sizes[tree] += 2
    _copy(shape, single, double, figures, links, node, old)
    figures[old, TIME] = split_time
    links[old, PARENT] = node
    _clear(shape, single, double, figures, links, new, split_time, node)
    links[node, FEATURE], links[node, THRESHOLD] = chosen, threshold
    links[node, LEFT], links[node, RIGHT] = (old, new) if above else (new, old)
    _enter(shape, hyper, single, double, figures, node, values, there, y, True)
    _enter(shape, hyper, single, double, figures, new, values, there, y, False)
    return _go_up(figures, links, new)


@kernel()
def _go_up(figures, links, node):
    """The weights of the trees below each node, from a leaf to the root."""
    figures[node, TREE_WEIGHT] = figures[node, WEIGHT]
    node = int(links[node, PARENT])
    while node >= 0:
        below = figures[int(links[node, LEFT]), TREE_WEIGHT] + figures[int(links[node, RIGHT]), TREE_WEIGHT]
        own = figures[node, WEIGHT]
        top = max(own, below)
        figures[node, TREE_WEIGHT] = top + np.log(0.5 * (np.exp(own - top) + np.exp(below - top)))
        node = int(links[node, PARENT])
