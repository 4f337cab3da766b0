"""Why a prediction came out as it did: what each feature adds to it, the fast learner's parts, every learner's share.

What a feature adds is what changes where it is left out: a missing feature is nothing unusual to a model, so that
this is exact, for the answer of all learners together. The fast learner is linear, so its own score is a sum with one
part a feature, and its posterior says how sure each part is. Nothing here changes a model.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.engine import Braid, Scores
from braided.errors import BraidedError
from braided.estimators.model import Model
from braided.kernels.inputs import FILLED, has_planes
from braided.learners import LinearRegression, LogisticRegression

if TYPE_CHECKING:
    from braided.streams.encode.encoder import Encoder

Floats = NDArray[np.float64]
Groups = dict[Hashable, list[Hashable]]
#: What the one output of a regression model is called.
VALUE = "value"
_SHOWN = 12
#: What is said of the fast learner where there is none.
_NO_PARTS: dict[str, Any] = {"contributions": {}, "bias": {}, "totals": {}, "scores": {}}
#: Numbers in the records that are predicted at once.
_MAX_CELLS = 2**18


@dataclass(frozen=True)
class Part:
    """One part of a score.

    Attributes
    ----------
    mean, sd
        Mean and standard deviation under the fast learner's posterior.
    """

    mean: float
    sd: float

    def __repr__(self) -> str:
        return f"{self.mean:+.3f} +- {self.sd:.3f}"


@dataclass(frozen=True, repr=False)
class Explanation:
    """What `explain_one` found.

    Attributes
    ----------
    prediction
        The predicted label, or value.
    probability
        Of the predicted label; None for regression.
    effects
        Feature -> label -> what the feature adds to that label's probability, or for regression to the `"value"` in its
        own unit: the prediction less the one for the record without it. For the features that the record has.
    learner
        The fast learner's name; None where there is none, and then nothing of what follows but the shares.
    contributions
        Feature -> label -> part of that label's score; for regression the only label is `"value"`, in standard
        deviations of the target. Features that are missing, or that no learned record had, are not in it; where the
        fast learner has filled inputs, missing ones are in it by their estimates.
    bias
        Label -> part that every record has.
    totals
        Label -> sum of the bias and the contributions. Its deviation is that of the sum: the parts are correlated, so
        their variances do not add up.
    scores
        Label -> what the fast learner gives to the combiner: the total, or with `score="probability"` (preset
        `released`) the softmax of the clamped totals.
    shares
        Learner -> its share of the final score, from 0 to 1; the sum is 1, or all are 0 while no learner says anything.
    estimated
        The features among the contributions whose values were missing and have been filled in.
    labels
        Those that have effects, parts and scores.
    """

    prediction: Any
    probability: float | None
    effects: Mapping[Hashable, Mapping[Hashable, float]]
    learner: str | None
    contributions: Mapping[Hashable, Mapping[Hashable, Part]]
    bias: Mapping[Hashable, Part]
    totals: Mapping[Hashable, Part]
    scores: Mapping[Hashable, float]
    shares: Mapping[str, float]
    estimated: frozenset[Hashable] = frozenset()
    labels: tuple[Hashable, ...] = ()

    def top(self, n: int | None = None, label: Any = None) -> list[tuple[Hashable, Part]]:
        """The n largest contributions (all for None) to the fast learner's score of a label; the predicted if None."""
        label = self._label(label)
        pairs = [(name, parts[label]) for name, parts in self.contributions.items()]
        return sorted(pairs, key=lambda pair: -abs(pair[1].mean))[:n]

    def top_effects(self, n: int | None = None, label: Any = None) -> list[tuple[Hashable, float]]:
        """The n largest effects (all for None) on a label's probability, or the value; the predicted one if None."""
        label = self._label(label)
        pairs = [(name, effects[label]) for name, effects in self.effects.items()]
        return sorted(pairs, key=lambda pair: -abs(pair[1]))[:n]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers; names and labels stay what they are."""

        def plain(parts: Mapping[Hashable, Part]) -> dict[Hashable, dict[str, float]]:
            return {label: {"mean": part.mean, "sd": part.sd} for label, part in parts.items()}

        return {
            "prediction": self.prediction,
            "probability": self.probability,
            "effects": {name: dict(effects) for name, effects in self.effects.items()},
            "learner": self.learner,
            "contributions": {name: plain(parts) for name, parts in self.contributions.items()},
            "bias": plain(self.bias),
            "totals": plain(self.totals),
            "scores": dict(self.scores),
            "shares": dict(self.shares),
            "estimated": [name for name in self.contributions if name in self.estimated],
        }

    def _label(self, label: Any = None) -> Any:
        if label is None:
            label = VALUE if self.probability is None else self.prediction
        if label not in self.labels:
            raise BraidedError(f"label {label!r:.60} is not known to the model: use one of {list(self.labels)!r:.200}")
        return label

    def __repr__(self) -> str:
        label = self._label()
        effects = self.top_effects()
        if self.probability is None:
            lines = [f"predicted {self.prediction:.6g}; what each feature adds to it:"]
            lines += _rows([(f"{name!s:.40}", f"{effect:+.4g}") for name, effect in effects])
        else:
            lines = [
                f"predicted {self.prediction!r} with probability {self.probability:.3f}; what each feature adds to it:"
            ]
            lines += _rows([(f"{name!s:.40}", f"{effect:+.3f}") for name, effect in effects])
        if self.learner is not None:
            lines.append(f"parts of its score by {self.learner}:")
            marks = dict.fromkeys(self.estimated, " (estimated)")
            parts = [(f"{name!s:.40}{marks.get(name, '')}", repr(part)) for name, part in self.top()]
            lines += _rows(parts, [("bias", repr(self.bias[label])), ("total", repr(self.totals[label]))])
        lines.append("shares: " + ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items()))
        return "\n".join(lines)


def _rows(rows: list[tuple[str, str]], last: Sequence[tuple[str, str]] = ()) -> list[str]:
    """The first rows, indented and in columns; how many more there are; and some that are always there."""
    shown = [*rows[:_SHOWN], *last]
    width = max((len(name) for name, _ in shown), default=0)
    lines = [f"  {name:<{width}}  {text}" for name, text in shown]
    if len(rows) > _SHOWN:
        lines.insert(_SHOWN, f"  and {len(rows) - _SHOWN} more features")
    return lines


def left_out(braid: Braid, row: Floats, groups: Sequence[Sequence[int]]) -> Floats:
    """Predictions of a record, by slot, without each of some groups of features, less those of the whole.

    (groups, n_outputs): what it loses. All in one pass; with very many features in several, so that memory stays small.
    """
    there = np.flatnonzero(~np.isnan(row))
    columns = np.full(braid.n_features, -1, dtype=np.int64)
    columns[there] = np.arange(there.size)
    step = max(1, _MAX_CELLS // max(there.size, 1))
    found = []
    for start in range(0, len(groups), step):
        part = groups[start : start + step]
        table = np.tile(row[there], (1 + len(part), 1))
        for place, slots in enumerate(part, start=1):
            table[place, columns[list(slots)]] = np.nan
        predictions = braid.run(table, columns, there).predictions
        found.append(predictions[1:] - predictions[0])
    return np.concatenate(found) if found else np.zeros((0, braid.n_outputs))


def shares(braid: Braid, record: Scores, n_classes: int) -> Floats:
    """Each learner's share of a record's final score under the combiner's present weights, (n_learners,)."""
    terms = braid.combiner.terms(record.x, record.mask, record.scores, record.usable)
    return shares_of(terms, None if braid.regression else int(record.prediction[:n_classes].argmax()))


