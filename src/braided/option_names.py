"""What a setting is called where a user is: `drop=['id']` in Python, `--drop id` on the command line.

To the service it is a key and its value in JSON. A message that names a setting asks `option` for its name, so that
nobody is told of what he cannot give.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PYTHON, COMMAND_LINE, SERVICE = "Python", "command line", "service"

#: Settings whose option is not their name with two hyphens, by name and value.
_SPELLED: dict[tuple[str, Any], str] = {
    ("hashed", None): "--hash",
    ("day_first", True): "--day-first",
    ("day_first", False): "--month-first",
    ("header", False): "--no-header",
    ("length", None): "--limit N",
}
#: Where the user of this process is.
_user = [PYTHON]


@contextmanager
def options_for(user: str) -> Iterator[None]:
    """Within this, settings are called as they are on the command line or in requests to the service.

    It holds for all threads: those of a service answer for one another.
    """
    _user.append(user)
    try:
        yield
    finally:
        _user.remove(user)


def user() -> str:
    """Where the user of this process is."""
    return _user[-1]


def option(name: str, value: Any = None) -> str:
    """A setting's name, with a value to give if there is one.

    >>> option("max_features"), option("drop", ["id"])
    ('max_features', "drop=['id']")
    >>> with options_for(COMMAND_LINE):
    ...     option("max_features"), option("drop", ["id"])
    ('--max-features', '--drop id')
    >>> with options_for(SERVICE):
    ...     option("max_features"), option("drop", ["id"])
    ('max_features', '"drop": ["id"]')
    """
    if _user[-1] == COMMAND_LINE:
        return _on_the_command_line(name, value)
    if value is None:
        return name
    return f"{name}={value!r}" if _user[-1] == PYTHON else f'"{name}": {json.dumps(value, ensure_ascii=False)}'


def _on_the_command_line(name: str, value: Any) -> str:
    flag = isinstance(value, bool)
    spelled = _SPELLED.get((name, value if flag else None), f"--{name.replace('_', '-')}")
    if value is None or flag:
        return spelled
    values = value if isinstance(value, list) else [value]
    # A comma needs no quotes, but without them it is one of the sentence's.
    words = ("','" if each == "," else shlex.quote(str(each)) for each in values)
    return " ".join(f"{spelled} {word}" for word in words)
