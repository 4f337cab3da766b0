"""The braid itself: learners, combiner and the compiled record loop."""

from braided.engine.braid import Braid
from braided.engine.records import Aside, ScoredRecord
from braided.engine.saved_state import BOOST, BraidState, hold_together

__all__ = ["BOOST", "Aside", "Braid", "BraidState", "ScoredRecord", "hold_together"]
