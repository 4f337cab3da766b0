"""`braided run` on regressions, with late labels, with records that have none, and its file of predictions."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import MODLRegressor
from braided.errors import BraidedError
from braided.estimators import ESTIMATORS
from braided.kernels.tally import LAST
from braided.run import Job, RunOptions, predictions
from braided.run.predictions import PredictionFile, Written
from braided.store import read, state_digest, write
from command import braided
from conftest import made_up


def finished(job: Job) -> Job:
    for _ in job.run():
        pass
    return job


def write_csv(path: Path, values: Any, labels: list[Any]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"f{j}" for j in range(values.shape[1])), "y"])
        for row, label in zip(values, labels, strict=True):
            writer.writerow([*("" if np.isnan(v) else repr(float(v)) for v in row), "" if label is None else label])
    return path


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A regression: a target of numbers that are not whole."""
    values, _ = made_up(900, d=4)
    filled = np.nan_to_num(values)
    targets = (filled[:, 0] - 2 * filled[:, 1] + 0.25).tolist()
    return write_csv(tmp_path_factory.mktemp("numbers") / "numbers.csv", values, targets)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes; every tenth record has no label."""
    values, labels = made_up(1_600, d=4, classes=3)
    some = [None if t % 10 == 9 else f"c{label}" for t, label in enumerate(labels)]
    return write_csv(tmp_path_factory.mktemp("classes") / "classes.csv", values, some)


def test_a_regression_is_found_and_told(numbers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = braided("run", str(numbers), "--json", "--out", str(out), "-m", "modl", "-m", "river-linear", "-m", "mean")
    document = json.loads(done.stdout)
    assert "numbers that are not whole" in done.stderr
    assert "--task classification" in done.stderr
    assert (document["task"], document["classes"], document["majority_errors"]) == ("regression", None, None)
    model = MODLRegressor()
    errors = []
    with numbers.open() as file:
        for row in csv.DictReader(file):
            target = float(row.pop("y"))
            x = {name: float(value) if value else None for name, value in row.items()}
            errors.append(model.predict_one(x) - target)
            model.learn_one(x, target)
    run = document["runs"][0]
    assert run["metrics"]["mae"] == pytest.approx(np.mean(np.abs(errors)))
    assert run["metrics"]["rmse"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))
    assert run["state_sha256"] == state_digest(model)
    assert document["summary"]["modl"]["metrics"]["mae"] == run["metrics"]["mae"]
    assert document["summary"]["mean"]["metrics"]["mae"] == pytest.approx(document["mean_mae"], rel=1e-9)
    with numbers.open() as file:
        targets = [0.0, *(float(row["y"]) for row in csv.DictReader(file))]
    assert document["last_value_mae"] == pytest.approx(np.mean(np.abs(np.diff(targets))))
    text = (out / "report.html").read_text()
    for words in (
        "MAE of modl",
        "RMSE",
        "MAE of mean",
        "last value",
        "Each learner&#39;s own error",
        "Weights at the end",
    ):
        assert words in text, words
    for words in ("Confusion", "Calibration", "classes"):
        assert words not in text.replace("--task classification", ""), words
    rows = list(csv.DictReader((out / "curve.csv").read_text().splitlines()))
    assert float(rows[-1]["absolute_error"]) > 0
    table = braided("run", str(numbers), "--metric", "r2", "--metric", "mae", "--limit", "200").stdout
    assert table.index("R2") < table.index("MAE")
    assert "RMSE" not in table


def test_the_task_can_be_given(numbers: Path, tmp_path: Path) -> None:
    few = write_csv(tmp_path / "few.csv", np.arange(60.0)[:, None], [t % 3 for t in range(60)])
    assert finished(Job(RunOptions(str(few), ("olr",)))).options.task == "classification"
    assert finished(Job(RunOptions(str(few), ("olr",), task="regression"))).options.task == "regression"
    many = write_csv(tmp_path / "many.csv", np.arange(60.0)[:, None], list(range(60)))
    assert finished(Job(RunOptions(str(many), ("olr",)))).options.task == "regression"
    job = finished(Job(RunOptions(str(many), ("olr",), task="classification")))
    assert job.document()["classes"] == 60
    text = "".join(json.dumps({"x": {"a": t}, "y": t + 0.5}) + "\n" for t in range(40))
    done = braided("run", "-", "--json", "-m", "olr", text=text)
    assert json.loads(done.stdout)["records"] == 40, "what was looked at is learned too"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "odl"], "model 'odl' is not for regression: use one of modl"),
        (["--model", "majority"], "model 'majority' is not for regression"),
        (["--model", "river-logistic", "--task", "regression"], "model 'river-logistic' is not for regression"),
        (["--model", "mean", "--task", "classification"], "model 'mean' is not for classification"),
        (["--metric", "kappa"], "--metric 'kappa' is not for regression: use one of mae, rmse, r2"),
        (["--metric", "kappa", "--task", "regression"], "--metric 'kappa' is not for regression"),
        (["--metric", "f2"], "--metric 'f2' is not known"),
        (["--task", "ranking"], "--task 'ranking' is not known: use one of auto, classification, regression"),
        (["--delay", "-1"], "--delay is -1: give a whole number from 0 on"),
        (["--predictions", "p.txt"], "give a file that ends in .csv, .jsonl, .parquet"),
        (["--predictions", "/no such folder/p.csv"], "--predictions /no such folder/p.csv: No such file"),
        (["--combiner", "moe", "--task", "regression"], "combiner 'moe'"),
    ],
)
def test_what_cannot_be_is_one_line(numbers: Path, arguments: list[str], message: str) -> None:
    done = braided("run", str(numbers), *arguments, "--json", code=2)
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_target_that_is_no_number_is_told(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "d.csv", np.arange(50.0)[:, None], [0.5] * 40 + ["high"] + [0.25] * 9)
    assert "the target of record 41 is 'high'" in braided("run", str(path), code=2).stderr, "nine in ten are numbers"
    arguments = ["run", str(path), "-m", "olr", "--task", "regression", "--json"]
    done = braided(*arguments, code=2)
    assert "the target of record 41 is 'high', and a regression needs numbers" in done.stderr
    skipped = json.loads(braided(*arguments, "--on-error", "skip").stdout)
    assert (skipped["records"], skipped["skipped_records"], skipped["unlabelled"]) == (49, 1, 0)
    missing = json.loads(braided(*arguments, "--on-error", "missing").stdout)
    assert (missing["records"], missing["unlabelled"]) == (49, 1)


def test_a_regression_resumes(numbers: Path, tmp_path: Path) -> None:
    options = RunOptions(str(numbers), ("modl-olr+mlp", "mean"), delay=13)
    straight = finished(Job(options))
    broken = Job(options, checkpoint=tmp_path / "c", every=0.0)
    next(broken.run())
    resumed = finished(Job(options, checkpoint=tmp_path / "c", resume=True))
    for one, other in zip(straight.finished, resumed.finished, strict=True):
        assert one.result["metrics"] == other.result["metrics"]
        assert one.result["state_sha256"] == other.result["state_sha256"]
    with pytest.raises(BraidedError, match="was made with delay = 13, and now it is 0"):
        Job(RunOptions(str(numbers), ("modl-olr+mlp", "mean")), checkpoint=tmp_path / "c", resume=True)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_what_was_looked_at_is_shuffled_too(task: str, classes: Path, numbers: Path) -> None:
    """The task found from the first records, or given, makes no difference to what is learned."""
    path = str(classes if task == "classification" else numbers)
    found, given = (
        finished(Job(RunOptions(path, ("olr",), shuffle=True, seeds=2, task=how))).finished for how in ("auto", task)
    )
    digests = [run.result["state_sha256"] for run in found]
    assert digests == [run.result["state_sha256"] for run in given]
    assert digests[0] != digests[1], "each seed has its own order"
    plain = finished(Job(RunOptions(path, ("olr",)))).finished[0].result["state_sha256"]
    assert plain not in digests


def test_what_does_not_fit_is_counted_once_whatever_the_seeds(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "d.csv", np.arange(50.0)[:, None], [0.5] * 40 + ["high"] + [0.25] * 9)
    for shuffle in (False, True):
        options = RunOptions(str(path), ("olr",), task="regression", on_error="skip", seeds=3, shuffle=shuffle)
        assert finished(Job(options)).document()["skipped_records"] == 1


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows of a file of predictions, whatever its kind, with text for what is there."""
    if path.suffix == ".parquet":
        parquet = pytest.importorskip(
            "pyarrow.parquet", reason="pyarrow is not installed: pip install 'braided[files]'"
        )
        rows = parquet.read_table(path).to_pylist()
    elif path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        rows = list(csv.DictReader(path.read_text().splitlines()))
    plain = []
    for row in rows:
        there = {name: value for name, value in row.items() if value not in (None, "")}
        plain.append({k: float(v) if k.startswith("p_") else str(v) for k, v in there.items()})
    return plain


