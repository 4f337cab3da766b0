"""What a braid has learned: its arrays, how they are kept, and the check of those that come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.checkpoint import prefixed, unprefixed
from braided.combiners import Combiner
from braided.errors import BraidedError
from braided.inputs import InputStage
from braided.kernels.scale import (
    BLOCKS,
    CHANGES,
    COUNT,
    FAR_OUT,
    IN_BLOCK,
    MAX_STATISTICS,
    MIN_STATISTICS,
    SQUARES,
    STATISTICS,
    TARGET_STATISTICS,
    WHOLE,
)
from braided.learners import CompiledLearner, Learner
from braided.learners.protocol import checked_state
from braided.state import MOST_COUNT, ArrayRule, check_arrays, counts

Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]
#: After a drift steps are this many times as long as usual, and the excess shrinks by this factor each record.
BOOST, FADING = 4.0, 0.99
#: Below this the plasticity is the usual one again.
_HARDLY_RAISED = 1.01


def _sees_more(learner: Learner) -> bool:
    """Whether a learner wants more than a record's own values."""
    return isinstance(learner, CompiledLearner) and getattr(learner.config, "inputs", "plain") != "plain"


def _learns_changes(learner: Learner) -> bool:
    """Whether a learner learns how far a target lies from the one before it."""
    return isinstance(learner, CompiledLearner) and bool(getattr(learner.config, "change", False))


def _statistics(arrays: Mapping[str, NDArray[Any]], name: str, rows: tuple[int, ...], width: int) -> ArrayRule:
    """The rule of statistics; those of version 0.1 end where the blocks begin."""
    if name in arrays and arrays[name].shape[-1:] == (IN_BLOCK,):
        width = IN_BLOCK
    return ArrayRule((*rows, width), "float64", MIN_STATISTICS[:width], MAX_STATISTICS[:width], WHOLE[:width])


def hold_together(statistics: NDArray[Any]) -> bool:
    """Whether nothing is known of values where none were counted; after a target's may stand those of its changes."""
    for first in (0, CHANGES):
        columns = [first + column for column in (SQUARES, FAR_OUT, IN_BLOCK, BLOCKS)]
        columns = [column for column in columns if column < statistics.shape[-1]]
        if columns and (statistics[..., columns].any(axis=-1) & (statistics[..., first + COUNT] == 0)).any():
            return False
    return True


