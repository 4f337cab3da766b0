"""Keyed fleets: `Fleet`, a model for each key with shared strength."""

from __future__ import annotations

from braided.fleet.fleet import SHARES, Fleet
from braided.fleet.key_learners import KeyLearners

__all__ = ["SHARES", "Fleet", "KeyLearners"]
