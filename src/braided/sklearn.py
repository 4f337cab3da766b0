"""The estimators for scikit-learn: `fit`, `partial_fit`, pipelines, grid searches.

They hold one of braided's own models (`model_`) and bring it scikit-learn's conventions: a fixed number of features,
classes known beforehand and sorted, `random_state`. NaN is missing, as everywhere in braided; so is what a sparse
matrix does not store, unless `zeros="value"` says that it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from braided import estimators
from braided.errors import BraidedError
from braided.estimators import frames
from braided.estimators.arrays import ZEROS_MISSING, weights_of
from braided.estimators.decision import LIKELIEST, ClassWeight, Costs
from braided.estimators.drift import Detector
from braided.estimators.encoder import Encoder
from braided.estimators.params import CLASSIFICATION, REGRESSION, ModelParams
from braided.extras import how_to_install
from braided.learners import Learner, LearnerConfig
from braided.presets import Preset
from braided.values import is_missing, shown

try:
    from scipy import sparse
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_array, check_random_state, check_X_y
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(f"scikit-learn 1.6 or later is needed ({error}): {how_to_install('sklearn')}") from None

__all__ = ["MODLClassifier", "MODLRegressor"]

Floats = NDArray[np.float64]
_SEEDS = 2**31 - 1
#: Of raw records, whose categories become features.
_MAX_FEATURES = 10_000


class _MODL(BaseEstimator):
    """What the two share: parameters, checks of the input, passes over it."""

    #: What `model_` is.
    _kind: type[estimators.MODLClassifier | estimators.MODLRegressor]
    model_: Any

    def __init__(
        self,
        preset: str | Preset = "default",
        *,
        learners: Sequence[LearnerConfig | Learner] | None = None,
        combiner: str | None = None,
        passes: int = 1,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = None,
        max_features: int | None = None,
        drift_detector: Detector | None = None,
        delay: int = 0,
        expire_after: int | None = None,
        encode: bool | Encoder = False,
        zeros: str = ZEROS_MISSING,
    ) -> None:
        self._store(locals())

    def _store(self, arguments: dict[str, Any]) -> None:
        """Keep a constructor's arguments as they are, as scikit-learn wants it; `fit` checks them."""
        self.__dict__.update({name: value for name, value in arguments.items() if name != "self"})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """X, or X and y, as arrays: by scikit-learn's checks, but frames are read by our own, which know all nulls.

        Raw records, for `encode`, are an array of objects.
        """
        raw, frame = self.encode is not False, frames.opened(X)
        checks: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "accept_sparse": "csr"}
        if raw:
            checks = {"dtype": object, "ensure_all_finite": False}
            if sparse.issparse(X):
                raise BraidedError("X is a sparse matrix, and encode takes raw records: give a frame, or leave it out")
        if not isinstance(y, str):
            checks["y_numeric"] = self._kind.task == REGRESSION
        if frame is None:
            return validate_data(self, X, y, reset=reset, **checks)
        values = self._raw(frame) if raw else frame.table(first=1)[0]
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        if isinstance(y, str):
            return check_array(values, input_name="X", estimator=self, **checks)
        return check_X_y(values, y, estimator=self, **checks)

    @staticmethod
    def _raw(frame: frames.Frame) -> NDArray[Any]:
        """The cells of a frame as an array of objects."""
        columns, n = frame.raw_columns(first=1)
        values = np.empty((n, len(columns)), dtype=object)
        for place, cells in enumerate(columns.values()):
            values[:, place] = list(cells)
        return values

    @property
    def _names(self) -> list[Any] | None:
        """What raw columns are called; numbers have their places."""
        named = self.encode is not False and hasattr(self, "feature_names_in_")
        return self.feature_names_in_.tolist() if named else None

    def _made(self, random: np.random.RandomState, classes: NDArray[Any] | None) -> Any:
        """A fresh model inside, for these classes or for numbers."""
        given = self.get_params(deep=False)
        settings = {name: given[name] for name in ModelParams.names(self._kind.task) if name in given}
        settings["seed"] = int(random.randint(_SEEDS))
        if self.max_features is None:
            settings["max_features"] = self.n_features_in_ if self.encode is False else _MAX_FEATURES
        if classes is not None:
            settings["max_classes"] = classes.size
        return self._kind(**settings)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start again and learn these records.

        Parameters
        ----------
        X
            (n, d) numbers, NaN (and a data frame's null) for missing.
        y
            n labels, or finite numbers for a regressor.
        sample_weight
            n weights of at least 0, 1 each if not given; a record of weight 0 is left out.
        """
        return self._learn(X, y, sample_weight, again=True)

    def _learn(
        self, X: Any, y: Any, sample_weight: Any, again: bool = False, classes: NDArray[Any] | None = None
    ) -> Self:
        """Learn the records: once, in order, or `again` from the start, in the passes and the order of `fit`.

        `classes` are all that there will be, if they are known.
        """
        if isinstance(self.passes, bool) or not isinstance(self.passes, Integral) or self.passes < 1:
            raise BraidedError(f"passes is {shown(self.passes)}: use a whole number of at least 1")
        if not isinstance(self.shuffle, bool | np.bool_):
            raise BraidedError(f"shuffle is {shown(self.shuffle)}: use True or False")
        fresh = again or not hasattr(self, "model_")
        values, targets = self._checked(X, y, reset=fresh)
        if self._kind.task == CLASSIFICATION:
            check_classification_targets(targets)
            classes = np.unique(targets) if classes is None else classes
            if foreign := [label for label in np.unique(targets).tolist() if label not in classes.tolist()]:
                raise BraidedError(f"y holds {foreign[0]!r}: it must be one of the classes, {shown(classes.tolist())}")
        weights = self._weights(sample_weight, values)
        if fresh and weights is not None and not weights.any():
            raise BraidedError("sample_weight is zero for every record: give at least one a weight above 0")
        random = check_random_state(self.random_state)
        inner = self._made(random, classes) if fresh else self.model_
        for _ in range(self.passes if again else 1):
            order = random.permutation(values.shape[0]) if again and self.shuffle else slice(None)
            weighed = None if weights is None else weights[order]
            inner.learn_many(values[order], targets[order], self._names, sample_weight=weighed)
        self.model_ = inner
        if classes is not None:
            self.classes_ = classes
        return self

    def _weights(self, sample_weight: Any, values: Any) -> Floats | None:
        """One weight per record; a single number is for all, as scikit-learn has it."""
        if isinstance(sample_weight, Real):
            sample_weight = np.full(values.shape[0], float(sample_weight))
        elif hasattr(sample_weight, "__array__") and not hasattr(sample_weight, "__iter__"):
            sample_weight = np.asarray(sample_weight)
        return weights_of(sample_weight, values.shape[0], first=1)


class MODLClassifier(ClassifierMixin, _MODL):
    """Multilearner online deep learning for classification, as a scikit-learn estimator.

    `fit` starts again and goes over the records once, in random order; `partial_fit` goes on, in the order given.

    Parameters
    ----------
    preset, learners, combiner, drift_detector, delay, expire_after, encode, decision, class_weight, costs
        As of `braided.MODLClassifier`. With `encode`, X holds raw records, in a data frame or an array of objects.
        Unlike elsewhere in scikit-learn, `class_weight` weighs answers and not what is learned; `sample_weight` does
        that.
    passes
        How often `fit` goes over the records.
    shuffle
        Whether `fit` takes the records in random order, a new one for each pass. In data sorted by class, a model that
        learns in order forgets the first classes; leave data with a time order as they are.
    random_state
        An integer makes results repeatable; None takes NumPy's global generator.
    max_features
        How many features there may be; None: as many as there are columns, and 10,000 with `encode`.
    zeros
        What a sparse matrix does not store: `missing`, or the `value` 0. Encoders of scikit-learn mean 0.

    Attributes
    ----------
    model_
        The `braided.MODLClassifier` inside; its features are the columns' numbers, with `encode` made of their names.
    classes_
        The labels, sorted.
    n_features_in_, feature_names_in_
        How many columns `fit` saw, and their names if it was given a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from braided.sklearn import MODLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X[np.random.default_rng(0).random(X.shape) < 0.5] = np.nan
    >>> scores = cross_val_score(MODLClassifier(random_state=0), X, y)
    >>> print(f"{scores.mean():.0%}")
    96%
    """

    _kind = estimators.MODLClassifier

    def __init__(
        self,
        preset: str | Preset = "default",
        *,
        learners: Sequence[LearnerConfig | Learner] | None = None,
        combiner: str | None = None,
        passes: int = 1,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = None,
        max_features: int | None = None,
        drift_detector: Detector | None = None,
        delay: int = 0,
        expire_after: int | None = None,
        encode: bool | Encoder = False,
        decision: str = LIKELIEST,
        class_weight: ClassWeight = None,
        costs: Costs = None,
        zeros: str = ZEROS_MISSING,
    ) -> None:
        self._store(locals())

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: Any = None) -> Self:
        """Learn these records, in order, after those learned before; other arguments as of `fit`.

        Parameters
        ----------
        classes
            All the labels that there will be; needed in the first call.
        """
        return self._learn(X, y, sample_weight, classes=self._known(classes))

    def _known(self, classes: ArrayLike | None) -> NDArray[Any]:
        """The classes, sorted: of the first call of `partial_fit`, which later ones may repeat but not change."""
        before: NDArray[Any] | None = getattr(self, "classes_", None)
        if classes is None:
            if before is None:
                raise BraidedError("classes is None in the first call of partial_fit: give all labels there will be")
            return before
        given = np.asarray(classes)
        if any(is_missing(label) for label in given.ravel().tolist()):
            raise BraidedError(f"classes is {shown(given.tolist())}: none of them may be missing")
        known = np.unique(given)
        if before is not None and not np.array_equal(known, before):
            raise BraidedError(
                f"classes is {shown(known.tolist())} and was {shown(before.tolist())} before: give the same, or none"
            )
        return known

    def _checked(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """X, or X and labels, which keep their type whatever library they come from; a missing label is refused."""
        if getattr(y, "ndim", 1) == 1:
            y = frames.targets(y)
        if isinstance(y, list | tuple) or getattr(y, "dtype", None) == np.dtype(object):
            for row, label in enumerate(y):
                if is_missing(label):
                    raise BraidedError(f"y is {label!r} in row {row}: every record to learn needs a label")
        return super()._checked(X, y, reset=reset)

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities, (n, n_classes), columns in the order of `classes_`; 0 for a class never seen."""
        check_is_fitted(self, "model_")
        seen = self.model_.predict_proba_many(self._checked(X, reset=False), self._names)
        probabilities = np.zeros((seen.shape[0], self.classes_.size))
        probabilities[:, self.classes_.searchsorted(self.model_.classes)] = seen
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """The label that `decision` chooses for each record, (n,)."""
        check_is_fitted(self, "model_")
        if self.model_.core.decision.plain:
            likeliest: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
            return likeliest
        answers = self.model_.predict_many(self._checked(X, reset=False), self._names)
        return np.array(answers, dtype=self.classes_.dtype)

    def predict_set(self, X: Any, level: float = 0.9) -> list[set[Any]]:
        """For each record the labels among which the right one is with this probability.

        That holds for records to come in the order of a stream, as `partial_fit` learns them.
        """
        check_is_fitted(self, "model_")
        sets: list[set[Any]] = self.model_.predict_set_many(self._checked(X, reset=False), level, self._names)
        return sets


class MODLRegressor(RegressorMixin, _MODL):
    """Multilearner online deep learning for regression, as a scikit-learn estimator.

    Parameters and attributes are those of `MODLClassifier`, but for `decision`, `class_weight`, `costs` and `classes_`;
    `model_` is a `braided.MODLRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import cross_val_score
    >>> from braided.sklearn import MODLRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> scores = cross_val_score(MODLRegressor(random_state=0), X, y)
    >>> print(f"{scores.mean():.1f}")
    0.5
    """

    _kind = estimators.MODLRegressor

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn these records, in order, after those learned before; arguments as of `fit`."""
        return self._learn(X, y, sample_weight)

    def predict(self, X: Any) -> Floats:
        """The predicted values, (n,)."""
        check_is_fitted(self, "model_")
        values: Floats = self.model_.predict_many(self._checked(X, reset=False), self._names)
        return values

    def predict_interval(self, X: Any, level: float = 0.9) -> Floats:
        """For each record the bounds between which its value lies with this probability, (n, 2).

        That holds for records to come in the order of a stream, as `partial_fit` learns them.
        """
        check_is_fitted(self, "model_")
        intervals: Floats = self.model_.predict_interval_many(self._checked(X, reset=False), level, self._names)
        return intervals
