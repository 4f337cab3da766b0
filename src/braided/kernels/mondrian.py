"""Mondrian trees over flat buffers: what a tree says of a record, and how it learns one.

The rules and their formulas are in `learners.forest`. A tree's nodes are numbered from 0, its root; those of tree t
are the rows from t MAX_NODES on. A row of `nodes` is what a walk needs of a node, one cache line with up to eight
classes; the ranges, which only learning looks at, and only near the leaves, lie elsewhere.

What makes it cheap: weights are kept as odds between a node and what is below it, which need neither logarithms nor a
second walk; and a range holds those of the nodes below it, so that from the leaf up the first one that holds a record
ends the search for those that do not.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.dense import FAST, copy
from braided.kernels.inputs import RAW, has_planes
from braided.kernels.native import Doubles, Ints, SingleRows, entry, kernel
from braided.kernels.random import mix, unit_interval

#: The bound of a range that holds nothing yet, and the value of a feature that is missing.
NOTHING = np.float32(3e38)
# `shape`: outputs, features that are looked at, trees, nodes of each; row lengths of nodes and ranges; where the
# arrays start; all features, the plane of x, and where the units start. `hyper`: the prior, whether targets are
# numbers, and the key in two halves.
(
    OUTPUTS, USED, TREES, MAX_NODES, NODE_ROW, RANGE_ROW, NODES, RANGES, SIZES, GAINS, ERRORS, FRAMES, ALL, PLANE,
    UNITS,
) = range(15)  # fmt: skip
PRIOR, VALUES, KEY_HIGH, KEY_LOW = range(4)
# Columns of the gains by feature: their sum, and over how many visits; of the errors: the same.
GAINED, VISITS = 0, 1
_SQUARED, _ERRORS_SEEN = 0, 1
# What is left to walk: a node, and its share of the answer.
_NODE, _SHARE = 0, 1
#: In place of a plane: standardised values mapped back to the units of the first ones; or RAW values in units of the
#: first step, with standardised ones as the fallback. A feature's frame: count, mean, squares.
STEADY, IN_STEPS = -1, -2
_COUNT, _MEAN, _SQUARES = range(3)
FRAME = 3
#: No value is taken to lie further from the mean of its frame in deviations, nor further from 0.
_MAX_DEVIATIONS, _FURTHEST = 20.0, 1e15
# A node's row: feature (-1 for a leaf), threshold, left, right, parent (-1 for the root), odds, records, time; then
# records by class, or the sum of the targets.
FEATURE, THRESHOLD, LEFT, RIGHT, PARENT, ODDS, RECORDS, TIME, COUNTS = range(9)
# Of what a record's draws at a node are for.
_SIDE, _WAIT, _WHICH, _PLACE = range(4)
#: Odds stay within this and its inverse.
MAX_ODDS = np.float32(1e12)
#: A leaf of fewer records is not split within its range.
_MIN_TO_SPLIT = np.float32(2.0)
#: A node with this many records halves its counts: float32 would soon not count on.
_MAX_RECORDS = np.float32(4194304.0)
_LATEST = 1e30
#: At most this many splits on missing features are followed on both sides in one tree.
MAX_FORKS = 2
#: The part of a feature's weight that does not depend on its gain, and visits that a gain is taken to rest on at first.
FLOOR = 0.6
FIRST_VISITS = 100.0
#: How fast the mean squared error of numeric targets forgets.
_ERROR_RATE = 0.001
_ONE, _NONE = np.float32(1), np.float32(0)
#: Bounds of a node's row up to its counts, to check what was read from a file; the largest feature and links depend on
#: the forest.
MIN_IN_NODE = np.array([-1.0, -NOTHING, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0])
MAX_IN_NODE = np.array([0.0, NOTHING, 0.0, 0.0, 0.0, MAX_ODDS, _MAX_RECORDS, np.float32(_LATEST)], dtype=np.float64)


@kernel()
def forest_arrays(shape, single, double):
    """All nodes, their ranges (lower and upper bounds by turns), and how many nodes each tree has."""
    size = shape[TREES] * shape[MAX_NODES]
    nodes = single[shape[NODES] : shape[NODES] + size * shape[NODE_ROW]].reshape(size, shape[NODE_ROW])
    ranges = single[shape[RANGES] : shape[RANGES] + 2 * size * shape[RANGE_ROW]].reshape(2 * size, shape[RANGE_ROW])
    return nodes, ranges, double[shape[SIZES] : shape[SIZES] + shape[TREES]]


@kernel()
def _within(link, size):
    """The number of the node that a link leads to; whatever the link is, one below `size`."""
    return min(max(int(link), 0), size - 1)


@kernel()
def _linked(shape, first, link):
    """The node that a link of one of a tree's nodes leads to."""
    return first + _within(link, shape[MAX_NODES])


