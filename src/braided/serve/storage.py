"""One model in one SQLite database: what is asked of it is logged before it is applied; snapshots bound the replay.

Tables: `meta`, one row; `requests`, numbered without gaps, each with its records as they are learned, as JSON;
`snapshots` in parts; and `learned`, a view for people with a row for each record. Every row of a table has a CRC-32.

One connection alone writes and checkpoints. SQLite before 3.51.3 can corrupt a database in WAL mode whose connections
do that at the same moment, so that every other connection is opened read-only (`read_only`), for a moment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson

from braided import files
from braided.errors import BraidedError
from braided.records import Records
from braided.serve.records import RawRecords
from braided.serve.requests import WriteRequest
from braided.serve.wal import wal_damage

FORMAT = 1
SUFFIX = ".db"
#: Bytes of a part of a snapshot; SQLite takes a value of 1 GB at most.
_PART_BYTES = 16 * 2**20
#: The write-ahead log is copied into the database when it is this long.
_WAL_BYTES = 2**23
#: Requests removed, and pages given back to the file system, at a time.
_PRUNED, _FREED_PAGES = 1_000, 1_000
_PAGE_BYTES = 4_096
_SYNCHRONOUS = {"sync": "FULL", "interval": "NORMAL", "none": "OFF"}
_SCHEMA = """
CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER, name TEXT, uid TEXT, created REAL,
                   last INTEGER, decided INTEGER, crc INTEGER);
CREATE TABLE requests (number INTEGER PRIMARY KEY, kind TEXT, time REAL, count INTEGER, client TEXT, sequence INTEGER,
                       id TEXT, back_to INTEGER, part INTEGER, growth TEXT, records TEXT, learned INTEGER,
                       refused TEXT, crc INTEGER);
CREATE TABLE snapshots (number INTEGER PRIMARY KEY, records INTEGER, time REAL, written REAL, restored INTEGER,
                        bytes INTEGER, crc INTEGER);
CREATE TABLE snapshot_parts (snapshot INTEGER, part INTEGER, content BLOB, crc INTEGER,
                             PRIMARY KEY (snapshot, part));
CREATE VIEW learned AS
    WITH RECURSIVE line(start, stop, part) AS (
        SELECT coalesce(max(number), 0), (SELECT max(number) FROM requests), 0 FROM requests WHERE kind = 'restore'
        UNION ALL
        SELECT coalesce((SELECT max(number) FROM requests WHERE kind = 'restore' AND number <= back.back_to), 0),
               back.back_to, back.part
        FROM line JOIN requests AS back ON back.number = line.start)
    SELECT requests.number AS request, datetime(time, 'unixepoch') AS time, client, requests.id,
           (SELECT json_group_object(name.value, cell.value)
            FROM json_each(records, '$.names') AS name JOIN json_each(row.value) AS cell ON cell.key = name.key
            WHERE cell.value IS NOT NULL) AS x,
           json_extract(records, '$.y[' || row.key || ']') AS y,
           coalesce(json_extract(records, '$.w[' || row.key || ']'), 1.0) AS w,
           json_extract(records, '$.key[' || row.key || ']') AS key
    FROM requests JOIN line ON requests.number > start AND requests.number <= stop + 1,
         json_each(records, '$.values') AS row
    WHERE kind IN ('learn', 'label') AND refused IS NULL AND row.key >= count - learned
          AND (requests.number <= stop OR row.key < line.part)
    ORDER BY requests.number, row.key;
