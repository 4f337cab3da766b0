"""What is counted while a stream is predicted and learned: errors, metrics, and what a report shows over time."""

from __future__ import annotations

from braided.evaluation.evaluation import Evaluation
from braided.evaluation.history import History
from braided.evaluation.recording import record
from braided.evaluation.tally import Tally

__all__ = ["Evaluation", "History", "Tally", "record"]
