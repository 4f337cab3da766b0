"""How the engine scored one record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braided.engine import Scores


def scored(model: Any, x: Mapping[Any, Any]) -> Scores:
    """The scores of a record that is predicted."""
    model.core.predict_row(x, keep=False)
    found: Scores | None = model.braid.last_scored()
    assert found is not None
    return found
