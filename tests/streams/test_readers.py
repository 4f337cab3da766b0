"""Any kind of file: the same records, the same errors; what does not fit is named, and handled as asked."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import subprocess
import sys
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import COLOURS, NAMES, WRITERS, as_arff, as_csv, as_json, made_up_records, pyarrow, zstd

from braided import BraidedError
from braided.encode.chunk import Chunk
from braided.records import Records
from braided.report.table import misfits
from braided.run import Job, RunOptions
from braided.streams import IterableStream, Rules, open_stream, read_whole, text_files

RECORDS = made_up_records(1_300)


def finished(job: Job) -> dict[str, Any]:
    for _ in job.run():
        pass
    return job.document()


def source_of(path: Path) -> dict[str, Any]:
    if path.suffix == ".db":
        return {"stream": f"sqlite:///{path}", "query": "SELECT * FROM made_up ORDER BY rowid"}
    return {"stream": str(path)}


def table(path: Path, text: str | bytes, **options: Any) -> Records:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_whole(open_stream(str(path), **options)).table


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("expected") / "d.csv"
    WRITERS["d.csv"](path, RECORDS)
    return finished(Job(RunOptions(stream=str(path), target="kind")))


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("categories", ["onehot", "hash"])
def test_the_same_records_give_the_same_errors(
    name: str, categories: str, tmp_path: Path, expected: dict[str, Any]
) -> None:
    WRITERS[name](tmp_path / name, RECORDS)
    told: list[str] = []
    target = None if name == "pairs.jsonl" else "kind"
    options = RunOptions(**source_of(tmp_path / name), target=target, categories=categories)
    document = finished(Job(options, tell=told.append))
    assert (document["records"], document["features"], document["classes"]) == (1_300, 4 + len(COLOURS), 2)
    if categories == "onehot":
        assert document["runs"][0]["errors"] == expected["runs"][0]["errors"]
        assert document["runs"][0]["state_sha256"] == expected["runs"][0]["state_sha256"]
    assert document["runs"][0]["errors"] < 0.6 * document["majority_errors"]
    words = "4 numeric, 1 categorical (colour), target"
    assert told[0] == f"{words}{'' if target is None else ' kind'}: 2 different values seen"
    assert len(told) == 1 + len(NAMES) - 1, "a line for each column, once"


def test_an_iterable_gives_the_same_errors(expected: dict[str, Any]) -> None:
    runs = expected["runs"][0]
    pairs = [({k: v for k, v in record.items() if k != "kind"}, record["kind"]) for record in RECORDS]
    for source in (
        IterableStream(RECORDS, target="kind"),
        IterableStream(lambda: iter(RECORDS), target="kind"),
        IterableStream(pairs),
    ):
        run = finished(Job(RunOptions(stream="records"), source=source))["runs"][0]
        assert (run["errors"], run["state_sha256"]) == (runs["errors"], runs["state_sha256"])


def test_libsvm_gives_the_errors_of_a_csv_with_zeros(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(700, 4)) * (rng.random((700, 4)) < 0.6)
    labels = (values.sum(axis=1) > 0).astype(int)
    rows = [",".join(map(repr, row)) + f",{y}" for row, y in zip(values.tolist(), labels, strict=True)]
    (tmp_path / "d.csv").write_text("\n".join(["1,2,3,4,label", *rows]))
    lines = [
        f"{y} qid:1 " + " ".join(f"{i}:{v!r}" for i, v in enumerate(row, start=1) if v)
        for row, y in zip(values.tolist(), labels, strict=True)
    ]
    text = "\n".join(lines).encode()
    (tmp_path / "d.svm").write_bytes(text)
    (tmp_path / "d.svm.gz").write_bytes(gzip.compress(text))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "1.svm").write_text("\n".join(lines[:300]))
    (tmp_path / "parts" / "2.svm").write_text("\n".join(lines[300:]))
    found = [
        finished(Job(RunOptions(stream=str(tmp_path / name))))["runs"][0]["learners"]
        for name in ("d.csv", "d.svm", "d.svm.gz", "parts")
    ]
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert found[3] == found[0]


def test_what_a_category_becomes(tmp_path: Path) -> None:
    """A value is 1, the others seen so far are 0, and all are missing where the cell is; before it is seen, missing."""
    nan = np.nan
    read = table(tmp_path / "d.csv", "colour,y\nred,1\nblue,0\n,1\n red ,0\n")
    assert read.names == ("colour=red", "colour=blue")
    np.testing.assert_array_equal(read.values, [[1, nan], [0, 1], [nan, nan], [1, 0]])
    hashed = table(tmp_path / "d.csv", "colour,y\nred,1\nblue,0\n,1\nred,0\n", rules=Rules("hash", 8))
    assert hashed.names == ("colour#5", "colour#2")
    np.testing.assert_array_equal(hashed.values, read.values)
    with pytest.raises(BraidedError, match=r"d.csv:2: column .colour. is .red.: .*onehot.* or `categories='hash'`"):
        table(tmp_path / "d.csv", "colour,y\nred,1\n", rules=Rules("refuse"))


def test_what_is_read_does_not_depend_on_how_it_is_cut(tmp_path: Path) -> None:
    records = made_up_records(1_100, seed=4)
    whole = read_whole(IterableStream(records, target="kind")).table
    (tmp_path / "f").mkdir()
    for number, start in enumerate(range(0, 1_100, 130)):
        (tmp_path / "f" / f"{number:02}.jsonl").write_text(as_json(records[start : start + 130], flat=True))
    parts = read_whole(open_stream(str(tmp_path / "f"), target="kind")).table
    assert parts.names == whole.names
    np.testing.assert_array_equal(parts.values, whole.values)


def test_hashing_is_the_same_in_every_process() -> None:
    code = "from braided.encode.categories import bucket; print(bucket('grün', 1000), bucket('a', 7))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert outputs == {"785 4\n"}


def test_too_many_categories_suggest_hashing(tmp_path: Path) -> None:
    text = "a,id,y\n" + "".join(f"1,u{i},0\n1,u{i},0\n" for i in range(60))
    with pytest.raises(BraidedError, match=r"d.csv:40: column 'id' .* max_features is 20: give `categories='hash'`"):
        table(tmp_path / "d.csv", text, rules=Rules(max_features=20))
    assert len(table(tmp_path / "d.csv", text, rules=Rules("hash", 16, max_features=20)).names) <= 17
    long = f"a,note,y\n1,short,0\n1,{'x' * 2_000},0\n"
    with pytest.raises(BraidedError, match=r"d.csv:3: column 'note' is .*too long for a category"):
        table(tmp_path / "d.csv", long)


@pytest.mark.parametrize(("policy", "records", "skipped", "missing"), [("skip", 603, 1, 0), ("missing", 604, 0, 1)])
def test_a_value_too_long_for_a_category_is_a_misfit(
    policy: str, records: int, skipped: int, missing: int, tmp_path: Path
) -> None:
    text = "a,note,y\n" + "1,short,0\n" * 601 + f"1,{'x' * 20_000},1\n1,short,0\n1,other,0\n"
    path = tmp_path / "d.csv"
    with pytest.raises(BraidedError, match=r"d.csv:603: .*too long for a category: .*; `on_error='skip'` or"):
        table(path, text)
    stream: Any = open_stream(str(path), rules=Rules(on_error=policy))
    found = read_whole(stream).table
    assert found.names == ("a", "note=short", "note=other")
    counts = stream.counts
    assert (len(found.targets), counts.skipped_records, counts.misfit_values) == (records, skipped, missing)


def test_a_record_with_many_new_columns_cuts_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[dict[str, Any]] = [{"a": 1.0, "y": 0}] * 600
    many = {f"n{number}": number + 0.5 for number in range(400)}
    stream = IterableStream([*records, {"a": 1.0, **many, "y": 1}, *records], target="y")
    cut: list[int] = []
    part = Chunk.part
    monkeypatch.setattr(Chunk, "part", lambda chunk, *ends: cut.append(len(chunk.columns)) or part(chunk, *ends))
    assert len(read_whole(stream).table.names) == 401
    assert sum(cut) < 1_000


BAD = "a,b,y\n" + "1,2,u\n" * 600 + "1,oops,v\n1,2,u\n3,2\n1,inf,u\n1,2,\n1,5,v\n"


def test_misfits_stop_the_run(tmp_path: Path) -> None:
    with pytest.raises(BraidedError, match=r"d.csv:602: column 'b' is 'oops': features must be numbers.*`on_error="):
        table(tmp_path / "d.csv", BAD)


@pytest.mark.parametrize(("policy", "records", "skipped", "missing"), [("skip", 602, 3, 0), ("missing", 604, 1, 2)])
def test_misfits_are_skipped_or_missing_and_counted(
    policy: str, records: int, skipped: int, missing: int, tmp_path: Path
) -> None:
    (tmp_path / "d.csv").write_text(BAD)
    options = RunOptions(stream=str(tmp_path / "d.csv"), on_error=policy, models=("olr",))
    first = f"{tmp_path / 'd.csv'}:602: column 'b' is 'oops'"
    job = Job(options, checkpoint=tmp_path / "c")
    for document in (finished(job), finished(Job(options, checkpoint=tmp_path / "c", resume=True))):
        found = [document[name] for name in ("records", "skipped_records", "missing_values")]
        assert found == [records, skipped, missing]
        assert document["unlabelled"] == 1, "a record without a label is predicted, whatever the policy"
        assert document["first_problem"].startswith(first)


@pytest.mark.parametrize(
    ("name", "text", "policy", "n", "skipped", "missing"),
    [
        ("d.jsonl", '{"x": {"a": 1}, "y": 1}\n{oops\n{"x": {"a": 2}}\n{"x": {"a": 3}, "y": 1}\n', "skip", 2, 2, 0),
        ("d.svm", "1 1:2 2:3\n0 1:x\n1 zwei:3\n", "skip", 1, 2, 0),
        ("d.svm", "1 1:2 2:3\n0 1:x\n1 zwei:3\n", "missing", 2, 1, 1),
        ("d.arff", "@relation r\n@attribute a {u,v}\n@attribute y {0,1}\n@data\nu,1\nw,0\nu\nv,2\n", "skip", 1, 3, 0),
        ("d.arff", "@relation r\n@attribute a {u,v}\n@attribute y {0,1}\n@data\nu,1\nw,0\nu\n", "missing", 2, 1, 1),
        ("d.csv", 'a,y\n1,0\n"2"x,0\n3,1\n', "skip", 2, 1, 0),
    ],
)
def test_misfits_in_other_kinds(
    name: str, text: str, policy: str, n: int, skipped: int, missing: int, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    stream = open_stream(str(tmp_path / name), rules=Rules(on_error=policy))
    assert len(read_whole(stream).table) == n
    assert (stream.counts.skipped_records, stream.counts.missing_values) == (skipped, missing)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "text", "policy", "empty", "misfit"),
    [
        ("d.csv", "a,b,y\n1,red,u\n,red,v\n2,NA,u\n,?,v\n5,blue,\n", "stop", 4, 0),
        ("d.csv", "a,b,y\n" + "1,red,u\n" * 600 + "oops,,v\n,blue,u\n", "missing", 2, 1),
        ("d.csv", "a,b,y\n" + "1,red,u\n" * 600 + "oops,,v\n,blue,u\n", "skip", 1, 0),
        ("d.arff", "@relation r\n@attribute a numeric\n@attribute y {0,1}\n@data\n?,1\n2,0\n", "stop", 1, 0),
        ("d.jsonl", '{"x": {"a": 1}, "y": 1}\n{"x": {"b": 2}, "y": 0}\n', "stop", 0, 0),
    ],
)
def test_empty_cells_are_counted_and_no_misfits(
    name: str, text: str, policy: str, empty: int, misfit: int, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    options = RunOptions(stream=str(tmp_path / name), on_error=policy, models=("olr",), seeds=2)
    job = Job(options, checkpoint=tmp_path / "c")
    for document in (finished(job), finished(Job(options, checkpoint=tmp_path / "c", resume=True))):
        assert (document["missing_values"], document["misfit_values"]) == (empty + misfit, misfit)
        assert bool(misfits(document)) == (policy != "stop"), "an empty cell is nothing to warn of"


def test_a_skipped_record_teaches_no_category(tmp_path: Path) -> None:
    text = "a,colour,y\n" + "1,red,0\n" * 20 + "oops,black,0\n2,red,1\n"
    assert table(tmp_path / "d.csv", text, rules=Rules(on_error="skip")).names == ("a", "colour=red")


def test_the_kind_is_what_nine_in_ten_are(tmp_path: Path) -> None:
    text = "a,b,y\n" + "1,1,0\n" * 8 + "x,1,0\nz,y,1\n"
    assert table(tmp_path / "d.csv", text, rules=Rules(on_error="missing")).names == ("a=1", "a=x", "a=z", "b")


def test_a_column_that_was_empty_gets_its_kind_from_its_first_value(tmp_path: Path) -> None:
    told: list[str] = []
    text = "a,late,later,y\n" + "1,,,0\n" * 501 + "1,7,red,1\n"
    read = table(tmp_path / "d.csv", text, rules=Rules(tell=told.append))
    assert told[0] == "1 numeric, 2 empty so far (late, later), target y: 1 different value seen"
    assert told[1:] == ["  a      number", "  late   empty, 500 missing", "  later  empty, 500 missing"]
    assert read.names == ("a", "late", "later", "later=red")
    assert read.values[-1, [1, 3]].tolist() == [7, 1]


def test_booleans_are_numbers(tmp_path: Path) -> None:
    assert table(tmp_path / "d.csv", "a,y\nTrue,0\nfalse,1\n,0\n").values[:2].tolist() == [[1], [0]]
    assert read_whole(IterableStream([{"a": True, "y": 0}, {"a": "false", "y": 1}])).table.values.tolist() == [[1], [0]]


@pytest.mark.parametrize(
    ("text", "options", "names", "values"),
    [
        ('a;"b;c";y\n1;2;u\n', {}, ("a", "b;c"), [[1, 2]]),
        ('a,b,y\n"1","say ""hi""",u\n', {}, ("a", 'b=say "hi"'), [[1, 1]]),
        ('a,b,y\r\n1,"two\r\nlines",u\r\n', {}, ("a", "b=two\r\nlines"), [[1, 1]]),
        ('a, b, y\n1, "x, y", u\n', {}, ("a", "b=x, y"), [[1, 1]]),
        ("a b y\n1  2 u\n", {"delimiter": " "}, ("a", "b"), [[1, 2]]),
        ("a^b^y\n1^2^u\n", {"delimiter": "^"}, ("a", "b"), [[1, 2]]),
        ("a,b\tc,d\ty\n1\t2\t3\n", {"delimiter": "tab"}, ("a,b", "c,d"), [[1, 2]]),
        ("a,b,y\r1,2,u\r", {}, ("a", "b"), [[1, 2]]),
    ],
)
def test_csv_as_in_the_wild(
    text: str, options: dict[str, Any], names: tuple[str, ...], values: list[Any], tmp_path: Path
) -> None:
    read = table(tmp_path / "d.csv", text, **options)
    assert read.names == names
    assert read.values.tolist() == values


