"""A model's database: recovery is bit-exact, failures are explained, nothing that is needed is removed."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from help_serve import (
    HTTPProblem,
    ask,
    digest,
    label_of,
    records,
    reopened,
    rows,
    served_model,
    small_model,
    taught,
)

from braided import MODLClassifier
from braided.errors import BraidedError
from braided.serve.recovery import Recovered, recover
from braided.serve.requests import StreamBatches, WriteRequest
from braided.serve.settings import Limits, Settings
from braided.serve.storage import DamageError, Storage, StorageError, read_only
from braided.serve.wal import wal_damage
from braided.serve.worker import Worker
from braided.store import state_digest


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path, snapshot_records=60, keep="none")


def teach(worker: Worker, items: list[dict[str, Any]], size: int = 7) -> None:
    for at in range(0, len(items), size):
        ask(worker, "learn", records=records(items[at : at + size]))


def serve_again(settings: Settings) -> Worker:
    storage = Storage.open(settings.models / "m.db", settings.durability)
    worker = Worker(recover(storage, settings.limits, None), storage, settings)
    worker.start()
    return worker


def lying_there(settings: Settings, target: Path) -> Settings:
    """The files as a kill would leave them, copied while nothing is written."""
    there = Settings(target, keep=settings.keep)
    shutil.copytree(settings.models, there.models)
    return there


def test_recovery_is_bit_exact_at_any_moment(settings: Settings, tmp_path: Path) -> None:
    items = rows(160)
    worker = served_model(settings)
    for at in range(0, 160, 16):
        teach(worker, items[at : at + 16], size=16)
        time.sleep(0.05)  # a snapshot may be on its way
        found = reopened(lying_there(settings, tmp_path / f"copy {at}"))
        assert found.state.stats.records == at + 16
        assert digest(found.state) == state_digest(taught(items[: at + 16]))
        assert found.notes == []
    worker.stop()
    found = reopened(settings)
    assert found.replayed == 0
    assert digest(found.state) == state_digest(taught(items))
    with contextlib.closing(read_only(settings.models / "m.db")) as connection:
        assert connection.execute("SELECT count(*) FROM snapshots").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM requests").fetchone()[0] < 20, "older ones are removed"


def test_what_was_learned_can_be_read_in_sql(settings: Settings) -> None:
    worker = served_model(settings)
    ask(worker, "learn", records=records([{"x": {"a": 0.1, "b": 3.0}, "y": "on"}, {"x": {"a": 2.5}, "y": "off"}]))
    with pytest.raises(HTTPProblem):
        ask(worker, "learn", records=records([{"x": {f"f{i}": 1.0 for i in range(1_000)}, "y": 1}]))
    with contextlib.closing(read_only(worker.storage.path)) as connection:
        found = connection.execute("SELECT json_extract(x, '$.a'), y, w FROM learned").fetchall()
        assert found == [(0.1, "on", 1.0), (2.5, "off", 1.0)]
        (refused,) = connection.execute("SELECT refused FROM requests WHERE refused IS NOT NULL").fetchone()
        assert "at most 1000 features" in refused
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM requests")
    worker.stop()


def test_figures_clients_and_observations_come_back(settings: Settings) -> None:
    items = rows(90)
    worker = served_model(settings)
    ask(worker, "learn", records=records(items[:40]), client="me", sequence=0)
    ask(worker, "observe", records=records(items[40:41], False), id="kept")
    ask(worker, "observe", records=records(items[41:42], False), id="taught")
    ask(worker, "label", id="taught", records=label_of(items[41]["y"]))
    ask(worker, "learn", records=records(items[42:90]), client="me", sequence=40)
    before = worker.state
    summary, strip, curve = before.stats.summary(), before.stats.strip(48), before.stats.curve(100)
    for stop in (False, True):  # once from the log, once from the snapshot
        worker.stop(snapshot=stop)
        state = reopened(settings).state
        assert state.clients == {"me": 88}
        assert [one.key for one in state.late.entries()] == ["kept"]
        waiting = state.late.get("kept")
        assert waiting is not None
        assert waiting.records.one(0) == items[40]["x"]
        assert state.late.label_came("taught")
        assert {**state.stats.summary(), "records_per_second": 0} == {**summary, "records_per_second": 0}
        assert (state.stats.strip(48), state.stats.curve(100)) == (strip, curve)
        worker = serve_again(settings)
        assert ask(worker, "label", id="taught", records=label_of(items[41]["y"]))["duplicates"] == 1
    assert ask(worker, "label", id="kept", records=label_of(items[40]["y"]))["learned"] == 1
    worker.stop()
    assert digest(reopened(settings).state) == state_digest(taught([*items[:40], *items[41:], items[40]]))


def test_a_damaged_snapshot_is_passed_over_and_two_are_damage(settings: Settings) -> None:
    items = rows(400)
    worker = served_model(settings)
    teach(worker, items)
    worker.stop()
    damage = "UPDATE snapshot_parts SET content = zeroblob(9) WHERE snapshot = (SELECT {}(number) FROM snapshots)"
    with contextlib.closing(sqlite3.connect(settings.models / "m.db", isolation_level=None)) as connection:
        connection.execute(damage.format("max"))
    found = reopened(settings)
    assert "passed over" in found.notes[0]
    assert found.replayed > 0
    assert digest(found.state) == state_digest(taught(items))
    with contextlib.closing(sqlite3.connect(settings.models / "m.db", isolation_level=None)) as connection:
        connection.execute(damage.format("min"))
    with pytest.raises(DamageError, match="no good snapshot"):
        reopened(settings)


def test_a_snapshot_can_be_loaded_as_a_model(settings: Settings, tmp_path: Path) -> None:
    items = rows(50)
    worker = served_model(settings)
    teach(worker, items)
    worker.stop()
    storage = Storage.open(settings.models / "m.db")
    (tmp_path / "m.braided").write_bytes(storage.read_snapshot(storage.snapshots()[-1].number))
    storage.close()
    assert state_digest(MODLClassifier.load(tmp_path / "m.braided")) == state_digest(taught(items))


class Failing:
    """SQLite's connection, of which a statement fails."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.fails: Callable[[str], sqlite3.Error | None] = lambda statement: None

    def execute(self, statement: str, *values: Any) -> Any:
        if (error := self.fails(statement)) is not None:
            raise error
        return self.connection.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def failing(worker: Worker) -> Failing:
    found = Failing(worker.storage.connection)
    worker.storage.connection = found  # type: ignore[assignment]
    return found


