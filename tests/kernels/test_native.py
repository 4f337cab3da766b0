"""Kernels in the library: called from Python, built again after an edit, the same bits however they were compiled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, MODLClassifier
from braided.combiners import COMBINERS
from braided.kernels import native
from braided.kernels.calls import call_forward
from braided.kernels.decide import decide
from braided.kernels.random import draw_uniform, mix
from braided.kernels.tally import add_losses
from braided.learners import LEARNERS

ROOT = Path(__file__).resolve().parents[2]
#: Models learn some records; what they say then is due to the last bit in every process.
SCRIPT = """
import numpy as np, sys
from braided import MODLClassifier, MODLRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 8))
X[rng.random(X.shape) < 0.3] = np.nan
y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1] * X[:, 2])
said = [model.predict_learn_many(X, aims)[0] for model, aims in (
    (MODLClassifier("lean", seed=3), y > 0), (MODLRegressor("lean"), y)
)]
print([array.tobytes().hex() for array in said])
print("numba" in sys.modules or "llvmlite" in sys.modules)
"""


def run(script: str, root: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=900,
        env={**os.environ, "PYTHONPATH": str(root / "src"), **environment},
    )  # fmt: skip


def test_the_library_has_every_entry_point() -> None:
    assert LEARNERS
    assert COMBINERS
    entries = [entry for entry in native.ENTRIES if entry.__module__.startswith("braided.")]
    assert len(entries) > 50
    assert [entry.symbol for entry in entries if not hasattr(native.library(), entry.symbol)] == []
    assert len({entry.symbol for entry in entries}) == len(entries)


def test_models_run_without_numba() -> None:
    done = run(SCRIPT, PYTHONDONTWRITEBYTECODE="1")
    assert done.stdout.splitlines()[-1] == "False", done.stderr


def test_arrays_of_another_layout_are_copied_there_and_back() -> None:
    rows = np.zeros((4, 6), dtype=np.float32)
    draw_uniform(rows, np.uint64(7), 0, 0, 1.0)
    turned, doubles = np.zeros((6, 4), dtype=np.float32).T, np.zeros((4, 6))
    draw_uniform(turned, np.uint64(7), 0, 0, 1.0)
    draw_uniform(doubles, np.uint64(7), 0, 0, 1.0)
    np.testing.assert_array_equal(turned, rows)
    np.testing.assert_array_equal(doubles, rows)
    with pytest.raises(ValueError, match="2 dimensions"):
        draw_uniform(rows[0], np.uint64(7), 0, 0, 1.0)
    with pytest.raises(ValueError, match="argument"):
        draw_uniform(rows)  # type: ignore[call-arg]


def test_numbers_of_64_bits_pass_whole() -> None:
    z = (2**64 - 1 + 0x9E3779B97F4A7C15 * (2**63 + 1)) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    assert mix(np.uint64(2**64 - 1), np.uint64(2**63)) == z ^ (z >> 31)
    places = np.full(1, -1, dtype=np.int64)
    read_only = np.array([[0.2, 0.8]])
    read_only.flags.writeable = False
    decide(read_only, np.ones(2), np.zeros((0, 0)), np.zeros(2), np.zeros(1), False, places)
    assert places.tolist() == [1]


def test_a_level_that_is_not_known_is_refused() -> None:
    done = run("from braided import MODLClassifier; MODLClassifier().learn_one({'a': 1.0}, 1)", BRAIDED_CPU="z80")
    assert "BRAIDED_CPU is 'z80': use one of" in done.stderr


def test_an_equal_type_that_is_another_object_is_taken_as_it_is() -> None:
    totals = np.zeros(1).astype(np.dtype("float64").newbyteorder("<"))
    assert totals.dtype is not np.dtype("float64")
    numbers = np.array([0, 1, 0], dtype=np.int64)
    add_losses(np.ones((3, 1)), totals, np.zeros(1), numbers, np.zeros((8, 2)), np.zeros((8, 1)))
    assert totals.tolist() == [3.0]


def test_a_kernel_in_python_calls_what_is_at_an_address() -> None:
    model = MODLClassifier("lean")
    for i in range(50):
        model.learn_one({"a": float(i % 7), "b": float(i % 3)}, i % 2)
    row, x = model.braid.learners[0].table_row(), np.array([0.5, -1.0] + [0.0] * 20, dtype=np.float32)
    ours, theirs = np.zeros(2, dtype=np.float32), np.zeros(2, dtype=np.float32)
    call_forward(row, x, np.arange(2), 50, theirs)
    call_forward.__wrapped__(row, x, np.arange(2), 50, ours)
    assert theirs.any()
    np.testing.assert_array_equal(ours, theirs)


def test_kernels_that_allocate_are_not_built() -> None:
    jit = pytest.importorskip("braided.kernels.jit", reason="Numba is not installed: pip install 'braided[compile]'")

    @native.entry
    def allocates(n: int) -> float:
        return np.zeros(n).sum()  # type: ignore[no-any-return]

    try:
        allocates.__module__ = "braided.made_up"
        with pytest.raises(BraidedError, match=r"NRT_.*may neither allocate nor raise"):
            jit.compile_to_object(allocates)
    finally:
        native.ENTRIES.remove(allocates)


class Failing:
    """A learner in Python that raises after some records."""

    name = "failing"

    def __init__(self, after: int) -> None:
        self.left = after
        self.n_outputs = 0

    def scores(self, x: Any, mask: Any) -> Any:
        return np.zeros(self.n_outputs, dtype=np.float32)

    def learn(self, x: Any, mask: Any, y: float, gradient: Any) -> bool:
        self.left -= 1
        if self.left < 0:
            raise KeyError("no more")
        return True

    def grow(self, n_features: int, n_outputs: int) -> None:
        self.n_outputs = n_outputs

    def reset(self) -> None: ...

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, arrays: Any) -> None: ...


def test_what_a_learner_in_python_raises_comes_through_and_records_before_it_are_learned() -> None:
    model = MODLClassifier(learners=(Failing(after=5),))
    with pytest.raises(KeyError, match="no more"):
        model.learn_many(np.ones((9, 2)), [0, 1] * 4 + [0])
    assert model.braid.steps == 5


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this checkout, with its object files."""
    for name in ("src", "build/kernels/objects"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "build_kernels.py", tmp_path)
    return tmp_path


