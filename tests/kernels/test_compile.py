"""An entry point is the same machine code in every process: it holds all that it calls."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from braided.combiners import COMBINERS
from braided.kernels.calls import Entry
from braided.learners import LEARNERS

#: Functions of ours in an object file; `_ZN08NumbaEnv...` are data.
FUNCTION = re.compile(rb"_ZN7braided[0-9A-Za-z_$.]+")
#: A model of each preset learns some records; the same bits are due whether its kernels were compiled or loaded.
SCRIPT = """
import json, numpy as np
from braided import MODLClassifier
from braided.store import state_digest
rng = np.random.default_rng(0)
X = rng.normal(size=(600, 21))
X[rng.random(X.shape) < 0.3] = np.nan
y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1] * X[:, 2]) > 0
digests = {}
for preset in ("default", "paper", "released"):
    model = MODLClassifier(preset, seed=3)
    model.learn_many(X, y)
    digests[preset] = state_digest(model)
print(json.dumps(digests))
"""


def entries() -> list[Entry]:
    assert LEARNERS
    assert COMBINERS
    found = [item for item in gc.get_objects() if isinstance(item, Entry)]
    return sorted(found, key=_name)


def _name(entry: Entry) -> str:
    return f"{entry.function.__module__}.{entry.function.__name__}"


@pytest.mark.parametrize("entry", entries(), ids=_name)
def test_an_entry_point_calls_nothing_that_another_process_could_link_otherwise(entry: Entry) -> None:
    assert entry.address
    code = entry.function.__code__
    name = f"{Path(code.co_filename).stem}.{code.co_name}-{code.co_firstlineno}."
    kept = list(Path(entry._compiled._cache.cache_path).glob(f"{name}*.nbc"))
    assert kept, "nothing is in the disk cache"
    for path in kept:
        (_, kind, (machine_code, _)), *_ = pickle.loads(path.read_bytes())
        assert kind == "object"
        names = {found.decode() for found in FUNCTION.findall(machine_code)}
        assert names, "no function was found: the object file is read wrongly"
        assert all(entry.function.__name__ in found for found in names), names


@pytest.mark.slow
def test_compiled_and_loaded_kernels_give_the_same_bits(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    outputs = [
        subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    compiled, loaded = (json.loads(done.stdout) for done in outputs)
    assert compiled == loaded
