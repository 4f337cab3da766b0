"""The estimators, `MODLClassifier` and `MODLRegressor`."""

from __future__ import annotations

from braided.estimators.classifier import MODLClassifier
from braided.estimators.regressor import MODLRegressor

#: Kind of a checkpoint -> estimator.
ESTIMATORS: dict[str, type[MODLClassifier] | type[MODLRegressor]] = {
    kind.__name__: kind for kind in (MODLClassifier, MODLRegressor)
}
__all__ = ["ESTIMATORS", "MODLClassifier", "MODLRegressor"]
