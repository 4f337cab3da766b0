"""The classifier."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from river import base

from braided.estimators.arrays import ZEROS_MISSING
from braided.estimators.base import MODL, Learners, Names, Record
from braided.estimators.decision import LIKELIEST, ClassWeight, Costs
from braided.estimators.params import CLASSIFICATION
from braided.presets import Preset

if TYPE_CHECKING:
    from braided.estimators.drift import Detector
    from braided.estimators.encoder import Encoder


class MODLClassifier(MODL, base.MiniBatchClassifier):
    """Multilearner online deep learning for classification.

    Fast closed-form Bayesian learners, a medium MLP and a slow learner over the set of available features give
    unnormalised scores, which the combiner joins: as the paper has it, p = softmax(sum of scores) and all follow its
    gradient; by default, weights of the scores are learned too. Each record is learned once.

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
    max_features, max_classes
        Limits beyond which a record is refused, so that a stream gone wrong cannot fill the memory: 10,000 and 1,000
        unless given. A learner that takes only two classes lowers the second to 2.
    first_features
        Names that get the first slots, in this order: the base features of Aux-Drop.
    drift_detector
        One of River's detectors, or None. It is fed each prediction's error, 0 or 1, and when it reports drift the
        model learns faster for some hundred records; see `docs/river.md`.
    delay
        How many records later labels come: that of record t before record t + delay is predicted. A record is then
        learned from what was known of earlier labels when it was predicted; 0 and 1 for labels that come at once.
    expire_after
        None keeps every feature. A number: when a new feature comes and there are `max_features` already, the one not
        seen for longest is forgotten, if none of the last so many records had it; see `docs/missing.md`.
    encode
        True: the model takes raw records, with text, dates and numbers as a file has them, and remembers how; or a
        `braided.Encoder` with other rules. Such a model is what `braided run --checkpoint` saves.
    decision
        How an answer is chosen from the probabilities, which stay the same: `likeliest`, or `balanced`, by each class's
        probability over how often it was learned. See `docs/answers.md`.
    class_weight
        Label to a weight of its probability when an answer is chosen, 1 for those not in it; `"balanced"` is the same
        as `decision="balanced"`. Unlike scikit-learn's it leaves what is learned, and the probabilities, as they are;
        to weigh what is learned, give `w` or `sample_weight`. `docs/answers.md` compares them.
    costs
        True label to answer to its cost, 1 for errors not in it. The answer is the one with the least expected cost.
    zeros
        What a sparse matrix of SciPy does not store: `missing`, or the `value` 0, which every record then has in each
        column that some record before it had a value in. See `docs/answers.md`.

    Examples
    --------
    >>> from braided import MODLClassifier
    >>> from river import datasets, evaluate, metrics
    >>> accuracy = evaluate.progressive_val_score(datasets.Phishing(), MODLClassifier(), metrics.Accuracy())
    >>> print(f"{accuracy.get():.0%}")
    91%

    Features may be missing, appear and vanish; nothing has to be declared.

    >>> model = MODLClassifier()
    >>> model.learn_one({"temperature": 20.5, "pressure": 1.2}, "idle")
    >>> model.learn_one({"temperature": 80.0, "vibration": 3.0}, "running")
    >>> model.learn_one({}, "idle")
    >>> sorted(model.predict_proba_one({"pressure": 1.1, "vibration": None}))
    ['idle', 'running']
    """

    task = CLASSIFICATION
    max_classes: int
    first_features: tuple[Hashable, ...] | None
    decision: str
    class_weight: ClassWeight
    costs: Costs

    def __init__(
        self,
        preset: str | Preset = "default",
        learners: Learners = None,
        combiner: str | None = None,
        seed: int = 0,
        max_features: int = 10_000,
        max_classes: int = 1_000,
        first_features: tuple[Hashable, ...] | None = None,
        drift_detector: Detector | None = None,
        delay: int = 0,
        expire_after: int | None = None,
        encode: bool | Encoder = False,
        decision: str = LIKELIEST,
        class_weight: ClassWeight = None,
        costs: Costs = None,
        zeros: str = ZEROS_MISSING,
    ) -> None:
        self._set_up(locals())

    # With River's mini-batch interface come its checks that chunks are learned and predicted like their records.

    @property
    def _multiclass(self) -> bool:
        return all(getattr(learner, "max_classes", 3) > 2 for learner in self.braid.learners)

    def predict_proba_one(self, x: Record, **kwargs: Any) -> dict[Any, float]:
        """The probability of each class seen so far; empty before the first record was learned."""
        with self.lock:
            answered = self.core.predict_row(x if self.encoder is None else self._encoded(x))
            if answered is None:
                return {}
            places = self.core.classes.places
            if len(places) == 1:
                return dict.fromkeys(places, 1.0)
            return dict(zip(places, answered.predictions.tolist()[0], strict=True))

    def predict_one(self, x: Record, **kwargs: Any) -> Any:
        """The label that `decision` chooses; None before the first record was learned."""
        with self.lock:
            answered = self.core.predict_row(x if self.encoder is None else self._encoded(x))
            return None if answered is None else self.core.labels[self.core.place_of(answered.predictions)]

    def decide(self, classes: Sequence[Hashable], rows: Sequence[Sequence[float]]) -> list[Any]:
        """The label that is answered for each row of probabilities of these classes; None for an empty row.

        `classes` are `model.classes`, or the first of them.
        """
        if not classes:
            return [None] * len(rows)
        probabilities = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
        with self.lock:
            places = self.core.decision.places(probabilities, classes)
        return [classes[place] for place in (probabilities.argmax(axis=1) if places is None else places).tolist()]

    def predict_set_one(self, x: Record, level: float = 0.9) -> set[Any]:
        """The labels among which the right one is with this probability, and at least the one that is answered.

        Adaptive conformal inference: the share `level` of a stream's records has its label in the set, whatever the
        stream does; more where the likeliest label alone is right more often. All labels until enough records were
        seen, and none before the first.

        Examples
        --------
        >>> from braided import MODLClassifier
        >>> from river import datasets
        >>> model, held = MODLClassifier(), 0
        >>> for x, y in datasets.ImageSegments().take(500):
        ...     held += y in model.predict_set_one(x, 0.9)
        ...     model.learn_one(x, y)
        >>> print(f"{held / 500:.0%}")
        91%
        """
        with self.lock:
            probabilities = self.predict_proba_one(x)
            return self.sets(list(probabilities), [list(probabilities.values())], level)[0]

    def predict_set_many(self, X: Any, level: float = 0.9, names: Names = None) -> list[set[Any]]:
        """The set of labels of each record; see `predict_set_one`."""
        with self.lock:
            return self.sets(self.classes, self._predict(X, names)[0].values.tolist(), level)

    def sets(self, classes: list[Hashable], rows: list[list[float]], level: float) -> list[set[Any]]:
        """The set of labels for each row of probabilities; `classes` and `rows` as of `decide`."""
        with self.lock:
            bound, answers = self.core.coverage.bound(level), self.decide(classes, rows)
        if not classes:
            return [set() for _ in rows]
        return [
            {answer, *(label for label, p in zip(classes, row, strict=True) if 1.0 - p <= bound)}
            for answer, row in zip(answers, rows, strict=True)
        ]

    def predict_proba_many(self, X: Any, names: Names = None) -> Any:
        """Class probabilities, (n, n_classes), columns in the order of `classes`.

        Of a data frame, a frame of the same library: its columns are the labels (pandas) or their texts.
        """
        with self.lock:
            predictions, frame = self._predict(X, names)
            return self._framed(predictions.values, frame)

    def predict_many(self, X: Any, names: Names = None) -> Any:
        """The label that `decision` chooses for each record, as a list; None before anything was learned.

        Of a data frame, a series of the same library.
        """
        with self.lock:
            predictions, frame = self._predict(X, names)
            labels = self.classes if self.records_learned else []
        if not labels:
            unknown = [None] * len(predictions.values)
            return unknown if frame is None else frame.series(unknown)
        places = predictions.values.argmax(axis=1) if predictions.decided is None else predictions.decided
        return [labels[place] for place in places] if frame is None else frame.series(labels, places)