def test_nested_records_and_numbers_of_all_types() -> None:
    records = [
        {"a": {"b": 1, "c": [Decimal("2.5"), np.float32(3)]}, "d": np.array([4, 5]), "e": None, "label": 2.0},
        {"a": {"c": [1]}, "label": np.int64(3)},
    ]
    read = read_whole(IterableStream(records)).table
    assert read.names == ("a.b", "a.c.0", "a.c.1", "d.0", "d.1", "e")
    np.testing.assert_array_equal(read.values[0], [1, 2.5, 3, 4, 5, np.nan])
    assert read.targets == [2, 3]
    assert type(read.targets[0]) is int
    once = IterableStream(iter(records))
    read_whole(once)
    with pytest.raises(BraidedError, match="an iterator can be read only once"):
        read_whole(once)
    with pytest.raises(BraidedError, match=r"records: row 1: which name is the label's\? choose `target` from a, b"):
        read_whole(IterableStream([{"a": 1, "b": 2}], rules=Rules(on_error="skip")))
    with pytest.raises(BraidedError, match=r"row 1: column 'a' is b'..': features must be numbers"):
        read_whole(IterableStream([{"a": b"ab", "y": 1}]))


def test_arrow_types(tmp_path: Path) -> None:
    arrow = pyarrow()
    from pyarrow import parquet

    columns = {
        "i": arrow.array([1, None], arrow.uint8()),
        "h": arrow.array(np.array([0.5, 1.5], np.float16)),
        "d": arrow.array([Decimal("1.25"), None], arrow.decimal128(6, 2)),
        "t": arrow.array([True, None]),
        "k": arrow.array(["3", "4"]).dictionary_encode(),
        "s": arrow.array([{"u": 1, "v": "x"}, None]),
        "n": arrow.array([None, None], arrow.null()),
        "label": arrow.array([0, 1]),
    }
    parquet.write_table(arrow.table(columns), tmp_path / "d.parquet")
    read = read_whole(open_stream(str(tmp_path / "d.parquet"))).table
    assert read.names == ("i", "h", "d", "t", "k=3", "k=4", "s", "s.u", "s.v=x", "n")
    np.testing.assert_array_equal(read.values[0, [0, 1, 2, 3, 4, 7, 8]], [1, 0.5, 1.25, 1, 1, 1, 1])
    assert np.isnan(read.values[1, [0, 2, 3, 7, 8]]).all()
    assert read.targets == [0, 1]