def test_predictions_are_those_of_the_model(classes: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"p{ending}" for ending in (".csv", ".jsonl", ".parquet")]
    for path in paths:
        job = finished(Job(RunOptions(str(classes), ("olr",)), predictions=path))
    assert rows_of(paths[0]) == rows_of(paths[1]) == rows_of(paths[2])
    assert not (tmp_path / "p.parquet.part").exists()
    assert job.document()["unlabelled"] == 160
    model = job._fresh("olr", 0).model
    expected = []
    with classes.open() as file:
        for number, row in enumerate(csv.DictReader(file), start=1):
            label = row.pop("y")
            x = {name: float(value) for name, value in row.items() if value}
            said = model.predict_proba_one(x)  # type: ignore[attr-defined]
            entry: dict[str, Any] = {"record": str(number)} | ({"label": label} if label else {})
            if said:
                entry["prediction"] = max(said, key=said.__getitem__)
                entry |= {f"p_{name}": probability for name, probability in said.items()}
            expected.append(entry)
            if label:
                model.learn_one(x, label)  # type: ignore[attr-defined]
    assert rows_of(paths[0]) == expected


def test_predictions_of_several_runs_have_their_names(numbers: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    finished(Job(RunOptions(str(numbers), ("olr", "mean"), seeds=2, limit=50), predictions=path))
    rows = rows_of(path)
    assert list(rows[0]) == ["model", "seed", "record", "label", "prediction"]
    assert {(row["model"], row["seed"]) for row in rows} == {("olr", "0"), ("olr", "1"), ("mean", "0"), ("mean", "1")}
    assert len(rows) == 200


def kill_and_resume(classes: Path, tmp_path: Path, ending: str, waits: tuple[float, ...]) -> None:
    """Kill a run so many seconds after it went on, again and again: its predictions are those of a run in one go."""
    common = ["run", str(classes), "-m", "modl-olr+mlp", "-m", "majority", "--delay", "100", "--json"]
    straight = tmp_path / f"straight{ending}"
    expected = json.loads(braided(*common, "--predictions", str(straight)).stdout)
    path, checkpoint = tmp_path / f"broken{ending}", tmp_path / "c"
    again = [
        *common,
        "--predictions",
        str(path),
        "--checkpoint",
        str(checkpoint),
        "--checkpoint-every",
        "0",
        "--resume",
    ]
    kills = 0
    for wait in waits:
        process = subprocess.Popen(
            [sys.executable, "-m", "braided", *again], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns > before:
                time.sleep(wait)
                if process.poll() is None:
                    process.kill()
                    kills += 1
                break
            time.sleep(0.005)
        process.wait()
    assert kills >= 1
    found = json.loads(braided(*again).stdout)
    assert [run["errors"] for run in found["runs"]] == [run["errors"] for run in expected["runs"]]
    assert [run["metrics"] for run in found["runs"]] == [run["metrics"] for run in expected["runs"]]
    assert found["last_label_errors"] == expected["last_label_errors"]
    assert found["runs"][0]["state_sha256"] == expected["runs"][0]["state_sha256"]
    assert rows_of(path) == rows_of(straight)
    assert len(rows_of(path)) == 3_200


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_killed_and_resumed_predictions_are_whole(classes: Path, tmp_path: Path, ending: str) -> None:
    kill_and_resume(classes, tmp_path, ending, waits=(0.0, 0.1))


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_often_killed_and_resumed_predictions_are_whole(classes: Path, tmp_path: Path, ending: str) -> None:
    kill_and_resume(classes, tmp_path, ending, waits=(0.0, 0.05, 0.1, 0.2, 0.4))


def test_an_ended_run_and_its_predictions_resume(classes: Path, tmp_path: Path) -> None:
    options = RunOptions(str(classes), ("olr",))
    for ending in (".csv", ".jsonl", ".parquet"):
        path, checkpoint = tmp_path / f"p{ending}", tmp_path / f"c{ending}"
        finished(Job(options, checkpoint=checkpoint, predictions=path))
        before = rows_of(path)
        finished(Job(options, checkpoint=checkpoint, predictions=path, resume=True))
        assert rows_of(path) == before
        with pytest.raises(BraidedError, match="was made with --predictions"):
            Job(options, checkpoint=checkpoint, resume=True)
    finished(Job(options, checkpoint=tmp_path / "c"))
    with pytest.raises(BraidedError, match="was made without --predictions"):
        Job(options, checkpoint=tmp_path / "c", resume=True, predictions=tmp_path / "q.csv")
    assert not (tmp_path / "q.csv").exists()


def test_long_files_have_every_row(classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "_ROW_GROUP", 300)
    for ending in (".csv", ".parquet"):
        finished(Job(RunOptions(str(classes), ("majority",)), predictions=tmp_path / f"p{ending}"))
        assert [row["record"] for row in rows_of(tmp_path / f"p{ending}")] == [str(t) for t in range(1, 1_601)]


def test_labels_that_are_spelled_alike_have_columns_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps({"x": {"a": t}, "y": [1, "1"][t % 2]}) + "\n" for t in range(30)))
    finished(Job(RunOptions(str(path), ("olr",)), predictions=tmp_path / "p.jsonl"))
    last = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[-1])
    assert last["p_1"] + last["p_1 (str)"] == pytest.approx(1.0)


