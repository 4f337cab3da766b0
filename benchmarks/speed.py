"""Whether a change to the code made it slower: processor time per record of this tree and of a commit, in turns.

    python benchmarks/speed.py --against HEAD~3             presets default and lean
    python benchmarks/speed.py --against 03c0fc2 lean       this preset alone

Each round starts one process for each tree, one after the other, so that both meet the same machine; the table has the
least time of all rounds. `chunks` are records predicted and learned by `predict_learn_many`, 1,000 at a time, `one by
one` the same by `predict_proba_one` and `learn_one`. The commit is checked out into a temporary git worktree, and
compiles its kernels first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from braided import MODLClassifier

ROOT = Path(__file__).resolve().parents[1]
FEATURES, CHUNK, FIRST = 21, 1_000, 500
RECORDS = {"chunks": 20_000, "one by one": 6_000}


def measured(preset: str) -> dict[str, float]:
    """Seconds of processor time per record, by how records come."""
    random = np.random.default_rng(0)
    n = FIRST + max(RECORDS.values())
    values = random.normal(size=(n, FEATURES))
    labels = (values[:, 0] * values[:, 1] + 0.3 * random.normal(size=n) > 0).astype(np.int64)
    values[random.random(values.shape) < 0.3] = np.nan
    rows: list[dict[Hashable, float]] = [{i: v for i, v in enumerate(row) if v == v} for row in values.tolist()]
    seconds = {}
    for how, records in RECORDS.items():
        model = MODLClassifier(preset)
        model.learn_many(values[:FIRST], labels[:FIRST])
        model.predict_proba_one(rows[0])
        start = time.process_time()
        if how == "chunks":
            for at in range(FIRST, FIRST + records, CHUNK):
                model.predict_learn_many(values[at : at + CHUNK], labels[at : at + CHUNK])
        else:
            for x, y in zip(rows[FIRST : FIRST + records], labels[FIRST : FIRST + records].tolist(), strict=True):
                model.predict_proba_one(x)
                model.learn_one(x, y)
        seconds[how] = (time.process_time() - start) / records
    return seconds


def measured_in(tree: Path, preset: str) -> dict[str, float]:
    """The same with the code of that tree, in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--here", preset]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    found = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    seconds: dict[str, float] = json.loads(found.stdout)
    return seconds


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """A commit's files in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="braided-speed-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Processor time per record, beside that of a commit.")
    parser.add_argument("presets", nargs="*", default=["default", "lean"], metavar="PRESET")
    parser.add_argument("--against", default="HEAD~1", metavar="COMMIT", help="compare with this commit")
    parser.add_argument("--rounds", type=int, default=5, help="how often each tree is measured")
    parser.add_argument("--here", metavar="PRESET", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measured(options.here)))
        return 0
    print(f"| preset | records | {options.against} | this tree | ratio |")
    print("|---|---|---|---|---|")
    with worktree(options.against) as before:
        for preset in options.presets:
            rounds = [(measured_in(before, preset), measured_in(ROOT, preset)) for _ in range(options.rounds)]
            for how in RECORDS:
                was, now = (min(one[tree][how] for one in rounds) * 1e6 for tree in (0, 1))
                print(f"| {preset} | {how} | {was:.1f} us | {now:.1f} us | {now / was:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
