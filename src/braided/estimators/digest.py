"""Whether two models are the same, bit for bit."""

from __future__ import annotations

import hashlib

from braided.estimators.base import MODL


def state_digest(model: MODL) -> str:
    """A SHA-256 over everything a model has learned: equal digests, equal models."""
    metadata, arrays = model.snapshot()
    digest = hashlib.sha256(repr((metadata["features"], metadata["classes"])).encode())
    if "drift" in metadata:
        digest.update(repr(metadata["drift"]).encode())
    for name, array in arrays.items():
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
