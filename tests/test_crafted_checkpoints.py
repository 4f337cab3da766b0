"""Checkpoints that a stranger has changed and signed anew are refused, or harmless: never a crash, never a NaN."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed: run make test")

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
