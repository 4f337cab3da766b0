"""The estimators: `MODLClassifier` and `MODLRegressor`."""

from __future__ import annotations

from braided.estimators.classifier import MODLClassifier
from braided.estimators.regressor import MODLRegressor

__all__ = ["MODLClassifier", "MODLRegressor"]
