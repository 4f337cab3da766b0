"""Back to an earlier record: bit for bit what the model was then, however often, and after any restart."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from help_serve import SMALL_SPEC, HTTPProblem, ask, digest, digest_of, records, rows, served_model, serving, taught

from braided.errors import BraidedError
from braided.serve.backup import backup
from braided.serve.disk import Disk
from braided.serve.journal import CorruptJournalError
from braided.serve.keep import KeepRule, keep_rules
from braided.serve.model_folder import ModelFolder, Recovery
from braided.serve.model_state import ModelState
from braided.serve.service import Service
from braided.serve.settings import Settings
from braided.serve.worker import Worker
from braided.store import state_digest

ITEMS = rows(300)


def settings(folder: Path, **changes: Any) -> Settings:
    return Settings(folder, **{"segment_bytes": 2_000, "snapshot_records": 50, "keep": "9999m", **changes})


def teach(worker: Worker, start: int, stop: int, client: str | None = None) -> None:
    for at in range(start, stop, 7):
        part = records(ITEMS[at : min(at + 7, stop)])
        ask(worker, "learn", records=part, client=client, sequence=at if client else 0)


def recovered(folder: Path) -> ModelState:
    return _opened(folder)[0]


def teach_for_hours(worker: Worker, stop: int, client: str | None = None) -> None:
    """Teach 50 records for each snapshot, and date these a minute apart, so that the rule keeps them all."""
    for at in range(0, stop, 50):
        teach(worker, at, at + 50, client)
        deadline = time.monotonic() + 60
        while worker.snapshots <= at // 50 and time.monotonic() < deadline:
            time.sleep(0.005)
        files = sorted(worker.folder.path.glob("snapshot-*"))
        for place, file in enumerate(files):
            os.utime(file, (time.time() - 60 * (len(files) - place),) * 2)


def teach_for_hours_on(worker: Worker, start: int, stop: int) -> None:
    """The same, after a restore."""
    for at in range(start, stop, 50):
        teach(worker, at, at + 50)
        snapshots = sorted(worker.folder.path.glob("*.braided"), key=lambda path: path.name.partition("-")[2])
        for place, file in enumerate(snapshots):
            with contextlib.suppress(FileNotFoundError):
                os.utime(file, (time.time() - 60 * (len(snapshots) - place),) * 2)


def _opened(folder: Path, **changes: Any) -> tuple[ModelState, ModelFolder, Recovery]:
    files = ModelFolder(folder / "m", settings(folder, **changes), Disk())
    state, recovery = files.open()
    return state, files, recovery


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    """A model that has learned 200 records by one client, with all its snapshots."""
    found = served_model(tmp_path, settings(tmp_path))
    teach_for_hours(found, 200, "me")
    return found


@pytest.mark.parametrize("record", [0, 1, 49, 50, 103, 150, 199, 200])
def test_any_record_comes_back_bit_for_bit(worker: Worker, tmp_path: Path, record: int) -> None:
    assert ask(worker, "restore", record=record) == {"records": record, "records_before": 200, "version": record}
    assert digest(worker.state) == state_digest(taught(ITEMS[:record]))
    assert worker.state.clients.get("me", 0) == record, "a client goes on from there"
    teach(worker, record, 220, "me")
    expected = state_digest(taught(ITEMS[:220]))
    assert digest(worker.state) == expected
    worker.stop(snapshot=False)
    assert digest(recovered(tmp_path)) == expected
    # Without the snapshots since, the journal has to go back as well.
    newest = sorted((tmp_path / "m").glob("snapshot-*"))[2:]
    for path in newest:
        path.unlink()
    assert digest(recovered(tmp_path)) == expected


def test_it_can_be_undone_and_done_again(worker: Worker, tmp_path: Path) -> None:
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
    for path in sorted((tmp_path / "m").glob("snapshot-*"))[1:]:
        path.unlink()
    assert digest(recovered(tmp_path)) == state_digest(taught(ITEMS[:85]))


def test_a_start_needs_no_older_snapshot_after_it(tmp_path: Path) -> None:
    """Of what a model went back to there are two files: one may be damaged, and older ones gone."""
    worker = served_model(tmp_path, settings(tmp_path, keep="none"))
    teach_for_hours(worker, 200)
    ask(worker, "restore", record=170)
    teach(worker, 170, 180)
    worker.stop(snapshot=False)
    newest = sorted((tmp_path / "m").glob("*.braided"), key=lambda path: path.name.partition("-")[2])[-2:]
    assert {path.name.partition("-")[0] for path in newest} == {"restored", "snapshot"}
    for path in newest:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + b"?")
        assert digest(recovered(tmp_path)) == state_digest(taught(ITEMS[:180]))
        path.write_bytes(content)


def test_every_record_after_a_snapshot_that_says_so_comes_back(tmp_path: Path) -> None:
    worker = served_model(tmp_path, settings(tmp_path))
    teach_for_hours(worker, 100)
    ask(worker, "restore", record=70)
    teach_for_hours_on(worker, 70, 220)
    worker.stop()
    for point in [one for one in worker.folder.history().kept() if one.whole]:
        for record in sorted({point.records, min(point.records + 13, 220)}):
            folder = tmp_path / f"{point.frame} {record}"
            shutil.copytree(tmp_path / "m", folder / "m")
            _, files, _ = _opened(folder)
            assert digest(files.go_back(record)) == state_digest(taught(ITEMS[:record]))
            files.close()


def test_what_is_not_kept_is_refused_and_changes_nothing(worker: Worker) -> None:
    known = digest(worker.state)
    with pytest.raises(HTTPProblem, match=r"cannot go back to record 201: it has only 200 records; ask for fewer"):
        ask(worker, "restore", record=201)
    with pytest.raises(HTTPProblem, match="cannot go back to 2001-09-09 01:46:40 UTC"):
        ask(worker, "restore", at=1e9)
    assert digest(worker.state) == known
    assert worker.trouble is None
    worker.stop()


def test_damage_in_an_old_journal_leaves_the_snapshots_and_what_lies_beyond(worker: Worker, tmp_path: Path) -> None:
    worker.stop(snapshot=False)
    _, files, _ = _opened(tmp_path)
    snapshots = dict(sorted(files.snapshots()))
    after_100 = sorted(snapshots)[2]
    damaged = [path for path in sorted((tmp_path / "m").glob("journal-*")) if int(path.stem.split("-")[1]) <= after_100]
    content = bytearray(damaged[-1].read_bytes())
    content[len(content) // 2] ^= 1
    damaged[-1].write_bytes(content)
    history = files.history()
    lost = []
    for record in range(0, 201, 5):
        try:
            state = history.state_at(history.find(record=record))
        except CorruptJournalError:
            lost.append(record)
        else:
            assert digest(state) == state_digest(taught(ITEMS[:record]))
    assert lost, "the damage is in the way of some records"
    assert lost[0] % 50 > 0, "a snapshot needs no journal"
    assert lost[0] // 50 == lost[-1] // 50, "what comes after the next snapshot is not touched"


def test_a_number_beyond_the_end_is_told_from_one_that_is_not_kept(worker: Worker) -> None:
    ask(worker, "restore", record=60)
    teach(worker, 60, 65)
    with pytest.raises(HTTPProblem, match="cannot go back to record 201: it has only 65 records"):
        ask(worker, "restore", record=201)
    oldest = sorted(worker.folder.path.glob("snapshot-*"))[0]
    oldest.unlink()
    with pytest.raises(HTTPProblem, match="cannot go back to record 0: what is kept of it begins with record "):
        ask(worker, "restore", record=0)
    worker.stop()


def test_figures_and_waiting_records_go_back(tmp_path: Path) -> None:
    worker = served_model(tmp_path, settings(tmp_path))
    teach(worker, 0, 40)
    ask(worker, "observe", records=records(ITEMS[40:41], False), id="early", time=time.time())
    summary = worker.state.stats.summary()
    moment = time.time()
    time.sleep(0.01)
    ask(worker, "label", id="early", label=ITEMS[40]["y"])
    teach(worker, 41, 80)
    ask(worker, "restore", at=moment)
    assert {**worker.state.stats.summary(), "records_per_second": 0} == {**summary, "records_per_second": 0}
    assert [one.key for one in worker.state.late.entries()] == ["early"]
    assert ask(worker, "label", id="early", label=ITEMS[40]["y"])["learned"] == 1
    worker.stop()
    assert digest(recovered(tmp_path)) == state_digest(taught(ITEMS[:41]))


def test_the_oldest_goes_where_there_is_no_room(tmp_path: Path) -> None:
    worker = served_model(tmp_path, settings(tmp_path, keep_bytes=60_000))
    teach_for_hours(worker, 300)
    worker.stop()
    worker = Worker(*_opened(tmp_path, keep_bytes=60_000))
    worker.start()
    kept = worker.folder.history().kept()
    assert kept[0].records > 0
    total = sum(path.stat().st_size for path in (tmp_path / "m").iterdir())
    assert 60_000 / 2 < total < 60_000 + 3 * max(path.stat().st_size for path in (tmp_path / "m").iterdir())
    ask(worker, "restore", record=kept[0].records)
    assert digest(worker.state) == state_digest(taught(ITEMS[: kept[0].records]))
    worker.stop()


def test_which_snapshots_are_kept() -> None:
    hours, days = keep_rules("3h,2d")
    now = 10 * 86_400.0 + 5 * 3_600 + 60
    # Minutes ago: two of this hour, two of the hour before, one three hours ago, yesterday's, and an old one.
    times = [now - 60 * minutes for minutes in (0.5, 0.9, 5, 30, 200, 24 * 60, 72 * 60)]
    assert hours.kept(times, now) == {1, 3}
    assert days.kept(times, now) == {4, 5}
    assert keep_rules("none") == []
    assert keep_rules("2w") == [KeepRule(2, 14 * 43_200)]
    with pytest.raises(BraidedError, match="keep is '5 years'"):
        Settings(Path(), keep="5 years")


def test_over_http(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as client:
        client.put("/models/m", json=SMALL_SPEC)
        client.post("/models/m/learn", json={"records": ITEMS[:100], "client": "me", "sequence": 0})
        assert client.get("/models/m/history").json()["snapshots"][0] | {"time": 0} == {
            "frame": 0, "records": 0, "time": 0, "whole": True
        }  # fmt: skip
        answer = client.post("/models/m/restore", json={"record": 30})
        assert answer.json() == {"records": 30, "records_before": 100, "version": 30}
        assert digest_of(client.get("/models/m/checkpoint").content) == state_digest(taught(ITEMS[:30]))
        assert client.get("/models/m/clients/me").json()["next"] == 30
        for body in ({}, {"record": -1}, {"record": 1, "time": "now"}, {"time": "yesterday"}, {"record": True}, [1]):
            refused = client.post("/models/m/restore", json=body)
            assert refused.status_code == 422, body
        assert client.post("/models/m/restore", json={"record": 500}).status_code == 409
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
            found = ModelFolder(target / "models" / "m", Settings(target), Disk()).open()[0]
            assert digest(found) == state_digest(taught(ITEMS[:known]))
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
    bad = state / "models" / "bad"
    for path in bad.glob("snapshot-*"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    (state / "models" / "ugly" / "opening").write_text("3")
    files = {path.name: path.read_bytes() for path in bad.iterdir()}
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
    assert {path.name: path.read_bytes() for path in bad.iterdir()} == files


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
