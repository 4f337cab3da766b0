"""The regressor."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from river import base

from braided.engine import Aside
from braided.errors import BraidedError
from braided.estimators.base import MODL
from braided.estimators.chunks import Floats, listed
from braided.estimators.drift import Detector
from braided.estimators.encoder import Encoder
from braided.estimators.frames import Frame
from braided.estimators.sparse import ZEROS_MISSING, n_records
from braided.estimators.tasks import REGRESSION
from braided.kernels.doubt import DOUBTS
from braided.kernels.scale import target_deviation
from braided.learners import Learner, LearnerConfig
from braided.presets import Preset
from braided.values import as_number, shown


class MODLRegressor(MODL, base.MiniBatchRegressor):
    """Multilearner online deep learning for regression.

    The prediction is the sum of the learners' scores in units of the target's running mean and standard deviation; the
    fast learner is the exact Bayesian linear recursion, the others follow the gradient prediction - y.

    Parameters
    ----------
    preset
        `default`, `lean`, `classic`, `paper` or `released`, or a `braided.presets.Preset`.
    learners
        Learner configurations (or objects with the `Learner` protocol) in place of the preset's.
    combiner
        How scores are joined; None for the preset's.
    seed
        Fixes every random choice. The same records and seed give the same bits on the same kind of processor.
    max_features
        Limit beyond which a record is refused, so that a stream gone wrong cannot fill the memory: 10,000 unless given.
    drift_detector
        One of River's detectors for numbers, or None. It is fed each prediction's absolute error in standard deviations
        of the target, and when it reports drift the model learns faster for some hundred records.
    delay
        How many records later labels come: that of record t before record t + delay is predicted. A record is then
        learned from what was known of earlier labels when it was predicted; 0 and 1 for labels that come at once.
    expire_after
        None: a feature that is known stays known. A number: where there are `max_features` of them and a new one comes,
        the one that was not seen for longest is forgotten and gives up its place, if none of the last so many records
        had it; see `docs/missing.md`.
    encode
        True: the model takes raw records, text, dates and numbers as a file has them, and remembers how; or a
        `braided.Encoder` with other rules. Such a model is what `braided run --checkpoint` saves.
    zeros
        What a sparse matrix of SciPy does not store: `missing`, or the `value` 0, which every record then has in each
        column that some record before it had a value in. See `docs/answers.md`.

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
        learners: Sequence[LearnerConfig | Learner] | None = None,
        combiner: str | None = None,
        seed: int = 0,
        max_features: int = 10_000,
        drift_detector: Detector | None = None,
        delay: int = 0,
        expire_after: int | None = None,
        encode: bool | Encoder = False,
        zeros: str = ZEROS_MISSING,
    ) -> None:
        super().__init__(
            preset,
            learners,
            combiner,
            seed,
            max_features,
            drift_detector=drift_detector,
            delay=delay,
            expire_after=expire_after,
            encode=encode,
            zeros=zeros,
        )

    def _error(self, prediction: Floats, target: float, unseen: bool) -> float:
        deviation = target_deviation(self.braid.target)
        return abs(float(prediction[0]) - target) / deviation if deviation > 0 else 0.0

    def _target(self, y: Any, record: int) -> float:
        try:
            number = as_number("y", y, record)
        except BraidedError:
            number = math.nan
        if math.isnan(number):
            raise BraidedError(f"the target of record {record} is {shown(y)}: every record needs a finite number")
        return number

    def _encode_targets(self, y: ArrayLike | Iterable[Any], n: int) -> tuple[list[Any], Floats, dict[int, Any]]:
        first = self.records_learned + 1
        targets = np.array([self._target(value, first + i) for i, value in enumerate(listed(y))])
        if targets.size != n:
            raise BraidedError(f"X has {n} records and y has {targets.size} targets: they must be as many")
        return [], targets, {}

    def predict_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> float:
        """The predicted value; 0 before the first record was learned."""
        row = self._predict_row(x)
        return 0.0 if row is None else float(row[0])

    def predict_interval_one(self, x: Mapping[Hashable, Any], level: float = 0.9) -> tuple[float, float]:
        """The bounds between which the value lies with this probability.

        Adaptive conformal inference: of the records of a stream, the share `level` lies in its interval, whatever the
        stream does. Infinite bounds while the model has seen too few records to say.

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
        90%, 0.6 wide
        """
        value, reach = self.predict_reach_one(x, level)
        return value - reach, value + reach

    def predict_reach_one(self, x: Mapping[Hashable, Any], level: float = 0.9) -> tuple[float, float]:
        """The predicted value, and how far its interval reaches to either side."""
        aside = Aside(1)
        row = self._predict_row(x, aside)
        reach = float(self._coverage.reaches(level, aside.doubts)[0])
        return (0.0, reach) if row is None else (float(row[0]), reach)

    def predict_interval_many(self, X: Any, level: float = 0.9, names: Sequence[Hashable] | None = None) -> Any:
        """The interval of each record, (n, 2); of a data frame, a frame of the same library with `low` and `high`."""
        X, names, frame = self._opened(X, names)
        values, reaches = self.predict_reach_many(X, level, names)
        intervals = np.column_stack([values - reaches, values + reaches])
        return intervals if frame is None else frame.frame(intervals, ["low", "high"])

    def predict_reach_many(
        self, X: Any, level: float = 0.9, names: Sequence[Hashable] | None = None
    ) -> tuple[Floats, Floats]:
        """The predicted values of an array, (n,), and how far each interval reaches to either side."""
        doubts: list[Floats] = []
        rows = self._predict_rows(X, names, doubts)
        n = n_records(X)
        reaches = self._coverage.reaches(level, np.concatenate(doubts) if doubts else np.zeros((n, DOUBTS)))
        return (np.zeros(n) if rows is None else rows[:, 0]), reaches

    def _framed(self, frame: Frame, predictions: Floats) -> Any:
        return frame.series(predictions[:, 0])

    def predict_many(self, X: Any, names: Sequence[Hashable] | None = None) -> Any:
        """The predicted values, (n,); of a data frame, a series of the same library."""
        X, names, frame = self._opened(X, names)
        values = self._values(X, names)
        return values if frame is None else frame.series(values)

    def _values(self, X: Any, names: Sequence[Hashable] | None) -> Floats:
        rows = self._predict_rows(X, names)
        return np.zeros(n_records(X)) if rows is None else rows[:, 0]