def no_room(name: str = "SQLITE_FULL") -> sqlite3.Error:
    error = sqlite3.OperationalError("database or disk is full" if name == "SQLITE_FULL" else "disk I/O error")
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize(("name", "status"), [("SQLITE_FULL", 507), ("SQLITE_IOERR_FSYNC", 503)])
def test_a_disk_that_fails_refuses_learning_and_nothing_else(settings: Settings, name: str, status: int) -> None:
    items = rows(120)
    worker = served_model(settings)
    disk = failing(worker)
    teach(worker, items[:40])
    before = digest(worker.state)
    disk.fails = lambda statement: no_room(name) if statement == "COMMIT" else None
    for _ in range(3):
        with pytest.raises(HTTPProblem, match="predictions go on") as refused:
            ask(worker, "learn", records=records(items[40:50]), client="me", sequence=0)
        assert refused.value.status == status
        assert str(settings.folder) not in refused.value.detail
    assert worker.trouble is not None
    assert worker.predict(records(items[:3], False))[1][0]["version"] == 40
    assert digest(worker.state) == before
    assert worker.state.clients == {}
    disk.fails = lambda statement: None
    assert ask(worker, "learn", records=records(items[40:50]), client="me", sequence=0)["next"] == 10
    assert worker.trouble is None
    teach(worker, items[50:])
    worker.stop(snapshot=False)
    assert digest(reopened(settings).state) == state_digest(taught(items))


@pytest.mark.parametrize(
    "statement", ["BEGIN", "INSERT INTO requests", "INSERT INTO snap", "DELETE", "COMMIT", "UPDATE"]
)
def test_no_single_failure_loses_or_alters_anything(tmp_path: Path, statement: str) -> None:
    items = rows(140)
    for number in (1, 2, 5, 16):
        settings = Settings(tmp_path / str(number), snapshot_records=30, keep="none")
        worker = served_model(settings)
        disk, count = failing(worker), iter(range(1, 10_000))

        def fails(found: str, count: Iterator[int] = count, number: int = number) -> sqlite3.Error | None:
            return no_room() if found.startswith(statement) and next(count) == number else None

        disk.fails = fails
        acknowledged: list[dict[str, Any]] = []
        for at in range(0, len(items), 10):
            with contextlib.suppress(HTTPProblem):
                ask(worker, "learn", records=records(items[at : at + 10]))
                acknowledged += items[at : at + 10]
        assert not worker.broken
        assert len(acknowledged) >= len(items) - 10
        worker.stop(snapshot=False)
        assert digest(reopened(settings).state) == state_digest(taught(acknowledged))


