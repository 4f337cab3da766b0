"""Fleets in Spark, killed in the middle and not; skipped where PySpark or Java is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from spark_stream import FILES, ROWS, digests, in_one_process, learned, write

SCRIPT = Path(__file__).with_name("spark_script.py")
_LONGEST_S = 600.0
#: Spark gives a worker ten seconds to start, which it may not have on a busy machine; what has failed so is resumed.
_NO_TIME, _TRIES = "failed to connect back", 4


def started(folder: Path, what: str) -> subprocess.Popen[bytes]:
    with (folder / f"{what}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), what],
            cwd=folder, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def kill(process: subprocess.Popen[bytes]) -> None:
    """Python, Java and all workers at once, as when a machine goes."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(folder: Path, what: str, enough: Path) -> str:
    """Run the script until it ends, or is killed because a file is there; returns what it printed."""
    end = time.monotonic() + _LONGEST_S
    for _ in range(_TRIES):
        process = started(folder, what)
        try:
            while process.poll() is None and not enough.exists() and time.monotonic() < end:
                time.sleep(0.02)
        finally:
            if process.poll() is None:
                kill(process)
        log = (folder / f"{what}.log").read_text()
        if _NO_TIME not in log:
            break
    return log


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a query that was killed and one that was not have given, and what `Fleet` gives in this process."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed: run make test EXTRAS=all")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java, which Spark needs: install version 17 or later")
    folder = tmp_path_factory.mktemp("spark")
    learned(folder / "fleet.braided")
    rows = write(folder / "rows")
    expected = in_one_process(rows, folder / "fleet.braided")
    checkpoint = folder / "killed-checkpoint" / "classes"
    log = run(folder, "run", enough=checkpoint / "offsets" / "1")
    commits = len(list((checkpoint / "commits").glob("[0-9]*"))) if checkpoint.exists() else 0
    assert 1 <= commits < FILES, log[-3_000:]
    log = run(folder, "finish", enough=folder / "never")
    assert (folder / "seen.json").exists(), log[-3_000:]
    return rows, expected, json.loads((folder / "seen.json").read_text())


@pytest.mark.parametrize("run", ["killed", "whole"])
@pytest.mark.parametrize("query", ["classes", "values"])
def test_a_query_ends_as_a_fleet_in_one_process(seen: Any, query: str, run: str) -> None:
    _, expected, found = seen
    said, fleet = expected[query]
    there = found[run][query]
    assert len(there["rows"]) == len(said) == FILES * ROWS
    for row, expects in zip(there["rows"], said, strict=True):
        if query == "values":
            assert row["prediction"] == expects
        else:
            assert row["probabilities"] == {str(label): share for label, share in expects.items()}
            assert row["prediction"] == max(expects, key=expects.get)
    assert there["states"] == digests(fleet)


@pytest.mark.parametrize("query", ["classes", "values"])
def test_a_killed_query_ends_as_one_that_was_not(seen: Any, query: str) -> None:
    assert seen[2]["killed"][query] == seen[2]["whole"][query]


def test_what_is_kept_comes_back_as_it_was(seen: Any) -> None:
    rows, _, found = seen
    classes, values = found["whole"]["classes"], found["whole"]["values"]
    assert classes["kinds"] == {
        "machine": "string", "time": "timestamp", "id": "bigint", "prediction": "boolean",
        "probabilities": "map<boolean,double>",
    }  # fmt: skip
    assert values["kinds"] == {
        "station": "bigint", "day": "date", "number": "bigint", "id": "bigint", "prediction": "double",
    }  # fmt: skip
    ids = [None if id_ is None else int(id_) for id_ in rows["id"].astype(object).where(rows["id"].notnull(), None)]
    assert [row["id"] for row in classes["rows"]] == [row["id"] for row in values["rows"]] == ids
    keys = [None if key is None else key.strip() for key in rows["machine"].tolist()]
    assert [row["machine"] for row in classes["rows"]] == keys
    assert [row["time"] for row in classes["rows"]] == [time.timestamp() for time in rows["time"]]
    assert [row["station"] for row in values["rows"]] == rows["station"].tolist()
    assert {row["day"] for row in values["rows"]} == {"2026-10-25"}
