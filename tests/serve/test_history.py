"""Back to an earlier record: bit for bit what the model was then, however often, and after any restart."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from help_serve import (
    SMALL_SPEC,
    HTTPProblem,
    ask,
    digest,
    digest_of,
    label_of,
    records,
    reopened,
    rows,
    served_model,
    serving,
    taught,
)

from braided.errors import BraidedError
from braided.serve import storage as storage_module
from braided.serve.maintain import backup
from braided.serve.recovery import find, recover, state_at
from braided.serve.service import Service
from braided.serve.settings import Settings, keep_rules
from braided.serve.storage import DamageError, Storage
from braided.serve.worker import Worker
from braided.store import state_digest

ITEMS = rows(300)


def settings(folder: Path, **changes: Any) -> Settings:
    return Settings(folder, **{"snapshot_records": 50, "keep": "9999m", **changes})


def teach(worker: Worker, start: int, stop: int, client: str | None = None) -> None:
    for at in range(start, stop, 7):
        part = records(ITEMS[at : min(at + 7, stop)])
        ask(worker, "learn", records=part, client=client, sequence=at if client else 0)


def execute(database: Path, *statements: str) -> None:
    """Change a database of which no connection is open."""
    with closing(sqlite3.connect(database)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def without_snapshots(database: Path, which: str) -> None:
    """Remove the snapshots whose numbers are such."""
    execute(
        database, f"DELETE FROM snapshots WHERE number {which}", f"DELETE FROM snapshot_parts WHERE snapshot {which}"
    )


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots are written a minute apart, so that the rule keeps them all."""
    clock = itertools.count(time.time(), 61.0)
    slow = SimpleNamespace(time=lambda: next(clock), monotonic=time.monotonic)
    monkeypatch.setattr(storage_module, "time", slow)


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    """A model that has learned 200 records by one client."""
    found = served_model(settings(tmp_path))
    teach(found, 0, 200, "me")
    return found


@pytest.mark.parametrize("record", [0, 1, 49, 50, 103, 150, 199, 200])
def test_any_record_comes_back_bit_for_bit(worker: Worker, record: int) -> None:
    assert ask(worker, "restore", record=record) == {"records": record, "records_before": 200, "version": record}
    assert digest(worker.state) == state_digest(taught(ITEMS[:record]))
    assert worker.state.clients.get("me", 0) == record, "a client goes on from there"
    teach(worker, record, 220, "me")
    expected = state_digest(taught(ITEMS[:220]))
    assert digest(worker.state) == expected
    worker.stop(snapshot=False)
    assert digest(reopened(worker.settings).state) == expected
    # Without the snapshots since, the log has to go back as well.
    without_snapshots(worker.storage.path, "> 0")
    assert digest(reopened(worker.settings).state) == expected


@pytest.mark.parametrize("record", [9, 10, 11, 15, 18, 20])
def test_a_record_in_the_middle_of_a_request_that_was_partly_known_comes_back(tmp_path: Path, record: int) -> None:
    worker = served_model(settings(tmp_path))
    ask(worker, "learn", records=records(ITEMS[:10]), client="me", sequence=0)
    ask(worker, "learn", records=records(ITEMS[4:20]), client="me", sequence=4)
    assert ask(worker, "restore", record=record)["records"] == record
    assert digest(worker.state) == state_digest(taught(ITEMS[:record]))
    assert worker.state.clients["me"] == record
    worker.stop()


def test_it_can_be_undone_and_done_again(worker: Worker) -> None:
    before = time.time()
    time.sleep(0.01)
    ask(worker, "restore", record=60)
    teach(worker, 60, 90)
    ask(worker, "restore", record=75)
    assert digest(worker.state) == state_digest(taught(ITEMS[:75]))
    assert ask(worker, "restore", at=before)["records"] == 200, "of before the first return"
    assert digest(worker.state) == state_digest(taught(ITEMS[:200]))
    ask(worker, "restore", record=130)
    assert ask(worker, "restore", record=85)["records"] == 85, "the last time that it had so many, on a way it left"
    worker.stop(snapshot=False)
    without_snapshots(worker.storage.path, "> 0")
    assert digest(reopened(worker.settings).state) == state_digest(taught(ITEMS[:85]))


def test_of_the_last_two_snapshots_one_may_be_damaged(tmp_path: Path) -> None:
    worker = served_model(settings(tmp_path, keep="none"))
    teach(worker, 0, 200)
    ask(worker, "restore", record=170)
    teach(worker, 170, 180)
    worker.stop()
    database = worker.storage.path
    with closing(Storage.open(database)) as storage:
        kept = storage.snapshots()
    assert [(one.records, one.restored) for one in kept] == [(170, True), (180, False)]
    whole = database.read_bytes()
    for one in kept:
        execute(database, f"UPDATE snapshot_parts SET content = zeroblob(9) WHERE snapshot = {one.number}")
        found = reopened(worker.settings)
        assert digest(found.state) == state_digest(taught(ITEMS[:180]))
        assert ["passed over" in note for note in found.notes] == ([True] if one is kept[-1] else [])
        database.write_bytes(whole)


