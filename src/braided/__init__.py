"""Online deep learning for data streams whose features come and go: MODL and its relatives."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from braided.errors import BraidedError
from braided.estimators import MODLClassifier, MODLRegressor

if TYPE_CHECKING:
    from braided.estimators.encoder import Encoder
    from braided.evaluation import History, record
    from braided.fleet import Fleet

__version__ = "0.2.0"
__all__ = ["BraidedError", "Encoder", "Fleet", "History", "MODLClassifier", "MODLRegressor", "__version__", "record"]


def __getattr__(name: str) -> Any:
    """What only some programs need is imported when it is asked for, so that the others start sooner."""
    modules = {"Encoder": "estimators.encoder", "Fleet": "fleet", "History": "evaluation", "record": "evaluation"}
    if name in modules:
        return getattr(import_module(f"braided.{modules[name]}"), name)
    if name == "plot":
        return import_module("braided.plot")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
