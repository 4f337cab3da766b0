"""`--settings FILE`: options of `braided serve` in TOML, by the same names."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from braided.errors import BraidedError

_MAX_BYTES = 2**20
_WORDS = {int: "a whole number", float: "a number", str: "text"}


def read_options(path: Path, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The options in a file, each `int`, `float` or `str` as `kinds` says; dashes and underscores are the same."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise BraidedError(f"--settings {path} is longer than {_MAX_BYTES} bytes: give a file of settings")
        found = tomllib.loads(content.decode())
    except OSError as error:
        raise BraidedError(f"--settings {path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # no UTF-8, or no TOML
        raise BraidedError(f"--settings {path} is not TOML: {error}") from None
    options: dict[str, Any] = {}
    for key, value in found.items():
        name = key.replace("-", "_")
        if name not in kinds:
            known = ", ".join(sorted(kind.replace("_", "-") for kind in kinds))
            raise BraidedError(f"--settings {path} has {key!r}, which is no setting: use one of {known}")
        kind = kinds[name]
        fits = isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)
        if not fits:
            raise BraidedError(f"--settings {path} has {key} = {value!r}: give {_WORDS[kind]}")
        options[name] = value
    return options
