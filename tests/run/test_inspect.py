"""`braided inspect`, the plan before a run, and what a first run says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command import braided

ORDERS = (
    "order;placed;customer;weight;region;late\n"
    + "".join(
        f"{1000 + i};{1 + i % 28:02}.03.2024 {i % 24:02}:00;K-{i * 7919 % 9973};{i % 30},5;{'NS'[i % 2]};{i % 3 == 0}\n"
        for i in range(120)
    )
    + "7;01.04.2024 10:00;K-1;;NA;False\n"
)  # fmt: skip


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.csv"
    path.write_text(ORDERS)
    return path


def test_labels_that_may_be_meant_as_numbers_are_told(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("a,rating,late\n" + "".join(f"{i % 7},{i % 11},{i % 2}\n" for i in range(99)))
    told = "11 classes; --task regression for numbers"
    for target, several in (("rating", True), ("late", False)):
        stream = (str(tmp_path / "r.csv"), "--target", target)
        assert (told in braided("inspect", *stream).stdout) == several
        assert (told in braided("run", *stream, "-m", "majority").stderr) == several
    chosen = braided("run", str(tmp_path / "r.csv"), "--target", "rating", "-m", "majority", "--task", "classification")
    assert told not in chosen.stderr


def test_the_plan_alone_and_before_a_run(orders: Path) -> None:
    plan = braided("inspect", str(orders)).stdout
    assert [line.split()[0] for line in plan.splitlines()[2:]] == [
        "order", "placed", "customer", "weight", "region"
    ]  # fmt: skip
    assert "dropped: 121 different values in 121 records; --hash customer keeps it" in plan
    assert "weight    number, 1 missing" in plan
    assert "decimal commas, as the first records" in plan
    run = braided("run", str(orders), "--model", "majority", "--json")
    assert run.stderr == plan
    document = json.loads(braided("inspect", str(orders), "--json").stdout)
    assert document == json.loads(run.stdout)["plan"]
    assert (document["delimiter"], document["decimal"], document["target"]) == (";", ",", "late")
    kinds = {column["name"]: column["read_as"] for column in document["columns"]}
    assert kinds == {
        "order": "number", "placed": "date", "customer": "dropped", "weight": "number", "region": "category"
    }  # fmt: skip
    assert "date (day first, as .age)" in braided("inspect", str(orders), "--dates", "age").stdout


def test_what_does_not_fit_is_a_part_of_the_plan(tmp_path: Path) -> None:
    rows = [f"{'n/d' if i % 30 == 5 else i},2024-02-{'30' if i == 20 else '01'},{i},{i % 2}\n" for i in range(90)]
    path = tmp_path / "d.csv"
    path.write_text("size,day,t,y\n" + "".join(rows))
    done = braided("inspect", str(path), code=2)
    size, hint, day, t, *_ = done.stdout.splitlines()[1:]
    assert size == "  size  number, 3 that do not fit, such as 'n/d'"
    assert hint.strip() == "hint: mostly numbers: if 'n/d' means missing, give --na size=n/d"
    assert day.endswith(".day_of_year.cos), 1 that do not fit, such as '2024-02-30'")
    assert t == "  t     number"
    assert done.stderr.startswith(f"braided: {path}:7: column 'size' is 'n/d'")
    document = json.loads(braided("inspect", str(path), "--json", code=2).stdout)
    assert [(column["misfits"], column["misfit"]) for column in document["columns"]] == [
        (3, "'n/d'"), (1, "'2024-02-30'"), (0, "")
    ]  # fmt: skip
    braided("inspect", str(path), "--on-error", "missing")
    run = braided("run", str(path), "--model", "majority", code=2)
    assert run.stderr == done.stdout + done.stderr


def test_a_line_that_stops_a_run_follows_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,b,y\n1,2,x\n3,4\n5,6,z\n")
    done = braided("inspect", str(path), code=2)
    assert done.stdout.splitlines()[0] == "2 numeric, target y: 1 different value seen"
    assert done.stderr == (
        f"braided: {path}:3: 2 fields where 3 are expected: fix the line; --on-error skip goes on without such "
        "records\n"
    )
    assert braided("run", str(path), "--model", "majority", code=2).stderr == done.stdout + done.stderr
    skipped = json.loads(braided("run", str(path), "--model", "majority", "--on-error", "skip", "--json").stdout)
    assert skipped["first_problem"] == f"{path}:3: 2 fields where 3 are expected: fix the line"
    assert "2 different values" in braided("inspect", str(path), "--on-error", "skip").stdout


def test_a_date_that_a_user_has_to_settle_leaves_the_others_their_plan(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("when,size,y\n1/2/2024,1,0\n2/2/2024,2,1\n")
    done = braided("inspect", str(path), code=2)
    assert done.stdout.splitlines()[0].startswith("1 numeric, 1 unclear (when)")
    assert "  size  number" in done.stdout
    assert "--day-first or --month-first" in done.stderr


def test_lines_above_the_header_get_a_note_and_no_other_hints(tmp_path: Path) -> None:
    table = "day;size;heat;y\n" + "".join(f"2024-03-{1 + i % 28:02};{i % 7};{i % 9};{i % 2}\n" for i in range(80))
    path = tmp_path / "d.csv"
    path.write_text("Report: line 4 quality;;;\nPlant: north;;;\nMade: 2024-04-01;;;\n" + table)
    done = braided("inspect", str(path), code=2)
    plan = done.stdout
    assert "--na" not in done.stderr
    assert "  the header seems to be in line 4: give --skip-rows 3 if it is\n" in plan
    assert "hint" not in plan
    skipped = braided("inspect", str(path), "--skip-rows", "3").stdout
    path.write_text(table)
    assert braided("inspect", str(path)).stdout == skipped
    assert "the header" not in skipped
    path.write_text("a,b,\nred,blue,1\n")
    assert "the header" not in braided("inspect", str(path)).stdout


def test_a_weight_is_marked_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,w,y\n1,2,0\n2,,1\n")
    assert "  w  weight, 1 missing" in braided("inspect", str(path), "--weight", "w").stdout
    assert "--weight 'v'" in braided("inspect", str(path), "--weight", "v", code=2).stderr


def test_the_key_and_the_id_are_marked(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(
        '{"event": "a", "m": 1, "t": 2, "y": 1}\n{"event": "b", "m": 2, "t": 2}\n{"event": "b", "y": 0}\n'
        '{"m": 1, "t": 3, "y": 0}\n'
    )
    named = ("--id", "event", "--key", "m")
    done = braided("inspect", str(path), *named)
    assert done.stdout.splitlines() == [
        "1 numeric, 1 key (m), 1 ID (event), target y: 2 different values seen",
        "  t      number",
        "  m      key with 2 values",
        "  event  ID, 1 missing",
    ]
    assert braided("run", str(path), *named, "--share", "none").stderr.startswith(done.stdout)
    assert "--key 'n': there is no such column" in braided("inspect", str(path), "--key", "n", code=2).stderr


def test_a_column_that_joins_late_labels_gets_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "clicks.jsonl"
    lines = [{"event": i, "a": i % 7, "b": i % 3} for i in range(100)] + [{"event": i, "y": i % 2} for i in range(100)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ("inspect", str(path), "--target", "y")
    hint = "hint: all that is beside a label: if it joins labels to earlier records, give --id event"
    assert hint in braided(*arguments).stdout
    assert "hint" not in braided(*arguments, "--id", "event").stdout
    path.write_text("".join(json.dumps(line | {"y": 1}) + "\n" for line in lines))
    assert hint not in braided(*arguments).stdout


def test_a_weight_that_is_no_number_is_shown_as_it_is_read_and_columns_are_offered(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text(
        "day,plan,a,y\n" + "".join(f"2024-01-{1 + i % 28:02},{'bg'[i % 2]},{i % 7},{i % 2}\n" for i in range(60))
    )
    done = braided("inspect", str(path), "--weight", "plan", code=2)
    assert "  plan  category with 2 values" in done.stdout
    assert "--weight 'plan': d.csv has no such column of numbers (it has a): give the name of one" in done.stderr
    run = braided("run", str(path), "--weight", "plan", "-m", "majority", code=2)
    assert "has no such column of numbers (it has a): give" in run.stderr


def test_quiet_says_nothing_but_the_result(orders: Path) -> None:
    done = braided("run", str(orders), "--model", "majority", "--quiet", "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["records"] == 121
    assert braided("run", str(orders), "--quiet", "--model", "oracle", code=2).stderr.startswith("braided: model")


def test_what_cannot_be_inspected_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("a,y\n")
    for stream, message in ((str(tmp_path / "empty.csv"), "has no records"), ("shuttle", "is a data set with a name")):
        done = braided("inspect", stream, code=2)
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_bad_date_is_known_before_anything_is_learned(orders: Path) -> None:
    lines = ORDERS.splitlines(keepends=True)
    lines[1] = lines[1].replace("01.03.2024", "31.02.2024")
    orders.write_text("".join(lines))
    for more in ([], ["--task", "classification"]):
        done = subprocess.run(
            [sys.executable, "-m", "braided", "run", str(orders), *more],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        assert "orders.csv:2: column 'placed' is '31.02.2024 00:00': no day of the calendar" in done.stderr


def test_help_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "http://127.0.0.1:8000/models/demo" in braided("feed", "--help").stdout
    assert "--install-completion" in braided("--help").stdout


def test_resuming_without_a_checkpoint_says_so(orders: Path, tmp_path: Path) -> None:
    arguments = ["run", str(orders), "--model", "olr", "--checkpoint", str(tmp_path / "c"), "--resume"]
    assert "yet: starting from the first record" in braided(*arguments).stderr
    assert "yet: starting" not in braided(*arguments).stderr


def test_the_report_has_the_plan(orders: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: run make test")
    braided("run", str(orders), "--model", "majority", "--out", str(tmp_path / "out"))
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<h2>How it was read</h2>" in page
    assert "<td>placed</td><td>date (day first, as .age, .hour" in page
    assert "decimal commas, as the first records and the semicolons show" in page
