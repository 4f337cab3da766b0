"""Files and folders that are being appended to."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import as_csv, as_json, made_up_records

from braided import BraidedError
from braided.run import Job, RunOptions
from braided.streams import Limited, Rules, Stream, open_stream
from braided.streams.base import records_before


def followed(path: Path, steps: list[Callable[[], Any]], **options: Any) -> tuple[list[Any], list[str]]:
    """The labels that come while the steps are done, each after the stream has taken in all before it."""
    told: list[str] = []
    stream = open_stream(str(path), follow=True, idle=0.6, rules=Rules(tell=told.append), **options)

    def do() -> None:
        for step in steps:
            time.sleep(0.35)
            step()

    labels: list[Any] = []
    thread = threading.Thread(target=do)
    thread.start()
    for batch in stream.batches():
        labels += batch.targets
    thread.join()
    return labels, told


def appender(path: Path, text: str) -> Callable[[], Any]:
    def append() -> None:
        with path.open("a") as file:
            file.write(text)

    return append


def test_lines_come_when_they_are_complete(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,b,y\n1,2,p\n")
    steps = [appender(path, "3,4,q\n5,6"), appender(path, ',r\n7,"8\n'), appender(path, '",s\n8,9,t')]
    labels, told = followed(path, steps)
    assert labels == ["p", "q", "r", "s"], "the last line has no end yet"
    assert told == ["2 numeric, target y: 1 different value seen", "  a  number", "  b  number"]


def test_json_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"a": 1, "label": "p"}\n{"a":')
    labels, _ = followed(path, [appender(path, ' 2, "label": "q"}\n')])
    assert labels == ["p", "q"]


def test_a_file_that_was_cut_or_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,y\n1,p\n2,q\n3,r\n")
    new = tmp_path / "new"
    new.write_text("a,y\n9,t\n10,u\n11,v\n12,w\n")
    labels, told = followed(path, [lambda: path.write_text("a,y\n8,s\n"), lambda: os.replace(new, path)])
    assert labels == list("pqrstuvw")
    assert [message.removeprefix(str(path)) for message in told[2:]] == [
        " was cut: reading it from its start",
        " was replaced: reading the new one from its start",
    ]


def test_files_of_a_folder_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "2.csv").write_text("a,y\n1,p\n")
    (folder / "1.csv").write_text("a,y\n1,o")
    (folder / ".hidden.csv").write_text("a,y\n1,no\n")
    steps = [
        appender(folder / "2.csv", "2,q\n"),
        lambda: ((folder / "4.jsonl").write_text('{"a": 3, "y": "s"}\n'), (folder / "3.csv").write_text("a,y\n3,r\n")),
        appender(folder / "4.jsonl", '{"a": 3, "y": "t"}\n'),
        lambda: (folder / "5.arff").write_text("@attribute a real\n@attribute y {u}\n@data\n1,u\n"),
    ]
    labels, _ = followed(folder, steps)
    assert labels == list("opqrstu")


def document(job: Job) -> dict[str, Any]:
    for _ in job.run():
        pass
    return job.document()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "folder"])
def test_following_goes_on_from_a_checkpoint(kind: str, tmp_path: Path) -> None:
    """Followed in three parts, or read at once: the same errors, the same model, the same records skipped."""
    records = made_up_records(1_200)
    lines = (as_csv(records) if kind != "jsonl" else as_json(records, flat=True) + "\n").splitlines(keepends=True)
    lines[400:400] = ["oops\n"]
    whole = tmp_path / f"whole.{'jsonl' if kind == 'jsonl' else 'csv'}"
    whole.write_text("".join(lines), newline="")
    common = {"target": "kind", "on_error": "skip"}
    expected = document(Job(RunOptions(stream=str(whole), **common)))  # type: ignore[arg-type]
    live = tmp_path / ("live" if kind == "folder" else f"live{whole.suffix}")
    if kind == "folder":
        live.mkdir()
    options = RunOptions(stream=str(live), follow=True, idle=0.0, **common)  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    for number, (start, stop) in enumerate(((0, 300), (300, 350), (350, len(lines)))):
        if kind == "folder":
            header = lines[:1] if start else []
            (live / f"{number}.csv").write_text("".join([*header, *lines[start:stop]]), newline="")
        else:
            with live.open("a", newline="") as file:
                file.write("".join(lines[start:stop]))
        found = document(Job(options, checkpoint=tmp_path / "c", every=0.0, resume=True))
        assert found["records"] == stop - 1 - (stop > 400) + (kind == "jsonl")
    for name in ("records", "skipped_records", "features"):
        assert found[name] == expected[name], name
    assert found["runs"][0]["errors"] == expected["runs"][0]["errors"]
    assert found["runs"][0]["state_sha256"] == expected["runs"][0]["state_sha256"]
    limited = RunOptions(stream=str(live), follow=True, limit=700, models=("olr",), **common)  # type: ignore[arg-type]
    assert document(Job(limited))["records"] == 700, "the limit ends it"


def test_a_broken_off_run_goes_on_within_a_file(tmp_path: Path) -> None:
    records = made_up_records(1_300)
    path = tmp_path / "d.csv"
    path.write_text(as_csv(records), newline="")
    options = RunOptions(stream=str(path), follow=True, idle=0.0, target="kind", models=("olr",))
    straight = document(Job(options))["runs"][0]
    steps = Job(options, checkpoint=tmp_path / "c", every=0.0).run()
    next(steps)
    steps.close()
    resumed = document(Job(options, checkpoint=tmp_path / "c", every=0.0, resume=True))["runs"][0]
    assert (resumed["errors"], resumed["state_sha256"]) == (straight["errors"], straight["state_sha256"])


def test_whole_files_of_a_folder_are_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv.gz").write_bytes(gzip.compress(as_csv(made_up_records(1_300)).encode()))
    options = RunOptions(stream=str(folder), follow=True, idle=0.0, target="kind", models=("olr",))
    straight = document(Job(options))["runs"][0]
    steps = Job(options, checkpoint=tmp_path / "c", every=0.0).run()
    next(steps)
    next(steps)
    steps.close()
    resumed = document(Job(options, checkpoint=tmp_path / "c", resume=True))
    assert resumed["records"] == 1_300
    assert resumed["runs"][0]["state_sha256"] == straight["state_sha256"]


@pytest.mark.parametrize("stops", [(), (1, 2, 3)])
def test_what_a_later_libsvm_file_leaves_out_is_zero_as_in_a_folder(stops: tuple[int, ...], tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    rng = random.Random(0)
    for number, features in enumerate(([1, 2, 3, 5], [1, 2], [1, 3])):
        lines = []
        for _ in range(600):
            values = [(i, rng.choice((0, rng.gauss(0, 1)))) for i in features]
            pairs = " ".join(f"{i}:{value:.3f}" for i, value in values if value)
            lines.append(f"{int(sum(value for _, value in values) > 0)} {pairs}\n")
        (folder / f"{number}.libsvm").write_text("".join(lines))
    expected = document(Job(RunOptions(stream=str(folder), models=("olr",))))
    options = RunOptions(stream=str(folder), models=("olr",), follow=True, idle=0.0)
    for stop in stops:  # broken off after the first, second and third step, in another file each time
        steps = Job(options, checkpoint=tmp_path / "c", every=0.0, resume=True).run()
        for _ in range(stop):
            next(steps)
        steps.close()
    found = document(Job(options, checkpoint=tmp_path / "c", every=0.0, resume=True))
    assert found["records"] == 1_800
    for name in ("errors", "state_sha256"):
        assert found["runs"][0][name] == expected["runs"][0][name]


def test_after_a_bad_line_the_run_goes_on_with_other_options(tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "d.csv", tmp_path / "d.braided"
    good = as_csv(made_up_records(700)).splitlines(keepends=True)
    path.write_text("".join(good[:601]) + "oops" + good[601][good[601].index(",") :] + "".join(good[602:]))
    options = RunOptions(stream=str(path), models=("olr",), follow=True, idle=0.2)
    job = Job(options, checkpoint=checkpoint)
    with pytest.raises(BraidedError, match="oops"):
        list(job.run())
    job = Job(dataclasses.replace(options, on_error="skip", idle=0.3), checkpoint=checkpoint, resume=True)
    list(job.run())
    assert job.document()["skipped_records"] == 1
    straight = Job(dataclasses.replace(options, on_error="skip"))
    list(straight.run())
    assert job.document()["records"] == straight.document()["records"] == 699
    assert job.finished[0].result["state_sha256"] == straight.finished[0].result["state_sha256"]
    with pytest.raises(BraidedError, match="was made with seed = 0"):
        Job(dataclasses.replace(options, seed=1), checkpoint=checkpoint, resume=True)


@pytest.mark.parametrize("share", [None, "none", "start", "braid"])
def test_a_run_that_has_come_to_its_limits_goes_on_with_higher_ones(tmp_path: Path, share: str | None) -> None:
    path, checkpoint = tmp_path / "d.jsonl", tmp_path / "d.braided"
    draw = random.Random(0)
    records = [{"key": f"k{i % 3}", "a": draw.random(), "y": "pq"[draw.random() < 0.4]} for i in range(700)]
    records[650] |= {"y": "r", "b": 1.5}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    fleet: dict[str, Any] = {"drop": ("key",)} if share is None else {"key": "key", "share": share}
    options = RunOptions(stream=str(path), preset="lean", target="y", follow=True, idle=0.2, **fleet)
    low = dataclasses.replace(options, max_classes=2, max_features=1)
    for asked, which in ((low, "(features|classes)"), (dataclasses.replace(low, max_features=5), "classes")):
        with pytest.raises(BraidedError, match=f"raise `max_{which}`"):
            list(Job(asked, checkpoint=checkpoint, resume=True).run())
    with pytest.raises(BraidedError, match=r"--max-features is 1, and was 5 when checkpoint .* give as many or more"):
        Job(low, checkpoint=checkpoint, resume=True)
    job, straight = Job(options, checkpoint=checkpoint, resume=True), Job(options)
    list(job.run())
    list(straight.run())
    assert job.document()["records"] == 700
    assert job.finished[0].result["metrics"] == straight.finished[0].result["metrics"]
    assert job.finished[0].result["state_sha256"] == straight.finished[0].result["state_sha256"]


def test_two_runs_do_not_write_one_checkpoint(tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "d.csv", tmp_path / "d.braided"
    path.write_text(as_csv(made_up_records(600)))
    options = RunOptions(stream=str(path), models=("olr",), follow=True, idle=0.2)
    one, other = Job(options, checkpoint=checkpoint), Job(options, checkpoint=checkpoint)
    list(one.run())
    written = checkpoint.read_bytes()
    with pytest.raises(BraidedError, match=r"d.braided was written by another run meanwhile: stop one of the two"):
        list(other.run())
    assert checkpoint.read_bytes() == written
    again = Job(options, checkpoint=checkpoint, resume=True)
    checkpoint.unlink()
    list(again.run())
    assert checkpoint.exists(), "a file that was removed is in nobody's way"


def test_a_quiet_stream_is_written_too(tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "d.csv", tmp_path / "d.braided"
    path.write_text(as_csv(made_up_records(50)))
    options = RunOptions(stream=str(path), models=("olr",), follow=True, idle=1.5)
    job = Job(options, checkpoint=checkpoint, every=0.3)
    seen: list[bool] = []
    watching = threading.Timer(1.2, lambda: seen.append(checkpoint.exists()))
    for place, _ in enumerate(job.run()):
        if place == 0:
            watching.start()
    watching.join()
    assert seen == [True], "nothing was written while nothing came"


def test_an_interrupt_ends_it_with_the_results_so_far(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text(as_csv(made_up_records(200)), newline="")
    out, checkpoint = tmp_path / "out", tmp_path / "c"
    arguments = ["run", str(path), "--target", "kind", "--follow", "--model", "olr", "--json"]
    arguments += ["--checkpoint", str(checkpoint), "--checkpoint-every", "0", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "braided", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        for _ in range(1_200):
            if checkpoint.exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        assert process.poll() is None, "it waits for more"
        appender(path, "1.0,2.0,3.0,red,true,yes\n")()
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["records"] == 201
    assert (out / "metrics.json").exists()
    assert "4 numeric, 1 categorical (colour), target kind: 2 different values seen" in stderr


def test_what_cannot_be_followed(tmp_path: Path) -> None:
    def opened(path: Path) -> Stream:
        return open_stream(str(path), follow=True, idle=0.0)

    with pytest.raises(BraidedError, match="there is no such file or folder"):
        opened(tmp_path / "nothing.csv")
    (tmp_path / "d.arff").write_text("@data\n")
    with pytest.raises(BraidedError, match=r"give a CSV \(.csv, .tsv\) or JSON lines"):
        list(opened(tmp_path / "d.arff").batches())
    for options in ({"seeds": 2}, {"models": ("olr", "mlp")}):
        with pytest.raises(BraidedError, match="--follow takes one model and one seed"):
            RunOptions(stream="d.csv", follow=True, **options).resolved()  # type: ignore[arg-type]
    with pytest.raises(BraidedError, match="--follow takes records as they come"):
        RunOptions(stream="d.csv", follow=True, available=0.5).resolved()


def test_a_follower_that_goes_on_gives_no_record_twice(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,y\n1,p\n2,q\n")
    first = open_stream(str(path), follow=True, idle=0.0)
    assert [label for batch in first.batches() for label in batch.targets] == ["p", "q"]
    assert records_before(first) == 2
    appender(path, "3,r\n4,s\n")()
    position = json.loads(json.dumps(first.position))  # type: ignore[attr-defined]
    second = open_stream(str(path), follow=True, idle=0.0, position=position)
    assert records_before(Limited(second, 3)) == 2
    assert [label for batch in Limited(second, 3).batches() for label in batch.targets] == ["r"], "the limit counts all"
