"""Whether a fleet can learn a chunk is checked before it does, and a chunk that is refused changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, Fleet, MODLClassifier
from braided.fleet import KIND, SHARES
from braided.learners import LogisticConfig
from braided.records import Records
from braided.run import Job, RunOptions
from braided.store import encode, state_digest


def small(**more: Any) -> MODLClassifier:
    return MODLClassifier(learners=(LogisticConfig(),), **{"max_features": 6, "max_classes": 3, **more})


def chunks(seed: int) -> list[tuple[Any, list[Any], list[str], list[str], list[float]]]:
    """Chunks in which features, classes and keys become too many, now and then."""
    random = np.random.default_rng(seed)
    found = []
    for i in range(25):
        n, few = int(random.integers(1, 5)), 5 + i // 5
        names = [f"f{j}" for j in random.choice(few, size=3, replace=False)]
        labels = [f"c{j}" for j in random.integers(2 + i // 10, size=n)]
        keys = [f"k{j}" for j in random.integers(2 + i // 4, size=n)]
        found.append((random.normal(size=(n, 3)), labels, names, keys, random.choice([0.0, 1.0], n, p=[0.2, 0.8])))
    return found


def admits(fleet: Fleet, values: Any, labels: list[Any], names: list[str], keys: list[str], weights: Any) -> bool:
    """Whether the fleet of numbers would learn a chunk; what it is, is the same afterwards."""
    before = encode(KIND, *fleet.snapshot())
    try:
        fleet.core.check(Records(tuple(names), values, labels, np.array(weights), list(keys)))
    except BraidedError:
        return False
    finally:
        assert encode(KIND, *fleet.snapshot()) == before
    return True


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("more", [{}, {"evict": "oldest"}, {"in_memory": 1}])
def test_a_chunk_is_learned_as_it_was_checked_or_changes_nothing(share: str, more: dict[str, Any]) -> None:
    outcomes = set()
    for seed in range(3):
        for model in (small(), small(expire_after=4)):
            fleet = Fleet(model, key="machine", share=share, max_keys=5, **more)
            for values, labels, names, keys, weights in chunks(seed):
                admitted = admits(fleet, values, labels, names, keys, weights)
                outcomes.add(admitted)
                if admitted:
                    fleet.learn_many(values, labels, names, weights, keys)
                    continue
                before = state_digest(fleet)
                with pytest.raises(BraidedError):
                    fleet.learn_many(values, labels, names, weights, keys)
                assert state_digest(fleet) == before
    assert outcomes == {True, False}


@pytest.mark.parametrize("share", ["start", "none"])
def test_a_record_that_a_key_refuses_is_learned_by_no_other(share: str) -> None:
    """The shared model has room by then, as `d` was not seen for long; that of `old` has seen all of its three."""
    fleet = Fleet(small(expire_after=4, max_features=3), key="machine", share=share)
    for name in ("a", "b", "c"):
        fleet.learn_one({"machine": "old", name: 1.0}, "up")
    for name in "bcdbcbcb":
        fleet.learn_one({"machine": "new", name: 1.0}, "up")
    before = state_digest(fleet)
    fleet.learn_one({"machine": "old", "e": 1.0}, "up", 0.0)
    for refused in (
        lambda: fleet.learn_one({"machine": "old", "e": 1.0}, "up"),
        lambda: fleet.learn_many([[1.0]], ["up"], ["e"], keys=["old"]),
    ):
        with pytest.raises(BraidedError, match="all seen in the last 4 records: raise `max_features`, lower"):
            refused()
        assert (state_digest(fleet), fleet.records_learned) == (before, 11)


@pytest.mark.parametrize("share", SHARES)
def test_what_a_run_leaves_behind_takes_raw_records(tmp_path: Path, share: str) -> None:
    path = tmp_path / "records.csv"
    rows = [f"m{i % 2},{('red', 'green')[i // 2 % 2]},{(i // 2 % 2) * (i % 2 or -1) + i % 7 / 100}" for i in range(80)]
    path.write_text("\n".join(["machine,colour,y", *rows]) + "\n")
    job = Job(RunOptions(stream=str(path), target="y", key="machine", preset="lean", share=share, task="regression"),
              checkpoint=tmp_path / "c")  # fmt: skip
    for _ in job.run():
        pass
    fleet = Fleet.load(tmp_path / "c")
    told = [fleet.predict_one({"machine": key, "colour": "green"}) for key in ("m0", "m1")]
    assert told[0] < -0.3 < 0.3 < told[1]
    fleet.learn_one({"machine": "m1", "colour": "blue"}, 1.0)
    other = Fleet.restore(*fleet.snapshot())
    blue = {"machine": "m1", "colour": "blue"}
    assert other.predict_one(blue) == fleet.predict_one(blue) != fleet.predict_one({"machine": "m1"})
