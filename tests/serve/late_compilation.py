"""A service of models of every kind; prints what was compiled, or loaded, after each had been created.

In a process of its own: within pytest, another test may have needed the same kernels before.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra 'serve' is not installed: run make test EXTRAS=all")

from help_serve import LINES, ndjson, serving
from numba.core.dispatcher import Dispatcher

from braided.combiners import COMBINERS
from braided.kernels.calls import Entry
from braided.learners import LEARNERS

late: list[str] = []


def note_compilations() -> None:
    """From now on note each kernel that is not ready when it is called."""
    compile_kernel = Dispatcher._compile_for_args
    entry_address = Entry.address.fget
    assert entry_address is not None

    def noted_kernel(self: Any, *arguments: Any, **named: Any) -> Any:
        late.append(self.py_func.__name__)
        return compile_kernel(self, *arguments, **named)

    def noted_entry(self: Entry) -> int:
        if self._compiled is None:
            late.append(self.function.__name__)
        return int(entry_address(self))

    Dispatcher._compile_for_args = noted_kernel
    Entry.address = property(noted_entry)  # type: ignore[method-assign, assignment]


def specs() -> dict[str, dict[str, Any]]:
    """A model with each learner alone, and the default's learners under each combiner, for either task."""
    found = {}
    for task in ("classification", "regression"):
        for kind in LEARNERS:
            found[f"{task} {kind.__name__}"] = {"task": task, "learners": [{"type": kind.__name__}]}
        for combiner in COMBINERS:
            found[f"{task} {combiner}"] = {"task": task, "combiner": combiner}
    return found


def items(task: str, classes: int) -> list[dict[str, Any]]:
    """Records in which features and classes keep coming."""
    records = []
    for i in range(40):
        x = {f"f{j}": float(i * j % 7) for j in range(1 + i // 2)}
        records.append({"x": x, "y": i % classes if task == "classification" else i})
    return records


def exercise(client: Any, name: str, spec: dict[str, Any]) -> None:
    """Everything that a client can do with a model."""
    learners = json.dumps(spec.get("learners", ""))
    records = items(spec["task"], 2 if "OLVF" in learners else 6)
    for item in records[:12]:
        assert client.post(f"/models/{name}/predict", json={"x": item["x"]}).status_code == 200
        assert client.post(f"/models/{name}/learn", json=item).status_code == 200
    asked = [{"x": item["x"]} for item in records]
    assert client.post(f"/models/{name}/predict", json={"records": asked}).status_code == 200
    assert client.post(f"/models/{name}/learn", content=ndjson(records[12:]), headers=LINES).status_code == 200
    assert client.post(f"/models/{name}/predict", content=ndjson(asked), headers=LINES).status_code == 200


def main() -> None:
    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder) / "state", models=100, request_seconds=600.0) as client,
    ):
        note_compilations()
        for number, (title, spec) in enumerate(specs().items()):
            name = f"m{number}"
            made = client.put(f"/models/{name}", json=spec)
            if made.status_code == 422:  # not for this task
                continue
            assert made.status_code == 201, made.text
            late.clear()
            exercise(client, name, spec)
            found[title] = sorted(set(late))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
