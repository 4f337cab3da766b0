"""The same records in every kind of file that can hold them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

NAMES = ("a", "b", "c", "colour", "flag", "kind")
COLOURS = ("red", "dark green", "o'brien", "blue", "a,b")
Record = dict[str, Any]


def made_up_records(n: int, seed: int = 0) -> list[Record]:
    """Numbers, zeros among them, a category and a boolean, all with gaps, and a class that depends on them."""
    rng = np.random.default_rng(seed)
    records = []
    for _ in range(n):
        a, b, c = (float(v) for v in rng.normal(size=3) * (1, 20, 0.1))
        b = 0.0 if rng.random() < 0.2 else b
        colour = COLOURS[rng.integers(len(COLOURS))]
        flag = bool(rng.random() < 0.5)
        kind = "yes" if a + (2.0 if colour in {"red", "blue"} else -1.0) + (0.5 if flag else -0.5) > 0.3 else "no"
        record: Record = {"a": a, "b": b, "c": c, "colour": colour, "flag": flag}
        for name in record:
            if rng.random() < 0.1:
                record[name] = None
        records.append({**record, "kind": kind})
    return records


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else repr(value) if isinstance(value, float) else value


def as_csv(records: list[Record], delimiter: str = ",") -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(NAMES)
    for record in records:
        writer.writerow([_word(record[name]) for name in NAMES])
    return "\ufeff" + out.getvalue()


def _arff_word(value: Any) -> str:
    word = _word(value)
    if word == "":
        return "?"
    return "'" + word.replace("'", "\\'") + "'" if isinstance(value, str) and not value.isalnum() else word


def as_arff(records: list[Record], sparse: bool = False) -> str:
    colours = ", ".join(map(_arff_word, COLOURS))
    lines = [
        "% made up",
        "@RELATION 'made up'",
        "@attribute 'a' NUMERIC",
        "@attribute b real",
        '@attribute "c" numeric',
    ]
    lines += [f"@attribute colour {{{colours}}}", "@attribute flag {false, true}", "@attribute kind {no, yes}", "@data"]
    defaults = {"a": 0.0, "b": 0.0, "c": 0.0, "colour": COLOURS[0], "flag": False, "kind": "no"}
    for record in records:
        if sparse:
            pairs = [f"{i} {_arff_word(record[n])}" for i, n in enumerate(NAMES) if record[n] != defaults[n]]
            lines.append("{" + ", ".join(pairs) + "}")
        else:
            lines.append(",".join(_arff_word(record[name]) for name in NAMES))
    return "\n".join(lines) + "\n"


def as_json(records: list[Record], flat: bool) -> str:
    lines = []
    for record in records:
        x = {name: value for name, value in record.items() if name != "kind"}
        lines.append(json.dumps(record if flat else {"x": x, "y": record["kind"]}))
    return "\n".join(lines)


def pyarrow() -> Any:
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed: run make test")


def zstd(content: bytes) -> bytes:
    packed: bytes = pyarrow().compress(content, "zstd", asbytes=True)
    return packed


def _arrow(path: Path, records: list[Record]) -> None:
    arrow = pyarrow()
    table = arrow.table({name: [record[name] for record in records] for name in NAMES})
    if path.suffix == ".parquet":
        from pyarrow import parquet

        parquet.write_table(table, path, row_group_size=333)
    elif path.suffix == ".feather":
        from pyarrow import feather

        feather.write_feather(table, path, chunksize=77)
    else:
        with arrow.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=700)


def _sqlite(path: Path, records: list[Record]) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE made_up (a REAL, b REAL, c REAL, colour TEXT, flag BOOLEAN, kind TEXT)")
        rows = [[record[name] for name in NAMES] for record in records]
        connection.executemany("INSERT INTO made_up VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.close()


def _folder(path: Path, records: list[Record]) -> None:
    path.mkdir()
    (path / "_SUCCESS").write_text("")
    (path / "part-1.csv").write_text(as_csv(records[:100]), newline="")
    (path / "part-2.jsonl").write_text(as_json(records[100:800], flat=True))
    (path / "part-3.arff").write_text(as_arff(records[800:]))


#: Name of the file, and what writes it.
WRITERS: dict[str, Callable[[Path, list[Record]], Any]] = {
    "d.csv": lambda path, records: path.write_text(as_csv(records), newline=""),
    "d.tsv": lambda path, records: path.write_text(as_csv(records, "\t"), newline=""),
    "semicolons.csv": lambda path, records: path.write_text(as_csv(records, ";"), newline=""),
    "d.csv.gz": lambda path, records: path.write_bytes(gzip.compress(as_csv(records).encode())),
    "d.csv.zst": lambda path, records: path.write_bytes(zstd(as_csv(records).encode())),
    "d.parquet": _arrow,
    "d.feather": _arrow,
    "d.arrow": _arrow,
    "dense.arff": lambda path, records: path.write_text(as_arff(records)),
    "sparse.arff": lambda path, records: path.write_text(as_arff(records, sparse=True)),
    "d.arff.gz": lambda path, records: path.write_bytes(gzip.compress(as_arff(records).encode())),
    "pairs.jsonl": lambda path, records: path.write_text(as_json(records, flat=False)),
    "flat.jsonl": lambda path, records: path.write_text(as_json(records, flat=True)),
    "d.jsonl.zst": lambda path, records: path.write_bytes(zstd(as_json(records, flat=True).encode())),
    "d.db": _sqlite,
    "folder": _folder,
}
