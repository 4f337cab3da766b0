"""Messages name parameters of Python in backticks; the command line shows the options that it has for them."""

from __future__ import annotations

import ast
import re
import shlex
from typing import Any

_PARAMETER = re.compile(r"`([a-z_]+)(?:=(.+?))?`")
#: Options that are not a parameter's name after two hyphens, by name and value.
_SPELLED: dict[tuple[str, Any], str] = {
    ("hashed", None): "--hash",
    ("day_first", True): "--day-first",
    ("day_first", False): "--month-first",
    ("header", False): "--no-header",
    ("length", None): "--limit N",
}


def as_options(message: str) -> str:
    """A message with options in place of parameters; what else stands in backticks stays as it is.

    >>> as_options("raise `max_features`, give `drop=['an id']`, or run `braided inspect`")
    "raise --max-features, give --drop 'an id', or run `braided inspect`"
    """
    return _PARAMETER.sub(_option, message)


def _option(found: re.Match[str]) -> str:
    name, text = found.groups()
    try:
        value = None if text is None else ast.literal_eval(text)
    except (ValueError, SyntaxError):  # it is not a value that we have put there
        return found[0]
    flag = isinstance(value, bool)
    spelled = _SPELLED.get((name, value if flag else None), f"--{name.replace('_', '-')}")
    if value is None or flag:
        return spelled
    values = value if isinstance(value, list) else [value]
    # A comma needs no quotes, but without them it would be one of the sentence's.
    words = ("','" if each == "," else shlex.quote(str(each)) for each in values)
    return " ".join(f"{spelled} {word}" for word in words)
