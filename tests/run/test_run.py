"""`braided run` from the outside: output, errors, interruption."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from braided import MODLClassifier
from braided.datasets.catalogue import CATALOGUE
from braided.datasets.protocol import PAPER_SETTINGS
from braided.errors import BraidedError
from braided.evaluation import Evaluation
from braided.evaluation.curve import Curve
from braided.records import Records
from braided.run import Job, RunOptions
from braided.store import state_digest
from braided.streams import MASKS, ArrayStream
from command import braided
from conftest import made_up


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values, labels = made_up(1_200, classes=3)
    path = tmp_path_factory.mktemp("data") / "made_up.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"f{j}" for j in range(values.shape[1])), "label"])
        for row, label in zip(values, labels, strict=True):
            writer.writerow([*("" if np.isnan(v) else repr(float(v)) for v in row), label])
    return path


def test_json_is_one_document_with_the_promised_keys(csv_file: Path) -> None:
    done = braided("run", str(csv_file), "--seeds", "2", "--model", "modl", "--model", "olr", "--json")
    document = json.loads(done.stdout)
    assert {
        "stream",
        "records",
        "features",
        "classes",
        "majority_errors",
        "last_label_errors",
        "runs",
        "summary",
    } <= document.keys()
    assert (document["records"], document["features"], document["classes"]) == (1_200, 6, 3)
    assert [(run["model"], run["seed"]) for run in document["runs"]] == [
        ("modl", 0),
        ("modl", 1),
        ("olr", 0),
        ("olr", 1),
    ]
    for run in document["runs"]:
        keys = {"model", "preset", "seed", "errors", "error_rate", "seconds", "records_per_second", "learners"}
        assert keys <= run.keys()
        assert run["error_rate"] == run["errors"] / 1_200
        assert all(isinstance(learner["errors"], int) for learner in run["learners"].values())
    modl = [run["errors"] for run in document["runs"][:2]]
    assert document["summary"]["modl"]["errors_mean"] == np.mean(modl)
    assert document["summary"]["modl"]["errors_sd"] == pytest.approx(np.std(modl, ddof=1))
    assert document["summary"]["modl"]["errors_mean"] < document["majority_errors"]


def test_errors_are_those_of_predicting_before_learning(csv_file: Path) -> None:
    document = json.loads(braided("run", str(csv_file), "--json").stdout)
    model, errors, own = MODLClassifier(), 0, 0
    with csv_file.open() as file:
        for row in csv.DictReader(file):
            label = int(row.pop("label"))
            x = {name: float(value) if value else None for name, value in row.items()}
            errors += model.predict_one(x) != label
            if model.classes:
                scored = model.braid.last_scored()
                assert scored is not None
                fast = scored.scores[0] if len(model.classes) > 1 else np.array([1.0])
                own += model.classes[int(fast.argmax())] != label
            else:
                own += 1
            model.learn_one(x, label)
    run = document["runs"][0]
    assert run["errors"] == errors
    assert run["learners"]["olr"]["errors"] == own
    assert run["state_sha256"] == state_digest(model)


def test_out_holds_curve_metrics_and_picture(csv_file: Path, tmp_path: Path) -> None:
    done = braided("run", str(csv_file), "--out", str(tmp_path / "out"), "--json")
    document = json.loads(done.stdout)
    assert json.loads((tmp_path / "out" / "metrics.json").read_text()) == document
    rows = list(csv.DictReader((tmp_path / "out" / "curve.csv").read_text().splitlines()))
    assert int(rows[-1]["records"]) == 1_200
    assert int(rows[-1]["errors"]) == document["runs"][0]["errors"]
    assert int(rows[-1]["olr_errors"]) == document["runs"][0]["learners"]["olr"]["errors"]
    errors = [int(row["errors"]) for row in rows]
    assert errors == sorted(errors)
    assert (tmp_path / "out" / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_standard_input_gives_the_errors_of_the_file(csv_file: Path) -> None:
    with csv_file.open() as file:
        lines = []
        for row in csv.DictReader(file):
            label = int(row.pop("label"))
            lines.append(json.dumps({"x": {k: float(v) for k, v in row.items() if v}, "y": label}))
    text = "\n".join(lines)
    expected = json.loads(braided("run", str(csv_file), "--json").stdout)["runs"][0]
    found = json.loads(braided("run", "-", "--json", text=text).stdout)["runs"][0]
    assert (found["errors"], found["learners"]) == (expected["errors"], expected["learners"])
    twice = json.loads(braided("run", "-", "--json", "--seeds", "2", "--available", "0.5", text=text).stdout)
    masked = json.loads(braided("run", str(csv_file), "--json", "--seeds", "2", "--available", "0.5").stdout)
    assert [run["errors"] for run in twice["runs"]] == [run["errors"] for run in masked["runs"]]
    base = ["--always", "2", "--model", "auxdrop-odl", "--json"]
    expected = json.loads(braided("run", str(csv_file), *base).stdout)["runs"][0]
    assert json.loads(braided("run", "-", *base, text=text).stdout)["runs"][0]["errors"] == expected["errors"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "stream 'nothing' is neither a file nor a folder nor a data set"),
        (["nothing.csv"], "braided: nothing.csv: no such file or folder: give one that is there"),
        (["{csv}", "--target", "colour"], "there is no column 'colour'"),
        (["{csv}", "--model", "oracle"], "model 'oracle' is not known: use one of modl"),
        (["{csv}", "--preset", "best"], "preset 'best' is not known"),
        (
            ["{csv}", "--model", "forest", "--preset", "paper"],
            "preset 'paper' has no learner 'forest' for classification",
        ),
        (["{csv}", "--combiner", "vote"], "combiner 'vote' is not known"),
        (["{csv}", "--available", "1.5"], "--available is 1.5: give a probability"),
        (["{csv}", "--mask", "fog"], "--mask 'fog' is not known: use one of iid, trapezoidal, sudden, burst, value"),
        (["{csv}", "--mask", "burst"], "--mask burst hides nothing at --available 1"),
        (["{csv}", "--mask", "sudden", "--available", "0.5"], "give --limit N"),
        (["{csv}", "--seeds", "0"], "--seeds is 0"),
        (["{csv}", "--limit", "0"], "--limit is 0"),
        (["{csv}", "--seed", "99999999999999999999999"], "use a whole number from 0 to 2**63 - 1"),
        (["{csv}", "--max-features", "3"], "would be number 4, and max_features is 3"),
        (["{csv}", "--max-classes", "2"], "would be number 3, and max_classes is 2"),
        (["{csv}", "--model", "olvf"], "olvf takes 2 classes only"),
        (["{csv}", "--option", "speed=1"], "--option 'speed=1': give NAME=VALUE with one of"),
        (["{csv}", "--option", "hidden=5", "--model", "olvf"], "give NAME=VALUE with one of aggressiveness"),
        (["{csv}", "--option", "hidden=5", "--model", "majority"], "--option 'hidden=5' has no effect on majority"),
        (["{csv}", "--combiner", "moe", "--model", "river-arf"], "--combiner 'moe' has no effect on river-arf"),
        (["{csv}", "--option", "learning_rate=fast"], "the value must be like"),
        (["{csv}", "--option", "learning_rate=-1"], "learning_rate is -1.0: use a finite number of at least 0.0"),
        (["{csv}", "--checkpoint", "."], "checkpoint . cannot be written"),
        (["x" * 300], "File name too long"),
        (["{csv}", "--resume"], "--resume needs --checkpoint FILE"),
        (["{csv}", "--resume", "--checkpoint", "{csv}"], "is not a braided checkpoint"),
        (["{csv}", "--checkpoint", "/no such folder/c"], "cannot be written"),
        (["{csv}", "--out", "{csv}"], "is a file: give a folder"),
        (["magic04", "--data-dir", "/no such folder"], "or put magic04.data ("),
        (["{ragged}"], "ragged.csv:902: 1 field where 7 are expected"),
        (["{empty}"], "has no records"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    csv_file: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    lines = csv_file.read_text().splitlines()
    ragged, empty = tmp_path / "ragged.csv", tmp_path / "empty.csv"
    ragged.write_text("\n".join([*lines[:901], "1"]) + "\n")
    empty.write_text(lines[0] + "\n")
    places = {"csv": csv_file, "ragged": ragged, "empty": empty}
    out = tmp_path / "out"
    filled = [argument.format(**places) for argument in arguments]
    done = braided("run", *(filled if "--out" in filled else [*filled, "--out", str(out)]), "--json", code=2)
    assert done.stdout == ""
    told = [line for line in done.stderr.splitlines() if not line.startswith(("6 numeric, target label: ", "  "))]
    assert len(told) == 1, done.stderr
    assert message in told[0]
    assert "Traceback" not in done.stderr
    assert not out.exists(), "no partial output"


def shuttle_run(folder: Path, *more: str) -> list[str]:
    common = ["--limit", "4000", "--seeds", "2", "--json", "--checkpoint-every", "0"]
    return ["run", *common, "--checkpoint", str(folder / "checkpoint"), "--out", str(folder / "out"), *more]


def without_times(document: dict[str, Any]) -> dict[str, Any]:
    runs = [{k: v for k, v in run.items() if k not in {"seconds", "records_per_second"}} for run in document["runs"]]
    return {**document, "runs": runs, "summary": {k: v["errors_mean"] for k, v in document["summary"].items()}}


def test_killed_and_resumed_is_as_if_nothing_had_happened(tmp_path: Path) -> None:
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    straight.mkdir()
    broken.mkdir()
    expected = json.loads(braided(*shuttle_run(straight)).stdout)
    kills = 0
    for delay in (0.15, 0.45):
        process = subprocess.Popen(
            [sys.executable, "-m", "braided", *shuttle_run(broken, "--resume")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        before = (broken / "checkpoint").stat().st_mtime_ns if (broken / "checkpoint").exists() else 0
        while process.poll() is None:
            if (broken / "checkpoint").exists() and (broken / "checkpoint").stat().st_mtime_ns > before:
                time.sleep(delay)
                if process.poll() is None:
                    process.kill()
                    kills += 1
                break
            time.sleep(0.01)
        process.wait()
        assert not (broken / "out").exists() or process.returncode == 0
    assert kills >= 1
    resumed = json.loads(braided(*shuttle_run(broken, "--resume")).stdout)
    assert without_times(resumed) == without_times(expected)
    assert (broken / "out" / "curve.csv").read_bytes() == (straight / "out" / "curve.csv").read_bytes()
    one, other = (MODLClassifier.load(folder / "checkpoint") for folder in (straight, broken))
    assert state_digest(one) == state_digest(other) == expected["runs"][-1]["state_sha256"]
    for name, array in one.braid.state().items():
        np.testing.assert_array_equal(array, other.braid.state()[name], err_msg=name)


@pytest.mark.parametrize("mask", MASKS)
def test_a_run_resumes_under_every_mask(mask: str, csv_file: Path, tmp_path: Path) -> None:
    options = RunOptions(stream=str(csv_file), mask=mask, available=0.6, always=1, limit=1_100, models=("olr",))
    straight = Job(options)
    for _ in straight.run():
        pass
    broken = Job(options, checkpoint=tmp_path / "c", every=0.0)
    next(steps := broken.run())
    next(steps)
    resumed = Job(options, checkpoint=tmp_path / "c", resume=True)
    for _ in resumed.run():
        pass
    expected, found = (job.document()["runs"][0] for job in (straight, resumed))
    assert (found["errors"], found["state_sha256"]) == (expected["errors"], expected["state_sha256"])
    assert resumed.document()["mask"] == mask
    plain = Job(RunOptions(stream=str(csv_file), limit=1_100, models=("olr",)))
    for _ in plain.run():
        pass
    assert plain.document()["runs"][0]["errors"] != expected["errors"], "the mask hides something"


def test_a_sample_is_told(excerpts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # a full file there would be taken
    job = Job(RunOptions(stream="higgs", limit=500, models=("olr",)), excerpts)
    for _ in job.run():
        pass
    assert job.document()["sample"]
    assert not job.document()["as_published"]


@pytest.mark.parametrize(("stream", "features"), [("mnist", 784), ("imnist", 784), ("cifar10", 3_072)])
def test_images_run_under_the_papers_presets(stream: str, features: int, excerpts: Path) -> None:
    for preset in ("paper", "released"):
        job = Job(RunOptions(stream=stream, limit=60, preset=preset), excerpts)
        for _ in job.run():
            pass
        document = job.document()
        assert (document["features"], document["classes"]) == (features, 10)
        assert all(learner["skipped"] == 0 for learner in document["runs"][0]["learners"].values())


def test_a_finished_run_resumes_to_its_results(csv_file: Path, tmp_path: Path) -> None:
    arguments = ["run", str(csv_file), "--json", "--checkpoint", str(tmp_path / "c"), "--resume"]
    first = braided(*arguments)
    assert "no checkpoint at" in first.stderr
    second = braided(*arguments)
    assert json.loads(second.stdout) == json.loads(first.stdout)
    changed = braided(*arguments, "--available", "0.5", code=2)
    assert "was made with available = 1.0, and now it is 0.5" in changed.stderr


def test_a_model_checkpoint_is_not_a_run(csv_file: Path, tmp_path: Path) -> None:
    MODLClassifier().save(tmp_path / "model")
    options = RunOptions(stream=str(csv_file))
    with pytest.raises(BraidedError, match="holds a model but no run"):
        Job(options, checkpoint=tmp_path / "model", resume=True)


def test_limits_count_the_streams_own_features_and_classes_alone(csv_file: Path) -> None:
    exact = ["--max-features", "6", "--max-classes", "3", "--limit", "50", "--json"]
    assert json.loads(braided("run", str(csv_file), *exact).stdout)["features"] == 6


def test_an_option_may_concern_some_of_the_models(csv_file: Path) -> None:
    both = ["--model", "olr", "--model", "mlp", "--model", "majority", "--option", "hidden=9", "--limit", "50"]
    assert len(json.loads(braided("run", str(csv_file), *both, "--json").stdout)["runs"]) == 3


def test_published_figures_stand_beside_their_own_protocol_alone() -> None:
    assert RunOptions("german").resolved().as_published
    for other in (
        RunOptions("german", limit=500),
        RunOptions("german", available=0.5),
        RunOptions("german", mask="burst"),
        RunOptions("german", shuffle=False),
        RunOptions("german", combiner="moe"),
        RunOptions("german", options=("learning_rate=0.5",)),
        RunOptions("shuttle"),
    ):
        assert not other.resolved().as_published


def test_a_table_for_people(csv_file: Path) -> None:
    done = braided("run", str(csv_file), "--limit", "600")
    for word in ("majority class", "last label", "modl", "olr alone", "600 records"):
        assert word in " ".join(done.stdout.split())


def test_version_and_help() -> None:
    assert braided("--version").stdout.startswith("braided ")
    assert "--available" in braided("run", "--help").stdout


def test_the_protocol_of_a_data_set_is_its_default() -> None:
    options = RunOptions(stream="higgs", seeds=2).resolved()
    assert (options.available, options.always, options.shuffle) == (0.5, 5, False)
    options = RunOptions(stream="magic04", available=0.9).resolved()
    assert (options.available, options.always, options.shuffle) == (0.9, 2, True)
    options = RunOptions().resolved()
    assert (options.stream, options.available, options.always) == ("shuttle", 0.5, 0)
    assert set(PAPER_SETTINGS) <= set(CATALOGUE)
    options = RunOptions(stream="wdbc").resolved()  # of another paper
    assert (options.available, options.always, options.shuffle) == (1.0, 0, False)


def test_the_curve_thins_itself_and_ends_at_the_last_record() -> None:
    curve = Curve(width=2)
    rng = np.random.default_rng(0)
    total = 0
    for n in (1_000, 1, 7_777, 300):
        wrong = rng.random(n) < 0.5
        curve.extend(np.column_stack([wrong, wrong]).astype(float))
        total += int(wrong.sum())
    table = curve.table()
    assert len(table) <= 2_001
    assert table[-1].tolist() == [9_078, total, total]
    assert (np.diff(table[:-1, 0]) == curve.interval).all()


def test_resuming_on_a_changed_file_is_refused(csv_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.csv"
    copy.write_bytes(csv_file.read_bytes())
    arguments = ["run", str(copy), "--checkpoint", str(tmp_path / "c"), "--resume", "--json"]
    braided(*arguments)
    copy.write_text("\n".join(copy.read_text().splitlines()[:100]))
    done = braided(*arguments, code=2)
    assert "was made from another file" in done.stderr


def test_a_file_that_grows_while_it_is_read_is_noticed_on_resuming(csv_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.csv"
    copy.write_bytes(csv_file.read_bytes())
    options = RunOptions(stream=str(copy))
    steps = Job(options, checkpoint=tmp_path / "c", every=0.0).run()
    next(steps)
    with copy.open("a") as file:
        file.write(copy.read_text().splitlines()[-1] + "\n")
    next(steps)  # its checkpoint is of a file of which nobody knows how much was read
    steps.close()
    with pytest.raises(BraidedError, match=r"copy\.csv has changed since"):
        Job(options, checkpoint=tmp_path / "c", resume=True)


def test_the_file_is_fingerprinted_once(csv_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []
    monkeypatch.setattr("braided.run.checkpoint.fingerprint", lambda *given: taken.append(given) or "print")
    options = RunOptions(stream=str(csv_file))
    list(Job(options, checkpoint=tmp_path / "c", every=0.0).run())
    assert len(taken) == 1
    assert Job(options, checkpoint=tmp_path / "c", resume=True).finished


@pytest.fixture
def ended_process() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_what_a_killed_run_left_beside_its_files_is_removed(csv_file: Path, tmp_path: Path, ended_process: int) -> None:
    (tmp_path / "out").mkdir()
    targets = [tmp_path / "[c]", tmp_path / "p.csv", tmp_path / "out" / "report.html"]
    left = [target.with_name(f".{target.name}.{ended_process}.tmp") for target in targets]
    another = [tmp_path / f".[c].{os.getppid()}.tmp", tmp_path / f".c.{ended_process}.tmp", tmp_path / ".[c].old.tmp"]
    for path in [*left, *another]:
        path.write_text("half of it")
    out = ["--checkpoint", str(targets[0]), "--predictions", str(targets[1]), "--out", str(tmp_path / "out")]
    braided("run", str(csv_file), "--limit", "100", *out)
    assert [path.exists() for path in left] == [False] * 3
    assert all(path.exists() for path in another)  # of a process that runs, and of other files


def test_a_checkpoint_that_takes_long_leaves_time_for_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, saved = [0.0], []
    monkeypatch.setattr("braided.run.job.time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr("braided.streams.base.BATCH", 5)

    def save(*_: Any, **__: Any) -> None:
        saved.append(clock[0])
        clock[0] += 3.0

    for every, expected in ((2.0, [2.0, 20.0, 38.0]), (0.0, [0.0, 4.0, 8.0, 12.0])):
        job = Job(
            RunOptions(models=("olr",), available=1.0, task="classification"),
            source=ArrayStream("s", Records(("a",), np.arange(200.0)[:, None], [0, 1] * 100)),
            checkpoint=tmp_path / f"c{every}",
            every=every,
        )
        assert job._checkpoint is not None
        monkeypatch.setattr(job._checkpoint, "save", save)
        clock[0], job._saved = 0.0, 0.0
        saved.clear()
        for _ in job.run():
            clock[0] += 1.0
        assert saved[: len(expected)] == expected, "five times as long as it took, unless after every batch"


def test_a_stream_shorter_than_the_checkpoint_is_refused() -> None:
    evaluation = Evaluation(MODLClassifier())
    table = Records(("a",), np.zeros((10, 1)), [0, 1] * 5)
    evaluation.observe(table)
    with pytest.raises(BraidedError, match="ends 4 records before"):
        list(evaluation.run(ArrayStream("short", table.part(0, 6))))


def test_names_with_markup_and_formulas_are_printed_as_they_are(csv_file: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a[red]b$x_{$[/b].csv"
    odd.parent.mkdir(parents=True, exist_ok=True)
    folder = tmp_path / "o[" / "x]"
    odd = tmp_path / "a[red]b$x_{$.csv"
    odd.write_bytes(csv_file.read_bytes())
    done = braided("run", str(odd), "--limit", "100", "--out", str(folder))
    assert "[red]b$x_{$.csv" in done.stdout.replace("\n", "").replace(" ", "")
    assert (folder / "curve.png").exists()


def test_closed_standard_input_is_one_line() -> None:
    done = subprocess.run(
        f"{sys.executable} -m braided run - <&-", shell=True, capture_output=True, text=True, timeout=120
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("model", ["river-logistic", "majority"])
def test_rivers_models_resume_by_starting_the_unfinished_run_over(model: str, csv_file: Path, tmp_path: Path) -> None:
    arguments = ["run", str(csv_file), "--json", "--model", model, "--seeds", "2", "--checkpoint", str(tmp_path / "c")]
    first = json.loads(braided(*arguments).stdout)
    second = json.loads(braided(*arguments, "--resume").stdout)
    assert first == second
    assert first["runs"][0]["learners"] == {}


def test_a_decision_on_the_command_line(tmp_path: Path) -> None:
    rows = ["a,label", *(f"{i % 7},{'rare' if i % 7 > 5 and i % 2 else 'usual'}" for i in range(400))]
    (tmp_path / "s.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "costs.json").write_text('{"rare": {"usual": 30}}')
    found = {}
    for name, more in {
        "plain": [],
        "balanced": ["--decision", "balanced"],
        "costs": ["--costs", str(tmp_path / "costs.json")],
        "weights": ["--class-weight", '{"rare": 30}'],
    }.items():
        done = braided("run", str(tmp_path / "s.csv"), "-m", "olr", "--json", *more)
        found[name] = json.loads(done.stdout)["runs"][0]
        assert json.loads(done.stdout)["warnings"] == []
    slip = ("--class-weight", '{"rrare": 30}', "--costs", '{"rare": {"usaul": 3, "rrare": 2}}')
    done = braided("run", str(tmp_path / "s.csv"), "-m", "olr", "--json", *slip)
    warned = [
        "--class-weight names a label that no record has: 'rrare'",
        "--costs names 2 labels that no record has: 'usaul', 'rrare'",
    ]
    assert json.loads(done.stdout)["warnings"] == warned
    assert all(f"warning: {line}\n" in done.stderr for line in warned)
    for name in ("balanced", "costs", "weights"):
        assert found[name]["metrics"]["balanced_accuracy"] > found["plain"]["metrics"]["balanced_accuracy"]
        assert found[name]["metrics"]["log_loss"] == found["plain"]["metrics"]["log_loss"]
        assert found[name]["learners"]["olr"] == found["plain"]["learners"]["olr"]
    for more, told in {
        ("--costs", "nowhere.json"): "--costs nowhere.json is no JSON object, and no file",
        ("--costs", "{"): "--costs is '{': give a JSON object",
        ("--decision", "fair"): "decision 'fair' is not known",
        ("--decision", "balanced", "--task", "regression"): "are for classes",
        ("--decision", "balanced", "-m", "majority"): "has no effect on majority",
    }.items():
        model = [] if "-m" in more else ["-m", "olr"]
        done = braided("run", str(tmp_path / "s.csv"), *model, *more, code=2)
        assert told in " ".join(done.stderr.split())


def test_importance_is_of_columns(tmp_path: Path) -> None:
    rows = [f"{'rgb'[i % 3]},2024-01-{1 + i % 28:02d},{i % 7},{'yn'[i % 3 == 0]}" for i in range(300)]
    (tmp_path / "raw.csv").write_text("\n".join(["kind,at,t,label", *rows]) + "\n")
    job = Job(RunOptions(str(tmp_path / "raw.csv"), preset="lean"), checkpoint=tmp_path / "checkpoint")
    for _ in job.run():
        pass
    found = [one.feature for one in job.finished[0].history.importance()]
    assert sorted(found) == ["at", "kind", "t"]
    assert found[0] == "kind"
    again = Job(RunOptions(str(tmp_path / "raw.csv"), preset="lean"), checkpoint=tmp_path / "checkpoint", resume=True)
    assert again.finished[0].history.importance() == job.finished[0].history.importance()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_what_was_said_of_records_that_wait_is_in_the_checkpoint(task: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, y = rng.normal(size=700), np.cumsum(rng.normal(size=700))
    labels = y if task == "regression" else np.round(y / 6) % 3
    lines = [f"{one:.4f},{label:.4f}" for one, label in zip(a, labels, strict=True)]
    (tmp_path / "walk.csv").write_text("\n".join(["a,y", *lines]) + "\n")
    options = RunOptions(str(tmp_path / "walk.csv"), preset="lean", task=task, delay=20)
    whole = Job(options)
    list(whole.run())
    broken = Job(options, checkpoint=tmp_path / "checkpoint", every=0.0)
    steps = broken.run()
    next(steps)
    steps.close()
    resumed = Job(options, checkpoint=tmp_path / "checkpoint", resume=True)
    list(resumed.run())
    one, two = (job.finished[0].result for job in (whole, resumed))
    assert one["coverage"] == two["coverage"]
    assert one["state_sha256"] == two["state_sha256"]
    assert one["coverage"]["0.9"] == pytest.approx(0.9, abs=0.05)
