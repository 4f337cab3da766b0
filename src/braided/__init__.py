"""Online deep learning for data streams whose features come and go: MODL and its relatives."""

from braided.errors import BraidedError
from braided.model import MODLClassifier, MODLRegressor

__version__ = "0.1.0"
__all__ = ["BraidedError", "MODLClassifier", "MODLRegressor", "__version__"]
