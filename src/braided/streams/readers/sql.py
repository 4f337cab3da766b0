"""The rows of an SQL query, through any DB-API connection, fetched some hundred at a time."""

from __future__ import annotations

import re
from collections.abc import Generator, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from braided.encode.chunk import CHUNK_RECORDS, Chunk, Piece
from braided.encode.encoder import Encoder
from braided.encode.rules import Rules
from braided.errors import BraidedError
from braided.extras import require
from braided.streams.readers.base import EncodedStream, target_place
from braided.streams.readers.mappings import unnested

_SQLITE, _POSTGRES = "sqlite:///", ("postgresql://", "postgres://")
#: After the user's name, up to the last @, for a password may hold anything; or as a parameter.
_PASSWORD = re.compile(r"(?<=://)([^/?@:]*):[^?]*@")
_PARAMETER = re.compile(r"([?&])(?:ssl)?password=[^&#]*&?", re.IGNORECASE)
_CURSORS = count(1)


def is_address(source: str) -> bool:
    """Whether a source is the address of a database."""
    return source.startswith((_SQLITE, *_POSTGRES))


def without_password(source: str) -> str:
    """An address as it may be shown and stored.

    >>> without_password("postgresql://ann:secret@db.example/sales")
    'postgresql://ann@db.example/sales'
    >>> without_password("postgresql://ann:se@cr/et@db.example/sales")
    'postgresql://ann@db.example/sales'
    >>> without_password("postgresql://db.example/sales?password=secret&user=ann&sslpassword=other")
    'postgresql://db.example/sales?user=ann'
    """
    return _PARAMETER.sub(r"\1", _PASSWORD.sub(r"\1@", source)).rstrip("?&")


@dataclass(frozen=True)
class SQLStream(EncodedStream):
    """Records from the rows of a query.

    Rows come in the order of the query, so it needs an ORDER BY if that matters. A connection of psycopg is read
    through a cursor on the server, so that memory does not grow with the result.

    Attributes
    ----------
    connect
        A function that makes a DB-API connection, closed after each pass; or an open connection, which is left open.
    query
        What is asked.
    target
        Name of the label's column. None: a column called target, label, class or y, else the last one.
    name
        What tables and errors call it.

    Examples
    --------
    >>> import sqlite3
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("CREATE TABLE visits (age REAL, ward TEXT, outcome TEXT)")
    >>> _ = connection.execute("INSERT INTO visits VALUES (71, 'a', 'well'), (NULL, 'b', 'ill')")
    >>> batch = next(SQLStream(connection, "SELECT * FROM visits").batches())
    >>> batch.names, batch.targets
    (('age', 'ward=a', 'ward=b'), ['well', 'ill'])
    """

    connect: Any
    query: str
    target: str | None = None
    name: str = "query"

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """A cursor after the query; whatever a driver raises is told in one line, since drivers share no base class."""
        kept_open = hasattr(self.connect, "cursor")
        connection: Any = None
        cursor: Any = None
        try:
            connection = self.connect if kept_open else self.connect()
            cursor = _new_cursor(connection)
            cursor.execute(self.query)
            yield cursor
        except BraidedError:
            raise
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise BraidedError(f"{self.name}: {reason}") from None
        finally:
            with suppress(Exception):  # after an error a server may not be able to close it any more
                cursor.close()
            if connection is not None and not kept_open:
                connection.close()

    def chunks(self, encoder: Encoder) -> Generator[Piece]:
        """The rows."""
        with self._cursor() as cursor:
            rows = cursor.fetchmany(CHUNK_RECORDS)
            if cursor.description is None:
                raise BraidedError(f"{self.name}: the query gives no rows: give `query` a SELECT")
            names = [column[0] for column in cursor.description]
            if len(names) < 2:
                raise BraidedError(f"{self.name}: {len(names)} columns: select a target and a feature at least")
            target = target_place(names, self.target, self.name, self.rules)
            encoder.target = names[target]
            before = 0
            while rows:
                turned = list(zip(*rows, strict=True))
                columns: dict[Hashable, Any] = {
                    name: turned[i] for i, name in enumerate(names) if i != target and name not in self.rules.drop
                }
                places = range(before + 1, before + 1 + len(rows))
                yield Chunk(self.name, places, unnested(columns), turned[target], by_row=True, table=True)
                before += len(rows)
                rows = cursor.fetchmany(CHUNK_RECORDS)


def _new_cursor(connection: Any) -> Any:
    """A cursor that does not take the whole result into memory."""
    if type(connection).__module__.partition(".")[0] in {"psycopg", "psycopg2"}:
        return connection.cursor(name=f"braided_{next(_CURSORS)}", withhold=bool(connection.autocommit))
    return connection.cursor()


def open_address(source: str, query: str, target: str | None, rules: Rules) -> SQLStream:
    """The stream of `sqlite:///FILE` or `postgresql://...`, read only."""
    path = sqlite_path(source)
    if path is not None and not path.is_file():
        raise BraidedError(f"{source}: there is no file {path}: give sqlite:///FILE with the path of a database")
    connect = partial(_postgres, source) if path is None else partial(_sqlite, path)
    return SQLStream(connect, query, target, without_password(source), rules=rules)


def sqlite_path(source: str) -> Path | None:
    """The file of an SQLite address."""
    return Path(source.removeprefix(_SQLITE)) if source.startswith(_SQLITE) else None


def _sqlite(path: Path) -> Any:
    import sqlite3  # not every build of Python has it

    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def _postgres(source: str) -> Any:
    connection = require("psycopg", "sql").connect(source)
    connection.read_only = True
    return connection