def shares_of(terms: Floats, predicted: int | None) -> Floats:
    """Each learner's share of the final score, (n_learners,).

    The final score is a plain sum of one term per learner: its (weighted) scores, or where a combiner mixes
    distributions its weighted distribution. With t_i learner i's term for the predicted class, less the mean of its
    terms over the classes (for regression, where `predicted` is None, its term in units of the target around its mean),

        share_i = |t_i| / sum_j |t_j|,   and all zeros where nobody says anything.
    """
    sizes = np.abs(terms[:, 0] if predicted is None else terms[:, predicted] - terms.sum(axis=1) / terms.shape[1])
    total = sizes.sum()
    return np.asarray(sizes / total if total > 0 and np.isfinite(total) else np.zeros_like(sizes))


def fast_learner(braid: Braid) -> LogisticRegression | LinearRegression | None:
    """The first learner that is linear and in closed form, if there is one."""
    for learner in braid.learners:
        if isinstance(learner, LogisticRegression | LinearRegression):
            return learner
    return None


class Posterior(NamedTuple):
    """The fast learner's weights, in units of the score of each output.

    Attributes
    ----------
    mean
        (n_outputs, inputs); with two classes one vector m is known, and the scores are -u . m / 2 and u . m / 2.
    covariance
        (inputs, inputs), or (inputs,) if it is a diagonal; the same for every output. It is the learner's own, and
        has to be multiplied by `unit`: a copy of a large one would cost more than all that is asked of it.
    value_at, mask_at
        Which inputs are the features' values; which are their availabilities, or None.
    """

    mean: Floats
    covariance: Floats
    value_at: slice
    mask_at: slice | None
    unit: float

    @property
    def variances(self) -> Floats:
        """The variance of each input's weight."""
        return self.unit * (np.diagonal(self.covariance) if self.covariance.ndim == 2 else self.covariance)

    def variance(self, places: NDArray[np.int64], u: Floats) -> float:
        """u P u for the inputs at `places`."""
        if self.covariance.ndim == 1:
            return self.unit * float((self.covariance[places] * u * u).sum())
        return self.unit * float(u @ self.covariance[np.ix_(places, places)] @ u)


