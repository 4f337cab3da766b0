"""Which label a classifier answers with, given the probabilities: see `docs/answers.md` for what it buys.

With p_k the probability of class k, n_k the sum of the weights of its records so far (1 each, if nothing else is said),
c their mean over all classes, and w_k the weight of the class,

    v_k = w_k p_k                  decision "likeliest"
    v_k = w_k p_k / (n_k + c)      decision "balanced"

and c(i, k) the cost of answering k where i is true (1 for an error and 0 otherwise, unless given), the answer is the
class k with the least sum_i v_i c(i, k): without costs, the one with the largest v_k. Probabilities, and what is
learned, are the same under every decision, and so are answers if all records weigh ten times as much. A record's weight
is within 1e-6 and 100, as it is learned. From 10,000 records on, n_k are of about the last 10,000.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import checks
from braided.errors import BraidedError
from braided.estimators.names import plain_name
from braided.kernels import decide, record_weight
from braided.store import Array, check, pack_name, unpack_name
from braided.values import number_of, shown

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Classes = Collection[Hashable]
#: The parameters of a classifier that are about it.
DECISION_PARAMETERS = ("decision", "class_weight", "costs")
LIKELIEST, BALANCED = DECISIONS = ("likeliest", "balanced")
ClassWeight = Mapping[Any, float] | str | None
Costs = Mapping[Any, Mapping[Any, float]] | None
_NO_WEIGHTS, _NO_COSTS = np.zeros(0), np.zeros((0, 0))
#: What arrays of a state are called.
_COUNTS, _RECORDS = "label counts", "labels counted"


class Decision:
    """The decision of one classifier, and the counts of labels that a balanced one depends on.

    Examples
    --------
    >>> rare = Decision("balanced")
    >>> _ = rare.places(np.zeros((4, 2)), ["usual", "rare"], np.array([0.0, 0.0, 0.0, 1.0]))
    >>> rare.places(np.array([[0.6, 0.4], [0.9, 0.1]]), ["usual", "rare"])
    array([1, 0])
    """

    def __init__(self, decision: str = LIKELIEST, class_weight: ClassWeight = None, costs: Costs = None) -> None:
        checks.choice("decision", decision, DECISIONS)
        if isinstance(class_weight, str):
            checks.choice("class_weight", class_weight, [BALANCED])
            if decision == BALANCED:
                raise BraidedError("decision and class_weight are both 'balanced': give one of them")
        self.balanced = BALANCED in (decision, class_weight)
        weights = {} if class_weight is None or isinstance(class_weight, str) else class_weight
        self._weights = _checked("class_weight", weights, "a dict of labels to weights, or 'balanced'", 1, True)
        self._costs = _checked(
            "costs", {} if costs is None else costs, "a dict of true labels to dicts of answers to costs", 2
        )
        #: Whether the answer is the likeliest class.
        self.plain = not (self.balanced or self._weights or self._costs)
        #: The weights of each class's records, and how many records these are.
        self.counts, self.records = np.zeros(0), np.zeros(1)
        #: The weight of each class, and the cost of each answer where each is true, by place.
        self._by_place = _NO_WEIGHTS, _NO_COSTS

    def _grow(self, classes: Classes) -> None:
        """Make room for the classes that are new."""
        n, costs = len(classes), _NO_COSTS
        self.counts = np.concatenate([self.counts, np.zeros(max(n - self.counts.size, 0))])
        if self._by_place[0].size == n:
            return
        if self._costs:
            costs = 1.0 - np.eye(n)
            for i, label in enumerate(classes):
                row = _given_for(label, self._costs, {})
                costs[i] = [_given_for(answer, row, costs[i, k]) for k, answer in enumerate(classes)]
        self._by_place = np.array([_given_for(label, self._weights, 1.0) for label in classes]), costs

    def places(
        self, probabilities: Floats, classes: Classes, targets: Floats | None = None, weights: Floats | None = None
    ) -> Places | None:
        """The place of the decided class of each record, -1 where no class is known; None for the likeliest classes.

        Without `targets` all are decided by the labels that have come; with them each by the labels before it, and
        they are counted, by the records' own weights, None for 1 each.
        """
        if self.plain:
            return None
        places = np.full(len(probabilities), -1, dtype=np.int64)
        if not classes:
            return places
        self._grow(classes)
        rows = np.ascontiguousarray(probabilities)
        state = (*self._by_place, self.counts, self.records, self.balanced, places)
        if targets is None or not self.balanced:
            decide.decide(rows, *state)
        else:
            decide.decide_and_count(rows, targets, _NO_WEIGHTS if weights is None else weights, *state)
        return places

    def state(self) -> dict[str, NDArray[Any]]:
        """How often each label was learned, as named arrays; nothing where the decision does not depend on it."""
        return {_COUNTS: self.counts.copy(), _RECORDS: self.records.copy()} if self.balanced else {}

    def load_state(self, arrays: Mapping[str, NDArray[Any]], n_classes: int) -> None:
        """Take over a `state`."""
        if self.balanced:
            schema = {
                _COUNTS: Array((n_classes,), low=0.0, high=decide.MEMORY * record_weight.MAX_WEIGHT),
                _RECORDS: Array((1,), low=0.0, high=decide.MEMORY),
            }
            check("state of the model", schema, arrays)
            self.counts, self.records = arrays[_COUNTS].copy(), arrays[_RECORDS].copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # joblib may open a pickle as a read-only memory map.
        self.__dict__.update({name: np.array(v) if isinstance(v, np.ndarray) else v for name, v in state.items()})


def _given_for(label: Hashable, given: Mapping[Any, Any], usual: Any) -> Any:
    """What is given for a label, or for its text: JSON has no other keys."""
    text = str(label).lower() if isinstance(label, bool) else str(label)
    return given.get(label, given.get(text, usual))


def _checked(what: str, given: Any, wanted: str, levels: int, positive: bool = False) -> Any:
    """A finite number, or by labels on so many levels."""
    if levels:
        if not isinstance(given, Mapping):
            raise BraidedError(f"{what} is {shown(given)}: give {wanted}")
        pairs = [(label, f"{what}[{shown(label)}]", value) for label, value in given.items()]
        return {plain_name(label): _checked(at, value, wanted, levels - 1, positive) for label, at, value in pairs}
    number = number_of(given)
    if number is None or not 0.0 <= number < math.inf or (positive and number == 0.0):
        raise BraidedError(
            f"{what} is {shown(given)}: give a finite number {'above 0' if positive else 'of at least 0'}"
        )
    return number


def packed(given: ClassWeight | Costs | float) -> Any:
    """Weights or costs as a checkpoint holds them: labels may be of any type that it knows."""
    if isinstance(given, Mapping):
        return [[pack_name(plain_name(label)), packed(value)] for label, value in given.items()]
    return given if given is None or isinstance(given, str) else float(given)


def unpacked(stored: Any) -> Any:
    """The inverse of `packed`; `Decision` checks it."""
    return {unpack_name(label): unpacked(value) for label, value in stored} if isinstance(stored, list) else stored
