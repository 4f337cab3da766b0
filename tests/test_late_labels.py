"""Labels that come later on their own, under the ID of their record."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, zoo
from braided.run import Job, RunOptions
from braided.store import state_digest


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
        model.learn_many(row, [label], list(x), earlier=then)
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
    with pytest.raises(BraidedError, match="`id` 'order' is for records of JSON"):
        run(tmp_path / "d.csv", id="order")
