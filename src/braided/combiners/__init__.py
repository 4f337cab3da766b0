"""Ways to join the learners' scores, one per file, each registered here under its name."""

from __future__ import annotations

from braided.combiners.base import Combiner
from braided.combiners.score_sum import ScoreSum
from braided.errors import BraidedError

#: Name -> combiner class. Adding a combiner is its file and one line here.
COMBINERS: dict[str, type[Combiner]] = {
    ScoreSum.name: ScoreSum,
}


def build(name: str, regression: bool, seed: int) -> Combiner:
    """The combiner of that name.

    >>> build("score-sum", regression=False, seed=0).name
    'score-sum'
    """
    if name not in COMBINERS:
        raise BraidedError(f"combiner {name!r} is not known: use one of {', '.join(COMBINERS)}")
    return COMBINERS[name](regression, seed)


__all__ = ["COMBINERS", "Combiner", "ScoreSum", "build"]
