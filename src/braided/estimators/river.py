"""River's own models with the chunk interface of ours, and those that ours are compared with.

The latter are as their own users would run them, each with what its documentation puts in front of it, and River's
defaults: a function makes a fresh pipeline from the task and the seed. Missing values are left out of the records: a
linear model then has no term for them, naive Bayes no factor, and a Hoeffding tree goes down its most frequent branch.
The two that have no such way have an imputer in front; `docs/baselines.md` has the figures.

River's models are imported where they are made: with what they bring along, that takes longer than all of braided.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from river import base

from braided.errors import BraidedError
from braided.estimators.arrays import weights_of
from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.learners.river_learner import takes_weight
from braided.records import Predictions
from braided.values import as_weight

#: Trees of a forest.
_TREES = 10
#: Nodes of one Mondrian tree. River's have no bound, and grow with every record.
_MAX_NODES = 10_000
#: Records that neighbours are sought among; as many as River's own approximate search keeps.
_WINDOW = 1_000


class _RiverChunks:
    """Chunks as records of River's, without their missing values."""

    task: ClassVar[str]
    #: As any of our models has them; there are no learners inside.
    learner_names: ClassVar[list[str]] = []
    health: ClassVar[dict[str, dict[str, int]]] = {}

    def __init__(self, model: Any, words: bool = False) -> None:
        self.model = model
        self.words = words
        self._categories: dict[Hashable, tuple[Hashable, str]] = {}
        self._labels: dict[Hashable, int] = {}
        self._names: set[Hashable] = set()

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far."""
        return list(self._labels)

    @property
    def n_features(self) -> int:
        """How many features have been seen."""
        return len(self._names)

    def know_categories(self, categories: Mapping[Hashable, tuple[Hashable, str]]) -> None:
        """Be told which features stand for a value of a column; see `Records.categories`."""
        if self.words:
            self._categories.update(categories)

    def _given(self, x: Mapping[Hashable, Any]) -> dict[Any, Any]:
        """The features that are there, with words for categories; in x's order, as random draws may depend on it."""
        record = {}
        for name, value in x.items():
            if value is None or value != value:
                continue
            column, word = self._categories.get(name, (name, None))
            if word is None:
                record[column] = value
            elif value == 1.0:
                record[column] = word
        return record

    def learn_one(self, x: Mapping[Hashable, Any], y: Any, w: float = 1.0) -> None:
        """Learn one record; one of weight 0 changes nothing. A model that takes no weights refuses all but 0 and 1."""
        weight = as_weight(w, 1)
        self._check_weights([weight])
        if weight == 0.0:
            return
        self._names |= {name for name, value in x.items() if value is not None and value == value}
        if self.task == CLASSIFICATION:
            self._labels.setdefault(y, len(self._labels))
        self.model.learn_one(self._given(x), y, **({} if weight == 1.0 else {"w": weight}))

    def _check_weights(self, weights: Iterable[float]) -> None:
        if any(weight not in (0.0, 1.0) for weight in weights) and not takes_weight(self.model):
            raise BraidedError(f"{type(self.model).__name__} takes no weights: leave them out, or use another model")

    def predict_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> Any:
        """The model's answer."""
        return self.model.predict_one(self._given(x))

    def _row(self, record: Mapping[Hashable, Any]) -> dict[int, float]:
        """The columns of a prediction that are not 0; some regressors say None before they have learned a record."""
        value = self.predict_one(record)
        return {} if value is None else {0: float(value)}

    def predict_learn_many(
        self, X: ArrayLike, y: Iterable[Any], names: Sequence[Hashable] | None = None, sample_weight: Any = None
    ) -> Predictions:
        """Predict each record, then learn it; see `MODLClassifier.predict_learn_many`."""
        return self._progress(X, names, y, sample_weight)

    def progress_many(self, X: ArrayLike, names: Sequence[Hashable] | None = None) -> Predictions:
        """Predict the records; see `MODLClassifier.progress_many`."""
        return self._progress(X, names)

    def learn_many(
        self, X: ArrayLike, y: Iterable[Any], names: Sequence[Hashable] | None = None, sample_weight: Any = None
    ) -> None:
        """Learn the records, one by one."""
        self._progress(X, names, y, sample_weight, predict=False)

    def _progress(
        self,
        X: ArrayLike,
        names: Sequence[Hashable] | None,
        y: Iterable[Any] | None = None,
        sample_weight: Any = None,
        predict: bool = True,
    ) -> Predictions:
        values = np.asarray(X, dtype=np.float64)
        columns: list[Hashable] = list(range(values.shape[1]) if names is None else names)
        labels = None if y is None else [label.item() if isinstance(label, np.generic) else label for label in y]
        given = weights_of(sample_weight, len(values), 1)
        weights = [1.0] * len(values) if given is None else given.tolist()
        self._check_weights(weights)
        rows = []
        for t, row in enumerate(values.tolist()):
            record = dict(zip(columns, row, strict=True))
            rows.append(self._row(record) if predict else {})
            if labels is not None:
                self.learn_one(record, labels[t], weights[t])
        predictions = np.zeros((len(rows), 1 if self.task == REGRESSION else len(self._labels)))
        for t, found in enumerate(rows):
            predictions[t, list(found)] = list(found.values())
        return Predictions(predictions, np.zeros((len(rows), 0)))