"""
_REQUEST = "number, kind, time, count, client, sequence, id, back_to, part, growth, records, learned, refused"


class DamageError(BraidedError):
    """Something in a database is not as it was written: a person has to decide."""


class StorageError(Exception):
    """The disk did not take a write; nothing of it counts."""

    def __init__(self, error: sqlite3.Error) -> None:
        super().__init__(str(error))
        self.full = is_full(error)


def is_full(error: BaseException) -> bool:
    """Whether an error is that of a full disk."""
    names = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "SQLITE_CANTOPEN")
    return getattr(error, "sqlite_errorname", "") in names or getattr(error, "errno", None) == errno.ENOSPC


class SnapshotInfo(NamedTuple):
    """A snapshot: the last request in it, the records learned by then, when that was, and when it was written.

    `restored` says that the model had just gone back to it: the log before it does not lead there.
    """

    number: int
    records: int
    time: float
    written: float
    restored: bool
    bytes: int

    def document(self) -> dict[str, Any]:
        """What is told of it."""
        return {"request": self.number, "records": self.records, "time": self.time}


def _is_synced(path: Path) -> bool:
    """Whether each commit to a database was on disk before the next one: SQLite's user version says if not.

    It is read past the log, in which commits may be missing where they were not synced.
    """
    with path.open("rb") as file:
        return not any(file.read(64)[60:])


def crc(*row: Any) -> int:
    """A checksum of the values of a row."""
    found = 0
    for value in row:
        text = value if type(value) is str else repr(value)
        found = zlib.crc32(text.encode("utf-8", "surrogatepass"), zlib.crc32(b"|", found))
    return found


@contextlib.contextmanager
def damage_told(name: str) -> Iterator[None]:
    """Within this, what SQLite cannot read is damage."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorname", "")
        if isinstance(error, sqlite3.OperationalError) and not code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise
        raise DamageError(f"{name} is damaged: {error}") from None


