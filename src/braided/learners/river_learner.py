"""Any River classifier or regressor as a learner of the sum."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from river import base

from braided.errors import BraidedError
from braided.learners.protocol import Arrays
from braided.values import shown

#: A probability of zero has no logarithm; no class is less likely than this.
_MIN_PROBABILITY = 1e-6


def last_step(model: Any) -> Any:
    """A River model, or what its pipeline ends in: a pipeline is what its last step is."""
    while hasattr(model, "steps"):
        model = list(model.steps.values())[-1]
    return model


def takes_weight(model: Any) -> bool:
    """Whether a River model learns weighted records."""
    return "w" in inspect.signature(last_step(model).learn_one).parameters


class RiverLearner:
    """A River model that is one learner among others: it learns from the label, and its answer enters the sum.

    With p_k the model's probability of class k (0 for a class it does not know yet), the scores are

        scores="probability"    f_k = p_k
        scores="log"            f_k = log max(p_k, 1e-6)

    and for a regressor its prediction, in units of the target's running mean and standard deviation, in which it
    learns, too. Probabilities differ by one at most, so in a plain score sum such a learner has a soft voice;
    logarithms speak as loudly as the model is sure. The combiner's gradient is not used. A record's weight is given to
    a model whose `learn_one` takes `w`; others learn it like any.

    The model sees records as {number of the feature: value} with the available features alone, scaled as the preset
    scales them, and the classes' places 0, 1, ... as labels. A checkpoint cannot hold a River model, since it holds no
    pickle: `save` says so. Copies and pickles of the whole model work.

    Parameters
    ----------
    model
        A River classifier or regressor, or a pipeline that ends in one. It is copied; what it knows already, it keeps.
    scores
        `probability` or `log`; of no effect for a regressor.
    name
        In reports.

    Examples
    --------
    >>> import numpy as np
    >>> from river.naive_bayes import GaussianNB
    >>> learner = RiverLearner(GaussianNB())
    >>> learner.grow(1, 2)
    >>> there, unused = np.array([True]), np.zeros(2, dtype=np.float32)
    >>> for value, label in [(-1.0, 0), (1.0, 1), (-2.0, 0), (2.0, 1)]:
    ...     _ = learner.learn(np.array([value], dtype=np.float32), there, label, unused)
    >>> learner.scores(np.array([1.5], dtype=np.float32), there).round(3).tolist()
    [0.0, 1.0]
    """

    def __init__(self, model: Any, scores: Literal["probability", "log"] = "probability", name: str = "river") -> None:
        if scores not in ("probability", "log"):
            raise BraidedError(f"RiverLearner.scores is {scores!r}: use 'probability' or 'log'")
        last = last_step(model)
        if isinstance(last, base.Classifier):
            self.task = "classification"
        elif isinstance(last, base.Regressor):
            self.task = "regression"
        else:
            raise BraidedError(f"RiverLearner.model is {type(model).__name__}: give a River classifier or regressor")
        self.model = copy.deepcopy(model)
        self.kind = scores
        self.name = name
        self.n_features = 0
        self.n_outputs = 0
        self.takes_weight = takes_weight(self.model)
        if isinstance(last, base.Classifier) and not last._multiclass:
            #: The estimator refuses a third class before it gets here.
            self.max_classes = 2

    @staticmethod
    def _record(x: NDArray[np.float32], mask: NDArray[np.bool_]) -> dict[int, float]:
        return {int(slot): float(x[slot]) for slot in np.flatnonzero(mask)}

    def scores(self, x: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The scores of one record, (n_outputs,)."""
        record = self._record(x, mask)
        if self.task == "regression":
            return np.array([self._number("predict_one", self.model.predict_one(record))], dtype=np.float32)
        known = self.model.predict_proba_one(record)
        if not isinstance(known, Mapping):
            raise self._misfit("predict_proba_one", known, "a dict of classes to probabilities")
        known_classes = (known.get(place, 0.0) for place in range(self.n_outputs))
        probabilities = [self._number("predict_proba_one", p) for p in known_classes]
        if self.kind == "log":
            return np.array([math.log(max(p, _MIN_PROBABILITY)) for p in probabilities], dtype=np.float32)
        return np.array(probabilities, dtype=np.float32)

    def _number(self, method: str, found: Any) -> float:
        """What the model says, 0 where it says nothing."""
        try:
            return float(found or 0.0)
        except (TypeError, ValueError):
            raise self._misfit(method, found, "a number") from None

    def _misfit(self, method: str, found: Any, wanted: str) -> BraidedError:
        model = type(self.model).__name__
        return BraidedError(
            f"learner {self.name!r}: {method} of the River model {model} gave {type(found).__name__} {shown(found)}, "
            f"and it must give {wanted}"
        )

    def learn(
        self,
        x: NDArray[np.float32],
        mask: NDArray[np.bool_],
        y: float,
        gradient: NDArray[np.float32],
        weight: float = 1.0,
    ) -> bool:
        """Let the model learn the record."""
        more = {"w": weight} if self.takes_weight and weight != 1.0 else {}
        self.model.learn_one(self._record(x, mask), float(y) if self.task == "regression" else int(y), **more)
        return True

    def grow(self, n_features: int, n_outputs: int) -> None:
        """River's models grow by themselves."""
        self.n_features, self.n_outputs = n_features, n_outputs

    def reset(self) -> None:
        """Start over with the model's settings."""
        self.model = self.model.clone()

    def state(self) -> Arrays:
        """Refused: a River model cannot be written as named arrays."""
        raise BraidedError(
            f"learner {self.name!r} holds a River model ({type(self.model).__name__}), which cannot be written without "
            "pickle: keep the whole model with pickle.dump instead of save"
        )

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """See `state`."""
        self.state()
