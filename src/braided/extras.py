"""Modules of optional extras: imported when they are needed, or an error that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from braided.errors import BraidedError


def how_to_install(extra: str) -> str:
    """What adds an extra to a braided that is installed, from a checkout or by name: pip takes the one that is there.

    >>> how_to_install("files")
    "pip install 'braided[files]'"
    """
    return f"pip install 'braided[{extra}]'"


def require(module: str, extra: str) -> Any:
    """A module that comes with an extra, or one of ours that needs it.

    >>> require("no_such_module", "files")
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: no_such_module is not installed: pip install 'braided[files]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        if missing == "braided":
            raise
        raise BraidedError(f"{missing} is not installed: {how_to_install(extra)}") from None