def test_a_file_of_predictions_is_cut_where_the_checkpoint_stands(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(b'record,label,prediction,p_a\r\n1,"two\r\nlines",a,1.0\r\n2,a,a,0.5\r\n3,a,')
    file = PredictionFile(path, several=False)
    file.begin(Written(1))
    file.close()
    assert path.read_bytes() == b'record,label,prediction,p_a\r\n1,"two\r\nlines",a,1.0\r\n'
    with pytest.raises(BraidedError, match="has fewer than the 5 rows that the checkpoint counts"):
        PredictionFile(path, several=False).begin(Written(5))


@pytest.mark.parametrize(
    "content", [b"some,other,file\n" * 20, b'{"a": 1}\n' * 20, b"\xff\xfe" * 40, b"", b'{"record": 1, "label'], ids=str
)
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_another_file_is_not_cut(content: bytes, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"p{ending}"
    path.write_bytes(content)
    with pytest.raises(BraidedError, match="is not the file that the run was writing"):
        PredictionFile(path, several=False).begin(Written(3))
    assert path.read_bytes() == content


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_predictions_have_the_id_of_their_record_also_when_resumed(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "clicks.jsonl"
    records = [{"event": 100 + t, "a": t % 7} | ({} if t % 3 else {"y": t % 2}) for t in range(1200)]
    del records[3]["event"]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    options = RunOptions(str(path), ("olr",), target="y", id="event")
    straight, broken = tmp_path / f"straight{ending}", tmp_path / f"broken{ending}"
    finished(Job(options, predictions=straight))
    expected = [str(record.get("event")) for record in records]
    assert [row.get("id", "None") for row in rows_of(straight)] == expected
    first = Job(options, checkpoint=tmp_path / "c", every=0.0, predictions=broken)
    next(steps := first.run())
    steps.close()
    finished(Job(options, checkpoint=tmp_path / "c", predictions=broken, resume=True))
    assert rows_of(broken) == rows_of(straight)


ODD = ["a,b", 'say "so"', "two\nlines", "a\rb", "\ud800", "x" * 140_000, 2**70, 1, "1", -3]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_odd_labels_are_written_and_resumed(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps({"x": {"a": t}, "y": ODD[min(t // 60, 9)]}) + "\n" for t in range(700)))
    options = RunOptions(str(path), ("majority", "olr"))
    straight, broken = tmp_path / f"straight{ending}", tmp_path / f"broken{ending}"
    finished(Job(options, predictions=straight))
    first = Job(options, checkpoint=tmp_path / "c", every=0.0, predictions=broken)
    for number, _ in enumerate(steps := first.run()):
        if number == 2:
            break
    steps.close()
    finished(Job(options, checkpoint=tmp_path / "c", predictions=broken, resume=True))
    if ending == ".parquet":
        assert rows_of(broken) == rows_of(straight)
    else:
        assert broken.read_bytes() == straight.read_bytes()
    if ending == ".csv":
        with straight.open(newline="", encoding="utf-8") as file:
            csv.field_size_limit(200_000)
            rows = list(csv.DictReader(file))
        assert len(rows) == 1_400
        assert rows[200]["label"] == "a\rb"
        assert all(None not in row and None not in row.values() for row in rows), "every row has every column"


def test_a_record_that_the_model_refuses_is_refused_again(tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "s.jsonl", tmp_path / "c"
    lines = [json.dumps({"x": {"a": t}, "y": "ab"[t % 2]}) for t in range(100)]
    path.write_text("\n".join(lines) + "\n")
    options = RunOptions(str(path), ("olr",), follow=True, idle=0.1, max_classes=2)
    finished(Job(options, checkpoint=checkpoint))
    more = [json.dumps({"x": {"a": t}, "y": "c" if t == 20 else "a"}) for t in range(100)]
    path.write_text("\n".join([*lines, *more]) + "\n")
    for _ in range(3):
        with pytest.raises(BraidedError, match="class 'c' would be number 3"):
            finished(Job(options, checkpoint=checkpoint, resume=True))
    with pytest.raises(BraidedError, match="takes no --on-error skip for a regression"):
        Job(RunOptions(str(path), ("olr",), follow=True, task="regression", on_error="skip"))


def test_files_are_kept_apart(classes: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.csv"
    shutil.copy(classes, copy)
    before = copy.read_bytes()
    for path, checkpoint in ((copy, None), (tmp_path / "p.csv", tmp_path / "p.csv")):
        with pytest.raises(BraidedError, match="give another file"):
            Job(RunOptions(str(copy), ("olr",)), predictions=path, checkpoint=checkpoint)
    assert copy.read_bytes() == before
    with pytest.raises(BraidedError, match="--checkpoint-every is nan"):
        Job(RunOptions(str(copy), ("olr",)), checkpoint=tmp_path / "c", every=float("nan"))


def test_absurd_targets_leave_json_that_can_be_read(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "d.csv", np.arange(40.0)[:, None], [1e308 if t % 2 else -1e308 for t in range(40)])
    done = braided("run", str(path), "--task", "regression", "-m", "olr", "-m", "mean", "--seeds", "2", "--json")
    document = json.loads(done.stdout, parse_constant=lambda word: pytest.fail(word))
    assert "Warning" not in done.stderr
    figures = [document["mean_mae"], document["last_value_mae"]]
    for run in document["runs"]:
        figures += [*run["metrics"].values(), *run["window_metrics"].values()]
        figures += [learner["mae"] for learner in run["learners"].values()]
    for summary in document["summary"].values():
        figures += [*summary["metrics"].values(), *summary["metrics_sd"].values()]
    assert None not in figures


def test_the_plain_guesses_are_late_too(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "d.csv", np.ones((6, 1)), ["a", "a", "b", "b", "b", "a"])
    document = finished(Job(RunOptions(str(path), ("olr",)))).document()
    assert (document["majority_errors"], document["last_label_errors"]) == (3, 3)
    late = finished(Job(RunOptions(str(path), ("olr",), delay=2))).document()
    assert (late["majority_errors"], late["last_label_errors"]) == (3, 5), "the majority class is of hindsight"
    path = write_csv(tmp_path / "n.csv", np.ones((4, 1)), [1.0, 3.0, 3.0, 7.0])
    document = finished(Job(RunOptions(str(path), ("olr",), task="regression"))).document()
    assert (document["mean_mae"], document["last_value_mae"]) == (pytest.approx((4 + 14 / 3) / 4), 7 / 4)
    late = finished(Job(RunOptions(str(path), ("olr",), task="regression", delay=2))).document()
    assert (late["mean_mae"], late["last_value_mae"]) == (11 / 4, 10 / 4)


def test_the_last_label_of_several_orders_is_their_mean(classes: Path) -> None:
    options = RunOptions(str(classes), ("olr",), seeds=3, shuffle=True, limit=300)
    job = finished(Job(options))
    each = [run.history.tally.totals[LAST] for run in job.finished]
    assert len(set(each)) > 1
    assert job.document()["last_label_errors"] == pytest.approx(np.mean(each))


def test_a_csv_that_was_not_ended_gets_its_columns(
    classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run dies between its last checkpoint and the end of its file, whose header has no classes yet."""
    options, checkpoint = RunOptions(str(classes), ("olr", "majority")), tmp_path / "c"
    straight, broken = tmp_path / "straight.csv", tmp_path / "broken.csv"
    finished(Job(options, predictions=straight))
    with monkeypatch.context() as dying:
        dying.setattr(PredictionFile, "_fill_csv", unfinished)
        with pytest.raises(KeyboardInterrupt):
            finished(Job(options, predictions=broken, checkpoint=checkpoint))
    assert "p_" not in broken.read_text().splitlines()[0]
    finished(Job(options, predictions=broken, checkpoint=checkpoint, resume=True))
    assert broken.read_text() == straight.read_text()


def unfinished(self: PredictionFile) -> None:
    raise KeyboardInterrupt


def test_a_preset_that_had_other_settings_is_refused(tmp_path: Path) -> None:
    values, labels = made_up(300)
    options = RunOptions(str(write_csv(tmp_path / "d.csv", values, labels.tolist())), ("olr",), available=0.7)
    finished(Job(options, checkpoint=tmp_path / "new", every=0.0))
    found = read(tmp_path / "new", *ESTIMATORS)
    found.metadata["run"]["preset"]["combiner"] = "ensemble"
    write(tmp_path / "new", found.kind, found.metadata, found.arrays)
    with pytest.raises(BraidedError, match="preset 'default' had other settings"):
        Job(options, checkpoint=tmp_path / "new", resume=True)