def posterior(learner: LogisticRegression | LinearRegression) -> Posterior:
    """The weights as they stand now; the arrays may share memory with the learner."""
    size, rows = learner.n_inputs(learner.n_features), learner.rows(learner.n_outputs)
    mean = learner.views["mean"][:rows, :size]
    covariance = learner.views["covariance"]
    covariance = covariance[:size, :size] if learner.full else covariance[:size]
    unit = 1.0
    if learner.n_outputs == 2:
        mean, unit = np.concatenate([-mean, mean]) / 2.0, 0.25
    if learner.config.mask_inputs:
        return Posterior(mean, covariance, slice(1, None, 2), slice(2, None, 2), unit)
    return Posterior(mean, covariance, slice(1, None), None, unit)


def columns_of(encoder: Encoder) -> dict[Hashable, Hashable]:
    """For each feature that has another name than its column of raw records, the column."""
    from braided.streams.encode import words
    from braided.streams.encode.cells import Kind

    found: dict[Hashable, Hashable] = {}
    for column, kind in encoder.kinds.items():
        names: Iterable[Hashable] = ()
        if kind is Kind.DATE and column in encoder.dates:
            names = encoder.dates[column].names(column, encoder.rules.dates)
        elif kind is Kind.TEXT:
            names = words.names(column, encoder.rules.text_features)
        elif column in encoder.categories.known:
            names = [encoder.categories.name(column, value) for value in encoder.categories.known[column]]
        found |= dict.fromkeys(names, column)
    return found


def by_column(features: Iterable[Hashable], columns: Mapping[Hashable, Hashable]) -> Groups:
    """The features of each column, in order; one that `columns` does not name is a column by itself."""
    groups: Groups = {}
    for name in features:
        groups.setdefault(columns.get(name, name), []).append(name)
    return groups


def groups_of(
    x: Mapping[Hashable, Any], features: Any, encoder: Encoder | None
) -> Mapping[Hashable, Sequence[Hashable]]:
    """Which features of a record are left out together, by name: those of a column, where raw ones were encoded."""
    if isinstance(features, Mapping):
        return features
    groups = {name: [name] for name in x} if encoder is None else by_column(x, columns_of(encoder))
    return groups if features is None else {name: groups.get(name, [name]) for name in features}


