"""What a model was made with, and what can be read off it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from river import base

from braided import checks, presets
from braided.engine import Braid
from braided.errors import BraidedError
from braided.estimators.build import BraidSettings, build
from braided.estimators.coverage import Coverage
from braided.estimators.decision import LIKELIEST, ClassWeight, Costs, Decision
from braided.estimators.drift import Detector, Watch
from braided.estimators.encoder import Encoder
from braided.estimators.features import ClassSpace, FeatureSpace
from braided.estimators.late_answers import LateAnswers
from braided.estimators.sparse import ZEROS, ZEROS_MISSING
from braided.estimators.tasks import REGRESSION
from braided.learners import Learner, LearnerConfig
from braided.presets import Preset
from braided.streams.encode.encoder import Encoder as RawEncoder
from braided.streams.encode.rules import Rules
from braided.values import shown

#: Where features expire, so many columns and categories may have come and gone.
_MOST_NAMES = 100_000


class ModelSettings(base.Estimator):
    """The settings of a model, and figures of it; parameters as of `MODLClassifier`."""

    #: `classification` or `regression`.
    task: ClassVar[str]

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
        self.preset = preset
        self.learners = learners
        self.combiner = combiner
        self.seed = seed
        self.max_features = max_features
        self.max_classes = max_classes
        self.first_features = first_features
        self.drift_detector = drift_detector
        self.delay = delay
        self.expire_after = expire_after
        self.encode = encode
        self._encoder = self._made_encoder()
        self.decision = decision
        self.class_weight = class_weight
        self.costs = costs
        self._decision = Decision(decision, class_weight, costs)
        self._coverage = Coverage(self._regression, delay)
        self._judging = True
        self.zeros = checks.choice("zeros", zeros, ZEROS)
        self._late_answers = LateAnswers()
        self._watch = None if drift_detector is None else Watch(drift_detector, self._regression)
        self._features = FeatureSpace(max_features, expire_after, self._checked_first_features())
        self._classes = ClassSpace(max_classes)
        self._braid: Braid | None = None

    @property
    def _regression(self) -> bool:
        return self.task == REGRESSION

    def _made_encoder(self) -> RawEncoder | None:
        """What makes numbers of raw records, if the model is to take such."""
        if isinstance(self.encode, Encoder):
            return self.encode._copy()
        if not isinstance(self.encode, bool):
            raise BraidedError(f"encode is {shown(self.encode)}: give True, False or a braided.Encoder")
        most = self.max_features if self.expire_after is None else max(self.max_features, _MOST_NAMES)
        return RawEncoder(Rules(max_features=most)) if self.encode else None

    def _checked_first_features(self) -> list[Hashable]:
        names = self.first_features
        if names is None:
            return []
        if not isinstance(names, list | tuple):
            raise BraidedError(f"first_features is {shown(names)}: give a tuple of feature names")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise BraidedError(f"first_features has {twice!r} twice: give each name once")
        return list(names)

    def _resolved(self) -> Preset:
        """The preset object."""
        return self.preset if isinstance(self.preset, Preset) else presets.get(self.preset)

    @property
    def braid(self) -> Braid:
        """The engine with its learners; sizes are 0 until a record is learned."""
        if self._braid is None:
            settings = BraidSettings(
                self.task, self._resolved(), self.learners, self.combiner, self.seed, self.delay, self.expire_after
            )
            self._braid = build(settings, self._classes)
        return self._braid

    @property
    def learner_names(self) -> list[str]:
        """A name for each learner; a repeated one gets a number."""
        names: list[str] = []
        for learner in self.braid.learners:
            name = plain = str(getattr(learner, "name", type(learner).__name__))
            number = 1
            while name in names:
                number += 1
                name = f"{plain} {number}"
            names.append(name)
        return names

    @property
    def n_features(self) -> int:
        """How many features have been seen, and have not expired."""
        return len(self._features)

    @property
    def feature_names(self) -> list[Hashable]:
        """The features seen so far, in the order of their slots."""
        return list(self._features.slots)

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, in the order of the columns of `predict_proba_many`; none for regression."""
        return list(self._classes.places)

    @property
    def records_learned(self) -> int:
        """How many records this model has learned."""
        return self._braid.steps if self._braid is not None else 0

    @property
    def health(self) -> dict[str, dict[str, int]]:
        """Updates that each learner skipped because they were not finite, and how often it was reset."""
        table = self.braid.health
        return {
            name: {"skipped": int(table[i, 0]), "resets": int(table[i, 2])} for i, name in enumerate(self.learner_names)
        }

    @property
    def drifts(self) -> int:
        """How many drifts were found, each of which raised the model's plasticity; 0 without a detector."""
        return self._watch.drifts if self._watch is not None else 0

    @property
    def coverage(self) -> dict[float, float]:
        """For levels from 0.5 to 0.99, the share of the records so far whose interval, or set, held the truth."""
        return self._coverage.shares()

    @property
    def coverage_counts(self) -> NDArray[np.int64]:
        """For each of these levels how many records were judged, and of how many it held the truth."""
        return self._coverage.covered.copy()

    def expect_delay(self, delay: int) -> None:
        """Be told before the first record is learned that labels come late, if nobody has said so yet."""
        if self.delay == 0 and self.records_learned == 0:
            self.delay, self._coverage.delay, self._braid = delay, delay, None