@pytest.mark.usefixtures("minutes")
def test_every_snapshot_leads_on_to_every_later_record(tmp_path: Path) -> None:
    worker = served_model(settings(tmp_path))
    teach(worker, 0, 100)
    ask(worker, "restore", record=70)
    teach(worker, 70, 220)
    worker.stop()
    with closing(Storage.open(worker.storage.path)) as storage:
        kept = storage.snapshots()
    assert len(kept) > 5
    assert [one.records for one in kept if one.restored] == [70]
    for first in kept:
        copy = tmp_path / f"{first.number}" / "m.db"
        copy.parent.mkdir()
        shutil.copyfile(worker.storage.path, copy)
        without_snapshots(copy, f"< {first.number}")
        execute(copy, f"DELETE FROM requests WHERE number <= {first.number}")
        with closing(Storage.open(copy)) as storage:
            for record in sorted({first.records, first.records + 13, 100, 150, 220}):
                if first.records <= record <= 220:
                    found = state_at(storage, *find(storage, record), settings(tmp_path).limits, None)
                    assert digest(found) == state_digest(taught(ITEMS[:record])), (first, record)


def test_what_is_not_kept_is_refused_and_changes_nothing(worker: Worker) -> None:
    known = digest(worker.state)
    with pytest.raises(HTTPProblem, match=r"cannot go back to record 201: it has only 200 records; ask for fewer"):
        ask(worker, "restore", record=201)
    with pytest.raises(HTTPProblem, match="cannot go back to 1969-12-31 23:59:50 UTC"):
        ask(worker, "restore", at=-10.0)
    assert digest(worker.state) == known
    assert worker.trouble is None
    ask(worker, "restore", record=60)
    teach(worker, 60, 65)
    with pytest.raises(HTTPProblem, match="cannot go back to record 201: it has only 200 records"):
        ask(worker, "restore", record=201)
    worker.stop()
    without_snapshots(worker.storage.path, "= 0")
    with (
        closing(Storage.open(worker.storage.path)) as storage,
        pytest.raises(BraidedError, match="cannot go back to record 0: what is kept of it begins with record "),
    ):
        find(storage, record=0)


@pytest.mark.usefixtures("minutes")
def test_damage_in_the_old_log_leaves_the_snapshots_and_what_lies_beyond(tmp_path: Path) -> None:
    worker = served_model(settings(tmp_path))
    teach(worker, 0, 200)
    worker.stop()
    execute(worker.storage.path, "UPDATE requests SET records = replace(records, 'class', 'CLASS') WHERE number = 17")
    lost = []
    with closing(Storage.open(worker.storage.path)) as storage:
        snapshots = {one.records for one in storage.snapshots()}
        for record in range(0, 201, 5):
            try:
                state = state_at(storage, *find(storage, record), settings(tmp_path).limits, None)
            except DamageError:
                lost.append(record)
            else:
                assert digest(state) == state_digest(taught(ITEMS[:record]))
    assert lost
    assert lost[0] >= 112, "the damaged request begins there"
    assert lost[-1] < min(records for records in snapshots if records >= 113), "a snapshot needs no log"


def test_figures_and_waiting_records_go_back(tmp_path: Path) -> None:
    worker = served_model(settings(tmp_path))
    teach(worker, 0, 40)
    ask(worker, "observe", records=records(ITEMS[40:41], False), id="early")
    summary = worker.state.stats.summary()
    moment = time.time()
    time.sleep(0.01)
    ask(worker, "label", id="early", records=label_of(ITEMS[40]["y"]))
    teach(worker, 41, 80)
    ask(worker, "restore", at=moment)
    assert {**worker.state.stats.summary(), "records_per_second": 0} == {**summary, "records_per_second": 0}
    assert [one.key for one in worker.state.late.entries()] == ["early"]
    assert ask(worker, "label", id="early", records=label_of(ITEMS[40]["y"]))["learned"] == 1
    worker.stop()
    assert digest(reopened(worker.settings).state) == state_digest(taught(ITEMS[:41]))


