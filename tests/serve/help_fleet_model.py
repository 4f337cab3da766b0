"""Records of a fleet in service, and the fleet that was never served."""

from __future__ import annotations

from typing import Any

import numpy as np
from help_serve import SMALL
from httpx import Client

from braided import Fleet, MODLClassifier
from braided.fleet import KIND
from braided.store import decode, state_digest

SPEC: dict[str, Any] = {
    "learners": [{"type": "LogisticConfig"}, {"type": "MLPConfig", "hidden": [8], "optimiser": "rmsprop"}],
    "max_features": 20, "max_classes": 5, "key": "machine",
}  # fmt: skip
OCTETS = {"Content-Type": "application/octet-stream"}
KEYS = ("pump", "fan", 7, "mill", True, " 8 ")


def items(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Keys of all kinds, each with a concept of its own; features and classes that come late, values that miss."""
    random = np.random.default_rng(seed)
    found = []
    for i in range(n):
        place = int(random.integers(2 + min(i // 10, 4)))
        a, b, late = random.normal(size=3).tolist()
        x = {"machine": KEYS[place], "a": a, **({"b": b} if i % 3 else {}), **({"late": late} if i > 25 else {})}
        label = "odd" if i > 35 and late > 1.2 else "up" if a * (place - 2.5) > 0 else "down"
        found.append({"x": x, "y": label, **({"w": 2.0} if i % 9 == 4 else {})})
    return found


ITEMS = items(120)


def fleet(share: str = "braid", **more: Any) -> Fleet:
    model = MODLClassifier(learners=SMALL, max_features=20, max_classes=5)
    return Fleet(model, key="machine", share=share, **more)


def taught(records: list[dict[str, Any]], share: str = "braid", **more: Any) -> Fleet:
    """A fleet that was never served, taught record by record."""
    found = fleet(share, **more)
    for item in records:
        found.learn_one(item["x"], item["y"], item.get("w", 1.0))
    return found


def digest_of(content: bytes) -> str:
    found = decode(content, "export", KIND)
    return state_digest(Fleet.restore(found.metadata, found.arrays))


def exported(client: Client, name: str = "m") -> bytes:
    return client.get(f"/models/{name}/checkpoint").content


def made(client: Client, name: str = "m", **more: Any) -> dict[str, Any]:
    answer = client.put(f"/models/{name}", json={**SPEC, **more})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found
