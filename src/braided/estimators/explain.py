"""Why a prediction came out as it did: what each feature adds to it, the fast learner's parts, every learner's share.

With f the prediction of all learners together, a record x, and v_1, v_2, ... values from feature j's own distribution
(`estimators.variants`) with weights w_1, w_2, ... that add up to 1, the feature adds

    effect_j = f(x) - sum_k w_k f(x with v_k for x_j),

to the probability of each class and to its log-odds, or to the value. All other features stay as they are in the
record. The fast learner is linear, so its own score is a sum with one part per feature, and its posterior says how sure
each part is. Nothing here changes a model.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from braided.engine import Braid, Scores
from braided.errors import BraidedError
from braided.estimators.model import Model
from braided.estimators.variants import Variants
from braided.kernels.inputs import FILLED, has_planes
from braided.learners import LinearRegression, LogisticRegression

if TYPE_CHECKING:
    from braided.encode.encoder import Encoder

Floats = NDArray[np.float64]
Groups = Mapping[Hashable, Sequence[Hashable]]
Effects = dict[Hashable, dict[Hashable, float]]
FastLearner = LogisticRegression | LinearRegression
#: What the one output of a regression model is called.
VALUE = "value"
_SHOWN = 12
#: Log-odds are those of probabilities this far from 0 and 1, or farther: beyond, they are noise.
_LEAST = 1e-9


@dataclass(frozen=True)
class Part:
    """One part of a score: its mean and standard deviation under the fast learner's posterior."""

    mean: float
    sd: float

    def __repr__(self) -> str:
        return f"{self.mean:+.3f} +- {self.sd:.3f}"


@dataclass(frozen=True, repr=False, kw_only=True)
class Explanation:
    """What `explain_one` found.

    Attributes
    ----------
    prediction
        The predicted label, or value.
    probability
        Of the predicted label; None for regression.
    effects
        Feature -> label -> what the feature adds to that label's probability, or for regression to the `"value"`: the
        prediction less the mean of the predictions over values from the feature's own distribution. For the features
        that the record has.
    log_odds
        The same for the log-odds of the probabilities, which go on where probabilities are near 0 or 1; none for
        regression.
    learner
        The fast learner's name; None where there is none, and then nothing of what follows but the shares.
    contributions
        Feature -> label -> part of that label's score; for regression the only label is `"value"`, in standard
        deviations of the target. Features that are missing, or that no learned record had, are not in it; where the
        fast learner has filled inputs, missing ones are in it by their estimates.
    bias
        Label -> part that every record has.
    totals
        Label -> sum of the bias and the contributions. The parts are correlated: their variances do not add up.
    scores
        Label -> what the fast learner gives to the combiner: the total, or with `score="probability"` (preset
        `released`) the softmax of the clamped totals.
    shares
        Learner -> its share of the final score, from 0 to 1; the sum is 1, or all are 0 while every score is 0.
    estimated
        The features among the contributions whose values were missing and have been filled in.
    labels
        Those that have effects, parts and scores.
    """

    prediction: Any
    probability: float | None
    effects: Mapping[Hashable, Mapping[Hashable, float]]
    log_odds: Mapping[Hashable, Mapping[Hashable, float]] = field(default_factory=dict)
    learner: str | None = None
    contributions: Mapping[Hashable, Mapping[Hashable, Part]] = field(default_factory=dict)
    bias: Mapping[Hashable, Part] = field(default_factory=dict)
    totals: Mapping[Hashable, Part] = field(default_factory=dict)
    scores: Mapping[Hashable, float] = field(default_factory=dict)
    shares: Mapping[str, float]
    estimated: frozenset[Hashable] = frozenset()
    labels: tuple[Hashable, ...]

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
        estimated = [name for name in self.contributions if name in self.estimated]
        return {**asdict(self), "estimated": estimated, "labels": list(self.labels)}

    def _label(self, label: Any = None) -> Any:
        if label is None:
            label = VALUE if self.probability is None else self.prediction
        if label not in self.labels:
            raise BraidedError(f"label {label!r:.60} is not known to the model: use one of {list(self.labels)!r:.200}")
        return label

    def __repr__(self) -> str:
        label, number = self._label(), self.probability is None
        said = f"{self.prediction:.6g}" if number else f"{self.prediction!r} with probability {self.probability:.3f}"
        adds = {name: f"{one[label]:+.4g}" if number else f"{one[label]:+.3f}" for name, one in self.effects.items()}
        odds = {name: f"  {one[label]:+.2f}" for name, one in self.log_odds.items()}
        effects = [(f"{name!s:.40}", adds[name] + odds.get(name, "")) for name, _ in self.top_effects()]
        to = "it" if number else "it, and to its log-odds"
        lines = [f"predicted {said}; what each feature adds to {to}:", *_rows(effects)]
        if self.learner is not None:
            lines.append(f"parts of its score by {self.learner}:")
            marks = dict.fromkeys(self.estimated, " (estimated)")
            parts = [(f"{name!s:.40}{marks.get(name, '')}", repr(part)) for name, part in self.top()]
            lines += _rows(parts, [("bias", repr(self.bias[label])), ("total", repr(self.totals[label]))])
        lines.append("shares: " + ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items()))
        return "\n".join(lines)