def test_what_is_declared_or_said_to_be_a_category_gets_no_hint_at_numbers(tmp_path: Path) -> None:
    arrow = pyarrow()
    from pyarrow import parquet

    versions = [f"{i % 2 + 1}.{i % 3}" for i in range(60)]
    columns = {"v": arrow.array(versions).dictionary_encode(), "label": arrow.array([0, 1] * 30)}
    parquet.write_table(arrow.table(columns), tmp_path / "d.parquet")
    (tmp_path / "d.csv").write_text("v,label\n" + "".join(f"{version},{i % 2}\n" for i, version in enumerate(versions)))
    for name, rules in (("d.parquet", Rules()), ("d.csv", Rules(category=("v",)))):
        stream = open_stream(str(tmp_path / name), rules=rules)
        read_whole(stream)
        (column,) = stream.counts.plan.columns  # type: ignore[attr-defined]
        assert (column.read_as, column.values, column.hint) == ("category", 6, "")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.csv", b"a,y\n1,2\n\xff\x01,1\n", r"d.csv:3: is not text in UTF-8 .*give `encoding`"),
        ("d.csv", "a,y\n1,2\n".encode("utf-16")[:-1], r"d.csv: is not text in utf-16 after line"),
        ("d.csv", b"a,y\n1,2\n\x00,1\n", r"d.csv:3: has a NUL byte"),
        ("d.csv", pickle.dumps({"a": 1.5, "y": b"\xff"}), r"d.csv:1: has a NUL byte, so it is no text file: give CSV"),
        ("d.pkl", pickle.dumps([1.5] * 99), r"d.pkl:1: has a NUL byte, so it is no text file: give CSV"),
        ("d.csv", b"a,y\n1," + b"x" * 200_000 + b"\n", r"d.csv:2: not readable as CSV \(field larger"),
        ("d.csv", b"a,y\n" + b"1" * (2**25 + 2**20), r"d.csv:2: the line is longer than"),
        ("d.csv.gz", gzip.compress(b"a,y\n1,2\n" * 9_999, mtime=0)[:-100], r"d.csv.gz: cannot be read"),
        ("d.csv.zst", b"no zstd at all", r"d.csv.zst: cannot be read"),
        ("d.jsonl", b"\x80\x81", r"d.jsonl:1: is not text"),
        ("d.jsonl", b'{"a": 1, "b": 2}\n', r"d.jsonl:1: which name is the label's"),
        ("d.parquet", b"", r"d.parquet: cannot be read as Parquet or Arrow"),
        ("d.parquet", b"PAR1 and then nothing", r"d.parquet: cannot be read as Parquet or Arrow"),
        ("d.feather", b"ARROW1 and then nothing", r"d.feather: cannot be read as Parquet or Arrow"),
        ("d.feather", b"FEA1 and so on", r"d.feather: is Feather version 1"),
        ("d.arff", b"", r"d.arff:1: the file ends before @data"),
        ("d.arff", b"@relation r\n@attribute a numeric\n", r"d.arff:2: the file ends before @data"),
        ("d.arff", b"@relation r\n@attribute a\n@data\n", r"d.arff:2: give @attribute NAME TYPE"),
        ("d.arff", b"@attribute a numeric\n@data\n1\n", r"d.arff:2: 1 attributes"),
        ("d.arff", b"@attribute a relational\n@data\n", r"d.arff:1: 'a' is of type 'relational'"),
        ("d.arff", b"@attribute a numeric\n@attribute a real\n@data\n", r"d.arff: column 'a' appears twice"),
        ("d.arff", b"@attribute a {x\n@data\n", r"d.arff:1: the values of 'a' do not end"),
        ("d.arff", b"@attribute a real\n@attribute y {u}\n@data\n1,'u\n", r"d.arff:4: a quote is not closed"),
        ("d.arff", b"@attribute a real\n@attribute y {u}\n@data\n{7 1}\n", r"d.arff:4: value number 7"),
        ("d.arff", b"@attribute a real\n@attribute y {u}\n@data\n{x}\n", r"d.arff:4: 'x' is not `place value`"),
        ("d.arff", b"@attribute a real\n@attribute y {u}\n@data\nx,u\n", r"d.arff:4: column 'a' is 'x': features must"),
        ("d.arff", b"@attribute a real\n@attribute y {u}\n@data\n1,w\n", r"d.arff:4: the label is 'w': the file decl"),
        ("d.txt", b"", "neither CSV nor LIBSVM"),
        (
            "d.json",
            b'[{"a": 1, "y": 0},\n {"a": 2, "y": 1}]\n',
            r"d.json:1: is a JSON array: give JSON lines, one object",
        ),
        ("d.json", b"[\n  {\n", r"d.json:1: is a JSON array"),
        ("d.json", b"[1, 2]\n", r"d.json:1: is a JSON array"),
        ("d", b"[[1, 2], [3, 4]]\n", r"d:1: is a JSON array"),
        ("d.xlsx", b"PK\x03\x04 and so on", r"d.xlsx: is an Excel workbook: save it as CSV"),
        ("d.csv", b"PK\x03\x04\x14\0[Content_Types].xml", r"d.csv: is an Excel workbook: save it as CSV"),
        ("d.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", r"d.xls: is an Excel workbook: save it as CSV"),
        ("d.zip", b"PK\x03\x04\x14\0data.csv", r"d.zip: is a zip archive: unpack it"),
    ],
)
def test_malformed_files_are_one_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    if name.endswith((".zst", ".parquet", ".feather")):
        pyarrow()
    with pytest.raises(BraidedError, match=message) as caught:
        table(tmp_path / name, content)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(tmp_path)) + 400


