"""`--key COLUMN`: each key has a model of its own, and the column is no feature."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braided
from braided import BraidedError, Fleet, MODLRegressor
from braided.evaluation import key_tally
from braided.evaluation.key_tally import KeyTally
from braided.report.table import keys_rows, keys_words
from braided.run import Job, RunOptions
from command import braided as command

N = 620
RANDOM = np.random.default_rng(0)
VALUES, KEYS = RANDOM.normal(size=(N, 2)), RANDOM.integers(5, size=N)
COLOURS = RANDOM.choice(["red", "green"], size=N)
TARGETS = np.round(VALUES[:, 0] * (KEYS - 2) + 0.1 * RANDOM.normal(size=N), 4)


def finished(job: Job) -> Job:
    for _ in job.run():
        pass
    return job


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "records.csv"
    rows = [
        f"{a!r},{key},{b!r},{colour},{y}"
        for (a, b), key, colour, y in zip(VALUES.tolist(), KEYS, COLOURS, TARGETS.tolist(), strict=True)
    ]
    path.write_text("\n".join(["a,machine,b,colour,y", *rows]) + "\n")
    return path


def options(stream: Path, **more: Any) -> RunOptions:
    return RunOptions(stream=str(stream), target="y", key="machine", preset="lean", task="regression", **more)


def test_a_run_is_a_fleet_and_says_which_keys_are_the_worst(stream: Path) -> None:
    job = finished(Job(options(stream)))
    result = job.document()["runs"][0]
    assert job.n_features == 4, "a, b, and two colours"
    assert result["keys"]["keys"] == 5
    assert {row["key"] for row in result["keys"]["most"]} == {"0", "1", "2", "3", "4"}
    assert sum(row["records"] for row in result["keys"]["most"]) == N
    assert result["metrics"]["mae"] < 0.7 * result["learners"]["shared"]["mae"]
    assert result["keys"]["ahead"] >= 4
    ages = result["keys"]["ages"]
    assert [row["from"] for row in ages] == [0, 1, 5, 20, 100]
    assert ages[0]["loss"] == ages[0]["shared"], "a new key is the shared model"
    assert ages[-1]["loss"] < 0.5 * ages[-1]["shared"]
    lost = sum(row["records"] * row["loss"] for row in result["keys"]["most"]) / N
    assert lost == pytest.approx(result["metrics"]["mae"])
    one_model = finished(Job(RunOptions(stream=str(stream), target="y", drop=("machine",), preset="lean")))
    assert one_model.document()["runs"][0]["metrics"]["mae"] == result["learners"]["shared"]["mae"]


def test_the_report_has_the_keys(stream: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed: run make test")
    from braided.report.page import page

    found = page(finished(Job(options(stream))))
    assert "<h2>Keys</h2>" in found
    assert "5 keys: better than the shared model alone for" in found
    assert "<td>0</td><td>5</td>" in found, "the first record of each key"
    assert "<td>100 or more</td>" in found
    assert "The mean absolute error of the same keys over time" in found
    assert "to 128</th>" in found


def test_errors_of_each_key_are_counted_over_time(stream: Path) -> None:
    job = finished(Job(options(stream)))
    found = job.document()["runs"][0]["keys"]
    assert found["until"] == [128, 256, 384, 512, N]
    for row in found["most"]:
        key = int(row["key"])
        records = [int((KEYS[start:stop] == key).sum()) for start, stop in pairwise([0, *found["until"]])]
        assert sum(records) == row["records"]
        lost = sum(n * loss for n, loss in zip(records, row["over_time"], strict=True))
        assert lost == pytest.approx(row["records"] * row["loss"])
    pytest.importorskip("matplotlib", reason="the extra plot is not installed: run make test")
    from braided.report.page import page

    table = page(job)
    assert "".join(f'<th scope="col">to {end}</th>' for end in (128, 256, 384, 512, 620)) in table
    first = [found["most"][0]["key"], *(f"{loss:.4g}" for loss in found["most"][0]["over_time"])]
    assert f"<tr>{''.join(f'<td>{cell}</td>' for cell in first)}</tr>" in table


def test_parts_of_the_stream_become_longer_and_gaps_stay_gaps() -> None:
    tally = KeyTally(shared=False)
    for start in range(0, 4_000, 100):
        rows = np.arange(start, start + 100)
        losses = np.where(rows < 1_024, 1.0, 2.0)
        tally.add(["early" if row < 1_024 else "late" for row in rows], losses, losses)
        if start == 2_000:
            names, arrays = tally.state()
            tally = KeyTally(shared=False)
            tally.load_state(names, arrays)
    result = tally.result()
    assert result["until"] == [512, 1_024, 1_536, 2_048, 2_560, 3_072, 3_584, 4_000]
    assert {row["key"]: row["over_time"] for row in result["most"]} == {
        "early": [1.0, 1.0] + [None] * 6, "late": [None, None] + [2.0] * 6,
    }  # fmt: skip
    assert "shared" not in result["most"][0]
    names, arrays = tally.state()
    for wrong in ([4_000.0, 0.0, 1.0], [1.0]):
        with pytest.raises(BraidedError, match="the keys of the run"):
            tally.load_state(names, {**arrays, "counted": np.array(wrong)})


def test_keys_beyond_those_that_are_counted_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_tally, "MAX_KEYS", 2)
    tally = KeyTally(shared=True)
    tally.add(list("abcca"), np.zeros(5), np.zeros(5))
    assert keys_words(tally.result()) == (
        "the first 2 keys are counted, 2 records of others are not: better than the shared model alone for 0, "
        "worse for 0"
    )


def test_keys_that_share_nothing_have_their_table(stream: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed: run make test")
    from braided.report.page import page

    job = finished(Job(options(stream, share="none")))
    found = job.document()["runs"][0]["keys"]
    assert keys_words(found) == "5 keys, each with a model of its own"
    assert keys_rows(found, regression=True)[0] == ["key", "", "records", "MAE", "first 20"]
    assert "5 keys, each with a model of its own" in page(job)


@pytest.mark.parametrize("more", [{}, {"delay": 3}, {"share": "start"}, {"share": "none"}])
def test_a_run_that_was_broken_off_ends_in_the_same_bits(stream: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    straight = finished(Job(options(stream, **more)))
    broken = Job(options(stream, **more), checkpoint=tmp_path / "c", every=0.0)
    for progress in broken.run():
        if progress.evaluation.seen >= 500:
            break
    resumed = finished(Job(options(stream, **more), checkpoint=tmp_path / "c", resume=True))
    found, expected = (job.document()["runs"][0] for job in (resumed, straight))
    for name in ("state_sha256", "metrics", "keys"):
        assert found[name] == expected[name]
    again = Job(options(stream, **more), checkpoint=tmp_path / "c", resume=True)
    assert again.document()["runs"][0]["keys"] == expected["keys"]


def test_what_it_leaves_behind_takes_raw_records(stream: Path, tmp_path: Path) -> None:
    finished(Job(options(stream), checkpoint=tmp_path / "c"))
    fleet = Fleet.load(tmp_path / "c")
    assert sorted(fleet.keys) == ["0", "1", "2", "3", "4"]
    told = [fleet.predict_one({"machine": key, "a": 1.0, "b": 0.0, "colour": "red"}) for key in ("0", 0, 4, 4.0)]
    assert told[0] == told[1] < -1.0 < 1.0 < told[2] == told[3]


def test_the_command_prints_the_keys(stream: Path) -> None:
    told = command("run", str(stream), "--target", "y", "--key", "machine", "--preset", "lean")
    assert "5 keys: better than the shared model alone for" in told.stdout
    assert "shared alone" in told.stdout


def test_json_lines_have_the_key_as_a_field(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    rows = [{"x": {"a": float(a), "machine": f"m{key}"}, "y": "up" if a > 0 else "down"} for (a, _), key in
            zip(VALUES, KEYS, strict=True)]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    job = finished(Job(RunOptions(stream=str(path), key="machine", preset="lean")))
    assert job.document()["runs"][0]["keys"]["keys"] == 5
    assert job.n_features == 1


def test_what_cannot_be_is_refused(stream: Path, tmp_path: Path) -> None:
    with pytest.raises(
        BraidedError, match=r"'machin': there is no such column, or it is empty: choose it from .*machine"
    ):
        finished(Job(RunOptions(stream=str(stream), target="y", key="machin")))
    with pytest.raises(BraidedError, match="--key 'machine' is for models that can share, and river-linear cannot"):
        finished(Job(options(stream, models=("river-linear",))))
    with pytest.raises(BraidedError, match="--share 'all' is not known"):
        Job(options(stream, share="all"))
    path = tmp_path / "gap.csv"
    lines = stream.read_text().splitlines()[:20]
    path.write_text("\n".join([*lines, "1.0,,1.0,red,2.0"]) + "\n")
    with pytest.raises(
        BraidedError, match=r"gap\.csv:21: there is no key in column 'machine'; `on_error='skip'` goes on"
    ):
        finished(Job(options(path)))
    job = finished(Job(options(path, on_error="skip")))
    assert (job.document()["records"], job.document()["skipped_records"]) == (19, 1)


def test_a_key_that_cannot_be_is_skipped(stream: Path, tmp_path: Path) -> None:
    lines = stream.read_text().splitlines()[:20]
    path = tmp_path / "long.csv"
    path.write_text("\n".join([*lines, f"1.0,{'k' * 1_001},1.0,red,2.0", f"1.0,{'k' * 1_000},1.0,red,2.0"]) + "\n")
    told = command("run", str(path), "--target", "y", "--key", "machine", "--task", "regression", code=2).stderr
    assert "...: it may have 1,000 characters, give a shorter one; --on-error skip" in told
    assert "long.csv:21: key 'machine' is 'kkk" in told
    assert "; --on-error skip goes on without such records" in told
    odd = tmp_path / "odd.jsonl"
    rows = [{"x": {"a": float(i), "machine": key}, "y": i % 2} for i, key in enumerate([1, "1", 1.0, " 1", [1], 1.5])]
    odd.write_text("\n".join(map(json.dumps, rows)) + "\n")
    told = command("run", str(odd), "--key", "machine", code=2).stderr
    assert "odd.jsonl:5: " in told
    assert "--on-error skip goes on" in told
    job = finished(Job(RunOptions(stream=str(odd), key="machine", preset="lean", on_error="skip")))
    assert (job.document()["records"], job.document()["skipped_records"]) == (4, 2)
    assert job.document()["runs"][0]["keys"]["keys"] == 1
    found = finished(Job(options(path, on_error="skip"))).document()
    assert (found["records"], found["skipped_records"]) == (20, 1)
    svm = tmp_path / "d.svm"
    svm.write_text("".join(f"{i % 2} 1:{i % 5} 2:{'oops' if i == 7 else i % 3}\n" for i in range(40)))
    asked = RunOptions(stream=str(svm), key="2", preset="lean", task="classification", on_error="missing")
    found = finished(Job(asked)).document()
    assert (found["records"], found["skipped_records"]) == (39, 1)


def test_a_key_with_values_inside_is_named(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    keys: list[Any] = ["k", ["k"], {"inner": 7}, "k"]
    path.write_text(
        "".join(json.dumps({"key": key, "x": {"a": 1.5}, "y": "pq"[t % 2]}) + "\n" for t, key in enumerate(keys))
    )
    asked = {"stream": str(path), "key": "key", "preset": "lean", "task": "classification"}
    with pytest.raises(BraidedError, match=r"records.jsonl:2: key 'key' is \['k'\]: give text or a whole number"):
        finished(Job(RunOptions(**asked)))
    found = finished(Job(RunOptions(**asked, on_error="skip"))).document()
    assert (found["records"], found["skipped_records"], found["features"]) == (2, 2, 1)


@pytest.mark.parametrize("share", ["braid", "none"])
def test_keys_are_limited(stream: Path, tmp_path: Path, share: str) -> None:
    straight = finished(Job(options(stream, share=share)))
    small = finished(Job(options(stream, share=share, in_memory=2)))
    found, expected = (job.document()["runs"][0] for job in (small, straight))
    for name in ("state_sha256", "metrics"):
        assert found[name] == expected[name], "keys on disk answer as those in memory"
    arguments = ["run", str(stream), "--target", "y", "--key", "machine", "--preset", "lean", "--share", share]
    full = command(*arguments, "--max-keys", "3", code=2)
    assert "brings key number 4, and max_keys is 3: raise --max-keys, or give --evict oldest" in full.stderr
    job = Job(options(stream, share=share, max_keys=3, evict="oldest"), checkpoint=tmp_path / "c", every=0.0)
    next(steps := job.run())
    assert job._current is not None
    model: Any = job._current.model
    assert model.n_keys == 3
    steps.close()  # type: ignore[attr-defined]
    with pytest.raises(BraidedError, match="--max-keys is 2, and was 3 when the checkpoint was made"):
        Job(options(stream, share=share, max_keys=2), checkpoint=tmp_path / "c", resume=True)
    more = Job(options(stream, share=share, max_keys=5), checkpoint=tmp_path / "c", resume=True)
    assert more._current is not None
    raised: Any = more._current.model
    assert (raised.max_keys, raised.evict) == (5, "oldest")
    finished(more)
    assert raised.n_keys == 5


def test_limits_of_keys_need_keys(stream: Path) -> None:
    for more in ({"in_memory": 3}, {"max_keys": 3}, {"evict": "oldest"}):
        with pytest.raises(BraidedError, match="is about keys: give --key COLUMN, or leave it out"):
            Job(RunOptions(stream=str(stream), target="y", **more))
    for more, message in (({"evict": "newest"}, "--evict 'newest'"), ({"max_keys": 0}, "--max-keys is 0")):
        with pytest.raises(BraidedError, match=message):
            Job(options(stream, **more))


def test_record_takes_a_fleet() -> None:
    pairs = [({"a": a, "machine": f"m{key}"}, float(y)) for (a, _), key, y in zip(VALUES, KEYS, TARGETS, strict=True)]
    history = braided.record(Fleet(MODLRegressor(preset="lean"), key="machine"), pairs)
    assert history.tally.learner_errors["shared"] > 1.3 * history.error


def test_a_changed_tally_is_refused() -> None:
    tally = KeyTally(shared=True)
    tally.add(["a", "b"], np.ones(2), np.ones(2))
    names, arrays = tally.state()
    for keys, changed in ((["a", "a"], {}), ([1, "b"], {}), (["a"], {}), (names, {"rows": -arrays["rows"]})):
        with pytest.raises(BraidedError, match="the keys of the run"):
            tally.load_state(keys, {**arrays, **changed})
    tally.load_state(names, arrays)