def test_a_retry_does_not_teach_twice(settings: Settings) -> None:
    items = rows(30)
    worker = served_model(settings)
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
    worker.stop(snapshot=False)
    found = reopened(settings)
    assert digest(found.state) == state_digest(taught(items[:20]))
    assert found.state.clients == {"a": 20}


def several(worker: Worker, requests: list[dict[str, Any]]) -> list[Any]:
    """Send requests that the writer will find together, in one group; their answers, or the problems."""
    futures: list[Future[Any]] = [Future() for _ in requests]
    with worker._wake:
        for request, future in zip(requests, futures, strict=True):
            worker.submit(WriteRequest("learn", future, **request))
    done = [future.exception(timeout=300) or future.result() for future in futures]
    return [answer.status if isinstance(answer, HTTPProblem) else answer for answer in done]


def test_a_retry_in_the_same_group_is_no_safer_than_the_first(settings: Settings) -> None:
    items = rows(10)
    worker = served_model(settings)
    disk = failing(worker)
    disk.fails = lambda statement: no_room() if statement == "COMMIT" else None
    same = {"records": records(items), "client": "me", "sequence": 0}
    assert several(worker, [same, same]) == [507, 507]
    disk.fails = lambda statement: None
    first, second = several(worker, [same, same])
    assert (first["learned"], second["learned"], second["duplicates"]) == (10, 0, 10)
    worker.stop(snapshot=False)
    assert reopened(settings).state.stats.records == 10


def test_requests_of_one_group_are_refused_one_by_one(settings: Settings) -> None:
    items = rows(30)
    worker = served_model(settings)
    too_wide = records([{"x": {f"new {i}": 1.0 for i in range(1_000)}, "y": 1}])
    ask(worker, "learn", records=records(items[:1]))
    found = several(worker, [{"records": records(items[1:3])}, {"records": too_wide}, {"records": records(items[3:9])}])
    assert [found[0]["records"], found[1], found[2]["records"]] == [3, 422, 9]
    stream = StreamBatches()
    batches = [{"records": records(items[at : at + 7]), "stream": stream} for at in (9, 16, 23)]
    batches[1]["records"] = too_wide
    found = several(worker, batches)
    assert [found[0]["learned"], *found[1:]] == [7, 422, 409], "after a refused batch, the rest of a stream is refused"
    assert several(worker, batches[2:]) == [409]
    worker.stop(snapshot=False)
    assert digest(reopened(settings).state) == state_digest(taught(items[:16])), "and so they are at the next start"


def test_a_request_without_an_outcome_is_decided_at_the_next_start(settings: Settings) -> None:
    items = rows(20)
    worker = served_model(settings)
    teach(worker, items[:10])
    too_wide = records([{"x": {f"new {i}": 1.0 for i in range(1_000)}, "y": 1}])
    worker.stop(snapshot=False)
    storage = Storage.open(settings.models / "m.db")
    storage.append(
        [WriteRequest("learn", records=some) for some in (records(items[10:15]), too_wide, records(items[15:]))]
    )
    storage.close()  # as if the process had been killed before it applied them
    assert digest(reopened(settings).state) == state_digest(taught(items))
    with contextlib.closing(read_only(settings.models / "m.db")) as connection:
        assert connection.execute("SELECT count(*) FROM requests WHERE refused IS NOT NULL").fetchone() == (1,)


def test_a_request_that_was_learned_and_is_refused_now_stops_the_model(settings: Settings) -> None:
    worker = served_model(settings)
    teach(worker, rows(20))
    worker.stop(snapshot=False)
    storage = Storage.open(settings.models / "m.db")
    storage.append([WriteRequest("learn", records=records([{"x": {f"n{i}": 1.0 for i in range(1_000)}, "y": 1}]))])
    storage.note_decided()
    storage.close()
    with pytest.raises(BraidedError, match=r"was learned when it came and is refused now .*max_features"):
        reopened(settings)


def test_clients_are_bounded_and_can_be_forgotten(tmp_path: Path) -> None:
    settings = Settings(tmp_path, limits=Limits(clients=2))
    items = rows(3)
    worker = served_model(settings)
    for client in ("a", "b"):
        ask(worker, "learn", records=records(items), client=client, sequence=0)
    with pytest.raises(HTTPProblem, match="2 clients are remembered"):
        ask(worker, "learn", records=records(items), client="c", sequence=0)
    ask(worker, "forget", client="a")
    ask(worker, "learn", records=records(items), client="c", sequence=0)
    worker.stop(snapshot=False)
    assert reopened(Settings(tmp_path, limits=Limits(clients=1))).state.clients == {"b": 3, "c": 3}