@pytest.mark.parametrize(
    "name", ["d.csv", "d.csv.gz", "d.csv.zst", "d.parquet", "d.feather", "d.arff", "d.jsonl", "d.db"]
)
def test_mutants_are_read_or_refused(name: str, tmp_path: Path) -> None:
    """Cut or altered anywhere, a file gives records or one line: never another exception."""
    records = made_up_records(40, seed=2)
    path = tmp_path / name
    writers = {"d.arff": "dense.arff", "d.jsonl": "flat.jsonl"}
    WRITERS[writers.get(name, name)](path, records)
    whole = path.read_bytes()
    options = source_of(path)
    chance = random.Random(0)
    refused: list[str] = []
    for _ in range(40):
        mutant = bytearray(whole[: chance.randrange(len(whole))] if chance.random() < 0.4 else whole)
        for _ in range(chance.randrange(1, 4) if mutant else 0):
            mutant[chance.randrange(len(mutant))] = chance.randrange(256)
        path.write_bytes(bytes(mutant))
        try:
            stream = open_stream(options["stream"], target="kind", query=options.get("query"))
            assert len(read_whole(stream).table) <= 41
        except BraidedError as error:
            refused.append(str(error))
    assert refused
    assert not any("\n" in message for message in refused)


def test_a_zstd_file_that_expands_very_much_is_unpacked_little_by_little(tmp_path: Path) -> None:
    pool = pyarrow().default_memory_pool()
    before = pool.bytes_allocated()  # by other tests of this process
    size = 2**26
    path = tmp_path / "d.csv.zst"
    path.write_bytes(zstd(b"1,2,3,4\n" * (size // 8)))
    assert path.stat().st_size < 10_000
    tracemalloc.start()
    found = packed = 0
    try:
        for block in text_files.blocks(path):
            found, packed = found + len(block), max(packed, pool.bytes_allocated() - before)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == size
    assert most + packed < size / 2


def test_a_zstd_file_that_breaks_off_is_noticed(tmp_path: Path) -> None:
    one = zstd(as_csv(made_up_records(300)).encode())
    two = zstd("\r\n".join(as_csv(made_up_records(9)).split("\r\n")[1:]).encode())
    path = tmp_path / "d.csv.zst"
    path.write_bytes(one + two)
    assert len(read_whole(open_stream(str(path))).table) == 309, "frames one after the other"
    path.write_bytes(one[:-5])
    with pytest.raises(BraidedError, match=r"d.csv.zst: cannot be read: Truncated"):
        read_whole(open_stream(str(path)))


def test_options_without_meaning_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,y\n1,2\n")
    for message, options in {
        "`query` is for databases": {"query": "SELECT 1"},
        "`idle` is for `follow`": {"idle": 1.0},
        "`delimiter` 'ab': give one character": {"delimiter": "ab"},
    }.items():
        with pytest.raises(BraidedError, match=message):
            open_stream(str(path), **options)  # type: ignore[arg-type]
    with pytest.raises(BraidedError, match="there is no column 'z': choose `drop` from a, y"):
        read_whole(open_stream(str(path), rules=Rules(drop=("z",))))
    with pytest.raises(BraidedError, match="`delimiter` is for CSV files"):
        open_stream("-", delimiter=",")
    with pytest.raises(BraidedError, match="`encoding` is for text files"):
        open_stream("-", rules=Rules(encoding="latin-1"))
    for rules, message in (
        ({"categories": "dummy"}, "`categories` 'dummy' is not known: use one of onehot, hash, refuse"),
        ({"on_error": "ignore"}, "`on_error` 'ignore' is not known: use one of stop, skip, missing"),
        ({"hash_buckets": 0}, "`hash_buckets` is 0"),
    ):
        with pytest.raises(BraidedError, match=message):
            Rules(**rules)  # type: ignore[arg-type]
    (tmp_path / "empty").mkdir()
    with pytest.raises(BraidedError, match="the folder has no files"):
        read_whole(open_stream(str(tmp_path / "empty")))


def test_a_column_in_brackets_is_no_array(tmp_path: Path) -> None:
    assert table(tmp_path / "d.txt", b"[a],[y]\n1,0\n2,1\n").names == ("[a]",)


def test_kinds_are_seen_without_a_names_ending(tmp_path: Path) -> None:
    records = made_up_records(20)
    contents = {"arff": as_arff(records), "json": as_json(records, flat=True), "csv": as_csv(records)}
    tables = [table(tmp_path / f"file-{name}", content, target="kind") for name, content in contents.items()]
    for one in tables[1:]:
        assert set(one.names) == set(tables[0].names)
        assert one.targets == tables[0].targets
    assert json.loads(contents["json"].splitlines()[0])["kind"] == tables[0].targets[0]
