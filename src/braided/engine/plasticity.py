"""Longer steps for some hundred records after a drift was found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: After a drift steps are this many times as long as usual, and the excess shrinks by this factor with each record.
BOOST, FADING = 4.0, 0.99
#: Below this factor the steps have their usual length again.
_NEARLY_USUAL = 1.01


class Plasticity:
    """How much longer than usual the steps of learners and combiner are.

    Parameters
    ----------
    parts
        The learners and the combiner; those with a method `raise_plasticity` are told of each change.

    Attributes
    ----------
    factor
        1 usually, `BOOST` after a drift.
    """

    def __init__(self, parts: Iterable[Any]) -> None:
        self.factor = 1.0
        self._tell = [part.raise_plasticity for part in parts if hasattr(part, "raise_plasticity")]

    def boost(self) -> None:
        """Learn faster from the next record on, because the stream has changed."""
        self.set(BOOST, fresh=True)

    def relax(self) -> bool:
        """One record nearer to the usual length; returns whether anything changed."""
        if self.factor == 1.0:
            return False
        factor = 1.0 + (self.factor - 1.0) * FADING
        self.set(1.0 if factor < _NEARLY_USUAL else factor)
        return True

    def set(self, factor: float, fresh: bool = False) -> None:
        """Use this factor; `fresh` where a drift was found just now."""
        self.factor = factor
        for tell in self._tell:
            tell(factor, fresh)
