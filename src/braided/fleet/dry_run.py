"""Whether a fleet would learn certain chunks, without learning them."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.base import MODL
from braided.estimators.chunk_learning import DryRun
from braided.estimators.chunks import checked_array, listed, weights_of
from braided.estimators.features import ClassSpace
from braided.estimators.tasks import REGRESSION
from braided.fleet.rows import KeyLimits

#: The model of a key that is known.
ModelOf = Callable[[str], MODL]
Check = Callable[[Any, Any, Sequence[Hashable] | None, Any], Any]
CheckRoom = Callable[[set[str], int], None]
Opened = Callable[[Any, Sequence[Hashable] | None, Any, Any], tuple[list[str | None], Any, Sequence[Hashable] | None]]


class SharedDryRun:
    """Of a fleet whose keys have learners around one model: that model decides, as keys' learners refuse nothing.

    Of one that is held, which comes to know no names and labels, `check` decides.
    """

    def __init__(self, model: MODL, known: Collection[str], check: Check | None = None) -> None:
        self._run = model.dry_run()
        self._check = check
        self._known = known
        self._new: set[str] = set()

    def copy(self) -> SharedDryRun:
        """An independent copy."""
        found = copy.copy(self)
        found._run, found._new = self._run.copy(), set(self._new)
        return found

    @property
    def n_keys(self) -> int:
        """How many keys there would be, if none is forgotten."""
        return len(self._known) + len(self._new)

    def knows(self, key: str) -> bool:
        """Whether a key would be known."""
        return key in self._known or key in self._new

    def learn_many(
        self, keys: Sequence[str | None], X: Any, y: Any, names: Sequence[Hashable] | None, sample_weight: Any
    ) -> None:
        """Refuse a chunk that would be refused after those before it; else count it as learned."""
        weights = weights_of(sample_weight, len(keys), 1)
        if self._check is None:
            self._run.learn_many(X, y, names, weights)
        else:
            self._check(X, y, names, weights)
        for row, key in enumerate(keys):
            if key is not None and (weights is None or weights[row] > 0.0) and key not in self._known:
                self._new.add(key)


class _Keyed(NamedTuple):
    """A chunk with its keys, checked as far as no model has to be asked."""

    keys: Sequence[str | None]
    values: NDArray[np.float64]
    columns: list[Hashable]
    targets: list[Any]
    weights: NDArray[np.float64]

    def learn_by(self, run: DryRun, rows: NDArray[np.int64]) -> None:
        """Ask a model about some of the records."""
        if rows.size:
            run.learn_many(self.values[rows], [self.targets[i] for i in rows], self.columns, self.weights[rows])


class SeparateDryRun:
    """Of a fleet with a model for each key: the shared one, if there is one, and those of the chunk's keys decide."""

    def __init__(
        self, model: MODL, start: bool, known: Collection[str], space: ClassSpace, limits: KeyLimits, model_of: ModelOf
    ) -> None:
        self._start = start
        self._model = model
        #: What a new key starts as.
        self._shared = model.dry_run()
        self._known: OrderedDict[str, None] = OrderedDict.fromkeys(known)
        self._space = copy.copy(space)
        self._space.places = dict(space.places)
        self._limits = limits
        self._model_of = model_of
        #: Those of the keys that were asked for, and which of them are of this copy alone.
        self._runs: dict[str, DryRun] = {}
        self._own: set[str] = set()

    def copy(self) -> SeparateDryRun:
        """An independent copy."""
        found = copy.copy(self)
        found._shared, found._known = self._shared.copy(), self._known.copy()
        found._space = copy.copy(self._space)
        found._space.places = dict(self._space.places)
        found._runs, found._own = dict(self._runs), set()
        return found

    @property
    def n_keys(self) -> int:
        """How many keys there would be."""
        return len(self._known)

    def knows(self, key: str) -> bool:
        """Whether a key would be known."""
        return key in self._known

    def learn_many(
        self, keys: Sequence[str | None], X: Any, y: Any, names: Sequence[Hashable] | None, sample_weight: Any
    ) -> None:
        """Refuse a chunk that would be refused after those before it; else count it as learned."""
        values, columns = checked_array(X, names, 1)
        labels, n = listed(y), len(values)
        if len(labels) != n:
            raise BraidedError(f"X has {n} records and y has {len(labels)} labels: they must be as many")
        targets = [self._model._target(label, 1 + row) for row, label in enumerate(labels)]
        weights = weights_of(sample_weight, n, 1)
        chunk = _Keyed(keys, values, columns, targets, np.ones(n) if weights is None else weights)
        trial = self.copy()
        trial._learn(chunk)
        self.__dict__.update(trial.__dict__)

    def _learn(self, chunk: _Keyed) -> None:
        """As `SeparateModels.predict_learn_many` goes through a chunk: from one new key to the next."""
        if self._model.task != REGRESSION:
            learned = (label for label, weight in zip(chunk.targets, chunk.weights, strict=True) if weight > 0.0)
            new = [label for label in dict.fromkeys(learned) if label not in self._space.places]
            self._space.check_room(new)
            for label in new:
                self._space.admit(label)
        done, n = 0, len(chunk.keys)
        while done < n:
            stop = done
            while stop < n and (chunk.keys[stop] in self._known or chunk.weights[stop] == 0.0):
                stop += 1
            self._learn_part(chunk, np.arange(done, stop))
            key = chunk.keys[stop] if stop < n else None
            if key is not None:
                self._make_known(key)
            done = stop

    def _learn_part(self, chunk: _Keyed, rows: NDArray[np.int64]) -> None:
        """Records among which no key is new."""
        if self._start:
            chunk.learn_by(self._shared, rows)
        groups: dict[str, list[int]] = {}
        for row in rows.tolist():
            key = chunk.keys[row]
            if key is not None and key in self._known:
                groups.setdefault(key, []).append(row)
                if chunk.weights[row] > 0.0:
                    self._known.move_to_end(key)
        for key, some in groups.items():
            chunk.learn_by(self._run(key), np.array(some))

    def _run(self, key: str) -> DryRun:
        """That of a key's model, which is this copy's own."""
        if key not in self._own:
            found = self._runs.get(key)
            self._runs[key] = self._model_of(key).dry_run() if found is None else found.copy()
            self._own.add(key)
        return self._runs[key]

    def _make_known(self, key: str) -> None:
        if len(self._known) >= self._limits.max_keys:
            oldest, _ = self._known.popitem(last=False)
            self._runs.pop(oldest, None)
            self._own.discard(oldest)
        self._runs[key] = self._shared.copy()
        self._own.add(key)
        self._known[key] = None