def effects(
    model: Model, x: Mapping[Hashable, Any], groups: Mapping[Hashable, Sequence[Hashable]]
) -> dict[Hashable, dict[Hashable, float]]:
    """What each group of features adds to each label's probability, or to the value."""
    row = _row(model, x)
    slots = model.features.slots
    found = {
        name: [slots[one] for one in group if one in slots and not np.isnan(row[slots[one]])]
        for name, group in groups.items()
    }
    wanted = {name: group for name, group in found.items() if group}
    lost = left_out(model.engine, row, list(wanted.values()))
    labels: list[Hashable] = [VALUE] if model.regression else model.labels
    if not model.regression and len(labels) == 1:
        lost = np.zeros_like(lost)
    return {
        name: {label: -float(change) for label, change in zip(labels, row_lost, strict=False)}
        for name, row_lost in zip(wanted, lost.tolist(), strict=True)
    }


def _row(model: Model, x: Mapping[Hashable, Any]) -> Floats:
    """A record by slot."""
    values = model.features.values_of(x, model.records_learned + 1)
    if model.records_learned == 0:
        raise BraidedError("the model has learned nothing yet, so there is nothing to explain")
    return model.features.by_slot(values[0], list(x))


def explain(model: Model, x: Mapping[Hashable, Any], groups: Mapping[Hashable, Sequence[Hashable]]) -> Explanation:
    """See `MODLClassifier.explain_one`; the effects are of the groups of features."""
    effects_of = effects(model, x, groups)
    braid, row, names = model.engine, _row(model, x), model.learner_names
    slots = np.arange(row.size, dtype=np.int64)
    answered = braid.run(row[None, :], slots, slots)
    seen = braid.last_scored()
    assert seen is not None
    labels: list[Hashable] = [VALUE] if model.regression else model.labels
    predicted: Any = float(answered.predictions[0, 0])
    probability = None
    if not model.regression:
        place = model.place_of(answered.predictions)
        predicted = labels[place]
        probability = float(seen.prediction[place]) if len(labels) > 1 else 1.0
    learner = fast_learner(braid)
    return Explanation(
        prediction=predicted,
        probability=probability,
        effects=effects_of,
        learner=None if learner is None else names[braid.learners.index(learner)],
        **(_NO_PARTS if learner is None else _parts(braid, learner, seen, list(model.features.slots), labels)),
        shares=dict(zip(names, shares(braid, seen, len(labels)).tolist(), strict=True)),
        labels=tuple(labels),
    )


def _parts(
    braid: Braid,
    learner: LogisticRegression | LinearRegression,
    seen: Scores,
    features: list[Hashable],
    labels: list[Hashable],
) -> dict[str, Any]:
    """What an explanation says of the fast learner."""
    weights = posterior(learner)
    inputs = np.arange(weights.mean.shape[1])

    def parts(places: NDArray[np.int64], u: Floats) -> dict[Hashable, Part]:
        means = weights.mean[:, places] @ u
        sd = float(np.sqrt(max(weights.variance(places, u), 0.0)))
        return {label: Part(float(means[k]), sd) for k, label in enumerate(labels)}

    contributions: dict[Hashable, Mapping[Hashable, Part]] = {}
    all_places, all_values = [np.zeros(1, dtype=np.int64)], [np.ones(1)]
    filled = learner.config.inputs != "plain" and bool(has_planes(seen.x, braid.n_features))
    values = seen.x[FILLED * braid.n_features :] if filled else seen.x
    for slot in range(braid.n_features) if filled else np.flatnonzero(seen.mask).tolist():
        places, u = inputs[weights.value_at][[slot]], values[[slot]].astype(np.float64)
        if weights.mask_at is not None:
            places, u = np.append(places, inputs[weights.mask_at][slot]), np.append(u, 1.0)
        contributions[features[slot]] = parts(places, u)
        all_places.append(places)
        all_values.append(u)
    scores = seen.own[braid.learners.index(learner)]
    return {
        "contributions": contributions,
        "bias": parts(all_places[0], all_values[0]),
        "totals": parts(np.concatenate(all_places), np.concatenate(all_values)),
        "scores": {label: float(scores[k]) for k, label in enumerate(labels)},
        "estimated": frozenset(n for n, there in zip(features, seen.mask, strict=False) if filled and not there),
    }
