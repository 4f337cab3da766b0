"""The braid itself: learners, combiner and the compiled record loop."""

from braided.engine.braid import BOOST, Answered, Braid, Scores

__all__ = ["BOOST", "Answered", "Braid", "Scores"]
