"""Checkpoints that a stranger has changed and signed again are refused, or harmless: never a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed: run make test")

from braided import BraidedError, MODLClassifier
from braided.learners import LogisticConfig
from braided.store import decode, encode
from crafted_changes import signed

SCRIPT = Path(__file__).with_name("crafted_checkpoints.py")


def tried(first: int, count: int) -> dict[str, int]:
    """How many of these cases were refused, and how many harmless; a crash is told by the number of its case."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), "1", str(first), str(count)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    numbers = [line for line in ran.stdout.splitlines() if line.isdigit()]
    assert ran.returncode == 0, f"case {numbers[-1:]} ended with {ran.returncode}: {ran.stderr[-3_000:]}"
    found: dict[str, int] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_changed_checkpoints_are_refused_or_harmless() -> None:
    found = tried(0, 1_000)
    assert found["refused"] + found["harmless"] == 1_000
    # A guard that refuses everything, or nothing, would pass above.
    assert min(found.values()) > 200


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 20_000, 5_000))
def test_a_great_many_changed_checkpoints_are_refused_or_harmless(first: int) -> None:
    assert sum(tried(first, 5_000).values()) == 5_000


ENTRY = {"name": "a", "dtype": "<f8", "shape": [2]}


@pytest.mark.parametrize(
    "header",
    [
        b"{",
        b"[" * 100_000,
        b"[]",
        b'{"kind": "MODLClassifier", "arrays": []}',
        b'{"kind": "MODLClassifier", "metadata": {"a": NaN}, "arrays": []}',
        [ENTRY, ENTRY],
        [{**ENTRY, "dtype": "O"}],
        [{**ENTRY, "name": 1}],
        [{**ENTRY, "shape": [-1]}],
        [{**ENTRY, "shape": [2**62]}],
        [{**ENTRY, "shape": [0, 2**41]}],
        [{**ENTRY, "shape": [3]}],
        [ENTRY, {**ENTRY, "name": "b"}],
    ],
)
def test_a_malformed_header_is_refused_by_the_name_of_the_file(header: Any) -> None:
    if isinstance(header, list):
        header = json.dumps({"kind": "MODLClassifier", "metadata": {}, "arrays": header}).encode()
    with pytest.raises(BraidedError, match=r"the header of checkpoint it cannot be used: .*corrupt or was modified"):
        decode(signed(header, np.zeros(2).tobytes()), "it", "MODLClassifier")


@pytest.mark.parametrize(
    "learner",
    [
        {"type": "MLPConfig", "hidden": [10**6, 10**6]},
        {"type": "MLPConfig", "hidden": [20_000, 20_000]},
        {"type": "MLPConfig", "hidden": "zz"},
        {"type": "MLPConfig", "hidden": [10**39]},
        {"type": "MLPConfig", "hidden": [4], "zero_output": 1},
        {"type": "FourierConfig", "functions": 10**12},
        {"type": "SetConfig", "blocks": 10**9},
        {"type": "LogisticConfig", "prior_variance": 1e300},
        {"type": ["LogisticConfig"]},
    ],
)
@pytest.mark.parametrize("records", [0, 20])
def test_learners_that_would_fill_the_memory_are_refused(learner: dict[str, Any], records: int) -> None:
    model = MODLClassifier(learners=[LogisticConfig()])
    for i in range(records):
        model.learn_one({"a": float(i)}, i % 2)
    metadata, arrays = model.snapshot()
    metadata["parameters"]["learners"] = [learner]
    found = decode(encode("MODLClassifier", metadata, arrays), "it", "MODLClassifier")
    with pytest.raises(BraidedError):
        MODLClassifier.restore(found.metadata, found.arrays)


def test_a_state_that_is_refused_leaves_the_model_as_it_was() -> None:
    model = MODLClassifier()
    for i in range(20):
        model.learn_one({"a": float(i)}, i % 2)
    before = model.braid.state()
    changed = {**before, "statistics": before["statistics"] + 1.0, "learner 7/sizes": before["learner 7/sizes"] + 0.5}
    with pytest.raises(BraidedError, match="state of learner 'forest': its arrays are not trees"):
        model.braid.load_state(changed)
    for name, array in model.braid.state().items():
        np.testing.assert_array_equal(array, before[name])
