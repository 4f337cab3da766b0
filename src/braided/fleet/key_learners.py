"""What each key of a braided fleet has of its own: learners in closed form around what a shared model says."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.checkpoint import pack_name, unpack_names
from braided.engine import hold_together
from braided.errors import BraidedError
from braided.estimators.chunks import Chunk
from braided.fleet.keys import restored_keys
from braided.fleet.layout import MOST_FEATURES, RowLayout
from braided.fleet.rows import KeyLimits, KeyRows
from braided.kernels import keyed
from braided.kernels.random import fill_normal, fill_uniform, key_of, mix, unit_interval
from braided.kernels.scale import MAX_STATISTICS, MIN_STATISTICS, STATISTICS, WHOLE
from braided.state import ArrayRule, check_arrays, check_covariance, checked, length
from braided.values import as_number

Floats = NDArray[np.float64]
_NO_WEIGHTS = np.zeros(0)
_LARGEST = 1e280
_WHAT = "state of the fleet"


def _row(x: Mapping[Hashable, Any], names: Sequence[Hashable]) -> Floats:
    """A record that was checked before as a table of one row, NaN where it has no value."""
    values = [x.get(name) for name in names]
    row = [
        value if type(value) is float else as_number(name, value, 0) for name, value in zip(names, values, strict=True)
    ]
    return np.array([row], dtype=np.float64)


def _unit(seat: np.uint64, place: int) -> float:
    """A draw from [0, 1)."""
    return float(unit_interval(np.uint64(mix(seat, np.uint64(place)))))


class New(NamedTuple):
    """What a record is the first to have: features, and how many classes."""

    features: Sequence[Hashable]
    classes: int


class _Records(NamedTuple):
    """Records on their way to the keys' learners; the fields are those of `kernels.keyed.run`."""

    values: Floats
    columns: Sequence[Hashable]
    keys: Sequence[str | None]
    shared: Floats
    targets: Floats
    weights: Floats
    spoken: NDArray[np.bool_]

    def part(self, start: int, stop: int) -> _Records:
        rows = slice(start, stop)
        return _Records(
            self.values[rows], self.columns, self.keys[rows], self.shared[rows], self.targets[rows],
            self.weights[rows], self.spoken[rows],
        )  # fmt: skip


