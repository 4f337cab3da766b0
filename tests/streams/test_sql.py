"""Queries: SQLite through files and connections, and a real PostgreSQL where there is one."""

from __future__ import annotations

import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kinds import NAMES, WRITERS, as_csv, made_up_records

from braided import BraidedError
from braided.run import Job, RunOptions
from braided.streams import SQLStream, open_stream, read_whole

RECORDS = made_up_records(1_300)
QUERY = "SELECT a, b, c, colour, flag, kind FROM made_up ORDER BY number"


def run(options: RunOptions, **more: Any) -> dict[str, Any]:
    job = Job(options, **more)
    for _ in job.run():
        pass
    return job.document()


def test_any_connection_will_do(tmp_path: Path) -> None:
    WRITERS["d.db"](tmp_path / "d.db", RECORDS)
    connection = sqlite3.connect(tmp_path / "d.db")
    query = "SELECT * FROM made_up ORDER BY rowid"
    for connect in (connection, lambda: sqlite3.connect(tmp_path / "d.db")):
        stream = SQLStream(connect, query, target="kind")
        assert len(read_whole(stream).table) == len(read_whole(stream).table) == 1_300, "it can be asked again"
    connection.close()


def test_rows_are_fetched_some_at_a_time() -> None:
    class Cursor:
        description = (("a",), ("y",))
        asked: list[int] = []  # noqa: RUF012
        left = 2_000

        def execute(self, _: str) -> None:
            pass

        def fetchmany(self, n: int) -> list[tuple[int, int]]:
            self.asked.append(n)
            n = min(n, self.left)
            self.left -= n
            return [(1, 0)] * n

        def close(self) -> None:
            pass

    class Connection:
        def cursor(self) -> Cursor:
            return Cursor()

    batches = SQLStream(Connection(), "SELECT").batches()
    assert len(next(batches)) == 500
    assert sum(Cursor.asked) <= 1_000
    assert sum(map(len, batches)) == 1_500


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT a, kind FROM nowhere", "no such table: nowhere"),
        ("SELECT a, a, kind FROM made_up", "column 'a' appears twice"),
        ("SELECT kind FROM made_up", "1 columns: select a target and a feature"),
        ("DELETE FROM made_up", "attempt to write a readonly database"),
        ("nonsense", 'near "nonsense": syntax error'),
        (
            "SELECT a, (1 + rowid % 9) || '/2/2024' AS d, kind FROM made_up",
            "row 1: column 'd' is .*give `day_first=",
        ),
        ("SELECT a, NULL AS kind FROM made_up", "row 1: the label is missing"),
    ],
)
def test_bad_queries(query: str, message: str, tmp_path: Path) -> None:
    WRITERS["d.db"](tmp_path / "d.db", RECORDS[:20])
    with pytest.raises(BraidedError, match=message) as caught:
        read_whole(open_stream(f"sqlite:///{tmp_path / 'd.db'}", query=query, target="kind"))
    assert "\n" not in str(caught.value)


def test_bad_addresses(tmp_path: Path) -> None:
    with pytest.raises(BraidedError, match="there is no file"):
        open_stream("sqlite:///nothing.db", query="SELECT 1")
    with pytest.raises(BraidedError, match=r"'postgresql://u@h/d' is a database: give `query`"):
        open_stream("postgresql://u:secret@h/d")
    (tmp_path / "d.db").write_bytes(b"no database at all, " * 100)
    with pytest.raises(BraidedError, match="file is not a database"):
        read_whole(open_stream(f"sqlite:///{tmp_path / 'd.db'}", query="SELECT * FROM made_up"))


