"""River's own models that ours are compared with.

They are imported where they are made: with what they bring along, that takes longer than all of braided.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import Any

from river import base

from braided.estimators.params import REGRESSION

#: Trees of a forest.
_TREES = 10
#: Nodes of one Mondrian tree. River's have no bound, and grow with every record.
_MAX_NODES = 10_000
#: Records that neighbours are sought among; as many as River's own approximate search keeps.
_WINDOW = 1_000


class ColumnImputer(base.Transformer):
    """Fills in what is missing: the mean of numbers, the most frequent of words.

    River's `StatImputer` wants its columns named at the start, and None in the place of what is missing. Here a column
    is known from the first record that has it, and may be left out of others. Before that, nothing is put in its place.

    Examples
    --------
    >>> imputer = ColumnImputer()
    >>> imputer.transform_one({"size": 2.0})
    {'size': 2.0}
    >>> for x in ({"size": 2.0}, {"size": 4.0, "colour": "red"}, {"colour": "blue"}, {"colour": "blue"}):
    ...     imputer.learn_one(x)
    >>> imputer.transform_one({}), imputer.transform_one({"colour": "red", "weight": 7.0})
    ({'size': 3.0, 'colour': 'blue'}, {'size': 3.0, 'colour': 'red', 'weight': 7.0})
    """

    def __init__(self) -> None:
        self._usual: dict[Any, Any] = {}

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Know the columns of a record, and its values."""
        from river.stats import Mean, Mode

        for name, value in x.items():
            if value is not None:
                self._usual.setdefault(name, Mode() if isinstance(value, str) else Mean()).update(value)

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """The record with a value for every known column."""
        usual, filled = self._usual, {**dict.fromkeys(self._usual), **x}
        return {name: usual[name].get() if value is None and name in usual else value for name, value in filled.items()}


def rival(name: str, task: str, seed: int) -> Any:
    """A fresh model that ours are compared with: River's defaults, behind what River's documentation puts in front.

    Missing values are left out of its records: a linear model then has no term for them, naive Bayes no factor, and a
    Hoeffding tree goes down its most frequent branch. The two that have no such way have an imputer in front. Scaled
    features are for the linear leaves of regression trees. `docs/baselines.md` has the figures.
    """
    if name in ("majority", "mean"):  # these load in no time
        from river import dummy, stats

        return dummy.PriorClassifier() if name == "majority" else dummy.StatisticRegressor(stats.Mean())
    from river import compose, ensemble, forest, linear_model, multiclass, naive_bayes, neighbors, preprocessing, tree

    def for_task(module: Any, name: str, **settings: Any) -> Any:
        return getattr(module, f"{name}{'Regressor' if task == REGRESSION else 'Classifier'}")(**settings)

    scaler = preprocessing.StandardScaler()
    match name:
        case "logistic":  # one against the rest for more than two classes
            return scaler | multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
        case "linear":  # with the step of the intercept that River's own examples have
            return scaler | linear_model.LinearRegression(intercept_lr=0.1)
        case "nb":
            return naive_bayes.GaussianNB()
        case "amf":  # it wants features between 0 and 1
            mondrian = for_task(forest, "AMF", n_estimators=_TREES, max_nodes=_MAX_NODES, seed=seed)
            return ColumnImputer() | preprocessing.MinMaxScaler() | mondrian
        case "knn":  # a category that differs counts 1 in each of two places; River's approximate search is slower
            numbers, words = (
                compose.SelectType(Number) | scaler,
                compose.SelectType(str) | preprocessing.OneHotEncoder(),
            )
            nearest = for_task(neighbors, "KNN", engine=neighbors.LazySearch(window_size=_WINDOW))
            return ColumnImputer() | (numbers + words) | nearest
        case "tree":
            model = for_task(tree, "HoeffdingAdaptiveTree", seed=seed)
        case "arf":
            model = for_task(forest, "ARF", n_models=_TREES, seed=seed)
        case "srp":  # its trees choose from the features of the first record
            model = for_task(ensemble, "SRP", n_models=_TREES, seed=seed)
    return scaler | model if task == REGRESSION else model