def _rows(rows: list[tuple[str, str]], last: Sequence[tuple[str, str]] = ()) -> list[str]:
    """The first rows in columns, how many more there are, and the last ones."""
    shown = [*rows[:_SHOWN], *last]
    width = max((len(name) for name, _ in shown), default=0)
    lines = [f"  {name:<{width}}  {text}" for name, text in shown]
    if len(rows) > _SHOWN:
        lines.insert(_SHOWN, f"  and {len(rows) - _SHOWN} more features")
    return lines


def shares(braid: Braid, record: Scores, n_classes: int) -> Floats:
    """Each learner's share of a record's final score under the combiner's present weights, (n_learners,).

    The final score is a plain sum of one term per learner: its (weighted) scores, or where a combiner mixes
    distributions its weighted distribution. With t_i learner i's term for the predicted class, less the mean of its
    terms over the classes (for regression, its term in units of the target around its mean),

        share_i = |t_i| / sum_j |t_j|,   and all zeros where nobody says anything.
    """
    terms = braid.combiner.terms(record.x, record.mask, record.scores, record.usable)
    if braid.regression:
        sizes = np.abs(terms[:, 0])
    else:
        sizes = np.abs(terms[:, record.prediction[:n_classes].argmax()] - terms.sum(axis=1) / terms.shape[1])
    total = sizes.sum()
    return np.asarray(sizes / total if total > 0 and np.isfinite(total) else np.zeros_like(sizes))


def fast_learner(braid: Braid) -> FastLearner | None:
    """The first learner that is linear and in closed form, if there is one."""
    return next((learner for learner in braid.learners if isinstance(learner, FastLearner)), None)


def _posterior(learner: FastLearner) -> tuple[Floats, Floats, float]:
    """Means (n_outputs, inputs) and covariance (inputs, inputs), or (inputs,) if it is a diagonal, of its weights.

    With two classes one vector m is known, and the scores are -u . m / 2 and u . m / 2. The covariance is the learner's
    own, for every output, and to be multiplied by the last: a copy of a large one would cost more than all else here.
    """
    size, n_outputs = learner.n_inputs(learner.n_features), learner.n_outputs
    mean, covariance = learner.views["mean"][: learner.rows(n_outputs), :size], learner.views["covariance"]
    covariance = covariance[:size, :size] if learner.full else covariance[:size]
    return (np.concatenate([-mean, mean]) / 2.0, covariance, 0.25) if n_outputs == 2 else (mean, covariance, 1.0)


def weights(learner: FastLearner) -> tuple[Floats, Floats]:
    """Mean (n_outputs, features), with two classes of the second, and standard deviation (features,) of the weights."""
    mean, covariance, unit = _posterior(learner)
    values = slice(1, None, 2 if learner.config.mask_inputs else 1)
    mean = mean[-1:, values] if learner.n_outputs == 2 else mean[:, values]
    return mean.copy(), np.sqrt(unit * (np.diagonal(covariance) if learner.full else covariance)[values])


def by_column(features: Iterable[Hashable], columns: Mapping[Hashable, Hashable]) -> dict[Hashable, list[Hashable]]:
    """The features of each column, in order; one that `columns` does not name is a column by itself."""
    groups: dict[Hashable, list[Hashable]] = {}
    for name in features:
        groups.setdefault(columns.get(name, name), []).append(name)
    return groups


