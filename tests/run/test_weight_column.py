"""`--weight COLUMN`: records count as the column says, which is no feature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import MODLClassifier, zoo
from braided.encode.rules import ReadingCounts
from braided.encode.saved import summary
from braided.errors import BraidedError
from braided.run import Job, ReadingOptions, RunOptions
from braided.serve.feed import FeedSettings, json_lines
from braided.store import state_digest
from command import braided
from conftest import made_up

VALUES, LABELS = made_up(700, d=3)
WEIGHTS = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 4.0], size=700)
#: What a service says of a model that takes numbers, and of one that has rules for raw records.
NUMBERS: dict[str, Any] = {"task": "classification"}
RAW: dict[str, Any] = {"task": "classification", "encode": {}}


def write(path: Path, weights: Any = WEIGHTS) -> Path:
    rows = ["a,cost,b,c,y"]
    for (a, b, c), w, y in zip(VALUES.tolist(), weights, LABELS.tolist(), strict=True):
        cells = ["" if v != v else repr(v) for v in (a, float(w), b, c)]
        rows.append(",".join([*cells, str(y)]))
    path.write_text("\n".join(rows) + "\n")
    return path


def finished(job: Job) -> Job:
    for _ in job.run():
        pass
    return job


def digest(job: Job) -> Any:
    return job.document()["runs"][0]["state_sha256"]


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("weights") / "records.csv")


def options(stream: Path, **more: Any) -> RunOptions:
    return RunOptions(stream=str(stream), models=("olr",), target="y", weight="cost", **more)


def test_a_run_learns_the_weights_and_the_column_is_no_feature(stream: Path) -> None:
    job = finished(Job(options(stream)))
    plain = finished(Job(RunOptions(stream=str(stream), models=("olr",), target="y", drop=("cost",))))
    assert job.n_features == plain.n_features == 3
    assert digest(job) != digest(plain)
    assert job.document()["records"] == 700, "records are counted, not weights"
    ours: Any = zoo.build("olr", job.options.model_options(0))
    ours.learn_many(VALUES, LABELS, ["a", "b", "c"], sample_weight=WEIGHTS)
    assert state_digest(ours) == digest(job)


@pytest.mark.parametrize("more", [{"shuffle": True}, {"available": 0.6}, {"delay": 7}, {"always": 2, "available": 0.5}])
def test_weights_go_with_their_records(stream: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    """All weights alike are as one weight in the command, however records are ordered, masked or late."""
    twos = write(tmp_path / "twos.csv", np.full(700, 2.0))
    empty = write(tmp_path / "empty.csv", np.full(700, np.nan))
    plain = finished(Job(RunOptions(stream=str(stream), models=("olr",), target="y", drop=("cost",), **more)))
    assert digest(finished(Job(options(empty, **more)))) == digest(plain), "an empty cell is the weight 1"
    different = [digest(finished(Job(options(path, **more)))) for path in (stream, twos)]
    assert len({*different, digest(plain)}) == 3


def test_a_run_with_late_labels_and_weights_is_resumed_bit_for_bit(stream: Path, tmp_path: Path) -> None:
    late = options(stream, delay=20)
    whole = finished(Job(late))
    checkpoint = tmp_path / "run.checkpoint"
    first = Job(late, checkpoint=checkpoint, every=0.0).run()
    next(first)
    first.close()
    resumed = finished(Job(late, checkpoint=checkpoint, resume=True))
    assert digest(resumed) == digest(whole)
    with pytest.raises(BraidedError, match="weight = 'cost', and now it is None"):
        Job(RunOptions(stream=str(stream), models=("olr",), target="y", delay=20), checkpoint=checkpoint, resume=True)


def test_what_is_no_weight_is_refused_by_name_or_passed_over(stream: Path, tmp_path: Path) -> None:
    wrong = WEIGHTS.copy()
    wrong[[3, 600]] = -1.0
    path = write(tmp_path / "wrong.csv", wrong)
    done = braided("run", str(path), "--target", "y", "--weight", "cost", "-m", "olr", code=2)
    assert "wrong.csv:5: column 'cost' is -1.0: a weight is a number from 0 on; --" in done.stderr
    assert "Traceback" not in done.stderr
    skipped = finished(Job(options(path, on_error="skip"))).document()
    assert (skipped["records"], skipped["skipped_records"]) == (698, 2)
    taken = finished(Job(options(path, on_error="missing"))).document()
    assert (taken["records"], taken["misfit_values"]) == (700, 2)
    with pytest.raises(BraidedError, match=r"--weight 'price': .* has no such column of numbers \(it has a, cost"):
        finished(Job(RunOptions(stream=str(stream), models=("olr",), target="y", weight="price")))


@pytest.mark.parametrize(("on_error", "records"), [("skip", 698), ("missing", 700)])
def test_a_followed_file_goes_on_after_what_is_no_weight(tmp_path: Path, on_error: str, records: int) -> None:
    wrong = WEIGHTS.copy()
    wrong[[3, 600]] = -1.0
    path = write(tmp_path / "wrong.csv", wrong)
    lines_ = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines_[:650]))
    asked = options(path, on_error=on_error, follow=True, idle=0.2, task="classification")
    finished(Job(asked, checkpoint=tmp_path / "c"))
    with path.open("a") as file:
        file.writelines(lines_[650:])
    found = finished(Job(asked, checkpoint=tmp_path / "c", resume=True))
    assert found.document()["records"] == records
    assert digest(found) == digest(finished(Job(options(path, on_error=on_error))))


def test_river_models_take_weights_if_they_can(stream: Path) -> None:
    tree = RunOptions(stream=str(stream), models=("river-tree",), target="y", weight="cost")
    assert finished(Job(tree)).document()["records"] == 700
    with pytest.raises(BraidedError, match="takes no weights: leave them out, or use another model"):
        finished(Job(RunOptions(stream=str(stream), models=("majority",), target="y", weight="cost")))


def test_a_feed_sends_the_weights_under_a_client_of_its_own(stream: Path) -> None:
    reading = ReadingOptions(target="y", weight="cost")
    opened = reading.open(str(stream), None, reading.rules())
    sent = [json.loads(line) for line in json_lines(opened, reading, ReadingCounts(), NUMBERS)]
    assert [record["w"] for record in sent] == WEIGHTS.tolist()
    assert set().union(*(record["x"] for record in sent)) == {"a", "b", "c"}
    to = "http://127.0.0.1:1/models/m"
    plain = FeedSettings(str(stream), to, reading=ReadingOptions(target="y"))
    assert FeedSettings(str(stream), to, reading=reading).client_name() != plain.client_name()


def test_a_feed_sends_raw_records_with_their_weights(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a;w;y\nred;1,5;0\nblue;;1\n;0;0\n")
    reading = ReadingOptions(weight="w")
    stream = reading.open(str(path), None, reading.rules())
    assert [json.loads(line) for line in json_lines(stream, reading, ReadingCounts(), RAW)] == [
        {"x": {"a": "red"}, "y": 0, "w": 1.5},
        {"x": {"a": "blue"}, "y": 1, "w": 1.0},
        {"x": {}, "y": 0, "w": 0.0},
    ]
    for reading, message in (
        (ReadingOptions(weight="v"), "`weight` .v.: there is no such column: choose it from a, w"),
        (ReadingOptions(weight="a"), "d.csv:2: column .a.: is .red.: features must be numbers"),
    ):
        with pytest.raises(BraidedError, match=message):
            list(json_lines(reading.open(str(path), None, reading.rules()), reading, ReadingCounts(), RAW))


def test_the_model_of_a_run_knows_its_weight_column(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,w,y\n" + "".join(f"{i % 7},{i % 3},{i % 2}\n" for i in range(60)))
    finished(Job(RunOptions(stream=str(path), preset="lean", weight="w"), checkpoint=tmp_path / "saved"))
    model = MODLClassifier.load(tmp_path / "saved")
    assert model.predict_proba_one({"a": "3", "w": "2"}) == model.predict_proba_one({"a": "3"})
    model.learn_one({"a": "3", "w": "2", "y": "1"}, 1)
    assert model.feature_names == ["a"]
    rules: Any = model.encoder
    columns = {column["name"]: column["read_as"] for column in summary(rules)["columns"]}
    assert (columns, summary(rules)["rules"]["weight"]) == ({"a": "number", "w": "weight"}, "w")


def test_weights_may_be_0_where_a_stream_begins(tmp_path: Path) -> None:
    weights = np.ones(700)
    weights[:600] = 0.0
    late = finished(Job(options(write(tmp_path / "late.csv", weights))))
    ours: Any = zoo.build("olr", late.options.model_options(0))
    ours.learn_many(VALUES, LABELS, ["a", "b", "c"], sample_weight=weights)
    assert state_digest(ours) == digest(late)


def test_a_model_whose_weights_are_one_column_too_many_can_be_loaded(stream: Path, tmp_path: Path) -> None:
    finished(Job(options(stream, max_features=3), checkpoint=tmp_path / "c"))
    assert MODLClassifier.load(tmp_path / "c").n_features == 3
