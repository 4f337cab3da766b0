"""The braid itself: learners, combiner and the compiled record loop."""

from braided.engine.braid import Answered, Braid, Scores
from braided.engine.plasticity import BOOST

__all__ = ["BOOST", "Answered", "Braid", "Scores"]