def test_observations_are_bounded_and_expire(tmp_path: Path) -> None:
    settings = Settings(tmp_path, limits=Limits(observations=3, observation_seconds=1000.0))
    items = rows(10)
    worker = served_model(settings)
    now = time.time()
    for i in range(5):
        ask(worker, "observe", records=records(items[i : i + 1], False), id=f"id {i}", time=now)
    assert [one.key for one in worker.state.late.entries()] == ["id 2", "id 3", "id 4"]
    ask(worker, "observe", records=records(items[:1], False), id="old", time=now - 2000)
    with pytest.raises(HTTPProblem, match="unknown or has expired") as gone:
        ask(worker, "label", id="old", records=label_of("class 0"))
    assert gone.value.status == 404
    ask(worker, "observe", records=records(items[:1], False), id="new", time=now + 1500)
    assert [one.key for one in worker.state.late.entries()] == ["new"]
    worker.stop(snapshot=False)
    # With other limits the log is still replayed under those that it was written under; then the new ones hold.
    found = reopened(Settings(tmp_path, limits=Limits(observations=50)))
    assert [one.key for one in found.state.late.entries()] == ["new"]


def test_a_model_cannot_outgrow_its_limits(settings: Settings) -> None:
    small = MODLClassifier(learners=small_model().learners, max_features=4, max_classes=2)
    worker = served_model(settings, small)
    ask(worker, "learn", records=records([{"x": {"a": 1.0, "b": 2.0}, "y": 1}, {"x": {"c": 1.0}, "y": 2}]))
    before = digest(worker.state)
    for items, why in (
        ([{"x": {"d": 1.0}, "y": 1}, {"x": {"e": 1.0}, "y": 1}], "at most 4 features"),
        ([{"x": {"a": 1.0}, "y": 3}], "at most 2 classes"),
    ):
        with pytest.raises(HTTPProblem, match=why):
            ask(worker, "learn", records=records(items))
        assert (digest(worker.state), worker.state.stats.records) == (before, 2)
    ask(worker, "learn", records=records([{"x": {"d": 1.0}, "y": 1}]))
    worker.stop(snapshot=False)
    assert reopened(settings).state.stats.records == 3


