"""A record with features replaced by values of their own distribution: what effects and importance are made of.

The distribution is what the model's statistics know of it: nothing more is stored, and nothing is drawn at random. It
is asked for by levels u between 0 and 1:

    a number         the u-quantile of the past values that the input stage has kept (`kernels.inputs`). Without them,
                     from mean and deviation (`kernels.scale`): of two values, if there were no others, by their shares;
                     else of a normal distribution
    one-hot columns  the category at which the shares of the categories, added up, pass u
    other groups     each member by itself, member m at the level frac(a^m u), which makes members nearly independent:
                     how they go together is not known
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.engine import Braid
from braided.estimators.model import Model
from braided.kernels.scale import COUNT, FIRST, HIGHEST, IN_BLOCK, KEPT, LOWEST, MEAN, RESTARTS, SQUARES
from braided.records import Records

Floats = NDArray[np.float64]
#: Numbers in the records that are predicted at once.
_MAX_CELLS = 2**18
#: Values that stand for a number, and for a group whose members vary by themselves. The second is a prime, so that
#: multiples of its levels are the same levels in another order.
_N_VALUES, _N_JOINT = 8, 31
#: Levels by which the shares of values and categories are told: as many as the input stage keeps values.
_N_LEVELS = 512
#: The a of the levels of a group's members, worked out modulo twice `_N_JOINT`. Of all these a, it leaves twelve
#: members with the smallest correlations: at most 0.38 over the 31 levels, and 0.11 over all.
_FACTOR = 43
_NORMAL = NormalDist()


def _levels(n: int) -> Floats:
    """The middles of n equal parts."""
    return (np.arange(n) + 0.5) / n


class Distribution:
    """What a model knows of the values of some features, which are replaced together.

    Parameters
    ----------
    engine
        The model's engine.
    slots
        The slots of the features.

    Examples
    --------
    >>> from braided import MODLClassifier
    >>> model = MODLClassifier()
    >>> X = [[float(i), float(i % 4 == 0), float(i % 4 > 0)] for i in range(100)]
    >>> model.learn_many(X, [i > 50 for i in range(100)], ["a", "blue", "red"])
    >>> values, weights = Distribution(model.braid, [0]).support()
    >>> values[:, 0].tolist(), weights[0].item()
    ([6.0, 18.0, 31.0, 43.0, 56.0, 68.0, 81.0, 93.0], 0.125)
    >>> values, weights = Distribution(model.braid, [1, 2]).support()
    >>> values.tolist(), weights.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [0.25, 0.75])
    """

    def __init__(self, engine: Braid, slots: Sequence[int]) -> None:
        self._engine = engine
        self._slots = slots
        self._shares = _category_shares(engine.statistics[list(slots)]) if len(slots) > 1 else None

    def at(self, levels: Floats) -> Floats:
        """The values at these levels, (levels, features)."""
        if self._shares is None:
            factors = [pow(_FACTOR, member, 2 * _N_JOINT) for member in range(len(self._slots))]
            pairs = zip(self._slots, factors, strict=True)
            columns = [_quantiles(self._engine, slot, levels * a % 1.0) for slot, a in pairs]
            return np.array(columns).T
        places = np.searchsorted(np.cumsum(self._shares), levels, side="right")
        return np.asarray(places[:, None] == np.arange(len(self._slots)), dtype=np.float64)

    def support(self) -> tuple[Floats, Floats]:
        """A few values that stand for all, (n, features), and their weights, (n,), which add up to 1."""
        if self._shares is None and len(self._slots) > 1:
            return self.at(_levels(_N_JOINT)), np.full(_N_JOINT, 1.0 / _N_JOINT)
        values = self.at(_levels(_N_LEVELS))  # in order: what is equal stands together
        new = np.flatnonzero(np.concatenate([[True], (values[1:] != values[:-1]).any(axis=1)]))
        if self._shares is None and len(new) > _N_VALUES:
            return self.at(_levels(_N_VALUES)), np.full(_N_VALUES, 1.0 / _N_VALUES)
        return values[new], np.diff(new, append=_N_LEVELS) / _N_LEVELS


@np.errstate(over="ignore", invalid="ignore")  # statistics of a file that was tampered with may be of any size
def _quantiles(engine: Braid, slot: int, levels: Floats) -> Floats:
    """A number's values at these levels; NaN, for missing, where nothing is known of it."""
    kept = np.zeros(0) if engine.stage is None else engine.stage.kept(slot)
    if kept.size:
        return kept[(levels * kept.size).astype(np.int64)]
    statistics = engine.statistics[slot]
    count, mean = statistics[COUNT], statistics[MEAN]
    if count == 0:
        return np.full(levels.shape, np.nan)
    variance = statistics[SQUARES] / count
    known = [mean, *statistics[FIRST : FIRST + int(min(count, KEPT))].tolist()]
    if statistics[IN_BLOCK]:
        known += statistics[[LOWEST, HIGHEST]].tolist()
    for low, high in ((0.0, 1.0), (min(known), max(known))):
        # Between two bounds no mean has a larger variance than that of the bounds alone (Bhatia and Davis, 2000).
        largest = (mean - low) * (high - mean)
        if low <= mean <= high and abs(largest - variance) <= 1e-6 * largest:
            return np.where(levels * (high - low) < high - mean, low, high)
    normal = [_NORMAL.inv_cdf(u) for u in np.clip(levels, 1e-9, 1 - 1e-9).tolist()]
    return np.asarray(mean + np.sqrt(variance) * np.array(normal))