@kernel()
def _frames(shape, double):
    return double[shape[FRAMES] : shape[FRAMES] + FRAME * shape[USED]].reshape(shape[USED], FRAME)


@kernel()
def _from_mean(z, frame):
    """How far a value lies from the mean of those before it, by its standardised value, which counts it in."""
    count, squares = frame[_COUNT], frame[_SQUARES]
    if squares <= 0.0:
        return np.sign(z) if count > 0 else 0.0
    bound = _MAX_DEVIATIONS * np.sqrt(squares / count)
    distance = z * np.sqrt(squares * (count + 1.0) / (count * max(count - z * z, 1e-2)))
    return min(max(distance, -bound), bound)


@kernel()
def _distance(shape, double, x, j):
    """How far a record's value of a feature lies from the mean of those before it, in the units of its frame."""
    frame, n = _frames(shape, double)[j], shape[ALL]
    if shape[PLANE] == IN_STEPS and has_planes(x, n):
        raw, unit = np.float64(x[RAW * n + j]), double[shape[UNITS] + j]
        if unit > 0.0 and frame[_SQUARES] > 0.0 and abs(raw) <= _FURTHEST:  # RAW is infinite after a change of units
            bound = _MAX_DEVIATIONS * np.sqrt(frame[_SQUARES] / max(frame[_COUNT], 1.0))
            return min(max(raw / unit - frame[_MEAN], -bound), bound)
    return _from_mean(np.float64(x[j]), frame)


@kernel()
def look(shape, double, x, active, lower, upper):
    """The values that are looked at, twice: a missing one is above every lower bound, and below every upper one."""
    n, used = shape[ALL], shape[USED]
    if shape[PLANE] > 0 and has_planes(x, n):
        for j in range(used):
            lower[j] = upper[j] = x[shape[PLANE] * n + j]
        return
    lower[:] = NOTHING
    upper[:] = -NOTHING
    frames = _frames(shape, double)
    for j in active:
        if j < used and shape[PLANE] < 0:
            value = frames[j, _MEAN] + _distance(shape, double, x, j)
            lower[j] = upper[j] = min(max(value, -_FURTHEST), _FURTHEST)
        elif j < used:
            lower[j] = upper[j] = x[j]


@kernel()
def follow_frames(shape, double, x, active):
    """Count a record's values into their frames; RAW ones have the first step as their unit."""
    if shape[PLANE] >= 0:
        return
    frames = _frames(shape, double)
    for j in active:
        if j < shape[USED]:
            distance = _distance(shape, double, x, j)
            if shape[PLANE] == IN_STEPS and frames[j, _SQUARES] <= 0.0 and has_planes(x, shape[ALL]):
                step = abs(np.float64(x[RAW * shape[ALL] + j]))
                double[shape[UNITS] + j] = step if step <= _FURTHEST else 0.0
            frames[j, _COUNT] += 1.0
            share = distance / frames[j, _COUNT]
            frames[j, _MEAN] = min(max(frames[j, _MEAN] + share, -_FURTHEST), _FURTHEST)
            frames[j, _SQUARES] = min(frames[j, _SQUARES] + distance * (distance - share), _FURTHEST * _FURTHEST)


@kernel()
def _add(shape, hyper, nodes, node, share, out):
    """Add a share of what a node by itself says: smoothed frequencies of the classes, or the mean."""
    n, prior = shape[OUTPUTS], np.float32(hyper[PRIOR])
    if hyper[VALUES] > 0:
        out[0] += share * nodes[node, COUNTS] / nodes[node, RECORDS]
        return
    share /= nodes[node, RECORDS] + prior
    each = prior / np.float32(n)
    for k in range(n):
        out[k] += share * (nodes[node, COUNTS + k] + each)