@pytest.mark.usefixtures("minutes")
def test_the_oldest_goes_where_there_is_no_room(tmp_path: Path) -> None:
    most = 250_000
    worker = served_model(settings(tmp_path, keep_bytes=most))
    teach(worker, 0, 300)
    worker.stop()
    with closing(Storage.open(worker.storage.path)) as storage:
        oldest, *others = storage.snapshots()
        assert oldest.records > 0
        assert len(others) > 1, "more than the last two"
        assert sum(one.bytes for one in (oldest, *others)) < most + 2 * oldest.bytes
        numbers = [number for number, *_ in storage.timeline(0)]
        assert numbers == list(range(oldest.number + 1, storage.last + 1)), "records before it are gone"
        state = state_at(storage, *find(storage, oldest.records), worker.settings.limits, None)
        assert digest(state) == state_digest(taught(ITEMS[: oldest.records]))


def test_numbers_of_records_go_on_after_all_of_them_are_gone(tmp_path: Path) -> None:
    """Two snapshots without a record between them leave none; a service that starts then must not count anew."""
    worker = served_model(settings(tmp_path, keep="none"))
    teach(worker, 0, 10)
    for _ in range(2):
        ask(worker, "restore", record=10)
    worker.stop()
    storage = Storage.open(worker.storage.path)
    worker = Worker(recover(storage, worker.settings.limits, None), storage, worker.settings)
    worker.start()
    teach(worker, 10, 15)
    ask(worker, "restore", record=15)
    teach(worker, 15, 20)
    worker.stop(snapshot=False)
    with closing(Storage.open(worker.storage.path)) as storage:
        assert storage.damage() == []
    assert digest(reopened(worker.settings).state) == state_digest(taught(ITEMS[:20]))


def test_which_snapshots_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10 * 86_400.0 + 5 * 3_600 + 60
    # Minutes ago, the newest first: two of this hour, two of the hour before, one three hours ago, yesterday's, an old
    # one.
    times = [now - 60 * minutes for minutes in (0.5, 0.9, 5, 30, 200, 24 * 60, 72 * 60)]

    def kept(rules: str) -> set[int]:
        with closing(Storage.create(tmp_path / f"{rules}.db", rules, "0" * 32, 0.0, "none", 7)) as storage:
            for place, written in enumerate(times):
                monkeypatch.setattr(storage_module.time, "time", lambda written=written: written)
                storage.write_snapshot(b"content", 7 - place, 0, 0.0, restored=False)
            monkeypatch.setattr(storage_module.time, "time", lambda: now)
            storage.prune(keep_rules(rules), 10**9)
            return {7 - one.number for one in storage.snapshots()}

    assert kept("none") == {0, 1}, "the last two always stay"
    assert kept("3h") == {0, 1, 3}
    assert kept("2d") == {0, 1, 4, 5}
    assert kept("3h,2d") == {0, 1, 3, 4, 5}
    assert keep_rules("2w") == [(2, 14 * 43_200)]
    with pytest.raises(BraidedError, match="keep is '5 years'"):
        Settings(Path(), keep="5 years")


def test_over_http(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as client:
        client.put("/models/m", json=SMALL_SPEC)
        client.post("/models/m/learn", json={"records": ITEMS[:100], "client": "me", "sequence": 0})
        history = client.get("/models/m/history").json()
        created = client.get("/models/m").json()["created"]
        assert history == {"records": 100, "snapshots": [{"request": 0, "records": 0, "time": created}]}
        answer = client.post("/models/m/restore", json={"record": 30})
        assert answer.json() == {"records": 30, "records_before": 100, "version": 30}
        assert digest_of(client.get("/models/m/checkpoint").content) == state_digest(taught(ITEMS[:30]))
        assert client.get("/models/m/clients/me").json()["next"] == 30
        for body in ({}, {"record": -1}, {"record": 1, "time": "now"}, {"time": "yesterday"}, {"record": True}, [1]):
            refused = client.post("/models/m/restore", json=body)
            assert refused.status_code == 422, body
        for body in ({"record": 500}, {"time": "1999-01-01"}, {"time": "0001-01-01T00:00+23:59"}):
            assert client.post("/models/m/restore", json=body).status_code == 409, body
        assert client.get("/models/m").json()["records"] == 30


def test_an_export_is_whole(tmp_path: Path) -> None:
    """A batch that is sent again to the service that took the export over is not learned twice."""
    batch = {"records": ITEMS[:50], "client": "me", "sequence": 0}
    with serving(tmp_path / "one") as one, serving(tmp_path / "two") as two:
        one.put("/models/m", json=SMALL_SPEC)
        one.post("/models/m/learn", json=batch)
        waiting = one.post("/models/m/observe", json={"x": ITEMS[50]["x"]}).json()["id"]
        content = one.get("/models/m/checkpoint").content
        took = two.put("/models/n/checkpoint", content=content, headers={"Content-Type": "application/octet-stream"})
        assert took.status_code == 201
        assert two.post("/models/n/learn", json=batch).json()["duplicates"] == 50
        assert two.post("/models/n/label", json={"id": waiting, "y": ITEMS[50]["y"]}).json()["learned"] == 1
        assert digest_of(two.get("/models/n/checkpoint").content) == state_digest(taught(ITEMS[:51]))
        assert two.get("/models/n").json()["error"] == pytest.approx(one.get("/models/m").json()["error"], abs=0.05)
    with serving(tmp_path / "two") as two:
        assert two.post("/models/n/learn", json=batch).json()["duplicates"] == 50


def test_a_checkpoint_has_a_limit_and_a_message_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path / "one", body_bytes=2_000, checkpoint_bytes=60_000) as client:
        client.put("/models/m", json=SMALL_SPEC)
        client.post("/models/m/learn", json={"records": ITEMS[:5]})
        content = client.get("/models/m/checkpoint").content
        kind = {"Content-Type": "application/octet-stream"}
        assert len(content) > 2_000
        assert client.put("/models/n/checkpoint", content=content, headers=kind).status_code == 201
        refused = client.put("/models/n/checkpoint", content=content + bytes(60_000), headers=kind)
        assert refused.status_code == 413
        assert "--max-checkpoint" in refused.json()["detail"]