@np.errstate(over="ignore", invalid="ignore")
def _category_shares(statistics: Floats) -> Floats | None:
    """The shares of the categories of one-hot columns, (features,); None where the features are not that.

    They are if each is 0 or 1, by its mean and variance, and their ones add up to the records that had them. These are
    not known where a feature's statistics have started over.
    """
    count, mean = statistics[:, COUNT], statistics[:, MEAN]
    ones = count * mean
    if not (np.abs(ones * (1.0 - mean) - statistics[:, SQUARES]) <= 1e-6 * ones).all() or ones.sum() <= 0:
        return None
    exclusive = abs(ones.sum() - count.max()) < 0.5 or statistics[:, RESTARTS].any()
    return np.asarray(ones / ones.sum()) if exclusive else None


class Variants:
    """One record, and the same with other values of some features.

    Parameters
    ----------
    model
        The model that predicts them.
    x
        The record.

    Attributes
    ----------
    row
        The values that the record has of features that the model knows.
    """

    def __init__(self, model: Model, x: Mapping[Hashable, Any]) -> None:
        values = model.features.values_of(x, model.records_learned + 1)[0].tolist()
        named, known = zip(x, values, strict=True), model.features.slots
        self.model = model
        self.row = {name: value for name, value in named if name in known and value == value}

    def distributions(
        self, groups: Mapping[Hashable, Sequence[Hashable]]
    ) -> dict[Hashable, tuple[list[Hashable], Distribution]]:
        """Of each group the features that the record has, and what is known of their values; without empty groups."""
        slots = self.model.features.slots
        members = {group: [name for name in names if name in self.row] for group, names in groups.items()}
        return {
            group: (names, Distribution(self.model.engine, [slots[name] for name in names]))
            for group, names in members.items()
            if names
        }

    def predict(self, replaced: Sequence[tuple[Sequence[Hashable], Floats]]) -> Floats:
        """What is predicted for the record, then for each of these features with these values, (1 + n, outputs).

        All come in one pass; in several where there are so many that memory matters.
        """
        names, own = tuple(self.row), np.array(list(self.row.values()))
        places = {name: place for place, name in enumerate(names)}
        variants: list[tuple[Sequence[Hashable], Any]] = [((), ()), *replaced]
        step = max(1, _MAX_CELLS // max(len(names), 1))
        found = []
        for start in range(0, len(variants), step):
            part = variants[start : start + step]
            table = np.tile(own, (len(part), 1))
            for row, (features, values) in zip(table, part, strict=True):
                row[[places[name] for name in features]] = values
            found.append(self.model.predict(Records(names, table), sure=False).values)
        return np.concatenate(found)
