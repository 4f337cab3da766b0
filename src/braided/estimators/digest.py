"""Whether two models are the same, bit for bit."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

from numpy.typing import NDArray

from braided.checkpoint import parts_of


class Saved(Protocol):
    """What has a state: an estimator, or a fleet of them."""

    def snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything needed to go on exactly from here."""


def state_digest(model: Saved) -> str:
    """A SHA-256 over everything a model has learned: equal digests, equal models."""
    in_parts = getattr(model, "snapshot_in_parts", model.snapshot)
    metadata, arrays = in_parts()
    digest = hashlib.sha256(repr((metadata["features"], metadata["classes"])).encode())
    if "drift" in metadata:
        digest.update(repr(metadata["drift"]).encode())
    if "inside" in metadata:
        digest.update(repr(_learned(metadata["inside"])).encode())
    for name, array in arrays.items():
        digest.update(name.encode())
        for part in parts_of(array):
            digest.update(part.tobytes())
    return digest.hexdigest()


def _learned(inside: Any) -> Any:
    """What the models of a fleet have learned: not the settings that they were made with, nor rules of columns."""
    if isinstance(inside, dict):
        return {name: _learned(part) for name, part in inside.items() if name not in ("parameters", "encode")}
    return [_learned(part) for part in inside] if isinstance(inside, list) else inside
