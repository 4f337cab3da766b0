"""River's own classifiers in a run: the floor, and what a River user would pick."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from river import base

from braided.estimators.base import Progress


class RiverModel(base.Classifier):
    """Any River classifier with the chunk interface of our own models; missing features are left out of its records.

    Parameters
    ----------
    model
        The classifier.

    Examples
    --------
    >>> model = majority()
    >>> model.learn_one({"a": 1.0}, "x")
    >>> model.predict_one({"a": None})
    'x'
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._labels: dict[Hashable, int] = {}
        self._names: set[Hashable] = set()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river.dummy import PriorClassifier

        yield {"model": PriorClassifier()}

    @property
    def _multiclass(self) -> bool:
        return bool(self.model._multiclass)

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far."""
        return list(self._labels)

    @property
    def n_features(self) -> int:
        """How many features have been seen."""
        return len(self._names)

    @property
    def learner_names(self) -> list[str]:
        """There are no learners inside."""
        return []

    @property
    def health(self) -> dict[str, dict[str, int]]:
        """There is nothing to skip or reset."""
        return {}

    @staticmethod
    def _present(x: Mapping[Hashable, Any]) -> dict[Any, Any]:
        """The record without its missing values."""
        return {name: value for name, value in x.items() if value is not None and value == value}

    def learn_one(self, x: Mapping[Hashable, Any], y: Any) -> None:
        """Learn one record."""
        record = self._present(x)
        self._names |= record.keys()
        self._labels.setdefault(y, len(self._labels))
        self.model.learn_one(record, y)

    def predict_proba_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> dict[Any, float]:
        """The model's probabilities."""
        return dict(self.model.predict_proba_one(self._present(x)))

    def predict_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> Any:
        """The model's answer."""
        return self.model.predict_one(self._present(x))

    def predict_learn_many(self, X: ArrayLike, y: Iterable[Any], names: Sequence[Hashable] | None = None) -> Progress:
        """Predict each record, then learn it; see `MODLClassifier.predict_learn_many`."""
        values = np.asarray(X, dtype=np.float64)
        labels = [label.item() if isinstance(label, np.generic) else label for label in y]
        columns: list[Hashable] = list(range(values.shape[1]) if names is None else names)
        width = len({*self._labels, *labels})
        progress = Progress(np.zeros((len(values), width)), np.zeros((len(values), 0)))
        for t, (row, label) in enumerate(zip(values.tolist(), labels, strict=True)):
            record = dict(zip(columns, row, strict=True))
            for known, probability in self.predict_proba_one(record).items():
                if known in self._labels:
                    progress.predictions[t, self._labels[known]] = probability
            self.learn_one(record, label)
        return progress


def majority() -> RiverModel:
    """Always the most frequent class so far."""
    from river.dummy import PriorClassifier

    return RiverModel(PriorClassifier())


def river_logistic() -> RiverModel:
    """Standard-scaled logistic regression; one against the rest for more than two classes."""
    from river.linear_model import LogisticRegression
    from river.multiclass import OneVsRestClassifier
    from river.preprocessing import StandardScaler

    return RiverModel(StandardScaler() | OneVsRestClassifier(LogisticRegression()))


def river_arf(seed: int, trees: int = 10) -> RiverModel:
    """Adaptive random forest."""
    from river.forest import ARFClassifier

    return RiverModel(ARFClassifier(n_models=trees, seed=seed))