def groups_of(x: Mapping[Hashable, Any], features: Any, encoder: Encoder | None) -> Groups:
    """Which features of a record are replaced together, by name: those of a column, where raw ones were encoded."""
    if isinstance(features, Mapping):
        return features
    groups = by_column(x, {} if encoder is None else encoder.feature_columns())
    return groups if features is None else {name: groups.get(name, [name]) for name in features}


def _labels(model: Model) -> list[Hashable]:
    return [VALUE] if model.regression else model.labels


def effects(model: Model, x: Mapping[Hashable, Any], groups: Groups) -> tuple[Effects, Effects]:
    """What each group of features adds to each label's probability, or to the value; and to its log-odds."""
    variants, labels = Variants(model, x), _labels(model)
    found = {group: (names, *known.support()) for group, (names, known) in variants.distributions(groups).items()}
    predicted = variants.predict([(names, row) for names, values, _ in found.values() for row in values])

    def adds(numbers: Floats) -> Effects:
        added, start = {}, 1
        for group, (_, _, weights) in found.items():
            part, start = numbers[start : start + len(weights)], start + len(weights)
            less = numbers[0] - (weights[:, None] * part).sum(axis=0)
            added[group] = dict(zip(labels, less.tolist(), strict=True))
        return added

    if model.regression:
        return adds(predicted), {}
    bounded = np.clip(predicted, _LEAST, 1.0 - _LEAST)
    return adds(predicted), adds(np.log(bounded / (1.0 - bounded)))


def explain(model: Model, x: Mapping[Hashable, Any], groups: Groups) -> Explanation:
    """See `MODLClassifier.explain_one`; the effects are of the groups of features."""
    (adds, log_odds), braid, labels = effects(model, x, groups), model.engine, _labels(model)
    answered = model.predict_row(x, keep=False)
    if answered is None:
        raise BraidedError("the model has learned nothing yet, so there is nothing to explain")
    seen, learner = braid.last_scored(), fast_learner(braid)
    assert seen is not None
    prediction: Any = float(answered.predictions[0, 0])
    probability = None
    if not model.regression:
        place = model.place_of(answered.predictions)
        prediction = labels[place]
        probability = float(seen.prediction[place]) if len(labels) > 1 else 1.0
    return Explanation(
        prediction=prediction,
        probability=probability,
        effects=adds,
        log_odds=log_odds,
        **({} if learner is None else _parts(model, learner, seen, labels)),
        shares=dict(zip(model.learner_names, shares(braid, seen, len(labels)).tolist(), strict=True)),
        labels=tuple(labels),
    )


def _parts(model: Model, learner: FastLearner, seen: Scores, labels: list[Hashable]) -> dict[str, Any]:
    """What an explanation says of the fast learner."""
    mean, covariance, unit = _posterior(learner)

    def parts(places: list[int], values: list[float]) -> dict[Hashable, Part]:
        u = np.array(values)
        means = mean[:, places] @ u
        spread = u @ covariance[np.ix_(places, places)] @ u if learner.full else (covariance[places] * u * u).sum()
        sd = float(np.sqrt(max(unit * float(spread), 0.0)))
        return {label: Part(float(means[k]), sd) for k, label in enumerate(labels)}

    n, features, place = model.engine.n_features, list(model.features.slots), model.engine.learners.index(learner)
    filled = learner.config.inputs != "plain" and bool(has_planes(seen.x, n))
    x = (seen.x[FILLED * n :] if filled else seen.x).tolist()
    contributions: dict[Hashable, Mapping[Hashable, Part]] = {}
    places, values = [0], [1.0]
    for slot in range(n) if filled else np.flatnonzero(seen.mask).tolist():
        own = ([1 + 2 * slot, 2 + 2 * slot], [x[slot], 1.0]) if learner.config.mask_inputs else ([1 + slot], [x[slot]])
        contributions[features[slot]] = parts(*own)
        places += own[0]
        values += own[1]
    return {
        "learner": model.learner_names[place],
        "contributions": contributions,
        "bias": parts([0], [1.0]),
        "totals": parts(places, values),
        "scores": dict(zip(labels, seen.own[place].tolist(), strict=False)),  # a first class has one more beside it
        "estimated": frozenset(n for n, there in zip(features, seen.mask, strict=False) if filled and not there),
    }