class FleetDryRun:
    """Whether a fleet would learn certain chunks, one after another; made by `Fleet.dry_run`.

    Parameters
    ----------
    inside
        That of what is inside of it.
    check_room
        Refuses new keys beside so many that there are.
    opened
        The keys of a table's records, checked, and the table without them.
    """

    def __init__(self, inside: SharedDryRun | SeparateDryRun, check_room: CheckRoom, opened: Opened) -> None:
        self._inside = inside
        self._check_room = check_room
        self._opened = opened

    def copy(self) -> FleetDryRun:
        """An independent copy."""
        return FleetDryRun(self._inside.copy(), self._check_room, self._opened)

    def learn_many(
        self, X: Any, y: Any, names: Sequence[Hashable] | None = None, sample_weight: Any = None, keys: Any = None
    ) -> None:
        """Refuse a chunk that the fleet would refuse after those before it; else count it as learned.

        Arguments as of `Fleet.learn_many`, but for data frames.
        """
        found, X, names = self._opened(X, names, keys, sample_weight)
        weights = weights_of(sample_weight, len(found), 1)
        new = {
            key
            for row, key in enumerate(found)
            if key is not None and (weights is None or weights[row] > 0.0) and not self._inside.knows(key)
        }
        self._check_room(new, self._inside.n_keys)
        self._inside.learn_many(found, X, y, names, sample_weight)