class RiverClassifier(_RiverChunks, base.Classifier):
    """Any River classifier with the chunk interface of our own models; missing features are left out of its records.

    Parameters
    ----------
    model
        The classifier.
    words
        Whether a category is given to it as {column: value}, as River's trees want it, and not as a number for each
        value. Of the features that stand for one column, as `know_categories` is told, the one that is 1 says the
        value; where none is, it is missing.

    Examples
    --------
    >>> from river.dummy import PriorClassifier
    >>> model = RiverClassifier(PriorClassifier())
    >>> model.learn_one({"a": 1.0}, "x")
    >>> model.predict_one({"a": None})
    'x'
    >>> from river.tree import HoeffdingTreeClassifier
    >>> model = RiverClassifier(HoeffdingTreeClassifier(), words=True)
    >>> model.know_categories({"colour=red": ("colour", "red"), "colour=blue": ("colour", "blue")})
    >>> model.learn_one({"colour=red": 0.0, "colour=blue": 1.0, "size": 2.0}, "x")
    >>> sorted(model.model._root.splitters)
    ['colour', 'size']
    """

    task = CLASSIFICATION

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river.dummy import PriorClassifier

        yield {"model": PriorClassifier()}

    @property
    def _multiclass(self) -> bool:
        return bool(self.model._multiclass)

    def predict_proba_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> dict[Any, float]:
        """The model's probabilities."""
        return dict(self.model.predict_proba_one(self._given(x)))

    def _row(self, record: Mapping[Hashable, Any]) -> dict[int, float]:
        # Some know True and False before any label has come.
        found = self.predict_proba_one(record).items()
        return {self._labels.setdefault(label, len(self._labels)): probability for label, probability in found}


class RiverRegressor(_RiverChunks, base.Regressor):
    """Any River regressor with the chunk interface of our own models; missing features are left out of its records.

    Parameters
    ----------
    model
        The regressor.
    words
        As of `RiverClassifier`.

    Examples
    --------
    >>> from river.linear_model import LinearRegression
    >>> RiverRegressor(LinearRegression()).progress_many([[1.0, 2.0]]).values.tolist()
    [[0.0]]
    """

    task = REGRESSION

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river.linear_model import LinearRegression

        yield {"model": LinearRegression()}


RiverModel = RiverClassifier | RiverRegressor


def behind_chunks(model: Any) -> RiverModel:
    """A River model with the chunk interface; one that has it already is returned as it is."""
    if isinstance(model, RiverModel):
        return model
    last = model
    while hasattr(last, "steps"):  # a pipeline is what its last step is
        last = list(last.steps.values())[-1]
    if isinstance(last, base.Regressor):
        return RiverRegressor(model)
    if isinstance(last, base.Classifier) or hasattr(last, "predict_proba_one"):
        return RiverClassifier(model)
    raise BraidedError(f"model is {model!r:.60}: give a classifier or regressor of braided or River")


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


def logistic(task: str, seed: int) -> Any:
    """Logistic regression; one against the rest for more than two classes."""
    from river import linear_model, multiclass, preprocessing

    return preprocessing.StandardScaler() | multiclass.OneVsRestClassifier(linear_model.LogisticRegression())


def linear(task: str, seed: int) -> Any:
    """Linear regression, with the step of the intercept that River's own examples have."""
    from river import linear_model, preprocessing

    return preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1)


def naive_bayes(task: str, seed: int) -> Any:
    """Gaussian naive Bayes."""
    from river.naive_bayes import GaussianNB

    return GaussianNB()


def tree(task: str, seed: int) -> Any:
    """The Hoeffding adaptive tree; its linear leaves for regression want scaled features."""
    from river import preprocessing, tree

    if task == REGRESSION:
        return preprocessing.StandardScaler() | tree.HoeffdingAdaptiveTreeRegressor(seed=seed)
    return tree.HoeffdingAdaptiveTreeClassifier(seed=seed)


def adaptive_forest(task: str, seed: int) -> Any:
    """The adaptive random forest; for regression on scaled features, as for the tree."""
    from river import forest, preprocessing

    if task == REGRESSION:
        return preprocessing.StandardScaler() | forest.ARFRegressor(n_models=_TREES, seed=seed)
    return forest.ARFClassifier(n_models=_TREES, seed=seed)


def random_patches(task: str, seed: int) -> Any:
    """Streaming random patches of Hoeffding trees; for regression on scaled features, as for the tree.

    The features that its trees choose from are those of the first record.
    """
    from river import ensemble, preprocessing

    if task == REGRESSION:
        return preprocessing.StandardScaler() | ensemble.SRPRegressor(n_models=_TREES, seed=seed)
    return ensemble.SRPClassifier(n_models=_TREES, seed=seed)


def mondrian_forest(task: str, seed: int) -> Any:
    """The aggregated Mondrian forest, which wants features between 0 and 1."""
    from river import forest, preprocessing

    kind = forest.AMFRegressor if task == REGRESSION else forest.AMFClassifier
    return ColumnImputer() | preprocessing.MinMaxScaler() | kind(n_estimators=_TREES, max_nodes=_MAX_NODES, seed=seed)


def neighbours(task: str, seed: int) -> Any:
    """The five nearest of the last records: numbers are scaled, a category that differs counts 1 in each of two places.

    The search is exact, and at this many records faster by far than River's approximate one.
    """
    from river import compose, neighbors, preprocessing

    kind = neighbors.KNNRegressor if task == REGRESSION else neighbors.KNNClassifier
    numbers = compose.SelectType(Number) | preprocessing.StandardScaler()
    words = compose.SelectType(str) | preprocessing.OneHotEncoder()
    return ColumnImputer() | (numbers + words) | kind(engine=neighbors.LazySearch(window_size=_WINDOW))


def majority(task: str, seed: int) -> Any:
    """Always the most frequent class so far."""
    from river.dummy import PriorClassifier

    return PriorClassifier()


def mean(task: str, seed: int) -> Any:
    """Always the mean of the targets so far."""
    from river import dummy, stats

    return dummy.StatisticRegressor(stats.Mean())