@kernel()
def tree_says(shape, hyper, nodes, values, first, stack, out):
    """Add what one tree says of a record to `out`: the mean over its prunings, by their weights.

    Down from the root, each node takes its share of what is left, and the leaf the rest. At a split on a missing
    feature both sides go on, by how many records each has; past MAX_FORKS of them, the larger side alone.
    """
    pending = stack[: 2 * (MAX_FORKS + 2)].reshape(MAX_FORKS + 2, 2)
    pending[0, _NODE], pending[0, _SHARE] = first, _ONE
    depth, forks = 1, 0
    while depth > 0:
        depth -= 1
        node, left_over = int(pending[depth, _NODE]), np.float32(pending[depth, _SHARE])
        while True:
            feature = int(nodes[node, FEATURE])
            if feature < 0:
                break
            odds = nodes[node, ODDS]
            rest = left_over / (_ONE + odds)
            _add(shape, hyper, nodes, node, odds * rest, out)
            left_over = rest
            left, right = _linked(shape, first, nodes[node, LEFT]), _linked(shape, first, nodes[node, RIGHT])
            value = values[min(feature, shape[USED] - 1)]
            if value < NOTHING:
                node = left if value <= nodes[node, THRESHOLD] else right
                continue
            part = _part(nodes, left, right)
            if forks >= MAX_FORKS:
                node = left if part >= 0.5 else right
                continue
            forks += 1
            pending[depth, _NODE], pending[depth, _SHARE] = right, left_over * (_ONE - part)
            depth += 1
            node, left_over = left, left_over * part
        _add(shape, hyper, nodes, node, left_over, out)


@kernel()
def _part(nodes, left, right):
    """The left one's part of the records of two nodes."""
    return nodes[left, RECORDS] / max(nodes[left, RECORDS] + nodes[right, RECORDS], _ONE)


@kernel()
def _next(shape, nodes, node, first, values, key):
    """The child that a record goes to when it is learned: by chance if the feature is missing."""
    left, right = _linked(shape, first, nodes[node, LEFT]), _linked(shape, first, nodes[node, RIGHT])
    value = values[min(int(nodes[node, FEATURE]), shape[USED] - 1)]
    if value < NOTHING:
        return left if value <= nodes[node, THRESHOLD] else right
    return left if _draw(key, node - first, _SIDE) < _part(nodes, left, right) else right


@kernel()
def _draw(key, node, purpose):
    return unit_interval(mix(key, np.uint64(4 * node + purpose)))


@kernel(fastmath=FAST)
def _holds(low, high, lower, upper):
    """Whether all values that there are lie within a range."""
    outside = 0
    for j in range(lower.shape[0]):
        outside += (lower[j] < low[j]) | (upper[j] > high[j])
    return outside == 0


@kernel(fastmath=FAST)
def _extend(low, high, lower, upper):
    """Let a range hold the values."""
    for j in range(lower.shape[0]):
        low[j] = lower[j] if lower[j] < low[j] else low[j]
        high[j] = upper[j] if upper[j] > high[j] else high[j]


@kernel(fastmath=FAST)
def _extensions(low, high, lower, upper, weights):
    """By how much a record would extend a range, by weight; a feature of which it holds nothing does not count."""
    total = _NONE
    for j in range(lower.shape[0]):
        total += _extension(low[j], high[j], lower[j], upper[j], weights[j])
    return total


@kernel(fastmath=FAST)
def _extension(low, high, lower, upper, weight):
    below = low - lower if low > lower else _NONE
    above = upper - high if upper > high else _NONE
    return weight * (below + above) if low <= high else _NONE


@kernel()
def weigh_features(shape, double, weights):
    """The weight of each feature, by what splits on it have gained so far, in deviations of its frame."""
    used = shape[USED]
    gains = double[shape[GAINS] : shape[GAINS] + 2 * used].reshape(used, 2)
    total = 0.0
    for j in range(used):
        gain = np.sqrt(max(gains[j, GAINED], 0.0) / (gains[j, VISITS] + FIRST_VISITS))
        weights[j] = gain
        total += gain
    scale = (1.0 - FLOOR) * used / total if total > 1e-9 else 0.0
    frames = _frames(shape, double)
    for j in range(used):
        weights[j] = FLOOR + scale * weights[j]
        if frames[j, _SQUARES] > 0.0:
            weights[j] *= np.sqrt(frames[j, _COUNT] / frames[j, _SQUARES])


