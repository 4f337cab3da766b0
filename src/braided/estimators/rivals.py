"""River's models as their own users would run them, each with what its documentation puts in front of it.

Each function makes a fresh pipeline from the task and the seed. What is not said is River's default. Missing values
are left out of the records: a linear model then has no term for them, naive Bayes no factor, and a Hoeffding tree goes
down its most frequent branch. The two that have no such way have River's imputer in front. `docs/baselines.md` has
what was measured of that.

River is imported inside: with what it brings along, that takes longer than all of braided.
"""

from __future__ import annotations

from numbers import Number
from typing import Any

from braided.estimators.tasks import REGRESSION

#: Trees of a forest.
_TREES = 10
#: Nodes of one Mondrian tree. River's have no bound, and grow with every record.
_MOST_NODES = 10_000
#: Records that neighbours are sought among; as many as River's own approximate search keeps.
_WINDOW = 1_000


def logistic(task: str, seed: int) -> Any:
    """Logistic regression; one against the rest for more than two classes."""
    from river.linear_model import LogisticRegression
    from river.multiclass import OneVsRestClassifier
    from river.preprocessing import StandardScaler

    return StandardScaler() | OneVsRestClassifier(LogisticRegression())


def linear(task: str, seed: int) -> Any:
    """Linear regression, with the step of the intercept that River's own examples have."""
    from river.linear_model import LinearRegression
    from river.preprocessing import StandardScaler

    return StandardScaler() | LinearRegression(intercept_lr=0.1)


def naive_bayes(task: str, seed: int) -> Any:
    """Gaussian naive Bayes."""
    from river.naive_bayes import GaussianNB

    return GaussianNB()


def tree(task: str, seed: int) -> Any:
    """The Hoeffding adaptive tree; its linear leaves for regression want scaled features."""
    from river.preprocessing import StandardScaler
    from river.tree import HoeffdingAdaptiveTreeClassifier, HoeffdingAdaptiveTreeRegressor

    if task == REGRESSION:
        return StandardScaler() | HoeffdingAdaptiveTreeRegressor(seed=seed)
    return HoeffdingAdaptiveTreeClassifier(seed=seed)


def adaptive_forest(task: str, seed: int) -> Any:
    """The adaptive random forest; for regression on scaled features, as for the tree."""
    from river.forest import ARFClassifier, ARFRegressor
    from river.preprocessing import StandardScaler

    if task == REGRESSION:
        return StandardScaler() | ARFRegressor(n_models=_TREES, seed=seed)
    return ARFClassifier(n_models=_TREES, seed=seed)


def random_patches(task: str, seed: int) -> Any:
    """Streaming random patches of Hoeffding trees; for regression on scaled features, as for the tree.

    The features that its trees choose from are those of the first record.
    """
    from river.ensemble import SRPClassifier, SRPRegressor
    from river.preprocessing import StandardScaler

    if task == REGRESSION:
        return StandardScaler() | SRPRegressor(n_models=_TREES, seed=seed)
    return SRPClassifier(n_models=_TREES, seed=seed)


def mondrian_forest(task: str, seed: int) -> Any:
    """The aggregated Mondrian forest, which wants features between 0 and 1."""
    from river.forest import AMFClassifier, AMFRegressor
    from river.preprocessing import MinMaxScaler

    from braided.estimators.river_imputer import ColumnImputer

    forest = AMFRegressor if task == REGRESSION else AMFClassifier
    return ColumnImputer() | MinMaxScaler() | forest(n_estimators=_TREES, max_nodes=_MOST_NODES, seed=seed)


def neighbours(task: str, seed: int) -> Any:
    """The five nearest of the last records: numbers are scaled, a category that differs counts 1 in each of two places.

    The search is exact, and at this many records faster by far than River's approximate one.
    """
    from river.compose import SelectType
    from river.neighbors import KNNClassifier, KNNRegressor, LazySearch
    from river.preprocessing import OneHotEncoder, StandardScaler

    from braided.estimators.river_imputer import ColumnImputer

    nearest = KNNRegressor if task == REGRESSION else KNNClassifier
    numbers = SelectType(Number) | StandardScaler()
    words = SelectType(str) | OneHotEncoder()
    return ColumnImputer() | (numbers + words) | nearest(engine=LazySearch(window_size=_WINDOW))


def majority(task: str, seed: int) -> Any:
    """Always the most frequent class so far."""
    from river.dummy import PriorClassifier

    return PriorClassifier()


def mean(task: str, seed: int) -> Any:
    """Always the mean of the targets so far."""
    from river.dummy import StatisticRegressor
    from river.stats import Mean

    return StatisticRegressor(Mean())
