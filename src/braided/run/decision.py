"""`--decision`, `--class-weight` and `--costs`: JSON on the command line or in a file, as the classifier takes it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

from braided.encode.plan import listed
from braided.errors import BraidedError
from braided.estimators.decision import BALANCED, Decision
from braided.values import shown

#: A file of costs that is longer is not one.
_MAX_BYTES = 1_000_000


def as_json(option: str, given: str | None) -> str | None:
    """What was given, as JSON text: the text itself, or what the file of that name holds.

    >>> as_json("--costs", '{"spam": {"ham": 5}}')
    '{"spam": {"ham": 5}}'
    """
    if given is None or given == BALANCED:
        return given
    text = given
    if not given.lstrip().startswith("{"):
        path = Path(given)
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise BraidedError(f"{option} {given} has more than {_MAX_BYTES:,} bytes: give a smaller file")
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise BraidedError(f"{option} {given} is no JSON object, and no file: {reason}") from None
    return json.dumps(_parsed(option, text))


def _parsed(option: str, text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BraidedError(f"{option} is {shown(text)}: give a JSON object, or a file that holds one") from None
    if not isinstance(found, dict):
        raise BraidedError(f"{option} is {shown(found)}: give a JSON object, or a file that holds one")
    return found


def never_seen(class_weight: str | None, costs: str | None, classes: Iterable[Hashable]) -> list[str]:
    """A line for each option that names labels which are none of the classes: a slip of the pen would pass unseen.

    >>> never_seen('{"spam": 5, "1": 2}', '{"spma": {"ham": 5}}', ["spam", "ham", 1])
    ["--costs names a label that no record has: 'spma'"]
    """
    known = {str(label).lower() if isinstance(label, bool) else str(label) for label in classes}
    found = []
    for option, text in (("--class-weight", class_weight), ("--costs", costs)):
        given = {} if text in (None, BALANCED) else _parsed(option, str(text))
        inner = [label for row in given.values() if isinstance(row, dict) for label in row]
        strange = [shown(label) for label in dict.fromkeys([*given, *inner]) if label not in known]
        if strange:
            what = "a label" if len(strange) == 1 else f"{len(strange)} labels"
            found.append(f"{option} names {what} that no record has: {listed(strange)}")
    return found


def settings(decision: str, class_weight: str | None, costs: str | None) -> dict[str, Any]:
    """The parameters of `MODLClassifier` that are not the usual ones; refused if they are none."""
    found: dict[str, Any] = {
        "decision": decision,
        "class_weight": class_weight if class_weight in (None, BALANCED) else _parsed("--class-weight", class_weight),
        "costs": None if costs is None else _parsed("--costs", costs),
    }
    return {} if Decision(**found).plain else found