@kernel()
def follow_error(shape, double, error):
    """Take a squared error of the forest into their mean; returns the one before."""
    errors = double[shape[ERRORS] : shape[ERRORS] + 2]
    mean = (errors[_SQUARED] + 1.0) / (errors[_ERRORS_SEEN] + 1.0)
    errors[_SQUARED] += error - _ERROR_RATE * errors[_SQUARED]
    errors[_ERRORS_SEEN] += 1.0 - _ERROR_RATE * errors[_ERRORS_SEEN]
    return mean


@kernel()
def _clear(shape, nodes, ranges, node, time, parent):
    """An empty leaf."""
    nodes[node, : COUNTS + shape[OUTPUTS]] = 0
    nodes[node, FEATURE] = -1
    nodes[node, TIME] = time
    nodes[node, PARENT] = parent
    ranges[2 * node, : shape[USED]] = NOTHING
    ranges[2 * node + 1, : shape[USED]] = -NOTHING


@kernel()
def _copy(shape, nodes, ranges, node, to, time, parent):
    """Copy a node to `to`, but for its time and parent; its children keep their parent."""
    row, used = COUNTS + shape[OUTPUTS], shape[USED]
    copy(nodes[node], nodes[to, :row])
    nodes[to, TIME] = time
    nodes[to, PARENT] = parent
    copy(ranges[2 * node], ranges[2 * to, :used])
    copy(ranges[2 * node + 1], ranges[2 * to + 1, :used])


@kernel()
def _count(hyper, nodes, node, outputs, y, weight):
    """Count a record in."""
    nodes[node, RECORDS] += weight
    if hyper[VALUES] > 0:
        nodes[node, COUNTS] += weight * np.float32(y)
    else:
        nodes[node, COUNTS + int(y)] += weight
    if nodes[node, RECORDS] >= _MAX_RECORDS:
        nodes[node, RECORDS] *= np.float32(0.5)
        for k in range(outputs):
            nodes[node, COUNTS + k] *= np.float32(0.5)


@kernel()
def _pure(hyper, nodes, node, y):
    """Whether all records of a node had this class."""
    return hyper[VALUES] == 0 and nodes[node, COUNTS + int(y)] >= nodes[node, RECORDS]


@kernel()
def _wait(key, node, intensity):
    """Until a node is split: exponential, of this rate."""
    return -np.log(1.0 - _draw(key, node, _WAIT)) / intensity


@kernel()
def _first_free(shape, sizes, tree):
    """The number of the first of two nodes that a split takes."""
    return min(max(int(sizes[tree]), 0), max(shape[MAX_NODES] - 2, 0))


@kernel()
def _split_beside(shape, nodes, ranges, sizes, first, tree, node, lower, upper, weights, intensity, time, key):
    """Split a node off from the record: on a feature by how far it is outside, between its range and the value.

    Below the node then stand what it was before, and an empty leaf, which is returned.
    """
    low, high = ranges[2 * node], ranges[2 * node + 1]
    chosen, left_over = -1, np.float64(intensity) * _draw(key, node - first, _WHICH)
    for j in range(shape[USED]):
        outside = _extension(low[j], high[j], lower[j], upper[j], weights[j])
        if outside > 0:
            chosen = j
            left_over -= outside
            if left_over < 0.0:
                break
    chosen = max(chosen, 0)
    value, above = lower[chosen], lower[chosen] > high[chosen]
    start, end = (high[chosen], value) if above else (value, low[chosen])
    threshold = np.float32(start + (end - start) * np.float32(_draw(key, node - first, _PLACE)))
    threshold = min(max(threshold, start), np.nextafter(end, -NOTHING))
    old = _first_free(shape, sizes, tree)
    new = old + 1
    sizes[tree] += 2
    _copy(shape, nodes, ranges, node, first + old, time, node - first)
    _clear(shape, nodes, ranges, first + new, time, node - first)
    odds = _ONE
    if nodes[node, FEATURE] >= 0:
        nodes[_linked(shape, first, nodes[node, LEFT]), PARENT] = old
        nodes[_linked(shape, first, nodes[node, RIGHT]), PARENT] = old
        odds = np.float32(2) * nodes[node, ODDS] / (_ONE + nodes[node, ODDS])
    nodes[node, FEATURE], nodes[node, THRESHOLD], nodes[node, ODDS] = chosen, threshold, odds
    nodes[node, LEFT], nodes[node, RIGHT] = (old, new) if above else (new, old)
    return first + new


