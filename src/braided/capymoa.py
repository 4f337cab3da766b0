"""MODL as a learner of CapyMOA. Importing this module starts the Java virtual machine, as importing `capymoa` does."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators import MODLClassifier as _Classifier
from braided.estimators import MODLRegressor as _Regressor
from braided.extras import how_to_install
from braided.learners import Learner, LearnerConfig
from braided.presets import Preset

try:
    from capymoa.base import Classifier, Regressor
except ModuleNotFoundError as error:
    raise BraidedError(f"{error.name} is not installed: {how_to_install('capymoa')}") from None
except RuntimeError as error:  # CapyMOA's own words where it finds no Java
    raise BraidedError(f"CapyMOA cannot start: {error}") from None


class Columns:
    """How an instance's numbers become named features.

    A numeric attribute is one feature of its name. A nominal attribute is one feature for each of its values, named
    "day=2": 1 for the value it has, 0 for the others. All of them are missing where the attribute is.

    Parameters
    ----------
    schema
        Of the stream.
    """

    def __init__(self, schema: Any) -> None:
        header = schema.get_moa_header()
        attributes = [header.attribute(i) for i in range(header.numAttributes()) if i != header.classIndex()]
        self._nominal = [bool(attribute.isNominal()) for attribute in attributes]
        self._names = [
            tuple(f"{attribute.name()}={attribute.value(i)}" for i in range(attribute.numValues()))
            if nominal
            else (str(attribute.name()),)
            for attribute, nominal in zip(attributes, self._nominal, strict=True)
        ]

    def __len__(self) -> int:
        return sum(len(names) for names in self._names)

    def record(self, x: NDArray[np.float64]) -> dict[Hashable, float]:
        """The features of one instance that are not missing."""
        if len(x) != len(self._names):
            raise BraidedError(
                f"the instance has {len(x)} attributes and the schema {len(self._names)}: use instances of that schema"
            )
        features: dict[Hashable, float] = {}
        for value, names, nominal in zip(x.tolist(), self._names, self._nominal, strict=True):
            if value == value and nominal:
                features |= {name: float(place == int(value)) for place, name in enumerate(names)}
            elif value == value:
                features[names[0]] = value
        return features


class _MODL:
    """What the two share."""

    def _set_up(self, kind: type[_Classifier | _Regressor], schema: Any, seed: int, **parameters: Any) -> None:
        self._columns = Columns(schema)
        #: The model itself: to save it, and to look into it.
        self.model: Any = kind(seed=seed, max_features=max(len(self._columns), 1), **parameters)


class MODL(_MODL, Classifier):
    """Multilearner online deep learning for CapyMOA's streams: `braided.MODLClassifier` behind its interface.

    Missing values (NaN) are missing; nominal attributes are one-hot encoded (`Columns`).

    Parameters
    ----------
    schema
        Of the stream; its target must be nominal.
    random_seed
        Fixes every random choice.
    preset, learners, combiner
        As of `braided.MODLClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from capymoa.evaluation import prequential_evaluation
    >>> from capymoa.stream import NumpyStream
    >>> rng = np.random.default_rng(0)
    >>> values = rng.normal(size=(500, 3))
    >>> stream = NumpyStream(values, (values[:, 0] * values[:, 1] > 0).astype(int), target_type="categorical")
    >>> results = prequential_evaluation(stream, MODL(stream.get_schema()))
    >>> bool(results.cumulative.accuracy() > 80)
    True
    """

    def __init__(
        self,
        schema: Any,
        random_seed: int = 1,
        preset: str | Preset = "default",
        learners: Sequence[LearnerConfig | Learner] | None = None,
        combiner: str | None = None,
    ) -> None:
        super().__init__(schema=schema, random_seed=random_seed)
        if not schema.is_classification():
            raise BraidedError("the target of the schema is numeric: use braided.capymoa.MODLRegressor")
        self._n_classes = int(schema.get_num_classes())
        parameters = {"preset": preset, "learners": learners, "combiner": combiner}
        self._set_up(_Classifier, schema, random_seed, max_classes=max(self._n_classes, 2), **parameters)

    def train(self, instance: Any) -> None:
        """Learn one labelled instance."""
        label = int(instance.y_index)
        if not 0 <= label < self._n_classes:
            raise BraidedError(
                f"the label of instance {self.model.records_learned + 1} is {label}: to be learned it must be a class "
                f"of the schema, from 0 to {self._n_classes - 1}"
            )
        self.model.learn_one(self._columns.record(instance.x), label)

    def predict_proba(self, instance: Any) -> NDArray[np.float64] | None:
        """The probability of each class, (n_classes,), in the schema's order; None before anything was learned."""
        known = self.model.predict_proba_one(self._columns.record(instance.x))
        if not known:
            return None
        probabilities = np.zeros(self._n_classes)
        for label, probability in known.items():
            probabilities[label] = probability
        return probabilities


class MODLRegressor(_MODL, Regressor):
    """The same for a numeric target, with the same parameters: `braided.MODLRegressor` behind CapyMOA's interface."""

    def __init__(
        self,
        schema: Any,
        random_seed: int = 1,
        preset: str | Preset = "default",
        learners: Sequence[LearnerConfig | Learner] | None = None,
        combiner: str | None = None,
    ) -> None:
        super().__init__(schema=schema, random_seed=random_seed)
        if not schema.is_regression():
            raise BraidedError("the target of the schema is nominal: use braided.capymoa.MODL")
        self._set_up(_Regressor, schema, random_seed, preset=preset, learners=learners, combiner=combiner)

    def train(self, instance: Any) -> None:
        """Learn one instance."""
        self.model.learn_one(self._columns.record(instance.x), float(instance.y_value))

    def predict(self, instance: Any) -> float | None:
        """The predicted value; None before anything was learned."""
        return self.model.predict_one(self._columns.record(instance.x)) if self.model.records_learned else None
