"""Keyed fleets: `Fleet`, a model for each key with shared strength."""

from __future__ import annotations

from braided.fleet.facts import OLDEST, SHARES
from braided.fleet.fleet import Fleet
from braided.fleet.key_learners import KeyLearners
from braided.fleet.saved import KIND
from braided.fleet.shared import SHARED
from braided.fleet.spread import spread, spreads
from braided.fleet.warm_up import warm_up_fleet

__all__ = ["KIND", "OLDEST", "SHARED", "SHARES", "Fleet", "KeyLearners", "spread", "spreads", "warm_up_fleet"]
