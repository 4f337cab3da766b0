"""Files in, batches out, and errors that name file, line and remedy."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from braided import BraidedError
from braided.streams import Rules, read_whole
from braided.streams.open import open_stream


def write(path: Path, text: str) -> str:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return str(path)


CSV = "a,b,y\n1,2.5,yes\n,4,no\n?,nan,yes\n"


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz"])
def test_csv_with_a_header(tmp_path: Path, name: str) -> None:
    table = read_whole(open_stream(write(tmp_path / name, CSV))).table
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.values, [[1, 2.5], [np.nan, 4], [np.nan, np.nan]])
    assert table.targets == ["yes", "no", "yes"]


def test_csv_without_a_header_takes_the_last_column(tmp_path: Path) -> None:
    table = read_whole(open_stream(write(tmp_path / "d.csv", "1,2,g\n3,4,h\n"))).table
    assert table.names == ("0", "1")
    assert table.targets == ["g", "h"]
    table = read_whole(open_stream(str(tmp_path / "d.csv"), target="2")).table
    assert table.targets == ["g", "h"]


def test_csv_quoting_blank_lines_and_a_chosen_target(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", 'class,"b, c",z\r\n1,"2",a\r\n\r\n3,4,"b"\r\n')
    table = read_whole(open_stream(path, target="z")).table
    assert table.names == ("class", "b, c")
    np.testing.assert_array_equal(table.values, [[1, 2], [3, 4]])
    assert table.targets == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "names", "labels"),
    [
        ("0,1,target\n5,6,a\n7,8,b\n", ("0", "1"), ["a", "b"]),
        ("a,2020,z\n5,6,1\n7,8,0\n", ("a", "2020"), [1, 0]),
        ("a;b;y\n5;6;1\n7;8;0\n", ("a", "b"), [1, 0]),
        ("a\tb\ty\n5\t6\t1\n7\t8\t0\n", ("a", "b"), [1, 0]),
        ("\n\na,b,y\n5,6,1\n7,8,0\n", ("a", "b"), [1, 0]),
        ("\ufeffa,b,y\r\n5,6,1\r\n7,8,0\r\n", ("a", "b"), [1, 0]),
        ("5,6,9007199254740992\n7,8,9007199254740993\n", ("0", "1"), [9007199254740992, 9007199254740993]),
    ],
)
def test_csv_in_the_wild(tmp_path: Path, content: str, names: tuple[str, ...], labels: list[object]) -> None:
    table = read_whole(open_stream(write(tmp_path / "d.csv", content))).table
    assert table.names == names
    assert table.targets == labels
    np.testing.assert_array_equal(table.values, [[5, 6], [7, 8]])


def test_a_header_can_be_said(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", "0,1,2\n5,6,1\n7,8,0\n")
    assert len(read_whole(open_stream(path)).table) == 3
    assert len(read_whole(open_stream(path, header=True)).table) == 2
    with pytest.raises(BraidedError, match="`header=True` and `header=False` are for CSV files"):
        open_stream(write(tmp_path / "d.svm", "1 1:2\n"), header=True)


def test_a_column_called_target_is_the_target(tmp_path: Path) -> None:
    table = read_whole(open_stream(write(tmp_path / "d.csv", "Label,b\n1,2\n0,3\n"))).table
    assert table.names == ("b",)
    assert table.targets == [1, 0]


@pytest.mark.parametrize(
    ("content", "target", "message"),
    [
        ("", None, "d.csv:1: the file is empty"),
        ("\n\n", None, "d.csv:1: the file is empty"),
        ("a\n1\n2\n", None, "d.csv:1: only one column"),
        ("a,b,y\n1,2,0\n" + "1,2,0\n" * 20 + "1,1_000,0\n", None, "d.csv:23: column 'b' is '1_000'"),
        ("a,b\n1,2\n3\n", None, "d.csv:3: 1 field where 2 are expected"),
        ("a,b,y\n1,2,0\n" + "1,2,0\n" * 20 + "1,x,0\n", None, "d.csv:23: column 'b' is 'x': features must be numbers"),
        ("a,b,y\n1,inf,0\n", None, "d.csv:2: column 'b' is 'inf': features must be finite"),
        ("a,b,y\n1,2,\n", None, "d.csv:2: the label is missing"),
        ("a,b,c,d,e,f,churn\n1,2,3,4,5,6,0\n", "chrun", "choose `target` from churn, a, b, c, d and 2 more"),
        ("a,b,y\n1,2,0\n", "z", "there is no column 'z': choose `target` from a, b, y"),
        ("a,a,y\n1,2,0\n", None, "d.csv:1: column 'a' appears twice"),
        ('a,b,y\n1,"2,0\n', None, "d.csv:2: not readable as CSV"),
    ],
)
def test_bad_csv(tmp_path: Path, content: str, target: str | None, message: str) -> None:
    path = write(tmp_path / "d.csv", content)
    with pytest.raises(BraidedError, match=message.replace("(", r"\(")):
        read_whole(open_stream(path, target=target))


def test_libsvm(tmp_path: Path) -> None:
    table = read_whole(open_stream(write(tmp_path / "d.txt", "+1 1:0.5 3:2\n-1 2:1 # note\n\n1\n"))).table
    assert table.names == (1, 2, 3)
    np.testing.assert_array_equal(table.values, [[0.5, 0, 2], [0, 1, 0], [0, 0, 0]])
    assert table.targets == [1, -1, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 1:2\n1 a:2\n", "d.svm:2: 'a:2' is not index:value"),
        ("1 1:2\n1 0:2\n", "d.svm:2: '0:2' is not index:value"),
        ("1 1:2\n1 1:x\n", "d.svm:2: column '1' is 'x'"),
        ("1 999999:2\n", "feature 999999"),
        ("1 \u00b2:2\n", "is not index:value"),
        ("1 " + "9" * 5000 + ":2\n", "is not index:value"),
    ],
)
def test_bad_libsvm(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(BraidedError, match=message):
        read_whole(open_stream(write(tmp_path / "d.svm", content)))


def test_json_lines(tmp_path: Path) -> None:
    text = '{"x": {"b": 1, "a": null}, "y": "u"}\n\n{"x": {"c": true}, "y": 2}\n'
    table = read_whole(open_stream(write(tmp_path / "d.jsonl", text))).table
    assert table.names == ("a", "b", "c")
    np.testing.assert_array_equal(table.values, [[np.nan, 1, np.nan], [np.nan, np.nan, 1]])
    assert table.targets == ["u", 2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "d.jsonl:2: not JSON"),
        ("[" * 100_000, "d.jsonl:2: not JSON"),
        ('{"x": {}, "y": NaN}', "d.jsonl:2: the label is missing"),
        ("[1]", "d.jsonl:2: .*give"),
        ('{"x": {}}', "d.jsonl:2: the label is missing"),
        ('{"x": {}, "y": [1]}', "d.jsonl:2: the label is \\[1\\]: text or a number only"),
        (
            '{"x": {"a": "b"}, "y": 1}\n' + '{"x": {"a": 1}, "y": 1}\n' * 20,
            "d.jsonl:2: column 'a' is 'b': features must",
        ),
        ('{"x": {"a": 1e999}, "y": 1}', "d.jsonl:2: column 'a' is inf: features must be finite"),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "d.jsonl", '{"x": {}, "y": 1}\n' + line + "\n")
    with pytest.raises(BraidedError, match=message):
        read_whole(open_stream(path))


def test_what_is_no_stream(tmp_path: Path) -> None:
    with pytest.raises(BraidedError, match=r"is neither a file nor a folder nor a data set: .*shuttle"):
        open_stream("nothing")
    for name in ("nothing.csv", str(tmp_path / "nothing")):
        with pytest.raises(BraidedError, match=r"no such file or folder: give one that is there$"):
            open_stream(name)
    with pytest.raises(BraidedError, match="neither CSV nor LIBSVM nor JSON lines"):
        open_stream(write(tmp_path / "d.txt", "hello world\n"))
    with pytest.raises(BraidedError, match="`target` 'y' is for streams with named columns"):
        open_stream(write(tmp_path / "d.svm", "1 1:2\n"), target="y")
    whole = bytearray(gzip.compress(b"a,y\n1,2\n" * 1000))
    whole[12] ^= 0xFF
    (tmp_path / "f.csv.gz").write_bytes(bytes(whole))
    with pytest.raises(BraidedError, match=r"f\.csv\.gz: cannot be read"):
        read_whole(open_stream(str(tmp_path / "f.csv.gz")))
    (tmp_path / "d.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(BraidedError, match=r"d\.csv\.gz: cannot be read"):
        read_whole(open_stream(str(tmp_path / "d.csv.gz")))
    (tmp_path / "e.csv").write_bytes(b"a,y\n\xff\xfe,1\n")
    with pytest.raises(BraidedError, match="is not text in UTF-8"):
        read_whole(open_stream(str(tmp_path / "e.csv"), rules=Rules(encoding="utf-8")))
