"""Which snapshots are kept: the first one of each of the last hours, days and so on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from braided.errors import BraidedError

_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_RULE = re.compile(r"(\d{1,4})([mhdw])")


@dataclass(frozen=True)
class KeepRule:
    """The first snapshot of each of the last `count` spans of `seconds`, from which the journal leads on.

    Examples
    --------
    >>> [rule.count for rule in keep_rules("24h,7d")]
    [24, 7]
    """

    count: int
    seconds: int

    def kept(self, times: Sequence[float], now: float) -> set[int]:
        """The places of those that are kept among all, given when each was written, the newest first."""
        found: dict[int, int] = {}
        for place, time in enumerate(times):
            span = int(now // self.seconds) - int(time // self.seconds)
            if 0 <= span < self.count:
                found[span] = place  # an older one in the place of a newer one
        return set(found.values())


def keep_rules(text: str) -> list[KeepRule]:
    """Rules such as `24h,7d`, or `none`."""
    rules = []
    for part in text.split(",") if text != "none" else []:
        match = _RULE.fullmatch(part.strip())
        if match is None:
            raise BraidedError(
                f"keep is {text!r}: give how many minutes (m), hours (h), days (d) or weeks (w), as in 24h,7d, or none"
            )
        rules.append(KeepRule(int(match[1]), _SECONDS[match[2]]))
    return rules
