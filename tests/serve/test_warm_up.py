"""A model that is in service has all its kernels ready."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra 'serve' is not installed: run make test EXTRAS=all")

from braided.combiners import COMBINERS
from braided.learners import LEARNERS

HERE = Path(__file__).resolve().parent


def test_nothing_is_compiled_once_a_model_takes_traffic() -> None:
    path = os.pathsep.join([str(HERE), str(HERE.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, str(HERE / "late_compilation.py")],
        capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert {name.partition(" ")[2] for name in found} == {*COMBINERS, *(kind.__name__ for kind in LEARNERS)}
    assert {name: late for name, late in found.items() if late} == {}
