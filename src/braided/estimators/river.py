"""River's own models with the chunk interface of ours."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from river import base

from braided.errors import BraidedError
from braided.estimators.arrays import records_of
from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.learners.river_learner import last_step, takes_weight
from braided.records import Predictions
from braided.values import as_weight

Names = Sequence[Hashable] | None


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

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import dummy, stats

        usual = dummy.PriorClassifier() if cls.task == CLASSIFICATION else dummy.StatisticRegressor(stats.Mean())
        yield {"model": usual}

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far."""
        return list(self._labels)

    @property
    def n_features(self) -> int:
        """How many features have been seen."""
        return len(self._names)

    def know_categories(self, categories: Mapping[Hashable, tuple[Hashable, str]]) -> None:
        """Note which features stand for a value of a column; see `Records.categories`."""
        if self.words:
            self._categories.update(categories)

    def _given(self, x: Mapping[Hashable, Any]) -> dict[Any, Any]:
        """The features that are there, with words for categories; in x's order, as random draws may depend on it."""
        record = {}
        for name, value in x.items():
            column, word = self._categories.get(name, (name, None))
            if word is None and value is not None and value == value:
                record[column] = value
            elif word is not None and value == 1.0:
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
        self, X: Any, y: Any, names: Names = None, sample_weight: Any = None, predict: bool = True
    ) -> Predictions:
        """Predict each record, then learn it; see `MODLClassifier.predict_learn_many`."""
        records, _ = records_of(X, names, y, sample_weight, None, 1, learn=y is not None)
        weights = [1.0] * len(records) if records.weights is None else records.weights.tolist()
        self._check_weights(weights)
        rows = []
        for t, values in enumerate(records.values.tolist()):
            record = dict(zip(records.names, values, strict=True))
            rows.append(self._row(record) if predict else {})
            if records.targets is not None:
                self.learn_one(record, records.targets[t], weights[t])
        predictions = np.zeros((len(rows), 1 if self.task == REGRESSION else len(self._labels)))
        for t, found in enumerate(rows):
            predictions[t, list(found)] = list(found.values())
        return Predictions(predictions, np.zeros((len(rows), 0)))

    def progress_many(self, X: Any, names: Names = None) -> Predictions:
        """Predict the records; see `MODLClassifier.progress_many`."""
        return self.predict_learn_many(X, None, names)

    def learn_many(self, X: Any, y: Any, names: Names = None, sample_weight: Any = None) -> None:
        """Learn the records, one by one."""
        self.predict_learn_many(X, y, names, sample_weight, predict=False)


class RiverClassifier(_RiverChunks, base.Classifier):
    """Any River classifier with the chunk interface of our own models; missing features are left out of its records.

    Parameters
    ----------
    model
        The classifier.
    words
        Whether it is given a category as {column: value}, as River's trees want it, rather than as a number for each
        value: the feature that is 1 of those that `know_categories` has for the column; where none is, it is missing.

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
    """Any River regressor with the chunk interface of our own models; parameters as of `RiverClassifier`.

    Examples
    --------
    >>> from river.linear_model import LinearRegression
    >>> RiverRegressor(LinearRegression()).progress_many([[1.0, 2.0]]).values.tolist()
    [[0.0]]
    """

    task = REGRESSION


RiverModel = RiverClassifier | RiverRegressor


def behind_chunks(model: Any) -> RiverModel:
    """A River model with the chunk interface; one that has it already is returned as it is."""
    if isinstance(model, RiverModel):
        return model
    last = last_step(model)
    if isinstance(last, base.Regressor):
        return RiverRegressor(model)
    if isinstance(last, base.Classifier) or hasattr(last, "predict_proba_one"):
        return RiverClassifier(model)
    raise BraidedError(f"model is {model!r:.60}: give a classifier or regressor of braided or River")