def test_after_an_edit_what_depends_on_it_is_built_again_once(checkout: Path) -> None:
    pytest.importorskip("numba", reason="Numba is not installed: pip install 'braided[compile]'")
    edited = checkout / "src/braided/streams/transform.py"
    edited.write_text(edited.read_text().replace("out[i] = mix(key, i)", "out[i] = 41 + i"))
    script = """
import numpy as np
from braided.streams.transform import _hash_numbers
out = np.zeros(2, dtype=np.uint64)
_hash_numbers(np.uint64(0), out)
print(out.tolist())
"""
    command, environment = [sys.executable, "-c", script], {**os.environ, "PYTHONPATH": str(checkout / "src")}
    eight = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(8)
    ]
    told = [process.communicate(timeout=600) for process in eight]
    assert [out for out, _ in told] == ["[41, 42]\n"] * 8, told
    assert [err for _, err in told if "compiling" in err] == [err for _, err in told if err], "one builds, and says so"
    assert re.search(r"kernels for \S+: 1 in", "".join(err for _, err in told))
    assert run(script, checkout).stderr == ""
    assert run(script).stdout != "[41, 42]\n"


@pytest.mark.slow
def test_numba_in_memory_gives_the_same_bits_as_the_library() -> None:
    pytest.importorskip("numba", reason="Numba is not installed: pip install 'braided[compile]'")
    ahead, compiled = run(SCRIPT), run(SCRIPT, BRAIDED_JIT="1")
    assert compiled.stdout.splitlines()[-1] == "True"
    assert ahead.stdout.splitlines()[0] == compiled.stdout.splitlines()[0]


@pytest.mark.slow
@pytest.mark.skipif(len(native.levels()) < 2, reason="there is one level: run on x86-64")
def test_two_levels_agree_to_six_digits() -> None:
    said = [run(SCRIPT, BRAIDED_CPU=level).stdout.splitlines()[0] for level in native.levels()]
    first, second = ([np.frombuffer(bytes.fromhex(one)) for one in eval(line)] for line in said)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