class BraidState:
    """Learners, their combiner, and the running statistics beside them; parameters as of `Braid`."""

    def __init__(
        self, learners: Sequence[Learner], combiner: Combiner, standardise: bool, regression: bool, delay: int = 0
    ) -> None:
        self.learners = list(learners)
        self.combiner = combiner
        self.standardise = standardise
        self.regression = regression
        self.stage = InputStage(carry=delay <= 1) if any(_sees_more(learner) for learner in self.learners) else None
        if self.stage is not None and not standardise:
            raise BraidedError("a learner's inputs are filled, and the preset has raw values: use another preset")
        self.n_features = 0
        self.n_outputs = 0
        self.steps = 0
        self.plasticity = 1.0
        self.statistics = np.zeros((0, STATISTICS))
        self.target = np.zeros(TARGET_STATISTICS)
        # How many targets have come, and those that had not when the next record to be learned was predicted; and, in
        # the layout of `target`, its past without them.
        self.late = np.zeros(max(delay, 1))
        self.target_then = np.zeros(TARGET_STATISTICS)
        self.health = np.zeros((len(self.learners), 3), dtype=np.int64)
        self._changes = self._changes_of_learners()
        self._compiled_learners: list[CompiledLearner] = []
        #: Of the record whose forward pass is kept, the slots and values; None where none is, or of other weights.
        self._scored: tuple[bytes, bytes] | None = None

    def state(self) -> Arrays:
        """Everything that was learned, as named arrays."""
        arrays: Arrays = {
            "statistics": self.statistics.copy(),
            "target": self.target[: None if self.follows else STATISTICS].copy(),
            "health": self.health.copy(),
            "steps": np.array([self.steps], dtype=np.int64),
        }
        if self.plasticity != 1.0:
            arrays["plasticity"] = np.array([self.plasticity])
        if self.lags:
            arrays |= {"late": self.late.copy(), "target then": self.target_then.copy()}
        for name, part in self._saved_parts():
            arrays |= prefixed(name, checked_state(part, part.state()))
        return arrays

    def rules(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, ArrayRule]:
        """What the arrays of a `state` of these sizes must be, but for those of its parts."""
        rules = {
            "statistics": _statistics(arrays, "statistics", (self.n_features,), STATISTICS),
            "target": _statistics(arrays, "target", (), self.target.size if self.follows else STATISTICS),
            "health": counts(len(self.learners), 3),
            "steps": counts(1),
        }
        if "plasticity" in arrays:
            rules["plasticity"] = ArrayRule((1,), low=1.0, high=BOOST)
        if self.lags:
            most = np.full(self.late.size, np.inf if self.regression else self.n_outputs - 1)
            least, whole = (-most, np.arange(most.size) == 0) if self.regression else (0.0 * most, most >= 0)
            most[0], least[0] = MOST_COUNT, 0.0
            rules["late"] = ArrayRule(self.late.shape, "float64", least, most, whole)
            rules["target then"] = _statistics({}, "target then", (), TARGET_STATISTICS)
        return rules

    def check_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse what is no `state` of these sizes, or of one of the parts; nothing changes."""
        check_arrays("state of the model", self.rules(arrays), arrays)
        for name in ("statistics", "target", "target then"):
            if name in arrays and not hold_together(arrays[name]):
                raise BraidedError(f"state of the model: {name} are no statistics; give a file written by save")
        for name, part in self._saved_parts():
            if isinstance(part, InputStage | Combiner | CompiledLearner):
                part.check_state(unprefixed(name, arrays))

    def _saved_parts(self) -> list[tuple[str, InputStage | Learner | Combiner]]:
        """Each part that has a state of its own, and what its arrays' names begin with."""
        parts: list[tuple[str, InputStage | Learner | Combiner]] = []
        if self.stage is not None:
            parts.append(("inputs", self.stage))
        parts.append(("combiner", self.combiner))
        return parts + [(f"learner {i}", learner) for i, learner in enumerate(self.learners)]

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state`, whole or not at all; the sizes must have been set by `grow`."""
        self.check_state(arrays)
        for name, part in self._saved_parts():
            part.load_state(unprefixed(name, arrays))
        # Statistics of version 0.1 end where the blocks begin.
        self.statistics[:], self.target[:] = 0.0, 0.0
        self.statistics[:, : arrays["statistics"].shape[1]] = arrays["statistics"]
        self.target[: arrays["target"].size] = arrays["target"]
        self.health[:] = arrays["health"]
        self.steps = int(arrays["steps"][0])
        for learner in self._compiled_learners:
            learner.steps = self.steps
        self._scored = None
        if self.lags:
            self.late[:], self.target_then[:] = arrays["late"], arrays["target then"]
        if "plasticity" in arrays:
            self.plasticity = float(arrays["plasticity"][0])
            self._tell_plasticity(fresh=False)

    @property
    def follows(self) -> bool:
        """Whether scores are distances from the last target, because a learner follows its changes."""
        return bool(self._changes[:, 0].any())

    @property
    def lags(self) -> bool:
        """Whether labels come so late that a record is learned by less than is known by then."""
        return self.late.size > 1

    def raise_plasticity(self) -> None:
        """Learn faster for some hundred records, because the stream has changed."""
        self.plasticity = BOOST
        self._tell_plasticity(fresh=True)

    def relax(self) -> None:
        """One record nearer to the usual plasticity."""
        if self.plasticity != 1.0:
            self.plasticity = 1.0 + (self.plasticity - 1.0) * FADING
            if self.plasticity < _HARDLY_RAISED:
                self.plasticity = 1.0
            self._tell_plasticity(fresh=False)

    def _tell_plasticity(self, fresh: bool) -> None:
        for part in [self.combiner, *self.learners]:
            tell = getattr(part, "raise_plasticity", None)
            if tell is not None:
                tell(self.plasticity, fresh)
        self._scored = None  # a forward pass that was kept may be of other weights

    def _changes_of_learners(self) -> Floats:
        """For each learner whether it learns changes, and room for what it says of one."""
        flags = [float(self.regression and _learns_changes(learner)) for learner in self.learners]
        return np.column_stack([flags, np.zeros(len(flags))])
