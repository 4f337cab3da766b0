"""Whether two models are the same, bit for bit."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

from numpy.typing import NDArray


class Saved(Protocol):
    """What has a state: an estimator, or a fleet of them."""

    def snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything needed to go on exactly from here."""


def state_digest(model: Saved) -> str:
    """A SHA-256 over everything a model has learned: equal digests, equal models."""
    metadata, arrays = model.snapshot()
    digest = hashlib.sha256(repr((metadata["features"], metadata["classes"])).encode())
    for part in ("drift", "inside"):
        if part in metadata:
            digest.update(repr(metadata[part]).encode())
    for name, array in arrays.items():
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