@kernel()
def _split_within(shape, nodes, ranges, sizes, first, tree, node, lower, weights, key):
    """Split a leaf within its range, its records taken to be spread evenly over it; false if it has no width."""
    low, high = ranges[2 * node], ranges[2 * node + 1]
    width = 0.0
    for j in range(shape[USED]):
        if lower[j] < NOTHING and high[j] > low[j]:
            width += np.float64(weights[j]) * (np.float64(high[j]) - low[j])
    if width <= 0.0:
        return False
    chosen, left_over = -1, width * _draw(key, node - first, _WHICH)
    for j in range(shape[USED]):
        if lower[j] < NOTHING and high[j] > low[j]:
            chosen = j
            left_over -= np.float64(weights[j]) * (np.float64(high[j]) - low[j])
            if left_over < 0.0:
                break
    chosen = max(chosen, 0)
    part = np.float32(_draw(key, node - first, _PLACE))
    threshold = min(max(low[chosen] + part * (high[chosen] - low[chosen]), low[chosen]), high[chosen])
    time = min(nodes[node, TIME] + _wait(key, node - first, width), _LATEST)
    size = _first_free(shape, sizes, tree)
    sizes[tree] += 2
    for side in range(2):
        child, share = first + size + side, part if side == 0 else _ONE - part
        _copy(shape, nodes, ranges, node, child, time, node - first)
        nodes[child, RECORDS] *= share
        for k in range(shape[OUTPUTS]):
            nodes[child, COUNTS + k] *= share
        ranges[2 * child + 1 - side, chosen] = threshold
    nodes[node, FEATURE], nodes[node, THRESHOLD], nodes[node, ODDS] = chosen, threshold, _ONE
    nodes[node, LEFT], nodes[node, RIGHT] = size, size + 1
    return True


@kernel()
def teach_tree(shape, hyper, nodes, ranges, sizes, tree, lower, upper, weights, y, weight, error, gains, key):
    """Let one tree learn a record; `weights` are those of features, `weight` is the record's own."""
    first, used = tree * shape[MAX_NODES], shape[USED]
    if sizes[tree] == 0:
        _clear(shape, nodes, ranges, first, 0.0, -1)
        sizes[tree] = 1
        _extend(ranges[2 * first, :used], ranges[2 * first + 1, :used], lower, upper)
        _count(hyper, nodes, first, shape[OUTPUTS], y, weight)
        return
    leaf = first
    while nodes[leaf, FEATURE] >= 0:
        leaf = _next(shape, nodes, leaf, first, lower, key)
    # The nodes on the path whose range does not hold the record are the last ones: `top` is the highest.
    top, node = -1, leaf
    while not _holds(ranges[2 * node, :used], ranges[2 * node + 1, :used], lower, upper):
        top = node
        if node == first:
            break
        node = _linked(shape, first, nodes[node, PARENT])
    new, node = -1, top
    while node >= 0:
        low, high = ranges[2 * node, :used], ranges[2 * node + 1, :used]
        inner = nodes[node, FEATURE] >= 0
        if sizes[tree] + 2 <= shape[MAX_NODES] and not _pure(hyper, nodes, node, y):
            intensity = _extensions(low, high, lower, upper, weights)
            if intensity > 0:
                time = min(nodes[node, TIME] + _wait(key, node - first, intensity), _LATEST)
                if not inner or time < nodes[_linked(shape, first, nodes[node, LEFT]), TIME]:
                    new = _split_beside(
                        shape, nodes, ranges, sizes, first, tree, node, lower, upper, weights, intensity, time, key
                    )
        _extend(low, high, lower, upper)
        if new >= 0 or not inner:
            break
        node = _next(shape, nodes, node, first, lower, key)
    if new >= 0:
        _extend(ranges[2 * new, :used], ranges[2 * new + 1, :used], lower, upper)
        _count(hyper, nodes, new, shape[OUTPUTS], y, weight)
        _go_up(shape, hyper, nodes, first, node, True, lower, y, weight, error, gains)
        return
    while (
        hyper[VALUES] == 0
        and nodes[leaf, RECORDS] >= _MIN_TO_SPLIT
        and not _pure(hyper, nodes, leaf, y)
        and sizes[tree] + 2 <= shape[MAX_NODES]
        and _split_within(shape, nodes, ranges, sizes, first, tree, leaf, lower, weights, key)
    ):
        leaf = _next(shape, nodes, leaf, first, lower, key)
        _extend(ranges[2 * leaf, :used], ranges[2 * leaf + 1, :used], lower, upper)
    _go_up(shape, hyper, nodes, first, leaf, False, lower, y, weight, error, gains)


