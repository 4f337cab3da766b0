"""What each key of a braided fleet has of its own: learners in closed form around what a shared model says."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.fleet.cache import KeyCache, KeyLimits
from braided.fleet.layout import MAX_FEATURES, RowLayout
from braided.fleet.schema import check_rows, restored_keys, shared_weights
from braided.kernels import keyed
from braided.kernels.random import fill_normal, fill_uniform, key_of, mix, unit_interval
from braided.kernels.scale import MAX_STATISTICS, MIN_STATISTICS, STATISTICS
from braided.records import Admitted, Records
from braided.store import Array, Checkpoint, InParts, check, checked, length, pack_name, reject_malformed, unpack_names

Floats = NDArray[np.float64]
#: The rows of some keys: `single`, with what their learners have, and `double`, with what needs the precision.
Rows = tuple[NDArray[np.float32], NDArray[np.float64]]
_NO_WEIGHTS = np.zeros(0)
_WHAT = "state of the fleet"
#: How many keys are read at a time where all are saved or loaded.
_KEYS_AT_A_TIME = 256


def _unit(seat: np.uint64, place: int) -> float:
    """A draw from [0, 1)."""
    return float(unit_interval(np.uint64(mix(seat, np.uint64(place)))))


class KeyRows:
    """The rows of the keys in memory: what a `KeyCache` holds of `KeyLearners`.

    Attributes
    ----------
    layout
        The sizes of rows.
    single, double
        One row per place.
    """

    kind = "FleetRows"

    def __init__(self, layout: RowLayout) -> None:
        self.layout = layout
        self.single = np.zeros((0, layout.size), dtype=np.float32)
        self.double = np.zeros((0, keyed.DOUBLES))

    def grow(self, layout: RowLayout) -> None:
        """Make the rows in memory larger; those on disk follow when they are read."""
        if layout != self.layout:
            self.single = layout.grown(self.single, self.layout)
            self.layout = layout

    def resize(self, n: int) -> None:
        """Have n places, of which the first keep what they hold."""
        single, double, have = self.single, self.double, len(self.single)
        self.single, self.double = np.zeros((n, self.layout.size), dtype=np.float32), np.zeros((n, keyed.DOUBLES))
        self.single[:have], self.double[:have] = single, double

    def fresh(self, n: int) -> Rows:
        """The rows of n keys that have learned nothing."""
        single, double = self.layout.fresh()
        return np.tile(single, (n, 1)), np.tile(double, (n, 1))

    def get(self, places: list[int]) -> Rows:
        """A copy of some rows."""
        return self.single[places], self.double[places]

    def put(self, places: list[int], values: Rows) -> None:
        """Let some places have these rows."""
        self.single[places], self.double[places] = values

    def clear(self, place: int) -> None:
        """A place is free; its row is overwritten when it is taken."""

    def pack(self, values: Rows) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The metadata and arrays of some rows."""
        sizes = {"features": self.layout.features, "classes": self.layout.classes}
        return sizes, {"single": values[0], "double": values[1]}

    def unpack(self, checkpoint: Checkpoint) -> Rows:
        """The row in a file, checked, in the present layout."""
        sizes, arrays = checkpoint.metadata, checkpoint.arrays
        with reject_malformed("a key on disk"):
            old = RowLayout(self.layout.regression, int(sizes["features"]), int(sizes["classes"]))
        check_rows("a key on disk", old, arrays)
        return self.layout.grown(arrays["single"], old), arrays["double"]


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
        self.rows = KeyRows(RowLayout.for_sizes(self._regression, 0, 0))
        self.cache: KeyCache[Rows] = KeyCache(self.rows, limits)
        #: The features that keys' own learners see, and their places; and how many classes are known.
        self.names: dict[Hashable, int] = {}
        self.n_classes = 0
        self.statistics = np.zeros((MAX_FEATURES, STATISTICS))
        self.fleet = self._first_weights()
        frequencies, phases = np.zeros((keyed.COSINES, 2), dtype=np.float32), np.zeros((keyed.COSINES, 1), np.float32)
        fill_normal(frequencies, key_of(seed, "fleet", "frequencies"), 0, 1.0)
        fill_uniform(phases, key_of(seed, "fleet", "phases"), 0, 0, np.pi)
        self._frequencies, self._phases = frequencies.astype(np.float64), phases[:, 0].astype(np.float64)
        self._x, self._active = np.zeros(MAX_FEATURES, dtype=np.float32), np.zeros(MAX_FEATURES + 1, dtype=np.int64)
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
        self._work = np.zeros(keyed.work_size(*self._shape[[keyed.INPUTS, keyed.N_OUTPUTS]].tolist()))
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
        """Let keys' own learners see some more features, as far as there is room, and this number of classes."""
        new = [name for name in names if name not in self.names][: MAX_FEATURES - len(self.names)]
        if new or n_classes != self.n_classes:
            self.names |= {name: len(self.names) + i for i, name in enumerate(new)}
            self.n_classes = n_classes
            self._bind()

    def _run(
        self,
        records: Records,
        codes: Floats | None,
        shared: Floats,
        answered: NDArray[np.bool_],
        predictions: Floats,
    ) -> None:
        """Run records in which no feature and no class is new through the keys' learners, part by part.

        Those with `codes` are learned, but for those of weight 0. `answered` are those that the shared model, whose
        predictions are `shared`, had an answer for.
        """
        keys, weights = records.keys, _NO_WEIGHTS if records.weights is None else records.weights
        assert keys is not None
        places = {name: place for place, name in enumerate(records.names)}
        where = np.array([places.get(name, -1) for name in self.names], dtype=np.int64)
        if not self._regression:
            shared = np.ascontiguousarray(shared[:, : self.n_classes])
        learned = None
        if codes is not None:
            learned = (weights > 0.0).tolist() if weights.size else [True] * len(keys)
        targets = np.zeros(len(keys)) if codes is None else codes
        found = np.zeros_like(shared)
        for start, stop in self.cache.parts(keys, learned):
            part = slice(start, stop)
            slots = self.cache.places(keys[part], None if learned is None else learned[part])
            keyed.run(
                self._shape, records.values[part], where, self._places, self.statistics, self._pairs, self._frequencies,
                self._phases, self.rows.single, self.rows.double, slots, self.fleet, shared[part], answered[part],
                targets[part], weights[part], learned is not None, self._x, self._active, self._work, found[part],
            )  # fmt: skip
        predictions[:, : found.shape[1]] = found

    def predict(self, records: Records, shared: Any) -> Floats:
        """The predictions of records for which the shared model predicts `shared`."""
        answers = np.ascontiguousarray(shared, dtype=np.float64)
        predictions = answers.copy()
        if answers.size:
            self._run(records, None, answers, np.ones(len(records), dtype=np.bool_), predictions)
        return predictions

    def learn(self, admitted: Admitted, shared: Any, first: bool) -> Floats:
        """Predict and learn records that the shared model has just learned.

        Parameters
        ----------
        admitted
            The records, as they were checked before that.
        shared
            What the shared model predicted for each before it learned it: values, or probabilities of all classes that
            are known by now.
        first
            Whether it had learned nothing before these records.
        """
        records, codes, new_names, new_labels = admitted
        answers, n, weights = np.ascontiguousarray(shared, dtype=np.float64), len(records), records.weights
        predictions, answered = answers.copy(), np.ones(n, dtype=np.bool_)
        if first:  # the first record that is learned, and those before it, were not answered
            answered[: int(0 if weights is None else (weights > 0.0).argmax()) + 1] = False

        def run(start: int, stop: int, learn: bool, into: Floats) -> None:
            rows = slice(start, stop)
            part = records.part(start, stop)
            self._run(part, codes[rows] if learn else None, answers[rows], answered[rows], into)

        start = 0
        for stop in [*sorted({*new_names, *new_labels}), n]:
            run(start, stop, True, predictions[start:stop])
            if stop == n:
                break
            # Where something is new, the record is predicted as before, and learned with more features or classes.
            if self.n_classes or self._regression:
                run(stop, stop + 1, False, predictions[stop : stop + 1])
            self._admit(new_names.get(stop, []), self.n_classes + (stop in new_labels))
            run(stop, stop + 1, True, np.zeros((1, answers.shape[1])))
            start = stop + 1
        return predictions

    def snapshot_key(self, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What one key has of its own."""
        return self.rows.pack(self._rows_of([key]))

    def restore_key(self, key: str, metadata: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Let a key have what `snapshot_key` gave, in a fleet of the same sizes; one that is too many is forgotten."""
        layout = self.rows.layout
        for name, size in (("features", layout.features), ("classes", layout.classes)):
            checked(_WHAT, metadata, name, int, size, size)
        for name in ("single", "double"):
            if length(arrays, name) != 1:
                raise BraidedError(f"{_WHAT}: array {name!r} is not one key's; give what snapshot_key gave")
        check_rows(_WHAT, layout, arrays)
        self.cache.make_ready()
        self.cache.set([key], (arrays["single"], arrays["double"]))

    def _rows_of(self, keys: Sequence[str]) -> Rows:
        """The rows of some keys, which stay where they are."""
        single, double = np.zeros((len(keys), self.rows.layout.size), np.float32), np.zeros((len(keys), keyed.DOUBLES))
        for some, values in self.cache.look(keys):
            single[some], double[some] = values
        return single, double

    def _rows_in_parts(self) -> tuple[InParts, InParts]:
        """The rows of all keys, with some in memory at a time; to be read before anything is learned."""
        n = len(self.cache.known)
        double = np.zeros((n, keyed.DOUBLES))  # small: kept while the others are read

        def single() -> Iterator[NDArray[np.float32]]:
            keys = list(self.cache.known)
            for start in range(0, n, _KEYS_AT_A_TIME):
                rows, double[start : start + _KEYS_AT_A_TIME] = self._rows_of(keys[start : start + _KEYS_AT_A_TIME])
                yield rows

        return (
            InParts(self.rows.single.dtype, (n, self.rows.layout.size), single),
            InParts(double.dtype, double.shape, lambda: (double,)),
        )

    def snapshot(self, in_parts: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Everything needed to go on exactly from here; the rows of keys as arrays, or `InParts`."""
        single, double = self._rows_in_parts() if in_parts else self._rows_of(list(self.cache.known))
        metadata = {"texts": list(self.cache.known), "names": [pack_name(name) for name in self.names]}
        statistics = self.statistics[: len(self.names)].copy()
        return metadata, {"statistics": statistics, "fleet": self.fleet.copy(), "single": single, "double": double}

    def load(self, n_classes: int, metadata: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `snapshot`, before anything was learned; what could not be one is refused.

        `n_classes` is how many the shared model knows.
        """
        names = unpack_names("names", checked(_WHAT, metadata, "names", list))
        keys = restored_keys(_WHAT, metadata, length(arrays, "single"))
        if len(names) > MAX_FEATURES or len(keys) > self.cache.limits.max_keys:
            raise BraidedError(f"{_WHAT} has {len(names)} names and {len(keys)} keys, and that is too many")
        self._admit(names, n_classes)
        rules = {
            "statistics": Array(
                (len(names), STATISTICS), "float64", MIN_STATISTICS[:STATISTICS], MAX_STATISTICS[:STATISTICS]
            ),
            "fleet": shared_weights(self.rows.layout.n_weights),
        }
        check(_WHAT, rules, arrays)
        check_rows(_WHAT, self.rows.layout, arrays)
        self.statistics[: len(names)], self.fleet[:] = arrays["statistics"], arrays["fleet"]
        few = min(_KEYS_AT_A_TIME, self.cache.limits.in_memory)
        for start in range(0, len(keys), few):
            rows = slice(start, start + few)
            self.cache.set(keys[rows], (arrays["single"][rows], arrays["double"][rows]))
            self.cache.make_ready()
