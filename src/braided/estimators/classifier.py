"""The classifier."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from river import base

from braided.errors import BraidedError
from braided.estimators.base import MODL
from braided.estimators.chunks import Floats, listed
from braided.estimators.decision import LIKELIEST, ClassWeight, Costs
from braided.estimators.drift import Detector
from braided.estimators.encoder import Encoder
from braided.estimators.frames import Frame
from braided.estimators.sparse import ZEROS_MISSING, n_records
from braided.estimators.tasks import CLASSIFICATION
from braided.learners import Learner, LearnerConfig
from braided.presets import Preset


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
        unless given. A learner that takes two classes alone lowers the second to 2.
    first_features
        Names that get the first slots, in this order. Aux-Drop takes them for its base features; others need none.
    drift_detector
        One of River's detectors, or None. It is fed each prediction's error, 0 or 1, and when it reports drift the
        model learns faster for some hundred records; see `docs/river.md`.
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
    decision
        How an answer is chosen from the probabilities, which stay the same: `likeliest`, or `balanced`, by each class's
        probability over how often it was learned. See `docs/answers.md`.
    class_weight
        Label to a weight of its probability when an answer is chosen, 1 for those not in it; or `"balanced"`, which is
        the same as `decision="balanced"`. It does not weigh what is learned, as scikit-learn's does: `w` and
        `sample_weight` do. `docs/answers.md` has the figures: they lift a rare class alike, and only this one leaves
        the probabilities as good as they are.
    costs
        True label to answer to what that costs; 1 for an error that is not in it. The answer is then the one with the
        least expected cost.
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

    def __init__(
        self,
        preset: str | Preset = "default",
        learners: Sequence[LearnerConfig | Learner] | None = None,
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
        super().__init__(
            preset,
            learners,
            combiner,
            seed,
            max_features,
            max_classes,
            first_features,
            drift_detector,
            delay,
            expire_after,
            encode,
            decision,
            class_weight,
            costs,
            zeros,
        )

    # River's mini-batch interface takes and gives pandas; ours does so too, and pandas is not needed for the rest. With
    # it come River's checks that a chunk and its records one by one are learned and predicted alike.

    @property
    def _multiclass(self) -> bool:
        return all(getattr(learner, "max_classes", 3) > 2 for learner in self.braid.learners)

    @property
    def class_limit(self) -> int:
        """How many classes this model takes: `max_classes`, or fewer where a learner takes fewer."""
        self.braid  # noqa: B018 (the learners may restrict it when they are made)
        return self._classes.limit

    def _error(self, prediction: Floats, target: float, unseen: bool) -> float:
        return float(unseen or int(prediction[: len(self._classes)].argmax()) != int(target))

    def _target(self, y: Any, record: int) -> Hashable:
        return self._classes.label(y, record)

    def _encode_targets(self, y: ArrayLike | Iterable[Any], n: int) -> tuple[list[Any], Floats, dict[int, Any]]:
        """New labels in order, every record's class place, and where each new label first appears."""
        first = self.records_learned + 1
        places = dict(self._classes.places)
        label_at: dict[int, Any] = {}
        if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "biufUS":
            distinct, first_at, inverse = np.unique(y, return_index=True, return_inverse=True)
            codes = np.empty(distinct.size)
            for i in np.argsort(first_at, kind="stable"):
                label = self._classes.label(distinct[i], first + int(first_at[i]))
                if label not in places:
                    label_at[int(first_at[i])] = label
                codes[i] = places.setdefault(label, len(places))
            targets = codes[inverse]
        else:
            labels = [self._classes.label(value, first + i) for i, value in enumerate(listed(y))]
            for i, label in enumerate(labels):
                if label not in places:
                    label_at[i] = label
                    places[label] = len(places)
            targets = np.array([places[label] for label in labels], dtype=np.float64)
        if targets.size != n:
            raise BraidedError(f"X has {n} records and y has {targets.size} labels: they must be as many")
        return list(label_at.values()), targets, label_at

    def predict_proba_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of each class seen so far; empty before the first record was learned."""
        row = self._predict_row(x)
        if row is None:
            return {}
        labels = self._classes.places
        if len(labels) == 1:
            return dict.fromkeys(labels, 1.0)
        return dict(zip(labels, row.tolist(), strict=True))

    @property
    def decides(self) -> bool:
        """Whether answers may be others than the likeliest labels."""
        return not self._decision.plain

    def predict_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> Any:
        """The label that `decision` chooses; None before the first record was learned."""
        probabilities = self.predict_proba_one(x)
        if not probabilities:
            return None
        return self.decide(list(probabilities), [list(probabilities.values())])[0]

    def decide(self, classes: Sequence[Hashable], rows: Sequence[Sequence[float]]) -> list[Any]:
        """The label that is answered for each row of probabilities of the classes known by now; None for an empty one.

        Parameters
        ----------
        classes
            `model.classes`, or the first of them.
        rows
            For each record the probability of each.
        """
        if not classes:
            return [None] * len(rows)
        if self._decision.plain:
            return [classes[max(range(len(row)), key=row.__getitem__)] for row in rows]
        places = self._decision.places(np.asarray(rows, dtype=np.float64).reshape(len(rows), -1), classes)
        return [classes[place] for place in places.tolist()]

    def predict_set_one(self, x: Mapping[Hashable, Any], level: float = 0.9) -> set[Any]:
        """The labels among which the right one is with this probability, and at least the one that is answered.

        Adaptive conformal inference: of the records of a stream, the share `level` has its label in the set, whatever
        the stream does; more where the likeliest label alone is right more often. All labels while the model has seen
        too few records to say, and none before the first.

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
        probabilities = self.predict_proba_one(x)
        return self.sets(list(probabilities), [list(probabilities.values())], level)[0]

    def predict_set_many(self, X: Any, level: float = 0.9, names: Sequence[Hashable] | None = None) -> list[set[Any]]:
        """The set of labels of each record; see `predict_set_one`."""
        X, names, _ = self._opened(X, names)
        return self.sets(self.classes, self._probabilities(X, names).tolist(), level)

    def sets(self, classes: list[Hashable], rows: list[list[float]], level: float) -> list[set[Any]]:
        """The set of labels for each row of probabilities; `classes` and `rows` as of `decide`."""
        bound = self._coverage.bound(level)
        if not classes:
            return [set() for _ in rows]
        answers = self.decide(classes, rows)
        return [
            {answer, *(label for label, p in zip(classes, row, strict=True) if 1.0 - p <= bound)}
            for answer, row in zip(answers, rows, strict=True)
        ]

    def _probabilities(self, X: ArrayLike, names: Sequence[Hashable] | None) -> Floats:
        """(n, n_classes), columns in the order of `classes`."""
        rows = self._predict_rows(X, names)
        if rows is None:
            return np.zeros((n_records(X), 0))
        if len(self._classes) == 1:
            return np.ones((rows.shape[0], 1))
        return rows

    def _framed(self, frame: Frame, predictions: Floats) -> Any:
        return frame.frame(predictions, self.classes[: predictions.shape[1]])

    def predict_proba_many(self, X: Any, names: Sequence[Hashable] | None = None) -> Any:
        """Class probabilities, (n, n_classes), columns in the order of `classes`.

        Of a data frame, a frame of the same library: its columns are the labels (pandas) or their texts.
        """
        X, names, frame = self._opened(X, names)
        probabilities = self._probabilities(X, names)
        return probabilities if frame is None else self._framed(frame, probabilities)

    def predict_many(self, X: Any, names: Sequence[Hashable] | None = None) -> Any:
        """The label that `decision` chooses for each record, as a list; None before anything was learned.

        Of a data frame, a series of the same library.
        """
        X, names, frame = self._opened(X, names)
        probabilities = self._probabilities(X, names)
        labels = self.classes
        if probabilities.shape[1] == 0:
            unknown = [None] * probabilities.shape[0]
            return unknown if frame is None else frame.series(unknown)
        decided = self._decided(probabilities)
        places = probabilities.argmax(axis=1) if decided is None else decided
        return [labels[place] for place in places] if frame is None else frame.series(labels, places)
