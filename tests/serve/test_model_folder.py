"""A model's folder: recovery is bit-exact, files are removed only when they are not needed, failures are explained."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from help_serve import FaultyDisk, HTTPProblem, ask, digest, records, rows, served_model, small_model, taught

from braided import MODLClassifier
from braided.errors import BraidedError
from braided.serve.disk import Disk
from braided.serve.model_folder import ModelFolder, Recovery
from braided.serve.model_state import ModelState
from braided.serve.settings import Limits, Settings
from braided.serve.worker import Worker
from braided.serve.write_request import StreamBatches, WriteRequest
from braided.store import state_digest


class Place:
    """A folder in which a model is made, served and recovered."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.settings = Settings(folder, **{"segment_bytes": 2_000, "snapshot_records": 60, "keep": "none", **settings})

    def create(self, disk: Disk | None = None) -> Worker:
        return served_model(self.folder, self.settings, disk=disk)

    def recover(self) -> tuple[ModelState, Recovery]:
        return ModelFolder(self.folder / "m", self.settings, Disk()).open()

    def serve_again(self, disk: Disk | None = None) -> Worker:
        folder = ModelFolder(self.folder / "m", self.settings, disk or Disk())
        state, recovery = folder.open()
        worker = Worker(state, folder, recovery)
        worker.start()
        return worker

    def files(self, kind: str) -> list[str]:
        return sorted(path.name for path in (self.folder / "m").glob(f"{kind}-*"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def teach(worker: Worker, items: list[dict[str, Any]], size: int = 7) -> int:
    """Send records in batches; how many were acknowledged."""
    done = 0
    for at in range(0, len(items), size):
        done += ask(worker, "learn", records=records(items[at : at + size]))["learned"]
    return done


def copied(folder: Path, to: Path) -> None:
    """Copy a folder in which a snapshot may be on its way: again where a file went while it was copied."""
    for _ in range(100):
        try:
            shutil.copytree(folder, to)
            return
        except shutil.Error:
            shutil.rmtree(to)
    raise AssertionError("the folder never stood still")


def test_recovery_is_bit_exact_at_any_moment(place: Place, tmp_path: Path) -> None:
    """The folder is copied after each batch, as a kill would leave it, and recovered from the copy."""
    items = rows(160)
    worker = place.create()
    for at in range(0, 160, 16):
        teach(worker, items[at : at + 16], size=16)
        copy = tmp_path / f"copy {at}"
        copied(tmp_path / "m", copy / "m")
        state, recovery = Place(copy).recover()
        assert state.stats.records == at + 16
        assert digest(state) == state_digest(taught(items[: at + 16]))
        assert recovery.notes == []
    worker.stop()
    assert len(place.files("snapshot")) == 2
    state, recovery = place.recover()
    assert recovery.replayed == 0
    assert digest(state) == state_digest(taught(items))


def test_figures_clients_and_observations_come_back(place: Place) -> None:
    items = rows(90)
    worker = place.create()
    ask(worker, "learn", records=records(items[:40]), client="me", sequence=0)
    ask(worker, "observe", records=records(items[40:41], False), id="kept", time=time.time())
    ask(worker, "observe", records=records(items[41:42], False), id="taught", time=time.time())
    ask(worker, "label", id="taught", label=items[41]["y"])
    ask(worker, "learn", records=records(items[42:90]), client="me", sequence=40)
    before = worker.state
    summary, strip, curve = before.stats.summary(), before.stats.strip(48), before.stats.curve(100)
    for stop in (False, True):  # once from the journal, once from the snapshot
        worker.stop(snapshot=stop)
        state, _ = place.recover()
        assert state.clients == {"me": 88}
        assert [one.key for one in state.late.entries()] == ["kept"]
        waiting = state.late.get("kept")
        assert waiting is not None
        assert waiting.records is not None
        assert waiting.records.one(0) == items[40]["x"]
        assert state.late.label_came("taught")
        assert {**state.stats.summary(), "records_per_second": 0} == {**summary, "records_per_second": 0}
        assert (state.stats.strip(48), state.stats.curve(100)) == (strip, curve)
        worker = place.serve_again()
        assert ask(worker, "label", id="taught", label=items[41]["y"])["duplicates"] == 1
    assert ask(worker, "label", id="kept", label=items[40]["y"])["learned"] == 1
    worker.stop()
    state, _ = place.recover()
    assert digest(state) == state_digest(taught([*items[:40], items[41], *items[42:], items[40]]))


def test_old_files_go_only_after_a_second_good_snapshot(place: Place) -> None:
    items = rows(400)
    worker = place.create()
    teach(worker, items)
    worker.stop()
    snapshots = place.files("snapshot")
    assert len(snapshots) == 2
    assert len(place.files("journal")) < 10
    # The newest snapshot is damaged: the one before it and the journal since then give the same model.
    newest = place.folder / "m" / snapshots[1]
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    state, recovery = place.recover()
    assert "passed over" in recovery.notes[0]
    assert recovery.replayed > 0
    assert digest(state) == state_digest(taught(items))
    (place.folder / "m" / snapshots[0]).write_bytes(b"")
    with pytest.raises(BraidedError, match=r"no good snapshot.*restore one from a backup"):
        place.recover()


def test_a_snapshot_can_be_loaded_as_a_model(place: Place) -> None:
    items = rows(50)
    worker = place.create()
    teach(worker, items)
    worker.stop()
    model = MODLClassifier.load(place.folder / "m" / place.files("snapshot")[-1])
    assert state_digest(model) == state_digest(taught(items))


def test_a_full_disk_refuses_learning_and_nothing_else(place: Place) -> None:
    def fault(operation: str, count: int) -> None:
        if full and operation in {"write", "create"}:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    full = False
    items = rows(120)
    worker = place.create(FaultyDisk(fault))
    teach(worker, items[:40])
    before = digest(worker.state)
    full = True
    for _ in range(3):
        with pytest.raises(HTTPProblem, match=r"disk is full.*predictions go on") as refused:
            ask(worker, "learn", records=records(items[40:50]), client="me", sequence=0)
        assert refused.value.status == 507
    assert worker.trouble == "the disk is full"
    assert worker.predict(records(items[:3], False))[1][0]["version"] == 40
    assert digest(worker.state) == before
    assert worker.state.clients == {}
    full = False
    assert ask(worker, "learn", records=records(items[40:50]), client="me", sequence=0)["next"] == 10
    assert worker.trouble is None
    teach(worker, items[50:])
    worker.stop(snapshot=False)
    state, _ = place.recover()
    assert digest(state) == state_digest(taught(items))


@pytest.mark.parametrize("durability", ["sync", "interval"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "remove"])
def test_no_single_failure_loses_or_alters_anything(tmp_path: Path, operation: str, code: int, durability: Any) -> None:
    """Fail one operation, whichever it is, then the process ends: all that was acknowledged is there, in order."""
    items = rows(140)
    for number in (1, 2, 4, 7, 16, 37):
        folder = tmp_path / str(number)
        folder.mkdir()
        place = Place(folder, durability=durability, interval_seconds=0.001)
        matching = 0

        def fault(found: str, count: int, number: int = number) -> None:
            nonlocal matching
            matching += found == operation
            if found == operation and matching == number:
                raise OSError(code, os.strerror(code))

        disk = FaultyDisk(fault, piece=333)
        try:
            worker = place.create(disk)
        except OSError:
            assert not (folder / "m").exists()
            continue
        acknowledged: list[dict[str, Any]] = []
        statuses: set[int] = set()
        for at in range(0, len(items), 10):
            batch = items[at : at + 10]
            try:
                ask(worker, "learn", records=records(batch))
                acknowledged += batch
            except HTTPProblem as problem:
                statuses.add(problem.status)
        assert not worker.broken
        worker.stop(snapshot=False)
        state, _ = place.recover()
        assert len(acknowledged) >= len(items) - 10
        assert statuses <= {507 if code == errno.ENOSPC else 503}
        assert digest(state) == state_digest(taught(acknowledged))


def test_short_writes_are_finished(place: Place) -> None:
    items = rows(60)
    worker = place.create(FaultyDisk(piece=11))
    teach(worker, items)
    worker.stop(snapshot=False)
    state, _ = place.recover()
    assert digest(state) == state_digest(taught(items))


def test_a_journal_that_cannot_be_written_is_told_and_tried_again(place: Place) -> None:
    def fault(operation: str, count: int) -> None:
        if broken and operation == "sync":
            raise OSError(errno.EIO, "Input/output error")

    broken = False
    items = rows(30)
    worker = place.create(FaultyDisk(fault))
    teach(worker, items[:10])
    broken = True
    with pytest.raises(HTTPProblem, match="Input/output error") as refused:
        teach(worker, items[10:20])
    assert refused.value.status == 503
    assert str(place.folder) not in refused.value.detail
    broken = False
    teach(worker, items[20:])
    worker.stop(snapshot=False)
    state, _ = place.recover()
    assert digest(state) == state_digest(taught([*items[:10], *items[20:]]))


def test_a_retry_does_not_teach_twice(place: Place) -> None:
    items = rows(30)
    worker = place.create()
    first = ask(worker, "learn", records=records(items[:10]), client="a", sequence=0)
    assert first == {"learned": 10, "duplicates": 0, "records": 10, "next": 10}
    again = ask(worker, "learn", records=records(items[:10]), client="a", sequence=0)
    assert again == {"learned": 0, "duplicates": 10, "records": 10, "next": 10}
    overlap = ask(worker, "learn", records=records(items[5:20]), client="a", sequence=5)
    assert (overlap["learned"], overlap["duplicates"], overlap["next"]) == (10, 5, 20)
    with pytest.raises(HTTPProblem, match="should go on with 20") as gap:
        ask(worker, "learn", records=records(items[25:]), client="a", sequence=25)
    assert gap.value.status == 409
    assert gap.value.members == {"next": 20}
    worker.stop()
    state, _ = place.recover()
    assert digest(state) == state_digest(taught(items[:20]))


def several(worker: Worker, jobs: list[dict[str, Any]]) -> list[Any]:
    """Send jobs that the writer will find together, in one group; their answers, or the problems."""
    futures: list[Future[Any]] = [Future() for _ in jobs]
    with worker._wake:
        for job, future in zip(jobs, futures, strict=True):
            worker.submit(WriteRequest("learn", future, **job))
    done = [future.exception(timeout=300) or future.result() for future in futures]
    return [answer.status if isinstance(answer, HTTPProblem) else answer for answer in done]


def test_a_retry_in_the_same_group_is_no_safer_than_the_first(place: Place) -> None:
    def fault(operation: str, count: int) -> None:
        if broken and operation == "sync":
            raise OSError(errno.EIO, "failed")

    broken = True
    items = rows(10)
    worker = place.create(FaultyDisk(lambda operation, count: None))
    worker.folder.disk.fault = fault  # type: ignore[attr-defined]
    same = {"records": records(items), "client": "me", "sequence": 0}
    assert several(worker, [same, same]) == [503, 503]
    broken = False
    first, second = several(worker, [same, same])
    assert (first["learned"], second["learned"], second["duplicates"]) == (10, 0, 10)
    worker.stop(snapshot=False)
    assert place.recover()[0].stats.records == 10


def test_after_a_refused_batch_the_rest_of_a_stream_is_refused(place: Place) -> None:
    items = rows(30)
    worker = place.create()
    stream = StreamBatches()
    batches = [{"records": records(items[at : at + 10]), "stream": stream} for at in (0, 10, 20)]
    batches[1]["records"] = records([{"x": {f"new {i}": 1.0 for i in range(1_000)}, "y": 1}])
    ask(worker, "learn", records=records(items[:1]))
    found = several(worker, batches)
    assert [found[0]["learned"], *found[1:]] == [10, 422, 409]
    assert several(worker, batches[2:]) == [409]
    worker.stop()
    assert digest(place.recover()[0]) == state_digest(taught([items[0], *items[:10]]))


def test_clients_are_bounded_and_can_be_forgotten(tmp_path: Path) -> None:
    place = Place(tmp_path, limits=Limits(clients=2))
    items = rows(3)
    worker = place.create()
    for client in ("a", "b"):
        ask(worker, "learn", records=records(items), client=client, sequence=0)
    with pytest.raises(HTTPProblem, match="2 clients are remembered"):
        ask(worker, "learn", records=records(items), client="c", sequence=0)
    ask(worker, "forget", client="a")
    ask(worker, "learn", records=records(items), client="c", sequence=0)
    worker.stop(snapshot=False)
    state, _ = place.recover()
    assert state.clients == {"b": 3, "c": 3}


def test_observations_are_bounded_and_expire(tmp_path: Path) -> None:
    place = Place(tmp_path, limits=Limits(observations=3, observation_seconds=1000.0))
    items = rows(10)
    worker = place.create()
    now = time.time()
    for i in range(5):
        ask(worker, "observe", records=records(items[i : i + 1], False), id=f"id {i}", time=now)
    assert [one.key for one in worker.state.late.entries()] == ["id 2", "id 3", "id 4"]
    ask(worker, "observe", records=records(items[:1], False), id="old", time=now - 2000)
    with pytest.raises(HTTPProblem, match="unknown or has expired") as gone:
        ask(worker, "label", id="old", label="class 0")
    assert gone.value.status == 404
    ask(worker, "observe", records=records(items[:1], False), id="new", time=now + 1500)
    assert [one.key for one in worker.state.late.entries()] == ["new"]
    worker.stop()


def refusal(worker: Worker, what: Callable[[], Any]) -> HTTPProblem:
    before = (digest(worker.state), worker.state.stats.records)
    with pytest.raises(HTTPProblem) as refused:
        what()
    assert (digest(worker.state), worker.state.stats.records) == before
    return refused.value


def test_a_model_cannot_outgrow_its_limits(tmp_path: Path) -> None:
    place = Place(tmp_path)
    small = MODLClassifier(learners=small_model().learners, max_features=4, max_classes=2)
    worker = served_model(tmp_path, place.settings, small)
    ask(worker, "learn", records=records([{"x": {"a": 1.0, "b": 2.0}, "y": 1}, {"x": {"c": 1.0}, "y": 2}]))
    many = records([{"x": {"d": 1.0}, "y": 1}, {"x": {"e": 1.0}, "y": 1}])
    assert "at most 4 features" in refusal(worker, lambda: ask(worker, "learn", records=many)).detail
    other = records([{"x": {"a": 1.0}, "y": 3}])
    assert "at most 2 classes" in refusal(worker, lambda: ask(worker, "learn", records=other)).detail
    ask(worker, "learn", records=records([{"x": {"d": 1.0}, "y": 1}]))
    worker.stop()
    assert place.recover()[0].stats.records == 3
