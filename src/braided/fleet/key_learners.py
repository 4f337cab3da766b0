"""One shared model, and for each key learners in closed form around what it says: `share="braid"`."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.model import Model
from braided.fleet.cache import WHAT, KeyCache, KeyLimits, counted_rows, keys_of, likeliest, restored_keys
from braided.fleet.layout import MAX_FEATURES, RowLayout, shared_weights
from braided.kernels import keyed
from braided.kernels.random import fill_normal, fill_uniform, key_of, mix, unit_interval
from braided.kernels.scale import MAX_STATISTICS, MIN_STATISTICS, STATISTICS
from braided.records import Admitted, Predictions, Records
from braided.store import Array, Arrays, InParts, check, checked, pack_name, state_digest, unpack_names

Floats = NDArray[np.float64]
#: What a key has: a row of `single`, with its learners, and one of `double`, with what needs the precision.
Row = tuple[NDArray[np.float32], NDArray[np.float64]]
_NO_WEIGHTS = np.zeros(0)
#: How many keys are read at a time where all are saved or loaded.
_KEYS_AT_A_TIME = 256
#: How many keys the tables have room for at least.
_MIN_PLACES = 64


class KeyLearners(KeyCache[Row]):
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
    """

    kind = "FleetRows"

    def __init__(self, model: Model, limits: KeyLimits) -> None:
        super().__init__(model, limits)
        #: The sizes of rows; and the rows of keys in memory, one per place: `resident` has the place of each key.
        self.layout = RowLayout.for_sizes(model.regression, 0, 0)
        self.single, self.double = np.zeros((0, self.layout.size), np.float32), np.zeros((0, keyed.DOUBLES))
        self._free: list[int] = []
        #: The features that keys' own learners see, and their places; and how many classes are known.
        self.names: dict[Hashable, int] = {}
        self.n_classes = 0
        self.statistics = np.zeros((MAX_FEATURES, STATISTICS))
        self.fleet = self._first_weights()
        frequencies, phases = np.zeros((keyed.COSINES, 2), dtype=np.float32), np.zeros((keyed.COSINES, 1), np.float32)
        self._seed = int(model.params.seed)
        fill_normal(frequencies, key_of(self._seed, "fleet", "frequencies"), 0, 1.0)
        fill_uniform(phases, key_of(self._seed, "fleet", "phases"), 0, 0, np.pi)
        self._frequencies, self._phases = frequencies.astype(np.float64), phases[:, 0].astype(np.float64)
        self._x, self._active = np.zeros(MAX_FEATURES, dtype=np.float32), np.zeros(MAX_FEATURES + 1, dtype=np.int64)
        self._bind()

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far."""
        return self.model.labels

    def _first_weights(self) -> Floats:
        n, first = self.layout.n_weights, 0 if self.model.regression else 1
        weights, variances = np.zeros(n), np.zeros(n)
        weights[:first] = 1.0
        n_own = self.layout.n_own
        weights[first : first + n_own] = 1.0 / n_own
        variances[first:] = keyed.FLEET_VALUE_VARIANCE if self.model.regression else keyed.FLEET_VARIANCE
        more = np.zeros(keyed.FLEET_MORE)
        more[[keyed.FLEET_NOISE, *range(keyed.OWN_NOISE, keyed.UNIT)]] = 1.0
        return np.concatenate([weights, np.diag(variances).ravel(), more])

    def _bind(self) -> None:
        """Let rows and kernel have the sizes of what is known."""
        n_features = len(self.names)
        layout = RowLayout.for_sizes(self.model.regression, n_features, self.n_classes)
        if layout != self.layout:  # rows on disk follow when they are read
            self.single, self.layout = layout.grown(self.single, self.layout), layout
        self._shape = self.layout.shape(n_features, self.n_classes, self.held)
        self._work = np.zeros(keyed.work_size(*self._shape[[keyed.INPUTS, keyed.N_OUTPUTS]].tolist()))
        self._places = np.arange(n_features, dtype=np.int64)
        self._pairs = np.zeros((keyed.COSINES, 2), dtype=np.int64)
        for k, side in np.ndindex(keyed.COSINES, 2):
            # The feature in place i takes the seat with probability 1 / (i + 1): each has it as often in the end.
            seat = np.uint64(key_of(self._seed, "fleet", "pairs", 2 * k + side))
            taken = [i for i in range(n_features) if unit_interval(np.uint64(mix(seat, np.uint64(i)))) * (i + 1) < 1.0]
            self._pairs[k, side] = taken[-1] if taken else 0

    def fresh(self) -> Row:
        """The row of a key that has learned nothing."""
        return self.layout.fresh

    def take_in(self, value: Row) -> int:
        """Put a row into a free place; more are made where there is none."""
        if not self._free:
            single, double, have = self.single, self.double, len(self.single)
            n = max(_MIN_PLACES, min(2 * have, self.limits.in_memory), have + have // 8)
            self.single, self.double = np.zeros((n, self.layout.size), np.float32), np.zeros((n, keyed.DOUBLES))
            self.single[:have], self.double[:have] = single, double
            self._free += range(n - 1, have - 1, -1)
        place = self._free.pop()
        self.single[place], self.double[place] = value
        return place

    def value_of(self, resident: int) -> Row:
        """A row, to be copied before anything is learned."""
        return self.single[resident], self.double[resident]

    def release(self, resident: int) -> None:
        """A place is free; its row is overwritten when it is taken."""
        self._free.append(resident)

    def pack(self, value: Row) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The metadata and arrays of one row."""
        sizes = {"features": self.layout.features, "classes": self.layout.classes}
        return sizes, {"single": value[0][None].copy(), "double": value[1][None].copy()}

    def unpack(self, metadata: Any, arrays: Arrays) -> Row:
        """A row in the present layout, of one that was not larger."""
        sizes = [checked(WHAT, metadata, name, int) for name in ("features", "classes")]
        old = RowLayout(self.layout.regression, *sizes)
        old.check(WHAT, 1, arrays)
        return self.layout.grown(arrays["single"], old)[0], arrays["double"][0]

    def hold(self) -> None:
        """Let keys alone learn from now on."""
        super().hold()
        self._bind()

    def digest(self) -> str:
        """A SHA-256 over all that keys share."""
        shared = f"{state_digest(self.model)}{list(self.names)!r}".encode()
        return hashlib.sha256(shared + self.statistics.tobytes() + self.fleet.tobytes()).hexdigest()

    def _admit(self, names: Sequence[Hashable], n_classes: int) -> None:
        """Let keys' own learners see some more features, as far as there is room, and this number of classes."""
        new = [name for name in names if name not in self.names][: MAX_FEATURES - len(self.names)]
        if new or n_classes != self.n_classes:
            self.names |= {name: len(self.names) + i for i, name in enumerate(new)}
            self.n_classes = n_classes
            self._bind()

    def _run(self, records: Records, codes: Floats | None, shared: Floats, answered: NDArray[np.bool_]) -> Floats:
        """The predictions of records in which no feature and no class is new, part by part.

        Those with `codes` are learned, but for those of weight 0. `answered` are those that the shared model, whose
        predictions are `shared`, had an answer for.
        """
        n = len(records)
        keys, weights = keys_of(records), _NO_WEIGHTS if records.weights is None else records.weights
        places = {name: place for place, name in enumerate(records.names)}
        where = np.array([places.get(name, -1) for name in self.names], dtype=np.int64)
        predictions = np.zeros_like(shared)
        if not self.model.regression:
            shared = np.ascontiguousarray(shared[:, : self.n_classes])
        learned = [False] * n if codes is None else (weights > 0.0).tolist() if weights.size else [True] * n
        targets = np.zeros(n) if codes is None else codes
        found = np.zeros_like(shared)
        for part in self.parts(keys, learned):
            used = self.use(keys[part], learned[part])
            slots = np.array([-1 if place is None else place for place in used], dtype=np.int64)
            keyed.run(
                self._shape, records.values[part], where, self._places, self.statistics, self._pairs, self._frequencies,
                self._phases, self.single, self.double, slots, self.fleet, shared[part], answered[part],
                targets[part], weights[part], codes is not None, self._x, self._active, self._work, found[part],
            )  # fmt: skip
        predictions[:, : found.shape[1]] = found
        return predictions

    def check(self, records: Records) -> Admitted:
        """Refuse records that cannot be learned, all or none; nothing changes.

        Where the shared model is held, a label that it does not know teaches its key nothing.
        """
        self.check_room(records)
        if self.held:
            return Admitted(records, self.model.codes(records)[0], {}, {})
        return self.model.check(records)

    def learn(self, admitted: Admitted) -> Predictions:
        """Predict each record, then learn it, by the shared model and by the keys."""
        return self._with_own(*self._learn(admitted, None))

    def learn_row(self, admitted: Admitted, x: Mapping[Hashable, Any]) -> None:
        """Learn a record that counts; where labels are late, coverage is judged by the prediction made when it came."""
        self._learn(admitted, None if self.held else self.model.earlier(x))

    def _learn(self, admitted: Admitted, earlier: Predictions | None) -> tuple[Predictions, Floats]:
        """The shared model's predictions, and those with the keys' learners."""
        model, learned = self.model, counted_rows(admitted.records)
        answered = np.ones(len(admitted.records), dtype=np.bool_)
        if not model.records_learned:  # nor are the first record that is learned, and those before it
            answered[: int(learned[0]) + 1 if learned.size else None] = False
        before = model.records_learned, len(model.features), len(model.classes)
        try:
            shared = model.predict(admitted.records, False) if self.held else model.learn(admitted, earlier)
        except BaseException:  # what the shared model has learned by now, the keys have not
            if (model.records_learned, len(model.features), len(model.classes)) != before:
                with self.learning():
                    raise
            raise
        with self.learning():
            values = self._learn_own(admitted, shared.values, answered)
        self.learned += learned.size
        return shared, values

    def _learn_own(self, admitted: Admitted, shared: Floats, answered: NDArray[np.bool_]) -> Floats:
        """Let the keys learn records for which the shared model, which knows them by now, predicted `shared`."""
        records, codes, new_names, new_labels = admitted
        predictions = shared.copy()

        def run(start: int, stop: int, learn: bool) -> Floats:
            rows = slice(start, stop)
            return self._run(records.part(start, stop), codes[rows] if learn else None, shared[rows], answered[rows])

        start = 0
        for stop in sorted({*new_names, *new_labels}):
            predictions[start:stop] = run(start, stop, True)
            # Where something is new, the record is predicted as before, and learned with more features or classes.
            if self.n_classes or self.model.regression:
                predictions[stop : stop + 1] = run(stop, stop + 1, False)
            self._admit(new_names.get(stop, []), self.n_classes + (stop in new_labels))
            run(stop, stop + 1, True)
            start = stop + 1
        predictions[start:] = run(start, len(records), True)
        return predictions

    def predict_row(self, key: str | None, x: Mapping[Hashable, Any]) -> Floats | None:
        """Probabilities in the order of `classes`, or a value; None before anything was learned."""
        answered = self.model.predict_row(x, keep=not self.held)
        if answered is None:
            return None
        n = 1 if self.model.regression else len(self.model.classes)
        shared = np.ones((1, 1)) if n == 1 and not self.model.regression else answered.predictions[:, :n].copy()
        if key is not None and key in self.known:
            values = self.model.features.values_of(x, self.learned + 1)
            shared = self._run(Records(tuple(x), values, keys=[key]), None, shared, np.ones(1, dtype=np.bool_))
        row: Floats = shared[0]
        return row

    def predict(self, records: Records) -> Predictions:
        """Predict the records."""
        shared = self.model.predict(records, sure=False)
        return self._with_own(shared, self._run(records, None, shared.values, np.ones(len(records), dtype=np.bool_)))

    def _with_own(self, shared: Predictions, values: Floats) -> Predictions:
        """The predictions with the keys' learners, and the shared model's answer as one more learner's."""
        own = np.column_stack([shared.own, likeliest(shared.values, self.model.regression)])
        return Predictions(values, own.astype(np.float64))

    def restore_key(self, key: str, metadata: Any, arrays: Arrays) -> None:
        """Let a key have what `snapshot_key` gave, in a fleet of the same sizes; one that is too many is forgotten."""
        for name, size in (("features", self.layout.features), ("classes", self.layout.classes)):
            checked(WHAT, metadata, name, int, size, size)
        row = self.unpack(metadata, arrays)
        self.make_ready()
        self.set(key, row)

    def snapshot(self, later: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """What keys have and share, to go on exactly from here; rows are read some at a time, later if at all."""
        keys, size = list(self.known), self.layout.size
        double = np.zeros((len(keys), keyed.DOUBLES))  # small: filled while the others are read

        def single() -> Iterator[NDArray[np.float32]]:
            for start in range(0, max(len(keys), 1), _KEYS_AT_A_TIME):
                some = keys[start : start + _KEYS_AT_A_TIME]
                rows = np.zeros((len(some), size), dtype=np.float32)
                for i, key in enumerate(some):
                    rows[i], double[start + i] = self.look(key)
                yield rows

        own = {
            "statistics": self.statistics[: len(self.names)].copy(),
            "fleet": self.fleet.copy(),
            "single": InParts(np.dtype(np.float32), (len(keys), size), single),
            "double": InParts(double.dtype, double.shape, lambda: (double,)),
        }
        return {"texts": keys, "names": [pack_name(name) for name in self.names]}, own

    def load(self, metadata: Any, arrays: Arrays) -> None:
        """Take over a `snapshot`, before anything was learned; what could not be one is refused."""
        keys, names = restored_keys(WHAT, metadata), unpack_names("names", checked(WHAT, metadata, "names", list))
        self._admit(names, len(self.model.classes))
        bounds = MIN_STATISTICS[:STATISTICS], MAX_STATISTICS[:STATISTICS]
        schema = {
            "statistics": Array((len(self.names), STATISTICS), "float64", *bounds),
            "fleet": shared_weights(self.layout.n_weights),
        }
        check(WHAT, schema, arrays)
        self.layout.check(WHAT, len(keys), arrays)
        self.statistics[: len(self.names)], self.fleet[:] = arrays["statistics"], arrays["fleet"]
        for place, key in enumerate(keys):
            self.set(key, (arrays["single"][place], arrays["double"][place]))
            self.make_ready()
        if self.known and not self.model.records_learned:
            raise BraidedError("the fleet has keys, and its shared model has learned nothing; give a file from save")
