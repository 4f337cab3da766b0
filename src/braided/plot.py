"""Pictures of a history; `braided.report.plot` holds them."""

from __future__ import annotations

from braided.report.plot import (
    availability,
    calibration,
    confusion,
    coverage,
    error,
    failures,
    learners,
    shares,
    throughput,
    weights,
)

__all__ = [
    "availability", "calibration", "confusion", "coverage", "error", "failures", "learners", "shares", "throughput",
    "weights",
]  # fmt: skip