def test_one_connection_writes_and_checkpoints(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite before 3.51.3 may corrupt a database that two connections write and checkpoint."""
    opened: list[str] = []
    connect = sqlite3.connect

    def noted(database: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append("read" if "?mode=ro" in str(database) else "write")
        return connect(database, *arguments, **options)

    worker = served_model(settings)
    monkeypatch.setattr("sqlite3.connect", noted)
    teach(worker, rows(200))
    with contextlib.closing(read_only(worker.storage.path)) as connection:
        Storage(worker.storage.path, connection=connection).snapshots()
    ask(worker, "restore", record=150)
    ask(worker, "export")
    worker.stop()
    assert opened == ["read"]


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    settings = Settings(tmp_path, snapshot_records=500, keep="24h,7d", keep_bytes=200_000)
    worker = served_model(settings)
    batch, largest = records(rows(100)), 0
    for _ in range(300):
        ask(worker, "learn", records=batch)
        largest = max(largest, worker.storage.size)
    assert largest < 12_000_000, "8 MB of log, and the database"
    worker.stop()
    assert worker.storage.size < 3_000_000
    with contextlib.closing(read_only(settings.models / "m.db")) as connection:
        assert connection.execute("SELECT count(*) FROM requests").fetchone()[0] < 50


def test_a_database_of_another_name_or_format_is_refused(settings: Settings) -> None:
    worker = served_model(settings)
    worker.stop()
    (settings.models / "m.db").rename(settings.models / "other.db")
    with pytest.raises(BraidedError, match=r"other.db is the database of model 'm'"):
        reopened(settings, "other")
    (settings.models / "other.db").rename(settings.models / "m.db")
    with contextlib.closing(sqlite3.connect(settings.models / "m.db", isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET format = 7")
    with pytest.raises(BraidedError, match="is of format 7, and this braided reads 1"):
        reopened(settings)


def test_a_log_that_is_broken_off_is_told_from_a_damaged_one(settings: Settings, tmp_path: Path) -> None:
    items = rows(60)
    worker = served_model(Settings(settings.folder, keep="none"))
    for at in range(0, 60, 10):
        teach(worker, items[at : at + 10], size=10)
    time.sleep(0.2)  # until it is noted that all is decided
    there = lying_there(settings, tmp_path / "killed")
    worker.stop()
    path = there.models / "m.db-wal"
    content = path.read_bytes()
    assert wal_damage(path) is None
    for length in range(0, len(content), 997):  # cut anywhere: what came before is there
        path.write_bytes(content[:length])
        assert wal_damage(path) is None, length
    missed = 0
    for at in range(0, len(content), 101):  # one bit flipped anywhere
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        missed += wal_damage(path) is None
    # The note that all is decided is the last commit, after which nothing shows a flipped bit: no record is in it.
    assert missed * 101 <= 2 * (4_096 + 24)
    path.write_bytes(content)
    assert reopened(there).state.stats.records == 60


def test_a_storage_error_leaves_nothing_behind(settings: Settings) -> None:
    worker = served_model(settings)
    worker.stop()
    storage = Storage.open(settings.models / "m.db")
    storage.connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(StorageError, match="full"):
        storage.append([WriteRequest("learn", records=records(rows(500)))])
    storage.close()
    assert isinstance(reopened(settings), Recovered)


def test_a_refusal_that_could_not_be_noted_is_noted_with_the_next_request(settings: Settings) -> None:
    items = rows(40)
    worker = served_model(settings)
    teach(worker, items[:10])
    disk = failing(worker)
    disk.fails = lambda statement: no_room() if statement.startswith("UPDATE requests") else None
    with pytest.raises(HTTPProblem) as refused:
        ask(worker, "learn", records=records([{"x": {f"n{i}": 1.0 for i in range(1_000)}, "y": 1}]))
    assert refused.value.status == 507
    disk.fails = lambda statement: None
    teach(worker, items[10:])
    worker.stop(snapshot=False)
    assert digest(reopened(settings).state) == state_digest(taught(items))


def test_other_limits_on_waiting_records_hold_from_the_start_on(tmp_path: Path) -> None:
    items = rows(20)

    def observe(worker: Worker, first: int) -> None:
        for i in range(first, first + 10):
            ask(worker, "observe", records=records(items[i : i + 1], False), id=f"id {i}")

    few = Settings(tmp_path, limits=Limits(observations=3))
    worker = served_model(few)
    ask(worker, "learn", records=records(items[:1]))
    worker.stop()
    many = Settings(tmp_path, limits=Limits(observations=50))
    worker = serve_again(many)
    observe(worker, 0)
    assert ask(worker, "label", id="id 0", records=label_of("class 0"))["learned"] == 1
    worker.stop(snapshot=False)
    assert len(reopened(many).state.late) == 9
    worker = serve_again(many)
    ask(worker, "restore", record=1)
    observe(worker, 10)
    assert len(worker.state.late) >= 10
    known = [one.key for one in worker.state.late.entries()]
    worker.stop(snapshot=False)
    assert [one.key for one in reopened(many).state.late.entries()] == known


def test_a_log_whose_commits_were_not_synced_may_have_holes(settings: Settings, tmp_path: Path) -> None:
    """A machine that dies may have written back any page: then what was promised is there, and nothing is damaged."""
    hasty = Settings(settings.folder, durability="interval", interval_seconds=1_000.0)
    worker = served_model(Settings(settings.folder))
    worker.stop()
    worker = serve_again(hasty)
    teach(worker, rows(60), size=10)
    there = lying_there(hasty, tmp_path / "killed")
    worker.stop()
    path = there.models / "m.db-wal"
    content = path.read_bytes()
    for page in range(1, len(content) // 4_120, 4):
        at = 32 + 4_120 * page
        path.write_bytes(content[:at] + bytes(4_120) + content[at + 4_120 :])
        copy = lying_there(there, tmp_path / f"page {page}")
        assert 0 <= reopened(copy).state.stats.records <= 60


def test_the_view_has_what_the_model_is_made_of(settings: Settings) -> None:
    worker = served_model(Settings(settings.folder))
    items = rows(60)

    def seen() -> list[str]:
        with contextlib.closing(read_only(worker.storage.path)) as connection:
            return [y for (y,) in connection.execute("SELECT y FROM learned")]

    def labels(*places: range) -> list[str]:
        return [items[place]["y"] for some in places for place in some]

    teach(worker, items[:30])
    ask(worker, "learn", records=records(items[30:35]), client="me", sequence=0)
    ask(worker, "learn", records=records(items[30:40]), client="me", sequence=0)
    assert seen() == labels(range(40)), "duplicates are there once"
    ask(worker, "restore", record=17)
    assert seen() == labels(range(17))
    teach(worker, items[50:60])
    assert seen() == labels(range(17), range(50, 60))
    ask(worker, "restore", record=40)
    assert seen() == labels(range(40)), "what was gone back from can be gone back to"
    worker.stop()