def read_only(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, to be closed soon: while it reads, the write-ahead log grows."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


class Storage:
    """The database of one model.

    Parameters
    ----------
    path
        The file.
    durability
        As in `Settings`.
    connection
        Another one than that which writes: for a look.
    new
        Whether the database is to be made.
    """

    def __init__(
        self, path: Path, durability: str = "sync", connection: sqlite3.Connection | None = None, new: bool = False
    ) -> None:
        self.path = path
        self.durability = durability
        #: Whether this is the connection that writes.
        self.writes = connection is None
        self.name, self.uid, self.created = path.name.removesuffix(SUFFIX), "", 0.0
        #: Numbers of the last request, and of the last one whose outcome is known.
        self.last = self.decided = 0
        #: Outcomes that could not be written yet.
        self._owed: list[tuple[int, int, str | None]] = []
        self._checkpoint_due = 0.0
        self.connection = connection or sqlite3.connect(
            path, timeout=0.0, isolation_level=None, check_same_thread=False
        )
        if connection is None:
            run = self.connection.execute
            if new:
                run("PRAGMA auto_vacuum = INCREMENTAL")
            if run("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise BraidedError(f"{path.name}: SQLite cannot keep a write-ahead log here: put --dir on a local disk")
            run("PRAGMA wal_autocheckpoint = 0")
            run(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
            run("PRAGMA cell_size_check = ON")
            run(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
            if not new and _is_synced(path) != (durability == "sync"):
                run(f"PRAGMA user_version = {int(durability != 'sync')}")
                run("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    @classmethod
    def create(cls, path: Path, name: str, uid: str, created: float, durability: str, number: int = 0) -> Storage:
        """A new database, for a model that has taken in requests up to a number."""
        found = cls(path, durability, new=True)
        found.name, found.uid, found.created, found.last, found.decided = name, uid, created, number, number
        os.chmod(path, 0o600)
        with found._transaction():
            for statement in _SCHEMA.split(";\n"):
                found.connection.execute(statement)
            row = (FORMAT, name, uid, created, number, number)
            found.connection.execute("INSERT INTO meta VALUES (1, ?, ?, ?, ?, ?, ?, ?)", (*row, crc(*row)))
        return found

    @classmethod
    def open(cls, path: Path, durability: str = "sync", look: bool = False, checked: bool = True) -> Storage:
        """The database in a file, checked; with `look` by a connection that changes nothing."""
        if path.stat().st_size < _PAGE_BYTES:
            raise DamageError(f"{path.name} is damaged: it has {path.stat().st_size} bytes")
        if checked and _is_synced(path) and (damage := wal_damage(path.with_name(f"{path.name}-wal"))):
            raise DamageError(f"{path.name}-wal is damaged: {damage}")
        with damage_told(path.name):
            found = cls(path, durability, read_only(path) if look else None)
            try:
                found._check(checked)
            except BaseException:
                found.connection.close()
                raise
        return found

    def _check(self, checked: bool) -> None:
        found = [row[0] for row in self.connection.execute("PRAGMA quick_check(1)")] if checked else ["ok"]
        if found != ["ok"]:
            raise DamageError(f"{self.path.name} is damaged: {' '.join(found[0].split())}")
        rows = self.connection.execute("SELECT format, name, uid, created, last, decided, crc FROM meta").fetchall()
        sound = len(rows) == 1 and crc(*rows[0][:-1]) == rows[0][-1]
        if checked and rows and rows[0][0] != FORMAT:
            raise BraidedError(
                f"{self.path.name} is of format {rows[0][0]!r}, and this braided reads {FORMAT}: use the braided that "
                "wrote it"
            )
        if checked and not sound:
            raise DamageError(f"{self.path.name} is damaged: its table meta is not as it was written")
        if sound:
            _, self.name, self.uid, self.created, self.last, self.decided, _ = rows[0]
        else:
            self.last = self.connection.execute("SELECT max(number) FROM requests").fetchone()[0] or 0
        if f"{self.name}{SUFFIX}" != self.path.name:
            raise BraidedError(f"{self.path.name} is the database of model {self.name!r}: give the file its name back")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Within this, all is written or nothing."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise StorageError(error) from error
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise

    def _note(self, last: int, decided: int) -> None:
        row = (FORMAT, self.name, self.uid, self.created, last, decided)
        self.connection.execute("UPDATE meta SET last = ?, decided = ?, crc = ?", (last, decided, crc(*row)))

    def append(self, requests: Sequence[WriteRequest]) -> None:
        """Log requests as durably as is asked for; they get their numbers. All before them are decided by now."""
        rows = []
        for number, request in enumerate(requests, self.last + 1):
            assert not isinstance(request.records, RawRecords)
            count = 0 if request.records is None else len(request.records)
            learned = request.record or 0 if request.kind == "restore" else 0 if request.kind == "observe" else count
            growth = orjson.dumps(request.growth).decode() if request.growth else None
            row = (number, request.kind, request.time, count, request.client, request.sequence, request.id,
                   request.back_to, request.part, growth, _packed(request.records), learned, None)  # fmt: skip
            rows.append((*row, crc(*row)))
        with self._transaction():
            self._write_owed()
            self.connection.executemany(f"INSERT INTO requests VALUES ({', '.join('?' * 14)})", rows)
            self._note(self.last + len(rows), self.last)
        self._owed.clear()
        self.decided = self.last
        for request in requests:
            self.last += 1
            request.number = self.last

    def decide(self, outcomes: Sequence[tuple[int, int, str | None]]) -> None:
        """Note, before they are answered, the requests that learned fewer records than they have or were refused."""
        if not self.writes:
            return
        self._owed += outcomes
        with self._transaction():
            self._write_owed()
        self._owed.clear()

    def _write_owed(self) -> None:
        for number, learned, refused in self._owed:
            row = self.connection.execute(f"SELECT {_REQUEST} FROM requests WHERE number = ?", (number,)).fetchone()
            self.connection.execute(
                "UPDATE requests SET learned = ?, refused = ?, crc = ? WHERE number = ?",
                (learned, refused, crc(*row[:-2], learned, refused), number),
            )

    def note_decided(self) -> None:
        """Note that every request is decided.

        What is written after a commit shows that the commit was whole: then a flipped bit in it cannot pass for a write
        that was broken off.
        """
        if self.decided < self.last:
            with self._transaction():
                self._write_owed()
                self._note(self.last, self.last)
            self._owed.clear()
            self.decided = self.last

    def requests(self, after: int, until: int | None = None) -> Iterator[tuple[WriteRequest, int, str | None]]:
        """The requests after a number, checked; each with how many records it learned, and why it was refused."""
        until, expected = self.last if until is None else until, after + 1
        with damage_told(self.path.name):
            rows = self.connection.execute(
                f"SELECT {_REQUEST}, crc FROM requests WHERE number > ? AND number <= ? ORDER BY number", (after, until)
            )
            for row in rows:
                if row[0] != expected or crc(*row[:-1]) != row[-1]:
                    break
                number, kind, came, _, client, sequence, id_, back_to, part, growth, records, learned, refused, _ = row
                steps = orjson.loads(growth) if growth else []
                request = WriteRequest(
                    kind, None, _unpacked(records), client, sequence, id_, came, steps, back_to, part
                )
                request.number = number
                yield request, learned, refused
                expected += 1
        if expected <= until:
            raise DamageError(f"{self.path.name} is damaged: request {expected} is not as it was written")

    def timeline(self, after: int) -> Iterator[tuple[int, str, float, int, int]]:
        """Number, kind, time, records and those learned of the requests after a number; of a `restore`, all learned."""
        with damage_told(self.path.name):
            yield from self.connection.execute(
                "SELECT number, kind, time, count, learned FROM requests WHERE number > ? ORDER BY number", (after,)
            )

    def last_restore(self, after: int, until: int) -> int | None:
        """The number of the last `restore` among some requests."""
        query = "SELECT max(number) FROM requests WHERE kind = 'restore' AND number > ? AND number <= ?"
        with damage_told(self.path.name):
            number: int | None = self.connection.execute(query, (after, until)).fetchone()[0]
        return number

    def snapshots(self) -> list[SnapshotInfo]:
        """All snapshots, the oldest first."""
        query = "SELECT number, records, time, written, restored, bytes FROM snapshots ORDER BY number"
        with damage_told(self.path.name):
            return [SnapshotInfo(*row) for row in self.connection.execute(query)]

    def write_snapshot(self, content: bytes, number: int, records: int, when: float, restored: bool) -> None:
        """Keep a snapshot, whole or not at all, and read it back."""
        parts = [content[at : at + _PART_BYTES] for at in range(0, len(content), _PART_BYTES)]
        row = (number, records, when, time.time(), int(restored), len(content))
        with self._transaction():
            self._remove_snapshot(number)
            self.connection.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, crc(*row)))
            for part, piece in enumerate(parts):
                self.connection.execute(
                    "INSERT INTO snapshot_parts VALUES (?, ?, ?, ?)", (number, part, piece, zlib.crc32(piece))
                )
        if self.read_snapshot(number) != content:
            raise DamageError(f"the snapshot of request {number} reads back otherwise than it was written")

    def read_snapshot(self, number: int) -> bytes:
        """A snapshot, checked."""
        with damage_told(self.path.name):
            row = self.connection.execute("SELECT * FROM snapshots WHERE number = ?", (number,)).fetchone()
            query = "SELECT part, content, crc FROM snapshot_parts WHERE snapshot = ? ORDER BY part"
            parts = self.connection.execute(query, (number,)).fetchall()
        sound = all(part == place and zlib.crc32(piece) == kept for place, (part, piece, kept) in enumerate(parts))
        content = b"".join(piece for _, piece, _ in parts) if sound else b""
        if row is None or crc(*row[:-1]) != row[-1] or len(content) != row[5]:
            raise DamageError(f"the snapshot of request {number} is not as it was written")
        return content

    def _remove_snapshot(self, number: int) -> None:
        self.connection.execute("DELETE FROM snapshot_parts WHERE snapshot = ?", (number,))
        self.connection.execute("DELETE FROM snapshots WHERE number = ?", (number,))

    def prune(self, rules: Sequence[tuple[int, int]], most_bytes: int) -> None:
        """Remove snapshots that the rules do not ask for, and all that is older than the oldest that stays.

        The last two snapshots always stay. The others, with the records that lead on from them, may take `most_bytes`.
        """
        found, now = self.snapshots()[::-1], time.time()
        needed = found[:2]
        kept = {one.number for one in needed}
        for count, seconds in rules:
            first: dict[int, int] = {}
            for one in found:
                age = int(now // seconds) - int(one.written // seconds)
                if 0 <= age < count:
                    first[age] = one.number  # an older one in the place of a newer one
            kept |= set(first.values())
        query = "SELECT coalesce(sum(length(records)), 0) FROM requests WHERE number > ? AND number <= ?"
        room, oldest = most_bytes, needed[-1].number
        for one in (one for one in found[2:] if one.number in kept or one.restored):
            room -= one.bytes + self.connection.execute(query, (one.number, oldest)).fetchone()[0]
            if room < 0:
                break
            oldest = one.number
        with self._transaction():
            for one in found:
                # One that the model has just gone back to leads on where the log before it does not.
                if one.number < oldest or not (one.number in kept or one.restored):
                    self._remove_snapshot(one.number)
        self._remove_requests(oldest)
        self.give_back()

    def _remove_requests(self, until: int) -> None:
        """Remove the first requests, some at a time: the write-ahead log does not grow by all of them at once."""
        (first,) = self.connection.execute("SELECT coalesce(min(number), ?) FROM requests", (until + 1,)).fetchone()
        for stop in range(first + _PRUNED - 1, until + _PRUNED, _PRUNED):
            with self._transaction():
                self.connection.execute("DELETE FROM requests WHERE number <= ?", (min(stop, until),))
            self.checkpoint()

    def give_back(self) -> None:
        """Give free pages back to the file system, some at a time, where they are a quarter of the file."""
        (free,) = self.connection.execute("PRAGMA freelist_count").fetchone()
        (pages,) = self.connection.execute("PRAGMA page_count").fetchone()
        if free > _FREED_PAGES and free > pages // 4:
            self.connection.execute(f"PRAGMA incremental_vacuum({_FREED_PAGES})").fetchall()

    def checkpoint(self) -> None:
        """Copy the write-ahead log into the database when it is long; while somebody reads, it may have to stay."""
        is_long = self._log.exists() and self._log.stat().st_size > _WAL_BYTES
        if is_long and time.monotonic() >= self._checkpoint_due and not self.sync("TRUNCATE"):
            self._checkpoint_due = time.monotonic() + 1.0

    def sync_log(self) -> None:
        """Bring the write-ahead log to disk."""
        try:
            files.sync_path(self._log)
        except OSError as error:
            raise StorageError(sqlite3.OperationalError(error.strerror or str(error))) from error

    def sync(self, how: Literal["PASSIVE", "TRUNCATE"] = "PASSIVE") -> bool:
        """Copy the write-ahead log into the database: then it is on disk. Whether all of it was copied."""
        try:
            busy, *_ = self.connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
        except sqlite3.Error as error:
            raise StorageError(error) from error
        return not busy

    @property
    def _log(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    @property
    def size(self) -> int:
        """Bytes of the database and its log."""
        return sum(path.stat().st_size for path in (self.path, self._log) if path.exists())

    def close(self) -> None:
        """Close; where nothing went wrong, SQLite then copies the log into the database and removes it."""
        self.connection.close()

    def damage(self) -> list[str]:
        """Everything that is not as it was written, in words; for a person, it may take long."""
        found = []
        with contextlib.suppress(sqlite3.Error):
            check = [row[0] for row in self.connection.execute("PRAGMA integrity_check(10)")]
            found += [] if check == ["ok"] else [" ".join(line.split()) for line in check]
        try:
            for snapshot in self.snapshots():
                try:
                    self.read_snapshot(snapshot.number)
                except DamageError as error:
                    found.append(str(error))
            (first,) = self.connection.execute("SELECT min(number) FROM requests").fetchone()
            for _ in self.requests((first or self.last + 1) - 1):
                pass
        except (DamageError, sqlite3.Error) as error:
            found.append(str(error))
        return list(dict.fromkeys(found))

    def copy_to(self, target: Path) -> None:
        """A copy as of now, durable, while the model is served."""
        with damage_told(self.path.name):
            self.connection.execute("VACUUM INTO ?", (str(target),))
        os.chmod(target, 0o600)
        files.sync_path(target)
        files.sync_path(target.parent)


def _packed(records: Records | None) -> str | None:
    """Records as JSON, null for a missing value; each number comes back with the same bits."""
    if records is None:
        return None
    columns = {"names": records.names, "values": records.values, "y": records.targets}
    columns |= {"w": records.weights, "key": records.keys}
    found = {name: column for name, column in columns.items() if column is not None}
    text: str = orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    return text


def _unpacked(text: str | None) -> Records | None:
    """The inverse of `_packed`."""
    if text is None:
        return None
    found = orjson.loads(text)
    values = np.array(found["values"], dtype=np.float64).reshape(len(found["values"]), len(found["names"]))
    weights = np.array(found["w"]) if "w" in found else None
    return Records(tuple(found["names"]), values, found.get("y"), weights, found.get("key"), first=0)
