"""The regressor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from river import base

from braided.estimators.arrays import ZEROS_MISSING
from braided.estimators.base import MODL, Learners, Names, Record
from braided.estimators.params import REGRESSION
from braided.kernels.doubt import DOUBTS
from braided.presets import Preset

if TYPE_CHECKING:
    from braided.estimators.drift import Detector
    from braided.estimators.encoder import Encoder


class MODLRegressor(MODL, base.MiniBatchRegressor):
    """Multilearner online deep learning for regression.

    The prediction is the sum of the learners' scores in units of the target's running mean and standard deviation; the
    fast learner is the exact Bayesian linear recursion, the others follow the gradient prediction - y.

    Parameters
    ----------
    preset, learners, combiner, seed, max_features, delay, expire_after, encode, zeros
        As of `MODLClassifier`.
    drift_detector
        One of River's detectors for numbers, or None. It is fed each prediction's absolute error in standard deviations
        of the target, and when it reports drift the model learns faster for some hundred records.

    Examples
    --------
    >>> from braided import MODLRegressor
    >>> from river import datasets, evaluate, metrics
    >>> error = evaluate.progressive_val_score(datasets.TrumpApproval(), MODLRegressor(), metrics.MAE())
    >>> print(f"{error.get():.1f}")
    0.2
    """

    task = REGRESSION

    def __init__(
        self,
        preset: str | Preset = "default",
        learners: Learners = None,
        combiner: str | None = None,
        seed: int = 0,
        max_features: int = 10_000,
        drift_detector: Detector | None = None,
        delay: int = 0,
        expire_after: int | None = None,
        encode: bool | Encoder = False,
        zeros: str = ZEROS_MISSING,
    ) -> None:
        self._set_up(locals())

    def predict_one(self, x: Record, **kwargs: Any) -> float:
        """The predicted value; 0 before the first record was learned."""
        with self.lock:
            answered = self.core.predict_row(x if self.encoder is None else self._encoded(x))
            return 0.0 if answered is None else float(answered.predictions[0, 0])

    def predict_interval_one(self, x: Record, level: float = 0.9) -> tuple[float, float]:
        """The bounds between which the value lies with this probability.

        Adaptive conformal inference: the share `level` of a stream's values lies in its interval, whatever the stream
        does. The bounds are infinite until enough records were seen.

        Examples
        --------
        >>> from braided import MODLRegressor
        >>> from river import datasets
        >>> model, held = MODLRegressor(), 0
        >>> for x, y in datasets.TrumpApproval():
        ...     low, high = model.predict_interval_one(x, 0.9)
        ...     held += low <= y <= high
        ...     model.learn_one(x, y)
        >>> print(f"{held / 1_001:.0%}, {high - low:.1f} wide")
        90%, 0.7 wide
        """
        with self.lock:
            answered = self.core.predict_row(self._encoded(x), doubt=True)
            value = 0.0 if answered is None else answered.predictions[0, 0]
            doubts = np.zeros((1, DOUBTS)) if answered is None else answered.doubts
            reach = self.core.coverage.reaches(level, doubts)[0]
        return float(value - reach), float(value + reach)

    def predict_interval_many(self, X: Any, level: float = 0.9, names: Names = None) -> Any:
        """The interval of each record, (n, 2); of a data frame, a frame of the same library with `low` and `high`."""
        with self.lock:
            predictions, frame = self._predict(X, names, sure=True)
            sure = predictions.confidence
            doubts = np.zeros((len(predictions.values), DOUBTS)) if sure is None else sure.doubts
            reaches = self.core.coverage.reaches(level, doubts)[:, None]
        intervals = np.hstack([predictions.values - reaches, predictions.values + reaches])
        return intervals if frame is None else frame.frame(intervals, ["low", "high"])

    def predict_many(self, X: Any, names: Names = None) -> Any:
        """The predicted values, (n,); of a data frame, a series of the same library."""
        predictions, frame = self._predict(X, names)
        return predictions.values[:, 0] if frame is None else frame.series(predictions.values[:, 0])
