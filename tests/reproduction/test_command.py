"""`python -m reproduction` from the outside: results, interruption, failures, Ray."""

from __future__ import annotations

import errno
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from braided import BraidedError
from braided.run import Job, RunOptions
from command import reproduce as called
from reproduction.command import Options, Reproduction
from reproduction.jobs import JobSpec, Store, code_digest

ROOT = Path(__file__).resolve().parents[2]
CELLS = ["table1", "--dataset", "svmguide3", "--seeds", "3", "--limit", "400"]


CURVE = {"records": [50], "errors": [9]}


def command(*arguments: str, data: Path) -> list[str]:
    return [sys.executable, "-m", "reproduction", *arguments, "--data-dir", str(data)]


def reproduce(*arguments: str, data: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    return called(*arguments, "--data-dir", str(data), code=code)


def reproduce_apart(*arguments: str, data: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which Ray leaves its threads and warnings to."""
    done = subprocess.run(command(*arguments, data=data), capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == code, done.stderr
    return done


def table(out: Path, what: str = "table1") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / f"{what}.json").read_text())
    return found


def without_times(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: value for name, value in cell.items() if name != "us_per_record"} for cell in document["cells"]]


@pytest.fixture(scope="module")
def in_one_go(tmp_path_factory: pytest.TempPathFactory, excerpts: Path) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("in one go")
    reproduce(*CELLS, "--out", str(out), data=excerpts)
    return out, table(out)


def test_cells_are_what_braided_run_gives(in_one_go: tuple[Path, dict[str, Any]], excerpts: Path) -> None:
    out, document = in_one_go
    assert document["what"] == "table1"
    cell = next(cell for cell in document["cells"] if cell["method"] == "auxdrop-ogd")
    job = Job(RunOptions("svmguide3", ("auxdrop-ogd",), "released", seeds=3, limit=400), excerpts)
    for _ in job.run():
        pass
    expected = job.document()["summary"]["auxdrop-ogd"]
    assert (cell["ours_mean"], cell["ours_sd"]) == (expected["errors_mean"], pytest.approx(expected["errors_sd"]))
    assert (cell["records"], cell["sample"], cell["seeds"], cell["p_f"]) == (400, True, 3, 0.72)
    names = {path.name for path in out.iterdir()}
    assert names == {"cells", "table1.csv", "table1.json", "table1.png"}
    assert len((out / "table1.csv").read_text().splitlines()) == 1 + 5


def test_killed_and_run_again_nothing_finished_is_recomputed(
    in_one_go: tuple[Path, dict[str, Any]], tmp_path: Path, excerpts: Path
) -> None:
    """As `all` does it: several tables, whose common runs are done once."""
    arguments = [CELLS[0], "curves", "--quick", *CELLS[1:], "--out", str(tmp_path)]
    process = subprocess.Popen(
        command(*arguments, "--jobs", "1", data=excerpts),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
    )
    cells = tmp_path / "cells"
    deadline = time.monotonic() + 300
    while len(list(cells.glob("[!.]*.json"))) < 4 if cells.exists() else True:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline, "no four runs were done in time"
        time.sleep(0.02)
    process.kill()
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in cells.glob("[!.]*.json")}
    assert 4 <= len(before) < 15
    assert not list(tmp_path.glob("*.json"))
    done = reproduce(*arguments, data=excerpts)
    assert f"{len(before)} runs were done before, {15 - len(before)} are left" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    whole = without_times(in_one_go[1])
    table1, curves = (table(tmp_path, what) for what in ("table1", "curves"))
    assert "table1: Four small sets" in done.stdout
    assert "curves: Learning curves" in done.stdout
    assert without_times(table1) == whole
    errors = {cell["method"]: cell["ours_mean"] for cell in whole}
    assert {cell["method"]: cell["ours_mean"] for cell in curves["cells"]} == {
        method: errors[method] for method in ("auxdrop-odl", "modl", "modl (default)")
    }
    assert {path.name for path in tmp_path.glob("*.*")} == {
        f"{what}.{kind}" for what in ("table1", "curves") for kind in ("csv", "json", "png")
    }


def test_tables_without_the_data_sets_asked_for_are_left_out() -> None:
    options = Options(("table1", "table2", "toy"), datasets=("german",))
    assert list(options.planned()) == ["table1"]
    assert {cell.job.dataset for cell in options.planned()["table1"]} == {"german"}
    assert list(Options(("table2", "toy")).planned()) == ["table2", "toy"]
    with pytest.raises(BraidedError, match="table2 and lr have no cell on german: leave out --dataset"):
        Options(("table2", "lr"), datasets=("german",)).planned()


def test_checkpoints_that_other_code_began_are_removed(tmp_path: Path, excerpts: Path) -> None:
    old, own = tmp_path / "begun" / "other", tmp_path / "begun" / code_digest()
    for folder in (old, own):
        folder.mkdir(parents=True)
        (folder / "key").write_bytes(b"checkpoint")
    reproduce("table1", "--dataset", "german", "--limit", "20", "--seeds", "1", "--out", str(tmp_path), data=excerpts)
    assert not old.exists()
    assert (own / "key").exists()


def test_workers_leave_with_a_killed_run(tmp_path: Path, excerpts: Path) -> None:
    process = subprocess.Popen(
        command("table1", "--dataset", "magic04", "--out", str(tmp_path), "--jobs", "1", data=excerpts),
        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=ROOT,
    )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        pytest.skip("this system does not list a process's children: run on Linux")
    deadline = time.monotonic() + 300
    workers: list[int] = []
    while not workers and time.monotonic() < deadline:
        time.sleep(0.1)
        workers = [
            int(pid)
            for pid in children.read_text().split()
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
    assert workers
    process.kill()
    process.wait()
    deadline = time.monotonic() + 120
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not any(alive(pid) for pid in workers)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_failing_cell_is_shown_and_tried_again(tmp_path: Path, excerpts: Path) -> None:
    folder = tmp_path / "data" / "svmguide3"
    folder.mkdir(parents=True)
    lines = (excerpts / "svmguide3" / "svmguide3.txt").read_text().splitlines()
    (folder / "svmguide3.txt").write_text("\n".join([*lines, *["2 1:0.5 2:0.5"] * 200]))  # a third class
    out = ["--out", str(tmp_path / "out")]
    done = reproduce(*CELLS, *out, data=tmp_path / "data", code=1)
    cells = {cell["method"]: cell for cell in table(tmp_path / "out")["cells"]}
    assert "ours_mean" not in cells["olvf"]
    assert cells["olvf"]["failed"] > 0
    assert "olvf takes 2 classes only" in cells["olvf"]["error"]
    assert cells["modl"]["seeds"] == 3
    assert "olvf failed: " in " ".join(done.stdout.split())
    assert "runs failed: their cells say why" in done.stderr
    again = reproduce(*CELLS, *out, data=tmp_path / "data", code=1)
    assert "12 runs were done before, 3 are left" in again.stderr


def test_what_is_no_result_of_its_run_is_done_again(
    in_one_go: tuple[Path, dict[str, Any]], tmp_path: Path, excerpts: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(in_one_go[0], out)
    files = sorted((out / "cells").glob("*.json"))
    whole = [file.read_bytes() for file in files]
    broken = [b"", b"{}", b"null", whole[3][:40], whole[5], b"\xff\xfe", b"[" * 100_000]  # the fifth is another run's
    changes: list[dict[str, Any]] = [{"errors": None}, {"errors": float("nan")}, {"wall_seconds": "1"}, {"error": "no"}]
    broken += [
        json.dumps(json.loads(content) | change).encode() for content, change in zip(whole[7:], changes, strict=False)
    ]
    for file, content in zip(files, broken, strict=False):
        file.write_bytes(content)
    done = reproduce(*CELLS, "--out", str(out), data=excerpts)
    assert "4 runs were done before, 11 are left" in done.stderr
    assert without_times(table(out)) == without_times(in_one_go[1])
    assert {file: json.loads(file.read_bytes())["spec"] for file in files} == {
        file: json.loads(content)["spec"] for file, content in zip(files, whole, strict=True)
    }


def test_on_a_full_disk_it_says_what_to_do_and_keeps_what_is_done(
    tmp_path: Path, excerpts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Done:
        """Every run at once."""

        def run(self, specs: Sequence[JobSpec], data_dir: Path | None, begun: Path) -> Iterator[Any]:
            for spec in specs:
                yield spec, {"spec": spec.plain(), "errors": 9, "records": 50, "majority_errors": 9, "seconds": 1.0,
                             "wall_seconds": 1.0, "learners": {}, "curve": CURVE}  # fmt: skip

    options = Options(("table1",), seeds=1, datasets=("german",), out=tmp_path / "out")
    console = Console(file=io.StringIO())
    put, kept = Store.put, []

    def full_after_two(store: Store, key: str, result: dict[str, Any]) -> None:
        if len(kept) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        kept.append(key)
        put(store, key, result)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", full_after_two)
        with pytest.raises(BraidedError, match=r"no space left for .*out: free some and run the command again"):
            Reproduction(options, excerpts, Done(), console).run()
    again = Reproduction(options, excerpts, Done(), console)
    assert [cell["ours_mean"] for cell in again.run()[0]["cells"]] == [9] * 5
    assert again.reused == 2


def test_a_missing_data_set_leaves_the_others_alone(tmp_path: Path, excerpts: Path) -> None:
    only = tmp_path / "data" / "svmguide3"
    only.mkdir(parents=True)
    (only / "svmguide3.txt").symlink_to(excerpts / "svmguide3" / "svmguide3.txt")
    arguments = ["table1", "--dataset", "svmguide3", "--dataset", "german", "--seeds", "1", "--limit", "50"]
    reproduce(*arguments, "--out", str(tmp_path / "out"), data=tmp_path / "data", code=1)
    cells = table(tmp_path / "out")["cells"]
    assert all("or put german.data-numeric (" in cell["error"] for cell in cells if cell["dataset"] == "german")
    assert all(cell["seeds"] == 1 for cell in cells if cell["dataset"] == "svmguide3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table7"], "'table7' cannot be reproduced"),
        (["table1", "--preset", "best"], "--preset 'best' is not known"),
        (["table1", "--data-dir", "/no such folder"], "or put german.data-numeric ("),
        (["table1", "--dataset", "higgs"], "table1 has no cell on higgs"),
        (["table1", "--dataset", "german", "--dataset", "nonsense"], "--dataset 'nonsense' is not known"),
        (["haphazard", "streams", "--scale", "0,1"], "--scale is not for haphazard and streams: leave it out"),
        (["toy", "--out", __file__], "is a file: give a folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    out = [] if "--out" in arguments else ["--out", str(tmp_path / "out")]
    done = called(*arguments, *out, code=2)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_toy_needs_no_data(tmp_path: Path) -> None:
    done = called("toy", "--out", str(tmp_path / "out"))
    assert "largest difference" in done.stdout
    assert table(tmp_path / "out", "toy")["command"] == "python -m reproduction toy"


def test_without_a_table_there_must_be_a_page() -> None:
    assert "name a table such as table1" in called(code=2).stderr


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: run make test EXTRAS=all")
def test_ray_gives_the_same_results(in_one_go: tuple[Path, dict[str, Any]], tmp_path: Path, excerpts: Path) -> None:
    reproduce_apart(*CELLS, "--out", str(tmp_path), "--ray", "local", "--jobs", "2", data=excerpts)
    assert without_times(table(tmp_path)) == without_times(in_one_go[1])


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: run make test EXTRAS=all")
def test_no_cluster_at_an_address_is_one_line(tmp_path: Path, excerpts: Path) -> None:
    done = reproduce_apart(
        *CELLS, "--out", str(tmp_path), "--ray", "127.0.0.1:1", data=excerpts, code=2
    )  # nothing listens on port 1
    assert "--ray 127.0.0.1:1: no cluster answers there" in done.stderr