@kernel()
def _go_up(shape, hyper, nodes, first, node, beside, values, y, weight, error, gains):
    """From a leaf, or from a node that was split beside its record, to the root: odds, gains and counts."""
    prior, numeric = np.float32(hyper[PRIOR]), hyper[VALUES] > 0
    each = prior / np.float32(shape[OUTPUTS])
    # The likelihoods of y by what is below the node, and by the child itself: 1 of a leaf that is new.
    below, child, scale = _ONE, np.float32(-1), np.float32(-0.5 / error)
    while True:
        if numeric:
            gap = nodes[node, COUNTS] / nodes[node, RECORDS] - np.float32(y)
            good = -gap * gap
            likelihood = np.exp(max(-scale * good, np.float32(-50)))
        else:
            likelihood = (nodes[node, COUNTS + int(y)] + each) / (nodes[node, RECORDS] + prior)
            good = likelihood
        feature = int(nodes[node, FEATURE])
        if feature < 0:
            below = likelihood
        else:
            odds = nodes[node, ODDS]
            shifted = odds * likelihood / below if weight == _ONE else odds * (likelihood / below) ** weight
            nodes[node, ODDS] = min(max(shifted, _ONE / MAX_ODDS), MAX_ODDS)
            below = (odds * likelihood + below) / (_ONE + odds)
            feature = min(feature, shape[USED] - 1)
            if not beside and values[feature] < NOTHING:
                gains[feature, GAINED] += weight * (child - good)
                gains[feature, VISITS] += weight
        beside, child = False, good
        _count(hyper, nodes, node, shape[OUTPUTS], y, weight)
        if node == first:
            return
        node = _linked(shape, first, nodes[node, PARENT])


@entry
def drop_splits(
    nodes: SingleRows, ranges: SingleRows, sizes: Doubles, tree: int, most_nodes: int, feature: int, place: Ints,
    pending: Ints,
) -> None:  # fmt: skip
    """Leave out a tree's splits on a feature, and the nodes that nothing leads to then.

    A node that is split there keeps its records and its range, and goes on as its child with more records does.
    `place` and `pending` are scratch, (most_nodes,).
    """
    first, size = tree * most_nodes, min(int(sizes[tree]), most_nodes)
    found = False
    for node in range(first, first + size):
        found = found or nodes[node, FEATURE] == feature
    if not found:
        return
    place[:size] = -1  # of the nodes that stay, in order; 0 as long as it is not known
    place[0] = 0
    # A child may stand before its parent, so that they are looked for from the root on.
    depth = 1
    pending[0] = 0
    while depth > 0:
        depth -= 1
        number = pending[depth]
        node = first + number
        while nodes[node, FEATURE] == feature:
            left, right = first + _within(nodes[node, LEFT], size), first + _within(nodes[node, RIGHT], size)
            child = left if nodes[left, RECORDS] >= nodes[right, RECORDS] else right
            for column in (FEATURE, THRESHOLD, LEFT, RIGHT, ODDS):
                nodes[node, column] = nodes[child, column]
        if nodes[node, FEATURE] >= 0:
            for column in (LEFT, RIGHT):
                child = _within(nodes[node, column], size)
                nodes[first + child, PARENT] = number
                place[child] = 0
                pending[min(depth, size - 1)] = child
                depth = min(depth + 1, size)
    left_over = 0
    for number in range(size):
        if place[number] == 0:
            place[number] = left_over
            left_over += 1
    # Each goes to its place or one before it, so that nothing is overwritten that is still to be moved.
    for number in range(size):
        if place[number] >= 0:
            old, new = first + number, first + place[number]
            copy(nodes[old], nodes[new])
            copy(ranges[2 * old], ranges[2 * new])
            copy(ranges[2 * old + 1], ranges[2 * new + 1])
            if nodes[new, PARENT] >= 0:
                nodes[new, PARENT] = place[_within(nodes[new, PARENT], size)]
            if nodes[new, FEATURE] >= 0:
                nodes[new, LEFT] = place[_within(nodes[new, LEFT], size)]
                nodes[new, RIGHT] = place[_within(nodes[new, RIGHT], size)]
    sizes[tree] = left_over