def test_a_backup_made_while_records_flow_in_is_whole(tmp_path: Path) -> None:
    """Copied again and again while the model learns: each copy opens, with what was acknowledged before it began."""
    state = tmp_path / "state"
    with serving(state) as client:
        client.put("/models/m", json=SMALL_SPEC)
        known = 0
        for place in range(8):
            client.post("/models/m/learn", json={"records": ITEMS[known : known + 20]})
            known += 20
            target = tmp_path / f"backup {place}"
            assert backup(Settings(state), target, lambda text: None) == {"m": known}
            assert digest(reopened(Settings(target)).state) == state_digest(taught(ITEMS[:known]))
        with pytest.raises(BraidedError, match="is there already"):
            backup(Settings(state), target, lambda text: None)
    with serving(tmp_path / "backup 3") as client:
        assert client.get("/models/m").json()["records"] == 80
        assert client.post("/models/m/learn", json={"records": ITEMS[80:90]}).status_code == 200


def test_a_model_that_cannot_be_opened_does_not_keep_the_others_from_starting(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state) as client:
        for name in ("good", "bad", "ugly"):
            client.put(f"/models/{name}", json=SMALL_SPEC)
            client.post(f"/models/{name}/learn", json={"records": ITEMS[:30]})
    bad = state / "models" / "bad.db"
    execute(bad, "UPDATE snapshot_parts SET content = zeroblob(9)")
    (state / "models" / "ugly.opening").write_text("3")
    content = bad.read_bytes()
    with serving(state) as client:
        assert client.get("/models/good").json()["records"] == 30
        assert client.post("/models/good/learn", json={"records": ITEMS[30:40]}).json()["records"] == 40
        assert client.get("/healthz").json() == {
            "status": "degraded", "models": {"bad": "quarantined", "ugly": "quarantined"}
        }  # fmt: skip
        requests: list[tuple[str, str, dict[str, Any]]] = [
            ("GET", "", {}),
            ("GET", "/checkpoint", {}),
            ("POST", "/predict", {"json": {"x": {}}}),
            ("POST", "/learn", {"json": {"records": ITEMS[:1]}}),
            ("PUT", "", {"json": SMALL_SPEC}),
            ("DELETE", "", {}),
        ]
        for method, path, body in requests:
            answer = client.request(method, f"/models/bad{path}", **body)
            assert answer.status_code == 503, (method, path)
            assert "no good snapshot" in answer.json()["detail"]
            assert "braided serve repair" in answer.json()["detail"]
            assert str(tmp_path) not in answer.text
        assert "ended 3 times in a row" in client.get("/models/ugly").json()["detail"]
        assert [one["name"] for one in client.get("/models").json()["quarantined"]] == ["bad", "ugly"]
        assert 'braided_quarantined{model="bad"} 1.0' in client.get("/metrics").text
    assert bad.read_bytes() == content


def test_a_copy_of_the_folder_is_locked_by_itself(tmp_path: Path) -> None:
    """The lock is on the folder: no file in it can be removed to get around it."""
    with serving(tmp_path / "state"):
        for path in (tmp_path / "state").iterdir():
            if path.is_file():
                path.unlink()
        with pytest.raises(BraidedError, match="another braided serve uses it"):
            Service(Settings(tmp_path / "state")).open(say=lambda text: None)
        shutil.copytree(tmp_path / "state", tmp_path / "copy")
        with serving(tmp_path / "copy") as client:
            assert client.get("/healthz").status_code == 200
