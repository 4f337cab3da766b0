"""Labels that come later on their own, under the ID of their record."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, zoo
from braided.estimators.digest import state_digest
from braided.evaluation.late_labels import LateLabels
from braided.records import Predictions
from braided.run import Job, RunOptions
from braided.streams.base import Batch, LateLabel, RecordID


def lines_and_order(n: int, regression: bool) -> tuple[list[str], list[tuple[str, dict[str, float], Any]]]:
    """JSON lines of which half have their label at once; and what a model is to predict and learn, in order."""
    draw = random.Random(3)
    lines: list[str] = []
    order: list[tuple[str, dict[str, float], Any]] = []
    due: list[tuple[int, int, dict[str, float], Any]] = []
    for number in range(n):
        x = {name: round(draw.gauss(0, 1), 3) for name in "abc" if draw.random() < 0.8}
        y: Any = sum(x.values()) if regression else "up" if sum(x.values()) > 0 else "down"
        if draw.random() < 0.5:
            lines.append(json.dumps({"x": x, "y": y}))
            order.append(("both", x, y))
        else:
            lines.append(json.dumps({"x": x, "id": number}))
            order.append(("predict", x, number))
            due.append((number + draw.randrange(1, 40), number, x, y))
        for _, name, late, label in [item for item in due if item[0] == number]:
            lines.append(json.dumps({"id": name, "y": label}))
            order.append(("learn", late, (name, label)))
    return lines, order


def run(path: Path, **more: Any) -> dict[str, Any]:
    job = Job(RunOptions(stream=str(path), models=("olr",), **more))
    for _ in job.run():
        pass
    return job.document()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_late_label_is_learned_when_it_comes_and_judged_by_what_was_said(task: str, tmp_path: Path) -> None:
    lines, order = lines_and_order(400, task == "regression")
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(lines))
    found = run(path, task=task)
    model = zoo.build("olr", RunOptions(models=("olr",), task=task, stream=str(path)).resolved().model_options(0))
    said: dict[int, Any] = {}
    losses = []
    for what, x, y in order:
        row = np.array([list(x.values())])
        if what == "predict":
            said[y] = model.predict_one(x), model.progress_many(row, list(x))
            continue
        number, label = y if what == "learn" else (None, y)
        answer, then = said.pop(number) if what == "learn" else (model.predict_one(x), None)
        losses.append(abs((answer or 0.0) - label) if task == "regression" else answer != label)
        model.learn_many(row, [label], list(x), said=then)
    assert found["runs"][0]["state_sha256"] == state_digest(model)
    assert (found["records"], found["unlabelled"]) == (len(losses), len(said))
    if task == "regression":
        assert found["runs"][0]["metrics"]["mae"] == pytest.approx(np.mean(losses))
    else:
        assert found["runs"][0]["errors"] == sum(losses)
    counts = found["runs"][0]["late_labels"]
    assert counts["joined"] + counts["waiting"] == counts["asked"] == sum(what == "predict" for what, _, _ in order)


@pytest.mark.parametrize("steps", [1, 30, 150])
def test_a_broken_off_file_is_gone_on_with(steps: int, tmp_path: Path) -> None:
    lines, _ = lines_and_order(700, regression=False)
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(lines))
    options = RunOptions(stream=str(path), models=("olr",), task="classification", late_count=9)
    straight = run(path, task="classification", late_count=9)
    broken = Job(options, checkpoint=tmp_path / "c", every=0.0).run()
    for _ in range(steps):
        next(broken)
    broken.close()  # type: ignore[attr-defined]
    resumed = Job(options, checkpoint=tmp_path / "c", resume=True)
    for _ in resumed.run():
        pass
    for name in ("errors", "state_sha256", "late_labels", "metrics"):
        assert resumed.document()["runs"][0][name] == straight["runs"][0][name], name


@pytest.mark.parametrize(
    "more",
    [
        {"share": "none"},
        {"share": "none", "max_keys": 2, "evict": "oldest", "in_memory": 1},
        {"share": "braid", "max_keys": 2, "evict": "oldest", "in_memory": 1},
    ],
    ids=["none", "none, forgotten", "braid, forgotten"],
)
def test_a_fleet_learns_late_labels_by_the_keys_of_their_records(tmp_path: Path, more: dict[str, Any]) -> None:
    lines, _ = lines_and_order(300, regression=False)
    records = [json.loads(line) for line in lines]
    for place, record in enumerate(records):
        if "x" in record:
            record["key"] = f"m{place % 3}"
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    options = RunOptions(stream=str(path), models=("olr",), task="classification", key="key", **more)
    straight = Job(options)
    for _ in straight.run():
        pass
    broken = Job(options, checkpoint=tmp_path / "c", every=0.0).run()
    for _ in range(40):
        next(broken)
    broken.close()  # type: ignore[attr-defined]
    resumed = Job(options, checkpoint=tmp_path / "c", resume=True)
    for _ in resumed.run():
        pass
    found, expected = (job.document()["runs"][0] for job in (resumed, straight))
    assert expected["late_labels"]["joined"] > 50
    for name in ("errors", "state_sha256", "metrics", "late_labels"):
        assert found[name] == expected[name], name


def followed(path: Path, **more: Any) -> RunOptions:
    return RunOptions(stream=str(path), models=("olr",), follow=True, idle=0.2, **more)


def done(job: Job) -> dict[str, Any]:
    for _ in job.run():
        pass
    return job.document()


def test_a_label_that_is_no_number_takes_none_of_the_others_with_it(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    known = [json.dumps({"x": {"a": i % 3}, "y": i % 5 + 0.5}) for i in range(5)]
    asked = [json.dumps({"id": i, "x": {"a": i % 7}}) for i in range(20)]
    path.write_text("\n".join([*known, *asked, json.dumps({"id": 0, "y": "broken"}), ""]))
    options = followed(path, task="regression", on_error="missing")
    counts = done(Job(options, checkpoint=tmp_path / "c"))["runs"][0]["late_labels"]
    assert (counts["misfit"], counts["waiting"]) == (1, 20), "its record waits for one that is"
    with path.open("a") as file:
        file.writelines(json.dumps({"id": i, "y": i + 0.5}) + "\n" for i in range(10))
    found = done(Job(options, checkpoint=tmp_path / "c", resume=True))
    assert found["runs"][0]["late_labels"] == {**counts, "joined": 10, "waiting": 10}
    assert found["runs"][0]["state_sha256"] == done(Job(options))["runs"][0]["state_sha256"]


def test_a_label_that_the_model_refuses_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    rows: list[Any] = [{"x": {"a": i % 3}, "y": "pq"[i % 2]} for i in range(6)]
    rows += [{"id": i, "x": {"a": i % 7}} for i in range(4)]
    rows += [{"id": i, "y": label} for i, label in enumerate("prq")]
    path.write_text("\n".join([*map(json.dumps, rows), ""]))
    options = followed(path, task="classification", max_classes=2)
    for resume in (False, True, True):
        with pytest.raises(BraidedError, match="max_classes"):
            done(Job(options, checkpoint=tmp_path / "c", every=0.0, resume=resume))


def test_flat_records_name_their_column(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    records = [{"order": i, "size": float(i % 5), "kind": None if i % 2 else "ab"[i % 3 > 1]} for i in range(60)]
    labels = [{"order": i, "kind": "ab"[i % 3 > 1]} for i in range(1, 60, 2)]
    path.write_text("\n".join(map(json.dumps, [*records, *labels])))
    found = run(path, target="kind", id="order")
    assert (found["records"], found["unlabelled"], found["features"]) == (60, 0, 1)
    assert found["runs"][0]["late_labels"]["joined"] == 30
    with pytest.raises(BraidedError, match="--id and --target are both"):
        run(path, target="kind", id="kind")
    (tmp_path / "d.csv").write_text("a,y\n1,p\n2,q\n")
    with pytest.raises(BraidedError, match="id 'order' is for records of JSON"):
        run(tmp_path / "d.csv", id="order")


def waiting(**bounds: Any) -> LateLabels:
    return LateLabels(**{"most": 3, "seconds": 10.0, **bounds})


def ask(late: LateLabels, name: str, time: float | None = None, n: int = 2) -> None:
    batch = Batch(tuple(range(n)), np.ones((1, n)), [None], keys=[name.upper()], ids=[RecordID(name, time)])
    late.keep(batch, Predictions(np.array([[0.2, 0.8]]), np.array([[1.0]])))


def test_what_waits_is_bounded_and_what_does_not_is_counted() -> None:
    late = waiting()
    for number in range(5):
        ask(late, f"r{number}")
    assert len(late) == 3
    assert late.find(LateLabel("r1", 0)) is None, "it was dropped for newer ones"
    assert late.find(LateLabel("r4", None)) is None, "it is no label, and the record waits for one"
    assert late.find(LateLabel("r4", 0)) is not None
    late.join(LateLabel("r4", 0))
    assert late.find(LateLabel("r4", 0)) is None
    assert late.find(LateLabel("r9", 0)) is None
    assert late.counts == {"asked": 5, "joined": 1, "too_late": 1, "repeated": 1, "unknown": 1, "misfit": 1}
    assert late.heard == 5
    for number in range(50):
        ask(late, f"s{number}")
    assert len(late._gone) == 3, "those that are gone are remembered for a while"


def test_time_is_that_of_the_messages() -> None:
    late = waiting(most=100)
    ask(late, "a", 100.0)
    ask(late, "b", 105.0)
    assert late.find(LateLabel("b", 0, time=110.5)) is not None
    assert late.find(LateLabel("a", 0, time=110.6)) is None
    assert late.counts["too_late"] == 1


def test_values_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braided.evaluation.late_labels._MOST_VALUES", 100)
    late = waiting(most=1_000)
    for number in range(30):
        ask(late, str(number), n=10)
    assert len(late) == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": ["a", "a"]}, "IDs are not different"),
        ({"ids": [["a"], "b"]}, "IDs are not different"),
        ({"ids": ["a", "b", "c", "d"]}, "are 4, and can be 3 at most"),
        ({"gone": [["x", 1]]}, "what is gone is not as it should be"),
        ({"counts": {"asked": -1}}, "'asked' is -1"),
        ({"sizes": np.array([2, 1])}, "have 3 values, and 4 are there"),
        ({"columns": np.array([0, 1, 0, 7])}, "array 'columns' holds 7"),
        ({"values": np.array([1.0, np.nan, 1.0, 1.0])}, "array 'values' holds nan"),
        ({"own": np.zeros((2, 3))}, "array 'own' should have shape"),
        ({"names": [0, 0]}, "twice"),
        ({"keys": [1, None]}, "keys are not 2 texts"),
    ],
)
def test_a_state_that_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    late = waiting()
    ask(late, "a", 1.0)
    ask(late, "b")
    about, arrays = late.state()
    again = waiting()
    again.load_state(json.loads(json.dumps(about)), arrays, 1)
    assert again.state()[0] == about
    for name, array in again.state()[1].items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)
    about |= {name: value for name, value in change.items() if name in about}
    arrays |= {name: value for name, value in change.items() if name in arrays}
    with pytest.raises(BraidedError, match=message):
        waiting().load_state(about, arrays, 1)