class KeyLearners:
    """For each key a posterior around what a shared model, which learns every record, says of it.

    With s the shared model's scores (for classes log p, at least log 1e-4, less their mean), u = [1 ; z] the record's
    standardised values (0 where missing) and c = [1 ; cos(w_j . z + b_j)], 32 cosines of two values each, a key has
    three learners of its own, all with prior mean 0, so that a new key is the shared model exactly:

        p = softmax(s + u M_1),   p = softmax(s + u M_2),   p = softmax(s + c M_3)

    The first forgets nothing and stays close (prior variance 0.03), the second is free (0.5) and forgets 0.001 per
    record, the third is nonlinear (0.1). Each is learned as `learners.LogisticRegression` is, with v = max_k 2 p_k (1 -
    p_k) and q = u P u:

        M_k += P u ([y = k] - p_k) / (1 + v q),   P -= v (P u)(P u)^T / (1 + v q)

    A key's labels have running frequencies F_r at five rates, as in `learners.RecentLabels`, with l_r their logarithms.
    All are joined by weights that the fleet shares, and by what a key's own weights differ from them:

        p = softmax(s + sum_i (W_i + d_i) f_i),   f = [s ; u M_1 ; u M_2 ; c M_3 ; l_1 ... l_5]

    Both by the recursion of `combiners.KalmanWeights`: W on all records but a key's first, from
    (0, 1/3, 1/3, 1/3, 0 ...) with variance 0.03, so that a new key starts from weights that worked for others; d on
    those of the key, from 0 with variance 0.003. What the shared model says is what W_0 = 0 leaves as it is.

    For a numeric target the same, in units of the root mean square of the shared model's residuals e = y - s: the three
    learners are linear in e with the noise that they have. A fourth, of prior variance 1, does without the shared
    model: it is linear in y - y_1, y_1 the first target of the key, and what it says less s is one more of f. In place
    of the frequencies f has the key's last e, running means of it of rates 0.3 and 0.05, its last y less s, its last y
    less the one before, and the last residual of the fourth learner. A residual r that is far off counts for
    3 / (2 + r^2 / noise) of one. W starts from 1/4 for the learners and has the variance 0.3.

    A record of weight c is one step of c times the curvature; beyond 1, it moves a score by 4 at most. The features are
    the first 32 that came, the classes the first 32: for others the shared model speaks alone. A key takes 3.5 kB with
    8 features and two classes or a number, 8 to 10 kB with 32 features, and 20.5 kB with 32 features and 32 classes.

    Parameters
    ----------
    regression
        One numeric target instead of classes.
    seed
        Fixes the cosines.
    limits
        How many keys there may be, and how many in memory.

    Attributes
    ----------
    held
        Whether keys alone learn from now on: W, the units and the standardisation stay as they are, as does what
        features and classes there are.
    """

    def __init__(self, regression: bool, seed: int, limits: KeyLimits) -> None:
        self._regression = regression
        self._seed = seed
        self.held = False
        self.rows = KeyRows(RowLayout.for_sizes(self._regression, 0, 0), limits)
        #: The features that keys' own learners see, and their places; and how many classes are known.
        self.names: dict[Hashable, int] = {}
        self.n_classes = 0
        self.statistics = np.zeros((MOST_FEATURES, STATISTICS))
        self.fleet = self._first_weights()
        frequencies, phases = np.zeros((keyed.COSINES, 2), dtype=np.float32), np.zeros((keyed.COSINES, 1), np.float32)
        fill_normal(frequencies, key_of(seed, "fleet", "frequencies"), 0, 1.0)
        fill_uniform(phases, key_of(seed, "fleet", "phases"), 0, 0, np.pi)
        self._frequencies, self._phases = frequencies.astype(np.float64), phases[:, 0].astype(np.float64)
        self._x, self._active = np.zeros(MOST_FEATURES, dtype=np.float32), np.zeros(MOST_FEATURES + 1, dtype=np.int64)
        self._bind()

    def _first_weights(self) -> Floats:
        n, first = self.rows.layout.n_weights, 0 if self._regression else 1
        weights, variances = np.zeros(n), np.zeros(n)
        weights[:first] = 1.0
        n_own = self.rows.layout.n_own
        weights[first : first + n_own] = 1.0 / n_own
        variances[first:] = keyed.FLEET_VALUE_VARIANCE if self._regression else keyed.FLEET_VARIANCE
        more = np.zeros(keyed.FLEET_MORE)
        more[[keyed.FLEET_NOISE, *range(keyed.OWN_NOISE, keyed.UNIT)]] = 1.0
        return np.concatenate([weights, np.diag(variances).ravel(), more])

    def _bind(self) -> None:
        """Let rows and kernel have the sizes of what is known."""
        n_features = len(self.names)
        self.rows.grow(RowLayout.for_sizes(self._regression, n_features, self.n_classes))
        self._shape = self.rows.layout.shape(n_features, self.n_classes, self.held)
        self._places = np.arange(n_features, dtype=np.int64)
        self._pairs = np.zeros((keyed.COSINES, 2), dtype=np.int64)
        for k in range(keyed.COSINES):
            for side in range(2):
                # The feature in place i takes the seat with probability 1 / (i + 1): each has it as often in the end.
                seat = np.uint64(key_of(self._seed, "fleet", "pairs", 2 * k + side))
                taken = [i for i in range(n_features) if _unit(seat, i) * (i + 1) < 1.0]
                self._pairs[k, side] = taken[-1] if taken else 0

    def hold(self) -> None:
        """Let keys alone learn from now on."""
        self.held = True
        self._bind()

    def _admit(self, names: Sequence[Hashable], n_classes: int) -> None:
        """Let keys' own learners see some more features, as far as there is room, and tell so many classes apart."""
        new = [name for name in names if name not in self.names][: MOST_FEATURES - len(self.names)]
        if new or n_classes != self.n_classes:
            self.names |= {name: len(self.names) + i for i, name in enumerate(new)}
            self.n_classes = n_classes
            self._bind()

    def _run(self, records: _Records, predictions: Floats, learn: bool) -> None:
        """Run records in which no feature and no class is new through the keys' learners, part by part."""
        values, columns, keys, shared, targets, weights, spoken = records
        places = {name: place for place, name in enumerate(columns)}
        where = np.array([places.get(name, -1) for name in self.names], dtype=np.int64)
        if not self._regression:
            shared = np.ascontiguousarray(shared[:, : self.n_classes])
        if weights.size:
            learned = (weights > 0.0).tolist() if learn else None
        else:
            learned = [True] * len(keys) if learn else None
        found = np.zeros_like(shared)
        for start, stop in self.rows.parts(keys, learned):
            part = slice(start, stop)
            slots = self.rows.places(keys[part], None if learned is None else learned[part])
            keyed.run(
                self._shape, values[part], where, self._places, self.statistics, self._pairs, self._frequencies,
                self._phases, self.rows.single, self.rows.double, slots, self.fleet, shared[part], spoken[part],
                targets[part], weights[part], learn, self._x, self._active, found[part],
            )  # fmt: skip
        predictions[:, : found.shape[1]] = found

    def predict(self, values: Floats, columns: Sequence[Hashable], keys: Sequence[str | None], shared: Any) -> Floats:
        """What is said of records of which the shared model says `shared`."""
        said = np.ascontiguousarray(shared, dtype=np.float64)
        predictions, n = said.copy(), len(keys)
        if said.size:
            records = _Records(values, columns, keys, said, np.zeros(n), _NO_WEIGHTS, np.ones(n, dtype=np.bool_))
            self._run(records, predictions, learn=False)
        return predictions

    def learn(self, chunk: Chunk, keys: Sequence[str | None], shared: Any, first: bool) -> Floats:
        """Predict and learn records that the shared model has just learned.

        Parameters
        ----------
        chunk
            The records, as they were checked before that.
        keys
            Their keys.
        shared
            What the shared model said of them before it learned each: probabilities of all classes that are known by
            now, or values.
        first
            Whether it had learned nothing before these records.
        """
        said, n = np.ascontiguousarray(shared, dtype=np.float64), len(keys)
        predictions, spoken = said.copy(), np.ones(n, dtype=np.bool_)
        weights = _NO_WEIGHTS if chunk.weights is None else chunk.weights
        if first:  # the first record that is learned, and those before it, were not answered
            spoken[: int((weights > 0.0).argmax() if weights.size else 0) + 1] = False
        records = _Records(chunk.values, chunk.columns, keys, said, chunk.targets, weights, spoken)
        start = 0
        for stop in [*sorted(set(chunk.new_features) | set(chunk.new_labels)), n]:
            self._run(records.part(start, stop), predictions[start:stop], learn=True)
            if stop == n:
                break
            # Where something is new, the record is predicted as before, and learned with more features or classes.
            record = records.part(stop, stop + 1)
            if self.n_classes or self._regression:
                self._run(record, predictions[stop : stop + 1], learn=False)
            self._admit(chunk.new_features.get(stop, []), self.n_classes + (stop in chunk.new_labels))
            self._run(record, np.zeros((1, said.shape[1])), learn=True)
            start = stop + 1
        return predictions

    def learn_one(
        self, x: Mapping[Hashable, Any], key: str, target: float, weight: float, shared: Any, first: bool, new: New
    ) -> None:
        """The same of one record; `new` has its features and the number of classes that were not known before it."""
        columns = [*self.names, *(name for name in new.features if name not in self.names)]
        chunk = Chunk(
            _row(x, columns),
            columns,
            np.array([target], dtype=np.float64),
            None if weight == 1.0 else np.array([weight]),
            {0: list(new.features)} if new.features else {},
            {0: None} if new.classes else {},
        )
        self.learn(chunk, [key], shared, first)

    def predict_one(self, x: Mapping[Hashable, Any], key: str | None, shared: Floats) -> Floats:
        """What is said of one record of which the shared model says `shared`, (n_outputs,)."""
        if key is None or key not in self.rows.known:
            return shared
        names = list(self.names)
        found: Floats = self.predict(_row(x, names), names, [key], shared[None])[0]
        return found

    def snapshot_key(self, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What one key has of its own."""
        single, double = self.rows.row(key)
        sizes = {"features": self.rows.layout.features, "classes": self.rows.layout.classes}
        return sizes, {"single": single, "double": double}

    def restore_key(self, key: str, metadata: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Let a key have what `snapshot_key` gave, in a fleet of the same sizes; one that is too many is forgotten."""
        layout = self.rows.layout
        for name, size in (("features", layout.features), ("classes", layout.classes)):
            checked(_WHAT, metadata, name, int, size, size)
        for name in ("single", "double"):
            if name not in arrays or len(arrays[name]) != 1:
                raise BraidedError(f"{_WHAT}: array {name!r} is not one key's; give what snapshot_key gave")
        layout.check(_WHAT, arrays["single"], arrays["double"])
        self.rows.make_ready([key])
        self.rows.set_row(key, arrays["single"], arrays["double"])
        while len(self.rows) > self.rows.limits.max_keys:
            self.rows.forget_oldest()

    def snapshot(self, in_parts: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Everything needed to go on exactly from here; the rows of keys as arrays, or `InParts`."""
        single, double = self.rows.in_parts() if in_parts else self.rows.all_rows()
        metadata = {"texts": list(self.rows.known), "names": [pack_name(name) for name in self.names]}
        statistics = self.statistics[: len(self.names)].copy()
        return metadata, {"statistics": statistics, "fleet": self.fleet.copy(), "single": single, "double": double}

    def load(self, n_classes: int, metadata: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `snapshot`, as one that has learned nothing yet; what could not be one is refused.

        `n_classes` is how many the shared model knows.
        """
        names = unpack_names("names", checked(_WHAT, metadata, "names", list))
        keys = restored_keys(_WHAT, metadata, length(arrays, "single"))
        if len(names) > MOST_FEATURES or len(keys) > self.rows.limits.max_keys:
            raise BraidedError(f"{_WHAT} has {len(names)} names and {len(keys)} keys, and that is too many")
        self._admit(names, n_classes)
        rules = {
            "statistics": ArrayRule(
                (len(names), STATISTICS),
                "float64",
                MIN_STATISTICS[:STATISTICS],
                MAX_STATISTICS[:STATISTICS],
                WHOLE[:STATISTICS],
            ),
            "fleet": self._fleet_rule(),
        }
        check_arrays(_WHAT, rules, arrays)
        if not hold_together(arrays["statistics"]):
            raise BraidedError(f"{_WHAT}: statistics are none; give a file written by save")
        n = self.rows.layout.n_weights
        most = keyed.FLEET_VALUE_VARIANCE if self._regression else keyed.FLEET_VARIANCE
        check_covariance(_WHAT, arrays["fleet"][n : n + n * n].reshape(n, n), 2.0 * most)
        for name in ("single", "double"):
            if name not in arrays:
                raise BraidedError(f"{_WHAT}: array {name!r} is missing; give a file written by save")
        self.rows.layout.check(_WHAT, arrays["single"], arrays["double"])
        self.statistics[: len(names)], self.fleet[:] = arrays["statistics"], arrays["fleet"]
        self.rows.load(keys, arrays["single"], arrays["double"])

    def _fleet_rule(self) -> ArrayRule:
        """What the fleet's own numbers may be."""
        n = self.rows.layout.n_weights
        most = 2.0 * (keyed.FLEET_VALUE_VARIANCE if self._regression else keyed.FLEET_VARIANCE)
        more = np.full(keyed.FLEET_MORE, _LARGEST)
        more[keyed.UNITS] = keyed.MEMORY
        high = np.concatenate([np.full(n, keyed.MAX_WEIGHT), np.full(n * n, most), more])
        low = np.concatenate([np.full(n, -keyed.MAX_WEIGHT), np.full(n * n, -most), np.zeros(keyed.FLEET_MORE)])
        whole = np.arange(high.size) == n + n * n + keyed.UNITS
        return ArrayRule(high.shape, "float64", low, high, whole)
