"""Keyed fleets over Spark's Structured Streaming: a key's model is in Spark's own state store."""

from __future__ import annotations

from braided.spark.saved_state import read_fleet
from braided.spark.session import prepare
from braided.spark.stream import fleet_stream

__all__ = ["fleet_stream", "prepare", "read_fleet"]
