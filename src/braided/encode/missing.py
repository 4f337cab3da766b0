"""Words for what is missing."""

from __future__ import annotations

#: What stands for a missing value in text, in small letters.
MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "?", "#n/a", "<na>"})
