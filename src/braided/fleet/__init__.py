"""Keyed fleets: `Fleet`, a model for each key with shared strength."""

from __future__ import annotations

from braided.fleet.cache import SHARED
from braided.fleet.fleet import KIND, OLDEST, SHARES, Fleet
from braided.fleet.key_learners import KeyLearners

__all__ = ["KIND", "OLDEST", "SHARED", "SHARES", "Fleet", "KeyLearners"]