def test_an_sqlite_run_is_resumed_and_a_changed_file_noticed(tmp_path: Path) -> None:
    WRITERS["d.db"](tmp_path / "d.db", RECORDS)
    query = "SELECT * FROM made_up ORDER BY rowid"
    options = RunOptions(stream=f"sqlite:///{tmp_path / 'd.db'}", query=query, target="kind", models=("olr",))
    straight = run(options)
    steps = Job(options, checkpoint=tmp_path / "c", every=0.0).run()
    next(steps)
    steps.close()
    resumed = run(options, checkpoint=tmp_path / "c", resume=True)
    assert resumed["runs"][0]["state_sha256"] == straight["runs"][0]["state_sha256"]
    with sqlite3.connect(tmp_path / "d.db") as connection:
        connection.execute("DELETE FROM made_up WHERE rowid < 100")
    connection.close()
    with pytest.raises(BraidedError, match="was made from another file"):
        Job(options, checkpoint=tmp_path / "c", resume=True)


def _program(name: str) -> str | None:
    folders = ["/usr/local/bin", *sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)]
    return shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))


def _unprivileged() -> dict[str, Any]:
    """PostgreSQL does not run as root: another user then."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root: run as another user, or add a user postgres")


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The address of a server that lives as long as these tests."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: run make test")
    initdb, pg_ctl = _program("initdb"), _program("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("there is no PostgreSQL server: install the system's package postgresql")
    as_user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="braided-postgres-", dir="/tmp"))  # the path of a socket must be short
    if as_user:
        os.chown(folder, as_user["user"], as_user["group"])

    def call(*arguments: str) -> None:
        done = subprocess.run(
            arguments,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            env={"LC_ALL": "C", "PATH": ""},
            **as_user,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    data = str(folder / "data")
    try:
        call(initdb, "-D", data, "-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8")
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        call(pg_ctl, "-D", data, "-w", "-l", str(folder / "log"), "-o", settings, "start")
        try:
            yield f"postgresql://tester@/postgres?host={folder}"
        finally:
            call(pg_ctl, "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_postgresql_gives_the_errors_of_a_file(postgres: str, tmp_path: Path) -> None:
    import psycopg

    columns = "number serial, a float8, b float8, c float8, colour text, flag boolean, kind text"
    with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE made_up ({columns}, seen timestamp DEFAULT now(), tags jsonb DEFAULT '[1, 2]')")
        fill = f"INSERT INTO made_up ({', '.join(NAMES)}) VALUES ({', '.join(['%s'] * len(NAMES))})"
        cursor.executemany(fill, [[record[name] for name in NAMES] for record in RECORDS])
    (tmp_path / "d.csv").write_text(as_csv(RECORDS), newline="")
    expected = run(RunOptions(stream=str(tmp_path / "d.csv"), target="kind"))["runs"][0]
    found = run(RunOptions(stream=postgres, query=QUERY, target="kind"))["runs"][0]
    assert (found["errors"], found["state_sha256"]) == (expected["errors"], expected["state_sha256"])

    with psycopg.connect(postgres, autocommit=True) as connection:
        table = read_whole(SQLStream(connection, QUERY, target="kind")).table
        assert len(table) == 1_300
        names = {cursor[0] for cursor in connection.execute("SELECT name FROM pg_cursors").fetchall()}
        assert not any(name.startswith("braided") for name in names), "the cursor on the server is closed"

    def refused(query: str) -> str:
        with pytest.raises(BraidedError) as caught:
            read_whole(open_stream(postgres, query=query, target="kind"))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    dated = read_whole(open_stream(postgres, query="SELECT a, seen, kind FROM made_up", target="kind")).table
    assert dated.names[:3] == ("a", "seen.age", "seen.hour")
    assert 'relation "nothing" does not exist' in refused("SELECT * FROM nothing")
    tags = read_whole(open_stream(postgres, query="SELECT tags, 0.25 AS part, kind FROM made_up")).table
    assert tags.names == ("tags.0", "tags.1", "part")
    assert tags.values[0].tolist() == [1, 2, 0.25]


def test_a_server_that_is_not_there_is_one_line() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: run make test")
    with pytest.raises(BraidedError) as caught:
        read_whole(open_stream("postgresql://ann:secret@127.0.0.1:1/none", query="SELECT 1, 2"))
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
