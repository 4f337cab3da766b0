"""What a model may be for."""

from __future__ import annotations

CLASSIFICATION, REGRESSION = TASKS = ("classification", "regression")
